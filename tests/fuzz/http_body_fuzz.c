/* A request's body at an endpoint that takes one: the first byte chooses the endpoint, the second what happens to
 * the request, the rest is the body. It is refused with a 4xx and a reason, or answered, and the answer is JSON or
 * events. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/utf8.h"
#include "tests/fuzz/fuzz.h"

#define HEAD 2
#define TURNS 12

static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/tokenize",
                                    "/detokenize",          "/apply-template", "/v1/embeddings"};

struct play {
    const struct api_call *call;
    struct api_reply *reply;
    struct buffer out;
    uint64_t random;
};

static uint32_t below(struct play *play, uint32_t limit)
{
    play->random = play->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(play->random >> 33) % limit;
}

static void feed(struct play *play, const struct api_event *event)
{
    api_reply_event(play->reply, event, &play->out);
    bool last = event->type == API_EVENT_END || event->type == API_EVENT_ERROR;
    CHECK(!play->out.failed);
    CHECK(play->call->stream || last || play->out.size == 0);
    if (play->call->stream && !last && below(play, 4) == 0)
        api_reply_keepalive(play->reply, &play->out);
}

/* Tokens' bytes need not be whole characters, or characters at all. */
static struct api_token draw_token(struct play *play, const struct api_token *top, uint32_t top_count)
{
    static const char *const texts[] = {"a",        "",          "\xC3", "\xA9", "\"\\\n\x01", "\xE2\x80\xA8",
                                        "\xFF\xFE", "<|im_end|>"};
    const char *text = texts[below(play, sizeof(texts) / sizeof(texts[0]))];
    static const float logprobs[] = {0, -0.5F, -INFINITY, NAN};
    return (struct api_token){.id = (int32_t)below(play, 1000),
                              .text = text,
                              .size = strlen(text),
                              .logprob = logprobs[below(play, 4)],
                              .top = top_count > 0 ? top : NULL,
                              .top_count = top_count};
}

static void feed_text(struct play *play)
{
    static const char *const texts[] = {"Hello",        "",          "\"\\\n\t\x01", "\xC3\xA9\xF0\x9F\x98\x80",
                                        "\xE2\x80\xA8", "data: \n\n"};
    const struct api_call *call = play->call;
    struct api_token top[API_TOP_LOGPROBS_MAX + 1], tokens[3];
    const char *text = texts[below(play, sizeof(texts) / sizeof(texts[0]))];
    uint32_t count = call->logprobs || call->return_token_ids ? below(play, 4) : 0;
    for (uint32_t i = 0; i < call->top_logprobs; i++)
        top[i] = draw_token(play, NULL, 0);
    for (uint32_t i = 0; i < count; i++)
        tokens[i] = draw_token(play, top, call->logprobs ? call->top_logprobs : 0);
    feed(play, &(struct api_event){.type = API_EVENT_TEXT,
                                   .choice = below(play, api_call_choices(call)),
                                   .text = text,
                                   .text_size = strlen(text),
                                   .tokens = tokens,
                                   .token_count = count});
}

static void feed_error(struct play *play)
{
    struct api_event event = {.type = API_EVENT_ERROR};
    error_field(&event.error, STATUS_BUSY, "a\xFF", "the queue is \"full\"");
    feed(play, &event);
}

static void generate(struct play *play)
{
    struct api_token prompt[2] = {{.id = 1}, {.id = 999}};
    struct api_usage usage = {.prompt_tokens = 2, .cached_tokens = 1, .completion_tokens = TURNS};
    const struct api_call *call = play->call;
    feed(play, &(struct api_event){.type = API_EVENT_ACCEPTED, .usage = usage});
    for (uint32_t i = 0; call->return_token_ids && i < api_call_prompts(call); i++)
        feed(play, &(struct api_event){
                       .type = API_EVENT_PROMPT, .choice = i * call->choices, .tokens = prompt, .token_count = 2});
    feed(play, &(struct api_event){.type = API_EVENT_STARTED, .usage = usage});
    for (uint32_t i = 0; i < TURNS; i++)
        feed_text(play);
    if (below(play, 4) == 0) {
        feed_error(play);
        return;
    }
    for (uint32_t i = 0; i < api_call_choices(call); i++)
        feed(play, &(struct api_event){
                       .type = API_EVENT_STOP, .choice = i, .stop_reason = (enum api_stop_reason)below(play, 2)});
    feed(play, &(struct api_event){.type = API_EVENT_END, .usage = usage});
}

static void answer(struct play *play)
{
    struct api_token tokens[3];
    struct api_event event = {.type = API_EVENT_TOKENS, .usage = {.prompt_tokens = 3}};
    if (play->call->kind == API_TOKENIZE) {
        for (uint32_t i = 0; i < 3; i++)
            tokens[i] = draw_token(play, NULL, 0);
        event.tokens = tokens;
        event.token_count = 3;
    } else {
        event.text = "caf\xC3\xA9 \"";
        event.text_size = strlen(event.text);
    }
    feed(play, &event);
    feed(play, &(struct api_event){.type = API_EVENT_END, .usage = event.usage});
}

static void check_prompt(const struct api_prompt *prompt)
{
    for (uint32_t i = 0; i < prompt->id_count; i++)
        CHECK(prompt->ids[i] >= 0 && (uint32_t)prompt->ids[i] < test_facts.vocabulary);
    CHECK((prompt->text == NULL) != (prompt->ids == NULL));
    if (prompt->text != NULL)
        CHECK(utf8_invalid_at(prompt->text, prompt->size) == prompt->size);
}

static void check_call(const struct api_call *call)
{
    CHECK(call->choices >= 1 && call->choices <= test_facts.choices_max);
    CHECK(call->top_logprobs <= API_TOP_LOGPROBS_MAX && call->stop_count <= API_STOP_STRINGS_MAX);
    CHECK(call->sampling.temperature >= 0 && call->sampling.top_p > 0 && call->sampling.top_p <= 1);
    CHECK(call->sampling.min_p >= 0 && call->sampling.min_p <= 1);
    for (uint32_t i = 0; i < call->prompt_count; i++)
        check_prompt(&call->prompts[i]);
    for (uint32_t i = 0; i < call->stop_id_count; i++)
        CHECK(call->stop_ids[i] >= 0 && (uint32_t)call->stop_ids[i] < test_facts.vocabulary);
    for (uint32_t i = 0; i < call->stop_count; i++)
        CHECK(call->stop[i].size > 0);
    CHECK(!call->is_chat || call->chat.messages->count > 0);
}

static void play_out(const struct api_call *call, uint8_t seed)
{
    struct play play = {.call = call, .random = seed};
    struct error error;
    check_call(call);
    CHECK(api_reply_open(call, &test_facts, "ID", &play.reply, &error) == STATUS_OK);
    if (call->kind != API_CHAT && call->kind != API_COMPLETION)
        answer(&play);
    else
        generate(&play);
    if (call->stream)
        fuzz_check_events(play.out.data, play.out.size);
    else
        fuzz_check_json(play.out.data, play.out.size);
    api_reply_close(play.reply);
    buffer_free(&play.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *rest, *allow;
    struct api_call *call;
    struct error error = {0};
    if (size < HEAD)
        return 0;
    const char *path = paths[fuzz_choice(data[0], sizeof(paths) / sizeof(paths[0]))];
    const struct api_endpoint *endpoint = api_endpoint_find("POST", path, &rest, &allow, &error);
    CHECK(endpoint != NULL);
    char *body = fuzz_copy(data + HEAD, size - HEAD);
    enum status status = api_call_open(endpoint, body, size - HEAD, &test_facts, &call, &error);
    free(body); /* a call keeps nothing of it */
    if (status == STATUS_OK)
        play_out(call, data[1]);
    else
        fuzz_check_refusal(status, &error);
    api_call_close(call);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    return fuzz_mutate_json(data, size, size_max, seed);
}
