/* An engine whose threads really hang: in an operation of the backend, or where a reader is woken. What it tells of its
 * life, and what GET /health of a server before it says to whoever looks, for the first time too. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kernels/base/thread.h"
#include "kernels/kernels.h"
#include "server/net/net.h"
#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

#define WATCHDOG_MS 300

static struct bed bed;
static struct net *net;
static const struct api_facts facts = {.model_id = "tiny", .context = BED_CONTEXT, .version = "0"};

/* Whoever passes waits until it is open. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut;
    uint32_t inside;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void gate_pass(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.inside++;
    pthread_cond_broadcast(&gate.changed);
    while (gate.shut)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.inside--;
    pthread_mutex_unlock(&gate.lock);
}

static void gate_set(bool shut)
{
    pthread_mutex_lock(&gate.lock);
    gate.shut = shut;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static void gate_wait_for_one_inside(void)
{
    pthread_mutex_lock(&gate.lock);
    while (gate.inside == 0)
        pthread_cond_wait(&gate.changed, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

static void attention(struct kernels *kernels, const struct attention_args *args)
{
    gate_pass();
    kernels_cpu.attention(kernels, args);
}

static void wake(void *context)
{
    (void)context;
    gate_pass();
}

static void open_server(void)
{
    struct error error;
    struct net_args args = {.engine = bed.engine, .facts = &facts, .watchdog_ms = WATCHDOG_MS};
    ck_assert_msg(net_listener_open("127.0.0.1", 0, &args.listener, &error) == STATUS_OK, "%s", error.text);
    ck_assert_msg(net_open(&args, &net, &error) == STATUS_OK, "%s", error.text);
}

static void teardown(void)
{
    gate_set(false);
    net_close(net);
    net = NULL;
    bed_end(&bed);
}

/* The reply to GET `path`, up to its end: the connection is closed after it. */
static const char *get(const char *path)
{
    static char reply[1 << 16];
    char request[128];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(net_port(net))};
    size_t size = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    int length =
        snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
    ck_assert_int_eq(send(fd, request, (size_t)length, MSG_NOSIGNAL), length);
    for (ssize_t more; (more = recv(fd, reply + size, sizeof(reply) - 1 - size, 0)) > 0;)
        size += (size_t)more;
    reply[size] = '\0';
    close(fd);
    return reply;
}

static bool health_is(uint32_t status)
{
    return strtoul(get("/health") + strlen("HTTP/1.1 "), NULL, 10) == status;
}

static void wait_for_stillness(const char *thread)
{
    struct engine_heartbeat heartbeat;
    do {
        heartbeat = engine_heartbeat(bed.engine);
        ck_assert_uint_ne(heartbeat.progress_ns, 0);
        sched_yield();
    } while (clock_ns() - heartbeat.progress_ns <= WATCHDOG_MS * UINT64_C(1000000));
    ck_assert_str_eq(heartbeat.thread, thread);
}

START_TEST(an_operation_that_hangs_is_told_to_the_first_who_looks)
{
    static struct kernel_ops hanging;
    int32_t ids[20];
    hanging = kernels_cpu;
    hanging.attention = attention;
    bed_open(&bed, &(struct bed_args){.ops = &hanging});
    open_server();
    bed_prompt(1, ids, 20);
    bed_release(bed_run(&bed, bed_call(ids, 20, 3)));
    while (engine_heartbeat(bed.engine).progress_ns != 0) /* it goes to sleep */
        sched_yield();

    gate_set(true);
    bed_prompt(2, ids, 20);
    struct bed_reply *reply = bed_submit(&bed, bed_call(ids, 20, 3));
    gate_wait_for_one_inside();
    wait_for_stillness("engine");
    const char *answer = get("/health");
    ck_assert_msg(strncmp(answer, "HTTP/1.1 503 ", 13) == 0, "%s", answer);
    ck_assert_msg(strstr(answer, "stuck: the engine thread has work and has not come further for ") != NULL, "%s",
                  answer);
    ck_assert(strstr(get("/metrics"), "\nincipit_engine_stuck 1\n") != NULL);

    gate_set(false);
    bed_finish(reply);
    ck_assert(!reply->failed);
    bed_release(reply);
    ck_assert(health_is(200));
    ck_assert(strstr(get("/metrics"), "\nincipit_engine_stuck 0\n") != NULL);
}
END_TEST

/* The other prepare thread goes on, and so does the engine; one request never will. */
START_TEST(a_prepare_thread_that_hangs_is_told_though_others_are_served)
{
    struct error error;
    struct engine_request *request;
    int32_t ids[20];
    bed_open(&bed, &(struct bed_args){0});
    open_server();
    gate_set(true);
    bed_prompt(1, ids, 20);
    struct engine_submission submission = {.call = bed_call(ids, 20, 3), .request_id = "test", .wake = wake};
    ck_assert_int_eq(engine_submit(bed.engine, &submission, &request, &error), STATUS_OK);
    gate_wait_for_one_inside();
    bed_prompt(2, ids, 20);
    bed_release(bed_run(&bed, bed_call(ids, 20, 3)));
    wait_for_stillness("prepare");
    ck_assert(health_is(503));
    gate_set(false);
    engine_request_release(request);
    bed_expect_baseline(&bed);
    while (!health_is(200)) /* the thread comes back */
        sched_yield();
}
END_TEST

START_TEST(an_engine_that_works_moves_its_clock_on)
{
    int32_t ids[20];
    uint64_t last_ns = 0;
    uint32_t moved = 0;
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 20);
    struct bed_reply *reply = bed_submit(&bed, bed_call(ids, 20, 500));
    while (bed_next(reply)) {
        struct engine_heartbeat heartbeat = engine_heartbeat(bed.engine);
        ck_assert(heartbeat.progress_ns == 0 || heartbeat.progress_ns >= last_ns);
        moved += heartbeat.progress_ns > last_ns;
        last_ns = heartbeat.progress_ns > last_ns ? heartbeat.progress_ns : last_ns;
    }
    ck_assert_uint_gt(moved, 2);
    bed_release(reply);
}
END_TEST

Suite *suite(void)
{
    Suite *stuck = suite_create("engine/stuck");
    TCase *tests = tcase_create("stuck");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, an_operation_that_hangs_is_told_to_the_first_who_looks);
    tcase_add_test(tests, a_prepare_thread_that_hangs_is_told_though_others_are_served);
    tcase_add_test(tests, an_engine_that_works_moves_its_clock_on);
    suite_add_tcase(stuck, tests);
    return stuck;
}
