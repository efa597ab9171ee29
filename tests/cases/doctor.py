#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""agentcrate doctor: on this host, and on hosts that lack something, which are made here out of
namespaces and filters that only the program itself sees (HOST-01 to 08, as far as it is asked).

Wherever it says that crates cannot run, agentcrate-run must fail at the very step that it names."""

import ctypes
import errno
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import machine  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

CLI = tap.program("agentcrate")
RUN = tap.program("agentcrate-run")
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 22, 38
RET_ERRNO, RET_KILL, RET_ALLOW = 0x00050000, 0x80000000, 0x7FFF0000
# The same on every machine since they are new; the older ones differ.
CALLS = {"open_tree": 428, "move_mount": 429, "fsopen": 430, "clone3": 435, "mount_setattr": 442,
         "landlock_create_ruleset": 444,
         "unshare": {"x86_64": 272, "aarch64": 97}.get(os.uname().machine)}
HANG = 60

REQUIRED = ["kernel", "configuration", "launcher", "id-range", "capabilities", "namespace-limits",
            "user-namespace", "mount-namespace", "pid-namespace", "ipc-namespace", "uts-namespace",
            "net-namespace", "cgroup-namespace", "mount-api", "tmpfs", "proc", "devpts", "mqueue",
            "seccomp", "trial"]
LIMITS = ["cgroup2", "cgroup-memory", "cgroup-pids", "cgroup-cpu", "cgroup-io",
          "clone-into-cgroup", "cgroup-kill", "system-manager", "user-manager", "enforcement"]
NAMES = ["memory", "pids", "cpus", "cpu_time", "wall_time", "disk", "inodes", "open_files",
         "file_size", "output", "io_read_bps", "io_write_bps"]
MEANS = {"cgroup", "rlimit", "sampler", "mount", "timer", "broker", "refused"}


# --- running it ---


def start(argv, prepare=None, env=None):
    """Runs a program in a host that prepare makes, in the child."""
    started = time.monotonic()
    try:
        ended = subprocess.run(argv, preexec_fn=prepare, env=env or tap.clean_env(), cwd="/",
                               stdin=subprocess.DEVNULL, capture_output=True, timeout=HANG,
                               check=False)
    except subprocess.TimeoutExpired:
        raise tap.Failed(f"hangs: {argv}") from None
    return tap.Ran(argv, ended.returncode, ended.stdout, ended.stderr, time.monotonic() - started)


class Report:
    """What agentcrate doctor --json says; its form is checked each time."""

    def __init__(self, prepare=None, env=None):
        self.ran = start([CLI, "doctor", "--json"], prepare, env)
        tap.check(self.ran.out, lambda: str(self.ran))
        self.json = json.loads(self.ran.out)
        self.checks = {check["id"]: check for check in self.json["checks"]}
        self.limits = {limit["name"]: limit for limit in self.json["limits"]}
        self.form()

    def form(self):
        tap.equal(list(self.json), ["can_run", "user", "kernel", "checks", "limits",
                                    "secrets"], "members")
        tap.equal(self.ran.err, b"", "stderr")
        tap.equal(len(self.checks), len(self.json["checks"]), "distinct ids")
        for check in self.json["checks"]:
            tap.equal(list(check), ["id", "title", "need", "answer", "found", "cause", "step",
                                    "errno", "remedy"], "members of a check")
            tap.check(check["need"] in ("required", "limits", "optional"), f"{check}")
            tap.check(check["answer"] in ("yes", "limited", "no"), f"{check}")
            tap.check(check["answer"] == "yes" or check["cause"], f"no cause: {check}")
            name = check["errno"]
            tap.check(name is None or hasattr(errno, name), f"no errno: {check}")
        tap.equal(list(self.limits), NAMES, "limits")
        for limit in self.limits.values():
            tap.check(limit["enforced_by"] in MEANS, f"{limit}")
        self.status()

    def status(self):
        """Its exit status is what the manual says of this report."""
        weak = any(limit["default"] and limit["enforced_by"] in ("sampler", "refused")
                   for limit in self.limits.values())
        tap.equal(self.json["can_run"], self.checks["trial"]["answer"] == "yes", "can_run")
        tap.equal(self.ran.rc, (1 if weak else 0) if self.json["can_run"] else 2, "exit status")

    def expect(self, name, answer, cause=None, remedy=None, **members):
        check = self.checks[name]
        tap.equal(check["answer"], answer, f"answer of {check}")
        if cause:
            tap.check(re.search(cause, check["cause"] or ""), f"cause is not {cause!r}: {check}")
        if remedy:
            tap.check(re.search(remedy, check["remedy"] or ""),
                      f"remedy is not {remedy!r}: {check}")
        for member, value in members.items():
            tap.equal(check[member], value, f"{member} of {check}")

    def runner_fails_alike(self, prepare=None, env=None):
        """agentcrate-run on the same host: no job, its own status, the step of the trial."""
        trial = self.checks["trial"]
        ran = start([RUN, "--", "/bin/sh", "-c", "echo ran"], prepare, env)
        tap.equal((ran.rc, ran.out), (125, b""), f"end of {ran}")
        tap.contains(ran.errors, trial["cause"].partition(":")[0], "stderr")
        if trial["errno"]:
            tap.contains(ran.errors, trial["errno"], "stderr")
        if trial["remedy"]:
            tap.contains(ran.errors, trial["remedy"], "stderr")

    def runner_works(self, prepare=None, env=None):
        tap.check(self.json["can_run"], lambda: json.dumps(self.checks["trial"]))
        ran = start([RUN, "--", "/bin/echo", "ran"], prepare, env)
        tap.equal((ran.rc, ran.out), (0, b"ran\n"), f"end of {ran}")


# --- hosts that lack something ---


def fail_if(status, what):
    if status != 0:
        raise OSError(ctypes.get_errno(), what)


def write_proc(name, text):
    with open(f"/proc/{name}", "w", encoding="ascii") as file:
        file.write(text)


def own_user_namespace(inside=None):
    """A user namespace in which this process has the given id, or its own."""
    uid, gid = os.geteuid(), os.getegid()
    inside_uid = uid if inside is None else inside
    inside_gid = gid if inside is None else inside
    fail_if(LIBC.unshare(CLONE_NEWUSER), "unshare")
    write_proc("self/setgroups", "deny")
    write_proc("self/uid_map", f"{inside_uid} {uid} 1")
    write_proc("self/gid_map", f"{inside_gid} {gid} 1")


def own_mounts():
    if tap.WHO == "user":
        own_user_namespace()
    fail_if(LIBC.unshare(CLONE_NEWNS), "unshare")
    fail_if(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")


def bind(source, target):
    fail_if(LIBC.mount(source.encode(), target.encode(), None, MS_BIND, None), f"bind {target}")


def no_user_namespaces():
    own_user_namespace(1000)
    write_proc("sys/user/max_user_namespaces", "0")


def no_net_namespaces():
    own_user_namespace(1000)
    write_proc("sys/user/max_net_namespaces", "0")


def filtered(answer, *names):
    """A system call filter, as an outer container's: these calls are answered so."""
    numbers = [CALLS[name] for name in names]
    program = [(0x20, 0, 0, 0)]
    program += [(0x15, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    program += [(0x06, 0, 0, RET_ALLOW), (0x06, 0, 0, answer)]

    def prepare():
        code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line)
                                                    for line in program))
        header = struct.pack("<HxxxxxxQ", len(program), ctypes.addressof(code))
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        fail_if(LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header), 0, 0), "prctl")
    return prepare


def missing(*names):
    return filtered(RET_ERRNO | errno.ENOSYS, *names)


# What container runtimes cover; not every kernel has each.
MASKED = next(filter(os.path.exists, ("/proc/kcore", "/proc/keys", "/proc/timer_list")))


def masked_proc():
    own_mounts()
    bind("/dev/null", MASKED)


def cgroup2_points():
    with open("/proc/self/mounts", encoding="utf-8") as file:
        mounts = [line.split()[1:3] for line in file]
    return [point for point, kind in mounts if kind == "cgroup2"]


def read_only_cgroups():
    points = cgroup2_points()
    own_mounts()
    for point in points:
        flags = MS_BIND | MS_REMOUNT | MS_RDONLY
        bind(point, point)
        fail_if(LIBC.mount(None, point.encode(), None, flags, None), "remount")


def under_systemd(listen=None):
    """/run says that systemd runs here; at most one socket of a manager that nobody answers."""
    def prepare():
        own_mounts()
        fail_if(LIBC.mount(b"none", b"/run", b"tmpfs", 0, None), "mount")
        os.makedirs("/run/systemd/system")
        if listen:
            os.makedirs(os.path.dirname(listen), exist_ok=True)
            os.makedirs("/run/dbus", exist_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(listen)
            listener.listen(8)
            if os.fork() == 0:
                hold_open(listener.fileno())
    return prepare


def hold_open(descriptor):
    """A child that has that open, and nothing else, until its parent ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.closerange(0, descriptor)
    os.closerange(descriptor + 1, 256)
    while True:
        signal.pause()


# --- this host ---


def this_host():
    report = Report()
    tap.equal([name for name, check in report.checks.items() if check["need"] == "required"],
              REQUIRED, "what is required")
    tap.equal([name for name, check in report.checks.items() if check["need"] == "limits"],
              LIMITS, "what limits need")
    for name in REQUIRED:
        report.expect(name, "yes")
    report.runner_works()


def same_order():
    first, second = Report(), Report()
    tap.equal([check["id"] for check in first.json["checks"]],
              [check["id"] for check in second.json["checks"]], "order")


def record_agrees():
    """What enforces a limit is the same in the record of a job."""
    report = Report()
    ran = tap.crate("true", options=["--limit", "wall_time=60s", "--limit", "output=1M"]).expect(0)
    tap.check(ran.record["limits"], "no limits in the record")
    for state in ran.record["limits"]:
        name = state["name"]
        if state["enforced_by"]:  # else it is unlimited, and no means is needed
            tap.equal(state["enforced_by"], report.limits[name]["enforced_by"], name)


def refusals_agree():
    """What it says is refused is refused, and nothing else."""
    report = Report()
    values = {"cpus": "1", "wall_time": "60s", "cpu_time": "60s"}
    for name, limit in report.limits.items():
        ran = tap.run([RUN, "--limit", f"{name}={values.get(name, '128M')}" if name not in (
            "pids", "inodes", "open_files") else f"{name}=256", "--", "true"])
        expected = 125 if limit["enforced_by"] == "refused" else 0
        tap.equal(ran.rc, expected, f"{limit}: {ran}")
        if expected:
            tap.contains(ran.errors, name, "stderr")
            tap.check(limit["reason"], f"no reason: {limit}")


def nothing_is_left():
    before = machine.Picture.settled()
    Report()
    Report(missing("mount_setattr"))
    before.expect_same()


def for_people():
    ran = start([CLI, "doctor"])
    report = Report()
    tap.equal(ran.rc, report.ran.rc, "exit status")
    for check in report.json["checks"]:
        shown = "ok" if check["answer"] == "yes" else check["answer"]
        tap.check(re.search(rf"^{shown} +{re.escape(check['title'])}", ran.text, re.M),
                  f"no line for {check}: {ran.text}")
        for member in "cause", "remedy":
            tap.check(not check[member] or check[member] in ran.text, f"{member} of {check}")
    for name, limit in report.limits.items():
        tap.check(re.search(rf"^{limit['enforced_by']} +{name}$", ran.text, re.M), name)
    tap.contains(ran.text.splitlines()[-1], "Crates run here as ")
    tap.lacks(ran.text, "\033")


def on_terminal(**extra):
    pid, master = pty.fork()
    if pid == 0:
        os.execve(CLI, [CLI, "doctor"], tap.clean_env(TERM="xterm", **extra))
    data = b""
    try:
        while chunk := os.read(master, 65536):
            data += chunk
    except OSError:  # nobody has the other end open any more
        pass
    os.close(master)
    tap.check(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) in (0, 1), "exit status")
    return data


def color():
    tap.contains(on_terminal(), b"\033[32mok")
    tap.lacks(on_terminal(NO_COLOR="1"), b"\033")


def usage():
    for options in ["--no-such"], ["word"], ["--json=1"]:
        ran = start([CLI, "doctor", *options])
        tap.equal((ran.rc, ran.out), (125, b""), f"end of {ran}")
        tap.check(ran.err.startswith(b"agentcrate: doctor: "), lambda: str(ran))
        tap.equal(len(ran.errors.splitlines()), 1, "lines")
    tap.equal(start([CLI, "doctor", "--help"]).rc, 0, "status of --help")


# --- other hosts ---


def without_user_namespaces():
    report = Report(no_user_namespaces)
    tap.equal(report.ran.rc, 2, "exit status")
    report.expect("namespace-limits", "no", r"user\.max_user_namespaces is 0", "above 0")
    report.expect("user-namespace", "no", "step user-namespace failed.*ENOSPC.*is 0 here",
                  r"user\.max_user_namespaces", step="user-namespace", errno="ENOSPC")
    report.expect("trial", "no", None, r"max_user_namespaces", step="user-namespace",
                  errno="ENOSPC")
    report.runner_fails_alike(no_user_namespaces)


def without_net_namespaces():
    report = Report(no_net_namespaces)
    report.expect("namespace-limits", "no", r"user\.max_net_namespaces is 0")
    report.expect("user-namespace", "yes")
    report.expect("net-namespace", "no", "is 0 here", step="net-namespace", errno="ENOSPC")
    report.expect("trial", "no", step="net-namespace", errno="ENOSPC")
    report.runner_fails_alike(no_net_namespaces)


def unshare_refused():
    prepare = filtered(RET_ERRNO | errno.EPERM, "unshare")
    report = Report(prepare)
    step = "user-namespace" if tap.WHO == "user" else "mount-namespace"
    name = "user-namespace" if tap.WHO == "user" else "mount-namespace"
    report.expect(name, "no", "a system call filter is around this program",
                  "seccomp=unconfined", step=step, errno="EPERM")
    report.expect("filtered", "limited", "Seccomp: 2")
    report.expect("trial", "no", step=step, errno="EPERM")
    report.runner_fails_alike(prepare)


def call_is_missing(name, check, can_run=False):
    """An older kernel, or a filter that makes it look like one: it is not the kernel's fault."""
    prepare = missing(name)
    report = Report(prepare)
    report.expect(check, "no", "this kernel has the call, but a system call filter",
                  "seccomp=unconfined", errno="ENOSYS")
    report.expect("kernel", "yes")
    if can_run:
        report.runner_works(prepare)
        return
    report.expect("trial", "no", None, "seccomp=unconfined", errno="ENOSYS")
    tap.equal(report.ran.rc, 2, "exit status")
    report.runner_fails_alike(prepare)


def call_kills():
    report = Report(filtered(RET_KILL, "open_tree"))
    report.expect("mount-api", "no", "step open_tree.* was ended by signal SYS",
                  "seccomp=unconfined", step="open_tree")
    tap.equal(report.ran.rc, 2, "exit status")


def proc_is_masked():
    report = Report(masked_proc)
    report.expect("proc", "no", f"masked, at {MASKED}", "systempaths=unconfined.*unmask=ALL",
                  errno="EPERM")
    report.expect("trial", "no", None, "unmask", step="proc", errno="EPERM")
    report.expect("container", "limited")
    report.runner_fails_alike(masked_proc)


def cgroups_are_read_only():
    if not cgroup2_points():
        raise tap.Skip("host has no cgroup2")
    report = Report(read_only_cgroups)
    report.expect("cgroup2", "no", "is mounted read-only", "mount it writable")
    for name in "memory", "pids", "cpu", "io":
        report.expect(f"cgroup-{name}", "no")
        tap.check(report.checks[f"cgroup-{name}"]["remedy"], name)
    tap.equal(report.limits["memory"]["enforced_by"], "sampler", "memory")
    tap.equal(report.limits["cpus"]["enforced_by"], "refused", "cpus")
    tap.equal(report.ran.rc, 1, "exit status")
    report.runner_works(read_only_cgroups)


OWN_MANAGER = "system-manager" if tap.WHO == "root" else "user-manager"


def manager_is_absent():
    """HOST-03: said by name, with what to do; limits are enforced in another way."""
    prepare = under_systemd()
    report = Report(prepare)
    report.expect(OWN_MANAGER, "no", "manager", "linger" if tap.WHO == "user" else "dbus")
    tap.check(report.limits["memory"]["enforced_by"] == "sampler", f"{report.limits['memory']}")
    tap.equal(report.ran.rc, 1, "exit status")
    report.runner_works(prepare)


def manager_is_silent():
    folder = "/run" if tap.WHO == "root" else f"/run/user/{os.getuid()}"
    prepare = under_systemd(f"{folder}/systemd/private")
    report = Report(prepare)
    report.expect(OWN_MANAGER, "no", f"nobody answers at {folder}/systemd/private within 2 s",
                  step="bus-ping", errno="ETIMEDOUT")
    tap.check(report.ran.seconds < 30, f"took {report.ran.seconds} s")
    report.runner_works(prepare)


def manager_is_dead():
    folder = "/run" if tap.WHO == "root" else f"/run/user/{os.getuid()}"

    def prepare():
        under_systemd()()
        path = f"{folder}/systemd/private"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).bind(path)
    report = Report(prepare)
    report.expect(OWN_MANAGER, "no", "ECONNREFUSED", step="bus-connect", errno="ECONNREFUSED")
    report.runner_works(prepare)


def id_range_is_not_mapped():
    def prepare():
        own_user_namespace(0)
    report = Report(prepare)
    report.expect("id-range", "no", "is not mapped in this user namespace", "subuid_range",
                  step="sub-uid")
    report.expect("trial", "no", None, "subuid_range", step="sub-uid")
    report.runner_fails_alike(prepare)


def root_lacks_capabilities():
    ran = start(["/usr/bin/setpriv", "--bounding-set=-sys_admin", CLI, "doctor", "--json"])
    checks = {check["id"]: check for check in json.loads(ran.out)["checks"]}
    tap.equal(ran.rc, 2, "exit status")
    tap.equal(checks["capabilities"]["answer"], "no", "capabilities")
    tap.contains(checks["capabilities"]["cause"], "SYS_ADMIN")
    tap.contains(checks["mount-namespace"]["cause"], "this root has no CAP_SYS_ADMIN")


def groups_stay():
    command = ["/usr/bin/setpriv", "--reuid=1000", "--regid=1000", "--groups=1000,4,24",
               "--inh-caps=-all", CLI, "doctor", "--json"]
    ran = start(command)
    checks = {check["id"]: check for check in json.loads(ran.out)["checks"]}
    tap.equal(checks["groups"]["answer"], "limited", "groups")
    tap.contains(checks["groups"]["cause"], "2 supplementary groups")


def launcher_is_missing():
    env = tap.clean_env(AGENTCRATE_LIBEXEC_DIR="/nonexistent")
    report = Report(env=env)
    report.expect("launcher", "no", "/nonexistent/agentcrate-launcher.*ENOENT", "install",
                  step="launcher", errno="ENOENT")
    report.expect("overrides", "limited", "AGENTCRATE_LIBEXEC_DIR=/nonexistent")
    tap.equal(report.ran.rc, 2, "exit status")


def configuration_is_broken():
    env = tap.template_env(broken={"no_such_key": 1})
    report = Report(env=env)
    report.expect("configuration", "no", r"broken\.json.*no_such_key")
    env = tap.clean_env(AGENTCRATE_DATA_DIR="/nonexistent")
    report = Report(env=env)
    report.expect("configuration", "no", None, "install AgentCrate completely")
    tap.equal(report.ran.rc, 2, "exit status")


def memory_is_less_than_the_limit():
    """Allowed, but said."""
    with open(os.path.join(tap.data_dir(), "templates.d", "host.json"), encoding="utf-8") as file:
        template = json.load(file)
    template.setdefault("limits", {})["memory"] = "4096G"
    report = Report(env=tap.template_env(host=template))
    report.expect("memory", "limited", r"limit memory 4096\.0G is above this host's memory")
    tap.check(report.json["can_run"], "crates run all the same")


def enforcement_is_judged():
    """What agentcrated.json asks for, and whether jobs would be refused for it."""
    for config, named in (({"enforce": "sampled"}, None), ({"enforce": "strict"}, "limit memory: "),
                          ({"enforce": "strict", "instance": {"pids": 9}}, "limit ")):
        env = tap.template_env()
        tap.write(os.path.join(env["AGENTCRATE_DATA_DIR"], "agentcrated.json"), json.dumps(config))
        report = Report(env=env)
        if named and report.limits["memory"]["enforced_by"] != "cgroup":
            report.expect("enforcement", "no", named, "agentcrate doctor|cgroups")
        else:
            report.expect("enforcement", "yes", found=config["enforce"])


def broker_is_seen():
    path = os.path.join(tap.folder("broker"), "socket")
    env = tap.clean_env(AGENTCRATE_SOCKET=path)
    Report(env=env).expect("broker", "no", "no broker listens at .*ENOENT", "agentcrated.socket",
                           step="connect", errno="ENOENT")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        Report(env=env).expect("broker", "no", errno="ECONNREFUSED")
        listener.listen(4)
        Report(env=env).expect("broker", "yes", found=f"listens at {path}")


def tests():
    tap.become_subreaper()
    tap.case("this host: all that crates need is there", this_host)
    tap.case("the same checks in the same order each time", same_order)
    tap.case("limits: enforced by what records say", record_agrees)
    tap.case("limits: what is refused, and nothing else", refusals_agree)
    tap.case("nothing is left behind", nothing_is_left)
    tap.case("text: a line for each check, causes and remedies below", for_people)
    tap.case("text: colour on a terminal only", color)
    tap.case("wrong usage is status 125 and one line", usage)
    tap.case("HOST-01 no user namespaces are left", without_user_namespaces)
    tap.case("HOST-01 unshare is refused by a filter", unshare_refused)
    tap.case("no net namespaces are left", without_net_namespaces)
    tap.case("HOST-02 no Landlock: said, and crates run", call_is_missing,
             "landlock_create_ruleset", "landlock", True)
    tap.case("HOST-02 no clone3: said, and crates run", call_is_missing, "clone3",
             "clone-into-cgroup", True)
    tap.case("HOST-02 no mount_setattr", call_is_missing, "mount_setattr", "mount-api")
    tap.case("HOST-02 no open_tree", call_is_missing, "open_tree", "mount-api")
    tap.case("HOST-02 no fsopen", call_is_missing, "fsopen", "tmpfs")
    tap.case("a filter that kills", call_kills)
    tap.case("a masked /proc", proc_is_masked)
    tap.case("HOST-08 a read-only cgroup2", cgroups_are_read_only)
    tap.case("HOST-03 no service manager for this user", manager_is_absent)
    tap.case("HOST-06 a service manager that never answers", manager_is_silent)
    tap.case("HOST-03 the socket of a dead service manager", manager_is_dead)
    tap.case("the launcher is missing", launcher_is_missing)
    tap.case("faults of the configuration", configuration_is_broken)
    tap.case("limit memory above the host's memory", memory_is_less_than_the_limit)
    tap.case("enforcement as agentcrated.json asks for it", enforcement_is_judged)
    tap.case("the broker's socket", broker_is_seen)
    if tap.WHO == "root":
        tap.case("ids that are not mapped", id_range_is_not_mapped)
        tap.case("root without a capability", root_lacks_capabilities)
        tap.case("groups that a plain user keeps", groups_stay)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
