# SPDX-License-Identifier: Apache-2.0
#
# For strace, gdb, sanitizers that trace themselves, and setarch: the default profile without its
# rules against looking into other processes of the same crate. Init is out of their reach: it is
# not dumpable.

@description as default, with ptrace, process_vm_readv, process_vm_writev and personality
@include default
@reset ptrace process_vm_readv process_vm_writev personality
