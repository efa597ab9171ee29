/* SPDX-License-Identifier: Apache-2.0 */

/* Templates whose root is a folder, which may be hostile. */

#include <sys/stat.h>

#include "tests/unit/build-bench.h"

#define FOLDER_TEMPLATE                                                                            \
        "{\"root\": \"HOST/root\", \"ro\": [{\"from\": \"/usr\", \"to\": \"/usr\"}]}"

START_TEST(test_folder_root) {
        static const char *const want[] = {
                "tree  symlink        /bin -> usr/bin",
                "tree  symlink        /evil -> /etc/shadow",
                "tree  symlink        /up -> ../../../../etc",
                "tree  bind           /opt from HOST/root/opt ro recursive directory",
                "tree  bind           /file from HOST/root/file ro",
                "tree  bind           /var from HOST/root/var ro recursive directory",
                "tree  bind           /usr from /usr ro recursive directory",
        };
        static const char *const top[] = {"dev", "proc", "sys", "tmp", "run", "home", "workspace"};
        _cleanup_(bench_done) Bench bench;
        _cleanup_(freep) char *fifo = scratch_path(&host, "root/fifo");

        for (size_t i = 0; i < ELEMENTSOF(top); i++) {
                char name[64];

                (void) snprintf(name, sizeof(name), "root/%s/inner", top[i]);
                scratch_folder(&host, name);
        }
        scratch_folder(&host, "root/opt/deep");
        scratch_folder(&host, "root/usr");
        scratch_folder(&host, "root/var/tmp");
        scratch_file(&host, "root/etc/passwd", "root::0:0::/:/bin/sh\n");
        scratch_file(&host, "root/file", "");
        scratch_link(&host, "root/bin", "usr/bin");
        scratch_link(&host, "root/evil", "/etc/shadow");
        scratch_link(&host, "root/up", "../../../../etc");
        ck_assert_int_eq(mkfifo(fifo, 0600), 0);

        bench_init(&bench, FOLDER_TEMPLATE);
        bench_build(&bench);
        for (size_t i = 0; i < ELEMENTSOF(want); i++) {
                const char *rest = strstr(want[i], "HOST");
                _cleanup_(freep) char *line = NULL;

                ck_assert_int_ge(asprintf(&line, "%.*s%s%s",
                                          (int) (rest ? rest - want[i] : (long) strlen(want[i])),
                                          want[i], rest ? host.path : "", rest ? rest + 4 : ""),
                                 0);
                assert_line(bench.tree, line);
        }
        /* Nothing else comes from the host, and of the folder only what is its own. */
        ck_assert_uint_eq(count_ops(bench.plans.tree, PLAN_OP_BIND), 4);
        for (size_t i = 0; i < ELEMENTSOF(top); i++) {
                _cleanup_(freep) char *inner = NULL;

                ck_assert_int_ge(asprintf(&inner, "/root/%s", top[i]), 0);
                assert_no(bench.tree, inner);
        }
        assert_no(bench.tree, "/root/etc");
        ck_assert(has_op(bench.plans.tree, PLAN_OP_FILE, "/etc/passwd"));
        ck_assert_uint_eq(bench.plans.notes.n_items, 1);
        ck_assert_ptr_nonnull(strstr(bench.plans.notes.items[0], "/root/fifo is neither"));
}
END_TEST

START_TEST(test_folder_etc) {
        _cleanup_(freep) char *line = NULL;
        _cleanup_(bench_done) Bench bench;

        scratch_file(&host, "root/etc/passwd", "");
        bench_init(&bench, "{\"root\": \"HOST/root\", \"etc\": \"root\"}");
        bench_build(&bench);
        ck_assert_int_ge(asprintf(&line,
                                  "tree  bind           /etc from %s/root/etc ro recursive "
                                  "directory",
                                  host.path),
                         0);
        assert_line(bench.tree, line);
        ck_assert(!has_op(bench.plans.tree, PLAN_OP_FILE, "/etc/passwd"));
}
END_TEST

static void bench_reach(Bench *bench, DestinationList *list) {
        static const StrV nothing = {};
        _cleanup_(freep) char *text = NULL;

        ck_assert_int_eq(destination_list_parse(list, "a.example:80", &text), 0);
        bench->request.egress = list;
        bench->request.egress_settings =
                (EgressSettings){.deny = &nothing, .resolver = &nothing, .connections = 1};
}

/* Whoever reaches names finds them, whatever /etc is the template's. */
START_TEST(test_etc_covers) {
        _cleanup_(destination_list_done) DestinationList list = DESTINATION_LIST_NULL;
        _cleanup_(freep) char *tree = NULL;
        _cleanup_(bench_done) Bench bench;

        scratch_link(&host, "root/etc/resolv.conf", "../run/x/stub.conf");
        scratch_file(&host, "root/etc/nsswitch.conf", "hosts: files\n");
        bench_init(&bench, "{\"root\": \"HOST/root\", \"etc\": \"root\"}");
        bench_build(&bench);
        assert_no(bench.crate, "late-cover");
        tree = strdup(bench.tree);
        bench_reach(&bench, &list);
        bench_build(&bench);
        assert_line(bench.crate, "crate mountpoint     /run/x/stub.conf");
        assert_line(bench.crate, "late  late-cover     /run/x/stub.conf from /.resolv.conf");
        assert_line(bench.crate, "late  late-cover     /etc/nsswitch.conf from /.nsswitch.conf");
        /* One launcher serves both. */
        ck_assert_str_eq(bench.tree, tree);
        ck_assert(has_op(bench.plans.tree, PLAN_OP_FILE, PLAN_RESOLV_FILE));
        scratch_clear(&host);

        scratch_folder(&host, "root/etc");
        bench_refuse(&bench, ENOENT, "/root/etc/resolv.conf is no file");
        scratch_clear(&host);
        scratch_folder(&host, "root");
        bench_refuse(&bench, ENOENT, "/etc/resolv.conf is no file");
}
END_TEST

START_TEST(test_etc_covers_of_binds) {
        _cleanup_(destination_list_done) DestinationList list = DESTINATION_LIST_NULL;
        _cleanup_(bench_done) Bench bench, other;

        scratch_file(&host, "etc/resolv.conf", "nameserver 1.1.1.1\n");
        bench_init(&bench, "{\"ro\": [{\"from\": \"HOST/etc\", \"to\": \"/etc\"}]}");
        bench_reach(&bench, &list);
        bench_build(&bench);
        assert_line(bench.crate, "late  late-cover     /etc/resolv.conf from /.resolv.conf");
        assert_no(bench.crate, "nsswitch");

        bench_init(&other, "{\"ro\": [{\"from\": \"HOST/etc/resolv.conf\", \"to\":"
                           " \"/etc/resolv.conf\"}]}");
        bench_build(&other);
        other.request.egress = bench.request.egress;
        other.request.egress_settings = bench.request.egress_settings;
        bench_refuse(&other, EBUSY, "something is mounted at /etc/resolv.conf");
}
END_TEST

/* The plan depends on what is in the folder, not on the order in which it came there. */
START_TEST(test_folder_order) {
        static const char *const names[] = {"zz", "aa", "Mm", "bb", "_", "a1", "a-1", "a.1", "yy"};
        char digest[PLAN_DIGEST_SIZE];
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, "{\"root\": \"HOST/root\"}");
        for (int turn = 0; turn < 2; turn++) {
                for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                        char name[32];

                        (void) snprintf(name, sizeof(name), "root/%s",
                                        names[turn ? i : ELEMENTSOF(names) - 1 - i]);
                        scratch_link(&host, name, "x");
                }
                bench_build(&bench);
                if (turn)
                        ck_assert_str_eq(bench.plans.digest, digest);
                memcpy(digest, bench.plans.digest, PLAN_DIGEST_SIZE);
                scratch_clear(&host);
        }
        ck_assert_ptr_nonnull(strstr(bench.tree, "tree  symlink        /Mm -> x\n"
                                                 "tree  symlink        /_ -> x\n"
                                                 "tree  symlink        /a-1 -> x\n"
                                                 "tree  symlink        /a.1 -> x\n"
                                                 "tree  symlink        /a1 -> x\n"
                                                 "tree  symlink        /aa -> x\n"));
}
END_TEST

/* A root folder whose owner wants the crate's own mounts to land elsewhere. */
static const struct {
        const char *name, *target; /* target NULL: a file */
} traps[] = {
        {"dev", "/dev"},
        {"dev", "opt"},
        {"dev", NULL},
        {"proc", "/proc"},
        {"proc", NULL},
        {"sys", "/sys"},
        {"tmp", "/tmp"},
        {"tmp", "../../../tmp"},
        {"tmp", NULL},
        {"run", "/run"},
        {"home", "/home"},
        {"home", NULL},
        {"workspace", "/etc"},
        {"workspace", "nowhere"},
        {"dev/null", "/etc/passwd"},
        {"dev/zero", "../../etc/passwd"},
        {"dev/full", "nowhere"},
        {"dev/random", "/dev/zero"},
        {"dev/urandom", "/dev/zero"},
        {"dev/tty", "/etc/passwd"},
        {"dev/pts", "/proc"},
        {"dev/shm", "/tmp"},
};

START_TEST(test_hostile_root) {
        _cleanup_(bench_done) Bench bench;
        char path[64];

        scratch_folder(&host, "root/opt");
        (void) snprintf(path, sizeof(path), "root/%s", traps[_i].name);
        if (traps[_i].target)
                scratch_link(&host, path, traps[_i].target);
        else
                scratch_file(&host, path, "");
        bench_init(&bench, FOLDER_TEMPLATE);
        bench_refuse(&bench, ELOOP, traps[_i].name);
        ck_assert_str_eq(bench.error.step, "root");
        ck_assert_ptr_nonnull(strstr(bench.error.text, host.path));
}
END_TEST

/* A link that a template's own mount would follow out of the folder, or over what is the crate's.
 */
START_TEST(test_hostile_links) {
        _cleanup_(bench_done) Bench bench;

        scratch_link(&host, "root/trap", "dev");
        bench_init(&bench, "{\"root\": \"HOST/root\", \"ro\": [{\"from\": \"/usr\", \"to\": "
                           "\"/trap/shm\"}]}");
        bench_refuse(&bench, EINVAL, "/trap/shm, from where links lead to /dev/shm");
        bench_done(&bench);

        scratch_link(&host, "root/var/tmp", "../proc");
        bench_init(&bench, "{\"root\": \"HOST/root\"}");
        bench_refuse(&bench, EINVAL, "/var/tmp, from where links lead to /proc");
        bench_done(&bench);

        scratch_remove(&host, "root/var/tmp");
        scratch_link(&host, "root/var/tmp", "/tmp");
        scratch_link(&host, "root/lib", "usr/lib");
        scratch_link(&host, "root/out", "../../../../../outside");
        scratch_folder(&host, "root/usr/lib/x");
        bench_init(&bench, "{\"root\": \"HOST/root\", \"ro\": [{\"from\": \"/usr\", \"to\": "
                           "\"/lib/x\"}, {\"from\": \"/usr\", \"to\": \"/out\"}]}");
        bench_build(&bench);
        assert_line(bench.tree, "tree  bind           /usr/lib/x from /usr ro recursive directory");
        assert_line(bench.tree, "tree  bind           /outside from /usr ro recursive directory");
        assert_line(bench.crate, "crate private        /tmp mode=1777");
        assert_no(bench.crate, "/var/tmp");
}
END_TEST

/* Nothing is made in a root folder, so one without /var/tmp has none. */
START_TEST(test_folder_without_var_tmp) {
        _cleanup_(bench_done) Bench bench;

        scratch_folder(&host, "root/var");
        bench_init(&bench, FOLDER_TEMPLATE);
        bench_build(&bench);
        assert_no(bench.crate, "/var/tmp");
        ck_assert_uint_eq(bench.plans.notes.n_items, 1);
        ck_assert_ptr_nonnull(strstr(bench.plans.notes.items[0], "no folder /var/tmp"));
}
END_TEST

START_TEST(test_long_link) {
        char target[PLAN_PATH_MAX + 2];
        _cleanup_(bench_done) Bench bench;

        memset(target, 'x', sizeof(target) - 1);
        target[sizeof(target) - 1] = 0;
        scratch_link(&host, "root/long", target);
        bench_init(&bench, FOLDER_TEMPLATE);
        bench_build(&bench);
        assert_no(bench.tree, "/long");
        ck_assert_uint_eq(bench.plans.notes.n_items, 1);
        ck_assert_ptr_nonnull(strstr(bench.plans.notes.items[0], "/root/long is a link"));
}
END_TEST

START_TEST(test_no_root) {
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, FOLDER_TEMPLATE);
        bench_refuse(&bench, ENOENT, "the root ");
        scratch_file(&host, "root", "");
        bench_refuse(&bench, ENOTDIR, "the root ");
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("build-root");

        tcase_add_checked_fixture(tcase, set_up, tear_down);
        tcase_add_test(tcase, test_folder_root);
        tcase_add_test(tcase, test_folder_etc);
        tcase_add_test(tcase, test_etc_covers);
        tcase_add_test(tcase, test_etc_covers_of_binds);
        tcase_add_test(tcase, test_folder_order);
        tcase_add_loop_test(tcase, test_hostile_root, 0, ELEMENTSOF(traps));
        tcase_add_test(tcase, test_hostile_links);
        tcase_add_test(tcase, test_folder_without_var_tmp);
        tcase_add_test(tcase, test_long_link);
        tcase_add_test(tcase, test_no_root);
        return suite_run("build-root", tcase);
}
