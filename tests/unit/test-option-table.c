/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "basic/macros.h"
#include "basic/option-table.h"

typedef struct Target {
        bool flag, help;
        char *name;
} Target;

static void target_done(Target *target) {
        free(target->name);
        *target = (Target){};
}

static const Option options[] = {
        {"flag", 'f', NULL, option_take_flag, offsetof(Target, flag), "sets a flag"},
        {"name", 'n', "NAME", option_take_string, offsetof(Target, name), "stores a name"},
        {NULL, 'l', "NAME", option_take_string, offsetof(Target, name),
         "has no long name, but a help text that is longer than one line and so must be folded "
         "between words"},
        {"help", 'h', NULL, option_take_stop, offsetof(Target, help), "ends everything"},
};

static const OptionTable strict = {.options = options, .n_options = ELEMENTSOF(options)};
static const OptionTable interleaved = {
        .options = options, .n_options = ELEMENTSOF(options), .interleaved = true};

static int parse(const OptionTable *table, const char *const *arguments, Target *target,
                 StrV *ret_words, char **ret_text) {
        int argc = 0;

        while (arguments[argc])
                argc++;
        return option_table_parse(table, argc, (char *const *) arguments, target, ret_words,
                                  ret_text);
}

typedef struct GoodCase {
        const OptionTable *table;
        const char *arguments[8];
        bool flag, help;
        const char *name;
        const char *words; /* joined by commas */
} GoodCase;

static const GoodCase good_cases[] = {
        {&strict, {"x"}, false, false, NULL, ""},
        {&strict, {"x", "-f", "a", "-n", "b"}, true, false, NULL, "a,-n,b"},
        {&strict, {"x", "--flag", "--", "-f"}, true, false, NULL, "-f"},
        {&strict, {"x", "--name=a=b"}, false, false, "a=b", ""},
        {&strict, {"x", "--name", "-f"}, false, false, "-f", ""},
        {&strict, {"x", "-nab", "-n", "c"}, false, false, "c", ""},
        {&strict, {"x", "-l", "d"}, false, false, "d", ""},
        {&strict, {"x", "-", "-f"}, false, false, NULL, "-,-f"},
        {&strict, {"x", "", "-f"}, false, false, NULL, ",-f"},
        {&strict, {"x", "-h", "--nope"}, false, true, NULL, ""},
        {&interleaved, {"x", "a", "-f", "b", "--name", "c"}, true, false, "c", "a,b"},
        {&interleaved, {"x", "a", "--", "-f", "--", "b"}, false, false, NULL, "a,-f,--,b"},
        {&interleaved, {"x", "a", "--help", "b"}, false, true, NULL, "a"},
};

START_TEST(test_good) {
        const GoodCase *c = &good_cases[_i];
        _cleanup_(target_done) Target target = {};
        _cleanup_(strv_done) StrV words = STRV_NULL;
        _cleanup_(strbuf_done) StrBuf joined = STRBUF_NULL;
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(parse(c->table, c->arguments, &target, &words, &text), 0);
        ck_assert_ptr_null(text);
        ck_assert(target.flag == c->flag);
        ck_assert(target.help == c->help);
        ck_assert(string_equal(target.name, c->name));
        for (size_t i = 0; i < words.n_items; i++)
                ck_assert_int_eq(strbuf_appendf(&joined, "%s%s", i > 0 ? "," : "", words.items[i]),
                                 0);
        ck_assert_str_eq(joined.data ?: "", c->words);
}
END_TEST

typedef struct BadCase {
        const char *arguments[4];
        const char *word;
} BadCase;

static const BadCase bad_cases[] = {
        {{"x", "--nope"}, "--flag, --name, -l, --help"},
        {{"x", "--fla"}, "unknown"},
        {{"x", "--flagg"}, "unknown"},
        {{"x", "-x"}, "-x"},
        {{"x", "-ff"}, "takes no value"},
        {{"x", "--flag="}, "takes no value"},
        {{"x", "--name"}, "needs a value: NAME"},
        {{"x", "-n"}, "--name needs a value"},
        {{"x", "-l"}, "-l needs a value"},
        {{"x", "--name="}, "empty"},
        {{"x", "-n", ""}, "empty"},
        {{"x", "--\033[1m"}, "unknown"},
};

START_TEST(test_bad) {
        const BadCase *c = &bad_cases[_i];
        _cleanup_(target_done) Target target = {};
        _cleanup_(strv_done) StrV words = STRV_NULL;
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(parse(&interleaved, c->arguments, &target, &words, &text),
                         OPTION_E_INVALID);
        ck_assert_ptr_nonnull(text);
        ck_assert_msg(strstr(text, c->word), "\"%s\" is not in: %s", c->word, text);
        ck_assert_ptr_null(strpbrk(text, "\n\033"));
}
END_TEST

START_TEST(test_print) {
        _cleanup_(freep) char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        ck_assert_ptr_nonnull(out);
        option_table_print(&strict, out);
        (void) fclose(out);
        ck_assert_ptr_nonnull(strstr(text, "  -f, --flag              sets a flag\n"));
        ck_assert_ptr_nonnull(strstr(text, "  -l NAME                 has no long name"));
        ck_assert_ptr_nonnull(strstr(
                text,
                "\n                          than one line and so must be folded between words\n"));
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
                ck_assert_uint_le(strcspn(line, "\n"), 78);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("option-table");
        TCase *tcase = tcase_create("option-table");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_loop_test(tcase, test_good, 0, ELEMENTSOF(good_cases));
        tcase_add_loop_test(tcase, test_bad, 0, ELEMENTSOF(bad_cases));
        tcase_add_test(tcase, test_print);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
