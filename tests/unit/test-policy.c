/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "basic/macros.h"
#include "policy/policy.h"

/* Two folders, vendor/ and admin/, made anew for each test. */
typedef struct Folders {
        char *base;
        StrV dirs;
} Folders;

static void make_folder(const char *path) {
        ck_assert_msg(mkdir(path, 0755) == 0, "%s", path);
        ck_assert_int_eq(chmod(path, 0755), 0);
}

static void folders_init(Folders *folders) {
        static const char *const names[] = {"vendor", "admin"};
        char *base = NULL;

        *folders = (Folders){};
        ck_assert_int_gt(
                asprintf(&base, "%s/agentcrate-policy.XXXXXX", secure_getenv("TMPDIR") ?: "/tmp"),
                0);
        ck_assert_ptr_nonnull(mkdtemp(base));
        folders->base = base;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_(freep) char *sub = NULL;

                ck_assert_int_eq(strv_appendf(&folders->dirs, "%s/%s", base, names[i]), 0);
                make_folder(folders->dirs.items[i]);
                ck_assert_int_gt(asprintf(&sub, "%s/templates.d", folders->dirs.items[i]), 0);
                make_folder(sub);
        }
}

static int remove_one(const char *path, _unused_ const struct stat *st, _unused_ int type,
                      _unused_ struct FTW *ftw) {
        return remove(path);
}

static void folders_done(Folders *folders) {
        ck_assert_int_eq(nftw(folders->base, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
        free(folders->base);
        strv_done(&folders->dirs);
}

static char *path_of(const Folders *folders, const char *name) {
        char *path = NULL;

        ck_assert_int_gt(asprintf(&path, "%s/%s", folders->base, name), 0);
        return path;
}

static void put(const Folders *folders, const char *name, const char *text) {
        _cleanup_(freep) char *path = path_of(folders, name);
        FILE *f = fopen(path, "we");

        ck_assert_ptr_nonnull(f);
        ck_assert_int_ge(fputs(text, f), 0);
        ck_assert_int_eq(fclose(f), 0);
        ck_assert_int_eq(chmod(path, 0644), 0);
}

/* Diagnostics, with the base folder's name left out. */
static char *diags_text(const Folders *folders, const DiagList *diags) {
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        for (size_t i = 0; i < diags->n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags->items[i]);
                const char *rest = string_after(line, folders->base);

                ck_assert_int_eq(strbuf_appendf(&buf, "%s\n", rest ? rest + 1 : line), 0);
        }
        return strbuf_steal(&buf);
}

static void check_load(const Folders *folders, const char *expected, Policy **ret_policy) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = policy_load(&folders->dirs, &diags, &policy);
        text = diags_text(folders, &diags);
        ck_assert_str_eq(text, expected);
        ck_assert_int_eq(r, *expected ? POLICY_E_INVALID : 0);
        ck_assert((policy == NULL) == (*expected != 0));
        if (ret_policy)
                *ret_policy = TAKE_PTR(policy);
}

static void check_load_template(const Folders *folders, const char *name, const char *expected,
                                Template **ret_template) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(template_freep) Template *template = NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = policy_load_template(&folders->dirs, name, &diags, &template);
        text = diags_text(folders, &diags);
        ck_assert_str_eq(text, expected);
        ck_assert_int_eq(r, *expected ? POLICY_E_INVALID : 0);
        ck_assert((template == NULL) == (*expected != 0));
        if (ret_template)
                *ret_template = TAKE_PTR(template);
}

#define FOLDERS                                                                                    \
        _cleanup_(folders_done) Folders folders;                                                   \
        folders_init(&folders)

START_TEST(test_empty) {
        _cleanup_(policy_freep) Policy *policy = NULL;
        FOLDERS;

        check_load(&folders, "", &policy);
        ck_assert_uint_eq(policy->n_templates, 0);
        ck_assert_ptr_null(policy->config.file);
        ck_assert_uint_eq(policy->config.crates_max, 64);
        ck_assert_ptr_null(policy_find_template(policy, "host"));
}
END_TEST

START_TEST(test_missing_folders) {
        _cleanup_(policy_freep) Policy *policy = NULL;
        FOLDERS;

        ck_assert_int_eq(strv_appendf(&folders.dirs, "%s/nowhere", folders.base), 0);
        check_load(&folders, "", &policy);
}
END_TEST

START_TEST(test_precedence) {
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(template_freep) Template *b = NULL;
        FOLDERS;

        put(&folders, "vendor/templates.d/c.json", "{\"description\": \"vendor c\"}");
        put(&folders, "vendor/templates.d/b.json", "{\"description\": \"vendor b\"}");
        put(&folders, "admin/templates.d/b.json", "{\"description\": \"admin b\"}");
        put(&folders, "admin/templates.d/a.json", "{\"description\": \"admin a\"}");
        put(&folders, "vendor/agentcrated.json", "{\"instance\": {\"crates\": 3}}");
        put(&folders, "admin/agentcrated.json", "{\"message_max\": \"1M\"}");

        check_load(&folders, "", &policy);
        ck_assert_uint_eq(policy->n_templates, 3);
        ck_assert_str_eq(policy->templates[0]->name, "a");
        ck_assert_str_eq(policy->templates[1]->name, "b");
        ck_assert_str_eq(policy->templates[2]->name, "c");
        ck_assert_str_eq(policy_find_template(policy, "b")->description, "admin b");
        ck_assert_str_eq(policy_find_template(policy, "c")->description, "vendor c");
        /* The whole file overrides, not key by key. */
        ck_assert_uint_eq(policy->config.crates_max, 64);
        ck_assert_uint_eq(policy->config.message_max, 1U << 20);

        check_load_template(&folders, "b", "", &b);
        ck_assert_str_eq(b->description, "admin b");
}
END_TEST

START_TEST(test_all_faults) {
        FOLDERS;

        put(&folders, "vendor/templates.d/v.json", "[]");
        put(&folders, "admin/templates.d/a.json", "{\"root\": 1,\n\"etc\": 2}");
        put(&folders, "admin/templates.d/good.json", "{}");
        put(&folders, "admin/agentcrated.json", "{");

        check_load(&folders,
                   "admin/agentcrated.json:1:2: expected a member name in quotes, found the end of "
                   "the text\n"
                   "admin/templates.d/a.json:1:10: root: 1 is no string\n"
                   "admin/templates.d/a.json:2:8: etc: 2 is not known here; give \"minimal\" or "
                   "\"root\"\n"
                   "vendor/templates.d/v.json:1:1: [] is no object ({…})\n",
                   NULL);

        /* One good template does not depend on the others. */
        check_load_template(&folders, "good", "", NULL);
        check_load_template(&folders, "v", "vendor/templates.d/v.json:1:1: [] is no object ({…})\n",
                            NULL);
}
END_TEST

START_TEST(test_file_names) {
        _cleanup_(policy_freep) Policy *policy = NULL;
        FOLDERS;

        put(&folders, "admin/templates.d/good-1.json", "{}");
        put(&folders, "admin/templates.d/good-1.json~", "not read");
        put(&folders, "admin/templates.d/.good-1.json.swp", "not read");
        put(&folders, "admin/templates.d/.hidden.json", "not read");
        put(&folders, "admin/templates.d/good-1.json.dpkg-old", "not read");
        put(&folders, "admin/templates.d/good-1.json.rpmsave", "not read");
        check_load(&folders, "", &policy);
        ck_assert_uint_eq(policy->n_templates, 1);

        put(&folders, "admin/templates.d/README", "x");
        put(&folders, "admin/templates.d/Upper.json", "{}");
        put(&folders, "admin/templates.d/good.json.bak", "{}");
        put(&folders, "admin/templates.d/.json", "{}"); /* hidden, so skipped */
        put(&folders, "admin/templates.d/abcdefghijklmnopqrstuvwxyz0123456.json", "{}");
        put(&folders, "admin/templates.d/a\nb.json", "{}");
#define NO_NAME ": is no template's name: give NAME.json with 1 to 32 of a-z, 0-9 and -\n"
        check_load(&folders,
                   "admin/templates.d/README" NO_NAME "admin/templates.d/Upper.json" NO_NAME
                   "admin/templates.d/a\\x0ab.json" NO_NAME
                   "admin/templates.d/abcdefghijklmnopqrstuvwxyz0123456.json" NO_NAME
                   "admin/templates.d/good.json.bak" NO_NAME,
                   NULL);
}
END_TEST

START_TEST(test_kinds_of_files) {
        _cleanup_(freep) char *fifo = NULL, *folder = NULL, *link_good = NULL, *link_none = NULL;
        FOLDERS;

        put(&folders, "vendor/templates.d/none.json", "{}");
        put(&folders, "target", "{}");
        link_good = path_of(&folders, "admin/templates.d/link.json");
        ck_assert_int_eq(symlink("../../target", link_good), 0);
        check_load(&folders, "", NULL);

        /* What stands behind an administrator's broken link must not be the vendor's file. */
        link_none = path_of(&folders, "admin/templates.d/none.json");
        ck_assert_int_eq(symlink("gone", link_none), 0);
        fifo = path_of(&folders, "admin/templates.d/fifo.json");
        ck_assert_int_eq(mkfifo(fifo, 0644), 0);
        folder = path_of(&folders, "admin/agentcrated.json");
        make_folder(folder);
        check_load(&folders,
                   "admin/agentcrated.json: is no regular file\n"
                   "admin/templates.d/fifo.json: is no regular file\n"
                   "admin/templates.d/none.json: is a link to nothing\n",
                   NULL);
}
END_TEST

START_TEST(test_no_folder) {
        _cleanup_(freep) char *folder = NULL;
        FOLDERS;

        folder = path_of(&folders, "admin/templates.d");
        ck_assert_int_eq(rmdir(folder), 0);
        put(&folders, "admin/templates.d", "{}");
        check_load(&folders, "admin/templates.d: cannot be read: Not a directory\n", NULL);
}
END_TEST

START_TEST(test_world_writable) {
        _cleanup_(freep) char *file = NULL, *folder = NULL;
        FOLDERS;

#define UNTRUSTED ": can be written by everybody, so it cannot be trusted: chmod o-w it\n"
        put(&folders, "admin/templates.d/a.json", "{}");
        file = path_of(&folders, "admin/templates.d/a.json");
        ck_assert_int_eq(chmod(file, 0666), 0);
        check_load(&folders, "admin/templates.d/a.json" UNTRUSTED, NULL);
        check_load_template(&folders, "a", "admin/templates.d/a.json" UNTRUSTED, NULL);

        ck_assert_int_eq(chmod(file, 0644), 0);
        folder = path_of(&folders, "admin/templates.d");
        ck_assert_int_eq(chmod(folder, 0777), 0);
        check_load(&folders, "admin/templates.d" UNTRUSTED, NULL);
}
END_TEST

START_TEST(test_size) {
        _cleanup_(freep) char *file = NULL;
        FOLDERS;

        put(&folders, "admin/templates.d/a.json", "{}");
        file = path_of(&folders, "admin/templates.d/a.json");
        ck_assert_int_eq(truncate(file, (1 << 20) + 1), 0);
        check_load(&folders, "admin/templates.d/a.json: is larger than 1 MiB\n", NULL);
        /* Of the largest size that is read, the NUL bytes are the fault. */
        ck_assert_int_eq(truncate(file, 1 << 20), 0);
        check_load(&folders,
                   "admin/templates.d/a.json:1:3: expected nothing behind the value, found the "
                   "byte 0x00\n",
                   NULL);
}
END_TEST

START_TEST(test_unknown_template) {
        FOLDERS;

        _cleanup_(freep) char *none = NULL;

        /* The last folder is missing, as the user's own mostly is. */
        ck_assert_int_eq(strv_appendf(&folders.dirs, "%s/nowhere", folders.base), 0);
        ck_assert_int_gt(asprintf(&none,
                                  "there is no template \"nix\": no templates in "
                                  "%s/vendor/templates.d, %s/admin/templates.d, "
                                  "%s/nowhere/templates.d; " POLICY_EMPTY_REMEDY "\n",
                                  folders.base, folders.base, folders.base),
                         0);
        check_load_template(&folders, "nix", none, NULL);
        put(&folders, "vendor/templates.d/host.json", "{}");
        put(&folders, "admin/templates.d/host.json", "{}");
        put(&folders, "admin/templates.d/go.json", "{}");
        check_load_template(&folders, "nix",
                            "templates.d: no template is named \"nix\"; there are go, host\n",
                            NULL);
        check_load_template(&folders, "../templates.d/host",
                            "templates.d: no template is named \"../templates.d/host\"; there are "
                            "go, host\n",
                            NULL);
}
END_TEST

START_TEST(test_default_dirs) {
        _cleanup_(strv_done) StrV dirs = STRV_NULL, vendor = STRV_NULL;
        bool is_user = geteuid() != 0;

        ck_assert_int_eq(setenv("AGENTCRATE_DATA_DIR", "/data", 1), 0);
        ck_assert_int_eq(setenv("XDG_CONFIG_HOME", "/xdg", 1), 0);
        ck_assert_int_eq(setenv("HOME", "/home/u", 1), 0);
        ck_assert_int_eq(policy_default_dirs(&dirs), 0);
        ck_assert_uint_eq(dirs.n_items, is_user ? 3 : 2);
        ck_assert_str_eq(dirs.items[0], "/data");
        ck_assert_str_eq(dirs.items[1], SYSCONFDIR);
        if (is_user)
                ck_assert_str_eq(dirs.items[2], "/xdg/agentcrate");

        strv_done(&dirs);
        ck_assert_int_eq(setenv("XDG_CONFIG_HOME", "relative", 1), 0);
        ck_assert_int_eq(policy_default_dirs(&dirs), 0);
        if (is_user)
                ck_assert_str_eq(dirs.items[2], "/home/u/.config/agentcrate");

        ck_assert_int_eq(unsetenv("AGENTCRATE_DATA_DIR"), 0);
        ck_assert_int_eq(policy_default_dirs(&vendor), 0);
        ck_assert_str_eq(vendor.items[0], DATADIR);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("policy");
        TCase *tcase = tcase_create("policy");
        SRunner *runner = srunner_create(suite);
        int n_failed;

        suite_add_tcase(suite, tcase);
        tcase_add_test(tcase, test_empty);
        tcase_add_test(tcase, test_missing_folders);
        tcase_add_test(tcase, test_precedence);
        tcase_add_test(tcase, test_all_faults);
        tcase_add_test(tcase, test_file_names);
        tcase_add_test(tcase, test_kinds_of_files);
        tcase_add_test(tcase, test_no_folder);
        tcase_add_test(tcase, test_world_writable);
        tcase_add_test(tcase, test_size);
        tcase_add_test(tcase, test_unknown_template);
        tcase_add_test(tcase, test_default_dirs);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
