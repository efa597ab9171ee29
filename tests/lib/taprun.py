# SPDX-License-Identifier: Apache-2.0
"""Running script tests and making one TAP stream of what they print.

A run that ends early, miscounts or fails without a failed point is a failed point itself.
"""

import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import canary

POINT = re.compile(r"(not )?ok\b\s*\d*\s*(?:- )?(.*)")
PLAN = re.compile(r"1\.\.(\d+)\s*(?:#\s*skip\S*\s*(.*))?$", re.I)


def read_header(path):
    """What a script says of itself in comments "# test-NAME: VALUE" and "# vm-NAME: VALUE" of its
    first lines, as {"test-NAME": VALUE}."""
    header = {}
    with open(path, encoding="utf-8") as script:
        for line in script.readlines()[:40]:
            found = re.match(r"# ((?:test|vm)-[a-z]+):\s*(.*\S)", line)
            if found:
                header[found[1]] = found[2]
    return header


def children_seconds():
    """Processor time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Report:
    """One TAP stream made of those of several runs."""

    def __init__(self):
        self.count = self.failures = 0

    def point(self, ok, text):
        self.count += 1
        self.failures += not ok
        print(f"{'ok' if ok else 'not ok'} {self.count} - {text}", flush=True)

    def skip(self, text, reason):
        self.point(True, f"{text} # SKIP {reason}")

    def plan(self):
        print(f"1..{self.count}", flush=True)


class Run:
    """One run of a script. before and after stand around the names of its points."""

    def __init__(self, report, script, before="", after=""):
        self.report, self.script, self.before, self.after = report, script, before, after
        self.ran = self.failed = 0
        self.planned = None

    def _point(self, ok, text):
        self.report.point(ok, self.before + text)
        self.failed += not ok

    def _line(self, line):
        if canary.find(line.encode()):
            self._point(False, f"{self._name()}: what it prints has what must not get out")
        point, plan = POINT.match(line), PLAN.match(line)
        if point:
            text, hashed, directive = point[2].partition(" # ")
            self._point(not point[1], text + self.after + hashed + directive)
            self.ran += 1
        elif plan:
            self.planned = int(plan[1])
            if self.planned == 0:
                self._point(True, f"{self._name()} # SKIP {plan[2] or ''}")
        elif line.startswith("Bail out!"):
            self._point(False, f"{self._name()}: {line}")
        else:
            print(line if line.startswith("#") else f"# {line}", flush=True)

    def _name(self):
        return os.path.basename(self.script) + self.after

    def _run_in(self, scratch, prefix, seconds):
        """In a process group of its own that does not outlive it."""
        child = subprocess.Popen(
            ["timeout", "--kill-after=10", str(seconds), *prefix, "env",
             f"AGENTCRATE_TEST_SCRATCH={scratch}",
             f"{canary.VARIABLE}={canary.WORD}", self.script],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
            start_new_session=True, cwd="/")
        for line in child.stdout:
            self._line(line.rstrip("\n"))
        status = child.wait()
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return status

    def run(self, prefix, seconds, owner=None):
        """Run the script once, by the command that prefix begins. Its folders lie in one that is
        removed here too, for a script that is killed removes nothing."""
        scratch = tempfile.mkdtemp(prefix="agentcrate-test.", dir="/var/tmp")
        begin, busy = time.monotonic(), children_seconds()
        try:
            os.chmod(scratch, 0o755)
            if owner is not None:
                os.chown(scratch, owner, owner)
            status = self._run_in(scratch, prefix, seconds)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        # For tests/lib/summary, which names the slowest. What is far from busy waits for something.
        print(f"# took {time.monotonic() - begin:.0f} s, {children_seconds() - busy:.0f} s busy: "
              f"{self.before}{self._name()}", flush=True)
        if status in (124, 137, -signal.SIGKILL):
            self._point(False, f"{self._name()}: hung, killed after {seconds} s")
        elif self.planned is None or (self.planned and self.planned != self.ran):
            of = "no plan" if self.planned is None else self.planned
            self._point(False, f"{self._name()}: ended early, status {status}, "
                               f"{self.ran} points of {of}")
        elif status != 0 and not self.failed:
            self._point(False, f"{self._name()}: status {status}")
        return status
