/* Where sequences have their KV: what the engine thread asks of the cache, and what it remembers about the answers. */
#ifndef SERVER_ENGINE_PLACE_H
#define SERVER_ENGINE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/engine/loop.h"

/* Looks up a waiting sequence: what it may expect, and whether it should wait for a prefix in flight. */
void place_look(struct loop *loop, struct sequence *sequence);
/* Looks again at those held back, where something happened that may set them free. */
void place_look_again(struct loop *loop);

/* Leases the cached prefix and pages for all ids; the sequence runs. `running` others may each need a page soon. */
enum place_outcome {
    PLACE_ADMITTED,
    PLACE_HELD_BACK, /* a prefix of it is being computed now */
    PLACE_NO_PAGES,  /* pages_needed now says how many it takes */
};
enum place_outcome place_admit(struct loop *loop, struct sequence *sequence, uint32_t running);

/* Pages for all ids of a running sequence. False: there is none to be had. */
bool place_extend(struct loop *loop, struct sequence *sequence);
/* Pages that place_extend would take. */
uint32_t place_pages_to_extend(const struct loop *loop, const struct sequence *sequence);
/* Pages that place_release would set free, if nobody shares what the sequence computed. */
uint32_t place_pages_held(const struct loop *loop, const struct sequence *sequence);

/* The KV of the next `rows` ids is written. */
void place_commit(struct loop *loop, struct sequence *sequence, uint32_t rows);
/* The lease ends; the sequence waits again when it was preempted. */
void place_release(struct loop *loop, struct sequence *sequence);
void place_preempt(struct loop *loop, struct sequence *sequence);

#endif
