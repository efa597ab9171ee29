/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How a secret goes with a request: the key "attach" of a credential. The secret is not in it. */

#include "basic/macros.h"
#include "policy/reader.h"

typedef enum AttachKind {
        ATTACH_BEARER,
        ATTACH_BASIC,  /* user */
        ATTACH_HEADER, /* name, prefix */
        ATTACH_QUERY,  /* name */
        ATTACH_SIGV4,  /* region, service, access_key_id */
        ATTACH_HMAC,   /* algorithm, header, prefix, over */
        _ATTACH_KIND_MAX,
} AttachKind;

typedef enum AttachAlgorithm {
        ATTACH_SHA256,
        ATTACH_SHA1,
        ATTACH_SHA512,
        _ATTACH_ALGORITHM_MAX,
} AttachAlgorithm;

typedef enum AttachOver {
        ATTACH_OVER_BODY,
        ATTACH_OVER_REQUEST, /* method, path with query, body, one behind the other */
        _ATTACH_OVER_MAX,
} AttachOver;

typedef struct Attach {
        AttachKind kind;
        AttachAlgorithm algorithm;
        AttachOver over;
        char *user;
        char *name;   /* of the header or the key of the query */
        char *prefix; /* NULL: none */
        char *region, *service, *access_key_id;
} Attach;

void attach_done(Attach *attach);
/* Reads the value of the key "attach". 0 or -ENOMEM. */
int attach_read(const Reader *reader, const JsonNode *node, Attach *attach);
/* Adds the keys that it may have, as "attach.as". */
int attach_key_names(StrV *names);
/* The words of the enumerations, each list with NULL at its end. */
extern const char *const attach_kinds[], *const attach_algorithms[], *const attach_overs[];
/* The name of a field of HTTP that can be set at all: not one that says how a message is carried.
 */
bool attach_is_header_name(const char *name);
