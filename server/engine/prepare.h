/* Threads that turn a body into a call and a call into tokens: parse, render, tokenize, check that it can ever fit,
 * take the memory it will need; then the request goes to the engine thread. Tokenize and detokenize calls are answered
 * here. */
#ifndef SERVER_ENGINE_PREPARE_H
#define SERVER_ENGINE_PREPARE_H

#include <stdint.h>

#include "kernels/base/status.h"

struct engine;
struct prepare;

/* Starts one thread, which takes from engine->to_prepare until engine->prepare_stopping. `progress_ns`: its own in
 * engine->beats. */
enum status prepare_open(struct engine *engine, uint64_t *progress_ns, struct prepare **out, struct error *error);
void prepare_close(struct prepare *prepare); /* waits for the thread */

#endif
