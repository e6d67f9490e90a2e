/* GET /health: whether the engine moves, and where it stands. */
#include <stdio.h>

#include "kernels/base/json_writer.h"
#include "kernels/base/log.h"
#include "server/net/net_private.h"

bool health_is_stuck(const struct engine_heartbeat *heartbeat, uint32_t watchdog_ms, uint64_t now_ns)
{
    return heartbeat->progress_ns != 0 && now_ns > heartbeat->progress_ns &&
           now_ns - heartbeat->progress_ns > (uint64_t)watchdog_ms * 1000000;
}

static enum status fail(struct error *error, const char *code, const char *text)
{
    error_set(error, STATUS_BUSY, "%s", text);
    return error_code(error, code);
}

enum status health_check(struct net *net, struct error *error)
{
    struct engine_heartbeat heartbeat = engine_heartbeat(net->args.engine);
    uint64_t now_ns = clock_ns();
    char text[128];
    if (!health_is_stuck(&heartbeat, net->args.watchdog_ms, now_ns))
        return STATUS_OK;
    snprintf(text, sizeof(text), "stuck: the %s thread has work and has not come further for %.1f seconds",
             heartbeat.thread, (double)(now_ns - heartbeat.progress_ns) / 1e9);
    return fail(error, "overloaded", text);
}

void health_watch(struct net *net)
{
    struct error error;
    bool stuck = health_check(net, &error) != STATUS_OK;
    if (stuck && !net->told_stuck)
        log_line(LOG_ERROR, "%s; /health says 503", error.text);
    else if (!stuck && net->told_stuck)
        log_line(LOG_WARN, "the engine moves again");
    net->told_stuck = stuck;
}

static void write_count(struct json_writer *writer, const char *key, uint64_t count)
{
    json_key(writer, key);
    json_integer(writer, (int64_t)count);
}

enum status health_write(struct net *net, struct buffer *out, struct error *error)
{
    struct engine_status status = engine_status(net->args.engine);
    if (net_is_draining(net))
        return fail(error, "draining", "the server is stopping");
    if (health_check(net, error) != STATUS_OK)
        return error->status;
    struct json_writer writer = json_writer_start(out);
    json_object_begin(&writer);
    json_key(&writer, "status");
    json_string(&writer, "ok");
    write_count(&writer, "running", status.running);
    write_count(&writer, "waiting", status.waiting);
    write_count(&writer, "preempted", status.preempted);
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
    buffer_byte(out, '\n');
    return STATUS_OK;
}
