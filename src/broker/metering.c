/* SPDX-License-Identifier: Apache-2.0 */

#include "broker/metering.h"

#include "basic/error.h"
#include "basic/time-util.h"
#include "broker/export.h"
#include "broker/supervise.h"
#include "policy/evaluate.h"

/* Beside the steps of the policy: a request that is none, a broker that stops or fails, a call that
 * cannot be recorded, a connection of somebody who is nobody here. */
static const char *const denials[] = {"request", "broker", "audit.on_failure",
                                      METERING_DENIED_PEER};

enum {
        RECORD_AUDIT,
        RECORD_TRACE,
        _RECORD_MAX,
};

static const char *const records[] = {[RECORD_AUDIT] = "audit", [RECORD_TRACE] = "trace"};
_Static_assert(ELEMENTSOF(records) == _RECORD_MAX, "a word for each kind of record");

/* What the record of a job calls it, and what it counts as. A call that there was no room for was
 * neither denied nor run. */
static const struct {
        const char *word;
        MetricsOutcome outcome;
} outcomes[] = {
        {"exited", METRICS_OK},           {"denied", METRICS_DENIED}, {"limit", METRICS_LIMIT},
        {"cancelled", METRICS_CANCELLED}, {"lost", METRICS_LOST},     {"signaled", METRICS_ERROR},
        {"exec_failed", METRICS_ERROR},   {"refused", METRICS_ERROR}, {"error", METRICS_ERROR},
};

/* --- making --- */

static int append_names(StrV *tools, StrV *limits, StrV *kinds, StrV *kinds_of_records) {
        const ToolRights *tool;
        int r = 0;

        for (size_t i = 0; r == 0 && (tool = tools_rights_at(NULL, i)); i++)
                r = strv_append(tools, tool->name);
        for (LimitName name = 0; r == 0 && name < _LIMIT_MAX; name++)
                r = strv_append(limits, limit_to_string(name));
        for (EvaluateStep step = 0; r == 0 && step < _EVALUATE_STEP_MAX; step++)
                r = strv_append(kinds, evaluate_step_to_string(step));
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(denials); i++)
                r = strv_append(kinds, denials[i]);
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(records); i++)
                r = strv_append(kinds_of_records, records[i]);
        return error_trace(r);
}

static int add_operations(Metrics *metrics, const Credential *credential) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < credential->menu.n_items; i++)
                r = metrics_add_operation(metrics, credential->name,
                                          credential->menu.items[i].name);
        return error_trace(r);
}

/* Templates, operations, and tools that are operations. */
static int add_names(Metrics *metrics, const Policy *policy) {
        const ToolRights *tool;
        int r = 0;

        for (size_t i = 0; r == 0 && i < policy->n_templates; i++)
                r = metrics_add_template(metrics, policy->templates[i]->name);
        for (size_t i = 0; r == 0 && (tool = tools_rights_at(policy, i)); i++)
                r = metrics_add_tool(metrics, tool->name);
        for (size_t i = 0; r == 0 && i < policy->n_credentials; i++)
                r = add_operations(metrics, policy->credentials[i]);
        return error_trace(r);
}

int metering_new(const Manager *manager, Metrics **ret_metrics) {
        _cleanup_(strv_done) StrV tools = STRV_NULL, limits = STRV_NULL, kinds = STRV_NULL;
        _cleanup_(strv_done) StrV kinds_of_records = STRV_NULL;
        const MetricsNames names = {.tools = &tools,
                                    .limits = &limits,
                                    .denials = &kinds,
                                    .records = &kinds_of_records};
        _cleanup_(metrics_freep) Metrics *metrics = NULL;
        int r;

        r = append_names(&tools, &limits, &kinds, &kinds_of_records);
        if (r == 0)
                r = metrics_new(&names, &metrics);
        if (r == 0)
                r = add_names(metrics, manager->policy);
        if (r < 0)
                return error_trace(r);
        *ret_metrics = TAKE_PTR(metrics);
        return 0;
}

int metering_reload(Manager *manager) {
        return error_trace(add_names(manager->metrics, manager->policy));
}

/* --- counting --- */

static MetricsOutcome outcome_of(const char *word) {
        for (size_t i = 0; i < ELEMENTSOF(outcomes); i++)
                if (string_equal(word, outcomes[i].word))
                        return outcomes[i].outcome;
        return METRICS_ERROR;
}

void metering_end(Manager *manager, const char *tool, const char *denial, const AuditEnd *end) {
        MetricsOutcome outcome = outcome_of(end->outcome);

        metrics_count_call(manager->metrics, tool, outcome, end->total_usec * NSEC_PER_USEC);
        if (outcome == METRICS_DENIED)
                metrics_count_denial(manager->metrics, denial);
}

void metering_operation(Manager *manager, const EgressOperation *operation) {
        MetricsRequest outcome = operation->denied      ? METRICS_REQUEST_DENIED
                                 : operation->reason[0] ? METRICS_REQUEST_ERROR
                                                        : METRICS_REQUEST_OK;

        metrics_count_operation(manager->metrics, operation->credential, operation->operation,
                                outcome);
}

/* --- serving --- */

int metering_append_text(Manager *manager, StrBuf *out) {
        const uint64_t dropped[_RECORD_MAX] = {
                [RECORD_AUDIT] = audit_n_lost(manager->audit),
                [RECORD_TRACE] = manager->exporter ? exporter_n_dropped(manager->exporter) : 0,
        };
        _cleanup_(freep) uint64_t(*crates)[_METRICS_STATE_MAX] = NULL;
        const Supervisor *supervisor;

        crates = calloc(metrics_n_templates(manager->metrics) + 1, sizeof(*crates));
        if (!crates)
                return error_origin(-ENOMEM);
        LIST_FOREACH (supervisor, &manager->supervisors, entry)
                crates[metrics_template(manager->metrics, supervisor->template)]
                      [supervisor->state]++;

        return error_trace(metrics_append_text(manager->metrics,
                                               &(MetricsNow){.crates = crates, .dropped = dropped},
                                               PACKAGE_VERSION, out));
}
