#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 1800
# The tree of cgroups by itself, then the installed units, of the system and of a user, under what
# Debian delegates and under all of it.
exec "$(dirname "$0")/batch" -t 900 vm/inside-cgroup-tree.py vm/inside-units.py
