/* The GGUF reader: right files read right, and no wrong one read at all. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights/weights.h"
#include "tests/support/gguf_writer.h"

enum { U8 = 0, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 };

static const uint8_t zeros[4096];

/* Reads a file that lies in memory of exactly its size, so that a sanitizer sees the first byte too far. */
static enum status read_exactly(const void *data, size_t size, struct weights *weights, struct error *error)
{
    char path[] = "/somewhere/broken.gguf";
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    memcpy(copy, data, size);
    *weights = (struct weights){.map = {.data = copy, .size = size, .path = strdup(path)}};
    if (!weights_gguf.recognizes(copy, size))
        return error_set(error, STATUS_INVALID, "broken.gguf is not a model file");
    weights->format = weights_gguf.name;
    return weights_gguf.read(weights, error);
}

static void close_exactly(struct weights *weights)
{
    void *copy = (void *)(uintptr_t)weights->map.data;
    char *path = weights->map.path;
    weights->map = (struct file_map){0};
    weights_close(weights);
    free(copy);
    free(path);
}

/* Reads every element and every byte that the file claims to have. */
static void touch(const struct weights *weights)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < weights->value_count; i++) {
        const struct weights_value *value = &weights->values[i];
        ck_assert_ptr_eq(weights_value(weights, value->key.data, value->key.size), value);
        for (uint64_t e = 0; e < value->count; e++) {
            struct model_text text;
            double number;
            bool truth;
            if (weights_read_text(value, e, &text))
                for (size_t b = 0; b < text.size; b++)
                    sum += (uint8_t)text.data[b];
            sum += weights_read_number(value, e, &number);
            sum += weights_read_bool(value, e, &truth);
        }
    }
    for (size_t i = 0; i < weights->tensor_count; i++) {
        const struct weights_tensor *tensor = &weights->tensors[i];
        ck_assert_ptr_eq(weights_tensor(weights, tensor->name.data, tensor->name.size), tensor);
        ck_assert_uint_ge(tensor->dims, 1);
        for (size_t b = 0; b < tensor->bytes; b++)
            sum += tensor->data[b];
    }
    ck_assert_uint_ne(sum, UINT64_MAX); /* so that the reads are made */
}

static void assert_is_a_sentence(const struct error *error)
{
    size_t size = strlen(error->text);
    ck_assert_msg(size >= 20, "too short: %s", error->text);
    ck_assert_msg(strchr(error->text, '\n') == NULL, "two lines: %s", error->text);
    ck_assert_msg(strncmp(error->text, "broken.gguf", 11) == 0, "does not name the file: %s", error->text);
}

/* ---- a file with everything in it ---- */

static void put(struct buffer *out, const void *bytes, size_t size)
{
    buffer_append(out, bytes, size);
}

static void put_u32(struct buffer *out, uint32_t value)
{
    put(out, &value, sizeof(value));
}

static void put_u64(struct buffer *out, uint64_t value)
{
    put(out, &value, sizeof(value));
}

/* An array of two arrays: of texts, and of numbers. */
static void add_nested(struct gguf_writer *w)
{
    struct buffer b = {0};
    put_u32(&b, ARRAY);
    put_u64(&b, 2);
    put_u32(&b, TEXT);
    put_u64(&b, 1);
    put_u64(&b, 3);
    buffer_text(&b, "abc");
    put_u32(&b, I16);
    put_u64(&b, 3);
    put(&b, zeros, 6);
    gguf_value(w, "nested", ARRAY, b.data, b.size);
    buffer_free(&b);
}

static void add_numbers(struct gguf_writer *w)
{
    struct buffer b = {0};
    put_u32(&b, I32);
    put_u64(&b, 3);
    put(&b, (const int32_t[]){-1, 0, 7}, 12);
    gguf_value(w, "numbers", ARRAY, b.data, b.size);
    buffer_free(&b);
}

static void write_everything(struct buffer *out)
{
    struct gguf_writer w = {.version = 3, .alignment = 64};
    gguf_text(&w, "general.architecture", "llama");
    gguf_text(&w, "empty", "");
    gguf_value(&w, "u8", U8, (const uint8_t[]){200}, 1);
    gguf_value(&w, "i8", I8, (const int8_t[]){-3}, 1);
    gguf_value(&w, "u16", U16, (const uint16_t[]){60000}, 2);
    gguf_value(&w, "i16", I16, (const int16_t[]){-300}, 2);
    gguf_u32(&w, "u32", 4000000000);
    gguf_value(&w, "i32", I32, (const int32_t[]){-70000}, 4);
    gguf_f32(&w, "f32", 1.5f);
    gguf_bool(&w, "yes", true);
    gguf_value(&w, "u64", U64, (const uint64_t[]){UINT64_C(1) << 40}, 8);
    gguf_value(&w, "huge", U64, (const uint64_t[]){UINT64_MAX}, 8);
    gguf_value(&w, "i64", I64, (const int64_t[]){INT64_MIN}, 8);
    gguf_value(&w, "f64", F64, (const double[]){0.1}, 8);
    gguf_texts(&w, "texts", (const char *const[]){"one", "", "three"}, 3);
    gguf_texts(&w, "none", NULL, 0);
    add_numbers(&w);
    add_nested(&w);
    uint8_t data[144];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)i;
    gguf_tensor(&w, &(struct gguf_tensor){"a", TENSOR_F32, 2, {4, 2}, data, 32});
    gguf_tensor(&w, &(struct gguf_tensor){"b.weight", TENSOR_Q8_0, 4, {32, 2, 1, 1}, data, 68});
    gguf_tensor(&w, &(struct gguf_tensor){"c", TENSOR_Q4_K, 1, {256}, data, 144});
    gguf_finish(&w, out);
}

static const struct weights_value *value_of(const struct weights *weights, const char *key)
{
    const struct weights_value *value = weights_value(weights, key, strlen(key));
    ck_assert_msg(value != NULL, "%s is missing", key);
    return value;
}

static int64_t integer_of(const struct weights *weights, const char *key)
{
    int64_t integer;
    ck_assert_msg(weights_read_integer(value_of(weights, key), 0, &integer), "%s", key);
    return integer;
}

START_TEST(reads_scalars_of_every_type)
{
    struct buffer file = {0};
    struct weights weights;
    struct error error;
    double number;
    bool truth;
    int64_t integer;
    write_everything(&file);
    ck_assert_msg(read_exactly(file.data, file.size, &weights, &error) == STATUS_OK, "%s", error.text);
    ck_assert_int_eq(integer_of(&weights, "u8"), 200);
    ck_assert_int_eq(integer_of(&weights, "i8"), -3);
    ck_assert_int_eq(integer_of(&weights, "u16"), 60000);
    ck_assert_int_eq(integer_of(&weights, "i16"), -300);
    ck_assert_int_eq(integer_of(&weights, "u32"), 4000000000);
    ck_assert_int_eq(integer_of(&weights, "i32"), -70000);
    ck_assert_int_eq(integer_of(&weights, "u64"), INT64_C(1) << 40);
    ck_assert_int_eq(integer_of(&weights, "i64"), INT64_MIN);
    ck_assert(!weights_read_integer(value_of(&weights, "huge"), 0, &integer));
    ck_assert(!weights_read_integer(value_of(&weights, "f32"), 0, &integer));
    ck_assert(weights_read_number(value_of(&weights, "f32"), 0, &number) && number == 1.5);
    ck_assert(weights_read_number(value_of(&weights, "f64"), 0, &number) && number == 0.1);
    ck_assert(weights_read_number(value_of(&weights, "i8"), 0, &number) && number == -3);
    ck_assert(weights_read_bool(value_of(&weights, "yes"), 0, &truth) && truth);
    ck_assert(!weights_read_bool(value_of(&weights, "u8"), 0, &truth));
    ck_assert_ptr_null(weights_value(&weights, "u", 1));
    close_exactly(&weights);
    buffer_free(&file);
}
END_TEST

static void assert_text(const struct weights *weights, const char *key, uint64_t index, const char *expected)
{
    struct model_text text;
    ck_assert(weights_read_text(value_of(weights, key), index, &text));
    ck_assert_uint_eq(text.size, strlen(expected));
    ck_assert_mem_eq(text.data, expected, text.size);
}

START_TEST(reads_texts_and_arrays)
{
    struct buffer file = {0};
    struct weights weights;
    struct error error;
    struct model_text text;
    int64_t integer;
    write_everything(&file);
    ck_assert_msg(read_exactly(file.data, file.size, &weights, &error) == STATUS_OK, "%s", error.text);
    assert_text(&weights, "general.architecture", 0, "llama");
    assert_text(&weights, "empty", 0, "");
    assert_text(&weights, "texts", 0, "one");
    assert_text(&weights, "texts", 1, "");
    assert_text(&weights, "texts", 2, "three");
    ck_assert(!weights_read_text(value_of(&weights, "texts"), 3, &text));
    ck_assert(!weights_read_text(value_of(&weights, "none"), 0, &text));
    ck_assert(weights_read_integer(value_of(&weights, "numbers"), 0, &integer) && integer == -1);
    ck_assert(weights_read_integer(value_of(&weights, "numbers"), 2, &integer) && integer == 7);
    ck_assert(!weights_read_integer(value_of(&weights, "numbers"), 3, &integer));
    ck_assert_uint_eq(value_of(&weights, "nested")->count, 2);
    ck_assert(!weights_read_text(value_of(&weights, "nested"), 0, &text));
    close_exactly(&weights);
    buffer_free(&file);
}
END_TEST

START_TEST(finds_tensors_where_the_alignment_puts_them)
{
    struct buffer file = {0};
    struct weights weights;
    struct error error;
    write_everything(&file);
    ck_assert_msg(read_exactly(file.data, file.size, &weights, &error) == STATUS_OK, "%s", error.text);
    const struct weights_tensor *b = weights_tensor(&weights, "b.weight", 8), *c = weights_tensor(&weights, "c", 1);
    ck_assert_ptr_nonnull(b);
    ck_assert_ptr_nonnull(c);
    ck_assert_uint_eq(b->bytes, 68);
    ck_assert_uint_eq(b->elements, 64);
    ck_assert_uint_eq((uintptr_t)(b->data - weights.map.data) % 64, 0);
    ck_assert_uint_eq(b->data[67], 67);
    ck_assert_uint_eq(c->bytes, 144);
    ck_assert_ptr_eq(c->data + c->bytes, weights.map.data + weights.map.size);
    ck_assert_ptr_null(weights_tensor(&weights, "b", 1));
    close_exactly(&weights);
    buffer_free(&file);
}
END_TEST

/* ---- wrong files ---- */

START_TEST(refuses_a_file_cut_at_any_byte)
{
    struct buffer file = {0};
    struct weights weights;
    struct error error;
    write_everything(&file);
    for (size_t size = 0; size < file.size; size++) {
        ck_assert_msg(read_exactly(file.data, size, &weights, &error) == STATUS_INVALID, "read with %zu bytes", size);
        assert_is_a_sentence(&error);
        close_exactly(&weights);
    }
    buffer_free(&file);
}
END_TEST

/* Either refused with a sentence, or all that it claims is there. */
static void survive(const struct buffer *file)
{
    struct weights weights;
    struct error error;
    if (read_exactly(file->data, file->size, &weights, &error) == STATUS_OK)
        touch(&weights);
    else
        assert_is_a_sentence(&error);
    close_exactly(&weights);
}

START_TEST(survives_any_byte_being_another)
{
    static const uint8_t others[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    struct buffer file = {0};
    write_everything(&file);
    for (size_t at = 0; at < file.size; at++) {
        char right = file.data[at];
        for (size_t i = 0; i < sizeof(others); i++) {
            file.data[at] = (char)others[i];
            survive(&file);
        }
        for (int bit = 0; bit < 8; bit++) {
            file.data[at] = (char)((uint8_t)right ^ (uint8_t)(1u << bit));
            survive(&file);
        }
        file.data[at] = right;
    }
    buffer_free(&file);
}
END_TEST

START_TEST(survives_any_word_being_extreme)
{
    struct buffer file = {0};
    write_everything(&file);
    const uint64_t extremes[] = {0,
                                 1,
                                 UINT32_MAX,
                                 UINT64_C(1) << 32,
                                 UINT64_C(1) << 61,
                                 INT64_MAX,
                                 UINT64_C(1) << 63,
                                 UINT64_MAX - 7,
                                 UINT64_MAX,
                                 file.size,
                                 file.size - 1,
                                 UINT64_MAX / 34,
                                 UINT64_MAX / 4};
    for (size_t at = 4; at + 8 <= file.size; at++) {
        char right[8];
        memcpy(right, file.data + at, 8);
        for (size_t i = 0; i < sizeof(extremes) / sizeof(extremes[0]); i++) {
            memcpy(file.data + at, &extremes[i], 8);
            survive(&file);
        }
        memcpy(file.data + at, right, 8);
    }
    buffer_free(&file);
}
END_TEST

START_TEST(survives_random_damage)
{
    struct buffer file = {0};
    uint64_t random = test_seed() ^ 1;
    write_everything(&file);
    char *right = malloc(file.size);
    memcpy(right, file.data, file.size);
    for (int round = 0; round < (test_long() ? 200000 : 20000); round++) {
        uint64_t changes = 1 + test_random_below(&random, 8);
        for (uint64_t i = 0; i < changes; i++)
            file.data[test_random_below(&random, file.size)] = (char)test_random(&random);
        survive(&file);
        memcpy(file.data, right, file.size);
    }
    free(right);
    buffer_free(&file);
}
END_TEST

/* ---- each wrong thing, and the words for it ---- */

static void info(struct gguf_writer *w, const char *name, uint32_t dims, const uint64_t *shape, uint32_t type,
                 uint64_t offset)
{
    put_u64(&w->infos, strlen(name));
    buffer_text(&w->infos, name);
    put_u32(&w->infos, dims);
    for (uint32_t d = 0; d < dims; d++)
        put_u64(&w->infos, shape[d]);
    put_u32(&w->infos, type);
    put_u64(&w->infos, offset);
    w->tensor_count++;
}

static void old_version(struct gguf_writer *w)
{
    w->version = 1;
}

static void big_endian(struct gguf_writer *w)
{
    w->version = 0x03000000;
}

static void key_twice(struct gguf_writer *w)
{
    gguf_u32(w, "same", 1);
    gguf_u32(w, "same", 2);
}

static void key_empty(struct gguf_writer *w)
{
    gguf_u32(w, "", 1);
}

static void key_with_newline(struct gguf_writer *w)
{
    gguf_u32(w, "a\nb", 1);
}

static void key_not_utf8(struct gguf_writer *w)
{
    gguf_u32(w, "a\xff", 1);
}

static void value_of_unknown_type(struct gguf_writer *w)
{
    gguf_value(w, "odd", 13, zeros, 8);
}

static void array_of_unknown_type(struct gguf_writer *w)
{
    gguf_value(w, "odd", ARRAY, (const uint32_t[]){77, 1, 0, 0}, 16);
}

static void array_too_long(struct gguf_writer *w)
{
    gguf_value(w, "long", ARRAY, (const uint32_t[]){U64, 0, 0x20000000, 0}, 16);
}

static void bool_of_two(struct gguf_writer *w)
{
    gguf_value(w, "truth", BOOL, (const uint8_t[]){2}, 1);
}

static void arrays_too_deep(struct gguf_writer *w)
{
    struct buffer b = {0};
    for (int i = 0; i < 6; i++) {
        put_u32(&b, ARRAY);
        put_u64(&b, 1);
    }
    put_u32(&b, U8);
    put_u64(&b, 0);
    gguf_value(w, "deep", ARRAY, b.data, b.size);
    buffer_free(&b);
}

static void alignment_three(struct gguf_writer *w)
{
    gguf_u32(w, "general.alignment", 24);
}

static void alignment_zero(struct gguf_writer *w)
{
    gguf_u32(w, "general.alignment", 0);
}

static void alignment_text(struct gguf_writer *w)
{
    gguf_text(w, "general.alignment", "32");
}

static void tensor_twice(struct gguf_writer *w)
{
    gguf_tensor(w, &(struct gguf_tensor){"t", TENSOR_F32, 1, {8}, zeros, 32});
    gguf_tensor(w, &(struct gguf_tensor){"t", TENSOR_F32, 1, {8}, zeros, 32});
}

static void tensor_without_dims(struct gguf_writer *w)
{
    info(w, "t", 0, NULL, TENSOR_F32, 0);
}

static void tensor_of_five_dims(struct gguf_writer *w)
{
    info(w, "t", 5, (const uint64_t[]){1, 1, 1, 1, 1}, TENSOR_F32, 0);
}

static void tensor_with_zero_rows(struct gguf_writer *w)
{
    info(w, "t", 2, (const uint64_t[]){32, 0}, TENSOR_F32, 0);
}

static void tensor_that_overflows(struct gguf_writer *w)
{
    info(w, "t", 3, (const uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 31, 32}, TENSOR_F32, 0);
}

static void tensor_whose_bytes_overflow(struct gguf_writer *w)
{
    info(w, "t", 2, (const uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 30}, TENSOR_F32, 0);
}

static void tensor_of_unknown_type(struct gguf_writer *w)
{
    info(w, "t", 1, (const uint64_t[]){32}, 99, 0);
}

static void tensor_of_part_blocks(struct gguf_writer *w)
{
    info(w, "t", 2, (const uint64_t[]){48, 2}, TENSOR_Q8_0, 0);
}

static void tensor_not_aligned(struct gguf_writer *w)
{
    buffer_append(&w->data, zeros, 64);
    info(w, "t", 1, (const uint64_t[]){4}, TENSOR_F32, 4);
}

static void tensor_past_the_end(struct gguf_writer *w)
{
    buffer_append(&w->data, zeros, 64);
    info(w, "t", 1, (const uint64_t[]){16}, TENSOR_F32, 32);
}

static void tensors_overlap(struct gguf_writer *w)
{
    buffer_append(&w->data, zeros, 96);
    info(w, "t", 1, (const uint64_t[]){16}, TENSOR_F32, 0);
    info(w, "u", 1, (const uint64_t[]){16}, TENSOR_F32, 32);
}

static void too_many_values(struct gguf_writer *w)
{
    w->value_count = 65537;
}

static void too_many_tensors(struct gguf_writer *w)
{
    w->tensor_count = UINT64_MAX;
}

static const struct {
    void (*spoil)(struct gguf_writer *w);
    const char *words;
} wrong_files[] = {
    {old_version, "GGUF version 1; this program reads 2 and 3"},
    {big_endian, "big-endian"},
    {key_twice, "the metadata key 'same' is there twice"},
    {key_empty, "a metadata key is 0 bytes long"},
    {key_with_newline, "a metadata key holds a control character"},
    {key_not_utf8, "a metadata key is not valid UTF-8"},
    {value_of_unknown_type, "'odd' is of unknown type 13"},
    {array_of_unknown_type, "'odd' is an array of unknown type 77"},
    {array_too_long, "more than the file can hold"},
    {bool_of_two, "'truth' holds a boolean that is neither 0 nor 1"},
    {arrays_too_deep, "'deep' nests arrays deeper than 4"},
    {alignment_three, "general.alignment is 24; it must be a power of two"},
    {alignment_zero, "general.alignment is 0"},
    {alignment_text, "general.alignment is not an integer"},
    {tensor_twice, "the tensor 't' is there twice"},
    {tensor_without_dims, "the tensor 't' has 0 dimensions"},
    {tensor_of_five_dims, "the tensor 't' has 5 dimensions"},
    {tensor_with_zero_rows, "the tensor 't' has 0 elements in dimension 1"},
    {tensor_that_overflows, "more elements than a file can hold"},
    {tensor_whose_bytes_overflow, "more elements than a file can hold"},
    {tensor_of_unknown_type, "the tensor 't' is of type 99"},
    {tensor_of_part_blocks, "rows of 48 elements; Q8_0 comes in blocks of 32"},
    {tensor_not_aligned, "the tensor 't' lies at offset 4, not a multiple of 32"},
    {tensor_past_the_end, "the tensor 't' needs 64 bytes at offset 32"},
    {tensors_overlap, "the tensors 't' and 'u' overlap"},
    {too_many_values, "65537 metadata values; at most 65536"},
    {too_many_tensors, "18446744073709551615 tensors; at most 65536"},
};

START_TEST(says_what_is_wrong)
{
    struct gguf_writer w = {.version = 3, .alignment = 32};
    struct buffer file = {0};
    struct weights weights;
    struct error error;
    wrong_files[_i].spoil(&w);
    gguf_finish(&w, &file);
    ck_assert_int_eq(read_exactly(file.data, file.size, &weights, &error), STATUS_INVALID);
    assert_is_a_sentence(&error);
    ck_assert_msg(strstr(error.text, wrong_files[_i].words) != NULL, "'%s' does not say '%s'", error.text,
                  wrong_files[_i].words);
    close_exactly(&weights);
    buffer_free(&file);
}
END_TEST

START_TEST(a_file_of_another_kind_is_named_as_such)
{
    struct weights weights;
    struct error error;
    ck_assert_int_eq(weights_open("Makefile", &weights, &error), STATUS_INVALID);
    ck_assert_str_eq(error.text, "Makefile is not a model file: it does not begin with \"GGUF\"");
    ck_assert_int_eq(weights_open("no/such/file", &weights, &error), STATUS_NOT_FOUND);
    ck_assert_int_eq(weights_open("/dev/null", &weights, &error), STATUS_INVALID);
    ck_assert_int_eq(weights_open("tests", &weights, &error), STATUS_INVALID);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("gguf");
    TCase *t = tcase_create("reading");
    tcase_add_test(t, reads_scalars_of_every_type);
    tcase_add_test(t, reads_texts_and_arrays);
    tcase_add_test(t, finds_tensors_where_the_alignment_puts_them);
    tcase_add_test(t, refuses_a_file_cut_at_any_byte);
    tcase_add_test(t, survives_any_byte_being_another);
    tcase_add_test(t, survives_any_word_being_extreme);
    tcase_add_test(t, survives_random_damage);
    tcase_add_loop_test(t, says_what_is_wrong, 0, sizeof(wrong_files) / sizeof(wrong_files[0]));
    tcase_add_test(t, a_file_of_another_kind_is_named_as_such);
    suite_add_tcase(s, t);
    return s;
}
