/* Every row of every endpoint's field tables, through whole requests: good values, bad values, null. Rows are tried by
 * what they say of themselves; those with a parser or a refusal of their own have samples here too, and one without a
 * sample fails. */
#include "api/field.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/endpoint/endpoints.h"
#include "api/openai_fields.h"
#include "tests/unit/api/requests.h"
#include "tests/unit/unit.h"

#define VALUES_MAX 24

struct sample {
    const char *path; /* NULL: any */
    const char *field;
    const char *good[VALUES_MAX]; /* up to NULL */
    const char *bad[VALUES_MAX];
};

#define MESSAGE "{\"role\":\"user\",\"content\":\"a\"}"
#define CHAT "/v1/chat/completions"
#define COMPLETIONS "/v1/completions"

static const struct sample samples[] = {
    {NULL, "model", {"\"any name\"", "\"\""}, {"1"}},
    {NULL, "stream_options", {NULL}, {"{}", "{\"include_usage\":true}", "1"}}, /* without stream */
    {NULL, "max_tokens", {"0", "1", "32000", "1e6", "9223372036854775807"}, {"-1", "1.5", "\"5\"", "true", "1e30"}},
    {NULL, "max_completion_tokens", {"0", "7.0"}, {"-1", "{}"}},
    {NULL, "top_k", {"-1", "0", "1", "40.0", "2147483647"}, {"-2", "1.5", "4294967296", "\"1\""}},
    {NULL,
     "logit_bias",
     {"{}", "{\"0\":-100,\"999\":100,\"5\":0.5}"},
     {"[]", "{\"1000\":1}", "{\"01\":1}", "{\"-1\":1}", "{\"a\":1}", "{\"\":1}", "{\" 1\":1}", "{\"1\":101}",
      "{\"1\":null}", "{\"99999999999\":1}", "{\"1\":\"1\"}"}},
    {NULL,
     "seed",
     {"0", "-1", "9223372036854775807", "-9223372036854775808", "1.0"},
     {"9223372036854775808", "1.5", "\"1\"", "true"}},
    {NULL,
     "stop",
     {"\"a\"", "[]", "[\"a\",\"b\"]"},
     {"\"\"", "[\"\"]", "[\"a\",1]", "[null]", "1", "{}",
      "[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\",\"13\",\"14\",\"15\",\"16\","
      "\"17\"]"}},
    {NULL, "stop_token_ids", {"[]", "[0,999,5.0]"}, {"[1000]", "[-1]", "[\"1\"]", "5", "[1.5]"}},
    {NULL, "cache_salt", {"\"a\""}, {"\"\"", "1", "[]"}},
    {NULL, "service_tier", {"\"auto\"", "\"default\""}, {NULL}},
    {NULL, "reasoning_format", {"\"none\"", "\"auto\""}, {"\"deepseek\"", "1"}},
    {NULL,
     "response_format",
     {"{\"type\":\"text\"}"},
     {"{\"type\":\"json_object\"}", "{\"type\":\"json_schema\",\"json_schema\":{}}", "{\"type\":\"other\"}", "{}",
      "\"text\""}},

    {CHAT, "messages", {"[" MESSAGE "]"}, {"[]", "{}", "\"a\"", "[1]", "[null]", "[[]]", "[{}]"}},
    {NULL,
     "chat_template_kwargs",
     {"{}", "{\"enable_thinking\":false,\"a\":[1,{\"b\":null}]}"},
     {"[]", "1", "{\"messages\":[]}", "{\"tools\":[]}", "{\"add_generation_prompt\":true}",
      "{\"chat_template\":\"a\"}"}},
    {NULL,
     "reasoning_effort",
     {"\"none\"", "\"minimal\"", "\"low\"", "\"medium\"", "\"high\"", "\"xhigh\"", "\"max\""},
     {"\"most\"", "1", "\"\""}},
    {CHAT,
     "tool_choice",
     {"\"none\"", "\"auto\""},
     {"\"required\"", "{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"}},
    {CHAT, "function_call", {"\"none\"", "\"auto\""}, {"{\"name\":\"f\"}"}},
    {CHAT, "modalities", {"[\"text\"]", "[]"}, {"[\"text\",\"audio\"]", "\"text\"", "[1]"}},

    {COMPLETIONS,
     "prompt",
     {"\"a\"", "\"\"", "[\"a\"]", "[1,2,999]", "[[5]]", "[1.0]", "[\"a\",\"b\"]", "[[1],[2,3]]"},
     {"[]", "[[]]", "[\"a\",[1]]", "[[1],[]]", "[[1],\"a\"]", "[\"a\",1]", "[1,\"a\"]", "[1000]", "[-1]", "1", "{}",
      "[[[1]]]", "[null]", "[1.5]"}},
    {COMPLETIONS, "logprobs", {"0", "5", "20"}, {"21", "-1", "true", "\"1\""}},
    {COMPLETIONS, "best_of", {"0", "1"}, {"2", "-1", "true"}},

    {"/tokenize", "prompt", {"\"a\"", "\"\""}, {"1", "[1]", "[\"a\"]"}},
    {"/apply-template", "messages", {"[" MESSAGE "]"}, {"[]", "[1]"}},
    {"/tokenize", "content", {"\"a\"", "\"\""}, {"1", "[]"}},
    {"/tokenize", "messages", {"[" MESSAGE "]"}, {"[]", "1"}},
    {"/detokenize", "tokens", {"[]", "[1,2]"}, {"[1000]", "\"a\"", "[\"a\"]", "1"}},
};

static bool used[sizeof(samples) / sizeof(*samples)];

static void accept(const char *path, const char *field, const char *value)
{
    char *body = body_with(path, field, value);
    api_call_close(good_call(path, body));
    free(body);
}

/* The error must name the field, by its name or a path that begins with it. */
static void refuse(const char *path, const char *field, const char *value)
{
    char *body = body_with(path, field, value);
    struct error error = bad_call(path, body);
    ck_assert_msg(strncmp(error.field, field, strlen(field)) == 0, "%s: the error is on \"%s\": %s", body, error.field,
                  error.text);
    ck_assert_msg(strstr(error.text, field) != NULL || strcmp(field, "content") == 0, "%s: %s", body, error.text);
    ck_assert(error.code[0] != '\0');
    free(body);
}

static void try_samples(const char *path, const struct field *field)
{
    bool found = false;
    for (size_t i = 0; i < sizeof(samples) / sizeof(*samples); i++) {
        if (strcmp(samples[i].field, field->name) != 0 ||
            (samples[i].path != NULL && strcmp(samples[i].path, path) != 0))
            continue;
        found = used[i] = true;
        for (size_t k = 0; samples[i].good[k] != NULL; k++)
            accept(path, field->name, samples[i].good[k]);
        for (size_t k = 0; samples[i].bad[k] != NULL; k++)
            refuse(path, field->name, samples[i].bad[k]);
    }
    ck_assert_msg(found, "%s of %s has no sample", field->name, path);
}

/* Numbers, and what is none. */
static const char *const kinds[][2] = {{"true", "false"}, {"1", "0"},   {"1.5", "-0.5"},
                                       {"\"a\"", "\"\""}, {"[]", "[]"}, {"{}", "{}"}};
static const unsigned kind_types[] = {FIELD_BOOL,  FIELD_WHOLE | FIELD_NUMBER, FIELD_NUMBER, FIELD_STRING, FIELD_ARRAY,
                                      FIELD_OBJECT};

static void try_types(const char *path, const struct field *field)
{
    ck_assert_msg(field->types != 0, "%s of %s does not say what it takes", field->name, path);
    for (size_t i = 0; i < 6; i++) {
        bool right = (field->types & kind_types[i]) != 0;
        for (size_t k = 0; k < 2; k++) {
            if (!right)
                refuse(path, field->name, kinds[i][k]);
            else if (field->act == FIELD_HINT)
                accept(path, field->name, kinds[i][k]);
        }
    }
}

/* Values of a row whose refusal is one of the shared ones; false: it has one of its own. */
static bool try_shared_refusal(const char *path, const struct field *field)
{
    static const struct {
        bool (*harmless)(const cJSON *);
        const char *good[4], *bad[4];
    } rows[] = {
        {NULL, {NULL}, {"1", "\"a\"", "[]", "{}"}},
        {field_is_false, {"false"}, {"true", "0", "\"\""}},
        {field_is_empty, {"\"\"", "[]", "{}"}, {"\"a\"", "[1]", "{\"a\":1}", "0"}},
        {field_is_zero, {"0", "0.0", "false"}, {"1", "-1", "\"0\""}},
        {field_is_one, {"1", "1.0"}, {"0.5", "true", "\"1\""}},
        {field_is_minus_one, {"-1", "-1.0"}, {"1", "0", "\"-1\""}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (rows[i].harmless != field->harmless)
            continue;
        for (size_t k = 0; k < 4 && rows[i].good[k] != NULL; k++)
            accept(path, field->name, rows[i].good[k]);
        for (size_t k = 0; k < 4 && rows[i].bad[k] != NULL; k++)
            refuse(path, field->name, rows[i].bad[k]);
        return true;
    }
    return false;
}

static float call_float(const char *path, const struct field *field, const char *value)
{
    char *body = body_with(path, field->name, value);
    struct api_call *call = good_call(path, body);
    float number = *(const float *)((const char *)call + field->offset);
    api_call_close(call);
    free(body);
    return number;
}

static void try_float(const char *path, const struct field *field)
{
    char value[40];
    snprintf(value, sizeof(value), "%.17g", field->maximum);
    ck_assert_float_eq(call_float(path, field, value), (float)field->maximum);
    snprintf(value, sizeof(value), "%.17g", field->minimum);
    if (field->above_minimum)
        refuse(path, field->name, value);
    else
        ck_assert_float_eq(call_float(path, field, value), (float)field->minimum);
    if (field->above_minimum) /* too small for a float, and yet above */
        ck_assert_float_gt(call_float(path, field, "1e-300"), (float)field->minimum);
    snprintf(value, sizeof(value), "%.17g", nextafter(field->maximum, INFINITY));
    refuse(path, field->name, value);
    snprintf(value, sizeof(value), "%.17g", nextafter(field->minimum, -INFINITY));
    refuse(path, field->name, value);
    static const char *const bad[] = {"1e400", "-1e400", "\"1\"", "true", "[1]", "{}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        refuse(path, field->name, bad[i]);
}

/* Rules between fields make some values bad by themselves: they have tests of their own. */
static void try_whole(const char *path, const struct field *field)
{
    char value[40];
    snprintf(value, sizeof(value), "%.0f%s", field->minimum,
             strcmp(field->name, "top_logprobs") == 0 ? ",\"logprobs\":true" : "");
    accept(path, field->name, value);
    snprintf(value, sizeof(value), "%.0f", field->minimum - 1);
    refuse(path, field->name, value);
    snprintf(value, sizeof(value), "%.0f", field->maximum + 1);
    refuse(path, field->name, value);
    refuse(path, field->name, "1.5");
    refuse(path, field->name, "1e400");
}

static void try_row(const char *path, const struct field *field)
{
    bool needed = strcmp(field->name, "messages") == 0 || strcmp(field->name, "prompt") == 0 ||
                  strcmp(field->name, "tokens") == 0 || strcmp(field->name, "content") == 0;
    if (!needed)
        accept(path, field->name, "null");
    if (field->act == FIELD_REFUSE) {
        if (!try_shared_refusal(path, field))
            try_samples(path, field);
        return;
    }
    try_types(path, field);
    if (field->standard != NULL)
        accept(path, field->name, field->standard);
    if (field->minimum < field->maximum && (field->types & FIELD_WHOLE) != 0)
        try_whole(path, field);
    else if (field->minimum < field->maximum)
        try_float(path, field);
    if (field->parse != NULL)
        try_samples(path, field);
}

static const struct {
    const char *path;
    const struct field_table *table;
} tables[] = {
    {CHAT, &openai_chat_fields},
    {CHAT, &openai_fields},
    {COMPLETIONS, &openai_completions_fields},
    {COMPLETIONS, &openai_fields},
    {"/tokenize", &tokenize_fields},
    {"/detokenize", &detokenize_fields},
    {"/apply-template", &apply_template_fields},
};

#define TABLES (sizeof(tables) / sizeof(*tables))

START_TEST(every_row_takes_what_it_says_and_nothing_else)
{
    uint32_t acts[3] = {0};
    for (size_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < tables[t].table->count; i++) {
            const struct field *field = &tables[t].table->rows[i];
            try_row(tables[t].path, field);
            acts[field->act]++;
        }
    printf("rows: implement %u, hint %u, refuse %u\n", acts[FIELD_IMPLEMENT], acts[FIELD_HINT], acts[FIELD_REFUSE]);
    for (size_t i = 0; i < sizeof(used) / sizeof(*used); i++)
        ck_assert_msg(used[i], "the sample of %s belongs to no row", samples[i].field);
}
END_TEST

START_TEST(a_number_out_of_range_is_told_the_limits_that_mean_something)
{
    static const char *const rows[][2] = {
        {"{\"prompt\":\"a\",\"n\":0}", "n is 0; it must be a whole number from 1 to 128"},
        {"{\"prompt\":\"a\",\"max_tokens\":-1}", "max_tokens is -1; it must be a whole number, at least 0"},
        {"{\"prompt\":\"a\",\"seed\":1.5}", "seed is 1.5; it must be a whole number of at most 64 bits"},
        {"{\"prompt\":\"a\",\"temperature\":2.5}", "temperature is 2.5; it must be at least 0 and at most 2"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct error error = bad_call("/completions", rows[i][0]);
        ck_assert_str_eq(error.text, rows[i][1]);
    }
}
END_TEST

START_TEST(names_occur_once_in_a_request)
{
    const struct field_table *const pairs[][2] = {{&openai_chat_fields, &openai_fields},
                                                  {&openai_completions_fields, &openai_fields},
                                                  {&tokenize_fields, &tokenize_fields}};
    for (size_t p = 0; p < 3; p++)
        for (size_t i = 0; i < pairs[p][0]->count; i++)
            for (size_t j = 0; j < pairs[p][1]->count; j++)
                ck_assert(strcmp(pairs[p][0]->rows[i].name, pairs[p][1]->rows[j].name) != 0 || (p == 2 && i == j));
}
END_TEST

START_TEST(unknown_fields_are_ignored_and_noted)
{
    accept("/tokenize", "whatever", "1");
    struct api_call *call = good_call(CHAT, "{\"client_metadata\":{\"a\":1},\"messages\":[" MESSAGE
                                            "],\"Temperature\":9,\"user\":\"u\",\"z\":null}");
    ck_assert_uint_eq(call->unknown_count, 3);
    ck_assert_str_eq(call->unknown[0], "client_metadata");
    ck_assert_str_eq(call->unknown[1], "Temperature");
    ck_assert_str_eq(call->unknown[2], "z");
    api_call_close(call);
    struct buffer body = {0};
    buffer_text(&body, "{\"prompt\":\"a\"");
    for (int i = 0; i < 100; i++)
        buffer_printf(&body, ",\"%s%d\":0",
                      i == 1 ? "a name that goes on until its end is cut off, in the middle of \xC3\xA9" : "f", i);
    buffer_text(&body, "}");
    call = good_call(COMPLETIONS, body.data);
    ck_assert_uint_eq(call->unknown_count, 100);
    ck_assert_str_eq(call->unknown[1], "a name that goes on until its end is cut off, in the middle of ");
    ck_assert_str_eq(call->unknown[API_UNKNOWN_NAMES_MAX - 1], "f7");
    api_call_close(call);
    buffer_free(&body);
}
END_TEST

START_TEST(a_strict_server_takes_its_own_model_only)
{
    static const struct {
        const char *path, *rest;
    } rows[] = {{CHAT, "\"messages\":[" MESSAGE "]"},
                {COMPLETIONS, "\"prompt\":\"a\""},
                {"/tokenize", "\"prompt\":\"a\""},
                {"/detokenize", "\"tokens\":[1]"}};
    struct api_facts facts = test_facts;
    facts.strict_model = true;
    for (size_t i = 0; i < 4; i++) {
        static const char *const models[] = {"", "\"model\":null,", "\"model\":\"tiny\",", "\"model\":\"Tiny\",",
                                             "\"model\":\"\","};
        for (size_t m = 0; m < 5; m++) {
            struct buffer body = {0};
            struct api_call *call;
            struct error error = {0};
            buffer_printf(&body, "{%s%s}", models[m], rows[i].rest);
            enum status status =
                api_call_open(post_endpoint(rows[i].path), body.data, body.size, &facts, &call, &error);
            ck_assert_int_eq(status, m < 3 ? STATUS_OK : STATUS_NOT_FOUND);
            if (m >= 3) {
                ck_assert_uint_eq(api_error_status(&error), 404);
                ck_assert_str_eq(error.code, "model_not_found");
                ck_assert_str_eq(error.field, "model");
            }
            api_call_close(call);
            buffer_free(&body);
        }
    }
}
END_TEST

/* A default that is written down and one that is sent give the same call. */
START_TEST(the_default_of_a_row_is_what_absent_means)
{
    for (size_t t = 0; t < TABLES; t++)
        for (size_t i = 0; i < tables[t].table->count; i++) {
            const struct field *field = &tables[t].table->rows[i];
            size_t size = field->member == FIELD_BOOL_MEMBER ? sizeof(bool) : sizeof(float);
            /* tokenize has the default of the shape it is asked in: see below */
            if (field->member == FIELD_NO_MEMBER || strncmp(field->name, "add_special", 11) == 0)
                continue;
            char *bodies[2] = {body_with(tables[t].path, field->name, "null"),
                               body_with(tables[t].path, field->name, field->standard)};
            struct api_call *calls[2];
            for (size_t k = 0; k < 2; k++)
                calls[k] = good_call(tables[t].path, bodies[k]);
            ck_assert_msg(memcmp((char *)calls[0] + field->offset, (char *)calls[1] + field->offset, size) == 0,
                          "%s of %s", field->name, tables[t].path);
            for (size_t k = 0; k < 2; k++) {
                api_call_close(calls[k]);
                free(bodies[k]);
            }
        }
}
END_TEST

START_TEST(a_body_must_be_an_object_of_reasonable_size)
{
    static const char *const bodies[] = {"", "[]", "null", "\"a\"", "1", "{", "{}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++) {
        bad_call(CHAT, bodies[i]);
        bad_call(COMPLETIONS, bodies[i]);
        bad_call("/tokenize", bodies[i]);
        bad_call("/detokenize", bodies[i]);
    }
    struct buffer body = {0};
    buffer_text(&body, "{\"prompt\":\"a\"");
    for (int i = 0; i < FIELD_BODY_MEMBERS_MAX; i++)
        buffer_printf(&body, ",\"f%d\":0", i);
    buffer_text(&body, "}");
    bad_call(COMPLETIONS, body.data);
    buffer_free(&body);
}
END_TEST

START_TEST(defaults_are_those_of_the_wire)
{
    struct api_call *call = good_call(CHAT, "{\"messages\":[" MESSAGE "]}");
    ck_assert_str_eq(call->model, "tiny");
    ck_assert_float_eq(call->sampling.temperature, 1);
    ck_assert_float_eq(call->sampling.top_p, 1);
    ck_assert_float_eq(call->sampling.repetition_penalty, 1);
    ck_assert(!call->has_max_tokens && !call->stream && !call->sampling.has_seed && !call->add_special_tokens);
    ck_assert(call->skip_special_tokens && call->chat.add_generation_prompt);
    ck_assert_uint_eq(call->choices, 1);
    api_call_close(call);
    call = good_call(COMPLETIONS, "{\"prompt\":\"a\"}");
    ck_assert(call->has_max_tokens && call->add_special_tokens);
    ck_assert_uint_eq(call->max_tokens, 16);
    api_call_close(call);
}
END_TEST

START_TEST(values_arrive_in_the_call)
{
    struct api_call *call = good_call(
        CHAT, "{\"model\":\"m\",\"messages\":[" MESSAGE "],\"temperature\":0,\"top_k\":40,\"top_p\":0.5,\"min_p\":0.25,"
              "\"presence_penalty\":-2,\"frequency_penalty\":2,\"repetition_penalty\":1.5,\"seed\":-1,\"n\":3.0,"
              "\"logit_bias\":{\"7\":-100,\"8\":2.5},\"stop\":[\"x\",\"yz\"],\"stop_token_ids\":[4,5],\"min_tokens\":2,"
              "\"ignore_eos\":true,\"max_tokens\":5,\"max_completion_tokens\":9,\"logprobs\":true,\"top_logprobs\":4,"
              "\"return_token_ids\":true,\"stream\":true,\"stream_options\":{\"include_usage\":true},"
              "\"include_stop_str_in_output\":true,\"skip_special_tokens\":false}");
    ck_assert_str_eq(call->model, "m");
    ck_assert_float_eq(call->sampling.temperature, 0);
    ck_assert_uint_eq(call->sampling.top_k, 40);
    ck_assert_float_eq(call->sampling.top_p, 0.5F);
    ck_assert_float_eq(call->sampling.min_p, 0.25F);
    ck_assert_float_eq(call->sampling.presence_penalty, -2);
    ck_assert_float_eq(call->sampling.frequency_penalty, 2);
    ck_assert_float_eq(call->sampling.repetition_penalty, 1.5F);
    ck_assert(call->sampling.has_seed && call->sampling.seed == UINT64_MAX);
    ck_assert_uint_eq(call->choices, 3);
    ck_assert_uint_eq(call->sampling.bias_count, 2);
    ck_assert(call->sampling.bias[0].id == 7 && call->sampling.bias[0].value == -100);
    ck_assert(call->sampling.bias[1].id == 8 && call->sampling.bias[1].value == 2.5F);
    ck_assert_uint_eq(call->stop_count, 2);
    ck_assert_str_eq(call->stop[1].text, "yz");
    ck_assert(call->stop_id_count == 2 && call->stop_ids[1] == 5);
    ck_assert(call->min_tokens == 2 && call->ignore_eos && call->max_tokens == 9);
    ck_assert(call->logprobs && call->top_logprobs == 4 && call->return_token_ids);
    ck_assert(call->stream && call->include_usage && call->include_stop_text && !call->skip_special_tokens);
    api_call_close(call);
}
END_TEST

START_TEST(rules_between_fields_hold)
{
#define WITH(fields) "{\"messages\":[" MESSAGE "]," fields "}"
    static const struct {
        const char *body, *field; /* NULL: good */
    } rows[] = {
        {WITH("\"stream\":false,\"stream_options\":{\"include_usage\":true}"), "stream_options"},
        {WITH("\"stream\":null,\"stream_options\":null"), NULL},
        {WITH("\"stream_options\":{\"include_usage\":1},\"stream\":true"), "stream_options.include_usage"},
        {WITH("\"stream\":true,\"stream_options\":{\"include_usage\":null,\"include_obfuscation\":false}"), NULL},
        {WITH("\"top_logprobs\":3"), "top_logprobs"},
        {WITH("\"top_logprobs\":3,\"logprobs\":false"), "top_logprobs"},
        {WITH("\"top_logprobs\":21,\"logprobs\":true"), "top_logprobs"},
        {WITH("\"top_logprobs\":20,\"logprobs\":true"), NULL},
        {WITH("\"top_logprobs\":0"), NULL},
        {WITH("\"min_tokens\":6,\"max_tokens\":5"), "min_tokens"},
        {WITH("\"min_tokens\":6"), NULL},
        {WITH("\"max_tokens\":-1,\"max_completion_tokens\":5"), "max_tokens"},
        {WITH("\"n\":8"), NULL},
        {WITH("\"n\":9"), "n"}, /* what runs at once, not what the wire allows */
        {WITH("\"max_completion_tokens\":null,\"max_tokens\":-1"), "max_tokens"},
        {WITH("\"continue_final_message\":true"), NULL},
        {WITH("\"continue_final_message\":true,\"add_generation_prompt\":false"), NULL},
        {WITH("\"continue_final_message\":true,\"add_generation_prompt\":true"), "continue_final_message"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        if (rows[i].field == NULL)
            api_call_close(good_call(CHAT, rows[i].body));
        else
            ck_assert_str_eq(bad_call(CHAT, rows[i].body).field, rows[i].field);
    }
    api_call_close(good_call(COMPLETIONS, "{\"prompt\":\"a\",\"n\":2,\"best_of\":2}"));
    ck_assert_str_eq(bad_call(COMPLETIONS, "{\"prompt\":\"a\",\"n\":2,\"best_of\":1}").field, "best_of");
    ck_assert_str_eq(bad_call(COMPLETIONS, "{\"prompt\":null}").field, "prompt");
    ck_assert_str_eq(bad_call("/tokenize", "{\"prompt\":\"a\",\"content\":\"a\"}").field, "content");
    ck_assert_str_eq(bad_call("/tokenize", "{\"messages\":[" MESSAGE "],\"prompt\":\"a\"}").field, "prompt");
    ck_assert_str_eq(bad_call("/tokenize", "{\"messages\":[" MESSAGE "],\"add_special_tokens\":true}").field,
                     "add_special_tokens");
}
END_TEST

START_TEST(tokenize_has_the_default_of_the_shape_it_was_asked_in)
{
    static const struct {
        const char *body;
        bool special;
    } rows[] = {
        {"{\"prompt\":\"a\"}", true},
        {"{\"prompt\":\"a\",\"add_special_tokens\":false}", false},
        {"{\"content\":\"a\"}", false},
        {"{\"content\":\"a\",\"add_special\":true}", true},
        {"{\"messages\":[" MESSAGE "]}", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct api_call *call = good_call("/tokenize", rows[i].body);
        ck_assert_int_eq(call->add_special_tokens, rows[i].special);
        api_call_close(call);
    }
}
END_TEST

START_TEST(reasoning_effort_reaches_the_template)
{
    struct api_call *call = good_call(CHAT, WITH("\"reasoning_effort\":\"none\""));
    ck_assert_str_eq(chat_object_get(call->chat.kwargs, "reasoning_effort")->text, "none");
    ck_assert(!chat_object_get(call->chat.kwargs, "enable_thinking")->boolean);
    api_call_close(call);
    static const char *const both[] = {
        WITH("\"reasoning_effort\":\"none\",\"chat_template_kwargs\":{\"enable_thinking\":true}"),
        WITH("\"chat_template_kwargs\":{\"enable_thinking\":true},\"reasoning_effort\":\"none\""),
    };
    for (size_t i = 0; i < 2; i++) {
        call = good_call(CHAT, both[i]);
        ck_assert(chat_object_get(call->chat.kwargs, "enable_thinking")->boolean);
        api_call_close(call);
    }
}
END_TEST

Suite *suite(void)
{
    Suite *field_suite = suite_create("api/field");
    TCase *test_case = tcase_create("field");
    tcase_add_test(test_case, every_row_takes_what_it_says_and_nothing_else);
    tcase_add_test(test_case, a_number_out_of_range_is_told_the_limits_that_mean_something);
    tcase_add_test(test_case, names_occur_once_in_a_request);
    tcase_add_test(test_case, unknown_fields_are_ignored_and_noted);
    tcase_add_test(test_case, a_strict_server_takes_its_own_model_only);
    tcase_add_test(test_case, the_default_of_a_row_is_what_absent_means);
    tcase_add_test(test_case, a_body_must_be_an_object_of_reasonable_size);
    tcase_add_test(test_case, defaults_are_those_of_the_wire);
    tcase_add_test(test_case, values_arrive_in_the_call);
    tcase_add_test(test_case, rules_between_fields_hold);
    tcase_add_test(test_case, tokenize_has_the_default_of_the_shape_it_was_asked_in);
    tcase_add_test(test_case, reasoning_effort_reaches_the_template);
    suite_add_tcase(field_suite, test_case);
    return field_suite;
}
