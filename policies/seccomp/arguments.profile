# SPDX-License-Identifier: Apache-2.0
#
# The rules that look at arguments, the same in every profile, which includes this file. What they
# leave open is decided by @otherwise or by a rule that follows.

# --- closed for a job, open for its init ---
#
# Init starts the job by clone3 where it has a cgroup, and the job's child then wears a second, small
# filter that closes these two, between clone and exec. Else init wears the two rules itself, before
# the rest. clone3 takes its flags in memory, where no filter sees them.

@late ENOSYS clone3
@late EPERM seccomp

# --- namespaces by way of clone ---

EPERM clone if arg0 has CLONE_NEWUSER|CLONE_NEWNS|CLONE_NEWPID|CLONE_NEWNET
EPERM clone if arg0 has CLONE_NEWCGROUP|CLONE_NEWUTS|CLONE_NEWIPC

# --- typing into a terminal on somebody else's behalf ---

EPERM ioctl if arg1 is TIOCSTI,TIOCLINUX

# --- line disciplines: rarely used kernel code that a terminal would load ---

EPERM ioctl if arg1 is TIOCSETD

# --- personality: only asking and the normal one. Others turn address randomisation off ---

allow personality if arg0 is 0,0xffffffff
EPERM personality

# --- sockets ---
#
# By family, type and protocol together: most families and netlink protocols can be had without any
# privilege, and each is a way into rarely used kernel code.

allow socket if arg0 is AF_UNIX
allow socket if arg0 is AF_INET,AF_INET6
  and arg1 without SOCK_CLOEXEC|SOCK_NONBLOCK is SOCK_STREAM,SOCK_DGRAM
  and arg2 is 0,IPPROTO_TCP,IPPROTO_UDP
allow socket if arg0 is AF_NETLINK and arg2 is NETLINK_ROUTE
EPROTONOSUPPORT socket if arg0 is AF_INET,AF_INET6,AF_NETLINK
EAFNOSUPPORT socket
EAFNOSUPPORT socketpair if arg0 not AF_UNIX

# --- set-id bits: a job must not leave one in a host folder that it may write to ---
#
# The mode of open counts only when the call can create a file; else it is whatever the register
# holds. openat2 takes its mode in memory, where no filter sees it.

EPERM chmod fchmod creat mkdir mknod if arg1 has S_ISUID|S_ISGID
EPERM fchmodat mkdirat mknodat if arg2 has S_ISUID|S_ISGID
EPERM open if arg1 has O_CREAT|__O_TMPFILE and arg2 has S_ISUID|S_ISGID
EPERM openat if arg2 has O_CREAT|__O_TMPFILE and arg3 has S_ISUID|S_ISGID
ENOSYS openat2 fchmodat2=452

# --- devices: a job must not leave one in a host folder, not even a whiteout of overlayfs (0:0) ---
#
# Of a mode the kernel takes 16 bits, of which the upper four are the type.

EPERM mknod if arg1 without 0xffff0fff is S_IFCHR,S_IFBLK
EPERM mknodat if arg2 without 0xffff0fff is S_IFCHR,S_IFBLK
EPERM renameat2 if arg4 has RENAME_WHITEOUT

# --- init, pid 1 of the crate ---
#
# It has the job's uid, which is all that these ask for. By uid counts as well: init has the same.

EPERM prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr if arg0 is 1
EPERM setpriority if arg1 is 1
EPERM setpriority if arg0 is PRIO_USER
EPERM ioprio_set if arg1 is 1
EPERM ioprio_set if arg0 is IOPRIO_WHO_USER
