/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host's end of agentcrate-egress, as far as crates need it: it is started, or connected to,
 * when there is something for it to serve, and again if it was lost. It belongs to one thread; the
 * owner polls egress_get_fd(), which stays the same all the time, for input and then calls
 * egress_dispatch().
 */

#include "crate/result.h"
#include "ipc/proto.h"

typedef struct Egress Egress;

enum {
        _EGRESS_E_SUCCESS,
        EGRESS_E_FAILED, /* ret_error tells */
};

/* path is that of the service's socket, borrowed; NULL: it is started as a child. */
int egress_new(const char *path, Egress **ret_egress);
/* Ends it, if it is a child. Crates that use it must have been freed before. */
Egress *egress_free(Egress *egress);
DEFINE_CLEANUP(Egress, egress_free);

/* Starts it, or connects, unless that was done. */
int egress_start(Egress *egress, CrateError *ret_error);
int egress_get_fd(const Egress *egress);
/* Handles what has come, without blocking. If it was lost, so are the jobs that it served. */
void egress_dispatch(Egress *egress);
/* Of the child; 0: none runs, or it is none of ours. */
pid_t egress_get_pid(const Egress *egress);

/* --- sessions --- */

/* Who has a session served, and is told of it. Each is called from egress_dispatch() only. */
typedef struct EgressUser {
        void (*on_ready)(void *userdata);
        /* It is not served, and gone. */
        void (*on_failed)(void *userdata, const char *text);
        /* A request with a credential is over. Its strings end. */
        void (*on_operation)(void *userdata, const EgressOperation *operation);
        /* It is closed, and gone. report_fd is borrowed. */
        void (*on_ended)(void *userdata, const EgressEnded *ended, int report_fd);
        /* agentcrate-egress has ended; the session is gone. */
        void (*on_lost)(void *userdata);
} EgressUser;

/* Has it serve the sockets as the document says. All fds are borrowed; user outlives the session.
 * 0, EGRESS_E_FAILED or a negative errno. */
int egress_open(Egress *egress, const EgressUser *user, void *userdata, int document_fd,
                const int *fds, size_t n_fds, uint32_t *ret_id, CrateError *ret_error);
/* Asks for the end, and the report. */
void egress_end(Egress *egress, uint32_t id);
/* The same, and nobody wants to hear of anything any more. */
void egress_forget(Egress *egress, uint32_t id);
