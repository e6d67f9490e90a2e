/* The engine on a tiny model: what is computed once, what comes out bit-equal whatever else happens, how replies end.
 * The reference of each reply is the same request alone in an engine without a cache. */
#include "server/engine/engine.h"

#include <string.h>

#include "tests/unit/server/engine/bed.h"
#include "tests/unit/unit.h"

static struct bed bed, reference;

static void teardown(void)
{
    bed_end(&bed);
    bed_end(&reference);
}

static struct bed_reply *run(const int32_t *ids, uint32_t count, uint32_t max_tokens)
{
    return bed_run(&bed, bed_call(ids, count, max_tokens));
}

static struct bed_reply *run_alone(const int32_t *ids, uint32_t count, uint32_t max_tokens)
{
    return bed_run(&reference, bed_call(ids, count, max_tokens));
}

START_TEST(accepted_brings_the_prompts_ids_when_they_were_asked_for)
{
    static int32_t ids[1900];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 1900);
    struct bed_reply *asked = run(ids, 1900, 100);
    ck_assert_uint_eq(asked->prompt_count, 1900);
    ck_assert(memcmp(asked->prompt, ids, sizeof(ids)) == 0);
    struct api_call *call = bed_call(ids, 1900, 1);
    call->return_token_ids = false;
    struct bed_reply *other = bed_run(&bed, call);
    ck_assert_uint_eq(other->prompt_count, 0);
    bed_release(asked);
    bed_release(other);
}
END_TEST

/* A reader that begins to read at the end finds the prompt's ids and the whole text. */
START_TEST(the_prompts_ids_take_no_room_from_the_text)
{
    static int32_t ids[1900];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 1900);
    struct bed_reply *reply = bed_submit(&bed, bed_call(ids, 1900, 100));
    bed_expect_baseline(&bed);
    bed_finish(reply);
    ck_assert_msg(!reply->failed, "%s", reply->error.text);
    ck_assert_uint_eq(reply->prompt_count, 1900);
    ck_assert_uint_eq(reply->choices[0].count, 100);
    bed_release(reply);
}
END_TEST

/* ---- the cache, seen from outside ---- */

START_TEST(the_same_prompt_again_computes_one_token)
{
    int32_t ids[300];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 300);
    struct bed_reply *first = run(ids, 300, 20), *second = run(ids, 300, 20);
    ck_assert_uint_eq(first->start.cached_tokens, 0);
    ck_assert_uint_eq(first->usage.written_tokens, 300);
    ck_assert_uint_eq(second->start.cached_tokens, 299);
    ck_assert_uint_eq(second->usage.cached_tokens, 299);
    ck_assert_uint_eq(second->usage.prompt_tokens, 300);
    ck_assert_uint_eq(second->usage.completion_tokens, 20);
    ck_assert_uint_eq(second->usage.written_tokens, 1);
    bed_expect_equal(first, 0, second, 0);
    bed_release(first);
    bed_release(second);
}
END_TEST

START_TEST(prompts_of_every_length_are_found_again)
{
    int32_t ids[3 * BED_BLOCK + 1];
    bed_open(&bed, &(struct bed_args){.prefill_chunk = 40});
    for (uint32_t count = 1; count <= 3 * BED_BLOCK + 1; count++) {
        bed_prompt(1000 + count, ids, count);
        struct bed_reply *first = run(ids, count, 3);
        for (int round = 0; round < 2; round++) {
            struct bed_reply *again = run(ids, count, 3);
            ck_assert_uint_eq(again->usage.cached_tokens, count - 1);
            bed_expect_equal(first, 0, again, 0);
            bed_release(again);
        }
        bed_release(first);
    }
}
END_TEST

START_TEST(own_output_is_reused_in_the_next_turn)
{
    int32_t ids[BED_CONTEXT];
    uint32_t count = 50;
    bed_open(&bed, &(struct bed_args){0});
    bed_open_reference(&reference);
    bed_prompt(1, ids, count);
    for (uint32_t turn = 0; turn < 10; turn++) {
        struct bed_reply *reply = run(ids, count, 25), *alone = run_alone(ids, count, 25);
        bed_expect_equal(reply, 0, alone, 0);
        /* All but what was not computed: the last token drawn, and the new ones. */
        if (turn > 0)
            ck_assert_uint_eq(reply->usage.cached_tokens, count - 10 - 1);
        memcpy(ids + count, reply->choices[0].ids, 25 * sizeof(*ids));
        bed_prompt(50 + turn, ids + count + 25, 10);
        count += 35;
        bed_release(reply);
        bed_release(alone);
    }
}
END_TEST

START_TEST(sixteen_at_once_compute_their_shared_prefix_once)
{
    enum { CLIENTS = 16, SHARED = 1000, TAIL = 20 };
    int32_t ids[SHARED + TAIL];
    struct bed_reply *replies[CLIENTS];
    bed_open(&bed, &(struct bed_args){.sequences_max = 16, .pages = 256});
    bed_open_reference(&reference);
    bed_prompt(1, ids, SHARED);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(10 + i, ids + SHARED, TAIL);
        replies[i] = bed_submit(&bed, bed_call(ids, SHARED + TAIL, 30));
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_finish(replies[i]);
        ck_assert_msg(!replies[i]->failed, "%s", replies[i]->error.text);
    }
    struct engine_status status = engine_status(bed.engine);
    ck_assert_uint_eq(status.computed_tokens, SHARED + CLIENTS * TAIL);
    ck_assert_uint_eq(status.cached_tokens, (CLIENTS - 1) * SHARED);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(10 + i, ids + SHARED, TAIL);
        struct bed_reply *alone = run_alone(ids, SHARED + TAIL, 30);
        bed_expect_equal(replies[i], 0, alone, 0);
        bed_release(replies[i]);
        bed_release(alone);
    }
}
END_TEST

START_TEST(equal_prompts_at_once_compute_it_once)
{
    enum { CLIENTS = 8, PROMPT = 500 };
    int32_t ids[PROMPT];
    struct bed_reply *replies[CLIENTS];
    bed_open(&bed, &(struct bed_args){.prefill_chunk = 64});
    bed_prompt(1, ids, PROMPT);
    for (uint32_t i = 0; i < CLIENTS; i++)
        replies[i] = bed_submit(&bed, bed_call(ids, PROMPT, 10));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_finish(replies[i]);
        bed_expect_equal(replies[0], 0, replies[i], 0);
    }
    ck_assert_uint_eq(engine_status(bed.engine).computed_tokens, PROMPT + CLIENTS - 1);
    for (uint32_t i = 0; i < CLIENTS; i++)
        bed_release(replies[i]);
}
END_TEST

START_TEST(a_waiter_takes_over_when_the_leader_is_cancelled)
{
    enum { PROMPT = 1900 };
    int32_t ids[PROMPT];
    bed_open(&bed, &(struct bed_args){.prefill_chunk = 16});
    bed_open_reference(&reference);
    bed_prompt(1, ids, PROMPT);
    struct bed_reply *alone = run_alone(ids, PROMPT, 5);
    bed_prompt(2, ids, 20);
    struct bed_reply *other = bed_submit(&bed, bed_call(ids, 20, 2000));
    bed_prompt(1, ids, PROMPT);
    struct bed_reply *leader = bed_submit(&bed, bed_call(ids, PROMPT, 5));
    while (!leader->started)
        bed_next(leader);
    struct bed_reply *waiters[3];
    for (int i = 0; i < 3; i++)
        waiters[i] = bed_submit(&bed, bed_call(ids, PROMPT, 5));
    for (int i = 0; i < 3; i++) {
        while (!waiters[i]->accepted)
            bed_next(waiters[i]);
    }
    engine_request_cancel(leader->request);
    bed_finish(leader);
    ck_assert(leader->failed);
    ck_assert_int_eq(leader->error.status, STATUS_CANCELLED);
    for (int i = 0; i < 3; i++) {
        bed_finish(waiters[i]);
        bed_expect_equal(waiters[i], 0, alone, 0);
        bed_release(waiters[i]);
    }
    /* What the leader had computed was not lost, and only one waiter went on from there, while another request ran. */
    ck_assert_uint_lt(engine_status(bed.engine).computed_tokens, PROMPT + 200);
    ck_assert_uint_eq(engine_status(bed.engine).running, 1);
    bed_release(other);
    bed_release(alone);
    bed_release(leader);
}
END_TEST

/* ---- sharing the pool ---- */

START_TEST(preempted_sequences_give_what_undisturbed_ones_do)
{
    enum { CLIENTS = 12, PROMPT = 90, OUTPUT = 150 };
    int32_t ids[PROMPT];
    struct bed_reply *replies[CLIENTS];
    bed_open(&bed, &(struct bed_args){.pages = 20, .sequences_max = 6, .prefill_chunk = 48});
    bed_open_reference(&reference);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(i, ids, PROMPT);
        struct api_call *call = bed_call(ids, PROMPT, OUTPUT);
        call->sampling.temperature = i % 2 == 0 ? 0 : 1;
        call->sampling.has_seed = true;
        call->sampling.seed = i;
        replies[i] = bed_submit(&bed, call);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_finish(replies[i]);
        ck_assert_msg(!replies[i]->failed, "%s", replies[i]->error.text);
        ck_assert_uint_eq(replies[i]->usage.cached_tokens, 0);
    }
    ck_assert_uint_gt(engine_status(bed.engine).preemptions, 0);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        bed_prompt(i, ids, PROMPT);
        struct api_call *call = bed_call(ids, PROMPT, OUTPUT);
        call->sampling.temperature = i % 2 == 0 ? 0 : 1;
        call->sampling.has_seed = true;
        call->sampling.seed = i;
        struct bed_reply *alone = bed_run(&reference, call);
        bed_expect_equal(replies[i], 0, alone, 0);
        bed_release(replies[i]);
        bed_release(alone);
    }
}
END_TEST

START_TEST(one_that_needs_the_whole_pool_gets_it)
{
    int32_t ids[8 * BED_BLOCK];
    bed_open(&bed, &(struct bed_args){.pages = 8, .prefill_chunk = 48});
    bed_open_reference(&reference);
    for (uint32_t which = 0; which < 4; which++) {
        uint32_t count = 8 * BED_BLOCK - 20 - which * 7;
        bed_prompt(which % 2, ids, count); /* each pair shares a prefix that fills the pool */
        struct bed_reply *reply = run(ids, count, 1000), *alone = run_alone(ids, count, 8 * BED_BLOCK - count);
        ck_assert_int_eq(reply->choices[0].reason, API_STOP_LENGTH);
        ck_assert_uint_eq(reply->usage.completion_tokens, 8 * BED_BLOCK - count);
        bed_expect_equal(reply, 0, alone, 0);
        bed_release(reply);
        bed_release(alone);
    }
}
END_TEST

START_TEST(random_mixes_are_exact_and_leave_nothing)
{
    uint64_t random = test_seed() + 8;
    int32_t ids[400];
    bed_open(&bed, &(struct bed_args){.pages = 40, .sequences_max = 5, .prefill_chunk = 33});
    bed_open_reference(&reference);
    for (int round = 0; round < (test_long() ? 60 : 8); round++) {
        struct bed_reply *replies[10];
        uint32_t counts[10], outputs[10], kinds[10];
        for (uint32_t i = 0; i < 10; i++) {
            kinds[i] = (uint32_t)test_random_below(&random, 4);
            counts[i] = 1 + (uint32_t)test_random_below(&random, 300);
            outputs[i] = 1 + (uint32_t)test_random_below(&random, 60);
            bed_prompt(kinds[i], ids, counts[i]);
            replies[i] = bed_submit(&bed, bed_call(ids, counts[i], outputs[i]));
        }
        for (uint32_t i = 0; i < 10; i++) {
            bed_prompt(kinds[i], ids, counts[i]);
            struct bed_reply *alone = run_alone(ids, counts[i], outputs[i]);
            bed_finish(replies[i]);
            bed_expect_equal(replies[i], 0, alone, 0);
            bed_release(alone);
            bed_release(replies[i]);
        }
    }
}
END_TEST

/* ---- ends ---- */

START_TEST(no_tokens_asked_for_means_prefill_only)
{
    int32_t ids[100];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 100);
    struct api_call *call = bed_call(ids, 100, 0);
    call->choices = 2;
    struct bed_reply *reply = bed_run(&bed, call);
    ck_assert_uint_eq(reply->usage.completion_tokens, 0);
    ck_assert_uint_eq(reply->usage.written_tokens, 100);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert(reply->choices[i].stopped && reply->choices[i].reason == API_STOP_LENGTH &&
                  reply->choices[i].count == 0);
    struct bed_reply *next = run(ids, 100, 3);
    ck_assert_uint_eq(next->usage.cached_tokens, 99);
    bed_release(reply);
    bed_release(next);
}
END_TEST

START_TEST(a_stop_id_and_a_stop_string_end_a_reply)
{
    int32_t ids[40];
    bed_open(&bed, &(struct bed_args){0});
    bed_prompt(1, ids, 40);
    struct bed_reply *whole = run(ids, 40, 30);
    const struct bed_choice *choice = &whole->choices[0];

    struct api_call *call = bed_call(ids, 40, 30);
    call->stop_ids = &choice->ids[7];
    call->stop_id_count = 1;
    struct bed_reply *by_id = bed_run(&bed, call);
    uint32_t first = 0;
    while (choice->ids[first] != choice->ids[7])
        first++;
    ck_assert_uint_eq(by_id->choices[0].count, first + 1);
    ck_assert_int_eq(by_id->choices[0].reason, API_STOP_END);

    char needle[3] = {choice->text.data[10], choice->text.data[11], 0};
    struct api_stop stop = {needle, 2};
    call = bed_call(ids, 40, 30);
    call->stop = &stop;
    call->stop_count = 1;
    struct bed_reply *by_text = bed_run(&bed, call);
    size_t at = (size_t)(strstr(choice->text.data, needle) - choice->text.data);
    ck_assert_uint_eq(by_text->choices[0].text.size, at);
    ck_assert_int_eq(by_text->choices[0].reason, API_STOP_END);
    bed_release(whole);
    bed_release(by_id);
    bed_release(by_text);
}
END_TEST

static void expect_refused(struct api_call *call, const char *field, const char *code)
{
    struct bed_reply *reply = bed_submit(&bed, call);
    bed_finish(reply);
    ck_assert(reply->failed && !reply->accepted);
    ck_assert_int_eq(reply->error.status, STATUS_INVALID);
    ck_assert_str_eq(reply->error.field, field);
    ck_assert_str_eq(reply->error.code, code);
    bed_release(reply);
}

START_TEST(what_cannot_be_served_is_refused_before_work)
{
    static int32_t ids[BED_CONTEXT];
    bed_open(&bed, &(struct bed_args){.sequences_max = 4});
    bed_prompt(1, ids, BED_CONTEXT);
    expect_refused(bed_call(ids, BED_CONTEXT, 5), "prompt", "context_length_exceeded");
    expect_refused(bed_call(ids, 0, 5), "prompt", "");
    expect_refused(bed_choices_call(ids, 10, 5), "n", "");
    struct bed_reply *fits = run(ids, BED_CONTEXT - 3, 100);
    ck_assert_uint_eq(fits->usage.completion_tokens, 3);
    bed_release(fits);

    struct api_call *chat = api_call_blank(API_CHAT);
    chat->is_chat = true;
    struct bed_reply *reply = bed_submit(&bed, chat);
    bed_finish(reply);
    ck_assert_int_eq(reply->error.status, STATUS_UNSUPPORTED); /* no template was given */
    bed_release(reply);
    ck_assert_uint_eq(engine_status(bed.engine).steps > 0, 1);
}
END_TEST

/* A body for the endpoint of completions, copied. */
static struct engine_submission submission_of(const char *text)
{
    static const struct api_facts facts = {
        .model_id = "tiny", .context = BED_CONTEXT, .vocabulary = 96, .choices_max = 8, .fingerprint = "fp_0"};
    const char *rest, *allow;
    struct error error;
    struct engine_submission submission = {
        .endpoint = api_endpoint_find("POST", "/v1/completions", &rest, &allow, &error),
        .facts = &facts,
    };
    buffer_text(&submission.body, text);
    return submission;
}

START_TEST(a_body_is_parsed_by_the_engine)
{
    struct engine_submission submission =
        submission_of("{\"prompt\": [20, 30, 40], \"max_tokens\": 4, \"temperature\": 0, \"ignore_eos\": true, "
                      "\"logprobs\": 3, \"return_token_ids\": true}");
    bed_open(&bed, &(struct bed_args){0});
    struct bed_reply *parsed = bed_submit_as(&bed, &submission);
    bed_finish(parsed);
    ck_assert_msg(!parsed->failed, "%s", parsed->error.text);
    ck_assert_uint_eq(engine_request_call(parsed->request)->max_tokens, 4);
    struct bed_reply *given = bed_run(&bed, bed_call((int32_t[]){20, 30, 40}, 3, 4));
    bed_expect_equal(parsed, 0, given, 0);
    bed_release(parsed);
    bed_release(given);
}
END_TEST

START_TEST(a_body_that_cannot_be_parsed_ends_with_the_clients_error)
{
    static const struct {
        const char *body, *field, *code;
    } cases[] = {
        {"{\"prompt\": ", "", "invalid_json"},
        {"", "", "invalid_value"},
        {"{\"max_tokens\": 5}", "prompt", "missing_required_parameter"},
        {"{\"prompt\": \"a\", \"top_p\": 7}", "top_p", "invalid_value"},
    };
    bed_open(&bed, &(struct bed_args){0});
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct engine_submission submission = submission_of(cases[i].body);
        struct bed_reply *reply = bed_submit_as(&bed, &submission);
        bed_finish(reply);
        ck_assert(reply->failed && !reply->accepted);
        ck_assert_int_eq(reply->error.status, STATUS_INVALID);
        ck_assert_str_eq(reply->error.field, cases[i].field);
        ck_assert_str_eq(reply->error.code, cases[i].code);
        ck_assert_ptr_null(engine_request_call(reply->request));
        bed_release(reply);
    }
    ck_assert_uint_eq(engine_status(bed.engine).requests, 0);
}
END_TEST

START_TEST(those_that_leave_before_they_are_parsed_leave_nothing)
{
    struct buffer body = {0};
    buffer_text(&body, "{\"prompt\": [20");
    for (uint32_t i = 0; i < 100000; i++)
        buffer_text(&body, ", 30");
    buffer_text(&body, "]}");
    bed_open(&bed, &(struct bed_args){0});
    for (uint32_t i = 0; i < 40; i++) {
        struct engine_submission submission = submission_of(body.data);
        struct bed_reply *reply = bed_submit_as(&bed, &submission);
        ck_assert_ptr_nonnull(reply->request); /* nobody who left is in the way */
        bed_release(reply);
        ck_assert_uint_eq(engine_status(bed.engine).waiting, 0);
    }
    buffer_free(&body);
    struct bed_reply *reply = bed_run(&bed, bed_call((int32_t[]){20, 30, 40}, 3, 4));
    bed_release(reply);
    ck_assert_uint_eq(engine_status(bed.engine).requests, 1);
}
END_TEST

START_TEST(a_full_queue_says_so)
{
    int32_t ids[1500];
    struct bed_reply *replies[20];
    uint32_t refused = 0;
    bed_open(&bed, &(struct bed_args){.sequences_max = 1, .queue_max = 3});
    bed_prompt(1, ids, 1500);
    for (uint32_t i = 0; i < 20; i++) {
        replies[i] = bed_submit(&bed, bed_call(ids, 1500, 50));
        if (replies[i]->request == NULL) {
            ck_assert_int_eq(replies[i]->error.status, STATUS_BUSY);
            ck_assert_str_eq(replies[i]->error.code, "queue_full");
            refused++;
        }
    }
    ck_assert_uint_ge(refused, 15);
    for (uint32_t i = 0; i < 20; i++)
        bed_release(replies[i]);
}
END_TEST

START_TEST(tokenize_and_detokenize_are_answered)
{
    static const char words[] = "Hello, w\xc3\xb6rld! <|im_end|>";
    bed_open(&bed, &(struct bed_args){0});
    struct api_call *call = api_call_blank(API_TOKENIZE);
    struct api_prompt *prompt = api_call_add_prompts(call, 1);
    prompt->text = words;
    prompt->size = strlen(words);
    struct bed_reply *tokens = bed_run(&bed, call);
    const struct bed_choice *ids = &tokens->choices[0];
    ck_assert_uint_gt(ids->count, 5);
    ck_assert_uint_eq(tokens->usage.prompt_tokens, ids->count);
    for (uint32_t i = 0; i < ids->count; i++)
        ck_assert_int_ge(ids->ids[i], 17); /* no control token came of text */

    call = api_call_blank(API_DETOKENIZE);
    bed_set_prompt(call, api_call_add_prompts(call, 1), ids->ids, ids->count);
    struct bed_reply *text = bed_run(&bed, call);
    ck_assert_uint_eq(text->choices[0].text.size, strlen(words));
    ck_assert(memcmp(text->choices[0].text.data, words, strlen(words)) == 0);
    bed_release(tokens);
    bed_release(text);
}
END_TEST

START_TEST(a_conversation_is_rendered_and_its_text_stays_text)
{
    static const char words[] = "<|im_end|> is <|im_start|>text";
    bed_open(&bed, &(struct bed_args){.chat = true});
    struct api_call *call = api_call_blank(API_TOKENIZE);
    struct chat_value *role = chat_text(&call->arena, "user", 4), *message = chat_object(&call->arena);
    role->trusted = true;
    chat_object_put(&call->arena, message, "role", 4, role);
    chat_object_put(&call->arena, message, "content", 7, chat_text(&call->arena, words, strlen(words)));
    call->chat.messages = chat_list(&call->arena);
    chat_list_add(&call->arena, call->chat.messages, message);
    call->is_chat = true;
    call->return_token_strings = true;
    struct bed_reply *reply = bed_run(&bed, call);
    uint32_t control = 0;
    for (uint32_t i = 0; i < reply->choices[0].count; i++) {
        struct tokenizer_piece piece;
        ck_assert(tokenizer_piece(bed.tokenizer, reply->choices[0].ids[i], &piece));
        control += piece.control;
    }
    /* system, user and the reply's beginning: three starts and two ends, all the template's */
    ck_assert_uint_eq(control, 5);
    bed_release(reply);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("server/engine");
    TCase *tests = tcase_create("engine");
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, accepted_brings_the_prompts_ids_when_they_were_asked_for);
    tcase_add_test(tests, the_prompts_ids_take_no_room_from_the_text);
    tcase_add_test(tests, the_same_prompt_again_computes_one_token);
    tcase_add_test(tests, prompts_of_every_length_are_found_again);
    tcase_add_test(tests, own_output_is_reused_in_the_next_turn);
    tcase_add_test(tests, sixteen_at_once_compute_their_shared_prefix_once);
    tcase_add_test(tests, equal_prompts_at_once_compute_it_once);
    tcase_add_test(tests, a_waiter_takes_over_when_the_leader_is_cancelled);
    tcase_add_test(tests, preempted_sequences_give_what_undisturbed_ones_do);
    tcase_add_test(tests, one_that_needs_the_whole_pool_gets_it);
    tcase_add_test(tests, random_mixes_are_exact_and_leave_nothing);
    tcase_add_test(tests, no_tokens_asked_for_means_prefill_only);
    tcase_add_test(tests, a_stop_id_and_a_stop_string_end_a_reply);
    tcase_add_test(tests, what_cannot_be_served_is_refused_before_work);
    tcase_add_test(tests, a_body_is_parsed_by_the_engine);
    tcase_add_test(tests, a_body_that_cannot_be_parsed_ends_with_the_clients_error);
    tcase_add_test(tests, those_that_leave_before_they_are_parsed_leave_nothing);
    tcase_add_test(tests, a_full_queue_says_so);
    tcase_add_test(tests, tokenize_and_detokenize_are_answered);
    tcase_add_test(tests, a_conversation_is_rendered_and_its_text_stays_text);
    suite_add_tcase(suite, tests);
    return suite;
}
