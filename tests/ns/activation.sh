#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
# Installed files under a real systemd: system and user manager, socket activation, idle exit, stop.
set -uo pipefail

# shellcheck source=tests/ns/ready.sh
. "$(dirname "$0")/ready.sh"

exec "$here/run-ns" -t 240 -b "$AGENTCRATE_STAGE" -- "$here/activation-inside.sh"
