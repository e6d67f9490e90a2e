/* Requests for tests of the wire formats. */
#ifndef TESTS_UNIT_API_REQUESTS_H
#define TESTS_UNIT_API_REQUESTS_H

#include "api/api.h"
#include "tests/support/test_facts.h"

/* The endpoint that takes a POST to this path. */
const struct api_endpoint *post_endpoint(const char *path);
/* A call from a body that must be good; the test fails with the error's text otherwise. */
struct api_call *good_call(const char *path, const char *body);
/* The error of a body that must be refused. */
struct error bad_call(const char *path, const char *body);
/* A body with one more field: {"field":value, then the least that the path needs}. To be freed. */
char *body_with(const char *path, const char *field, const char *value);

#endif
