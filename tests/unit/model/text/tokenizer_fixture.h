/* A tokenizer with its file, a scratch, and the ids of the last text. */
#ifndef TESTS_UNIT_MODEL_TEXT_TOKENIZER_FIXTURE_H
#define TESTS_UNIT_MODEL_TEXT_TOKENIZER_FIXTURE_H

#include "model/text/tokenizer.h"

struct tokenizer_fixture {
    struct model_file *file;
    struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct tokenizer_ids ids;
    struct error error;
};

/* The file becomes the fixture's. */
void tokenizer_fixture_take(struct tokenizer_fixture *fixture, struct model_file *file);
void tokenizer_fixture_open_model(struct tokenizer_fixture *fixture); /* the default model */
void tokenizer_fixture_close(struct tokenizer_fixture *fixture);
/* Into ids, in place of what was there. */
enum status tokenizer_fixture_encode(struct tokenizer_fixture *fixture, const struct tokenizer_input *input);

#endif
