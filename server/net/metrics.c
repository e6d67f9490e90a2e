/* GET /metrics, and what the server counts for it. */
#include "server/net/metrics.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/log.h"
#include "server/net/exposition.h"
#include "server/net/net_private.h"
#include "server/net/process.h"

/* ---- counting ---- */

void metrics_open(struct metrics *metrics)
{
    pthread_mutex_init(&metrics->lock, NULL);
}

void metrics_close(struct metrics *metrics)
{
    pthread_mutex_destroy(&metrics->lock);
}

void metrics_count_refusal(struct metrics *metrics, const char *code)
{
    uint32_t i = 0;
    pthread_mutex_lock(&metrics->lock);
    while (i < metrics->refused_count && strcmp(metrics->refused[i].code, code) != 0)
        i++;
    if (i == METRICS_CODES)
        i--;
    if (i == metrics->refused_count) {
        snprintf(metrics->refused[i].code, sizeof(metrics->refused[i].code), "%s", code);
        metrics->refused_count++;
    }
    metrics->refused[i].count++;
    pthread_mutex_unlock(&metrics->lock);
}

void metrics_count_response(struct metrics *metrics, const char *path, uint32_t http_status)
{
    uint32_t i = 0;
    pthread_mutex_lock(&metrics->lock);
    while (i < metrics->response_count && strcmp(metrics->responses[i].path, path) != 0)
        i++;
    if (i == METRICS_ENDPOINTS)
        i--;
    if (i == metrics->response_count) {
        metrics->responses[i].path = path;
        metrics->response_count++;
    }
    metrics->responses[i].classes[http_status / 100 % METRICS_CLASSES]++;
    pthread_mutex_unlock(&metrics->lock);
}

/* ---- writing ---- */

struct writer {
    struct exposition exposition;
    struct exposition_label vllm[2]; /* on each of its series */
    uint32_t context;
    struct engine_status status;
    struct stats_numbers numbers;
};

struct family {
    const char *name; /* ours, in this order with vLLM's; NULL: only the other one has it */
    const char *vllm;
    const char *type;
    const char *help;
};

#define COUNTER "counter"
#define GAUGE "gauge"
#define HISTOGRAM "histogram"

static void write_number(struct writer *writer, struct family family, double value)
{
    struct exposition *exposition = &writer->exposition;
    if (family.name != NULL) {
        exposition_family(exposition, family.name, family.type, family.help);
        exposition_number(exposition, NULL, 0, value);
    }
    if (family.vllm != NULL) {
        exposition_family(exposition, family.vllm, family.type, family.help);
        exposition_number(exposition, writer->vllm, 2, value);
    }
}

static void write_labelled(struct writer *writer, const char *label, const char *value, uint64_t number)
{
    exposition_integer(&writer->exposition, &(struct exposition_label){label, value}, 1, number);
}

static void write_requests(struct writer *writer)
{
    const struct engine_status *status = &writer->status;
    struct exposition *exposition = &writer->exposition;
    write_number(writer,
                 (struct family){"incipit_requests_running", "vllm:num_requests_running", GAUGE,
                                 "Sequences that run: one a request and choice."},
                 status->running);
    write_number(writer,
                 (struct family){"incipit_sequences_preempted", NULL, GAUGE,
                                 "Sequences that had to leave the KV memory and wait to go on."},
                 status->preempted);
    write_number(writer,
                 (struct family){"incipit_requests_waiting", NULL, GAUGE,
                                 "Requests accepted and not started; being tokenized counts."},
                 status->waiting);
    write_number(
        writer, (struct family){NULL, "vllm:num_requests_waiting", GAUGE, "Requests not started, and those preempted."},
        status->waiting + status->preempted);
    exposition_family(exposition, "incipit_requests_waiting_by_length", GAUGE,
                      "Requests that wait, by the tokens of their prompts; unknown: not tokenized yet.");
    for (uint32_t i = 0; i < STATS_LENGTHS; i++)
        write_labelled(writer, "prompt_tokens", stats_length_name(i), status->waiting_by_length[i]);
    write_number(writer, (struct family){"incipit_requests_total", NULL, COUNTER, "Requests that reached the engine."},
                 (double)status->requests);
    write_number(writer,
                 (struct family){"incipit_preemptions_total", "vllm:num_preemptions_total", COUNTER,
                                 "Sequences that had to leave the KV memory."},
                 (double)status->preemptions);
    write_number(writer, (struct family){"incipit_steps_total", NULL, COUNTER, "Steps of the model."},
                 (double)status->steps);
}

/* vLLM calls them: stop, length, abort, error. */
static void write_vllm_ends(struct writer *writer)
{
    const uint64_t *ends = writer->numbers.ends;
    struct exposition_label labels[3] = {writer->vllm[0], writer->vllm[1], {"finished_reason", "stop"}};
    struct exposition *exposition = &writer->exposition;
    uint64_t aborted = 0;
    for (uint32_t end = STATS_END_CANCELLED; end < STATS_ENDS; end++)
        aborted += ends[end];
    exposition_family(exposition, "vllm:request_success_total", COUNTER, "Requests that ended, by reason.");
    exposition_integer(exposition, labels, 3, ends[STATS_END_STOP]);
    labels[2].value = "length";
    exposition_integer(exposition, labels, 3, ends[STATS_END_LENGTH]);
    labels[2].value = "abort";
    exposition_integer(exposition, labels, 3, aborted);
    labels[2].value = "error";
    exposition_integer(exposition, labels, 3, ends[STATS_END_FAILED]);
}

static void write_ends(struct writer *writer)
{
    const uint64_t *ends = writer->numbers.ends;
    exposition_family(&writer->exposition, "incipit_requests_finished_total", COUNTER,
                      "Requests that came to their end, by what ended them.");
    for (uint32_t end = STATS_END_STOP; end <= STATS_END_LENGTH; end++)
        write_labelled(writer, "reason", stats_end_name((enum stats_end)end), ends[end]);
    exposition_family(&writer->exposition, "incipit_requests_cancelled_total", COUNTER,
                      "Requests that ended before it, by why.");
    for (uint32_t end = STATS_END_CANCELLED; end < STATS_ENDS; end++)
        write_labelled(writer, "reason", stats_end_name((enum stats_end)end), ends[end]);
    write_number(writer,
                 (struct family){"incipit_requests_failed_total", NULL, COUNTER,
                                 "Requests that the engine could not go on with after it had accepted them."},
                 (double)ends[STATS_END_FAILED]);
    write_vllm_ends(writer);
}

static void write_tokens(struct writer *writer)
{
    const struct engine_status *status = &writer->status;
    write_number(
        writer,
        (struct family){"incipit_prompt_tokens_total", "vllm:prompt_tokens_total", COUNTER, "Tokens of prompts."},
        (double)status->prompt_tokens);
    write_number(writer,
                 (struct family){"incipit_cached_tokens_total", "vllm:prompt_tokens_cached_total", COUNTER,
                                 "Tokens of prompts that were not computed because they were cached."},
                 (double)status->cached_tokens);
    write_number(writer,
                 (struct family){"incipit_computed_tokens_total", NULL, COUNTER,
                                 "Tokens prefilled; what preemption makes the engine compute again counts again."},
                 (double)status->computed_tokens);
    write_number(
        writer,
        (struct family){"incipit_generated_tokens_total", "vllm:generation_tokens_total", COUNTER, "Tokens drawn."},
        (double)status->generated_tokens);
}

static void write_cache_config(struct writer *writer)
{
    char block[16], pages[16];
    snprintf(block, sizeof(block), "%u", writer->status.block_tokens);
    snprintf(pages, sizeof(pages), "%u", writer->status.pages_total);
    struct exposition_label labels[] = {
        {"block_size", block},
        {"num_gpu_blocks", pages},
        {"enable_prefix_caching", writer->status.prefix_cache ? "True" : "False"},
        writer->vllm[0],
        writer->vllm[1],
    };
    exposition_family(&writer->exposition, "vllm:cache_config_info", GAUGE, "The KV memory: pages of tokens.");
    exposition_integer(&writer->exposition, labels, sizeof(labels) / sizeof(*labels), 1);
}

static void write_cache(struct writer *writer)
{
    const struct engine_status *status = &writer->status;
    double total = status->pages_total > 0 ? status->pages_total : 1;
    write_number(writer,
                 (struct family){"incipit_prefix_cache_queries_total", "vllm:prefix_cache_queries_total", COUNTER,
                                 "Tokens of prompts looked up in the prefix cache, once a request."},
                 (double)status->queried_tokens);
    write_number(writer,
                 (struct family){"incipit_prefix_cache_hits_total", "vllm:prefix_cache_hits_total", COUNTER,
                                 "Of those, tokens found."},
                 (double)status->cached_tokens);
    exposition_family(&writer->exposition, "incipit_kv_pages", GAUGE,
                      "Pages of KV memory: free, leased by running sequences, cached for later ones.");
    write_labelled(writer, "state", "free", status->pages_free);
    write_labelled(writer, "state", "leased", status->pages_leased);
    write_labelled(writer, "state", "cached", status->pages_cached);
    write_number(writer, (struct family){"incipit_kv_pages_capacity", NULL, GAUGE, "All pages of KV memory."},
                 status->pages_total);
    write_number(writer,
                 (struct family){"incipit_kv_usage_ratio", "vllm:kv_cache_usage_perc", GAUGE,
                                 "KV memory that running sequences hold: 1 is all of it."},
                 status->pages_leased / total);
    write_number(
        writer,
        (struct family){"incipit_evicted_blocks_total", NULL, COUNTER, "Cached blocks given up for other sequences."},
        (double)status->evicted_blocks);
    write_cache_config(writer);
}

static const struct family histograms[STATS_HISTOGRAMS] = {
    [STATS_FIRST_TOKEN_SECONDS] = {"incipit_time_to_first_token_seconds", "vllm:time_to_first_token_seconds", HISTOGRAM,
                                   "From a request's last byte to its first token."},
    [STATS_INTER_TOKEN_SECONDS] = {"incipit_inter_token_seconds", "vllm:inter_token_latency_seconds", HISTOGRAM,
                                   "Between two tokens of a choice."},
    [STATS_QUEUE_SECONDS] = {"incipit_queue_seconds", "vllm:request_queue_time_seconds", HISTOGRAM,
                             "From a request's last byte to its start."},
    [STATS_PREFILL_SECONDS] = {"incipit_prefill_seconds", "vllm:request_prefill_time_seconds", HISTOGRAM,
                               "From the start to the first token."},
    [STATS_DECODE_SECONDS] = {"incipit_decode_seconds", "vllm:request_decode_time_seconds", HISTOGRAM,
                              "From the first token to the end, of requests that finished."},
    [STATS_REQUEST_SECONDS] = {"incipit_request_seconds", "vllm:e2e_request_latency_seconds", HISTOGRAM,
                               "From a request's last byte to its end, of requests that finished."},
    [STATS_PROMPT_TOKENS] = {"incipit_request_prompt_tokens", "vllm:request_prompt_tokens", HISTOGRAM,
                             "Prompts of requests that finished."},
    [STATS_GENERATED_TOKENS] = {"incipit_request_generated_tokens", "vllm:request_generation_tokens", HISTOGRAM,
                                "Tokens drawn for requests that finished."},
};

/* Prompts and replies are no longer than the context: nor are their buckets. */
static uint32_t bounds_shown(const struct writer *writer, enum stats_histogram which)
{
    uint32_t count, shown = 0;
    const double *bounds = stats_bounds(which, &count);
    if (which != STATS_PROMPT_TOKENS && which != STATS_GENERATED_TOKENS)
        return count;
    while (shown < count && bounds[shown] <= writer->context)
        shown++;
    return shown;
}

static void write_histograms(struct writer *writer)
{
    struct exposition *exposition = &writer->exposition;
    for (uint32_t i = 0; i < STATS_HISTOGRAMS; i++) {
        const struct family *family = &histograms[i];
        const struct histogram *histogram = &writer->numbers.histograms[i];
        uint32_t bounds = bounds_shown(writer, (enum stats_histogram)i);
        exposition_family(exposition, family->name, family->type, family->help);
        exposition_histogram(exposition, NULL, 0, histogram, (enum stats_histogram)i, bounds);
        exposition_family(exposition, family->vllm, family->type, family->help);
        exposition_histogram(exposition, writer->vllm, 2, histogram, (enum stats_histogram)i, bounds);
    }
}

static void write_responses(struct writer *writer, const struct metrics *metrics)
{
    static const char *const classes[METRICS_CLASSES] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
    exposition_family(&writer->exposition, "incipit_http_responses_total", COUNTER,
                      "Replies, by endpoint and class of status; endpoint other: no such path or method.");
    for (uint32_t i = 0; i < metrics->response_count; i++) {
        struct exposition_label labels[] = {{"endpoint", metrics->responses[i].path}, {"status", ""}};
        for (uint32_t j = 0; j < METRICS_CLASSES; j++) {
            labels[1].value = classes[j];
            if (metrics->responses[i].classes[j] > 0)
                exposition_integer(&writer->exposition, labels, 2, metrics->responses[i].classes[j]);
        }
    }
}

static void write_ignored(struct writer *writer)
{
    write_number(writer,
                 (struct family){"incipit_ignored_fields_total", NULL, COUNTER,
                                 "Fields of requests that this server does not know."},
                 (double)writer->numbers.ignored_fields);
}

static void write_server(struct writer *writer, struct net *net)
{
    struct error error;
    pthread_mutex_lock(&net->lock);
    uint32_t connections = net->open_connections;
    pthread_mutex_unlock(&net->lock);
    write_number(writer, (struct family){"incipit_connections_open", NULL, GAUGE, "Connections of clients."},
                 connections);
    write_number(writer, (struct family){"incipit_body_bytes", NULL, GAUGE, "Bodies of requests in flight, in bytes."},
                 (double)net->body_bytes);
    write_number(writer,
                 (struct family){"incipit_draining", NULL, GAUGE, "1: the server is stopping and begins nothing new."},
                 net_is_draining(net));
    pthread_mutex_lock(&net->metrics.lock);
    exposition_family(&writer->exposition, "incipit_requests_refused_total", COUNTER,
                      "Requests answered with an error, by its code.");
    for (uint32_t i = 0; i < net->metrics.refused_count; i++)
        write_labelled(writer, "reason", net->metrics.refused[i].code, net->metrics.refused[i].count);
    write_responses(writer, &net->metrics);
    pthread_mutex_unlock(&net->metrics.lock);
    write_number(writer,
                 (struct family){"incipit_engine_stuck", NULL, GAUGE,
                                 "1: the engine has work and has not come further for --watchdog seconds."},
                 health_check(net, &error) != STATUS_OK);
    write_number(
        writer,
        (struct family){"incipit_log_lines_lost_total", NULL, COUNTER, "Lines of the log that stderr did not take."},
        (double)log_lines_lost());
    exposition_family(&writer->exposition, "incipit_build_info", GAUGE, "The version that runs.");
    write_labelled(writer, "version", net->args.facts->version, 1);
}

static void write_process(struct writer *writer)
{
    struct process_numbers process = process_numbers();
    write_number(writer,
                 (struct family){"process_start_time_seconds", NULL, GAUGE, "When the process began, in Unix time."},
                 process.start_unix_s);
    write_number(writer, (struct family){"process_cpu_seconds_total", NULL, COUNTER, "Processor time, of all threads."},
                 process.cpu_s);
    write_number(writer, (struct family){"process_resident_memory_bytes", NULL, GAUGE, "Memory that is resident."},
                 (double)process.resident_bytes);
    write_number(writer, (struct family){"process_virtual_memory_bytes", NULL, GAUGE, "Memory that is mapped."},
                 (double)process.virtual_bytes);
    write_number(writer, (struct family){"process_open_fds", NULL, GAUGE, "Open file descriptors."},
                 (double)process.open_fds);
    write_number(writer, (struct family){"process_max_fds", NULL, GAUGE, "As many may be open."},
                 (double)process.max_fds);
    write_number(writer, (struct family){"process_threads", NULL, GAUGE, "Threads."}, (double)process.threads);
}

enum status metrics_write(struct net *net, struct buffer *out, struct error *error)
{
    (void)error;
    struct writer writer = {
        .exposition = {.out = out},
        .vllm = {{"model_name", net->args.facts->model_id}, {"engine", "0"}},
        .context = net->args.facts->context,
        .status = engine_status(net->args.engine),
    };
    engine_numbers(net->args.engine, &writer.numbers);
    write_requests(&writer);
    write_ends(&writer);
    write_tokens(&writer);
    write_cache(&writer);
    write_histograms(&writer);
    write_ignored(&writer);
    write_server(&writer, net);
    write_process(&writer);
    return STATUS_OK;
}
