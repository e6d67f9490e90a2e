/* str(), repr() and json.dumps() of values, byte for byte as CPython writes them. */
#include <math.h>
#include <string.h>

#include "model/text/jinja/run.h"
#include "model/text/jinja/unicode.h"

/* ---- floats ---- */

/* The shortest decimal digits that read back as `number` (finite, positive), closest first: David Gay's mode 0.
 * Returns the count; value = 0.d1d2... * 10^point. */
static int shortest_digits(double number, char digits[20], int *point)
{
    char text[40];
    int exponent_two;
    bool asymmetric = frexp(number, &exponent_two) == 0.5; /* the gap below a power of two is half of that above */
    for (int count = 1; count <= 17; count++) {
        snprintf(text, sizeof(text), "%.*e", count - 1, number);
        bool found = strtod(text, NULL) == number;
        if (!found && asymmetric && count > 1 && text[count] < '9' && text[count] >= '0') {
            /* the nearest does not read back, but its neighbour on the wide side may; text is d.ddd with the last
             * digit at [count] */
            text[count]++;
            found = strtod(text, NULL) == number;
        }
        if (!found && count < 17)
            continue;
        const char *e = strchr(text, 'e');
        int n = 0;
        for (const char *c = text; c < e; c++)
            if (*c != '.')
                digits[n++] = *c;
        while (n > 1 && digits[n - 1] == '0')
            n--;
        *point = (int)strtol(e + 1, NULL, 10) + 1;
        return n;
    }
    return 0;
}

void jinja_write_float(struct jinja_writer *writer, double number)
{
    if (isnan(number)) {
        jinja_write_text(writer, "nan");
        return;
    }
    if (signbit(number))
        jinja_write_byte(writer, '-');
    if (isinf(number)) {
        jinja_write_text(writer, "inf");
        return;
    }
    char digits[20];
    int point = 1, count = 1;
    digits[0] = '0';
    if (number != 0.0)
        count = shortest_digits(fabs(number), digits, &point);
    if (point > 16 || point < -3) {
        jinja_write(writer, digits, 1);
        if (count > 1) {
            jinja_write_byte(writer, '.');
            jinja_write(writer, digits + 1, (size_t)count - 1);
        }
        jinja_write_format(writer, "e%c%02d", point - 1 < 0 ? '-' : '+', abs(point - 1));
        return;
    }
    if (point <= 0) {
        jinja_write_text(writer, "0.");
        for (int i = point; i < 0; i++)
            jinja_write_byte(writer, '0');
        jinja_write(writer, digits, (size_t)count);
        return;
    }
    for (int i = 0; i < point; i++)
        jinja_write_byte(writer, i < count ? digits[i] : '0');
    jinja_write_byte(writer, '.');
    if (count > point)
        jinja_write(writer, digits + point, (size_t)(count - point));
    else
        jinja_write_byte(writer, '0');
}

/* ---- repr ---- */

static bool write_repr_string(struct jinja_writer *writer, struct jinja_string *string)
{
    const char *bytes = jinja_string_bytes(writer->run, string);
    if (bytes == NULL || !jinja_step(writer->run, string->size / 32))
        return false;
    jinja_mix_string(&writer->mix, string);
    bool single = memchr(bytes, '\'', string->size) != NULL, twice = memchr(bytes, '"', string->size) != NULL;
    char quote = (char)(single && !twice ? '"' : '\'');
    if (string->markup)
        jinja_write_text(writer, "Markup(");
    jinja_write_byte(writer, quote);
    size_t plain = 0; /* start of what is not written yet */
    for (size_t at = 0; at < string->size;) {
        uint32_t c;
        size_t n = jinja_character(bytes + at, string->size - at, &c);
        if (c != (uint32_t)quote && c != '\\' && jinja_is_printable(c)) {
            at += n;
            continue;
        }
        jinja_write(writer, bytes + plain, at - plain);
        at += n;
        plain = at;
        if (c == (uint32_t)quote || c == '\\')
            jinja_write_format(writer, "\\%c", (int)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            jinja_write_text(writer, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else
            jinja_write_format(writer, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
    }
    jinja_write(writer, bytes + plain, string->size - plain);
    jinja_write_byte(writer, quote);
    if (string->markup)
        jinja_write_byte(writer, ')');
    return !writer->failed;
}

static bool write_repr_list(struct jinja_writer *writer, const struct jinja_list *list, char open, char close)
{
    jinja_write_byte(writer, open);
    for (size_t i = 0; i < list->count; i++) {
        struct jinja_value item;
        if (i > 0)
            jinja_write_text(writer, ", ");
        if (!jinja_step(writer->run, 1) || !jinja_list_get(writer->run, list, i, &item) ||
            !jinja_write_repr(writer, item))
            return false;
    }
    if (open == '(' && list->count == 1)
        jinja_write_byte(writer, ',');
    jinja_write_byte(writer, close);
    return !writer->failed;
}

static bool write_repr_dict(struct jinja_writer *writer, struct jinja_value dict)
{
    size_t count = jinja_dict_count(dict);
    jinja_write_byte(writer, '{');
    for (size_t i = 0; i < count; i++) {
        struct jinja_value key, value;
        if (i > 0)
            jinja_write_text(writer, ", ");
        if (!jinja_step(writer->run, 1) || !jinja_dict_key(writer->run, dict, i, &key) ||
            !jinja_dict_value(writer->run, dict, i, &value) || !jinja_write_repr(writer, key))
            return false;
        jinja_write_text(writer, ": ");
        if (!jinja_write_repr(writer, value))
            return false;
    }
    jinja_write_byte(writer, '}');
    return !writer->failed;
}

static bool write_repr_view(struct jinja_writer *writer, struct jinja_value view)
{
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    struct jinja_iterator *iterator;
    struct jinja_value item;
    int more;
    jinja_write_text(writer, names[view.detail]);
    if (!jinja_iterate(writer->run, view, &iterator))
        return false;
    for (size_t i = 0; (more = jinja_next(writer->run, iterator, &item)) == 1; i++) {
        if (i > 0)
            jinja_write_text(writer, ", ");
        if (!jinja_write_repr(writer, item))
            return false;
    }
    jinja_write_text(writer, "])");
    return more == 0 && !writer->failed;
}

static bool write_repr_object(struct jinja_writer *writer, struct jinja_value value)
{
    struct jinja_run *run = writer->run;
    size_t length;
    switch ((enum jinja_kind)value.kind) {
    case JINJA_RANGE:
        jinja_write_format(writer, "range(%lld, %lld", (long long)value.range->start, (long long)value.range->stop);
        if (value.range->step != 1)
            jinja_write_format(writer, ", %lld", (long long)value.range->step);
        jinja_write_byte(writer, ')');
        return !writer->failed;
    case JINJA_NAMESPACE:
        jinja_write_text(writer, "<Namespace ");
        value.kind = JINJA_DICT;
        if (!write_repr_dict(writer, value))
            return false;
        jinja_write_byte(writer, '>');
        return !writer->failed;
    case JINJA_LOOP:
        if (!jinja_loop_length(run, value.loop, &length))
            return false;
        jinja_write_format(writer, "<LoopContext %lld/%zu>", (long long)value.loop->index0 + 1, length);
        return !writer->failed;
    case JINJA_MACRO:
        jinja_write_text(writer, "<Macro ");
        if (value.macro->function->name == NULL)
            jinja_write_text(writer, "anonymous");
        else if (!write_repr_string(writer, value.macro->function->name_string))
            return false;
        jinja_write_byte(writer, '>');
        return !writer->failed;
    default:
        return jinja_fail_status(run, STATUS_UNSUPPORTED,
                                 "line %u: printing a %s is not supported: Python would print its address", run->line,
                                 jinja_type_name(value));
    }
}

/* Whether repr is already inside of this container: looking up costs steps, since nests may be deep. */
static bool is_enclosed(struct jinja_writer *writer, struct jinja_value value, bool *out)
{
    uint64_t depth = 0;
    *out = false;
    for (const struct jinja_enclosing *e = writer->enclosing; e != NULL && !*out; e = e->outer, depth++)
        *out = e->object == value.text;
    return jinja_step(writer->run, depth / 8);
}

bool jinja_write_repr(struct jinja_writer *writer, struct jinja_value value)
{
    bool done;
    switch ((enum jinja_kind)value.kind) {
    case JINJA_UNDEFINED:
        jinja_write_text(writer, "Undefined");
        return !writer->failed;
    case JINJA_NONE:
    case JINJA_BOOL:
        jinja_mix_value(&writer->mix, value);
        jinja_write_text(writer, value.kind == JINJA_NONE ? "None" : value.integer ? "True" : "False");
        return !writer->failed;
    case JINJA_INTEGER:
        jinja_mix_value(&writer->mix, value);
        jinja_write_format(writer, "%lld", (long long)value.integer);
        return !writer->failed;
    case JINJA_BIG:
        jinja_mix_value(&writer->mix, value);
        jinja_write_text(writer, value.text);
        return !writer->failed;
    case JINJA_FLOAT:
        jinja_mix_value(&writer->mix, value);
        jinja_write_float(writer, value.number);
        return !writer->failed;
    case JINJA_STRING:
        return write_repr_string(writer, value.string);
    default:
        break;
    }
    bool encloses_itself;
    if (!is_enclosed(writer, value, &encloses_itself))
        return false;
    if (encloses_itself) {
        jinja_write_text(writer, value.kind == JINJA_LIST        ? "[...]"
                                 : value.kind == JINJA_TUPLE     ? "(...)"
                                 : value.kind == JINJA_NAMESPACE ? "<Namespace {...}>"
                                                                 : "{...}");
        return !writer->failed;
    }
    if (!jinja_enter(writer->run))
        return false;
    struct jinja_enclosing self = {.object = value.text, .outer = writer->enclosing};
    writer->enclosing = &self;
    jinja_mix_value(&writer->mix, value);
    if (jinja_is_list(value))
        done = write_repr_list(writer, value.list, value.kind == JINJA_LIST ? '[' : '(',
                               value.kind == JINJA_LIST ? ']' : ')');
    else if (jinja_is_dict(value))
        done = write_repr_dict(writer, value);
    else if (value.kind == JINJA_VIEW)
        done = write_repr_view(writer, value);
    else
        done = write_repr_object(writer, value);
    writer->enclosing = self.outer;
    jinja_leave(writer->run);
    return done;
}

bool jinja_write_str(struct jinja_writer *writer, struct jinja_value value)
{
    if (value.kind == JINJA_UNDEFINED)
        return true;
    if (value.kind != JINJA_STRING)
        return jinja_write_repr(writer, value);
    const char *bytes = jinja_string_bytes(writer->run, value.string);
    if (bytes == NULL)
        return false;
    jinja_mix_string(&writer->mix, value.string);
    jinja_write(writer, bytes, value.string->size);
    return !writer->failed;
}

struct jinja_string *jinja_str(struct jinja_run *run, struct jinja_value value)
{
    if (value.kind == JINJA_STRING)
        return jinja_string_marked(run, value.string, false);
    struct jinja_writer writer = {.run = run};
    return jinja_write_str(&writer, value) ? jinja_writer_string(&writer) : NULL;
}

/* ---- json.dumps ---- */

static bool write_json_string(struct jinja_writer *writer, const struct jinja_json *style, struct jinja_string *string)
{
    const char *bytes = jinja_string_bytes(writer->run, string);
    if (bytes == NULL || !jinja_step(writer->run, string->size / 64))
        return false;
    jinja_mix_string(&writer->mix, string);
    jinja_write_byte(writer, '"');
    size_t plain = 0;
    for (size_t at = 0; at < string->size;) {
        unsigned char byte = (unsigned char)bytes[at];
        bool escaped = byte < 0x20 || byte == '"' || byte == '\\' || (style->ensure_ascii && byte >= 0x7F);
        if (!escaped) {
            at++;
            continue;
        }
        uint32_t c;
        size_t n = jinja_character(bytes + at, string->size - at, &c);
        jinja_write(writer, bytes + plain, at - plain);
        at += n;
        plain = at;
        static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
        const char *simple = c != 0 && c < 0x80 ? strchr(from, (int)c) : NULL;
        if (simple != NULL)
            jinja_write_format(writer, "\\%c", to[simple - from]);
        else if (c < 0x10000)
            jinja_write_format(writer, "\\u%04x", c);
        else
            jinja_write_format(writer, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                               0xDC00 + ((c - 0x10000) & 0x3FF));
    }
    jinja_write(writer, bytes + plain, string->size - plain);
    jinja_write_byte(writer, '"');
    return !writer->failed;
}

static void write_json_float(struct jinja_writer *writer, double number)
{
    if (isnan(number))
        jinja_write_text(writer, "NaN");
    else if (isinf(number))
        jinja_write_text(writer, number < 0 ? "-Infinity" : "Infinity");
    else
        jinja_write_float(writer, number);
}

static void write_json_line(struct jinja_writer *writer, const struct jinja_json *style, uint32_t level)
{
    if (style->indent == NULL)
        return;
    jinja_write_byte(writer, '\n');
    for (uint32_t i = 0; i < level; i++)
        jinja_write(writer, style->indent, style->indent_size);
}

static bool write_json(struct jinja_writer *writer, const struct jinja_json *style, struct jinja_value value,
                       uint32_t level);

static bool write_json_list(struct jinja_writer *writer, const struct jinja_json *style, const struct jinja_list *list,
                            uint32_t level)
{
    jinja_write_byte(writer, '[');
    for (size_t i = 0; i < list->count; i++) {
        struct jinja_value item;
        if (i > 0)
            jinja_write(writer, style->item_separator, style->item_separator_size);
        write_json_line(writer, style, level + 1);
        if (!jinja_step(writer->run, 1) || !jinja_list_get(writer->run, list, i, &item) ||
            !write_json(writer, style, item, level + 1))
            return false;
    }
    if (list->count > 0)
        write_json_line(writer, style, level);
    jinja_write_byte(writer, ']');
    return !writer->failed;
}

static bool write_json_key(struct jinja_writer *writer, const struct jinja_json *style, struct jinja_value key)
{
    if (key.kind == JINJA_STRING)
        return write_json_string(writer, style, key.string);
    jinja_write_byte(writer, '"');
    if (key.kind == JINJA_BOOL)
        jinja_write_text(writer, key.integer ? "true" : "false");
    else if (key.kind == JINJA_NONE)
        jinja_write_text(writer, "null");
    else if (key.kind == JINJA_FLOAT)
        write_json_float(writer, key.number);
    else if (!jinja_is_number(key))
        return jinja_fail(writer->run, "keys must be str, int, float, bool or None, not %s", jinja_type_name(key));
    else if (!jinja_write_repr(writer, key))
        return false;
    jinja_write_byte(writer, '"');
    return !writer->failed;
}

static bool sorted_keys(struct jinja_run *run, struct jinja_value dict, size_t count, struct jinja_value **out)
{
    struct jinja_value *keys = jinja_take_array(run, count, sizeof(*keys));
    struct jinja_value *compared = jinja_take_array(run, count, sizeof(*compared));
    if (keys == NULL || compared == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!jinja_dict_key(run, dict, i, &keys[i]))
            return false;
        compared[i] = keys[i];
    }
    *out = keys;
    return jinja_sort(run, keys, compared, count, false);
}

static bool write_json_dict(struct jinja_writer *writer, const struct jinja_json *style, struct jinja_value dict,
                            uint32_t level)
{
    struct jinja_run *run = writer->run;
    size_t count = jinja_dict_count(dict);
    struct jinja_value *keys = NULL;
    if (style->sort_keys && !sorted_keys(run, dict, count, &keys))
        return false;
    jinja_write_byte(writer, '{');
    for (size_t i = 0; i < count; i++) {
        struct jinja_value key, value;
        if (i > 0)
            jinja_write(writer, style->item_separator, style->item_separator_size);
        write_json_line(writer, style, level + 1);
        if (style->sort_keys) {
            key = keys[i];
            if (jinja_dict_find(run, dict, key, &value) != 1)
                return false;
        } else if (!jinja_dict_key(run, dict, i, &key) || !jinja_dict_value(run, dict, i, &value)) {
            return false;
        }
        if (!jinja_step(run, 1) || !write_json_key(writer, style, key))
            return false;
        jinja_write(writer, style->key_separator, style->key_separator_size);
        if (!write_json(writer, style, value, level + 1))
            return false;
    }
    if (count > 0)
        write_json_line(writer, style, level);
    jinja_write_byte(writer, '}');
    return !writer->failed;
}

static bool write_json(struct jinja_writer *writer, const struct jinja_json *style, struct jinja_value value,
                       uint32_t level)
{
    bool done;
    switch ((enum jinja_kind)value.kind) {
    case JINJA_STRING:
        return write_json_string(writer, style, value.string);
    case JINJA_NONE:
    case JINJA_BOOL:
        jinja_mix_value(&writer->mix, value);
        jinja_write_text(writer, value.kind == JINJA_NONE ? "null" : value.integer ? "true" : "false");
        return !writer->failed;
    case JINJA_INTEGER:
    case JINJA_BIG:
        return jinja_write_repr(writer, value);
    case JINJA_FLOAT:
        jinja_mix_value(&writer->mix, value);
        write_json_float(writer, value.number);
        return !writer->failed;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_OBJECT:
        if (!jinja_enter(writer->run))
            return false;
        jinja_mix_value(&writer->mix, value);
        done = jinja_is_list(value) ? write_json_list(writer, style, value.list, level)
                                    : write_json_dict(writer, style, value, level);
        jinja_leave(writer->run);
        return done;
    default:
        return jinja_fail(writer->run, "Object of type %s is not JSON serializable", jinja_type_name(value));
    }
}

bool jinja_write_json(struct jinja_writer *writer, const struct jinja_json *style, struct jinja_value value)
{
    return write_json(writer, style, value, 0);
}
