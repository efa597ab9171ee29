#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""agentcrate-run as a program among others: OUT-08, PROC-03, STDIN-02's half outside, and what it
does with its standard files, its signals and the file of --result.

OUT-08 (c), a client that goes away, is in the broker's tests.
"""

import json
import os
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import machine  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

RUN = tap.program("agentcrate-run")


def start(*arguments, **kwargs):
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([RUN, *arguments], env=tap.clean_env(), cwd="/", **kwargs)


def wait(process, seconds=20):
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise tap.Failed(f"{process.args!r} hangs") from None


def nothing_is_left():
    """No process of a crate may outlive its runner."""
    left = {}

    def look():
        nonlocal left
        left = machine.descendants()
        return not left

    tap.check(tap.wait_until(look), lambda: f"left: {left!r}")


def bash(text, seconds=60):
    return tap.run(["/bin/bash", "-c", text], timeout=seconds, env=tap.clean_env(RUN=RUN))


# --- OUT-08 ---


def reader_goes_away():
    ran = bash('"$RUN" -- yes | head -1; echo "${PIPESTATUS[0]}"', 20)
    ran.expect(0, out="y\n141\n", err="")
    nothing_is_left()


def reader_of_errors_goes_away():
    ran = bash('{ "$RUN" -- sh -c "yes >&2"; echo $? >&3; } 3>&1 2>&1 >/dev/null | head -1', 20)
    tap.equal(ran.rc, 0, "status")
    nothing_is_left()


def reader_stops():
    """The time limit works while nobody reads, and the end does not wait for the reader."""
    read_end, write_end = os.pipe()
    try:
        process = start("-t", "1", "--", "sh", "-c", "yes | head -c 5000000",
                        stdout=write_end, stderr=subprocess.PIPE)
        os.close(write_end)
        started = time.monotonic()
        tap.equal(wait(process), 124, "status")
        tap.check(time.monotonic() - started < 15, "the limit came far too late")
        tap.contains(process.stderr.read().decode(), "limit wall_time")
        process.stderr.close()
    finally:
        os.close(read_end)
    nothing_is_left()


def reader_is_slow():
    """What the job has written arrives whole, however late it is read."""
    ran = bash('"$RUN" -- sh -c "yes | head -c 5000000" | { sleep 2; wc -c; }')
    ran.expect(0, out="5000000\n")


def reader_of_one_stream_stops():
    """A blocked standard output does not hold up standard error."""
    read_end, write_end = os.pipe()
    try:
        process = start("--", "sh", "-c",
                        "(yes | head -c 5000000) & sleep 0.5; echo here >&2; wait",
                        stdout=write_end, stderr=subprocess.PIPE)
        os.close(write_end)
        tap.equal(process.stderr.readline(), b"here\n", "standard error")
        total = 0
        while data := os.read(read_end, 1 << 20):
            total += len(data)
        tap.equal(total, 5000000, "bytes")
        tap.equal(wait(process), 0, "status")
        process.stderr.close()
    finally:
        os.close(read_end)


def output_is_full():
    """A file system without room is an error of the runner, named once."""
    with open("/dev/full", "wb") as full:
        process = start("--", "yes", stdout=full, stderr=subprocess.PIPE)
        _out, err = process.communicate(timeout=20)
    tap.equal(process.returncode, 125, "status")
    tap.contains(err.decode(), "No space left on device")
    tap.equal(err.count(b"\n"), 1, "lines")
    nothing_is_left()


def flags_are_not_touched():
    """What we inherit is shared with whoever started us: it never becomes non-blocking."""
    import fcntl  # pylint: disable=import-outside-toplevel

    read_end, write_end = os.pipe()
    in_read, in_write = os.pipe()
    try:
        process = start("--", "sh", "-c", "echo ready; cat >/dev/null", stdin=in_read,
                        stdout=write_end, stderr=write_end)
        tap.equal(os.read(read_end, 6), b"ready\n", "output")
        for fd in in_read, write_end:
            tap.check(not fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_NONBLOCK, "O_NONBLOCK was set")
        os.close(in_write)
        in_write = -1
        tap.equal(wait(process), 0, "status")
    finally:
        for fd in read_end, write_end, in_read, in_write:
            if fd >= 0:
                os.close(fd)


# --- standard input ---


def stdin_kinds():
    path = tap.write(os.path.join(tap.scratch(), "input"), "from a file\n")
    with open(path, "rb") as file:
        tap.equal(subprocess.run([RUN, "cat"], stdin=file, stdout=subprocess.PIPE, timeout=60,
                                 env=tap.clean_env(), check=True).stdout, b"from a file\n", "file")
    tap.crate("cat", stdin=b"x" * 3000000).expect(0, out=b"x" * 3000000)
    tap.crate("cat").expect(0, out="")
    bash('"$RUN" -- cat <&-').expect(0, out="", err="")
    bash("seq 3 | \"$RUN\" -- sh -c 'cat /dev/stdin'").expect(0, out="1\n2\n3\n")
    bash("seq 3 | \"$RUN\" -- sh -c 'cat /proc/self/fd/0'").expect(0, out="1\n2\n3\n")
    ran = bash('"$RUN" -- cat </')
    tap.equal(ran.rc, 0, "status")
    tap.contains(ran.errors, "Is a directory")


def stdin_socket():
    import socket  # pylint: disable=import-outside-toplevel

    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = start("--", "sh", "-c", "read a; echo got $a; read b; echo got $b", stdin=theirs,
                        stdout=theirs)
        ours.sendall(b"one\n")
        tap.equal(ours.recv(100), b"got one\n", "first answer")
        ours.sendall(b"two\n")
        tap.equal(ours.recv(100), b"got two\n", "second answer")
        tap.equal(wait(process), 0, "status")


def stdin_that_nobody_reads():
    """A job that reads nothing ends the runner at once, with an endless input too."""
    bash('yes | "$RUN" -- true').expect(0, out="", err="")
    process = start("--", "true", stdin=subprocess.PIPE)
    tap.equal(wait(process), 0, "status with an input that stays open")
    process.stdin.close()


def stdin_is_echoed_while_it_comes():
    process = start("--", "cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for text in b"first\n", b"second\n":
        process.stdin.write(text)
        process.stdin.flush()
        tap.equal(process.stdout.readline(), text, "line")
    process.stdin.close()
    tap.equal(wait(process), 0, "status")
    process.stdout.close()


def closed_files():
    """With 0, 1 or 2 closed, no other file of ours takes their place."""
    for closed in "0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-":
        ran = bash(f'"$RUN" -- sh -c "echo out; echo err >&2; cat" {closed}; echo $? >&2')
        tap.equal(ran.errors.splitlines()[-1], "0", f"status with {closed}")
        if "1>&-" not in closed:
            tap.equal(ran.out, b"out\n", f"output with {closed}")


# --- PROC-03 ---


def signal_ends_the_crate(signum):
    read_end, write_end = os.pipe()
    process = start("--", "sh", "-c", "echo ready; sleep 1000", stdout=write_end)
    os.close(write_end)
    try:
        tap.equal(os.read(read_end, 6), b"ready\n", "output")
        process.send_signal(signum)
        status = wait(process)
        if signum == signal.SIGKILL:
            tap.equal(status, -signal.SIGKILL, "status")
        else:
            tap.equal(status, 128 + signum, "status")
        nothing_is_left()
    finally:
        os.close(read_end)


def signal_lets_the_job_clean_up():
    """The job hears TERM and has two seconds."""
    process = start("--", "sh", "-c", "trap 'echo bye; exit 3' TERM; echo ready; "
                    "while :; do sleep 0.1; done", stdout=subprocess.PIPE)
    tap.equal(process.stdout.readline(), b"ready\n", "output")
    process.send_signal(signal.SIGTERM)
    tap.equal(process.stdout.read(), b"bye\n", "last words")
    tap.equal(wait(process), 128 + signal.SIGTERM, "status")
    process.stdout.close()


def second_signal_insists():
    process = start("--", "sh", "-c", "trap '' TERM; echo ready; sleep 1000",
                    stdout=subprocess.PIPE)
    tap.equal(process.stdout.readline(), b"ready\n", "output")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    tap.equal(wait(process), 128 + signal.SIGTERM, "status")
    tap.check(time.monotonic() - started < 1.5, "the second signal waited for the grace")
    process.stdout.close()
    nothing_is_left()


def stubborn_job_is_killed():
    process = start("--", "sh", "-c", "trap '' TERM INT HUP; setsid sh -c \"trap '' TERM; sleep "
                    "1000\" & echo ready; sleep 1000", stdout=subprocess.PIPE)
    tap.equal(process.stdout.readline(), b"ready\n", "output")
    process.send_signal(signal.SIGINT)
    tap.equal(wait(process), 128 + signal.SIGINT, "status")
    process.stdout.close()
    nothing_is_left()


def ignored_signal_stays_ignored():
    """nohup works, and the job does not inherit what we ignore."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", "trap '' HUP; exec \"$0\" -- sh -c 'grep SigIgn /proc/self/status; "
         "echo ready; sleep 1'", RUN], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        env=tap.clean_env(), cwd="/")
    tap.equal(process.stdout.readline().split(), [b"SigIgn:", b"0" * 16], "ignored signals")
    tap.equal(process.stdout.readline(), b"ready\n", "output")
    process.send_signal(signal.SIGHUP)
    tap.equal(wait(process), 0, "status")
    process.stdout.close()


def group_signal():
    """Control-C reaches every process of the group: still one clean end."""
    process = start("--", "sh", "-c", "echo ready; sleep 1000", stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, start_new_session=True)
    tap.equal(process.stdout.readline(), b"ready\n", "output")
    os.killpg(process.pid, signal.SIGINT)
    tap.equal(wait(process), 128 + signal.SIGINT, "status")
    tap.equal(process.stderr.read(), b"", "standard error")
    process.stdout.close()
    process.stderr.close()
    nothing_is_left()


# --- --result and --json ---


def result_file():
    path = os.path.join(tap.folder("result"), "record.json")
    tap.write(path, "old", mode=0o600)
    for _ in range(2):
        tap.run([RUN, "--result", path, "--", "sh", "-c", "echo out; echo error >&2; exit 3"]
                ).expect(3, out="out\n", err="error\n")
        with open(path, encoding="utf-8") as file:
            record = json.load(file)
        tap.equal(record["exit_code"], 3, "exit_code")
        tap.equal((record["stdout"], record["stdout_bytes"], record["stderr_bytes"]), ("", 4, 6),
                  "streams")
    tap.equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode")
    tap.equal(os.listdir(os.path.dirname(path)), ["record.json"], "files")


def result_file_through_link():
    """A link to a file is refused, for an earlier job may have put it there; one to a pipe is not:
    /dev/stdout is such a link."""
    folder = tap.folder("result")
    link, real = os.path.join(folder, "link.json"), os.path.join(folder, "real.json")
    os.symlink("real.json", link)
    tap.write(real, "untouched")
    ran = tap.run([RUN, "--result", link, "--", "echo", "started"]).expect(125, out="")
    tap.contains(ran.errors, "is a link")
    tap.contains(ran.errors, link)
    tap.equal(ran.err.count(b"\n"), 1, "lines")
    tap.equal(os.readlink(link), "real.json", "link")
    with open(real, encoding="utf-8") as file:
        tap.equal(file.read(), "untouched", "file behind the link")
    ran = tap.run([RUN, "--result", "/dev/stdout", "--", "true"]).expect(0, err="")
    tap.equal(json.loads(ran.out)["outcome"], "exited", "outcome")


def result_folder_is_swapped():
    """A job swaps the folder of the record: the one that was given is written, no other."""
    work, other = tap.folder("work"), tap.folder("other")
    os.mkdir(os.path.join(work, "out"), 0o777)
    os.chmod(work, 0o777)
    victim = tap.write(os.path.join(other, "record.json"), "mine\n", 0o666)
    record = os.path.join(work, "out", "record.json")
    swap = f"mv out moved && ln -s {other} out"
    tap.run([RUN, "-w", work, "--result", record, "--", "sh", "-c", swap]).expect(0)
    with open(victim, encoding="ascii") as file:
        tap.equal(file.read(), "mine\n", "the other folder's file")
    with open(os.path.join(work, "moved", "record.json"), encoding="utf-8") as file:
        tap.contains(file.read(), '"outcome":"exited"')


DEVICES = """import ctypes, os, stat
for mode in (stat.S_IFCHR, stat.S_IFBLK, 0x10000 | stat.S_IFCHR):
    try:
        os.mknod("device", mode | 0o600, 0)
        print("made")
    except OSError as error:
        print(error.strerror)
os.mkfifo("pipe")
open("file", "w").close()
libc = ctypes.CDLL(None, use_errno=True)
WHITEOUT = 4
print(libc.renameat2(-100, b"file", -100, b"moved", WHITEOUT), os.strerror(ctypes.get_errno()))
"""


def no_devices():
    """A job leaves no device in a workspace, not even overlayfs's 0:0; other kinds it may make."""
    work = tap.folder("work")
    os.chmod(work, 0o777)
    refused = "Operation not permitted\n"
    ran = tap.run([RUN, "-w", work, "--", "python3", "-c", DEVICES])
    ran.expect(0, out=refused * 3 + "-1 " + refused)
    tap.equal(sorted(os.listdir(work)), ["file", "pipe"], "what the job has left")


def result_file_that_cannot_be():
    """It is known before the job starts."""
    marker = os.path.join(tap.folder("marker"), "touched")
    work = os.path.dirname(marker)
    os.chmod(work, 0o777)
    os.symlink("nowhere", os.path.join(work, "dangling"))
    for path in "/no/such/folder/x", work, os.path.join(work, "dangling"), "/proc/x":
        ran = tap.run([RUN, "-w", work, "--result", path, "--", "touch", "/workspace/touched"])
        tap.equal(ran.rc, 125, f"status for {path}")
        tap.contains(ran.errors, path)
        tap.equal(ran.err.count(b"\n"), 1, "lines")
        tap.check(not os.path.exists(marker), "the job was started")


def result_file_after_kill():
    """A runner that is killed leaves neither half a record nor a temporary file."""
    folder = tap.folder("result")
    process = start("--result", os.path.join(folder, "record.json"), "--", "sh", "-c",
                    "echo ready; sleep 1000", stdout=subprocess.PIPE)
    tap.equal(process.stdout.readline(), b"ready\n", "output")
    process.kill()
    process.wait()
    process.stdout.close()
    tap.equal(os.listdir(folder), [], "files")
    nothing_is_left()


def result_to_pipe():
    ran = bash('exec 3>&1; "$RUN" --result /dev/fd/3 -- sh -c "echo hidden" >/dev/null | cat')
    tap.equal(json.loads(ran.out)["stdout_bytes"], 7, "stdout_bytes")


def json_output():
    ran = tap.run([RUN, "--json", "--", "sh", "-c", "echo out; echo error >&2; exit 3"]).expect(3)
    tap.equal(ran.err, b"", "standard error")
    record = json.loads(ran.out)
    tap.equal((record["stdout"], record["stderr"]), ("out\n", "error\n"), "streams")
    tap.equal(ran.out.count(b"\n"), 1, "lines")


def limit_is_named():
    ran = tap.run([RUN, "--limit", "output=1M", "-t", "60", "--", "yes"], timeout=30)
    tap.equal(ran.rc, 137, "status")
    tap.equal(len(ran.out), 1 << 20, "bytes")
    tap.contains(ran.errors, "agentcrate-run: limit output: 1M")
    ran = tap.run([RUN, "--json", "--limit", "output=1000", "--", "yes", "€"], timeout=30)
    tap.equal(ran.rc, 137, "status")
    record = json.loads(ran.out)
    tap.equal(record["limit"]["name"], "output", "limit")
    tap.check(record["stdout_truncated"], "not marked as truncated")
    tap.equal(record["stdout_encoding"], "utf-8", "encoding")


def main():
    tap.become_subreaper()
    tap.case("OUT-08 the reader goes away", reader_goes_away)
    tap.case("OUT-08 the reader of standard error goes away", reader_of_errors_goes_away)
    tap.case("OUT-08 the reader stops reading", reader_stops)
    tap.case("OUT-08 the reader is slow", reader_is_slow)
    tap.case("OUT-08 one reader stops, the other reads on", reader_of_one_stream_stops)
    tap.case("OUT-08 the output is full", output_is_full)
    tap.case("inherited files keep their flags", flags_are_not_touched)
    tap.case("standard input of every kind", stdin_kinds)
    tap.case("standard files that are a socket", stdin_socket)
    tap.case("standard input that nobody reads", stdin_that_nobody_reads)
    tap.case("standard input is handed over while it comes", stdin_is_echoed_while_it_comes)
    tap.case("closed standard files", closed_files)
    for signum in signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL:
        tap.case(f"PROC-03 {signum.name} ends the crate", signal_ends_the_crate, signum)
    tap.case("PROC-03 the job may clean up", signal_lets_the_job_clean_up)
    tap.case("PROC-03 a second signal insists", second_signal_insists)
    tap.case("PROC-03 a job that ignores everything is killed", stubborn_job_is_killed)
    tap.case("PROC-03 a signal to the whole group", group_signal)
    tap.case("PROC-04 an ignored signal stays ignored, outside only", ignored_signal_stays_ignored)
    tap.case("--result FILE", result_file)
    tap.case("--result FILE through a link", result_file_through_link)
    tap.case("--result FILE in a folder that the job swaps", result_folder_is_swapped)
    tap.case("no device is left in a workspace", no_devices)
    tap.case("--result FILE that cannot be written", result_file_that_cannot_be)
    tap.case("--result FILE after SIGKILL", result_file_after_kill)
    tap.case("--result to a pipe", result_to_pipe)
    tap.case("--json", json_output)
    tap.case("limit output is named", limit_is_named)


sys.exit(tap.main(main))
