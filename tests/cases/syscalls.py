#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""How many system calls a crate takes. Times differ from host to host, this does not: a step that is
made twice, or a new one on the way of every job, shows here.

The ceilings are what was counted when they were written, and a few more for what differs between
libraries and kernels. Raise one only for a reason that a reader of the change will accept.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import mcp
import tap
from traced import Traced, can_trace

TRUE = "/usr/bin/true"
CEILINGS = {
    ("root", "default"): 990,
    ("root", "strict"): 970,
    ("user", "default"): 955,
    ("user", "strict"): 932,
}
# Of one job by a broker that has made some before, in each process: what the broker does for it, and
# what its launcher does.
CALL_CEILINGS = {
    ("root", "broker"): 190,
    ("root", "launcher"): 60,
    ("user", "broker"): 190,
    ("user", "launcher"): 60,
}
CALLS_AT_ONCE = 4


def count(*command):
    """System calls of the command and all that it starts."""
    path = os.path.join(tap.folder("calls"), "calls")
    tap.run(["strace", "-f", "-qq", "-o", path, *command]).expect(0)
    with open(path, encoding="utf-8", errors="replace") as file:
        # A call that another one interrupted has two lines, of which the second does not count.
        return len(re.findall(r"^\d+ +\w+\(", file.read(), re.M))


def whole_command(profile):
    run = tap.program("agentcrate-run")
    command = count(TRUE)
    # The least of some: on a busy host the job's use is looked at more often meanwhile.
    calls = min(count(run, "--profile", profile, "--", TRUE) for _ in range(5)) - command
    ceiling = CEILINGS[tap.WHO, profile]
    tap.diag(f"{tap.WHO}, {profile}: {calls} system calls besides the {command} of the command")
    tap.check(calls > 300, f"{calls} is too little: strace has not seen the crate")
    tap.check(calls <= ceiling, f"{calls} system calls, not {ceiling} at most")


def calls_of(broker, client, pid):
    """System calls of that process for one job. Jobs in a row, since what is made for the next one is
    part of the price."""
    with Traced(pid) as traced:
        for _ in range(CALLS_AT_ONCE):
            tap.equal(client.exec(TRUE)["outcome"], "exited", "outcome")
        # What follows the reply.
        tap.wait_until(lambda: TRUE.rpartition("/")[2] not in
                       machine.descendants(broker.pid).values(), 10)
    return len(traced.calls()) / CALLS_AT_ONCE


def launcher(broker):
    """The one that makes crates. There is its parent beside it, and when no crate is left nobody."""
    tap.check(tap.wait_until(lambda: len(machine.descendants(broker.pid)) == 2, 10),
              lambda: f"more than launchers: {machine.descendants(broker.pid)}")
    return next(pid for pid in machine.descendants(broker.pid) if not machine.descendants(pid))


def one_call(process):
    reason = can_trace()
    if reason:
        raise tap.Skip(reason)
    with mcp.Broker() as broker, broker.client() as client:
        for _ in range(3):
            client.exec(TRUE)
        pid = broker.pid if process == "broker" else launcher(broker)
        calls = min(calls_of(broker, client, pid) for _ in range(5))
    ceiling = CALL_CEILINGS[tap.WHO, process]
    tap.diag(f"{tap.WHO}: {calls:.0f} system calls of the {process} for a job")
    tap.check(calls > 20, f"{calls} is too little: strace has not seen the job")
    tap.check(calls <= ceiling, f"{calls} system calls, not {ceiling} at most")


def main():
    for profile in ("default", "strict"):
        title = f"agentcrate-run makes no more system calls than it must ({profile})"
        if not tap.host_has("strace"):
            tap.skip(title, "host has no strace")
        elif os.path.isdir("/run/systemd/system"):
            tap.skip(title, "host has a service manager, whose answers take any number of calls")
        else:
            tap.case(title, whole_command, profile)
    for process in ("broker", "launcher"):
        title = f"a {process} makes no more system calls for a job than it must"
        if os.path.isdir("/run/systemd/system"):
            tap.skip(title, "host has a service manager, whose answers take any number of calls")
        else:
            tap.case(title, one_call, process)


sys.exit(tap.main(main))
