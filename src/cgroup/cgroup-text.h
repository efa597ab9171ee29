/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's texts in a cgroup's files. No side effects; every text is NUL-terminated and may be
 * cut off anywhere.
 */

#include <stdint.h>

enum {
        _CGROUP_TEXT_E_SUCCESS,
        CGROUP_TEXT_E_NONE, /* it is not there, or no number */
};

/* A file of one number; "max" is UINT64_MAX. */
int cgroup_text_value(const char *text, uint64_t *ret_value);
/* The number behind "KEY " at the start of a line, as in memory.events and cpu.stat. */
int cgroup_text_get(const char *text, const char *key, uint64_t *ret_value);
/* The CGROUP_X of cgroup.controllers or cgroup.subtree_control. Others are passed over. */
unsigned cgroup_text_controllers(const char *text);
/* Bytes read and written on all devices together, of io.stat. */
void cgroup_text_io(const char *text, uint64_t *ret_read, uint64_t *ret_write);
/* rbps and wbps of one device ("8:0") in io.max; UINT64_MAX where there is none. */
void cgroup_text_io_max(const char *text, const char *device, uint64_t *ret_read,
                        uint64_t *ret_write);

/* What /proc/cgroups says of a controller; name is the one used there ("blkio" for io). */
typedef struct CgroupTextV1 {
        uint64_t hierarchy; /* not 0: a v1 hierarchy holds it */
        uint64_t enabled;   /* 0: switched off on the kernel's command line */
} CgroupTextV1;
int cgroup_text_v1(const char *text, const char *name, CgroupTextV1 *ret_v1);

/* Major and minor of a kernel's release ("6.1.0-57-amd64"). */
int cgroup_text_release(const char *release, unsigned *ret_major, unsigned *ret_minor);
