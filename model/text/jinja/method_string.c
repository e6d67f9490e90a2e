/* The methods of str. */
#include <string.h>

#include "model/text/jinja/run.h"
#include "model/text/jinja/unicode.h"

struct call {
    struct jinja_run *run;
    struct jinja_string *self;
    const char *bytes; /* of self */
    struct jinja_value given[3];
};

static bool give_string(struct jinja_run *run, struct jinja_string *string, bool markup, struct jinja_value *out)
{
    (void)run;
    *out = jinja_from_string(jinja_string_marked(run, string, markup));
    return out->string != NULL;
}

/* given[i] as a string; `what` names the method. */
static struct jinja_string *text_at(struct call *call, int i, const char *what)
{
    if (call->given[i].kind == JINJA_STRING && jinja_string_bytes(call->run, call->given[i].string) != NULL)
        return call->given[i].string;
    jinja_fail(call->run, "%s() wants a str, not %s", what, jinja_type_name(call->given[i]));
    return NULL;
}

static bool integer_at(struct call *call, int i, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return call->given[i].kind == JINJA_MISSING || jinja_as_index(call->run, call->given[i], out);
}

/* ---- looking ---- */

/* The last place of `needle` in the text, or JINJA_UNKNOWN. A long needle may be compared as a whole at every place:
 * that costs steps. */
static bool find_last(struct jinja_run *run, const char *text, size_t size, const struct jinja_string *needle,
                      size_t *out)
{
    *out = JINJA_UNKNOWN;
    if (size < needle->size)
        return true;
    for (size_t at = size - needle->size + 1; *out == JINJA_UNKNOWN && at-- > 0;) {
        if (at % 64 == 0 && !jinja_step(run, needle->size / 64))
            return false;
        if (memcmp(text + at, needle->bytes, needle->size) == 0)
            *out = at;
    }
    return true;
}

/* The window [start, end) of given[1] and given[2] in bytes; *valid false: start is beyond the end. */
static bool window(struct call *call, size_t *from, size_t *to, bool *valid)
{
    size_t length;
    int64_t start = 0, end = INT64_MAX;
    if (call->given[1].kind != JINJA_MISSING && call->given[1].kind != JINJA_NONE && !integer_at(call, 1, 0, &start))
        return false;
    if (call->given[2].kind != JINJA_MISSING && call->given[2].kind != JINJA_NONE && !integer_at(call, 2, 0, &end))
        return false;
    if (!jinja_string_length(call->run, call->self, &length))
        return false;
    if (end > (int64_t)length)
        end = (int64_t)length;
    if (end < 0)
        end = end + (int64_t)length < 0 ? 0 : end + (int64_t)length;
    if (start < 0)
        start = start < -(int64_t)length ? 0 : start + (int64_t)length;
    *valid = start <= end;
    if (!*valid)
        return true;
    return jinja_string_offset(call->run, call->self, (size_t)start, from) &&
           jinja_string_offset(call->run, call->self, (size_t)end, to);
}

static bool find_method(struct call *call, const char *name, struct jinja_value *out)
{
    bool last = name[0] == 'r', index = strncmp(name + last, "index", 5) == 0, valid;
    size_t from = 0, to = 0, at = JINJA_UNKNOWN;
    struct jinja_string *needle = text_at(call, 0, "find");
    if (needle == NULL || !window(call, &from, &to, &valid) || !jinja_step(call->run, call->self->size / 16))
        return false;
    if (valid && last && !find_last(call->run, call->bytes + from, to - from, needle, &at))
        return false;
    if (valid && !last)
        at = jinja_find_bytes(call->bytes + from, to - from, needle->bytes, needle->size, 0);
    if (at == JINJA_UNKNOWN && index)
        return jinja_fail(call->run, "substring not found");
    *out = jinja_integer(at == JINJA_UNKNOWN ? -1 : (int64_t)jinja_count_characters(call->bytes, from + at));
    out->tainted = true;
    return true;
}

static bool count_method(struct call *call, struct jinja_value *out)
{
    size_t from = 0, to = 0;
    bool valid;
    struct jinja_string *needle = text_at(call, 0, "count");
    if (needle == NULL || !window(call, &from, &to, &valid) || !jinja_step(call->run, call->self->size / 16))
        return false;
    int64_t count = 0;
    if (valid && needle->size == 0)
        count = (int64_t)jinja_count_characters(call->bytes + from, to - from) + 1;
    else if (valid)
        for (size_t at = 0;
             (at = jinja_find_bytes(call->bytes + from, to - from, needle->bytes, needle->size, at)) != JINJA_UNKNOWN;
             at += needle->size)
            count++;
    *out = jinja_integer(count);
    out->tainted = true;
    return true;
}

static bool has_end(const char *text, size_t size, const struct jinja_string *part, bool at_end)
{
    return size >= part->size && memcmp(text + (at_end ? size - part->size : 0), part->bytes, part->size) == 0;
}

static bool ends_method(struct call *call, bool at_end, struct jinja_value *out)
{
    size_t from = 0, to = 0;
    bool valid, found = false;
    if (!window(call, &from, &to, &valid))
        return false;
    if (call->given[0].kind == JINJA_TUPLE) {
        const struct jinja_list *options = call->given[0].list;
        for (size_t i = 0; i < options->count; i++) {
            if (!jinja_list_get(call->run, options, i, &call->given[0]))
                return false;
            struct jinja_string *part = text_at(call, 0, at_end ? "endswith" : "startswith");
            if (part == NULL)
                return false;
            found |= valid && has_end(call->bytes + from, to - from, part, at_end);
        }
    } else {
        struct jinja_string *part = text_at(call, 0, at_end ? "endswith" : "startswith");
        if (part == NULL)
            return false;
        found = valid && has_end(call->bytes + from, to - from, part, at_end);
    }
    *out = jinja_bool(found);
    return true;
}

/* ---- taking apart ---- */

static size_t space_end(const struct call *call, size_t at, bool space)
{
    while (at < call->self->size) {
        uint32_t c;
        size_t n = jinja_character(call->bytes + at, call->self->size - at, &c);
        if (jinja_is_space(c) != space)
            break;
        at += n;
    }
    return at;
}

/* The start of the run of (non-)spaces that ends at `at`. */
static size_t space_start(const struct call *call, size_t at, bool space)
{
    while (at > 0) {
        uint32_t c;
        size_t from = at - 1;
        while (from > 0 && ((unsigned char)call->bytes[from] & 0xC0) == 0x80)
            from--;
        jinja_character(call->bytes + from, at - from, &c);
        if (jinja_is_space(c) != space)
            break;
        at = from;
    }
    return at;
}

static bool split_spaces(struct call *call, struct jinja_parts *parts, int64_t limit, bool from_right)
{
    size_t size = call->self->size;
    if (!from_right) {
        for (size_t at = space_end(call, 0, true); at < size;) {
            bool rest = limit >= 0 && (int64_t)parts->count == limit;
            size_t end = rest ? size : space_end(call, at, false);
            if (!jinja_parts_add(parts, at, end))
                return false;
            at = space_end(call, end, true);
        }
        return true;
    }
    for (size_t end = space_start(call, size, true); end > 0;) {
        bool rest = limit >= 0 && (int64_t)parts->count == limit;
        size_t from = rest ? 0 : space_start(call, end, false);
        if (!jinja_parts_add(parts, from, end))
            return false;
        end = space_start(call, from, true);
    }
    return true;
}

static bool split_text(struct call *call, struct jinja_parts *parts, const struct jinja_string *separator,
                       int64_t limit, bool from_right)
{
    size_t at = 0, end = call->self->size;
    if (separator->size == 0)
        return jinja_fail(call->run, "empty separator");
    while (limit < 0 || (int64_t)parts->count < limit) {
        size_t found;
        if (!from_right)
            found = jinja_find_bytes(call->bytes, end, separator->bytes, separator->size, at);
        else if (!find_last(call->run, call->bytes, end, separator, &found))
            return false;
        if (found == JINJA_UNKNOWN)
            break;
        if (!(from_right ? jinja_parts_add(parts, found + separator->size, end) : jinja_parts_add(parts, at, found)))
            return false;
        at = from_right ? 0 : found + separator->size;
        end = from_right ? found : end;
    }
    return jinja_parts_add(parts, at, end);
}

static bool split_method(struct call *call, bool from_right, struct jinja_value *out)
{
    struct jinja_parts parts = {.run = call->run, .string = call->self};
    int64_t limit;
    if (!integer_at(call, 1, -1, &limit) || !jinja_step(call->run, call->self->size / 16))
        return false;
    bool done;
    if (call->given[0].kind == JINJA_MISSING || call->given[0].kind == JINJA_NONE) {
        done = split_spaces(call, &parts, limit, from_right);
    } else {
        struct jinja_string *separator = text_at(call, 0, "split");
        done = separator != NULL && split_text(call, &parts, separator, limit, from_right);
    }
    for (size_t i = 0; done && from_right && i < parts.count / 2; i++) {
        struct jinja_value swap = parts.items[i];
        parts.items[i] = parts.items[parts.count - 1 - i];
        parts.items[parts.count - 1 - i] = swap;
    }
    return done && jinja_list_make(call->run, JINJA_LIST, parts.items, parts.count, out);
}

static bool partition_method(struct call *call, bool from_right, struct jinja_value *out)
{
    struct jinja_parts parts = {.run = call->run, .string = call->self};
    struct jinja_string *separator = text_at(call, 0, "partition");
    size_t size = call->self->size;
    if (separator == NULL)
        return false;
    if (separator->size == 0)
        return jinja_fail(call->run, "empty separator");
    size_t at;
    if (!from_right)
        at = jinja_find_bytes(call->bytes, size, separator->bytes, separator->size, 0);
    else if (!find_last(call->run, call->bytes, size, separator, &at))
        return false;
    bool done;
    if (at == JINJA_UNKNOWN && from_right)
        done = jinja_parts_add(&parts, 0, 0) && jinja_parts_add(&parts, 0, 0) && jinja_parts_add(&parts, 0, size);
    else if (at == JINJA_UNKNOWN)
        done = jinja_parts_add(&parts, 0, size) && jinja_parts_add(&parts, 0, 0) && jinja_parts_add(&parts, 0, 0);
    else
        done = jinja_parts_add(&parts, 0, at) && jinja_parts_add(&parts, at, at + separator->size) &&
               jinja_parts_add(&parts, at + separator->size, size);
    return done && jinja_list_make(call->run, JINJA_TUPLE, parts.items, parts.count, out);
}

static bool lines_method(struct call *call, struct jinja_value *out)
{
    struct jinja_string **lines;
    size_t count;
    bool keep = call->given[0].kind != JINJA_MISSING && jinja_truth(call->given[0]);
    if (!jinja_string_lines(call->run, call->self, keep, &lines, &count))
        return false;
    struct jinja_value *items = jinja_take_array(call->run, count, sizeof(*items));
    for (size_t i = 0; items != NULL && i < count; i++)
        items[i] = jinja_from_string(lines[i]);
    return items != NULL && jinja_list_make(call->run, JINJA_LIST, items, count, out);
}

/* ---- stripping and filling ---- */

static bool strip_method(struct call *call, int sides, struct jinja_value *out)
{
    struct jinja_string *characters = NULL;
    if (call->given[0].kind != JINJA_MISSING && call->given[0].kind != JINJA_NONE) {
        characters = text_at(call, 0, "strip");
        if (characters == NULL)
            return false;
    }
    return give_string(call->run, jinja_string_strip(call->run, call->self, characters, sides), call->self->markup,
                       out);
}

/* center, ljust, rjust: `left` and `right` fills around self. */
static bool fill_method(struct call *call, char how, struct jinja_value *out)
{
    struct jinja_string *fill = NULL;
    int64_t width;
    size_t length, fill_length = 1;
    if (call->given[1].kind == JINJA_MISSING)
        fill = jinja_string_of(call->run, " ", 1, JINJA_TEMPLATE_ORIGIN);
    else
        fill = text_at(call, 1, "center");
    if (fill == NULL || !integer_at(call, 0, 0, &width) || !jinja_string_length(call->run, call->self, &length) ||
        !jinja_string_length(call->run, fill, &fill_length))
        return false;
    if (fill_length != 1)
        return jinja_fail(call->run, "The fill character must be exactly one character long");
    if (width <= (int64_t)length)
        return give_string(call->run, call->self, call->self->markup, out);
    int64_t margin = width - (int64_t)length;
    int64_t left = how == 'l' ? 0 : how == 'r' ? margin : margin / 2 + (margin & width & 1);
    struct jinja_string *before = jinja_string_repeat(call->run, fill, left);
    struct jinja_string *after = jinja_string_repeat(call->run, fill, margin - left);
    struct jinja_string *joined = before == NULL ? NULL : jinja_string_join(call->run, before, call->self);
    joined = joined == NULL || after == NULL ? NULL : jinja_string_join(call->run, joined, after);
    return give_string(call->run, joined, call->self->markup, out);
}

static bool zfill_method(struct call *call, struct jinja_value *out)
{
    int64_t width;
    size_t length;
    if (!integer_at(call, 0, 0, &width) || !jinja_string_length(call->run, call->self, &length))
        return false;
    if (width <= (int64_t)length)
        return give_string(call->run, call->self, call->self->markup, out);
    size_t sign = call->self->size > 0 && (call->bytes[0] == '+' || call->bytes[0] == '-');
    struct jinja_string *zero = jinja_string_of(call->run, "0", 1, JINJA_TEMPLATE_ORIGIN);
    zero = zero == NULL ? NULL : jinja_string_repeat(call->run, zero, width - (int64_t)length);
    struct jinja_string *head = jinja_string_cut(call->run, call->self, 0, sign);
    struct jinja_string *tail = jinja_string_cut(call->run, call->self, sign, call->self->size);
    if (zero == NULL || head == NULL || tail == NULL)
        return false;
    struct jinja_string *joined = jinja_string_join(call->run, head, zero);
    joined = joined == NULL ? NULL : jinja_string_join(call->run, joined, tail);
    return give_string(call->run, joined, call->self->markup, out);
}

/* ---- replacing and joining ---- */

static bool replace_method(struct call *call, struct jinja_value *out)
{
    int64_t times;
    struct jinja_string *old = text_at(call, 0, "replace"), *fresh = old == NULL ? NULL : text_at(call, 1, "replace");
    if (fresh == NULL || !integer_at(call, 2, -1, &times))
        return false;
    if (call->self->markup && !fresh->markup)
        fresh = jinja_string_escape(call->run, fresh);
    if (fresh == NULL)
        return false;
    return give_string(call->run, jinja_string_replace(call->run, call->self, old, fresh, times), call->self->markup,
                       out);
}

static bool join_method(struct call *call, struct jinja_value *out)
{
    struct jinja_value *items;
    size_t count;
    if (!jinja_is_iterable(call->given[0]))
        return jinja_fail(call->run, "can only join an iterable");
    if (!jinja_collect(call->run, call->given[0], &items, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (items[i].kind != JINJA_STRING)
            return jinja_fail(call->run, "sequence item %zu: expected str instance, %s found", i,
                              jinja_type_name(items[i]));
        if (call->self->markup && !items[i].string->markup)
            items[i].string = jinja_string_escape(call->run, items[i].string);
        if (items[i].string == NULL)
            return false;
    }
    return give_string(call->run, jinja_join(call->run, call->self, items, count), call->self->markup, out);
}

static bool affix_method(struct call *call, bool suffix, struct jinja_value *out)
{
    struct jinja_string *part = text_at(call, 0, suffix ? "removesuffix" : "removeprefix");
    size_t size = call->self->size;
    if (part == NULL)
        return false;
    size_t cut = part->size > 0 && has_end(call->bytes, size, part, suffix) ? part->size : 0;
    return give_string(call->run, jinja_string_cut(call->run, call->self, suffix ? 0 : cut, suffix ? size - cut : size),
                       call->self->markup, out);
}

/* ---- what kind of characters ---- */

static bool is_alnum(uint32_t c)
{
    return jinja_is_alpha(c) || jinja_is_numeric(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

/* islower, isupper, istitle: all cased characters are as they should be, and there is one. */
static bool is_case(const struct call *call, char how)
{
    bool any = false, after_cased = false;
    for (size_t at = 0; at < call->self->size;) {
        uint32_t c;
        at += jinja_character(call->bytes + at, call->self->size - at, &c);
        bool upper = jinja_is_upper(c), lower = jinja_is_lower(c), title = jinja_is_title(c);
        if ((how == 'l' && (upper || title)) || (how == 'u' && (lower || title)))
            return false;
        if (how == 't' && (((upper || title) && after_cased) || (lower && !after_cased)))
            return false;
        after_cased = upper || lower || title;
        any |= how == 'l' ? lower : how == 'u' ? upper : after_cased;
    }
    return any;
}

static bool is_method(struct call *call, const char *name, struct jinja_value *out)
{
    static const struct {
        const char *name;
        bool (*of)(uint32_t c);
        bool when_empty;
    } kinds[] = {{"isalnum", is_alnum, false},
                 {"isalpha", jinja_is_alpha, false},
                 {"isascii", is_ascii, true},
                 {"isdecimal", jinja_is_decimal, false},
                 {"isdigit", jinja_is_digit, false},
                 {"isnumeric", jinja_is_numeric, false},
                 {"isprintable", jinja_is_printable, true},
                 {"isspace", jinja_is_space, false}};
    if (!jinja_step(call->run, call->self->size / 16))
        return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(name, kinds[i].name) != 0)
            continue;
        bool all = call->self->size > 0 || kinds[i].when_empty;
        for (size_t at = 0; all && at < call->self->size;) {
            uint32_t c;
            at += jinja_character(call->bytes + at, call->self->size - at, &c);
            all = kinds[i].of(c);
        }
        *out = jinja_bool(all);
        return true;
    }
    *out = jinja_bool(is_case(call, name[2]));
    return true;
}

/* ---- the table ---- */

enum method_id {
    M_CASE,
    M_CENTER,
    M_COUNT,
    M_ENDS,
    M_FIND,
    M_FORMAT,
    M_IS,
    M_JOIN,
    M_STRIP,
    M_PARTITION,
    M_AFFIX,
    M_REPLACE,
    M_SPLIT,
    M_LINES,
    M_ZFILL,
};

struct method_row {
    const char *name;
    enum method_id id;
    int detail;
    const char *parameters;
    size_t required;
    bool keywords; /* CPython takes the parameters by name too */
};

static const struct method_row rows[] = {
    {"capitalize", M_CASE, JINJA_CASE_CAPITALIZE, "", 0, false},
    {"center", M_CENTER, 'c', "width fillchar", 1, false},
    {"count", M_COUNT, 0, "sub start end", 1, false},
    {"endswith", M_ENDS, 1, "suffix start end", 1, false},
    {"find", M_FIND, 0, "sub start end", 1, false},
    {"format", M_FORMAT, 0, "", 0, false},
    {"index", M_FIND, 0, "sub start end", 1, false},
    {"join", M_JOIN, 0, "iterable", 1, false},
    {"ljust", M_CENTER, 'l', "width fillchar", 1, false},
    {"lower", M_CASE, JINJA_CASE_LOWER, "", 0, false},
    {"lstrip", M_STRIP, JINJA_STRIP_LEFT, "chars", 0, false},
    {"partition", M_PARTITION, 0, "sep", 1, false},
    {"removeprefix", M_AFFIX, 0, "prefix", 1, false},
    {"removesuffix", M_AFFIX, 1, "suffix", 1, false},
    {"replace", M_REPLACE, 0, "old new count", 2, false},
    {"rfind", M_FIND, 0, "sub start end", 1, false},
    {"rindex", M_FIND, 0, "sub start end", 1, false},
    {"rjust", M_CENTER, 'r', "width fillchar", 1, false},
    {"rpartition", M_PARTITION, 1, "sep", 1, false},
    {"rsplit", M_SPLIT, 1, "sep maxsplit", 0, true},
    {"rstrip", M_STRIP, JINJA_STRIP_RIGHT, "chars", 0, false},
    {"split", M_SPLIT, 0, "sep maxsplit", 0, true},
    {"splitlines", M_LINES, 0, "keepends", 0, true},
    {"startswith", M_ENDS, 0, "prefix start end", 1, false},
    {"strip", M_STRIP, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT, "chars", 0, false},
    {"swapcase", M_CASE, JINJA_CASE_SWAP, "", 0, false},
    {"title", M_CASE, JINJA_CASE_TITLE, "", 0, false},
    {"upper", M_CASE, JINJA_CASE_UPPER, "", 0, false},
    {"zfill", M_ZFILL, 0, "width", 1, false},
};

static bool dispatch(struct call *call, const struct method_row *row, const char *name, const struct jinja_args *args,
                     struct jinja_value *out)
{
    switch (row->id) {
    case M_CASE:
        return give_string(call->run, jinja_string_case(call->run, call->self, (enum jinja_case)row->detail),
                           call->self->markup, out);
    case M_CENTER:
        return fill_method(call, (char)row->detail, out);
    case M_COUNT:
        return count_method(call, out);
    case M_ENDS:
        return ends_method(call, row->detail != 0, out);
    case M_FIND:
        return find_method(call, name, out);
    case M_FORMAT:
        return give_string(call->run, jinja_format_braces(call->run, call->self, args), call->self->markup, out);
    case M_IS:
        return is_method(call, name, out);
    case M_JOIN:
        return join_method(call, out);
    case M_STRIP:
        return strip_method(call, row->detail, out);
    case M_PARTITION:
        return partition_method(call, row->detail != 0, out);
    case M_AFFIX:
        return affix_method(call, row->detail != 0, out);
    case M_REPLACE:
        return replace_method(call, out);
    case M_SPLIT:
        return split_method(call, row->detail != 0, out);
    case M_LINES:
        return lines_method(call, out);
    case M_ZFILL:
        return zfill_method(call, out);
    }
    return false;
}

bool jinja_string_method(struct jinja_run *run, struct jinja_string *string, const char *name,
                         const struct jinja_args *args, struct jinja_value *out)
{
    static const struct method_row is_row = {"is", M_IS, 0, "", 0, false};
    struct call call = {.run = run, .self = string, .bytes = jinja_string_bytes(run, string)};
    size_t size = strlen(name);
    const struct method_row *row = size > 2 && name[0] == 'i' && name[1] == 's' ? &is_row : NULL;
    if (call.bytes == NULL)
        return false;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].name, name) == 0)
            row = &rows[i];
    if (row == NULL || strcmp(name, "isidentifier") == 0)
        return jinja_fail_status(run, STATUS_UNSUPPORTED, "line %u: str.%s is not supported", run->line, name);
    if (row->id != M_FORMAT) {
        if (args->named > 0 && !row->keywords)
            return jinja_fail(run, "str.%s() takes no keyword arguments", name);
        if (!jinja_bind(run, args, row->name, row->parameters, row->required, call.given))
            return false;
    }
    return dispatch(&call, row, name, args, out);
}
