/* SPDX-License-Identifier: Apache-2.0 */

#include "cgroup/cgroup-limits.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "basic/error.h"
#include "cgroup/cgroup-file.h"
#include "cgroup/cgroup-text.h"

#define VALUE_MAX 64U

#define CPU_PERIOD_USEC 100000U
/* The kernel takes no quota below a millisecond, so small shares are of a longer period. */
#define CPU_PERIOD_LONG_USEC 1000000U
#define CPU_MILLI_LONG 10U
#define CPU_MILLI_MAX 1000000000ULL

/* What the kernel counts in pages has this as its largest. */
#define MEMORY_MAX ((uint64_t) INT64_MAX)

static bool is_limited(uint64_t value) {
        return value != CGROUP_UNLIMITED;
}

unsigned cgroup_limits_controllers(const CgroupLimits *limits) {
        return (is_limited(limits->memory) ? (unsigned) CGROUP_MEMORY : 0) |
               (is_limited(limits->pids) ? (unsigned) CGROUP_PIDS : 0) |
               (is_limited(limits->cpus) ? (unsigned) CGROUP_CPU : 0) |
               (is_limited(limits->io_read_bps) || is_limited(limits->io_write_bps)
                        ? (unsigned) CGROUP_IO
                        : 0);
}

static bool host_has_swap(void) {
        struct sysinfo info;

        return sysinfo(&info) < 0 || info.totalswap > 0;
}

static int lift_memory(int dir, const char *path, CgroupFailure *ret_failure) {
        int r;

        r = cgroup_file_set(dir, path, "memory.max", "max", ret_failure);
        if (r == 0)
                r = cgroup_file_set(dir, path, "memory.swap.max", "max", ret_failure);
        return r > 0 && ret_failure->error == ENOENT && faccessat(dir, "memory.max", F_OK, 0) >= 0
                       ? 0
                       : r;
}

static int write_memory(int dir, const char *path, uint64_t bytes, bool is_job,
                        CgroupFailure *ret_failure) {
        uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
        char value[VALUE_MAX] = "max";
        int r;

        if (bytes < page)
                return cgroup_fail(ret_failure, EINVAL, path, "memory.max", "less than a page",
                                   NULL);
        if (bytes < MEMORY_MAX - page)
                (void) snprintf(value, sizeof(value), "%" PRIu64, bytes / page * page);

        /* Swap first: at no time may the job have more than was asked for. A kernel that counts no
         * swap has no such file, which is no harm where there is none. */
        r = cgroup_file_set(dir, path, "memory.swap.max", "0", ret_failure);
        if (r > 0 && (ret_failure->error != ENOENT || host_has_swap()))
                return CGROUP_E_FAILED;
        r = cgroup_file_set(dir, path, "memory.max", value, ret_failure);
        if (r == 0 && is_job)
                r = cgroup_file_set(dir, path, "memory.oom.group", "1", ret_failure);
        return r;
}

static int write_pids(int dir, const char *path, uint64_t pids, CgroupFailure *ret_failure) {
        char value[VALUE_MAX] = "max";

        if (pids <= CGROUP_PIDS_MAX)
                (void) snprintf(value, sizeof(value), "%" PRIu64, pids);
        return cgroup_file_set(dir, path, "pids.max", value, ret_failure);
}

static int write_cpus(int dir, const char *path, uint64_t milli, CgroupFailure *ret_failure) {
        unsigned period = milli < CPU_MILLI_LONG ? CPU_PERIOD_LONG_USEC : CPU_PERIOD_USEC;
        char value[VALUE_MAX];

        if (milli > CPU_MILLI_MAX)
                (void) snprintf(value, sizeof(value), "max %u", period);
        else
                (void) snprintf(value, sizeof(value), "%" PRIu64 " %u", milli * period / 1000U,
                                period);
        return cgroup_file_set(dir, path, "cpu.max", value, ret_failure);
}

/* --- io --- */

typedef struct IoWriter {
        int dir, block; /* the cgroup and /sys/block */
        const char *path;
        const CgroupLimits *limits;
        CgroupFailure *failure;
} IoWriter;

static void format_rate(char *out, size_t size, uint64_t rate) {
        if (is_limited(rate))
                (void) snprintf(out, size, "%" PRIu64, rate);
        else
                (void) snprintf(out, size, "max");
}

static int io_check(IoWriter *writer, const char *device, const char *wanted) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;
        uint64_t read_bps, write_bps;
        char got[CGROUP_FAILURE_VALUE_MAX];
        int r;

        r = cgroup_file_read_all(writer->dir, "io.max", &text);
        if (r < 0)
                return cgroup_fail(writer->failure, -r, writer->path, "io.max", wanted, NULL);
        cgroup_text_io_max(text.data ?: "", device, &read_bps, &write_bps);
        if (read_bps == writer->limits->io_read_bps && write_bps == writer->limits->io_write_bps)
                return 0;
        (void) snprintf(got, sizeof(got), "%s rbps=%" PRIu64 " wbps=%" PRIu64, device, read_bps,
                        write_bps);
        return cgroup_fail(writer->failure, 0, writer->path, "io.max", wanted, got);
}

static int io_write_device(IoWriter *writer, const char *name) {
        char file[NAME_MAX + sizeof("/dev")], device[VALUE_MAX], read_text[24], write_text[24];
        char wanted[CGROUP_FAILURE_VALUE_MAX];
        int r;

        (void) snprintf(file, sizeof(file), "%s/dev", name);
        if (cgroup_file_read(writer->block, file, device, sizeof(device)) < 0)
                return 0; /* it has gone */
        device[strcspn(device, "\n")] = 0;
        if (strlen(device) > 24)
                return 0;

        format_rate(read_text, sizeof(read_text), writer->limits->io_read_bps);
        format_rate(write_text, sizeof(write_text), writer->limits->io_write_bps);
        (void) snprintf(wanted, sizeof(wanted), "%s rbps=%s wbps=%s", device, read_text,
                        write_text);
        r = cgroup_file_write(writer->dir, "io.max", wanted);
        if (r < 0 && faccessat(writer->block, file, F_OK, 0) < 0)
                return 0;
        if (r < 0)
                return cgroup_fail(writer->failure, -r, writer->path, "io.max", wanted, NULL);
        return io_check(writer, device, wanted);
}

/* Each whole disk: a partition has no queue of its own. One that is plugged in later is not
 * limited. */
static int write_io(IoWriter *writer) {
        struct dirent *entry;
        DIR *dir;
        int r = 0;

        dir = opendir("/sys/block");
        if (!dir)
                return cgroup_fail(writer->failure, errno, writer->path, "io.max",
                                   "the devices of /sys/block", NULL);
        writer->block = dirfd(dir);
        while (r == 0 && (entry = readdir(dir)))
                if (entry->d_name[0] != '.')
                        r = io_write_device(writer, entry->d_name);
        (void) closedir(dir);
        return r;
}

/* Whether any device has a limit. */
static bool has_io_limits(int dir) {
        _cleanup_(strbuf_done) StrBuf text = STRBUF_NULL;

        return cgroup_file_read_all(dir, "io.max", &text) < 0 || text.size > 0;
}

int cgroup_limits_write(int dir, const char *path, const CgroupLimits *limits, unsigned controllers,
                        unsigned flags, CgroupFailure *ret_failure) {
        unsigned needed = cgroup_limits_controllers(limits), missing = needed & ~controllers;
        unsigned lifted = flags & CGROUP_LIMITS_LIFT ? controllers & ~needed : 0;
        IoWriter io = {.dir = dir, .path = path, .limits = limits, .failure = ret_failure};
        int r = 0;

        if (missing != 0)
                return cgroup_fail(
                        ret_failure, EOPNOTSUPP, path, "cgroup.controllers",
                        cgroup_controller_to_string((CgroupController) (missing & -missing)), NULL);
        if (needed & CGROUP_MEMORY)
                r = write_memory(dir, path, limits->memory, flags & CGROUP_LIMITS_JOB, ret_failure);
        else if (lifted & CGROUP_MEMORY)
                r = lift_memory(dir, path, ret_failure);
        if (r == 0 && ((needed | lifted) & CGROUP_PIDS))
                r = write_pids(dir, path, limits->pids, ret_failure);
        if (r == 0 && ((needed | lifted) & CGROUP_CPU))
                r = write_cpus(dir, path, limits->cpus, ret_failure);
        if (r == 0 && ((needed & CGROUP_IO) || ((lifted & CGROUP_IO) && has_io_limits(dir))))
                r = write_io(&io);
        return r;
}
