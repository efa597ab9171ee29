/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A session: everything that one crate may reach, served at sockets that lie in its net namespace.
 * The address of a listener is the name of a destination: what a client says of where it wants to
 * go is compared with that, and never followed.
 */

#include "basic/string-util.h"
#include "egress/buffer-pool.h"
#include "egress/counts.h"
#include "egress/curl-loop.h"
#include "egress/host-address.h"
#include "egress/loop.h"
#include "egress/secret.h"
#include "egress/session-document.h"
#include "ipc/proto.h"

typedef struct Session Session;

/* What all sessions share. */
typedef struct SessionHost {
        Loop *loop;
        BufferPool *buffers;
        HostAddresses *addresses;
        CurlLoop *curl;
        const SecretFolders *secrets;
        Counts *counts; /* of the tenants of one host; NULL: each session counts for itself */
} SessionHost;

/* One request to a credential's host, when it is over. Nothing of what it was made of is in it, nor
 * of its answer. */
typedef struct SessionOperation {
        const char *credential;
        const Operation *operation; /* NULL: it was none */
        const char *reason;         /* why it was refused or failed, one word; NULL: it was not */
        const char *text;           /* the same in a sentence */
        int status;                 /* that the job got */
        bool denied;                /* nothing was sent */
        uint64_t bytes_out, bytes_in, usec;
        bool has_tokens_in, has_tokens_out; /* the answer told of them */
        uint64_t tokens_in, tokens_out;
        uint64_t n_dropped;     /* that were not told of before this one */
        char digest[65];        /* SHA-256 of method, path, query and content; "": none */
        const char *parameters; /* as they are told to the host; NULL: none */
} SessionOperation;

/* operation NULL: only asks whether one more can be told of; false: not now. */
typedef bool (*SessionTell)(void *userdata, const SessionOperation *operation);

/*
 * Serves at once. sockets are owned by the session from here on, also if it fails; so is document.
 * 0; SESSION_DOCUMENT_E_INVALID with the reason, if a socket is not what the document says; or a
 * negative errno.
 */
int session_new(const SessionHost *host, SessionDocument *document, int *sockets, size_t n_sockets,
                Session **ret_session, SessionReason *ret_reason);
/* Who is told of each operation. */
void session_set_tell(Session *session, SessionTell tell, void *userdata);
Session *session_free(Session *session);
DEFINE_CLEANUP(Session, session_free);

/* Closes every connection and socket; what is left can be reported. */
void session_stop(Session *session);
/* What the session was used for and refused: counters, and a JSON text of at most
 * EGRESS_REPORT_MAX. */
int session_report(const Session *session, EgressEnded *ret_counters, StrBuf *report);
