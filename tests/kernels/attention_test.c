/* rope_append and attention: sequences driven in random steps, on every variant and thread count, give the same bits as
 * the scalar twin in other steps, and come near a double-precision twin. All pages are NaN until written; pages that a
 * window has left are not named any more; partly filled pages move now and then. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/half.h"
#include "tests/kernels/bed.h"
#include "tests/unit/unit.h"

#define SEQUENCES 3
#define LAYERS 2 /* 0: full, 1: windowed where the shape has a window */
#define ROWS_MAX 96
#define PAGES_MAX 256 /* a sequence and group */

struct shape {
    uint32_t heads;
    uint32_t query_heads;
    uint32_t head_dim;
    uint32_t rope_dims;
    uint32_t window;
    uint32_t block_tokens;
    uint32_t tokens[SEQUENCES];
};

struct sequence {
    uint32_t tokens;
    float *q; /* (tokens, query_heads, head_dim) */
    float *k; /* (tokens, heads, head_dim) */
    float *v;
    float *out[LAYERS]; /* (tokens, query_heads, head_dim) */
};

struct scene {
    struct shape shape;
    struct sequence sequences[SEQUENCES];
};

static size_t query_floats(const struct shape *shape)
{
    return (size_t)shape->query_heads * shape->head_dim;
}

static size_t key_floats(const struct shape *shape)
{
    return (size_t)shape->heads * shape->head_dim;
}

static float *random_floats(size_t count, float scale, uint64_t *random)
{
    float *floats = malloc(count * sizeof(float));
    ck_assert_ptr_nonnull(floats);
    for (size_t i = 0; i < count; i++)
        floats[i] = bed_normal(random) * scale;
    return floats;
}

static struct scene scene_make(const struct shape *shape, uint64_t *random)
{
    struct scene scene = {.shape = *shape};
    for (int s = 0; s < SEQUENCES; s++) {
        struct sequence *sequence = &scene.sequences[s];
        sequence->tokens = shape->tokens[s];
        sequence->q = random_floats(sequence->tokens * query_floats(shape), 2.0f, random);
        sequence->k = random_floats(sequence->tokens * key_floats(shape), 1.5f, random);
        sequence->v = random_floats(sequence->tokens * key_floats(shape), 1.0f, random);
        for (int layer = 0; layer < LAYERS; layer++)
            sequence->out[layer] = random_floats(sequence->tokens * query_floats(shape), 1.0f, random);
    }
    return scene;
}

static void scene_free(struct scene *scene)
{
    for (int s = 0; s < SEQUENCES; s++) {
        free(scene->sequences[s].q);
        free(scene->sequences[s].k);
        free(scene->sequences[s].v);
        for (int layer = 0; layer < LAYERS; layer++)
            free(scene->sequences[s].out[layer]);
    }
}

/* ---- driving a scene through a backend ---- */

struct drive {
    struct scene *scene;
    struct kernels *kernels;
    struct kv_layout layout;
    struct matrix *identity;
    struct activations *attended;
    float *q, *k, *v, *out;
    uint32_t done[SEQUENCES];
    uint32_t pages[SEQUENCES][LAYERS][PAGES_MAX]; /* by group */
    uint32_t page_count[SEQUENCES][LAYERS];
    uint32_t free_pages[8 * PAGES_MAX];
    uint32_t free_count;
    uint64_t random;
};

static uint32_t take_page(struct drive *drive)
{
    ck_assert_uint_gt(drive->free_count, 0);
    return drive->free_pages[--drive->free_count];
}

static void give_page(struct drive *drive, uint32_t page)
{
    kernels_cpu.kv_poison(drive->kernels, page);
    drive->free_pages[drive->free_count++] = page;
}

static void drive_open(struct drive *drive, struct scene *scene, const char *cpu, uint32_t threads, uint64_t random)
{
    const struct shape *shape = &scene->shape;
    /* What all sequences need at their ends in both groups, and a few to move to. */
    uint32_t columns = (uint32_t)query_floats(shape), pages = 8;
    for (int s = 0; s < SEQUENCES; s++)
        pages += LAYERS * (shape->tokens[s] / shape->block_tokens + 1);
    struct bed_args args = {
        .cpu = cpu,
        .threads = threads,
        .mode = ACTIVATIONS_F32,
        .rows_max = ROWS_MAX,
        .context = 1024,
        .query_heads = shape->query_heads,
        .heads = shape->heads,
        .head_dim = shape->head_dim,
        .rope_dims = shape->rope_dims,
        .window = shape->window,
        .block_tokens = shape->block_tokens,
        .pages = pages,
    };
    *drive = (struct drive){.scene = scene, .kernels = bed_open(&args), .random = random};
    drive->layout = bed_layout(&args);
    float *ones = calloc((size_t)columns * columns, sizeof(float));
    for (uint32_t i = 0; i < columns; i++)
        ones[(size_t)i * columns + i] = 1.0f;
    drive->identity = bed_pack(drive->kernels, TENSOR_F32, ones, columns, columns);
    free(ones);
    const struct matrix *consumer = drive->identity;
    drive->attended = kernels_cpu.activations_take(drive->kernels, ROWS_MAX, columns, &consumer, 1);
    drive->q = bed_floats(drive->kernels, ROWS_MAX * query_floats(shape));
    drive->k = bed_floats(drive->kernels, ROWS_MAX * key_floats(shape));
    drive->v = bed_floats(drive->kernels, ROWS_MAX * key_floats(shape));
    drive->out = bed_floats(drive->kernels, ROWS_MAX * query_floats(shape));
    for (uint32_t i = 0; i < pages; i++)
        give_page(drive, i);
    for (uint32_t i = pages - 1; i > 0; i--) {
        uint32_t j = (uint32_t)test_random_below(&drive->random, i + 1), page = drive->free_pages[i];
        drive->free_pages[i] = drive->free_pages[j];
        drive->free_pages[j] = page;
    }
}

static void drive_close(struct drive *drive)
{
    kernels_cpu.floats_give(drive->kernels, drive->q);
    kernels_cpu.floats_give(drive->kernels, drive->k);
    kernels_cpu.floats_give(drive->kernels, drive->v);
    kernels_cpu.floats_give(drive->kernels, drive->out);
    kernels_cpu.activations_give(drive->kernels, drive->attended);
    kernels_cpu.matrix_free(drive->kernels, drive->identity);
    bed_close(drive->kernels);
}

/* Pages for the next tokens; pages behind the window go back; a partly filled last page may move. */
static void prepare_pages(struct drive *drive, uint32_t s, uint32_t tokens)
{
    uint32_t done = drive->done[s];
    for (uint32_t g = 0; g < drive->layout.group_count; g++) {
        const struct kv_group *group = &drive->layout.groups[g];
        uint32_t *pages = drive->pages[s][g], *count = &drive->page_count[s][g];
        if (done % group->page_tokens != 0 && test_random_below(&drive->random, 8) == 0) {
            uint32_t from = pages[*count - 1], to = take_page(drive);
            struct kv_copy_args copy = {g, from, to, done % group->page_tokens};
            kernels_cpu.kv_copy_rows(drive->kernels, &copy);
            pages[*count - 1] = to;
            give_page(drive, from);
        }
        while (*count * group->page_tokens < done + tokens)
            pages[(*count)++] = take_page(drive);
        uint32_t keep = group->window > 0 && done + 1 > group->window ? done + 1 - group->window : 0;
        for (uint32_t p = 0; (p + 1) * group->page_tokens <= keep; p++) {
            if (pages[p] != UINT32_MAX)
                give_page(drive, pages[p]);
            pages[p] = UINT32_MAX;
        }
    }
}

/* Random runs of the sequences that are not done; returns how many. */
static uint32_t choose_runs(struct drive *drive, struct row_run *runs, uint32_t *sequence_of)
{
    uint32_t count = 0, rows = 0, start = (uint32_t)test_random_below(&drive->random, SEQUENCES);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        uint32_t s = (start + i) % SEQUENCES, left = drive->scene->sequences[s].tokens - drive->done[s];
        uint32_t most = (uint32_t[]){1, 1, 5, 90}[test_random_below(&drive->random, 4)];
        uint32_t tokens = 1 + (uint32_t)test_random_below(&drive->random, most);
        tokens = tokens < left ? tokens : left;
        tokens = tokens < ROWS_MAX - rows ? tokens : ROWS_MAX - rows;
        if (tokens == 0 || test_random_below(&drive->random, 3) == 0)
            continue;
        prepare_pages(drive, s, tokens);
        runs[count] = (struct row_run){.first_row = rows, .rows = tokens, .first_position = drive->done[s]};
        for (uint32_t g = 0; g < drive->layout.group_count; g++)
            runs[count].pages[g] = drive->pages[s][g];
        sequence_of[count++] = s;
        rows += tokens;
    }
    return count;
}

static void run_layer(struct drive *drive, uint32_t layer, const struct row_run *runs, uint32_t run_count,
                      const uint32_t *sequence_of)
{
    const struct shape *shape = &drive->scene->shape;
    size_t query = query_floats(shape), key = key_floats(shape);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < run_count; i++) {
        const struct sequence *sequence = &drive->scene->sequences[sequence_of[i]];
        size_t row = runs[i].first_row, position = runs[i].first_position, count = runs[i].rows;
        kernels_cpu.upload(drive->kernels, drive->q + row * query, sequence->q + position * query, count * query);
        kernels_cpu.upload(drive->kernels, drive->k + row * key, sequence->k + position * key, count * key);
        kernels_cpu.upload(drive->kernels, drive->v + row * key, sequence->v + position * key, count * key);
        rows += runs[i].rows;
    }
    struct rope_append_args append = {drive->q, drive->k, drive->v, shape->query_heads, layer, runs, run_count};
    kernels_cpu.rope_append(drive->kernels, &append);
    struct attention_args attention = {drive->q, shape->query_heads, layer, runs, run_count, drive->attended};
    kernels_cpu.attention(drive->kernels, &attention);
    struct matmul_args read = {
        .input = drive->attended, .rows = rows, .count = 1, .matrix = {drive->identity}, .out = {drive->out}};
    kernels_cpu.matmul(drive->kernels, &read);
    kernels_cpu.wait(drive->kernels);
    for (uint32_t i = 0; i < run_count; i++)
        kernels_cpu.download(drive->kernels,
                             drive->scene->sequences[sequence_of[i]].out[layer] + runs[i].first_position * query,
                             drive->out + runs[i].first_row * query, runs[i].rows * query);
}

static void drive_all(struct scene *scene, const char *cpu, uint32_t threads, uint64_t random)
{
    static struct drive drive;
    drive_open(&drive, scene, cpu, threads, random);
    for (;;) {
        struct row_run runs[SEQUENCES];
        uint32_t sequence_of[SEQUENCES], left = 0;
        for (int s = 0; s < SEQUENCES; s++)
            left += scene->sequences[s].tokens - drive.done[s];
        if (left == 0)
            break;
        uint32_t count = choose_runs(&drive, runs, sequence_of);
        for (uint32_t layer = 0; layer < LAYERS && count > 0; layer++)
            run_layer(&drive, layer, runs, count, sequence_of);
        for (uint32_t i = 0; i < count; i++)
            drive.done[sequence_of[i]] += runs[i].rows;
    }
    drive_close(&drive);
}

/* ---- the double-precision twin ---- */

static void twin_rope(const float *x, const struct shape *shape, uint32_t position, double *out)
{
    for (uint32_t d = 0; d < shape->head_dim; d++)
        out[d] = x[d];
    for (uint32_t d = 0; d < shape->rope_dims; d += 2) {
        double angle = position * pow(10000.0, -(double)d / shape->rope_dims);
        out[d] = x[d] * cos(angle) - x[d + 1] * sin(angle);
        out[d + 1] = x[d] * sin(angle) + x[d + 1] * cos(angle);
    }
}

static double half_of(double value)
{
    return half_to_float(float_to_half((float)value));
}

static void twin_attend(const struct scene *scene, const struct sequence *sequence, uint32_t layer, uint32_t position,
                        uint32_t query_head, double *out)
{
    const struct shape *shape = &scene->shape;
    uint32_t dim = shape->head_dim, head = query_head / (shape->query_heads / shape->heads);
    uint32_t window = layer == 1 ? shape->window : 0;
    uint32_t first = window > 0 && position + 1 > window ? position + 1 - window : 0;
    double q[256], k[256], scores[1024], max = -INFINITY, sum = 0;
    twin_rope(sequence->q + position * query_floats(shape) + query_head * dim, shape, position, q);
    for (uint32_t p = first; p <= position; p++) {
        twin_rope(sequence->k + p * key_floats(shape) + head * dim, shape, p, k);
        scores[p] = 0;
        for (uint32_t d = 0; d < dim; d++)
            scores[p] += q[d] * half_of(k[d]) / sqrt(dim);
        max = fmax(max, scores[p]);
    }
    memset(out, 0, dim * sizeof(double));
    for (uint32_t p = first; p <= position; p++) {
        double weight = exp(scores[p] - max);
        sum += weight;
        for (uint32_t d = 0; d < dim; d++)
            out[d] += weight * half_of(sequence->v[p * key_floats(shape) + head * dim + d]);
    }
    for (uint32_t d = 0; d < dim; d++)
        out[d] /= sum;
}

static void check_twin(const struct scene *scene, uint64_t *random)
{
    const struct shape *shape = &scene->shape;
    for (int i = 0; i < 60; i++) {
        const struct sequence *sequence = &scene->sequences[test_random_below(random, SEQUENCES)];
        uint32_t layer = (uint32_t)test_random_below(random, LAYERS);
        uint32_t head = (uint32_t)test_random_below(random, shape->query_heads);
        uint32_t position = i < 4 ? sequence->tokens - 1 : (uint32_t)test_random_below(random, sequence->tokens);
        double expected[256];
        twin_attend(scene, sequence, layer, position, head, expected);
        const float *got = sequence->out[layer] + position * query_floats(shape) + head * shape->head_dim;
        for (uint32_t d = 0; d < shape->head_dim; d++)
            bed_near("attention", got[d], expected[d], 1.0, 2e-3);
    }
}

static const struct shape shapes[] = {
    {1, 1, 16, 16, 0, 16, {1, 40, 800}},     {3, 9, 64, 64, 0, 32, {300, 17, 257}},
    {2, 8, 80, 32, 100, 16, {270, 256, 64}}, {1, 7, 128, 128, 33, 64, {300, 90, 5}},
    {4, 4, 48, 0, 256, 256, {530, 255, 30}}, {2, 2, 256, 256, 300, 128, {290, 330, 31}},
    {1, 70, 16, 16, 16, 16, {270, 33, 20}},
};

START_TEST(steps_variants_and_threads_do_not_change_a_bit)
{
    uint64_t random = test_seed() * 77 + (uint64_t)_i;
    const char *names[TEST_VARIANTS_MAX];
    uint32_t variants = bed_variants(names);
    struct scene scene = scene_make(&shapes[_i], &random);
    float *expected[SEQUENCES][LAYERS];
    drive_all(&scene, "scalar", 1, test_random(&random));
    check_twin(&scene, &random);
    for (int s = 0; s < SEQUENCES; s++)
        for (int layer = 0; layer < LAYERS; layer++) {
            size_t bytes = scene.sequences[s].tokens * query_floats(&scene.shape) * sizeof(float);
            expected[s][layer] = malloc(bytes);
            memcpy(expected[s][layer], scene.sequences[s].out[layer], bytes);
        }
    for (uint32_t i = 0; i < 4 * variants; i++) {
        uint32_t threads = 1 + i / variants;
        if (i >= variants && strcmp(names[i % variants], "scalar") == 0)
            continue;
        drive_all(&scene, names[i % variants], threads, test_random(&random));
        for (int s = 0; s < SEQUENCES; s++)
            for (int layer = 0; layer < LAYERS; layer++) {
                char what[80];
                snprintf(what, sizeof(what), "%s, %u threads, sequence %d, layer %d", names[i % variants], threads, s,
                         layer);
                bed_equal(what, scene.sequences[s].out[layer], expected[s][layer],
                          scene.sequences[s].tokens * query_floats(&scene.shape));
            }
    }
    for (int s = 0; s < SEQUENCES; s++)
        for (int layer = 0; layer < LAYERS; layer++)
            free(expected[s][layer]);
    scene_free(&scene);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("attention");
    tcase_add_loop_test(t, steps_variants_and_threads_do_not_change_a_bit, 0,
                        (int)(sizeof(shapes) / sizeof(shapes[0])));
    suite_add_tcase(s, t);
    return s;
}
