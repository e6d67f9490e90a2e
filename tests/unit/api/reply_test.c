/* Replies from made-up events: exact bytes, the order of frames, and that a stream adds up to the whole body. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "tests/unit/api/requests.h"
#include "tests/unit/unit.h"

#define CHAT "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"

/* All bytes that the events make of the request. */
static struct buffer render(const char *path, const char *body, const struct api_event *events, size_t count)
{
    struct api_call *call = good_call(path, body);
    struct api_reply *reply;
    struct error error;
    struct buffer out = {0};
    ck_assert_int_eq(api_reply_open(call, &test_facts, "ID", &reply, &error), STATUS_OK);
    for (size_t i = 0; i < count; i++)
        api_reply_event(reply, &events[i], &out);
    ck_assert(!out.failed);
    api_reply_close(reply);
    api_call_close(call);
    return out;
}

static struct api_event text_event(uint32_t choice, const char *text)
{
    return (struct api_event){.type = API_EVENT_TEXT, .choice = choice, .text = text, .text_size = strlen(text)};
}

static const struct api_usage usage = {
    .prompt_tokens = 10, .cached_tokens = 9, .written_tokens = 1, .completion_tokens = 2};

/* The bytes with the number after "created": replaced by T. */
static char *without_time(struct buffer *out)
{
    static char text[16384];
    size_t size = 0;
    for (const char *at = out->data; *at != '\0' && size + 1 < sizeof(text);) {
        text[size++] = *at++;
        if (size < 10 || memcmp(text + size - 10, "\"created\":", 10) != 0)
            continue;
        text[size++] = 'T';
        at += strspn(at, "0123456789");
    }
    text[size] = '\0';
    buffer_free(out);
    return text;
}

static const struct api_event simple[] = {
    {.type = API_EVENT_ACCEPTED},
    {.type = API_EVENT_STARTED},
    {.type = API_EVENT_TEXT, .text = "Hel\"lo", .text_size = 6},
    {.type = API_EVENT_TEXT, .text = "\n\xE2\x82\xAC", .text_size = 4},
    {.type = API_EVENT_STOP, .stop_reason = API_STOP_LENGTH},
    {.type = API_EVENT_END,
     .usage = {.prompt_tokens = 10, .cached_tokens = 9, .written_tokens = 1, .completion_tokens = 2}},
};
#define SIMPLE (sizeof(simple) / sizeof(*simple))

#define USAGE                                                                                                \
    "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2,\"total_tokens\":12,\"prompt_tokens_details\":" \
    "{\"cached_tokens\":9,\"cache_write_tokens\":1},\"completion_tokens_details\":{\"reasoning_tokens\":0}}"

START_TEST(a_chat_body_is_this)
{
    struct buffer out = render(CHAT, "{\"model\":\"m\"," MESSAGES "}", simple, SIMPLE);
    ck_assert_str_eq(
        without_time(&out),
        "{\"id\":\"chatcmpl-ID\",\"object\":\"chat.completion\",\"created\":T,\"model\":\"m\",\"system_fingerprint\":"
        "\"fp_0123\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":"
        "\"Hel\\\"lo\\n\xE2\x82\xAC\","
        "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"length\"}]," USAGE "}");
}
END_TEST

#define CHUNK                                                                                              \
    "data: {\"id\":\"chatcmpl-ID\",\"object\":\"chat.completion.chunk\",\"created\":T,\"model\":\"tiny\"," \
    "\"system_fingerprint\":\"fp_0123\",\"choices\":["
#define DELTA(delta, reason) \
    CHUNK "{\"index\":0,\"delta\":" delta ",\"logprobs\":null,\"finish_reason\":" reason "}],\"usage\":null}\n\n"

START_TEST(a_chat_stream_is_this)
{
    struct buffer out =
        render(CHAT, "{\"stream\":true,\"stream_options\":{\"include_usage\":true}," MESSAGES "}", simple, SIMPLE);
    ck_assert_str_eq(without_time(&out),
                     DELTA("{\"role\":\"assistant\",\"content\":\"\"}", "null")
                         DELTA("{\"content\":\"Hel\\\"lo\"}", "null") DELTA("{\"content\":\"\\n\xE2\x82\xAC\"}", "null")
                             DELTA("{}", "\"length\"") CHUNK "]," USAGE "}\n\ndata: [DONE]\n\n");
}
END_TEST

START_TEST(a_completions_body_and_stream_are_these)
{
    struct buffer out = render(COMPLETIONS, "{\"prompt\":\"p\"}", simple, SIMPLE);
    ck_assert_str_eq(
        without_time(&out),
        "{\"id\":\"cmpl-ID\",\"object\":\"text_completion\",\"created\":T,\"model\":\"tiny\","
        "\"system_fingerprint\":\"fp_0123\",\"choices\":[{\"index\":0,\"text\":\"Hel\\\"lo\\n\xE2\x82\xAC\","
        "\"logprobs\":null,\"finish_reason\":\"length\"}]," USAGE "}");
    out = render(COMPLETIONS, "{\"prompt\":\"p\",\"stream\":true}", simple + 4, 2);
    ck_assert_str_eq(without_time(&out),
                     "data: {\"id\":\"cmpl-ID\",\"object\":\"text_completion\",\"created\":T,\"model\":\"tiny\","
                     "\"system_fingerprint\":\"fp_0123\",\"choices\":[{\"index\":0,\"text\":\"\",\"logprobs\":null,"
                     "\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n");
}
END_TEST

START_TEST(usage_in_a_stream_only_when_asked)
{
    struct buffer out = render(CHAT, "{\"stream\":true," MESSAGES "}", simple, SIMPLE);
    ck_assert_ptr_null(strstr(out.data, "usage"));
    buffer_free(&out);
    out = render(CHAT, "{\"stream\":true,\"stream_options\":{\"include_usage\":false}," MESSAGES "}", simple, SIMPLE);
    ck_assert_ptr_null(strstr(out.data, "usage"));
    buffer_free(&out);
}
END_TEST

START_TEST(the_tier_is_named_when_the_request_named_one)
{
    struct buffer out = render(CHAT, "{\"service_tier\":\"auto\"," MESSAGES "}", simple, SIMPLE);
    ck_assert_ptr_nonnull(strstr(out.data, "\"service_tier\":\"default\""));
    buffer_free(&out);
    out = render(CHAT, "{\"service_tier\":null," MESSAGES "}", simple, SIMPLE);
    ck_assert_ptr_null(strstr(out.data, "service_tier"));
    buffer_free(&out);
}
END_TEST

START_TEST(roles_come_first_and_once_for_each_choice)
{
    struct api_event events[] = {
        {.type = API_EVENT_STARTED}, text_event(2, "c"), text_event(0, "a"), {.type = API_EVENT_END}};
    struct buffer out = render(CHAT, "{\"stream\":true,\"n\":3," MESSAGES "}", events, 4);
    const char *at = out.data;
    for (uint32_t i = 0; i < 3; i++) {
        char wanted[64];
        snprintf(wanted, sizeof(wanted), "{\"index\":%u,\"delta\":{\"role\":", i);
        at = strstr(at, wanted);
        ck_assert_ptr_nonnull(at);
        at += strlen(wanted);
    }
    ck_assert_ptr_null(strstr(at, "\"role\""));
    ck_assert(strstr(at, "\"content\":\"c\"") < strstr(at, "\"content\":\"a\""));
    buffer_free(&out);
}
END_TEST

START_TEST(failures_look_the_same_in_both_forms)
{
    struct api_event event = {.type = API_EVENT_ERROR};
    error_field(&event.error, STATUS_TOO_LARGE, "messages", "too \"long\"");
    snprintf(event.error.code, sizeof(event.error.code), "context_length_exceeded");
#define ERROR_BODY                                                                                            \
    "{\"error\":{\"message\":\"too \\\"long\\\"\",\"type\":\"invalid_request_error\",\"param\":\"messages\"," \
    "\"code\":\"context_length_exceeded\"}}"
    struct buffer out = render(CHAT, "{" MESSAGES "}", &event, 1);
    ck_assert_str_eq(out.data, ERROR_BODY);
    buffer_free(&out);
    out = render(COMPLETIONS, "{\"prompt\":\"a\",\"stream\":true}", &event, 1);
    ck_assert_str_eq(out.data, "data: " ERROR_BODY "\n\ndata: [DONE]\n\n");
    buffer_free(&out);
}
END_TEST

/* ---- log-probabilities ---- */

static const struct api_token tops[] = {{.id = 1, .text = "a", .size = 1, .logprob = -0.5F},
                                        {.id = 2, .text = "\xE2\x82", .size = 2, .logprob = -INFINITY},
                                        {.id = 3, .text = "a", .size = 1, .logprob = -9}};
static const struct api_token tokens[] = {
    {.id = 1, .text = "a", .size = 1, .logprob = -0.5F, .top = tops, .top_count = 3},
    {.id = 2, .text = "\xE2\x82", .size = 2, .logprob = -1.25F, .top = tops, .top_count = 1},
    {.id = 4, .text = "\xAC", .size = 1, .logprob = -2, .top = NULL, .top_count = 0},
    {.id = 5, .text = "b", .size = 1, .logprob = -2, .top = NULL, .top_count = 0},
};

START_TEST(chat_logprobs_are_these)
{
    struct api_event events[] = {text_event(0, "a"), {.type = API_EVENT_STOP}, {.type = API_EVENT_END, .usage = usage}};
    events[0].tokens = tokens;
    events[0].token_count = 1;
    struct buffer out = render(CHAT, "{\"logprobs\":true,\"top_logprobs\":3," MESSAGES "}", events, 3);
    ck_assert_ptr_nonnull(strstr(
        out.data, "\"logprobs\":{\"content\":[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":["
                  "{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97]},"
                  "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-9999,\"bytes\":[226,130]},"
                  "{\"token\":\"a\",\"logprob\":-9,\"bytes\":[97]}]}],\"refusal\":null}"));
    buffer_free(&out);
}
END_TEST

START_TEST(completions_logprobs_are_these)
{
    struct api_event events[] = {text_event(0, "a\xE2\x82\xAC"
                                               "b"),
                                 {.type = API_EVENT_STOP},
                                 {.type = API_EVENT_END}};
    events[0].tokens = tokens;
    events[0].token_count = 4;
    struct buffer out = render(COMPLETIONS, "{\"prompt\":\"p\",\"logprobs\":3}", events, 3);
    ck_assert_ptr_nonnull(strstr(out.data,
                                 "\"logprobs\":{\"tokens\":[\"a\",\"bytes:\\\\xe2\\\\x82\",\"bytes:\\\\xac\",\"b\"],"
                                 "\"token_logprobs\":[-0.5,-1.25,-2,-2],"
                                 "\"top_logprobs\":[{\"a\":-0.5,\"bytes:\\\\xe2\\\\x82\":-9999},"
                                 "{\"a\":-0.5,\"bytes:\\\\xe2\\\\x82\":-1.25},{\"bytes:\\\\xac\":-2},{\"b\":-2}],"
                                 "\"text_offset\":[0,1,2,2]}"));
    buffer_free(&out);
}
END_TEST

/* ---- streams add up ---- */

struct sums {
    struct buffer text;
    cJSON *tokens; /* of chat: logprobs.content; of completions: an object of four arrays */
    cJSON *ids;
    char reason[16];
    uint32_t roles;
};

static void extend(cJSON *to, const cJSON *items)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, items) cJSON_AddItemToArray(to, cJSON_Duplicate(item, true));
}

static const cJSON *get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static void add_choice(struct sums *sums, const cJSON *choice, bool chat)
{
    static const char *const columns[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    const cJSON *message = get(choice, "delta") != NULL ? get(choice, "delta") : get(choice, "message");
    const cJSON *text = chat ? get(message, "content") : get(choice, "text");
    const cJSON *logprobs = get(choice, "logprobs"), *reason = get(choice, "finish_reason");
    ck_assert_ptr_nonnull(logprobs);
    ck_assert_ptr_nonnull(reason);
    if (text != NULL)
        buffer_text(&sums->text, text->valuestring);
    sums->roles += get(message, "role") != NULL;
    if (chat && cJSON_IsObject(logprobs))
        extend(sums->tokens, get(logprobs, "content"));
    for (size_t i = 0; !chat && cJSON_IsObject(logprobs) && i < 4; i++) {
        if (get(sums->tokens, columns[i]) == NULL)
            cJSON_AddItemToObject(sums->tokens, columns[i], cJSON_CreateArray());
        extend(cJSON_GetObjectItemCaseSensitive(sums->tokens, columns[i]), get(logprobs, columns[i]));
    }
    extend(sums->ids, get(choice, "token_ids"));
    if (cJSON_IsString(reason)) {
        ck_assert_str_eq(sums->reason, "");
        snprintf(sums->reason, sizeof(sums->reason), "%s", reason->valuestring);
    }
}

static void add_object(struct sums *sums, const cJSON *object, bool chat, cJSON **usage_out)
{
    const cJSON *choice;
    cJSON_ArrayForEach(choice, get(object, "choices")) add_choice(&sums[get(choice, "index")->valueint], choice, chat);
    if (cJSON_IsObject(get(object, "usage"))) {
        ck_assert_ptr_null(*usage_out);
        *usage_out = cJSON_Duplicate(get(object, "usage"), true);
    }
}

/* Frames of a stream, or one body. */
static void add_bytes(struct sums *sums, char *bytes, bool stream, bool chat, cJSON **usage_out)
{
    if (!stream) {
        cJSON *object = cJSON_Parse(bytes);
        add_object(sums, object, chat, usage_out);
        cJSON_Delete(object);
        return;
    }
    for (char *frame = bytes, *end; *frame != '\0'; frame = end + 2) {
        end = strstr(frame, "\n\n");
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        ck_assert_int_eq(strncmp(frame, "data: ", 6), 0);
        ck_assert_ptr_null(strchr(frame, '\n'));
        if (strcmp(frame, "data: [DONE]") == 0) {
            ck_assert_int_eq(end[2], '\0');
            return;
        }
        cJSON *object = cJSON_ParseWithOpts(frame + 6, NULL, true);
        ck_assert_ptr_nonnull(object);
        add_object(sums, object, chat, usage_out);
        cJSON_Delete(object);
    }
    ck_abort_msg("no [DONE]");
}

#define EVENTS_MAX 64

struct script {
    uint32_t choices;
    struct api_event events[EVENTS_MAX];
    size_t count;
};

/* Texts, tokens and stops of up to 4 choices in any order. */
static struct script draw_script(uint64_t *random)
{
    static const char *const texts[] = {"",     "a",      " word", "\n", "\"\\", "\xC3\xA9", "\xF0\x9F\x98\x80",
                                        "\x01", "data: x"};
    struct script script = {.choices = 1 + (uint32_t)test_random_below(random, 4)};
    bool stopped[4] = {false};
    uint32_t left = script.choices;
    script.events[script.count++] = (struct api_event){.type = API_EVENT_ACCEPTED, .tokens = tokens, .token_count = 3};
    script.events[script.count++] = (struct api_event){.type = API_EVENT_STARTED};
    while (left > 0) {
        uint32_t choice = (uint32_t)test_random_below(random, script.choices);
        bool stop = script.count > EVENTS_MAX - 8 || test_random_below(random, 8) == 0;
        if (stopped[choice])
            continue;
        struct api_event event = text_event(choice, texts[test_random_below(random, sizeof(texts) / sizeof(*texts))]);
        event.token_count = (uint32_t)test_random_below(random, 4);
        event.tokens = tokens + test_random_below(random, 4 - event.token_count + 1);
        if (stop) {
            event = (struct api_event){.type = API_EVENT_STOP, .choice = choice};
            event.stop_reason = test_random_below(random, 2) ? API_STOP_END : API_STOP_LENGTH;
            stopped[choice] = true;
            left--;
        }
        script.events[script.count++] = event;
    }
    script.events[script.count++] = (struct api_event){.type = API_EVENT_END, .usage = usage};
    return script;
}

static void open_sums(struct sums *sums, bool chat)
{
    for (size_t i = 0; i < 4; i++) {
        sums[i] =
            (struct sums){.tokens = chat ? cJSON_CreateArray() : cJSON_CreateObject(), .ids = cJSON_CreateArray()};
        buffer_text(&sums[i].text, "");
    }
}

static void close_sums(struct sums *sums)
{
    for (size_t i = 0; i < 4; i++) {
        buffer_free(&sums[i].text);
        cJSON_Delete(sums[i].tokens);
        cJSON_Delete(sums[i].ids);
    }
}

static void compare(const struct script *script, bool chat, bool logprobs, bool ids)
{
    struct sums sums[2][4];
    cJSON *usages[2] = {NULL, NULL};
    for (int stream = 0; stream < 2; stream++) {
        char body[512];
        snprintf(body, sizeof(body), "{%s,\"n\":%u,\"logprobs\":%s,\"return_token_ids\":%s%s}",
                 chat ? MESSAGES : "\"prompt\":\"p\"", script->choices,
                 !logprobs ? "null"
                 : chat    ? "true"
                           : "5",
                 ids ? "true" : "false", stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : "");
        struct buffer out = render(chat ? CHAT : COMPLETIONS, body, script->events, script->count);
        open_sums(sums[stream], chat);
        add_bytes(sums[stream], out.data, stream, chat, &usages[stream]);
        buffer_free(&out);
    }
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_str_eq(sums[0][i].text.data, sums[1][i].text.data);
        ck_assert_str_eq(sums[0][i].reason, sums[1][i].reason);
        ck_assert(cJSON_Compare(sums[0][i].tokens, sums[1][i].tokens, true) ||
                  (!chat && sums[1][i].tokens->child == NULL));
        ck_assert(cJSON_Compare(sums[0][i].ids, sums[1][i].ids, true));
        ck_assert_uint_eq(sums[1][i].roles, chat && i < script->choices);
        ck_assert_int_eq(sums[0][i].reason[0] != '\0', i < script->choices);
    }
    ck_assert(cJSON_IsObject(usages[0]) && cJSON_Compare(usages[0], usages[1], true));
    for (int stream = 0; stream < 2; stream++) {
        close_sums(sums[stream]);
        cJSON_Delete(usages[stream]);
    }
}

START_TEST(a_stream_adds_up_to_the_body)
{
    uint64_t random = test_seed() + 5;
    for (int round = 0; round < (test_long() ? 20000 : 1000); round++) {
        struct script script = draw_script(&random);
        compare(&script, round & 1, round & 2, round & 4);
    }
}
END_TEST

START_TEST(prompt_ids_come_once_when_asked)
{
    static const char *const bodies[][2] = {
        {CHAT, "{\"return_token_ids\":true," MESSAGES "}"},
        {CHAT, "{\"stream\":true,\"n\":2,\"return_token_ids\":true," MESSAGES "}"},
        {COMPLETIONS, "{\"return_token_ids\":true,\"prompt\":\"a\"}"},
        {COMPLETIONS, "{\"stream\":true,\"return_token_ids\":true,\"prompt\":\"a\"}"},
    };
    struct api_event events[SIMPLE + 1];
    events[0] = simple[0];
    events[1] = (struct api_event){.type = API_EVENT_PROMPT, .tokens = tokens, .token_count = 2};
    memcpy(events + 2, simple + 1, sizeof(simple) - sizeof(*simple));
    for (size_t i = 0; i < 4; i++) {
        struct buffer out = render(bodies[i][0], bodies[i][1], events, SIMPLE + 1);
        const char *first = strstr(out.data, "\"prompt_token_ids\":[1,2]");
        ck_assert_ptr_nonnull(first);
        ck_assert_ptr_null(strstr(first + 10, "prompt_token_ids"));
        buffer_free(&out);
    }
}
END_TEST

/* ---- tokenize, detokenize ---- */

START_TEST(tokenize_answers_in_both_shapes)
{
    struct api_event events[] = {{.type = API_EVENT_TOKENS, .tokens = tokens, .token_count = 2},
                                 {.type = API_EVENT_END}};
    struct buffer out = render("/tokenize", "{\"prompt\":\"a\"}", events, 2);
    ck_assert_str_eq(out.data, "{\"count\":2,\"max_model_len\":4096,\"tokens\":[1,2],\"token_strs\":null}");
    buffer_free(&out);
    out = render("/tokenize", "{\"prompt\":\"a\",\"return_token_strs\":true}", events, 2);
    ck_assert_str_eq(out.data,
                     "{\"count\":2,\"max_model_len\":4096,\"tokens\":[1,2],\"token_strs\":[\"a\",\"\xEF\xBF\xBD\"]}");
    buffer_free(&out);
    out = render("/tokenize", "{\"content\":\"a\",\"with_pieces\":true}", events, 2);
    ck_assert_str_eq(out.data, "{\"count\":2,\"max_model_len\":4096,\"tokens\":[{\"id\":1,\"piece\":\"a\"},"
                               "{\"id\":2,\"piece\":[226,130]}],\"token_strs\":null}");
    buffer_free(&out);
    out = render("/tokenize", "{\"prompt\":\"\"}", events + 1, 1);
    ck_assert_str_eq(out.data, "{\"count\":0,\"max_model_len\":4096,\"tokens\":[],\"token_strs\":null}");
    buffer_free(&out);
}
END_TEST

START_TEST(detokenize_answers_in_both_shapes)
{
    struct api_event events[] = {{.type = API_EVENT_TOKENS, .text = "a\"b", .text_size = 3}, {.type = API_EVENT_END}};
    struct buffer out = render("/detokenize", "{\"tokens\":[1]}", events, 2);
    ck_assert_str_eq(out.data, "{\"prompt\":\"a\\\"b\",\"content\":\"a\\\"b\"}");
    buffer_free(&out);
}
END_TEST

Suite *suite(void)
{
    Suite *reply_suite = suite_create("api/reply");
    TCase *test_case = tcase_create("reply");
    tcase_add_test(test_case, a_chat_body_is_this);
    tcase_add_test(test_case, a_chat_stream_is_this);
    tcase_add_test(test_case, a_completions_body_and_stream_are_these);
    tcase_add_test(test_case, usage_in_a_stream_only_when_asked);
    tcase_add_test(test_case, the_tier_is_named_when_the_request_named_one);
    tcase_add_test(test_case, roles_come_first_and_once_for_each_choice);
    tcase_add_test(test_case, failures_look_the_same_in_both_forms);
    tcase_add_test(test_case, chat_logprobs_are_these);
    tcase_add_test(test_case, completions_logprobs_are_these);
    tcase_add_test(test_case, a_stream_adds_up_to_the_body);
    tcase_add_test(test_case, prompt_ids_come_once_when_asked);
    tcase_add_test(test_case, tokenize_answers_in_both_shapes);
    tcase_add_test(test_case, detokenize_answers_in_both_shapes);
    suite_add_tcase(reply_suite, test_case);
    return reply_suite;
}
