/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A tenant is accepted without a word, or refused with at least one. What was accepted decides
 * every call, lets itself be dumped, and is the same tenant when that is read again.
 */

#include "tests/fuzz/fuzz.h"

#include "policy/dump.h"
#include "policy/evaluate.h"
#include "policy/tenant.h"

static void check_decision(const Tenant *tenant, const char *tool) {
        _cleanup_(decision_done) Decision decision = DECISION_NULL;
        ToolRights rights = {.name = tool, .template_default = "host"};
        _cleanup_(freep) char *text = NULL;
        int r;

        r = evaluate(tenant, &rights, NULL, NULL, &decision);
        FUZZ_ASSERT(r == 0);
        FUZZ_ASSERT(decision.allowed == !decision.reason && decision.allowed == !decision.needed);
        FUZZ_ASSERT(decision.rule[0] && strlen(decision.rule) < DECISION_RULE_SIZE);
        /* What can never be called is never allowed. */
        FUZZ_ASSERT(!decision.allowed || evaluate_may_call(tenant, &rights));
        text = decision_text(&decision, tool);
        FUZZ_ASSERT(text);
}

static void check_dump(const Tenant *tenant) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(strbuf_done) StrBuf first = STRBUF_NULL, second = STRBUF_NULL;
        _cleanup_(tenant_freep) Tenant *again = NULL;

        FUZZ_ASSERT(policy_dump_tenant(tenant, &first) == 0);
        FUZZ_ASSERT(tenant_parse("x", "x.json", first.data, first.size, &diags, NULL, &again) == 0);
        FUZZ_ASSERT(policy_dump_tenant(again, &second) == 0);
        FUZZ_ASSERT(string_equal(first.data, second.data));
}

static void check_tenant(const Tenant *t) {
        FUZZ_ASSERT(t->uids.n_items + t->gids.n_items > 0);
        for (size_t i = 0; i < t->scopes.n_items; i++)
                FUZZ_ASSERT(scope_is_valid(t->scopes.items[i]));
        for (size_t i = 0; i < t->workspaces.n_items; i++)
                FUZZ_ASSERT(t->workspaces.items[i][0] == '/');
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                FUZZ_ASSERT(t->ceilings.limits.max[name] >= limit_minimum(name));
        check_decision(t, "sandbox_exec");
        check_decision(t, "file_read");
        for (size_t i = 0; i < t->n_arguments; i++)
                check_decision(t, t->arguments[i].tool);
        check_dump(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL, warnings = DIAG_LIST_NULL;
        _cleanup_(tenant_freep) Tenant *tenant = NULL;
        int r;

        r = tenant_parse("x", "x.json", (const char *) data, size, &diags, &warnings, &tenant);
        FUZZ_ASSERT(r == 0 || r == TENANT_E_INVALID);
        FUZZ_ASSERT((r == 0) == (tenant != NULL) && (r == 0) == (diags.n_items == 0));
        if (tenant)
                check_tenant(tenant);

        for (size_t i = 0; i < diags.n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags.items[i]);

                FUZZ_ASSERT(line && !strchr(line, '\n'));
        }
        return 0;
}
