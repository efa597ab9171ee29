/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a call is allowed: a pure function of the tenant, the tool and the arguments. Rules are
 * asked in one order, which is that of EvaluateStep; the first that denies decides. So a rule of
 * tools.deny wins over one of tools.allow, and what no rule speaks of is denied.
 *
 * To be denied is an outcome. A failure to decide is an error, and nothing is allowed by it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "basic/json-scan.h"
#include "policy/destination.h"
#include "policy/tenant.h"

typedef enum EvaluateStep {
        EVALUATE_TENANT,    /* who asks is a tenant */
        EVALUATE_DENY,      /* no rule of tools.deny covers the tool */
        EVALUATE_ALLOW,     /* one of tools.allow does */
        EVALUATE_SCOPES,    /* the tenant has all scopes that the tool needs */
        EVALUATE_TEMPLATE,  /* of a crate: one of templates covers what is asked for */
        EVALUATE_ARGUMENTS, /* the arguments keep the tenant's constraints on them */
        EVALUATE_WORKSPACE, /* the host folder is one of workspaces; the broker's to ask */
        EVALUATE_EGRESS,    /* egress covers all that the job asks to reach; by evaluate_egress() */
        EVALUATE_OPERATIONS, /* operations covers all that it asks to call; evaluate_operations() */
        _EVALUATE_STEP_MAX,
} EvaluateStep;

/* What has to be known of a tool. */
typedef struct ToolRights {
        const char *name;
        StrV scopes;                        /* that a call needs */
        const char *template_default;       /* NULL: the tool makes no crate */
        const char *credential, *operation; /* of the operation that it is; NULL: it is none */
} ToolRights;

/* "TENANT:tools.deny[0]", the longest being that of a tool's arguments. */
#define DECISION_RULE_SIZE 192U

/* Borrows the tenant. */
typedef struct Decision {
        bool allowed;
        EvaluateStep step;             /* that decided; if allowed, that of tools.allow */
        const Tenant *tenant;          /* NULL: nobody */
        char rule[DECISION_RULE_SIZE]; /* names it for records; the same for the same policy */
        const char *file;              /* where the rule stands; NULL: nowhere */
        uint32_t line;                 /* 0: what would have to stand there does not */
        char *reason;                  /* what was refused; NULL if allowed */
        char *needed;                  /* what would have to change; NULL if allowed */
} Decision;

#define DECISION_NULL ((Decision){})

void decision_done(Decision *decision);
/* Refuses at that step. rule is the rule's name behind the tenant's. 0 or -ENOMEM. */
int decision_deny(Decision *decision, EvaluateStep step, uint32_t line, const char *rule,
                  const char *needed, const char *format, ...) _printf_(6, 7);
/* What the caller is told: what was refused, by which rule, what would be needed. It is made of the
 * names of rules and of the call itself, never of anything else that the configuration holds. Owned
 * by the caller, NULL if out of memory. */
char *decision_text(const Decision *decision, const char *tool);

/* tenant may be NULL. Steps up to EVALUATE_ARGUMENTS; arguments may be NULL. 0 or a negative errno.
 */
int evaluate(const Tenant *tenant, const ToolRights *tool, const JsonDoc *doc,
             const JsonNode *arguments, Decision *ret_decision);
/* What a job asks to reach: its template's, and those of its arguments. Changes an allowed decision
 * if the tenant does not have the scope for it, or its list does not cover one. 0 or -ENOMEM. */
int evaluate_egress(const Tenant *tenant, const char *template, const DestinationList *of_template,
                    const DestinationList *asked, Decision *decision);
/* The same of what it asks to call with a credential: rules of its template, and of its arguments.
 */
int evaluate_operations(const Tenant *tenant, const char *template, const StrV *of_template,
                        const StrV *asked, Decision *decision);
/* Whether there can be a call that is allowed: else the tool is not listed. */
bool evaluate_may_call(const Tenant *tenant, const ToolRights *tool);
/* "tools.deny" and so on: the key of the configuration. */
const char *evaluate_step_to_string(EvaluateStep step);
