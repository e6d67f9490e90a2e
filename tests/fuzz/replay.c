/* Runs a fuzz target on files: those named, or else all of the target's corpus, tests/fuzz/corpus/NAME for a program
 * NAME_fuzz. One that fails ends the program; its name is the last one printed without an `ok`. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/file.h"
#include "tests/fuzz/fuzz.h"

#define PATH_BYTES 4096
#define INPUT_BYTES_MAX ((size_t)64 << 20)

/* A mutator is never called here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max)
{
    (void)data;
    return size < size_max ? size : size_max;
}

static void run(const char *path)
{
    struct buffer input = {0};
    struct error error;
    printf("%s\n", path);
    fflush(stdout);
    if (file_read(path, INPUT_BYTES_MAX, &input, &error) != STATUS_OK) {
        printf("FAILED %s\n", error.text);
        exit(EXIT_FAILURE);
    }
    char *copy = fuzz_copy(input.data, input.size);
    LLVMFuzzerTestOneInput((const uint8_t *)copy, input.size);
    free(copy);
    buffer_free(&input);
    printf("ok %s\n", path);
}

static void run_corpus(const char *program)
{
    const char *name = strrchr(program, '/');
    name = name == NULL ? program : name + 1;
    char path[PATH_BYTES];
    struct dirent **files;
    snprintf(path, sizeof(path), "tests/fuzz/corpus/%.*s", (int)strcspn(name, "."), name);
    char *suffix = strstr(path, "_fuzz");
    if (suffix != NULL)
        *suffix = '\0';
    size_t folder = strlen(path);
    int count = scandir(path, &files, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        snprintf(path + folder, sizeof(path) - folder, "/%s", files[i]->d_name);
        if (files[i]->d_name[0] != '.')
            run(path);
        free(files[i]);
    }
    if (count >= 0)
        free(files);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--long") != 0)
            run(argv[i]);
    if (argc == 1 || strcmp(argv[1], "--long") == 0)
        run_corpus(argv[0]);
    return EXIT_SUCCESS;
}
