/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "basic/string-util.h"

typedef struct HttpReply {
        int status;
        const char *type;  /* NULL: text/plain */
        const char *allow; /* the methods that there are; NULL: not said */
        const char *body;
        size_t body_size;
        bool head;       /* it answers HEAD: without the body that it tells of */
        bool keep_alive; /* the connection goes on */
} HttpReply;

/* The phrase of a status; of one that has none here, that of its kind. */
const char *http_status_text(int status);
/* Appends it as it goes over the wire. now: of the wall clock. 0 or -ENOMEM. */
int http_append_reply(StrBuf *out, const HttpReply *reply, time_t now);
