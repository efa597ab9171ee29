/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Operations that are tools as well: those of all credentials that say "expose", each by the name
 * CREDENTIAL_OPERATION. A credential's name has no _ and those of our own tools are kept from it,
 * so no two tools have one name.
 */

#include "policy/credential.h"
#include "policy/evaluate.h"

typedef struct ExposedTool {
        ToolRights rights; /* its name is owned */
        const Credential *credential;
        const Operation *operation;
} ExposedTool;

typedef struct ExposedTools {
        ExposedTool *items; /* in the order of the credentials and of their menus */
        size_t n_items;
} ExposedTools;

/* Borrows the credentials. 0 or -ENOMEM. */
int exposed_tools_make(Credential *const *credentials, size_t n, ExposedTools *ret_tools);
void exposed_tools_done(ExposedTools *tools);
/* NULL: there is none of that name. */
const ExposedTool *exposed_tools_find(const ExposedTools *tools, const char *name);
