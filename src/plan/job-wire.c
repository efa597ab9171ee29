/* SPDX-License-Identifier: Apache-2.0 */

#include "plan/job-wire.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "basic/memfd-util.h"

/* Adds the sizes of a NULL-terminated array; false beyond the maxima. */
static bool strings_measure(char *const *strings, uint32_t *ret_n, size_t *size) {
        uint32_t n = 0;

        for (; strings[n]; n++) {
                if (n >= JOB_WIRE_STRINGS_MAX)
                        return false;
                *size += strlen(strings[n]) + 1;
                if (*size > JOB_WIRE_SIZE_MAX)
                        return false;
        }
        *ret_n = n;
        return true;
}

static char *strings_put(char *p, char *const *strings) {
        for (; *strings; strings++)
                p = stpcpy(p, *strings) + 1;
        return p;
}

int job_wire_to_memfd(char *const *argv, char *const *env, const char *cwd, int *ret_fd) {
        _cleanup_(freep) char *data = NULL;
        JobWire wire = {.magic = JOB_WIRE_MAGIC};
        size_t size = strlen(cwd) + 1;
        char *p;

        if (!argv[0])
                return error_origin(-EINVAL);
        if (!strings_measure(argv, &wire.n_argv, &size) ||
            !strings_measure(env, &wire.n_env, &size) ||
            wire.n_argv + wire.n_env > JOB_WIRE_STRINGS_MAX)
                return error_origin(-E2BIG);
        wire.size = (uint32_t) size;

        data = malloc(sizeof(wire) + size);
        if (!data)
                return error_origin(-ENOMEM);
        memcpy(data, &wire, sizeof(wire));
        p = strings_put(data + sizeof(wire), argv);
        p = strings_put(p, env);
        (void) stpcpy(p, cwd);

        return memfd_new_sealed("agentcrate-job", data, sizeof(wire) + size, ret_fd);
}

/* Points n pointers at the strings from *p on; NULL behind the last. False if the strings end
 * before. */
static bool strings_take(const char **p, const char *end, uint32_t n, char **pointers) {
        for (uint32_t i = 0; i < n; i++) {
                const char *nul = memchr(*p, 0, (size_t) (end - *p));

                if (!nul)
                        return false;
                pointers[i] = (char *) *p;
                *p = nul + 1;
        }
        pointers[n] = NULL;
        return true;
}

int job_wire_parse(const void *data, size_t size, char **pointers, size_t n_pointers,
                   char ***ret_argv, char ***ret_env, const char **ret_cwd) {
        const char *p, *end;
        JobWire wire;

        if (size < sizeof(wire))
                return JOB_WIRE_E_MALFORMED;
        memcpy(&wire, data, sizeof(wire));
        if (wire.magic != JOB_WIRE_MAGIC || wire.n_argv == 0 ||
            wire.n_argv > JOB_WIRE_STRINGS_MAX || wire.n_env > JOB_WIRE_STRINGS_MAX ||
            wire.size != size - sizeof(wire) || (size_t) wire.n_argv + wire.n_env + 2 > n_pointers)
                return JOB_WIRE_E_MALFORMED;

        p = (const char *) data + sizeof(wire);
        end = p + wire.size;
        if (!strings_take(&p, end, wire.n_argv, pointers) ||
            !strings_take(&p, end, wire.n_env, pointers + wire.n_argv + 1))
                return JOB_WIRE_E_MALFORMED;
        if (p == end || memchr(p, 0, (size_t) (end - p)) != end - 1)
                return JOB_WIRE_E_MALFORMED;

        *ret_argv = pointers;
        *ret_env = pointers + wire.n_argv + 1;
        *ret_cwd = p;
        return 0;
}
