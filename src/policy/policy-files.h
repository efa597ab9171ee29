/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where configuration lies, and the files that are read one by one. Vendor files lie in
 * $(datadir)/agentcrate, the administrator's in $(sysconfdir)/agentcrate, the user's in
 * $XDG_CONFIG_HOME/agentcrate (not read by root, nor by a system instance); a later folder's file
 * of the same name overrides. Apart from the policy as a whole, so that agentcrate-run links
 * nothing of it.
 */

#include "basic/diag.h"
#include "policy/config.h"
#include "policy/credential.h"
#include "policy/source.h"
#include "policy/template.h"

typedef enum PolicyInstance {
        POLICY_USER,   /* somebody's own broker, and what is run without one */
        POLICY_SYSTEM, /* the machine's: for several users, and from root's files only */
} PolicyInstance;

typedef struct PolicyFiles {
        StrV dirs; /* in order of rising precedence; borrowed */
        SourceTrust trust;
} PolicyFiles;

enum {
        _POLICY_E_SUCCESS,
        POLICY_E_INVALID, /* diags tell */
};

/* The folders of this process: for a user's own instance, and for either kind. */
int policy_default_dirs(StrV *ret_dirs);
int policy_instance_dirs(PolicyInstance instance, StrV *ret_dirs);

/* Reads one template only: the newest of that name in dirs. For agentcrate-run, which needs no
 * more. */
int policy_load_template(const StrV *dirs, const char *name, DiagList *diags,
                         Template **ret_template);
/* Reads agentcrated.json only, into an initialised config. */
int policy_load_config(const StrV *dirs, DiagList *diags, Config *config);
/* Reads those credentials that the rules ("CRED.OP", "CRED.*") name, with the certificates that
 * they trust. A rule that names what there is not is a fault. *ret_credentials has as many as
 * *ret_n, each to be freed. */
int policy_load_credentials(const StrV *dirs, const StrV *rules, DiagList *diags,
                            Credential ***ret_credentials, size_t *ret_n);
/* What to do where there is no template at all. */
#define POLICY_EMPTY_REMEDY                                                                        \
        "install AgentCrate completely, or set AGENTCRATE_DATA_DIR to the folder that holds its "  \
        "templates.d"
/* That none of the folders has a template, and the remedy; owned by the caller. */
int policy_explain_empty(const StrV *dirs, char **ret_text);

/*
 * For the loader of the whole. Faults go to diags, a missing file is none; 0 or a negative errno.
 */

/* The text of the file of that name in the folder of highest precedence that has one. 0 or a
 * SOURCE_E_X. */
int policy_read_newest(const PolicyFiles *files, const char *name, DiagList *diags, char **ret_file,
                       char **ret_text, size_t *ret_size);
/* The names of all folders' files of that kind, sorted, each once. */
int policy_list(const PolicyFiles *files, const SourceFolder *folder, DiagList *diags,
                StrV *ret_names);
/* *ret_template stays NULL if the file has faults, or if there is none. */
int policy_read_template(const PolicyFiles *files, const char *name, DiagList *diags,
                         Template **ret_template);
/* The same of a credential. */
int policy_read_credential(const PolicyFiles *files, const char *name, DiagList *diags,
                           Credential **ret_credential);
int policy_read_config(const PolicyFiles *files, DiagList *diags, Config *config);
