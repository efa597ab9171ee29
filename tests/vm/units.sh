#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-apart: a machine of its own
# test-timeout: 1800
# The installed units, of the system and of a user, under what Debian delegates and under all of it.
exec "$(dirname "$0")/batch" -t 900 vm/inside-units.py vm/inside-egress.py
