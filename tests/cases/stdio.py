#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Exit status and standard input: EXIT-01, 02, STDIN-01 to 03."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import mcp
import tap

SIGNALS = {"KILL": 9, "TERM": 15, "SEGV": 11, "SYS": 31, "USR1": 10, "PIPE": 13}
MISSING = "/home/u/.nvm/versions/node/v22/bin/node"


def signals(way):
    for name, number in SIGNALS.items():
        job = way.run(command=f"kill -{number} $$")
        tap.equal(
            (job.outcome, job.signal, job.exit_code),
            ("signaled", f"SIG{name}", None),
            f"end: {job}",
        )
        if way.name == "agentcrate-run":
            tap.equal(way.last.rc, 128 + number, "exit status")


def codes(way):
    for code in (0, 1, 9, 124, 125, 126, 127, 128, 137, 255):
        job = way.run(command=f"exit {code}")
        tap.equal((job.outcome, job.signal, job.exit_code), ("exited", None, code), f"end: {job}")
        if way.name == "agentcrate-run":
            tap.equal(way.last.rc, code, "exit status")


def missing(way):
    job = way.run(MISSING, "-e", "1")
    tap.equal(job.outcome, "exec_failed", f"outcome: {job}")
    error = job.error
    tap.equal((error["step"], error["errno"], error["path"]), ("exec", "ENOENT", MISSING), "error")
    tap.check(error["text"] and error["remedy"], f"no text or remedy: {error}")
    if way.name == "agentcrate-run":
        tap.equal(way.last.rc, 127, "exit status")
        tap.contains(job.errors, MISSING, "stderr")
        tap.contains(job.errors, "exec_failed", "stderr")


def missing_in_path(way):
    job = way.run("no-such-command-anywhere")
    tap.equal((job.outcome, job.error["errno"]), ("exec_failed", "ENOENT"), f"end: {job}")


def exits_127(way):
    job = way.run(command="no-such-command-anywhere")
    tap.equal((job.outcome, job.exit_code, job.error), ("exited", 127, None), f"end: {job}")


def not_executable(way):
    place = tap.folder("workspace")
    tap.write(os.path.join(place, "data"), "echo no\n", 0o644)
    tap.write(os.path.join(place, "script"), "#!/no/such/interpreter\n", 0o755)
    for name, errno, status in (("data", "EACCES", 126), ("script", "ENOENT", 127)):
        job = way.run(f"/workspace/{name}", workspace=place)
        tap.equal(
            (job.outcome, job.error["errno"]), ("exec_failed", errno), f"end of {name}: {job}"
        )
        if way.name == "agentcrate-run":
            tap.check(way.last.rc in (status, 126), f"exit status of {name} is {way.last.rc}")
    tap.contains(job.error["text"], "interpreter", "text")


def no_input(way):
    way.run("/bin/cat", hang=20).expect(0, out="", err="")
    way.run(command="readlink /proc/self/fd/0").expect(0, out="/dev/null\n")


def bridge():
    """The bridge's own stream is the protocol: a job that reads never sees a byte of it."""
    with mcp.Broker() as broker:
        child = subprocess.Popen(
            [tap.program("agentcrate"), "stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=tap.clean_env(AGENTCRATE_SOCKET=broker.path),
            cwd="/",
        )
        try:
            client = mcp.Client(streams=(child.stdin, child.stdout))
            first = client.start(
                "tools/call", {"name": "sandbox_exec", "arguments": {"argv": ["cat"]}}
            )
            second = client.start(
                "tools/call", {"name": "sandbox_exec", "arguments": {"command": "echo second"}}
            )
            tap.equal(
                client.wait(second)["structuredContent"]["stdout"], "second\n", "second answer"
            )
            record = client.wait(first)["structuredContent"]
            tap.equal((record["outcome"], record["stdout"]), ("exited", ""), "first answer")
        finally:
            child.stdin.close()
            child.wait(timeout=20)
            child.stdout.close()


BY_NAME = {
    "seq 3 | cat /dev/stdin": b"1\n2\n3\n",
    "seq 3 | cat < /dev/stdin": b"1\n2\n3\n",
    "seq 3 | cat /proc/self/fd/0": b"1\n2\n3\n",
    "echo x | tee /dev/stderr": b"x\n",
    "echo x > /dev/stdout": b"x\n",
    "echo x >> /dev/fd/1": b"x\n",
    "cat /dev/stdin": b"",
    "cat < /dev/stdin": b"",
    "cat /proc/self/fd/0": b"",
}


def by_name(way):
    for text, out in BY_NAME.items():
        job = way.run(command=text, hang=20)
        tap.check(job.exit_code == 0 and job.out == out, f"{text}: {job}")
    way.run(command="echo x | tee /dev/stderr").expect(0, out="x\n", err="x\n")


def by_name_given(way):
    """With input of the caller's, from the pipes that the job was given."""
    data = b"one\ntwo\n\xff\x00three"
    for text in (
        "cat",
        "cat /dev/stdin",
        "cat < /dev/stdin",
        "cat /proc/self/fd/0",
        "cat /dev/fd/0 > /dev/stdout",
    ):
        job = way.run(command=text, stdin=data, hang=20)
        tap.check(job.exit_code == 0 and job.out == data, f"{text}: {job}")


def large_input(way):
    data = bytes(range(256)) * 8192
    job = way.run("/usr/bin/sha256sum", stdin=data, hang=30)
    import hashlib  # pylint: disable=import-outside-toplevel

    job.expect(0, out=hashlib.sha256(data).hexdigest() + "  -\n")


def search(way):
    place = tap.folder("workspace")
    tap.write(os.path.join(place, "file"), "a\nneedle\n")
    job = way.run(command="grep -r needle", workspace=place, hang=20)
    job.expect(0, out="file:needle\n")


def search_rg(way):
    tap.need("rg")
    place = tap.folder("workspace")
    tap.write(os.path.join(place, "file"), "a\nneedle\n")
    job = way.run("rg", "needle", workspace=place, hang=20)
    tap.check(job.exit_code == 0 and "needle" in job.text, str(job))


def main():
    with jobs.ways() as ways:
        for way in ways:
            tap.case(f"EXIT-01 a signal is told as a signal ({way.name})", signals, way)
            tap.case(f"EXIT-01 an exit code is told as a code ({way.name})", codes, way)
            tap.case(f"EXIT-02 a missing command is told apart ({way.name})", missing, way)
            tap.case(f"EXIT-02 a missing command of the PATH ({way.name})", missing_in_path, way)
            tap.case(f"EXIT-02 a command that exits 127 itself ({way.name})", exits_127, way)
            tap.case(f"EXIT-02 no execute bit, no interpreter ({way.name})", not_executable, way)
            tap.case(f"STDIN-01 no input is the end of file ({way.name})", no_input, way)
            tap.case(f"STDIN-02 standard files by name ({way.name})", by_name, way)
            tap.case(f"STDIN-02 input of the caller's by name ({way.name})", by_name_given, way)
            tap.case(f"STDIN-02 two megabytes of input ({way.name})", large_input, way)
            tap.case(f"STDIN-03 grep searches the folder ({way.name})", search, way)
            tap.case(f"STDIN-03 rg searches the folder ({way.name})", search_rg, way)
    tap.case("STDIN-01 a job never reads the bridge's stream", bridge)


sys.exit(tap.main(main))
