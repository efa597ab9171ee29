#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""Row 55: what is planted in broker, egress, a neighbour crate, a credential and the host's files is
sought by a job, by other processes, and in cores. And that what is planted is found if it gets out:
all scripts look for it, see tests/lib/canary.py."""

import base64
import contextlib
import ctypes
import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

# pylint: disable=wrong-import-position
import canary
import egress
import machine
import mcp
import place
import tap
import upstream

LIBC = ctypes.CDLL(None, use_errno=True)
NEIGHBOUR = "neighbour-" + canary.SECRET
# So that the job that seeks it does not itself have it.
HIDDEN = ".".join(str(byte ^ 1) for byte in canary.WORD.encode())


# --- whether it would be found ---


def escapes():
    word = canary.SECRET
    raw = word.encode()
    return {"as it is": raw, "URL": urllib.parse.quote(word, safe="").encode(),
            "JSON": json.dumps({"a": word}).encode(), "all percent": "".join(
                f"%{byte:02x}" for byte in raw).encode(),
            "\\u": "".join(f"\\u{byte:04x}" for byte in raw).encode(),
            **{f"base64, {n} before": base64.b64encode(b"x" * n + raw + b"yz") for n in range(7)},
            **{f"base64 for URLs, {n} before": base64.urlsafe_b64encode(b"x" * n + raw)
               for n in range(3)},
            "hex": raw.hex().encode()}


def found_in_every_form():
    for name, data in escapes().items():
        tap.check(canary.find(b"before " + data + b" behind"), f"not found: {name}")
    other = "c4n" + os.urandom(16).hex()
    for form in canary.forms(other).values():
        tap.check(not canary.find(form), f"another word is taken for it: {form}")


def is_caught(leak):
    try:
        leak()
    except canary.Leak:
        return
    raise tap.Failed("a leak is not noticed")


def found_in_output():
    is_caught(lambda: tap.crate("/bin/echo", canary.WORD))
    is_caught(lambda: tap.crate("/bin/sh", "-c", f"echo {canary.WORD} >&2"))
    with mcp.Broker() as broker, broker.client() as client:
        is_caught(lambda: client.exec("/bin/echo", canary.WORD))


def found_in_files():
    """In a log, a core, a record: in anything that is left in the folder of a script."""
    place = tap.folder("left")
    for name, data in ("audit.jsonl", json.dumps({"a": canary.SECRET}).encode()), \
            ("core", b"\0" * 100000 + canary.WORD.encode() + b"\0" * 5), \
            ("big", None):
        path = os.path.join(place, name)
        with open(path, "wb") as file:
            file.seek(3 * canary.PART if data is None else 0)
            file.write(data or canary.WORD.encode())
        tap.equal(len(canary.leaks(place)), 1, name)
        os.unlink(path)
    planted = tap.write(os.path.join(place, "planted"), canary.SECRET)
    tap.equal(canary.leaks(place), [], "what was planted")
    canary.unplant(planted)
    tap.equal(len(canary.leaks(place)), 1, "what is planted no more")
    os.unlink(planted)


# --- an attack ---


# Everything that /proc shows of anybody, every file, and the processes of the host by their ids.
SEEK = r"""
import ctypes, os, sys
word = bytes(int(byte) ^ 1 for byte in sys.argv[1].split("."))
pids = [int(pid) for pid in sys.argv[2:]]
libc = ctypes.CDLL(None, use_errno=True)
own = os.getpid()

def say(*what):
    print("FOUND", *what, flush=True)

def seek(path):
    try:
        with open(path, "rb") as file:
            if word in file.read(1 << 24):
                say(path)
    except (OSError, ValueError, OverflowError):
        pass

def seek_memory(pid):
    try:
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in maps:
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                memory.seek(begin)
                if word in memory.read(min(end - begin, 1 << 24)):
                    say("memory of", pid)
    except (OSError, ValueError, OverflowError):
        pass

others = sorted({int(name) for name in os.listdir("/proc") if name.isdigit()} - {own})
for pid in others + pids:
    if pid in pids and os.path.exists(f"/proc/{pid}"):
        say("a process of the host:", pid) if pid not in others else None
    for name in "environ", "cmdline", "auxv", "stack", "syscall":
        seek(f"/proc/{pid}/{name}")
    seek_memory(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            seek(f"/proc/{pid}/fd/{name}")
    except OSError:
        pass
    for request in 16, 0x4206:  # PTRACE_ATTACH, PTRACE_SEIZE
        if libc.ptrace(request, pid, 0, 0) == 0:
            say("traced", pid)
    if pid in pids and pid not in others:
        try:
            os.kill(pid, 0)
            say("may signal", pid)
        except OSError:
            pass
for top in "/", "/proc/self/root/", "/proc/1/root/":
    for folder, names, files in os.walk(top):
        if folder == top:
            names[:] = [name for name in names if name not in ("dev", "proc", "sys", "usr")]
        for name in files:
            if os.path.isfile(os.path.join(folder, name)):
                seek(os.path.join(folder, name))
print("sought", len(others), flush=True)
"""


def name_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii") as file:
        return file.read()
    return ""


@contextlib.contextmanager
def attacked():
    """A broker with something to hide everywhere: in its environment and its memory, the secret in its
    egress, and what a neighbour crate has. A client, and the pids of broker, egress, launcher and
    neighbour, while it runs and the secret has been used."""
    with place.place(upstream.reply(f"you said {canary.SECRET}")) as p, p.broker() as broker, \
            broker.client() as client, broker.client() as other:
        running = other.start("tools/call", {"name": "sandbox_exec", "arguments": {
            "command": "curl -sS $API_URL/get/1; exec sleep 271", "operations": ["api.get"],
            "env": {"NEIGHBOUR": NEIGHBOUR}}})
        tap.check(tap.wait_until(lambda: p.server.requests, 20), "the neighbour does not run")
        tap.equal(p.server.requests[0].field("authorization"), ["Bearer " + canary.SECRET])
        yield client, broker.pid, [broker.pid, *machine.descendants(broker.pid)]
        other.notify("notifications/cancelled", {"requestId": running})


def sought_by_job():
    """What a job prints is looked through anyway; it must not find it for itself either."""
    with attacked() as (client, _broker, pids):
        sure = client.exec("/bin/sh", "-c", 'echo "$WORD" >/tmp/planted; exec python3 -c "$@"', "sh",
                           SEEK, HIDDEN, env={"WORD": canary.WORD}, timeout_ms=60000)
        tap.check(sure["stdout"].startswith("FOUND /tmp/planted\n"), f"what is there: {sure}")
        record = client.exec("/usr/bin/python3", "-c", SEEK, HIDDEN,
                             *map(str, pids), timeout_ms=60000)
        lines = record["stdout"].splitlines()
        tap.check(lines and lines[-1].startswith("sought "), f"{record}")
        tap.equal(lines[:-1], [], "what a job found")


def can_read(pid, uid):
    """What a process of that uid can have of pid, its entries of /proc and its memory."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        found = []
        try:
            if uid is not None:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            for name in "environ", "mem", "maps", "fd", "stack", "auxv", "cwd", "root", "exe":
                path = f"/proc/{pid}/{name}"
                with contextlib.suppress(OSError):
                    if name == "fd":
                        os.listdir(path)
                    elif name in ("cwd", "root", "exe"):
                        os.readlink(path)
                    else:
                        with open(path, "rb") as file:
                            file.read(1) if name != "mem" else None
                    found.append(name)
            if LIBC.ptrace(0x4206, pid, 0, 0) == 0:
                found.append("ptrace")
        except OSError as why:
            found.append(errno.errorcode[why.errno])
        os.write(write, " ".join(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        text = file.read().decode()
    os.waitpid(child, 0)
    return text


def closed_to_others():
    """egress is closed to its own user, too, and all of them to others. What can be read of the test
    itself shows that looking works."""
    with attacked() as (_client, broker, pids):
        of_egress = next(pid for pid in pids if "agentcrate-egre" in name_of(pid))
        if tap.WHO == "user":
            tap.contains(can_read(os.getpid(), None), "environ", "what can be read of the test")
            tap.equal(can_read(of_egress, None), "", "what its user can read of egress")
            return
        tap.contains(can_read(broker, None), "environ", "what root can read of the broker")
        for pid in pids:
            for uid in 1000, 54321:
                tap.equal(can_read(pid, uid), "", f"what {uid} can read of {name_of(pid)}")


def core_of(process, number):
    """Kills one of our children; whether there was a core of it."""
    process.send_signal(number)
    _pid, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    tap.equal(process.returncode, -number, "how it ended")
    return os.WCOREDUMP(status)


def no_cores():
    """Though whoever starts them wants some, as that of another program shows where the host keeps
    them. That egress can write no file is another wall, so what it asks for is looked at."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    cwd = tap.folder("cores")
    if core_of(subprocess.Popen(["sleep", "271"], cwd=cwd), signal.SIGABRT):
        for name in os.listdir(cwd):
            os.unlink(os.path.join(cwd, name))
    else:
        tap.diag("this host keeps no cores")
    for number in signal.SIGABRT, signal.SIGSEGV, signal.SIGQUIT:
        broker = mcp.Broker(cwd=cwd)
        tap.check(not core_of(broker.process, number), f"a core of the broker by {number}")
        broker.log.close()
    with egress.Egress() as program:
        egress.Session(program, [])
        with open(f"/proc/{program.process.pid}/limits", encoding="ascii") as file:
            tap.check(re.search(r"^Max core file size +0 +0 ", file.read(), re.M), "cores of egress")
        tap.check(not core_of(program.process, signal.SIGSEGV), "a core of egress")
    tap.equal(os.listdir(cwd), [], "cores")


def tests():
    tap.case("what is planted is found in every form", found_in_every_form)
    tap.case("it is found in what jobs print, and in what brokers say", found_in_output)
    tap.case("it is found in files that are left", found_in_files)
    tap.case("a job seeks it in /proc, memory and files", sought_by_job)
    tap.case("broker and egress are closed to other processes", closed_to_others)
    tap.case("no core of them", no_cores)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
