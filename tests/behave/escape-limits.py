#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-exclusive: it looks at what the whole host has left
"""What a job may take from others: a fork bomb, what the kernel counts for a user or for the whole
host, the processor and the disk. Limits by themselves are in cases/limits.py, what a killed broker
or launcher leaves in cases/restart.py."""

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import mcp
import tap

IN_VM = "AGENTCRATE_TEST_VM" in os.environ
SLOW = 5 if IN_VM else 1
BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"


def row_63(way):
    """The one who throws it is told which limit it was; the neighbour does not notice; it is gone
    at once."""
    with mcp.Broker() as broker, broker.client() as client, broker.client() as neighbour:
        arguments = {"command": BOMB, "limits": {"pids": 64}, "timeout_ms": 30000 * SLOW}
        request = client.start("tools/call", {"name": "sandbox_exec", "arguments": arguments})
        if way == "beside":
            for _ in range(5):
                tap.equal(neighbour.exec("echo", "here")["stdout"], "here\n", "the neighbour")
        record = client.wait(request, 60 * SLOW)["structuredContent"]
        tap.equal((record["limit"] or {}).get("name"), "pids", f"limit of {record['usage']}")
        gone = tap.wait_until(lambda: "sh" not in machine.descendants(broker.pid).values(), 10)
        tap.check(gone, lambda: f"left: {machine.descendants(broker.pid)}")


# --- what is counted for a user ---


# Takes all that it can get of each, says how much and why no more, and keeps it.
TAKE_ALL = r"""
import ctypes, errno, json, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
kept = []

def take(one, most=150000):
    for n in range(most):
        if one(n) < 0:
            return n, errno.errorcode[ctypes.get_errno()]
    return most, None

def aio(_n):
    kept.append(ctypes.c_ulong(0))
    return libc.syscall(NUMBERS["io_setup"], ctypes.c_long(512), ctypes.byref(kept[-1]))

def queue(n):
    default = (ctypes.c_long * 8)(0, 10, 8192, 0)
    return libc.syscall(NUMBERS["mq_open"], b"q%d" % n, os.O_CREAT | os.O_RDWR, 0o600, default)

def pending(_n):
    return libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(1))

NUMBERS = json.loads(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, [40])
print(json.dumps({
    "aio": take(aio), "mq": take(queue), "pending": take(pending),
    "inotify": take(lambda _n: libc.inotify_init1(0)), "fds": take(lambda _n: libc.dup(0)),
    "epoll": take(lambda _n: libc.epoll_create1(0)),
}), flush=True)
sys.stdin.read()
"""


def numbers():
    """System calls without a function in libc that we could rely on."""
    aio, queue = {"x86_64": (206, 240), "aarch64": (0, 180)}[os.uname().machine]
    return {"io_setup": aio, "mq_open": queue}


def host_has_some_left():
    """What another program of the same user is given, as errno or None."""
    libc = ctypes.CDLL(None, use_errno=True)
    left = {}

    def ask(what, result):
        left[what] = None if result >= 0 else errno.errorcode[ctypes.get_errno()]
        return result

    fd = ask("inotify", libc.inotify_init1(0))
    if fd >= 0:
        os.close(fd)
    context = ctypes.c_ulong(0)
    done = ask("aio", libc.syscall(numbers()["io_setup"], ctypes.c_long(512),
                                   ctypes.byref(context)))
    if done >= 0:
        libc.syscall({"x86_64": 207, "aarch64": 1}[os.uname().machine], context)
    name = b"agentcrate-test-%d" % os.getpid()
    default = (ctypes.c_long * 8)(0, 10, 8192, 0)
    fd = ask("mq", libc.syscall(numbers()["mq_open"], name, os.O_CREAT | os.O_RDWR, 0o600, default))
    if fd >= 0:
        os.close(fd)
        libc.mq_unlink(b"/" + name)
    signal.pthread_sigmask(signal.SIG_BLOCK, [40])
    for _ in range(100):
        ask("pending", libc.sigqueue(os.getpid(), 40, ctypes.c_void_p(1)))
        if left["pending"]:
            break
    while signal.sigtimedwait([40], 0):
        pass
    return left


def row_71():
    """A job that takes all it can get of descriptors and of what the kernel counts for a user or
    for the host leaves enough for others: programs of the same user outside, and another crate."""
    before = host_has_some_left()
    argv = [tap.program("agentcrate-run"), "-t", "60", "--", "python3", "-c", TAKE_ALL,
            json.dumps(numbers())]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=tap.clean_env(),
                          cwd="/") as job:
        try:
            taken = json.loads(job.stdout.readline())
            tap.diag(f"taken: {taken}")
            tap.equal(host_has_some_left(), before, "what the host has left for others")
            text = ("import ctypes; l = ctypes.CDLL(None); print(l.inotify_init1(0) >= 0, "
                    "l.epoll_create1(0) >= 0)")
            tap.crate("python3", "-c", text).expect(0, out="True True\n")
        finally:
            job.stdin.close()
            job.wait(timeout=30)
    tap.equal({name: why for name, (_n, why) in taken.items()},
              {"aio": "ENOSYS", "mq": "EMFILE", "pending": "EAGAIN", "inotify": "EMFILE",
               "fds": "EMFILE", "epoll": "EMFILE"}, "why there was no more")


# --- processor and disk ---


URGENT = """
import os
def say(name, call):
    try:
        call()
        print(name, "OK")
    except OSError as error:
        print(name, os.strerror(error.errno))
say("nice", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20))
say("fifo", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)))
say("rr", lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))
"""


def row_72():
    ran = tap.crate("python3", "-c", URGENT).expect(0)
    tap.check("OK" not in ran.text and len(ran.text.splitlines()) == 3, f"urgent: {ran}")
    text = "while :; do :; done & while :; do :; done"
    ran = tap.shell(text, options=["--limit=cpu_time=400ms", "-t", str(30 * SLOW)])
    tap.equal((ran.record["outcome"], ran.record["limit"]["name"]), ("limit", "cpu_time"), "end")


def row_73():
    """Either a cgroup holds the rate, or the job that asks for it does not run at all."""
    text = ("import os, time; t = time.monotonic(); f = os.open('/workspace/f', os.O_CREAT | "
            "os.O_WRONLY | os.O_SYNC)\nfor i in range(8): os.write(f, bytes(1 << 20))\n"
            "print(time.monotonic() - t)")
    place = tap.folder("disk")
    os.chmod(place, 0o777)
    ran = tap.crate("python3", "-c", text, options=["--limit=io_write_bps=4M", "-w", place])
    if ran.rc == 125:
        tap.contains(ran.errors, "limit io_write_bps: nothing can enforce it here")
        tap.equal(os.listdir(place), [], "what a job that is refused has written")
        return
    tap.equal(ran.record["outcome"], "exited", f"the disk hog: {ran}")
    state = [limit for limit in ran.record["limits"] if limit["name"] == "io_write_bps"][0]
    tap.equal(state["enforced_by"], "cgroup", "what enforces it")
    tap.check(float(ran.text) > 0.5, f"8 MiB at 4 MiB a second took {ran.text.strip()} s")


def main():
    tap.become_subreaper()
    tap.case("row 63 a fork bomb is named and gone", row_63, "alone")
    tap.case("row 63 a fork bomb beside others", row_63, "beside")
    tap.case("row 71 what the kernel counts for a user", row_71)
    tap.case("row 72 a job is never urgent, and its processor time ends", row_72)
    tap.case("row 73 a hog of the disk is slowed down or refused", row_73)


sys.exit(tap.main(main))
