#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# vm-as: root dev
# vm-timeout: 600
"""The tree of cgroups by itself, on a kernel that has every controller: limits, levels, ends.

Every limit is read from the kernel's files by this script, and every level is met by a real job.
"""

import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

CGROUPS = "/sys/fs/cgroup"
ROOT = tap.WHO == "root"
M = 1 << 20
CPU, MEMORY, PIDS, IO = 1, 2, 4, 8
# Both grow until they are stopped: by memory, by the number of processes.
HOG = "head -c 200M /dev/zero | tail"
FORKS = "i=0; while [ $i -lt 30 ]; do sleep 30 & i=$((i+1)); done; wait"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read().strip()


class Probe:
    """cgroup-probe, which owns a tree."""

    def __init__(self, *argv, prefix=(), env=None):
        command = [*prefix, tap.helper("cgroup-probe"), *argv]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env or dict(os.environ))
        self.first = self.process.stdout.readline().strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def do(self, line):
        """The answer without its ok."""
        got = self.ask(line)
        tap.check(got.split(" ")[0] == "ok", lambda: f"{line}: {got}")
        return got[3:]

    def root(self):
        """The folder of the tree that this process sits in."""
        own = re.search(r"^0::(.*)/broker$", read(f"/proc/{self.process.pid}/cgroup"), re.M)
        return CGROUPS + own[1]

    def met(self, name):
        """What check says: {"memory": ("job", max, observed, hits)}"""
        met = {}
        for word in self.do(f"check {name}").split():
            kind, values = word.split("=")
            level, *numbers = values.split(":")
            met[kind] = (level, *map(int, numbers))
        return met

    def until_met(self, name, kind):
        """Waits for the events fd, then looks: a breach is told, not found by looking often."""
        for _ in range(50):
            tap.equal(self.do(f"poll {name} 20000"), "1", f"events of {name}")
            met = self.met(name)
            if kind in met:
                return met[kind]
        raise tap.Failed(f"no breach of {kind}")

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(timeout=30)


def delegated(*argv):
    """In a scope of its own, which is delegated."""
    manager = [] if ROOT else ["--user"]
    env = dict(os.environ, AGENTCRATE_DELEGATED="1")
    return Probe(*(argv or ("own",)), env=env,
                 prefix=["systemd-run", *manager, "--scope", "--quiet", "-p", "Delegate=yes"])


class Tree:
    def __init__(self, enable=""):
        self.enable = enable

    def __enter__(self):
        self.probe = delegated()
        tap.equal(self.probe.first, "ok", "the tree")
        mask = int(self.probe.do(f"enable {self.enable}"))
        tap.equal(mask & ~IO, CPU | MEMORY | PIDS, "controllers")
        return self.probe

    def __exit__(self, *_):
        self.probe.end()


# --- limits ---


def written():
    with Tree(f"memory={500 * M} pids=300") as probe:
        path = probe.do(f"crate a tenant=7 t.memory={400 * M} t.pids=200 t.cpus=2000 "
                        f"c.memory={300 * M} c.pids=100 j.memory={64 * M + 5} j.pids=20 j.cpus=1500")
        tap.check(re.fullmatch(r"jobs/t-7/c-[0-9a-f]{16}", path), path)
        root = probe.root()
        expected = {
            "jobs/memory.max": 500 * M, "jobs/pids.max": 300, "jobs/memory.swap.max": 0,
            "jobs/t-7/memory.max": 400 * M, "jobs/t-7/pids.max": 200,
            "jobs/t-7/cpu.max": "200000 100000",
            f"{path}/memory.max": 300 * M, f"{path}/pids.max": 102,
            f"{path}/cpu.max": "max 100000",
            f"{path}/exec-1/memory.max": 64 * M, f"{path}/exec-1/memory.swap.max": 0,
            f"{path}/exec-1/memory.oom.group": 1, f"{path}/exec-1/pids.max": 20,
            f"{path}/exec-1/cpu.max": "150000 100000",
            f"{path}/init/memory.max": "max", f"{path}/init/pids.max": "max",
        }
        for name, value in expected.items():
            if name.endswith("swap.max") and not os.path.exists(os.path.join(root, name)):
                continue
            tap.equal(read(root, name), str(value), name)
        for name in ("cgroup.procs", "exec-1/cgroup.procs"):
            mode = os.stat(os.path.join(root, path, name)).st_mode & 0o777
            tap.equal(mode, 0o666, f"mode of {name}")
        tap.equal(probe.do("job a cpus=1"), "", "a thousandth of a processor")
        tap.equal(read(root, path, "exec-1/cpu.max"), "1000 1000000", "cpu.max")


def not_accepted():
    with Tree() as probe:
        tap.contains(probe.ask("crate a tenant=1 j.memory=100"), "memory.max", "less than a page")
        probe.do("crate a t.pids=9")
        tap.contains(probe.ask("crate b c.memory=100"), "memory.max", "less than a page")
        crates = [name for name in os.listdir(os.path.join(probe.root(), "jobs/t-0"))
                  if name.startswith("c-")]
        tap.equal(len(crates), 1, "crates: the ones that failed leave nothing")


def changed():
    """Ceilings that several share are other than before, or lifted, while crates are there."""
    names = "memory.max", "memory.swap.max", "pids.max", "cpu.max"
    none = ["max", "max", "max", "max 100000"]
    with Tree(f"memory={500 * M} pids=300") as probe:
        jobs = os.path.join(probe.root(), "jobs")
        tenant = os.path.join(jobs, "t-7")
        pid = None
        for i, (given, wanted) in enumerate((
            (f"memory={400 * M} pids=200", [str(400 * M), "0", "200", "max 100000"]),
            ("cpus=1500", ["max", "max", "max", "150000 100000"]),
            ("", none),
            (f"memory={100 * M} pids=20", [str(100 * M), "0", "20", "max 100000"]),
        )):
            probe.do(f"ceiling {given}")
            tap.equal([read(jobs, name) for name in names], wanted, f"jobs/ with {given}")
            probe.do(f"crate c{i} tenant=7 " + " ".join("t." + word for word in given.split()))
            tap.equal([read(tenant, name) for name in names], wanted, f"t-7/ with {given}")
            pid = pid or probe.do("run c0 sleep 5; " + FORKS)
        # The first crate began below another ceiling, and meets the last.
        place, most, *_ = probe.until_met("c0", "pids")
        tap.equal((place, most), ("tenant", 20), "the breach")


def without_controller():
    with Tree() as probe:
        got = probe.ask("crate a j.rbps=1000000")
        tap.contains(got, "cgroup.controllers")
        tap.contains(got, '"io"')
        missing = probe.do("missing")
        tap.contains(missing, "io: the cgroups above do not pass it on")


def io_limits():
    with Tree() as probe:
        path = probe.do("crate a j.rbps=1048576 j.wbps=2097152")
        limits = read(probe.root(), path, "exec-1/io.max")
        devices = [read(CGROUPS, "../../block", name, "dev") for name in os.listdir("/sys/block")]
        for device in devices:
            tap.contains(limits, f"{device} rbps=1048576 wbps=2097152 ", "io.max")
        pid = probe.do("run a dd if=/dev/zero of=/var/tmp/io bs=1M count=4 conv=fsync; "
                       "rm -f /var/tmp/io")
        probe.do(f"wait {pid}")
        usage = probe.do("usage a")
        tap.check(int(re.search(r"write=(\d+)", usage)[1]) >= 3 * M, usage)


# --- breaches ---


def level(kind, expected):
    """The ceiling of one level is the lowest; job and neighbours are otherwise far from theirs."""
    low, high = (32 * M, 300 * M) if kind == "memory" else (10, 200)
    places = {"job": "j", "sandbox": "c", "tenant": "t"}
    limits = {place: low if name == expected else high for name, place in places.items()}
    if kind == "pids" and expected == "sandbox":
        limits["c"] -= 2
    instance = low if expected == "instance" else high
    with Tree(f"{kind}={instance}") as probe:
        given = " ".join(f"{place}.{kind}={value}" for place, value in limits.items())
        probe.do(f"crate quiet tenant=1 {given}")
        probe.do("run quiet sleep 60")
        # A neighbour below the same ceilings; it may not be charged with anything.
        probe.do(f"crate a tenant=1 {given}")
        probe.do(f"run a {HOG if kind == 'memory' else FORKS}")
        met = probe.until_met("a", kind)
        tap.equal(met[:2], (expected, low), "level and ceiling")
        tap.check(met[2] >= low * 9 // 10 and met[3] >= 1, lambda: f"observed and hits: {met}")
        tap.equal(probe.met("quiet"), {}, "the neighbour's breaches")
        tap.equal(probe.do("populated quiet"), "1 1", "the neighbour lives")


def used():
    with Tree() as probe:
        probe.do(f"crate a j.memory={100 * M} j.pids=20")
        pid = probe.do("run a head -c 20M /dev/zero | tail | md5sum")
        probe.do(f"wait {pid}")
        usage = dict(word.split("=") for word in probe.do("usage a").split())
        usage = {name: int(value) for name, value in usage.items()}
        tap.check(usage["memory_peak"] >= 20 * M, lambda: str(usage))
        tap.check(usage["pids_peak"] >= 3, lambda: str(usage))
        tap.check(usage["cpu"] > 0, lambda: str(usage))
        tap.equal(probe.met("a"), {}, "breaches")


# --- ends ---


def killed():
    """The whole of a crate, also what has left its session; then the cgroup goes."""
    with Tree() as probe:
        path = probe.do("crate a j.pids=50")
        probe.do("init a sleep 100")
        probe.do("run a trap '' TERM HUP INT; setsid sh -c 'setsid sleep 100 & sleep 100' & "
                 "sleep 100")
        tap.equal(probe.do("populated a"), "1 1", "populated")
        probe.do("kill-job a")
        tap.check(tap.wait_until(lambda: probe.do("populated a") == "1 0", 30), "the job lives")
        probe.do("watch-end a")
        probe.do("kill a")
        while probe.do("populated a") != "0 0":
            tap.equal(probe.do("poll a 30000"), "1", "the end is told")
            probe.met("a")
        folder = os.path.join(probe.root(), path)
        tap.check(os.path.isdir(folder), "the cgroup is there until it was read")
        probe.do("free a")
        tap.check(tap.wait_until(lambda: probe.do("sweep") == "0", 30), "is never removed")
        tap.check(not os.path.exists(folder), "the cgroup is left")


def vanished():
    with Tree() as probe:
        path = os.path.join(probe.root(), probe.do("crate a j.pids=5"))
        for name in ("exec-1", "init", "."):
            os.rmdir(os.path.normpath(os.path.join(path, name)))
        for command in ("usage a", "check a"):
            tap.contains(probe.ask(command), "vanished" if command == "check a" else "removed")


def owner_killed():
    """What a dead owner has left is found by the next one: here below a jobs/ that was given."""
    top = os.path.join(CGROUPS, "agentcrate-given")
    jobs = os.path.join(top, "jobs")
    os.makedirs(jobs)
    try:
        with open(os.path.join(top, "cgroup.subtree_control"), "w", encoding="ascii") as file:
            file.write("+memory +pids +cpu +io")
        probe = Probe("service", jobs)
        tap.equal(probe.do("enable pids=50"), "15", "controllers")
        pid = int(probe.do("run a sleep 100") if probe.do("crate a j.pids=5") else 0)
        second = Probe("service", jobs)
        tap.contains(second.first, "refused another process")
        second.end()
        probe.process.kill()
        probe.end()
        tap.check(os.path.exists(f"/proc/{pid}"), "the job has ended by itself")
        third = Probe("service", jobs)
        tap.equal(third.first, "ok", "the next owner")
        tap.check(tap.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30), "the job lives")
        third.end()
        fourth = Probe("service", jobs)
        fourth.end()
        tap.equal([name for name in os.listdir(jobs) if os.path.isdir(os.path.join(jobs, name))],
                  [], "cgroups left")
    finally:
        subprocess.run(["find", top, "-depth", "-type", "d", "-exec", "rmdir", "{}", "+"],
                       check=False)


# --- sources ---


def isolated(script, *argv):
    """A prefix: in a mount namespace of its own, after that shell text."""
    return ["unshare", "--mount", "/bin/sh", "-c", script + '; exec "$0" "$@"', *argv]


def read_only():
    probe = Probe("own", prefix=["systemd-run", "--scope", "--quiet", "-p", "Delegate=yes",
                                 *isolated(f"mount -o remount,ro,bind {CGROUPS}")])
    tap.contains(probe.first, "refused")
    tap.contains(probe.first, "writable")
    probe.end()


def not_delegated():
    probe = Probe("own", prefix=["systemd-run", *([] if ROOT else ["--user"]), "--scope",
                                 "--quiet", "/bin/sh", "-c", '"$@"; exit', "sh"])
    tap.equal(probe.first, "refused the own cgroup is not delegated (Delegate=yes)")
    probe.end()
    probe = Probe("plain")
    tap.equal(probe.first, "refused cgroups are the service manager's on this host")
    probe.end()


def plain():
    """Without systemd, in the root of the hierarchy, as where another init has started us."""
    hide = "mount -t tmpfs tmpfs /run/systemd; echo 0 >/sys/fs/cgroup/cgroup.procs"
    probe = Probe("plain", prefix=isolated(hide))
    tap.equal(probe.first, "ok", "the tree")
    mine = [name for name in os.listdir(CGROUPS) if name.startswith("agentcrate-")]
    tap.equal(len(mine), 1, "roots")
    tap.equal(probe.do(f"enable memory={200 * M}"), "15", "controllers")
    path = os.path.join(CGROUPS, mine[0], probe.do("crate a j.pids=7"))
    tap.equal(read(path, "exec-1/pids.max"), "7", "pids.max")
    pid = int(probe.do("run a sleep 100"))
    os.kill(probe.process.pid, signal.SIGKILL)
    probe.end()

    second = Probe("plain", prefix=isolated(hide))
    tap.equal(second.first, "ok", "the next tree")
    tap.check(tap.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30), "the job lives")
    second.end()
    Probe("plain", prefix=isolated(hide)).end()
    tap.equal([name for name in os.listdir(CGROUPS) if name.startswith("agentcrate-")], [],
              "cgroups left")


def as_root():
    """What takes root, and the controllers that only root has here."""
    tap.case("io limits are on every disk, and io is counted", io_limits)
    tap.case("LEAK-01: what a killed owner left is removed by the next", owner_killed)
    tap.case("a read-only cgroup file system is named", read_only)
    tap.case("without a service manager a child of the own cgroup is taken", plain)


def main():
    tap.case("limits of four levels are in the kernel's files", written)
    tap.case("ceilings change below running crates", changed)
    tap.case("what the kernel does not take is a failure", not_accepted)
    tap.case("use is counted where there is no breach", used)
    for kind in ("memory", "pids"):
        for place in ("job", "sandbox", "tenant", "instance"):
            tap.case(f"a breach of {kind} at the level {place}", level, kind, place)
    tap.case("LEAK-02: everything is killed, told and removed", killed)
    tap.case("a cgroup that vanishes is named", vanished)
    tap.case("a cgroup that was not delegated is left alone", not_delegated)
    if ROOT:
        as_root()
    else:
        tap.case("HOST-04: a limit whose controller is missing is refused by name",
                 without_controller)


sys.exit(tap.main(main))
