/* Failing, memory, steps and depth of a render. */
#include "model/text/jinja/run.h"

#include <stdarg.h>
#include <stdio.h>

static bool fail_text(struct jinja_run *run, enum status status, const char *text)
{
    if (run->status == STATUS_OK)
        run->status = error_set(run->error, status, "%s", text);
    return false;
}

bool jinja_fail(struct jinja_run *run, const char *format, ...)
{
    char text[400];
    int n = snprintf(text, sizeof(text), "chat template line %u: ", run->line);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof(text) - (size_t)n, format, args);
    va_end(args);
    return fail_text(run, STATUS_INVALID, text);
}

bool jinja_fail_status(struct jinja_run *run, enum status status, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return fail_text(run, status, text);
}

bool jinja_fail_undefined(struct jinja_run *run, struct jinja_value value)
{
    switch ((enum jinja_reason)value.detail) {
    case JINJA_REASON_VARIABLE:
        return jinja_fail(run, "'%s' is undefined", value.text);
    case JINJA_REASON_ATTRIBUTE:
        return jinja_fail(run, "'%s' object has no attribute '%s'", jinja_kind_name(value.extra), value.text);
    case JINJA_REASON_ELEMENT:
        return jinja_fail(run, "%s object has no such element", jinja_kind_name(value.extra));
    case JINJA_REASON_PARAMETER:
        return jinja_fail(run, "parameter '%s' was not provided", value.text);
    case JINJA_REASON_UNSAFE:
        return jinja_fail(run, "access to attribute '%s' of '%s' object is unsafe.", value.text,
                          jinja_kind_name(value.extra));
    case JINJA_REASON_HINT:
        break;
    }
    return jinja_fail(run, "%s", value.text);
}

void *jinja_take(struct jinja_run *run, size_t bytes)
{
    void *memory = arena_take(run->arena, bytes);
    if (memory == NULL)
        jinja_fail_status(run, STATUS_TOO_LARGE, "rendering the chat template needs more memory than its limit");
    return memory;
}

void *jinja_take_array(struct jinja_run *run, size_t count, size_t bytes)
{
    void *memory = arena_array(run->arena, count, bytes);
    if (memory == NULL)
        jinja_fail_status(run, STATUS_TOO_LARGE, "rendering the chat template needs more memory than its limit");
    return memory;
}

bool jinja_step(struct jinja_run *run, uint64_t steps)
{
    if (steps <= run->steps_left) {
        run->steps_left -= steps;
        return true;
    }
    return jinja_fail_status(run, STATUS_TOO_LARGE, "chat template line %u: rendering takes too many steps", run->line);
}

bool jinja_enter(struct jinja_run *run)
{
    if (run->recursion_left == 0)
        return jinja_fail_status(run, STATUS_TOO_LARGE, "chat template line %u: rendering is nested too deep",
                                 run->line);
    run->recursion_left--;
    return true;
}

void jinja_leave(struct jinja_run *run)
{
    run->recursion_left++;
}
