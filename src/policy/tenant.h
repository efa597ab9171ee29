/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tenant: who may use which tools, with which arguments, on what, and how much of it. Read from
 * tenants.d/NAME.json, checked completely before use, immutable afterwards. Everything that is not
 * granted is denied.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "basic/diag.h"
#include "basic/string-util.h"
#include "policy/ceilings.h"
#include "policy/destination.h"
#include "policy/rules.h"

struct Schema;

/* An id of match, and where it stands; or a place alone. */
typedef struct TenantId {
        uint32_t id;
        uint32_t line, column;
        size_t index; /* in its list */
} TenantId;

typedef struct TenantIds {
        TenantId *items;
        size_t n_items;
} TenantIds;

/* What the arguments of one tool must be like. */
typedef struct TenantArguments {
        char *tool;
        struct Schema *schema;
        char *text; /* the schema as it was written, without what is blank */
        uint32_t line;
} TenantArguments;

typedef struct Tenant {
        char *name;
        char *file; /* where it was read from, or TENANT_BUILT_IN */
        char *description;
        TenantIds uids, gids;
        StrV scopes; /* sorted */
        Rules allow, deny;
        TenantArguments *arguments; /* sorted by tool */
        size_t n_arguments;
        StrV workspaces;           /* absolute host paths */
        bool workspace_connection; /* and the folder that a connection asks for */
        TenantId connection_place; /* of the word that grants it */
        Rules templates;
        DestinationList egress; /* what its jobs may reach */
        bool egress_templates;  /* and what their templates name */
        StrV operations;        /* rules of operations that its jobs may call */
        uint32_t operations_line;
        Ceilings ceilings;    /* of each job, and of all of the tenant's together */
        size_t sandboxes_max; /* at the same time; SIZE_MAX: no ceiling of its own */
        /* Where the key stands; 0: it does not. */
        uint32_t scopes_line, tools_line, templates_line, workspaces_line;
} Tenant;

#define TENANT_BUILT_IN "built in"
/* In workspaces: the folder that "agentcrate stdio -w" asks for. */
#define TENANT_CONNECTION "connection"
/* In egress: whatever the template of a job names. */
#define TENANT_TEMPLATES "templates"

Tenant *tenant_free(Tenant *tenant);
DEFINE_CLEANUP(Tenant, tenant_free);

enum {
        _TENANT_E_SUCCESS,
        TENANT_E_INVALID, /* diags tell */
};

/* Parses one file's text. name is the file name without ".json". warnings may be NULL. The fuzz
 * target's entry. */
int tenant_parse(const char *name, const char *file, const char *text, size_t size, DiagList *diags,
                 DiagList *warnings, Tenant **ret_tenant);
/* The one of a user's own instance where there are no tenants.d: that user and root, who may run
 * anything in a crate and may show it the folder of the connection. */
int tenant_new_owner(uid_t uid, Tenant **ret_tenant);
/* Adds the keys that a tenant may have, those of nested objects as "match.uid". */
int tenant_key_names(StrV *names);

/* Of the words of scopes. "server:" and a server's name is one, too. */
bool scope_is_valid(const char *scope);
/* The scope that a tool needs and the tenant does not have, or NULL. */
const char *tenant_missing_scope(const Tenant *tenant, const StrV *needed);
const TenantArguments *tenant_find_arguments(const Tenant *tenant, const char *tool);
