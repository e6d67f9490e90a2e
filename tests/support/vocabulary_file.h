/* Small model files that hold a tokenizer and nothing else, right or wrong in one place. */
#ifndef TESTS_SUPPORT_VOCABULARY_FILE_H
#define TESTS_SUPPORT_VOCABULARY_FILE_H

#include "model/model.h"

#define VOCABULARY_FILE_TEXTS_MAX 640

struct vocabulary_file {
    const char *model; /* NULL: the key is absent; so everywhere */
    const char *pre;
    const char *tokens[VOCABULARY_FILE_TEXTS_MAX];
    int32_t kinds[VOCABULARY_FILE_TEXTS_MAX];
    size_t token_count;
    size_t kind_count;
    const char *merges[VOCABULARY_FILE_TEXTS_MAX];
    size_t merge_count;
    bool no_tokens;
    bool no_kinds;
    bool no_merges;
    bool tokens_are_numbers;
    bool kinds_are_texts;
    bool merges_are_numbers;
    int64_t bos; /* -1: absent */
    int64_t eos;
    int64_t eot;
    int64_t eom;
    int add_bos; /* -1: absent */
};

/* A vocabulary that works: <s> </s> <turn> (control), the letters a to h, '1', ' ' and '\n', "ab", "abc", "hh",
 * and <mark> (user-defined). Its ids are the names below. */
struct vocabulary_file vocabulary_file_small(void);
enum {
    SMALL_BOS,
    SMALL_EOS,
    SMALL_TURN,
    SMALL_A,
    SMALL_B,
    SMALL_C,
    SMALL_D,
    SMALL_E,
    SMALL_F,
    SMALL_G,
    SMALL_H,
    SMALL_1,
    SMALL_SPACE,
    SMALL_NEWLINE,
    SMALL_AB,
    SMALL_ABC,
    SMALL_HH,
    SMALL_MARK,
    SMALL_COUNT
};

/* Writes it to a temporary file and opens that; the file itself is gone when this returns. Ends the program when the
 * file cannot be written or opened. */
struct model_file *vocabulary_file_open(const struct vocabulary_file *vocabulary);

/* The vocabulary of another model file under another name of pre-tokenizer. */
struct model_file *vocabulary_file_with_pre(const struct model_file *from, const char *pre);

#endif
