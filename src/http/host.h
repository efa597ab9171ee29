/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The field Host against DNS rebinding: a page of anybody's, whose name has been made to lead to
 * this machine, asks under that name. Only names that cannot lead anywhere else are answered.
 */

#include <stdbool.h>
#include <stddef.h>

/* localhost, 127.0.0.0/8 or [::1], with or without a port. */
bool http_host_is_loopback(const char *host, size_t size);
