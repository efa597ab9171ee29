/* SPDX-License-Identifier: Apache-2.0 */

/* See llhttp-api.c. */

#include <llhttp.c>
