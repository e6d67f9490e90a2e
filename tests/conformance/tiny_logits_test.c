/* Tiny random models of every weight type against logits that transformers computed in float64
 * (tests/golden/make_tiny_logits.py). */
#include "tests/unit/unit.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kernels/base/file.h"
#include "tests/conformance/run_model.h"
#include "tests/support/tiny_model.h"

#define GOLDEN "tests/golden/tiny_logits.json"
#define TOKENS 300

/* In standard deviations of the logits, 0.7 to 2. Float mode leaves the rounding of float32 and, now and then, another
 * rounding of K or V to half; int8 activations add noise of about 1/300 an activation. */
#define FLOAT_ERROR_MAX 3e-4
#define FLOAT_ERROR_MEAN_MAX 4e-5
#define INT8_ERROR_MEAN_MAX 0.05

static cJSON *read_golden(void)
{
    struct buffer text = {0};
    struct error error;
    ck_assert_msg(file_read(GOLDEN, 4 << 20, &text, &error) == STATUS_OK, "%s", error.text);
    cJSON *golden = cJSON_ParseWithLength(text.data, text.size);
    ck_assert_ptr_nonnull(golden);
    buffer_free(&text);
    return golden;
}

struct errors {
    double max;
    double mean;
};

static double deviation(double sum, double squares, double count)
{
    return sqrt(squares / count - sum / count * (sum / count));
}

/* In standard deviations of what is expected. */
static struct errors compare(const cJSON *positions, const cJSON *expected, const float *logits, uint32_t vocabulary)
{
    double count = 0, sum = 0, squares = 0, differences = 0, max = 0;
    for (int p = 0; p < cJSON_GetArraySize(positions); p++) {
        const float *row = logits + (size_t)cJSON_GetArrayItem(positions, p)->valueint * vocabulary;
        const cJSON *value = cJSON_GetArrayItem(expected, p)->child;
        for (uint32_t i = 0; i < vocabulary; i++, value = value->next) {
            double difference = fabs((double)row[i] - value->valuedouble);
            ck_assert(isfinite(row[i]));
            max = fmax(max, difference);
            differences += difference;
            sum += value->valuedouble;
            squares += value->valuedouble * value->valuedouble;
            count++;
        }
    }
    double unit = deviation(sum, squares, count);
    return (struct errors){.max = max / unit, .mean = differences / count / unit};
}

static struct errors measure(const struct tiny_model *tiny, const char *path, const char *cpu,
                             enum activation_mode activations, const cJSON *golden)
{
    int32_t ids[TOKENS];
    struct model *model = run_open(
        &(struct run_args){.path = path, .cpu = cpu, .threads = 2, .activations = activations, .kv_sequences = 1});
    float *logits = malloc((size_t)TOKENS * tiny->vocabulary * sizeof(*logits));
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = tiny_model_id(tiny, i);
    run_whole(model, &(struct run_whole){.ids = ids, .count = TOKENS, .chunk = 128, .logits = logits});
    const cJSON *expected =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(golden, "models"), tiny->name);
    struct errors errors =
        compare(cJSON_GetObjectItemCaseSensitive(golden, "positions"), expected, logits, tiny->vocabulary);
    free(logits);
    model_close(model);
    return errors;
}

START_TEST(gives_the_logits_of_transformers_for_every_weight_type)
{
    const struct tiny_model *tiny = &tiny_models[_i];
    char path[TINY_PATH_BYTES];
    cJSON *golden = read_golden();
    tiny_model_save(tiny, path);
    for (const char *const *cpu = run_variants(); *cpu != NULL; cpu++) {
        struct errors f32 = measure(tiny, path, *cpu, ACTIVATIONS_F32, golden);
        struct errors int8 = measure(tiny, path, *cpu, ACTIVATIONS_INT8, golden);
        printf("%-5s %-6s  f32 mean %.2g max %.2g   int8 mean %.2g max %.2g\n", tiny->name, *cpu, f32.mean, f32.max,
               int8.mean, int8.max);
        ck_assert_double_le(f32.max, FLOAT_ERROR_MAX);
        ck_assert_double_le(f32.mean, FLOAT_ERROR_MEAN_MAX);
        ck_assert_double_le(int8.mean, INT8_ERROR_MEAN_MAX);
    }
    unlink(path);
    cJSON_Delete(golden);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("tiny logits");
    TCase *t = tcase_create("logits");
    int count = 0;
    while (tiny_models[count].name != NULL)
        count++;
    tcase_add_loop_test(t, gives_the_logits_of_transformers_for_every_weight_type, 0, count);
    suite_add_tcase(s, t);
    return s;
}
