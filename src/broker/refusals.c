/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/refusals.h"

bool refusals_admit(Refusals *refusals, uint64_t now_usec, uint64_t *ret_missed) {
        *ret_missed = 0;
        if (now_usec - refusals->begun_usec >= REFUSALS_WHILE_USEC) {
                if (refusals->n > REFUSALS_MAX)
                        *ret_missed = refusals->n - REFUSALS_MAX;
                *refusals = (Refusals){.begun_usec = now_usec};
        }
        return ++refusals->n <= REFUSALS_MAX;
}
