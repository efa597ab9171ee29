#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-exclusive: it compares pictures of the machine
# test-timeout: 1200
# vm-as: root
# vm-timeout: 900
"""Nothing is left: 1,000 jobs in a row and 200 in parallel, by agentcrate-run and by a broker; one
in ten is killed, meets a limit or is cancelled. Before and after, processes, descriptors, mounts,
net namespaces, cgroups, files and IPC objects are equal.

In the emulated machine there are fewer jobs, but real limits: cgroups of every crate, which have to
go altogether, those included of which the kernel alone still knows.
"""

import concurrent.futures
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import mcp
import tap

IN_VM = "AGENTCRATE_TEST_VM" in os.environ
IN_ROW, IN_PARALLEL, AT_ONCE = (42, 26, 4) if IN_VM else (1000, 200, 24)
# One in so many jobs does something about its end.
ODD = 3 if IN_VM else 10
HANG = 180


class Job:
    """A shell text, the exit status that agentcrate-run has of it, and the limit, if it is to meet
    one. limits: what it is started with, {} for those that are always there."""

    def __init__(self, text, status, limit=None, value=None):
        self.text, self.status, self.limit = text, status, limit
        self.limits = {limit: value} if limit else {}

    def options(self):
        return [f"--limit={name}={value}" for name, value in self.limits.items()]

    def arguments(self):
        return {"argv": ["/bin/sh", "-c", self.text], "limits": self.limits}

    def check(self, record):
        """record: of sandbox_exec."""
        if self.limit:
            met = (record["limit"] or {}).get("name")
            tap.equal((record["outcome"], met), ("limit", self.limit), f"end of {self.text!r}")
        else:
            tap.check(record["outcome"] in ("exited", "signaled"), f"{self.text!r}: {record}")


# Files, processes and FIFOs are left, and jobs go in several ways.
JOBS_AT_ONCE = [
    Job("exit 0", 0),
    Job("echo x > /tmp/f; echo x > /dev/shm/f; echo x > ~/f; exit 1", 1),
    Job("sleep 300 & setsid sleep 300 & exit 2", 2),
    Job("kill -9 $$", 137),
    Job("(trap '' TERM HUP; exec sleep 300) & exit 3", 3),
    Job("mkfifo /tmp/p; (exec 9<>/tmp/p; exec sleep 300) & exit 4", 4),
    Job("trap '' TERM; setsid sleep 300 & sleep 300", 124, "wall_time", "300ms"),
    Job("sleep 300 & yes", 137, "output", "1M"),
    Job("sleep 300 & cat /dev/zero > /tmp/f; sleep 300", 137, "disk", "1M"),
    Job("sleep 300 & i=0; while : >/tmp/$i; do i=$((i+1)); done; sleep 300", 137, "inodes", 100),
    Job("sleep 300 & head -c 1G /dev/zero | tail -c 1G >/dev/null", 137, "memory", "32M"),
    # The shell that cannot fork ends, and makes room for the next.
    Job("while :; do (while :; do setsid sleep 300 & done) 2>/dev/null; done", 137, "pids", 16),
    Job("(while :; do :; done) & while :; do :; done", 137, "cpu_time", "300ms"),
]
# In a row nobody waits again and again for the grace of a job that ignores TERM.
JOBS = [job if "trap '' TERM;" not in job.text else
        Job("setsid sleep 300 & sleep 300", 124, "wall_time", "200ms")
        for job in JOBS_AT_ONCE]


def kernel_counts():
    """The kernel's own counts, which others move as well: only a leak by the job shows in them.
    Where caches are not ours to drop, they may keep a cgroup for long."""
    ours = IN_VM and tap.WHO == "root"
    if ours:
        machine.shrink_net_namespaces()
    counts = {"net namespaces of the kernel": machine.net_namespace_objects()}
    if ours:
        counts["dying cgroups"] = machine.dying_cgroups()
    return counts


def check_counts(before, seconds=30):
    def grown():
        after = kernel_counts()
        return [f"{what}: {count} -> {after[what]}" for what, count in before.items()
                if count is not None and after[what] - count >= IN_PARALLEL // 2]

    tap.check(tap.wait_until(lambda: not grown(), seconds, 1), lambda: ", ".join(grown()))


def row_of_runs():
    """The plain ones from a shell, which is the quickest way."""
    run = tap.program("agentcrate-run")
    odd = [JOBS[number % len(JOBS)] for number in range(IN_ROW // ODD)]
    text = 'i=0; while [ $i -lt "$1" ]; do "$2" -- /bin/true || exit 1; i=$((i+1)); done'
    plain = str(ODD - 1)
    for job in odd:
        tap.run(["/bin/sh", "-c", text, "sh", plain, run], timeout=HANG).expect(0)
        one_run(job)


def one_run(job):
    ran = tap.run([tap.program("agentcrate-run"), *job.options(), "--", "/bin/sh", "-c", job.text],
                  timeout=HANG)
    tap.equal(ran.rc, job.status, f"exit status of {job.text!r}, {ran.errors!r}")
    if job.limit:
        tap.contains(ran.errors, f"limit {job.limit}")


def parallel_runs():
    jobs = [JOBS_AT_ONCE[number % len(JOBS_AT_ONCE)] for number in range(IN_PARALLEL)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for _done in pool.map(one_run, jobs):
            pass


def by_runs(jobs_of):
    # The first of a host makes the file of sub-uids.
    tap.crate("/bin/true").expect(0)
    before, counts = machine.Picture.settled(), kernel_counts()
    jobs_of()
    before.expect_same(30)
    check_counts(counts)


def row_of_calls(client):
    for number in range(IN_ROW):
        if number % ODD:
            tap.equal(client.exec("/bin/true")["outcome"], "exited", f"outcome of job {number}")
        elif number // ODD % (len(JOBS) + 1) == len(JOBS):
            cancelled_call(client)
        else:
            job = JOBS[number // ODD % (len(JOBS) + 1)]
            job.check(client.exec(**job.arguments()))


def cancelled_call(client):
    """The connection lives on, and is the next job's."""
    arguments = {"argv": ["/bin/sh", "-c", "setsid sleep 300 & sleep 300"]}
    request = client.start("tools/call", {"name": "sandbox_exec", "arguments": arguments})
    time.sleep(0.05)
    client.notify("notifications/cancelled", {"requestId": request})


def parallel_calls(client):
    waiting = []
    for number in range(IN_PARALLEL):
        job = JOBS_AT_ONCE[number % len(JOBS_AT_ONCE)]
        params = {"name": "sandbox_exec", "arguments": job.arguments()}
        waiting.append((client.start("tools/call", params), job))
        if len(waiting) >= AT_ONCE:
            end_of_call(client, *waiting.pop(0))
    for request, job in waiting:
        end_of_call(client, request, job)


def end_of_call(client, request, job):
    result = client.wait(request, HANG)
    tap.check("structuredContent" in result, f"no record: {result}")
    job.check(result["structuredContent"])


def by_calls(broker, client, jobs_of):
    # As many at once as there will be: what a broker keeps for later is there before.
    waiting = [
        client.start("tools/call", {"name": "sandbox_exec", "arguments": {"argv": ["true"]}})
        for _ in range(AT_ONCE)
    ]
    for request in waiting:
        client.wait(request)
    own = [broker.pid, *machine.descendants(broker.pid)]
    before, counts = machine.Picture.settled(fds_of=own), kernel_counts()
    memory = broker.memory()
    jobs_of(client)
    before.expect_same(30)
    check_counts(counts)
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
