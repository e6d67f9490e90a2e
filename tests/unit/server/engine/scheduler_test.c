/* The rules of scheduler.h one by one, then whole lives of sequences over a toy pool: everything must finish. */
#include "server/engine/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static const struct scheduler_limits limits = {
    .sequences_max = 4,
    .rows_max = 68,
    .prefill_chunk = 64,
    .block_tokens = 16,
    .pages_per_block = 1,
};

static struct scheduler_sequence waiting(uint32_t rows, uint32_t pages)
{
    return (struct scheduler_sequence){
        .phase = SCHEDULER_WAITING, .slots = 1, .rows_left = rows, .pages_needed = pages};
}

static struct scheduler_sequence prefilling(uint32_t rows)
{
    return (struct scheduler_sequence){.phase = SCHEDULER_PREFILL, .slots = 1, .rows_left = rows, .pages_held = 4};
}

static struct scheduler_sequence decoding(uint32_t pages_needed, uint32_t pages_held)
{
    return (struct scheduler_sequence){
        .phase = SCHEDULER_DECODE, .slots = 1, .rows_left = 1, .pages_needed = pages_needed, .pages_held = pages_held};
}

struct planned {
    struct scheduler_decision decisions[16];
};

static struct planned plan_with(const struct scheduler_limits *given, const struct scheduler_sequence *sequences,
                                uint32_t count, uint32_t pages)
{
    struct planned planned;
    struct scheduler_state state = {.sequences = sequences, .count = count, .pages_available = pages};
    scheduler_plan(given, &state, planned.decisions);
    return planned;
}

static struct planned plan(const struct scheduler_sequence *sequences, uint32_t count, uint32_t pages)
{
    return plan_with(&limits, sequences, count, pages);
}

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

static void expect_decision(const struct scheduler_decision *decision, uint32_t i, enum scheduler_action action,
                            uint32_t rows)
{
    ck_assert_msg(decision->action == action && decision->rows == rows,
                  "sequence %u: action %d rows %u, expected %d %u", i, decision->action, decision->rows, action, rows);
}

static void expect(const struct planned *planned, uint32_t i, enum scheduler_action action, uint32_t rows)
{
    expect_decision(&planned->decisions[i], i, action, rows);
}

START_TEST(decoding_rows_come_before_a_long_prompt)
{
    struct scheduler_sequence s[] = {prefilling(1000), decoding(0, 2), decoding(1, 2)};
    struct planned p = plan(s, COUNT(s), 10);
    expect(&p, 0, SCHEDULER_RUN, 64);
    expect(&p, 1, SCHEDULER_RUN, 1);
    expect(&p, 2, SCHEDULER_RUN, 1);
}
END_TEST

START_TEST(the_oldest_prompt_takes_the_rows_first)
{
    struct scheduler_sequence s[] = {prefilling(40), prefilling(40), prefilling(40)};
    struct planned p = plan(s, COUNT(s), 10);
    expect(&p, 0, SCHEDULER_RUN, 40);
    expect(&p, 1, SCHEDULER_RUN, 24);
    expect(&p, 2, SCHEDULER_IDLE, 0);
}
END_TEST

START_TEST(those_waiting_enter_in_order_of_arrival)
{
    struct scheduler_sequence s[] = {decoding(0, 2), waiting(10, 1), waiting(20, 2), waiting(10, 1), waiting(10, 1)};
    struct planned p = plan(s, COUNT(s), 50);
    expect(&p, 1, SCHEDULER_ADMIT, 10);
    expect(&p, 2, SCHEDULER_ADMIT, 20);
    expect(&p, 3, SCHEDULER_ADMIT, 10);
    expect(&p, 4, SCHEDULER_IDLE, 0); /* no slot */
}
END_TEST

START_TEST(nobody_overtakes_one_that_lacks_pages)
{
    struct scheduler_sequence s[] = {decoding(0, 2), waiting(300, 19), waiting(10, 1)};
    struct planned p = plan(s, COUNT(s), 15);
    expect(&p, 0, SCHEDULER_RUN, 1);
    expect(&p, 1, SCHEDULER_IDLE, 0);
    expect(&p, 2, SCHEDULER_IDLE, 0);
}
END_TEST

START_TEST(nobody_overtakes_one_that_lacks_slots)
{
    struct scheduler_sequence s[] = {decoding(0, 2), waiting(10, 1), waiting(10, 1)};
    s[1].slots = 4;
    struct planned p = plan(s, COUNT(s), 50);
    expect(&p, 1, SCHEDULER_IDLE, 0);
    expect(&p, 2, SCHEDULER_IDLE, 0);
}
END_TEST

START_TEST(one_held_back_lets_the_others_pass)
{
    struct scheduler_sequence s[] = {prefilling(20), waiting(100, 7), waiting(30, 2)};
    s[1].held_back = true;
    struct planned p = plan(s, COUNT(s), 50);
    expect(&p, 0, SCHEDULER_RUN, 20);
    expect(&p, 1, SCHEDULER_IDLE, 0);
    expect(&p, 2, SCHEDULER_ADMIT, 30);
}
END_TEST

START_TEST(admission_leaves_a_block_for_each_that_runs)
{
    struct scheduler_sequence s[] = {decoding(0, 2), decoding(0, 2), waiting(30, 2)};
    struct planned p = plan(s, COUNT(s), 3);
    expect(&p, 2, SCHEDULER_IDLE, 0);
    p = plan(s, COUNT(s), 4);
    expect(&p, 2, SCHEDULER_ADMIT, 30);
}
END_TEST

START_TEST(one_alone_may_take_the_last_page)
{
    struct scheduler_sequence s[] = {waiting(64, 4)};
    struct planned p = plan(s, COUNT(s), 4);
    expect(&p, 0, SCHEDULER_ADMIT, 64);
}
END_TEST

START_TEST(a_choice_that_waits_for_one_row_is_not_kept_by_the_budget)
{
    struct scheduler_sequence s[] = {prefilling(1000), waiting(1, 1), waiting(2, 1)};
    struct planned p = plan(s, COUNT(s), 50);
    expect(&p, 0, SCHEDULER_RUN, 64);
    expect(&p, 1, SCHEDULER_ADMIT, 1);
    expect(&p, 2, SCHEDULER_IDLE, 0);
}
END_TEST

START_TEST(the_youngest_gives_way_never_the_oldest)
{
    struct scheduler_sequence s[] = {decoding(1, 9), decoding(0, 5), decoding(0, 3), waiting(5, 1)};
    struct planned p = plan(s, COUNT(s), 0);
    expect(&p, 0, SCHEDULER_RUN, 1);
    expect(&p, 1, SCHEDULER_RUN, 1);
    expect(&p, 2, SCHEDULER_PREEMPT, 0);
    expect(&p, 3, SCHEDULER_IDLE, 0); /* a plan that preempts admits nobody */
}
END_TEST

START_TEST(preemption_goes_on_until_the_pages_suffice)
{
    struct scheduler_sequence s[] = {decoding(2, 9), decoding(0, 1), prefilling(50), decoding(0, 1)};
    s[2].pages_held = 0;
    struct planned p = plan(s, COUNT(s), 0);
    expect(&p, 0, SCHEDULER_RUN, 1);
    expect(&p, 1, SCHEDULER_PREEMPT, 0);
    expect(&p, 2, SCHEDULER_PREEMPT, 0);
    expect(&p, 3, SCHEDULER_PREEMPT, 0);
}
END_TEST

START_TEST(the_youngest_stands_still_when_only_it_lacks_a_page)
{
    struct scheduler_sequence s[] = {decoding(0, 9), decoding(1, 5), waiting(5, 0)};
    struct planned p = plan(s, COUNT(s), 0);
    expect(&p, 0, SCHEDULER_RUN, 1);
    expect(&p, 1, SCHEDULER_IDLE, 0);
    expect(&p, 2, SCHEDULER_IDLE, 0);
}
END_TEST

static uint32_t timed_rows(uint32_t step_ms, struct step_cost cost, uint32_t position, uint32_t decode_position)
{
    struct scheduler_limits timed = limits;
    struct scheduler_decision decisions[2];
    struct scheduler_sequence s[] = {decoding(0, 1), prefilling(1000)};
    s[0].position = decode_position;
    s[1].position = position;
    struct scheduler_state state = {.sequences = s, .count = COUNT(s), .pages_available = 9, .cost = cost};
    timed.step_ms = step_ms;
    timed.prefill_chunk = 512;
    timed.rows_max = 516;
    scheduler_plan(&timed, &state, decisions);
    return decisions[1].rows;
}

START_TEST(the_chunk_follows_the_measured_speed)
{
    ck_assert_uint_eq(timed_rows(100, (struct step_cost){.speed = 2}, 0, 0), 200 - 8 - 1);
    ck_assert_uint_eq(timed_rows(100, (struct step_cost){.speed = 50}, 0, 0), 512);
    ck_assert_uint_eq(timed_rows(100, (struct step_cost){.speed = 0.01}, 0, 0), 8); /* a few, however slow */
    ck_assert_uint_eq(timed_rows(0, (struct step_cost){.speed = 0.01}, 0, 0), 512);
    ck_assert_uint_eq(timed_rows(100, (struct step_cost){0}, 0, 0), 63); /* not measured yet */
}
END_TEST

/* At weight 1/1000 a row at position 4,000 costs as much as five at the start. */
START_TEST(the_deeper_a_row_the_fewer_fit)
{
    struct step_cost cost = {.speed = 5, .weight = 0.001};
    ck_assert_uint_eq(timed_rows(100, cost, 4000, 0), 97);
    ck_assert_uint_eq(timed_rows(100, cost, 100000, 0), 8);
    ck_assert_uint_eq(timed_rows(100, cost, 4000, 99999), 77); /* the decoding row takes its part of the time */
    cost.weight = 0;
    ck_assert_uint_eq(timed_rows(100, cost, 4000, 99999), 491);
    cost.speed = 0;
    cost.weight = 0.001;
    ck_assert_uint_le(timed_rows(100, cost, 7000, 0), 8); /* nor are many tried while the speed is not known */
}
END_TEST

START_TEST(prompts_share_the_time_of_a_step)
{
    struct scheduler_limits timed = limits;
    struct scheduler_sequence s[] = {prefilling(30), prefilling(1000), waiting(1000, 1)};
    struct scheduler_decision decisions[3];
    struct scheduler_state state = {
        .sequences = s, .count = COUNT(s), .pages_available = 9, .cost = {.speed = 2, .weight = 0.001}};
    timed.step_ms = 100;
    timed.prefill_chunk = 512;
    timed.rows_max = 516;
    s[1].position = 5000;
    scheduler_plan(&timed, &state, decisions);
    ck_assert_uint_eq(decisions[0].rows, 30);
    ck_assert_uint_eq(decisions[1].rows, 26);             /* 161 units are left, at a little more than 6 a row ... */
    expect_decision(&decisions[2], 2, SCHEDULER_IDLE, 0); /* ... and 5 are too few to begin with */
}
END_TEST

START_TEST(a_chunk_smaller_than_a_block_is_kept)
{
    struct scheduler_limits small = limits;
    small.prefill_chunk = 3;
    struct scheduler_sequence s[] = {prefilling(20), prefilling(20)};
    struct planned p = plan_with(&small, s, COUNT(s), 9);
    expect(&p, 0, SCHEDULER_RUN, 3);
    expect(&p, 1, SCHEDULER_IDLE, 0);
}
END_TEST

/* ---- lives over a toy pool ---- */

#define TOY_SEQUENCES 60

struct toy {
    uint32_t prompt;
    uint32_t output; /* tokens to draw */
    uint32_t known;  /* ids */
    uint32_t computed;
    uint32_t pages; /* held, while it runs */
    bool running;
    bool done;
    uint32_t preempted;
};

struct world {
    struct scheduler_limits limits;
    struct toy toys[TOY_SEQUENCES];
    uint32_t arrived;
    uint32_t pages_free;
    uint32_t oldest_preempted;
};

static uint32_t pages_of(const struct world *world, uint32_t tokens)
{
    return (tokens + world->limits.block_tokens - 1) / world->limits.block_tokens;
}

static struct scheduler_sequence view(const struct world *world, const struct toy *toy)
{
    uint32_t pages = pages_of(world, toy->known);
    struct scheduler_sequence s = {.slots = 1, .rows_left = toy->known - toy->computed, .pages_held = toy->pages};
    if (!toy->running) {
        s.phase = SCHEDULER_WAITING;
        s.pages_needed = pages;
        s.pages_held = 0;
    } else {
        s.phase = toy->known > toy->prompt && s.rows_left == 1 ? SCHEDULER_DECODE : SCHEDULER_PREFILL;
        s.pages_needed = pages - toy->pages;
    }
    return s;
}

static void leave(struct world *world, struct toy *toy)
{
    world->pages_free += toy->pages;
    toy->pages = toy->computed = 0;
    toy->running = false;
}

static bool carry_out(struct world *world, struct toy *toy, struct scheduler_decision decision, bool is_oldest)
{
    if (decision.action == SCHEDULER_PREEMPT) {
        ck_assert(toy->running);
        world->oldest_preempted += is_oldest;
        toy->preempted++;
        leave(world, toy);
        return false;
    }
    if (decision.action == SCHEDULER_IDLE)
        return false;
    ck_assert_uint_gt(decision.rows, 0);
    ck_assert(toy->running == (decision.action == SCHEDULER_RUN));
    uint32_t wanted = pages_of(world, toy->known) - toy->pages;
    ck_assert_uint_le(wanted, world->pages_free);
    world->pages_free -= wanted;
    toy->pages += wanted;
    toy->running = true;
    toy->computed += decision.rows;
    ck_assert_uint_le(toy->computed, toy->known);
    if (toy->computed == toy->known && ++toy->known == toy->prompt + toy->output) {
        toy->done = true;
        leave(world, toy);
    }
    return true;
}

/* One plan carried out. False: nothing ran and nobody was preempted. */
static bool advance(struct world *world)
{
    struct scheduler_sequence views[TOY_SEQUENCES];
    struct scheduler_decision decisions[TOY_SEQUENCES];
    struct toy *alive[TOY_SEQUENCES];
    uint32_t count = 0, rows = 0, running = 0;
    for (uint32_t i = 0; i < world->arrived; i++) {
        if (!world->toys[i].done) {
            views[count] = view(world, &world->toys[i]);
            alive[count++] = &world->toys[i];
        }
    }
    struct scheduler_state state = {.sequences = views, .count = count, .pages_available = world->pages_free};
    scheduler_plan(&world->limits, &state, decisions);
    bool preempts = false, moved = false;
    for (uint32_t i = 0; i < count; i++)
        preempts = preempts || decisions[i].action == SCHEDULER_PREEMPT;
    for (uint32_t i = 0; i < count; i++) {
        if (!preempts || decisions[i].action == SCHEDULER_PREEMPT)
            moved = carry_out(world, alive[i], decisions[i], i == 0) || moved;
        rows += decisions[i].rows;
    }
    for (uint32_t i = 0; i < world->arrived; i++)
        running += world->toys[i].running;
    ck_assert_uint_le(rows, world->limits.rows_max);
    ck_assert_uint_le(running, world->limits.sequences_max);
    return moved || preempts;
}

static void start_world(struct world *world, uint64_t *random)
{
    *world = (struct world){.limits = {
                                .sequences_max = 1 + (uint32_t)test_random_below(random, 12),
                                .prefill_chunk = 1 + (uint32_t)test_random_below(random, 100),
                                .block_tokens = 16,
                                .pages_per_block = 1,
                            }};
    world->limits.rows_max = world->limits.prefill_chunk + world->limits.sequences_max;
    world->pages_free = 8 + (uint32_t)test_random_below(random, 40);
    for (uint32_t i = 0; i < TOY_SEQUENCES; i++) {
        uint32_t tokens = 2 + (uint32_t)test_random_below(random, world->pages_free * 16 - 1);
        uint32_t prompt = 1 + (uint32_t)test_random_below(random, tokens - 1);
        world->toys[i] = (struct toy){.prompt = prompt, .known = prompt, .output = tokens - prompt};
    }
}

START_TEST(every_sequence_finishes_in_a_pool_that_fits_each_alone)
{
    uint64_t random = test_seed() + 4;
    uint32_t preemptions = 0;
    for (int round = 0; round < (test_long() ? 3000 : 40); round++) {
        struct world world;
        start_world(&world, &random);
        uint32_t pages = world.pages_free, done = 0;
        for (uint32_t step = 0; done < TOY_SEQUENCES; step++) {
            ck_assert_uint_lt(step, 10000000);
            if (world.arrived < TOY_SEQUENCES && test_random_below(&random, 4) == 0)
                world.arrived++;
            ck_assert(advance(&world) || world.arrived < TOY_SEQUENCES);
            done = 0;
            for (uint32_t i = 0; i < TOY_SEQUENCES; i++)
                done += world.toys[i].done;
        }
        ck_assert_uint_eq(world.pages_free, pages);
        ck_assert_uint_eq(world.oldest_preempted, 0);
        for (uint32_t i = 0; i < TOY_SEQUENCES; i++)
            preemptions += world.toys[i].preempted;
    }
    ck_assert_uint_gt(preemptions, 0);
}
END_TEST

START_TEST(a_stream_of_later_arrivals_does_not_starve_anyone)
{
    struct world world;
    uint64_t random = test_seed() + 5;
    for (int round = 0; round < 30; round++) {
        start_world(&world, &random);
        world.arrived = 2;
        for (uint32_t step = 0; !world.toys[1].done; step++) {
            ck_assert_uint_lt(step, 1000000);
            advance(&world);
            /* Whoever finishes behind the second one comes again at once. */
            for (uint32_t i = 2; i < world.arrived; i++) {
                if (world.toys[i].done)
                    world.toys[i] =
                        (struct toy){.prompt = 16, .known = 16, .output = 1 + (uint32_t)test_random_below(&random, 30)};
            }
            if (world.arrived < TOY_SEQUENCES)
                world.arrived++;
        }
    }
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine/scheduler");
    TCase *rules = tcase_create("rules");
    tcase_add_test(rules, decoding_rows_come_before_a_long_prompt);
    tcase_add_test(rules, the_oldest_prompt_takes_the_rows_first);
    tcase_add_test(rules, those_waiting_enter_in_order_of_arrival);
    tcase_add_test(rules, nobody_overtakes_one_that_lacks_pages);
    tcase_add_test(rules, nobody_overtakes_one_that_lacks_slots);
    tcase_add_test(rules, one_held_back_lets_the_others_pass);
    tcase_add_test(rules, admission_leaves_a_block_for_each_that_runs);
    tcase_add_test(rules, one_alone_may_take_the_last_page);
    tcase_add_test(rules, a_choice_that_waits_for_one_row_is_not_kept_by_the_budget);
    tcase_add_test(rules, the_youngest_gives_way_never_the_oldest);
    tcase_add_test(rules, preemption_goes_on_until_the_pages_suffice);
    tcase_add_test(rules, the_youngest_stands_still_when_only_it_lacks_a_page);
    tcase_add_test(rules, the_chunk_follows_the_measured_speed);
    tcase_add_test(rules, the_deeper_a_row_the_fewer_fit);
    tcase_add_test(rules, prompts_share_the_time_of_a_step);
    tcase_add_test(rules, a_chunk_smaller_than_a_block_is_kept);
    suite_add_tcase(suite, rules);
    TCase *lives = tcase_create("lives");
    tcase_add_test(lives, every_sequence_finishes_in_a_pool_that_fits_each_alone);
    tcase_add_test(lives, a_stream_of_later_arrivals_does_not_starve_anyone);
    suite_add_tcase(suite, lives);
    return suite;
}
