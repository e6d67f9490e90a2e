/* Ids equal to the reference, on the model's own vocabulary, and what no text can make the tokenizer do. */
#include "model/text/tokenizer.h"

#include <inttypes.h>

#include "kernels/base/check.h"
#include "kernels/base/thread.h"
#include "kernels/base/utf8.h"
#include "model/text/detokenizer.h"
#include "tests/support/vocabulary_file.h"
#include "tests/unit/model/text/golden.h"
#include "tests/unit/model/text/require.h"
#include "tests/unit/model/text/tokenizer_fixture.h"
#include "tests/unit/unit.h"

#define MEBI ((size_t)1 << 20)

static void encode_all(struct tokenizer_fixture *fixture, const char *text, size_t size, bool trusted)
{
    struct tokenizer_span span = {size, trusted};
    struct tokenizer_input input = {.text = text, .size = size, .spans = &span, .span_count = 1};
    enum status status = tokenizer_fixture_encode(fixture, &input);
    REQUIRE_MSG(status == STATUS_OK, "%s", fixture->error.text);
}

static void check_ids(const struct tokenizer_ids *ids, char *list, const char *text, size_t line)
{
    long expected;
    size_t count = 0;
    for (; golden_number(&list, &expected); count++) {
        REQUIRE_MSG(count < ids->count && ids->ids[count] == expected, "text %zu, \"%s\": id %zu is %ld, not %" PRId32,
                    line, text, count, expected, count < ids->count ? ids->ids[count] : -1);
    }
    REQUIRE_MSG(count == ids->count, "text %zu, \"%s\": %zu ids, not %zu", line, text, count, ids->count);
}

/* ---- equal to the reference ---- */

/* `column` of tokenizer_text.txt: 1 smollm, 2 gpt-2, 3 llama-bpe. */
static void check_texts(struct tokenizer_fixture *fixture, size_t column)
{
    struct golden golden = golden_open("tests/golden/tokenizer_text.txt");
    size_t count = 0;
    for (; golden_next(&golden); count++) {
        REQUIRE(golden.field_count == 4);
        char *ids = golden.fields[strcmp(golden.fields[column], "=") == 0 ? 1 : column];
        size_t size = golden_unescape(golden.fields[0]);
        struct tokenizer_input input = {.text = golden.fields[0], .size = size, .add_bos = true};
        enum status status = tokenizer_fixture_encode(fixture, &input);
        REQUIRE_MSG(status == STATUS_OK, "%s", fixture->error.text);
        check_ids(&fixture->ids, ids, golden.fields[0], count);
    }
    golden_close(&golden);
    ck_assert_uint_ge(count, 2000);
}

START_TEST(gives_the_ids_of_the_reference)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    check_texts(&fixture, 1);
    tokenizer_fixture_close(&fixture);
}
END_TEST

static void check_other_pre_tokenizer(const char *pre, size_t column)
{
    struct tokenizer_fixture model, other;
    tokenizer_fixture_open_model(&model);
    tokenizer_fixture_take(&other, vocabulary_file_with_pre(model.file, pre));
    check_texts(&other, column);
    tokenizer_fixture_close(&other);
    tokenizer_fixture_close(&model);
}

START_TEST(gives_the_ids_of_the_reference_with_gpt2_pieces)
{
    check_other_pre_tokenizer("gpt-2", 2);
}
END_TEST

START_TEST(gives_the_ids_of_the_reference_with_llama_pieces)
{
    check_other_pre_tokenizer("llama-bpe", 3);
}
END_TEST

static size_t read_spans(const char *list, struct tokenizer_span *spans, size_t capacity)
{
    size_t count = 0;
    while (*list != '\0') {
        ck_assert_uint_lt(count, capacity);
        char *end;
        bool trusted = *list == 'T';
        spans[count++] = (struct tokenizer_span){strtoul(list + 1, &end, 10), trusted};
        list = *end == ' ' ? end + 1 : end;
    }
    return count;
}

START_TEST(finds_control_tokens_in_trusted_text_only)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    struct golden golden = golden_open("tests/golden/tokenizer_spans.txt");
    size_t count = 0;
    for (; golden_next(&golden); count++) {
        ck_assert_uint_eq(golden.field_count, 3);
        struct tokenizer_span spans[256];
        struct tokenizer_input input = {.spans = spans, .text = golden.fields[1]};
        input.span_count = read_spans(golden.fields[0], spans, 256);
        input.size = golden_unescape(golden.fields[1]);
        enum status status = tokenizer_fixture_encode(&fixture, &input);
        ck_assert_msg(status == STATUS_OK, "%s", fixture.error.text);
        check_ids(&fixture.ids, golden.fields[2], golden.fields[1], count);
    }
    golden_close(&golden);
    ck_assert_uint_ge(count, 500);
    tokenizer_fixture_close(&fixture);
}
END_TEST

/* ---- properties ---- */

static size_t random_text(uint64_t *state, const struct tokenizer *tokenizer, char *text, size_t size_max)
{
    size_t size = 0;
    while (size + 32 < size_max && test_random_below(state, 24) != 0) {
        uint64_t kind = test_random_below(state, 8);
        if (kind < 3) {
            text[size++] = (char)(' ' + test_random_below(state, 95));
        } else if (kind == 3) {
            size += utf8_encode((uint32_t)(0x80 + test_random_below(state, 0x7000)), text + size);
        } else if (kind == 4) {
            size += utf8_encode((uint32_t)(0x10000 + test_random_below(state, 0x100000)), text + size);
        } else if (kind == 5) {
            text[size++] = (char)test_random_below(state, 33);
        } else {
            /* A special token, or the beginning of one. */
            const char *special = tokenizer_special_text(tokenizer, (int32_t)test_random_below(state, 17));
            size_t part = kind == 6 ? strlen(special) : test_random_below(state, strlen(special));
            memcpy(text + size, special, part);
            size += part;
        }
    }
    return size;
}

static size_t random_spans(uint64_t *state, size_t size, struct tokenizer_span *spans, size_t capacity)
{
    size_t count = 0, covered = 0;
    while (covered < size) {
        size_t left = size - covered;
        size_t take = count + 1 == capacity ? left : test_random_below(state, left < 24 ? left + 1 : 24);
        spans[count++] = (struct tokenizer_span){take, test_random_below(state, 2) == 0};
        covered += take;
    }
    return count;
}

/* Whether all bytes of at..end lie in trusted spans; empty ones hold no bytes. */
static bool all_trusted(const struct tokenizer_span *spans, size_t count, size_t at, size_t end)
{
    size_t start = 0;
    for (size_t i = 0; i < count; start += spans[i++].size) {
        bool overlaps = spans[i].size > 0 && start < end && start + spans[i].size > at;
        if (overlaps && !spans[i].trusted)
            return false;
    }
    return true;
}

/* Bytes that no token stands for by itself are left out of the text before it is compared. */
static bool is_known_byte(const struct tokenizer_fixture *fixture, char byte)
{
    static int8_t known[256]; /* 0: not asked yet */
    int8_t *answer = &known[(uint8_t)byte];
    struct tokenizer_piece piece;
    for (int32_t id = 0; *answer == 0 && tokenizer_piece(fixture->tokenizer, id, &piece); id++) {
        if (piece.size == 1 && piece.data[0] == byte && !piece.control)
            *answer = 1;
    }
    if (*answer == 0)
        *answer = -1;
    return *answer > 0;
}

static void check_round_trip(const struct tokenizer_fixture *fixture, const struct tokenizer_input *input)
{
    size_t at = 0, unknown = 0;
    for (size_t i = 0; i < fixture->ids.count; i++) {
        struct tokenizer_piece piece;
        REQUIRE(tokenizer_piece(fixture->tokenizer, fixture->ids.ids[i], &piece));
        size_t start = SIZE_MAX;
        for (size_t k = 0; k < piece.size; k++, at++) {
            for (; at < input->size && !is_known_byte(fixture, input->text[at]); at++)
                unknown++;
            start = start == SIZE_MAX ? at : start;
            REQUIRE(at < input->size && input->text[at] == piece.data[k]);
        }
        if (piece.control)
            REQUIRE(all_trusted(input->spans, input->span_count, start, at));
    }
    for (; at < input->size; at++, unknown++)
        REQUIRE(!is_known_byte(fixture, input->text[at]));
    REQUIRE(unknown == fixture->ids.unknown_bytes);
}

START_TEST(decodes_to_the_text_under_any_spans)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    uint64_t state = test_seed() + 1;
    size_t controls = 0;
    for (size_t round = 0; round < (test_long() ? 400000 : 20000); round++) {
        char text[512];
        struct tokenizer_span spans[16];
        struct tokenizer_input input = {.text = text, .spans = spans};
        input.size = random_text(&state, fixture.tokenizer, text, sizeof(text));
        input.span_count = random_spans(&state, input.size, spans, 16);
        enum status status = tokenizer_fixture_encode(&fixture, &input);
        REQUIRE_MSG(status == STATUS_OK, "%s", fixture.error.text);
        check_round_trip(&fixture, &input);
        for (size_t i = 0; i < fixture.ids.count; i++)
            controls += fixture.ids.ids[i] < 17;
    }
    ck_assert_uint_gt(controls, 1000);
    tokenizer_fixture_close(&fixture);
}
END_TEST

START_TEST(never_makes_a_control_token_of_untrusted_text)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    uint32_t found = 0;
    for (int32_t id = 0; (uint32_t)id < tokenizer_vocabulary(fixture.tokenizer); id++) {
        struct tokenizer_piece piece;
        REQUIRE(tokenizer_piece(fixture.tokenizer, id, &piece));
        if (!piece.control)
            continue;
        found++;
        encode_all(&fixture, piece.data, piece.size, true);
        REQUIRE(fixture.ids.count == 1 && fixture.ids.ids[0] == id);
        encode_all(&fixture, piece.data, piece.size, false);
        ck_assert_uint_gt(fixture.ids.count, 1);
        for (size_t i = 0; i < fixture.ids.count; i++) {
            struct tokenizer_piece part;
            REQUIRE(tokenizer_piece(fixture.tokenizer, fixture.ids.ids[i], &part) && !part.control);
        }
    }
    REQUIRE(found == 17);
    tokenizer_fixture_close(&fixture);
}
END_TEST

START_TEST(names_the_byte_where_utf8_breaks)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    uint64_t state = test_seed() + 2;
    int32_t kept = 7;
    fixture.ids = (struct tokenizer_ids){.ids = malloc(sizeof(kept)), .count = 1, .capacity = 1};
    ck_assert_ptr_nonnull(fixture.ids.ids);
    fixture.ids.ids[0] = kept;
    size_t invalid_texts = 0;
    for (size_t round = 0; round < 20000; round++) {
        char text[64];
        size_t size = test_random_below(&state, sizeof(text));
        for (size_t i = 0; i < size; i++)
            text[i] = (char)(test_random_below(&state, 3) == 0 ? test_random_below(&state, 256) : 'a' + i % 26);
        struct tokenizer_input input = {.text = text, .size = size};
        size_t invalid = utf8_invalid_at(text, size);
        fixture.ids.count = 1;
        enum status status = tokenizer_encode(fixture.tokenizer, fixture.scratch, &input, &fixture.ids, &fixture.error);
        if (invalid == size) {
            REQUIRE(status == STATUS_OK);
            continue;
        }
        char expected[64];
        snprintf(expected, sizeof(expected), "not valid UTF-8 at byte %zu", invalid);
        REQUIRE(status == STATUS_INVALID);
        REQUIRE_MSG(strstr(fixture.error.text, expected) != NULL, "%s", fixture.error.text);
        REQUIRE(fixture.ids.count == 1 && fixture.ids.ids[0] == kept);
        invalid_texts++;
    }
    ck_assert_uint_gt(invalid_texts, 1000);
    tokenizer_fixture_close(&fixture);
}
END_TEST

START_TEST(counts_bytes_that_the_vocabulary_lacks)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    encode_all(&fixture,
               "a\x04"
               "b\x06",
               4, false);
    ck_assert_uint_eq(fixture.ids.unknown_bytes, 2);
    encode_all(&fixture, "ab", 2, false);
    ck_assert_uint_eq(fixture.ids.unknown_bytes, 0);
    tokenizer_fixture_close(&fixture);
}
END_TEST

/* ---- size ---- */

static double encode_seconds(struct tokenizer_fixture *fixture, const char *text, size_t size)
{
    uint64_t start = clock_ns();
    encode_all(fixture, text, size, false);
    return (double)(clock_ns() - start) * 1e-9;
}

/* Quadratic merging would take hours; the limit leaves room for sanitizers on a slow machine. */
START_TEST(takes_a_mebibyte_without_a_place_to_cut)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    char *text = malloc(MEBI);
    ck_assert_ptr_nonnull(text);
    uint64_t state = test_seed() + 3;
    static const char *const alphabets[] = {"a", "-", " ", "\n", "abcdefghijklmnopqrstuvwxyz", "<", "'", "1"};
    for (size_t kind = 0; kind < sizeof(alphabets) / sizeof(alphabets[0]); kind++) {
        const char *alphabet = alphabets[kind];
        size_t letters = strlen(alphabet);
        for (size_t i = 0; i < MEBI; i++)
            text[i] = alphabet[test_random_below(&state, letters)];
        double seconds = encode_seconds(&fixture, text, MEBI);
        REQUIRE_MSG(seconds < 30, "1 MiB of \"%c...\" took %.1f s", *alphabet, seconds);
        size_t size = 0;
        for (size_t i = 0; i < fixture.ids.count; i++) {
            struct tokenizer_piece piece;
            REQUIRE(tokenizer_piece(fixture.tokenizer, fixture.ids.ids[i], &piece));
            REQUIRE(piece.size <= MEBI - size && memcmp(text + size, piece.data, piece.size) == 0);
            size += piece.size;
        }
        REQUIRE(size == MEBI);
    }
    free(text);
    tokenizer_fixture_close(&fixture);
}
END_TEST

START_TEST(refuses_what_is_too_large)
{
    struct tokenizer_fixture fixture;
    tokenizer_fixture_open_model(&fixture);
    size_t size = 64 * MEBI + 1;
    char *text = malloc(size);
    ck_assert_ptr_nonnull(text);
    memset(text, 'a', size);
    struct tokenizer_input input = {.text = text, .size = size};
    ck_assert_int_eq(tokenizer_fixture_encode(&fixture, &input), STATUS_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fixture.error.text, "67108865 bytes; the limit is 67108864"));
    input.size = 4 * MEBI + 1;
    ck_assert_int_eq(tokenizer_fixture_encode(&fixture, &input), STATUS_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(fixture.error.text, "run of 4194305 bytes"));
    ck_assert_uint_eq(fixture.ids.count, 0);
    free(text);
    tokenizer_fixture_close(&fixture);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *reference = tcase_create("reference");
    tcase_add_test(reference, gives_the_ids_of_the_reference);
    tcase_add_test(reference, gives_the_ids_of_the_reference_with_gpt2_pieces);
    tcase_add_test(reference, gives_the_ids_of_the_reference_with_llama_pieces);
    tcase_add_test(reference, finds_control_tokens_in_trusted_text_only);
    suite_add_tcase(suite, reference);
    TCase *properties = tcase_create("properties");
    tcase_add_test(properties, decodes_to_the_text_under_any_spans);
    tcase_add_test(properties, never_makes_a_control_token_of_untrusted_text);
    tcase_add_test(properties, names_the_byte_where_utf8_breaks);
    tcase_add_test(properties, counts_bytes_that_the_vocabulary_lacks);
    tcase_add_test(properties, takes_a_mebibyte_without_a_place_to_cut);
    tcase_add_test(properties, refuses_what_is_too_large);
    suite_add_tcase(suite, properties);
    return suite;
}
