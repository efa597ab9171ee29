/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "broker/authorize.h"

static char base[] = "/tmp/agentcrate-authorize.XXXXXX";
static char root[256], inner[256], other[256], link_out[256];

static void setup(void) {
        ck_assert_ptr_nonnull(mkdtemp(base));
        (void) snprintf(root, sizeof(root), "%s/root", base);
        (void) snprintf(inner, sizeof(inner), "%s/root/inner", base);
        (void) snprintf(other, sizeof(other), "%s/root-other", base);
        (void) snprintf(link_out, sizeof(link_out), "%s/root/link", base);
        ck_assert_int_eq(mkdir(root, 0755), 0);
        ck_assert_int_eq(mkdir(inner, 0755), 0);
        ck_assert_int_eq(mkdir(other, 0755), 0);
        ck_assert_int_eq(symlink(other, link_out), 0);
}

static void teardown(void) {
        (void) unlink(link_out);
        (void) rmdir(inner);
        (void) rmdir(root);
        (void) rmdir(other);
        (void) rmdir(base);
}

typedef enum Mode {
        NONE,
        RO,
        RW,
} Mode;

typedef struct Case {
        bool announced;
        bool connection_ro;
        const char *path; /* of the arguments; NULL: none */
        Mode mode;
        int result;
        const char *resolved; /* NULL: none */
        bool ro;
} Case;

static const Case cases[] = {
        {false, false, NULL, NONE, 0, NULL, false},
        {false, false, root, NONE, AUTHORIZE_E_DENIED, NULL, false},
        {true, false, NULL, NONE, 0, root, false},
        {true, true, NULL, NONE, 0, root, true},
        {true, false, root, NONE, 0, root, false},
        {true, false, inner, RO, 0, inner, true},
        {true, true, inner, NONE, 0, inner, true},
        {true, true, inner, RW, AUTHORIZE_E_DENIED, NULL, false},
        {true, false, other, NONE, AUTHORIZE_E_DENIED, NULL, false},
        {true, false, base, NONE, AUTHORIZE_E_DENIED, NULL, false},
        {true, false, link_out, NONE, AUTHORIZE_E_DENIED, NULL, false},
        {true, false, "/no/such/place", NONE, AUTHORIZE_E_DENIED, NULL, false},
        {true, false, "/dev/null", NONE, AUTHORIZE_E_DENIED, NULL, false},
};

START_TEST(test_workspace) {
        const Case *c = &cases[_i];
        _cleanup_(client_workspace_done) ClientWorkspace workspace = {.ro = c->connection_ro};
        _cleanup_(freep) char *path = NULL, *text = NULL;
        ExecArgs args = {
                .workspace = (char *) c->path,
                .workspace_mode_given = c->mode != NONE,
                .workspace_ro = c->mode == RO,
        };
        bool ro = false;

        if (c->announced)
                workspace.path = strdup(root);
        ck_assert_int_eq(authorize_workspace(&workspace, &args, &path, &ro, &text), c->result);
        ck_assert(!!text == (c->result != 0));
        if (c->result != 0)
                return;
        if (c->resolved)
                ck_assert_str_eq(path, c->resolved);
        else
                ck_assert_ptr_null(path);
        ck_assert(ro == c->ro);
}
END_TEST

static void announce(ClientWorkspace *workspace, const char *text) {
        _cleanup_(json_doc_freep) JsonDoc *doc = NULL;
        JsonError error;

        ck_assert_int_eq(json_scan(text, strlen(text), &doc, &error), 0);
        ck_assert_int_eq(client_workspace_set(workspace, doc, json_doc_root(doc)), 0);
}

START_TEST(test_announcement) {
        static const char *const bad[] = {
                "{\"workspace\":7}",
                "{\"workspace\":{}}",
                "{\"workspace\":{\"path\":7}}",
                "{\"workspace\":{\"path\":\"relative\"}}",
                "{\"workspace\":{\"path\":\"/tmp\\u0000\"}}",
                "{\"workspace\":{\"path\":\"/tmp\",\"mode\":\"cow\"}}",
                "{\"workspace\":{\"path\":\"/no/such/place\"}}",
                "{\"workspace\":{\"path\":\"/dev/null\"}}",
        };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                _cleanup_(client_workspace_done) ClientWorkspace workspace = {};
                _cleanup_(freep) char *path = NULL, *text = NULL;
                ExecArgs args = {};
                bool ro;

                announce(&workspace, bad[i]);
                ck_assert_ptr_null(workspace.path);
                ck_assert_msg(workspace.fault != NULL, "%s has no fault", bad[i]);
                /* It is told to each call; none runs in an empty place instead. */
                ck_assert_int_eq(authorize_workspace(&workspace, &args, &path, &ro, &text),
                                 AUTHORIZE_E_DENIED);
                ck_assert_str_eq(text, workspace.fault);
        }
}
END_TEST

START_TEST(test_announcement_good) {
        _cleanup_(client_workspace_done) ClientWorkspace ro = {}, rw = {}, none = {};

        announce(&none, "{}");
        ck_assert(!none.path && !none.fault);
        announce(&rw, "{\"workspace\":{\"path\":\"/proc/self/../self/root/tmp\"}}");
        ck_assert_str_eq(rw.path, "/tmp");
        ck_assert(!rw.ro);
        announce(&ro, "{\"workspace\":{\"path\":\"/tmp\",\"mode\":\"ro\"}}");
        ck_assert(ro.ro);
}
END_TEST

START_TEST(test_peer) {
        _cleanup_(freep) char *text = NULL, *gone = NULL;
        struct ucred peer = {.pid = getpid(), .uid = geteuid()};
        struct ucred by_root = {.pid = getpid(), .uid = 0};
        struct ucred stranger = {.pid = getpid(), .uid = geteuid() + 4711};
        int pair[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        ck_assert_int_eq(authorize_peer(pair[0], &peer, &text), 0);
        ck_assert_int_eq(authorize_peer(pair[0], &by_root, &text), 0);
        ck_assert_int_eq(authorize_peer(pair[0], &stranger, &text), AUTHORIZE_E_DENIED);
        ck_assert_ptr_nonnull(text);
        (void) close(pair[0]);
        (void) close(pair[1]);
        /* No process is behind this: nothing that could be looked at. */
        if (geteuid() != 0)
                ck_assert_int_eq(authorize_peer(-1, &peer, &gone), AUTHORIZE_E_DENIED);
}
END_TEST

int main(void) {
        Suite *suite = suite_create("broker-authorize");
        TCase *tcase = tcase_create("broker-authorize");
        SRunner *runner;
        int n_failed;

        tcase_add_unchecked_fixture(tcase, setup, teardown);
        tcase_add_loop_test(tcase, test_workspace, 0, ELEMENTSOF(cases));
        tcase_add_test(tcase, test_announcement);
        tcase_add_test(tcase, test_announcement_good);
        tcase_add_test(tcase, test_peer);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
