#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-apart: a machine of its own
# test-timeout: 1200
# Whether the emulated machine is what the other tests in it count on.
exec "$(dirname "$0")/batch" -t 300 vm/inside-smoke.py vm/inside-doctor.py
