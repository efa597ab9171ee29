#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-apart: a machine of its own
# test-timeout: 2400
# Whether nothing is left where each crate has cgroups: after stressors, many jobs, and kills of
# broker and launcher.
exec "$(dirname "$0")/batch" -t 1500 cases/stress.py cases/leaks.py cases/restart.py
