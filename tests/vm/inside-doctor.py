#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# vm-as: root dev
"""agentcrate doctor where every controller is real: what it says of a limit is what a job gets."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

BY_CGROUP = {"memory", "pids", "cpus", "cpu_time"}
IO = {"io_read_bps", "io_write_bps"}
MANAGER = "system-manager" if tap.WHO == "root" else "user-manager"


def doctor(rc, **env):
    environment = {**os.environ, **env}
    ran = tap.run([tap.program("agentcrate"), "doctor", "--json"], env=environment, timeout=120)
    ran.expect(rc)
    report = json.loads(ran.text)
    return ({check["id"]: check for check in report["checks"]},
            {limit["name"]: limit for limit in report["limits"]})


def everything_is_there():
    checks, limits = doctor(0)
    for name, check in checks.items():
        if check["need"] == "required":
            tap.equal(check["answer"], "yes", f"{name}: {check}")
    tap.equal(checks[MANAGER]["answer"], "yes", f"{checks[MANAGER]}")
    for name in BY_CGROUP:
        tap.equal(limits[name]["enforced_by"], "cgroup", f"{limits[name]}")
    # Debian's user manager is given no io.
    io = "cgroup" if tap.WHO == "root" else "refused"
    for name in IO:
        tap.equal(limits[name]["enforced_by"], io, f"{limits[name]}")
    if tap.WHO == "user":
        tap.equal(checks["cgroup-io"]["answer"], "no", f"{checks['cgroup-io']}")
        tap.contains(checks["cgroup-io"]["remedy"], "Delegate=")


def records_agree():
    _checks, limits = doctor(0)
    ran = tap.crate("true", env=dict(os.environ)).expect(0)
    for state in ran.record["limits"]:
        if state["enforced_by"]:
            tap.equal(state["enforced_by"], limits[state["name"]]["enforced_by"], f"{state}")


def scopes():
    return [top for top, _names, _files in os.walk("/sys/fs/cgroup")
            if os.path.basename(top).startswith("agentcrate-") and top.endswith(".scope")]


def nothing_is_left():
    tap.check(tap.wait_until(lambda: not scopes(), 20), lambda: f"left: {scopes()}")


def main():
    tap.case("all is there, by cgroups", everything_is_there)
    tap.case("records say the same", records_agree)
    tap.case("no scope is left", nothing_is_left)


sys.exit(tap.main(main))
