/* See serving.h. */
#include "tests/unit/server/net/serving.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

const struct api_facts facts = {
    .model_id = "org/tiny model",
    .created_unix_s = 1700000000,
    .context = 100,
    .context_trained = 200,
    .vocabulary = 300,
    .choices_max = 4,
    .fingerprint = "fp_1",
    .version = "0.1",
    .has_chat_template = true,
};

struct engine *engine;
struct net *net;

void start_with(struct net_args args)
{
    struct error error;
    engine = fake_engine_open();
    args.engine = engine;
    args.facts = &facts;
    if (args.listener.host == NULL)
        ck_assert_msg(net_listener_open("127.0.0.1", 0, &args.listener, &error) == STATUS_OK, "%s", error.text);
    ck_assert_msg(net_open(&args, &net, &error) == STATUS_OK, "%s", error.text);
}

void start(void)
{
    start_with((struct net_args){0});
}

void stop(void)
{
    net_close(net);
    fake_engine_close(engine);
}

struct http_client connect_here(void)
{
    return http_connect(net_port(net));
}

struct http_reply ask(const char *request)
{
    struct http_client client = connect_here();
    http_send(&client, request);
    struct http_reply reply = http_reply(&client, strncmp(request, "HEAD", 4) == 0);
    http_close(&client);
    return reply;
}

void assert_error(struct http_reply reply, uint32_t status, const char *code)
{
    char member[80];
    snprintf(member, sizeof(member), "\"code\":\"%s\"", code);
    ck_assert_msg(reply.status == status && strstr(reply.body.data, member) != NULL, "%s%s", reply.head,
                  reply.body.data);
    ck_assert_str_eq(http_header(&reply, "Content-Type"), "application/json");
    ck_assert_uint_eq(strlen(http_header(&reply, "x-request-id")), 24);
    http_reply_free(&reply);
}

void block_the_stream(void)
{
    char text[4096];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    uint32_t pending = 0;
    for (int i = 0; i < 16384 && pending < 2000; i++) {
        fake_push_text(engine, 0, text);
        pending = fake_pending(engine, 0);
    }
    ck_assert_uint_ge(pending, 2000);
}
