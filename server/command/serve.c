/* incipit serve: opens the floors from the ground up, says what they take, and serves until SIGINT or SIGTERM. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <xxhash.h>

#include "kernels/base/json_writer.h"
#include "kernels/base/log.h"
#include "kernels/base/thread.h"
#include "kernels/base/utf8.h"
#include "server/command/command.h"
#include "server/engine/engine.h"
#include "server/net/net.h"
#include "server/runtime.h"
#include "server/version.h"

#define DRAIN_LOOK_NS 50000000
#define DRAIN_TELL_NS (UINT64_C(5) * 1000000000)

struct service {
    struct net_listener listener; /* host NULL: not open, or net's */
    struct runtime runtime;
    struct engine *engine;
    struct auth *auth;
    struct tls *tls;
    struct net *net;
    struct api_facts facts;
    char fingerprint[24];
};

/* The listener's thread must not take the signals that `wait_for_end` waits for; ours block all of them. Before that,
 * while a model loads, they end the process. */
static void block_signals(sigset_t *signals)
{
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}

/* Only where there is a file of keys to read again: a lost terminal ends any other server, as it ends programs. Blocked
 * from the start, so that it ends nothing while a model loads. */
static void wait_for_hangups(const struct options *options, sigset_t *signals)
{
    if (options->api_keys[0] == '\0')
        return;
    sigaddset(signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
}

static void reload(const struct service *service)
{
    struct error error;
    if (auth_reload(service->auth, &error) == STATUS_OK)
        log_line(LOG_INFO, "the API keys were read again");
    else
        log_line(LOG_ERROR, "the API keys stay as they were: %s", error.text);
}

static void wait_for_end(const struct service *service, sigset_t *signals)
{
    int number = 0;
    while (sigwait(signals, &number) == 0 && number == SIGHUP)
        reload(service);
    sigdelset(signals, SIGHUP);
    log_line(LOG_INFO, "%s: stopping", number == SIGINT ? "interrupted" : "asked to end");
}

/* What runs may finish, until its time is over or a second signal comes. */
static void drain(const struct options *options, struct net *net, const sigset_t *signals)
{
    const struct timespec look_again = {.tv_nsec = DRAIN_LOOK_NS};
    uint64_t began = clock_ns(), told = began;
    uint64_t until = began + (uint64_t)options->drain_timeout * 1000000000;
    uint32_t left;
    net_drain(net);
    if ((left = net_serving(net)) > 0)
        log_line(LOG_INFO, "%u requests are left; they have %lld s", left, (long long)options->drain_timeout);
    while ((left = net_serving(net)) > 0 && clock_ns() < until && sigtimedwait(signals, NULL, &look_again) < 0) {
        if (clock_ns() - told < DRAIN_TELL_NS)
            continue;
        told = clock_ns();
        log_line(LOG_INFO, "%u requests are left", left);
    }
    if (left > 0)
        log_line(LOG_WARN, "%u requests are ended", left);
}

/* What replies depend on besides the request: the build, its arithmetic and the weights. */
static void make_fingerprint(const struct options *options, struct service *service)
{
    struct model_fingerprint weights = model_fingerprint(service->runtime.model);
    char text[128];
    int size = snprintf(text, sizeof text, "%s %s %016" PRIx64 "%016" PRIx64, INCIPIT_VERSION, options->activations,
                        weights.high, weights.low);
    uint64_t hash = XXH3_64bits(text, (size_t)size);
    snprintf(service->fingerprint, sizeof service->fingerprint, "fp_%016" PRIx64, hash);
}

static void fill_facts(const struct options *options, struct service *service)
{
    const struct runtime *runtime = &service->runtime;
    int32_t eos = tokenizer_eos(runtime->tokenizer);
    make_fingerprint(options, service);
    service->facts = (struct api_facts){
        .model_id = runtime->model_id,
        .created_unix_s = (int64_t)(clock_unix_ms() / 1000),
        .context = model_context(runtime->model),
        .context_trained = runtime->config.context_trained,
        .vocabulary = tokenizer_vocabulary(runtime->tokenizer),
        .choices_max = (uint32_t)options->max_sequences,
        .fingerprint = service->fingerprint,
        .version = INCIPIT_VERSION,
        .eos_text = eos >= 0 ? tokenizer_special_text(runtime->tokenizer, eos) : NULL,
        .has_chat_template = runtime->chat_template != NULL,
        .strict_model = options->strict_model,
    };
}

static enum status open_net(const struct options *options, struct service *service, struct error *error)
{
    struct net_args args = {
        .listener = service->listener,
        .engine = service->engine,
        .facts = &service->facts,
        .auth = service->auth,
        .tls = service->tls,
        .watchdog_ms = (uint32_t)options->watchdog * 1000,
        .body_max = (size_t)options->max_body,
        .body_memory_max = (size_t)options->max_body_memory,
        .connections_max = (uint32_t)options->max_connections,
    };
    service->listener.host = NULL; /* net's from now on */
    return net_open(&args, &service->net, error);
}

static enum status open_auth(const struct options *options, struct service *service, struct error *error)
{
    struct auth_args args = {
        .api_key = options->api_key,
        .api_keys = options->api_keys,
        .admin_key = options->admin_key,
        .cors_origins = options->cors_origin,
        .allowed_hosts = options->allowed_host,
        .host = options->host,
        .loopback = service->listener.loopback,
    };
    enum status status = auth_open(&args, &service->auth, error);
    if (status == STATUS_OK && auth_is_open(service->auth))
        log_line(LOG_WARN,
                 "%s is reached from other machines and no API key is asked for, so anybody there may use this server; "
                 "--api-key or --api-keys asks for one, --host 127.0.0.1 keeps it to this machine",
                 options->host);
    return status;
}

/* What opens quickly and may be refused comes first: nobody waits for a model to be told of a taken port. */
static enum status open_service(const struct options *options, struct service *service, sigset_t *signals,
                                struct error *error)
{
    struct runtime_limits limits = runtime_engine_limits(options);
    enum status status = runtime_open_text(options, &service->runtime, error);
    if (status == STATUS_OK)
        status = net_listener_open(options->host, (uint16_t)options->port, &service->listener, error);
    if (status == STATUS_OK)
        status = open_auth(options, service, error);
    if (status == STATUS_OK && options->tls_cert[0] != '\0')
        status = tls_open(options->tls_cert, options->tls_key, &service->tls, error);
    if (status == STATUS_OK)
        status = runtime_open_model(options, &limits, &service->runtime, error);
    if (status == STATUS_OK)
        status = runtime_open_engine(options, &service->runtime, (uint32_t)options->max_queue, &service->engine, error);
    if (status != STATUS_OK)
        return status;
    fill_facts(options, service);
    block_signals(signals);
    return open_net(options, service, error);
}

static void close_service(struct service *service)
{
    if (service->net != NULL)
        net_close(service->net);
    else if (service->listener.host != NULL)
        net_listener_close(&service->listener);
    auth_close(service->auth);
    tls_close(service->tls);
    if (service->engine != NULL)
        engine_close(service->engine);
    runtime_close(&service->runtime);
}

static double mib(size_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* An address with colons stands in brackets. */
static void write_url(const struct service *service, const char *host, struct buffer *out)
{
    bool colons = strchr(host, ':') != NULL;
    buffer_printf(out, "http%s://%s%s%s:%u", service->tls != NULL ? "s" : "", colons ? "[" : "", host,
                  colons ? "]" : "", net_port(service->net));
}

static void print_url(const struct service *service, const char *host)
{
    struct buffer url = {0};
    write_url(service, host, &url);
    fputs(url.failed ? "" : url.data, stdout);
    buffer_free(&url);
}

static void write_figure(struct json_writer *writer, const char *key, uint64_t value)
{
    json_key(writer, key);
    json_integer(writer, (int64_t)value);
}

static void write_text(struct json_writer *writer, const char *key, const char *text)
{
    struct buffer valid = {0};
    utf8_append_valid(&valid, text, strlen(text));
    json_key(writer, key);
    json_bytes(writer, valid.data == NULL ? "" : valid.data, valid.size);
    buffer_free(&valid);
}

/* For programs: one line. */
static void announce_json(const struct options *options, const struct service *service)
{
    const struct runtime *runtime = &service->runtime;
    struct kernels_memory memory = model_memory(runtime->model);
    struct buffer message = {0}, access = {0}, line = {0};
    struct json_writer writer = json_writer_start(&line);
    buffer_text(&message, "listening ");
    write_url(service, options->host, &message);
    json_object_begin(&writer);
    write_text(&writer, "event", "start");
    write_text(&writer, "message", message.data == NULL ? "" : message.data);
    auth_describe(service->auth, &access);
    write_text(&writer, "access", access.data == NULL ? "" : access.data);
    write_text(&writer, "version", INCIPIT_VERSION);
    write_text(&writer, "model", runtime->model_id);
    write_text(&writer, "architecture", runtime->config.architecture);
    write_text(&writer, "file", model_file_path(runtime->file));
    write_figure(&writer, "parameters", runtime->config.parameters);
    write_figure(&writer, "weights_bytes", memory.weights_bytes);
    write_figure(&writer, "kv_bytes", memory.kv_bytes);
    write_figure(&writer, "workspace_bytes", memory.workspace_bytes);
    write_figure(&writer, "kv_pages", model_kv_pages(runtime->model));
    write_figure(&writer, "block_tokens", model_kv_layout(runtime->model)->block_tokens);
    write_text(&writer, "cpu", model_variant(runtime->model));
    write_text(&writer, "activations", options->activations);
    write_figure(&writer, "context", model_context(runtime->model));
    write_figure(&writer, "max_sequences", (uint64_t)options->max_sequences);
    json_key(&writer, "prefix_cache");
    json_bool(&writer, !options->no_prefix_cache);
    json_object_end(&writer);
    if (!line.failed)
        puts(line.data);
    fflush(stdout);
    buffer_free(&line);
    buffer_free(&access);
    buffer_free(&message);
}

static void announce(const struct options *options, const struct service *service)
{
    const struct runtime *runtime = &service->runtime;
    const struct model_config *config = &runtime->config;
    const struct kv_layout *layout = model_kv_layout(runtime->model);
    struct kernels_memory memory = model_memory(runtime->model);
    printf("model      %s: %s, %.1f million parameters, %s\n", runtime->model_id, config->architecture,
           (double)config->parameters / 1e6, model_file_path(runtime->file));
    printf("memory     %.0f MiB: weights %.0f, KV %.0f (%llu tokens in %u blocks of %u), workspace %.0f\n",
           mib(memory.weights_bytes + memory.kv_bytes + memory.workspace_bytes), mib(memory.weights_bytes),
           mib(memory.kv_bytes), (unsigned long long)model_kv_pages(runtime->model) * layout->block_tokens,
           model_kv_pages(runtime->model), layout->block_tokens, mib(memory.workspace_bytes));
    printf("engine     %s, %s activations, %u threads; context %u tokens, %lld sequences at once, prefix cache %s\n",
           model_variant(runtime->model), options->activations,
           options->threads > 0 ? (uint32_t)options->threads : thread_processors(), model_context(runtime->model),
           (long long)options->max_sequences, options->no_prefix_cache ? "off" : "on");
    bool everywhere = strcmp(options->host, "0.0.0.0") == 0 || strcmp(options->host, "::") == 0;
    struct buffer access = {0};
    auth_describe(service->auth, &access);
    printf("access     %s\nlistening  ", access.failed ? "" : access.data);
    buffer_free(&access);
    print_url(service, options->host);
    printf("\n\nTry:\n  curl ");
    print_url(service, everywhere ? "127.0.0.1" : options->host);
    printf("/v1/chat/completions -H 'Content-Type: application/json' \\\n"
           "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"What is gravity?\"}],"
           "\"max_tokens\":64,\"temperature\":0}'\n\n");
    fflush(stdout);
}

int command_serve(const struct options *options)
{
    struct service service = {0};
    struct error error;
    sigset_t signals;
    sigemptyset(&signals);
    wait_for_hangups(options, &signals);
    enum status status = open_service(options, &service, &signals, &error);
    if (status == STATUS_OK) {
        if (log_is_json())
            announce_json(options, &service);
        else
            announce(options, &service);
        wait_for_end(&service, &signals);
        drain(options, service.net, &signals);
    }
    close_service(&service);
    return status == STATUS_OK ? 0 : command_fail(&error);
}
