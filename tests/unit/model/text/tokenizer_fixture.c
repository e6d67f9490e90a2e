/* See tokenizer_fixture.h. */
#include "tests/unit/model/text/tokenizer_fixture.h"

#include "tests/unit/unit.h"

void tokenizer_fixture_take(struct tokenizer_fixture *fixture, struct model_file *file)
{
    *fixture = (struct tokenizer_fixture){.file = file};
    enum status status = tokenizer_open(file, &fixture->tokenizer, &fixture->error);
    ck_assert_msg(status == STATUS_OK, "%s", fixture->error.text);
    status = tokenizer_scratch_open(fixture->tokenizer, &fixture->scratch, &fixture->error);
    ck_assert_msg(status == STATUS_OK, "%s", fixture->error.text);
}

void tokenizer_fixture_open_model(struct tokenizer_fixture *fixture)
{
    struct model_file *file;
    struct error error;
    enum status status = model_file_open(test_model_path(), &file, &error);
    ck_assert_msg(status == STATUS_OK, "these tests need the model file: %s", error.text);
    tokenizer_fixture_take(fixture, file);
}

void tokenizer_fixture_close(struct tokenizer_fixture *fixture)
{
    tokenizer_ids_free(&fixture->ids);
    tokenizer_scratch_close(fixture->scratch);
    tokenizer_close(fixture->tokenizer);
    model_file_close(fixture->file);
}

enum status tokenizer_fixture_encode(struct tokenizer_fixture *fixture, const struct tokenizer_input *input)
{
    fixture->ids.count = 0;
    fixture->ids.unknown_bytes = 0;
    return tokenizer_encode(fixture->tokenizer, fixture->scratch, input, &fixture->ids, &fixture->error);
}
