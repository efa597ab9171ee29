#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# vm-as: root dev
# vm-timeout: 600
"""agentcrate-run and its scope, where controllers are real: what is written for a job, what a breach
is called, and that nothing stays."""

import glob
import json
import os
import signal
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

ROOT = tap.WHO == "root"
M = 1 << 20
JOBS = ("/sys/fs/cgroup/system.slice" if ROOT else
        "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice")
LEAVES = f"{JOBS}/agentcrate-*.scope/jobs/t-*/c-*/exec-1"
HOG = "head -c 64M /dev/zero | tail"
MEMORY = ["--limit", "memory=24M", "--limit", "disk=1M"]


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read().strip()


def shell(text, options=(), env=None, **kwargs):
    session = dict(os.environ)
    for name, value in (env or {}).items():
        session.pop(name, None)
        if value is not None:
            session[name] = value
    return tap.shell(text, options=options, env=session, **kwargs)


def limit(record, name):
    return [entry for entry in record["limits"] if entry["name"] == name][0]


def left():
    manager = [] if ROOT else ["--user"]
    units = subprocess.run(["systemctl", *manager, "list-units", "--all", "--plain", "--no-legend",
                            "agentcrate-*.scope"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    return units or glob.glob(f"{JOBS}/agentcrate-*.scope")


def nothing_left():
    tap.check(tap.wait_until(lambda: not left(), 60, 0.5), lambda: f"left: {left()}")


def start(*argv):
    return subprocess.Popen([tap.program("agentcrate-run"), *argv], stdin=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


# --- what is written ---


def written():
    options = [f"--limit={name}" for name in
               ("memory=96M", "pids=33", "cpus=1.5", "disk=8M")]
    if ROOT:
        options += ["--limit=io_read_bps=3000000", "--limit=io_write_bps=4000000"]
    run = start(*options, "--", "/bin/sleep", "100")
    try:
        leaf = tap.wait_until(lambda: [path for path in glob.glob(LEAVES)
                                       if read(path, "cgroup.procs")], 60)[0]
        expected = {"memory.max": 96 * M, "memory.oom.group": 1, "pids.max": 33,
                    "cpu.max": "150000 100000"}
        if os.path.exists(f"{leaf}/memory.swap.max"):
            expected["memory.swap.max"] = 0
        for name, value in expected.items():
            tap.equal(read(leaf, name), str(value), name)
        if ROOT:
            tap.contains(read(leaf, "io.max"), "rbps=3000000 wbps=4000000", "io.max")
        crate = os.path.dirname(leaf)
        tap.check(int(read(crate, "memory.max")) > 104 * M, lambda: read(crate, "memory.max"))
        tap.check(int(read(crate, "pids.max")) > 33, lambda: read(crate, "pids.max"))
        tap.equal(len(read(crate, "init/cgroup.procs").split()), 1, "processes beside the job")
        job = read(leaf, "cgroup.procs").split()[0]
        tap.equal(read(f"/proc/{job}/cgroup")[3:], leaf.replace("/sys/fs/cgroup", ""), "path")
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait(timeout=60)
    nothing_left()


def seen_inside():
    ran = shell("cat /proc/self/cgroup; find / -xdev -name cgroup.procs -o -name release_agent; "
                "mount -t cgroup2 c /tmp 2>&1 || mount -t cgroup c /tmp; ls /sys/fs/cgroup")
    lines = ran.text.splitlines()
    tap.check(lines[0].startswith("0::/jobs/t-0/c-") and lines[0].endswith("/exec-1"), lines[0])
    tap.equal([line for line in lines[1:] if line.startswith("/")], [], "files of cgroups")
    tap.check(ran.rc != 0, "the job sees cgroups")
    for name in ("memory", "pids", "cpus", "cpu_time"):
        tap.equal(limit(ran.record, name)["enforced_by"], "cgroup", f"what enforces {name}")


# --- breaches ---


def breach(name, text, options, least):
    ran = shell(text, options=options, timeout=120).expect(137)
    met = ran.record["limit"]
    tap.equal((met["name"], met["level"], met["enforced_by"]), (name, "job", "cgroup"), "limit")
    tap.check(met["observed"] >= least, lambda: str(met))


def killed_is_named():
    """Of all that the kernel ends together: who had the most."""
    text = "sleep 60 & head -c 64M /dev/zero | tail & wait $!"
    ran = shell(text, options=MEMORY, timeout=120).expect(137)
    texts = [entry["text"] for entry in ran.record["evidence"] if entry["kind"] == "oom_kill"]
    tap.check(len(texts) == 1 and texts[0].startswith("tail (pid "),
              lambda: f"evidence: {ran.record['evidence']}")


def oom_again():
    """HOST-05"""
    for _ in range(5):
        shell(HOG, options=MEMORY, timeout=120).expect(137)
    manager = [] if ROOT else ["--user"]
    failed = subprocess.run(["systemctl", *manager, "list-units", "--state=failed", "--plain",
                             "--no-legend"], stdout=subprocess.PIPE, text=True, check=True).stdout
    tap.lacks(failed, "agentcrate", "failed units")
    nothing_left()


def survivors():
    text = ("trap '' TERM HUP INT; i=0; while [ $i -lt 8 ]; do setsid sh -c 'trap \"\" TERM HUP; "
            "(setsid sleep 987 &) ; sleep 987' & i=$((i+1)); done; wait")
    shell(text, options=["-t", "3"], timeout=120).expect(124)
    count = subprocess.run(["pgrep", "-c", "-f", "sleep 987"], stdout=subprocess.PIPE, text=True,
                           check=False).stdout
    tap.equal(count.strip(), "0", "survivors")
    nothing_left()


def missing_controller():
    """HOST-04: what cannot be enforced is refused with the reason, and nothing runs."""
    ran = shell("echo ran", options=["--limit", "io_read_bps=1000000"])
    ran.expect(125, out="")
    for part in ("io_read_bps", "Delegate=cpu io memory pids"):
        tap.contains(ran.errors, part, "the refusal")


# --- managers ---


def no_environment():
    """HOST-03: neither variable, as in cron, or stale ones: the manager is found all the same."""
    for runtime in (None, "/nowhere"):
        ran = shell("true", env={"XDG_RUNTIME_DIR": runtime,
                                 "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}).expect(0)
        tap.equal(limit(ran.record, "memory")["enforced_by"], "cgroup", "what enforces memory")


def many():
    """HOST-06, HOST-07: each of many has all of its limits, or says that its scope was too slow."""
    records = []

    def one(text):
        records.append(shell(text, timeout=300).expect(0).record)

    threads = [threading.Thread(target=one, args=("true" if i % 2 else "sleep 1",))
               for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.equal(len(records), 12, "runs that ended well")
    for record in records:
        means = {limit(record, name)["enforced_by"] for name in ("memory", "pids")}
        tap.check(means == {"cgroup"} or "answered" in json.dumps(record["evidence"]),
                  lambda: json.dumps(record))  # pylint: disable=cell-var-from-loop
    nothing_left()


def interrupted():
    """LEAK-01: INT, TERM and KILL of the runner, and of it and the job's init at once."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        run = start("--", "/bin/sleep", "876")
        tap.check(tap.wait_until(lambda: glob.glob(LEAVES), 60), "no leaf")
        run.send_signal(number)
        run.wait(timeout=60)
        nothing_left()
    count = subprocess.run(["pgrep", "-c", "-f", "sleep 876"], stdout=subprocess.PIPE, text=True,
                           check=False).stdout
    tap.equal(count.strip(), "0", "survivors")


def main():
    tap.case("limits are in the kernel's files, and the job is in its leaf", written)
    tap.case("rows 44, 45: a job sees its own names and no file of a cgroup", seen_inside)
    tap.case("a breach of memory is named", breach, "memory", HOG, MEMORY, 20 * M)
    tap.case("row 67: the process that was too large is named", killed_is_named)
    tap.case("a breach of pids is named", breach, "pids",
             "i=0; while [ $i -lt 20 ]; do sleep 30 & i=$((i+1)); done; wait",
             ["--limit", "pids=8"], 8)
    tap.case("HOST-05: scopes of jobs out of memory are collected", oom_again)
    tap.case("row 64: what has left its session does not survive", survivors)
    tap.case("HOST-06, HOST-07: many at once", many)
    tap.case("LEAK-01: an interrupted or killed runner leaves nothing", interrupted)
    if not ROOT:
        tap.case("HOST-03: without a session's environment", no_environment)
        tap.case("HOST-04: a missing controller is named", missing_controller)


sys.exit(tap.main(main))
