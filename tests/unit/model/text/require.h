/* As ck_assert, for hot loops: Check writes to a pipe each time that one of its own holds. */
#ifndef TESTS_UNIT_MODEL_TEXT_REQUIRE_H
#define TESTS_UNIT_MODEL_TEXT_REQUIRE_H

#include <check.h>

#define REQUIRE(x)                                             \
    do {                                                       \
        if (!(x))                                              \
            ck_abort_msg("%s:%d: %s", __FILE__, __LINE__, #x); \
    } while (0)

#define REQUIRE_MSG(x, ...)            \
    do {                               \
        if (!(x))                      \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

#endif
