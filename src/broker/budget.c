/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/budget.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "basic/error.h"
#include "basic/macros.h"

struct BudgetUser {
        LIST_ENTRY(BudgetUser) entry;
        uid_t uid;
        size_t clients;
};

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

static BudgetUser *budget_find_user(Budget *budget, uid_t uid) {
        BudgetUser *user;

        LIST_FOREACH (user, &budget->users, entry)
                if (user->uid == uid)
                        return user;
        return NULL;
}

static size_t budget_free(const Budget *budget) {
        size_t used = budget->base + budget->clients + budget->crates + budget->operations;

        return used < budget->max ? budget->max - used : 0;
}

int budget_charge_client(Budget *budget, uid_t uid) {
        size_t share = budget->max > budget->base ? (budget->max - budget->base) / 2 : 0;
        BudgetUser *user = budget_find_user(budget, uid);

        if (budget->clients + BUDGET_CLIENT > share || budget_free(budget) < BUDGET_CLIENT)
                return BUDGET_E_FULL;
        if (user && uid != geteuid() && user->clients >= share - budget->clients)
                return BUDGET_E_FULL;
        if (!user) {
                user = calloc(1, sizeof(*user));
                if (!user)
                        return BUDGET_E_FULL;
                user->uid = uid;
                LIST_INSERT_HEAD(&budget->users, user, entry);
        }
        user->clients += BUDGET_CLIENT;
        budget->clients += BUDGET_CLIENT;
        return 0;
}

void budget_release_client(Budget *budget, uid_t uid) {
        BudgetUser *user = budget_find_user(budget, uid);

        budget->clients -= BUDGET_CLIENT;
        user->clients -= BUDGET_CLIENT;
        if (user->clients == 0) {
                LIST_REMOVE(user, entry);
                free(user);
        }
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

bool budget_charge_operation(Budget *budget) {
        if (budget_free(budget) < BUDGET_OPERATION)
                return false;
        budget->operations += BUDGET_OPERATION;
        return true;
}

void budget_release_operation(Budget *budget) {
        budget->operations -= BUDGET_OPERATION;
}
