#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-exclusive: it compares pictures of the machine
# test-timeout: 600
# vm-as: root
# vm-timeout: 400
"""stress-ng in crates, some at once: the broker answers others meanwhile, a limit that is met is
named, and nothing is left.
"""

import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import mcp
import tap

SECONDS = 3
# Of one that is sure to be ended by its limit, where that is a cgroup's and a busy machine slow.
SURE_SECONDS = 40 if "AGENTCRATE_TEST_VM" in os.environ else SECONDS
# For one that hangs, where everything is emulated as elsewhere.
HANG = 180
BROKER_GROWTH = 8 << 20
COMMON = {"memory": "96M", "pids": 40, "disk": "24M", "inodes": 2000, "wall_time": "60s"}


class Stress:
    """One kind: options of stress-ng, limits besides those in common, the limits that it may meet.
    sure: it does meet the first, which is missed only by who looks from time to time."""

    def __init__(self, options, limits=None, may=(), sure=False):
        self.options, self.may, self.sure = options, may, sure
        self.limits = {**COMMON, **(limits or {})}

    def start(self, client):
        seconds = SURE_SECONDS if self.sure else SECONDS
        argv = ["stress-ng", "--temp-path", "/tmp", "--timeout", f"{seconds}s",
                *self.options.split()]
        arguments = {"argv": argv, "limits": self.limits}
        return client.start("tools/call", {"name": "sandbox_exec", "arguments": arguments})

    def judge(self, record):
        """What is wrong with the end that it took, or None."""
        limit = record["limit"] or {}
        if record["outcome"] == "limit":
            # It takes its time to give up where a second has few instructions.
            allowed = (*self.may, "wall_time")
            return None if limit["name"] in allowed else f"limit {limit}, not one of {allowed}"
        if record["outcome"] not in ("exited", "signaled"):
            return f"outcome {record['outcome']}, error {record['error']}"
        if self.sure and enforced_by(record, self.may[0]) == "cgroup":
            return f"{self.may[0]} was not met: {record['limits']}"
        return None


def enforced_by(record, name):
    return next((limit["enforced_by"] for limit in record["limits"] if limit["name"] == name), None)


# What runs at once, so that limits are met side by side.
WAVES = {
    "vm, fork, dentry": [
        Stress("--vm 2 --vm-bytes 400M --vm-populate", {"memory": "40M"}, ("memory",), sure=True),
        Stress("--fork 2 --fork-max 64", {"pids": 10}, ("pids",), sure=True),
        Stress("--dentry 2 --dentries 8192", may=("inodes", "disk")),
    ],
    "tmpfs, fd, mq": [
        Stress("--hdd 1 --hdd-bytes 64M", may=("disk",)),
        Stress("--tmpfs 2", may=("disk", "memory")),
        Stress("--open 2", may=("inodes", "disk")),
        Stress("--dup 2", {"open_files": 64}),
        Stress("--mq 2", may=("memory", "pids")),
    ],
    "shm": [
        Stress("--shm 2 --shm-bytes 16M", may=("disk", "memory")),
        Stress("--shm-sysv 2 --shm-sysv-bytes 16M", may=("memory",)),
        Stress("--memfd 2 --memfd-bytes 256M", may=("memory",)),
    ],
    "sysinval, sysbadaddr, enosys, procfs": [
        # What might bring a machine down is for a crate to hold.
        Stress("--pathological --sysinval 2", may=("pids", "memory", "disk", "inodes")),
        Stress("--sysbadaddr 2", may=("pids", "memory", "disk", "inodes")),
        Stress("--enosys 2", may=("pids", "memory")),
        Stress("--procfs 2", may=("pids", "memory")),
    ],
}


def all_answered(client, requests):
    """Takes in what has come so far."""
    try:
        while not all(request in client.answers for request in requests):
            message = client.receive(0.01)
            tap.check(message is not None, "the broker closed the connection")
            if "method" not in message:
                client.answers[message.get("id")] = message
    except socket.timeout:
        return False
    return True


def answers(client, ended):
    """Other jobs run meanwhile, one after the other; how many."""
    count = 0
    while not ended():
        record = client.exec("/bin/echo", "here")
        tap.equal((record["outcome"], record["stdout"]), ("exited", "here\n"), "another job")
        count += 1
        time.sleep(0.2)
    return count


def wave(broker, stresses):
    with broker.client(timeout=HANG) as client, broker.client(timeout=HANG) as other:
        waiting = {stress.start(client): stress for stress in stresses}

        count = answers(other, lambda: all_answered(client, waiting))
        wrong = []
        for request, stress in waiting.items():
            record = client.wait(request)["structuredContent"]
            limit = (record["limit"] or {}).get("name")
            tap.diag(f"{stress.options}: {record['outcome']} {limit or record['exit_code']}, "
                     f"{record['usage']['wall_ms']} ms")
            why = stress.judge(record)
            if why:
                wrong.append(f"{stress.options}: {why}; {record['stderr'][-500:]}")
    tap.equal(wrong, [], "ends of stressors")
    tap.check(count > 0, "no other job was answered")
    tap.diag(f"{count} other jobs meanwhile")


def stressed(broker, before, memory, stresses):
    wave(broker, stresses)
    before.expect_same(30)
    grown = broker.memory() - memory
    tap.check(grown < BROKER_GROWTH, f"the broker grew by {grown} bytes")


def main():
    tap.become_subreaper()
    if not tap.host_has("stress-ng"):
        tap.skip("stressors", "host has no stress-ng")
        return
    with mcp.Broker() as broker, broker.client() as client:
        # As many at once as there will be, so that what the broker keeps for later is there.
        waiting = [client.start("tools/call", {"name": "sandbox_exec", "arguments": {"argv": ["true"]}})
                   for _ in range(5)]
        for request in waiting:
            client.wait(request)
        own = [broker.pid, *machine.descendants(broker.pid)]
        before, memory = machine.Picture.settled(fds_of=own), broker.memory()
        for name, stresses in WAVES.items():
            tap.case(f"the broker withstands {name}", stressed, broker, before, memory, stresses)


sys.exit(tap.main(main))
