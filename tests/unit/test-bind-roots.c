/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "basic/macros.h"
#include "launcher/bind-open.h"

/* --- the file --- */

START_TEST(test_parse) {
        static const char text[] = "# a comment\n\nro /usr\nrw /srv/a b\nro /";
        _cleanup_(bind_roots_done) BindRoots roots = BIND_ROOTS_NULL;
        const char *fault = NULL;
        size_t line = 0;

        ck_assert_int_eq(bind_roots_parse(text, strlen(text), &roots, &line, &fault), 0);
        ck_assert_uint_eq(roots.n_roots, 3);
        ck_assert_str_eq(roots.roots[0].path, "/usr");
        ck_assert(!roots.roots[0].writable);
        ck_assert_str_eq(roots.roots[1].path, "/srv/a b");
        ck_assert(roots.roots[1].writable);
        ck_assert_str_eq(roots.roots[2].path, "/");
}
END_TEST

static const struct {
        const char *text;
        size_t size, line;
} bad[] = {
#define BAD(text, line)                                                                            \
        { text, sizeof(text) - 1, line }
        BAD("/usr\n", 1),          BAD("ro\n", 1),
        BAD("ro usr\n", 1),        BAD("ro  /usr\n", 1),
        BAD("rx /usr\n", 1),       BAD("RO /usr\n", 1),
        BAD(" ro /usr\n", 1),      BAD("ro /usr\nrw /a/../b\n", 2),
        BAD("ro /a//b", 1),        BAD("ro /a/", 1),
        BAD("ro /.", 1),           BAD("ro //", 1),
        BAD("ro /a\0b\n", 1),      BAD("ro \n", 1),
        BAD("# x\n\nro /..\n", 3), BAD("ro\t/usr\n", 1),
};

START_TEST(test_parse_bad) {
        BindRoots roots = BIND_ROOTS_NULL;
        const char *fault = NULL;
        size_t line = 0;

        ck_assert_int_eq(bind_roots_parse(bad[_i].text, bad[_i].size, &roots, &line, &fault),
                         BIND_ROOTS_E_INVALID);
        ck_assert_uint_eq(line, bad[_i].line);
        ck_assert_ptr_nonnull(fault);
        ck_assert_ptr_null(roots.text);
}
END_TEST

START_TEST(test_parse_too_many) {
        char text[(BIND_ROOTS_MAX + 1) * 6 + 1] = "";
        _cleanup_(bind_roots_done) BindRoots roots = BIND_ROOTS_NULL;
        const char *fault = NULL;
        size_t line = 0;

        for (size_t i = 0; i <= BIND_ROOTS_MAX; i++)
                memcpy(text + i * 6, "ro /a\n", 6);
        ck_assert_int_eq(bind_roots_parse(text, BIND_ROOTS_MAX * 6, &roots, &line, &fault), 0);
        bind_roots_done(&roots);
        ck_assert_int_eq(bind_roots_parse(text, (BIND_ROOTS_MAX + 1) * 6, &roots, &line, &fault),
                         BIND_ROOTS_E_INVALID);
        ck_assert_uint_eq(line, BIND_ROOTS_MAX + 1);
}
END_TEST

/* --- what they let be opened --- */

static char *place;

static void setup(void) {
        char template[] = "/tmp/test-bind-roots.XXXXXX";

        ck_assert_ptr_nonnull(mkdtemp(template));
        place = realpath(template, NULL);
        ck_assert_ptr_nonnull(place);
        ck_assert_int_eq(chdir(place), 0);
        ck_assert_int_eq(mkdir("ro", 0755), 0);
        ck_assert_int_eq(mkdir("ro/sub", 0755), 0);
        ck_assert_int_eq(mkdir("rw", 0755), 0);
        ck_assert_int_eq(mkdir("rolling", 0755), 0);
        ck_assert_int_eq(symlink("..", "rw/up"), 0);
        ck_assert_int_eq(close(open("rw/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
}

static void teardown(void) {
        ck_assert_int_eq(unlink("rw/up"), 0);
        ck_assert_int_eq(unlink("rw/file"), 0);
        ck_assert_int_eq(rmdir("ro/sub"), 0);
        ck_assert_int_eq(rmdir("ro"), 0);
        ck_assert_int_eq(rmdir("rw"), 0);
        ck_assert_int_eq(rmdir("rolling"), 0);
        ck_assert_int_eq(chdir("/"), 0);
        ck_assert_int_eq(rmdir(place), 0);
        free(TAKE_PTR(place));
}

static const struct {
        const char *path; /* behind the place */
        bool writable;
        int result; /* 0: it is opened */
} opens[] = {
        {"/ro", false, 0},           {"/ro", true, -EXDEV},       {"/ro/sub", false, 0},
        {"/ro/sub", true, -EXDEV},   {"/rw", false, 0},           {"/rw", true, 0},
        {"/rw/file", true, 0},       {"", false, -EXDEV},         {"/rolling", false, -EXDEV},
        {"/rw/up", false, -ELOOP},   {"/rw/up/ro", true, -ELOOP}, {"/rw/../ro", true, -EXDEV},
        {"/rw/none", true, -ENOENT}, {"/rw/", true, -EXDEV},      {"/r", false, -EXDEV},
};

START_TEST(test_open) {
        _cleanup_(bind_roots_done) BindRoots roots = BIND_ROOTS_NULL;
        _cleanup_(freep) char *text = NULL, *path = NULL;
        const char *fault = NULL;
        size_t line = 0;
        int r;

        ck_assert_int_gt(asprintf(&text, "ro %s/ro\nrw %s/rw\n", place, place), 0);
        ck_assert_int_gt(asprintf(&path, "%s%s", place, opens[_i].path), 0);
        ck_assert_int_eq(bind_roots_parse(text, strlen(text), &roots, &line, &fault), 0);
        r = bind_open(&roots, path, opens[_i].writable);
        if (opens[_i].result < 0)
                ck_assert_int_eq(r, opens[_i].result);
        else {
                ck_assert_int_ge(r, 0);
                ck_assert_int_eq(close(r), 0);
        }
}
END_TEST

/* --- who may have written it --- */

START_TEST(test_read) {
        _cleanup_(bind_roots_done) BindRoots roots = BIND_ROOTS_NULL;
        const char *fault = NULL;
        size_t line = 1;
        int r;

        ck_assert_int_eq(bind_roots_read("none", &roots, &line, &fault), -ENOENT);
        ck_assert_int_eq(bind_roots_read("rw/up", &roots, &line, &fault), -ELOOP);
        ck_assert_int_eq(bind_roots_read("ro", &roots, &line, &fault), BIND_ROOTS_E_INVALID);
        ck_assert_uint_eq(line, 0);
        r = bind_roots_read("rw/file", &roots, &line, &fault);
        ck_assert_int_eq(r, geteuid() == 0 ? 0 : BIND_ROOTS_E_INVALID);
        ck_assert_int_eq(chmod("rw/file", 0664), 0);
        ck_assert_int_eq(bind_roots_read("rw/file", &roots, &line, &fault), BIND_ROOTS_E_INVALID);
        ck_assert_uint_eq(line, 0);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("bind-roots");
        TCase *parse = tcase_create("parse"), *files = tcase_create("files");
        SRunner *runner;
        int n_failed;

        tcase_add_test(parse, test_parse);
        tcase_add_loop_test(parse, test_parse_bad, 0, ELEMENTSOF(bad));
        tcase_add_test(parse, test_parse_too_many);
        suite_add_tcase(suite, parse);
        tcase_add_checked_fixture(files, setup, teardown);
        tcase_add_loop_test(files, test_open, 0, ELEMENTSOF(opens));
        tcase_add_test(files, test_read);
        suite_add_tcase(suite, files);

        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
