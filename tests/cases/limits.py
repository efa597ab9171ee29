#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 1200
# vm-timeout: 900
"""Every limit, and every way to go beyond it: LIM-01, 03, 04, 07 to 10, 12 to 14, PROC-02 and FS-10
under limits, bad figures, ceilings.

Where crates have cgroups, as in the emulated machine, each way has to come out under the name of its
limit. Elsewhere what a sampler cannot see is skipped by name, and what nothing can enforce has to be
refused by name.

In the emulated machine, which is slow, what no cgroup has a part in is left out, and a plain user
goes by agentcrate-run only: there is a user's broker in vm/inside-units.py.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import machine
import mcp
import tap

HOG = "/workspace/crate-hog"
MIB = 1 << 20
IN_VM = "AGENTCRATE_TEST_VM" in os.environ
ONLY_RUN = IN_VM and tap.WHO == "user"
SLOW = 5 if IN_VM else 1
# The rows on escape that a way shows, by itself and beside others.
ROWS = {"fork": 63, "setsid": 64, "thread": 65, "vfork": 65, "clone-vm": 65, "tmpfs": 68,
        "inodes": 69, "fds": 71, "inotify": 71, "epoll": 71}
UNSEEN = "host has no memory controller for crates: memory that no process has mapped is not seen"

# Way of crate-hog, limits, the limit that is met; None: the job sees a refusal (exit 7) and ends by
# itself. cgroup: only that sees it.
WAYS = [
    ("anonymous", {"memory": 64 * MIB}, "memory", False),
    ("shared", {"memory": 64 * MIB}, "memory", False),
    ("young", {"memory": 8 * MIB}, "memory", False),
    ("tmpfs", {"memory": 64 * MIB}, "disk", False),
    ("dev-shm", {"memory": 64 * MIB}, "disk", False),
    ("memfd", {"memory": 64 * MIB}, "memory", False),
    ("memfd-mapped", {"memory": 64 * MIB}, "memory", False),
    ("sysv", {"memory": 64 * MIB}, "memory", False),
    ("sysv-detached", {"memory": 64 * MIB}, "memory", True),
    ("pipes", {"memory": 32 * MIB}, "memory", True),
    ("sockets", {"memory": 32 * MIB}, "memory", True),
    ("stop-games", {"memory": 64 * MIB}, "memory", False),
    ("fork", {"pids": 32}, "pids", False),
    ("thread", {"pids": 32}, "pids", False),
    ("vfork", {"pids": 32}, "pids", False),
    ("clone-vm", {"pids": 32}, "pids", False),
    ("setsid", {"pids": 32}, "pids", False),
    ("fallocate", {"disk": 16 * MIB}, "disk", False),
    ("sparse", {"disk": 16 * MIB}, "disk", False),
    ("inodes", {"inodes": 500}, "inodes", False),
    ("tree", {"inodes": 500}, "inodes", False),
    ("file-size", {"file_size": 4 * MIB}, "file_size", False),
    ("fds", {"open_files": 64}, None, False),
    ("inotify", {"open_files": 64}, None, False),
    ("epoll", {"open_files": 64}, None, False),
    ("spin", {"cpu_time": 300}, "cpu_time", False),
    ("spin-children", {"cpu_time": 300}, "cpu_time", False),
    ("deaf", {"wall_time": 300}, "wall_time", False),
    ("stopped", {"wall_time": 300}, "wall_time", False),
    ("flood", {"output": MIB}, "output", False),
]


# Of these it is only waited for the clock: side by side, and that nothing runs is seen at the end.
WAITING = ("deaf", "stopped")


def with_deadline(limits):
    """A way that is overlooked must end all the same, under another name."""
    return limits if "wall_time" in limits else {**limits, "wall_time": 30000}


def options_of(limits):
    """The same for a command line, where a bare time is in seconds."""
    return [
        f"--limit={name}={value}{'ms' if name.endswith('_time') else ''}"
        for name, value in limits.items()
    ]


def state_of(record, name):
    return next(limit for limit in record["limits"] if limit["name"] == name)


def has_cgroup(record, name="memory"):
    """Whether a cgroup enforces that limit, as the record of a job tells."""
    return state_of(record, name)["enforced_by"] == "cgroup"


def need_cgroup(record):
    if not has_cgroup(record):
        raise tap.Skip(UNSEEN)


# --- the table ---


def check_breach(record, limits, name):
    met = record["limit"]
    tap.check(record["outcome"] == "limit" and met, lambda: f"no limit was met: {record}")
    tap.equal((met["name"], met["level"]), (name, "job"), "limit and level")
    state = state_of(record, name)
    tap.equal(met["enforced_by"], state["enforced_by"], "enforced_by")
    tap.check(state["hits"] >= 1, lambda: f"no hits: {state}")
    tap.equal(met["max"], state["max"], "max")
    tap.check(met["observed"] >= met["max"] * 0.95, lambda: f"not met: {met}")
    if name in limits:
        tap.equal(met["max"], limits[name], "max")
    tap.equal([limit["name"] for limit in record["limits"]][:3], ["memory", "pids", "cpus"])
    tap.check(record["usage"]["pids_peak"] >= 1, "no process was counted")


def nothing_runs(root):
    """No hog lives below root."""
    return tap.wait_until(
        lambda: "crate-hog" not in machine.descendants(root).values(), seconds=20 * SLOW
    )


def exceed_by_call(broker, neighbour, row):
    way, limits, name, needs_cgroup = row
    if needs_cgroup:
        need_cgroup(neighbour.exec("true"))
    with broker.client(workspace=place(), mode="ro") as client:
        request = client.start(
            "tools/call",
            {
                "name": "sandbox_exec",
                "arguments": {"argv": [HOG, way], "limits": with_deadline(limits)},
            },
        )
        # Meanwhile and afterwards others live as if nothing were the matter.
        tap.equal(neighbour.exec("echo", "meanwhile")["stdout"], "meanwhile\n")
        result = client.wait(request, 60 * SLOW)
        tap.equal(neighbour.exec("echo", "afterwards")["stdout"], "afterwards\n")
    record = result["structuredContent"]
    if name is None:
        tap.equal((record["exit_code"], record["stdout"]), (7, "EMFILE\n"), "the refusal")
    else:
        check_breach(record, limits, name)
        tap.check(result["isError"], "a breach is no error")
        tap.contains(result["content"][-1]["text"], f"limit {name}: ", "text")
    if way not in WAITING:
        tap.check(nothing_runs(broker.pid), "something of the job still runs")


def exceed_by_run(row):
    way, limits, name, needs_cgroup = row
    if needs_cgroup:
        need_cgroup(tap.crate("true").record)
    # Natively, output would be unlimited and the runner's own memory the limit.
    options = ["-w", place() + ":ro", *options_of(with_deadline(limits))]
    ran = tap.crate(HOG, way, options=options, timeout=60 * SLOW)
    if name is None:
        ran.expect(7, out="EMFILE\n")
    else:
        check_breach(ran.record, limits, name)
        tap.equal(ran.rc, 124 if name == "wall_time" else 137, "exit status")
        tap.contains(ran.errors, f"agentcrate-run: limit {name}: ", "stderr")
    if way not in WAITING:
        tap.check(nothing_runs(os.getpid()), "something of the job still runs")


_places = []


def place():
    if not _places:
        folder = tap.folder("hog")
        shutil.copy(tap.helper("crate-hog"), folder)
        os.chmod(os.path.join(folder, "crate-hog"), 0o755)
        _places.append(folder)
    return _places[0]


def title_of(row):
    number = f"row {ROWS[row[0]]}: " if row[0] in ROWS else ""
    return f"{number}{row[0]} against {', '.join(row[1])}"


def table():
    if not ONLY_RUN:
        table_by_call()
    for row in WAYS:
        if row[0] not in WAITING:
            tap.case(f"{title_of(row)} (agentcrate-run)", exceed_by_run, row)


def table_by_call():
    with mcp.Broker() as broker, broker.client() as neighbour:
        for row in WAYS:
            if row[0] not in WAITING:
                tap.case(f"{title_of(row)} (sandbox_exec)", exceed_by_call, broker, neighbour, row)


def exceed_alone(row):
    with mcp.Broker() as broker, broker.client() as neighbour:
        exceed_by_call(broker, neighbour, row)


def waiting():
    """What mostly waits."""
    rows = [row for row in WAYS if row[0] in WAITING]
    cases = [("LIM-01 a host that reads late", late_reader)]
    cases += [(f"{title_of(row)} (agentcrate-run)", exceed_by_run, row) for row in rows]
    if not ONLY_RUN:
        cases += [(f"{title_of(row)} (sandbox_exec)", exceed_alone, row) for row in rows]
        cases.append(("a ceiling that jobs share", shared_ceiling))
    tap.cases_side_by_side(cases)


# --- what the job lives on with ---


FORKS = """
import os, time
children, refused = [], 0
for i in range(12):
    try:
        pid = os.fork()
    except BlockingIOError:
        refused += 1
        continue
    if pid == 0:
        time.sleep(1)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
print(len(children), refused)
"""


def refuse_pids(way):
    job = way.run("python3", "-c", FORKS, limits={"pids": 6}, on_hit="refuse").expect(0)
    tap.equal(job.text, "5 7\n", "forks that went well, and refused ones")
    tap.check(state_of(job.record, "pids")["hits"] >= 1, lambda: f"no hits: {job.record}")
    tap.equal(state_of(job.record, "pids")["peak"], 6, "peak")


TOO_MANY = """
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
except BlockingIOError:
    os._exit(3)
"""


def refused_fork_is_the_end(way):
    """A program that gives up at once is faster than the next look, and the limit named all the
    same."""
    for _ in range(5):
        job = way.run("python3", "-c", TOO_MANY, limits={"pids": 6})
        check_breach(job.record, {"pids": 6}, "pids")


def refuse_disk(way):
    """LIM-04"""
    text = "dd if=/dev/zero of=/tmp/f bs=1M count=2000 2>/dev/null; echo rc=$?; sleep 0.3"
    job = way.run(command=text, limits={"memory": 256 * MIB}, on_hit="refuse").expect(0, "rc=1\n")
    disk = state_of(job.record, "disk")
    tap.equal((disk["max"], disk["enforced_by"]), (128 * MIB, "mount"), "the disk")
    tap.check(disk["hits"] >= 1, lambda: f"no hits: {disk}")


def end_disk(way):
    """LIM-04 as it is by default."""
    text = r"printf 'the last words\302\2332J\n' >&2; dd if=/dev/zero of=/tmp/f bs=1M count=2000 2>/dev/null"
    job = way.run(command=text + "; sleep 30", limits={"memory": 256 * MIB})
    check_breach(job.record, {}, "disk")
    evidence = [entry["text"] for entry in job.record["evidence"]]
    # Nothing of it moves the cursor of whoever reads the record.
    tap.check("the last words??2J" in evidence, lambda: f"the last line is no evidence: {evidence}")


# --- cases ---


def child_out_of_memory(way):
    """LIM-01: the child falls, and the whole job with it."""
    text = "python3 -c 'x=bytearray(500*1024*1024); import time; time.sleep(9)'; echo rc=$?; sleep 9"
    job = way.run(command=text, limits={"memory": 64 * MIB})
    check_breach(job.record, {"memory": 64 * MIB}, "memory")


def no_swap(way):
    """LIM-03"""
    text = "x = bytearray(300*2**20); print(len(x)); import time; time.sleep(9)"
    job = way.run("python3", "-c", text, limits={"memory": 64 * MIB})
    check_breach(job.record, {"memory": 64 * MIB}, "memory")


def late_reader():
    """The host sleeps while its job falls. Whoever made the cgroup may remove it once nobody is left
    in it, and the limit is named nevertheless."""
    text = f"import time; time.sleep({2 * SLOW}); x = bytearray(300*2**20); time.sleep(60)"
    with subprocess.Popen([tap.program("agentcrate-run"), "--json", "--limit=memory=64M", "--",
                           "python3", "-c", text], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        time.sleep(SLOW)
        process.send_signal(signal.SIGSTOP)
        time.sleep(3 + 1.5 * SLOW)
        process.send_signal(signal.SIGCONT)
        record = json.loads(process.communicate(timeout=60 * SLOW)[0])
    check_breach(record, {"memory": 64 * MIB}, "memory")


def others_of_the_uid():
    """LIM-07: what else the same uid runs does not count, nor do other crates."""
    sleepers = [subprocess.Popen(["/bin/sleep", "60"]) for _ in range(60)]
    results = []

    def one():
        text = "for i in 1 2 3; do sleep 1 & done; wait; echo done"
        results.append(tap.shell(text, options=["--limit=pids=50"], timeout=60 * SLOW))

    try:
        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()
    tap.equal(len(results), len(threads), "jobs")
    for ran in results:
        ran.expect(0, out="done\n", err="")


def hungry_runtime(way):
    """LIM-08: a program of many threads meets a small limit, and the limit is named."""
    tap.need("python3")
    text = (
        "import threading, time\n"
        "try:\n"
        "    for i in range(20): threading.Thread(target=time.sleep, args=(1,)).start()\n"
        "except RuntimeError: time.sleep(1)\n"
    )
    job = way.run("python3", "-c", text, limits={"pids": 8})
    check_breach(job.record, {"pids": 8}, "pids")


def big_address_space(way):
    """LIM-09: what is only reserved is no memory."""
    text = (
        "import mmap, resource\n"
        "m = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0])\n"
    )
    way.run("python3", "-c", text, limits={"memory": 128 * MIB}).expect(0, "-1\n")
    for program in (("node", "-e", "1"), ("java", "-Xmx64m", "-version")):
        if tap.host_has(program[0]):
            way.run(*program, limits={"memory": 512 * MIB}).expect(0)


def many_files(way):
    """LIM-10 (c); (a), (b) and (d) are rows of the table."""
    text = "i=0; while head -c 1M /dev/zero > /tmp/f$i; do i=$((i+1)); done; sleep 9"
    job = way.run(command=text, limits={"disk": 50 * MIB})
    check_breach(job.record, {"disk": 50 * MIB}, "disk")


def few_descriptors(way):
    """LIM-12"""
    way.run(command="ulimit -Sn; ulimit -Hn").expect(0, "1024\n1024\n")


def own_helpers_do_not_count(way):
    """LIM-13"""
    way.run("true", limits={"pids": 1}).expect(0)
    way.run("sh", "-c", "sleep 0.5", limits={"pids": 2}).expect(0)
    way.run("sleep", "0.5", limits={"pids": 1}).expect(0)


def thread_for_each_processor(way):
    """LIM-14: the documented way, and a hit is named."""
    way.run("sh", "-c", "echo $GOMAXPROCS", env={"GOMAXPROCS": "1"}).expect(0, "1\n")
    text = "for i in $(seq 1 64); do sleep 2 & done; wait"
    job = way.run("bash", "-c", text, limits={"pids": 16})
    check_breach(job.record, {"pids": 16}, "pids")


def loop_really_ends(way):
    """PROC-02"""
    started = time.monotonic()
    job = way.run(command="while :; do :; done", limits={"cpu_time": 500}, seconds=30)
    check_breach(job.record, {"cpu_time": 500}, "cpu_time")
    tap.check(time.monotonic() - started < 25 * SLOW, "the loop was not ended by its CPU time")


def no_cgroupfs(way):
    """FS-10 and row 45: no cgroup file to be found, made or written."""
    text = (
        "find / -xdev -name 'cgroup.*' -not -path '/proc/*' -not -path '/usr/*' 2>/dev/null"
        " | grep -v '^/usr' | head -3; mkdir -p /sys/fs/cgroup/x 2>/dev/null && echo made;"
        " echo max > /sys/fs/cgroup/memory.max; echo rc=$?"
    )
    job = way.run(command=text, limits={"memory": 64 * MIB})
    tap.lacks(job.text, "made", "stdout")
    tap.lacks(job.text, "cgroup.", "stdout")
    tap.contains(job.text, "rc=2", "stdout")


def peaks(way):
    text = "x = bytearray(40 << 20); import time; time.sleep(0.5)"
    job = way.run("python3", "-c", text, limits={"memory": 128 * MIB}).expect(0)
    memory, usage = state_of(job.record, "memory"), job.record["usage"]
    tap.check(40 * MIB <= memory["peak"] <= 128 * MIB, lambda: f"peak: {memory}")
    tap.equal(usage["memory_peak_bytes"], memory["peak"], "usage")
    tap.equal(memory["hits"], 0, "hits")
    tap.equal(len(job.record["limits"]), 12, "limits")


def vfork_is_no_memory(way):
    """A child between vfork and exec has its parent's memory, which counts once."""
    text = (
        "import subprocess\n"
        "x = bytearray(80 << 20)\n"
        "for i in range(80): subprocess.run(['/bin/true'])\n"
    )
    way.run("python3", "-c", text, limits={"memory": 128 * MIB}).expect(0)


def throttled(way):
    if not has_cgroup(way.run("true").record, "cpus"):
        raise tap.Skip("host has no cpu controller for crates")
    text = (
        "import time\n"
        "end = time.monotonic() + 2\n"
        "while time.monotonic() < end: pass\n"
    )
    usage = way.run("python3", "-c", text, limits={"cpus": 0.2}).expect(0).record["usage"]
    tap.check(usage["cpu_ms"] < usage["wall_ms"] * 0.5, lambda: f"not slowed down: {usage}")


SLOWING = [("cpus", 1.5), ("io_read_bps", 1 << 20), ("io_write_bps", 4096)]


def refused_by_run():
    record = tap.crate("true").expect(0).record
    for name, value in SLOWING:
        ran = tap.crate("echo", "ran", options=["--limit", f"{name}={value}"])
        if has_cgroup(record, name):
            ran.expect(0, out="ran\n")
            continue
        tap.equal((ran.rc, ran.out), (125, b""), name)
        tap.contains(ran.errors, f"limit {name}: nothing can enforce it here")
    ran = tap.crate("echo", "ran", options=["--enforce=strict"])
    if has_cgroup(record):
        ran.expect(0, out="ran\n")
    else:
        tap.equal((ran.rc, ran.out), (125, b""), "strict")
        tap.contains(ran.errors, "limit memory: only sampling could enforce it here")


def refused_by_call():
    with mcp.Broker() as broker, broker.client() as client:
        record = client.exec("true")
        for name, value in SLOWING:
            if has_cgroup(record, name):
                tap.equal(client.exec("true", limits={name: value})["outcome"], "exited", name)
                continue
            result = client.call("sandbox_exec", {"argv": ["true"], "limits": {name: value}})
            tap.check(result["isError"] and "structuredContent" not in result, str(result))
            tap.contains(result["content"][0]["text"], f"limit {name}: nothing can enforce it")


# --- bad input ---

BAD_OPTIONS = [
    ("memory=0", "memory", "zero"),
    ("memory=-1", "memory", "negative"),
    ("memory=99999999999G", "memory", "too large"),
    ("memory=1X", "memory", "unknown suffix"),
    ("memory=4K", "memory", "less than the"),
    ("pids=0", "pids", "zero"),
    ("pids=1.5", "pids", "malformed"),
    ("cpus=0", "cpus", "zero"),
    ("cpu_time=0", "cpu_time", "zero"),
    ("wall_time=0.5ms", "wall_time", "too small"),
    ("disk=4K", "disk", "less than the 64K"),
    ("inodes=2", "inodes", "less than the 64"),
    ("open_files=3", "open_files", "less than the 32"),
    ("io_read_bps=0", "io_read_bps", "zero"),
    ("ram=1G", "ram", "unknown"),
]


def bad_options():
    for option, name, words in BAD_OPTIONS:
        ran = tap.crate("echo", "ran", options=["--limit", option])
        tap.equal((ran.rc, ran.out), (125, b""), option)
        tap.contains(ran.errors, name, option)
        tap.contains(ran.errors, words, option)
    ran = tap.crate("true", options=["-t", "5", "--limit", "wall_time=5"])
    tap.equal(ran.rc, 125, "both of one")
    tap.contains(ran.errors, "--timeout and --limit wall_time")
    ran = tap.crate("true", options=["--enforce", "hard"])
    tap.contains(ran.errors, "--enforce")


BAD_LIMITS = [
    ({"memory": 0}, "limits.memory: 0 is zero"),
    ({"memory": 2**64}, "limits.memory"),
    ({"memory": 4096}, "limit memory: 4K is less than the"),
    ({"pids": "many"}, "limits.pids"),
    ({"cpus": -0.5}, "limits.cpus: -0.5 is negative"),
    ({"cpu_time": "10"}, "limits.cpu_time"),
    ({"wall_time": 0.5}, "limits.wall_time"),
    ({"ram": 1}, 'limit "ram" is unknown'),
]


def bad_calls():
    with mcp.Broker() as broker, broker.client() as client:
        for limits, words in BAD_LIMITS:
            result = client.call("sandbox_exec", {"argv": ["true"], "limits": limits})
            tap.check(result["isError"] and "structuredContent" not in result, str(result))
            tap.contains(result["content"][0]["text"], words, str(limits))


def above_the_host(way):
    """Allowed: more than there is cannot be used up."""
    way.run("true", limits={"memory": 1 << 50, "pids": 1000000}).expect(0)


def least_memory(way):
    """What is let in as enough is enough."""
    way.run("true", limits={"memory": 2 * MIB, "pids": 1, "inodes": 64, "open_files": 32}).expect(0)


# --- ceilings ---


def config_env(**config):
    env = tap.template_env()
    tap.write(os.path.join(env["AGENTCRATE_DATA_DIR"], "agentcrated.json"), json.dumps(config))
    return env


def ceilings():
    env = config_env(instance={"memory": "256M", "pids": 100})
    with mcp.Broker(env=env) as broker, broker.client() as client:
        record = client.exec("true")
        tap.equal(state_of(record, "memory")["max"], 256 * MIB, "a default above the ceiling")
        tap.equal(state_of(record, "disk")["max"], 128 * MIB, "disk")
        result = client.call("sandbox_exec", {"argv": ["true"], "limits": {"memory": "1G"}})
        tap.check(result["isError"] and "structuredContent" not in result, str(result))
        for word in ("memory", "1G", "256M", "instance.memory"):
            tap.contains(result["content"][0]["text"], word)


def clamped():
    env = config_env(instance={"memory": "256M", "on_excess": "clamp"})
    with mcp.Broker(env=env) as broker, broker.client() as client:
        record = client.exec("true", limits={"memory": "1G"})
        tap.equal(state_of(record, "memory")["max"], 256 * MIB, "max")
        texts = [entry["text"] for entry in record["evidence"]]
        tap.check(any("1G was asked for" in text for text in texts), lambda: f"not said: {texts}")


def shared_ceiling():
    """Two jobs that are modest each, and together beyond the ceiling: the larger one ends."""
    env = config_env(instance={"memory": "160M"})
    folder = tap.folder("ceiling")
    text = (
        "import os, sys, time\n"
        "x = bytearray(int(sys.argv[1]) << 20)\n"
        "while not os.path.exists('/workspace/go'): time.sleep(0.05)\n"
    )

    def start(client, size):
        argv = ["python3", "-c", text, str(size)]
        arguments = {"argv": argv, "limits": {"memory": 150 * MIB}, "timeout_ms": 60000 * SLOW}
        return client.start("tools/call", {"name": "sandbox_exec", "arguments": arguments})

    with mcp.Broker(env=env) as broker, broker.client(workspace=folder, mode="ro") as one, \
            broker.client(workspace=folder, mode="ro") as two:
        ids = [start(one, 60), start(two, 130)]
        large = two.wait(ids[1], 60 * SLOW)["structuredContent"]
        tap.write(os.path.join(folder, "go"), "")
        small = one.wait(ids[0], 60 * SLOW)["structuredContent"]
    tap.equal(small["outcome"], "exited", "the smaller job")
    tap.equal(large["outcome"], "limit", "the larger job")
    met = large["limit"]
    tap.equal((met["name"], met["level"], met["max"]), ("memory", "instance", 160 * MIB), "limit")


def gives_way():
    """A job that has worked gives way to others, one that sleeps and one that is alone do not."""
    spin = "while :; do :; done"
    with mcp.Broker() as broker, broker.client() as client:
        by_cgroup = has_cgroup(client.exec("true"), "cpus")

        def start(argv):
            return client.start("tools/call", {"name": "sandbox_exec", "arguments": {
                "argv": argv, "timeout_ms": 60000 * SLOW}})

        def pid_of(name):
            found = machine.descendants(broker.pid)
            return next((pid for pid, command in found.items() if command == name), None)

        def priority(name):
            pid = pid_of(name)
            if not by_cgroup:
                return os.getpriority(os.PRIO_PROCESS, pid)
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
                path = file.read().splitlines()[-1].partition("::")[2]
            with open(f"/sys/fs/cgroup{path}/../cpu.weight", encoding="ascii") as file:
                return int(file.read())

        own = os.getpriority(os.PRIO_PROCESS, 0)
        usual, lowered = (100, 11) if by_cgroup else (own, max(own, 10))
        waiting = [start(["dash", "-c", spin])]
        tap.check(tap.wait_until(lambda: pid_of("dash"), 20 * SLOW), "no spinning job")
        time.sleep(0.3 * SLOW)
        tap.equal(priority("dash"), usual, "of a job that is alone")
        waiting.append(start(["sleep", "60"]))
        tap.check(tap.wait_until(lambda: pid_of("sleep"), 20 * SLOW), "no sleeping job")
        tap.check(tap.wait_until(lambda: priority("dash") == lowered, 20 * SLOW),
                  lambda: f"the spinning job has {priority('dash')}, not {lowered}")
        # Emulated, to start a program is much work already.
        if not IN_VM:
            tap.equal(priority("sleep"), usual, "of a job that sleeps")
        autogroup = f"/proc/{pid_of('dash')}/autogroup"
        if not by_cgroup and os.path.exists(autogroup):
            def nice():
                with open(autogroup, encoding="ascii") as file:
                    return file.read().rpartition(" ")[2].strip()
            tap.check(tap.wait_until(lambda: nice() in ("10", ""), 20),
                      lambda: f"the session is {nice()}, not 10")
        for request in waiting:
            client.notify("notifications/cancelled", {"requestId": request})


# Ends when as many sessions as it is told were made to give way, and its own three times, since it
# has taken that back twice.
TAKES_BACK = """
import os, sys, time
def gives_way():
    with open("/proc/self/autogroup") as file:
        return file.read().endswith(" 10\\n")
def take_back():
    fd = os.open("/proc/self/autogroup", os.O_WRONLY)
    try:
        os.write(fd, b"0")
    except BlockingIOError:  # users can do so some times a second
        pass
    os.close(fd)
def once(pause=0):
    while not gives_way():
        time.sleep(pause)
once()
children = []
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        os.setsid()
        once(0.05)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
for _ in range(2):
    once()
    while gives_way():
        take_back()
once()
print("gave way")
"""


def keeps_giving_way():
    """What a job takes back for its session lasts until the next look, however many it has had."""
    if not os.path.exists("/proc/self/autogroup"):
        raise tap.Skip("host kernel does not share processors by sessions")
    with mcp.Broker() as broker, broker.client() as client, broker.client() as other:
        if has_cgroup(client.exec("true"), "cpus"):
            raise tap.Skip("host shares processors by cgroups, which no job can change")
        sleep = other.start("tools/call", {"name": "sandbox_exec", "arguments": {
            "argv": ["sleep", "100"]}})
        # The kernel sets ten a second for users.
        sessions = 70 if os.geteuid() == 0 else 3
        result = client.exec("python3", "-c", TAKES_BACK, str(sessions), timeout_ms=40000)
        tap.equal((result["outcome"], result["stdout"]), ("exited", "gave way\n"), str(result))
        other.notify("notifications/cancelled", {"requestId": sleep})


def strict_broker():
    with mcp.Broker() as broker, broker.client() as client:
        record = client.exec("true")
    env = config_env(enforce="strict")
    with mcp.Broker(env=env) as broker, broker.client() as client:
        result = client.call("sandbox_exec", {"argv": ["echo", "ran"]})
        if has_cgroup(record):
            tap.equal(result["structuredContent"]["stdout"], "ran\n", "stdout")
            return
        tap.check(result["isError"] and "structuredContent" not in result, str(result))
        tap.contains(result["content"][0]["text"], "limit memory: only sampling")


CASES = [
    ("on_hit refuse: forks are refused, the job lives on", refuse_pids),
    ("a refused fork that the main process gives up at", refused_fork_is_the_end),
    ("LIM-01, row 67: a child without memory ends the job", child_out_of_memory),
    ("LIM-03 no way around the limit by swap", no_swap),
    ("LIM-08 threads beyond a small limit", hungry_runtime),
    ("LIM-13 helpers do not count", own_helpers_do_not_count),
    ("LIM-14 a thread for each processor", thread_for_each_processor),
    ("PROC-02 an endless loop really ends", loop_really_ends),
    ("FS-10 no cgroup file system", no_cgroupfs),
    ("peaks are told", peaks),
    ("cpus slow a job down", throttled),
    ("the least that is let in is enough", least_memory),
]

# A cgroup has no part in these.
OTHER_CASES = [
    ("LIM-04 a full disk is refused, the shell lives on", refuse_disk),
    ("LIM-04 a full disk ends the job, with its last words", end_disk),
    ("LIM-09 address space is no memory", big_address_space),
    ("LIM-10 a thousand small files", many_files),
    ("LIM-12 few descriptors", few_descriptors),
    ("vfork is no memory", vfork_is_no_memory),
    ("limits above the host's means", above_the_host),
]


def cases():
    with jobs.ways() as ways:
        for way in ways[:1] if ONLY_RUN else ways:
            for name, test in CASES + ([] if IN_VM else OTHER_CASES):
                tap.case(f"{name} ({way.name})", test, way)


def of_a_broker():
    tap.case("what nothing can enforce is refused by name (sandbox_exec)", refused_by_call)
    tap.case("a ceiling: defaults are lowered, calls refused", ceilings)
    tap.case("a ceiling: calls are clamped", clamped)
    tap.case("a job that has worked gives way to others", gives_way)
    tap.case("what it takes back for its sessions lasts one look", keeps_giving_way)
    tap.case("enforce strict of a broker", strict_broker)


def main():
    tap.become_subreaper()
    before = machine.Picture.settled()
    means = [limit["enforced_by"] for limit in tap.crate("true").expect(0).record["limits"]]
    tap.diag(f"limits of agentcrate-run by {means}")
    table()
    cases()
    tap.case("LIM-07 other processes of the uid", others_of_the_uid)
    place()
    waiting()
    tap.case("what nothing can enforce is refused by name (agentcrate-run)", refused_by_run)
    if not IN_VM:
        tap.case("bad figures on the command line", bad_options)
        tap.case("bad figures in a call", bad_calls)
    if not ONLY_RUN:
        of_a_broker()
    tap.case("nothing is left", before.expect_same)


if __name__ == "__main__":
    sys.exit(tap.main(main))
