#include "tests/unit/cache/kv_world.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

/* Check writes to a pipe at every ck_assert: too slow for what runs once a row. */
#define EXPECT(x) ((x) ? (void)0 : ck_abort_msg("%s", #x))

#define POISON UINT64_C(0xDEADDEADDEADDEAD)

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t state = a * 31 + b;
    return test_random(&state);
}

struct block_key world_root(uint64_t name)
{
    return (struct block_key){.low = mix(name, 1), .high = mix(name, 2)};
}

/* The rows that a sequence should have in group 0. */
static void expected_values(uint64_t name, const int32_t *ids, uint32_t count, uint64_t *values)
{
    uint64_t value = mix(name, 3);
    for (uint32_t i = 0; i < count; i++)
        values[i] = value = mix(value, (uint64_t)ids[i]);
}

static uint64_t group_value(uint64_t value, uint32_t group)
{
    return value + group;
}

static struct row *row_at(const struct world *world, uint32_t page, uint32_t token)
{
    EXPECT(page < world->args.pages);
    return &world->rows[(size_t)page * world->args.block_tokens + token % world->args.block_tokens];
}

static struct row *sequence_row(const struct world *world, const struct sequence *sequence, uint32_t group,
                                uint32_t token)
{
    const uint32_t *pages = cache_lease_pages(sequence->lease, group);
    return row_at(world, pages[token / world->args.block_tokens], token);
}

/* All changes of rows go through here: `committed` finds every committed row by its value. */
static void set_row(struct world *world, struct row *row, uint64_t value, enum row_state state)
{
    uint32_t index = (uint32_t)(row - world->rows);
    if (row->state == ROW_COMMITTED)
        EXPECT(map_remove(&world->committed, row->value, index));
    *row = (struct row){.value = value, .state = state};
    if (state == ROW_COMMITTED)
        EXPECT(map_insert(&world->committed, value, index));
}

static void page_freed(void *context, uint32_t page)
{
    struct world *world = context;
    for (uint32_t i = 0; i < world->args.block_tokens; i++)
        set_row(world, row_at(world, page, i), POISON, ROW_EMPTY);
    if (world->freed_count < world->freed_max)
        world->freed[world->freed_count++] = page;
}

void world_open(struct world *world, const struct world_args *args)
{
    *world = (struct world){.args = *args};
    if (world->args.groups == 0)
        world->args.groups = 1;
    if (world->args.leases == 0)
        world->args.leases = WORLD_SEQUENCES_MAX;
    world->rows = calloc((size_t)args->pages * args->block_tokens, sizeof(*world->rows));
    EXPECT(world->rows != NULL);
    struct kv_layout layout = {.block_tokens = args->block_tokens, .group_count = world->args.groups};
    for (uint32_t i = 0; i < layout.group_count; i++)
        layout.groups[i].page_tokens = args->block_tokens;
    struct cache_args cache_args = {
        .layout = &layout,
        .pages = args->pages,
        .leases_max = world->args.leases,
        .lease_tokens_max = WORLD_TOKENS_MAX,
        .enabled = !args->disabled,
        .key_bits = args->key_bits,
        .page_freed = page_freed,
        .page_freed_context = world,
    };
    struct error error;
    EXPECT(cache_open(&cache_args, &world->cache, &error) == STATUS_OK);
    cache_verify(world->cache);
}

void world_close(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_SEQUENCES_MAX; i++) {
        if (world->sequences[i].lease != NULL)
            world_release(world, &world->sequences[i]);
    }
    struct cache_stats stats = cache_stats(world->cache);
    EXPECT(stats.pages_leased == 0);
    EXPECT(stats.pages_free + stats.pages_cached == stats.pages_total);
    if (world->args.disabled)
        EXPECT(stats.pages_cached == 0);
    cache_close(world->cache);
    free(world->rows);
    map_free(&world->committed);
}

static bool any_row(void *context, uint32_t value)
{
    (void)context;
    (void)value;
    return true;
}

/* How many of the values, from the first on, are committed in some page. */
static uint32_t available_prefix(const struct world *world, const uint64_t *values, uint32_t count)
{
    uint32_t prefix = 0;
    while (prefix < count && map_find(&world->committed, values[prefix], any_row, NULL) != MAP_NONE)
        prefix++;
    return prefix;
}

struct cache_lookup world_expects(const struct world *world, uint64_t name, const int32_t *ids, uint32_t count)
{
    struct cache_lookup expects = {0};
    if (count < 2 || world->args.disabled)
        return expects;
    static uint64_t values[WORLD_TOKENS_MAX];
    expected_values(name, ids, count - 1, values);
    expects.hit = expects.pending = available_prefix(world, values, count - 1);
    for (uint32_t i = 0; i < WORLD_SEQUENCES_MAX; i++) {
        const struct sequence *sequence = &world->sequences[i];
        if (sequence->lease == NULL || sequence->name != name)
            continue;
        uint32_t common = 0;
        while (common < count - 1 && common < sequence->tokens && ids[common] == sequence->ids[common])
            common++;
        if (common > expects.pending)
            expects.pending = common;
    }
    return expects;
}

struct cache_lookup world_peek(struct world *world, uint64_t name, const int32_t *ids, uint32_t count)
{
    struct cache_stats before = cache_stats(world->cache);
    struct cache_lookup expects = world_expects(world, name, ids, count);
    struct cache_lookup found = cache_peek(world->cache, world_root(name), ids, count);
    EXPECT(found.hit <= found.pending);
    EXPECT(found.hit <= expects.hit);
    if (!world->args.shorter_hits_allowed) {
        EXPECT(found.hit == expects.hit);
        EXPECT(found.pending == expects.pending);
    }
    struct cache_stats after = cache_stats(world->cache);
    EXPECT(memcmp(&before, &after, sizeof(before)) == 0);
    return found;
}

static void check_rows(const struct world *world, const struct sequence *sequence)
{
    static uint64_t values[WORLD_TOKENS_MAX];
    expected_values(sequence->name, sequence->ids, sequence->committed, values);
    for (uint32_t group = 0; group < world->args.groups; group++) {
        for (uint32_t i = 0; i < sequence->committed; i++) {
            const struct row *row = sequence_row(world, sequence, group, i);
            if (row->state != ROW_COMMITTED || row->value != group_value(values[i], group))
                ck_abort_msg("token %u of %u, group %u: not this sequence's row", i, sequence->committed, group);
        }
    }
}

static void carry_out(struct world *world, const struct cache_copy *copy)
{
    for (uint32_t group = 0; group < world->args.groups && copy->tokens > 0; group++) {
        EXPECT(copy->from[group] != copy->to[group]);
        for (uint32_t i = 0; i < world->args.block_tokens; i++) {
            struct row *to = row_at(world, copy->to[group], i);
            const struct row *from = row_at(world, copy->from[group], i);
            EXPECT(to->state == ROW_EMPTY);
            if (i < copy->tokens)
                set_row(world, to, from->value, from->state);
        }
    }
}

/* A block taken over: what it held beyond the hit is forgotten. Only a pool without any other page may cost rows. */
static void forget_rest(struct world *world, const struct sequence *sequence)
{
    const uint32_t block_tokens = world->args.block_tokens;
    for (uint32_t group = 0; group < world->args.groups; group++) {
        for (uint32_t i = sequence->hit; i % block_tokens != 0; i++) {
            struct row *row = sequence_row(world, sequence, group, i);
            if (row->state == ROW_COMMITTED) {
                EXPECT(cache_pages_available(world->cache) == 0);
                set_row(world, row, row->value, ROW_WRITTEN);
            }
        }
    }
}

static struct sequence *unused_sequence(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_SEQUENCES_MAX; i++) {
        if (world->sequences[i].lease == NULL)
            return &world->sequences[i];
    }
    ck_abort_msg("more than %d sequences", WORLD_SEQUENCES_MAX);
    return NULL;
}

static uint32_t live_sequences(const struct world *world)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < WORLD_SEQUENCES_MAX; i++)
        live += world->sequences[i].lease != NULL;
    return live;
}

static void check_busy(struct world *world, struct cache_stats before, uint32_t hit)
{
    /* Only the blocks of the hit itself may be left, and no page for the copy. */
    uint32_t hit_pages = hit / world->args.block_tokens * world->args.groups;
    EXPECT(live_sequences(world) == world->args.leases || cache_pages_available(world->cache) <= hit_pages);
    struct cache_stats after = cache_stats(world->cache);
    EXPECT(memcmp(&before, &after, sizeof(before)) == 0);
    cache_verify(world->cache);
}

struct sequence *world_acquire(struct world *world, uint64_t name, const int32_t *ids, uint32_t count)
{
    uint32_t expects = world_expects(world, name, ids, count).hit;
    struct cache_lookup found = world_peek(world, name, ids, count);
    struct cache_stats before = cache_stats(world->cache);
    struct sequence *sequence = unused_sequence(world);
    struct cache_copy copy;
    uint32_t hit;
    enum status status = cache_acquire(world->cache, world_root(name), ids, count, &sequence->lease, &hit, &copy);
    if (status != STATUS_OK) {
        EXPECT(status == STATUS_BUSY);
        EXPECT(sequence->lease == NULL);
        check_busy(world, before, found.hit);
        return NULL;
    }
    EXPECT(hit == found.hit);
    memcpy(sequence->ids, ids, hit * sizeof(*ids));
    sequence->name = name;
    sequence->hit = sequence->tokens = sequence->committed = hit;
    EXPECT(cache_lease_tokens(sequence->lease) == hit);
    EXPECT(cache_lease_committed(sequence->lease) == hit);
    carry_out(world, &copy);
    if (copy.tokens == 0)
        forget_rest(world, sequence);

    struct cache_stats after = cache_stats(world->cache);
    EXPECT(after.lookups == before.lookups + 1);
    EXPECT(after.lookup_tokens == before.lookup_tokens + count);
    EXPECT(after.hit_tokens == before.hit_tokens + hit);
    EXPECT(after.copied_tokens == before.copied_tokens + copy.tokens);
    bool may_evict = copy.tokens > 0 && before.pages_free < world->args.groups;
    EXPECT(after.evicted_blocks - before.evicted_blocks <= may_evict);
    world->hit_tokens += hit;
    world->available_tokens += expects;
    check_rows(world, sequence);
    cache_verify(world->cache);
    return sequence;
}

bool world_extend(struct world *world, struct sequence *sequence, const int32_t *ids, uint32_t count)
{
    struct cache_stats before = cache_stats(world->cache);
    uint32_t more =
        cache_pages_for(world->cache, sequence->tokens + count) - cache_pages_for(world->cache, sequence->tokens);
    uint32_t groups = world->args.groups, free_pages = before.pages_free / groups * groups;
    bool fits = more <= free_pages + before.pages_cached;
    enum status status = cache_extend(world->cache, sequence->lease, ids, count);
    EXPECT(status == (fits ? STATUS_OK : STATUS_BUSY));
    cache_verify(world->cache);
    struct cache_stats after = cache_stats(world->cache);
    if (!fits) {
        EXPECT(memcmp(&before, &after, sizeof(before)) == 0);
        EXPECT(cache_lease_tokens(sequence->lease) == sequence->tokens);
        return false;
    }
    uint32_t evicted = more > free_pages ? (more - free_pages) / groups : 0;
    EXPECT(after.evicted_blocks - before.evicted_blocks == evicted);
    memcpy(sequence->ids + sequence->tokens, ids, count * sizeof(*ids));
    sequence->tokens += count;
    EXPECT(cache_lease_tokens(sequence->lease) == sequence->tokens);
    return true;
}

/* Rows of the sequence from `committed` on, in the state given. */
static void write_rows(struct world *world, struct sequence *sequence, uint32_t count, enum row_state state)
{
    static uint64_t values[WORLD_TOKENS_MAX];
    EXPECT(sequence->committed + count <= sequence->tokens);
    check_rows(world, sequence);
    expected_values(sequence->name, sequence->ids, sequence->committed + count, values);
    for (uint32_t group = 0; group < world->args.groups; group++) {
        for (uint32_t i = sequence->committed; i < sequence->committed + count; i++) {
            struct row *row = sequence_row(world, sequence, group, i);
            EXPECT(row->state != ROW_COMMITTED);
            set_row(world, row, group_value(values[i], group), state);
        }
    }
}

void world_compute(struct world *world, struct sequence *sequence, uint32_t count)
{
    write_rows(world, sequence, count, ROW_WRITTEN);
}

void world_commit(struct world *world, struct sequence *sequence, uint32_t count)
{
    write_rows(world, sequence, count, ROW_COMMITTED);
    sequence->committed += count;
    cache_commit(world->cache, sequence->lease, sequence->committed);
    EXPECT(cache_lease_committed(sequence->lease) == sequence->committed);
    check_rows(world, sequence);
    cache_verify(world->cache);
}

void world_release(struct world *world, struct sequence *sequence)
{
    cache_release(world->cache, sequence->lease);
    sequence->lease = NULL;
    cache_verify(world->cache);
}

struct sequence *world_start(struct world *world, uint64_t name, const int32_t *ids, uint32_t count)
{
    struct sequence *sequence = world_acquire(world, name, ids, count);
    EXPECT(sequence != NULL);
    EXPECT(world_extend(world, sequence, ids + sequence->hit, count - sequence->hit));
    world_commit(world, sequence, count - sequence->hit);
    return sequence;
}

uint32_t world_request(struct world *world, uint64_t name, const int32_t *ids, uint32_t count)
{
    struct sequence *sequence = world_start(world, name, ids, count);
    uint32_t hit = sequence->hit;
    world_release(world, sequence);
    return hit;
}

void world_count_up(int32_t *ids, uint32_t count, int32_t first)
{
    for (uint32_t i = 0; i < count; i++)
        ids[i] = first + (int32_t)i;
}
