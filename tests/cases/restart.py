#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-exclusive: it compares pictures of the machine
# test-timeout: 900
# vm-as: root
# vm-timeout: 600
"""kill -9 of a broker or a launcher at every step of making a crate leaves nothing after the next
start: no process, cgroup, mount, net namespace or file. The client is answered with a named error
or sees its connection closed, and never waits in vain.

A step is a system call: one call is watched by strace to learn which the process makes, and then
the same call is made once for each of them, with the kill injected there. In the emulated machine
it is some of them, evenly spread, but crates have cgroups there, and scopes.
"""

import collections
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import mcp
import tap
from traced import Traced, can_trace

ANSWER_SECONDS = 40
# What a process does again and again is looked at once in so many times.
OF_ONE_KIND = 6
STEPS_MAX = 6 if "AGENTCRATE_TEST_VM" in os.environ else 1000
# Faults are looked at side by side, each in processes of its own; mostly they wait.
SIDES = 1 if STEPS_MAX < 1000 else 3
JOB = {"argv": ["/bin/sh", "-c", "sleep 0.1"]}
COMMAND = "agentcrate-laun"  # as far as the kernel keeps a name


# --- which process ---


def launchers(broker):
    """pids of our launchers, those without children last."""
    found = machine.descendants(broker.pid)
    pids = [pid for pid, command in found.items() if command == COMMAND]
    return sorted(pids, key=lambda pid: not machine.descendants(pid))


def parent(broker):
    """The one that every launcher comes from, which does nothing when a crate is made."""
    tap.wait_until(lambda: launchers(broker), 10)
    return launchers(broker)[0]


def launcher(broker):
    """The one that makes crates: below it is nothing while there are none."""
    tap.wait_until(lambda: launchers(broker), 10)
    return launchers(broker)[-1]


# --- one fault ---


def warm(client):
    """Launchers stand, stocks are full: what is traced next is one crate and nothing else."""
    tap.equal(client.exec("/bin/true")["outcome"], "exited", "the outcome before the fault")


def learn(find):
    with mcp.Broker() as broker, broker.client() as client:
        warm(client)
        with Traced(find(broker)) as traced:
            client.call("sandbox_exec", JOB)
        return traced.calls()


def steps_of(calls):
    """(system call, its how-manieth) at which to kill: each, but of many alike only some."""
    count = collections.Counter()
    steps = []
    for call in calls:
        count[call] += 1
        steps.append((call, count[call]))
    return [
        (call, n)
        for call, n in steps
        if count[call] <= OF_ONE_KIND or n % (count[call] // OF_ONE_KIND + 1) == 1
    ]


def ask(broker):
    """How the call ended, as one word."""
    try:
        with broker.client(timeout=ANSWER_SECONDS) as client:
            result = client.call("sandbox_exec", JOB)
    except (ConnectionError, mcp.Closed):
        return "closed"
    record = result.get("structuredContent")
    if record is None:
        return f"refused: {result}"
    if record["outcome"] == "lost":
        tap.check(record["error"] and record["error"]["text"], f"lost without an error: {record}")
    return record["outcome"]


def fault(find, call, n, allowed):
    """Kills at that step; what the client saw must be one of allowed."""
    broker = mcp.Broker()
    try:
        with broker.client() as client:
            warm(client)
            victim = find(broker)
            inject = f"inject={call}:signal=KILL:when={n}"
            with Traced(victim, "-e", f"trace={call}", "-e", inject):
                seen = ask(broker)
        tap.check(seen in allowed, f"{call} #{n}: the client saw {seen!r}, not one of {allowed}")
        if broker.process.poll() is None:
            # A broker that lives on has replaced what was killed.
            with broker.client() as client:
                warm(client)
    finally:
        if broker.process.poll() is None:
            broker.stop()
        else:
            broker.log.close()
    return seen


def next_start(before=None):
    with mcp.Broker() as broker, broker.client() as client:
        warm(client)
    if before:
        before.expect_same(20)


def parent_killed():
    """Without it no launcher can be replaced, so the broker gives up; the job is told as lost."""
    next_start()
    before = machine.Picture.settled()
    broker = mcp.Broker()
    try:
        with broker.client(timeout=ANSWER_SECONDS) as client:
            warm(client)
            request = client.start("tools/call", {"name": "sandbox_exec",
                                                  "arguments": {"argv": ["sleep", "300"]}})
            tap.check(tap.wait_until(lambda: "sleep" in machine.descendants().values(), 20),
                      "the job does not start")
            os.kill(parent(broker), signal.SIGKILL)
            try:
                record = client.wait(request)["structuredContent"]
                tap.equal(record["outcome"], "lost", "the job's end")
            except (ConnectionError, mcp.Closed):
                pass
        tap.check(tap.wait_until(lambda: broker.process.poll() is not None, 20),
                  "the broker runs on without the parent of its launchers")
        tap.check(broker.process.returncode != 0, "the broker ends as if all were well")
    finally:
        broker.kill()
        broker.log.close()
    next_start(before)


def some_faults(find, steps, allowed):
    """How they ended, and what was wrong."""
    seen = collections.Counter()
    failures = []
    for call, n in steps:
        try:
            seen[fault(find, call, n, allowed)] += 1
            left = machine.descendants()
            if left and not tap.wait_until(lambda: not machine.descendants(), 15):
                raise tap.Failed(f"{call} #{n}: left running: {machine.descendants()}")
        except tap.Failed as failure:
            failures.append(str(failure))
    return {"seen": seen, "failures": failures}


def begin_side(find, steps, allowed):
    """A process that has its own descendants, and orphans, to look at; what it says is one object."""
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid > 0:
        os.close(ours)
        return pid, theirs
    status = 1
    try:
        tap.become_subreaper()
        with open(ours, "w", encoding="utf-8") as file:
            json.dump(some_faults(find, steps, allowed), file)
        status = 0
    finally:
        os._exit(status)


def end_side(pid, theirs):
    with open(theirs, encoding="utf-8") as file:
        text = file.read()
    tap.equal(os.waitpid(pid, 0)[1], 0, "status of a process that looks at faults")
    return json.loads(text)


def faults(name, find, allowed):
    # The first broker of a host makes the file of sub-uids.
    next_start()
    before = machine.Picture.settled()
    steps = steps_of(learn(find))
    tap.check(len(steps) > 10, f"only {len(steps)} steps were found")
    steps = steps[:: -(-len(steps) // STEPS_MAX)]
    sides = [begin_side(find, steps[side::SIDES], allowed) for side in range(SIDES)]
    seen = collections.Counter()
    failures = []
    for ends in [end_side(*side) for side in sides]:
        seen.update(ends["seen"])
        failures += ends["failures"]
    tap.diag(f"{name}: {len(steps)} steps, seen: {dict(seen)}")
    tap.equal(failures, [], "faults that were not survived")
    tap.check(seen.keys() - {"exited"}, "no kill has met the call")
    next_start(before)


def main():
    tap.become_subreaper()
    rows = [
        ("row 81: a launcher", launcher, ("lost", "exited")),
        ("row 82: a broker", lambda broker: broker.pid, ("closed", "exited", "lost")),
    ]
    reason = can_trace()
    for name, find, allowed in rows:
        title = f"{name} that is killed at any step of making a crate leaves nothing"
        if reason:
            tap.skip(title, reason)
        else:
            tap.case(title, faults, name, find, allowed)
    tap.case("so does the parent of launchers, and the broker ends with it", parent_killed)


sys.exit(tap.main(main))
