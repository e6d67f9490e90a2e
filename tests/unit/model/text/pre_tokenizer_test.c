/* What each code point is to the pre-tokenizer, and how pieces tile a text. That pieces are right is proven with the
 * ids they lead to, in tokenizer_test. */
#include "model/text/pre_tokenizer.h"

#include "kernels/base/utf8.h"
#include "tests/unit/model/text/golden.h"
#include "tests/unit/model/text/require.h"
#include "tests/unit/unit.h"

#define CODE_POINTS 0x110000

struct opened {
    struct pre_tokenizer *pre_tokenizer;
    struct pre_tokenizer_scratch *scratch;
    struct error error;
};

static void open_row(struct opened *opened, const char *name)
{
    const struct pre_tokenizer_row *row = pre_tokenizer_find(name, strlen(name));
    ck_assert_ptr_nonnull(row);
    enum status status = pre_tokenizer_open(row, &opened->pre_tokenizer, &opened->error);
    ck_assert_msg(status == STATUS_OK, "%s", opened->error.text);
    status = pre_tokenizer_scratch_open(opened->pre_tokenizer, &opened->scratch, &opened->error);
    ck_assert_msg(status == STATUS_OK, "%s", opened->error.text);
}

static void close_row(struct opened *opened)
{
    pre_tokenizer_scratch_close(opened->scratch);
    pre_tokenizer_close(opened->pre_tokenizer);
}

/* How many pieces a text has; each must be there, whole, and in order. */
static size_t count_pieces(struct opened *opened, const char *text, size_t size)
{
    size_t count = 0;
    for (size_t at = 0, end = 0; at < size; at = end, count++) {
        enum status status =
            pre_tokenizer_next(opened->pre_tokenizer, opened->scratch, text, size, at, &end, &opened->error);
        REQUIRE_MSG(status == STATUS_OK, "%s", opened->error.text);
        REQUIRE(end > at && end <= size && utf8_invalid_at(text + at, end - at) == end - at);
    }
    return count;
}

static bool joins(struct opened *opened, char before, uint32_t code_point)
{
    char text[5] = {before};
    return count_pieces(opened, text, 1 + utf8_encode(code_point, text + 1)) == 1;
}

static char class_of(struct opened *opened, uint32_t code_point)
{
    if (joins(opened, 'a', code_point))
        return 'l';
    if (joins(opened, '!', code_point))
        return 'o';
    return joins(opened, ' ', code_point) ? 's' : 'n';
}

static void read_classes(char *classes)
{
    memset(classes, 'o', CODE_POINTS);
    struct golden golden = golden_open("tests/golden/unicode_classes.txt");
    char class = 'o';
    while (golden_next(&golden)) {
        char *end;
        unsigned long first = strtoul(golden.fields[0], &end, 16);
        if (*end != '-') {
            class = *golden.fields[0];
            continue;
        }
        unsigned long last = strtoul(end + 1, NULL, 16);
        REQUIRE(first <= last && last < CODE_POINTS);
        memset(classes + first, class, last - first + 1);
    }
    golden_close(&golden);
}

START_TEST(takes_every_code_point_for_what_the_reference_does)
{
    struct opened opened;
    open_row(&opened, "smollm");
    char *classes = malloc(CODE_POINTS);
    ck_assert_ptr_nonnull(classes);
    read_classes(classes);
    size_t seen[256] = {0};
    for (uint32_t code_point = 0; code_point < CODE_POINTS; code_point++) {
        if (code_point >= 0xD800 && code_point <= 0xDFFF)
            continue;
        char class = class_of(&opened, code_point);
        REQUIRE_MSG(class == classes[code_point], "U+%04X is '%c', not '%c'", code_point, class, classes[code_point]);
        seen[(unsigned char)class]++;
    }
    REQUIRE(seen['l'] > 140000 && seen['n'] > 1900 && seen['s'] == 25 && seen['o'] > 900000);
    free(classes);
    close_row(&opened);
}
END_TEST

START_TEST(tiles_any_text)
{
    static const char *const names[] = {"smollm", "gpt-2", "llama-bpe"};
    uint64_t state = test_seed() + 31;
    for (size_t row = 0; row < 3; row++) {
        struct opened opened;
        open_row(&opened, names[row]);
        for (size_t round = 0; round < 5000; round++) {
            char text[256];
            size_t size = 0;
            while (size < sizeof(text) - 4 && test_random_below(&state, 40) != 0) {
                uint32_t code_point = (uint32_t)test_random_below(&state, round % 2 == 0 ? 0x80 : CODE_POINTS);
                if (code_point < 0xD800 || code_point > 0xDFFF)
                    size += utf8_encode(code_point, text + size);
            }
            size_t pieces = count_pieces(&opened, text, size);
            REQUIRE(size == 0 ? pieces == 0 : pieces >= 1);
        }
        close_row(&opened);
    }
}
END_TEST

START_TEST(knows_rows_by_their_whole_name)
{
    ck_assert_ptr_nonnull(pre_tokenizer_find("smollm", 6));
    ck_assert_ptr_null(pre_tokenizer_find("smollm", 5));
    ck_assert_ptr_null(pre_tokenizer_find("", 0));
    ck_assert_ptr_null(pre_tokenizer_find("default", 7));
    struct buffer names = {0};
    pre_tokenizer_names(&names);
    ck_assert_str_eq(names.data, "smollm, gpt-2, llama-bpe");
    buffer_free(&names);
}
END_TEST

Suite *suite(void)
{
    Suite *suite = suite_create("pre_tokenizer");
    TCase *all = tcase_create("all");
    tcase_add_test(all, takes_every_code_point_for_what_the_reference_does);
    tcase_add_test(all, tiles_any_text);
    tcase_add_test(all, knows_rows_by_their_whole_name);
    suite_add_tcase(suite, all);
    return suite;
}
