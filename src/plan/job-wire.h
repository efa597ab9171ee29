/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The job in wire form: argv, environment, working directory, in one sealed memfd that init maps
 * and uses in place. Strings follow each other, each with its NUL: n_argv of argv, n_env of
 * environment, then the working directory.
 */

#include <stddef.h>
#include <stdint.h>

#define JOB_WIRE_MAGIC 0x4a4f4231U
#define JOB_WIRE_STRINGS_MAX 8192U   /* argv and environment together */
#define JOB_WIRE_SIZE_MAX (4U << 20) /* the kernel's own limit for both is 6 MiB at most */
#define JOB_ARGUMENT_MAX 131071U     /* MAX_ARG_STRLEN less the NUL */

typedef struct JobWire {
        uint32_t magic;
        uint32_t n_argv; /* at least 1 */
        uint32_t n_env;
        uint32_t size; /* of the strings that follow */
} JobWire;

enum {
        _JOB_WIRE_E_SUCCESS,
        JOB_WIRE_E_MALFORMED,
};

/* Builds the memfd. argv and env are NULL-terminated; cwd may be "". -E2BIG beyond the maxima. */
int job_wire_to_memfd(char *const *argv, char *const *env, const char *cwd, int *ret_fd);

/*
 * Fills pointers: argv[0 … n_argv] and env[0 … n_env] with their NULLs, into the array of
 * n_pointers, and *ret_cwd. 0 or JOB_WIRE_E_MALFORMED. Everything points into data.
 */
int job_wire_parse(const void *data, size_t size, char **pointers, size_t n_pointers,
                   char ***ret_argv, char ***ret_env, const char **ret_cwd);
