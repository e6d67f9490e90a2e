/* What the fuzz targets share. A target is a file NAME_fuzz.c here whose LLVMFuzzerTestOneInput takes any bytes and
 * ends the process, by CHECK or a sanitizer, when the code under test did what it must not; corpus/NAME holds its
 * inputs.
 *
 *     make test                            runs every input of the corpora again (replay.c)
 *     make fuzz TARGET=NAME MINUTES=10     looks for new ones with libFuzzer (scripts/fuzz.sh)
 *
 * Inputs whose target has something to choose begin with a digit or letter for it, so that they can be read and
 * typed. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"
#include "kernels/base/check.h"
#include "kernels/base/status.h"
#include "model/text/chat_template.h"
#include "model/text/tokenizer.h"
#include "tests/support/test_facts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* What libFuzzer looks for and calls in place of its own mutations. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);

/* In a block of exactly its size, so that a sanitizer sees the first byte too far; to be freed. */
char *fuzz_copy(const void *data, size_t size);
/* 0 .. count-1, by the first byte of an input. */
size_t fuzz_choice(uint8_t byte, size_t count);

/* A reason for a client: a status that is its own, and a sentence. */
void fuzz_check_refusal(enum status status, const struct error *error);
void fuzz_check_json(const char *text, size_t size);
/* Server-sent events whose data is JSON, the last one [DONE]. */
void fuzz_check_events(const char *text, size_t size);

/* A change that keeps JSON what it is: members and values moved, doubled, dropped, exchanged for odd ones. What stands
 * before the first '{' or '[' stays. */
size_t fuzz_mutate_json(uint8_t *data, size_t size, size_t size_max, unsigned seed);

/* ---- text ---- */

/* Every byte is a token, a few merges, and the control tokens of well-known templates. `pre` names the pre-tokenizer.
 * Opened once for the life of the process. */
struct fuzz_tokenizer {
    struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
};
struct fuzz_tokenizer fuzz_tokenizer_open(const char *pre);
/* The ids say the text again, byte by byte, and no control token comes from bytes that are not trusted. */
void fuzz_check_ids(const struct fuzz_tokenizer *text, const struct tokenizer_input *input,
                    const struct tokenizer_ids *ids);

/* Spans cover the text, and what one says about its source is so. */
void fuzz_check_spans(const struct chat_prompt *prompt, const struct chat *chat);

#endif
