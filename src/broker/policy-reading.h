/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the policy beside the event loop, in a thread: a thousand tenants take seconds, and no call
 * shall wait for that. The thread knows nothing of the broker but which instance it is, shares
 * nothing with it while it runs, and hands over what it has made by ending.
 */

#include <systemd/sd-event.h>

#include "basic/diag.h"
#include "basic/string-util.h"
#include "policy/policy.h"

typedef struct PolicyRead {
        PolicyInstance instance;
        StrV dirs; /* where it was looked for */
        DiagList diags;
        Policy *policy; /* if result is 0 */
        int result;     /* as policy_load_instance() */
} PolicyRead;

/* Reads at once, for a broker that serves nobody yet. */
void policy_read_run(PolicyInstance instance, PolicyRead *ret_read);
void policy_read_done(PolicyRead *read);

typedef struct PolicyReading PolicyReading;

/* The policy may be taken out of read, all else is freed behind this. */
typedef void (*PolicyReadingCallback)(PolicyRead *read, void *userdata);

int policy_reading_new(sd_event *event, PolicyReadingCallback callback, void *userdata,
                       PolicyReading **ret_reading);
/* Waits for a reading that has begun. */
PolicyReading *policy_reading_free(PolicyReading *reading);
DEFINE_CLEANUP(PolicyReading, policy_reading_free);

/* Begins to read; the callback follows from the event loop. While there is a reading already, which
 * may have passed what has changed since, another one follows it. Returns whether one was begun. */
bool policy_reading_start(PolicyReading *reading, PolicyInstance instance);
