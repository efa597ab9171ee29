/* SPDX-License-Identifier: Apache-2.0 */

/* A credential is accepted without a word, or refused with at least one; and no two operations of
 * one that was accepted overlap. */

#include "tests/fuzz/fuzz.h"

#include "policy/credential.h"

static void check_credential(const Credential *c) {
        const OperationMenu *menu = &c->menu;

        FUZZ_ASSERT(c->upstream.host && c->upstream.port > 0 && c->secret);
        FUZZ_ASSERT(credential_secret_name_is_valid(c->secret));
        for (size_t i = 0; i < menu->n_items; i++) {
                FUZZ_ASSERT(operation_menu_find(menu, menu->items[i].name) == &menu->items[i]);
                FUZZ_ASSERT(menu->items[i].n_segments > 0);
                for (size_t k = i + 1; k < menu->n_items; k++)
                        FUZZ_ASSERT(!operation_overlaps(&menu->items[i], &menu->items[k]));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_(diag_list_done) DiagList diags = DIAG_LIST_NULL;
        _cleanup_(credential_freep) Credential *credential = NULL;
        int r;

        r = credential_parse("x", "x.json", (const char *) data, size, &diags, &credential);
        FUZZ_ASSERT(r == 0 || r == CREDENTIAL_E_INVALID);
        FUZZ_ASSERT((r == 0) == (credential != NULL) && (r == 0) == (diags.n_items == 0));
        if (credential)
                check_credential(credential);
        for (size_t i = 0; i < diags.n_items; i++) {
                _cleanup_(freep) char *line = diag_format(&diags.items[i]);

                FUZZ_ASSERT(line && !strchr(line, '\n'));
        }
        return 0;
}
