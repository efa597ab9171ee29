#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Output of a job: OUT-01 to 07 and 09. OUT-08 is in runner.py.

Left to their issues: read_file of OUT-05, the upstream server of OUT-09.
"""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import machine
import tap


def background_child(way):
    way.run("/bin/true")
    before = machine.Picture.settled()
    job = way.run(command="sleep 120 & echo done", seconds=30)
    job.expect(0, out="done\n", err="")
    tap.check(job.seconds < 15, f"took {job.seconds} s")
    before.expect_same()


def both_pipes_full(way):
    job = way.run(
        command="head -c 5000000 /dev/zero | tr '\\0' a; head -c 5000000 /dev/zero | tr '\\0' b "
        ">&2",
        seconds=30,
    )
    job.expect(0, out=b"a" * 5000000, err=b"b" * 5000000)
    tap.equal((job.record["stdout_bytes"], job.record["stderr_bytes"]), (5000000, 5000000), "bytes")


def cut_character(way):
    """The cap falls into a character, from every side."""
    for more in range(4):
        job = way.run("/usr/bin/python3", "-c", f"print('a'*({498 + more})+'€'*500)", capture=1000)
        job.expect(0)
        tap.check(job.record["stdout_truncated"], "not marked as truncated")
        text = job.record["stdout"]
        kept = text.count("a") + 3 * text.count("€")
        tap.lacks(text, "\ufffd", "text")
        tap.equal(job.record["stdout_encoding"], "utf-8", "encoding")
        # The line between the halves, which tells how much is missing, has letters too.
        line = re.search(r"\n?[^\n€]*\b\d+[^\n€]*\n?", text.replace("a" * 100, ""))
        tap.check(line is not None, f"no line tells what is missing: {text!r}")
        tap.check(900 <= kept <= 1000 + line.group().count("a"), f"{kept} bytes are kept")
        tap.equal(job.record["stdout_bytes"], 498 + more + 1500 + 1, "all bytes")


def cut_character_by_limit(way):
    """The same for the limit, which ends the job."""
    for more in range(4):
        job = way.run(
            "/usr/bin/python3",
            "-c",
            f"print('a'*({998 + more})+'€'*50)",
            limits={"output": 1000},
            seconds=30,
        )
        tap.equal((job.outcome, job.limit), ("limit", "output"), "end")
        tap.equal(job.record["stdout_encoding"], "utf-8", "encoding")
        tap.lacks(job.record["stdout"], "\ufffd", "text")
        tap.check(len(job.out) <= 1000, f"{len(job.out)} bytes are kept")


def tail_is_kept(way):
    job = way.run(command="seq 1 200000; echo 'FAILED test_x: boom' >&2; exit 1", capture=2000)
    job.expect(1, err="FAILED test_x: boom\n")
    tap.check(job.text.startswith("1\n2\n3\n"), f"no head: {job.text[:50]!r}")
    tap.check(job.text.endswith("\n199999\n200000\n"), f"no tail: {job.text[-50:]!r}")
    total = sum(len(f"{n}\n") for n in range(1, 200001))
    tap.equal(job.record["stdout_bytes"], total, "bytes in all")
    missing = [int(n) for n in re.findall(r"\d+", job.text) if int(n) > 200000]
    tap.check(len(missing) >= 1 and missing[0] >= total - 2100, f"the cut is not told: {missing}")


def other_bytes(way):
    job = way.run("/usr/bin/printf", r"ok \260\241\377\376 end\n")
    job.expect(0, out=b"ok \xb0\xa1\xff\xfe end\n")


def other_bytes_are_marked(way):
    job = way.run("/usr/bin/printf", r"ok \260\241\377\376 end\n")
    tap.equal(job.record["stdout_encoding"], "base64", "encoding")
    job = way.run("/usr/bin/printf", r"ok \303\244 end\n")
    tap.equal(
        (job.record["stdout_encoding"], job.record["stdout"]), ("utf-8", "ok ä end\n"), "text"
    )


def endless(way, **more):
    job = way.run("/usr/bin/yes", limits={"output": "1M"}, seconds=60, **more)
    tap.equal((job.outcome, job.limit), ("limit", "output"), f"end: {job}")
    tap.check(job.seconds < 20, f"took {job.seconds} s")
    limit = job.record["limit"]
    tap.equal((limit["max"], limit["level"]), (1 << 20, "job"), "limit")
    tap.check(limit["observed"] >= 1 << 20, f"observed is {limit['observed']}")
    tap.check(
        job.record["stdout_bytes"] < 2 << 20, f"{job.record['stdout_bytes']} bytes were taken"
    )


def endless_memory(way):
    before = way.broker.memory()
    endless(way, capture=None)
    tap.check(
        way.broker.memory() - before < 8 << 20, f"the broker grew to {way.broker.memory()} bytes"
    )


def streams_apart(way):
    way.run(command="echo out; echo err >&2; exit 4").expect(4, out="out\n", err="err\n")


def no_newline(way):
    way.run("/usr/bin/printf", r"a\nb").expect(0, out="a\nb", err="")
    way.run("/bin/true").expect(0, out="", err="")


def main():
    tap.become_subreaper()
    with jobs.ways() as ways:
        run, call = ways
        for way in ways:
            tap.case(
                f"OUT-01 background child keeps the pipe open ({way.name})", background_child, way
            )
            tap.case(
                f"OUT-02 more than a pipe holds on both streams ({way.name})", both_pipes_full, way
            )
            tap.case(f"OUT-05 bytes that are not UTF-8 ({way.name})", other_bytes, way)
            tap.case(f"OUT-06 endless output ({way.name})", endless, way)
            tap.case(f"OUT-07 streams are apart ({way.name})", streams_apart, way)
            tap.case(f"OUT-09 last line without its end ({way.name})", no_newline, way)
        tap.case("OUT-03 cap within a character", cut_character, call)
        tap.case("OUT-03 limit within a character", cut_character_by_limit, call)
        tap.case("OUT-04 head and tail of a long output", tail_is_kept, call)
        tap.case("OUT-05 bytes that are not UTF-8 are marked", other_bytes_are_marked, call)
        tap.case("OUT-06 endless output does not fill the broker", endless_memory, call)
        tap.case("OUT-06 the runner says so on stderr", lambda: limit_told(run))


def limit_told(run):
    job = run.run("/usr/bin/yes", limits={"output": "1M"}, seconds=60)
    tap.equal(run.last.rc, 137, "exit status")
    tap.contains(job.errors, "output", "stderr")


sys.exit(tap.main(main))
