#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-exclusive: the longer a job takes, the more often its use is looked at
"""How many system calls a crate takes. Times differ from host to host, this does not: a step that is
made twice, or a new one on the way of every job, shows here.

The ceilings are what was counted when they were written, and a few more for what differs between
libraries and kernels. Raise one only for a reason that a reader of the change will accept.
"""

import json
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
# The same where the job may reach a destination, which is made ready for it and ended with it. Of
# agentcrate-egress only root sees what it does.
REACHING_CEILINGS = {
    ("root", "broker"): 215,
    ("root", "launcher"): 92,
    ("root", "egress"): 75,
    ("user", "broker"): 232,
    ("user", "launcher"): 92,
}
# What it adds to agentcrate-run, which starts agentcrate-egress for itself.
ALLOW_CEILINGS = {"root": 620, "user": 610}
DESTINATION = {"name": "server.example", "port": 443}
CALLS_AT_ONCE = 4
TRIES = 20


def count(*command):
    """System calls of the command and all that it starts."""
    path = os.path.join(tap.folder("calls"), "calls")
    tap.run(["strace", "-f", "-qq", "-o", path, *command]).expect(0)
    with open(path, encoding="utf-8", errors="replace") as file:
        # A call that another one interrupted has two lines, of which the second does not count.
        return len(re.findall(r"^\d+ +\w+\(", file.read(), re.M))


def least(measure, ceiling):
    """The least of some, at most TRIES, or the first that is low enough: on a busy host the job's use
    is looked at more often meanwhile."""
    found = measure()
    for _ in range(TRIES - 1):
        if found <= ceiling:
            break
        found = min(found, measure())
    return found


def judge(calls, ceiling, what):
    tap.diag(f"{tap.WHO}: {calls:.0f} system calls {what}")
    tap.check(calls > ceiling / 3, f"{calls} is too little: strace has not seen all")
    tap.check(calls <= ceiling, f"{calls} system calls, not {ceiling} at most")


def run(*options):
    return count(tap.program("agentcrate-run"), *options, "--", TRUE)


def whole_command(profile):
    command, ceiling = count(TRUE), CEILINGS[tap.WHO, profile]
    judge(least(lambda: run("--profile", profile) - command, ceiling), ceiling,
          f"besides the {command} of the command")


def allow():
    ceiling = ALLOW_CEILINGS[tap.WHO]
    without = min(run() for _ in range(3))
    judge(least(lambda: run("--allow", "{name}:{port}".format(**DESTINATION)) - without, ceiling),
          ceiling, "more with a destination")


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


def process_of(broker, process):
    """Its pid. Of launchers the one that makes crates: there is its parent beside it, and when no crate
    is left nobody."""
    if process == "broker":
        return broker.pid

    def found(name):
        return [pid for pid, command in machine.descendants(broker.pid).items()
                if command.startswith(name)]

    if process == "egress":
        return found("agentcrate-egre")[0]
    tap.check(tap.wait_until(lambda: len(found("agentcrate-laun")) == 2, 10),
              lambda: f"more than launchers: {machine.descendants(broker.pid)}")
    return next(pid for pid in found("agentcrate-laun") if not machine.descendants(pid))


def one_call(process, destinations, ceilings):
    reason = can_trace()
    if reason:
        raise tap.Skip(reason)
    with open(os.path.join(tap.data_dir(), "templates.d", "host.json"), encoding="utf-8") as file:
        host = {**json.load(file), "egress": destinations}
    with mcp.Broker(env=tap.template_env(host=host)) as broker, broker.client() as client:
        for _ in range(3):
            client.exec(TRUE)
        pid = process_of(broker, process)
        ceiling = ceilings[tap.WHO, process]
        judge(least(lambda: calls_of(broker, client, pid), ceiling), ceiling,
              f"of the {process} for a job")


ROWS = [
    *((f"agentcrate-run makes no more system calls than it must ({profile})", whole_command, profile)
      for profile in ("default", "strict")),
    ("a destination adds no more system calls to agentcrate-run than it must", allow),
    *((f"the {process} makes no more system calls for a job than it must", one_call, process, [],
       CALL_CEILINGS) for process in ("broker", "launcher")),
    *((f"the {process} makes no more system calls than it must for a job that has a destination",
       one_call, process, [DESTINATION], REACHING_CEILINGS)
      for who, process in REACHING_CEILINGS if who == tap.WHO),
]


def main():
    for title, *test in ROWS:
        if not tap.host_has("strace"):
            tap.skip(title, "host has no strace")
        elif os.path.isdir("/run/systemd/system"):
            tap.skip(title, "host has a service manager, whose answers take any number of calls")
        else:
            tap.case(title, *test)


sys.exit(tap.main(main))
