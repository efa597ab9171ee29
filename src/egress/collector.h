/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where traces are posted to, as agentcrated tells it once. */

#include <stddef.h>
#include <stdint.h>

#include "basic/macros.h"
#include "basic/string-util.h"
#include "ipc/proto.h"

#define COLLECTOR_HEADERS_MAX 64U
#define COLLECTOR_TIMEOUT_MSEC_MAX 60000U

typedef struct Collector {
        char *url;
        char *certificates; /* a file; NULL: the system's */
        StrV headers;
        uint32_t timeout_msec;
} Collector;

void collector_done(Collector *collector);

enum {
        _COLLECTOR_E_SUCCESS,
        COLLECTOR_E_INVALID, /* it is none: the link is to be ended */
};

/* Of the text of EGRESS_COLLECTOR. 0, COLLECTOR_E_INVALID or -ENOMEM. */
int collector_parse(const char *text, size_t size, uint32_t timeout_msec, Collector *ret_collector);
