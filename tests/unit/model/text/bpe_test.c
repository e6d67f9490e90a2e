/* Merging against a plain one that looks for the best pair again after every merge. */
#include "model/text/bpe.h"

#include "kernels/base/check.h"
#include "tests/support/vocabulary_file.h"
#include "tests/unit/model/text/require.h"
#include "tests/unit/unit.h"

#define LETTERS 3
#define MERGES 200
#define PIECE_MAX 300

/* A vocabulary over a few letters whose merges are drawn at random; merges listed early may need later ones. */
struct random_vocabulary {
    struct vocabulary_file file;
    char tokens[LETTERS + MERGES][64];
    char merges[MERGES][64];
    size_t left[MERGES];
    size_t right[MERGES];
    size_t merged[MERGES];
};

static size_t token_named(const struct random_vocabulary *vocabulary, const char *text)
{
    size_t id = 0;
    while (id < vocabulary->file.token_count && strcmp(vocabulary->tokens[id], text) != 0)
        id++;
    return id;
}

static bool has_merge(const struct random_vocabulary *vocabulary, size_t left, size_t right)
{
    for (size_t i = 0; i < vocabulary->file.merge_count; i++) {
        if (vocabulary->left[i] == left && vocabulary->right[i] == right)
            return true;
    }
    return false;
}

static void add_token(struct random_vocabulary *vocabulary, const char *text)
{
    size_t id = vocabulary->file.token_count++;
    snprintf(vocabulary->tokens[id], sizeof(vocabulary->tokens[id]), "%s", text);
    vocabulary->file.tokens[id] = vocabulary->tokens[id];
    vocabulary->file.kinds[id] = 1;
    vocabulary->file.kind_count++;
}

static void add_merge(struct random_vocabulary *vocabulary, size_t left, size_t right)
{
    char joined[64];
    int size = snprintf(joined, sizeof(joined), "%s%s", vocabulary->tokens[left], vocabulary->tokens[right]);
    if (size > 12 || has_merge(vocabulary, left, right))
        return;
    size_t merged = token_named(vocabulary, joined);
    if (merged == vocabulary->file.token_count)
        add_token(vocabulary, joined);
    size_t rank = vocabulary->file.merge_count++;
    char text[64];
    snprintf(text, sizeof(text), "%.12s %.12s", vocabulary->tokens[left], vocabulary->tokens[right]);
    memcpy(vocabulary->merges[rank], text, sizeof(text));
    vocabulary->file.merges[rank] = vocabulary->merges[rank];
    vocabulary->left[rank] = left;
    vocabulary->right[rank] = right;
    vocabulary->merged[rank] = merged;
}

static void swap_merges(struct random_vocabulary *vocabulary, size_t a, size_t b)
{
#define SWAP(type, field)                            \
    do {                                             \
        type kept = vocabulary->field[a];            \
        vocabulary->field[a] = vocabulary->field[b]; \
        vocabulary->field[b] = kept;                 \
    } while (0)
    SWAP(const char *, file.merges);
    SWAP(size_t, left);
    SWAP(size_t, right);
    SWAP(size_t, merged);
#undef SWAP
}

static void draw_vocabulary(uint64_t *state, struct random_vocabulary *vocabulary)
{
    vocabulary->file = vocabulary_file_small();
    vocabulary->file.token_count = vocabulary->file.kind_count = vocabulary->file.merge_count = 0;
    for (size_t i = 0; i < LETTERS; i++)
        add_token(vocabulary, (char[]){(char)('a' + i), '\0'});
    for (size_t tries = 0; tries < MERGES; tries++)
        add_merge(vocabulary, test_random_below(state, vocabulary->file.token_count),
                  test_random_below(state, vocabulary->file.token_count));
    for (size_t tries = 0; tries < 20; tries++)
        swap_merges(vocabulary, test_random_below(state, vocabulary->file.merge_count),
                    test_random_below(state, vocabulary->file.merge_count));
}

static size_t rank_in(const struct random_vocabulary *vocabulary, size_t left, size_t right)
{
    size_t rank = 0;
    while (rank < vocabulary->file.merge_count && (vocabulary->left[rank] != left || vocabulary->right[rank] != right))
        rank++;
    return rank;
}

static size_t merge_plainly(const struct random_vocabulary *vocabulary, size_t *ids, size_t count)
{
    for (;;) {
        size_t best_rank = vocabulary->file.merge_count, best = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            size_t rank = rank_in(vocabulary, ids[i], ids[i + 1]);
            if (rank < best_rank) {
                best_rank = rank;
                best = i;
            }
        }
        if (best_rank == vocabulary->file.merge_count)
            return count;
        ids[best] = vocabulary->merged[best_rank];
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof(*ids));
    }
}

static void check_pieces(uint64_t *state, const struct random_vocabulary *vocabulary, const struct bpe *bpe)
{
    struct bpe_scratch *scratch;
    struct error error;
    REQUIRE(bpe_scratch_open(&scratch, &error) == STATUS_OK);
    for (size_t round = 0; round < 60; round++) {
        char piece[PIECE_MAX];
        size_t ids[PIECE_MAX];
        size_t size = 1 + test_random_below(state, round % 3 == 0 ? PIECE_MAX : 40);
        for (size_t i = 0; i < size; i++) {
            ids[i] = test_random_below(state, round % 5 == 0 ? 1 : LETTERS);
            piece[i] = (char)('a' + ids[i]);
        }
        size_t count = merge_plainly(vocabulary, ids, size);
        /* Twice: merged, and remembered. */
        for (size_t again = 0; again < 2; again++) {
            struct bpe_tokens tokens;
            REQUIRE(bpe_encode(bpe, scratch, piece, size, &tokens, &error) == STATUS_OK);
            REQUIRE(tokens.count == count);
            for (size_t i = 0; i < count; i++)
                REQUIRE((size_t)tokens.ids[i] == ids[i]);
        }
    }
    bpe_scratch_close(scratch);
}

START_TEST(merges_as_looking_for_the_best_pair_does)
{
    uint64_t state = test_seed() + 21;
    struct random_vocabulary *drawn = calloc(1, sizeof(*drawn));
    ck_assert_ptr_nonnull(drawn);
    for (size_t round = 0; round < (test_long() ? 300 : 20); round++) {
        draw_vocabulary(&state, drawn);
        struct model_file *file = vocabulary_file_open(&drawn->file);
        struct vocabulary vocabulary;
        struct bpe *bpe;
        struct error error;
        enum status status = vocabulary_open(file, &vocabulary, &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        status = bpe_open(file, &vocabulary, false, &bpe, &error);
        ck_assert_msg(status == STATUS_OK, "%s", error.text);
        check_pieces(&state, drawn, bpe);
        bpe_close(bpe);
        vocabulary_close(&vocabulary);
        model_file_close(file);
    }
    free(drawn);
}
END_TEST

struct small {
    struct model_file *file;
    struct vocabulary vocabulary;
    struct bpe *bpe;
    struct bpe_scratch *scratch;
    struct error error;
};

/* The small vocabulary without its first merges. */
static void small_open(struct small *small, bool whole_words, size_t merges_left_out)
{
    struct vocabulary_file vocabulary = vocabulary_file_small();
    vocabulary.merge_count -= merges_left_out;
    memmove(vocabulary.merges, vocabulary.merges + merges_left_out, vocabulary.merge_count * sizeof(char *));
    small->file = vocabulary_file_open(&vocabulary);
    ck_assert_int_eq(vocabulary_open(small->file, &small->vocabulary, &small->error), STATUS_OK);
    enum status status = bpe_open(small->file, &small->vocabulary, whole_words, &small->bpe, &small->error);
    ck_assert_msg(status == STATUS_OK, "%s", small->error.text);
    ck_assert_int_eq(bpe_scratch_open(&small->scratch, &small->error), STATUS_OK);
}

static void small_close(struct small *small)
{
    bpe_scratch_close(small->scratch);
    bpe_close(small->bpe);
    vocabulary_close(&small->vocabulary);
    model_file_close(small->file);
}

static void check_small(struct small *small, const char *piece, const int32_t *ids, size_t count)
{
    struct bpe_tokens tokens;
    ck_assert_int_eq(bpe_encode(small->bpe, small->scratch, piece, strlen(piece), &tokens, &small->error), STATUS_OK);
    ck_assert_uint_eq(tokens.count, count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(tokens.ids[i], ids[i]);
}

START_TEST(takes_whole_words_unmerged_where_the_row_says_so)
{
    /* Without the merge "a b" nothing leads to the tokens "ab" and "abc". */
    struct small small;
    small_open(&small, false, 1);
    check_small(&small, "ab", (int32_t[]){SMALL_A, SMALL_B}, 2);
    small_close(&small);
    small_open(&small, true, 1);
    check_small(&small, "ab", (int32_t[]){SMALL_AB}, 1);
    check_small(&small, "abc", (int32_t[]){SMALL_ABC}, 1);
    check_small(&small, "abcd", (int32_t[]){SMALL_A, SMALL_B, SMALL_C, SMALL_D}, 4);
    check_small(&small, "hhab", (int32_t[]){SMALL_HH, SMALL_A, SMALL_B}, 3);
    small_close(&small);
}
END_TEST

START_TEST(leaves_out_bytes_without_a_token_before_merging)
{
    struct small small;
    small_open(&small, false, 0);
    struct bpe_tokens tokens;
    for (size_t again = 0; again < 2; again++) {
        ck_assert_int_eq(bpe_encode(small.bpe, small.scratch, "aXYb", 4, &tokens, &small.error), STATUS_OK);
        ck_assert(tokens.count == 1 && tokens.ids[0] == SMALL_AB && tokens.unknown_bytes == 2);
    }
    ck_assert_int_eq(bpe_encode(small.bpe, small.scratch, "XYZ", 3, &tokens, &small.error), STATUS_OK);
    ck_assert(tokens.count == 0 && tokens.unknown_bytes == 3);
    small_close(&small);
}
END_TEST

START_TEST(takes_no_control_token_for_a_word)
{
    struct small small;
    small_open(&small, true, 0);
    struct bpe_tokens tokens;
    ck_assert_int_eq(bpe_encode(small.bpe, small.scratch, "<s>", 3, &tokens, &small.error), STATUS_OK);
    ck_assert(tokens.count == 0 && tokens.unknown_bytes == 3);
    small_close(&small);
}
END_TEST

START_TEST(refuses_a_piece_over_the_limit_and_goes_on)
{
    struct small small;
    small_open(&small, false, 0);
    char *piece = malloc(BPE_PIECE_BYTES_MAX + 1);
    ck_assert_ptr_nonnull(piece);
    memset(piece, 'h', BPE_PIECE_BYTES_MAX + 1);
    struct bpe_tokens tokens;
    ck_assert_int_eq(bpe_encode(small.bpe, small.scratch, piece, BPE_PIECE_BYTES_MAX + 1, &tokens, &small.error),
                     STATUS_TOO_LARGE);
    ck_assert_int_eq(bpe_encode(small.bpe, small.scratch, piece, BPE_PIECE_BYTES_MAX, &tokens, &small.error),
                     STATUS_OK);
    REQUIRE(tokens.count == BPE_PIECE_BYTES_MAX / 2);
    for (size_t i = 0; i < tokens.count; i++)
        REQUIRE(tokens.ids[i] == SMALL_HH);
    bpe_scratch_trim(small.scratch);
    check_small(&small, "abcabh", (int32_t[]){SMALL_ABC, SMALL_AB, SMALL_H}, 3);
    free(piece);
    small_close(&small);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("bpe");
    TCase *all = tcase_create("all");
    tcase_add_test(all, merges_as_looking_for_the_best_pair_does);
    tcase_add_test(all, takes_whole_words_unmerged_where_the_row_says_so);
    tcase_add_test(all, leaves_out_bytes_without_a_token_before_merging);
    tcase_add_test(all, takes_no_control_token_for_a_word);
    tcase_add_test(all, refuses_a_piece_over_the_limit_and_goes_on);
    suite_add_tcase(suite, all);
    return suite;
}
