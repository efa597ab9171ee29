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

/* An owner, who may use the connection's folder, or somebody with folders of his own. */
static Tenant *tenant_new(const char *workspaces) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        Tenant *tenant = NULL;
        char text[1024];

        (void) snprintf(text, sizeof(text), "{\"match\": {\"uid\": [1]}, \"workspaces\": [%s]}",
                        workspaces);
        ck_assert_int_eq(tenant_parse("t", "t.json", text, strlen(text), &diags, NULL, &tenant), 0);
        return tenant;
}

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
        _cleanup_(tenant_freep) Tenant *tenant = tenant_new("\"connection\"");
        _cleanup_(decision_done) Decision decision = {.allowed = true, .tenant = tenant};
        _cleanup_(freep) char *path = NULL;
        ExecArgs args = {
                .workspace = (char *) c->path,
                .workspace_mode_given = c->mode != NONE,
                .workspace_ro = c->mode == RO,
        };
        bool ro = false;

        if (c->announced)
                workspace.path = strdup(root);
        ck_assert_int_eq(authorize_workspace(tenant, &workspace, &args, &path, &ro, &decision),
                         c->result);
        ck_assert(decision.allowed == (c->result == 0));
        ck_assert(!!decision.reason == (c->result != 0));
        if (c->result != 0)
                return;
        if (c->resolved)
                ck_assert_str_eq(path, c->resolved);
        else
                ck_assert_ptr_null(path);
        ck_assert(ro == c->ro);
}
END_TEST

/* Of a tenant with folders of his own: root is one, and so is a link to other. */
typedef struct RootCase {
        const char *announced; /* NULL: none */
        const char *path;
        int result;
        const char *reason; /* the beginning; NULL: none */
        const char *resolved;
} RootCase;

static const RootCase root_cases[] = {
        {NULL, NULL, 0, NULL, NULL},
        {NULL, root, 0, NULL, root},
        {NULL, inner, 0, NULL, inner},
        /* A link that leads from one of them into another. */
        {NULL, link_out, 0, NULL, other},
        {NULL, base, AUTHORIZE_E_DENIED, "the workspace is no folder that this tenant may use",
         NULL},
        /* What is not there looks the same as what is not granted. */
        {NULL, "/no/such/place", AUTHORIZE_E_DENIED,
         "the workspace is no folder that this tenant may use", NULL},
        {NULL, "/dev/null", AUTHORIZE_E_DENIED,
         "the workspace is no folder that this tenant may use", NULL},
        {root, NULL, 0, NULL, root},
        {inner, inner, 0, NULL, inner},
        /* A connection that came with one has no other, though the tenant does. */
        {inner, root, AUTHORIZE_E_DENIED, "workspace.path is outside of", NULL},
        {base, NULL, AUTHORIZE_E_DENIED, "the workspace of this connection is no folder", NULL},
        {base, inner, AUTHORIZE_E_DENIED, "the workspace of this connection is no folder", NULL},
};

START_TEST(test_roots) {
        const RootCase *c = &root_cases[_i];
        _cleanup_(client_workspace_done) ClientWorkspace workspace = {};
        _cleanup_(decision_done) Decision decision = {.allowed = true};
        _cleanup_(tenant_freep) Tenant *tenant = NULL;
        _cleanup_(freep) char *path = NULL, *roots = NULL;
        ExecArgs args = {.workspace = (char *) c->path};
        bool ro = true;

        ck_assert_int_gt(asprintf(&roots, "\"/no/such/root\", \"%s\", \"%s\"", root, link_out), 0);
        decision.tenant = tenant = tenant_new(roots);
        if (c->announced)
                workspace.path = strdup(c->announced);
        ck_assert_int_eq(authorize_workspace(tenant, &workspace, &args, &path, &ro, &decision),
                         c->result);
        if (c->result != 0) {
                ck_assert_ptr_eq(strstr(decision.reason, c->reason), decision.reason);
                ck_assert_str_eq(decision.rule, "t:workspaces");
                ck_assert_int_eq(decision.step, EVALUATE_WORKSPACE);
        } else if (c->resolved)
                ck_assert_str_eq(path, c->resolved);
        else
                ck_assert_ptr_null(path);
}
END_TEST

/* Not even the connection's own, where nobody has granted it. */
START_TEST(test_no_workspaces) {
        _cleanup_(tenant_freep) Tenant *tenant = tenant_new("");
        _cleanup_(decision_done) Decision decision = {.allowed = true, .tenant = tenant};
        _cleanup_(client_workspace_done) ClientWorkspace workspace = {};
        _cleanup_(freep) char *path = NULL;
        ExecArgs args = {};
        bool ro;

        ck_assert_int_eq(authorize_workspace(tenant, &workspace, &args, &path, &ro, &decision), 0);
        workspace.path = strdup(root);
        ck_assert_int_eq(authorize_workspace(tenant, &workspace, &args, &path, &ro, &decision),
                         AUTHORIZE_E_DENIED);
        ck_assert_ptr_nonnull(strstr(decision.needed, "to leave workspace out"));
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
                _cleanup_(tenant_freep) Tenant *tenant = tenant_new("\"connection\"");
                _cleanup_(tenant_freep) Tenant *none = tenant_new("");
                _cleanup_(decision_done) Decision decision = {.tenant = tenant};
                _cleanup_(freep) char *path = NULL;
                ExecArgs args = {};
                bool ro;

                announce(&workspace, bad[i]);
                ck_assert_ptr_null(workspace.path);
                ck_assert_msg(workspace.fault != NULL, "%s has no fault", bad[i]);
                /* It is told to each call; none runs in an empty place instead. */
                ck_assert_int_eq(
                        authorize_workspace(tenant, &workspace, &args, &path, &ro, &decision),
                        AUTHORIZE_E_DENIED);
                ck_assert_str_eq(decision.reason, workspace.fault);
                /* Who may not look there himself does not learn what is there. */
                ck_assert_int_eq(
                        authorize_workspace(none, &workspace, &args, &path, &ro, &decision),
                        AUTHORIZE_E_DENIED);
                ck_assert_ptr_null(strstr(decision.reason, "/"));
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

static Policy *load(const char *tenant) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strv_done) StrV dirs = STRV_NULL;
        _cleanup_(freep) char *folder = NULL, *file = NULL;
        Policy *policy = NULL;
        FILE *f;

        ck_assert_int_gt(asprintf(&folder, "%s/tenants.d", root), 0);
        ck_assert_int_gt(asprintf(&file, "%s/t.json", folder), 0);
        if (tenant) {
                ck_assert(mkdir(folder, 0755) == 0);
                f = fopen(file, "we");
                ck_assert_ptr_nonnull(f);
                ck_assert_int_ge(fputs(tenant, f), 0);
                ck_assert_int_eq(fclose(f), 0);
        }
        ck_assert_int_eq(strv_append(&dirs, root), 0);
        ck_assert_int_eq(policy_load(&dirs, &diags, &policy), 0);
        (void) unlink(file);
        (void) rmdir(folder);
        return policy;
}

START_TEST(test_peer) {
        _cleanup_(freep) char *text = NULL, *gone = NULL;
        _cleanup_(policy_freep) Policy *policy = load(NULL);
        Peer peer = {.pid = getpid(), .uid = geteuid()};
        Peer by_root = {.pid = getpid(), .uid = 0};
        Peer stranger = {.pid = getpid(), .uid = geteuid() + 4711};
        int pair[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        ck_assert_int_eq(authorize_peer(pair[0], policy, &peer, &text), 0);
        ck_assert_int_eq(authorize_peer(pair[0], policy, &by_root, &text), 0);
        ck_assert_int_eq(authorize_peer(pair[0], policy, &stranger, &text), AUTHORIZE_E_DENIED);
        ck_assert_ptr_nonnull(strstr(text, "use a broker of your own"));
        (void) close(pair[0]);
        (void) close(pair[1]);
        /* No process is behind this: nothing that could be looked at. */
        if (geteuid() != 0)
                ck_assert_int_eq(authorize_peer(-1, policy, &peer, &gone), AUTHORIZE_E_DENIED);

        ck_assert_str_eq(authorize_tenant(policy, &peer)->name, "owner");
        ck_assert_ptr_null(authorize_tenant(policy, &stranger));
}
END_TEST

/* Who is named by a file is served, and nobody else: not even whoever runs the broker. */
START_TEST(test_peer_tenants) {
        _cleanup_(freep) char *text = NULL;
        _cleanup_(policy_freep) Policy *policy =
                load("{\"match\": {\"uid\": [4711], \"gid\": [4712]}}");
        gid_t gids[] = {1, 4712};
        Peer named = {.pid = getpid(), .uid = 4711};
        Peer member = {.pid = getpid(), .uid = 4713, .gids = gids, .n_gids = 2};
        Peer own = {.pid = getpid(), .uid = geteuid()};

        ck_assert_str_eq(authorize_tenant(policy, &named)->name, "t");
        ck_assert_str_eq(authorize_tenant(policy, &member)->name, "t");
        member.n_gids = 1;
        ck_assert_ptr_null(authorize_tenant(policy, &member));
        ck_assert_int_eq(authorize_peer(-1, policy, &own, &text), AUTHORIZE_E_DENIED);
        ck_assert_ptr_nonnull(strstr(text, "is no tenant of this broker: ask its administrator"));
}
END_TEST

/* What the kernel says of the two ends of a pair is what this process is. */
START_TEST(test_peer_read) {
        _cleanup_(peer_done) Peer peer = {};
        gid_t gids[256];
        int pair[2], n;

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        ck_assert_int_eq(peer_read(pair[0], &peer), 0);
        ck_assert_uint_eq(peer.uid, geteuid());
        ck_assert_int_eq(peer.pid, getpid());
        ck_assert_uint_eq(peer.gids[0], getegid());
        n = getgroups(ELEMENTSOF(gids), gids);
        ck_assert_int_ge(n, 0);
        ck_assert_uint_eq(peer.n_gids, (size_t) n + 1);
        for (int i = 0; i < n; i++)
                ck_assert_uint_eq(peer.gids[i + 1], gids[i]);
        (void) close(pair[0]);
        (void) close(pair[1]);
        ck_assert_int_lt(peer_read(-1, &peer), 0);
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
        tcase_add_test(tcase, test_peer_tenants);
        tcase_add_test(tcase, test_peer_read);
        tcase_add_loop_test(tcase, test_roots, 0, ELEMENTSOF(root_cases));
        tcase_add_test(tcase, test_no_workspaces);
        suite_add_tcase(suite, tcase);
        runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed = srunner_ntests_failed(runner);
        srunner_free(runner);
        return n_failed > 0;
}
