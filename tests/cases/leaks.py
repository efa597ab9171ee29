#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-exclusive: it compares pictures of the machine
# test-timeout: 1200
"""Nothing is left: 1,000 jobs in a row and 200 in parallel, by agentcrate-run and by a broker.
Before and after, processes, descriptors, mounts, net namespaces, cgroups, files and IPC objects are
equal.
"""

import concurrent.futures
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import mcp
import tap

IN_ROW, IN_PARALLEL, AT_ONCE = 1000, 200, 24

# What a job may do about its end: leave files, processes and FIFOs, and go in several ways.
JOBS = [
    "exit 0",
    "echo x > /tmp/f; echo x > /dev/shm/f; echo x > ~/f; exit 1",
    "sleep 300 & setsid sleep 300 & exit 2",
    "kill -9 $$",
    "(trap '' TERM HUP; exec sleep 300) & exit 3",
    "mkfifo /tmp/p; (exec 9<>/tmp/p; exec sleep 300) & exit 4",
]


def objects_of_net():
    """The kernel's own count, which others move as well: only a leak by the job shows in it."""
    return machine.net_namespace_objects()


def check_net(before):
    after = objects_of_net()
    if before is not None and after is not None:
        tap.check(
            after - before < IN_PARALLEL // 2, f"net namespaces of the kernel: {before} -> {after}"
        )


def row_of_runs():
    text = (
        'i=0; while [ $i -lt "$1" ]; do "$2" -- /bin/true || exit 1; i=$((i+1)); done; '
        'shift 2; for job; do "$RUN" -- /bin/sh -c "$job"; done; true'
    )
    run = tap.program("agentcrate-run")
    argv = ["/bin/sh", "-c", text, "sh", str(IN_ROW - len(JOBS)), run, *JOBS]
    tap.run(argv, timeout=900, env=tap.clean_env(RUN=run)).expect(0)


def parallel_runs():
    run = tap.program("agentcrate-run")

    def one(number):
        return tap.run([run, "--", "/bin/sh", "-c", JOBS[number % len(JOBS)]]).rc

    expected = [0, 1, 2, 137, 3, 4]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        codes = list(pool.map(one, range(IN_PARALLEL)))
    tap.equal(codes, [expected[n % len(JOBS)] for n in range(IN_PARALLEL)], "exit statuses")


def by_runs(jobs_of):
    before, net = machine.Picture.settled(), objects_of_net()
    jobs_of()
    before.expect_same(30)
    check_net(net)


def row_of_calls(client):
    for number in range(IN_ROW):
        if number % 50:
            tap.equal(client.exec("/bin/true")["outcome"], "exited", f"outcome of job {number}")
        else:
            outcome = client.exec("/bin/sh", "-c", JOBS[number // 50 % len(JOBS)])["outcome"]
            tap.check(outcome in ("exited", "signaled"), f"outcome of job {number} is {outcome}")


def parallel_calls(client):
    waiting = []
    outcomes = []
    for number in range(IN_PARALLEL):
        arguments = {"argv": ["/bin/sh", "-c", JOBS[number % len(JOBS)]]}
        waiting.append(client.start("tools/call", {"name": "sandbox_exec", "arguments": arguments}))
        if len(waiting) >= AT_ONCE:
            outcomes.append(client.wait(waiting.pop(0)))
    outcomes += [client.wait(request) for request in waiting]
    ends = {result["structuredContent"]["outcome"] for result in outcomes}
    tap.equal((len(outcomes), ends), (IN_PARALLEL, {"exited", "signaled"}), "outcomes")


def by_calls(broker, client, jobs_of):
    # As many at once as there will be: what a broker keeps for later is there before.
    waiting = [
        client.start("tools/call", {"name": "sandbox_exec", "arguments": {"argv": ["true"]}})
        for _ in range(AT_ONCE)
    ]
    for request in waiting:
        client.wait(request)
    own = [broker.pid, *machine.descendants(broker.pid)]
    before, net, memory = machine.Picture.settled(fds_of=own), objects_of_net(), broker.memory()
    jobs_of(client)
    before.expect_same(30)
    check_net(net)
    tap.check(
        broker.memory() - memory < 4 << 20,
        f"the broker grew from {memory} to {broker.memory()} bytes",
    )


def whole_broker():
    """Its own start and end leave nothing either."""
    before = machine.Picture.settled()
    with mcp.Broker() as broker, broker.client() as client:
        tap.case(
            f"{IN_ROW} jobs in a row by sandbox_exec leave nothing",
            by_calls,
            broker,
            client,
            row_of_calls,
        )
        tap.case(
            f"{IN_PARALLEL} jobs in parallel by sandbox_exec leave nothing",
            by_calls,
            broker,
            client,
            parallel_calls,
        )
    tap.case("a broker's end leaves nothing", before.expect_same)


def killed_broker():
    """Nor does a broker that was killed, with jobs running: the kernel's part, without a sweep."""
    before = machine.Picture.settled()
    broker = mcp.Broker()
    client = broker.client()
    for number in range(8):
        client.start(
            "tools/call",
            {"name": "sandbox_exec", "arguments": {"argv": ["sleep", "300"]}},
            request_id=number,
        )
    tap.wait_until(lambda: list(machine.descendants().values()).count("sleep") == 8)
    broker.kill()
    broker.log.close()
    client.close()
    os.unlink(broker.path)
    processes = tap.wait_until(lambda: not machine.descendants(), 20)
    tap.check(processes, lambda: f"left: {machine.descendants()}")
    left = [line for line in before.difference(machine.Picture()) if not line.startswith("cgroups")]
    tap.equal(left, [], "left behind")


def main():
    tap.become_subreaper()
    tap.case(f"{IN_ROW} jobs in a row by agentcrate-run leave nothing", by_runs, row_of_runs)
    tap.case(
        f"{IN_PARALLEL} jobs in parallel by agentcrate-run leave nothing", by_runs, parallel_runs
    )
    whole_broker()
    tap.case("a killed broker leaves no process", killed_broker)


sys.exit(tap.main(main))
