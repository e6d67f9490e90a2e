/* What `inspect` shows. */
#include "tests/unit/unit.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <unistd.h>

#include "kernels/base/utf8.h"
#include "model/model.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

static void describe(const struct tiny_model *tiny, bool json, bool tensors, struct buffer *out)
{
    char path[TINY_PATH_BYTES];
    struct model_file *file;
    struct error error;
    tiny_model_save(tiny, path);
    ck_assert_msg(model_file_open(path, &file, &error) == STATUS_OK, "%s", error.text);
    unlink(path);
    ck_assert_msg(model_file_describe(file, json, tensors, out, &error) == STATUS_OK, "%s", error.text);
    model_file_close(file);
}

static const cJSON *item(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    ck_assert_msg(found != NULL, "no %s", name);
    return found;
}

START_TEST(json_holds_the_configuration_and_every_tensor)
{
    struct buffer out = {0};
    describe(tiny_model_named("q4_0"), true, true, &out);
    cJSON *root = cJSON_ParseWithLength(out.data, out.size);
    ck_assert_ptr_nonnull(root);
    ck_assert_str_eq(item(root, "architecture")->valuestring, "llama");
    ck_assert(cJSON_IsTrue(item(root, "supported")));
    ck_assert_int_eq(item(item(root, "config"), "layers")->valueint, 3);
    ck_assert(cJSON_IsFalse(item(item(root, "config"), "tied_head")));
    ck_assert_int_eq(item(root, "tensor_count")->valueint, 30);
    ck_assert_int_eq(cJSON_GetArraySize(item(root, "tensors")), 30);
    const cJSON *first = cJSON_GetArrayItem(item(root, "tensors"), 0);
    ck_assert_str_eq(item(first, "name")->valuestring, "token_embd.weight");
    ck_assert_str_eq(item(first, "type")->valuestring, "Q8_0");
    ck_assert_int_eq(item(first, "bytes")->valueint, 96 * 96 / 32 * 34);
    ck_assert_int_eq(cJSON_GetArrayItem(item(first, "shape"), 1)->valueint, 96);
    int bytes = 0, tensors = 0;
    const cJSON *type;
    cJSON_ArrayForEach(type, item(root, "types"))
    {
        bytes += item(type, "bytes")->valueint;
        tensors += item(type, "tensors")->valueint;
    }
    ck_assert_int_eq(tensors, 30);
    ck_assert_int_lt(bytes, item(root, "bytes")->valueint);
    cJSON_Delete(root);
    buffer_free(&out);
}
END_TEST

START_TEST(text_shows_tensors_only_when_asked)
{
    struct buffer brief = {0}, full = {0};
    describe(tiny_model_named("q4_0"), false, false, &brief);
    describe(tiny_model_named("q4_0"), false, true, &full);
    ck_assert_ptr_nonnull(strstr(brief.data, "architecture    llama\n"));
    ck_assert_ptr_nonnull(strstr(brief.data, "layers          3, width 96, feed-forward 160\n"));
    ck_assert_ptr_null(strstr(brief.data, "blk.0."));
    ck_assert_ptr_nonnull(strstr(full.data, "blk.2.ffn_down.weight\n"));
    buffer_free(&brief);
    buffer_free(&full);
}
END_TEST

static void add_hostile_text(struct gguf_writer *w)
{
    gguf_text(w, "tokenizer.ggml.model", "\x1b[31mred\n\xff\xfe");
    gguf_u32(w, "llama.expert_count", 2);
}

START_TEST(a_file_that_cannot_be_run_is_described_with_the_reason)
{
    struct buffer text = {0}, json = {0};
    struct tiny_model tiny = *tiny_model_named("f32");
    tiny.add = add_hostile_text;
    describe(&tiny, false, false, &text);
    describe(&tiny, true, false, &json);
    ck_assert_ptr_nonnull(strstr(text.data, "'llama.expert_count' asks for something that is not supported yet"));
    ck_assert_ptr_nonnull(strstr(text.data, "?[31mred???")); /* nothing that a terminal would obey */
    ck_assert_ptr_null(strchr(text.data, 0x1b));
    ck_assert_uint_eq(utf8_invalid_at(json.data, json.size), json.size);
    cJSON *root = cJSON_ParseWithLength(json.data, json.size);
    ck_assert_ptr_nonnull(root);
    ck_assert(cJSON_IsFalse(item(root, "supported")));
    ck_assert_ptr_nonnull(strstr(item(root, "reason")->valuestring, "llama.expert_count"));
    cJSON_Delete(root);
    buffer_free(&text);
    buffer_free(&json);
}
END_TEST

Suite *suite(void)
{
    Suite *s = suite_create("describe");
    TCase *t = tcase_create("describe");
    tcase_add_test(t, json_holds_the_configuration_and_every_tensor);
    tcase_add_test(t, text_shows_tensors_only_when_asked);
    tcase_add_test(t, a_file_that_cannot_be_run_is_described_with_the_reason);
    suite_add_tcase(s, t);
    return s;
}
