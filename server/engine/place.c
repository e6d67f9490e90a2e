/* Leases: taken all or nothing, ended in one place. */
#include "server/engine/place.h"

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "server/engine/request.h"

static uint32_t blocks(const struct loop *loop, uint32_t tokens)
{
    return (tokens + loop->limits.block_tokens - 1) / loop->limits.block_tokens;
}

/* Of a prompt that is still to be scored nothing is taken from the cache: each of its rows has logits to give. */
static bool reads_cache(const struct sequence *sequence)
{
    return !sequence->scores || sequence->scored >= sequence->prompt_count;
}

static struct cache_lookup look(const struct loop *loop, const struct sequence *sequence)
{
    if (!reads_cache(sequence))
        return (struct cache_lookup){0};
    return cache_peek(loop->cache, sequence->request->root, sequence->ids, sequence->count);
}

/* ---- waiting ---- */

static void set_held_back(struct loop *loop, struct sequence *sequence, bool held_back)
{
    if (held_back != sequence->held_back)
        loop->held_count += held_back ? 1 : (uint32_t)-1;
    sequence->held_back = held_back;
}

/* The pages needed are a lower bound: cached blocks of the hit that nobody else leases count too, once taken. */
void place_look(struct loop *loop, struct sequence *sequence)
{
    struct cache_lookup found = look(loop, sequence);
    uint32_t shared = found.hit / loop->limits.block_tokens * loop->limits.pages_per_block;
    uint32_t pages = cache_pages_for(loop->cache, sequence->count);
    set_held_back(loop, sequence, found.pending > found.hit);
    sequence->pending = found.pending;
    sequence->rows_left = sequence->count - found.hit;
    sequence->pages_needed = pages > shared ? pages - shared : 0;
}

void place_look_again(struct loop *loop)
{
    for (struct sequence *s = loop->oldest; loop->lease_ended && loop->held_count > 0 && s != NULL; s = s->younger) {
        if (s->held_back)
            place_look(loop, s);
    }
    loop->lease_ended = false;
}

/* ---- taking a place ---- */

static void carry_out_copy(struct loop *loop, const struct cache_copy *copy)
{
    for (uint32_t group = 0; copy->tokens > 0 && group < loop->groups; group++) {
        loop_note_written(loop, copy->to[group]);
        model_kv_copy(loop->model, group, copy->from[group], copy->to[group], copy->tokens);
    }
}

/* Without a page for the copied rows, whole blocks alone can still be had: the copy's source may then be evicted. */
static bool acquire(struct loop *loop, struct sequence *sequence, uint32_t hit)
{
    struct cache_copy copy;
    uint32_t whole = hit / loop->limits.block_tokens * loop->limits.block_tokens;
    uint32_t count = reads_cache(sequence) ? sequence->count : 1; /* at least one token is computed: nothing is found */
    enum status status = cache_acquire(loop->cache, sequence->request->root, sequence->ids, count, &sequence->lease,
                                       &sequence->hit, &copy);
    if (status != STATUS_OK)
        status = cache_acquire(loop->cache, sequence->request->root, sequence->ids, whole + 1, &sequence->lease,
                               &sequence->hit, &copy);
    if (status != STATUS_OK) {
        sequence->lease = NULL;
        return false;
    }
    carry_out_copy(loop, &copy);
    sequence->committed = sequence->hit;
    return true;
}

enum place_outcome place_admit(struct loop *loop, struct sequence *sequence, uint32_t running)
{
    CHECK(sequence->state == SEQUENCE_WAITING);
    struct cache_lookup found = look(loop, sequence);
    if (found.pending > found.hit) {
        set_held_back(loop, sequence, true);
        sequence->pending = found.pending;
        return PLACE_HELD_BACK;
    }
    uint32_t most = cache_pages_for(loop->cache, sequence->count);
    uint32_t before = cache_pages_available(loop->cache);
    sequence->pages_needed = most;
    if (!acquire(loop, sequence, found.hit))
        return PLACE_NO_PAGES;
    uint32_t after = cache_pages_available(loop->cache);
    uint32_t taken = before > after ? before - after : 0;
    sequence->pages_needed = (uint32_t)size_min(taken + place_pages_to_extend(loop, sequence), most);

    uint32_t reserve = running * loop->limits.pages_per_block;
    if (!place_extend(loop, sequence) || cache_pages_available(loop->cache) < reserve) {
        place_release(loop, sequence);
        return PLACE_NO_PAGES;
    }
    sequence->state = SEQUENCE_RUNNING;
    loop->status.running++;
    loop->status.preempted -= sequence->preempted;
    sequence->preempted = false;
    return PLACE_ADMITTED;
}

bool place_extend(struct loop *loop, struct sequence *sequence)
{
    uint32_t known = cache_lease_tokens(sequence->lease);
    return known >= sequence->count ||
           cache_extend(loop->cache, sequence->lease, sequence->ids + known, sequence->count - known) == STATUS_OK;
}

uint32_t place_pages_to_extend(const struct loop *loop, const struct sequence *sequence)
{
    uint32_t known = blocks(loop, cache_lease_tokens(sequence->lease));
    uint32_t wanted = blocks(loop, sequence->count);
    return wanted > known ? (wanted - known) * loop->limits.pages_per_block : 0;
}

uint32_t place_pages_held(const struct loop *loop, const struct sequence *sequence)
{
    uint32_t shared = sequence->hit / loop->limits.block_tokens;
    return (blocks(loop, cache_lease_tokens(sequence->lease)) - shared) * loop->limits.pages_per_block;
}

/* ---- holding and leaving it ---- */

void place_commit(struct loop *loop, struct sequence *sequence, uint32_t rows)
{
    uint32_t before = sequence->committed, now = before + rows;
    cache_commit(loop->cache, sequence->lease, now);
    sequence->committed = now;
    if (now > sequence->computed_before)
        sequence->computed_before = now;
    for (struct sequence *s = loop->oldest; loop->held_count > 0 && s != NULL; s = s->younger) {
        if (s->held_back && before < s->pending && s->pending <= now)
            place_look(loop, s);
    }
}

void place_release(struct loop *loop, struct sequence *sequence)
{
    if (sequence->lease == NULL)
        return;
    cache_release(loop->cache, sequence->lease);
    sequence->lease = NULL;
    sequence->committed = 0;
    loop->lease_ended = true;
    if (sequence->state == SEQUENCE_RUNNING)
        loop->status.running--;
}

void place_preempt(struct loop *loop, struct sequence *sequence)
{
    CHECK(sequence->state == SEQUENCE_RUNNING);
    place_release(loop, sequence);
    sequence->state = SEQUENCE_WAITING;
    loop->status.preemptions++;
    loop->status.preempted++;
    sequence->preempted = true;
    place_look(loop, sequence);
}
