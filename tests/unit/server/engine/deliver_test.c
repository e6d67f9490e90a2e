/* Ids to text with stop strings and ends, on the default model's tokenizer: the text does not depend on how it was cut
 * into tokens. */
#include "server/engine/deliver.h"

#include <string.h>

#include "kernels/base/utf8.h"
#include "model/model.h"
#include "model/text/tokenizer.h"
#include "tests/unit/unit.h"

static struct model_file *file;
static struct tokenizer *tokenizer;
static struct tokenizer_scratch *scratch;

/* What a choice gave. */
static struct buffer text;
static bool finished;
static enum api_stop_reason reason;
static uint32_t pushed;

static void setup(void)
{
    struct error error;
    ck_assert_msg(model_file_open(test_model_path(), &file, &error) == STATUS_OK, "%s", error.text);
    ck_assert_msg(tokenizer_open(file, &tokenizer, &error) == STATUS_OK, "%s", error.text);
    ck_assert_int_eq(tokenizer_scratch_open(tokenizer, &scratch, &error), STATUS_OK);
}

static void teardown(void)
{
    buffer_free(&text);
    tokenizer_scratch_close(scratch);
    tokenizer_close(tokenizer);
    model_file_close(file);
}

/* The text as ids, one run of `piece` bytes at a time: other ids for the same text. */
static struct tokenizer_ids cut(const char *words, size_t piece)
{
    struct tokenizer_ids ids = {0};
    struct error error;
    size_t size = strlen(words);
    for (size_t at = 0, n; at < size; at += n) {
        n = piece < size - at ? piece : size - at;
        n -= utf8_incomplete_tail(words + at, n);
        if (n == 0)
            n = size - at < 4 ? size - at : 4;
        struct tokenizer_input input = {.text = words + at, .size = n};
        while (utf8_invalid_at(words + at, input.size) < input.size)
            input.size = --n;
        ck_assert_int_eq(tokenizer_encode(tokenizer, scratch, &input, &ids, &error), STATUS_OK);
    }
    return ids;
}

/* Every token a byte, where the vocabulary has it: UTF-8 in pieces. */
static struct tokenizer_ids bytes_of(const char *words)
{
    struct tokenizer_ids ids = {0};
    size_t size = strlen(words);
    ids.ids = calloc(size, sizeof(*ids.ids));
    for (size_t i = 0; i < size; i++) {
        for (int32_t id = 0; id < 1000; id++) {
            struct tokenizer_piece piece;
            if (tokenizer_piece(tokenizer, id, &piece) && !piece.control && piece.size == 1 &&
                piece.data[0] == words[i]) {
                ids.ids[ids.count++] = id;
                break;
            }
        }
    }
    ck_assert_uint_eq(ids.count, size);
    return ids;
}

static void push_all(struct api_call *call, const struct tokenizer_ids *ids, uint32_t tokens_max)
{
    struct deliver deliver;
    struct error error;
    uint32_t end_count;
    const int32_t *end_ids = tokenizer_end_ids(tokenizer, &end_count);
    struct deliver_args args = {.tokenizer = tokenizer,
                                .call = call,
                                .end_ids = end_ids,
                                .end_count = call->ignore_eos ? 0 : end_count,
                                .tokens_max = tokens_max};
    ck_assert_int_eq(deliver_open(&args, &deliver, &error), STATUS_OK);
    buffer_clear(&text);
    finished = false;
    for (pushed = 0; pushed < ids->count && !finished; pushed++) {
        struct deliver_output output = deliver_push(&deliver, ids->ids[pushed]);
        ck_assert(!output.failed);
        ck_assert_uint_eq(utf8_invalid_at(output.text, output.text_size), output.text_size);
        buffer_append(&text, output.text, output.text_size);
        finished = output.finished;
        reason = output.reason;
    }
    deliver_close(&deliver);
}

static void expect(const char *words, bool ends, enum api_stop_reason why)
{
    ck_assert_msg(text.size == strlen(words) && memcmp(text.data, words, text.size) == 0, "text is \"%.*s\"",
                  (int)text.size, text.data);
    ck_assert(finished == ends);
    if (ends)
        ck_assert_int_eq(reason, why);
}

START_TEST(a_stop_string_is_cut_off_over_every_split)
{
    struct api_stop stop[] = {{"</answer>", 9}, {"User:", 5}};
    struct api_call call = {.stop = stop, .stop_count = 2};
    const char *words = "It is <b>four</b>. </ans </answer> and more";
    for (size_t piece = 1; piece <= strlen(words); piece++) {
        struct tokenizer_ids ids = cut(words, piece);
        push_all(&call, &ids, 1000);
        expect("It is <b>four</b>. </ans ", true, API_STOP_END);
        tokenizer_ids_free(&ids);
    }
}
END_TEST

START_TEST(the_stop_string_is_kept_when_asked_for)
{
    struct api_stop stop[] = {{"four", 4}};
    struct api_call call = {.stop = stop, .stop_count = 1, .include_stop_text = true};
    for (size_t piece = 1; piece <= 8; piece++) {
        struct tokenizer_ids ids = cut("two and four and six", piece);
        push_all(&call, &ids, 1000);
        expect("two and four", true, API_STOP_END);
        tokenizer_ids_free(&ids);
    }
}
END_TEST

START_TEST(what_only_began_a_stop_string_comes_out_at_the_end)
{
    struct api_stop stop[] = {{"and six or", 10}};
    struct api_call call = {.stop = stop, .stop_count = 1};
    struct tokenizer_ids ids = cut("two and four and six", 1);
    push_all(&call, &ids, (uint32_t)ids.count);
    expect("two and four and six", true, API_STOP_LENGTH);
    push_all(&call, &ids, 1000);
    expect("two and four ", false, API_STOP_END); /* still held back: more may come */
    ids.ids = realloc(ids.ids, (ids.count + 1) * sizeof(*ids.ids));
    ids.ids[ids.count++] = tokenizer_eos(tokenizer);
    push_all(&call, &ids, 1000);
    expect("two and four and six", true, API_STOP_END);
    tokenizer_ids_free(&ids);
}
END_TEST

START_TEST(characters_come_whole_however_they_are_cut)
{
    struct api_call call = {0};
    const char *words = "na\xc3\xafve \xe2\x82\xac caf\xc3\xa9";
    struct tokenizer_ids ids = bytes_of(words);
    push_all(&call, &ids, 1000);
    expect(words, false, API_STOP_END);
    tokenizer_ids_free(&ids);
}
END_TEST

START_TEST(a_stop_string_of_split_characters_is_found)
{
    struct api_stop stop[] = {{"\xe2\x82\xac", 3}};
    struct api_call call = {.stop = stop, .stop_count = 1};
    struct tokenizer_ids ids = bytes_of("5 \xe2\x82\xac.");
    push_all(&call, &ids, 1000);
    expect("5 ", true, API_STOP_END);
    ck_assert_uint_eq(pushed, 5);
    tokenizer_ids_free(&ids);
}
END_TEST

START_TEST(half_a_character_becomes_one_mark_at_the_end)
{
    struct api_call call = {0};
    struct tokenizer_ids ids = bytes_of("5 \xe2\x82\xac");
    push_all(&call, &ids, 4);
    expect("5 \xef\xbf\xbd", true, API_STOP_LENGTH);
    tokenizer_ids_free(&ids);
}
END_TEST

START_TEST(an_end_token_ends_without_text)
{
    struct api_call call = {.skip_special_tokens = true};
    struct tokenizer_ids ids = cut("done", 4);
    ids.ids = realloc(ids.ids, 3 * sizeof(*ids.ids));
    ck_assert_uint_eq(ids.count, 1);
    ids.ids[1] = tokenizer_eos(tokenizer);
    ids.ids[2] = ids.ids[0];
    ids.count = 3;
    push_all(&call, &ids, 1000);
    expect("done", true, API_STOP_END);
    ck_assert_uint_eq(pushed, 2);
    call.ignore_eos = true;
    push_all(&call, &ids, 1000);
    expect("donedone", false, API_STOP_END);
    call.skip_special_tokens = false;
    push_all(&call, &ids, 1000);
    ck_assert_uint_gt(text.size, 8); /* the token's own text is between them */
    tokenizer_ids_free(&ids);
}
END_TEST

START_TEST(the_token_that_ends_counts_before_the_limit)
{
    struct api_call call = {0};
    struct tokenizer_ids ids = cut("done", 4);
    ids.ids = realloc(ids.ids, 2 * sizeof(*ids.ids));
    ids.ids[1] = tokenizer_eos(tokenizer);
    ids.count = 2;
    push_all(&call, &ids, 2);
    expect("done", true, API_STOP_END);
    push_all(&call, &ids, 1);
    expect("done", true, API_STOP_LENGTH);
    tokenizer_ids_free(&ids);
}
END_TEST

START_TEST(the_first_min_tokens_stop_nothing)
{
    struct api_stop stop[] = {{"b", 1}};
    struct api_call call = {.stop = stop, .stop_count = 1, .min_tokens = 4};
    struct tokenizer_ids ids = bytes_of("abababab");
    push_all(&call, &ids, 1000);
    expect("ababa", true, API_STOP_END);
    tokenizer_ids_free(&ids);
}
END_TEST

START_TEST(random_words_and_stops_give_what_a_search_gives)
{
    uint64_t random = test_seed() + 2;
    uint32_t stopped = 0;
    for (int round = 0; round < 2000; round++) {
        char words[40] = {0}, needle[4] = {0};
        for (size_t i = 0; i < sizeof(words) - 1; i++)
            words[i] = "ab \n"[test_random_below(&random, 4)];
        for (size_t i = 0; i < 3; i++)
            needle[i] = "ab \n"[test_random_below(&random, 4)];
        struct api_stop stop[] = {{needle, 3}};
        struct api_call call = {.stop = stop, .stop_count = 1};
        struct tokenizer_ids ids = cut(words, 1 + test_random_below(&random, 7));
        push_all(&call, &ids, (uint32_t)ids.count);
        const char *at = strstr(words, needle);
        size_t expected = at == NULL ? strlen(words) : (size_t)(at - words);
        ck_assert_uint_eq(text.size, expected);
        ck_assert(memcmp(text.data, words, expected) == 0);
        ck_assert(finished && reason == (at == NULL ? API_STOP_LENGTH : API_STOP_END));
        stopped += at != NULL;
        tokenizer_ids_free(&ids);
    }
    ck_assert_uint_gt(stopped, 100);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine/deliver");
    TCase *tests = tcase_create("deliver");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_stop_string_is_cut_off_over_every_split);
    tcase_add_test(tests, the_stop_string_is_kept_when_asked_for);
    tcase_add_test(tests, what_only_began_a_stop_string_comes_out_at_the_end);
    tcase_add_test(tests, characters_come_whole_however_they_are_cut);
    tcase_add_test(tests, a_stop_string_of_split_characters_is_found);
    tcase_add_test(tests, half_a_character_becomes_one_mark_at_the_end);
    tcase_add_test(tests, an_end_token_ends_without_text);
    tcase_add_test(tests, the_token_that_ends_counts_before_the_limit);
    tcase_add_test(tests, the_first_min_tokens_stop_nothing);
    tcase_add_test(tests, random_words_and_stops_give_what_a_search_gives);
    suite_add_tcase(suite, tests);
    return suite;
}
