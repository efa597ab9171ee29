/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The policy: all configuration files, read, checked and immutable. Vendor files lie in
 * $(datadir)/agentcrate, the administrator's in $(sysconfdir)/agentcrate, the user's in
 * $XDG_CONFIG_HOME/agentcrate (not read by root); a later folder's file of the same name overrides.
 * All faults of all files are collected before it fails.
 */

#include "basic/diag.h"
#include "policy/config.h"
#include "policy/template.h"

typedef struct Policy {
        Config config;
        Template **templates; /* sorted by name */
        size_t n_templates;
} Policy;

Policy *policy_free(Policy *policy);
DEFINE_CLEANUP(Policy, policy_free);

enum {
        _POLICY_E_SUCCESS,
        POLICY_E_INVALID, /* diags tell */
};

/*
 * Reads the folders. dirs is in order of rising precedence; a missing folder or file is no error.
 * policy_default_dirs() gives those of this process.
 */
int policy_load(const StrV *dirs, DiagList *diags, Policy **ret_policy);
int policy_default_dirs(StrV *ret_dirs);
/* Reads one template only: the newest of that name in dirs. For agentcrate-run, which needs no
 * more. */
int policy_load_template(const StrV *dirs, const char *name, DiagList *diags,
                         Template **ret_template);
/* Reads agentcrated.json only, into an initialised config. */
int policy_load_config(const StrV *dirs, DiagList *diags, Config *config);
/* What to do where there is no template at all. */
#define POLICY_EMPTY_REMEDY                                                                        \
        "install AgentCrate completely, or set AGENTCRATE_DATA_DIR to the folder that holds its "  \
        "templates.d"
/* That none of the folders has a template, and the remedy; owned by the caller. */
int policy_explain_empty(const StrV *dirs, char **ret_text);
const Template *policy_find_template(const Policy *policy, const char *name);
