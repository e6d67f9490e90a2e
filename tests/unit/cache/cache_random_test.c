/* Long random runs of everything a server does to its cache, in worlds that know what every row must hold. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/cache/kv_world.h"
#include "tests/unit/unit.h"

#define PROMPT_MAX 96
#define HISTORY 48
#define WAITERS 16
#define NAMES 2

struct prompt {
    uint64_t name;
    uint32_t count;
    int32_t ids[PROMPT_MAX];
};

/* A request on its way through the world. */
struct request {
    struct sequence *sequence; /* NULL: none */
    struct prompt prompt;
};

struct run {
    struct world world;
    uint64_t random;
    uint32_t alphabet;
    struct prompt history[HISTORY]; /* prompts and outputs of before, to build on */
    struct request requests[WORLD_SEQUENCES_MAX];
    struct prompt waiters[WAITERS];
    uint32_t waiting;
    uint32_t finished;
    uint32_t refused;
    uint32_t waited;
};

static uint32_t below(struct run *run, uint32_t limit)
{
    return (uint32_t)test_random_below(&run->random, limit);
}

/* Something of before, cut anywhere, and something new: resent, continued, edited and fresh prompts alike. */
static struct prompt draw_prompt(struct run *run)
{
    struct prompt prompt = run->history[below(run, HISTORY)];
    if (prompt.count == 0 || below(run, 8) == 0)
        prompt = (struct prompt){.name = below(run, NAMES)};
    if (prompt.count > 0 && below(run, 2) == 0)
        prompt.count = below(run, prompt.count + 1);
    uint32_t more = below(run, 3) == 0 ? 0 : below(run, 24);
    for (uint32_t i = 0; i < more && prompt.count < PROMPT_MAX; i++)
        prompt.ids[prompt.count++] = (int32_t)below(run, run->alphabet);
    if (prompt.count == 0)
        prompt.ids[prompt.count++] = (int32_t)below(run, run->alphabet);
    return prompt;
}

static void remember(struct run *run, const struct prompt *prompt)
{
    run->history[below(run, HISTORY)] = *prompt;
}

static bool start(struct run *run, const struct prompt *prompt)
{
    uint32_t free_slot = 0;
    while (free_slot < WORLD_SEQUENCES_MAX && run->requests[free_slot].sequence != NULL)
        free_slot++;
    if (free_slot == WORLD_SEQUENCES_MAX)
        return false;
    struct sequence *sequence = world_acquire(&run->world, prompt->name, prompt->ids, prompt->count);
    if (sequence == NULL) {
        run->refused++;
        return false;
    }
    run->requests[free_slot] = (struct request){.sequence = sequence, .prompt = *prompt};
    remember(run, prompt);
    return true;
}

static void arrive(struct run *run)
{
    struct prompt prompt = draw_prompt(run);
    struct cache_lookup found = world_peek(&run->world, prompt.name, prompt.ids, prompt.count);
    if (found.pending > found.hit && run->waiting < WAITERS && below(run, 4) > 0) {
        run->waiters[run->waiting++] = prompt;
        return;
    }
    uint32_t choices = below(run, 10) == 0 ? 1 + below(run, 4) : 1;
    for (uint32_t i = 0; i < choices; i++)
        start(run, &prompt);
}

/* Whoever waits asks again after each step. */
static void ask_again(struct run *run)
{
    for (uint32_t i = 0; i < run->waiting; i++) {
        struct prompt prompt = run->waiters[i];
        struct cache_lookup found = world_peek(&run->world, prompt.name, prompt.ids, prompt.count);
        if (found.pending > found.hit || !start(run, &prompt))
            continue;
        run->waited++;
        run->waiters[i--] = run->waiters[--run->waiting];
    }
}

static struct request *draw_request(struct run *run)
{
    struct request *live[WORLD_SEQUENCES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < WORLD_SEQUENCES_MAX; i++) {
        if (run->requests[i].sequence != NULL)
            live[count++] = &run->requests[i];
    }
    return count == 0 ? NULL : live[below(run, count)];
}

static void finish(struct run *run, struct request *request)
{
    world_release(&run->world, request->sequence);
    request->sequence = NULL;
    run->finished++;
}

/* Plans a chunk of prefill or a token of decode. False: the pool has no page. */
static bool plan(struct run *run, struct request *request)
{
    struct sequence *sequence = request->sequence;
    struct prompt *prompt = &request->prompt;
    if (sequence->tokens == prompt->count) {
        if (prompt->count == PROMPT_MAX)
            return true;
        prompt->ids[prompt->count++] = (int32_t)below(run, run->alphabet);
    }
    uint32_t left = prompt->count - sequence->tokens;
    uint32_t chunk = below(run, 2) == 0 ? left : 1 + below(run, left);
    return world_extend(&run->world, sequence, prompt->ids + sequence->tokens, chunk);
}

/* Planning and committing drift apart, so that others find what is only planned. */
static void step(struct run *run, struct request *request)
{
    struct sequence *sequence = request->sequence;
    if (sequence->tokens == sequence->committed || below(run, 2) == 0) {
        if (!plan(run, request)) {
            run->refused++;
            if (below(run, 2) == 0)
                finish(run, request); /* preempted */
            return;
        }
    }
    uint32_t uncommitted = sequence->tokens - sequence->committed;
    if (below(run, 2) == 0)
        world_commit(&run->world, sequence, below(run, 3) > 0 ? uncommitted : below(run, uncommitted + 1));
}

static void end(struct run *run, struct request *request)
{
    struct sequence *sequence = request->sequence;
    remember(run, &request->prompt);
    if (below(run, 3) == 0) /* cancelled in the middle of a step: rows are written that nobody committed */
        world_compute(&run->world, sequence, below(run, sequence->tokens - sequence->committed + 1));
    finish(run, request);
}

static void operate(struct run *run)
{
    struct request *request = draw_request(run);
    uint32_t draw = below(run, 100);
    if (request == NULL || draw < 30)
        arrive(run);
    else if (draw < 80)
        step(run, request);
    else
        end(run, request);
    ask_again(run);
}

static void run_random(const char *what, struct world_args args, uint32_t alphabet, uint32_t operations)
{
    static struct run run;
    memset(&run, 0, sizeof(run));
    run.random = test_seed() * 1000003 + args.pages * 31 + alphabet;
    run.alphabet = alphabet;
    world_open(&run.world, &args);
    for (uint32_t i = 0; i < operations; i++)
        operate(&run);
    for (uint32_t i = 0; i < WORLD_SEQUENCES_MAX; i++) {
        if (run.requests[i].sequence != NULL)
            finish(&run, &run.requests[i]);
    }
    ask_again(&run);
    struct cache_stats stats = cache_stats(run.world.cache);
    printf("%s: %u operations, %u requests, %u waited, %u busy, hit %" PRIu64 " of %" PRIu64 " tokens (%" PRIu64
           " copied), %" PRIu64 " evicted, %" PRIu64 " merged, %" PRIu64 " collisions\n",
           what, operations, run.finished, run.waited, run.refused, stats.hit_tokens, stats.lookup_tokens,
           stats.copied_tokens, stats.evicted_blocks, stats.merged_blocks, stats.collisions);
    ck_assert_uint_gt(stats.hit_tokens, 0);
    ck_assert_uint_gt(stats.copied_tokens, 0);
    ck_assert_uint_gt(run.waited, 0);
    if (args.key_bits > 0) {
        ck_assert_uint_gt(stats.collisions, 0);
        ck_assert_uint_ge(run.world.hit_tokens * 100, run.world.available_tokens * 99);
    } else {
        ck_assert_uint_eq(stats.collisions, 0);
        ck_assert_uint_eq(run.world.hit_tokens, run.world.available_tokens);
    }
    world_close(&run.world);
}

static uint32_t times(uint32_t operations)
{
    return test_long() ? operations * 10 : operations;
}

START_TEST(a_pool_with_room_serves_every_prefix_it_ever_saw)
{
    struct world_args args = {.block_tokens = 4, .pages = 400, .leases = 16};
    run_random("room", args, 3, times(20000));
}
END_TEST

START_TEST(a_pool_under_eviction_serves_what_is_left)
{
    struct world_args args = {.block_tokens = 4, .pages = 60, .leases = 12};
    run_random("eviction", args, 3, times(40000));
}
END_TEST

START_TEST(an_exhausted_pool_refuses_without_side_effects)
{
    struct world_args args = {.block_tokens = 4, .pages = 26, .leases = 8};
    run_random("exhausted", args, 2, times(40000));
}
END_TEST

START_TEST(blocks_of_16_and_three_groups_share_one_pool)
{
    struct world_args args = {.block_tokens = 16, .groups = 3, .pages = 100, .leases = 10};
    run_random("groups", args, 2, times(20000));
}
END_TEST

START_TEST(keys_cut_to_8_bits_never_serve_another_prefix)
{
    struct world_args args = {
        .block_tokens = 4, .pages = 300, .leases = 16, .key_bits = 8, .shorter_hits_allowed = true};
    run_random("8-bit keys", args, 3, times(15000));
}
END_TEST

START_TEST(keys_cut_to_1_bit_under_eviction_never_serve_another_prefix)
{
    struct world_args args = {
        .block_tokens = 8, .pages = 50, .leases = 10, .key_bits = 1, .shorter_hits_allowed = true};
    run_random("1-bit keys", args, 2, times(15000));
}
END_TEST

/* 2,000 prompts that share prefixes, some kept running, with 8-bit keys: the traps list's own case. */
START_TEST(two_thousand_prompts_stay_exact_with_8_bit_keys)
{
    static struct world world;
    uint64_t random = test_seed() + 8;
    struct world_args args = {.block_tokens = 16, .pages = 4000, .key_bits = 8, .shorter_hits_allowed = true};
    world_open(&world, &args);
    int32_t heads[8][200];
    for (uint32_t h = 0; h < 8; h++) {
        for (uint32_t i = 0; i < 200; i++)
            heads[h][i] = (int32_t)test_random_below(&random, 4);
    }
    for (uint32_t i = 0; i < 2000; i++) {
        int32_t ids[400];
        uint32_t count = (uint32_t)test_random_below(&random, 200);
        memcpy(ids, heads[test_random_below(&random, 8)], count * sizeof(*ids));
        uint32_t more = 1 + (uint32_t)test_random_below(&random, 60);
        for (uint32_t j = 0; j < more; j++)
            ids[count++] = (int32_t)test_random_below(&random, 4);
        world_request(&world, 0, ids, count);
    }
    struct cache_stats stats = cache_stats(world.cache);
    printf("2,000 prompts: hit %" PRIu64 " of %" PRIu64 " available tokens, %" PRIu64 " collisions, %" PRIu64
           " evicted\n",
           world.hit_tokens, world.available_tokens, stats.collisions, stats.evicted_blocks);
    ck_assert_uint_gt(stats.collisions, 1000);
    ck_assert_uint_ge(world.hit_tokens * 100, world.available_tokens * 99);
    world_close(&world);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("cache/random");
    TCase *tc = tcase_create("random");
    tcase_add_test(tc, a_pool_with_room_serves_every_prefix_it_ever_saw);
    tcase_add_test(tc, a_pool_under_eviction_serves_what_is_left);
    tcase_add_test(tc, an_exhausted_pool_refuses_without_side_effects);
    tcase_add_test(tc, blocks_of_16_and_three_groups_share_one_pool);
    tcase_add_test(tc, keys_cut_to_8_bits_never_serve_another_prefix);
    tcase_add_test(tc, keys_cut_to_1_bit_under_eviction_never_serve_another_prefix);
    tcase_add_test(tc, two_thousand_prompts_stay_exact_with_8_bit_keys);
    suite_add_tcase(s, tc);
    return s;
}
