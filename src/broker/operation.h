/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "broker/route.h"

/*
 * A tool that is an operation with a credential.
 *
 * It needs no crate, for nothing of the caller's runs: agentcrate-egress is given a session with
 * this one operation and one end of a pair of sockets, by whose other end the request goes, as a
 * job's would go by its own connection. So it is matched, counted, sent, bounded and redacted by
 * what serves jobs, and what the broker sees is what a job would see.
 */
extern const Executor execute_operation;
