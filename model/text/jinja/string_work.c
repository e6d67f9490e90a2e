/* Text work that filters and methods share (run.h): finding, cutting up, stripping, replacing, joining. */
#include <string.h>

#include "model/text/jinja/run.h"
#include "model/text/jinja/unicode.h"

size_t jinja_find_bytes(const char *text, size_t size, const char *needle, size_t needle_size, size_t from)
{
    if (needle_size == 0)
        return from <= size ? from : JINJA_UNKNOWN;
    if (size < needle_size || from > size - needle_size)
        return JINJA_UNKNOWN;
    const char *at = memmem(text + from, size - from, needle, needle_size);
    return at == NULL ? JINJA_UNKNOWN : (size_t)(at - text);
}

bool jinja_parts_add(struct jinja_parts *parts, size_t from, size_t to)
{
    struct jinja_run *run = parts->run;
    struct jinja_string *part = jinja_string_cut(run, parts->string, from, to);
    if (part == NULL || !jinja_step(run, 1))
        return false;
    if (parts->count == parts->capacity) {
        size_t capacity = parts->capacity == 0 ? 8 : parts->capacity * 2;
        struct jinja_value *items = jinja_take_array(run, capacity, sizeof(*items));
        if (items == NULL)
            return false;
        if (parts->count > 0)
            memcpy(items, parts->items, parts->count * sizeof(*items));
        parts->items = items;
        parts->capacity = capacity;
    }
    parts->items[parts->count++] = jinja_from_string(part);
    return true;
}

bool jinja_string_lines(struct jinja_run *run, struct jinja_string *string, bool keep_ends,
                        struct jinja_string ***lines, size_t *count)
{
    const char *bytes = jinja_string_bytes(run, string);
    struct jinja_parts parts = {.run = run, .string = string};
    size_t from = 0;
    if (bytes == NULL || !jinja_step(run, string->size / 16))
        return false;
    for (size_t at = 0; at < string->size;) {
        uint32_t c;
        size_t end = at, n = jinja_character(bytes + at, string->size - at, &c);
        at += n;
        if (!jinja_is_line_end(c))
            continue;
        if (c == '\r' && at < string->size && bytes[at] == '\n')
            at++;
        if (!jinja_parts_add(&parts, from, keep_ends ? at : end))
            return false;
        from = at;
    }
    if (from < string->size && !jinja_parts_add(&parts, from, string->size))
        return false;
    *lines = jinja_take_array(run, parts.count, sizeof(struct jinja_string *));
    if (*lines == NULL)
        return false;
    for (size_t i = 0; i < parts.count; i++)
        (*lines)[i] = parts.items[i].string;
    *count = parts.count;
    return true;
}

static bool in_set(struct jinja_string *characters, uint32_t c, const char *bytes, size_t size)
{
    if (characters == NULL)
        return jinja_is_space(c);
    for (size_t at = 0; at < characters->size;) {
        uint32_t one;
        size_t n = jinja_character(characters->bytes + at, characters->size - at, &one);
        if (n == size && memcmp(characters->bytes + at, bytes, n) == 0)
            return true;
        at += n;
    }
    return false;
}

struct jinja_string *jinja_string_strip(struct jinja_run *run, struct jinja_string *string,
                                        struct jinja_string *characters, int sides)
{
    const char *bytes = jinja_string_bytes(run, string);
    size_t from = 0, to = string->size;
    uint32_t c;
    if (bytes == NULL || (characters != NULL && jinja_string_bytes(run, characters) == NULL))
        return NULL;
    while ((sides & JINJA_STRIP_LEFT) && from < to) {
        size_t n = jinja_character(bytes + from, to - from, &c);
        if (!in_set(characters, c, bytes + from, n))
            break;
        from += n;
    }
    while ((sides & JINJA_STRIP_RIGHT) && to > from) {
        size_t at = to - 1;
        while (at > from && ((unsigned char)bytes[at] & 0xC0) == 0x80)
            at--;
        jinja_character(bytes + at, to - at, &c);
        if (!in_set(characters, c, bytes + at, to - at))
            break;
        to = at;
    }
    if (!jinja_step(run, (from + string->size - to) / 16))
        return NULL;
    return jinja_string_cut(run, string, from, to);
}

struct jinja_string *jinja_string_replace(struct jinja_run *run, struct jinja_string *string, struct jinja_string *old,
                                          struct jinja_string *fresh, int64_t times)
{
    const char *bytes = jinja_string_bytes(run, string), *needle = jinja_string_bytes(run, old);
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    size_t at = 0;
    if (bytes == NULL || needle == NULL || pieces == NULL || !jinja_step(run, string->size / 16))
        return NULL;
    if (times < 0)
        times = INT64_MAX;
    while (times > 0) {
        size_t found, next;
        if (old->size == 0) { /* before every character, and at the end */
            uint32_t c;
            found = at;
            next = at < string->size ? at + jinja_character(bytes + at, string->size - at, &c) : JINJA_UNKNOWN;
            if (!jinja_pieces_string(run, pieces, fresh) || !jinja_step(run, 1))
                return NULL;
            times--;
            if (next == JINJA_UNKNOWN)
                break;
            struct jinja_string *kept = jinja_string_cut(run, string, found, next);
            if (kept == NULL || !jinja_pieces_string(run, pieces, kept))
                return NULL;
            at = next;
            continue;
        }
        found = jinja_find_bytes(bytes, string->size, needle, old->size, at);
        if (found == JINJA_UNKNOWN)
            break;
        struct jinja_string *kept = jinja_string_cut(run, string, at, found);
        if (kept == NULL || !jinja_pieces_string(run, pieces, kept) || !jinja_pieces_string(run, pieces, fresh) ||
            !jinja_step(run, 1))
            return NULL;
        at = found + old->size;
        times--;
    }
    if (at == 0 && pieces->count == 0)
        return string;
    struct jinja_string *rest = jinja_string_cut(run, string, at, string->size);
    if (rest == NULL || !jinja_pieces_string(run, pieces, rest))
        return NULL;
    return jinja_string_view(run, pieces);
}

struct jinja_string *jinja_join(struct jinja_run *run, struct jinja_string *separator, struct jinja_value *items,
                                size_t count)
{
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    if (pieces == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if ((i > 0 && !jinja_pieces_string(run, pieces, separator)) ||
            !jinja_pieces_string(run, pieces, items[i].string) || !jinja_step(run, 1))
            return NULL;
    return jinja_string_view(run, pieces);
}
