/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stddef.h>

#include "egress/secret.h"

/* Gives away all that a program with the network does not need: environment, capabilities, core
 * dumps; every system call that the filter does not name; and, where the kernel has Landlock, every
 * file but those that name services, trust and secrets are read from, and every port to listen at.
 * 0 or a negative errno. */
int harden(const SecretFolders *secrets, const struct sock_filter *filter, size_t n_filter);
