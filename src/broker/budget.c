/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/budget.h"

#include <dirent.h>
#include <sys/resource.h>

#include "basic/error.h"
#include "basic/macros.h"

static int count_open(size_t *ret_n) {
        size_t n = 0;
        DIR *dir;

        dir = opendir("/proc/self/fd");
        if (!dir)
                return error_origin(negative_errno());

        while (readdir(dir))
                n++;
        (void) closedir(dir);

        /* ".", ".." and the directory itself. */
        *ret_n = n > 3 ? n - 3 : 0;
        return 0;
}

int budget_init(Budget *budget) {
        struct rlimit limit;
        size_t open;
        int r;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return error_origin(negative_errno());
        if (limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max;
                if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
                        return error_origin(negative_errno());
        }

        r = count_open(&open);
        if (r < 0)
                return error_trace(r);

        *budget = (Budget){.max = limit.rlim_cur, .base = open + BUDGET_PASSING};
        return 0;
}

static size_t budget_free(const Budget *budget) {
        size_t used = budget->base + budget->clients + budget->crates;

        return used < budget->max ? budget->max - used : 0;
}

int budget_charge_client(Budget *budget) {
        size_t share = budget->max > budget->base ? (budget->max - budget->base) / 2 : 0;

        if (budget->clients + BUDGET_CLIENT > share || budget_free(budget) < BUDGET_CLIENT)
                return BUDGET_E_FULL;
        budget->clients += BUDGET_CLIENT;
        return 0;
}

void budget_release_client(Budget *budget) {
        budget->clients -= BUDGET_CLIENT;
}

bool budget_has_crate(const Budget *budget) {
        return budget_free(budget) >= BUDGET_CRATE;
}

void budget_charge_crate(Budget *budget) {
        budget->crates += BUDGET_CRATE;
}

void budget_release_crate(Budget *budget) {
        budget->crates -= BUDGET_CRATE;
}
