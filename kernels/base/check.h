/* CHECK(x) ends the process, with the place, when x is false. On in release builds. Only for what a bug in this program
 * can break: never for what a client, a file or the network sends. CHECK_SLOW is compiled in with -DCHECKED=1 (the test
 * and sanitizer builds) for invariants that cost more than O(1). */
#ifndef KERNELS_BASE_CHECK_H
#define KERNELS_BASE_CHECK_H

_Noreturn void check_failed(const char *expression, const char *file, int line);

#define CHECK(x) ((x) ? (void)0 : check_failed(#x, __FILE__, __LINE__))

#if CHECKED
#define CHECK_SLOW(x) CHECK(x)
#else
#define CHECK_SLOW(x) ((void)0)
#endif

#endif
