/* An engine that does what a test says, so that hang-ups and back-pressure happen at known points. It calls `wake` with
 * its lock held, which a wrong lock order in the caller turns into a deadlock. */
#ifndef TESTS_UNIT_SERVER_NET_FAKE_ENGINE_H
#define TESTS_UNIT_SERVER_NET_FAKE_ENGINE_H

#include "server/engine/engine.h"

#define FAKE_REQUESTS_MAX 1024

struct engine *fake_engine_open(void);
/* What the engine tells of its life; {0}, at first: it has nothing to do. */
void fake_engine_beat(struct engine *engine, struct engine_heartbeat heartbeat);
void fake_engine_close(struct engine *engine); /* ends the program if a request was never released */

/* What engine_submit answers from now on. */
void fake_engine_refuse(struct engine *engine, enum status status, const char *text);

/* The n-th request submitted, once it is there. */
struct engine_request *fake_engine_request(struct engine *engine, uint32_t n);
const char *fake_request_id(struct engine *engine, uint32_t n);
/* Blocks until the n-th request was released; how long that took, in milliseconds, from the call on. */
double fake_engine_wait_release(struct engine *engine, uint32_t n);
bool fake_engine_is_released(struct engine *engine, uint32_t n);
/* Whether the n-th request was released before it had been given its END or ERROR ... */
bool fake_engine_was_cancelled(struct engine *engine, uint32_t n);
bool fake_engine_was_dropped(struct engine *engine, uint32_t n); /* ... because its client did not read */
uint32_t fake_engine_submitted(struct engine *engine);

/* Events; each is a no-op once the request was released, or had its END or ERROR. */
void fake_push(struct engine *engine, uint32_t n, const struct api_event *event);
void fake_push_text(struct engine *engine, uint32_t n, const char *text);
/* ACCEPTED and STARTED. */
void fake_push_start(struct engine *engine, uint32_t n);
/* STOP and END. */
void fake_push_end(struct engine *engine, uint32_t n);
void fake_push_error(struct engine *engine, uint32_t n, enum status status, const char *code, const char *text);
/* Events that wait for the reader. */
uint32_t fake_pending(struct engine *engine, uint32_t n);

#endif
