#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Terminals: DEV-04, DEV-05, and what else --tty promises."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

RUN = tap.program("agentcrate-run")


class Session:
    """A bash script on a terminal of its own, of which the test holds the other end."""

    def __init__(self, script, rows=40, columns=100):
        self.output = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir("/")
            # The first line says that the size has been set and the script may begin.
            os.execve("/bin/bash", ["bash", "--norc", "-c", "read -r _; " + script],
                      tap.clean_env(RUN=RUN, TERM="xterm"))
        self.resize(rows, columns)
        self.type("\n")

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def modes(self):
        return termios.tcgetattr(self.master)

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.output += os.read(self.master, 65536)
                return True
            except OSError:
                pass
        return False

    def expect(self, text, seconds=20):
        """Waits for text in the output; what stands before and with it is taken away."""
        end = time.monotonic() + seconds
        while text.encode() not in self.output:
            if time.monotonic() >= end or not self.read(max(0.0, end - time.monotonic())):
                raise tap.Failed(f"{text!r} did not come: {self.output!r}")
        before, self.output = self.output.split(text.encode(), 1)
        return before.decode("utf-8", "backslashreplace")

    def wait(self, seconds=20):
        """The exit status of the script, 128+n for a signal; its last output is kept."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                while self.read(0):
                    pass
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        raise tap.Failed(f"the script hangs: {self.output!r}")

    def runner(self):
        """The pid of the agentcrate-run that the script has started."""
        def find():
            try:
                with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as file:
                    for pid in file.read().split():
                        with open(f"/proc/{pid}/comm", encoding="ascii") as name:
                            if name.read().strip() == "agentcrate-run":
                                return int(pid)
            except OSError:
                pass
            return 0

        pid = tap.wait_until(find)
        tap.check(pid, "agentcrate-run does not run")
        return pid

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


def after_an_ordinary_end():
    with Session('echo begin; "$RUN" --tty -- bash -c exit; echo rc=$?; read -r x; echo "got=$x"; '
                 "sleep 60") as session:
        session.expect("begin")
        before, group = session.modes(), os.tcgetpgrp(session.master)
        session.expect("rc=0")
        tap.equal(session.modes(), before, "terminal modes")
        tap.equal(os.tcgetpgrp(session.master), group, "foreground group")
        session.type("hello\n")
        session.expect("got=hello")
        time.sleep(0.2)
        session.type("\x03")
        tap.equal(session.wait(), 130, "status after control-C in the sleep")


def after_a_signal(signum, seconds=10):
    """The modes come back however the runner ends; after SIGKILL by its guard, so a bit later."""
    with Session('echo begin; "$RUN" --tty -- sh -c "echo in-the-crate; sleep 300"; echo rc=$?; '
                 'read -r x; echo "got=$x"; sleep 60') as session:
        session.expect("begin")
        before = session.modes()
        session.expect("in-the-crate")
        tap.check(session.modes() != before, "the terminal is not raw while the job runs")
        os.kill(session.runner(), signum)
        session.expect(f"rc={128 + signum}")
        tap.check(tap.wait_until(lambda: session.modes() == before, seconds),
                  lambda: f"modes are not restored: {session.modes()!r}")
        session.type("hello\n")
        session.expect("got=hello")
        time.sleep(0.2)
        session.type("\x03")
        tap.equal(session.wait(), 130, "status after control-C in the sleep")


def after_a_failed_start():
    with Session('"$RUN" --tty -- /no/such/command; echo rc=$?; read -r x; echo "got=$x"'
                 ) as session:
        before = session.modes()
        session.expect("rc=127")
        tap.equal(session.modes(), before, "terminal modes")
        session.type("hello\n")
        session.expect("got=hello")
        tap.equal(session.wait(), 0, "status")


def window_size():
    with Session('"$RUN" --tty -- sh -c "stty size; read x; stty size"; echo rc=$?') as session:
        session.expect("40 100")
        session.resize(51, 123)
        time.sleep(0.3)
        session.type("\r")
        session.expect("51 123")
        session.expect("rc=0")
        tap.equal(session.wait(), 0, "status")


def control_c_reaches_the_job():
    with Session('"$RUN" --tty -- sh -c "trap \'echo caught; exit 7\' INT; echo ready; '
                 'while :; do sleep 0.1; done"; echo rc=$?') as session:
        session.expect("ready")
        session.type("\x03")
        session.expect("caught")
        session.expect("rc=7")


def terminal_is_private():
    """The job's terminal is the only one that it has, whatever is open outside."""
    with Session('"$RUN" --tty -- sh -c "echo begin; tty; ls /dev/pts; ls -l /proc/self/fd"; '
                 "echo rc=$?") as session:
        session.expect("begin")
        text = session.expect("rc=0")
        tap.equal(text.split()[:3], ["/dev/pts/0", "0", "ptmx"], "terminals in the crate")
        tap.equal(set(re.findall(r"-> (/dev/\S+)", text)), {"/dev/pts/0"}, "standard files")


def large_output():
    """Everything that was written to the terminal arrives, also what came right before the end."""
    with Session('"$RUN" --tty -- sh -c "seq 1 100000; echo the-end"; echo rc=$?') as session:
        text = session.expect("rc=0", 60)
        numbers = [line for line in text.split("\r\n") if line.isdigit()]
        tap.equal(len(numbers), 100000, "lines")
        tap.contains(text, "the-end")


def input_that_ends():
    """A file as standard input ends the terminal's input too."""
    for text in "abc\n", "abc":
        ran = tap.crate("cat", options=["--tty"], stdin=text.encode()).expect(0)
        tap.contains(ran.text, "abc")


def input_that_ends_early():
    """A shell that edits lines changes the terminal's mode after our input has ended: the end is
    not lost by that."""
    for given, output in (b"", None), (b"echo hi\n", "hi"), (b"echo hi", "hi"):
        ran = tap.crate("bash", "--norc", "-i", options=["--tty"], stdin=given, timeout=20)
        ran.expect(0)
        if output:
            lines = re.sub("\x1b\\[[?0-9]*[a-z]|\r", "\n", ran.text).split("\n")
            tap.contains(lines, output, "lines")
    with Session('"$RUN" --tty -- bash --norc -i </dev/null; echo rc=$?') as session:
        session.expect("rc=0")
        tap.equal(session.wait(), 0, "status")


READER = """
import os, sys, time
text = os.read(0, 100)
time.sleep(1.5)
os.set_blocking(0, False)
ends = 0
try:
    while not os.read(0, 100):
        ends += 1
except BlockingIOError:
    pass
print("read", text, "and", ends, "ends")
"""


def one_end_at_a_time():
    """However long it reads nothing, a job finds one end and no heap of them."""
    tap.need("python3")
    ran = tap.crate("/usr/bin/python3", "-c", READER, options=["--tty"], stdin=b"abc\n", timeout=30)
    tap.contains(ran.expect(0).text, "read b'abc\\n' and 1 ends")


def every_read_has_its_end():
    """As with a file: whoever reads after the end is told of it too."""
    ran = tap.shell("cat; sleep 1; cat; cat; echo done", options=["--tty"], stdin=b"abc\n",
                    timeout=30)
    tap.contains(ran.expect(0).text, "done")


def output_without_terminal():
    ran = tap.shell("test -t 0 && test -t 1 && test -t 2 && echo all", options=["--tty"]).expect(0)
    tap.contains(ran.text, "all")


def limit_on_a_terminal():
    with Session('"$RUN" --tty -t 1 -- sh -c "echo begin; sleep 100"; echo rc=$?') as session:
        session.expect("begin")
        session.expect("agentcrate-run: limit wall_time: 1s")
        session.expect("rc=124")


def background_job_does_not_stop():
    """A runner in the background of its terminal leaves the terminal's input alone."""
    with Session('set -m; "$RUN" -- sh -c "sleep 1; echo slept" & read -r x; echo "got=$x"; wait; '
                 "echo rc=$?") as session:
        session.type("mine\n")
        session.expect("got=mine")
        session.expect("slept")
        session.expect("rc=0")


def interactive_bash_without_terminal():
    tap.crate("bash", "-i", "-c", "echo ok").expect(0, out="ok\n")
    tap.shell("test -t 0 || test -t 1 || test -t 2 || echo none").expect(0, out="none\n")


def interactive_bash_with_terminal():
    with Session('"$RUN" --tty -- bash --norc -i -c "echo ok; case \\$- in *m*) echo jobs;; esac"; '
                 "echo rc=$?") as session:
        text = session.expect("rc=0")
        tap.contains(text, "ok\r\njobs")
        tap.lacks(text, "job control")
        tap.lacks(text, "terminal process group")


def interactive_fish():
    tap.need("fish")
    tap.crate("fish", "-c", "echo ok").expect(0, out="ok\n")
    with Session('"$RUN" --tty -- fish -c "echo ok"; echo rc=$?') as session:
        tap.contains(session.expect("rc=0"), "ok")


def main():
    tap.case("DEV-04 terminal works after an ordinary end", after_an_ordinary_end)
    for signum in signal.SIGTERM, signal.SIGHUP, signal.SIGKILL:
        tap.case(f"DEV-04 terminal works after {signum.name} to the runner", after_a_signal, signum)
    tap.case("DEV-04 terminal works after a command that cannot start", after_a_failed_start)
    tap.case("DEV-04 changes of the window size reach the job", window_size)
    tap.case("DEV-04 control-C reaches the job", control_c_reaches_the_job)
    tap.case("DEV-04 limit on a terminal is named", limit_on_a_terminal)
    tap.case("DEV-05 bash -i without terminal", interactive_bash_without_terminal)
    tap.case("DEV-05 bash -i with terminal has job control", interactive_bash_with_terminal)
    tap.case("DEV-05 fish with and without terminal", interactive_fish)
    tap.case("terminal of the job is its own", terminal_is_private)
    tap.case("terminal loses no output", large_output)
    tap.case("terminal's input ends with ours", input_that_ends)
    tap.case("terminal's input ends with ours, for a shell too", input_that_ends_early)
    tap.case("terminal's input ends once where nobody reads it", one_end_at_a_time)
    tap.case("terminal's input has an end for each reader", every_read_has_its_end)
    tap.case("terminal though ours is none", output_without_terminal)
    tap.case("runner in the background does not take the terminal's input",
             background_job_does_not_stop)


sys.exit(tap.main(main))
