/* What enters a key, and that it stays the same key. */
#include "cache/block_key.h"

#include <string.h>

#include "tests/unit/unit.h"

static bool same(struct block_key a, struct block_key b)
{
    return a.low == b.low && a.high == b.high;
}

static void fill_identity(struct kv_identity *identity)
{
    identity->weights_low = 1;
    identity->weights_high = 2;
    memcpy(identity->architecture, "llama", sizeof("llama"));
    identity->layers = 3;
    identity->heads = 9;
    identity->kv_heads = 3;
    identity->head_dim = 64;
    identity->rope_base = 100000.0;
    identity->rope_dims = 64;
    identity->norm_epsilon = 1e-5f;
    identity->rope_scaling = 0;
    identity->adapter = 0;
    identity->activations = ACTIVATIONS_INT8;
    identity->arithmetic_version = 1;
    struct kv_layout *layout = &identity->layout;
    layout->block_tokens = 32;
    layout->layers = 3;
    layout->group_count = 2;
    layout->page_bytes = 49152;
    for (uint32_t i = 0; i < 2; i++) {
        struct kv_group *group = &layout->groups[i];
        group->kind = i == 0 ? KV_FULL : KV_WINDOW;
        group->k_format = KV_F16;
        group->v_format = KV_F16;
        group->window = i == 0 ? 0 : 512;
        group->layers = 2 - i;
        group->heads = 3;
        group->head_dim = 64;
        group->page_tokens = 32;
        group->layer_bytes = 24576;
        group->used_bytes = 24576 * (size_t)group->layers;
    }
    for (uint32_t i = 0; i < 3; i++) {
        layout->layer_group[i] = i == 1;
        layout->layer_index[i] = i == 2;
    }
}

static struct block_key root_of(const struct kv_identity *identity)
{
    return block_key_root(identity, "tenant", 6, 7);
}

/* Changes one field at a time; every change must give a key that no other change gave. */
#define MUTATIONS_MAX 64

struct mutations {
    struct block_key keys[MUTATIONS_MAX];
    uint32_t count;
};

static void add_key(struct mutations *seen, struct block_key key, const char *what)
{
    for (uint32_t i = 0; i < seen->count; i++)
        ck_assert_msg(!same(seen->keys[i], key), "%s does not enter the root key", what);
    ck_assert_uint_lt(seen->count, MUTATIONS_MAX);
    seen->keys[seen->count++] = key;
}

#define MUTATE(field, value)                       \
    do {                                           \
        struct kv_identity changed = identity;     \
        changed.field = (value);                   \
        add_key(&seen, root_of(&changed), #field); \
    } while (0)

START_TEST(every_field_of_the_identity_enters_the_root)
{
    struct kv_identity identity;
    memset(&identity, 0, sizeof(identity));
    fill_identity(&identity);
    struct mutations seen = {.count = 0};
    add_key(&seen, root_of(&identity), "the identity itself");
    MUTATE(weights_low, 3);
    MUTATE(weights_high, 3);
    MUTATE(architecture[0], 'm');
    MUTATE(architecture[5], '2');
    MUTATE(layers, 4);
    MUTATE(heads, 3);
    MUTATE(kv_heads, 9);
    MUTATE(head_dim, 80);
    MUTATE(rope_base, 100000.5);
    MUTATE(rope_dims, 32);
    MUTATE(norm_epsilon, 1e-6f);
    MUTATE(rope_scaling, 1);
    MUTATE(adapter, 1);
    MUTATE(activations, ACTIVATIONS_F32);
    MUTATE(arithmetic_version, 2);
    MUTATE(layout.block_tokens, 16);
    MUTATE(layout.layers, 2);
    MUTATE(layout.group_count, 1);
    MUTATE(layout.page_bytes, 65536);
    MUTATE(layout.layer_group[0], 1);
    MUTATE(layout.layer_group[2], 1);
    MUTATE(layout.layer_index[0], 1);
    MUTATE(layout.layer_index[2], 2);
    for (uint32_t i = 0; i < 2; i++) {
        MUTATE(layout.groups[i].kind, KV_STATE);
        MUTATE(layout.groups[i].k_format, (enum kv_format)1);
        MUTATE(layout.groups[i].v_format, (enum kv_format)1);
        MUTATE(layout.groups[i].window, 256);
        MUTATE(layout.groups[i].layers, 7);
        MUTATE(layout.groups[i].heads, 1);
        MUTATE(layout.groups[i].head_dim, 128);
        MUTATE(layout.groups[i].page_tokens, 64);
        MUTATE(layout.groups[i].layer_bytes, 1);
        MUTATE(layout.groups[i].used_bytes, 1);
    }
}
END_TEST

START_TEST(namespace_and_epoch_enter_the_root)
{
    struct kv_identity identity;
    memset(&identity, 0, sizeof(identity));
    fill_identity(&identity);
    struct mutations seen = {.count = 0};
    add_key(&seen, block_key_root(&identity, "", 0, 0), "nothing");
    add_key(&seen, block_key_root(&identity, "", 0, 1), "epoch");
    add_key(&seen, block_key_root(&identity, "", 0, UINT64_C(1) << 32), "epoch, high half");
    add_key(&seen, block_key_root(&identity, "a", 1, 0), "namespace");
    add_key(&seen, block_key_root(&identity, "b", 1, 0), "namespace");
    add_key(&seen, block_key_root(&identity, "a\0", 2, 0), "a NUL in a namespace");
    char long_name[5000];
    memset(long_name, 'a', sizeof(long_name));
    add_key(&seen, block_key_root(&identity, long_name, sizeof(long_name), 0), "a long namespace");
    long_name[sizeof(long_name) - 1] = 'b';
    add_key(&seen, block_key_root(&identity, long_name, sizeof(long_name), 0), "the end of a long namespace");
}
END_TEST

START_TEST(padding_and_unused_members_do_not_enter_the_root)
{
    struct kv_identity zeros, ones;
    memset(&zeros, 0, sizeof(zeros));
    memset(&ones, 0xAA, sizeof(ones));
    fill_identity(&zeros);
    fill_identity(&ones);
    ck_assert(same(root_of(&zeros), root_of(&ones)));
}
END_TEST

START_TEST(an_architecture_that_fills_its_field_is_read_within_it)
{
    struct kv_identity identity;
    memset(&identity, 0, sizeof(identity));
    fill_identity(&identity);
    memset(identity.architecture, 'x', sizeof(identity.architecture));
    struct block_key full = root_of(&identity);
    identity.layers++; /* the bytes right after the field */
    ck_assert(!same(full, root_of(&identity)));
    identity.layers--;
    identity.architecture[sizeof(identity.architecture) - 1] = 'y';
    ck_assert(!same(full, root_of(&identity)));
}
END_TEST

/* The numbers are from tests/golden/make_block_keys.py; whatever changes them orphans every stored block. */
START_TEST(keys_are_the_same_in_every_process)
{
    struct kv_identity identity;
    memset(&identity, 0, sizeof(identity));
    fill_identity(&identity);
    struct block_key root = root_of(&identity);
    int32_t ids[32];
    for (int32_t i = 0; i < 32; i++)
        ids[i] = i * 1000 - 1;
    struct block_key first = block_key_next(root, ids, 32, NULL, 0);
    struct block_key second = block_key_next(first, ids, 32, "image", 5);
    ck_assert_uint_eq(root.low, UINT64_C(0x4B39F382C8525CF5));
    ck_assert_uint_eq(root.high, UINT64_C(0x7C75BA930FE9DCCA));
    ck_assert_uint_eq(first.low, UINT64_C(0xF0F7A82436893D67));
    ck_assert_uint_eq(first.high, UINT64_C(0x67D390AA643C309B));
    ck_assert_uint_eq(second.low, UINT64_C(0xDF181045A20275F7));
    ck_assert_uint_eq(second.high, UINT64_C(0x0C30A9ED5EA70EC8));
}
END_TEST

START_TEST(a_block_key_depends_on_parent_ids_order_and_extra)
{
    struct block_key parent = {.low = 1, .high = 2};
    int32_t ids[4] = {5, 6, 7, 8}, swapped[4] = {5, 7, 6, 8}, negative[4] = {5, 6, 7, -8};
    struct mutations seen = {.count = 0};
    add_key(&seen, block_key_next(parent, ids, 4, NULL, 0), "nothing");
    add_key(&seen, block_key_next((struct block_key){.low = 2, .high = 2}, ids, 4, NULL, 0), "the parent's low half");
    add_key(&seen, block_key_next((struct block_key){.low = 1, .high = 1}, ids, 4, NULL, 0), "the parent's high half");
    add_key(&seen, block_key_next(parent, swapped, 4, NULL, 0), "order");
    add_key(&seen, block_key_next(parent, negative, 4, NULL, 0), "sign");
    add_key(&seen, block_key_next(parent, ids, 3, NULL, 0), "count");
    add_key(&seen, block_key_next(parent, ids, 4, "x", 1), "extra");
    add_key(&seen, block_key_next(parent, ids, 4, "y", 1), "the bytes of extra");
}
END_TEST

/* Bytes that follow the ids hash as they would if they were ids: the two ways of hashing are one function. */
START_TEST(extra_bytes_follow_the_ids)
{
    struct block_key parent = {.low = 3, .high = 4};
    int32_t ids[KV_BLOCK_TOKENS_MAX];
    unsigned char bytes[sizeof(ids)];
    for (uint32_t i = 0; i < KV_BLOCK_TOKENS_MAX; i++) {
        ids[i] = (int32_t)(i * 2654435761u);
        for (uint32_t b = 0; b < 4; b++)
            bytes[4 * i + b] = (unsigned char)((uint32_t)ids[i] >> (8 * b));
    }
    for (uint32_t split = 0; split <= KV_BLOCK_TOKENS_MAX; split += 8) {
        struct block_key key = block_key_next(parent, ids, KV_BLOCK_TOKENS_MAX, NULL, 0);
        struct block_key cut =
            block_key_next(parent, ids, split, bytes + (size_t)4 * split, (size_t)4 * (KV_BLOCK_TOKENS_MAX - split));
        ck_assert(same(key, cut));
    }
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cache/block_key");
    TCase *tc = tcase_create("keys");
    tcase_add_test(tc, every_field_of_the_identity_enters_the_root);
    tcase_add_test(tc, namespace_and_epoch_enter_the_root);
    tcase_add_test(tc, padding_and_unused_members_do_not_enter_the_root);
    tcase_add_test(tc, an_architecture_that_fills_its_field_is_read_within_it);
    tcase_add_test(tc, keys_are_the_same_in_every_process);
    tcase_add_test(tc, a_block_key_depends_on_parent_ids_order_and_extra);
    tcase_add_test(tc, extra_bytes_follow_the_ids);
    suite_add_tcase(s, tc);
    return s;
}
