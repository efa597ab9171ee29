/* SPDX-License-Identifier: Apache-2.0 */

#include "seccomp/profile.h"

#include "basic/string-util.h"
#include "seccomp/table.h"

const SeccompProfile *seccomp_profile_find(const char *name) {
        for (size_t i = 0; i < seccomp_table_size; i++)
                if (string_equal(seccomp_table[i].name, name))
                        return &seccomp_table[i];
        return NULL;
}

const SeccompProfile *seccomp_profiles(size_t *ret_n) {
        *ret_n = seccomp_table_size;
        return seccomp_table;
}
