/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "crate/mount-table.h"
#include "tests/unit/plan-text.h"
#include "tests/unit/scratch.h"
#include "tests/unit/suite.h"

/* Stands for the scratch folder, the host of these tests, in what is expected. */
#define HOST "HOST"

typedef struct Entry {
        MountKind kind;
        const char *path;
        const char *source; /* below HOST, or NULL */
        uint32_t mode;
        bool optional;
} Entry;

#define RO(p, s, ...)                                                                              \
        { .kind = MOUNT_RO, .path = (p), .source = (s), ##__VA_ARGS__ }
#define RW(p, s, ...)                                                                              \
        { .kind = MOUNT_RW, .path = (p), .source = (s), ##__VA_ARGS__ }
#define HIDE(p, ...)                                                                               \
        { .kind = MOUNT_HIDE, .path = (p), ##__VA_ARGS__ }
#define PRIVATE(p, m, ...)                                                                         \
        { .kind = MOUNT_PRIVATE, .path = (p), .mode = (m), ##__VA_ARGS__ }

static Scratch host;

static void set_up(void) {
        scratch_init(&host);
        scratch_file(&host, "w/file", "");
        scratch_folder(&host, "w/out");
        scratch_folder(&host, "w/tmp");
        scratch_file(&host, "out/secret", "");
        scratch_file(&host, "out/deep/secret", "");
        scratch_folder(&host, "out/tmp");
        scratch_folder(&host, "folder/sub");
        scratch_file(&host, "file", "");
        scratch_file(&host, "usr/lib/x/file", "");
        scratch_folder(&host, "usr/share/doc");
        scratch_link(&host, "usr/relative", "lib");
        scratch_link(&host, "usr/absolute", "/usr/lib");
        scratch_link(&host, "usr/absolute-host", "/etc");
        scratch_link(&host, "usr/up", "../../../../../usr/lib");
        scratch_link(&host, "usr/chain", "relative/x");
        scratch_link(&host, "usr/dangling", "/nowhere/to");
        scratch_link(&host, "usr/out", "../../../../../../outside");
        scratch_link(&host, "usr/to-dev", "/dev");
        scratch_link(&host, "usr/to-shm", "/dev/shm");
        scratch_link(&host, "usr/to-root", "/");
        scratch_link(&host, "usr/to-cover", PLAN_HIDDEN_DIR);
        scratch_link(&host, "usr/self", "self");
        scratch_link(&host, "usr/ping", "pong");
        scratch_link(&host, "usr/pong", "/usr/ping");
        scratch_link(&host, "usr/growing", "growing/x");
}

static void tear_down(void) {
        scratch_done(&host);
}

static int table_add(MountTable *table, const Entry *entry, CrateError *error) {
        _cleanup_(freep) char *source = entry->source ? scratch_path(&host, entry->source) : NULL;

        return mount_table_add(table, entry->kind, entry->path, source, entry->mode,
                               !entry->optional, error);
}

static void table_add_good(MountTable *table, const Entry *entry) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;

        ck_assert_msg(table_add(table, entry, &error) == 0, "%s", error.text);
}

/* The scratch folder's own name differs from run to run. */
static char *without_host(const char *text) {
        size_t n = strlen(host.path);
        StrBuf buf = STRBUF_NULL;

        for (const char *p = text; *p;)
                if (strncmp(p, host.path, n) == 0) {
                        ck_assert_int_eq(strbuf_append_string(&buf, HOST), 0);
                        p += n;
                } else
                        ck_assert_int_eq(strbuf_append_byte(&buf, *p++), 0);
        return strbuf_steal(&buf);
}

/* Both plans of an arranged table, then its notes. */
static char *table_text(const MountTable *table) {
        _cleanup_(plan_freep) CratePlan *tree = NULL, *crate = NULL;
        _cleanup_(freep) char *tree_text = NULL, *crate_text = NULL;
        _cleanup_(strbuf_done) StrBuf buf = STRBUF_NULL;

        ck_assert_int_eq(plan_new(&tree), 0);
        ck_assert_int_eq(plan_new(&crate), 0);
        ck_assert_int_eq(mount_table_plan_tree(table, tree), 0);
        ck_assert_int_eq(mount_table_plan_crate(table, crate), 0);
        tree_text = plan_text(tree);
        crate_text = plan_text(crate);
        ck_assert_int_eq(strbuf_appendf(&buf, "%s%s", tree_text, crate_text), 0);
        for (size_t i = 0; i < table->notes.n_items; i++)
                ck_assert_int_eq(strbuf_appendf(&buf, "note  %s\n", table->notes.items[i]), 0);
        return without_host(buf.data);
}

static void arrange_good(MountTable *table) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;

        ck_assert_msg(mount_table_arrange(table, &error) == 0, "%s", error.text);
}

static char *entries_text(const Entry *entries, size_t n) {
        _cleanup_(mount_table_done) MountTable table = {};

        for (size_t i = 0; i < n; i++)
                table_add_good(&table, &entries[i]);
        arrange_good(&table);
        return table_text(&table);
}

static void assert_plan(const Entry *entries, size_t n, const char *want) {
        _cleanup_(freep) char *got = entries_text(entries, n);

        ck_assert_str_eq(got, want);
}

/* The text of the refusal, without the host's name. */
static char *refusal_text(const Entry *entries, size_t n, int want_errno) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        _cleanup_(mount_table_done) MountTable table = {};
        int r = 0;

        for (size_t i = 0; r == 0 && i < n; i++)
                r = table_add(&table, &entries[i], &error);
        if (r == 0)
                r = mount_table_arrange(&table, &error);
        ck_assert_int_eq(r, MOUNT_TABLE_E_INVALID);
        ck_assert_str_eq(error.step, "mount");
        ck_assert_ptr_nonnull(error.remedy);
        ck_assert_ptr_nonnull(error.path);
        ck_assert_int_eq(error.error, want_errno);
        return without_host(error.text);
}

/* --- FS-04: the order in which things are written decides nothing --- */

#define N_ORDERED 4U

typedef struct Ordered {
        Entry entries[N_ORDERED];
        const char *plan;
} Ordered;

static const Ordered ordered[] = {
        {{RO("/w", "w"), RW("/w/out", "out"), HIDE("/w/out/secret"), PRIVATE("/w/tmp", 0755)},
         "tree  dir            /w mode=0755\n"
         "tree  bind           /w from HOST/w ro recursive directory\n"
         "crate private        /w/tmp mode=0755\n"
         "late  late-bind      /w/out from HOST/out recursive directory\n"
         "late  late-hide      /w/out/secret\n"},
        {{RW("/w", "w"), RO("/w/out", "out"), HIDE("/w/out/deep"), PRIVATE("/w/out/tmp", 0700)},
         "tree  dir            /w mode=0755\n"
         "late  late-private   /w/out/tmp mode=0700\n"
         "late  late-bind      /w from HOST/w recursive directory\n"
         "late  late-bind      /w/out from HOST/out ro recursive directory\n"
         "late  late-hide      /w/out/deep directory\n"},
        {{PRIVATE("/w", 01777), RO("/w/a/out", "out"), HIDE("/w/a/out/secret"),
          RO("/file", "file")},
         "tree  file           /file mode=0644 bytes=0\n"
         "tree  bind           /file from HOST/file ro\n"
         "tree  dir            /w mode=0755\n"
         "crate private        /w mode=1777\n"
         "crate mountpoint     /w/a/out directory\n"
         "late  late-bind      /w/a/out from HOST/out ro recursive directory\n"
         "late  late-hide      /w/a/out/secret\n"},
        {{RO("/usr", "usr"), HIDE("/usr/share"), RO("/usr/absolute/x", "folder"),
          RO("/usr/lib/x/sub", "folder/sub")},
         "tree  dir            /usr mode=0755\n"
         "tree  bind           /usr from HOST/usr ro recursive directory\n"
         "tree  hide           /usr/share directory\n"
         "tree  bind           /usr/lib/x from HOST/folder ro recursive directory\n"
         "tree  bind           /usr/lib/x/sub from HOST/folder/sub ro recursive directory\n"},
};

/* Writes the k-th order of the numbers below N_ORDERED. */
static void permutation(int k, size_t order[N_ORDERED]) {
        size_t left[N_ORDERED], n = N_ORDERED;

        for (size_t i = 0; i < n; i++)
                left[i] = i;
        for (size_t i = 0; n > 0; i++, n--) {
                size_t pick = (size_t) k % n;

                k /= (int) n;
                order[i] = left[pick];
                memmove(&left[pick], &left[pick + 1], (n - pick - 1) * sizeof(left[0]));
        }
}

START_TEST(test_fs_04_order) {
        Entry entries[N_ORDERED];
        size_t order[N_ORDERED];

        for (size_t i = 0; i < ELEMENTSOF(ordered); i++) {
                permutation(_i, order);
                for (size_t k = 0; k < N_ORDERED; k++)
                        entries[k] = ordered[i].entries[order[k]];
                assert_plan(entries, N_ORDERED, ordered[i].plan);
        }
}
END_TEST

/* --- FS-02: rules for what does not exist --- */

START_TEST(test_fs_02_missing) {
        static const Entry entries[] = {
                RO("/usr", "usr"),
                RO("/missing", "no/such", .optional = true),
                RO("/below-a-file", "file/x", .optional = true),
                PRIVATE("/tmp", 01777),
                HIDE("/usr/no/such", .optional = true),
                HIDE("/no/such", .optional = true),
                HIDE("/tmp/no/such", .optional = true),
                PRIVATE("/usr/no/such/tmp", 01777, .optional = true),
        };

        assert_plan(entries, ELEMENTSOF(entries),
                    "tree  dir            /tmp mode=0755\n"
                    "tree  dir            /usr mode=0755\n"
                    "tree  bind           /usr from HOST/usr ro recursive directory\n"
                    "crate private        /tmp mode=1777\n"
                    "note  skipped: HOST/no/such does not exist on this host\n"
                    "note  skipped: HOST/file/x does not exist on this host\n"
                    "note  skipped: nothing of the host's is at /no/such, so there is nothing to "
                    "hide\n"
                    "note  skipped: nothing of the host's is at /tmp/no/such, so there is nothing "
                    "to hide\n"
                    "note  skipped: nothing of the host's is at /usr/no/such, so there is nothing "
                    "to hide\n"
                    "note  skipped: the root has no folder /usr/no/such/tmp, so nothing private "
                    "can be there\n");
}
END_TEST

typedef struct Refusal {
        Entry entries[3];
        size_t n;
        int error;
        const char *text;
} Refusal;

static const Refusal refusals[] = {
        /* What was asked for must be there. */
        {{RO("/x", "no/such")},
         1,
         ENOENT,
         "HOST/no/such cannot be mounted into a crate: No such file or directory"},
        {{RW("/x", "file/x")},
         1,
         ENOENT,
         "HOST/file/x cannot be mounted into a crate: No such file or directory"},
        {{RO("/x", "usr/self", .optional = true)},
         1,
         ELOOP,
         "HOST/usr/self cannot be mounted into a crate: Too many levels of symbolic links"},

        /* Nothing is ever made in what is the host's. */
        {{RO("/usr", "usr"), RO("/usr/new", "folder")},
         2,
         ENOENT,
         "nothing can be mounted at /usr/new: HOST/usr/new is not there as a folder"},
        {{RW("/w", "w"), RO("/w/new", "file")},
         2,
         ENOENT,
         "nothing can be mounted at /w/new: HOST/w/new is not there as a file"},
        {{RO("/w", "w"), RW("/w/file", "folder")},
         2,
         ENOTDIR,
         "nothing can be mounted at /w/file: HOST/w/file is not there as a folder"},
        {{RO("/w", "w"), RO("/w/out", "file")},
         2,
         EISDIR,
         "nothing can be mounted at /w/out: HOST/w/out is not there as a file"},
        {{RO("/f", "file"), RO("/f/x", "file")},
         2,
         ENOENT,
         "nothing can be mounted at /f/x: HOST/file/x is not there as a file"},
        {{RO("/w", "w"), PRIVATE("/w/new", 0755)},
         2,
         ENOENT,
         "nothing can be mounted at /w/new: HOST/w/new is not there as a folder"},

        /* No place for anything. */
        {{RO("/usr", "usr"), HIDE("/usr/share"), RO("/usr/share/doc", "w")},
         3,
         EINVAL,
         "nothing can be mounted at /usr/share/doc: it lies in /usr/share, which is hidden"},
        {{RO("/usr", "usr"), HIDE("/usr/share"), PRIVATE("/usr/share/doc", 0755)},
         3,
         EINVAL,
         "nothing can be mounted at /usr/share/doc: it lies in /usr/share, which is hidden"},
        {{RW("/w", "w"), PRIVATE("/w/tmp", 0755), RO("/w/tmp/x", "w")},
         3,
         EINVAL,
         "nothing can be mounted at /w/tmp/x: it lies in /w/tmp, a private folder in what is "
         "mounted last"},

        /* What each crate has for itself. */
        {{RO("/", "w")},
         1,
         EINVAL,
         "nothing can be mounted at /: each crate has a form of its own there"},
        {{RO("/dev", "w")},
         1,
         EINVAL,
         "nothing can be mounted at /dev: each crate has a form of its own there"},
        {{RW("/dev/shm", "w")},
         1,
         EINVAL,
         "nothing can be mounted at /dev/shm: each crate has a form of its own there"},
        {{PRIVATE("/dev/pts", 0755)},
         1,
         EINVAL,
         "nothing can be mounted at /dev/pts: each crate has a form of its own there"},
        {{RO("/proc/sys/kernel", "w")},
         1,
         EINVAL,
         "nothing can be mounted at /proc/sys/kernel: each crate has a form of its own there"},
        {{RO("/sys", "w")},
         1,
         EINVAL,
         "nothing can be mounted at /sys: each crate has a form of its own there"},
        {{RO(PLAN_HIDDEN_FILE, "file")},
         1,
         EINVAL,
         "nothing can be mounted at /.hidden: each crate has a form of its own there"},
        {{PRIVATE(PLAN_HIDDEN_DIR, 0755)},
         1,
         EINVAL,
         "nothing can be mounted at /.hidden.d: each crate has a form of its own there"},

        /* FS-03: links that lead nowhere, or there. */
        {{RO("/usr", "usr"), RO("/usr/self", "w")},
         2,
         ELOOP,
         "nothing can be mounted at /usr/self: the link /usr/self to /usr/self leads in a circle"},
        {{RO("/usr", "usr"), RO("/usr/ping/x", "w")},
         2,
         ELOOP,
         "nothing can be mounted at /usr/ping/x: the link /usr/ping to /usr/pong leads in a "
         "circle"},
        {{RO("/usr", "usr"), HIDE("/usr/growing")},
         2,
         ELOOP,
         "nothing can be mounted at /usr/growing: the link /usr/growing to /usr/growing/x leads "
         "in a circle"},
        {{RO("/usr", "usr"), RO("/usr/to-dev", "w")},
         2,
         EINVAL,
         "nothing can be mounted at /usr/to-dev, from where links lead to /dev: each crate has a "
         "form of its own there"},
        {{RO("/usr", "usr"), RO("/usr/to-dev/null", "file")},
         2,
         EINVAL,
         "nothing can be mounted at /usr/to-dev/null, from where links lead to /dev/null: each "
         "crate has a form of its own there"},
        {{RO("/usr", "usr"), RW("/usr/to-shm", "w")},
         2,
         EINVAL,
         "nothing can be mounted at /usr/to-shm, from where links lead to /dev/shm: each crate "
         "has a form of its own there"},
        {{RO("/usr", "usr"), RO("/usr/to-root", "w")},
         2,
         EINVAL,
         "nothing can be mounted at /usr/to-root, from where links lead to /: each crate has a "
         "form of its own there"},
        {{RO("/usr", "usr"), PRIVATE("/usr/to-cover", 0755)},
         2,
         EINVAL,
         "nothing can be mounted at /usr/to-cover, from where links lead to /.hidden.d: each "
         "crate has a form of its own there"},
        {{RO("/usr", "usr"), RO("/usr/relative/new", "w")},
         2,
         ENOENT,
         "nothing can be mounted at /usr/relative/new, from where links lead to /usr/lib/new: "
         "HOST/usr/lib/new is not there as a folder"},
};

START_TEST(test_refusals) {
        const Refusal *refusal = &refusals[_i];
        _cleanup_(freep) char *text = refusal_text(refusal->entries, refusal->n, refusal->error);

        ck_assert_str_eq(text, refusal->text);
}
END_TEST

/* --- FS-03: links in targets --- */

/* Resolved within the root: the crate's, never the host's. */
static const struct {
        const char *target, *place;
} links[] = {
        {"/usr/relative/x", "/usr/lib/x"},
        {"/usr/absolute/x", "/usr/lib/x"},
        {"/usr/up/x", "/usr/lib/x"},
        {"/usr/chain", "/usr/lib/x"},
        {"/usr/lib/../lib/x", "/usr/lib/x"},
        {"/usr/relative/../lib/./x", "/usr/lib/x"},
        {"/lib/x", "/usr/lib/x"},
        {"/bin", "/usr/lib/x"},
        {"/far/x", "/usr/lib/x"},
        {"/usr/dangling/a", "/nowhere/to/a"},
        {"/usr/out", "/outside"},
        {"/usr/absolute-host", "/etc"},
        {"/../x", "/x"},
        {"/lib-not/x", "/lib-not/x"},
};

static void add_links(MountTable *table) {
        ck_assert_int_eq(mount_table_add_link(table, "/lib", "usr/lib"), 0);
        ck_assert_int_eq(mount_table_add_link(table, "/bin", "/lib/x"), 0);
        ck_assert_int_eq(mount_table_add_link(table, "/far", "usr/absolute/x/.."), 0);
}

START_TEST(test_fs_03_links) {
        _cleanup_(mount_table_done) MountTable table = {};
        _cleanup_(freep) char *text = NULL, *line = NULL;

        add_links(&table);
        table_add_good(&table, &(Entry) RO("/usr", "usr"));
        table_add_good(&table, &(Entry) RO(links[_i].target, "folder"));
        arrange_good(&table);
        text = table_text(&table);
        ck_assert_int_ge(asprintf(&line,
                                  "tree  bind           %s from HOST/folder ro recursive directory",
                                  links[_i].place),
                         0);
        ck_assert_msg(text_has_line(text, line), "no %s in %s", line, text);
}
END_TEST

/* Only the links that the tree has count, not what the host has at its top. */
START_TEST(test_host_links_are_not_ours) {
        _cleanup_(mount_table_done) MountTable table = {};
        _cleanup_(freep) char *text = NULL;

        table_add_good(&table, &(Entry) RO("/bin", "folder"));
        arrange_good(&table);
        text = table_text(&table);
        ck_assert_msg(text_has_line(text, "tree  bind           /bin from HOST/folder ro recursive "
                                          "directory"),
                      "%s", text);
}
END_TEST

/* What is mounted hides the links that lie below it. */
START_TEST(test_links_below_mounts) {
        static const Entry entries[] = {
                RO("/usr", "usr"),
                PRIVATE("/usr/lib", 0755),
                RO("/usr/lib/relative/x", "folder"),
                RW("/usr/share", "usr"),
                RO("/usr/share/relative/x", "folder/sub"),
        };
        _cleanup_(freep) char *text = entries_text(entries, ELEMENTSOF(entries));

        ck_assert(text_has_line(text, "crate mountpoint     /usr/lib/relative/x directory"));
        ck_assert(text_has_line(text, "late  late-bind      /usr/lib/relative/x from HOST/folder "
                                      "ro recursive directory"));
        ck_assert(text_has_line(text, "late  late-bind      /usr/share/lib/x from HOST/folder/sub "
                                      "ro recursive directory"));
}
END_TEST

/* A link that is resolved early may lie deeper than others then: the deepest counts nevertheless.
 */
START_TEST(test_links_unsorted) {
        static const Entry entries[] = {
                RO("/usr", "usr"),
                RO("/usr/chain", "usr"), /* becomes /usr/lib/x */
                RO("/usr/lib", "usr/lib"),
                RO("/usr/lib/x/relative/x", "folder"),
        };
        _cleanup_(freep) char *text = entries_text(entries, ELEMENTSOF(entries));

        ck_assert_msg(text_has_line(text, "tree  bind           /usr/lib/x/lib/x from HOST/folder "
                                          "ro recursive directory"),
                      "%s", text);
}
END_TEST

START_TEST(test_link_chain_limit) {
        _cleanup_(mount_table_done) MountTable good = {}, bad = {};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;

        for (int i = 0; i < 50; i++) {
                char path[16], target[16];

                (void) snprintf(path, sizeof(path), "/l%d", i);
                (void) snprintf(target, sizeof(target), "l%d", i + 1);
                ck_assert_int_eq(mount_table_add_link(&good, path, target), 0);
                ck_assert_int_eq(mount_table_add_link(&bad, path, target), 0);
        }
        table_add_good(&good, &(Entry) RO("/l10", "folder"));
        arrange_good(&good);
        ck_assert_str_eq(good.entries[0].path, "/l50");
        ck_assert_str_eq(good.entries[0].given, "/l10");
        table_add_good(&bad, &(Entry) RO("/l9", "folder"));
        ck_assert_int_eq(mount_table_arrange(&bad, &error), MOUNT_TABLE_E_INVALID);
        ck_assert_int_eq(error.error, ELOOP);
}
END_TEST

START_TEST(test_link_too_long) {
        _cleanup_(mount_table_done) MountTable table = {};
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        char target[PLAN_PATH_MAX + 1];

        memset(target, 'x', sizeof(target) - 1);
        target[sizeof(target) - 1] = 0;
        target[0] = '/';
        ck_assert_int_eq(mount_table_add_link(&table, "/long", target), 0);
        table_add_good(&table, &(Entry) RO("/long/x", "folder"));
        ck_assert_int_eq(mount_table_arrange(&table, &error), MOUNT_TABLE_E_INVALID);
        ck_assert_int_eq(error.error, ENAMETOOLONG);
}
END_TEST

/* --- one place, several entries --- */

START_TEST(test_replaced) {
        static const Entry entries[] = {
                PRIVATE("/w", 0755),
                RO("/x", "w"),
                RW("/w", "out"),
                RO("/w", "folder"),
        };

        assert_plan(entries, ELEMENTSOF(entries),
                    "tree  dir            /w mode=0755\n"
                    "tree  bind           /w from HOST/folder ro recursive directory\n"
                    "tree  dir            /x mode=0755\n"
                    "tree  bind           /x from HOST/w ro recursive directory\n");
}
END_TEST

/* The same by way of a link: what was written last stays, also if it had replaced something. */
START_TEST(test_replaced_by_link) {
        static const Entry cases[][4] = {
                {RO("/usr", "usr"), RO("/usr/lib", "w"), RO("/lib", "out"),
                 RO("/usr/relative", "folder")},
                {RO("/usr", "usr"), RO("/usr/lib", "w"), RO("/usr/lib", "out"),
                 RO("/lib", "folder")},
                {RO("/usr", "usr"), RO("/lib", "w"), RO("/lib", "out"), RO("/usr/lib", "folder")},
                {RO("/usr", "usr"), RO("/usr/absolute", "out"), RO("/lib", "w"),
                 RO("/usr/absolute", "folder")},
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(mount_table_done) MountTable table = {};
                _cleanup_(freep) char *text = NULL;

                add_links(&table);
                for (size_t k = 0; k < ELEMENTSOF(cases[i]); k++)
                        table_add_good(&table, &cases[i][k]);
                arrange_good(&table);
                text = table_text(&table);
                ck_assert_str_eq(text,
                                 "tree  dir            /usr mode=0755\n"
                                 "tree  bind           /usr from HOST/usr ro recursive directory\n"
                                 "tree  bind           /usr/lib from HOST/folder ro recursive "
                                 "directory\n");
        }
}
END_TEST

/* A missing optional source leaves what was there before. */
START_TEST(test_missing_replaces_nothing) {
        static const Entry entries[] = {
                RO("/w", "w"),
                RO("/w", "no/such", .optional = true),
        };
        _cleanup_(freep) char *text = entries_text(entries, ELEMENTSOF(entries));

        ck_assert(
                text_has_line(text, "tree  bind           /w from HOST/w ro recursive directory"));
}
END_TEST

/* --- stages --- */

START_TEST(test_private_in_private) {
        static const Entry entries[] = {
                PRIVATE("/tmp/a/b", 0700), PRIVATE("/tmp", 01777),  RO("/tmp/a/b/file", "file"),
                RW("/tmp/x", "w"),         RO("/tmp/x/out", "out"),
        };

        assert_plan(entries, ELEMENTSOF(entries),
                    "tree  dir            /tmp mode=0755\n"
                    "crate private        /tmp mode=1777\n"
                    "crate mountpoint     /tmp/x directory\n"
                    "crate mountpoint     /tmp/a/b directory\n"
                    "crate private        /tmp/a/b mode=0700\n"
                    "crate mountpoint     /tmp/a/b/file\n"
                    "late  late-bind      /tmp/x from HOST/w recursive directory\n"
                    "late  late-bind      /tmp/x/out from HOST/out ro recursive directory\n"
                    "late  late-bind      /tmp/a/b/file from HOST/file ro\n");
}
END_TEST

/* Each private place is another folder of the tmpfs. */
START_TEST(test_private_numbers) {
        static const Entry entries[] = {
                PRIVATE("/tmp", 01777), PRIVATE("/run", 0755),   PRIVATE("/dev/shm", 01777),
                RW("/w", "w"),          PRIVATE("/w/tmp", 0755),
        };
        _cleanup_(mount_table_done) MountTable table = {};
        _cleanup_(plan_freep) CratePlan *crate = NULL;
        uint64_t seen = 0;
        PlanOp op;

        for (size_t i = 0; i < ELEMENTSOF(entries); i++)
                table_add_good(&table, &entries[i]);
        arrange_good(&table);
        ck_assert_int_eq(plan_new(&crate), 0);
        ck_assert_int_eq(mount_table_plan_crate(&table, crate), 0);
        for (size_t i = 0; i < ELEMENTSOF(entries); i++) {
                if (entries[i].kind != MOUNT_PRIVATE)
                        continue;
                ck_assert(plan_find(crate, PLAN_OP_PRIVATE, entries[i].path, &op) ||
                          plan_find(crate, PLAN_OP_LATE_PRIVATE, entries[i].path, &op));
                ck_assert_uint_lt(op.a, 4);
                ck_assert(!(seen & (1U << op.a)));
                seen |= 1U << op.a;
        }
}
END_TEST

START_TEST(test_forced_late) {
        static const Entry entries[] = {
                RO("/workspace", "w"),
                RO("/workspace/out", "out"),
                HIDE("/workspace/file"),
        };
        _cleanup_(mount_table_done) MountTable table = {};
        _cleanup_(freep) char *text = NULL;

        for (size_t i = 0; i < ELEMENTSOF(entries); i++)
                table_add_good(&table, &entries[i]);
        mount_table_force_late(&table, "/workspace");
        mount_table_force_late(&table, "/no/such");
        arrange_good(&table);
        text = table_text(&table);
        ck_assert_str_eq(text,
                         "tree  dir            /workspace mode=0755\n"
                         "late  late-bind      /workspace from HOST/w ro recursive directory\n"
                         "late  late-hide      /workspace/file\n"
                         "late  late-bind      /workspace/out from HOST/out ro recursive "
                         "directory\n");
}
END_TEST

/* --- sources --- */

/* The real path goes into the plan: links of the host are followed now and never again. What was
 * checked by its real path may have none. */
START_TEST(test_source_links) {
        static const Entry entry = RO("/x", "usr/chain", .optional = true);
        _cleanup_(freep) char *text = entries_text(&entry, 1);

        ck_assert(text_has_line(text, "tree  bind           /x from HOST/usr/lib/x ro recursive "
                                      "directory"));
        free(refusal_text(&(Entry) RO("/x", "usr/chain"), 1, ELOOP));
        free(refusal_text(&(Entry) RW("/x", "usr/relative/x"), 1, ELOOP));
        free(refusal_text(&(Entry) RW("/x", "usr/lib/../lib/x"), 1, ELOOP));
}
END_TEST

static void make_socket(const char *path) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        ck_assert_int_ge(fd, 0);
        ck_assert_uint_lt(strlen(path), sizeof(address.sun_path));
        memcpy(address.sun_path, path, strlen(path));
        ck_assert_int_eq(bind(fd, (struct sockaddr *) &address, sizeof(address)), 0);
        close(fd);
}

START_TEST(test_special_sources) {
        _cleanup_(freep) char *socket_path = scratch_path(&host, "socket");
        _cleanup_(freep) char *fifo_path = scratch_path(&host, "fifo");
        const char *sources[] = {socket_path, fifo_path, "/dev/null", "/dev/tty"};

        make_socket(socket_path);
        ck_assert_int_eq(mkfifo(fifo_path, 0600), 0);
        scratch_link(&host, "to-null", "/dev/null");
        for (size_t i = 0; i < 2 * ELEMENTSOF(sources); i++) {
                _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
                _cleanup_(mount_table_done) MountTable table = {};

                /* Required or not: they are there, so that nothing is skipped. */
                ck_assert_int_eq(
                        mount_table_add(&table, MOUNT_RO, "/x", sources[i / 2], 0, i % 2, &error),
                        MOUNT_TABLE_E_INVALID);
                ck_assert_str_eq(error.path, sources[i / 2]);
                ck_assert_ptr_nonnull(strstr(error.text, "neither a folder nor a regular file"));
                ck_assert_uint_eq(table.n_entries, 0);
                ck_assert_uint_eq(table.notes.n_items, 0);
        }
        free(refusal_text(&(Entry) RW("/x", "to-null", .optional = true), 1, EINVAL));
}
END_TEST

START_TEST(test_managed) {
        static const char *const managed[] = {"/dev", "/proc", "/sys",       "/tmp",
                                              "/run", "/home", "/workspace", "/etc"};
        static const char *const others[] = {"/", "/usr", "/dev/shm", "/var", "/tmpx", "dev", ""};

        for (size_t i = 0; i < ELEMENTSOF(managed); i++)
                ck_assert(mount_path_is_managed(managed[i]));
        for (size_t i = 0; i < ELEMENTSOF(others); i++)
                ck_assert(!mount_path_is_managed(others[i]));
}
END_TEST

/* Arranging and planning only looks. */
START_TEST(test_host_is_untouched) {
        _cleanup_(freep) char *usr = scratch_path(&host, "usr"), *w = scratch_path(&host, "w");
        struct stat before[2], after[2];

        ck_assert_int_eq(stat(usr, &before[0]), 0);
        ck_assert_int_eq(stat(w, &before[1]), 0);
        for (size_t i = 0; i < ELEMENTSOF(refusals); i++)
                free(refusal_text(refusals[i].entries, refusals[i].n, refusals[i].error));
        for (size_t i = 0; i < ELEMENTSOF(ordered); i++)
                free(entries_text(ordered[i].entries, N_ORDERED));
        ck_assert_int_eq(stat(usr, &after[0]), 0);
        ck_assert_int_eq(stat(w, &after[1]), 0);
        for (size_t i = 0; i < 2; i++)
                ck_assert(before[i].st_mtim.tv_sec == after[i].st_mtim.tv_sec &&
                          before[i].st_mtim.tv_nsec == after[i].st_mtim.tv_nsec);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("mount-table");

        tcase_add_checked_fixture(tcase, set_up, tear_down);
        tcase_add_loop_test(tcase, test_fs_04_order, 0, 24);
        tcase_add_test(tcase, test_fs_02_missing);
        tcase_add_loop_test(tcase, test_refusals, 0, ELEMENTSOF(refusals));
        tcase_add_loop_test(tcase, test_fs_03_links, 0, ELEMENTSOF(links));
        tcase_add_test(tcase, test_host_links_are_not_ours);
        tcase_add_test(tcase, test_links_below_mounts);
        tcase_add_test(tcase, test_links_unsorted);
        tcase_add_test(tcase, test_link_chain_limit);
        tcase_add_test(tcase, test_link_too_long);
        tcase_add_test(tcase, test_replaced);
        tcase_add_test(tcase, test_replaced_by_link);
        tcase_add_test(tcase, test_missing_replaces_nothing);
        tcase_add_test(tcase, test_private_in_private);
        tcase_add_test(tcase, test_private_numbers);
        tcase_add_test(tcase, test_forced_late);
        tcase_add_test(tcase, test_source_links);
        tcase_add_test(tcase, test_special_sources);
        tcase_add_test(tcase, test_managed);
        tcase_add_test(tcase, test_host_is_untouched);
        return suite_run("mount-table", tcase);
}
