/* GET /health: whether the engine moves, and where it stands. */
#include <stdio.h>

#include "kernels/base/json_writer.h"
#include "server/net/net_private.h"

#define STUCK_NS (UINT64_C(60) * 1000000000) /* no step is as long */

bool health_is_stuck(struct health *health, const struct engine_status *status, uint64_t now_ns)
{
    bool has_work = status->running > 0 || status->waiting > 0;
    if (!has_work)
        health->still_since_ns = 0;
    else if (health->still_since_ns == 0 || status->steps != health->steps)
        health->still_since_ns = now_ns;
    health->steps = status->steps;
    return has_work && now_ns - health->still_since_ns > STUCK_NS;
}

static void write_count(struct json_writer *writer, const char *key, uint64_t count)
{
    json_key(writer, key);
    json_integer(writer, (int64_t)count);
}

static enum status fail(struct error *error, const char *code, const char *text)
{
    error_set(error, STATUS_BUSY, "%s", text);
    snprintf(error->code, sizeof(error->code), "%s", code);
    return error->status;
}

enum status health_write(struct net *net, struct buffer *out, struct error *error)
{
    struct engine_status status = engine_status(net->args.engine);
    if (net_is_closing(net))
        return fail(error, "draining", "the server is stopping");
    if (health_is_stuck(&net->health, &status, clock_ns()))
        return fail(error, "overloaded", "the engine has not moved for a minute");
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "status");
    json_string(&writer, "ok");
    write_count(&writer, "running", status.running);
    write_count(&writer, "waiting", status.waiting);
    json_key(&writer, "pages");
    json_object_begin(&writer);
    write_count(&writer, "total", status.pages_total);
    write_count(&writer, "free", status.pages_free);
    write_count(&writer, "leased", status.pages_leased);
    write_count(&writer, "cached", status.pages_cached);
    json_object_end(&writer);
    write_count(&writer, "requests", status.requests);
    write_count(&writer, "prompt_tokens", status.prompt_tokens);
    write_count(&writer, "cached_tokens", status.cached_tokens);
    write_count(&writer, "computed_tokens", status.computed_tokens);
    write_count(&writer, "generated_tokens", status.generated_tokens);
    write_count(&writer, "preemptions", status.preemptions);
    write_count(&writer, "evicted_blocks", status.evicted_blocks);
    write_count(&writer, "steps", status.steps);
    json_object_end(&writer);
    return STATUS_OK;
}
