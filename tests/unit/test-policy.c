/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "basic/macros.h"
#include "policy/dump.h"
#include "policy/policy.h"
#include "policy/source.h"

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
        static const char *const subs[] = {"templates.d", "tenants.d"};
        char *base = NULL;

        *folders = (Folders){};
        ck_assert_int_gt(
                asprintf(&base, "%s/agentcrate-policy.XXXXXX", secure_getenv("TMPDIR") ?: "/tmp"),
                0);
        ck_assert_ptr_nonnull(mkdtemp(base));
        folders->base = base;
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                ck_assert_int_eq(strv_appendf(&folders->dirs, "%s/%s", base, names[i]), 0);
                make_folder(folders->dirs.items[i]);
                for (size_t k = 0; k < ELEMENTSOF(subs); k++) {
                        _cleanup_(freep) char *sub = NULL;

                        ck_assert_int_gt(asprintf(&sub, "%s/%s", folders->dirs.items[i], subs[k]),
                                         0);
                        make_folder(sub);
                }
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

static void check_instance(PolicyInstance instance, const Folders *folders, const char *expected,
                           Policy **ret_policy) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(freep) char *text = NULL;
        int r;

        r = policy_load_instance(instance, &folders->dirs, &diags, &policy);
        text = diags_text(folders, &diags);
        ck_assert_str_eq(text, expected);
        ck_assert_int_eq(r, *expected ? POLICY_E_INVALID : 0);
        ck_assert((policy == NULL) == (*expected != 0));
        if (ret_policy)
                *ret_policy = TAKE_PTR(policy);
}

static void check_load(const Folders *folders, const char *expected, Policy **ret_policy) {
        check_instance(POLICY_USER, folders, expected, ret_policy);
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

/* What is read is a string wherever the heap puts it. */
START_TEST(test_source_text) {
        static const char content[] =
                "a text that is not JSON, such as a certificate, and is read whole";
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(freep) char *path = NULL, *text = NULL;
        volatile char *before = malloc(sizeof(content));
        size_t size;
        FOLDERS;

        put(&folders, "admin/text", content);
        path = path_of(&folders, "admin/text");
        for (size_t i = 0; i < sizeof(content); i++)
                before[i] = 'x';
        free((void *) before);
        ck_assert_int_eq(source_read(path, SOURCE_TRUST_USER, &diags, &text, &size), 0);
        ck_assert_uint_eq(size, sizeof(content) - 1);
        ck_assert_str_eq(text, content);
}
END_TEST

START_TEST(test_certificates) {
        _cleanup_(freep) char *folder = NULL, *json = NULL, *ca = NULL, *expected = NULL;
        _cleanup_(policy_freep) Policy *policy = NULL, *none = NULL;
        FOLDERS;

        folder = path_of(&folders, "admin/credentials.d");
        ca = path_of(&folders, "admin/ca.pem");
        make_folder(folder);
        ck_assert_int_gt(
                asprintf(&json,
                         "{\"upstream\": \"https://a.example\", \"secret\": \"s\", "
                         "\"attach\": {\"as\": \"bearer\"}, \"ca\": \"%s\", "
                         "\"operations\": {\"x\": {\"method\": \"GET\", \"path\": \"/x\"}}}",
                         ca),
                0);
        put(&folders, "admin/credentials.d/a.json", json);
        put(&folders, "admin/ca.pem", "certificates");
        check_load(&folders, "", &policy);
        ck_assert_uint_eq(policy->n_credentials, 1);
        ck_assert_str_eq(policy->credentials[0]->ca_text, "certificates");

        put(&folders, "admin/ca.pem", "\xff");
        ck_assert_int_gt(asprintf(&expected,
                                  "admin/credentials.d/a.json: ca: %s is no text; give a file of "
                                  "certificates in PEM\n",
                                  ca),
                         0);
        check_load(&folders, expected, &none);
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

/* --- tenants --- */

START_TEST(test_owner) {
        _cleanup_(policy_freep) Policy *user = NULL, *system = NULL;
        const Tenant *tenant = NULL, *other = NULL;
        FOLDERS;

        check_load(&folders, "", &user);
        ck_assert_uint_eq(user->n_tenants, 1);
        ck_assert_str_eq(user->tenants[0]->name, "owner");
        ck_assert_int_eq(policy_match(user, geteuid(), NULL, 0, &tenant, &other), 0);
        ck_assert_ptr_eq(tenant, user->tenants[0]);
        ck_assert_int_eq(policy_match(user, 0, NULL, 0, &tenant, &other), 0);
        ck_assert_int_eq(policy_match(user, geteuid() + 1, NULL, 0, &tenant, &other),
                         POLICY_MATCH_E_NOBODY);

        /* As soon as somebody has said who there is, there is nobody else. */
        put(&folders, "vendor/tenants.d/ci.json", "{\"match\": {\"uid\": [7]}}");
        policy_free(TAKE_PTR(user));
        check_load(&folders, "", &user);
        ck_assert_uint_eq(user->n_tenants, 1);
        ck_assert_str_eq(user->tenants[0]->name, "ci");
        if (geteuid() != 0)
                return;
        check_instance(POLICY_SYSTEM, &folders, "", &system);
        ck_assert_uint_eq(system->n_tenants, 1);
}
END_TEST

START_TEST(test_nobody) {
        _cleanup_(policy_freep) Policy *policy = NULL;
        const Tenant *tenant = NULL, *other = NULL;
        FOLDERS;

        if (geteuid() != 0)
                return;
        check_instance(POLICY_SYSTEM, &folders, "", &policy);
        ck_assert_uint_eq(policy->n_tenants, 0);
        ck_assert_int_eq(policy_match(policy, 0, NULL, 0, &tenant, &other), POLICY_MATCH_E_NOBODY);
}
END_TEST

START_TEST(test_match) {
        static const gid_t staff[] = {50, 100}, both[] = {200, 100}, none[] = {1, 2};
        _cleanup_(policy_freep) Policy *policy = NULL;
        const Tenant *tenant = NULL, *other = NULL;
        FOLDERS;

        put(&folders, "admin/tenants.d/a.json", "{\"match\": {\"uid\": [5, 3], \"gid\": [100]}}");
        put(&folders, "admin/tenants.d/b.json", "{\"match\": {\"gid\": [200, 201]}}");
        put(&folders, "admin/tenants.d/c.json", "{\"match\": {\"uid\": [4, 9, 2]}}");
        check_load(&folders, "", &policy);

        ck_assert_int_eq(policy_match(policy, 3, none, 2, &tenant, &other), 0);
        ck_assert_str_eq(tenant->name, "a");
        ck_assert_int_eq(policy_match(policy, 77, staff, 2, &tenant, &other), 0);
        ck_assert_str_eq(tenant->name, "a");
        /* The uid decides before any group is asked. */
        ck_assert_int_eq(policy_match(policy, 9, both, 2, &tenant, &other), 0);
        ck_assert_str_eq(tenant->name, "c");
        ck_assert_int_eq(policy_match(policy, 77, none, 2, &tenant, &other), POLICY_MATCH_E_NOBODY);
        ck_assert_int_eq(policy_match(policy, 77, both, 2, &tenant, &other),
                         POLICY_MATCH_E_SEVERAL);
        ck_assert_str_eq(tenant->name, "b");
        ck_assert_str_eq(other->name, "a");
        for (uid_t uid = 0; uid < 12; uid++)
                ck_assert((policy_match(policy, uid, NULL, 0, &tenant, &other) == 0) ==
                          (uid == 2 || uid == 3 || uid == 4 || uid == 5 || uid == 9));
        ck_assert_str_eq(policy_find_tenant(policy, "b")->name, "b");
        ck_assert_ptr_null(policy_find_tenant(policy, "d"));
}
END_TEST

START_TEST(test_same_ids) {
        _cleanup_(freep) char *expected = NULL;
        FOLDERS;

        put(&folders, "admin/tenants.d/a.json", "{\"match\": {\"uid\": [5, 6],\n\"gid\": [5]}}");
        put(&folders, "vendor/tenants.d/b.json",
            "{\n\"match\": {\"uid\": [4, 6], \"gid\": [7, 5]}}");
        put(&folders, "admin/tenants.d/c.json", "{\"match\": {\"uid\": [1879048192]}}");
        ck_assert_int_gt(
                asprintf(&expected,
                         "vendor/tenants.d/b.json:2:22: match.uid[1]: uid 6 is tenant a too, by "
                         "%s/admin/tenants.d/a.json:1: take it out of one of them\n"
                         "vendor/tenants.d/b.json:2:37: match.gid[1]: gid 5 is tenant a too, by "
                         "%s/admin/tenants.d/a.json:2: take it out of one of them\n"
                         "admin/tenants.d/c.json:1:20: match.uid[0]: lies in subuid_range, whose "
                         "ids are those of crates\n",
                         folders.base, folders.base),
                0);
        check_load(&folders, expected, NULL);

        /* The same file name overrides, so that there are no two. */
        put(&folders, "vendor/tenants.d/a.json", "{\"match\": {\"uid\": [6]}}");
        put(&folders, "vendor/tenants.d/b.json", "{\"match\": {\"uid\": [7]}}");
        put(&folders, "admin/tenants.d/c.json", "{\"match\": {\"uid\": [8]}}");
        check_load(&folders, "", NULL);
}
END_TEST

/* What a system's broker trusts. */
START_TEST(test_system_trust) {
        _cleanup_(freep) char *link = NULL, *foreign = NULL, *group = NULL, *open = NULL,
                              *folder = NULL, *moved = NULL;
        FOLDERS;

        if (geteuid() != 0)
                return;
        put(&folders, "target", "{}");
        put(&folders, "admin/tenants.d/foreign.json", "{\"match\": {\"uid\": [1]}}");
        put(&folders, "admin/tenants.d/group.json", "{\"match\": {\"uid\": [2]}}");
        put(&folders, "admin/tenants.d/open.json", "{\"match\": {\"uid\": [3]}}");
        link = path_of(&folders, "admin/templates.d/link.json");
        foreign = path_of(&folders, "admin/tenants.d/foreign.json");
        group = path_of(&folders, "admin/tenants.d/group.json");
        open = path_of(&folders, "admin/tenants.d/open.json");
        ck_assert_int_eq(symlink("../../target", link), 0);
        ck_assert_int_eq(chown(foreign, 1000, 0), 0);
        ck_assert_int_eq(chown(group, 0, 1000), 0);
        ck_assert_int_eq(chmod(group, 0664), 0);
        ck_assert_int_eq(chmod(open, 0646), 0);
        check_instance(
                POLICY_SYSTEM, &folders,
                "admin/templates.d/link.json: is a symbolic link, which a system instance does "
                "not follow: put what it names in its place\n"
                "admin/tenants.d/foreign.json: belongs to user 1000, and a system instance trusts "
                "root's files only: chown root it\n"
                "admin/tenants.d/group.json: can be written by group 1000, and a system instance "
                "trusts root's files only: chmod g-w it\n"
                "admin/tenants.d/open.json" UNTRUSTED,
                NULL);
        /* A user's own may lie where he wants it to; what everybody can write is nobody's. */
        check_load(&folders, "admin/tenants.d/open.json" UNTRUSTED, NULL);

        folder = path_of(&folders, "vendor/tenants.d");
        moved = path_of(&folders, "vendor/elsewhere");
        ck_assert_int_eq(chmod(open, 0644), 0);
        ck_assert_int_eq(chmod(group, 0644), 0);
        ck_assert_int_eq(chown(foreign, 0, 0), 0);
        ck_assert_int_eq(unlink(link), 0);
        check_instance(POLICY_SYSTEM, &folders, "", NULL);
        ck_assert_int_eq(rename(folder, moved), 0);
        ck_assert_int_eq(symlink("elsewhere", folder), 0);
        check_instance(POLICY_SYSTEM, &folders,
                       "vendor/tenants.d: is a symbolic link, which a system instance does not "
                       "follow: put what it names in its place\n",
                       NULL);
        check_load(&folders, "", NULL);
}
END_TEST

START_TEST(test_system_connection) {
        FOLDERS;

        if (geteuid() != 0)
                return;
        put(&folders, "admin/tenants.d/a.json",
            "{\"match\": {\"uid\": [1]}, \"workspaces\": [\"connection\"]}");
        check_load(&folders, "", NULL);
        check_instance(POLICY_SYSTEM, &folders,
                       "admin/tenants.d/a.json:1:40: workspaces: \"connection\" is for a user's "
                       "own instance only, for this one may open what the user must not: name the "
                       "folders\n",
                       NULL);
}
END_TEST

/* --- dump --- */

static void dump(const Policy *policy, bool sources, StrBuf *out) {
        ck_assert_int_eq(policy_dump(policy, sources, out), 0);
}

/* What was dumped, as files of a folder of its own. */
static void put_dump(const Folders *folders, const Policy *policy) {
        for (size_t i = 0; i < policy->n_templates; i++) {
                _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
                _cleanup_(freep) char *name = NULL;

                ck_assert_int_gt(
                        asprintf(&name, "admin/templates.d/%s.json", policy->templates[i]->name),
                        0);
                ck_assert_int_eq(policy_dump_template(policy->templates[i], &text), 0);
                put(folders, name, text.data);
        }
        for (size_t i = 0; i < policy->n_tenants; i++) {
                _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
                _cleanup_(freep) char *name = NULL;

                ck_assert_int_gt(
                        asprintf(&name, "admin/tenants.d/%s.json", policy->tenants[i]->name), 0);
                ck_assert_int_eq(policy_dump_tenant(policy->tenants[i], &text), 0);
                put(folders, name, text.data);
        }
        _cleanup_(strbuf_done) StrBuf config = STRBUF_NULL;
        ck_assert_int_eq(policy_dump_config(&policy->config, &config), 0);
        put(folders, "admin/agentcrated.json", config.data);
}

static void check_identity(const Policy *first) {
        _cleanup_(strbuf_done) StrBuf a = STRBUF_NULL, b = STRBUF_NULL;
        _cleanup_(policy_freep) Policy *second = NULL;
        FOLDERS;

        put_dump(&folders, first);
        check_load(&folders, "", &second);
        dump(first, false, &a);
        dump(second, false, &b);
        ck_assert_str_eq(a.data, b.data);
        ck_assert_str_eq(first->digest, second->digest);
}

START_TEST(test_dump_identity) {
        _cleanup_(policy_freep) Policy *bare = NULL, *full = NULL;
        FOLDERS;

        check_load(&folders, "", &bare);
        check_identity(bare);

        put(&folders, "admin/agentcrated.json",
            "{\"instance\": {\"crates\": 3, \"memory\": \"3G\", \"cpus\": 1.25}, \"enforce\": "
            "\"strict\", \"idle_exit\": \"1.5ms\", \"message_max\": \"1M\", "
            "\"subuid_range\": [100000, 1000]}");
        put(&folders, "vendor/templates.d/t.json",
            "{\"description\": \"a \\\"b\\\" \\u0001 \\u00fc\", \"ro\": [\"/usr\", {\"from\": "
            "\"/a\", \"to\": \"/b\"}], \"rw\": [\"/c\"], \"hide\": [\"/d\"], \"tmpfs\": [\"/e\"], "
            "\"env\": {\"A\": \"b=c\"}, \"pass_env\": [\"TZ\"], \"limits\": {\"memory\": 67108864, "
            "\"wall_time\": \"90s\", \"pids\": 99}, \"on_hit\": \"refuse\", \"pool\": {\"min\": "
            "1, \"max\": 2}}");
        put(&folders, "admin/tenants.d/a.json",
            "{\"match\": {\"gid\": [1]}, \"arguments\": {\"x\": {\"properties\": {\"a b\": "
            "{\"const\": \" \\\" \"}}}}, \"tools\": {\"allow\": [\"z\", \"a*\", \"b\"]}}");
        check_load(&folders, "", &full);
        check_identity(full);
        ck_assert_str_ne(bare->digest, full->digest);
        ck_assert_uint_eq(strlen(full->digest), POLICY_DIGEST_SIZE - 1);
}
END_TEST

/* Where a file lies says nothing about what it says. */
START_TEST(test_digest) {
        _cleanup_(policy_freep) Policy *first = NULL, *second = NULL, *third = NULL;
        _cleanup_(strbuf_done) StrBuf a = STRBUF_NULL;
        FOLDERS;

        put(&folders, "vendor/tenants.d/a.json", "{\"match\": {\"uid\": [1]}}");
        check_load(&folders, "", &first);
        put(&folders, "admin/tenants.d/a.json", "{ \"match\" : { \"uid\" :\n[1] } }");
        check_load(&folders, "", &second);
        ck_assert_str_eq(first->digest, second->digest);
        dump(second, true, &a);
        ck_assert_ptr_nonnull(strstr(a.data, "/admin/tenants.d/a.json\""));
        ck_assert_ptr_nonnull(strstr(a.data, "\"agentcrated.json\": \"built in\""));
        put(&folders, "admin/tenants.d/a.json", "{\"match\": {\"uid\": [2]}}");
        check_load(&folders, "", &third);
        ck_assert_str_ne(first->digest, third->digest);
}
END_TEST

START_TEST(test_references) {
        Policy *policy = NULL;
        FOLDERS;

        check_load(&folders, "", &policy);
        ck_assert_ptr_eq(policy_ref(policy), policy);
        ck_assert_ptr_null(policy_free(policy));
        ck_assert_uint_eq(policy->n_tenants, 1);
        ck_assert_ptr_null(policy_free(policy));
        ck_assert_ptr_null(policy_free(NULL));
}
END_TEST

START_TEST(test_warnings) {
        _cleanup_(policy_freep) Policy *policy = NULL;
        _cleanup_(freep) char *text = NULL;
        FOLDERS;

        put(&folders, "admin/tenants.d/a.json",
            "{\"match\": {\"uid\": [1]}, \"tools\": {\"allow\": [\"*\", \"x\"]}}");
        put(&folders, "admin/tenants.d/b.json", "{\"match\": {\"uid\": [2]}}");
        check_load(&folders, "", &policy);
        text = diags_text(&folders, &policy->warnings);
        ck_assert_str_eq(text, "admin/tenants.d/a.json:1:50: tools.allow[1]: \"x\" adds nothing: "
                               "tools.allow[0], \"*\", covers it\n"
                               "admin/tenants.d/b.json:1:1: this tenant may call nothing: give "
                               "tools.allow\n");
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
        tcase_add_test(tcase, test_owner);
        tcase_add_test(tcase, test_nobody);
        tcase_add_test(tcase, test_match);
        tcase_add_test(tcase, test_same_ids);
        tcase_add_test(tcase, test_system_trust);
        tcase_add_test(tcase, test_system_connection);
        tcase_add_test(tcase, test_dump_identity);
        tcase_add_test(tcase, test_source_text);
        tcase_add_test(tcase, test_certificates);
        tcase_add_test(tcase, test_digest);
        tcase_add_test(tcase, test_references);
        tcase_add_test(tcase, test_warnings);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
