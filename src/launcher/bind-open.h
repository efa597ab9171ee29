/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opening what a plan shows of the host, as far as the bind roots let it. */

#include "plan/bind-roots.h"

/*
 * Opens a host path as O_PATH, without following any link, from the fd of a root that it is below
 * of. -EXDEV: there is none, or none that may be written to. roots NULL: any path will do.
 */
int bind_open(const BindRoots *roots, const char *path, bool writable);
