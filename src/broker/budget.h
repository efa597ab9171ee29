/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors, and who may have them. Running work needs descriptors that arrive later (a job's
 * pipes come from its init), and one that cannot be received is lost. So everything that is let in
 * is charged with all that it may need in its life before it begins, and what does not fit is
 * refused by name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/types.h>

typedef struct BudgetUser BudgetUser;

LIST_HEAD(BudgetUserList, BudgetUser);

typedef struct Budget {
        size_t max;                  /* the process's limit of open files */
        size_t base;                 /* what the broker itself holds, and room for passing needs */
        size_t clients;              /* charged for connections */
        size_t crates;               /* charged for crates */
        size_t operations;           /* charged for calls of operations without one */
        struct BudgetUserList users; /* who have connections */
} Budget;

enum {
        _BUDGET_E_SUCCESS,
        BUDGET_E_FULL,
};

#define BUDGET_CLIENT 1U
/* Of a connection by TCP, which is nobody's. */
#define BUDGET_UID_NONE ((uid_t) -1)
/* Links, pipes, pidfd, timers and cgroup of one crate, plus the memfds that make it. */
#define BUDGET_CRATE 16U
/* The connection of one call of an operation without a crate. */
#define BUDGET_OPERATION 1U
/* Plans under construction, a connection that is accepted only to be refused, /proc files. */
#define BUDGET_PASSING 10U

/* Raises the soft limit of open files to the hard one and counts what is open. To be called when
 * everything that stays open is. */
int budget_init(Budget *budget);
/* Connections get at most half, so that they cannot shut out the work that they ask for; and nobody
 * but the broker's own user gets more of it than he leaves to others. */
int budget_charge_client(Budget *budget, uid_t uid);
void budget_release_client(Budget *budget, uid_t uid);
bool budget_has_crate(const Budget *budget);
void budget_charge_crate(Budget *budget);
void budget_release_crate(Budget *budget);
/* False: there is no room. */
bool budget_charge_operation(Budget *budget);
void budget_release_operation(Budget *budget);
