/* One step: plan, places, rows, results. */
#ifndef SERVER_ENGINE_STEP_H
#define SERVER_ENGINE_STEP_H

#include "server/engine/loop.h"

/* Runs one step over everything in the list. */
void step_run(struct loop *loop);

#endif
