/* Whole UTF-8 only, and the same text as decoding all bytes at once. */
#include "model/text/detokenizer.h"

#include "kernels/base/utf8.h"
#include "tests/unit/model/text/golden.h"
#include "tests/unit/model/text/require.h"
#include "tests/unit/unit.h"

static struct model_file *file;
static struct tokenizer *tokenizer;

static void open_model(void)
{
    struct error error;
    enum status status = model_file_open(test_model_path(), &file, &error);
    ck_assert_msg(status == STATUS_OK, "these tests need the model file: %s", error.text);
    status = tokenizer_open(file, &tokenizer, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
}

static void close_model(void)
{
    tokenizer_close(tokenizer);
    model_file_close(file);
}

/* The id of a token that is one byte; -1: the vocabulary has none. */
static int32_t id_of_byte(unsigned byte)
{
    struct tokenizer_piece piece;
    for (int32_t id = 0; tokenizer_piece(tokenizer, id, &piece); id++) {
        if (piece.size == 1 && (unsigned char)piece.data[0] == byte && !piece.control)
            return id;
    }
    return -1;
}

/* Python's bytes.decode("utf-8", "replace"), written from Unicode's "substitution of maximal subparts". */
static void decode_replacing(const char *bytes, size_t size, struct buffer *out)
{
    for (size_t at = 0; at < size;) {
        uint32_t code_point;
        size_t length = utf8_decode(bytes + at, size - at, &code_point);
        if (length > 0) {
            buffer_append(out, bytes + at, length);
            at += length;
            continue;
        }
        /* The longest beginning of a sequence that some bytes could complete. */
        size_t part = 1;
        while (part < 3 && at + part < size && utf8_incomplete_tail(bytes + at, part + 1) == part + 1)
            part++;
        buffer_text(out, "\xEF\xBF\xBD");
        at += part;
    }
}

static void check_ids(const int32_t *ids, size_t count, bool control_text)
{
    struct buffer bytes = {0}, expected = {0}, streamed = {0};
    struct detokenizer detokenizer = detokenizer_start(tokenizer, control_text);
    for (size_t i = 0; i < count; i++) {
        struct tokenizer_piece piece;
        REQUIRE(tokenizer_piece(tokenizer, ids[i], &piece));
        if (!piece.control || control_text)
            buffer_append(&bytes, piece.data, piece.size);
        detokenizer_push(&detokenizer, ids[i], &streamed);
        REQUIRE(streamed.size == 0 || utf8_invalid_at(streamed.data, streamed.size) == streamed.size);
    }
    detokenizer_finish(&detokenizer, &streamed);
    decode_replacing(bytes.data, bytes.size, &expected);
    REQUIRE(streamed.size == expected.size);
    REQUIRE(streamed.size == 0 || memcmp(streamed.data, expected.data, expected.size) == 0);
    buffer_free(&bytes);
    buffer_free(&expected);
    buffer_free(&streamed);
}

/* Ids drawn so that broken and whole sequences of bytes are common. */
static int32_t random_id(uint64_t *state, const int32_t byte_ids[256])
{
    uint64_t kind = test_random_below(state, 4);
    if (kind == 0)
        return (int32_t)test_random_below(state, tokenizer_vocabulary(tokenizer));
    if (kind == 1 && test_random_below(state, 4) == 0)
        return (int32_t)test_random_below(state, 17);
    for (;;) {
        int32_t id = byte_ids[kind == 2 ? test_random_below(state, 256) : 0x80 + test_random_below(state, 0x78)];
        if (id >= 0)
            return id;
    }
}

START_TEST(streams_what_decoding_at_once_gives)
{
    int32_t byte_ids[256];
    for (unsigned byte = 0; byte < 256; byte++)
        byte_ids[byte] = id_of_byte(byte);
    uint64_t state = test_seed() + 11;
    for (size_t round = 0; round < (test_long() ? 1000000 : 50000); round++) {
        int32_t ids[24];
        size_t count = test_random_below(&state, 25);
        for (size_t i = 0; i < count; i++)
            ids[i] = random_id(&state, byte_ids);
        check_ids(ids, count, round % 2 == 0);
    }
}
END_TEST

START_TEST(replaces_as_the_reference_does)
{
    struct golden golden = golden_open("tests/golden/detokenizer.txt");
    size_t count = 0;
    for (; golden_next(&golden); count++) {
        ck_assert_uint_eq(golden.field_count, 3);
        int32_t ids[64];
        size_t id_count = 0;
        long id;
        for (char *list = golden.fields[1]; golden_number(&list, &id);)
            ids[id_count++] = (int32_t)id;
        struct buffer out = {0};
        struct detokenizer detokenizer = detokenizer_start(tokenizer, *golden.fields[0] == 'C');
        for (size_t i = 0; i < id_count; i++)
            detokenizer_push(&detokenizer, ids[i], &out);
        detokenizer_finish(&detokenizer, &out);
        size_t size = golden_unescape(golden.fields[2]);
        ck_assert_msg(out.size == size && (size == 0 || memcmp(out.data, golden.fields[2], size) == 0),
                      "line %zu: \"%s\" is not \"%s\"", count, out.size > 0 ? out.data : "", golden.fields[2]);
        buffer_free(&out);
    }
    golden_close(&golden);
    ck_assert_uint_ge(count, 400);
}
END_TEST

START_TEST(holds_bytes_back_until_they_are_whole)
{
    struct buffer out = {0};
    struct detokenizer detokenizer = detokenizer_start(tokenizer, false);
    static const unsigned char sequence[] = {0xF0, 0x9F, 0x98, 0x80};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(out.size, 0);
        detokenizer_push(&detokenizer, id_of_byte(sequence[i]), &out);
    }
    ck_assert_uint_eq(out.size, 4);
    ck_assert_int_eq(memcmp(out.data, sequence, 4), 0);
    detokenizer_finish(&detokenizer, &out);
    ck_assert_uint_eq(out.size, 4);
    buffer_free(&out);
}
END_TEST

START_TEST(gives_one_replacement_for_what_is_held_at_the_end)
{
    struct buffer out = {0};
    struct detokenizer detokenizer = detokenizer_start(tokenizer, false);
    detokenizer_push(&detokenizer, id_of_byte(0xF0), &out);
    detokenizer_push(&detokenizer, id_of_byte(0x9F), &out);
    detokenizer_push(&detokenizer, id_of_byte(0x98), &out);
    ck_assert_uint_eq(out.size, 0);
    detokenizer_finish(&detokenizer, &out);
    ck_assert_str_eq(out.data, "\xEF\xBF\xBD");
    detokenizer_finish(&detokenizer, &out);
    ck_assert_uint_eq(out.size, 3);
    buffer_free(&out);
}
END_TEST

START_TEST(shows_control_tokens_only_when_asked)
{
    struct buffer out = {0};
    int32_t eos = tokenizer_eos(tokenizer);
    struct detokenizer silent = detokenizer_start(tokenizer, false);
    detokenizer_push(&silent, eos, &out);
    ck_assert_uint_eq(out.size, 0);
    struct detokenizer showing = detokenizer_start(tokenizer, true);
    detokenizer_push(&showing, eos, &out);
    ck_assert_str_eq(out.data, tokenizer_special_text(tokenizer, eos));
    buffer_free(&out);
}
END_TEST

START_TEST(gives_nothing_for_ids_that_do_not_exist)
{
    struct buffer out = {0};
    struct detokenizer detokenizer = detokenizer_start(tokenizer, true);
    detokenizer_push(&detokenizer, -1, &out);
    detokenizer_push(&detokenizer, (int32_t)tokenizer_vocabulary(tokenizer), &out);
    detokenizer_push(&detokenizer, INT32_MAX, &out);
    detokenizer_finish(&detokenizer, &out);
    ck_assert_uint_eq(out.size, 0);
    buffer_free(&out);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("detokenizer");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, open_model, close_model);
    tcase_add_test(all, streams_what_decoding_at_once_gives);
    tcase_add_test(all, replaces_as_the_reference_does);
    tcase_add_test(all, holds_bytes_back_until_they_are_whole);
    tcase_add_test(all, gives_one_replacement_for_what_is_held_at_the_end);
    tcase_add_test(all, shows_control_tokens_only_when_asked);
    tcase_add_test(all, gives_nothing_for_ids_that_do_not_exist);
    suite_add_tcase(suite, all);
    return suite;
}
