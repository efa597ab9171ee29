/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A decision for people: every step that was asked, in order, and which one decided. */

#include "policy/evaluate.h"

/* What a step found, or that it was not asked. Owned by the caller, NULL if out of memory. */
char *explain_step(const Decision *decision, const ToolRights *tool, EvaluateStep step);
/* Several lines, the first being "allowed" or "denied". 0 or -ENOMEM. */
int explain_decision(const Decision *decision, const ToolRights *tool, StrBuf *out);
