#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""What ordinary programs notice of the filter: SEC-01 to 05.

The i386 half of SEC-05 is SEC-03's: the foreign architecture is refused as a whole. An armhf binary
on arm64 is left to that architecture.
"""

import os
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import tap

PROBE = "/workspace/crate-probe"
PROFILES = (None, "strict")
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DGRAM = 1, 2
HIGH = 1 << 32


def workspace():
    place = tap.folder("workspace")
    shutil.copy(tap.helper("crate-probe"), place)
    os.chmod(os.path.join(place, "crate-probe"), 0o755)
    return place


def answers(way, profile, questions):
    job = way.run(PROBE, *questions, workspace=workspace(), profile=profile).expect(0)
    return dict(line.split("\t", 1) for line in job.text.splitlines() if "\t" in line)


def check_answers(way, expected):
    for profile in PROFILES:
        tap.equal(answers(way, profile, expected), expected, f"answers in {profile or 'default'}")


def threads(way):
    for profile in PROFILES:
        text = (
            "import threading; t = threading.Thread(target=print, args=('ok',)); t.start(); "
            "t.join()"
        )
        way.run("/usr/bin/python3", "-c", text, profile=profile).expect(0, out="ok\n", err="")
        way.run(command="getent hosts localhost | wc -l", profile=profile).expect(
            0, out="1\n", err=""
        )
    check_answers(
        way,
        {
            "call=clone3": "ENOSYS",
            "clone=0": "OK",
            "clone=0x20000000": "EPERM",
            "clone=0x10000000": "EPERM",
        },
    )


def io_uring(way):
    """A look for it is no reason to die."""
    if tap.host_has("node"):
        for profile in PROFILES:
            way.run("/usr/bin/node", "-e", "console.log(1)", profile=profile, seconds=60).expect(
                0, out="1\n", err=""
            )
    check_answers(
        way, {"call=io_uring_setup": "ENOSYS", "call=unknown": "ENOSYS", "call=bpf": "ENOSYS"}
    )


def uvloop(way):
    if (
        way.run(
            "/usr/bin/python3", "-c", "import importlib.util as u; print(u.find_spec('uvloop'))"
        ).text
        == "None\n"
    ):
        raise tap.Skip("host has no uvloop")
    way.run("/usr/bin/python3", "-c", "import uvloop; print(1)").expect(0, out="1\n")


def i386_program():
    """exit(42) by the 32-bit gate, as a whole ELF file."""
    code = b"\xb8\x01\x00\x00\x00" b"\xbb\x2a\x00\x00\x00" b"\xcd\x80"
    base, offset = 0x08048000, 52 + 32
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, base + offset, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    size = offset + len(code)
    header += struct.pack("<IIIIIIII", 1, 0, base, base, size, size, 5, 0x1000)
    return header + code


def foreign_architecture(way):
    place = tap.folder("workspace")
    path = tap.write(os.path.join(place, "program"), i386_program(), 0o755)
    try:
        outside = tap.run([path]).rc
    except OSError:
        outside = None
    if outside != 42:
        raise tap.Skip("host kernel runs no 32-bit programs")
    for profile in PROFILES:
        job = way.run("/workspace/program", workspace=place, profile=profile)
        tap.equal((job.outcome, job.signal), ("signaled", "SIGSYS"), f"end: {job}")
        evidence = " ".join(entry["text"] for entry in job.record["evidence"])
        tap.contains(evidence, "architecture", "evidence")


def foreign_architecture_unknown(way):
    """Where the kernel cannot run it, that is an exec that failed, with its errno."""
    place = tap.folder("workspace")
    path = tap.write(os.path.join(place, "program"), i386_program(), 0o755)
    try:
        tap.run([path])
    except OSError:
        pass
    else:
        raise tap.Skip("host kernel runs 32-bit programs")
    job = way.run("/workspace/program", workspace=place)
    tap.equal((job.outcome, job.error["errno"]), ("exec_failed", "ENOEXEC"), f"end: {job}")


def high_bits(way):
    expected = {
        f"ioctl=0,{0x5412 | HIGH:#x}": "EPERM",
        f"ioctl=0,{0x541C | 1 << 40:#x}": "EPERM",
        f"ioctl=0,{0x5412:#x}": "EPERM",
        f"clone={0x10000000 | HIGH:#x}": "EPERM",
        f"socket={40 | HIGH:#x},{STREAM},0": "EAFNOSUPPORT",
        f"socket={38 | 1 << 63:#x},5,0": "EAFNOSUPPORT",
        f"socket={NETLINK | HIGH:#x},{DGRAM | HIGH:#x},{4 | HIGH:#x}": "EPROTONOSUPPORT",
        f"act-on=prlimit64,{1 | HIGH:#x}": "EPERM",
        "setid=chmod_high": "EPERM",
        # What is allowed is so with high bits too: the kernel does not see them.
        f"socket={UNIX | HIGH:#x},{STREAM},0": "OK",
    }
    check_answers(way, expected)


def families(way):
    expected = {f"socket={family},{STREAM},0": "OK" for family in (UNIX, INET, INET6)}
    expected.update({f"socket={family},{DGRAM},0": "OK" for family in (UNIX, INET, INET6)})
    expected.update({f"socket={family},3,0": "EAFNOSUPPORT" for family in (17, 38, 40, 29, 44)})
    expected[f"socketpair={UNIX},{STREAM}"] = "OK"
    check_answers(way, expected)


def main():
    with jobs.ways() as ways:
        for way in ways:
            tap.case(f"SEC-01 threads start without clone3 ({way.name})", threads, way)
            tap.case(f"SEC-02 a look for io_uring kills nobody ({way.name})", io_uring, way)
            tap.case(f"SEC-02 uvloop is imported ({way.name})", uvloop, way)
            tap.case(
                f"SEC-03 a foreign architecture is killed and named ({way.name})",
                foreign_architecture,
                way,
            )
            tap.case(
                f"SEC-03 a foreign program that cannot run ({way.name})",
                foreign_architecture_unknown,
                way,
            )
            tap.case(f"SEC-04 high bits change nothing ({way.name})", high_bits, way)
            tap.case(f"SEC-05 socket families ({way.name})", families, way)


sys.exit(tap.main(main))
