#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Processes of a job and its time limit: PROC-01, 04, 05. PROC-03 is in runner.py.

Left to their issues: PROC-02 (cpu_time), PROC-06 (named sandboxes).
"""

import ctypes
import os
import signal
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import machine
import mcp
import tap

TREE = (
    "setsid sleep 300 & (setsid sh -c 'trap \"\" TERM HUP INT; sleep 300' &) ; trap '' TERM; sleep "
    "300; sleep 300"
)
NO_SIGNALS = {"SigBlk": "0" * 16, "SigIgn": "0" * 16, "SigCgt": "0" * 16}
PIPELINE = "yes | head -1 >/dev/null; echo ${PIPESTATUS[@]}"


def whole_tree(way):
    way.run("/bin/true")
    before = machine.Picture.settled()
    job = way.run(command=TREE, seconds=1, hang=30)
    tap.equal((job.outcome, job.limit), ("limit", "wall_time"), f"end: {job}")
    tap.check(job.seconds < 15, f"took {job.seconds} s")
    before.expect_same()


def whole_tree_status(way):
    job = way.run(command="sleep 300", seconds=1, hang=30)
    tap.equal(way.last.rc, 124, "exit status")
    tap.contains(job.errors, "wall_time", "stderr")


def pipeline(way):
    way.run("/bin/bash", "-c", PIPELINE).expect(0, out="141 0\n", err="")


def dispositions(way):
    """Of all 64 signals, and the mask."""
    check_signals(way.run("/bin/cat", "/proc/self/status").text)


def check_signals(status):
    lines = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    tap.equal(
        {name: lines.get(name) for name in ("SigBlk", "SigIgn", "SigCgt")}, NO_SIGNALS, "signals"
    )


def ignore_everything():
    """Every signal that can be is ignored, also the two that libc keeps, and all are blocked."""
    libc = ctypes.CDLL(None)
    number_of_call = {"x86_64": 13, "aarch64": 134}.get(os.uname().machine)
    ignore = struct.pack("4Q", signal.SIG_IGN, 0, 0, 0)
    for number in range(1, 65):
        if number_of_call:
            libc.syscall(number_of_call, number, ignore, None, 8)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def deaf(*argv):
    """agentcrate-run, by a caller who lets no signal through."""
    return subprocess.run(
        [tap.program("agentcrate-run"), "--", *argv],
        preexec_fn=ignore_everything,
        env=tap.clean_env(),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def inherited_dispositions():
    check_signals(deaf("/bin/cat", "/proc/self/status").stdout.decode())
    ended = deaf("/bin/bash", "-c", PIPELINE)
    tap.equal((ended.stdout, ended.stderr), (b"141 0\n", b""), "output")


def clock_env():
    env = tap.clean_env(LD_PRELOAD=tap.helper("clock-jump.so"))
    if "ASan runtime" in tap.run([tap.program("agentcrate-run"), "--version"], env=env).errors:
        raise tap.Skip("the programs are built with a sanitizer that must be the first library")
    return env


def check_time(job):
    tap.equal((job.outcome, job.limit), ("limit", "wall_time"), f"end: {job}")
    for what, seconds in (
        ("by the test's clock", job.seconds),
        ("in the record", job.record["usage"]["wall_ms"] / 1000),
    ):
        tap.check(2.9 < seconds < 15, f"{seconds} s {what}")


def stepping_clock():
    check_time(jobs.Run().run("/bin/sleep", "20", seconds=3, hang=30, caller_env=clock_env()))


def stepping_clock_broker():
    with mcp.Broker(env=clock_env()) as broker:
        call = jobs.Call(broker)
        check_time(call.run("/bin/sleep", "20", seconds=3, hang=30))
        job = call.run("/bin/sleep", "1", seconds=10, hang=30)
        tap.check(
            job.outcome == "exited" and 900 <= job.record["usage"]["wall_ms"] < 8000, str(job)
        )
        call.close()


def main():
    tap.become_subreaper()
    with jobs.ways() as ways:
        for way in ways:
            tap.case(f"PROC-01 the time limit ends the whole tree ({way.name})", whole_tree, way)
            tap.case(f"PROC-04 a pipeline ends by SIGPIPE ({way.name})", pipeline, way)
            tap.case(f"PROC-04 no signal is ignored or blocked ({way.name})", dispositions, way)
        tap.case("PROC-01 the time limit is exit status 124 and named", whole_tree_status, ways[0])
    tap.case("PROC-04 whatever the runner's caller ignores", inherited_dispositions)
    tap.case(
        "PROC-05 the time limit does not follow the wall clock (agentcrate-run)", stepping_clock
    )
    tap.case(
        "PROC-05 the time limit does not follow the wall clock (sandbox_exec)",
        stepping_clock_broker,
    )


sys.exit(tap.main(main))
