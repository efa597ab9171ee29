#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""What the host allows: HOST-01 (its message) and HOST-08.

Left to their issues: doctor and the AppArmor profile of HOST-01, HOST-02 (an older kernel), HOST-03
to 07 (limits of memory and processes, units).
"""

import ctypes
import errno
import json
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import tap

CLONE_NEWUSER = 0x10000000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 22, 38
LIBC = ctypes.CDLL(None, use_errno=True)


def write_proc(name, text):
    with open(f"/proc/{name}", "w", encoding="ascii") as file:
        file.write(text)


def without_user_namespaces():
    """In the child: an ordinary uid in a user namespace that may have none below it."""
    uid, gid = os.geteuid(), os.getegid()
    if LIBC.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    write_proc("self/setgroups", "deny")
    write_proc("self/uid_map", f"1000 {uid} 1")
    write_proc("self/gid_map", f"1000 {gid} 1")
    write_proc("sys/user/max_user_namespaces", "0")


UNSHARE, CLONE3, CLONE = {"x86_64": (272, 435, 56), "aarch64": (97, 435, 220)}[os.uname().machine]
LOAD, EQUAL, IS_SET, GIVE = 0x20, 0x15, 0x45, 0x06
ALLOW, HIDE, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOSYS, 0x00050000 | errno.EPERM


def load_filter(program):
    """In the child: a filter as an outer container has it."""
    code = b"".join(struct.pack("<HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(buffer))
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def with_unshare_refused():
    """In the child: namespaces are EPERM."""
    load_filter([
        (LOAD, 0, 0, 0),
        (EQUAL, 5, 0, UNSHARE),
        (EQUAL, 3, 0, CLONE3),
        (EQUAL, 0, 4, CLONE),
        (LOAD, 0, 0, 16),
        (IS_SET, 1, 2, CLONE_NEWUSER),
        (GIVE, 0, 0, HIDE),
        (GIVE, 0, 0, REFUSE),
        (GIVE, 0, 0, ALLOW),
    ])


def with_clone3_hidden():
    """In the child: there is no clone3."""
    load_filter([
        (LOAD, 0, 0, 0),
        (EQUAL, 0, 1, CLONE3),
        (GIVE, 0, 0, HIDE),
        (GIVE, 0, 0, ALLOW),
    ])


def with_no_namespace_for_ids():
    """In the child: there is no clone3, and no clone that makes a user namespace and nothing else,
    which is the one for the ids of a workspace."""
    load_filter([
        (LOAD, 0, 0, 0),
        (EQUAL, 3, 0, CLONE3),
        (EQUAL, 0, 3, CLONE),
        (LOAD, 0, 0, 16),
        (EQUAL, 2, 1, CLONE_NEWUSER),
        (GIVE, 0, 0, HIDE),
        (GIVE, 0, 0, ALLOW),
        (GIVE, 0, 0, REFUSE),
    ])


def write_foreign(prepare):
    """A job of root's writes to a workspace of somebody else's, below such a filter."""
    place = tap.folder("workspace")
    os.chown(place, 12345, 12346)
    ended = subprocess.run(
        [tap.program("agentcrate-run"), "-w", place, "--", "/bin/sh", "-c", "echo x > f; echo ran"],
        preexec_fn=prepare,
        env=tap.clean_env(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return place, ended


def ids_without_clone3():
    place, ended = write_foreign(with_clone3_hidden)
    tap.equal((ended.returncode, ended.stdout), (0, b"ran\n"), f"end: {ended.stderr.decode()}")
    info = os.stat(os.path.join(place, "f"))
    tap.equal((info.st_uid, info.st_gid), (12345, 12346), "owner on the host")


def ids_refused():
    place, ended = write_foreign(with_no_namespace_for_ids)
    text = ended.stderr.decode()
    tap.equal((ended.returncode, ended.stdout), (125, b""), f"end: {text}")
    tap.contains(text, "user namespace", "stderr")
    tap.equal(os.listdir(place), [], "files of a job that was not to run")


def refused_run(prepare):
    """One clear message, its own exit status, never a job without isolation."""
    ended = subprocess.run(
        [tap.program("agentcrate-run"), "--", "/bin/sh", "-c", "echo ran"],
        preexec_fn=prepare,
        env=tap.clean_env(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    text = ended.stderr.decode()
    tap.equal((ended.returncode, ended.stdout), (125, b""), f"end: {text}")
    tap.contains(text, "user namespace", "stderr")
    tap.check(
        re.search(r"sysctl|max_user_namespaces|AppArmor|apparmor|userns", text),
        f"no remedy is named: {text}",
    )
    tap.check(len(text.splitlines()) <= 3, f"not one message: {text}")


def refused_call():
    """The same by a broker on such a host: it lives, and each call says why."""
    path = os.path.join(tap.folder("broker"), "agentcrate.sock")
    with open(path + ".log", "wb") as log:
        process = subprocess.Popen(
            [tap.libexec("agentcrated"), "--listen", path],
            preexec_fn=without_user_namespaces,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=tap.clean_env(),
            cwd="/",
        )
    try:
        tap.check(
            tap.wait_until(lambda: os.path.exists(path) or process.poll() is not None), "no socket"
        )
        with open(path + ".log", encoding="utf-8") as log:
            tap.equal(process.poll(), None, f"end of the broker: {log.read()}")
        # From the broker's own user namespace: it serves no other.
        inside = ["nsenter", "--user", "--preserve-credentials", "--target", str(process.pid)]
        for _ in range(2):
            ran = tap.run(
                inside + [tap.program("agentcrate"), "call", "--json", "sandbox_exec",
                          json.dumps({"command": "echo ran"})],
                env=tap.clean_env(AGENTCRATE_SOCKET=path),
            )
            result = json.loads(ran.text)
            text = " ".join(part.get("text", "") for part in result["content"])
            tap.equal(result.get("isError"), True, "isError")
            tap.contains(text, "user namespace", "text")
            tap.contains(text, "sysctl", "text")
            tap.equal(result["structuredContent"]["outcome"], "lost", "outcome")
    finally:
        tap.kill_and_wait(process)


def own_cgroup(pid="self"):
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
        return next((line[3:].strip() for line in file if line.startswith("0::")), None)


def job_cgroups(argv):
    """The cgroups of a running job's processes, as the host sees them."""
    job = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=tap.clean_env(), cwd="/"
    )
    try:
        tap.equal(job.stdout.readline(), b"up\n", "output")
        found = {}

        def seen():
            found.update(machine.descendants(job.pid))
            return "sleep" in found.values()

        tap.check(tap.wait_until(seen), lambda: f"no job is seen: {found}")
        return [own_cgroup(pid) for pid in found]
    finally:
        tap.kill_and_wait(job)
        job.stdout.close()


JOB = ["--", "/bin/sh", "-c", "echo up; sleep 60; true"]


def job_stays_below():
    base = own_cgroup()
    if base is None:
        raise tap.Skip("host has no cgroup2")
    for path in job_cgroups([tap.program("agentcrate-run"), *JOB]):
        tap.check((path + "/").startswith(base.rstrip("/") + "/"), f"{path} is not below {base}")


def job_stays_below_outer():
    """An outer container's cgroup: the runner finds its own path, not the root of the mount."""
    base = own_cgroup()
    mounts = [line.split() for line in open("/proc/self/mounts", encoding="utf-8")]
    tops = [fields[1] for fields in mounts if fields[2] == "cgroup2"]
    if base is None or not tops:
        raise tap.Skip("host has no cgroup2")
    outer = f"{tops[0]}{base.rstrip('/')}/agentcrate-test-{os.getpid()}"
    try:
        os.mkdir(outer)
    except OSError:
        raise tap.Skip("host gives root no cgroup2 of its own") from None
    try:
        enter = f'echo $$ > {outer}/cgroup.procs && exec "$@"'
        argv = ["/bin/sh", "-c", enter, "sh", tap.program("agentcrate-run"), *JOB]
        for path in job_cgroups(argv):
            tap.check(
                (path + "/").startswith(outer[len(tops[0]) :] + "/"), f"{path} is not below {outer}"
            )
    finally:
        tap.wait_until(lambda: not machine.descendants())
        left = [top for top, _names, _files in os.walk(outer, topdown=False)]
        for path in left:
            os.rmdir(path)


def main():
    tap.become_subreaper()
    tap.case(
        "HOST-01 no user namespaces are left: exit 125 with cause and remedy",
        refused_run,
        without_user_namespaces,
    )
    if tap.WHO == "user":
        tap.case(
            "HOST-01 user namespaces are refused: exit 125 with cause and remedy",
            refused_run,
            with_unshare_refused,
        )
    tap.case("HOST-01 a broker without user namespaces answers with the cause", refused_call)
    tap.case("HOST-08 a job stays in or below the runner's cgroup", job_stays_below)
    if tap.WHO == "root":
        tap.case("an outer filter hides clone3: a workspace's ids are mapped all the same",
                 ids_without_clone3)
        tap.case("an outer filter refuses the namespace of a workspace's ids: exit 125 with the cause",
                 ids_refused)
        tap.case("HOST-08 a job stays below an outer cgroup", job_stays_below_outer)


sys.exit(tap.main(main))
