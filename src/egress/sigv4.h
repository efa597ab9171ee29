/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Signature version 4 of Amazon Web Services, in a header, of a request whose path and query are in
 * the one form that we send. */

#include "egress/attach.h"

typedef struct Sigv4Signature {
        char date[17];       /* 20150830T123600Z */
        char content[65];    /* the digest of the content where it goes in a header; else "" */
        const char *headers; /* which are signed */
        char signature[65];
} Sigv4Signature;

int sigv4_sign(const char *region, const char *service, const Secret *secret,
               const AttachRequest *request, Sigv4Signature *ret_signature);
