# SPDX-License-Identifier: Apache-2.0
#
# Only what ordinary programs are known to need: shells, compilers, interpreters, version control,
# servers of their own. For jobs whose code nobody has looked at. What is not named is EPERM, or
# ENOSYS where runtimes try a call and fall back.

@description only what ordinary programs need, with Landlock and a /proc of processes only
@otherwise EPERM
@newest 450
@landlock
@proc-subset

@include arguments

# --- tried and done without ---

ENOSYS open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
ENOSYS io_uring_setup io_uring_enter io_uring_register io_setup io_submit io_cancel io_destroy
  io_getevents io_pgetevents
ENOSYS bpf perf_event_open userfaultfd fanotify_init fanotify_mark memfd_secret
ENOSYS name_to_handle_at open_by_handle_at kcmp pidfd_getfd process_madvise

# --- files ---

allow open openat creat close close_range read write readv writev pread64 pwrite64 preadv pwritev
  preadv2 pwritev2 lseek dup dup2 dup3 fcntl flock ioctl
allow stat lstat fstat newfstatat statx access faccessat faccessat2 readlink readlinkat
allow statfs fstatfs getdents getdents64 getcwd chdir fchdir umask
allow mkdir mkdirat rmdir link linkat symlink symlinkat unlink unlinkat rename renameat renameat2
  mknod mknodat
allow chmod fchmod fchmodat chown fchown lchown fchownat utime utimes utimensat futimesat
allow truncate ftruncate fallocate fadvise64 readahead copy_file_range sendfile splice tee
allow sync syncfs fsync fdatasync sync_file_range
allow getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr setxattr lsetxattr fsetxattr
  removexattr lremovexattr fremovexattr
allow inotify_init inotify_init1 inotify_add_watch inotify_rm_watch

# --- waiting ---

allow poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait
  epoll_pwait2 eventfd eventfd2 signalfd signalfd4 pipe pipe2
allow nanosleep clock_nanosleep pause alarm getitimer setitimer timerfd_create timerfd_settime
  timerfd_gettime timer_create timer_settime timer_gettime timer_getoverrun timer_delete
allow time times gettimeofday clock_gettime clock_getres
allow restart_syscall

# --- memory ---

allow brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 munlock mlockall munlockall
  memfd_create pkey_alloc pkey_free pkey_mprotect
allow futex futex_waitv get_robust_list set_robust_list membarrier rseq

# --- processes and signals ---

allow clone fork vfork execve execveat exit exit_group wait4 waitid
allow kill tkill tgkill pidfd_open pidfd_send_signal process_mrelease rt_sigaction rt_sigprocmask
  rt_sigpending rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
  sigaltstack
allow getpid getppid gettid getpgid getpgrp getsid setpgid setsid set_tid_address
allow getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid
  setresuid setresgid setfsuid setfsgid setgroups capget capset
allow prctl arch_prctl landlock_create_ruleset landlock_add_rule landlock_restrict_self
allow getrlimit setrlimit prlimit64 getrusage getpriority setpriority ioprio_get ioprio_set
allow sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam
  sched_getscheduler sched_setscheduler sched_getattr sched_setattr sched_get_priority_max
  sched_get_priority_min sched_rr_get_interval getcpu
allow uname sysinfo getrandom

# --- between processes ---

allow socketpair bind connect listen accept accept4 shutdown getsockname getpeername getsockopt
  setsockopt sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg
allow shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
allow mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr
