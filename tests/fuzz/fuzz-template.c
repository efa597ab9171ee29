/* SPDX-License-Identifier: Apache-2.0 */

/* A template is accepted without a word, or refused with at least one. */

#include "tests/fuzz/fuzz.h"

#include "policy/template.h"

static void check_template(const Template *t) {
        FUZZ_ASSERT(t->description && t->seccomp);
        FUZZ_ASSERT(!t->root || t->root[0] == '/');
        for (size_t i = 0; i < t->n_ro; i++)
                FUZZ_ASSERT(t->ro[i].from[0] == '/' && t->ro[i].to[0] == '/');
        for (size_t i = 0; i < t->n_rw; i++)
                FUZZ_ASSERT(t->rw[i].from[0] == '/' && t->rw[i].to[0] == '/');
        for (size_t i = 0; i < t->env.n_items; i++)
                FUZZ_ASSERT(strchr(t->env.items[i], '='));
        FUZZ_ASSERT(t->pool_min <= t->pool_max);
        for (LimitName name = 0; name < _LIMIT_MAX; name++)
                FUZZ_ASSERT(t->limits.max[name] > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(template_freep) Template *template = NULL;
        int r;

        r = template_parse("x", "x.json", (const char *) data, size, &diags, &template);
        FUZZ_ASSERT(r == 0 || r == TEMPLATE_E_INVALID);
        FUZZ_ASSERT((r == 0) == (template != NULL) && (r == 0) == (diags.n_items == 0));
        if (template)
                check_template(template);

        for (size_t i = 0; i < diags.n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags.items[i]);

                FUZZ_ASSERT(line && !strchr(line, '\n'));
        }
        return 0;
}
