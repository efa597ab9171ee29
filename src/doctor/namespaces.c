/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The namespaces that a crate is made of, each tried in a child as the launcher makes them.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "doctor/check.h"
#include "doctor/try.h"

#define LO_INDEX 1

typedef struct NamespaceInfo {
        const char *sysctl;
        const char *step;
        int flag;
} NamespaceInfo;

static const NamespaceInfo infos[_DOCTOR_NS_MAX] = {
        [DOCTOR_NS_USER] = {"user", "user-namespace", CLONE_NEWUSER},
        [DOCTOR_NS_MOUNT] = {"mnt", "mount-namespace", CLONE_NEWNS},
        [DOCTOR_NS_PID] = {"pid", "pid-namespace", CLONE_NEWPID},
        [DOCTOR_NS_IPC] = {"ipc", "ipc-namespace", CLONE_NEWIPC},
        [DOCTOR_NS_UTS] = {"uts", "uts-namespace", CLONE_NEWUTS},
        [DOCTOR_NS_NET] = {"net", "net-namespace", CLONE_NEWNET},
        [DOCTOR_NS_CGROUP] = {"cgroup", "cgroup-namespace", CLONE_NEWCGROUP},
};

/* RTM_NEWLINK for lo, by itself: it is what AppArmor and filters of containers refuse. */
static int lo_up(int fd) {
        struct {
                struct nlmsghdr header;
                struct ifinfomsg info;
        } request = {
                .header = {.nlmsg_len = sizeof(request),
                           .nlmsg_type = RTM_NEWLINK,
                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
                .info = {.ifi_index = LO_INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP},
        };
        struct {
                struct nlmsghdr header;
                struct nlmsgerr error;
                char rest[256];
        } answer;
        ssize_t n;

        if (send(fd, &request, sizeof(request), 0) < 0)
                return -1;
        n = recv(fd, &answer, sizeof(answer), 0);
        if (n < 0)
                return -1;
        if (n < (ssize_t) (sizeof(answer.header) + sizeof(answer.error.error)) ||
            answer.header.nlmsg_type != NLMSG_ERROR) {
                errno = EPROTO;
                return -1;
        }
        errno = -answer.error.error;
        return errno == 0 ? 0 : -1;
}

static void try_lo(Probe *probe) {
        _cleanup_(fd_closep) int fd = -EBADF;

        probe_begin(probe, "netlink", "");
        fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        if (!probe_check(probe, fd >= 0))
                return;
        probe_begin(probe, "lo-up", "lo");
        (void) probe_check(probe, lo_up(fd) >= 0);
}

/* The namespace is that of the next child. */
static void try_first_process(Probe *probe) {
        int status = -1;
        pid_t pid;

        pid = fork();
        if (pid == 0)
                _exit(getpid() == 1 ? 0 : EPROTO);
        if (!probe_check(probe, pid > 0 && waitpid(pid, &status, 0) == pid))
                return;
        probe->error = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static void try_namespace(Probe *probe, const void *userdata) {
        const NamespaceInfo *info = userdata;

        if (info->flag == CLONE_NEWUSER) {
                (void) try_crate(probe);
                return;
        }
        if (!try_outer(probe))
                return;
        probe_begin(probe, info->step, "");
        if (!probe_check(probe, unshare(info->flag) >= 0))
                return;
        if (info->flag == CLONE_NEWPID)
                try_first_process(probe);
        if (info->flag == CLONE_NEWNET)
                try_lo(probe);
}

int namespaces_gather(DoctorFacts *facts) {
        for (size_t i = 0; i < _DOCTOR_NS_MAX; i++)
                probe_run(try_namespace, &infos[i], &facts->namespaces[i]);
        return 0;
}

/* --- judges --- */

int judge_namespace_limits(DoctorCheck *check, const DoctorFacts *facts) {
        const long *max = facts->host.max_namespaces;

        for (size_t i = 0; i < _DOCTOR_NS_MAX; i++) {
                char remedy[96];

                if (max[i] != 0)
                        continue;
                (void) snprintf(remedy, sizeof(remedy),
                                "set sysctl user.max_%s_namespaces above 0, such as 15000",
                                infos[i].sysctl);
                return check_answer(check, DOCTOR_NO, remedy, "sysctl user.max_%s_namespaces is 0",
                                    infos[i].sysctl);
        }
        if (max[DOCTOR_NS_USER] < 0)
                return check_answer(check, DOCTOR_NO, "run a kernel that has user namespaces",
                                    "there is no sysctl user.max_user_namespaces: this kernel was "
                                    "built without user namespaces, or /proc/sys is hidden");
        return check_found(check, "%ld user namespaces", max[DOCTOR_NS_USER]);
}

static int judge_namespace(DoctorCheck *check, const DoctorFacts *facts, DoctorNamespace which) {
        return check_probe(check, facts, &facts->namespaces[which], DOCTOR_NO);
}

int judge_user_namespace(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_namespace(check, facts, DOCTOR_NS_USER);
}

int judge_mount_namespace(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_namespace(check, facts, DOCTOR_NS_MOUNT);
}

int judge_pid_namespace(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_namespace(check, facts, DOCTOR_NS_PID);
}

int judge_ipc_namespace(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_namespace(check, facts, DOCTOR_NS_IPC);
}

int judge_uts_namespace(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_namespace(check, facts, DOCTOR_NS_UTS);
}

int judge_net_namespace(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_namespace(check, facts, DOCTOR_NS_NET);
}

int judge_cgroup_namespace(DoctorCheck *check, const DoctorFacts *facts) {
        return judge_namespace(check, facts, DOCTOR_NS_CGROUP);
}
