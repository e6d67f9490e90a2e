/* What loading the default model leaves in memory. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"

#define MIB (1024.0 * 1024.0)

/* Pages of this process that lie in memory: private ones, and those of files. */
static size_t resident_bytes(void)
{
    unsigned long long total, resident;
    FILE *stream = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq(fscanf(stream, "%llu %llu", &total, &resident), 2);
    fclose(stream);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* The pool and the working memory are zero pages until they are used: what is resident is the weights, and the metadata
 * that stays readable while the file is open. */
START_TEST(resident_memory_after_load_is_at_most_a_quarter_more_than_the_file)
{
    struct model_file *file;
    struct model *model;
    struct error error;
    struct model_text text;
    size_t before = resident_bytes(), tokens, bytes = 0;
    ck_assert_msg(model_file_open(test_model_path(), &file, &error) == STATUS_OK, "%s", error.text);
    struct model_args args = {.ops = &kernels_cpu,
                              .context = 1024,
                              .block_tokens = 32,
                              .kv_bytes = 64 << 20,
                              .rows_max = 512,
                              .sequences_max = 16,
                              .logits_rows_max = 16};
    ck_assert_msg(model_open(file, &args, &model, &error) == STATUS_OK, "%s", error.text);
    ck_assert(model_file_array(file, "tokenizer.ggml.tokens", &tokens));
    for (size_t i = 0; i < tokens; i++) /* the metadata is there after the weights were let go */
        bytes += model_file_array_text(file, "tokenizer.ggml.tokens", i, &text) ? text.size : 0;
    ck_assert_uint_gt(bytes, tokens);
    size_t after = resident_bytes(), size = model_file_bytes(file);
    struct kernels_memory memory = model_memory(model);
    printf("file %.1f MiB, resident after load %.1f MiB more (%.3f of the file), packed weights %.1f MiB, "
           "working memory %.1f MiB, KV %.1f MiB\n",
           (double)size / MIB, (double)(after - before) / MIB, (double)(after - before) / (double)size,
           (double)memory.weights_bytes / MIB, (double)memory.workspace_bytes / MIB, (double)memory.kv_bytes / MIB);
    ck_assert_uint_le(after - before, size + size / 4);
    ck_assert_uint_le(memory.weights_bytes, size + size / 4);
    model_close(model);
    model_file_close(file);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("memory");
    TCase *t = tcase_create("memory");
    tcase_add_test(t, resident_memory_after_load_is_at_most_a_quarter_more_than_the_file);
    suite_add_tcase(s, t);
    return s;
}
