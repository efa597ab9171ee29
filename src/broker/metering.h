/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What of the broker's doings goes into its metrics, and under which words. */

#include "broker/manager.h"
#include "record/audit.h"
#include "record/metrics.h"

/* What denies besides the steps of the policy. */
#define METERING_DENIED_PEER "peer" /* a connection */

/* The tables for a manager that has its policy. */
int metering_new(const Manager *manager, Metrics **ret_metrics);
/* To be called when another policy has taken the place of the one before. */
int metering_reload(Manager *manager);

/* A request with a credential is over. */
void metering_operation(Manager *manager, const EgressOperation *operation);
/* A call has ended so. denial: what denied it, if it was denied. */
void metering_end(Manager *manager, const char *tool, const char *denial, const AuditEnd *end);

/* The text that is served. */
int metering_append_text(Manager *manager, StrBuf *out);
