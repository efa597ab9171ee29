#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-apart: a machine of its own
# test-timeout: 1200
# Cgroups where every controller is real: the tree by itself, and agentcrate-run in its scope.
exec "$(dirname "$0")/batch" -t 1100 vm/inside-cgroup-tree.py vm/inside-cgroup.py
