/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A credential: to whom a secret may be said, how, and in which requests. Read from
 * credentials.d/NAME.json, checked completely before use, immutable afterwards. The secret itself
 * is not in it and never gets to whoever reads this file: agentcrate-egress alone reads it, by
 * name.
 */

#include <stdint.h>

#include "basic/diag.h"
#include "basic/string-util.h"
#include "policy/attach.h"
#include "policy/operation.h"

#define CREDENTIAL_SECRET_NAME_MAX 64U
#define CREDENTIAL_PIN_SIZE (sizeof("sha256/") - 1 + 44)
#define CREDENTIAL_PINS_MAX 8U
/* Of an operation that is a tool: clients take no longer names, and answers are kept whole. */
#define EXPOSED_NAME_MAX 64U
#define EXPOSED_RESPONSE_MAX (8U << 20)

/* Where requests are sent to: https://HOST[:PORT][/PATH]. */
typedef struct CredentialUpstream {
        char *host;
        uint16_t port;
        char *path; /* "" or one that begins with a slash and ends with none */
} CredentialUpstream;

typedef struct Credential {
        char *name;
        char *file;
        char *description;
        char *upstream_text;
        CredentialUpstream upstream;
        StrV addresses; /* CIDRs that it may have although they are private */
        char *ca;       /* a file of certificates to trust instead of the system's, or NULL */
        char *ca_text;  /* what is in it, once it was read */
        char *secret;   /* its name */
        Attach attach;
        StrV pins;    /* sha256/BASE64 of public keys of which the upstream must have one */
        StrV headers; /* of requests that are passed on beside those that always are */
        StrV env;     /* NAME=VALUE, of the jobs that may use it */
        OperationMenu menu;
} Credential;

Credential *credential_free(Credential *credential);
DEFINE_CLEANUP(Credential, credential_free);

enum {
        _CREDENTIAL_E_SUCCESS,
        CREDENTIAL_E_INVALID, /* diags tell */
};

/* Parses one file's text. name is the file name without ".json". The fuzz target's entry. */
int credential_parse(const char *name, const char *file, const char *text, size_t size,
                     DiagList *diags, Credential **ret_credential);
/* The same of a value in another document, as agentcrate-egress is told of one. *ret_credential
 * stays NULL if it has faults. 0 or -ENOMEM. */
int credential_read(const Reader *reader, const JsonNode *node, const char *name,
                    Credential **ret_credential);
/* Adds the keys that it may have, those of nested objects as "attach.as". */
int credential_key_names(StrV *names);

/* What is a label of a host's name as well: NAME.crate.internal. */
#define CREDENTIAL_HOST_SUFFIX ".crate.internal"
bool credential_name_is_valid(const char *name);
bool credential_secret_name_is_valid(const char *name);
/* 0, CREDENTIAL_E_INVALID with a static *ret_text, or -ENOMEM. */
int credential_upstream_parse(const char *text, CredentialUpstream *ret_upstream,
                              const char **ret_text);
void credential_upstream_done(CredentialUpstream *upstream);

/* As JSON, in the form of its file, with those operations alone that a rule covers. 0 or -ENOMEM.
 */
int credential_write(const Credential *credential, const StrV *rules, StrBuf *out);
/* How many of its operations the rules cover. */
size_t credential_n_covered(const Credential *credential, const StrV *rules);

/* A rule of "operations" in a template, a tenant, a call: "CRED.OP", "CRED.*" or "*"; and without a
 * pattern. */
bool credential_rule_is_valid(const char *text);
/* The key "operations" of a template or a tenant, each rule once. 0 or -ENOMEM. */
int credential_rules_read(const Reader *reader, const JsonNode *node, StrV *rules);
/* Whether everything that a rule covers is covered by others. */
bool credential_rules_cover_rule(const StrV *rules, const char *rule);
bool credential_operation_is_valid(const char *text);
bool credential_rules_cover(const StrV *rules, const char *credential, const char *operation);
/* Whether a rule is about that credential, by its name or for all. */
bool credential_rule_names(const char *rule, const char *credential);
