/* Opening the floors one after another, up to the engine. */
#include "server/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/base/size.h"
#include "kernels/base/thread.h"
#include "kernels/base/utf8.h"

/* Rows of a step that score a prompt's tokens: their logits are memory, one vocabulary of floats each. */
#define SCORE_ROWS 32

/* ---- the file ---- */

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

/* The first .gguf file of a folder, by name. */
static bool find_in_folder(const char *folder, struct buffer *out)
{
    DIR *entries = opendir(folder);
    if (entries == NULL)
        return false;
    char best[256] = "";
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        if (has_suffix(entry->d_name, ".gguf") && (best[0] == '\0' || strcmp(entry->d_name, best) < 0))
            snprintf(best, sizeof best, "%s", entry->d_name);
    closedir(entries);
    if (best[0] == '\0')
        return false;
    buffer_printf(out, "%s/%s", folder, best);
    return !out->failed;
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static enum status find_by_name(const struct options *options, struct buffer *out, struct error *error)
{
    struct buffer folder = {0};
    buffer_printf(&folder, "%s/%s", options->model_dir, options->model);
    bool found = !folder.failed && find_in_folder(folder.data, out);
    buffer_free(&folder);
    if (found)
        return STATUS_OK;
    return error_field(
        error, STATUS_NOT_FOUND, "model",
        "no model \"%.60s\" in %.200s; `scripts/fetch_model.sh %.60s` fetches a known one, or give --model "
        "the path of a .gguf file",
        options->model, options->model_dir, options->model);
}

enum status runtime_model_path(const struct options *options, struct buffer *out, struct error *error)
{
    const char *name = options->model;
    if (name[0] == '\0')
        return error_field(error, STATUS_INVALID, "model", "--model is empty; give a GGUF file or a model's name");
    if (strchr(name, '/') == NULL && !has_suffix(name, ".gguf") && !is_file(name))
        return find_by_name(options, out, error);
    if (access(name, F_OK) != 0 && errno == ENOENT)
        return error_field(error, STATUS_NOT_FOUND, "model",
                           "there is no file %.300s; --model takes the path of a .gguf file, or the name of a model in "
                           "--model-dir",
                           name);
    buffer_text(out, name);
    return out->failed ? error_no_memory(error, "a path") : STATUS_OK;
}

/* The last part of --model, without the suffix, as valid UTF-8: replies name it. */
static enum status name_model(const char *given, struct runtime *runtime, struct error *error)
{
    const char *slash = strrchr(given, '/');
    const char *name = slash != NULL ? slash + 1 : given;
    size_t size = strlen(name) - (has_suffix(name, ".gguf") ? strlen(".gguf") : 0);
    struct buffer valid = {0};
    buffer_text(&valid, "");
    utf8_append_valid(&valid, name, size);
    if (valid.failed)
        return error_no_memory(error, "a name");
    size = size_min(valid.size, sizeof runtime->model_id - 1);
    size -= utf8_incomplete_tail(valid.data, size);
    memcpy(runtime->model_id, valid.data, size);
    runtime->model_id[size] = '\0';
    buffer_free(&valid);
    return STATUS_OK;
}

/* ---- text ---- */

static enum status open_template(struct runtime *runtime, struct error *error)
{
    struct model_text source;
    if (!model_file_text(runtime->file, "tokenizer.chat_template", &source))
        return STATUS_OK;
    struct chat_template_tokens tokens = {
        .bos_token = tokenizer_special_text(runtime->tokenizer, tokenizer_bos(runtime->tokenizer)),
        .eos_token = tokenizer_special_text(runtime->tokenizer, tokenizer_eos(runtime->tokenizer)),
    };
    return chat_template_open(source.data, source.size, &tokens, &runtime->chat_template, error);
}

enum status runtime_open_text(const struct options *options, struct runtime *runtime, struct error *error)
{
    memset(runtime, 0, sizeof *runtime);
    runtime->activations = strcmp(options->activations, "f32") == 0 ? ACTIVATIONS_F32 : ACTIVATIONS_INT8;
    struct buffer path = {0};
    enum status status = name_model(options->model, runtime, error);
    if (status == STATUS_OK)
        status = runtime_model_path(options, &path, error);
    if (status == STATUS_OK)
        status = model_file_open(path.data, &runtime->file, error);
    buffer_free(&path);
    if (status == STATUS_OK)
        status = model_file_config(runtime->file, &runtime->config, error);
    if (status == STATUS_OK)
        status = tokenizer_open(runtime->file, &runtime->tokenizer, error);
    if (status == STATUS_OK)
        status = open_template(runtime, error);
    if (status != STATUS_OK)
        runtime_close(runtime);
    return status;
}

/* ---- the model ---- */

static void show_progress(void *context, double part)
{
    const struct runtime *runtime = context;
    fprintf(stderr, "\rloading %s %3.0f%%%s", runtime->config.name, part * 100, part >= 1 ? "\n" : "");
    fflush(stderr);
}

/* A KV pool that the machine cannot hold is refused before anything is taken. */
static enum status check_memory(const struct options *options, const struct runtime *runtime, struct error *error)
{
    uint64_t available = thread_memory_available();
    uint64_t wanted = (uint64_t)options->kv_memory + model_file_bytes(runtime->file);
    if (wanted <= available)
        return STATUS_OK;
    return error_field(
        error, STATUS_NO_MEMORY, "kv-memory",
        "the model (%zu MiB) and --kv-memory (%lld MiB) need more than the %llu MiB of memory available; "
        "lower --kv-memory",
        model_file_bytes(runtime->file) >> 20, (long long)(options->kv_memory >> 20),
        (unsigned long long)(available >> 20));
}

enum status runtime_open_model(const struct options *options, const struct runtime_limits *limits,
                               struct runtime *runtime, struct error *error)
{
    enum status status = check_memory(options, runtime, error);
    if (status != STATUS_OK)
        return status;
    struct model_args args = {
        .ops = kernels_find("auto"),
        .cpu = options->cpu,
        .threads = (uint32_t)options->threads,
        .activations = runtime->activations,
        .context = (uint32_t)options->context,
        .block_tokens = (uint32_t)options->block_tokens,
        .kv_bytes = (uint64_t)options->kv_memory,
        .rows_max = limits->rows_max,
        .sequences_max = limits->sequences_max,
        .logits_rows_max = limits->draws_max,
        .progress = limits->show_progress && isatty(STDERR_FILENO) ? show_progress : NULL,
        .progress_context = runtime,
    };
    return model_open(runtime->file, &args, &runtime->model, error);
}

struct runtime_limits runtime_engine_limits(const struct options *options)
{
    return (struct runtime_limits){.rows_max = (uint32_t)(options->prefill_chunk + options->max_sequences),
                                   .sequences_max = (uint32_t)options->max_sequences,
                                   .draws_max = (uint32_t)options->max_sequences + SCORE_ROWS,
                                   .show_progress = strcmp(options->log_format, "json") != 0};
}

enum status runtime_open_engine(const struct options *options, const struct runtime *runtime, uint32_t queue_max,
                                struct engine **out, struct error *error)
{
    struct engine_args args = {
        .model = runtime->model,
        .activations = runtime->activations,
        .tokenizer = runtime->tokenizer,
        .chat_template = runtime->chat_template,
        .sequences_max = (uint32_t)options->max_sequences,
        .prefill_chunk = (uint32_t)options->prefill_chunk,
        .score_rows = SCORE_ROWS,
        .step_ms = (uint32_t)options->step_ms,
        .queue_max = queue_max,
        .prefix_cache = !options->no_prefix_cache,
        .model_id = runtime->model_id,
    };
    return engine_open(&args, out, error);
}

void runtime_close(struct runtime *runtime)
{
    if (runtime->model != NULL)
        model_close(runtime->model);
    if (runtime->chat_template != NULL)
        chat_template_close(runtime->chat_template);
    if (runtime->tokenizer != NULL)
        tokenizer_close(runtime->tokenizer);
    if (runtime->file != NULL)
        model_file_close(runtime->file);
    memset(runtime, 0, sizeof *runtime);
}
