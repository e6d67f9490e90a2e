/* A library for LD_PRELOAD that makes chosen calls of a program fail: the n-th of a kind, counted over all threads
 * from the moment it is armed, or every call from there on.
 *
 * It is steered through a file, named by INCIPIT_FAULT_BLOCK, that holds one `struct fault_block` and that the test
 * maps too. The test writes `error`, `first` and `last`, then `kind`, which arms; it reads the counts and writes 0 to
 * `kind`, which disarms. Calls before main are never counted: other libraries' constructors are not what is tested.
 *
 * An allocation fails as the C library's would: NULL, or MAP_FAILED, and ENOMEM. Other calls fail with `error`. Reading
 * and writing are counted for sockets only. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FRAMES_MAX 24
#define LIBRARY "fault.so"

enum fault_kind { FAULT_NONE, FAULT_MEMORY, FAULT_THREAD, FAULT_ACCEPT, FAULT_SEND, FAULT_RECEIVE, FAULT_EPOLL };

/* tests/e2e/_fault.py knows this layout. */
struct fault_block {
    _Atomic uint32_t kind;
    uint32_t error;           /* errno of calls other than allocations */
    uint64_t first;           /* the first call that fails; the first one of all is 1 */
    uint64_t last;            /* the last one */
    _Atomic uint64_t calls;   /* of the kind, since it was armed */
    _Atomic uint64_t failed;  /* of them failed ... */
    _Atomic uint64_t foreign; /* ... that libmicrohttpd made on its own account */
    char place[4056];         /* the stack of the first that failed: "MODULE+0xOFFSET" a line */
};

/* A preloaded library has nowhere else to keep them. */
static struct fault_block *block;
static bool in_main;
static int (*program_main)(int, char **, char **);
static _Thread_local bool inside; /* the stack is being written: what that calls is not counted */

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* ---- who called ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* The library that asked, seen through what only passes on: strdup, a sanitizer. */
static bool passes_on(const char *module)
{
    return strncmp(module, LIBRARY, strlen(LIBRARY)) == 0 || strncmp(module, "libc.", 5) == 0 ||
           strncmp(module, "libasan.", 8) == 0 || strncmp(module, "libtsan.", 8) == 0 ||
           strncmp(module, "libubsan.", 9) == 0;
}

/* Where the call comes from: written down for the first that fails, and whether the program has a part in it. False: it
 * is a sanitizer's own, and must not fail. */
static bool note_place(bool write)
{
    void *frames[FRAMES_MAX], *program = NULL;
    int count = backtrace(frames, FRAMES_MAX);
    const char *owner = "";
    size_t at = 0;
    bool ours = false;
    Dl_info info;
    if (dladdr((void *)(uintptr_t)program_main, &info) != 0)
        program = info.dli_fbase;
    for (int i = 0; i < count; i++) {
        if (dladdr(frames[i], &info) == 0 || info.dli_fname == NULL)
            continue;
        const char *module = base_name(info.dli_fname);
        ours = ours || info.dli_fbase == program;
        owner = *owner == '\0' && !passes_on(module) ? module : owner;
        if (!write || sizeof(block->place) - at < 256)
            continue;
        uintptr_t offset = (uintptr_t)frames[i] - (uintptr_t)info.dli_fbase;
        at += (size_t)snprintf(block->place + at, sizeof(block->place) - at, "%.200s+0x%lx\n", module, offset);
    }
    if (!ours && strncmp(owner, "libmicrohttpd.", 14) == 0)
        atomic_fetch_add(&block->foreign, 1);
    return *owner != '\0';
}

static bool fails(enum fault_kind kind)
{
    if (block == NULL || !in_main || inside || atomic_load(&block->kind) != kind)
        return false;
    uint64_t call = atomic_fetch_add(&block->calls, 1) + 1;
    if (call < block->first || call > block->last)
        return false;
    inside = true;
    bool fair = note_place(call == block->first);
    inside = false;
    if (!fair)
        return false;
    atomic_fetch_add(&block->failed, 1);
    errno = kind == FAULT_MEMORY ? ENOMEM : (int)block->error;
    return true;
}

/* ---- memory ---- */

void *malloc(size_t size)
{
    static void *(*real)(size_t);
    if (real == NULL)
        real = (void *(*)(size_t))next("malloc");
    return fails(FAULT_MEMORY) ? NULL : real(size);
}

void *calloc(size_t count, size_t size)
{
    static void *(*real)(size_t, size_t);
    if (real == NULL)
        real = (void *(*)(size_t, size_t))next("calloc");
    return fails(FAULT_MEMORY) ? NULL : real(count, size);
}

void *realloc(void *memory, size_t size)
{
    static void *(*real)(void *, size_t);
    if (real == NULL)
        real = (void *(*)(void *, size_t))next("realloc");
    return fails(FAULT_MEMORY) ? NULL : real(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    static void *(*real)(size_t, size_t);
    if (real == NULL)
        real = (void *(*)(size_t, size_t))next("aligned_alloc");
    return fails(FAULT_MEMORY) ? NULL : real(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    static int (*real)(void **, size_t, size_t);
    if (real == NULL)
        real = (int (*)(void **, size_t, size_t))next("posix_memalign");
    return fails(FAULT_MEMORY) ? ENOMEM : real(memory, alignment, size);
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    static void *(*real)(void *, size_t, int, int, int, off_t);
    if (real == NULL)
        real = (void *(*)(void *, size_t, int, int, int, off_t))next("mmap");
    return fails(FAULT_MEMORY) ? MAP_FAILED : real(address, size, protection, flags, file, offset);
}

/* ---- the rest ---- */

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (real == NULL)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))next("pthread_create");
    return fails(FAULT_THREAD) ? (int)block->error : real(thread, attributes, body, argument);
}

int accept4(int file, struct sockaddr *restrict address, socklen_t *restrict size, int flags)
{
    static int (*real)(int, struct sockaddr *, socklen_t *, int);
    if (real == NULL)
        real = (int (*)(int, struct sockaddr *, socklen_t *, int))next("accept4");
    return fails(FAULT_ACCEPT) ? -1 : real(file, address, size, flags);
}

ssize_t send(int file, const void *bytes, size_t size, int flags)
{
    static ssize_t (*real)(int, const void *, size_t, int);
    if (real == NULL)
        real = (ssize_t(*)(int, const void *, size_t, int))next("send");
    return fails(FAULT_SEND) ? -1 : real(file, bytes, size, flags);
}

ssize_t sendmsg(int file, const struct msghdr *message, int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);
    if (real == NULL)
        real = (ssize_t(*)(int, const struct msghdr *, int))next("sendmsg");
    return fails(FAULT_SEND) ? -1 : real(file, message, flags);
}

ssize_t recv(int file, void *bytes, size_t size, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    if (real == NULL)
        real = (ssize_t(*)(int, void *, size_t, int))next("recv");
    return fails(FAULT_RECEIVE) ? -1 : real(file, bytes, size, flags);
}

int epoll_ctl(int watcher, int operation, int file, struct epoll_event *event)
{
    static int (*real)(int, int, int, struct epoll_event *);
    if (real == NULL)
        real = (int (*)(int, int, int, struct epoll_event *))next("epoll_ctl");
    return fails(FAULT_EPOLL) ? -1 : real(watcher, operation, file, event);
}

/* ---- start ---- */

static void map_block(void)
{
    const char *path = getenv("INCIPIT_FAULT_BLOCK");
    void *frames[1];
    if (path == NULL)
        return;
    backtrace(frames, 1); /* the first call loads a library */
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *memory =
        file < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct fault_block), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        perror(path);
        _exit(125);
    }
    close(file);
    block = memory;
}

static int enter_main(int argc, char **argv, char **environment)
{
    map_block();
    in_main = true;
    return program_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    int (*real)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
    real = (int (*)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void), void (*)(void),
                    void *))next("__libc_start_main");
    program_main = main;
    return real(enter_main, argc, argv, init, fini, rtld_fini, stack_end);
}
