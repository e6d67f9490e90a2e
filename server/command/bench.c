/* incipit bench: prefill and decode speed of the engine's own step path, a row for each combination of --prompt,
 * --generate and --batch.
 *
 * Prefill: the prompts of the batch, one after another in chunks of --prefill-chunk, each into its own pages; the first
 * --shared-prefix tokens are computed once and shared by page. Decode: then --generate steps of one row a sequence.
 * prefill_tokens_per_s counts computed tokens, decode_tokens_per_s the tokens of all sequences. */
#include <errno.h>
#include <math.h>

#include "kernels/base/check.h"
#include "kernels/base/json_writer.h"
#include "kernels/base/thread.h"
#include "model/batch.h"
#include "server/command/command.h"
#include "server/runtime.h"
#include "server/version.h"

enum { LIST_MAX = 32, BATCH_MAX = 256 };

struct list {
    int64_t values[LIST_MAX];
    size_t count;
};

struct row {
    uint32_t prompt; /* tokens */
    uint32_t generate;
    uint32_t batch;
    uint32_t shared; /* tokens, whole pages */
    double prefill_tokens_per_s;
    double decode_tokens_per_s;
};

struct bench {
    struct model *model;
    const char *model_id;
    uint32_t page_tokens;
    uint32_t pages_per_sequence; /* of a group */
    uint32_t group_count;
    uint32_t batch_max;
    uint32_t chunk;
    int32_t *ids;                     /* (prompt): the same pseudo-random ids for every sequence */
    uint32_t *pages;                  /* (group_count, batch_max, pages_per_sequence) */
    struct batch_sequence *sequences; /* (batch) */
    struct sample_row *draws;         /* (batch) */
    struct sample_result *results;    /* (batch) */
    int32_t *last;                    /* (batch): the ids drawn last */
};

static enum status parse_list(const char *name, const char *text, int64_t minimum, int64_t maximum, struct list *out,
                              struct error *error)
{
    out->count = 0;
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        if (end == at || errno != 0 || value < minimum || value > maximum || (*end != '\0' && *end != ','))
            return error_field(error, STATUS_INVALID, name,
                               "--%s is \"%.60s\"; it must be numbers from %lld to %lld, "
                               "separated by commas",
                               name, text, (long long)minimum, (long long)maximum);
        if (out->count == LIST_MAX)
            return error_field(error, STATUS_INVALID, name, "--%s has more than %d values", name, LIST_MAX);
        out->values[out->count++] = value;
        if (*end == '\0')
            return STATUS_OK;
        at = end + 1;
    }
}

static int64_t list_maximum(const struct list *list)
{
    int64_t most = list->values[0];
    for (size_t i = 1; i < list->count; i++)
        most = list->values[i] > most ? list->values[i] : most;
    return most;
}

/* ---- one row ---- */

static uint32_t *page_table(const struct bench *bench, uint32_t group, uint32_t sequence)
{
    return bench->pages + ((size_t)group * bench->batch_max + sequence) * bench->pages_per_sequence;
}

/* In each group the pages of the shared prefix first, then each sequence's own. */
static void lay_out_pages(struct bench *bench, const struct row *row)
{
    uint32_t shared_pages = row->shared / bench->page_tokens;
    uint32_t next = 0;
    for (uint32_t group = 0; group < bench->group_count; group++) {
        uint32_t shared = next;
        next += shared_pages;
        for (uint32_t s = 0; s < row->batch; s++)
            for (uint32_t i = 0; i < bench->pages_per_sequence; i++)
                page_table(bench, group, s)[i] = i < shared_pages ? shared + i : next++;
    }
}

/* Row `at` of the next step is a run of this sequence. */
static void place(struct bench *bench, uint32_t at, uint32_t sequence, struct batch_sequence run)
{
    for (uint32_t group = 0; group < bench->group_count; group++)
        run.pages[group] = page_table(bench, group, sequence);
    bench->sequences[at] = run;
}

static void run_step(struct bench *bench, uint32_t sequences)
{
    struct batch batch = {.sequences = bench->sequences, .sequence_count = sequences};
    model_step_submit(bench->model, &batch);
    CHECK(model_step_collect(bench->model, bench->results) == STATUS_OK);
}

static uint64_t run_prefill(struct bench *bench, const struct row *row)
{
    uint64_t start = clock_ns();
    for (uint32_t s = 0; s < row->batch; s++) {
        for (uint32_t at = s == 0 ? 0 : row->shared; at < row->prompt;) {
            uint32_t count = row->prompt - at < bench->chunk ? row->prompt - at : bench->chunk;
            bool last = at + count == row->prompt;
            struct batch_sequence run = {.ids = bench->ids + at,
                                         .count = count,
                                         .position = at,
                                         .sample = last ? &bench->draws[s] : NULL,
                                         .sample_count = last};
            place(bench, 0, s, run);
            run_step(bench, 1);
            at += count;
        }
        bench->last[s] = bench->results[0].id;
    }
    return clock_ns() - start;
}

static uint64_t run_decode(struct bench *bench, const struct row *row)
{
    uint64_t start = clock_ns();
    for (uint32_t step = 0; step < row->generate; step++) {
        for (uint32_t s = 0; s < row->batch; s++) {
            struct batch_sequence run = {.ids = &bench->last[s],
                                         .count = 1,
                                         .position = row->prompt + step,
                                         .sample = &bench->draws[s],
                                         .sample_count = 1};
            place(bench, s, s, run);
        }
        run_step(bench, row->batch);
        for (uint32_t s = 0; s < row->batch; s++)
            bench->last[s] = bench->results[s].id;
    }
    return clock_ns() - start;
}

static int compare_times(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double per_second(uint64_t tokens, uint64_t *times, size_t count)
{
    qsort(times, count, sizeof *times, compare_times);
    return times[count / 2] == 0 ? 0 : (double)tokens * 1e9 / (double)times[count / 2];
}

static void measure(struct bench *bench, struct row *row, uint32_t repeat)
{
    enum { REPEAT_MAX = 1000 };
    uint64_t prefill[REPEAT_MAX], decode[REPEAT_MAX];
    lay_out_pages(bench, row);
    for (uint32_t s = 0; s < row->batch; s++)
        bench->draws[s] = (struct sample_row){.top_p = 1, .repetition_penalty = 1};
    run_prefill(bench, row); /* warm-up */
    for (uint32_t i = 0; i < repeat; i++) {
        prefill[i] = run_prefill(bench, row);
        decode[i] = run_decode(bench, row);
    }
    uint64_t computed = row->shared + (uint64_t)row->batch * (row->prompt - row->shared);
    row->prefill_tokens_per_s = per_second(computed, prefill, repeat);
    row->decode_tokens_per_s = per_second((uint64_t)row->batch * row->generate, decode, repeat);
}

/* ---- output ---- */

static void write_row(const struct options *options, const struct bench *bench, const struct row *row)
{
    struct buffer out = {0};
    struct json_writer writer = json_writer_start(&out);
    if (options->json) {
        json_object_begin(&writer);
        json_key(&writer, "prompt");
        json_integer(&writer, row->prompt);
        json_key(&writer, "generate");
        json_integer(&writer, row->generate);
        json_key(&writer, "batch");
        json_integer(&writer, row->batch);
        json_key(&writer, "shared_prefix");
        json_integer(&writer, row->shared);
        json_key(&writer, "model");
        json_string(&writer, bench->model_id);
        json_key(&writer, "cpu");
        json_string(&writer, model_variant(bench->model));
        json_key(&writer, "activations");
        json_string(&writer, options->activations);
        json_key(&writer, "threads");
        json_integer(&writer, options->threads > 0 ? options->threads : thread_processors());
        json_key(&writer, "repeat");
        json_integer(&writer, options->repeat);
        json_key(&writer, "version");
        json_string(&writer, INCIPIT_VERSION);
        json_key(&writer, "prefill_tokens_per_s");
        json_number(&writer, round(row->prefill_tokens_per_s * 10) / 10);
        json_key(&writer, "decode_tokens_per_s");
        json_number(&writer, round(row->decode_tokens_per_s * 10) / 10);
        json_object_end(&writer);
        buffer_byte(&out, '\n');
    } else {
        char decode[24] = "-";
        if (row->generate > 0)
            snprintf(decode, sizeof decode, "%.1f", row->decode_tokens_per_s);
        buffer_printf(&out, "%8u %9u %6u %7u %12.1f %12s\n", row->prompt, row->generate, row->batch, row->shared,
                      row->prefill_tokens_per_s, decode);
    }
    command_output(&out);
    buffer_free(&out);
}

/* ---- opening ---- */

struct plan {
    struct list prompts, generates, batches;
    uint32_t tokens_max; /* of a sequence */
    uint32_t batch_max;
};

static enum status read_plan(const struct options *options, struct plan *plan, struct error *error)
{
    enum status status = parse_list("prompt", options->prompt, 1, 1 << 20, &plan->prompts, error);
    if (status == STATUS_OK)
        status = parse_list("generate", options->generate, 0, 1 << 20, &plan->generates, error);
    if (status == STATUS_OK)
        status = parse_list("batch", options->batch, 1, BATCH_MAX, &plan->batches, error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < plan->prompts.count; i++)
        if (options->shared_prefix >= plan->prompts.values[i])
            return error_field(error, STATUS_INVALID, "shared-prefix",
                               "--shared-prefix is %lld; it must be below every --prompt (%lld)",
                               (long long)options->shared_prefix, (long long)plan->prompts.values[i]);
    plan->tokens_max = (uint32_t)(list_maximum(&plan->prompts) + list_maximum(&plan->generates) + 1);
    plan->batch_max = (uint32_t)list_maximum(&plan->batches);
    return STATUS_OK;
}

static enum status check_fit(const struct bench *bench, const struct plan *plan, struct error *error)
{
    const struct kv_layout *layout = model_kv_layout(bench->model);
    uint64_t pages = (uint64_t)bench->group_count * plan->batch_max * bench->pages_per_sequence;
    for (uint32_t group = 0; group < layout->group_count; group++)
        if (layout->groups[group].page_tokens != layout->block_tokens)
            return error_set(error, STATUS_UNSUPPORTED,
                             "KV group %u has pages of %u tokens; bench needs pages of one block", group,
                             layout->groups[group].page_tokens);
    if (plan->tokens_max > model_context(bench->model))
        return error_field(error, STATUS_TOO_LARGE, "prompt", "prompt and generate need %u tokens; the context is %u",
                           plan->tokens_max, model_context(bench->model));
    if (pages > model_kv_pages(bench->model))
        return error_field(error, STATUS_TOO_LARGE, "kv-memory", "the batch needs %llu KV pages; --kv-memory holds %u",
                           (unsigned long long)pages, model_kv_pages(bench->model));
    return STATUS_OK;
}

static enum status open_bench(const struct options *options, const struct plan *plan, struct model *model,
                              struct bench *bench, struct error *error)
{
    const struct kv_layout *layout = model_kv_layout(model);
    *bench = (struct bench){.model = model,
                            .chunk = (uint32_t)options->prefill_chunk,
                            .page_tokens = layout->block_tokens,
                            .group_count = layout->group_count,
                            .batch_max = plan->batch_max};
    bench->pages_per_sequence = (plan->tokens_max + bench->page_tokens - 1) / bench->page_tokens;
    bench->ids = calloc(plan->tokens_max, sizeof *bench->ids);
    bench->pages =
        calloc((size_t)bench->group_count * plan->batch_max * bench->pages_per_sequence, sizeof *bench->pages);
    bench->sequences = calloc(plan->batch_max, sizeof *bench->sequences);
    bench->draws = calloc(plan->batch_max, sizeof *bench->draws);
    bench->results = calloc(plan->batch_max, sizeof *bench->results);
    bench->last = calloc(plan->batch_max, sizeof *bench->last);
    if (bench->ids == NULL || bench->pages == NULL || bench->sequences == NULL || bench->draws == NULL ||
        bench->results == NULL || bench->last == NULL)
        return error_no_memory(error, "the bench");
    uint32_t state = 12345;
    for (uint32_t i = 0; i < plan->tokens_max; i++) {
        state = state * 1664525u + 1013904223u;
        bench->ids[i] = (int32_t)((state >> 8) % model_config(model)->vocabulary);
    }
    return check_fit(bench, plan, error);
}

static void close_bench(struct bench *bench)
{
    free(bench->ids);
    free(bench->pages);
    free(bench->sequences);
    free(bench->draws);
    free(bench->results);
    free(bench->last);
}

static void run_all(const struct options *options, const struct plan *plan, struct bench *bench)
{
    if (options->shared_prefix % bench->page_tokens != 0)
        fprintf(stderr, "incipit: --shared-prefix is rounded down to whole blocks of %u tokens\n", bench->page_tokens);
    if (!options->json)
        printf("%8s %9s %6s %7s %12s %12s\n", "prompt", "generate", "batch", "shared", "prefill t/s", "decode t/s");
    for (size_t p = 0; p < plan->prompts.count; p++)
        for (size_t g = 0; g < plan->generates.count; g++)
            for (size_t b = 0; b < plan->batches.count; b++) {
                struct row row = {.prompt = (uint32_t)plan->prompts.values[p],
                                  .generate = (uint32_t)plan->generates.values[g],
                                  .batch = (uint32_t)plan->batches.values[b]};
                row.shared = (uint32_t)options->shared_prefix / bench->page_tokens * bench->page_tokens;
                measure(bench, &row, (uint32_t)options->repeat);
                write_row(options, bench, &row);
            }
}

int command_bench(const struct options *options)
{
    struct runtime runtime = {0};
    struct bench bench = {0};
    struct plan plan;
    struct error error;
    enum status status = read_plan(options, &plan, &error);
    if (status == STATUS_OK)
        status = runtime_open_text(options, &runtime, &error);
    if (status == STATUS_OK) {
        struct runtime_limits limits = {.rows_max = (uint32_t)options->prefill_chunk + plan.batch_max,
                                        .sequences_max = plan.batch_max,
                                        .draws_max = plan.batch_max,
                                        .show_progress = true};
        status = runtime_open_model(options, &limits, &runtime, &error);
    }
    if (status == STATUS_OK)
        status = open_bench(options, &plan, runtime.model, &bench, &error);
    bench.model_id = runtime.model_id;
    if (status == STATUS_OK)
        run_all(options, &plan, &bench);
    close_bench(&bench);
    runtime_close(&runtime);
    return status == STATUS_OK ? 0 : command_fail(&error);
}
