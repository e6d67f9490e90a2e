/* API keys: who is let in, how much each may ask for, and what a file of them may say. */
#include "server/net/keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define SECOND_NS UINT64_C(1000000000)
/* printf %s open-sesame | sha256sum */
#define SESAME_HASH "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7"

static char path[32];
static struct keys *keys;
static uint32_t retry_s;

static void write_keys(const char *text)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}

static void make_file(void)
{
    snprintf(path, sizeof(path), "/tmp/incipit_keys_XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_file(void)
{
    unlink(path);
}

static void open_keys(const char *single, const char *text)
{
    struct error error;
    if (text != NULL)
        write_keys(text);
    ck_assert_msg(keys_open(single, text == NULL ? NULL : path, &keys, &error) == STATUS_OK, "%s", error.text);
}

static struct key *enter(const char *secret, uint64_t now_ns)
{
    struct error error;
    struct key *key = NULL;
    enum status status = keys_enter(keys, secret, strlen(secret), now_ns, &key, &retry_s, &error);
    ck_assert(status == STATUS_OK ? key != NULL : key == NULL);
    if (status == STATUS_INVALID)
        ck_assert_str_eq(error.code, "invalid_api_key");
    if (status == STATUS_BUSY)
        ck_assert_str_eq(error.code, "rate_limit_exceeded");
    return key;
}

static bool may(const char *secret, uint64_t now_ns)
{
    struct key *key = enter(secret, now_ns);
    if (key != NULL)
        keys_leave(keys, key);
    return key != NULL;
}

START_TEST(the_digest_is_sha256)
{
    uint8_t digest[KEY_DIGEST_BYTES];
    char text[2 * KEY_DIGEST_BYTES + 1];
    ck_assert(key_digest("abc", 3, digest));
    for (int i = 0; i < KEY_DIGEST_BYTES; i++)
        snprintf(text + (size_t)2 * (size_t)i, 3, "%02x", digest[i]);
    ck_assert_str_eq(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

START_TEST(one_key_is_asked_for_by_an_option)
{
    open_keys("open-sesame", NULL);
    ck_assert_uint_eq(keys_count(keys), 1);
    struct key *key = enter("open-sesame", 0);
    ck_assert_ptr_nonnull(key);
    ck_assert_str_eq(key_space(key), "");
    keys_leave(keys, key);
    static const char *const wrong[] = {"", "open-sesam", "open-sesame ", "Open-sesame", "open-sesame1", SESAME_HASH};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        ck_assert(!may(wrong[i], 0));
    keys_close(keys);
}
END_TEST

START_TEST(no_key_at_all_is_no_table)
{
    struct error error;
    ck_assert_int_eq(keys_open("", "", &keys, &error), STATUS_OK);
    ck_assert_ptr_null(keys);
    keys_close(keys);
}
END_TEST

START_TEST(an_option_may_name_a_file)
{
    char option[40];
    struct error error;
    make_file();
    write_keys("open-sesame\r\nanother line\n");
    snprintf(option, sizeof(option), "@%s", path);
    open_keys(option, NULL);
    ck_assert(may("open-sesame", 0));
    ck_assert(!may(option, 0));
    keys_close(keys);
    static const char *const bad[] = {"", "\nopen-sesame\n", "two words\n", "\xc3\xa9\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        write_keys(bad[i]);
        ck_assert_int_eq(keys_open(option, NULL, &keys, &error), STATUS_INVALID);
        ck_assert_ptr_nonnull(strstr(error.text, path));
    }
    remove_file();
    ck_assert_int_eq(keys_open(option, NULL, &keys, &error), STATUS_NOT_FOUND);
    ck_assert_int_eq(keys_open("two words", NULL, &keys, &error), STATUS_INVALID);
    ck_assert_ptr_null(strstr(error.text, "two words"));
    ck_assert_str_eq(error.field, "api-key");
}
END_TEST

START_TEST(a_file_has_names_hashes_and_namespaces)
{
    make_file();
    open_keys("single", "# keys\n"
                        "- {name: a, key: key-a}\n"
                        "- name: b\n  key_sha256: " SESAME_HASH "\n  namespace: team\n"
                        "- name: c d\n  key: '7'\n  namespace: ''\n");
    ck_assert_uint_eq(keys_count(keys), 4);
    static const char *const rows[][3] = {
        {"single", "--api-key", ""}, {"key-a", "a", "a"}, {"open-sesame", "b", "team"}, {"7", "c d", ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct key *key = enter(rows[i][0], 0);
        ck_assert_msg(key != NULL, "%s", rows[i][0]);
        ck_assert_str_eq(key_name(key), rows[i][1]);
        ck_assert_str_eq(key_space(key), rows[i][2]);
        keys_leave(keys, key);
    }
    ck_assert(!may(SESAME_HASH, 0));
    keys_close(keys);
    remove_file();
}
END_TEST

START_TEST(a_mistake_in_the_file_names_its_line_and_no_secret)
{
    static const char *const cases[][2] = {
        {"", "no list of keys"},
        {"- name: a\n  key: hunter2\n- name: b\n", "line 3: the key needs either key or key_sha256"},
        {"- key: hunter2\n", "line 1: the key has no name"},
        {"- name: a\n  key: hunter2\n  key_sha256: " SESAME_HASH "\n", "line 1: the key needs either"},
        {"- name: a\n  secret: hunter2\n", "line 2: unknown field"},
        {"- name: a\n  hunter2: x\n", "line 2: unknown field"},
        {"- name: a\n  key: hunter2\n  key: hunter2\n", "line 3: the field is there twice"},
        {"- name: a\n  key: hunter2\n- name: a\n  key: other\n", "line 3: another key has the same name"},
        {"- name: a\n  key: hunter2\n- name: b\n  key: hunter2\n", "line 3: another name has the same key"},
        {"- name: a\n  key: hunter2 x\n", "line 2: key must be"},
        {"- name: a\n  key: ''\n", "line 2: key must be"},
        {"- name: a\n  key: \"hunter2\\0x\"\n", "line 2: key must be"},
        {"- name: a\n  key: [hunter2]\n", "line 2: the field needs one value"},
        {"- name: ''\n  key: hunter2\n", "line 1: name must be"},
        {"- name: \"a\\n\"\n  key: hunter2\n", "line 1: name must be"},
        {"- name: 12345678901234567890123456789012345678901234567890123456789012345\n", "line 1: name must be"},
        {"- name: a\n  key_sha256: hunter2\n", "line 2: key_sha256 must be 64"},
        {"- name: a\n  key_sha256: x7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7\n",
         "line 2: key_sha"},
        {"- name: a\n  key_sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
         "line 2: key_sha256 is the hash of nothing"},
        {"- name: a\n  key: hunter2\n  max_concurrent: 0\n", "line 3: max_concurrent must be"},
        {"- name: a\n  key: hunter2\n  max_concurrent: -1\n", "line 3: max_concurrent must be"},
        {"- name: a\n  key: hunter2\n  requests_per_minute: 1.5\n", "line 3: requests_per_minute must be"},
        {"- name: a\n  key: hunter2\n  requests_per_minute: 1000001\n", "line 3: requests_per_minute must be"},
        {"name: a\nkey: hunter2\n", "line 1: expected one list"},
        {"- hunter2\n", "line 1: expected a key"},
        {"- {name: a, key: hunter2}\n---\n- {name: b, key: x}\n", "line 3: expected one list"},
        {"- name: a\n  key: 'hunter2\n", "line"},
        {"- name: &x a\n  key: *x\n", "line 2: the field needs one value"},
        {"[]\n", "line 1: the list has no key"},
        {"hunter2", "line 1: expected one list"},
    };
    make_file();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct error error;
        write_keys(cases[i][0]);
        ck_assert_int_eq(keys_open(NULL, path, &keys, &error), STATUS_INVALID);
        ck_assert_msg(strstr(error.text, cases[i][1]) != NULL && strstr(error.text, path) != NULL, "%s: %s",
                      cases[i][0], error.text);
        ck_assert_msg(strstr(error.text, "hunter2") == NULL, "%s", error.text);
    }
    remove_file();
    struct error error;
    ck_assert_int_eq(keys_open(NULL, "/tmp", &keys, &error), STATUS_INVALID);
    ck_assert_int_eq(keys_open(NULL, path, &keys, &error), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(error.text, path));
}
END_TEST

START_TEST(the_example_file_is_one)
{
    struct error error;
    ck_assert_msg(keys_open(NULL, "configs/keys.example.yaml", &keys, &error) == STATUS_OK, "%s", error.text);
    ck_assert(may("change-me-notebook", 0));
    ck_assert(may("change-me-agents", 0));
    keys_close(keys);
}
END_TEST

START_TEST(a_key_has_so_many_requests_at_once)
{
    make_file();
    open_keys(NULL, "- {name: a, key: a, max_concurrent: 2}\n- {name: b, key: b}\n");
    struct key *first = enter("a", 0), *second = enter("a", 0);
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(enter("a", 0));
    ck_assert_uint_eq(retry_s, 1);
    ck_assert(may("b", 0));
    keys_leave(keys, first);
    struct key *third = enter("a", 0);
    ck_assert_ptr_nonnull(third);
    keys_leave(keys, second);
    keys_leave(keys, third);
    keys_close(keys);
    remove_file();
}
END_TEST

START_TEST(a_key_has_so_many_requests_a_minute)
{
    make_file();
    open_keys(NULL, "- {name: a, key: a, requests_per_minute: 6}\n- {name: b, key: b, requests_per_minute: 1}\n");
    uint64_t now = 1000 * SECOND_NS;
    for (int i = 0; i < 6; i++)
        ck_assert(may("a", now));
    ck_assert(!may("a", now));
    ck_assert_uint_eq(retry_s, 10);
    ck_assert(!may("a", now + 9 * SECOND_NS));
    ck_assert_uint_eq(retry_s, 1);
    ck_assert(may("a", now + 10 * SECOND_NS));
    ck_assert(!may("a", now + 10 * SECOND_NS));
    now += 1000 * SECOND_NS;
    for (int i = 0; i < 6; i++)
        ck_assert(may("a", now));
    ck_assert(!may("a", now));
    ck_assert(may("b", now));
    ck_assert(!may("b", now));
    ck_assert_uint_eq(retry_s, 30); /* no longer, whatever the wait: clients give up */
    keys_close(keys);
    remove_file();
}
END_TEST

START_TEST(a_refused_request_spends_nothing)
{
    make_file();
    open_keys(NULL, "- {name: a, key: a, requests_per_minute: 2, max_concurrent: 1}\n");
    struct key *first = enter("a", SECOND_NS);
    for (int i = 0; i < 100; i++)
        ck_assert_ptr_null(enter("a", SECOND_NS));
    keys_leave(keys, first);
    ck_assert(may("a", SECOND_NS));
    for (int i = 0; i < 100; i++)
        ck_assert(!may("a", SECOND_NS));
    ck_assert(may("a", 31 * SECOND_NS));
    keys_close(keys);
    remove_file();
}
END_TEST

START_TEST(another_file_replaces_the_keys_and_keeps_what_they_have_used)
{
    struct error error;
    make_file();
    open_keys(NULL, "- {name: a, key: a, max_concurrent: 1, requests_per_minute: 2}\n- {name: b, key: b}\n");
    struct key *a = enter("a", 0), *b = enter("b", 0);
    write_keys("- {name: a, key: a2, max_concurrent: 2, requests_per_minute: 2}\n- {name: c, key: c}\n");
    ck_assert_int_eq(keys_reload(keys, &error), STATUS_OK);
    ck_assert(!may("a", 0));
    ck_assert(!may("b", 0));
    ck_assert(may("c", 0));
    ck_assert_str_eq(key_name(b), "b"); /* gone, but held */
    struct key *second = enter("a2", 0);
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(enter("a2", 0));
    keys_leave(keys, a);
    ck_assert(!may("a2", 0)); /* two were asked for, one of them with the old key */
    keys_leave(keys, second);
    keys_leave(keys, b);
    keys_close(keys);
    remove_file();
}
END_TEST

START_TEST(a_bad_file_leaves_the_keys_as_they_are)
{
    struct error error;
    make_file();
    open_keys(NULL, "- {name: a, key: a}\n");
    write_keys("- {name: a}\n");
    ck_assert_int_eq(keys_reload(keys, &error), STATUS_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "line 1"));
    ck_assert(may("a", 0));
    remove_file();
    ck_assert_int_eq(keys_reload(keys, &error), STATUS_IO);
    ck_assert(may("a", 0));
    keys_close(keys);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("keys");
    TCase *test_case = tcase_create("keys");
    tcase_add_test(test_case, the_digest_is_sha256);
    tcase_add_test(test_case, one_key_is_asked_for_by_an_option);
    tcase_add_test(test_case, no_key_at_all_is_no_table);
    tcase_add_test(test_case, an_option_may_name_a_file);
    tcase_add_test(test_case, a_file_has_names_hashes_and_namespaces);
    tcase_add_test(test_case, a_mistake_in_the_file_names_its_line_and_no_secret);
    tcase_add_test(test_case, the_example_file_is_one);
    tcase_add_test(test_case, a_key_has_so_many_requests_at_once);
    tcase_add_test(test_case, a_key_has_so_many_requests_a_minute);
    tcase_add_test(test_case, a_refused_request_spends_nothing);
    tcase_add_test(test_case, another_file_replaces_the_keys_and_keeps_what_they_have_used);
    tcase_add_test(test_case, a_bad_file_leaves_the_keys_as_they_are);
    suite_add_tcase(suite, test_case);
    return suite;
}
