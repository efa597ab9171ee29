/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sub-uids of root mode: while a crate of uid N lives, it holds a lock on byte N of
 * /run/agentcrate/subuids, so that brokers and runners on one host never share a uid. The locks
 * belong to the open file description, which the launcher holds a copy of: they last as long as
 * anything that could still run under such a uid.
 */

#include <stdbool.h>
#include <stdint.h>

#include "crate/result.h"

typedef struct SubuidPool SubuidPool;

SubuidPool *subuid_pool_free(SubuidPool *pool);
DEFINE_CLEANUP(SubuidPool, subuid_pool_free);

enum {
        _SUBUID_E_SUCCESS,
        SUBUID_E_FAILED, /* ret_error tells */
};

/* Whether the whole range is mapped in this user namespace. */
bool subuid_range_is_mapped(uint64_t base, uint64_t count);
/* Opens the lock file, making folder and file where missing, and checks that the whole range is
 * mapped in this user namespace. */
int subuid_pool_new(uint64_t base, uint64_t count, SubuidPool **ret_pool, CrateError *ret_error);
int subuid_acquire(SubuidPool *pool, uint32_t *ret_uid, CrateError *ret_error);
void subuid_release(SubuidPool *pool, uint32_t uid);
/* The lock file's descriptor; borrowed. */
int subuid_pool_get_fd(const SubuidPool *pool);
