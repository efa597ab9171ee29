#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
# agentcrate-run under a real systemd: its scope, and what it does where none is to be had.
set -uo pipefail

# shellcheck source=tests/ns/ready.sh
. "$(dirname "$0")/ready.sh"

exec "$here/run-ns" -t 240 -b "$AGENTCRATE_STAGE" -- "$here/scope-inside.py"
