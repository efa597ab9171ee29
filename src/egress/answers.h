/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is said to a host, in order. A host that is slow to read does not hold anybody up: what its
 * socket does not take waits here. */

#include <stddef.h>
#include <stdint.h>

#include "ipc/link.h"

#define ANSWERS_MAX 8192U
/* Who can wait with what he would say does so from here on. */
#define ANSWERS_ROOM 1024U
#define ANSWER_PAYLOAD_MAX 4096U

typedef struct Answer Answer;

typedef struct Answers {
        Answer *first, **last;
        size_t n;
} Answers;

void answers_done(Answers *answers);
/* fd NULL: none; else it is copied. One that has gone is found to have by the next receive. 0 or a
 * negative errno. */
int answers_send(Answers *answers, Link *link, uint16_t type, uint32_t id, const void *payload,
                 size_t size, const int *fd);
/* What waits, as far as it is taken now. */
int answers_flush(Answers *answers, Link *link);
