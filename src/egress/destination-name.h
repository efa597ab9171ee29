/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of hosts as a session has them: lower case, letters, digits, hyphens and underscores, no
 * last dot. A wildcard, "*.x.y", stands for every name below x.y, however deep, and not for x.y. */

#include <stdbool.h>
#include <stddef.h>

/* Whether it is one in that form; a wildcard only where that is allowed. */
bool destination_name_is_valid(const char *name, bool wildcard);
bool destination_name_is_wildcard(const char *name);
/* pattern: a name or a wildcard; name: in the form above. */
bool destination_name_matches(const char *pattern, const char *name);
/* Whether what a client wrote is that name: in any case, with one dot behind it or none. */
bool destination_name_is(const char *name, const char *written);
