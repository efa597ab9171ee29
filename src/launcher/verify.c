/* SPDX-License-Identifier: Apache-2.0 */

#include "launcher/verify.h"

#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "basic/error.h"
#include "basic/macros.h"
#include "launcher/init.h"

#define VERIFY_FILE_MAX 65536U
#define VERIFY_CGROUP "/init"

/* What an interface counts that is up and not lo. */
#define VERIFY_FOREIGN 1000U

/* Init has no heap: one buffer, used for one file after the other. */
static char buffer[VERIFY_FILE_MAX] __attribute__((aligned(8)));

static int read_file(const char *path, ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int fd = -EBADF;
        size_t size = 0;
        ssize_t n;

        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return failure_here(ret_failure, "verify", path);
        do {
                n = read(fd, buffer + size, sizeof(buffer) - 1 - size);
                if (n < 0)
                        return failure_here(ret_failure, "verify", path);
                size += (size_t) n;
        } while (n > 0 && size < sizeof(buffer) - 1);
        if (n > 0)
                return failure_set(ret_failure, EFBIG, "verify", path);
        buffer[size] = 0;
        return 0;
}

/* The value behind "\nNAME:" in /proc/self/status, in that base; ~0 if it is not there, which no
 * check accepts. */
static uint64_t status_value(const char *name, int base) {
        const char *p = strstr(buffer, name);

        return p ? strtoull(p + strlen(name), NULL, base) : UINT64_MAX;
}

/* All four of the real, effective, saved and file system id are that one. */
static bool status_ids_are(const char *name, unsigned id) {
        const char *p = strstr(buffer, name);
        unsigned ids[4];

        return p &&
               sscanf(p + strlen(name), "%u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) == 4 &&
               ids[0] == id && ids[1] == id && ids[2] == id && ids[3] == id;
}

static int verify_status(InitReport *report, ProtoFailure *ret_failure) {
        const char *path = "/proc/self/status";
        int r;

        r = read_file(path, ret_failure);
        if (r < 0)
                return error_trace(r);

        report->cap_inheritable = status_value("\nCapInh:", 16);
        report->cap_permitted = status_value("\nCapPrm:", 16);
        report->cap_effective = status_value("\nCapEff:", 16);
        report->cap_bounding = status_value("\nCapBnd:", 16);
        report->cap_ambient = status_value("\nCapAmb:", 16);
        report->no_new_privs = (uint32_t) status_value("\nNoNewPrivs:", 10);
        report->seccomp_mode = (uint32_t) status_value("\nSeccomp:", 10);
        report->seccomp_filters = (uint32_t) status_value("\nSeccomp_filters:", 10);
        report->uid = getuid();
        report->gid = getgid();

        if (report->cap_inheritable | report->cap_permitted | report->cap_effective |
            report->cap_bounding | report->cap_ambient)
                return failure_set(ret_failure, EPERM, "verify-capabilities", path);
        if (report->no_new_privs != 1)
                return failure_set(ret_failure, EPERM, "verify-no-new-privileges", path);
        if (report->seccomp_mode != 2)
                return failure_set(ret_failure, EPERM, "verify-seccomp", path);
        if (!status_ids_are("\nUid:", INIT_UID) || !status_ids_are("\nGid:", INIT_GID))
                return failure_set(ret_failure, EPERM, "verify-ids", path);
        return 0;
}

/* One id each, and never the host's root. */
static int verify_map(const char *path, unsigned inside, ProtoFailure *ret_failure) {
        unsigned first, outside, count;
        int n, r;

        r = read_file(path, ret_failure);
        if (r < 0)
                return error_trace(r);
        if (sscanf(buffer, "%u %u %u %n", &first, &outside, &count, &n) != 3 || buffer[n] != 0 ||
            first != inside || outside == 0 || count != 1)
                return failure_set(ret_failure, EPERM, "verify-id-map", path);
        return 0;
}

/*
 * A line of mountinfo: fields 5 and 6 are mount point and options. Copies the mount point, which
 * the kernel writes with octal escapes, into path. False for a line that is not of that form.
 */
static bool mountinfo_line(const char *line, char *path, size_t size, const char **ret_options) {
        size_t n = 0;

        for (unsigned i = 0; i < 4; i++) {
                line = strchr(line, ' ');
                if (!line)
                        return false;
                line++;
        }
        while (*line && *line != ' ' && *line != '\n' && n + 1 < size)
                if (line[0] == '\\' && line[1] && line[2] && line[3]) {
                        path[n++] = (char) ((line[1] - '0') << 6 | (line[2] - '0') << 3 |
                                            (line[3] - '0'));
                        line += 4;
                } else
                        path[n++] = *line++;
        path[n] = 0;
        *ret_options = line + 1;
        return *line == ' ';
}

static bool option_has(const char *options, const char *name) {
        size_t n = strlen(name);

        while (*options && *options != ' ' && *options != '\n') {
                if (strncmp(options, name, n) == 0 && (options[n] == ',' || options[n] == ' '))
                        return true;
                options += strcspn(options, ", \n");
                if (*options == ',')
                        options++;
        }
        return false;
}

/* The options of the last, so topmost, mount at path; NULL if nothing is mounted there. */
static const char *mount_options(const char *path) {
        const char *options, *found = NULL;
        char point[PLAN_PATH_MAX + 1];

        for (const char *line = buffer; line && *line;
             line = strchr(line, '\n'), line = line ? line + 1 : NULL)
                if (mountinfo_line(line, point, sizeof(point), &options) &&
                    strcmp(point, path) == 0)
                        found = options;
        return found;
}

/* Whether an operation must have left a mount, and whether that one must be read-only. */
static bool op_wants_mount(const PlanOp *op, bool *ret_rdonly) {
        switch (op->type) {
        case PLAN_OP_LATE_BIND:
                *ret_rdonly = op->flags & PLAN_RDONLY;
                return !(op->flags & PLAN_OPTIONAL);
        case PLAN_OP_LATE_COVER:
                *ret_rdonly = true;
                return true;
        case PLAN_OP_LATE_HIDE:
        case PLAN_OP_PROC_MASK:
        case PLAN_OP_PROC_RDONLY:
                *ret_rdonly = true;
                if (op->type == PLAN_OP_LATE_HIDE)
                        return !(op->flags & PLAN_OPTIONAL);
                return access(op->path, F_OK) == 0;
        case PLAN_OP_PROC:
        case PLAN_OP_PRIVATE:
        case PLAN_OP_LATE_PRIVATE:
        case PLAN_OP_DEVPTS:
        case PLAN_OP_MQUEUE:
                *ret_rdonly = false;
                return true;
        default:
                return false;
        }
}

static int verify_mounts(const PlanReader *plan, InitReport *report, ProtoFailure *ret_failure) {
        const char *options;
        PlanReader reader = *plan;
        char point[PLAN_PATH_MAX + 1];
        bool rdonly;
        PlanOp op;
        int r;

        r = read_file("/proc/self/mountinfo", ret_failure);
        if (r < 0)
                return error_trace(r);

        for (const char *line = buffer; line && *line;
             line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
                report->n_mounts++;
                if (!mountinfo_line(line, point, sizeof(point), &options))
                        return failure_set(ret_failure, EBADMSG, "verify-mounts",
                                           "/proc/self/mountinfo");
                /* The host's /proc below our own is the only mount that did not get its attributes
                 * from a plan. */
                if (!option_has(options, "nosuid") && strncmp(point, "/proc", 5) != 0)
                        return failure_set(ret_failure, EPERM, "verify-nosuid", point);
        }

        options = mount_options("/");
        if (!options || !option_has(options, "ro"))
                return failure_set(ret_failure, EPERM, "verify-read-only", "/");
        while (plan_reader_next(&reader, &op) == 0) {
                if (!op_wants_mount(&op, &rdonly))
                        continue;
                options = mount_options(op.path);
                if (!options || (rdonly && !option_has(options, "ro")))
                        return failure_set(ret_failure, EPERM, "verify-mount", op.path);
        }
        return 0;
}

/*
 * Asks for all interfaces and counts those that are up. Others may be there: some modules put a
 * tunnel that is down into every net namespace, and nothing in a crate can bring it up.
 */
static int count_interfaces(int fd, uint32_t *ret_n_up) {
        struct {
                struct nlmsghdr header;
                struct ifinfomsg info;
        } request = {
                .header = {.nlmsg_len = sizeof(request),
                           .nlmsg_type = RTM_GETLINK,
                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        };
        uint32_t n_up = 0;
        ssize_t n;

        if (send(fd, &request, sizeof(request), 0) < 0)
                return negative_errno();
        for (;;) {
                n = recv(fd, buffer, sizeof(buffer), 0);
                if (n < 0)
                        return negative_errno();
                for (struct nlmsghdr *header = (struct nlmsghdr *) buffer; NLMSG_OK(header, n);
                     header = NLMSG_NEXT(header, n)) {
                        const struct ifinfomsg *info = NLMSG_DATA(header);

                        if (header->nlmsg_type == NLMSG_DONE) {
                                *ret_n_up = n_up;
                                return 0;
                        }
                        if (header->nlmsg_type != RTM_NEWLINK)
                                return -EBADMSG;
                        if (info->ifi_flags & IFF_UP)
                                n_up += info->ifi_flags & IFF_LOOPBACK ? 1 : VERIFY_FOREIGN;
                }
        }
}

static int verify_interfaces(InitReport *report, ProtoFailure *ret_failure) {
        _cleanup_(fd_closep) int fd = -EBADF;
        int r;

        fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        if (fd < 0)
                return failure_here(ret_failure, "verify-interfaces", "");
        r = count_interfaces(fd, &report->n_interfaces);
        if (r < 0)
                return failure_set(ret_failure, -r, "verify-interfaces", "");
        if (report->n_interfaces != 1)
                return failure_set(ret_failure, EPERM, "verify-interfaces", "");
        return 0;
}

static int verify_rlimits(const PlanReader *plan, ProtoFailure *ret_failure) {
        PlanReader reader = *plan;
        struct rlimit limit;
        PlanOp op;

        while (plan_reader_next(&reader, &op) == 0) {
                if (op.type != PLAN_OP_RLIMIT)
                        continue;
                if (getrlimit((__rlimit_resource_t) op.a, &limit) < 0 || limit.rlim_cur != op.b ||
                    limit.rlim_max != op.b)
                        return failure_set(ret_failure, EPERM, "verify-rlimit", "");
        }
        return 0;
}

/* init is in the group that was made for it. */
static int verify_cgroup(InitReport *report, ProtoFailure *ret_failure) {
        const char *path = "/proc/self/cgroup", *line;
        size_t n;
        int r;

        r = read_file(path, ret_failure);
        if (r < 0)
                return error_trace(r);
        /* Hybrid hosts list v1 hierarchies first. */
        line = strncmp(buffer, "0::", 3) == 0 ? buffer : strstr(buffer, "\n0::");
        line = line ? strchr(line, '/') : NULL;
        n = line ? strcspn(line, "\n") : 0;
        if (n < strlen(VERIFY_CGROUP) || n >= sizeof(report->cgroup) ||
            strncmp(line + n - strlen(VERIFY_CGROUP), VERIFY_CGROUP, strlen(VERIFY_CGROUP)) != 0)
                return failure_set(ret_failure, EPERM, "verify-cgroup", path);
        memcpy(report->cgroup, line, n);
        return 0;
}

int verify(const PlanReader *plan, bool has_cgroup, InitReport *ret_report,
           ProtoFailure *ret_failure) {
        InitReport report = {};
        int r;

        r = verify_status(&report, ret_failure);
        if (r == 0)
                r = verify_map("/proc/self/uid_map", INIT_UID, ret_failure);
        if (r == 0)
                r = verify_map("/proc/self/gid_map", INIT_GID, ret_failure);
        if (r == 0)
                r = verify_mounts(plan, &report, ret_failure);
        if (r == 0)
                r = verify_interfaces(&report, ret_failure);
        if (r == 0)
                r = verify_rlimits(plan, ret_failure);
        if (r == 0 && has_cgroup)
                r = verify_cgroup(&report, ret_failure);
        if (r < 0)
                return error_trace(r);

        *ret_report = report;
        return 0;
}
