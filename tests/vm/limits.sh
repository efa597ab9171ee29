#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-apart: a machine of its own
# test-timeout: 2400
# Every limit against every way of exceeding it, where a cgroup enforces them.
exec "$(dirname "$0")/batch" -t 1800 cases/limits.py
