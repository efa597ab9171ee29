/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A JSON text without what looks like a secret: the values of an "env", and those of members whose
 * name says that they are one. What stands in the midst of a text cannot be known.
 */

#include "basic/string-util.h"

/* Appends; what goes beyond max bytes may be missing. 0 or -ENOMEM. */
int audit_redact(StrBuf *out, const char *json, size_t size, size_t max);
