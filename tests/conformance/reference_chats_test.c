/* The default model on 20 chats against transformers in float32 over the same weights dequantized
 * (tests/golden/make_reference_chats.py). Chats are teacher-forced: each is evaluated whole, with the ids that the
 * reference generated. Up to the first place where another id would have been drawn that is the text that would have
 * been generated; there, the reference itself must have been undecided. */
#include "tests/unit/unit.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/file.h"
#include "tests/conformance/run_model.h"

#define GOLDEN "tests/golden/reference_chats.json"
#define ROWS_MAX 256
#define DRAWS_MAX 128

/* Float mode: K and V in half are what differs. */
#define UNDECIDED_GAP 0.06
#define FLOAT_ERROR_MEAN_MAX 0.004
#define FLOAT_ERROR_MAX 0.06
/* int8: llama.cpp on the same file has 97.1% and 0.09. */
#define INT8_AGREEMENT_MIN 0.962
#define INT8_ERROR_MEAN_MAX 0.10

struct figures {
    double error_sum;
    double error_max;
    uint64_t errors; /* log-probabilities compared */
    uint64_t positions;
    uint64_t agreed;      /* positions with the same most probable id */
    double split_gap_max; /* the widest gap of the reference at a position that did not agree */
    uint32_t same_chats;
    uint32_t chats;
};

struct chat {
    int32_t ids[ROWS_MAX]; /* (count): prompt, then what was generated but its last id */
    uint32_t count;
    uint32_t generated;
    const cJSON *answer;
    const cJSON *top;
};

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

static void append_ids(struct chat *chat, const cJSON *ids)
{
    const cJSON *id;
    cJSON_ArrayForEach(id, ids)
    {
        ck_assert_uint_lt(chat->count, ROWS_MAX);
        chat->ids[chat->count++] = id->valueint;
    }
}

static void read_chat(const cJSON *golden, struct chat *chat)
{
    chat->count = 0;
    chat->answer = cJSON_GetObjectItemCaseSensitive(golden, "generated");
    chat->top = cJSON_GetObjectItemCaseSensitive(golden, "top");
    chat->generated = (uint32_t)cJSON_GetArraySize(chat->answer);
    append_ids(chat, cJSON_GetObjectItemCaseSensitive(golden, "prompt"));
    append_ids(chat, chat->answer);
    chat->count--;
}

static double log_of_sum(const float *logits, uint32_t vocabulary)
{
    double max = (double)logits[0], sum = 0;
    for (uint32_t i = 1; i < vocabulary; i++)
        max = fmax(max, (double)logits[i]);
    for (uint32_t i = 0; i < vocabulary; i++)
        sum += exp((double)logits[i] - max);
    return max + log(sum);
}

static void compare_top(const cJSON *top, const float *logits, uint32_t vocabulary, struct figures *figures)
{
    double whole = log_of_sum(logits, vocabulary);
    const cJSON *pair;
    cJSON_ArrayForEach(pair, top)
    {
        double logprob = (double)logits[pair->child->valueint] - whole;
        double difference = fabs(logprob - pair->child->next->valuedouble);
        ck_assert(isfinite(difference));
        figures->error_sum += difference;
        figures->error_max = fmax(figures->error_max, difference);
        figures->errors++;
    }
}

static double gap(const cJSON *top)
{
    return top->child->child->next->valuedouble - top->child->next->child->next->valuedouble;
}

/* The draws are greedy: their ids are the most probable ones. */
static void evaluate(struct model *model, const struct chat *chat, const uint32_t *pages, struct figures *figures)
{
    static struct sample_row draws[DRAWS_MAX];
    static struct sample_result results[DRAWS_MAX];
    uint32_t vocabulary = model_config(model)->vocabulary;
    for (uint32_t i = 0; i < chat->generated; i++)
        draws[i] = run_greedy;
    struct batch_sequence sequence = {.ids = chat->ids,
                                      .count = chat->count,
                                      .pages = {pages},
                                      .sample = draws,
                                      .sample_count = 1,
                                      .logits_rows = chat->generated};
    model_step_submit(model, &(struct batch){.sequences = &sequence, .sequence_count = 1});
    ck_assert_int_eq(model_step_collect(model, results), STATUS_OK);
    const cJSON *expected = chat->answer->child, *top = chat->top->child;
    bool same = true;
    for (uint32_t i = 0; i < chat->generated; i++, expected = expected->next, top = top->next) {
        bool agreed = results[i].id == expected->valueint;
        compare_top(top, model_logits(model, i), vocabulary, figures);
        if (!agreed)
            figures->split_gap_max = fmax(figures->split_gap_max, gap(top));
        figures->agreed += agreed;
        figures->positions++;
        same = same && agreed;
    }
    figures->same_chats += same;
    figures->chats++;
}

static struct figures measure(enum activation_mode activations)
{
    uint32_t pages[ROWS_MAX];
    struct figures figures = {0};
    struct chat chat;
    cJSON *golden = read_golden();
    struct model *model = run_open(&(struct run_args){.path = test_model_path(),
                                                      .activations = activations,
                                                      .threads = 0,
                                                      .context = ROWS_MAX,
                                                      .rows_max = ROWS_MAX,
                                                      .sequences_max = 1,
                                                      .logits_rows_max = DRAWS_MAX,
                                                      .kv_sequences = 1});
    for (uint32_t i = 0; i < model_kv_pages(model) && i < ROWS_MAX; i++)
        pages[i] = i;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(golden, "chats"))
    {
        read_chat(item, &chat);
        evaluate(model, &chat, pages, &figures);
    }
    printf("%s, %s: %u of %u chats the same text, %llu of %llu positions agree (%.2f%%), widest gap at a split %.4f, "
           "top-5 log-probabilities: mean error %.5f, max %.4f\n",
           activations == ACTIVATIONS_F32 ? "f32" : "int8", model_variant(model), figures.same_chats, figures.chats,
           (unsigned long long)figures.agreed, (unsigned long long)figures.positions,
           100.0 * (double)figures.agreed / (double)figures.positions, figures.split_gap_max,
           figures.error_sum / (double)figures.errors, figures.error_max);
    model_close(model);
    cJSON_Delete(golden);
    return figures;
}

START_TEST(f32_generates_the_text_of_transformers_until_it_is_undecided)
{
    struct figures figures = measure(ACTIVATIONS_F32);
    ck_assert_uint_eq(figures.chats, 20);
    ck_assert_double_lt(figures.split_gap_max, UNDECIDED_GAP);
    ck_assert_double_le(figures.error_sum / (double)figures.errors, FLOAT_ERROR_MEAN_MAX);
    ck_assert_double_le(figures.error_max, FLOAT_ERROR_MAX);
}
END_TEST

START_TEST(int8_agrees_with_transformers_as_well_as_others_do)
{
    struct figures figures = measure(ACTIVATIONS_INT8);
    ck_assert_uint_eq(figures.chats, 20);
    ck_assert_double_ge((double)figures.agreed / (double)figures.positions, INT8_AGREEMENT_MIN);
    ck_assert_double_le(figures.error_sum / (double)figures.errors, INT8_ERROR_MEAN_MAX);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("reference chats");
    TCase *t = tcase_create("chats");
    tcase_add_test(t, f32_generates_the_text_of_transformers_until_it_is_undecided);
    tcase_add_test(t, int8_agrees_with_transformers_as_well_as_others_do);
    suite_add_tcase(s, t);
    return s;
}
