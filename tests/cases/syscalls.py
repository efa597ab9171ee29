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
import tap

TRUE = "/usr/bin/true"
CEILINGS = {
    ("root", "default"): 975,
    ("root", "strict"): 970,
    ("user", "default"): 940,
    ("user", "strict"): 915,
}


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


def main():
    for profile in ("default", "strict"):
        title = f"agentcrate-run makes no more system calls than it must ({profile})"
        if not tap.host_has("strace"):
            tap.skip(title, "host has no strace")
        elif os.path.isdir("/run/systemd/system"):
            tap.skip(title, "host has a service manager, whose answers take any number of calls")
        else:
            tap.case(title, whole_command, profile)


sys.exit(tap.main(main))
