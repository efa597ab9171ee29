/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The policy as it is in force, written as the files that would make it: what is read from them
 * again is the same policy, with the same dump and the same digest. Defaults are written out where
 * a file can say them.
 */

#include "basic/string-util.h"
#include "policy/policy.h"

/* Each is one file's text, an object with a newline behind it. 0 or -ENOMEM. */
int policy_dump_config(const Config *config, StrBuf *out);
int policy_dump_template(const Template *template, StrBuf *out);
int policy_dump_tenant(const Tenant *tenant, StrBuf *out);
/* All of them as one object, by file name; with where each was read from under "sources". */
int policy_dump(const Policy *policy, bool sources, StrBuf *out);
/* "sha256:…" of the dump without sources. */
int policy_digest(const Policy *policy, char ret_digest[static POLICY_DIGEST_SIZE]);
