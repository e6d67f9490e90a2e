/* Whole requests through an engine whose block keys are cut to 8 bits: keys collide all the time, and not one reply may
 * differ from what an engine without a cache gives. */
#include <stdio.h>

#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

#define PROMPTS 2000
#define FAMILIES 40
#define LENGTH_MAX 120

/* The beginning of one of FAMILIES sequences, then ids of this prompt's own. */
static uint32_t draw_prompt(uint64_t number, uint64_t *random, int32_t *ids)
{
    uint32_t count = 2 + (uint32_t)test_random_below(random, LENGTH_MAX - 2);
    uint32_t shared = (uint32_t)test_random_below(random, count);
    int32_t own[LENGTH_MAX];
    bed_prompt(1 + test_random_below(random, FAMILIES), ids, count);
    bed_prompt(1000 + number, own, count);
    for (uint32_t i = shared; i < count; i++)
        ids[i] = own[i - shared];
    return count;
}

START_TEST(two_thousand_prompts_with_8_bit_keys_are_exact)
{
    struct bed cut, plain;
    uint64_t random = test_seed() * 77;
    uint64_t cached = 0, asked = 0;
    bed_open(&cut, &(struct bed_args){.key_bits = 8});
    bed_open(&plain, &(struct bed_args){.no_cache = true});
    for (uint64_t i = 0; i < PROMPTS; i++) {
        int32_t ids[LENGTH_MAX];
        uint32_t count = draw_prompt(i, &random, ids);
        struct bed_reply *warm = bed_run(&cut, bed_call(ids, count, 2));
        struct bed_reply *cold = bed_run(&plain, bed_call(ids, count, 2));
        bed_expect_equal(warm, 0, cold, 0);
        cached += warm->usage.cached_tokens;
        asked += count;
        bed_release(warm);
        bed_release(cold);
    }
    printf("8-bit keys: %d prompts, %llu of %llu prompt tokens cached, every reply equal\n", PROMPTS,
           (unsigned long long)cached, (unsigned long long)asked);
    ck_assert_uint_gt(cached, asked / 8);
    bed_expect_baseline(&cut);
    bed_close(&cut);
    bed_close(&plain);
}
END_TEST

Suite *suite(void)
{
    Suite *tests = suite_create("collisions");
    TCase *all = tcase_create("collisions");
    tcase_add_test(all, two_thousand_prompts_with_8_bit_keys_are_exact);
    suite_add_tcase(tests, all);
    return tests;
}
