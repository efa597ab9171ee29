/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Serves one broker by its link until that ends, and closes it. 0, or a negative errno if the
 * broker broke the protocol. */
int egress_serve(int link_fd);
