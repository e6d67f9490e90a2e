/* What a server of a tiny model would say of itself, for tests that need no model. */
#ifndef TESTS_SUPPORT_TEST_FACTS_H
#define TESTS_SUPPORT_TEST_FACTS_H

#include "api/api.h"

/* Vocabulary 1000, context 4096, up to 8 choices. */
extern const struct api_facts test_facts;

#endif
