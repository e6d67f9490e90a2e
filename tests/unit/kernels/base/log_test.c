/* Log lines as they arrive on stderr. Each test runs in a process of its own, so the settings do not leak. */
#include "kernels/base/log.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/thread.h"
#include "kernels/base/utf8.h"
#include "tests/unit/unit.h"

static FILE *captured;
static int stderr_before;

static void capture_begin(void)
{
    captured = tmpfile();
    stderr_before = dup(STDERR_FILENO);
    ck_assert_ptr_nonnull(captured);
    ck_assert_int_ge(dup2(fileno(captured), STDERR_FILENO), 0);
}

/* What was written to stderr since capture_begin; the caller frees it. */
static char *capture_end(void)
{
    fflush(stderr);
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    long size = ftell(captured);
    fseek(captured, 0, SEEK_END);
    size = ftell(captured);
    rewind(captured);
    char *text = calloc(1, (size_t)size + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, (size_t)size, captured), (size_t)size);
    fclose(captured);
    return text;
}

/* "2026-01-02T03:04:05.678Z " and the rest after it. */
static const char *after_time(const char *line)
{
    static const char shape[] = "0000-00-00T00:00:00.000Z ";
    for (size_t i = 0; i < sizeof(shape) - 1; i++) {
        bool digit = line[i] >= '0' && line[i] <= '9';
        ck_assert(shape[i] == '0' ? digit : line[i] == shape[i]);
    }
    return line + sizeof(shape) - 1;
}

START_TEST(levels_above_the_chosen_one_are_silent)
{
    log_setup(LOG_WARN, LOG_FORMAT_TEXT);
    ck_assert(log_enabled(LOG_ERROR));
    ck_assert(log_enabled(LOG_WARN));
    ck_assert(!log_enabled(LOG_INFO));
    capture_begin();
    log_line(LOG_INFO, "no");
    log_event(LOG_DEBUG, "no", NULL, 0);
    log_line(LOG_WARN, "yes %d", 1);
    char *text = capture_end();
    ck_assert_str_eq(after_time(text), "warn yes 1\n");
    free(text);
}
END_TEST

START_TEST(an_event_is_one_line_of_fields)
{
    struct log_field fields[] = {
        log_text("id", "chatcmpl-1"), log_integer("prompt", -12),   log_number("ms", 1.23456),
        log_text("empty", ""),        log_text("none", NULL),       log_text("words", "two words"),
        log_text("quote", "a\"b"),    log_text("evil", "x\ny\x1B"), log_text("bad", "\xFFz"),
        log_text("equals", "a=b"),
    };
    log_setup(LOG_INFO, LOG_FORMAT_TEXT);
    capture_begin();
    log_event(LOG_INFO, "request", fields, sizeof(fields) / sizeof(fields[0]));
    char *text = capture_end();
    ck_assert_str_eq(after_time(text),
                     "info request id=chatcmpl-1 prompt=-12 ms=1.235 empty=\"\" none=- words=\"two words\" "
                     "quote=\"a\\\"b\" evil=\"x\\ny\\x1b\" bad=\xEF\xBF\xBDz equals=\"a=b\"\n");
    free(text);
}
END_TEST

START_TEST(json_lines_are_json_whatever_is_in_them)
{
    struct log_field fields[] = {
        log_text("text", "a\"\n\xFF\xC3\xA9\xE2\x82"),
        log_integer("n", INT64_MAX),
        log_number("x", 2.5),
        log_number("nan", NAN),
        log_text("none", NULL),
        log_number("big", 1e300),
    };
    log_setup(LOG_DEBUG, LOG_FORMAT_JSON);
    capture_begin();
    log_event(LOG_ERROR, "request", fields, sizeof(fields) / sizeof(fields[0]));
    char *text = capture_end();
    ck_assert_uint_eq(utf8_invalid_at(text, strlen(text)), strlen(text));
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    cJSON *line = cJSON_Parse(text);
    ck_assert_ptr_nonnull(line);
    ck_assert_str_eq(cJSON_GetObjectItem(line, "level")->valuestring, "error");
    ck_assert_str_eq(cJSON_GetObjectItem(line, "event")->valuestring, "request");
    ck_assert_uint_eq(strlen(cJSON_GetObjectItem(line, "time")->valuestring), 24);
    ck_assert_str_eq(cJSON_GetObjectItem(line, "text")->valuestring, "a\"\n\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD");
    ck_assert(cJSON_GetObjectItem(line, "x")->valuedouble == 2.5);
    ck_assert(cJSON_IsNull(cJSON_GetObjectItem(line, "nan")));
    ck_assert(cJSON_IsNull(cJSON_GetObjectItem(line, "none")));
    ck_assert_ptr_nonnull(strstr(text, "\"n\":9223372036854775807"));
    cJSON_Delete(line);
    free(text);
}
END_TEST

START_TEST(a_long_message_is_cut_and_stays_json)
{
    char message[5000];
    for (size_t i = 0; i + 3 < sizeof(message); i += 3)
        memcpy(message + i, "\xE2\x82\xAC", 3);
    message[4998] = '\0';
    log_setup(LOG_INFO, LOG_FORMAT_JSON);
    capture_begin();
    log_line(LOG_INFO, "%s", message);
    char *text = capture_end();
    cJSON *line = cJSON_Parse(text);
    ck_assert_ptr_nonnull(line);
    ck_assert_uint_gt(strlen(cJSON_GetObjectItem(line, "message")->valuestring), 2000);
    ck_assert_uint_eq(utf8_invalid_at(text, strlen(text)), strlen(text));
    cJSON_Delete(line);
    free(text);
}
END_TEST

START_TEST(a_message_cannot_begin_a_second_line)
{
    log_setup(LOG_INFO, LOG_FORMAT_TEXT);
    capture_begin();
    log_line(LOG_INFO, "a\n2026-01-01T00:00:00.000Z error forged");
    char *text = capture_end();
    ck_assert_str_eq(after_time(text), "info a\\n2026-01-01T00:00:00.000Z error forged\n");
    free(text);
}
END_TEST

enum { WRITERS = 8, LINES = 500 };

static void write_lines(void *context)
{
    char word[600];
    memset(word, *(char *)context, sizeof(word) - 1);
    word[sizeof(word) - 1] = '\0';
    for (int i = 0; i < LINES; i++)
        log_event(LOG_INFO, "e", (struct log_field[]){log_text("w", word)}, 1);
}

START_TEST(lines_of_several_threads_do_not_mix)
{
    struct thread threads[WRITERS];
    char letters[WRITERS];
    struct error error;
    log_setup(LOG_INFO, LOG_FORMAT_JSON);
    capture_begin();
    for (int i = 0; i < WRITERS; i++) {
        letters[i] = (char)('a' + i);
        ck_assert_int_eq(thread_start("writer", write_lines, &letters[i], &threads[i], &error), STATUS_OK);
    }
    for (int i = 0; i < WRITERS; i++)
        thread_join(&threads[i]);
    char *text = capture_end();
    int lines = 0;
    for (char *line = text, *end; *line != '\0'; line = end + 1, lines++) {
        end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        cJSON *object = cJSON_Parse(line);
        ck_assert_ptr_nonnull(object);
        const char *word = cJSON_GetObjectItem(object, "w")->valuestring;
        ck_assert_uint_eq(strlen(word), 599);
        ck_assert_uint_eq(strspn(word, (char[]){word[0], '\0'}), 599);
        cJSON_Delete(object);
    }
    ck_assert_int_eq(lines, WRITERS * LINES);
    free(text);
}
END_TEST

/* Everything that a pipe holds; it stays open. */
static char *drain(int fd)
{
    static char text[1 << 20];
    size_t size = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (ssize_t more; (more = read(fd, text + size, sizeof(text) - 1 - size)) > 0;)
        size += (size_t)more;
    text[size] = '\0';
    return text;
}

START_TEST(a_pipe_that_nobody_empties_holds_nobody_up)
{
    int ends[2], before = dup(STDERR_FILENO);
    char letter = 'a', expected[128];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    log_setup(LOG_INFO, LOG_FORMAT_TEXT);
    write_lines(&letter);
    uint64_t lost = log_lines_lost();
    ck_assert(lost > 0 && lost < LINES);
    const char *text = drain(ends[0]);
    uint64_t lines = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1, lines++)
        ck_assert_int_eq(strncmp(after_time(line), "info e w=aaaa", 13), 0);
    ck_assert_uint_eq(lines + lost, LINES);

    log_line(LOG_INFO, "again");
    text = drain(ends[0]);
    snprintf(expected, sizeof(expected), "warn %llu lines of the log were lost: stderr did not take them\n",
             (unsigned long long)lost);
    ck_assert_int_eq(strncmp(after_time(text), expected, strlen(expected)), 0);
    ck_assert_str_eq(after_time(strchr(text, '\n') + 1), "info again\n");
    log_line(LOG_INFO, "and again");
    ck_assert_str_eq(after_time(drain(ends[0])), "info and again\n");
    ck_assert_uint_eq(log_lines_lost(), lost);
    dup2(before, STDERR_FILENO);
}
END_TEST

START_TEST(a_full_disk_or_nothing_at_all_loses_lines_and_no_more)
{
    int before = dup(STDERR_FILENO), full = open("/dev/full", O_WRONLY);
    log_setup(LOG_INFO, LOG_FORMAT_TEXT);
    ck_assert_int_ge(dup2(full, STDERR_FILENO), 0);
    log_line(LOG_INFO, "a");
    ck_assert_uint_eq(log_lines_lost(), 1);
    close(STDERR_FILENO);
    log_line(LOG_INFO, "b");
    ck_assert_uint_eq(log_lines_lost(), 2);
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_IGN);
    log_line(LOG_INFO, "c");
    ck_assert_uint_eq(log_lines_lost(), 3);
    dup2(before, STDERR_FILENO);
}
END_TEST

START_TEST(control_characters_beyond_ascii_are_escaped)
{
    log_setup(LOG_INFO, LOG_FORMAT_TEXT);
    capture_begin();
    log_line(LOG_INFO, "a\xC2\x9B"
                       "31m\xC2\xA0\xC3\xA9");
    char *text = capture_end();
    ck_assert_str_eq(after_time(text), "info a\\x9b31m\xC2\xA0\xC3\xA9\n");
    free(text);
}
END_TEST

Suite *suite(void)
{
    Suite *log = suite_create("log");
    TCase *cases = tcase_create("log");
    tcase_add_test(cases, levels_above_the_chosen_one_are_silent);
    tcase_add_test(cases, an_event_is_one_line_of_fields);
    tcase_add_test(cases, json_lines_are_json_whatever_is_in_them);
    tcase_add_test(cases, a_long_message_is_cut_and_stays_json);
    tcase_add_test(cases, a_message_cannot_begin_a_second_line);
    tcase_add_test(cases, lines_of_several_threads_do_not_mix);
    tcase_add_test(cases, a_pipe_that_nobody_empties_holds_nobody_up);
    tcase_add_test(cases, a_full_disk_or_nothing_at_all_loses_lines_and_no_more);
    tcase_add_test(cases, control_characters_beyond_ascii_are_escaped);
    suite_add_tcase(log, cases);
    return log;
}
