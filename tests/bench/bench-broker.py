#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""bench-broker.py [-n RUNS] [-c IN_FLIGHT]

What a tool call costs through the broker: sandbox_exec of /usr/bin/true over the UNIX socket, cold,
by turns with the plain command, started by this same process; the rate with several calls in flight;
what broker and launcher keep resident; and what records cost: the same call by turns at a broker that
writes its audit log and sends traces, and at one that can do neither.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import mcp  # pylint: disable=wrong-import-position
import table  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

WARM_UP = 5
TRUE = ["/usr/bin/true"]


def wait(pid):
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"{TRUE[0]} ended with status {status}")


def fork_exec(_client):
    pid = os.fork()
    if pid == 0:
        os.execv(TRUE[0], TRUE)
    wait(pid)


def spawn(_client):
    wait(os.posix_spawn(TRUE[0], TRUE, {}))


def call(client):
    result = client.call("sandbox_exec", {"argv": TRUE})
    if result.get("isError") or result["structuredContent"]["exit_code"] != 0:
        raise RuntimeError(f"sandbox_exec failed: {result}")


def ping(client):
    client.request("ping")


ROWS = [
    ("/usr/bin/true by posix_spawn", spawn),
    ("the same by fork and exec of this big process", fork_exec),
    ("ping", ping),
    ("tools/call sandbox_exec of /usr/bin/true", call),
]


def measure(client, runs):
    samples = {name: [] for name, _ in ROWS}
    for run in range(runs + WARM_UP):
        for name, function in ROWS:
            begin = time.perf_counter()
            function(client)
            if run >= WARM_UP:
                samples[name].append(time.perf_counter() - begin)
    return samples


def rate(client, runs, in_flight):
    """Calls in a second with so many asked for at once."""
    begin = time.perf_counter()
    waiting = []
    for _ in range(runs):
        if len(waiting) == in_flight:
            client.wait(waiting.pop(0))
        waiting.append(client.start("tools/call", {"name": "sandbox_exec",
                                                   "arguments": {"argv": TRUE}}))
    for request in waiting:
        client.wait(request)
    return runs / (time.perf_counter() - begin)


def memory(pid):
    """(resident, proportional) KiB."""
    found = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in file:
            key, *rest = line.split()
            found[key] = int(rest[0]) if rest and rest[0].isdigit() else 0
    return found["Rss:"], found["Pss:"]


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def name_of(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def print_memory(when, broker):
    for pid in [broker.pid, *children(broker.pid)]:
        try:
            rss, pss = memory(pid)
        except OSError:
            continue
        print(f"{when:24} {name_of(pid):20} {rss:8} KiB resident {pss:8} KiB proportional")


# In a process of its own: a thread here would take its time from what is measured.
COLLECTOR = """
import sys
sys.path.insert(0, sys.argv[1])
import otlp
with otlp.Collector() as collector:
    print(collector.url, flush=True)
    sys.stdin.read()
    print(len(otlp.roots(collector.spans())), flush=True)
"""


def without_records():
    """An environment whose broker goes on without its log, and sends nothing anywhere."""
    place = tap.folder("off")
    env = tap.clean_env(AGENTCRATE_DATA_DIR=place)
    shutil.copytree(os.path.join(tap.data_dir(), "templates.d"), os.path.join(place, "templates.d"))
    audit = {"path": "/dev/null/audit.jsonl", "on_failure": "continue"}
    tap.write(os.path.join(place, "agentcrated.json"), json.dumps({"audit": audit}))
    return env


def measure_records(runs):
    lib = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib")
    with subprocess.Popen([sys.executable, "-c", COLLECTOR, lib], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as collector:
        url = collector.stdout.readline().strip()
        samples = {"no audit log, no traces": [], "audit log and traces": []}
        with mcp.Broker(env=without_records(), state=tap.folder("none")) as off, \
                mcp.Broker(env=tap.clean_env(OTEL_EXPORTER_OTLP_ENDPOINT=url)) as on, \
                off.client() as client_off, on.client() as client_on:
            clients = list(zip(samples, (client_off, client_on)))
            for run in range(runs + WARM_UP):
                # Whoever comes second finds a warmer machine: that changes sides, too.
                for name, client in clients if run % 2 else reversed(clients):
                    begin = time.perf_counter()
                    call(client)
                    if run >= WARM_UP:
                        samples[name].append(time.perf_counter() - begin)
        told, _ = collector.communicate("")
    table.print_table("what records cost", samples)
    print(f"calls whose traces were received: {told.strip()} of {runs + WARM_UP}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=150, metavar="RUNS")
    parser.add_argument("-c", type=int, default=8, metavar="IN_FLIGHT")
    options = parser.parse_args()

    with mcp.Broker() as broker, broker.client() as client:
        print("\nmemory")
        print_memory("connected, no call yet", broker)
        samples = measure(client, options.n)
        print_memory(f"after {options.n} calls", broker)
        table.print_table("over the socket", samples)
        found = rate(client, options.n, options.c)
        print(f"\n{options.c} calls in flight: {found:.0f} calls a second")
        print_memory("after these", broker)
    measure_records(options.n)


if __name__ == "__main__":
    main()
