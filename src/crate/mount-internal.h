/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crate/mount-table.h"

void mount_entry_done(MountEntry *entry);
