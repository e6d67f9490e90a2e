/* One automaton a stop string, all moved byte by byte. */
#include "server/engine/stop_text.h"

#include <stdlib.h>

#include "kernels/base/check.h"
#include "kernels/base/size.h"

static size_t advance(const struct stop_text_string *string, size_t matched, char byte)
{
    while (matched > 0 && (matched == string->size || string->text[matched] != byte))
        matched = string->border[matched - 1];
    return string->text[matched] == byte ? matched + 1 : matched;
}

enum status stop_text_open(const struct api_stop *stop, uint32_t count, struct stop_text *out, struct error *error)
{
    *out = (struct stop_text){0};
    if (count == 0)
        return STATUS_OK;
    out->strings = calloc(count, sizeof(*out->strings));
    if (out->strings == NULL)
        return error_no_memory(error, "stop strings");
    for (; out->count < count; out->count++) {
        struct stop_text_string *string = &out->strings[out->count];
        CHECK(stop[out->count].size > 0);
        *string = (struct stop_text_string){.text = stop[out->count].text, .size = stop[out->count].size};
        string->border = calloc(string->size, sizeof(*string->border));
        if (string->border == NULL) {
            stop_text_close(out);
            return error_no_memory(error, "stop strings");
        }
        for (size_t i = 1; i < string->size; i++)
            string->border[i] = advance(string, string->border[i - 1], string->text[i]);
    }
    return STATUS_OK;
}

void stop_text_close(struct stop_text *stop)
{
    for (uint32_t i = 0; i < stop->count; i++)
        free(stop->strings[i].border);
    free(stop->strings);
    *stop = (struct stop_text){0};
}

bool stop_text_feed(struct stop_text *stop, const char *bytes, size_t size, struct stop_text_match *match)
{
    for (size_t i = 0; i < size && stop->count > 0; i++) {
        size_t longest = 0;
        for (uint32_t j = 0; j < stop->count; j++) {
            struct stop_text_string *string = &stop->strings[j];
            string->matched = advance(string, string->matched, bytes[i]);
            if (string->matched == string->size)
                longest = size_max(longest, string->size);
        }
        if (longest > 0) {
            *match = (struct stop_text_match){.end = i + 1, .size = longest};
            return true;
        }
    }
    return false;
}

size_t stop_text_held(const struct stop_text *stop)
{
    size_t held = 0;
    for (uint32_t i = 0; i < stop->count; i++)
        held = size_max(held, stop->strings[i].matched);
    return held;
}
