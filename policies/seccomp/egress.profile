# SPDX-License-Identifier: Apache-2.0
#
# What agentcrate-egress itself wears once it has begun; no template can name it. It starts no
# process and no thread, executes nothing, listens nowhere and changes no file: what it serves was
# handed to it. Written by what it calls, with the parts that its libraries call now and then.

@description agentcrate-egress itself
@otherwise EPERM
@newest 450

# --- the network ---

allow socket if arg0 is AF_INET,AF_INET6
  and arg1 without SOCK_CLOEXEC|SOCK_NONBLOCK is SOCK_STREAM,SOCK_DGRAM
  and arg2 is 0,IPPROTO_TCP,IPPROTO_UDP
# For the addresses of this machine.
allow socket if arg0 is AF_NETLINK and arg2 is NETLINK_ROUTE
EAFNOSUPPORT socket
# By which libcurl wakes itself.
allow socketpair if arg0 is AF_UNIX
EAFNOSUPPORT socketpair
allow connect bind accept4 shutdown getsockname getpeername getsockopt setsockopt
allow sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg
allow eventfd2 epoll_create1 epoll_ctl epoll_wait epoll_pwait poll ppoll

# --- files: those of names and trust; Landlock tells which ---

allow open openat read readv write writev pread64 pwrite64 lseek close fcntl
allow stat lstat fstat newfstatat access faccessat faccessat2 readlink readlinkat getdents64
allow memfd_create

# --- memory, time, itself ---

allow brk mmap munmap mremap mprotect madvise mlock munlock futex
allow clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time restart_syscall
allow rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack
allow getpid gettid getppid getuid geteuid getgid getegid tgkill exit exit_group
allow getrandom uname sysinfo sched_getaffinity sched_yield getrusage
allow prlimit64 if arg0 is 0
