#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-apart: a machine of its own
# test-timeout: 2400
# Cases that this machine's kernel answers too, again under another kernel: an older one, with fewer
# Landlock rights, with nsdelegate, and with every cgroup controller.
exec "$(dirname "$0")/batch" -t 1500 behave/escape-roots.py behave/escape.py cases/sec.py
