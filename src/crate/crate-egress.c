/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a crate reaches: sockets come from its launcher, are handed to agentcrate-egress as soon as
 * there is an init, and the job is sent when they are served. When it is over the report is waited
 * for, which comes at once.
 */

#include "crate/crate-state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "basic/error.h"
#include "basic/memfd-util.h"
#include "crate/called.h"
#include "crate/denied.h"

int crate_take_egress(Crate *crate, const CrateSpec *spec) {
        CrateEgress *egress = &crate->egress;

        egress->plan = spec->egress_plan ? TAKE_PTR(*spec->egress_plan) : NULL;
        egress->egress = spec->egress;
        if (!egress->plan)
                return 0;
        egress->wanted = true;
        egress->n_sockets = egress_plan_n_sockets(egress->plan);
        egress->sockets = calloc(egress->n_sockets, sizeof(*egress->sockets));
        if (!egress->sockets)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < egress->n_sockets; i++)
                egress->sockets[i] = -EBADF;
        return 0;
}

static void close_sockets(CrateEgress *egress) {
        for (size_t i = 0; egress->sockets && i < egress->n_sockets; i++)
                (void) fd_close(egress->sockets[i]);
        free(egress->sockets);
        egress->sockets = NULL;
}

void crate_release_egress(Crate *crate) {
        CrateEgress *egress = &crate->egress;

        close_sockets(egress);
        egress->plan = egress_plan_free(egress->plan);
        if (egress->id != 0)
                egress_forget(egress->egress, egress->id);
        egress->id = 0;
}

int crate_on_sockets(Crate *crate, size_t first, int *fds, size_t n_fds) {
        CrateEgress *egress = &crate->egress;

        /* One that has ended meanwhile wants them no more; the caller closes what is not taken. */
        if (egress->wanted && !egress->sockets)
                return 0;
        if (!egress->sockets || first < egress->n_told || first > egress->n_sockets ||
            n_fds > egress->n_sockets - first)
                return error_origin(-EBADMSG);
        for (size_t i = 0; i < n_fds; i++)
                egress->sockets[first + i] = TAKE_FD(fds[i]);
        egress->n_told = first + n_fds;
        return 0;
}

/* The crate cannot be used, for a reason that is the host's. */
static void egress_unusable(Crate *crate, CrateError *error) {
        if (crate->state >= CRATE_STATE_ENDED)
                return;
        crate_error_done(&crate->result.error);
        crate->result.error = *error;
        *error = CRATE_ERROR_NULL;
        crate_kill_init(crate);
        crate_abort(crate, CRATE_LOST);
}

static void on_ready(void *userdata) {
        Crate *crate = userdata;

        crate->egress.ready = true;
        if (crate_send_job(crate) < 0)
                crate_lose(crate, "the crate's init was killed");
        crate_settle(crate);
}

static void on_failed(void *userdata, const char *text) {
        Crate *crate = userdata;
        CrateError error = CRATE_ERROR_NULL;

        crate->egress.id = 0;
        (void) crate_error_set(&error, "egress", 0, NULL, NULL,
                               "agentcrate-egress does not serve the crate: %s", text);
        egress_unusable(crate, &error);
        crate_error_done(&error);
        crate_settle(crate);
}

static void on_lost(void *userdata) {
        Crate *crate = userdata;
        bool running = crate->state < CRATE_STATE_ENDED;

        crate->egress.id = 0;
        if (running) {
                if (!crate->result.error.text)
                        (void) crate_error_set(&crate->result.error, "egress", 0, NULL, "try again",
                                               "agentcrate-egress ended, by which the job was "
                                               "connected");
                crate_kill_init(crate);
                crate_lose(crate, "agentcrate-egress ended");
        }
        crate_settle(crate);
}

static void on_operation(void *userdata, const EgressOperation *operation) {
        Crate *crate = userdata;

        called_add(&crate->result.called, operation);
        if (!crate->callbacks.on_operation ||
            crate->callbacks.on_operation(crate, operation, crate->userdata) ||
            crate->state >= CRATE_STATE_ENDED)
                return;
        crate_error_done(&crate->result.error);
        (void) crate_error_set(&crate->result.error, "audit", 0, NULL,
                               "tell the operator of this broker",
                               "the job was ended, for its requests with a credential cannot be "
                               "recorded: the audit log cannot be written");
        crate_kill_init(crate);
        crate_lose(crate, "");
        crate_settle(crate);
}

static void on_ended(void *userdata, const EgressEnded *ended, int report_fd) {
        Crate *crate = userdata;
        CrateResult *result = &crate->result;
        const void *data;
        size_t size;

        crate->egress.id = 0;
        result->egress = (CrateEgressUse){
                .known = true,
                .connections = ended->connections,
                .bytes_in = ended->bytes_in,
                .bytes_out = ended->bytes_out,
                .n_denied = ended->n_denied,
        };
        if (memfd_map_sealed(report_fd, EGRESS_REPORT_MAX, &data, &size) == 0) {
                result->denied = denied_from_report(data, size);
                result->reached = reached_from_report(data, size);
                (void) munmap((void *) data, size);
        }
        crate_settle(crate);
}

static const EgressUser egress_user = {
        .on_ready = on_ready,
        .on_failed = on_failed,
        .on_operation = on_operation,
        .on_ended = on_ended,
        .on_lost = on_lost,
};

static int open_session(Crate *crate, CrateError *ret_error) {
        CrateEgress *egress = &crate->egress;
        _cleanup_(freep) int *numbers = calloc(egress->n_sockets, sizeof(*numbers));
        _cleanup_(freep) int *fds = calloc(egress->n_sockets, sizeof(*fds));
        _cleanup_(fd_closep) int document_fd = -EBADF;
        size_t n = 0;
        int r;

        if (!numbers || !fds)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < egress->n_sockets; i++) {
                numbers[i] = egress->sockets[i] >= 0 ? (int) n : -1;
                if (egress->sockets[i] >= 0)
                        fds[n++] = egress->sockets[i];
        }
        r = egress_plan_document(egress->plan, numbers, &document_fd);
        if (r < 0)
                return error_trace(r);
        return egress_open(egress->egress, &egress_user, crate, document_fd, fds, n, &egress->id,
                           ret_error);
}

void crate_begin_egress(Crate *crate) {
        CrateEgress *egress = &crate->egress;
        CrateError error = CRATE_ERROR_NULL;
        int r;

        if (!egress->plan || crate->state >= CRATE_STATE_ENDED)
                return;
        r = open_session(crate, &error);
        close_sockets(egress);
        egress->plan = egress_plan_free(egress->plan);
        if (r < 0)
                (void) crate_error_set(&error, "egress", -r, NULL, NULL,
                                       "what the crate may reach cannot be served: %s",
                                       strerror(-r));
        if (r != 0)
                egress_unusable(crate, &error);
}

void crate_end_egress(Crate *crate) {
        CrateEgress *egress = &crate->egress;

        if (egress->id != 0)
                egress_end(egress->egress, egress->id);
}
