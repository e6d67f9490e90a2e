/* What a tokenizer takes from the model file, and the sentence for each way in which the file can be wrong. */
#include "model/text/tokenizer.h"

#include <string.h>

#include "tests/support/vocabulary_file.h"
#include "tests/unit/model/text/tokenizer_fixture.h"
#include "tests/unit/unit.h"

START_TEST(reads_the_ids_that_the_model_names)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    uint32_t count;
    const int32_t *ends = tokenizer_end_ids(fixture.tokenizer, &count);
    ck_assert(count == 1 && ends[0] == 2);
    ck_assert_int_eq(tokenizer_eos(fixture.tokenizer), 2);
    ck_assert_int_eq(tokenizer_bos(fixture.tokenizer), 1);
    ck_assert(!tokenizer_adds_bos(fixture.tokenizer));
    ck_assert_uint_eq(tokenizer_vocabulary(fixture.tokenizer), 49152);
    ck_assert_str_eq(tokenizer_special_text(fixture.tokenizer, 0), "<|endoftext|>");
    ck_assert_str_eq(tokenizer_special_text(fixture.tokenizer, -1), "");
    struct tokenizer_piece piece;
    ck_assert(!tokenizer_piece(fixture.tokenizer, -1, &piece));
    ck_assert(!tokenizer_piece(fixture.tokenizer, 49152, &piece));
    tokenizer_fixture_close(&fixture);
}
END_TEST

static void open_small(struct tokenizer_fixture *fixture, const struct vocabulary_file *vocabulary)
{
    tokenizer_fixture_take(fixture, vocabulary_file_open(vocabulary));
}

static void check_small(struct tokenizer_fixture *fixture, const char *text, bool trusted, const int32_t *ids,
                        size_t count)
{
    struct tokenizer_span span = {strlen(text), trusted};
    struct tokenizer_input input = {
        .text = text, .size = strlen(text), .spans = &span, .span_count = 1, .add_bos = true};
    ck_assert_int_eq(tokenizer_fixture_encode(fixture, &input), STATUS_OK);
    ck_assert_uint_eq(fixture->ids.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(fixture->ids.ids[i], ids[i]);
}

#define CHECK_SMALL(fixture, text, trusted, ...)                        \
    check_small(fixture, text, trusted, (const int32_t[]){__VA_ARGS__}, \
                sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

START_TEST(puts_bos_first_once)
{
    struct tokenizer_fixture fixture;
    struct vocabulary_file small = vocabulary_file_small();
    small.add_bos = 1;
    open_small(&fixture, &small);
    ck_assert(tokenizer_adds_bos(fixture.tokenizer));
    CHECK_SMALL(&fixture, "", true, SMALL_BOS);
    CHECK_SMALL(&fixture, "abc", true, SMALL_BOS, SMALL_ABC);
    CHECK_SMALL(&fixture, "<s>abc", true, SMALL_BOS, SMALL_ABC);
    CHECK_SMALL(&fixture, "<s><s>a", true, SMALL_BOS, SMALL_BOS, SMALL_A);
    CHECK_SMALL(&fixture, "a<s>", true, SMALL_BOS, SMALL_A, SMALL_BOS);
    tokenizer_fixture_close(&fixture);
    small.add_bos = 0;
    open_small(&fixture, &small);
    CHECK_SMALL(&fixture, "abc", true, SMALL_ABC);
    tokenizer_fixture_close(&fixture);
}
END_TEST

START_TEST(finds_user_defined_tokens_in_any_text)
{
    struct tokenizer_fixture fixture;
    struct vocabulary_file small = vocabulary_file_small();
    open_small(&fixture, &small);
    CHECK_SMALL(&fixture, "ab<mark>c<turn>", true, SMALL_AB, SMALL_MARK, SMALL_C, SMALL_TURN);
    CHECK_SMALL(&fixture, "ab<mark>c", false, SMALL_AB, SMALL_MARK, SMALL_C);
    tokenizer_fixture_close(&fixture);
}
END_TEST

START_TEST(collects_every_id_that_ends_a_reply)
{
    struct tokenizer_fixture fixture;
    struct vocabulary_file small = vocabulary_file_small();
    small.eom = SMALL_BOS;
    open_small(&fixture, &small);
    uint32_t count;
    const int32_t *ends = tokenizer_end_ids(fixture.tokenizer, &count);
    ck_assert(count == 3 && ends[0] == SMALL_EOS && ends[1] == SMALL_TURN && ends[2] == SMALL_BOS);
    tokenizer_fixture_close(&fixture);
    small.eot = small.eom = SMALL_EOS;
    open_small(&fixture, &small);
    (void)tokenizer_end_ids(fixture.tokenizer, &count);
    ck_assert_uint_eq(count, 1);
    tokenizer_fixture_close(&fixture);
    small.eos = small.eot = small.eom = -1;
    open_small(&fixture, &small);
    (void)tokenizer_end_ids(fixture.tokenizer, &count);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(tokenizer_eos(fixture.tokenizer), -1);
    tokenizer_fixture_close(&fixture);
}
END_TEST

static void check_refused(const struct vocabulary_file *vocabulary, const char *sentence)
{
    struct model_file *file = vocabulary_file_open(vocabulary);
    struct tokenizer *tokenizer = NULL;
    struct error error;
    enum status status = tokenizer_open(file, &tokenizer, &error);
    ck_assert_msg(status == STATUS_INVALID || status == STATUS_UNSUPPORTED, "taken, though: %s", sentence);
    ck_assert_msg(strstr(error.text, sentence) != NULL, "\"%s\" does not say \"%s\"", error.text, sentence);
    ck_assert_ptr_null(tokenizer);
    model_file_close(file);
}

/* A sentence, and the one change to a vocabulary that works which it is about. */
#define REFUSES(sentence, change)                               \
    do {                                                        \
        struct vocabulary_file small = vocabulary_file_small(); \
        change;                                                 \
        check_refused(&small, sentence);                        \
    } while (0)

START_TEST(refuses_a_tokenizer_it_does_not_know)
{
    REFUSES("has no tokenizer.ggml.model", small.model = NULL);
    REFUSES("tokenizer.ggml.model is \"llama\"; known is gpt2", small.model = "llama");
    REFUSES("has no tokenizer.ggml.pre, without which its ids cannot be right; known are smollm, gpt-2, llama-bpe",
            small.pre = NULL);
    REFUSES("tokenizer.ggml.pre is \"of mine?\"; known are smollm, gpt-2, llama-bpe", small.pre = "of mine\n");
    REFUSES("tokenizer.ggml.pre is \"smol\"", small.pre = "smol");
}
END_TEST

START_TEST(refuses_a_wrong_vocabulary)
{
    REFUSES("has no tokenizer.ggml.tokens", small.no_tokens = true);
    REFUSES("tokenizer.ggml.tokens is not an array of strings", small.tokens_are_numbers = true);
    REFUSES("tokenizer.ggml.tokens has 0 tokens", small.token_count = 0);
    REFUSES("has no tokenizer.ggml.token_type: control tokens cannot be told", small.no_kinds = true);
    REFUSES("tokenizer.ggml.token_type has 17 entries for 18 tokens", small.kind_count--);
    REFUSES("tokenizer.ggml.token_type is not an array of integers", small.kinds_are_texts = true);
    REFUSES("tokenizer.ggml.token_type[4] is 7; it must be 1 to 6", small.kinds[4] = 7);
    REFUSES("tokenizer.ggml.token_type[4] is -1; it must be 1 to 6", small.kinds[4] = -1);
    REFUSES("tokenizer.ggml.tokens[5] is empty", small.tokens[5] = "");
    REFUSES("tokenizer.ggml.tokens[5] is not valid UTF-8", small.tokens[5] = "\xC3");
    REFUSES("tokenizer.ggml.tokens[3] and [4] are the same token", small.tokens[4] = "a");
    REFUSES("special tokens 0 and 1 have the same text", small.tokens[1] = "<s>");
    REFUSES("tokenizer.ggml.tokens[14] and [1] are the same token", small.tokens[1] = "ab");
}
END_TEST

START_TEST(refuses_wrong_merges)
{
    REFUSES("has no tokenizer.ggml.merges", small.no_merges = true);
    REFUSES("tokenizer.ggml.merges[0] is not a string", small.merges_are_numbers = true);
    REFUSES("tokenizer.ggml.merges[1] is not two tokens with a space between them", small.merges[1] = "ab");
    REFUSES("tokenizer.ggml.merges[1] is not two tokens with a space between them", small.merges[1] = "a b c");
    REFUSES("tokenizer.ggml.merges[1] is not two tokens with a space between them", small.merges[1] = " ab");
    REFUSES("tokenizer.ggml.merges[1] is not two tokens with a space between them", small.merges[1] = "ab ");
    REFUSES("tokenizer.ggml.merges[1] is not two tokens with a space between them", small.merges[1] = "");
    REFUSES("tokenizer.ggml.merges[1] names a token that is not in the vocabulary", small.merges[1] = "ab x");
    REFUSES("tokenizer.ggml.merges[1] names a token that is not in the vocabulary", small.merges[1] = "ab \xC3");
    REFUSES("tokenizer.ggml.merges[1] names a token that is not in the vocabulary", small.merges[1] = "<s> a");
    REFUSES("tokenizer.ggml.merges[1] makes a token that is not in the vocabulary", small.merges[1] = "ab d");
    REFUSES("tokenizer.ggml.merges[2] is there twice", small.merges[2] = "a b");
}
END_TEST

START_TEST(refuses_ids_out_of_range)
{
    REFUSES("tokenizer.ggml.bos_token_id is 18; it must be below 18", small.bos = 18);
    REFUSES("tokenizer.ggml.bos_token_id is -2; it must be below 18", small.bos = -2);
    REFUSES("tokenizer.ggml.eos_token_id is 4294967297", small.eos = 4294967297);
    REFUSES("tokenizer.ggml.eot_token_id is 99", small.eot = 99);
    REFUSES("prompts begin with BOS, but there is no tokenizer.ggml.bos_token_id", {
        small.bos = -1;
        small.add_bos = 1;
    });
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("tokenizer of a file");
    TCase *metadata = tcase_create("metadata");
    tcase_add_test(metadata, reads_the_ids_that_the_model_names);
    tcase_add_test(metadata, puts_bos_first_once);
    tcase_add_test(metadata, finds_user_defined_tokens_in_any_text);
    tcase_add_test(metadata, collects_every_id_that_ends_a_reply);
    tcase_add_test(metadata, refuses_a_tokenizer_it_does_not_know);
    tcase_add_test(metadata, refuses_a_wrong_vocabulary);
    tcase_add_test(metadata, refuses_wrong_merges);
    tcase_add_test(metadata, refuses_ids_out_of_range);
    suite_add_tcase(suite, metadata);
    return suite;
}
