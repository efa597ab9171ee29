/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "basic/host-path.h"
#include "basic/macros.h"
#include "basic/string-util.h"

/* A folder of the test's own, in which it works: "dir/sub", "file", and links of each kind. */
static char *place;

static void setup(void) {
        char template[] = "/tmp/test-host-path.XXXXXX";

        ck_assert_ptr_nonnull(mkdtemp(template));
        place = realpath(template, NULL);
        ck_assert_ptr_nonnull(place);
        ck_assert_int_eq(chdir(place), 0);
        ck_assert_int_eq(mkdir("dir", 0755), 0);
        ck_assert_int_eq(mkdir("dir/sub", 0755), 0);
        ck_assert_int_eq(close(open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
        ck_assert_int_eq(symlink("dir", "link"), 0);
        ck_assert_int_eq(symlink("loop", "loop"), 0);
        ck_assert_int_eq(symlink("nowhere", "dangling"), 0);
}

static void teardown(void) {
        static const char *const files[] = {"link", "loop", "dangling", "file"};

        for (size_t i = 0; i < ELEMENTSOF(files); i++)
                ck_assert_int_eq(unlink(files[i]), 0);
        ck_assert_int_eq(rmdir("dir/sub"), 0);
        ck_assert_int_eq(rmdir("dir"), 0);
        ck_assert_int_eq(chdir("/"), 0);
        ck_assert_int_eq(rmdir(place), 0);
        free(TAKE_PTR(place));
}

typedef struct GoodCase {
        const char *path, *source, *target; /* the latter two below the folder */
} GoodCase;

static const GoodCase good_cases[] = {
        {"dir", "/dir", "/dir"},
        {"./dir//sub/.", "/dir/sub", "/dir/sub"},
        {"file", "/file", "/file"},
        {"link", "/dir", "/link"},
        {"link/sub", "/dir/sub", "/link/sub"},
        /* Only the kernel knows where ".." leads behind a link. */
        {"link/sub/..", "/dir", "/dir"},
        {".", "", ""},
};

START_TEST(test_good) {
        const GoodCase *c = &good_cases[_i];
        _cleanup_(freep) char *source = NULL, *target = NULL, *text = NULL;

        ck_assert_int_eq(host_path_resolve("--ro", c->path, 0, 4095, &source, &target, &text), 0);
        ck_assert_str_eq(string_after(source, place), c->source);
        ck_assert_str_eq(string_after(target, place), c->target);
}
END_TEST

/* Links on the way to a folder are the administrator's; only the last component is looked at. */
START_TEST(test_link_on_the_way) {
        _cleanup_(freep) char *source = NULL, *text = NULL;

        ck_assert_int_eq(host_path_resolve("-w", "link/sub", HOST_PATH_FOLDER | HOST_PATH_NO_LINK,
                                           4095, &source, NULL, &text),
                         0);
        ck_assert_str_eq(string_after(source, place), "/dir/sub");
}
END_TEST

START_TEST(test_absolute) {
        _cleanup_(freep) char *source = NULL, *target = NULL, *text = NULL;

        ck_assert_int_eq(
                host_path_resolve("--ro", "///", HOST_PATH_FOLDER, 4095, &source, &target, &text),
                0);
        ck_assert_str_eq(source, "/");
        ck_assert_str_eq(target, "/");
}
END_TEST

typedef struct BadCase {
        const char *path;
        unsigned flags;
        size_t size_max;
        const char *word;
} BadCase;

static const BadCase bad_cases[] = {
        {"missing", 0, 4095, "ENOENT"},
        {"", 0, 4095, "ENOENT"},
        {"dangling", 0, 4095, "ENOENT"},
        {"loop", 0, 4095, "ELOOP"},
        {"file", HOST_PATH_FOLDER, 4095, "ENOTDIR"},
        {"file/x", 0, 4095, "ENOTDIR"},
        {"dir", HOST_PATH_FOLDER, 5, "the limit is 5"},
        {"link", HOST_PATH_FOLDER | HOST_PATH_NO_LINK, 4095, "is a link"},
        {"link//", HOST_PATH_NO_LINK, 4095, "is a link"},
        {"loop", HOST_PATH_NO_LINK, 4095, "ELOOP"},
        {"missing", HOST_PATH_NO_LINK, 4095, "ENOENT"},
};

START_TEST(test_bad) {
        const BadCase *c = &bad_cases[_i];
        _cleanup_(freep) char *source = NULL, *text = NULL;

        ck_assert_int_eq(
                host_path_resolve("--option", c->path, c->flags, c->size_max, &source, NULL, &text),
                HOST_PATH_E_INVALID);
        ck_assert_ptr_null(source);
        ck_assert_msg(strstr(text, c->word) && strstr(text, "--option"), "%s", text);
}
END_TEST

START_TEST(test_workspace) {
        _cleanup_(freep) char *a = NULL, *b = NULL, *c = NULL, *text = NULL;
        bool readonly = false;

        ck_assert_int_eq(host_path_parse_workspace("/a:ro", &a, &readonly, &text), 0);
        ck_assert_str_eq(a, "/a");
        ck_assert(readonly);
        ck_assert_int_eq(host_path_parse_workspace("/a:b", &b, &readonly, &text), 0);
        ck_assert_str_eq(b, "/a:b");
        ck_assert(!readonly);
        ck_assert_int_eq(host_path_parse_workspace("x:ro/", &c, &readonly, &text), 0);
        ck_assert_str_eq(c, "x:ro/");
        ck_assert(!readonly);
}
END_TEST

START_TEST(test_workspace_bad) {
        static const char *const values[] = {"", ":ro", "/a:cow", "/:rx"};
        _cleanup_(freep) char *path = NULL, *text = NULL;
        bool readonly;

        ck_assert_int_eq(host_path_parse_workspace(values[_i], &path, &readonly, &text),
                         HOST_PATH_E_INVALID);
        ck_assert_ptr_null(path);
        ck_assert_ptr_nonnull(strstr(text, "--workspace"));
}
END_TEST

int main(void) {
        Suite *suite = suite_create("host-path");
        TCase *tcase = tcase_create("host-path");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_checked_fixture(tcase, setup, teardown);
        tcase_add_loop_test(tcase, test_good, 0, ELEMENTSOF(good_cases));
        tcase_add_test(tcase, test_absolute);
        tcase_add_test(tcase, test_link_on_the_way);
        tcase_add_loop_test(tcase, test_bad, 0, ELEMENTSOF(bad_cases));
        tcase_add_test(tcase, test_workspace);
        tcase_add_loop_test(tcase, test_workspace_bad, 0, 4);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
