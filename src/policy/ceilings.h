/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ceilings: the most that a job may have of each limit. Those of memory, processes, processors and
 * throughput bound all jobs of a level together as well.
 */

#include "basic/string-util.h"
#include "policy/limits.h"

typedef enum CeilingsExcess {
        CEILINGS_REFUSE, /* a call that asks for more is refused */
        CEILINGS_CLAMP,  /* it gets as much as there is, and its record says so */
} CeilingsExcess;

typedef struct Ceilings {
        Limits limits; /* LIMIT_UNLIMITED where there is none */
        CeilingsExcess on_excess;
} Ceilings;

/* The rows of a table of keys (policy/reader.h) for all limits that have a ceiling. */
#define CEILINGS_KEYS(f)                                                                           \
        {.name = "memory", .read = (f)}, {.name = "pids", .read = (f)},                            \
                {.name = "cpus", .read = (f)}, {.name = "cpu_time", .read = (f)},                  \
                {.name = "wall_time", .read = (f)}, {.name = "disk", .read = (f)},                 \
                {.name = "inodes", .read = (f)}, {.name = "open_files", .read = (f)},              \
                {.name = "file_size", .read = (f)}, {.name = "output", .read = (f)},               \
                {.name = "io_read_bps", .read = (f)}, {                                            \
                .name = "io_write_bps", .read = (f)                                                \
        }

enum {
        _CEILINGS_E_SUCCESS,
        CEILINGS_E_EXCESS, /* ret_text tells */
};

/* No ceilings, and refuse. */
void ceilings_init(Ceilings *ceilings);
/*
 * Lowers limits to the ceilings: silently what is a default, what was asked for by on_excess. where
 * is the level's place in the configuration, such as "instance". What was clamped is added to notes
 * as a sentence each. 0, CEILINGS_E_EXCESS with *ret_text (owned by the caller), or -ENOMEM.
 */
int ceilings_apply(const Ceilings *ceilings, const char *where, const Limits *asked, Limits *limits,
                   StrV *notes, char **ret_text);
