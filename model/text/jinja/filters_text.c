/* Filters that make text. */
#include <string.h>

#include "model/text/jinja/filters.h"
#include "model/text/jinja/unicode.h"

/* soft_str: strings as they are (Markup included), anything else through str(). */
static struct jinja_string *soft(struct jinja_run *run, struct jinja_value value)
{
    return value.kind == JINJA_STRING ? value.string : jinja_str(run, value);
}

static bool give(struct jinja_run *run, struct jinja_string *string, bool markup, struct jinja_value *out)
{
    *out = jinja_from_string(jinja_string_marked(run, string, markup));
    return out->string != NULL;
}

JINJA_FILTER(jinja_filter_case)
{
    struct jinja_value none[1];
    struct jinja_string *text = soft(run, value);
    if (text == NULL || !jinja_bind(run, args, filter->name, "", 0, none))
        return false;
    /* ''.join in do_title gives a plain str. */
    bool markup = text->markup && filter->detail != JINJA_CASE_TITLE_FILTER;
    return give(run, jinja_string_case(run, text, (enum jinja_case)filter->detail), markup, out);
}

JINJA_FILTER(jinja_filter_center)
{
    struct jinja_value width[1];
    struct jinja_string *text = soft(run, value);
    if (text == NULL || !jinja_bind(run, args, filter->name, "width", 0, width))
        return false;
    if (width[0].kind == JINJA_MISSING)
        width[0] = jinja_integer(80);
    struct jinja_args one = {.values = width, .count = 1};
    return jinja_string_method(run, text, "center", &one, out);
}

struct jinja_string *jinja_string_escape(struct jinja_run *run, struct jinja_string *string)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const char *bytes = jinja_string_bytes(run, string);
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    size_t at = 0;
    if (bytes == NULL || pieces == NULL || !jinja_step(run, string->size / 16))
        return NULL;
    for (size_t i = 0; i <= string->size; i++) {
        const char *found = i < string->size && bytes[i] != '\0' ? strchr(from, bytes[i]) : NULL;
        if (found == NULL && i < string->size)
            continue;
        struct jinja_string *kept = jinja_string_cut(run, string, at, i);
        if (kept == NULL || !jinja_pieces_string(run, pieces, kept))
            return NULL;
        at = i + 1;
        if (found == NULL)
            break;
        struct jinja_string *one = jinja_string_cut(run, string, i, i + 1);
        if (one == NULL || !jinja_step(run, 1))
            return NULL;
        struct jinja_origin origin = jinja_string_piece(one, 0)->origin;
        origin.offset = JINJA_UNKNOWN;
        if (!jinja_pieces_add(run, pieces, to[found - from], strlen(to[found - from]), origin))
            return NULL;
    }
    return jinja_string_marked(run, jinja_string_view(run, pieces), true);
}

JINJA_FILTER(jinja_filter_escape)
{
    struct jinja_value none[1];
    if (!jinja_bind(run, args, filter->name, "", 0, none))
        return false;
    bool again = filter->detail != 0; /* forceescape does not look at what is marked */
    if (value.kind == JINJA_STRING && value.string->markup && !again) {
        *out = value;
        return true;
    }
    struct jinja_string *text = soft(run, value);
    *out = jinja_from_string(text == NULL ? NULL : jinja_string_escape(run, text));
    return out->string != NULL;
}

JINJA_FILTER(jinja_filter_safe)
{
    struct jinja_value none[1];
    struct jinja_string *text = soft(run, value);
    return text != NULL && jinja_bind(run, args, filter->name, "", 0, none) && give(run, text, true, out);
}

JINJA_FILTER(jinja_filter_string)
{
    struct jinja_value none[1];
    *out = jinja_from_string(soft(run, value));
    return out->string != NULL && jinja_bind(run, args, filter->name, "", 0, none);
}

JINJA_FILTER(jinja_filter_format)
{
    struct jinja_string *text = soft(run, value);
    struct jinja_value argument;
    (void)filter;
    if (text == NULL)
        return false;
    if (args->count > 0 && args->named > 0)
        return jinja_fail(run, "can't handle positional and keyword arguments at the same time");
    if (args->named > 0) {
        struct jinja_dict *dict = jinja_dict_make(run, args->named);
        for (size_t i = 0; dict != NULL && i < args->named; i++)
            if (!jinja_dict_put(run, dict, args->names[i], args->named_values[i]))
                return false;
        if (dict == NULL)
            return false;
        argument = (struct jinja_value){.kind = JINJA_DICT, .dict = dict};
    } else if (!jinja_list_make(run, JINJA_TUPLE, args->values, args->count, &argument)) {
        return false;
    }
    *out = jinja_from_string(jinja_format_percent(run, text, argument));
    return out->string != NULL;
}

static bool indent_lines(struct jinja_run *run, struct jinja_string *text, struct jinja_string *indention, bool first,
                         bool blank, struct jinja_value *out)
{
    struct jinja_string **lines, *newline = jinja_string_of(run, "\n", 1, JINJA_TEMPLATE_ORIGIN);
    struct jinja_pieces *pieces = jinja_take(run, sizeof(*pieces));
    size_t count;
    bool markup = text->markup;
    if (newline == NULL || pieces == NULL)
        return false;
    struct jinja_string *ended = jinja_string_join(run, text, newline);
    if (ended == NULL || !jinja_string_lines(run, ended, false, &lines, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && !jinja_pieces_string(run, pieces, newline))
            return false;
        bool indented = i == 0 ? first : blank || lines[i]->size > 0;
        if ((indented && !jinja_pieces_string(run, pieces, indention)) || !jinja_pieces_string(run, pieces, lines[i]))
            return false;
    }
    return give(run, jinja_string_view(run, pieces), markup, out);
}

JINJA_FILTER(jinja_filter_indent)
{
    struct jinja_value given[3];
    struct jinja_string *indention;
    int64_t width = 4;
    if (!jinja_bind(run, args, filter->name, "width first blank", 0, given))
        return false;
    if (given[0].kind == JINJA_STRING) {
        indention = given[0].string;
    } else {
        if (given[0].kind != JINJA_MISSING && !jinja_as_index(run, given[0], &width))
            return false;
        indention = jinja_string_of(run, " ", 1, JINJA_TEMPLATE_ORIGIN);
        indention = indention == NULL ? NULL : jinja_string_repeat(run, indention, width);
    }
    if (value.kind == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (value.kind != JINJA_STRING)
        return jinja_fail(run, "unsupported operand type(s) for +=: '%s' and 'str'", jinja_type_name(value));
    if (indention == NULL)
        return false;
    if (value.string->markup && !indention->markup && given[0].kind == JINJA_STRING)
        indention = jinja_string_marked(run, indention, true);
    return indention != NULL &&
           indent_lines(run, value.string, indention, jinja_flag(given[1], false), jinja_flag(given[2], false), out);
}

JINJA_FILTER(jinja_filter_replace)
{
    struct jinja_value given[3];
    int64_t times = -1;
    if (!jinja_bind(run, args, filter->name, "old new count", 2, given))
        return false;
    struct jinja_string *text = jinja_str(run, value), *old = jinja_str(run, given[0]),
                        *fresh = jinja_str(run, given[1]);
    if (text == NULL || old == NULL || fresh == NULL)
        return false;
    if (given[2].kind != JINJA_MISSING && given[2].kind != JINJA_NONE && !jinja_as_index(run, given[2], &times))
        return false;
    *out = jinja_from_string(jinja_string_replace(run, text, old, fresh, times));
    return out->string != NULL;
}

JINJA_FILTER(jinja_filter_trim)
{
    struct jinja_value given[1];
    struct jinja_string *text = soft(run, value), *characters = NULL;
    if (text == NULL || !jinja_bind(run, args, filter->name, "chars", 0, given))
        return false;
    if (given[0].kind == JINJA_STRING)
        characters = given[0].string;
    else if (given[0].kind != JINJA_MISSING && given[0].kind != JINJA_NONE)
        return jinja_fail(run, "strip arg must be None or str");
    *out = jinja_from_string(jinja_string_strip(run, text, characters, JINJA_STRIP_LEFT | JINJA_STRIP_RIGHT));
    return out->string != NULL;
}

JINJA_FILTER(jinja_filter_truncate)
{
    struct jinja_value given[4];
    int64_t length = 255, leeway = 5;
    size_t size, end_size, cut;
    if (!jinja_bind(run, args, filter->name, "length killwords end leeway", 0, given))
        return false;
    struct jinja_string *end =
        given[2].kind == JINJA_MISSING ? jinja_string_of(run, "...", 3, JINJA_TEMPLATE_ORIGIN) : given[2].string;
    if ((given[0].kind != JINJA_MISSING && !jinja_as_index(run, given[0], &length)) ||
        (given[3].kind != JINJA_MISSING && given[3].kind != JINJA_NONE && !jinja_as_index(run, given[3], &leeway)))
        return false;
    if (given[2].kind != JINJA_MISSING && given[2].kind != JINJA_STRING)
        return jinja_fail(run, "truncate wants a str for `end`");
    if (end == NULL || !jinja_string_length(run, end, &end_size))
        return false;
    if (length < (int64_t)end_size || leeway < 0)
        return jinja_fail(run, "expected length >= %zu, got %lld", end_size, (long long)length);
    *out = value;
    if (!jinja_length(run, value, &size) || (int64_t)size - leeway <= length)
        return run->status == STATUS_OK;
    if (value.kind != JINJA_STRING)
        return jinja_fail(run, "truncate wants a str, not %s", jinja_type_name(value));
    struct jinja_string *text = value.string;
    if (!jinja_string_offset(run, text, (size_t)length - end_size, &cut))
        return false;
    if (!jinja_flag(given[1], false)) {
        const char *bytes = jinja_string_bytes(run, text);
        size_t space = cut;
        while (space > 0 && bytes[space - 1] != ' ')
            space--;
        cut = space > 0 ? space - 1 : cut;
    }
    struct jinja_string *kept = jinja_string_cut(run, text, 0, cut);
    struct jinja_value a = jinja_from_string(kept), b = jinja_from_string(end);
    return kept != NULL && jinja_arithmetic(run, JINJA_ADD, a, b, out);
}

JINJA_FILTER(jinja_filter_wordcount)
{
    struct jinja_value none[1];
    struct jinja_string *text = soft(run, value);
    const char *bytes = text == NULL ? NULL : jinja_string_bytes(run, text);
    int64_t count = 0;
    bool inside = false;
    if (bytes == NULL || !jinja_bind(run, args, filter->name, "", 0, none) || !jinja_step(run, text->size / 16))
        return false;
    for (size_t at = 0; at < text->size;) {
        uint32_t c;
        at += jinja_character(bytes + at, text->size - at, &c);
        bool word = c == '_' || jinja_is_alpha(c) || jinja_is_numeric(c);
        count += word && !inside;
        inside = word;
    }
    *out = jinja_integer(count);
    out->tainted = true;
    return true;
}

/* ---- tojson ---- */

static bool separators(struct jinja_run *run, struct jinja_value given, struct jinja_json *style)
{
    struct jinja_value *items;
    size_t count;
    if (given.kind == JINJA_MISSING || given.kind == JINJA_NONE)
        return true;
    if (!jinja_is_iterable(given) || !jinja_collect(run, given, &items, &count))
        return jinja_fail(run, "cannot unpack the separators of tojson");
    if (count != 2)
        return jinja_fail(run, "tojson wants two separators, not %zu", count);
    for (size_t i = 0; i < 2; i++) {
        if (items[i].kind != JINJA_STRING)
            return jinja_fail(run, "a separator of tojson must be str, not %s", jinja_type_name(items[i]));
        if (jinja_string_bytes(run, items[i].string) == NULL)
            return false;
    }
    style->item_separator = items[0].string->bytes;
    style->item_separator_size = items[0].string->size;
    style->key_separator = items[1].string->bytes;
    style->key_separator_size = items[1].string->size;
    return true;
}

static bool json_indent(struct jinja_run *run, struct jinja_value given, struct jinja_json *style)
{
    int64_t width;
    struct jinja_string *indent;
    if (given.kind == JINJA_MISSING || given.kind == JINJA_NONE)
        return true;
    if (given.kind == JINJA_STRING) {
        indent = given.string;
    } else {
        if (!jinja_as_index(run, given, &width))
            return false;
        indent = jinja_string_of(run, " ", 1, JINJA_TEMPLATE_ORIGIN);
        indent = indent == NULL ? NULL : jinja_string_repeat(run, indent, width);
    }
    style->indent = indent == NULL ? NULL : jinja_string_bytes(run, indent);
    style->indent_size = indent == NULL ? 0 : indent->size;
    style->item_separator = ",";
    style->item_separator_size = 1;
    return style->indent != NULL;
}

JINJA_FILTER(jinja_filter_tojson)
{
    struct jinja_value given[4];
    struct jinja_json style = {
        .item_separator = ", ", .item_separator_size = 2, .key_separator = ": ", .key_separator_size = 2};
    struct jinja_writer writer = {.run = run};
    if (!jinja_bind(run, args, filter->name, "ensure_ascii indent separators sort_keys", 0, given) ||
        !json_indent(run, given[1], &style) || !separators(run, given[2], &style))
        return false;
    style.ensure_ascii = jinja_flag(given[0], false);
    style.sort_keys = jinja_flag(given[3], false);
    if (!jinja_write_json(&writer, &style, value))
        return false;
    *out = jinja_from_string(jinja_writer_string(&writer));
    return out->string != NULL;
}
