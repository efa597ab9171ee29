# SPDX-License-Identifier: Apache-2.0
"""strace, attached to one process."""

import os
import re
import shutil
import signal
import subprocess

import tap


class Traced:
    """strace attached to one process, with what is injected."""

    def __init__(self, pid, *options):
        self.path = os.path.join(tap.folder("trace"), "calls")
        self.process = subprocess.Popen(
            ["strace", "-q", "-o", self.path, *options, "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if not tap.wait_until(lambda: self._has(pid), 10):
            self.end()
            raise tap.Failed(f"strace did not attach: {self.process.stderr.read()!r}")

    def _has(self, pid):
        """It is attached; or the process has met its end already, in the call it was found in."""
        status = status_of(pid)
        return (
            f"TracerPid:\t{self.process.pid}\n" in status
            or "State:\tZ" in status
            or not status
        )

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                tap.kill_and_wait(self.process)

    def calls(self):
        """The system calls in their order."""
        with open(self.path, encoding="utf-8", errors="replace") as file:
            found = re.findall(r"^(?:\d+ +)?(\w+)\(", file.read(), re.M)
        # What it slept in when we came is taken up again by that name.
        return [call for call in found if call != "restart_syscall"]

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.end()
        self.process.stderr.close()


def status_of(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def can_trace():
    """A reason why not, or None."""
    if not shutil.which("strace"):
        return "host has no strace"
    child = subprocess.Popen(["sleep", "30"])
    try:
        with Traced(child.pid):
            return None
    except tap.Failed:
        return "host lets nobody trace"
    finally:
        tap.kill_and_wait(child)
