# SPDX-License-Identifier: Apache-2.0
#
# What a job may ask of the kernel, unless its template says otherwise: all but what is below. The
# language is described in src/seccomp/parse.h.
#
# ENOSYS tells a runtime that the call does not exist here, so that it falls back to an older one;
# EPERM tells the user that it exists and is not for him.

@description everything but what is privileged, obscure, or reaches other processes
@otherwise allow

# set_mempolicy_home_node. Raise this only after looking at every call in between: those from here
# to 462 that must stay closed are named below already.
@newest 450

@include arguments

# --- namespaces; clone with their flags is among the arguments ---

EPERM unshare setns

# --- mounts, roots, quotas ---

@group mount-api open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
ENOSYS @mount-api
ENOSYS statmount=457 listmount=458 open_tree_attr=467
EPERM mount umount2 pivot_root chroot quotactl quotactl_fd

# --- large and young: where the kernel's holes have been ---

@group io-uring io_uring_setup io_uring_enter io_uring_register
ENOSYS @io-uring
ENOSYS bpf perf_event_open userfaultfd fanotify_init fanotify_mark memfd_secret

# --- counted for the whole host: one job could have all that there may be ---

@group aio io_setup io_submit io_cancel io_destroy io_getevents io_pgetevents
ENOSYS @aio

# --- handles and memory that go around file permissions and process borders ---

ENOSYS name_to_handle_at open_by_handle_at
ENOSYS kcmp pidfd_getfd process_madvise
EPERM ptrace process_vm_readv process_vm_writev
EPERM add_key request_key keyctl
EPERM vmsplice

# --- the machine ---

EPERM acct reboot syslog swapon swapoff vhangup sethostname setdomainname
EPERM init_module finit_module delete_module kexec_load kexec_file_load
EPERM adjtimex clock_adjtime clock_settime settimeofday
EPERM ioperm iopl modify_ldt
EPERM lookup_dcookie nfsservctl sysfs uselib ustat

# --- placement in memory: tells of the machine, and has no use for a job ---

@group numa mbind get_mempolicy set_mempolicy set_mempolicy_home_node migrate_pages move_pages
EPERM @numa
