/* One prepare thread: an arena and a tokenizer's scratch of its own, one request at a time. */
#include "server/engine/prepare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kernels/base/arena.h"
#include "kernels/base/check.h"
#include "kernels/base/log.h"
#include "kernels/base/thread.h"
#include "model/text/detokenizer.h"
#include "model/text/tokenizer.h"
#include "server/engine/admission.h"
#include "server/engine/engine_state.h"
#include "server/engine/identity.h"
#include "server/engine/prompt.h"

struct prepare {
    struct engine *engine;
    uint64_t *progress_ns; /* in engine->beats */
    struct thread thread;
    struct tokenizer_scratch *scratch;
    struct arena arena; /* of one request */
};

static const char *prompt_field(const struct api_call *call)
{
    return call->is_chat ? "messages" : "prompt";
}

/* ---- prompt to ids ---- */

static enum status render_chat(struct prepare *prepare, const struct api_call *call, struct chat_prompt *prompt,
                               struct error *error)
{
    const struct engine_args *args = &prepare->engine->args;
    if (args->chat_template == NULL)
        return error_field(error, STATUS_UNSUPPORTED, "messages",
                           "the model %s has no chat template; give it a prompt as text or tokens", args->model_id);
    return prompt_render(args->chat_template, &call->chat, &prepare->arena, prompt, error);
}

static enum status read_chat(struct prepare *prepare, const struct api_call *call, struct tokenizer_ids *ids,
                             struct error *error)
{
    const struct engine_args *args = &prepare->engine->args;
    struct chat_prompt prompt;
    if (render_chat(prepare, call, &prompt, error) != STATUS_OK)
        return error->status;
    return prompt_tokenize(args->tokenizer, prepare->scratch, &prompt, ids, error);
}

static enum status copy_ids(const struct api_prompt *prompt, struct tokenizer_ids *ids, struct error *error)
{
    size_t bytes = prompt->id_count * sizeof(*ids->ids);
    ids->ids = malloc(bytes + 1);
    if (ids->ids == NULL)
        return error_no_memory(error, "a prompt's tokens");
    if (bytes > 0)
        memcpy(ids->ids, prompt->ids, bytes);
    ids->count = ids->capacity = prompt->id_count;
    return STATUS_OK;
}

/* The ids of a call's `which`-th prompt. */
static enum status read_prompt(struct prepare *prepare, const struct api_call *call, uint32_t which,
                               struct tokenizer_ids *ids, struct error *error)
{
    if (call->is_chat)
        return read_chat(prepare, call, ids, error);
    CHECK(which < call->prompt_count);
    const struct api_prompt *prompt = &call->prompts[which];
    if (prompt->text == NULL)
        return copy_ids(prompt, ids, error);
    struct tokenizer_input input = {.text = prompt->text, .size = prompt->size, .add_bos = call->add_special_tokens};
    return tokenizer_encode(prepare->engine->args.tokenizer, prepare->scratch, &input, ids, error);
}

/* ---- calls that are answered at once ---- */

static enum status post_answer(struct engine_request *request, const struct api_event *answer, struct error *error)
{
    if (!mailbox_enlarge(&request->mailbox, answer))
        return error_no_memory(error, "the answer");
    CHECK(request_post(request, answer));
    return STATUS_OK;
}

static enum status answer_tokenize(struct prepare *prepare, struct engine_request *request, struct error *error)
{
    const struct tokenizer *tokenizer = prepare->engine->args.tokenizer;
    struct tokenizer_ids ids = {0};
    struct api_token *tokens = NULL;
    enum status status = read_prompt(prepare, request->call, 0, &ids, error);
    if (status != STATUS_OK)
        goto done;
    tokens = calloc(ids.count + 1, sizeof(*tokens));
    if (tokens == NULL || ids.count > UINT32_MAX) {
        status = error_no_memory(error, "the tokens of an answer");
        goto done;
    }
    for (size_t i = 0; i < ids.count; i++) {
        struct tokenizer_piece piece = {0};
        if (request->call->return_token_strings || request->call->return_pieces)
            tokenizer_piece(tokenizer, ids.ids[i], &piece);
        tokens[i] = (struct api_token){.id = ids.ids[i], .text = piece.data, .size = piece.size};
    }
    request->usage.prompt_tokens = (uint32_t)ids.count;
    struct api_event answer = {
        .type = API_EVENT_TOKENS,
        .tokens = tokens,
        .token_count = (uint32_t)ids.count,
        .usage = request->usage,
    };
    status = post_answer(request, &answer, error);
done:
    free(tokens);
    tokenizer_ids_free(&ids);
    return status;
}

static enum status answer_detokenize(struct prepare *prepare, struct engine_request *request, struct error *error)
{
    const struct api_call *call = request->call;
    struct detokenizer detokenizer = detokenizer_start(prepare->engine->args.tokenizer, !call->skip_special_tokens);
    const struct api_prompt *prompt = &call->prompts[0];
    struct buffer text = {0};
    for (uint32_t i = 0; i < prompt->id_count; i++)
        detokenizer_push(&detokenizer, prompt->ids[i], &text);
    detokenizer_finish(&detokenizer, &text);
    request->usage.prompt_tokens = prompt->id_count;
    struct api_event answer = {
        .type = API_EVENT_TOKENS, .text = text.data, .text_size = text.size, .usage = request->usage};
    enum status status =
        text.failed ? error_no_memory(error, "the text of an answer") : post_answer(request, &answer, error);
    buffer_free(&text);
    return status;
}

static enum status answer_template(struct prepare *prepare, struct engine_request *request, struct error *error)
{
    struct chat_prompt prompt;
    if (render_chat(prepare, request->call, &prompt, error) != STATUS_OK)
        return error->status;
    struct api_event answer = {.type = API_EVENT_TOKENS, .text = prompt.text, .text_size = prompt.size};
    return post_answer(request, &answer, error);
}

/* ---- generation ---- */

static enum status draw_seed(struct engine_request *request, struct error *error)
{
    const struct api_sampling *sampling = &request->call->sampling;
    if (sampling->has_seed) {
        request->has_seed = true;
        request->seed = sampling->seed;
        return STATUS_OK;
    }
    while (getrandom(&request->seed, sizeof(request->seed), 0) != (ssize_t)sizeof(request->seed)) {
        if (errno != EINTR)
            return error_set(error, STATUS_IO, "the system gives no random numbers: %s", strerror(errno));
    }
    request->has_seed = true;
    request->seed >>= 1; /* a client can send it again: seeds on the wire are signed */
    return STATUS_OK;
}

static enum status take_end_ids(struct engine_request *request, const struct tokenizer *tokenizer, struct error *error)
{
    const struct api_call *call = request->call;
    uint32_t own = 0;
    const int32_t *end_ids = tokenizer_end_ids(tokenizer, &own);
    if (call->ignore_eos)
        own = 0;
    request->end_ids = calloc((size_t)own + call->stop_id_count + 1, sizeof(*request->end_ids));
    if (request->end_ids == NULL)
        return error_no_memory(error, "a request's stop tokens");
    for (uint32_t i = 0; i < own; i++)
        request->end_ids[request->end_count++] = end_ids[i];
    for (uint32_t i = 0; i < call->stop_id_count; i++)
        request->end_ids[request->end_count++] = call->stop_ids[i];
    return STATUS_OK;
}

/* The choices of one prompt. */
static enum status take_sequences(struct engine_request *request, uint32_t which, const struct tokenizer_ids *ids,
                                  struct error *error)
{
    const struct engine *engine = request->engine;
    for (uint32_t i = 0; i < request->choices_each; i++) {
        struct sequence_args args = {
            .request = request,
            .of = &request->prompts[which],
            .tokenizer = engine->args.tokenizer,
            .call = request->call,
            .prompt = ids->ids,
            .prompt_count = (uint32_t)ids->count,
            .tokens_max = request->prompts[which].tokens_max,
            .end_ids = request->end_ids,
            .end_count = request->end_count,
            .seed = request->seed,
            .choice = which * request->choices_each + i,
            .draw = i,
        };
        request->bytes += sequence_bytes(&args);
        if (admission_check_memory(engine->request_bytes_max, request->bytes, request->call, error) != STATUS_OK ||
            sequence_open(&args, &request->sequences[args.choice], error) != STATUS_OK)
            return error->status;
    }
    return STATUS_OK;
}

/* Ids are given back as text with the control tokens that they name. */
static enum status take_echo(struct engine_request *request, uint32_t which, const struct tokenizer_ids *ids,
                             struct error *error)
{
    struct request_prompt *prompt = &request->prompts[which];
    const struct api_prompt *given = &request->call->prompts[which];
    prompt->echo = given->text;
    prompt->echo_size = given->size;
    if (given->text != NULL)
        return STATUS_OK;
    struct detokenizer detokenizer = detokenizer_start(request->engine->args.tokenizer, true);
    for (size_t i = 0; i < ids->count; i++)
        detokenizer_push(&detokenizer, ids->ids[i], &prompt->decoded);
    detokenizer_finish(&detokenizer, &prompt->decoded);
    prompt->echo = prompt->decoded.data;
    prompt->echo_size = prompt->decoded.size;
    return prompt->decoded.failed ? error_no_memory(error, "a prompt's text") : STATUS_OK;
}

static enum status prepare_prompt(struct prepare *prepare, struct engine_request *request, uint32_t which,
                                  struct error *error)
{
    const struct engine *engine = prepare->engine;
    struct request_prompt *prompt = &request->prompts[which];
    struct admission_limits limits = {
        .context = engine->context,
        .pool_tokens_max = engine->pool_tokens_max,
        .sequences_max = engine->args.sequences_max,
    };
    struct tokenizer_ids ids = {0};
    enum status status = admission_check_choices(&limits, request->choices_each, error);
    if (status == STATUS_OK)
        status = read_prompt(prepare, request->call, which, &ids, error);
    if (ids.unknown_bytes > 0)
        log_event(LOG_DEBUG, "bytes_left_out", /* the vocabulary has no token for them */
                  (struct log_field[]){log_text("id", request->id), log_integer("bytes", (int64_t)ids.unknown_bytes)},
                  2);
    if (status == STATUS_OK)
        status = admission_check_prompt(&limits, request->call, ids.count, &prompt->tokens_max, error);
    if (status == STATUS_OK) {
        prompt->count = (uint32_t)ids.count;
        request->usage.prompt_tokens += prompt->count;
        status = request->call->echo ? take_echo(request, which, &ids, error) : STATUS_OK;
    }
    if (status == STATUS_OK) {
        size_t bytes = request_prompt_bytes(request, prompt);
        request->prompt_bytes += bytes;
        request->bytes += 2 * bytes;
        status = take_sequences(request, which, &ids, error);
    }
    tokenizer_ids_free(&ids);
    return status;
}

/* A batch takes long: whether anybody still waits for it is looked at between its prompts. */
static enum status prepare_generation(struct prepare *prepare, struct engine_request *request, struct error *error)
{
    const struct engine *engine = prepare->engine;
    const struct api_call *call = request->call;
    request->prompts = calloc(request->prompt_count, sizeof(*request->prompts));
    request->sequences = calloc(request->choices, sizeof(*request->sequences));
    if (request->prompts == NULL || request->sequences == NULL)
        return error_no_memory(error, "a request's sequences");
    enum status status = draw_seed(request, error);
    if (status == STATUS_OK)
        status = take_end_ids(request, engine->args.tokenizer, error);
    if (status == STATUS_OK)
        status = identity_root(&engine->identity, request->space, call->cache_salt, call->cache_salt_size,
                               &request->root, error);
    for (uint32_t i = 0; i < request->prompt_count && status == STATUS_OK && !request_cancelled(request); i++)
        status = prepare_prompt(prepare, request, i, error);
    if (status == STATUS_OK && !request_cancelled(request))
        status = request_make_room(request, error);
    return status;
}

/* ---- the thread ---- */

static enum status answer_or_prepare(struct prepare *prepare, struct engine_request *request, struct error *error)
{
    enum status status;
    switch (request->call->kind) {
    case API_TOKENIZE:
        status = answer_tokenize(prepare, request, error);
        break;
    case API_DETOKENIZE:
        status = answer_detokenize(prepare, request, error);
        break;
    case API_APPLY_TEMPLATE:
        status = answer_template(prepare, request, error);
        break;
    default:
        status = prepare_generation(prepare, request, error);
        break;
    }
    if (status != STATUS_OK && error->field[0] == '\0' && status == STATUS_INVALID)
        memcpy(error->field, prompt_field(request->call), strlen(prompt_field(request->call)) + 1);
    return status;
}

/* What follows takes long each time for a large body: a cancel is looked at between. */
static enum status work(struct prepare *prepare, struct engine_request *request, struct error *error)
{
    if (request_cancelled(request))
        return request_cancel_error(request, error);
    enum status status = request_parse(request, error);
    if (status == STATUS_OK && !request_cancelled(request))
        status = answer_or_prepare(prepare, request, error);
    if (status == STATUS_OK && request_cancelled(request))
        return request_cancel_error(request, error);
    return status;
}

static enum status post_prompt_ids(struct engine_request *request, uint32_t which, struct error *error)
{
    const struct request_prompt *prompt = &request->prompts[which];
    const struct sequence *first = &request->sequences[which * request->choices_each];
    struct api_token *tokens = calloc((size_t)prompt->count + 1, sizeof(*tokens));
    if (tokens == NULL)
        return error_no_memory(error, "the prompt's tokens");
    for (uint32_t i = 0; i < prompt->count; i++)
        tokens[i].id = first->ids[i];
    struct api_event event = {
        .type = API_EVENT_PROMPT, .choice = first->choice, .tokens = tokens, .token_count = prompt->count};
    CHECK(request_post(request, &event));
    free(tokens);
    return STATUS_OK;
}

static enum status post_accepted(struct engine_request *request, struct error *error)
{
    struct api_event event = {.type = API_EVENT_ACCEPTED, .usage = request->usage};
    enum status status = STATUS_OK;
    request->accepted = true;
    request_post(request, &event);
    for (uint32_t i = 0; request->call->return_token_ids && i < request->prompt_count && status == STATUS_OK; i++)
        status = post_prompt_ids(request, i, error);
    return status;
}

static void hand_over(struct engine *engine, struct engine_request *request)
{
    pthread_mutex_lock(&engine->lock);
    if (request->counts_as_waiting) {
        engine->waiting_by_length[request->length]--;
        request->length = stats_length(request->usage.prompt_tokens);
        engine->waiting_by_length[request->length]++;
    }
    request_queue_push(&engine->arrivals, request);
    engine_begin_work(&engine->beats.loop_ns);
    pthread_cond_signal(&engine->loop_wake);
    pthread_mutex_unlock(&engine->lock);
}

static void handle(struct prepare *prepare, struct engine_request *request)
{
    struct engine *engine = prepare->engine;
    struct error error = {0};
    enum status status = work(prepare, request, &error);
    arena_reset(&prepare->arena);
    bool goes_on = status == STATUS_OK && api_kind_generates(request->call->kind);
    if (goes_on)
        status = post_accepted(request, &error);
    if (goes_on && status == STATUS_OK) {
        hand_over(engine, request);
        return;
    }
    engine_waits_no_more(engine, request);
    request_end(request, status == STATUS_OK ? NULL : &error);
    request_let_go(request);
}

static struct engine_request *next_request(struct prepare *prepare)
{
    struct engine *engine = prepare->engine;
    pthread_mutex_lock(&engine->lock);
    *prepare->progress_ns = 0;
    while (!engine->prepare_stopping && engine->to_prepare.first == NULL)
        pthread_cond_wait(&engine->prepare_wake, &engine->lock);
    struct engine_request *request = engine->prepare_stopping ? NULL : request_queue_pop(&engine->to_prepare);
    *prepare->progress_ns = clock_ns();
    engine->beats.queue_ns = engine->to_prepare.first == NULL ? 0 : *prepare->progress_ns;
    pthread_mutex_unlock(&engine->lock);
    return request;
}

static void run(void *context)
{
    struct prepare *prepare = context;
    struct engine_request *request;
    while ((request = next_request(prepare)) != NULL)
        handle(prepare, request);
}

enum status prepare_open(struct engine *engine, uint64_t *progress_ns, struct prepare **out, struct error *error)
{
    struct prepare *prepare = calloc(1, sizeof(*prepare));
    if (prepare == NULL)
        return error_no_memory(error, "a prepare thread");
    prepare->engine = engine;
    prepare->progress_ns = progress_ns;
    if (tokenizer_scratch_open(engine->args.tokenizer, &prepare->scratch, error) != STATUS_OK)
        goto fail;
    if (thread_start("prepare", run, prepare, &prepare->thread, error) != STATUS_OK)
        goto fail;
    *out = prepare;
    return STATUS_OK;
fail:
    if (prepare->scratch != NULL)
        tokenizer_scratch_close(prepare->scratch);
    free(prepare);
    return error->status;
}

void prepare_close(struct prepare *prepare)
{
    thread_join(&prepare->thread);
    tokenizer_scratch_close(prepare->scratch);
    arena_free(&prepare->arena);
    free(prepare);
}
