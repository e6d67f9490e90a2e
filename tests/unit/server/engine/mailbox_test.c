/* Events through the mailbox: order, copies, joining, bounds, and a writer and a reader at once. */
#include "server/engine/mailbox.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/buffer.h"
#include "kernels/base/thread.h"
#include "tests/unit/unit.h"

static struct mailbox mailbox;

static void open_with(size_t text_max)
{
    struct error error;
    ck_assert_int_eq(mailbox_open(&mailbox, text_max, 4, &error), STATUS_OK);
}

static void setup(void)
{
    open_with(4096);
}

static void teardown(void)
{
    mailbox_close(&mailbox);
}

static enum mailbox_outcome put_text(uint32_t choice, const char *text)
{
    return mailbox_put(
        &mailbox,
        &(struct api_event){.type = API_EVENT_TEXT, .choice = choice, .text = text, .text_size = strlen(text)});
}

static enum mailbox_outcome put_stop(uint32_t choice)
{
    return mailbox_put(&mailbox, &(struct api_event){.type = API_EVENT_STOP, .choice = choice});
}

static void expect_text(uint32_t choice, const char *text)
{
    struct api_event event;
    ck_assert(mailbox_take(&mailbox, &event));
    ck_assert_int_eq(event.type, API_EVENT_TEXT);
    ck_assert_uint_eq(event.choice, choice);
    ck_assert_uint_eq(event.text_size, strlen(text));
    ck_assert(memcmp(event.text, text, event.text_size) == 0);
}

START_TEST(an_empty_one_gives_nothing)
{
    struct api_event event;
    ck_assert(!mailbox_take(&mailbox, &event));
    ck_assert(!mailbox_take(&mailbox, &event));
}
END_TEST

START_TEST(text_of_one_choice_is_joined)
{
    struct api_event event;
    put_text(0, "some ");
    put_text(0, "words");
    put_text(1, "other");
    put_text(0, "!");
    expect_text(0, "some words");
    expect_text(1, "other");
    expect_text(0, "!");
    ck_assert(!mailbox_take(&mailbox, &event));
}
END_TEST

START_TEST(text_is_not_joined_across_another_event)
{
    struct api_event event;
    put_text(0, "a");
    put_stop(1);
    put_text(0, "b");
    expect_text(0, "a");
    ck_assert(mailbox_take(&mailbox, &event));
    ck_assert_int_eq(event.type, API_EVENT_STOP);
    expect_text(0, "b");
}
END_TEST

START_TEST(only_the_first_event_asks_for_a_wake)
{
    struct api_event event;
    ck_assert_int_eq(put_text(0, "a"), MAILBOX_PUT_FIRST);
    ck_assert_int_eq(put_text(0, "b"), MAILBOX_PUT);
    ck_assert_int_eq(put_stop(0), MAILBOX_PUT);
    while (mailbox_take(&mailbox, &event))
        ;
    ck_assert_int_eq(put_stop(1), MAILBOX_PUT_FIRST);
}
END_TEST

START_TEST(what_was_taken_stays_while_more_is_put)
{
    struct api_event first, second;
    put_text(0, "first");
    ck_assert(mailbox_take(&mailbox, &first));
    for (int i = 0; i < 20; i++)
        put_text((uint32_t)i % 2, "later text");
    ck_assert(memcmp(first.text, "first", 5) == 0);
    ck_assert(mailbox_take(&mailbox, &second));
    ck_assert(memcmp(second.text, "later text", 10) == 0);
}
END_TEST

START_TEST(tokens_are_copied_whole)
{
    char word[] = "word", other[] = "else";
    struct api_token top[2] = {{.id = 7, .text = word, .size = 4, .logprob = -0.5f},
                               {.id = 9, .text = other, .size = 4, .logprob = -1.5f}};
    struct api_token tokens[2] = {
        {.id = 7, .text = word, .size = 4, .logprob = -0.5f, .top = top, .top_count = 2},
        {.id = 8, .text = NULL, .size = 0, .logprob = -2},
    };
    struct api_event event = {.type = API_EVENT_TEXT, .text = word, .text_size = 4, .tokens = tokens, .token_count = 2};
    ck_assert_int_ne(mailbox_put(&mailbox, &event), MAILBOX_FULL);
    memset(word, 'x', 4);
    memset(other, 'x', 4);
    memset(top, 0, sizeof(top));
    memset(tokens, 0, sizeof(tokens));

    struct api_event taken;
    ck_assert(mailbox_take(&mailbox, &taken));
    ck_assert_uint_eq(taken.token_count, 2);
    ck_assert(memcmp(taken.text, "word", 4) == 0);
    ck_assert_int_eq(taken.tokens[0].id, 7);
    ck_assert_uint_eq(taken.tokens[0].top_count, 2);
    ck_assert(memcmp(taken.tokens[0].top[1].text, "else", 4) == 0);
    ck_assert_int_eq(taken.tokens[0].top[1].id, 9);
    ck_assert(taken.tokens[0].top[1].logprob == -1.5f);
    ck_assert_int_eq(taken.tokens[1].id, 8);
    ck_assert_uint_eq(taken.tokens[1].top_count, 0);
}
END_TEST

START_TEST(text_with_tokens_is_never_joined)
{
    struct api_token token = {.id = 1, .text = "b", .size = 1};
    put_text(0, "a");
    mailbox_put(&mailbox, &(struct api_event){
                              .type = API_EVENT_TEXT, .text = "b", .text_size = 1, .tokens = &token, .token_count = 1});
    put_text(0, "c");
    expect_text(0, "a");
    expect_text(0, "b");
    expect_text(0, "c");
}
END_TEST

START_TEST(text_is_refused_when_full_but_endings_are_not)
{
    char chunk[101] = {0};
    memset(chunk, 'x', 100);
    size_t put = 0, taken = 0;
    while (put_text(0, chunk) != MAILBOX_FULL)
        put += 100;
    ck_assert_uint_ge(put, 3000);
    ck_assert_uint_le(put, 4096);
    for (uint32_t choice = 0; choice < 4; choice++)
        ck_assert_int_eq(put_stop(choice), MAILBOX_PUT);
    struct api_event event = {.type = API_EVENT_ERROR};
    error_set(&event.error, STATUS_CANCELLED, "too slow");
    ck_assert_int_eq(mailbox_put(&mailbox, &event), MAILBOX_PUT);
    struct api_event last = {0};
    while (mailbox_take(&mailbox, &last))
        taken += last.text_size;
    ck_assert_uint_eq(taken, put);
    ck_assert_int_eq(last.type, API_EVENT_ERROR);
    ck_assert_str_eq(last.error.text, "too slow");
}
END_TEST

START_TEST(a_full_one_takes_text_again_once_it_was_read)
{
    struct api_event event;
    for (int round = 0; round < 5; round++) {
        while (put_text(0, "0123456789") != MAILBOX_FULL)
            ;
        while (mailbox_take(&mailbox, &event))
            ;
    }
    ck_assert_int_eq(put_text(0, "x"), MAILBOX_PUT_FIRST);
}
END_TEST

START_TEST(one_large_answer_gets_its_room)
{
    static struct api_token tokens[100000];
    for (int32_t i = 0; i < 100000; i++)
        tokens[i] = (struct api_token){.id = i, .text = "tok", .size = 3};
    struct api_event event = {.type = API_EVENT_TOKENS, .tokens = tokens, .token_count = 100000};
    ck_assert_int_eq(mailbox_put(&mailbox, &event), MAILBOX_FULL);
    ck_assert(mailbox_enlarge(&mailbox, &event));
    ck_assert_int_eq(mailbox_put(&mailbox, &event), MAILBOX_PUT_FIRST);
    ck_assert_int_eq(mailbox_put(&mailbox, &(struct api_event){.type = API_EVENT_END}), MAILBOX_PUT);
    struct api_event taken;
    ck_assert(mailbox_take(&mailbox, &taken));
    ck_assert_uint_eq(taken.token_count, 100000);
    ck_assert_int_eq(taken.tokens[99999].id, 99999);
    ck_assert(memcmp(taken.tokens[99999].text, "tok", 3) == 0);
    ck_assert(mailbox_take(&mailbox, &taken));
    ck_assert_int_eq(taken.type, API_EVENT_END);
    /* The small side is the writer's now: it has its own limit. */
    ck_assert_int_eq(mailbox_put(&mailbox, &event), MAILBOX_FULL);
    put_text(0, "x");
    expect_text(0, "x");
}
END_TEST

START_TEST(one_that_was_opened_small_is_made_larger)
{
    struct error error;
    struct api_event event;
    mailbox_close(&mailbox);
    open_with(0);
    ck_assert_int_eq(put_text(0, "no room"), MAILBOX_FULL);
    ck_assert_int_eq(mailbox_resize(&mailbox, 4096, 0, 6, &error), STATUS_OK);
    for (int round = 0; round < 4; round++) { /* both sides */
        ck_assert_int_eq(put_text(0, "room"), MAILBOX_PUT_FIRST);
        for (uint32_t choice = 0; round == 3 && choice < 6; choice++)
            put_stop(choice);
        expect_text(0, "room");
    }
    for (uint32_t choice = 0; choice < 6; choice++)
        ck_assert(mailbox_take(&mailbox, &event) && event.type == API_EVENT_STOP && event.choice == choice);
}
END_TEST

#define WRITTEN 50000

static void write_all(void *context)
{
    (void)context;
    char text[24];
    for (uint32_t i = 0; i < WRITTEN; i++) {
        snprintf(text, sizeof(text), "%u,", i);
        while (put_text(0, text) == MAILBOX_FULL)
            ;
    }
    put_stop(0);
}

START_TEST(a_reader_and_a_writer_lose_nothing)
{
    struct thread writer;
    struct error error;
    struct api_event event = {0};
    struct buffer all = {0};
    ck_assert_int_eq(thread_start("writer", write_all, NULL, &writer, &error), STATUS_OK);
    while (event.type != API_EVENT_STOP) {
        if (mailbox_take(&mailbox, &event))
            buffer_append(&all, event.text, event.text_size);
    }
    thread_join(&writer);
    char text[24];
    size_t at = 0;
    for (uint32_t i = 0; i < WRITTEN; i++) {
        size_t size = (size_t)snprintf(text, sizeof(text), "%u,", i);
        ck_assert_uint_le(at + size, all.size);
        ck_assert(memcmp(all.data + at, text, size) == 0);
        at += size;
    }
    ck_assert_uint_eq(at, all.size);
    buffer_free(&all);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine/mailbox");
    TCase *tests = tcase_create("mailbox");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_empty_one_gives_nothing);
    tcase_add_test(tests, text_of_one_choice_is_joined);
    tcase_add_test(tests, text_is_not_joined_across_another_event);
    tcase_add_test(tests, only_the_first_event_asks_for_a_wake);
    tcase_add_test(tests, what_was_taken_stays_while_more_is_put);
    tcase_add_test(tests, tokens_are_copied_whole);
    tcase_add_test(tests, text_with_tokens_is_never_joined);
    tcase_add_test(tests, text_is_refused_when_full_but_endings_are_not);
    tcase_add_test(tests, a_full_one_takes_text_again_once_it_was_read);
    tcase_add_test(tests, one_large_answer_gets_its_room);
    tcase_add_test(tests, one_that_was_opened_small_is_made_larger);
    tcase_add_test(tests, a_reader_and_a_writer_lose_nothing);
    suite_add_tcase(suite, tests);
    return suite;
}
