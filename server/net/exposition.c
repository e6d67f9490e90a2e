/* The text format of Prometheus. */
#include "server/net/exposition.h"

#include <inttypes.h>

void exposition_family(struct exposition *exposition, const char *name, const char *type, const char *help)
{
    exposition->name = name;
    buffer_printf(exposition->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void append_escaped(struct buffer *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            buffer_text(out, "\\n");
            continue;
        }
        if (*text == '"' || *text == '\\')
            buffer_byte(out, '\\');
        buffer_byte(out, *text);
    }
}

/* `name_suffix{labels,le="bound"} `; `bound` NULL: no such label. */
static void append_series(struct exposition *exposition, const char *suffix, const struct exposition_label *labels,
                          uint32_t count, const char *bound)
{
    struct buffer *out = exposition->out;
    const char *separator = "{";
    buffer_printf(out, "%s%s", exposition->name, suffix);
    for (uint32_t i = 0; i < count; i++) {
        buffer_printf(out, "%s%s=\"", separator, labels[i].name);
        append_escaped(out, labels[i].value);
        buffer_byte(out, '"');
        separator = ",";
    }
    if (bound != NULL)
        buffer_printf(out, "%sle=\"%s\"", separator, bound);
    buffer_text(out, count > 0 || bound != NULL ? "} " : " ");
}

void exposition_integer(struct exposition *exposition, const struct exposition_label *labels, uint32_t count,
                        uint64_t value)
{
    append_series(exposition, "", labels, count, NULL);
    buffer_printf(exposition->out, "%" PRIu64 "\n", value);
}

void exposition_number(struct exposition *exposition, const struct exposition_label *labels, uint32_t count,
                       double value)
{
    append_series(exposition, "", labels, count, NULL);
    buffer_printf(exposition->out, "%.17g\n", value);
}

void exposition_histogram(struct exposition *exposition, const struct exposition_label *labels, uint32_t count,
                          const struct histogram *histogram, enum stats_histogram which, uint32_t bounds)
{
    uint32_t all;
    uint64_t below = 0;
    const double *values = stats_bounds(which, &all);
    char bound[32];
    for (uint32_t i = 0; i < bounds && i < all; i++) {
        below += histogram->counts[i];
        snprintf(bound, sizeof(bound), "%.15g", values[i]);
        append_series(exposition, "_bucket", labels, count, bound);
        buffer_printf(exposition->out, "%" PRIu64 "\n", below);
    }
    for (uint32_t i = bounds; i <= all; i++)
        below += histogram->counts[i];
    append_series(exposition, "_bucket", labels, count, "+Inf");
    buffer_printf(exposition->out, "%" PRIu64 "\n", below);
    append_series(exposition, "_sum", labels, count, NULL);
    buffer_printf(exposition->out, "%.17g\n", histogram->sum);
    append_series(exposition, "_count", labels, count, NULL);
    buffer_printf(exposition->out, "%" PRIu64 "\n", below);
}
