/* SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <sys/wait.h>

#include "crate/crate-internal.h"
#include "tests/unit/suite.h"

static void explain(const char *step, int errno_value, const char *path, CrateError *error) {
        ProtoFailure failure = {.error = errno_value};

        (void) snprintf(failure.step, sizeof(failure.step), "%s", step);
        (void) snprintf(failure.path, sizeof(failure.path), "%s", path);
        ck_assert_int_eq(crate_explain_failure(&failure, error), 0);
}

static const struct {
        const char *step;
        int error;
        const char *remedy; /* a part of it; NULL: there is none */
} cases[] = {
        {"proc", EPERM, "the /proc of this container is masked"},
        {"proc", EINVAL, NULL},
        {"id-map-mount", EINVAL, "cannot be id-mapped"},
        {"id-map-mount", EPERM, "cannot be id-mapped"},
        {"bind", ELOOP, "has become a link since it was checked"},
        {"late-bind", ELOOP, "has become a link since it was checked"},
        {"bind", ENOENT, "make the path"},
        {"late-bind", ENOENT, "make the path"},
        {"bind", EACCES, "give the user of this program the right"},
        {"late-bind", EACCES, "give the user of this program the right"},
        {"late-bind", EIO, NULL},
        {"rlimit", EPERM, "ulimit -H"},
        {"landlock-path", ENOSYS, "this kernel has no Landlock"},
        {"landlock-path", EOPNOTSUPP, "this kernel has no Landlock"},
        {"seccomp", ENOSYS, "Linux 6.1 or newer"},
        {"clone", ENOSYS, "Linux 6.1 or newer"},
        {"clone", EMFILE, "too many open files"},
        {"plan", ENFILE, "too many open files"},
        {"private", EIO, NULL},
        {"", 0, NULL},

        /* Whatever the cause on this host is, it is about user namespaces. */
        {"user-namespace", EPERM, "user namespaces are"},
        {"user-namespace", ENOSPC, "user namespaces are"},
        {"user-namespace", EUSERS, "user namespaces are"},
        {"mount-namespace", EPERM, "user namespaces are"},
        {"net-namespace", EACCES, "user namespaces are"},
        {"clone", EPERM, "user namespaces are"},
        {"id-map-namespace", EPERM, "user namespaces are"},
        {"uid_map", EPERM, "user namespaces are"},
        {"gid_map", EPERM, "user namespaces are"},
        {"setgroups", EACCES, "user namespaces are"},
        {"lo-up", EPERM, "user namespaces are"},
        {"clone", ENOMEM, NULL},
};

START_TEST(test_remedies) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;

        explain(cases[_i].step, cases[_i].error, "/some/path", &error);
        ck_assert_str_eq(error.step, cases[_i].step);
        ck_assert_int_eq(error.error, cases[_i].error);
        ck_assert_str_eq(error.path, "/some/path");
        if (cases[_i].remedy)
                ck_assert_msg(error.remedy && strstr(error.remedy, cases[_i].remedy), "%s",
                              error.remedy ?: "no remedy");
        else
                ck_assert_msg(!error.remedy || strstr(error.remedy, "Docker"), "%s", error.remedy);
}
END_TEST

START_TEST(test_text) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;

        explain("bind", ENOENT, "/some/path", &error);
        ck_assert_str_eq(error.text, "no crate could be made: step bind failed at /some/path: No "
                                     "such file or directory");
        explain("clone", ENOMEM, "", &error);
        ck_assert_str_eq(error.text, "no crate could be made: step clone failed: Cannot allocate "
                                     "memory");
        ck_assert_ptr_null(error.path);
}
END_TEST

/* A name that fills its field is not cut. */
START_TEST(test_long_path) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        char path[PROTO_PATH_MAX];

        memset(path, 'x', sizeof(path));
        path[sizeof(path) - 1] = 0;
        explain("bind", ENOENT, path, &error);
        ck_assert_str_eq(error.path, path);
        ck_assert_ptr_nonnull(strstr(error.text, path));
}
END_TEST

/* A host that allows none, made by a user namespace whose own maximum is 0. */
START_TEST(test_switched_off) {
        _cleanup_(crate_error_done) CrateError error = CRATE_ERROR_NULL;
        FILE *file;

        ck_assert_int_eq(unshare(CLONE_NEWUSER), 0);
        file = fopen("/proc/sys/user/max_user_namespaces", "we");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_ge(fputs("0", file), 0);
        ck_assert_int_eq(fclose(file), 0);
        explain("user-namespace", ENOSPC, "", &error);
        ck_assert_str_eq(error.remedy, "user namespaces are switched off: set sysctl "
                                       "user.max_user_namespaces above 0");
}
END_TEST

/* Whether a child could make a user namespace; the test itself is needed on both kinds of host. */
static bool host_has_user_namespaces(void) {
        pid_t pid = fork();
        int status = -1;

        if (pid == 0)
                _exit(unshare(CLONE_NEWUSER) < 0 ||
                      access("/proc/sys/user/max_user_namespaces", W_OK) < 0);
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void) {
        TCase *tcase = tcase_create("explain");

        tcase_add_loop_test(tcase, test_remedies, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_text);
        tcase_add_test(tcase, test_long_path);
        if (host_has_user_namespaces())
                tcase_add_test(tcase, test_switched_off);
        return suite_run("explain", tcase);
}
