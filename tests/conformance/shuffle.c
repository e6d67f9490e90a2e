/* See shuffle.h. One group of layers is assumed: a page table a sequence. */
#include "tests/conformance/shuffle.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/check.h"
#include "tests/unit/unit.h"

#define ACTIVE_MAX 4
#define TABLE_MAX 32
#define PERCENT_IDLE 20
#define PERCENT_HIT 80
#define PERCENT_START 40 /* of a free place in a step: neighbours come one by one */
#define PERCENT_PREEMPT 10
#define PREEMPTED_MAX 2 /* of one sequence: it ends at some time */

/* ---- the reference ---- */

void shuffle_reference_open(struct shuffle_reference *reference, const struct run_args *args, uint32_t tokens_max,
                            uint32_t chunk, uint64_t seed)
{
    uint64_t random = seed;
    struct model *model = run_open(args);
    uint32_t vocabulary = model_config(model)->vocabulary;
    CHECK(tokens_max <= SHUFFLE_TOKENS_MAX);
    *reference = (struct shuffle_reference){.vocabulary = vocabulary};
    for (uint32_t s = 0; s < SHUFFLE_SEQUENCES; s++) {
        /* Sequence 0 is the longest: beyond one segment of attention. */
        uint32_t length = s == 0 ? tokens_max : 1 + (uint32_t)test_random_below(&random, tokens_max);
        reference->length[s] = length;
        reference->shared[s] = s == 0 ? length : (uint32_t)test_random_below(&random, length + 1);
        for (uint32_t i = 0; i < length; i++)
            reference->ids[s][i] = i < reference->shared[s] && s > 0 ? reference->ids[0][i]
                                                                     : (int32_t)test_random_below(&random, vocabulary);
        reference->logits[s] = malloc((size_t)length * vocabulary * sizeof(float));
        CHECK(reference->logits[s] != NULL);
        run_whole(model,
                  &(struct run_whole){
                      .ids = reference->ids[s], .count = length, .chunk = chunk, .logits = reference->logits[s]});
    }
    model_close(model);
}

void shuffle_reference_close(struct shuffle_reference *reference)
{
    for (uint32_t s = 0; s < SHUFFLE_SEQUENCES; s++)
        free(reference->logits[s]);
}

/* ---- a draw ---- */

struct active {
    bool running;
    uint32_t sequence;
    uint32_t done;      /* rows computed */
    uint32_t planned;   /* rows of this step */
    uint32_t wanted;    /* rows of logits of this step */
    uint32_t preempted; /* times */
    uint32_t pages[TABLE_MAX];
    uint32_t page_count;
};

struct shuffle {
    const struct shuffle_reference *reference;
    const struct shuffle_draw *draw;
    struct shuffle_result *result;
    struct model *model;
    uint64_t random;
    uint32_t page_tokens;
    uint32_t rows_max;
    uint32_t started;
    uint32_t *free_pages; /* (free_count) */
    uint32_t free_count;
    uint32_t *owners; /* (pages of the pool) */
    struct active active[ACTIVE_MAX];
};

static bool chance(struct shuffle *s, uint32_t percent)
{
    return test_random_below(&s->random, 100) < percent;
}

static void open_pages(struct shuffle *s)
{
    uint32_t count = model_kv_pages(s->model);
    s->free_pages = calloc(count, sizeof(*s->free_pages));
    s->owners = calloc(count, sizeof(*s->owners));
    CHECK(s->free_pages != NULL && s->owners != NULL);
    for (uint32_t page = 0; page < count; page++) {
        model_kv_poison(s->model, page);
        s->free_pages[s->free_count++] = page;
    }
}

/* Any free page, so that tables are in no order. */
static uint32_t take_page(struct shuffle *s)
{
    CHECK(s->free_count > 0);
    uint32_t i = (uint32_t)test_random_below(&s->random, s->free_count), page = s->free_pages[i];
    s->free_pages[i] = s->free_pages[--s->free_count];
    s->owners[page] = 1;
    return page;
}

static void release_pages(struct shuffle *s, struct active *a)
{
    for (uint32_t i = 0; i < a->page_count; i++) {
        uint32_t page = a->pages[i];
        if (--s->owners[page] > 0)
            continue;
        model_kv_poison(s->model, page);
        s->free_pages[s->free_count++] = page;
    }
    a->page_count = 0;
    a->done = 0;
}

static void take_over_prefix(struct shuffle *s, struct active *a, const struct active *from)
{
    const struct shuffle_reference *r = s->reference;
    uint32_t common = from->done, length = r->length[a->sequence];
    common = common < length - 1 ? common : length - 1; /* the last row is always computed */
    if (a->sequence != from->sequence) {
        common = common < r->shared[a->sequence] ? common : r->shared[a->sequence];
        common = common < r->shared[from->sequence] ? common : r->shared[from->sequence];
    }
    uint32_t hit = (uint32_t)test_random_below(&s->random, common + 1);
    for (uint32_t i = 0; i < hit / s->page_tokens; i++) {
        a->pages[a->page_count++] = from->pages[i];
        s->owners[from->pages[i]]++;
    }
    if (hit % s->page_tokens != 0) {
        uint32_t page = take_page(s);
        model_kv_copy(s->model, 0, from->pages[hit / s->page_tokens], page, hit % s->page_tokens);
        a->pages[a->page_count++] = page;
    }
    a->done = hit;
    s->result->hits += hit > 0;
}

/* Takes over a prefix of a neighbour, any that has computed something. */
static void begin(struct shuffle *s, struct active *a)
{
    uint32_t first = (uint32_t)test_random_below(&s->random, ACTIVE_MAX);
    if (!chance(s, PERCENT_HIT))
        return;
    for (uint32_t i = 0; i < ACTIVE_MAX; i++) {
        const struct active *from = &s->active[(first + i) % ACTIVE_MAX];
        if (from != a && from->running && from->done > 0) {
            take_over_prefix(s, a, from);
            return;
        }
    }
}

static void start_sequence(struct shuffle *s, struct active *a)
{
    *a = (struct active){.running = true, .sequence = (uint32_t)test_random_below(&s->random, SHUFFLE_SEQUENCES)};
    begin(s, a);
}

static void plan_rows(struct shuffle *s, struct active *a, uint32_t room)
{
    uint32_t left = s->reference->length[a->sequence] - a->done;
    uint32_t rows = 1 + (uint32_t)test_random_below(&s->random, s->draw->chunk_max);
    rows = rows < left ? rows : left;
    a->planned = rows < room ? rows : room;
    uint32_t most = a->planned < s->draw->logits_rows_max ? a->planned : s->draw->logits_rows_max;
    a->wanted = (uint32_t)test_random_below(&s->random, most + 1);
    if (a->planned == left && a->wanted == 0)
        a->wanted = 1;
    while (a->page_count * s->page_tokens < a->done + a->planned)
        a->pages[a->page_count++] = take_page(s);
}

/* Compares the rows of logits from `first` on with the last rows of the chunk; gives the index behind them. */
static uint32_t compare_rows(struct shuffle *s, const struct active *a, uint32_t first)
{
    uint32_t vocabulary = s->reference->vocabulary;
    for (uint32_t i = 0; i < a->wanted; i++) {
        uint32_t position = a->done + a->planned - a->wanted + i;
        const float *expected = s->reference->logits[a->sequence] + (size_t)position * vocabulary;
        s->result->rows++;
        if (memcmp(model_logits(s->model, first + i), expected, vocabulary * sizeof(float)) == 0)
            continue;
        if (s->result->different++ == 0)
            printf("first difference: seed %llu, %s, %u threads, sequence %u, position %u\n",
                   (unsigned long long)s->draw->seed, model_variant(s->model), s->draw->run.threads, a->sequence,
                   position);
    }
    return first + a->wanted;
}

static void run_step(struct shuffle *s)
{
    struct batch_sequence batch[ACTIVE_MAX];
    struct active *in_batch[ACTIVE_MAX];
    struct sample_row draws[SHUFFLE_TOKENS_MAX];
    struct sample_result results[ACTIVE_MAX * SHUFFLE_TOKENS_MAX];
    uint32_t count = 0, rows = 0, first = 0;
    for (uint32_t i = 0; i < SHUFFLE_TOKENS_MAX; i++)
        draws[i] = run_greedy;
    for (uint32_t i = 0; i < ACTIVE_MAX; i++) {
        struct active *a = &s->active[i];
        if (!a->running || rows == s->rows_max || chance(s, PERCENT_IDLE))
            continue;
        plan_rows(s, a, s->rows_max - rows);
        batch[count] = (struct batch_sequence){.ids = s->reference->ids[a->sequence] + a->done,
                                               .count = a->planned,
                                               .position = a->done,
                                               .pages = {a->pages},
                                               .sample = a->wanted > 0 ? draws : NULL,
                                               .sample_count = a->wanted > 0,
                                               .logits_rows = a->wanted};
        in_batch[count++] = a;
        rows += a->planned;
    }
    model_step_submit(s->model, &(struct batch){.sequences = batch, .sequence_count = count});
    CHECK(model_step_collect(s->model, results) == STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        first = compare_rows(s, in_batch[i], first);
        in_batch[i]->done += in_batch[i]->planned;
    }
    s->result->steps++;
}

/* Ends, preempts and starts sequences. Gives whether any is left. */
static bool turn_over(struct shuffle *s)
{
    bool any = false;
    for (uint32_t i = 0; i < ACTIVE_MAX; i++) {
        struct active *a = &s->active[i];
        if (a->running && a->done == s->reference->length[a->sequence]) {
            release_pages(s, a);
            a->running = false;
        } else if (a->running && a->done > 0 && a->preempted < PREEMPTED_MAX && chance(s, PERCENT_PREEMPT)) {
            release_pages(s, a);
            a->preempted++;
            s->result->preempted++;
            begin(s, a);
        }
        if (!a->running && s->started < s->draw->sequences && (!any || chance(s, PERCENT_START))) {
            start_sequence(s, a);
            s->started++;
        }
        any = any || a->running;
    }
    return any;
}

void shuffle_run(const struct shuffle_reference *reference, const struct shuffle_draw *draw,
                 struct shuffle_result *result)
{
    struct shuffle s = {.reference = reference, .draw = draw, .result = result, .random = draw->seed};
    struct run_args args = draw->run;
    s.rows_max = ACTIVE_MAX + (uint32_t)test_random_below(&s.random, 2 * draw->chunk_max);
    args.rows_max = s.rows_max;
    args.sequences_max = ACTIVE_MAX;
    args.logits_rows_max =
        s.rows_max < ACTIVE_MAX * draw->logits_rows_max ? s.rows_max : ACTIVE_MAX * draw->logits_rows_max;
    args.kv_sequences = ACTIVE_MAX;
    s.model = run_open(&args);
    s.page_tokens = model_kv_layout(s.model)->groups[0].page_tokens;
    CHECK(model_kv_layout(s.model)->group_count == 1 && TABLE_MAX * s.page_tokens >= model_context(s.model));
    open_pages(&s);
    while (turn_over(&s))
        run_step(&s);
    free(s.free_pages);
    free(s.owners);
    model_close(s.model);
}
