/* A server in front of the scripted engine, one at a time, for the tests of this folder. */
#ifndef TESTS_UNIT_SERVER_NET_SERVING_H
#define TESTS_UNIT_SERVER_NET_SERVING_H

#include "server/net/net.h"
#include "tests/unit/server/net/fake_engine.h"
#include "tests/unit/server/net/http_client.h"

#define CHAT "/v1/chat/completions"
#define ASK "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define ASK_STREAM "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

extern const struct api_facts facts;
extern struct engine *engine;
extern struct net *net;

void start(void);
void start_with(struct net_args args); /* without a listener: on a free port */
void stop(void);
struct http_client connect_here(void);
/* One request on a connection of its own. */
struct http_reply ask(const char *request);
/* The reply has this status and code, as JSON, with an id; it is freed. */
void assert_error(struct http_reply reply, uint32_t status, const char *code);
/* Gives the first request text until its reader's socket is full and events pile up. */
void block_the_stream(void);

#endif
