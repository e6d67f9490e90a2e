/* How layers are cut into groups and where K and V of a head lie. */
#include <string.h>

#include "kernels/kv_layout.h"
#include "tests/unit/unit.h"

static const struct kv_layer_shape full = {KV_FULL, 0, 3, 64};

/* Plans `layers` layers, every `period`-th one full and the rest windowed; period 1: all full. */
static enum status plan(uint32_t layers, uint32_t period, struct kv_layer_shape shape, uint32_t block_tokens,
                        struct kv_layout *layout, struct error *error)
{
    struct kv_layer_shape shapes[KV_LAYERS_MAX + 1];
    for (uint32_t i = 0; i < layers; i++) {
        shapes[i] = shape;
        if ((i + 1) % period != 0) {
            shapes[i].kind = KV_WINDOW;
            shapes[i].window = 512;
        }
    }
    return kv_layout_plan(shapes, layers, block_tokens, KV_F16, KV_F16, layout, error);
}

START_TEST(equal_layers_make_one_group_without_padding)
{
    struct kv_layout layout;
    struct error error;
    ck_assert_int_eq(plan(30, 1, full, 32, &layout, &error), STATUS_OK);
    ck_assert_uint_eq(layout.group_count, 1);
    ck_assert_uint_eq(layout.groups[0].layers, 30);
    ck_assert_uint_eq(layout.groups[0].page_tokens, 32);
    ck_assert_uint_eq(layout.page_bytes, 30u * 32 * 3 * 64 * 2 * 2);
    ck_assert_uint_eq(layout.groups[0].used_bytes, layout.page_bytes);
    ck_assert_uint_eq(kv_layout_token_bytes(&layout), 30u * 3 * 64 * 2 * 2);
    for (uint32_t i = 0; i < 30; i++) {
        ck_assert_uint_eq(layout.layer_group[i], 0);
        ck_assert_uint_eq(layout.layer_index[i], i);
    }
}
END_TEST

START_TEST(fifteen_local_and_three_global_layers_make_six_groups_of_three)
{
    struct kv_layout layout;
    struct error error;
    uint32_t windowed = 0, layers[KV_GROUPS_MAX] = {0};
    ck_assert_int_eq(plan(18, 6, (struct kv_layer_shape){KV_FULL, 0, 1, 256}, 32, &layout, &error), STATUS_OK);
    ck_assert_uint_eq(layout.group_count, 6);
    for (uint32_t g = 0; g < 6; g++) {
        ck_assert_uint_eq(layout.groups[g].layers, 3);
        ck_assert_uint_eq(layout.groups[g].used_bytes, layout.page_bytes);
        windowed += layout.groups[g].kind == KV_WINDOW && layout.groups[g].window == 512;
    }
    ck_assert_uint_eq(windowed, 5);
    for (uint32_t i = 0; i < 18; i++) {
        uint32_t g = layout.layer_group[i];
        ck_assert_int_eq(layout.groups[g].kind, (i + 1) % 6 == 0 ? KV_FULL : KV_WINDOW);
        ck_assert_uint_eq(layout.layer_index[i], layers[g]++);
    }
}
END_TEST

START_TEST(layers_of_half_the_size_put_twice_the_tokens_in_a_page)
{
    struct kv_layer_shape shapes[2] = {{KV_FULL, 0, 4, 64}, {KV_WINDOW, 128, 2, 64}};
    struct kv_layout layout;
    struct error error;
    ck_assert_int_eq(kv_layout_plan(shapes, 2, 32, KV_F16, KV_F16, &layout, &error), STATUS_OK);
    ck_assert_uint_eq(layout.group_count, 2);
    ck_assert_uint_eq(layout.groups[0].page_tokens, 32);
    ck_assert_uint_eq(layout.groups[1].page_tokens, 64);
    ck_assert_uint_eq(layout.groups[1].used_bytes, layout.page_bytes);
}
END_TEST

/* Every byte of K and V of every head of every layer, counted once, whatever the shapes. */
START_TEST(heads_never_overlap_and_stay_in_the_page)
{
    uint64_t random = test_seed();
    for (int round = 0; round < 200; round++) {
        struct kv_layer_shape shapes[40];
        struct kv_layout layout;
        struct error error;
        uint32_t layers = 1 + (uint32_t)test_random_below(&random, 40);
        uint32_t block_tokens = 16u << test_random_below(&random, 5);
        for (uint32_t i = 0; i < layers; i++) {
            bool window = test_random_below(&random, 2) == 0;
            shapes[i] = (struct kv_layer_shape){window ? KV_WINDOW : KV_FULL, window ? 128 : 0,
                                                window && round % 2 == 0 ? 2 : 3, 16 * (1 + (uint32_t)(round % 16))};
        }
        if (kv_layout_plan(shapes, layers, block_tokens, KV_F16, KV_F16, &layout, &error) != STATUS_OK) {
            ck_assert_ptr_nonnull(strstr(error.text, "groups"));
            continue;
        }
        ck_assert_uint_eq(layout.page_bytes % 64, 0);
        for (uint32_t i = 0; i < layers; i++) {
            const struct kv_group *group = &layout.groups[layout.layer_group[i]];
            ck_assert_uint_eq(group->heads, shapes[i].heads);
            ck_assert_int_eq(group->kind, shapes[i].kind);
            ck_assert_uint_eq(256 % group->page_tokens, 0);
            ck_assert_uint_eq(group->page_tokens % block_tokens, 0);
            size_t half = (size_t)group->head_dim * group->page_tokens * 2;
            for (uint32_t h = 0; h < group->heads; h++) {
                size_t expected = (layout.layer_index[i] * group->heads + h) * 2 * half;
                ck_assert_uint_eq(kv_offset_k(group, layout.layer_index[i], h), expected);
                ck_assert_uint_eq(kv_offset_v(group, layout.layer_index[i], h), expected + half);
            }
            ck_assert_uint_le((layout.layer_index[i] + 1) * group->layer_bytes, layout.page_bytes);
        }
    }
}
END_TEST

START_TEST(what_cannot_be_laid_out_is_refused_with_the_value)
{
    struct kv_layout layout;
    struct error error;
    ck_assert_int_eq(plan(2, 1, full, 24, &layout, &error), STATUS_INVALID);
    ck_assert_str_eq(error.field, "block-tokens");
    ck_assert_ptr_nonnull(strstr(error.text, "24"));
    ck_assert_int_eq(plan(2, 1, full, 512, &layout, &error), STATUS_INVALID);
    ck_assert_int_eq(plan(2, 1, full, 8, &layout, &error), STATUS_INVALID);
    ck_assert_int_eq(plan(0, 1, full, 32, &layout, &error), STATUS_UNSUPPORTED);
    ck_assert_int_eq(plan(KV_LAYERS_MAX + 1, 1, full, 32, &layout, &error), STATUS_UNSUPPORTED);
    ck_assert_int_eq(plan(2, 1, (struct kv_layer_shape){KV_FULL, 0, 3, 40}, 32, &layout, &error), STATUS_UNSUPPORTED);
    ck_assert_int_eq(plan(2, 1, (struct kv_layer_shape){KV_FULL, 0, 3, 272}, 32, &layout, &error), STATUS_UNSUPPORTED);
    ck_assert_int_eq(plan(2, 1, (struct kv_layer_shape){KV_FULL, 0, 0, 64}, 32, &layout, &error), STATUS_UNSUPPORTED);
    ck_assert_int_eq(plan(2, 1, (struct kv_layer_shape){KV_FULL, 7, 3, 64}, 32, &layout, &error), STATUS_INVALID);
    ck_assert_int_eq(plan(2, 1, (struct kv_layer_shape){KV_WINDOW, 0, 3, 64}, 32, &layout, &error), STATUS_INVALID);
    ck_assert_int_eq(plan(2, 1, (struct kv_layer_shape){KV_STATE, 0, 3, 64}, 32, &layout, &error), STATUS_UNSUPPORTED);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("kv_layout");
    TCase *t = tcase_create("kv_layout");
    tcase_add_test(t, equal_layers_make_one_group_without_padding);
    tcase_add_test(t, fifteen_local_and_three_global_layers_make_six_groups_of_three);
    tcase_add_test(t, layers_of_half_the_size_put_twice_the_tokens_in_a_page);
    tcase_add_test(t, heads_never_overlap_and_stay_in_the_page);
    tcase_add_test(t, what_cannot_be_laid_out_is_refused_with_the_value);
    suite_add_tcase(s, t);
    return s;
}
