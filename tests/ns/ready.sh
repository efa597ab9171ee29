# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the tests of this folder: skips all of the test where no systemd can be run, and gives
# $here, the folder with run-ns.

# shellcheck disable=SC2034 # It is for the scripts.
here=$(cd "$(dirname "$0")" && pwd)

skip_all() {
        echo "ok 1 - a real systemd # SKIP $1"
        echo "1..1"
        exit 0
}

((EUID == 0)) || skip_all "needs root"
for program in /lib/systemd/systemd /usr/bin/dbus-daemon /usr/bin/ip; do
        [[ -x $program ]] || skip_all "host has no $program"
done
dpkg-query -W libpam-systemd >/dev/null 2>&1 || [[ -n $(find /lib /usr/lib -name pam_systemd.so -print -quit 2>/dev/null) ]] ||
        skip_all "host has no pam_systemd"
"$here/run-ns" -t 60 true >/dev/null 2>&1 ||
        skip_all "host cannot run systemd in namespaces"
