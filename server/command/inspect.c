/* incipit inspect: what is in a model file. */
#include "server/command/command.h"
#include "server/runtime.h"

static enum status describe(const struct options *options, struct buffer *out, struct error *error)
{
    struct buffer path = {0};
    struct model_file *file = NULL;
    enum status status = STATUS_OK;
    if (options->operand_count == 1)
        buffer_text(&path, options->operands[0]);
    else
        status = runtime_model_path(options, &path, error);
    if (status == STATUS_OK && path.failed)
        status = error_no_memory(error, "a path");
    if (status == STATUS_OK)
        status = model_file_open(path.data, &file, error);
    if (status == STATUS_OK)
        status = model_file_describe(file, options->json, options->tensors, out, error);
    model_file_close(file);
    buffer_free(&path);
    return status;
}

int command_inspect(const struct options *options)
{
    struct buffer out = {0};
    struct error error;
    enum status status = describe(options, &out, &error);
    int result = status == STATUS_OK ? command_output(&out) : command_fail(&error);
    buffer_free(&out);
    return result;
}
