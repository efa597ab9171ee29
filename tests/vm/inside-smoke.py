#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# vm-as: root dev
"""The emulated machine is what the other tests in it count on, and the installed tree works there."""

import ctypes
import errno
import json
import os
import platform
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

CGROUPS = "/sys/fs/cgroup"
CLONE_NEWCGROUP = 0x02000000
LANDLOCK_CREATE_RULESET, LANDLOCK_CREATE_RULESET_VERSION = 444, 1
CONTROLLERS = {"cpu", "io", "memory", "pids"}
LIBC = ctypes.CDLL(None, use_errno=True)


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def own_group():
    return re.search(r"^0::(.*)$", read("/proc/self/cgroup"), re.M)[1]


def run(*command, rc=0, timeout=120):
    """With the environment of the session, as somebody types it."""
    return tap.run(list(command), env=dict(os.environ), timeout=timeout).expect(rc, out=None)


# --- the machine ---


def kernel():
    tap.equal(platform.release().split(".")[:2], ["6", "1"], "kernel")
    version = LIBC.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    tap.equal(version, 2, "Landlock's ABI")


def controllers():
    tap.check(CONTROLLERS <= set(read(CGROUPS, "cgroup.controllers").split()),
              lambda: read(CGROUPS, "cgroup.controllers"))


def delegated_to_user():
    group = f"{CGROUPS}/user.slice/user-1000.slice/user@1000.service"
    given = set(read(group, "cgroup.controllers").split())
    tap.equal(given, {"cpu", "memory", "pids"}, "controllers of the user's manager")


def nsdelegate():
    """The root of a cgroup namespace that is not the first cannot change its own limits."""
    group = os.path.join(CGROUPS, "agentcrate-smoke")
    os.mkdir(group)
    try:
        child = os.fork()
        if child == 0:
            os._exit(write_own_limit(group))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        tap.equal(errno.errorcode.get(status, status), "EPERM", "writing pids.max")
    finally:
        os.rmdir(group)


def write_own_limit(group):
    with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    if LIBC.unshare(CLONE_NEWCGROUP) != 0:
        return 255
    try:
        with open(os.path.join(group, "pids.max"), "w", encoding="ascii") as file:
            file.write("10")
    except OSError as error:
        return error.errno
    return 0


def limits_are_real():
    hog = "b = bytearray(200 << 20); print(len(b))"
    manager = ["--user"] if tap.WHO == "user" else []
    ran = tap.run(["systemd-run", *manager, "--wait", "--collect", "-p", "MemoryMax=40M",
                   "/usr/bin/python3", "-c", hog], env=dict(os.environ), timeout=120)
    tap.contains(ran.errors, "Finished with result: oom-kill")


def session():
    tap.contains(own_group(), "/user.slice/user-1000.slice/session-")
    tap.equal(os.environ.get("XDG_RUNTIME_DIR"), "/run/user/1000", "XDG_RUNTIME_DIR")
    run("systemctl", "--user", "show", "-P", "Version")


def service():
    tap.contains(own_group(), "/system.slice/agentcrate-test-")


# --- the tree ---


def runner():
    ran = tap.shell("id -u; exit 3", env=dict(os.environ))
    ran.expect(3, out="1000\n", err="")
    tap.equal(ran.record["outcome"], "exited", "outcome")


def broker():
    systemctl = ["systemctl", *(["--user"] if tap.WHO == "user" else [])]
    if tap.WHO == "root":
        tap.serve_root()
    run(*systemctl, "start", "agentcrated.socket")
    try:
        ran = run(tap.program("agentcrate"), "call", "--json", "sandbox_exec",
                  '{"command": "echo from a crate"}')
        answer = json.loads(ran.text)["structuredContent"]
        tap.equal((answer["outcome"], answer["stdout"]), ("exited", "from a crate\n"), "answer")
        state = run(*systemctl, "show", "-P", "ActiveState", "agentcrated.service").text
        tap.equal(state, "active\n", "state of the service")
    finally:
        subprocess.run([*systemctl, "stop", "agentcrated.socket", "agentcrated.service"],
                       check=False)
    result = run(*systemctl, "show", "-P", "Result", "agentcrated.service").text
    tap.equal(result, "success\n", "result of the service")


def main():
    tap.case("kernel 6.1, Landlock 2", kernel)
    if tap.WHO == "root":
        tap.case("controllers are there", controllers)
        tap.case("nsdelegate is in force", nsdelegate)
        tap.case("the script runs in a service", service)
    else:
        tap.case("the script runs in a session", session)
        tap.case("the user's manager has Debian's controllers", delegated_to_user)
    tap.case("a limit of memory is enforced", limits_are_real)
    tap.case("agentcrate-run runs a job", runner)
    tap.case("the installed units start the broker", broker)


sys.exit(tap.main(main))
