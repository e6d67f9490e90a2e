/* Strings as runs of pieces with origins. */
#include "model/text/jinja/string.h"

#include <stdarg.h>
#include <string.h>

#include "kernels/base/size.h"
#include "kernels/base/utf8.h"
#include "model/text/jinja/run.h"

const struct jinja_origin JINJA_TEMPLATE_ORIGIN = {.offset = JINJA_UNKNOWN, .message = -1, .trusted = true};

/* ---- characters ---- */

size_t jinja_character(const char *bytes, size_t size, uint32_t *code_point)
{
    size_t n = utf8_decode(bytes, size, code_point);
    if (n != 0)
        return n;
    *code_point = 0xFFFD;
    return 1;
}

size_t jinja_count_characters(const char *bytes, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return count;
}

/* ---- making ---- */

void jinja_string_constant(struct jinja_string *string, const char *bytes, size_t size)
{
    string->bytes = bytes;
    string->size = size;
    string->characters = jinja_count_characters(bytes, size);
    string->piece_count = 1;
    string->own = (struct jinja_piece){.bytes = bytes, .size = size, .origin = JINJA_TEMPLATE_ORIGIN};
}

struct jinja_string *jinja_string_of(struct jinja_run *run, const char *bytes, size_t size, struct jinja_origin origin)
{
    struct jinja_string *string = jinja_take(run, sizeof(*string));
    if (string == NULL)
        return NULL;
    string->bytes = bytes;
    string->size = size;
    string->characters = JINJA_UNKNOWN;
    string->piece_count = 1;
    string->own = (struct jinja_piece){.bytes = bytes, .size = size, .origin = origin};
    return string;
}

struct jinja_string *jinja_string_copy(struct jinja_run *run, const char *bytes, size_t size,
                                       struct jinja_origin origin)
{
    char *copy = jinja_take(run, size + 1);
    if (copy == NULL)
        return NULL;
    if (size > 0)
        memcpy(copy, bytes, size);
    return jinja_string_of(run, copy, size, origin);
}

struct jinja_string *jinja_string_marked(struct jinja_run *run, struct jinja_string *string, bool markup)
{
    if (string == NULL || string->markup == markup)
        return string;
    struct jinja_string *copy = jinja_take(run, sizeof(*copy));
    if (copy != NULL) {
        *copy = *string;
        copy->markup = markup;
    }
    return copy;
}

/* ---- pieces ---- */

static bool pieces_reserve(struct jinja_run *run, struct jinja_pieces *pieces, size_t more)
{
    size_t need = (size_t)pieces->count + more;
    if (need <= pieces->capacity)
        return true;
    size_t capacity = size_max(need, size_max(8, (size_t)pieces->capacity * 2));
    if (capacity > UINT32_MAX)
        return jinja_fail_status(run, STATUS_TOO_LARGE, "a text of the chat template has too many parts");
    struct jinja_piece *items = jinja_take_array(run, capacity, sizeof(*items));
    if (items == NULL)
        return false;
    if (pieces->count > 0)
        memcpy(items, pieces->items, pieces->count * sizeof(*items));
    pieces->items = items;
    pieces->capacity = (uint32_t)capacity;
    return true;
}

bool jinja_pieces_add(struct jinja_run *run, struct jinja_pieces *pieces, const char *bytes, size_t size,
                      struct jinja_origin origin)
{
    size_t total;
    if (size == 0)
        return true;
    if (!pieces_reserve(run, pieces, 1))
        return false;
    if (!size_add(pieces->size, size, &total) || total > run->output_max)
        return jinja_fail_status(run, STATUS_TOO_LARGE, "the chat template made more than %zu bytes of text",
                                 run->output_max);
    pieces->items[pieces->count++] =
        (struct jinja_piece){.bytes = bytes, .size = size, .start = pieces->size, .origin = origin};
    pieces->size = total;
    return true;
}

size_t jinja_string_piece_count(const struct jinja_string *string)
{
    return string->piece_count;
}

const struct jinja_piece *jinja_string_piece(const struct jinja_string *string, size_t index)
{
    return string->store == NULL ? &string->own : &string->store->items[string->first + index];
}

bool jinja_pieces_string(struct jinja_run *run, struct jinja_pieces *pieces, const struct jinja_string *string)
{
    if (!pieces_reserve(run, pieces, string->piece_count))
        return false;
    for (size_t i = 0; i < string->piece_count; i++) {
        const struct jinja_piece *piece = jinja_string_piece(string, i);
        if (!jinja_pieces_add(run, pieces, piece->bytes, piece->size, piece->origin))
            return false;
    }
    return string->piece_count < 32 || jinja_step(run, string->piece_count / 32);
}

bool jinja_pieces_value(struct jinja_run *run, struct jinja_pieces *pieces, struct jinja_value value)
{
    struct jinja_string *string = value.kind == JINJA_STRING ? value.string : jinja_str(run, value);
    return string != NULL && jinja_pieces_string(run, pieces, string);
}

struct jinja_string *jinja_string_view(struct jinja_run *run, struct jinja_pieces *pieces)
{
    struct jinja_string *string = jinja_take(run, sizeof(*string));
    if (string == NULL)
        return NULL;
    string->size = pieces->size;
    string->characters = JINJA_UNKNOWN;
    string->store = pieces;
    string->piece_count = pieces->count;
    if (pieces->count == 1)
        string->bytes = pieces->items[0].bytes;
    else if (pieces->count == 0)
        string->bytes = "";
    return string;
}

const char *jinja_string_bytes(struct jinja_run *run, struct jinja_string *string)
{
    if (string->bytes != NULL)
        return string->bytes;
    char *bytes = jinja_take(run, string->size + 1);
    size_t at = 0;
    if (bytes == NULL)
        return NULL;
    for (size_t i = 0; i < string->piece_count; i++) {
        const struct jinja_piece *piece = jinja_string_piece(string, i);
        memcpy(bytes + at, piece->bytes, piece->size);
        at += piece->size;
    }
    string->bytes = bytes;
    return jinja_step(run, string->size / 64 + string->piece_count / 16) ? bytes : NULL;
}

struct jinja_string *jinja_string_join(struct jinja_run *run, struct jinja_string *a, struct jinja_string *b)
{
    if (b->size == 0)
        return a;
    if (a->size == 0)
        return b;
    /* Appending to what ends its array leaves `a` as it was: it does not look past its own pieces. */
    struct jinja_pieces *store = a->store;
    if (store == NULL || a->first + a->piece_count != store->count || a->first != 0) {
        store = jinja_take(run, sizeof(*store));
        if (store == NULL || !jinja_pieces_string(run, store, a))
            return NULL;
    }
    if (!jinja_pieces_string(run, store, b))
        return NULL;
    return jinja_string_view(run, store);
}

/* The piece of a string with a store that holds byte `at`. */
static uint32_t piece_at(const struct jinja_string *string, size_t at)
{
    const struct jinja_piece *items = string->store->items + string->first;
    size_t base = items[0].start;
    uint32_t low = 0, high = string->piece_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (items[middle].start - base <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static struct jinja_origin shifted(struct jinja_origin origin, size_t by)
{
    if (origin.offset != JINJA_UNKNOWN)
        origin.offset += by;
    return origin;
}

struct jinja_string *jinja_string_cut(struct jinja_run *run, struct jinja_string *string, size_t from, size_t to)
{
    if (from == 0 && to == string->size)
        return string;
    if (from >= to) {
        struct jinja_string *empty = jinja_string_of(run, "", 0, JINJA_TEMPLATE_ORIGIN);
        return jinja_string_marked(run, empty, string->markup);
    }
    struct jinja_string *cut;
    if (string->store == NULL) {
        cut = jinja_string_of(run, string->own.bytes + from, to - from, shifted(string->own.origin, from));
    } else {
        uint32_t first = piece_at(string, from), last = piece_at(string, to - 1);
        const struct jinja_piece *pieces = string->store->items + string->first;
        size_t base = pieces[0].start;
        if (first == last) {
            size_t skip = from - (pieces[first].start - base);
            cut = jinja_string_of(run, pieces[first].bytes + skip, to - from, shifted(pieces[first].origin, skip));
        } else {
            struct jinja_pieces *store = jinja_take(run, sizeof(*store));
            if (store == NULL || !pieces_reserve(run, store, (size_t)last - first + 1) ||
                !jinja_step(run, (last - first) / 32))
                return NULL;
            pieces = string->store->items + string->first;
            for (uint32_t i = first; i <= last; i++) {
                size_t start = pieces[i].start - base, skip = from > start ? from - start : 0;
                size_t end = size_min(to - start, pieces[i].size);
                if (!jinja_pieces_add(run, store, pieces[i].bytes + skip, end - skip, shifted(pieces[i].origin, skip)))
                    return NULL;
            }
            cut = jinja_string_view(run, store);
        }
    }
    if (cut == NULL)
        return NULL;
    if (cut->bytes == NULL && string->bytes != NULL)
        cut->bytes = string->bytes + from;
    cut->markup = string->markup;
    return cut;
}

struct jinja_string *jinja_string_repeat(struct jinja_run *run, struct jinja_string *string, int64_t times)
{
    size_t total;
    if (times <= 0 || string->size == 0)
        return jinja_string_cut(run, string, 0, 0);
    if (times == 1)
        return string;
    if (!size_multiply(string->size, (size_t)times, &total) || total > run->output_max) {
        jinja_fail_status(run, STATUS_TOO_LARGE, "line %u: a repeated string has more than %zu bytes", run->line,
                          run->output_max);
        return NULL;
    }
    if (string->piece_count > 1) {
        struct jinja_pieces *store = jinja_take(run, sizeof(*store));
        for (int64_t i = 0; store != NULL && i < times; i++)
            if (!jinja_pieces_string(run, store, string) || !jinja_step(run, 1))
                return NULL;
        return store == NULL ? NULL : jinja_string_view(run, store);
    }
    const char *one = jinja_string_bytes(run, string);
    char *bytes = jinja_take(run, total + 1);
    if (one == NULL || bytes == NULL || !jinja_step(run, total / 64))
        return NULL;
    for (int64_t i = 0; i < times; i++)
        memcpy(bytes + (size_t)i * string->size, one, string->size);
    struct jinja_origin origin = jinja_string_piece(string, 0)->origin;
    origin.offset = JINJA_UNKNOWN;
    return jinja_string_of(run, bytes, total, origin);
}

bool jinja_string_is(struct jinja_run *run, struct jinja_string *string, const char *text)
{
    if (string->size != strlen(text))
        return false;
    const char *bytes = jinja_string_bytes(run, string);
    return bytes != NULL && memcmp(bytes, text, string->size) == 0;
}

bool jinja_string_equal(struct jinja_run *run, struct jinja_string *a, struct jinja_string *b, bool *out)
{
    *out = a == b;
    if (a == b || a->size != b->size)
        return true;
    const char *x = jinja_string_bytes(run, a), *y = jinja_string_bytes(run, b);
    if (x == NULL || y == NULL)
        return false;
    *out = memcmp(x, y, a->size) == 0;
    return a->size < 64 || jinja_step(run, a->size / 64);
}

bool jinja_string_length(struct jinja_run *run, struct jinja_string *string, size_t *out)
{
    if (string->characters == JINJA_UNKNOWN) {
        const char *bytes = jinja_string_bytes(run, string);
        if (bytes == NULL || !jinja_step(run, string->size / 64))
            return false;
        string->characters = jinja_count_characters(bytes, string->size);
    }
    *out = string->characters;
    return true;
}

bool jinja_string_offset(struct jinja_run *run, struct jinja_string *string, size_t index, size_t *out)
{
    size_t length;
    if (!jinja_string_length(run, string, &length))
        return false;
    if (length == string->size || index >= length) {
        *out = size_min(index, string->size);
        if (index >= length)
            *out = string->size;
        return true;
    }
    const char *bytes = jinja_string_bytes(run, string);
    if (bytes == NULL)
        return false;
    size_t at = 0;
    for (size_t seen = 0; at < string->size; at++) {
        if (((unsigned char)bytes[at] & 0xC0) == 0x80)
            continue;
        if (seen++ == index)
            break;
    }
    *out = at;
    return jinja_step(run, at / 64);
}

/* ---- origins of mixed text ---- */

void jinja_mix_add(struct jinja_mix *mix, struct jinja_origin origin)
{
    if (!mix->any) {
        mix->any = true;
        mix->origin = origin;
        mix->origin.offset = JINJA_UNKNOWN;
        return;
    }
    /* Literal text beside text of a message does not hide which message it was. */
    bool mine = mix->origin.message < 0 && mix->origin.field == NULL;
    bool theirs = origin.message < 0 && origin.field == NULL;
    bool trusted = mix->origin.trusted && origin.trusted;
    if (mine && !theirs) {
        mix->origin = origin;
        mix->origin.offset = JINJA_UNKNOWN;
    } else if (!mine && !theirs) {
        if (mix->origin.message != origin.message)
            mix->origin.message = -1;
        if (mix->origin.field != origin.field &&
            (mix->origin.field == NULL || origin.field == NULL || strcmp(mix->origin.field, origin.field) != 0))
            mix->origin.field = NULL;
    }
    mix->origin.trusted = trusted;
}

void jinja_mix_string(struct jinja_mix *mix, const struct jinja_string *string)
{
    for (size_t i = 0; i < string->piece_count; i++)
        jinja_mix_add(mix, jinja_string_piece(string, i)->origin);
}

void jinja_mix_value(struct jinja_mix *mix, struct jinja_value value)
{
    struct jinja_origin origin = JINJA_TEMPLATE_ORIGIN;
    origin.trusted = !value.tainted;
    if (value.kind == JINJA_OBJECT) {
        origin.message = value.object->message;
        origin.field = value.object->field;
    } else if (value.kind == JINJA_LIST && value.list->source != NULL) {
        origin.message = value.list->source->message;
        origin.field = value.list->source->field;
    }
    jinja_mix_add(mix, origin);
}

struct jinja_origin jinja_mix_origin(const struct jinja_mix *mix)
{
    return mix->any ? mix->origin : JINJA_TEMPLATE_ORIGIN;
}

/* ---- the writer ---- */

void jinja_write(struct jinja_writer *writer, const char *bytes, size_t size)
{
    size_t need;
    if (writer->failed || size == 0)
        return;
    if (!size_add(writer->size, size, &need) || need >= writer->run->output_max) {
        jinja_fail_status(writer->run, STATUS_TOO_LARGE, "the chat template made more than %zu bytes of text",
                          writer->run->output_max);
        writer->failed = true;
        return;
    }
    if (need >= writer->capacity) {
        size_t capacity = size_max(need + 1, size_max(64, writer->capacity * 2));
        char *larger = jinja_take(writer->run, capacity);
        if (larger == NULL) {
            writer->failed = true;
            return;
        }
        if (writer->size > 0)
            memcpy(larger, writer->bytes, writer->size);
        writer->bytes = larger;
        writer->capacity = capacity;
    }
    memcpy(writer->bytes + writer->size, bytes, size);
    writer->size = need;
}

void jinja_write_text(struct jinja_writer *writer, const char *text)
{
    jinja_write(writer, text, strlen(text));
}

void jinja_write_byte(struct jinja_writer *writer, char byte)
{
    jinja_write(writer, &byte, 1);
}

void jinja_write_character(struct jinja_writer *writer, uint32_t code_point)
{
    char bytes[4];
    jinja_write(writer, bytes, utf8_encode(code_point, bytes));
}

void jinja_write_format(struct jinja_writer *writer, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    jinja_write(writer, text, n < 0 ? 0 : size_min((size_t)n, sizeof(text) - 1));
}

struct jinja_string *jinja_writer_string(struct jinja_writer *writer)
{
    if (writer->failed || !jinja_step(writer->run, writer->size / 64))
        return NULL;
    return jinja_string_of(writer->run, writer->size == 0 ? "" : writer->bytes, writer->size,
                           jinja_mix_origin(&writer->mix));
}
