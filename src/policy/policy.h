/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The policy: all configuration files, read, checked and immutable. All faults of all files are
 * collected before it fails. It is counted by references, so that what runs keeps the one that it
 * began with while another takes its place.
 */

#include <sys/types.h>

#include "basic/diag.h"
#include "policy/exposed.h"
#include "policy/policy-files.h"
#include "policy/tenant.h"

/* "sha256:", 64 hex digits and a NUL. */
#define POLICY_DIGEST_SIZE (7 + 64 + 1)

/* Who has an id. */
typedef struct PolicyMatch {
        uint32_t id;
        const Tenant *tenant;
        const TenantId *place;
} PolicyMatch;

typedef struct PolicyMatches {
        PolicyMatch *items; /* sorted by id */
        size_t n_items;
} PolicyMatches;

typedef struct Policy {
        unsigned n_refs;
        PolicyInstance instance;
        Config config;
        Template **templates; /* sorted by name */
        size_t n_templates;
        Tenant **tenants; /* sorted by name */
        size_t n_tenants;
        Credential **credentials; /* sorted by name */
        size_t n_credentials;
        ExposedTools exposed; /* of the credentials */
        PolicyMatches uids, gids;
        DiagList warnings;               /* what is allowed, but can hardly be meant */
        char digest[POLICY_DIGEST_SIZE]; /* of all that is in force, wherever it was written */
} Policy;

Policy *policy_ref(Policy *policy);
/* Gives back a reference; the last one frees it. Returns NULL. */
Policy *policy_free(Policy *policy);
DEFINE_CLEANUP(Policy, policy_free);

/*
 * Reads the folders. dirs is in order of rising precedence; a missing folder or file is no error.
 * policy_instance_dirs() gives those of this process.
 *
 * A user's instance where nobody has said who its tenants are has one, its owner. A user's tenants
 * are his own and the vendor's: those in the administrator's folder are the system instance's.
 */
int policy_load_instance(PolicyInstance instance, const StrV *dirs, DiagList *diags,
                         Policy **ret_policy);
/* A user's instance. */
int policy_load(const StrV *dirs, DiagList *diags, Policy **ret_policy);

const Template *policy_find_template(const Policy *policy, const char *name);
const Tenant *policy_find_tenant(const Policy *policy, const char *name);

enum {
        _POLICY_MATCH_E_SUCCESS,
        POLICY_MATCH_E_NOBODY,
        POLICY_MATCH_E_SEVERAL, /* by groups: *ret_tenant and *ret_other */
};

/* Who somebody with these ids is: by uid, else by any of the groups. */
int policy_match(const Policy *policy, uid_t uid, const gid_t *gids, size_t n_gids,
                 const Tenant **ret_tenant, const Tenant **ret_other);
