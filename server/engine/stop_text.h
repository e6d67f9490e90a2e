/* Stop strings in a stream of text: says where the first one ends, and how much of the end might still become one.
 * Looks at bytes one by one, so that the answer does not depend on how the text is cut (Knuth, Morris and Pratt, one
 * automaton a string; where several end at once the longest counts). Owned by one choice's deliver. */
#ifndef SERVER_ENGINE_STOP_TEXT_H
#define SERVER_ENGINE_STOP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"

struct stop_text_string {
    const char *text; /* (size), borrowed from the call */
    size_t size;
    size_t *border; /* (size): of the first i+1 bytes, the longest proper prefix that is a suffix too */
    size_t matched; /* bytes of it that the text now ends with */
};

struct stop_text {
    struct stop_text_string *strings; /* (count) */
    uint32_t count;
};

enum status stop_text_open(const struct api_stop *stop, uint32_t count, struct stop_text *out, struct error *error);
void stop_text_close(struct stop_text *stop);

struct stop_text_match {
    size_t end;  /* offset in the bytes just fed, after the last byte of the stop string */
    size_t size; /* its length; it may have begun in bytes fed earlier */
};

/* Feeds bytes up to the end of the first stop string. False: there is none, all were fed. */
bool stop_text_feed(struct stop_text *stop, const char *bytes, size_t size, struct stop_text_match *match);

/* How many bytes at the end of what was fed are the beginning of a stop string. */
size_t stop_text_held(const struct stop_text *stop);

#endif
