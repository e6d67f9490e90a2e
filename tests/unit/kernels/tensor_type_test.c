/* Decoding of tensor types against what the `gguf` package gives: tests/golden/make_dequantize.py. */
#include <stdlib.h>
#include <string.h>

#include "kernels/base/buffer.h"
#include "kernels/base/file.h"
#include "kernels/kernels.h"
#include "tests/unit/unit.h"

START_TEST(every_type_decodes_to_the_bits_of_the_gguf_package)
{
    struct buffer golden = {0};
    struct error error;
    ck_assert_msg(file_read("tests/golden/dequantize.bin", 1 << 20, &golden, &error) == STATUS_OK, "%s", error.text);
    size_t at = 0;
    int types = 0;
    while (at < golden.size) {
        uint32_t header[2];
        memcpy(header, golden.data + at, sizeof(header));
        at += sizeof(header);
        const struct tensor_type_facts *facts = tensor_type_facts(header[0]);
        ck_assert_ptr_nonnull(facts->name);
        size_t bytes = header[1] / facts->block_elements * facts->block_bytes, value_bytes = header[1] * sizeof(float);
        ck_assert_uint_le(at + bytes + value_bytes, golden.size);
        float *values = malloc(value_bytes);
        tensor_dequantize((enum tensor_type)header[0], golden.data + at, header[1], values);
        at += bytes;
        ck_assert_msg(memcmp(values, golden.data + at, value_bytes) == 0, "%s decodes differently", facts->name);
        at += value_bytes;
        free(values);
        types++;
    }
    ck_assert_int_eq(types, 10);
    buffer_free(&golden);
}
END_TEST

START_TEST(binary32_is_copied_from_any_address)
{
    uint8_t bytes[13] = {0};
    float values[3] = {1.5f, -0.0f, 3e38f}, out[3];
    memcpy(bytes + 1, values, sizeof(values));
    tensor_dequantize(TENSOR_F32, bytes + 1, 3, out);
    ck_assert_mem_eq(out, values, sizeof(values));
}
END_TEST

START_TEST(unknown_types_have_no_name)
{
    static const uint32_t unknown[] = {4, 5, 9, 10, 11, 15, 29, 31, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        ck_assert_ptr_null(tensor_type_facts(unknown[i])->name);
    ck_assert_str_eq(tensor_type_facts(TENSOR_Q6_K)->name, "Q6_K");
    ck_assert_uint_eq(tensor_type_facts(TENSOR_Q6_K)->block_bytes, 210);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("tensor_type");
    TCase *t = tcase_create("tensor_type");
    tcase_add_test(t, every_type_decodes_to_the_bits_of_the_gguf_package);
    tcase_add_test(t, binary32_is_copied_from_any_address);
    tcase_add_test(t, unknown_types_have_no_name);
    suite_add_tcase(s, t);
    return s;
}
