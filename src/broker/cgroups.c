/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/cgroups.h"

#include <string.h>

#include "basic/error.h"
#include "scope/scope.h"

struct CgroupsAsk {
        Scope *scope;
        sd_event_source *defer; /* where nobody has to be waited for */
        CgroupTree *tree;
        char *reason;
        CgroupsCallback callback;
        void *userdata;
};

static void ask_answer(CgroupsAsk *ask) {
        ask->callback(TAKE_PTR(ask->tree), ask->reason, ask->userdata);
}

static int on_defer(sd_event_source *source, void *userdata) {
        (void) sd_event_source_set_enabled(source, SD_EVENT_OFF);
        ask_answer(userdata);
        return 0;
}

static void on_scope(Scope *scope, int result, void *userdata) {
        CgroupsAsk *ask = userdata;

        if (result == 0)
                result = cgroup_tree_new_scope(scope_take_fd(scope), &ask->tree, &ask->reason);
        else if (result == SCOPE_E_FAILED)
                ask->reason = strdup(scope_get_reason(scope));
        if (result < 0)
                ask->reason = strdup(strerrordesc_np(-result) ?: "an unknown error");
        ask_answer(ask);
}

static int ask_without_manager(CgroupsAsk *ask) {
        int r;

        r = cgroup_tree_new_plain(&ask->tree, &ask->reason);
        return r < 0 ? error_trace(r) : 0;
}

int cgroups_ask(sd_event *event, pid_t pid, CgroupsCallback callback, void *userdata,
                CgroupsAsk **ret_ask) {
        _cleanup_(cgroups_ask_freep) CgroupsAsk *ask = NULL;
        ManagerSocket manager;
        int r;

        ask = calloc(1, sizeof(CgroupsAsk));
        if (!ask)
                return error_origin(-ENOMEM);
        ask->callback = callback;
        ask->userdata = userdata;

        r = manager_socket_find(&manager, &ask->reason);
        if (r == 0)
                r = scope_new(event, &manager, &pid, 1, on_scope, ask, &ask->scope);
        else if (r == MANAGER_SOCKET_E_NO_SYSTEMD)
                r = ask_without_manager(ask);
        if (r < 0)
                return error_trace(r);
        if (!ask->scope) {
                r = sd_event_add_defer(event, &ask->defer, on_defer, ask);
                if (r < 0)
                        return error_origin(r);
        }
        *ret_ask = TAKE_PTR(ask);
        return 0;
}

CgroupsAsk *cgroups_ask_free(CgroupsAsk *ask) {
        if (!ask)
                return NULL;

        scope_free(ask->scope);
        sd_event_source_disable_unref(ask->defer);
        cgroup_tree_free(ask->tree);
        free(ask->reason);
        free(ask);
        return NULL;
}
