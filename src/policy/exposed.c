/* SPDX-License-Identifier: Apache-2.0 */

#include "policy/exposed.h"

#include <errno.h>
#include <stdio.h>

#include "basic/error.h"

static char scope_credential[] = "credential:use";
static char *scopes[] = {scope_credential, NULL};

void exposed_tools_done(ExposedTools *tools) {
        for (size_t i = 0; i < tools->n_items; i++)
                free((char *) tools->items[i].rights.name);
        free(tools->items);
        *tools = (ExposedTools){};
}

static size_t count(Credential *const *credentials, size_t n) {
        size_t sum = 0;

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < credentials[i]->menu.n_items; k++)
                        sum += credentials[i]->menu.items[k].expose;
        return sum;
}

static int add(ExposedTools *tools, const Credential *credential, const Operation *operation) {
        char *name;

        if (asprintf(&name, "%s_%s", credential->name, operation->name) < 0)
                return error_origin(-ENOMEM);
        tools->items[tools->n_items++] = (ExposedTool){
                .rights = {.name = name,
                           .scopes = {.items = scopes, .n_items = 1},
                           .credential = credential->name,
                           .operation = operation->name},
                .credential = credential,
                .operation = operation,
        };
        return 0;
}

int exposed_tools_make(Credential *const *credentials, size_t n, ExposedTools *ret_tools) {
        ExposedTools tools = {};
        int r = 0;

        tools.items = calloc(count(credentials, n) + 1, sizeof(ExposedTool));
        if (!tools.items)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < credentials[i]->menu.n_items && r == 0; k++)
                        if (credentials[i]->menu.items[k].expose)
                                r = add(&tools, credentials[i], &credentials[i]->menu.items[k]);
        if (r < 0) {
                exposed_tools_done(&tools);
                return error_trace(r);
        }
        *ret_tools = tools;
        return 0;
}

const ExposedTool *exposed_tools_find(const ExposedTools *tools, const char *name) {
        for (size_t i = 0; i < tools->n_items; i++)
                if (string_equal(tools->items[i].rights.name, name))
                        return &tools->items[i];
        return NULL;
}
