/* The attention operation: tiles of query rows, segments of keys, and the order in which partial results meet.
 *
 * A tile is some consecutive tokens of one run for one KV head, with all query heads that share it. A worker takes a
 * tile, walks its segments in ascending order, converts K and V of each once to binary32 and merges the results. When
 * there are too few tiles to go round (decoding), segments are the items instead: their results are written down and
 * merged afterwards, in the same order by the same function, so the bits are the same. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "kernels/cpu/cpu.h"

#define TILE_ROWS 64     /* query rows (tokens x heads) of a tile, unless one token has more */
#define TILES_A_WORKER 2 /* below this many, segments are shared out */
#define WAVE_SEGMENTS 64 /* segments whose partial results are kept at once */
#define STORE_ALONE_ELEMENTS 8192u

struct attention_tile {
    const struct row_run *run;
    uint32_t head;        /* of KV */
    uint32_t first_token; /* in the run */
    uint32_t tokens;
};

struct attention_job {
    const struct kernels *kernels;
    const struct attention_args *args;
    const struct kv_group *group;
    uint32_t group_index;
    uint32_t layer;        /* in the group */
    uint32_t heads_shared; /* query heads a KV head */
    float scale;
    float *out; /* (rows, query_heads, head_dim) */
    struct activations *activations;
    uint32_t rows;
    uint32_t tiles;
    uint32_t wave_first;    /* segment */
    uint32_t wave_segments; /* at most WAVE_SEGMENTS */
    atomic_uint next;
};

/* A worker's scratch, cut up. R: rows of the tile. */
struct tile_scratch {
    float *q;        /* (R, head_dim) */
    float *k;        /* (4, head_dim, 64) */
    float *v;        /* (256, head_dim) */
    float *weights;  /* (R, 256) */
    float *out;      /* (R, head_dim) */
    float *max;      /* (R) */
    float *sum;      /* (R) */
    float *max_all;  /* (R) */
    float *sum_all;  /* (R) */
    uint32_t *begin; /* (R) */
    uint32_t *end;   /* (R) */
};

static size_t scratch_floats(uint32_t rows, uint32_t head_dim)
{
    return (size_t)2 * rows * head_dim + (size_t)2 * SEGMENT_TOKENS * head_dim + (size_t)rows * (SEGMENT_TOKENS + 6);
}

static struct tile_scratch cut_scratch(void *memory, uint32_t rows, uint32_t head_dim)
{
    struct tile_scratch scratch;
    scratch.k = memory;
    scratch.v = scratch.k + (size_t)SEGMENT_TOKENS * head_dim;
    scratch.weights = scratch.v + (size_t)SEGMENT_TOKENS * head_dim;
    scratch.q = scratch.weights + (size_t)rows * SEGMENT_TOKENS;
    scratch.out = scratch.q + (size_t)rows * head_dim;
    scratch.max = scratch.out + (size_t)rows * head_dim;
    scratch.sum = scratch.max + rows;
    scratch.max_all = scratch.sum + rows;
    scratch.sum_all = scratch.max_all + rows;
    scratch.begin = (uint32_t *)(void *)(scratch.sum_all + rows);
    scratch.end = scratch.begin + rows;
    return scratch;
}

static uint32_t heads_shared_max(const struct kernels_args *args)
{
    uint32_t most = 1;
    for (uint32_t g = 0; g < args->layout.group_count; g++) {
        uint32_t shared = args->query_heads_max / args->layout.groups[g].heads;
        most = shared > most ? shared : most;
    }
    return most;
}

static uint32_t head_dim_max(const struct kernels_args *args)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < args->layout.group_count; g++)
        most = args->layout.groups[g].head_dim > most ? args->layout.groups[g].head_dim : most;
    return most;
}

static uint32_t heads_max(const struct kernels_args *args)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < args->layout.group_count; g++)
        most = args->layout.groups[g].heads > most ? args->layout.groups[g].heads : most;
    return most;
}

/* One tile's partial results of one segment: out (heads, head_dim), max (heads), sum (heads). */
static size_t partial_floats(uint32_t heads_shared, uint32_t head_dim)
{
    return (size_t)heads_shared * (head_dim + 2);
}

/* One tile's partial results of a wave, and the running max and sum of its rows. */
static size_t wave_floats(uint32_t heads_shared, uint32_t head_dim)
{
    return WAVE_SEGMENTS * partial_floats(heads_shared, head_dim) + 2 * heads_shared;
}

enum status cpu_attention_open(struct kernels *kernels, struct error *error)
{
    const struct kernels_args *args = &kernels->args;
    uint32_t shared = heads_shared_max(args), dim = head_dim_max(args);
    uint32_t rows = shared > TILE_ROWS ? shared : TILE_ROWS;
    size_t tiles = (size_t)args->rows_max * heads_max(args);
    size_t *counter = &kernels->memory.workspace_bytes;

    CHECK(tiles < UINT32_MAX);
    kernels->tiles_max = (uint32_t)tiles;
    kernels->tiles = cpu_take(tiles * sizeof(*kernels->tiles), counter);
    kernels->attention_out = cpu_take((size_t)args->rows_max * args->query_heads_max * dim * sizeof(float), counter);
    kernels->partials_count = (size_t)kernels->workers * TILES_A_WORKER * wave_floats(shared, dim);
    kernels->partials = cpu_take(kernels->partials_count * sizeof(float), counter);
    if (kernels->tiles == NULL || kernels->attention_out == NULL || kernels->partials == NULL)
        return error_no_memory(error, "the attention workspace");
    return cpu_scratch_reserve(kernels, scratch_floats(rows, dim) * sizeof(float), error);
}

void cpu_attention_close(struct kernels *kernels)
{
    const struct kernels_args *args = &kernels->args;
    size_t *counter = &kernels->memory.workspace_bytes;
    size_t out_floats = (size_t)args->rows_max * args->query_heads_max * head_dim_max(args);
    cpu_give(kernels->tiles, kernels->tiles_max * sizeof(*kernels->tiles), counter);
    cpu_give(kernels->attention_out, out_floats * sizeof(float), counter);
    cpu_give(kernels->partials, kernels->partials_count * sizeof(float), counter);
}

/* ---- which keys a row sees ---- */

static uint32_t first_key(const struct kv_group *group, uint32_t position)
{
    return group->kind == KV_WINDOW && position >= group->window ? position + 1 - group->window : 0;
}

static uint32_t tile_position(const struct attention_tile *tile)
{
    return tile->run->first_position + tile->first_token;
}

/* The segments that any row of the tile sees: first .. last. */
static uint32_t first_segment(const struct attention_job *job, const struct attention_tile *tile)
{
    return first_key(job->group, tile_position(tile)) / SEGMENT_TOKENS;
}

static uint32_t last_segment(const struct attention_tile *tile)
{
    return (tile_position(tile) + tile->tokens - 1) / SEGMENT_TOKENS;
}

/* Fills begin and end of all rows; returns the keys of the segment that any row sees in *low .. *high - 1. */
static void find_keys(const struct attention_job *job, const struct attention_tile *tile, uint32_t segment,
                      struct tile_scratch *scratch, uint32_t *low, uint32_t *high)
{
    uint32_t base = segment * SEGMENT_TOKENS;
    *low = SEGMENT_TOKENS;
    *high = 0;
    for (uint32_t t = 0; t < tile->tokens; t++) {
        uint32_t position = tile_position(tile) + t;
        uint32_t key = first_key(job->group, position);
        uint32_t begin = key > base ? key - base : 0;
        uint32_t end = position + 1 > base ? position + 1 - base : 0;
        end = end < SEGMENT_TOKENS ? end : SEGMENT_TOKENS;
        for (uint32_t h = 0; h < job->heads_shared; h++) {
            scratch->begin[t * job->heads_shared + h] = begin;
            scratch->end[t * job->heads_shared + h] = end;
        }
        if (begin < end) {
            *low = begin < *low ? begin : *low;
            *high = end > *high ? end : *high;
        }
    }
}

/* ---- one tile ---- */

/* Converts the pages of a segment that hold keys low .. high - 1; others may not exist. */
static void load_segment(const struct attention_job *job, const struct attention_tile *tile, uint32_t segment,
                         uint32_t low, uint32_t high, struct tile_scratch *scratch)
{
    const struct kernels *kernels = job->kernels;
    const struct kv_group *group = job->group;
    uint32_t tokens = group->page_tokens, dim_count = group->head_dim;
    uint32_t piece = tokens < SEGMENT_CHUNK ? tokens : SEGMENT_CHUNK;
    for (uint32_t key = low / tokens * tokens; key < high; key += tokens) {
        uint32_t page = tile->run->pages[job->group_index][(segment * SEGMENT_TOKENS + key) / tokens];
        CHECK(page < kernels->args.pages);
        const uint8_t *base = kernels->kv + page * kernels->args.layout.page_bytes;
        const uint16_t *k = (const uint16_t *)(const void *)(base + kv_offset_k(group, job->layer, tile->head));
        const uint16_t *v = (const uint16_t *)(const void *)(base + kv_offset_v(group, job->layer, tile->head));
        for (uint32_t at = 0; at < tokens; at += piece) {
            uint32_t chunk = (key + at) / SEGMENT_CHUNK, slot = (key + at) % SEGMENT_CHUNK;
            for (uint32_t dim = 0; dim < dim_count; dim++)
                kernels->variant->to_float(k + (size_t)dim * tokens + at, piece,
                                           scratch->k + ((size_t)chunk * dim_count + dim) * SEGMENT_CHUNK + slot);
        }
        kernels->variant->to_float(v, tokens * dim_count, scratch->v + (size_t)key * dim_count);
    }
}

/* q of the tile's rows, scaled: (tokens, heads_shared, head_dim). */
static void load_queries(const struct attention_job *job, const struct attention_tile *tile,
                         struct tile_scratch *scratch)
{
    size_t row_floats = (size_t)job->heads_shared * job->group->head_dim;
    for (uint32_t t = 0; t < tile->tokens; t++) {
        size_t row = tile->run->first_row + tile->first_token + t;
        const float *q =
            job->args->q + (row * job->args->query_heads + tile->head * job->heads_shared) * job->group->head_dim;
        for (size_t i = 0; i < row_floats; i++)
            scratch->q[t * row_floats + i] = q[i] * job->scale;
    }
}

/* One segment for all rows of the tile; results in scratch. False: no row sees a key of it. */
static bool attend_segment(const struct attention_job *job, const struct attention_tile *tile, uint32_t segment,
                           struct tile_scratch *scratch)
{
    uint32_t low, high;
    find_keys(job, tile, segment, scratch, &low, &high);
    if (low >= high)
        return false;
    load_segment(job, tile, segment, low, high, scratch);
    struct attention_item item = {
        .rows = tile->tokens * job->heads_shared,
        .head_dim = job->group->head_dim,
        .q = scratch->q,
        .begin = scratch->begin,
        .end = scratch->end,
        .k = scratch->k,
        .v = scratch->v,
        .weights = scratch->weights,
        .max = scratch->max,
        .sum = scratch->sum,
        .out = scratch->out,
    };
    job->kernels->variant->attention_segment(&item);
    return true;
}

/* Where the result of a tile's row goes. */
static float *row_out(const struct attention_job *job, const struct attention_tile *tile, uint32_t row)
{
    size_t token = tile->run->first_row + tile->first_token + row / job->heads_shared;
    uint32_t head = tile->head * job->heads_shared + row % job->heads_shared;
    return job->out + (token * job->args->query_heads + head) * job->group->head_dim;
}

/* Adds the next segment's result to a row's running one; `started`: there is one. */
static void merge_row(const struct attention_job *job, bool started, const struct attention_merge *merge)
{
    if (started) {
        job->kernels->variant->attention_merge(merge);
        return;
    }
    *merge->max = merge->next_max;
    *merge->sum = merge->next_sum;
    memcpy(merge->out, merge->next_out, merge->head_dim * sizeof(float));
}

static void finish_row(float *out, float sum, uint32_t head_dim)
{
    for (uint32_t dim = 0; dim < head_dim; dim++)
        out[dim] = out[dim] / sum;
}

static void do_tile(const struct attention_job *job, const struct attention_tile *tile, uint32_t worker)
{
    uint32_t head_dim = job->group->head_dim, rows = tile->tokens * job->heads_shared;
    struct tile_scratch scratch = cut_scratch(worker_scratch(job->kernels, worker), rows, head_dim);
    load_queries(job, tile, &scratch);
    for (uint32_t segment = first_segment(job, tile); segment <= last_segment(tile); segment++) {
        if (!attend_segment(job, tile, segment, &scratch))
            continue;
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t position = tile_position(tile) + row / job->heads_shared;
            struct attention_merge merge = {
                .head_dim = head_dim,
                .max = &scratch.max_all[row],
                .sum = &scratch.sum_all[row],
                .out = row_out(job, tile, row),
                .next_max = scratch.max[row],
                .next_sum = scratch.sum[row],
                .next_out = scratch.out + (size_t)row * head_dim,
            };
            if (scratch.begin[row] < scratch.end[row])
                merge_row(job, segment > first_key(job->group, position) / SEGMENT_TOKENS, &merge);
        }
    }
    for (uint32_t row = 0; row < rows; row++)
        finish_row(row_out(job, tile, row), scratch.sum_all[row], head_dim);
}

static void do_tiles(void *context, uint32_t worker)
{
    struct attention_job *job = context;
    for (;;) {
        uint32_t tile = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (tile >= job->tiles)
            return;
        do_tile(job, &job->kernels->tiles[tile], worker);
    }
}

/* ---- segments as items: every tile has one token ---- */

static float *partial_at(const struct attention_job *job, uint32_t tile, uint32_t wave_segment)
{
    uint32_t head_dim = job->group->head_dim;
    return job->kernels->partials + tile * wave_floats(job->heads_shared, head_dim) +
           wave_segment * partial_floats(job->heads_shared, head_dim);
}

static void do_partial(const struct attention_job *job, uint32_t tile_index, uint32_t wave_segment, uint32_t worker)
{
    const struct attention_tile *tile = &job->kernels->tiles[tile_index];
    uint32_t head_dim = job->group->head_dim, rows = job->heads_shared;
    uint32_t segment = job->wave_first + wave_segment;
    if (segment < first_segment(job, tile) || segment > last_segment(tile))
        return;
    struct tile_scratch scratch = cut_scratch(worker_scratch(job->kernels, worker), rows, head_dim);
    load_queries(job, tile, &scratch);
    scratch.out = partial_at(job, tile_index, wave_segment);
    scratch.max = scratch.out + (size_t)rows * head_dim;
    scratch.sum = scratch.max + rows;
    attend_segment(job, tile, segment, &scratch);
}

static void do_partials(void *context, uint32_t worker)
{
    struct attention_job *job = context;
    for (;;) {
        uint32_t item = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed);
        if (item >= job->tiles * job->wave_segments)
            return;
        do_partial(job, item % job->tiles, item / job->tiles, worker);
    }
}

/* Folds a wave's partial results into the running ones. */
static void merge_wave(const struct attention_job *job, uint32_t tile_index)
{
    const struct attention_tile *tile = &job->kernels->tiles[tile_index];
    uint32_t head_dim = job->group->head_dim, rows = job->heads_shared;
    uint32_t first = first_segment(job, tile), last = last_segment(tile);
    float *max = partial_at(job, tile_index, WAVE_SEGMENTS), *sum = max + rows;
    for (uint32_t s = 0; s < job->wave_segments; s++) {
        uint32_t segment = job->wave_first + s;
        const float *partial = partial_at(job, tile_index, s);
        if (segment < first || segment > last)
            continue;
        for (uint32_t row = 0; row < rows; row++) {
            struct attention_merge merge = {
                .head_dim = head_dim,
                .max = &max[row],
                .sum = &sum[row],
                .out = row_out(job, tile, row),
                .next_max = partial[(size_t)rows * head_dim + row],
                .next_sum = partial[(size_t)rows * (head_dim + 1) + row],
                .next_out = partial + (size_t)row * head_dim,
            };
            merge_row(job, segment > first, &merge);
            if (segment == last)
                finish_row(merge.out, sum[row], head_dim);
        }
    }
}

static void attend_by_segments(struct attention_job *job, uint32_t segments)
{
    for (job->wave_first = 0; job->wave_first < segments; job->wave_first += WAVE_SEGMENTS) {
        uint32_t left = segments - job->wave_first;
        job->wave_segments = left < WAVE_SEGMENTS ? left : WAVE_SEGMENTS;
        atomic_store_explicit(&job->next, 0, memory_order_relaxed);
        pool_run(job->kernels->pool, do_partials, job);
        for (uint32_t tile = 0; tile < job->tiles; tile++)
            merge_wave(job, tile);
    }
}

/* ---- the operation ---- */

static uint32_t cut_tiles(const struct kernels *kernels, const struct attention_args *args,
                          const struct kv_group *group, uint32_t tile_tokens)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < args->run_count; i++) {
        const struct row_run *run = &args->runs[i];
        for (uint32_t token = 0; token < run->rows; token += tile_tokens) {
            for (uint32_t head = 0; head < group->heads; head++) {
                CHECK(count < kernels->tiles_max);
                kernels->tiles[count++] = (struct attention_tile){
                    .run = run,
                    .head = head,
                    .first_token = token,
                    .tokens = run->rows - token < tile_tokens ? run->rows - token : tile_tokens,
                };
            }
        }
    }
    return count;
}

static void store_rows(void *context, uint32_t worker)
{
    const struct attention_job *job = context;
    uint32_t workers = job->kernels->workers, columns = job->activations->columns;
    uint32_t end = pool_share(job->rows, worker + 1, workers);
    for (uint32_t row = pool_share(job->rows, worker, workers); row < end; row++)
        cpu_store_row(job->kernels, job->activations, row, job->out + (size_t)row * columns);
}

static void store_all_rows(const struct attention_job *job)
{
    for (uint32_t row = 0; row < job->rows; row++)
        cpu_store_row(job->kernels, job->activations, row, job->out + (size_t)row * job->activations->columns);
}

static void check_args(const struct kernels *kernels, const struct attention_args *args, const struct kv_group *group)
{
    CHECK(args->run_count <= kernels->args.runs_max && args->query_heads <= kernels->args.query_heads_max);
    CHECK(args->query_heads % group->heads == 0);
    CHECK(args->out->columns == args->query_heads * group->head_dim);
    for (uint32_t i = 0; i < args->run_count; i++) {
        const struct row_run *run = &args->runs[i];
        CHECK(run->rows <= kernels->args.context && run->first_position <= kernels->args.context - run->rows);
        CHECK(run->first_row + run->rows <= args->out->rows_max);
        CHECK(run->first_row + run->rows <= kernels->args.rows_max);
    }
}

void cpu_attention(struct kernels *kernels, const struct attention_args *args)
{
    const struct kv_layout *layout = &kernels->args.layout;
    CHECK(args->layer < layout->layers);
    const struct kv_group *group = &layout->groups[layout->layer_group[args->layer]];
    check_args(kernels, args, group);
    struct attention_job job = {
        .kernels = kernels,
        .args = args,
        .group = group,
        .group_index = layout->layer_group[args->layer],
        .layer = layout->layer_index[args->layer],
        .heads_shared = args->query_heads / group->heads,
        .scale = 1.0f / sqrtf((float)group->head_dim),
        .out = args->out->floats != NULL ? args->out->floats : kernels->attention_out,
        .activations = args->out,
    };
    uint32_t segments = 0, few = kernels->workers * TILES_A_WORKER;
    for (uint32_t i = 0; i < args->run_count; i++) {
        const struct row_run *run = &args->runs[i];
        uint32_t end = run->first_position + run->rows;
        uint32_t run_segments = (end + SEGMENT_TOKENS - 1) / SEGMENT_TOKENS;
        segments = run_segments > segments ? run_segments : segments;
        job.rows = run->first_row + run->rows > job.rows ? run->first_row + run->rows : job.rows;
    }

    uint32_t tile_tokens = TILE_ROWS / job.heads_shared > 0 ? TILE_ROWS / job.heads_shared : 1;
    while ((job.tiles = cut_tiles(kernels, args, group, tile_tokens)) < few && tile_tokens > 1)
        tile_tokens /= 2;
    atomic_init(&job.next, 0);
    if (kernels->workers == 1 || (segments == 1 && job.rows == 1 && job.heads_shared * group->heads < 64))
        do_tiles(&job, 0);
    else if (job.tiles < few && segments > 1)
        attend_by_segments(&job, segments);
    else
        pool_run(kernels->pool, do_tiles, &job);
    if ((size_t)job.rows * args->out->columns > STORE_ALONE_ELEMENTS)
        pool_run(kernels->pool, store_rows, &job);
    else
        store_all_rows(&job);
}
