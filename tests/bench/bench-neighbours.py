#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench-neighbours.py [-n RUNS]

What a job pays for its neighbours: sandbox_exec of /usr/bin/true over the UNIX socket while the
broker is idle, at the moment in which a job of 256 processes is destroyed, at that in which so many
outside of any crate are killed, while such jobs are started and destroyed, and while a fork bomb, a
memory hog and a flood of output run at once in three other crates. Every neighbour has a limit that
it meets, and is started again as soon as it has ended, so that each call has all of them beside it.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import machine  # pylint: disable=wrong-import-position
import mcp  # pylint: disable=wrong-import-position
import table  # pylint: disable=wrong-import-position

WARM_UP = 5
TRUE = {"argv": ["/usr/bin/true"]}

# A job that has 256 processes: one that waits to be destroyed, and one that meets its limit of time.
SLEEPERS = {"argv": ["/usr/bin/python3", "-c",
                     "import os, time\n"
                     "for i in range(255):\n"
                     "    if os.fork() == 0: time.sleep(60); os._exit(0)\n"
                     "time.sleep(60)"],
            "timeout_ms": 60000, "limits": {"pids": 300}}
CROWD = {"command": "for i in $(seq 255); do sleep 60 & done; wait",
         "timeout_ms": 1500, "limits": {"pids": 300}}
FORK_BOMB = {"command": "bomb() { bomb | bomb & }; bomb; sleep 60",
             "timeout_ms": 20000, "limits": {"pids": 128}}
MEMORY_HOG = {"argv": ["/usr/bin/python3", "-c",
                       "a = []\nwhile True: a.append(b'x' * 1048576)"],
              "timeout_ms": 20000, "limits": {"memory": "256M"}}
FLOOD = {"command": "yes AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
         "timeout_ms": 20000, "limits": {"output": "64M"}}


def exec_job(client, arguments):
    begin = time.perf_counter()
    result = client.call("sandbox_exec", arguments)
    return time.perf_counter() - begin, result["structuredContent"]


class Neighbour:
    """The same job again and again on a connection of its own, until it is told to stop."""

    def __init__(self, broker, arguments):
        self.ends, self.failure = {}, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(broker, arguments))
        self.thread.start()

    def _run(self, broker, arguments):
        try:
            with broker.client() as client:
                while not self.stopping.is_set():
                    _, record = exec_job(client, arguments)
                    limit = (record["limit"] or {}).get("name")
                    end = f"{record['outcome']} {limit or ''}".strip()
                    self.ends[end] = self.ends.get(end, 0) + 1
        except (OSError, KeyError, mcp.RpcError) as error:
            self.failure = error

    def stop(self):
        self.stopping.set()
        self.thread.join()
        if self.failure:
            raise RuntimeError(f"a neighbour failed: {self.failure!r}")
        return ", ".join(f"{count} x {end}" for end, count in sorted(self.ends.items()))


def measure(broker, client, runs, neighbours):
    """(seconds of each call, how the neighbours ended)"""
    running = [Neighbour(broker, arguments) for arguments in neighbours]
    samples = []
    try:
        if running:
            time.sleep(0.5)
        for run in range(runs + WARM_UP):
            seconds, record = exec_job(client, TRUE)
            if record["exit_code"] != 0:
                raise RuntimeError(f"sandbox_exec of {TRUE} ended so: {record}")
            if run >= WARM_UP:
                samples.append(seconds)
    finally:
        ends = [neighbour.stop() for neighbour in running]
    return samples, ends


def measure_destruction(broker, client, runs):
    """Seconds of calls that come just when a job of 256 processes is ended."""
    samples = []
    with broker.client() as other:
        idle = len(machine.descendants(broker.pid))
        for _ in range(runs):
            request = other.start("tools/call", {"name": "sandbox_exec", "arguments": SLEEPERS})
            while len(machine.descendants(broker.pid)) < idle + 256:
                time.sleep(0.02)
            other.notify("notifications/cancelled", {"requestId": request})
            seconds, record = exec_job(client, TRUE)
            if record["exit_code"] != 0:
                raise RuntimeError(f"sandbox_exec of {TRUE} ended so: {record}")
            samples.append(seconds)
            while len(machine.descendants(broker.pid)) > idle:
                time.sleep(0.02)
    return samples


def measure_killing(client, runs):
    """The same just when 256 processes are killed that no broker knows: what is the kernel's share."""
    samples = []
    for _ in range(runs):
        crowd = subprocess.Popen(SLEEPERS["argv"], start_new_session=True)
        while len(machine.descendants(crowd.pid)) < 255:
            time.sleep(0.02)
        os.killpg(crowd.pid, signal.SIGKILL)
        samples.append(exec_job(client, TRUE)[0])
        crowd.wait()
        time.sleep(0.5)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=150, metavar="RUNS")
    options = parser.parse_args()
    rows = [
        ("/usr/bin/true, nothing beside it", []),
        ("beside jobs of 256 processes, which come and go", [CROWD]),
        ("beside a fork bomb, a memory hog and a flood", [FORK_BOMB, MEMORY_HOG, FLOOD]),
    ]
    samples, told = {}, []
    with mcp.Broker() as broker, broker.client() as client:
        for name, neighbours in rows:
            samples[name], ends = measure(broker, client, options.n, neighbours)
            told += [f"{name}: {end}" for end in ends]
        samples["just when a job of 256 processes is destroyed"] = measure_destruction(
            broker, client, options.n // 5)
        samples["just when 256 processes outside are killed"] = measure_killing(
            client, options.n // 5)
    table.print_table("a job and its neighbours", samples)
    print("\nhow the neighbours ended")
    for line in told:
        print(f"  {line}")


if __name__ == "__main__":
    main()
