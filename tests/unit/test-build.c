/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>
#include <sys/stat.h>

#include "seccomp/profile.h"
#include "tests/unit/build-bench.h"

#define HOST_TEMPLATE "{\"root\": \"host\", \"ro\": [\"/usr\"]}"

static bool is_rlimit(const Bench *bench, uint64_t resource, uint64_t *ret_value) {
        PlanReader reader;
        const void *data;
        size_t size;
        PlanOp op;

        data = plan_data(bench->plans.crate, &size);
        ck_assert_int_eq(plan_reader_init(&reader, data, size), 0);
        while (plan_reader_next(&reader, &op) == 0)
                if (op.type == PLAN_OP_RLIMIT && op.a == resource) {
                        *ret_value = op.b;
                        return true;
                }
        return false;
}

/* --- the host template --- */

START_TEST(test_host_tree) {
        static const char *const devices[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                              "/dev/random", "/dev/urandom", "/dev/tty"};
        _cleanup_(bench_done) Bench bench;
        PlanOp op;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);

        ck_assert(plan_find(bench.plans.tree, PLAN_OP_BIND, "/usr", &op));
        ck_assert_uint_eq(op.flags, PLAN_RDONLY | PLAN_RECURSIVE | PLAN_DIRECTORY);
        ck_assert_uint_eq(count_ops(bench.plans.tree, PLAN_OP_DEVICE), ELEMENTSOF(devices));
        for (size_t i = 0; i < ELEMENTSOF(devices); i++)
                ck_assert(has_op(bench.plans.tree, PLAN_OP_DEVICE, devices[i]));
        assert_line(bench.tree, "tree  host-proc      /proc");
        assert_line(bench.tree, "tree  symlink        /dev/ptmx -> pts/ptmx");
        assert_line(bench.tree, "tree  symlink        /dev/stdin -> /proc/self/fd/0");
        ck_assert(plan_find(bench.plans.tree, PLAN_OP_DIR, PLAN_HIDDEN_DIR, &op));
        ck_assert_uint_eq(op.mode, 0);
        ck_assert(plan_find(bench.plans.tree, PLAN_OP_FILE, PLAN_HIDDEN_FILE, &op));
        ck_assert_uint_eq(op.mode, 0);
        assert_no(bench.tree, " /sys");
        assert_no(bench.crate, " /sys");
        ck_assert_uint_eq(bench.plans.notes.n_items, 0);
}
END_TEST

/* /bin, /lib and so on are what they are on this host: a link, a folder, or not there. */
START_TEST(test_host_merged) {
        static const char *const names[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
        _cleanup_(bench_done) Bench bench;
        struct stat st;
        PlanOp op;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char target[256] = "";

                if (lstat(names[i], &st) < 0)
                        assert_no(bench.tree, names[i]);
                else if (S_ISLNK(st.st_mode)) {
                        ck_assert_int_gt(readlink(names[i], target, sizeof(target) - 1), 0);
                        ck_assert(plan_find(bench.plans.tree, PLAN_OP_SYMLINK, names[i], &op));
                        ck_assert_str_eq(op.source, target);
                } else
                        ck_assert(has_op(bench.plans.tree, PLAN_OP_BIND, names[i]));
        }
}
END_TEST

START_TEST(test_host_etc) {
        _cleanup_(bench_done) Bench bench;
        PlanOp op;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);
        ck_assert(plan_find(bench.plans.tree, PLAN_OP_FILE, "/etc/passwd", &op));
        ck_assert_ptr_nonnull(memmem(op.data, op.data_size,
                                     "\nagent:x:1000:1000:agent:/home/agent:/bin/sh\n", 45));
        ck_assert(plan_find(bench.plans.tree, PLAN_OP_FILE, "/etc/group", &op));
        ck_assert_ptr_nonnull(memmem(op.data, op.data_size, "\nagent:x:1000:\n", 15));
        ck_assert(has_op(bench.plans.tree, PLAN_OP_FILE, "/etc/hosts"));
        ck_assert(has_op(bench.plans.tree, PLAN_OP_FILE, "/etc/nsswitch.conf"));
        ck_assert(has_op(bench.plans.tree, PLAN_OP_FILE, "/etc/resolv.conf"));
        /* Nothing of the host's own. */
        assert_no(bench.tree, "from /etc");
        assert_no(bench.crate, "from /etc");
}
END_TEST

START_TEST(test_host_crate) {
        _cleanup_(bench_done) Bench bench;
        uint64_t value;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);

        assert_line(bench.crate, "crate hostname       crate");
        assert_line(bench.crate, "crate userns-max     max=0");
        assert_line(bench.crate, "crate inotify-max    instances=16 watches=65536");
        assert_line(bench.crate, "crate tmpfs          /dev/shm bytes=1073741824 inodes=100000");
        assert_line(bench.crate, "crate private        /tmp mode=1777");
        assert_line(bench.crate, "crate private        /var/tmp mode=1777");
        assert_line(bench.crate, "crate private        /run mode=0755");
        assert_line(bench.crate, "crate private        /dev/shm mode=1777");
        assert_line(bench.crate, "crate private        /home/agent mode=0700");
        assert_line(bench.crate, "crate private        /workspace mode=0755");
        assert_line(bench.crate, "crate mountpoint     /home/agent/.cache directory");
        assert_line(bench.crate, "crate mountpoint     /home/agent/.local/share directory");
        assert_line(bench.crate, "crate proc           /proc");
        assert_line(bench.crate, "crate proc-rdonly    /proc/sys");
        assert_line(bench.crate, "crate devpts         /dev/pts");
        assert_line(bench.crate, "crate mqueue         /dev/mqueue");
        ck_assert(is_rlimit(&bench, RLIMIT_CORE, &value));
        ck_assert_uint_le(value, 1);
        assert_line(bench.crate, "crate rlimit         nice=0");
        assert_line(bench.crate, "crate rlimit         rtprio=0");
        ck_assert(is_rlimit(&bench, RLIMIT_SIGPENDING, &value));
        ck_assert_uint_le(value, 4096);
        ck_assert(is_rlimit(&bench, RLIMIT_MSGQUEUE, &value));
        ck_assert_uint_le(value, 196608);
        assert_line(bench.crate, "crate landlock-scope");
        ck_assert_uint_eq(count_ops(bench.plans.crate, PLAN_OP_TMPFS), 1);
        ck_assert_uint_eq(count_ops(bench.plans.crate, PLAN_OP_PROC), 1);
        ck_assert_uint_eq(count_ops(bench.plans.crate, PLAN_OP_LANDLOCK_PATH), 0);
        assert_no(bench.crate, "fsize");
        assert_no(bench.crate, "late-bind");
        ck_assert(!bench.plans.workspace_rw);
}
END_TEST

/* Places are made before what lies in them, the mask before nothing. */
START_TEST(test_host_order) {
        _cleanup_(bench_done) Bench bench;
        const char *tmpfs, *private, *folder, *proc, *sys;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);
        tmpfs = strstr(bench.crate, "crate tmpfs ");
        private = text_find_line(bench.crate, "crate private        /home/agent mode=0700");
        folder = text_find_line(bench.crate, "crate mountpoint     /home/agent/.cache directory");
        proc = text_find_line(bench.crate, "crate proc           /proc");
        sys = text_find_line(bench.crate, "crate proc-rdonly    /proc/sys");
        ck_assert(tmpfs && private && folder && proc && sys);
        ck_assert(tmpfs < private && private < folder && proc < sys);
        /* The host's value is written through the template's /proc, which the crate's covers. */
        ck_assert(strstr(bench.crate, "crate userns-max ") < proc);
}
END_TEST

/* What of /proc tells of the host and anybody may read is masked, wherever this kernel has it. */
START_TEST(test_host_proc_masks) {
        static const struct {
                const char *path;
                bool directory;
        } masks[] = {
                {"/proc/keys", false},       {"/proc/modules", false}, {"/proc/cmdline", false},
                {"/proc/interrupts", false}, {"/proc/irq", true},      {"/proc/bus", true},
                {"/proc/fs", true},
        };
        _cleanup_(bench_done) Bench bench;
        struct stat st;
        PlanOp op;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);
        for (size_t i = 0; i < ELEMENTSOF(masks); i++) {
                bool there = stat(masks[i].path, &st) == 0 && (st.st_mode & 0006);

                ck_assert_msg(plan_find(bench.plans.crate, PLAN_OP_PROC_MASK, masks[i].path, &op) ==
                                      there,
                              "%s", masks[i].path);
                if (there)
                        ck_assert_uint_eq(op.flags, masks[i].directory ? PLAN_DIRECTORY : 0);
        }
}
END_TEST

/* --- profiles --- */

START_TEST(test_profiles) {
        const SeccompProfile *profiles;
        size_t n;

        profiles = seccomp_profiles(&n);
        ck_assert_uint_ge(n, 3);
        for (size_t i = 0; i < n; i++) {
                const SeccompProfile *profile = &profiles[i];
                _cleanup_(bench_done) Bench bench;
                PlanOp op;

                bench_init(&bench, HOST_TEMPLATE);
                bench.request.profile = profile->name;
                bench_build(&bench);
                ck_assert_uint_eq(count_ops(bench.plans.crate, PLAN_OP_SECCOMP), 1);
                ck_assert(plan_find(bench.plans.crate, PLAN_OP_SECCOMP, NULL, &op));
                ck_assert_str_eq(op.source, profile->name);
                ck_assert_uint_eq(op.data_size, profile->n_filter * sizeof(*profile->filter));
                ck_assert_mem_eq(op.data, profile->filter, op.data_size);
                ck_assert_int_eq(has_op(bench.plans.crate, PLAN_OP_LANDLOCK_PATH, "/"),
                                 profile->landlock != 0);
                ck_assert(has_op(bench.plans.crate, PLAN_OP_LANDLOCK_SCOPE, NULL));
                ck_assert(plan_find(bench.plans.crate, PLAN_OP_PROC, "/proc", &op));
                ck_assert_uint_eq(op.flags, profile->proc_subset ? PLAN_SUBSET_PID : 0);
        }
}
END_TEST

START_TEST(test_strict) {
        _cleanup_(freep) char *work = scratch_path(&host, "work");
        CrateBind bind = {.from = host.path, .to = "/opt/x"};
        _cleanup_(bench_done) Bench bench;

        scratch_folder(&host, "work");
        bench_init(&bench, "{\"root\": \"host\", \"ro\": [\"/usr\"], \"seccomp\": \"strict\"}");
        bench.request.workspace = work;
        bench.request.binds = &bind;
        bench.request.n_binds = 1;
        bench_build(&bench);
        assert_line(bench.crate, "crate landlock-path  / ro");
        assert_line(bench.crate, "crate landlock-path  /dev");
        assert_line(bench.crate, "crate landlock-path  /proc");
        assert_line(bench.crate, "crate landlock-path  /tmp");
        assert_line(bench.crate, "crate landlock-path  /home/agent");
        assert_line(bench.crate, "crate landlock-path  /workspace");
        assert_no(bench.crate, "landlock-path  /usr");
        assert_no(bench.crate, "landlock-path  /opt");
        assert_line(bench.crate, "crate proc           /proc pids-only");
        ck_assert_uint_eq(count_ops(bench.plans.crate, PLAN_OP_PROC_MASK), 0);

        /* A workspace for reading has no rule of its own. */
        bench.request.workspace_ro = true;
        bench_build(&bench);
        assert_no(bench.crate, "landlock-path  /workspace");

        /* The request's profile comes before the template's. */
        bench.request.profile = "default";
        bench_build(&bench);
        ck_assert_uint_eq(count_ops(bench.plans.crate, PLAN_OP_LANDLOCK_PATH), 0);
}
END_TEST

START_TEST(test_unknown_profile) {
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, HOST_TEMPLATE);
        bench.request.profile = "none";
        bench_refuse(&bench, ENOENT, "there is no profile \"none\"; known are: debug, default");
        ck_assert_str_eq(bench.error.step, "profile");
}
END_TEST

/* --- limits --- */

START_TEST(test_limits) {
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, HOST_TEMPLATE);
        limits_set(&bench.limits, LIMIT_DISK, 65536);
        limits_set(&bench.limits, LIMIT_INODES, 64);
        limits_set(&bench.limits, LIMIT_OPEN_FILES, 99);
        limits_set(&bench.limits, LIMIT_FILE_SIZE, 1000);
        bench_build(&bench);
        assert_line(bench.crate, "crate tmpfs          /dev/shm bytes=65536 inodes=64");
        assert_line(bench.crate, "crate rlimit         nofile=99");
        assert_line(bench.crate, "crate rlimit         fsize=1000");
}
END_TEST

/* A default never asks for more than this process has; what somebody asks for is left to fail by
 * name. */
/* With less a crate could not be made: that is said before one is begun. */
START_TEST(test_minima) {
        static const struct {
                LimitName name;
                uint64_t value;
                const char *text;
        } cases[] = {
                {LIMIT_DISK, 65535, "limit disk: 65535 bytes is less than the 64K"},
                {LIMIT_MEMORY, (2ULL << 20) - 1, "limit memory: 2097151 bytes is less than the 2M"},
                {LIMIT_INODES, 63, "limit inodes: 63 is less than the 64"},
                {LIMIT_OPEN_FILES, 31, "limit open_files: 31 is less than the 32"},
                {LIMIT_OPEN_FILES, 1ULL << 40, "limit open_files: 1099511627776 is above"},
        };
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, HOST_TEMPLATE);
        limits_set(&bench.limits, cases[_i].name, cases[_i].value);
        bench_refuse(&bench, EINVAL, cases[_i].text);
}
END_TEST

START_TEST(test_open_files) {
        struct rlimit own = {.rlim_cur = 300, .rlim_max = 300};
        _cleanup_(bench_done) Bench bench;
        uint64_t value;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);
        ck_assert(is_rlimit(&bench, RLIMIT_NOFILE, &value));
        ck_assert_uint_eq(value, 1024);

        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &own), 0);
        bench_refuse(&bench, EINVAL, "limit open_files: 1024 is above");
        crate_limits_lower(&bench.limits);
        bench_build(&bench);
        ck_assert(is_rlimit(&bench, RLIMIT_NOFILE, &value));
        ck_assert_uint_eq(value, 300);

        limits_set(&bench.limits, LIMIT_OPEN_FILES, 200);
        crate_limits_lower(&bench.limits);
        ck_assert_uint_eq(bench.limits.max[LIMIT_OPEN_FILES], 200);
        ck_assert_uint_eq(bench.limits.max[LIMIT_FILE_SIZE], LIMIT_UNLIMITED);
}
END_TEST

/* --- workspaces and binds --- */

static void assert_late_bind(const Bench *bench, const char *path, const char *source,
                             uint32_t flags) {
        PlanOp op;

        ck_assert(plan_find(bench->plans.crate, PLAN_OP_LATE_BIND, path, &op));
        ck_assert_str_eq(op.source, source);
        ck_assert_uint_eq(op.flags, flags);
}

/* A launcher is started once for all jobs of a template: its tree must be the one of each
 * workspace. */
START_TEST(test_workspace) {
        _cleanup_(freep) char *work = scratch_path(&host, "work"), *tree = NULL;
        char digests[3][PLAN_DIGEST_SIZE];
        _cleanup_(bench_done) Bench bench;

        scratch_folder(&host, "work/inner");
        scratch_file(&host, "work/secret", "");
        bench_init(&bench, "{\"root\": \"host\", \"ro\": [\"/usr\", {\"from\": \"/usr\", \"to\": "
                           "\"/workspace/inner\"}], \"hide\": [\"/workspace/secret\"]}");
        bench_build(&bench);
        tree = TAKE_PTR(bench.tree);
        memcpy(digests[0], bench.plans.digest, PLAN_DIGEST_SIZE);
        assert_line(bench.crate, "crate private        /workspace mode=0755");
        assert_line(bench.crate, "crate mountpoint     /workspace/inner directory");

        bench.request.workspace = work;
        bench_build(&bench);
        ck_assert_str_eq(bench.tree, tree);
        ck_assert(bench.plans.workspace_rw);
        assert_late_bind(&bench, "/workspace", work, PLAN_DIRECTORY | PLAN_RECURSIVE);
        assert_late_bind(&bench, "/workspace/inner", "/usr",
                         PLAN_DIRECTORY | PLAN_RECURSIVE | PLAN_RDONLY);
        assert_line(bench.crate, "late  late-hide      /workspace/secret");
        assert_no(bench.crate, "private        /workspace");
        memcpy(digests[1], bench.plans.digest, PLAN_DIGEST_SIZE);

        bench.request.workspace_ro = true;
        bench_build(&bench);
        ck_assert_str_eq(bench.tree, tree);
        ck_assert(!bench.plans.workspace_rw);
        assert_late_bind(&bench, "/workspace", work, PLAN_DIRECTORY | PLAN_RECURSIVE | PLAN_RDONLY);
        memcpy(digests[2], bench.plans.digest, PLAN_DIGEST_SIZE);

        ck_assert_str_ne(digests[0], digests[1]);
        ck_assert_str_ne(digests[1], digests[2]);
        ck_assert_str_ne(digests[0], digests[2]);
}
END_TEST

START_TEST(test_bad_workspace) {
        _cleanup_(freep) char *missing = scratch_path(&host, "no/such");
        _cleanup_(freep) char *link = scratch_path(&host, "link");
        _cleanup_(bench_done) Bench bench;

        scratch_link(&host, "link", "/usr");
        bench_init(&bench, HOST_TEMPLATE);
        bench.request.workspace = missing;
        bench_refuse(&bench, ENOENT, missing);
        ck_assert_str_eq(bench.error.path, missing);
        bench.request.workspace = "/dev/null";
        bench_refuse(&bench, EINVAL, "/dev/null");
        /* It was a folder when it was checked. */
        bench.request.workspace = link;
        bench_refuse(&bench, ELOOP, link);
}
END_TEST

START_TEST(test_digest) {
        char first[PLAN_DIGEST_SIZE];
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, HOST_TEMPLATE);
        bench_build(&bench);
        memcpy(first, bench.plans.digest, PLAN_DIGEST_SIZE);
        ck_assert_uint_eq(strlen(first), PLAN_DIGEST_SIZE - 1);
        bench_build(&bench);
        ck_assert_str_eq(bench.plans.digest, first);
        bench.request.profile = "debug";
        bench_build(&bench);
        ck_assert_str_ne(bench.plans.digest, first);
        bench.request.profile = NULL;
        limits_set(&bench.limits, LIMIT_DISK, 65536);
        bench_build(&bench);
        ck_assert_str_ne(bench.plans.digest, first);
}
END_TEST

START_TEST(test_binds) {
        _cleanup_(freep) char *folder = scratch_path(&host, "folder");
        _cleanup_(freep) char *file = scratch_path(&host, "file");
        CrateBind binds[] = {
                {.from = folder},
                {.from = file, .to = "/opt/file", .writable = true},
                {.from = file, .to = "/run/x/file"},
        };
        _cleanup_(bench_done) Bench bench;

        scratch_folder(&host, "folder");
        scratch_file(&host, "file", "");
        bench_init(&bench, HOST_TEMPLATE);
        bench.request.binds = binds;
        bench.request.n_binds = ELEMENTSOF(binds);
        bench_build(&bench);
        ck_assert(bench.plans.workspace_rw);
        ck_assert(has_op(bench.plans.tree, PLAN_OP_BIND, folder) ||
                  has_op(bench.plans.crate, PLAN_OP_LATE_BIND, folder));
        assert_late_bind(&bench, "/opt/file", file, 0);
        assert_late_bind(&bench, "/run/x/file", file, PLAN_RDONLY);
        assert_line(bench.crate, "crate mountpoint     /run/x/file");
        assert_line(bench.tree, "tree  file           /opt/file mode=0644 bytes=0");
}
END_TEST

/* In place of the private /tmp, and the tmpfs of the others does not cover it. */
START_TEST(test_bound_tmp) {
        CrateBind bind = {.from = "/usr", .to = "/tmp"};
        _cleanup_(bench_done) Bench bench;
        PlanOp op;

        bench_init(&bench, HOST_TEMPLATE);
        bench.request.binds = &bind;
        bench.request.n_binds = 1;
        bench_build(&bench);
        assert_line(bench.tree, "tree  bind           /tmp from /usr ro recursive directory");
        assert_no(bench.crate, "private        /tmp ");
        ck_assert(plan_find(bench.plans.crate, PLAN_OP_TMPFS, NULL, &op));
        ck_assert_str_ne(op.path, "/tmp");
        ck_assert(has_op(bench.plans.crate, PLAN_OP_PRIVATE, op.path));
}
END_TEST

START_TEST(test_refused_binds) {
        static const char *const places[] = {"/",    "/proc",    "/proc/sys",
                                             "/dev", "/dev/shm", "/dev/x",
                                             "/sys", "/.hidden", "/.hidden.d"};
        CrateBind bind = {.from = host.path};
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, HOST_TEMPLATE);
        bench.request.binds = &bind;
        bench.request.n_binds = 1;
        for (size_t i = 0; i < 2 * ELEMENTSOF(places); i++) {
                bind.to = places[i / 2];
                bind.writable = i % 2;
                bench_refuse(&bench, EINVAL, "each crate has a form of its own there");
                ck_assert_str_eq(bench.error.path, bind.to);
        }
}
END_TEST

/* A home of the host's is not ours to furnish. */
START_TEST(test_bound_home) {
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, "{\"root\": \"host\", \"ro\": [\"/usr\"], \"rw\": [{\"from\": \"HOST\", "
                           "\"to\": \"/home/agent\"}]}");
        bench_build(&bench);
        assert_late_bind(&bench, "/home/agent", host.path, PLAN_DIRECTORY | PLAN_RECURSIVE);
        ck_assert_uint_eq(count_ops(bench.plans.crate, PLAN_OP_MOUNTPOINT), 0);
        assert_no(bench.crate, "private        /home/agent");
}
END_TEST

/* --- environment --- */

static void assert_env(const char *json, const StrV *extra, const char *name, const char *value) {
        _cleanup_(strv_done) StrV env = STRV_NULL;
        _cleanup_(bench_done) Bench bench;
        const char *got;

        bench_init(&bench, json);
        ck_assert_int_eq(crate_build_env(bench.template, extra, &env), 0);
        got = strv_env_get(&env, name);
        if (value)
                ck_assert_msg(got && strcmp(got, value) == 0, "%s is %s", name, got ?: "not set");
        else
                ck_assert_msg(!got, "%s is %s", name, got);
        for (size_t i = 0; i < env.n_items; i++)
                for (size_t k = 0; k < i; k++)
                        ck_assert_str_ne(env.items[i], env.items[k]);
}

START_TEST(test_env_defaults) {
        static const char *const defaults[][2] = {
                {"HOME", "/home/agent"},
                {"USER", "agent"},
                {"LOGNAME", "agent"},
                {"LANG", "C.UTF-8"},
                {"PATH", "/usr/local/bin:/usr/bin:/bin"},
                {"SHELL", "/bin/sh"},
                {"TMPDIR", "/tmp"},
                {"XDG_CACHE_HOME", "/home/agent/.cache"},
                {"XDG_CONFIG_HOME", "/home/agent/.config"},
                {"XDG_DATA_HOME", "/home/agent/.local/share"},
                {"XDG_STATE_HOME", "/home/agent/.local/state"},
        };
        _cleanup_(strv_done) StrV env = STRV_NULL;
        _cleanup_(bench_done) Bench bench;

        /* Nothing of the host's comes along. */
        ck_assert_int_eq(setenv("SECRET", "1", 1), 0);
        ck_assert_int_eq(setenv("LD_PRELOAD_X", "/x.so", 1), 0);
        ck_assert_int_eq(setenv("HOME", "/root", 1), 0);
        bench_init(&bench, "{}");
        ck_assert_int_eq(crate_build_env(bench.template, NULL, &env), 0);
        ck_assert_uint_eq(env.n_items, ELEMENTSOF(defaults));
        for (size_t i = 0; i < ELEMENTSOF(defaults); i++)
                ck_assert_str_eq(strv_env_get(&env, defaults[i][0]), defaults[i][1]);
}
END_TEST

START_TEST(test_env_sources) {
        const char *json = "{\"env\": {\"A\": \"template\", \"LANG\": \"de_DE.UTF-8\", \"B\": "
                           "\"\"}, \"pass_env\": [\"A\", \"P\", \"Q\", \"HOME\"]}";
        _cleanup_(strv_done) StrV extra = STRV_NULL;

        ck_assert_int_eq(setenv("A", "host", 1), 0);
        ck_assert_int_eq(setenv("P", "line 1\nline=2", 1), 0);
        ck_assert_int_eq(setenv("HOME", "/root", 1), 0);
        ck_assert_int_eq(unsetenv("Q"), 0);
        assert_env(json, NULL, "A", "template");
        assert_env(json, NULL, "LANG", "de_DE.UTF-8");
        assert_env(json, NULL, "B", "");
        assert_env(json, NULL, "P", "line 1\nline=2");
        assert_env(json, NULL, "Q", NULL);
        assert_env(json, NULL, "HOME", "/root");
        assert_env(json, &extra, "A", "template");

        ck_assert_int_eq(strv_append(&extra, "A=request=1"), 0);
        ck_assert_int_eq(strv_append(&extra, "Q="), 0);
        ck_assert_int_eq(strv_append(&extra, "PATH=/bin"), 0);
        ck_assert_int_eq(strv_append(&extra, "A=request=2"), 0);
        assert_env(json, &extra, "A", "request=2");
        assert_env(json, &extra, "Q", "");
        assert_env(json, &extra, "PATH", "/bin");
}
END_TEST

START_TEST(test_env_without_value) {
        _cleanup_(strv_done) StrV extra = STRV_NULL, env = STRV_NULL;
        _cleanup_(bench_done) Bench bench;

        bench_init(&bench, "{}");
        ck_assert_int_eq(strv_append(&extra, "NAME"), 0);
        ck_assert_int_eq(crate_build_env(bench.template, &extra, &env), -EINVAL);
        ck_assert_uint_eq(env.n_items, 0);
}
END_TEST

int main(void) {
        TCase *tcase = tcase_create("build");

        tcase_add_checked_fixture(tcase, set_up, tear_down);
        tcase_add_test(tcase, test_host_tree);
        tcase_add_test(tcase, test_host_merged);
        tcase_add_test(tcase, test_host_etc);
        tcase_add_test(tcase, test_host_crate);
        tcase_add_test(tcase, test_host_order);
        tcase_add_test(tcase, test_host_proc_masks);
        tcase_add_test(tcase, test_profiles);
        tcase_add_test(tcase, test_strict);
        tcase_add_test(tcase, test_unknown_profile);
        tcase_add_test(tcase, test_limits);
        tcase_add_loop_test(tcase, test_minima, 0, 4);
        tcase_add_test(tcase, test_open_files);
        tcase_add_test(tcase, test_workspace);
        tcase_add_test(tcase, test_bad_workspace);
        tcase_add_test(tcase, test_digest);
        tcase_add_test(tcase, test_binds);
        tcase_add_test(tcase, test_bound_tmp);
        tcase_add_test(tcase, test_refused_binds);
        tcase_add_test(tcase, test_bound_home);
        tcase_add_test(tcase, test_env_defaults);
        tcase_add_test(tcase, test_env_sources);
        tcase_add_test(tcase, test_env_without_value);
        return suite_run("build", tcase);
}
