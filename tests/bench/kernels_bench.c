/* Speed of single operations on this processor: GOP/s (two operations a multiply-add) and GB/s of weights or KV read.
 *
 *     kernels_bench [--cpu NAME] [--threads N] [--only TEXT]
 *
 * Weights are random; shapes are those of small and middle-sized models. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/thread.h"
#include "kernels/kernels.h"

#define SECONDS_A_CASE 0.25

struct bench {
    struct kernels *kernels;
    const char *only;
    uint32_t threads;
    uint64_t random;
};

static uint64_t next_random(struct bench *bench)
{
    bench->random ^= bench->random << 13;
    bench->random ^= bench->random >> 7;
    bench->random ^= bench->random << 17;
    return bench->random;
}

static void die(const char *text)
{
    fprintf(stderr, "kernels_bench: %s\n", text);
    exit(1);
}

static void *take(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL)
        die("no memory");
    return memory;
}

/* Blocks whose scales are small halves, whatever the type. */
static struct matrix *random_matrix(struct bench *bench, enum tensor_type type, uint32_t rows, uint32_t columns)
{
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    size_t bytes = (size_t)rows * columns / facts->block_elements * facts->block_bytes;
    uint8_t *data = take(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = facts->block_elements > 1 ? (uint8_t)(next_random(bench) & 0x3f) : i % 2 == 0 ? 0 : 0x3c;
    struct tensor_view view = {data, type, rows, columns};
    struct matrix *matrix;
    struct error error;
    if (kernels_cpu.matrix_pack(bench->kernels, &view, &matrix, &error) != STATUS_OK)
        die(error.text);
    free(data);
    return matrix;
}

static float *random_floats(struct bench *bench, size_t count)
{
    float *floats = kernels_cpu.floats_take(bench->kernels, count);
    if (floats == NULL)
        die("no memory");
    for (size_t i = 0; i < count; i++)
        floats[i] = (float)(next_random(bench) % 2001) * 0.001f - 1.0f;
    return floats;
}

static struct activations *take_activations(struct bench *bench, uint32_t rows, uint32_t columns,
                                            const struct matrix *consumer)
{
    struct activations *taken = kernels_cpu.activations_take(bench->kernels, rows, columns, &consumer, 1);
    if (taken == NULL)
        die("no memory");
    return taken;
}

static bool wanted(const struct bench *bench, const char *name)
{
    return bench->only == NULL || strstr(name, bench->only) != NULL;
}

/* With one thread its processor time, which other programs disturb less; otherwise the clock. */
static double seconds_now(const struct bench *bench)
{
    struct timespec time;
    clock_gettime(bench->threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Best of the repetitions that fit in the time. */
static double best_seconds(struct bench *bench, void (*run)(struct bench *bench, void *context), void *context)
{
    double best = INFINITY, start = seconds_now(bench);
    while (seconds_now(bench) - start < SECONDS_A_CASE) {
        double before = seconds_now(bench);
        run(bench, context);
        double seconds = seconds_now(bench) - before;
        best = seconds < best ? seconds : best;
    }
    return best;
}

#define COPIES_MAX 64

struct matmul_case {
    struct matmul_args args[COPIES_MAX];
    uint32_t copies;
};

static void run_matmul(struct bench *bench, void *context)
{
    const struct matmul_case *c = context;
    for (uint32_t i = 0; i < c->copies; i++)
        kernels_cpu.matmul(bench->kernels, &c->args[i]);
}

/* Enough different matrices that a cache does not keep them, as in a model, when there are few rows. */
static void bench_matmul(struct bench *bench, enum tensor_type type, uint32_t outputs, uint32_t columns, uint32_t rows)
{
    char name[96];
    const struct tensor_type_facts *facts = tensor_type_facts(type);
    snprintf(name, sizeof(name), "matmul %s (%u, %u) x %u", facts->name, outputs, columns, rows);
    if (!wanted(bench, name))
        return;
    double file_bytes = (double)outputs * columns / facts->block_elements * facts->block_bytes;
    struct matmul_case c = {.copies = rows <= 16 ? (uint32_t)fmin(COPIES_MAX, 1 + 64e6 / file_bytes) : 1};
    struct matrix *matrix[COPIES_MAX];
    for (uint32_t i = 0; i < c.copies; i++)
        matrix[i] = random_matrix(bench, type, outputs, columns);
    struct activations *input = take_activations(bench, rows, columns, matrix[0]);
    float *x = random_floats(bench, (size_t)rows * columns), *weight = random_floats(bench, columns);
    float *out = random_floats(bench, (size_t)rows * outputs);
    struct norm_args norm = {
        .x = x, .weight = weight, .epsilon = 1e-5f, .rows = rows, .columns = columns, .out = input};
    kernels_cpu.norm(bench->kernels, &norm);
    for (uint32_t i = 0; i < c.copies; i++)
        c.args[i] = (struct matmul_args){.input = input, .rows = rows, .count = 1, .matrix = {matrix[i]}, .out = {out}};
    double seconds = best_seconds(bench, run_matmul, &c) / c.copies;
    printf("%-34s %9.1f us %8.1f GOP/s %7.2f GB/s\n", name, seconds * 1e6, 2e-9 * outputs * columns * rows / seconds,
           file_bytes * 1e-9 / seconds);
    fflush(stdout);
    for (uint32_t i = 0; i < c.copies; i++)
        kernels_cpu.matrix_free(bench->kernels, matrix[i]);
    kernels_cpu.activations_give(bench->kernels, input);
    kernels_cpu.floats_give(bench->kernels, x);
    kernels_cpu.floats_give(bench->kernels, weight);
    kernels_cpu.floats_give(bench->kernels, out);
}

struct rows_case {
    struct norm_args norm;
    struct swiglu_args swiglu;
    struct rope_append_args rope;
    struct attention_args attention;
};

static void run_norm(struct bench *bench, void *context)
{
    kernels_cpu.norm(bench->kernels, &((struct rows_case *)context)->norm);
}

static void run_swiglu(struct bench *bench, void *context)
{
    kernels_cpu.swiglu(bench->kernels, &((struct rows_case *)context)->swiglu);
}

static void run_rope(struct bench *bench, void *context)
{
    kernels_cpu.rope_append(bench->kernels, &((struct rows_case *)context)->rope);
}

static void run_attention(struct bench *bench, void *context)
{
    kernels_cpu.attention(bench->kernels, &((struct rows_case *)context)->attention);
}

static void report(struct bench *bench, const char *what, uint32_t rows, uint32_t from, double operations, double bytes,
                   void (*run)(struct bench *bench, void *context), struct rows_case *c)
{
    char name[96];
    snprintf(name, sizeof(name), "%s x %u at %u", what, rows, from);
    if (!wanted(bench, name))
        return;
    double seconds = best_seconds(bench, run, c);
    printf("%-34s %9.1f us %8.1f GOP/s %7.2f GB/s\n", name, seconds * 1e6, operations * 1e-9 / seconds,
           bytes * 1e-9 / seconds);
    fflush(stdout);
}

/* The shapes of kernels_open below. */
#define HEADS 3
#define QUERY_HEADS 9
#define HEAD_DIM 64
#define COLUMNS (QUERY_HEADS * HEAD_DIM)
#define FEED_FORWARD 1536
#define CONTEXT 8192
#define BLOCK_TOKENS 32
#define ROWS_MAX 512

static void bench_rows(struct bench *bench, uint32_t rows, uint32_t from)
{
    struct matrix *narrow = random_matrix(bench, TENSOR_Q4_1, 16, COLUMNS);
    struct matrix *wide = random_matrix(bench, TENSOR_Q4_1, 16, FEED_FORWARD);
    struct activations *out = take_activations(bench, rows, COLUMNS, narrow);
    struct activations *out_wide = take_activations(bench, rows, FEED_FORWARD, wide);
    float *a = random_floats(bench, (size_t)rows * FEED_FORWARD),
          *b = random_floats(bench, (size_t)rows * FEED_FORWARD);
    uint32_t pages[CONTEXT / BLOCK_TOKENS];
    for (uint32_t i = 0; i < CONTEXT / BLOCK_TOKENS; i++)
        pages[i] = (i * 37) % (CONTEXT / BLOCK_TOKENS);
    struct row_run run = {.rows = rows, .first_position = from, .pages = {pages}};
    struct rows_case c = {
        .norm = {.x = a, .weight = b, .epsilon = 1e-5f, .rows = rows, .columns = COLUMNS, .out = out},
        .swiglu = {.gate = a, .up = b, .rows = rows, .columns = FEED_FORWARD, .out = out_wide},
        .rope = {.q = a, .k = b, .v = b, .query_heads = QUERY_HEADS, .runs = &run, .run_count = 1},
        .attention = {.q = a, .query_heads = QUERY_HEADS, .runs = &run, .run_count = 1, .out = out},
    };
    double keys = from + (rows + 1) / 2.0, elements = (double)rows * COLUMNS;
    report(bench, "norm", rows, 0, 0, elements * 5, run_norm, &c);
    report(bench, "swiglu", rows, 0, 0, (double)rows * FEED_FORWARD * 9, run_swiglu, &c);
    report(bench, "rope_append", rows, from, 0, elements * 4, run_rope, &c);
    report(bench, "attention", rows, from, 4 * elements * keys, 4.0 * HEADS * HEAD_DIM * (from + rows), run_attention,
           &c);
    kernels_cpu.floats_give(bench->kernels, a);
    kernels_cpu.floats_give(bench->kernels, b);
    kernels_cpu.activations_give(bench->kernels, out);
    kernels_cpu.activations_give(bench->kernels, out_wide);
    kernels_cpu.matrix_free(bench->kernels, narrow);
    kernels_cpu.matrix_free(bench->kernels, wide);
}

static void open_backend(struct bench *bench, const char *cpu)
{
    struct kernels_args args = {
        .cpu = cpu,
        .threads = bench->threads,
        .rows_max = ROWS_MAX,
        .runs_max = 16,
        .context = CONTEXT,
        .query_heads_max = QUERY_HEADS,
        .vocabulary = 16,
        .sample_rows_max = 1,
        .rope_base = 10000.0,
        .rope_dims = HEAD_DIM,
        .pages = CONTEXT / BLOCK_TOKENS,
    };
    struct kv_layer_shape shape = {KV_FULL, 0, HEADS, HEAD_DIM};
    struct error error;
    if (kv_layout_plan(&shape, 1, BLOCK_TOKENS, KV_F16, KV_F16, &args.layout, &error) != STATUS_OK ||
        kernels_cpu.open(&args, &bench->kernels, &error) != STATUS_OK)
        die(error.text);
    printf("%s, %u threads\n", kernels_cpu.variant(bench->kernels), bench->threads);
}

int main(int argc, char **argv)
{
    struct bench bench = {.random = 88172645463325252u};
    const char *cpu = "auto";
    bench.threads = thread_processors();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--cpu") == 0)
            cpu = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            bench.threads = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--only") == 0)
            bench.only = argv[i + 1];
        else
            die("usage: kernels_bench [--cpu NAME] [--threads N] [--only TEXT]");
    }
    open_backend(&bench, cpu);

    static const enum tensor_type types[] = {TENSOR_Q4_0, TENSOR_Q4_1, TENSOR_Q5_1, TENSOR_Q8_0,
                                             TENSOR_Q4_K, TENSOR_Q6_K, TENSOR_F16,  TENSOR_F32};
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
        bench_matmul(&bench, types[t], 3072, 768, 1);
        bench_matmul(&bench, types[t], 3072, 768, 4);
        bench_matmul(&bench, types[t], 3072, 768, 8);
        bench_matmul(&bench, types[t], 3072, 768, 512);
    }
    bench_matmul(&bench, TENSOR_Q4_1, 576, 1536, 1);
    bench_matmul(&bench, TENSOR_Q4_1, 576, 1536, 512);
    bench_matmul(&bench, TENSOR_Q4_1, 960, 576, 512);
    bench_matmul(&bench, TENSOR_Q8_0, 49152, 576, 1);
    bench_rows(&bench, 1, 500);
    bench_rows(&bench, 1, 4000);
    bench_rows(&bench, 512, 0);
    bench_rows(&bench, 512, 3500);
    kernels_cpu.close(bench.kernels);
    return 0;
}
