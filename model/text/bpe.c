/* See bpe.h. A short piece is merged by looking through its pairs again after each merge; a long one with a linked list
 * and a heap of pairs, ordered by (rank, position). Stale heap entries are told by their rank: a pair's place only ever
 * sees its two halves grow, so a rank once left does not come back. */
#include "model/text/bpe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"
#include "model/text/byte_level.h"
#include "model/text/file_name.h"

#define MERGES_KEY "tokenizer.ggml.merges"
#define NONE UINT32_MAX
#define MERGE_BYTES_MAX (2 * VOCABULARY_TOKEN_BYTES_MAX + 1)

#define SHORT_SYMBOLS 32
#define KEPT_SYMBOLS (64u << 10) /* room that bpe_scratch_trim leaves */

#define CACHE_WORDS 8192 /* a power of two; 64 bytes each */
#define CACHED_BYTES 30
#define CACHED_IDS 8

struct merge {
    uint32_t left;
    uint32_t right;
    uint32_t rank; /* NONE: an empty slot */
};

struct bpe {
    const struct vocabulary *vocabulary;
    bool whole_words;
    uint32_t byte_ids[256]; /* NONE: the vocabulary has no token for this byte */
    struct merge *slots;    /* (slot_count) open addressing by pair, at most half full */
    size_t slot_count;      /* a power of two */
    uint32_t *merged;       /* (merges) id that the merge of each rank makes */
};

struct symbol {
    uint32_t id;
    uint32_t previous; /* NONE: the first */
    uint32_t next;     /* NONE: the last */
    uint32_t rank;     /* of the pair (this, next); NONE: it cannot be merged */
};

struct cached_word {
    uint8_t size; /* 0: empty */
    uint8_t count;
    char bytes[CACHED_BYTES];
    int32_t ids[CACHED_IDS];
};

struct bpe_scratch {
    struct cached_word *words; /* (CACHE_WORDS) by hash, a newer one replaces an older */
    struct symbol *symbols;    /* (capacity) */
    uint64_t *heap;            /* (2 * capacity) rank << 32 | position */
    int32_t *ids;              /* (capacity) */
    size_t capacity;
};

/* ---- the table of merges ---- */

static size_t slot_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    uint64_t mixed = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed >> 32) & (bpe->slot_count - 1);
}

static struct merge *find_slot(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    size_t at = slot_of(bpe, left, right);
    for (;; at = (at + 1) & (bpe->slot_count - 1)) {
        struct merge *slot = &bpe->slots[at];
        if (slot->rank == NONE || (slot->left == left && slot->right == right))
            return slot;
    }
}

static uint32_t rank_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    return find_slot(bpe, left, right)->rank;
}

/* What is wrong with a merge; NULL: nothing. `bytes` has room for as much as the text. *merged is a guess at first. */
static const char *read_merge(const struct vocabulary *vocabulary, struct model_text text, char *bytes,
                              struct merge *merge, uint32_t *merged)
{
    const char *space = memchr(text.data, ' ', text.size);
    size_t left_text = space == NULL ? 0 : (size_t)(space - text.data);
    if (left_text == 0 || left_text + 1 == text.size || memchr(space + 1, ' ', text.size - left_text - 1) != NULL)
        return "is not two tokens with a space between them";

    size_t left, right;
    if (!byte_level_decode(text.data, left_text, bytes, &left) ||
        !byte_level_decode(space + 1, text.size - left_text - 1, bytes + left, &right))
        return "names a token that is not in the vocabulary";
    merge->left = vocabulary_find(vocabulary, bytes, left);
    merge->right = vocabulary_find(vocabulary, bytes + left, right);
    if (merge->left == MAP_NONE || merge->right == MAP_NONE)
        return "names a token that is not in the vocabulary";
    /* Files list tokens in the order of the merges that make them: no need to search for most. */
    if (!vocabulary_is(vocabulary, *merged, bytes, left + right))
        *merged = vocabulary_find(vocabulary, bytes, left + right);
    return *merged == MAP_NONE ? "makes a token that is not in the vocabulary" : NULL;
}

static enum status add_merge(const struct model_file *file, struct bpe *bpe, uint32_t rank, char *bytes,
                             struct error *error)
{
    struct model_text text;
    struct merge merge = {.rank = rank};
    const char *wrong;
    bpe->merged[rank] = rank == 0 ? 0 : bpe->merged[rank - 1] + 1;
    if (!model_file_array_text(file, MERGES_KEY, rank, &text))
        wrong = "is not a string";
    else if (text.size > MERGE_BYTES_MAX)
        wrong = "is longer than 128 KiB";
    else
        wrong = read_merge(bpe->vocabulary, text, bytes, &merge, &bpe->merged[rank]);
    if (wrong == NULL) {
        struct merge *slot = find_slot(bpe, merge.left, merge.right);
        if (slot->rank == NONE) {
            *slot = merge;
            return STATUS_OK;
        }
        wrong = "is there twice";
    }
    return error_set(error, STATUS_INVALID, "%.100s: %s[%" PRIu32 "] %s", file_name(file), MERGES_KEY, rank, wrong);
}

static enum status read_merges(const struct model_file *file, struct bpe *bpe, uint32_t count, struct error *error)
{
    size_t slots = 16;
    while (slots < (size_t)count * 2)
        slots *= 2;
    bpe->slot_count = slots;
    bpe->slots = malloc(slots * sizeof(*bpe->slots));
    bpe->merged = malloc((count > 0 ? count : 1) * sizeof(*bpe->merged));
    char *bytes = malloc(MERGE_BYTES_MAX);
    enum status status = STATUS_OK;
    if (bpe->slots == NULL || bpe->merged == NULL || bytes == NULL)
        status = error_no_memory(error, "the merges");
    for (size_t i = 0; i < slots && status == STATUS_OK; i++)
        bpe->slots[i] = (struct merge){.rank = NONE};
    for (uint32_t rank = 0; rank < count && status == STATUS_OK; rank++)
        status = add_merge(file, bpe, rank, bytes, error);
    free(bytes);
    return status;
}

enum status bpe_open(const struct model_file *file, const struct vocabulary *vocabulary, bool whole_words,
                     struct bpe **out, struct error *error)
{
    size_t count;
    if (!model_file_array(file, MERGES_KEY, &count))
        return error_set(error, STATUS_INVALID, "%.100s has no %s", file_name(file), MERGES_KEY);
    if (count > BPE_MERGES_MAX)
        return error_set(error, STATUS_INVALID, "%.100s: %s has %zu entries; the limit is %u", file_name(file),
                         MERGES_KEY, count, BPE_MERGES_MAX);
    struct bpe *bpe = calloc(1, sizeof(*bpe));
    if (bpe == NULL)
        return error_no_memory(error, "the merges");
    bpe->vocabulary = vocabulary;
    bpe->whole_words = whole_words;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text = (char)byte;
        bpe->byte_ids[byte] = vocabulary_find(vocabulary, &text, 1);
    }
    enum status status = read_merges(file, bpe, (uint32_t)count, error);
    if (status != STATUS_OK) {
        bpe_close(bpe);
        return status;
    }
    *out = bpe;
    return STATUS_OK;
}

void bpe_close(struct bpe *bpe)
{
    if (bpe == NULL)
        return;
    free(bpe->merged);
    free(bpe->slots);
    free(bpe);
}

/* ---- scratch ---- */

/* Makes room for a piece of `symbols` bytes; what was in it is lost. */
static bool resize(struct bpe_scratch *scratch, size_t symbols)
{
    free(scratch->symbols);
    free(scratch->heap);
    free(scratch->ids);
    scratch->capacity = symbols;
    scratch->symbols = malloc(symbols * sizeof(*scratch->symbols));
    scratch->heap = malloc(2 * symbols * sizeof(*scratch->heap));
    scratch->ids = malloc(symbols * sizeof(*scratch->ids));
    if (scratch->symbols != NULL && scratch->heap != NULL && scratch->ids != NULL)
        return true;
    scratch->capacity = 0;
    return false;
}

enum status bpe_scratch_open(struct bpe_scratch **out, struct error *error)
{
    struct bpe_scratch *scratch = calloc(1, sizeof(*scratch));
    if (scratch == NULL)
        return error_no_memory(error, "the tokenizer");
    scratch->words = aligned_alloc(64, CACHE_WORDS * sizeof(*scratch->words));
    if (scratch->words == NULL || !resize(scratch, SHORT_SYMBOLS)) {
        bpe_scratch_close(scratch);
        return error_no_memory(error, "the tokenizer");
    }
    for (size_t i = 0; i < CACHE_WORDS; i++)
        scratch->words[i] = (struct cached_word){0};
    *out = scratch;
    return STATUS_OK;
}

void bpe_scratch_close(struct bpe_scratch *scratch)
{
    if (scratch == NULL)
        return;
    free(scratch->ids);
    free(scratch->heap);
    free(scratch->symbols);
    free(scratch->words);
    free(scratch);
}

void bpe_scratch_trim(struct bpe_scratch *scratch)
{
    if (scratch->capacity > KEPT_SYMBOLS)
        (void)resize(scratch, KEPT_SYMBOLS);
}

/* ---- merging a short piece ---- */

static void close_gap(uint32_t *values, size_t at, size_t count)
{
    memmove(values + at, values + at + 1, (count - at - 1) * sizeof(*values));
}

/* ids: (count), count <= SHORT_SYMBOLS, merged in place. Returns how many are left. */
static size_t merge_short(const struct bpe *bpe, uint32_t *ids, size_t count)
{
    uint32_t ranks[SHORT_SYMBOLS]; /* of the pairs (i, i + 1) */
    for (size_t i = 0; i + 1 < count; i++)
        ranks[i] = rank_of(bpe, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++) {
            if (ranks[i] < ranks[best])
                best = i;
        }
        if (ranks[best] == NONE)
            break;
        ids[best] = bpe->merged[ranks[best]];
        close_gap(ids, best + 1, count);
        close_gap(ranks, best, count - 1);
        count--;
        if (best > 0)
            ranks[best - 1] = rank_of(bpe, ids[best - 1], ids[best]);
        if (best + 1 < count)
            ranks[best] = rank_of(bpe, ids[best], ids[best + 1]);
    }
    return count;
}

/* ---- merging a long piece ---- */

static void sift_up(uint64_t *heap, size_t at)
{
    uint64_t entry = heap[at];
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static void sift_down(uint64_t *heap, size_t size, size_t at)
{
    uint64_t entry = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= size)
            break;
        if (child + 1 < size && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= entry)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

/* Ranks the pair that begins at a symbol anew; true: it can be merged. */
static bool rank_pair(const struct bpe *bpe, struct symbol *symbols, uint32_t at)
{
    uint32_t next = symbols[at].next;
    symbols[at].rank = next == NONE ? NONE : rank_of(bpe, symbols[at].id, symbols[next].id);
    return symbols[at].rank != NONE;
}

static uint64_t heap_entry(const struct symbol *symbols, uint32_t at)
{
    return (uint64_t)symbols[at].rank << 32 | at;
}

/* Joins the symbol at `at` with the next one. */
static void join(const struct bpe *bpe, struct symbol *symbols, uint32_t at)
{
    uint32_t gone = symbols[at].next;
    uint32_t next = symbols[gone].next;
    symbols[at].id = bpe->merged[symbols[at].rank];
    symbols[at].next = next;
    symbols[gone].rank = NONE;
    if (next != NONE)
        symbols[next].previous = at;
}

/* ids: (count) into scratch->ids, merged in place; scratch has room for count symbols. The heap holds at most one entry
 * a pair at first and gains at most one a merge: less than 2 * count. */
static size_t merge_long(const struct bpe *bpe, struct bpe_scratch *scratch, uint32_t *ids, size_t count)
{
    struct symbol *symbols = scratch->symbols;
    uint64_t *heap = scratch->heap;
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        symbols[i] = (struct symbol){ids[i], i == 0 ? NONE : i - 1, i + 1 < count ? i + 1 : NONE, NONE};
    for (uint32_t i = 0; i < count; i++) {
        if (rank_pair(bpe, symbols, i))
            heap[size++] = heap_entry(symbols, i);
    }
    for (size_t i = size / 2; i-- > 0;)
        sift_down(heap, size, i);

    while (size > 0) {
        uint64_t top = heap[0];
        heap[0] = heap[--size];
        if (size > 0)
            sift_down(heap, size, 0);
        uint32_t at = (uint32_t)top;
        if (symbols[at].rank != (uint32_t)(top >> 32))
            continue;
        join(bpe, symbols, at);
        uint32_t changed[2] = {symbols[at].previous, at};
        for (size_t i = 0; i < 2; i++) {
            if (changed[i] != NONE && rank_pair(bpe, symbols, changed[i])) {
                heap[size] = heap_entry(symbols, changed[i]);
                sift_up(heap, size++);
            }
        }
    }
    size_t left = 0;
    for (uint32_t at = 0; at != NONE; at = symbols[at].next)
        ids[left++] = symbols[at].id;
    return left;
}

/* ---- pieces ---- */

static enum status encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *piece, size_t size,
                          struct bpe_tokens *out, struct error *error)
{
    if (size > BPE_PIECE_BYTES_MAX)
        return error_set(error, STATUS_TOO_LARGE,
                         "the text has a run of %zu bytes without a place to cut; the limit is %zu", size,
                         BPE_PIECE_BYTES_MAX);
    if (size > scratch->capacity && !resize(scratch, size_max(size, size_min(2 * scratch->capacity, KEPT_SYMBOLS)))) {
        return error_no_memory(error, "the tokenizer");
    }
    uint32_t *ids = (uint32_t *)scratch->ids;
    size_t count = 0;
    for (size_t i = 0; i < size; i++) {
        ids[count] = bpe->byte_ids[(uint8_t)piece[i]];
        count += ids[count] != NONE;
    }
    size_t unknown_bytes = size - count;
    if (count > SHORT_SYMBOLS)
        count = merge_long(bpe, scratch, ids, count);
    else if (count > 1)
        count = merge_short(bpe, ids, count);
    *out = (struct bpe_tokens){.ids = scratch->ids, .count = count, .unknown_bytes = unknown_bytes};
    return STATUS_OK;
}

static bool is_whole_word(const struct bpe *bpe, struct bpe_scratch *scratch, const char *piece, size_t size,
                          struct bpe_tokens *out)
{
    uint32_t id = vocabulary_find(bpe->vocabulary, piece, size);
    if (id == MAP_NONE || scratch->capacity == 0) /* none: a trim found no memory, and `encode` asks again */
        return false;
    scratch->ids[0] = (int32_t)id;
    *out = (struct bpe_tokens){.ids = scratch->ids, .count = 1};
    return true;
}

enum status bpe_encode(const struct bpe *bpe, struct bpe_scratch *scratch, const char *piece, size_t size,
                       struct bpe_tokens *out, struct error *error)
{
    CHECK(size > 0);
    struct cached_word *word = NULL;
    if (size <= CACHED_BYTES) {
        word = &scratch->words[XXH3_64bits(piece, size) & (CACHE_WORDS - 1)];
        if (word->size == size && memcmp(word->bytes, piece, size) == 0) {
            *out = (struct bpe_tokens){.ids = word->ids, .count = word->count};
            return STATUS_OK;
        }
    }
    if (!bpe->whole_words || !is_whole_word(bpe, scratch, piece, size, out)) {
        enum status status = encode(bpe, scratch, piece, size, out, error);
        if (status != STATUS_OK)
            return status;
    }
    if (word != NULL && out->count <= CACHED_IDS && out->unknown_bytes == 0) {
        word->size = (uint8_t)size;
        word->count = (uint8_t)out->count;
        memcpy(word->bytes, piece, size);
        memcpy(word->ids, out->ids, out->count * sizeof(*out->ids));
    }
    return STATUS_OK;
}
