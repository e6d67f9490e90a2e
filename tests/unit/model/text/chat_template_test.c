/* What the engine promises beyond jinja2: spans, trust, limits, errors, and how a chat becomes variables. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/text/chat_template.h"
#include "tests/support/chat_json.h"
#include "tests/unit/unit.h"

static struct arena inputs, outputs;
static struct error error;

static void set_up(void)
{
    memset(&error, 0, sizeof(error));
}

static void tear_down(void)
{
    arena_free(&inputs);
    arena_free(&outputs);
}

static struct chat_template *open_template(const char *source)
{
    struct chat_template_tokens tokens = {.bos_token = "<s>", .eos_token = "</s>"};
    struct chat_template *chat_template = NULL;
    enum status status = chat_template_open(source, strlen(source), &tokens, &chat_template, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    return chat_template;
}

static enum status open_fails(const char *source)
{
    struct chat_template_tokens tokens = {0};
    struct chat_template *chat_template = NULL;
    enum status status = chat_template_open(source, strlen(source), &tokens, &chat_template, &error);
    ck_assert_ptr_null(chat_template);
    return status;
}

static struct chat chat_of(const char *messages)
{
    struct chat chat = {.messages = chat_json_parse(&inputs, messages, strlen(messages))};
    ck_assert_ptr_nonnull(chat.messages);
    chat_json_mark(&inputs, chat.messages);
    return chat;
}

static struct chat_prompt render(const char *source, const struct chat *chat)
{
    struct chat_template *chat_template = open_template(source);
    struct chat_prompt prompt;
    enum status status = chat_template_render(chat_template, chat, NULL, &outputs, &prompt, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    chat_template_close(chat_template);
    return prompt;
}

static enum status render_fails(const char *source, const struct chat *chat, const struct chat_template_limits *limits)
{
    struct chat_template *chat_template = open_template(source);
    struct chat_prompt prompt;
    enum status status = chat_template_render(chat_template, chat, limits, &outputs, &prompt, &error);
    ck_assert_int_ne(status, STATUS_OK);
    chat_template_close(chat_template);
    return status;
}

static void is_span(const struct chat_prompt *prompt, size_t index, const char *text, int32_t message,
                    const char *field, size_t source_offset, bool trusted)
{
    ck_assert_uint_lt(index, prompt->span_count);
    const struct chat_span *span = &prompt->spans[index];
    ck_assert_uint_eq(span->size, strlen(text));
    ck_assert(memcmp(prompt->text + span->offset, text, span->size) == 0);
    ck_assert_int_eq(span->message, message);
    ck_assert(field == NULL ? span->field == NULL : span->field != NULL && strcmp(span->field, field) == 0);
    ck_assert_uint_eq(span->source_offset, source_offset);
    ck_assert_int_eq(span->trusted, trusted);
}

START_TEST(a_concatenation_keeps_the_origin_of_every_part)
{
    struct chat chat = chat_of("[{\"role\":\"user\",\"content\":\" hi there \"}]");
    struct chat_prompt p = render("{% for m in messages %}{{ '<|' + m.role + '|>' + m['content'] | trim + eos_token }}"
                                  "{% endfor %}",
                                  &chat);
    ck_assert_str_eq(p.text, "<|user|>hi there</s>");
    ck_assert_uint_eq(p.span_count, 5);
    is_span(&p, 0, "<|", -1, NULL, CHAT_SPAN_UNKNOWN, true);
    is_span(&p, 1, "user", 0, "role", 0, true);
    is_span(&p, 2, "|>", -1, NULL, CHAT_SPAN_UNKNOWN, true);
    is_span(&p, 3, "hi there", 0, "content", 1, false);
    is_span(&p, 4, "</s>", -1, NULL, CHAT_SPAN_UNKNOWN, true);
}
END_TEST

START_TEST(slices_splits_and_replacements_keep_offsets)
{
    struct chat chat = chat_of("[{\"role\":\"user\",\"content\":\"a</think>b\\n\\u00e9cd\"}]");
    struct chat_prompt p = render("{% set c = messages[0].content %}{{ c.split('</think>')[-1] }}|{{ c[-2:] }}|"
                                  "{{ c.replace('</think>', '<X>') }}",
                                  &chat);
    ck_assert_str_eq(p.text, "b\n\xC3\xA9"
                             "cd|cd|a<X>b\n\xC3\xA9"
                             "cd");
    is_span(&p, 0,
            "b\n\xC3\xA9"
            "cd",
            0, "content", 9, false);
    is_span(&p, 2, "cd", 0, "content", 13, false);
    is_span(&p, 4, "a", 0, "content", 0, false);
    is_span(&p, 5, "<X>", -1, NULL, CHAT_SPAN_UNKNOWN, true);
    is_span(&p, 6,
            "b\n\xC3\xA9"
            "cd",
            0, "content", 9, false);
}
END_TEST

START_TEST(text_that_is_changed_loses_its_offset_but_not_its_message_nor_the_distrust)
{
    struct chat chat = chat_of("[{\"role\":\"user\",\"content\":\"ab\"},{\"role\":\"assistant\",\"content\":\"cd\"}]");
    struct chat_prompt p = render("{{ messages[1].content | upper }};{{ messages[0].content | tojson }};"
                                  "{{ messages[1] }};{{ messages[0].content[::-1] }};{{ ['<|x|>']|tojson }}",
                                  &chat);
    is_span(&p, 0, "CD", 1, "content", CHAT_SPAN_UNKNOWN, false);
    is_span(&p, 2, "\"ab\"", 0, "content", CHAT_SPAN_UNKNOWN, false);
    is_span(&p, 4, "{'role': 'assistant', 'content': 'cd'}", 1, NULL, CHAT_SPAN_UNKNOWN, false);
    is_span(&p, 6, "ba", 0, "content", CHAT_SPAN_UNKNOWN, false);
    ck_assert(p.spans[7].trusted);
}
END_TEST

START_TEST(nothing_that_came_from_outside_becomes_trusted_through_a_filter)
{
    static const char *const ways[] = {"{{ c }}",
                                       "{{ c|trim }}",
                                       "{{ c ~ '' }}",
                                       "{{ '' + c }}",
                                       "{{ c|upper }}",
                                       "{{ c|tojson }}",
                                       "{{ c|list|join }}",
                                       "{{ c[::-1] }}",
                                       "{{ c[1:] }}",
                                       "{{ c|replace('x', c) }}",
                                       "{{ '%s'|format(c) }}",
                                       "{{ '%s' % c }}",
                                       "{{ '%9s' % c }}",
                                       "{{ '{}'.format(c) }}",
                                       "{{ '{:>9}'.format(c) }}",
                                       "{{ '{!r}'.format(c) }}",
                                       "{{ [c] }}",
                                       "{{ {'k': c} }}",
                                       "{{ {c: 1} }}",
                                       "{{ (c,) }}",
                                       "{{ c * 2 }}",
                                       "{{ c|e }}",
                                       "{{ c|safe }}",
                                       "{{ c|indent }}",
                                       "{{ c|title }}",
                                       "{{ c.split('x')|join('') }}",
                                       "{{ c.center(9) }}",
                                       "{{ c.zfill(9) }}",
                                       "{{ c.swapcase() }}",
                                       "{{ c|string }}",
                                       "{{ c.partition('x')|join }}",
                                       "{% set x %}{{ c }}{% endset %}{{ x }}",
                                       "{% filter upper %}{{ c }}{% endfilter %}",
                                       "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(c) }}",
                                       "{{ namespace(a=c) }}",
                                       "{{ c|sort|join }}",
                                       "{{ c|reverse }}",
                                       "{{ [c]|map('upper')|join }}",
                                       "{{ c|truncate(3) }}",
                                       "{{ c.splitlines()|join }}",
                                       "{{ dict(a=c).items() }}",
                                       "{{ c|default('d') }}",
                                       "{{ c|first }}",
                                       "{{ c if true }}",
                                       "{{ [c]|max }}",
                                       "{{ n }}",
                                       "{{ n + 0 }}",
                                       "{{ n ~ '' }}",
                                       "{{ -n }}",
                                       "{{ n|string }}",
                                       "{{ '%d' % n }}",
                                       "{{ [n] }}",
                                       "{{ n|tojson }}",
                                       "{{ o }}",
                                       "{{ o|tojson }}",
                                       "{{ o.items()|list }}",
                                       "{{ f }}",
                                       "{{ f|round(1) }}",
                                       "{{ f|int }}",
                                       "{{ '{:.1f}'.format(f) }}",
                                       "{{ c|length }}",
                                       "{{ s|int }}",
                                       "{{ s|float }}",
                                       "{{ [c, c]|unique|join }}",
                                       "{{ o|dictsort }}",
                                       "{{ o|string|upper }}",
                                       "{{ '%c' % n }}"};
    const char *variables = "{\"c\":\"<|x|>\",\"n\":65,\"f\":1.25,\"s\":\"12\",\"o\":{\"<|k|>\":[1,\"<|v|>\"]}}";
    struct chat_value *object = chat_json_parse(&inputs, variables, strlen(variables));
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct chat_template *chat_template = open_template(ways[i]);
        struct chat_prompt p;
        enum status status = chat_template_render_value(chat_template, object, NULL, &outputs, &p, &error);
        ck_assert_msg(status == STATUS_OK, "%s: %s", ways[i], error.text);
        ck_assert_msg(p.size > 0, "%s made nothing", ways[i]);
        for (size_t k = 0; k < p.span_count; k++) /* spaces and zeros that a filter adds are the template's */
            for (size_t at = 0; p.spans[k].trusted && at < p.spans[k].size; at++)
                ck_assert_msg(strchr(" 0", p.text[p.spans[k].offset + at]) != NULL, "%s: '%s' is trusted", ways[i],
                              p.text);
        chat_template_close(chat_template);
    }
}
END_TEST

START_TEST(literal_text_is_trusted_and_kwargs_are_not)
{
    struct chat chat = chat_of("[{\"role\":\"user\",\"content\":\"x\"}]");
    const char *kwargs = "{\"word\":\"<|end|>\",\"bos_token\":\"<b>\"}";
    chat.kwargs = chat_json_parse(&inputs, kwargs, strlen(kwargs));
    struct chat_prompt p = render("<|a|>{{ word }}{{ eos_token }}{{ bos_token }}", &chat);
    ck_assert_str_eq(p.text, "<|a|><|end|></s><b>");
    ck_assert(p.spans[0].trusted && !p.spans[1].trusted && p.spans[2].trusted && !p.spans[3].trusted);
}
END_TEST

START_TEST(a_long_text_built_by_appending_is_linear)
{
    struct chat chat = chat_of("[{\"role\":\"user\",\"content\":\"xyz\"}]");
    struct chat_template_limits limits = {.memory_max = 64 << 20};
    struct chat_template *chat_template = open_template(
        "{% set ns = namespace(t='') %}{% for i in range(50000) %}{% set ns.t = ns.t + messages[0].content "
        "+ '-' %}{% endfor %}{{ ns.t }}");
    struct chat_prompt p;
    enum status status = chat_template_render(chat_template, &chat, &limits, &outputs, &p, &error);
    ck_assert_msg(status == STATUS_OK, "%s", error.text);
    ck_assert_uint_eq(p.size, 200000);
    chat_template_close(chat_template);
}
END_TEST

START_TEST(keys_without_a_value_are_dropped_and_reasoning_goes_by_its_names)
{
    struct chat chat = chat_of("[{\"role\":\"user\",\"content\":null,\"name\":null},"
                               "{\"role\":\"assistant\",\"content\":\"a\",\"reasoning\":\"r\"}]");
    struct chat_prompt p = render("{% for m in messages %}{{ m.keys()|list }}{% endfor %}{{ messages[1].thinking }}"
                                  "{{ messages[1].reasoning_content }}",
                                  &chat);
    ck_assert_str_eq(p.text, "['role']['thinking', 'role', 'content', 'reasoning', 'reasoning_content']rr");
}
END_TEST

/* A chat of one message with `keys` keys besides its role. */
static struct chat chat_of_many_keys(size_t keys, bool with_null)
{
    struct chat_value *message = chat_object(&inputs);
    chat_object_put(&inputs, message, "role", 4, with_null ? chat_null(&inputs) : chat_text(&inputs, "user", 4));
    for (size_t i = 0; i < keys; i++) {
        char key[24];
        int size = snprintf(key, sizeof(key), "%zu", i);
        ck_assert(chat_object_add(&inputs, message, chat_text(&inputs, key, (size_t)size), chat_integer(&inputs, 1)));
    }
    struct chat chat = {.messages = chat_list(&inputs)};
    ck_assert(chat_list_add(&inputs, chat.messages, message));
    return chat;
}

/* Looking each key up among the others would take minutes: the test would end at its time limit. */
START_TEST(a_message_of_very_many_keys_is_prepared_in_linear_time)
{
    struct chat chat = chat_of_many_keys(500000, true);
    ck_assert_str_eq(render("{{ messages[0]|length }}", &chat).text, "500000");
}
END_TEST

START_TEST(looking_into_an_object_of_very_many_keys_costs_steps)
{
    static const char *const source = "{% for i in range(1000) %}{{ messages[0].missing }}{% endfor %}";
    struct chat_template_limits limits = {.steps_max = 100000};
    struct chat small = chat_of_many_keys(10, false), large = chat_of_many_keys(100000, false);
    render(source, &small);
    ck_assert_int_eq(render_fails(source, &large, &limits), STATUS_TOO_LARGE);
}
END_TEST

START_TEST(numbers_are_formatted_whole_whatever_their_width)
{
    struct chat chat = chat_of("[]");
    struct chat_prompt p = render("{{ ('%.300f' % 1e300)|length }} {{ ('%.300f' % 1e300)[301:305] }} "
                                  "{{ '{:.300%}'.format(1e300)|length }} {{ '%.*f' % (-1, 2.75) }} "
                                  "{{ 'x'.center(-9223372036854775807 - 1) }} {{ 'x'|truncate(9223372036854775807) }}",
                                  &chat);
    ck_assert_str_eq(p.text, "602 .000 605 3 x x");
    ck_assert_int_eq(render_fails("{{ '%*d' % (-9223372036854775807 - 1, 1) }}", &chat, NULL), STATUS_INVALID);
    ck_assert_int_eq(render_fails("{{ '%.*f' % (4294967301, 1.5) }}", &chat, NULL), STATUS_INVALID);
}
END_TEST

START_TEST(variables_are_those_of_transformers)
{
    struct chat chat = chat_of("[]");
    struct chat_prompt p =
        render("{{ tools }} {{ documents }} {{ add_generation_prompt }} {{ bos_token }}{{ eos_token }}"
               "[{{ unk_token }}{{ pad_token }}]{{ nothing is defined }}",
               &chat);
    ck_assert_str_eq(p.text, "None None False <s></s>[]False");
}
END_TEST

START_TEST(a_continued_message_is_left_open)
{
    static const char source[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}";
    static const char trimming[] = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}<end>{% endfor %}";
    struct chat chat =
        chat_of("[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"so far \"}]");
    chat.continue_final_message = true;
    struct chat_prompt p = render(source, &chat);
    ck_assert_str_eq(p.text, "<user>q<end><assistant>so far ");
    is_span(&p, p.span_count - 1, "so far ", 1, "content", 0, false);
    p = render(trimming, &chat);
    ck_assert_str_eq(p.text, "<user>q<end><assistant>so far");

    ck_assert_int_eq(render_fails("{{ messages[0].content }}", &chat, NULL), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "final message"));
    chat.add_generation_prompt = true;
    ck_assert_int_eq(render_fails(source, &chat, NULL), STATUS_INVALID);
    chat =
        chat_of("[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"image\"}]}]");
    chat.continue_final_message = true;
    ck_assert_int_eq(render_fails(source, &chat, NULL), STATUS_INVALID);
}
END_TEST

START_TEST(an_error_of_the_template_is_told_in_its_own_words)
{
    struct chat chat = chat_of("[]");
    ck_assert_int_eq(render_fails("\n{{ raise_exception('Roles must alternate: ' ~ 1) }}", &chat, NULL),
                     STATUS_INVALID);
    ck_assert_str_eq(error.text, "Roles must alternate: 1");
    ck_assert_int_eq(render_fails("a\nb\n{{ messages[0].x }}", &chat, NULL), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "line 3"));
}
END_TEST

START_TEST(what_is_not_built_is_refused_at_open_with_its_line)
{
    static const char *const sources[] = {"a\n{% include 'x' %}", "\n{{ x | groupby('a') }}",
                                          "\n{% block a %}{% endblock %}", "\n{% for x in y recursive %}{% endfor %}",
                                          "\n{{ 99999999999999999999 }}"};
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        enum status status = open_fails(sources[i]);
        ck_assert_msg(status == STATUS_UNSUPPORTED || status == STATUS_INVALID, "%s", sources[i]);
        ck_assert_msg(strstr(error.text, "line 2") != NULL, "%s", error.text);
    }
    ck_assert_int_eq(open_fails("{{ cycler('a') }}"), STATUS_UNSUPPORTED);
    ck_assert_int_eq(open_fails("x\xFFy"), STATUS_INVALID);
}
END_TEST

START_TEST(deep_nesting_is_a_clean_error)
{
    static const char *const openers[] = {"(",  "[",  "{1:", "-",    "not ", "{% if 1 %}",       "x if y else ",
                                          "f(", "a[", "1+",  "a.b.", "x|e|", "{% for a in b %}", "{% macro m() %}"};
    for (size_t i = 0; i < sizeof(openers) / sizeof(openers[0]); i++) {
        size_t n = strlen(openers[i]), count = 10000;
        bool statement = openers[i][0] == '{' && openers[i][1] == '%';
        char *source = malloc(n * count + 16);
        size_t at = statement ? 0 : 2;
        ck_assert_ptr_nonnull(source);
        memcpy(source, "{{", 2);
        for (size_t k = 0; k < count; k++, at += n)
            memcpy(source + at, openers[i], n);
        memcpy(source + at, "x}}", 4);
        ck_assert_msg(open_fails(source) == STATUS_INVALID, "%s", openers[i]);
        free(source);
    }
}
END_TEST

/* Looked at as a key by one function that calls itself, it would take the stack. */
START_TEST(a_very_deep_key_is_a_clean_error)
{
    struct chat chat = chat_of("[]");
    const char *source = "{% set ns = namespace(x=(1,)) %}{% for i in range(200) %}{% for j in range(5000) %}"
                         "{% set ns.x = (ns.x,) %}{% endfor %}{% endfor %}{{ {}[ns.x] }}";
    ck_assert_int_eq(render_fails(source, &chat, NULL), STATUS_TOO_LARGE);
    ck_assert_ptr_nonnull(strstr(error.text, "nested too deep"));
}
END_TEST

START_TEST(runaway_templates_are_stopped_by_a_limit)
{
    static const char *const sources[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'a' * 999999999999 }}",
        "{% set ns = namespace(x='aa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x * 9 %}{% endfor %}",
        "{% set x = ['a' * 99999]|list %}{% for i in range(99999) %}{% set y = x[0].replace('a', 'bb') %}{% endfor %}",
        "{{ range(99999)|map('string')|map('center', 99999)|join }}",
        "{% set ns = namespace(x=(1,)) %}{% for i in range(5000) %}{% set ns.x = (ns.x,) %}{% endfor %}{{ {ns.x: 1} }}",
        "{{ ('a' * 2000000).rfind('a' * 1000000 + 'b') }}",
        "{{ ('a' * 2000000).rsplit('a' * 1000000 + 'b') }}",
        "{{ ('a' * 2000000).rpartition('a' * 1000000 + 'b') }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:>999999}'.format(1) * 999 }}",
    };
    struct chat chat = chat_of("[]");
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        struct chat_template_limits limits = {.steps_max = 1000000, .memory_max = 64 << 20, .output_max = 16 << 20};
        enum status status = render_fails(sources[i], &chat, &limits);
        ck_assert_msg(status == STATUS_TOO_LARGE || strstr(error.text, "too big") != NULL, "%s: %s", sources[i],
                      error.text);
        arena_reset(&outputs);
    }
}
END_TEST

START_TEST(each_limit_holds)
{
    struct chat chat = chat_of("[]");
    struct chat_template_limits steps = {.steps_max = 10}, output = {.output_max = 5}, depth = {.depth_max = 3},
                                memory = {.memory_max = 2000};
    ck_assert_int_eq(render_fails("{{ range(50)|list|length }}", &chat, &steps), STATUS_TOO_LARGE);
    ck_assert_int_eq(render_fails("{{ 'abc' }}def", &chat, &output), STATUS_TOO_LARGE);
    ck_assert_int_eq(render_fails("{% macro m(n) %}{{ m(n - 1) if n }}{% endmacro %}{{ m(9) }}", &chat, &depth),
                     STATUS_TOO_LARGE);
    arena_reset(&outputs);
    ck_assert_int_eq(render_fails("{{ range(5000)|list|length }}", &chat, &memory), STATUS_TOO_LARGE);
}
END_TEST

struct shared {
    const struct chat_template *chat_template;
    struct chat chat;
    bool same;
};

static void *render_often(void *context)
{
    struct shared *shared = context;
    struct arena arena = {0};
    shared->same = true;
    for (int i = 0; i < 200; i++) {
        struct chat_prompt p;
        struct error own = {0};
        enum status status = chat_template_render(shared->chat_template, &shared->chat, NULL, &arena, &p, &own);
        shared->same = shared->same && status == STATUS_OK && strcmp(p.text, "\xC3\xA9 2 user: b\xC3\xA4!") == 0;
        arena_reset(&arena);
    }
    arena_free(&arena);
    return NULL;
}

START_TEST(threads_render_one_template_at_once)
{
    struct shared shared[4];
    pthread_t threads[4];
    struct chat_template *chat_template =
        open_template("{% set a = '\xC3\xA9xx' %}{{ a[0] }} {{ a[1:]|length }} {% for m in messages %}{{ m.role }}: "
                      "{{ m.content[1:] ~ '!' }}{% endfor %}");
    for (int i = 0; i < 4; i++) {
        shared[i] = (struct shared){.chat_template = chat_template,
                                    .chat = chat_of("[{\"role\":\"user\",\"content\":\"ab\xC3\xA4\"}]")};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, render_often, &shared[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(shared[i].same);
    }
    chat_template_close(chat_template);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("chat_template");
    TCase *t = tcase_create("chat_template");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_concatenation_keeps_the_origin_of_every_part);
    tcase_add_test(t, slices_splits_and_replacements_keep_offsets);
    tcase_add_test(t, text_that_is_changed_loses_its_offset_but_not_its_message_nor_the_distrust);
    tcase_add_test(t, nothing_that_came_from_outside_becomes_trusted_through_a_filter);
    tcase_add_test(t, literal_text_is_trusted_and_kwargs_are_not);
    tcase_add_test(t, a_long_text_built_by_appending_is_linear);
    tcase_add_test(t, keys_without_a_value_are_dropped_and_reasoning_goes_by_its_names);
    tcase_add_test(t, a_message_of_very_many_keys_is_prepared_in_linear_time);
    tcase_add_test(t, looking_into_an_object_of_very_many_keys_costs_steps);
    tcase_add_test(t, numbers_are_formatted_whole_whatever_their_width);
    tcase_add_test(t, variables_are_those_of_transformers);
    tcase_add_test(t, a_continued_message_is_left_open);
    tcase_add_test(t, an_error_of_the_template_is_told_in_its_own_words);
    tcase_add_test(t, what_is_not_built_is_refused_at_open_with_its_line);
    tcase_add_test(t, deep_nesting_is_a_clean_error);
    tcase_add_test(t, a_very_deep_key_is_a_clean_error);
    tcase_add_test(t, runaway_templates_are_stopped_by_a_limit);
    tcase_add_test(t, each_limit_holds);
    tcase_add_test(t, threads_render_one_template_at_once);
    suite_add_tcase(s, t);
    return s;
}
