/* Writes every model of tests/support/tiny_model.c, and the ids of its golden sequence, into a folder: input of
 * make_tiny_logits.py, which compiles this. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: write_tiny_models FOLDER\n");
        return 2;
    }
    for (const struct tiny_model *model = tiny_models; model->name != NULL; model++) {
        char path[4096];
        struct buffer file = {0};
        tiny_model_write(model, &file);
        snprintf(path, sizeof(path), "%s/%s.gguf", argv[1], model->name);
        gguf_save(&file, path);
        buffer_free(&file);
        printf("%s", model->name);
        for (uint32_t i = 0; i < model->context; i++)
            printf(" %d", tiny_model_id(model, i));
        printf("\n");
    }
    return 0;
}
