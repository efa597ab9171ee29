/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From the destinations of a job to sockets in its crate, and to what agentcrate-egress is told of
 * them. Every name has an address of its own, so that the address which is dialled is the name:
 * the stub for DNS is the first of the range, names follow in their order. A wildcard has some
 * addresses ahead, which names are given as they are asked for.
 */

#include "crate/result.h"
#include "plan/plan.h"
#include "policy/config.h"
#include "policy/credential.h"
#include "policy/destination.h"

/* The address of the stub, for resolv.conf. */
#define EGRESS_STUB4 "198.18.0.1"

/* What the operator says of all egress. Borrowed. */
typedef struct EgressSettings {
        const StrV *deny;     /* CIDRs that nothing leads to, names that nothing allows */
        const StrV *resolver; /* servers, "ADDRESS:PORT"; empty: the system's */
        uint64_t connections; /* of one job at a time */
        uint64_t idle_usec;   /* after which a connection is closed */
        uint64_t bytes;       /* of one job, both ways; 0: unlimited */
} EgressSettings;

EgressSettings egress_settings(const ConfigEgress *config);

/* Credentials that a job may use, as far as the rules cover their operations. Borrowed. */
typedef struct EgressGrants {
        Credential *const *credentials;
        size_t n_credentials;
        const StrV *rules;
        const char *tenant; /* whose calls count together in a minute; NULL: the job's alone */
} EgressGrants;

typedef struct EgressPlan EgressPlan;

enum {
        _EGRESS_PLAN_E_SUCCESS,
        EGRESS_PLAN_E_INVALID, /* ret_error tells */
};

/* Copies what it needs. */
int egress_plan_new(const DestinationList *destinations, const EgressGrants *grants,
                    const EgressSettings *settings, EgressPlan **ret_plan, CrateError *ret_error);
EgressPlan *egress_plan_free(EgressPlan *plan);
DEFINE_CLEANUP(EgressPlan, egress_plan_free);

/* Adds the listen operations, as many as egress_plan_n_sockets(). */
int egress_plan_add(const EgressPlan *plan, CratePlan *crate);
size_t egress_plan_n_sockets(const EgressPlan *plan);
/* What agentcrate-egress is told: a sealed memfd. numbers has for each listen operation the number
 * of its socket, or -1 for one that could not be made. */
int egress_plan_document(const EgressPlan *plan, const int *numbers, int *ret_fd);
/* The same for one call of an operation without a crate, which comes by a connection of ours: its
 * only socket. The rule covers that operation alone. 0 or a negative errno. */
int egress_plan_call_document(const EgressGrants *grants, const EgressSettings *settings,
                              int *ret_fd);
