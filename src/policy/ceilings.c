/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/ceilings.h"

#include <errno.h>
#include <stdio.h>

#include "basic/error.h"
#include "basic/macros.h"

void ceilings_init(Ceilings *ceilings) {
        *ceilings = (Ceilings){};
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                ceilings->limits.max[name] = LIMIT_UNLIMITED;
}

static int lower(const Ceilings *ceilings, LimitName name, const char *where, const Limits *asked,
                 Limits *limits, StrV *notes, char **ret_text) {
        uint64_t ceiling = ceilings->limits.max[name];
        char wanted[LIMIT_TEXT_SIZE], most[LIMIT_TEXT_SIZE];

        limit_format(name, limits->max[name], wanted, sizeof(wanted));
        limit_format(name, ceiling, most, sizeof(most));
        if ((asked->given & 1U << name) == 0) {
                limits->max[name] = ceiling;
                return 0;
        }
        if (ceilings->on_excess == CEILINGS_CLAMP) {
                limits->max[name] = ceiling;
                return error_trace(strv_appendf(notes,
                                                "limit %s: %s was asked for, the ceiling %s.%s "
                                                "allows %s",
                                                limit_to_string(name), wanted, where,
                                                limit_to_string(name), most));
        }
        if (asprintf(ret_text,
                     "limit %s: %s was asked for, which is above the ceiling %s.%s of %s; ask for "
                     "no more than that",
                     limit_to_string(name), wanted, where, limit_to_string(name), most) < 0)
                return error_origin(-ENOMEM);
        return CEILINGS_E_EXCESS;
}

int ceilings_apply(const Ceilings *ceilings, const char *where, const Limits *asked, Limits *limits,
                   StrV *notes, char **ret_text) {
        int r = 0;

        for (LimitName name = 0; r == 0 && name < _LIMIT_MAX; name++)
                if (limits->max[name] > ceilings->limits.max[name])
                        r = lower(ceilings, name, where, asked, limits, notes, ret_text);
        return r;
}
