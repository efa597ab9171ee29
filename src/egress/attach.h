/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes of a secret what goes with one request. What comes out holds the secret, or what only its
 * owner could make, and is wiped when it is given back. */

#include <time.h>

#include "egress/secret.h"
#include "policy/attach.h"

/* The request as it will be sent. */
typedef struct AttachRequest {
        const char *method;
        const char *host;  /* with its port, if that is not 443 */
        const char *path;  /* encoded */
        const char *query; /* encoded, without ?; "": none */
        const char *body;
        size_t body_size;
        time_t now;
} AttachRequest;

#define ATTACHED_HEADERS_MAX 3U

typedef struct Attached {
        char *headers[ATTACHED_HEADERS_MAX]; /* "Name: value" */
        size_t n_headers;
        char *query; /* what is added to the query, or NULL */
        char *also;  /* what must not be seen in a reply either, or NULL */
} Attached;

void attached_done(Attached *attached);
/* Whether one of its headers has that name, in any case. */
bool attached_has_header(const Attached *attached, const char *name, size_t size);
/* 0 or a negative errno. */
int attach_apply(const Attach *attach, const Secret *secret, const AttachRequest *request,
                 Attached *ret_attached);
