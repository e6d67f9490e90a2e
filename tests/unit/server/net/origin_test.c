/* Which Host and Origin values mean this machine, and which are answered. */
#include "server/net/origin.h"

#include <string.h>

#include "tests/unit/unit.h"

static const struct origin_rules closed = {.origins = "", .hosts = "", .restricted = true};

static enum status judge(const struct origin_rules *rules, const char *host, const char *origin)
{
    struct error error = {0};
    enum status status = origin_judge(rules, host, origin, &error);
    if (status != STATUS_OK)
        ck_assert_str_eq(error.code, "permission_denied");
    return status;
}

START_TEST(knows_the_names_of_this_machine)
{
    static const char *const ours[] = {
        "localhost",      "LocalHost:8080",     "localhost.",    "a.localhost:1", "a.b.localhost", "127.0.0.1",
        "127.0.0.1:80",   "127.255.3.4:1",      "127.1",         "[::1]",         "[::1]:8080",    "localhost:",
        "[0:0:0:0::1]:1", "[::ffff:127.0.0.1]", "localhost.:80",
    };
    for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
        ck_assert_msg(origin_host_is_loopback(ours[i]), "%s", ours[i]);
}
END_TEST

START_TEST(takes_no_other_host_for_this_machine)
{
    static const char *const theirs[] = {
        "",
        ":80",
        "evil.example",
        "localhost.evil.example",
        "evil-localhost",
        ".localhost.evil",
        ".",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io",
        "128.0.0.1",
        "1.127.0.0",
        "0.0.0.0",
        "192.168.0.1:8080",
        "127.0.0.1:80:90",
        "127.0.0.1:8x",
        "127.0.0.1 evil",
        "127.0.0.1@evil.example",
        "evil@127.0.0.1",
        "localhost/evil",
        "localhost,evil",
        "localhost:80@evil",
        "evil.example/.localhost",
        "evil.example\\.localhost",
        "evil.example?.localhost",
        "evil.example#.localhost",
        "evil.example@a.localhost",
        "evil.example,a.localhost",
        "evil.example;a.localhost",
        "evil.example a.localhost",
        "evil.example\ta.localhost",
        "::1",
        "[::1",
        "[::2]",
        "[::1]evil",
        "[::1]:80evil",
        "[]",
        "[localhost]",
        "[::ffff:10.0.0.1]",
        "[127.0.0.1]",
        "127.0.0.256",
        "127.0.0.0.1",
        "2130706433.evil",
        "127.000000000000000000000000000000000000000000000000000000.0.1.evil",
    };
    for (size_t i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
        ck_assert_msg(!origin_host_is_loopback(theirs[i]), "%s", theirs[i]);
}
END_TEST

START_TEST(an_origin_is_a_scheme_and_a_host)
{
    ck_assert(origin_is_loopback("http://localhost:3000"));
    ck_assert(origin_is_loopback("https://127.0.0.1"));
    ck_assert(origin_is_loopback("HTTP://[::1]:5"));
    static const char *const theirs[] = {
        "null",
        "",
        "localhost",
        "file://",
        "ftp://localhost",
        "http://",
        "http://localhost/",
        "http://localhost.evil.example",
        "http://evil@localhost",
        "http://evil.example/.localhost",
        "http://evil.example#.localhost",
        "http://evil.example https://a.localhost",
        "https://evil.example",
        "chrome-extension://localhost",
        "http:/localhost",
        " http://localhost",
    };
    for (size_t i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
        ck_assert_msg(!origin_is_loopback(theirs[i]), "%s", theirs[i]);
}
END_TEST

START_TEST(only_this_machine_is_answered_unless_widened)
{
    ck_assert_int_eq(judge(&closed, "127.0.0.1:8080", NULL), STATUS_OK);
    ck_assert_int_eq(judge(&closed, NULL, NULL), STATUS_OK);
    ck_assert_int_eq(judge(&closed, "localhost", "http://localhost:3000"), STATUS_OK);
    ck_assert_int_eq(judge(&closed, "evil.example:8080", NULL), STATUS_INVALID);
    ck_assert_int_eq(judge(&closed, "evil.example:8080", "http://localhost"), STATUS_INVALID);
    ck_assert_int_eq(judge(&closed, "localhost", "https://evil.example"), STATUS_INVALID);
    ck_assert_int_eq(judge(&closed, "localhost", "null"), STATUS_INVALID);
    ck_assert_int_eq(judge(&closed, "localhost", ""), STATUS_INVALID);
    struct origin_rules open = {.origins = "", .hosts = ""};
    ck_assert_int_eq(judge(&open, "evil.example", "https://evil.example"), STATUS_OK);
}
END_TEST

START_TEST(a_refusal_names_the_header_and_the_option)
{
    struct error error;
    origin_judge(&closed, "evil.example", NULL, &error);
    ck_assert_ptr_nonnull(strstr(error.text, "Host header is \"evil.example\""));
    ck_assert_ptr_nonnull(strstr(error.text, "--allowed-host"));
    origin_judge(&closed, "localhost", "null", &error);
    ck_assert_ptr_nonnull(strstr(error.text, "Origin header is \"null\""));
    ck_assert_ptr_nonnull(strstr(error.text, "--cors-origin"));
}
END_TEST

START_TEST(lists_widen)
{
    struct origin_rules rules = {.origins = " https://a.example ,http://b.example:81,",
                                 .hosts = "LLM.example.com, other, [fd00::1]",
                                 .own_host = "box",
                                 .restricted = true};
    ck_assert_int_eq(judge(&rules, "llm.example.com", "https://a.example"), STATUS_OK);
    ck_assert_int_eq(judge(&rules, "llm.example.com.:443", "HTTP://B.example:81"), STATUS_OK);
    ck_assert_int_eq(judge(&rules, "[fd00::1]:80", NULL), STATUS_OK);
    ck_assert_int_eq(judge(&rules, "box:80", NULL), STATUS_OK);
    ck_assert_int_eq(judge(&rules, "x.llm.example.com", NULL), STATUS_INVALID);
    ck_assert_int_eq(judge(&rules, "llm.example", NULL), STATUS_INVALID);
    ck_assert_int_eq(judge(&rules, "other", "https://other:444"), STATUS_OK); /* its own page */
    ck_assert_int_eq(judge(&rules, "other", "http://b.example"), STATUS_INVALID);
    ck_assert_int_eq(judge(&rules, "other", "https://a.example,http://b.example:81"), STATUS_INVALID);
    ck_assert(origin_is_listed(&rules, "https://a.example"));
    ck_assert(!origin_is_listed(&rules, "https://other:444"));
    ck_assert(!origin_is_listed(&rules, "http://localhost"));
    rules.origins = "https://a.example, *";
    ck_assert(origin_is_listed(&rules, "null"));
    ck_assert_int_eq(judge(&rules, "other", "null"), STATUS_OK);
}
END_TEST

START_TEST(an_entry_that_could_never_match_is_refused)
{
    static const char *const origins[] = {"https://a/", "a.example", "https://a/b", "https://",
                                          "a:80",       "https:/a",  "x,*,b"};
    static const char *const hosts[] = {"https://a", "a:80", "*", "*.example", "a b", "u@a", "a/b", "ok,a:1", "[::1"};
    struct error error;
    for (size_t i = 0; i < sizeof(origins) / sizeof(*origins); i++) {
        struct origin_rules rules = {.origins = origins[i], .hosts = ""};
        ck_assert_msg(origin_check_rules(&rules, &error) == STATUS_INVALID, "%s", origins[i]);
        ck_assert_str_eq(error.field, "cors-origin");
    }
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        struct origin_rules rules = {.origins = "", .hosts = hosts[i]};
        ck_assert_msg(origin_check_rules(&rules, &error) == STATUS_INVALID, "%s", hosts[i]);
        ck_assert_str_eq(error.field, "allowed-host");
    }
    struct origin_rules good = {.origins = "*, null, http://a:1,https://[::1]:2,app://x",
                                .hosts = "a, b.c ,[::1],10.0.0.1"};
    ck_assert_int_eq(origin_check_rules(&good, &error), STATUS_OK);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("origin");
    TCase *test_case = tcase_create("origin");
    tcase_add_test(test_case, knows_the_names_of_this_machine);
    tcase_add_test(test_case, takes_no_other_host_for_this_machine);
    tcase_add_test(test_case, an_origin_is_a_scheme_and_a_host);
    tcase_add_test(test_case, only_this_machine_is_answered_unless_widened);
    tcase_add_test(test_case, a_refusal_names_the_header_and_the_option);
    tcase_add_test(test_case, lists_widen);
    tcase_add_test(test_case, an_entry_that_could_never_match_is_refused);
    suite_add_tcase(suite, test_case);
    return suite;
}
