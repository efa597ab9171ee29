/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trying a thing in a child, so that this process stays as it is. The child notes each step in
 * memory that both share before it takes it: one that hangs or is killed by a filter has still said
 * where.
 */

#include <stdbool.h>
#include <stdint.h>

#define PROBE_STEP_MAX 32U
#define PROBE_PATH_MAX 128U
#define PROBE_TIMEOUT_MSEC 5000

typedef struct Probe {
        bool done;  /* false: it was not tried */
        int error;  /* errno, positive; 0: it works */
        int signal; /* by which the child ended before it was through; error is EINTR then */
        char step[PROBE_STEP_MAX]; /* the last one that was begun */
        char path[PROBE_PATH_MAX]; /* "" if none */
        int64_t value;             /* what a probe found out beside that */
} Probe;

/* Runs in the child. What it leaves in probe->error is the outcome. */
typedef void (*ProbeFunction)(Probe *probe, const void *userdata);

/* Runs function in a child and waits for it, at most PROBE_TIMEOUT_MSEC. ret_probe is always
 * filled. */
void probe_run(ProbeFunction function, const void *userdata, Probe *ret_probe);

/* For the child: names the step that follows. */
void probe_begin(Probe *probe, const char *step, const char *path);
/* For the child: takes over errno unless ok. Returns ok. */
bool probe_check(Probe *probe, bool ok);
/* For a child of the child: ends with its parent. */
void probe_die_with_parent(void);
