#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# vm-as: root dev
# vm-delegate: default all
"""The installed units: of the system, and of a user who lingers. Their broker is started by its
socket, ends when idle, comes back, and holds limits with what its manager delegates to it."""

import contextlib
import json
import os
import pwd
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

CGROUPS = "/sys/fs/cgroup"
SYSTEM = tap.WHO == "root"
SYSTEMCTL = ["systemctl"] if SYSTEM else ["systemctl", "--user"]
SERVICE, SOCKET, LAUNCHER = "agentcrated.service", "agentcrated.socket", "agentcrate-launcher.service"
SOCKET_PATH = ("/run" if SYSTEM else "/run/user/1000") + "/agentcrate/agentcrate.sock"
EVERYTHING = SYSTEM or os.environ.get("AGENTCRATE_VM_DELEGATE") == "all"
IDLE_EXIT = "3s"
HOG = "b = bytearray(300 << 20); print(len(b))"


def run(*command, rc=0, timeout=120):
    """With the environment of the session, as somebody types it."""
    ran = tap.run(list(command), env=dict(os.environ), timeout=timeout)
    return ran if rc is None else ran.expect(rc)


def show(name, unit=SERVICE):
    return run(*SYSTEMCTL, "show", "-P", name, unit).text.strip()


def call(**arguments):
    """The record of one sandbox_exec."""
    ran = run(tap.program("agentcrate"), "call", "--json", "sandbox_exec", json.dumps(arguments),
              rc=None)
    try:
        result = json.loads(ran.text)
    except ValueError:
        raise tap.Failed(f"no result: {ran}") from None
    if "structuredContent" not in result:
        raise tap.Failed(f"no record: {ran}")
    return result["structuredContent"]


def echo(text="hello"):
    record = call(command=f"echo {text}")
    tap.equal((record["outcome"], record["stdout"]), ("exited", text + "\n"), "job")


def limit_of(record, name):
    return next(limit for limit in record["limits"] if limit["name"] == name)


def group(unit=SERVICE):
    path = show("ControlGroup", unit)
    tap.check(path.startswith("/"), f"{unit} has no cgroup: {path!r}")
    return CGROUPS + path


def members(place):
    """pids of a cgroup itself."""
    with open(os.path.join(place, "cgroup.procs"), encoding="ascii") as file:
        return file.read().split()


def running(pattern):
    return run("pgrep", "-f", "--", pattern, rc=None).text.split()


def is_state(state):
    if not tap.wait_until(lambda: show("ActiveState") == state, 60, 0.5):
        raise tap.Failed(f"{SERVICE} is {show('ActiveState')}, not {state}")


# --- units ---


def verified():
    user = [] if SYSTEM else ["--user"]
    for unit in (SOCKET, SERVICE, *([LAUNCHER] if SYSTEM else [])):
        ran = run("systemd-analyze", *user, "verify", "--man=no", unit)
        tap.lacks(ran.errors, "agentcrate", f"what is said of {unit}")


def activated():
    run(*SYSTEMCTL, "start", SOCKET)
    tap.equal(show("ActiveState"), "inactive", "before the first call")
    echo()
    tap.equal(show("ActiveState"), "active", "after it")


def identity():
    main = show("MainPID")
    owner = pwd.getpwuid(os.stat(f"/proc/{main}").st_uid).pw_name
    tap.equal(owner, "agentcrate" if SYSTEM else "dev", "who the broker is")
    record = call(argv=["id", "-un"])
    tap.equal(record["stdout"], "agent\n", "who the job is")
    if SYSTEM:
        tap.equal(show("ActiveState", LAUNCHER), "active", "the launcher's unit")
        tap.equal(os.stat(f"/proc/{show('MainPID', LAUNCHER)}").st_uid, 0, "who the launcher is")


def groups():
    """Processes sit in leaves, and a job's is below jobs/."""
    root = group(LAUNCHER if SYSTEM else SERVICE)
    tap.equal(members(root), [], "what sits in the unit's own group")
    tap.check(members(root + "/launcher"), "no launcher sits in launcher/")
    if not SYSTEM:
        tap.equal(members(root + "/broker"), [show("MainPID")], "what sits in broker/")
    own = call(argv=["cat", "/proc/self/cgroup"])["stdout"]
    tap.check(re.search(r"^0::/jobs/t-[^/]+/[^/]+/exec-[^/]+$", own, re.M), f"cgroup of a job: {own}")
    tap.check(tap.wait_until(lambda: not crates(root), 20), lambda: f"left: {crates(root)}")


def crates(root):
    """Groups of crates that are there now, besides those in stock."""
    found = []
    for top, names, _files in os.walk(root + "/jobs"):
        found += [os.path.join(top, name) for name in names if name.startswith("exec-")]
    return found


def delegated():
    """Limits are the kernel's where its controller is delegated, and refused where nothing is."""
    record = call(command="true", limits={"memory": "64M", "pids": 30, "cpus": 0.5})
    tap.equal(record["outcome"], "exited", "outcome")
    for name in ("memory", "pids", "cpus"):
        tap.equal(limit_of(record, name)["enforced_by"], "cgroup", name)
    request = json.dumps({"command": "true", "limits": {"io_write_bps": 1 << 20}})
    ran = run(tap.program("agentcrate"), "call", "--json", "sandbox_exec", request, rc=None)
    if EVERYTHING:
        record = json.loads(ran.text)["structuredContent"]
        tap.equal((record["outcome"], limit_of(record, "io_write_bps")["enforced_by"]),
                  ("exited", "cgroup"), "io_write_bps")
    else:
        tap.contains(ran.text + ran.errors, "io_write_bps")
        tap.lacks(ran.text, '"outcome":"exited"', "a job whose limit nothing can enforce")


def out_of_memory():
    main = show("MainPID")
    record = call(argv=["/usr/bin/python3", "-c", HOG], limits={"memory": "48M"})
    limit = record["limit"] or {}
    tap.equal((record["outcome"], limit.get("name"), limit.get("level"), limit.get("enforced_by")),
              ("limit", "memory", "job", "cgroup"), "end of the hog")
    echo("next")
    tap.equal((show("ActiveState"), show("MainPID"), show("Result")), ("active", main, "success"),
              "the unit")


def fork_bomb():
    main = show("MainPID")
    record = call(command="f() { f & f & wait; }; f", limits={"pids": 20}, timeout_ms=60000)
    limit = record["limit"] or {}
    tap.equal((record["outcome"], limit.get("name"), limit.get("enforced_by")),
              ("limit", "pids", "cgroup"), "end of the bomb")
    tap.equal(show("MainPID"), main, "the broker")


@contextlib.contextmanager
def busy():
    """A broker with a client is not idle, however slow this machine is today."""
    client = subprocess.Popen([tap.program("agentcrate"), "stdio"], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        client.stdin.close()
        client.wait(timeout=60)


def idle():
    is_state("inactive")
    tap.equal(show("Result"), "success", "result")
    tap.equal(running("agentcrated$"), [], "brokers")
    echo("again")


@contextlib.contextmanager
def job_running():
    """A call whose job sleeps; its caller."""
    caller = subprocess.Popen([tap.program("agentcrate"), "call", "--json", "sandbox_exec",
                               '{"argv": ["sleep", "4242"], "timeout_ms": 600000}'],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        tap.check(tap.wait_until(lambda: running("^sleep 4242"), 30, 0.3), "the job does not start")
        yield caller
    finally:
        tap.kill_and_wait(caller)


def told(caller):
    """The caller is not left waiting, and not told that all is well."""
    try:
        said = caller.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        raise tap.Failed("the caller waits in vain") from None
    tap.check(caller.returncode != 0, f"the caller was told that all is well: {said}")


def nothing_left(place):
    tap.check(tap.wait_until(lambda: not running("^sleep 4242"), 30, 0.3), "the job runs on")
    tap.check(tap.wait_until(lambda: not os.path.exists(place), 30, 0.3),
              lambda: f"left: {list(os.walk(place))}")


def stopped():
    place = group()
    with job_running() as caller:
        run(*SYSTEMCTL, "stop", SERVICE)
        told(caller)
        nothing_left(place)
    tap.equal(show("Result"), "success", "result")
    echo("back")


def killed():
    """What a broker that was killed leaves is gone when the next one answers."""
    place = group(LAUNCHER if SYSTEM else SERVICE)
    with job_running() as caller:
        before = crates(place)
        tap.check(before, "the job has no cgroup")
        run(*SYSTEMCTL, "kill", "--kill-whom=main", f"--signal={signal.SIGKILL.value}", SERVICE)
        told(caller)
        echo("back")
        tap.check(tap.wait_until(lambda: not running("^sleep 4242"), 30, 0.3), "the job runs on")
        tap.check(tap.wait_until(lambda: not set(before) & set(crates(place)), 30, 0.3),
                  lambda: f"left: {crates(place)}")


def workspace(name, owner=None):
    """A folder below /srv; made anew."""
    path = os.path.join("/srv", name)
    os.makedirs(path, exist_ok=True)
    tap.write(os.path.join(path, "given"), "given\n")
    if owner is not None:
        for entry in path, os.path.join(path, "given"):
            os.chown(entry, owner, owner)
    return path


def write_within(path, owner):
    """A job works in a folder below a bind root as if it were its owner's."""
    record = call(command="cat given; echo made > made; id -u", workspace={"path": path, "mode": "rw"})
    tap.equal((record["outcome"], record["stdout"]), ("exited", "given\n1000\n"), f"{record}")
    made = os.stat(os.path.join(path, "made"))
    tap.equal((made.st_uid, made.st_gid), (owner, owner), "the owner of what the job made")
    record = call(command="cat given; echo x > more", workspace={"path": path, "mode": "ro"})
    tap.equal(record["stdout"], "given\n", "stdout")
    tap.contains(record["stderr"], "Read-only file system")


def bind_roots():
    """Below a bind root a workspace is let in, elsewhere it is refused by name, though the tenant
    may have it."""
    etc = "/etc" if tap.program("").startswith("/usr/bin") else (
        tap.program("").rstrip("/").removesuffix("/bin") + "/etc")
    roots = f"{etc}/agentcrate/bind-roots"
    with open(roots, encoding="utf-8") as file:
        shipped = file.read()
    inside, outside = workspace("inside"), workspace("outside")
    users = workspace("inside/users", 1000)
    try:
        tap.write(roots, shipped + "rw /srv/inside\n")
        run(*SYSTEMCTL, "restart", LAUNCHER)
        write_within(inside, 0)
        write_within(users, 1000)
        request = json.dumps({"command": "echo ran", "workspace": {"path": outside, "mode": "rw"}})
        ran = run(tap.program("agentcrate"), "call", "--json", "sandbox_exec", request, rc=None)
        for part in ("bind roots", outside):
            tap.contains(ran.text + ran.errors, part)
        tap.equal(os.listdir(outside), ["given"], "what was written outside")
        echo("after")
    finally:
        tap.write(roots, shipped)
        run(*SYSTEMCTL, "restart", LAUNCHER)


def refused_to_others():
    ran = run("setpriv", "--reuid=1001", "--regid=1001", "--clear-groups", "env",
              f"AGENTCRATE_SOCKET={SOCKET_PATH}", tap.program("agentcrate"), "tools", rc=None)
    tap.check(ran.rc != 0, f"another user may connect: {ran}")


def socket_stopped():
    run(*SYSTEMCTL, "stop", SOCKET, SERVICE)
    tap.check(not os.path.exists(SOCKET_PATH), "the socket is still there")
    ran = run(tap.program("agentcrate"), "tools", rc=None)
    tap.check(ran.rc != 0 and "agentcrated" in ran.errors, f"without a socket: {ran}")


# --- agentcrate-run ---


def scope():
    """It asks its manager for a scope, from which limits come and which goes with it."""
    ran = tap.crate("/usr/bin/python3", "-c", HOG, options=["--limit", "memory=48M"],
                    env=dict(os.environ), timeout=120)
    limit = (ran.record or {}).get("limit") or {}
    tap.equal((ran.rc, limit.get("name"), limit.get("enforced_by")), (137, "memory", "cgroup"),
              f"the hog's end: {ran}")
    tap.check(tap.wait_until(lambda: not scopes(), 20, 0.3), lambda: f"left: {scopes()}")


def scopes():
    return run(*SYSTEMCTL, "list-units", "--all", "--plain", "--no-legend", "agentcrate*.scope").text


def configure():
    """A broker that nobody needs ends soon."""
    prefix = tap.program("").rstrip("/").removesuffix("/bin")
    etc = "/etc" if prefix == "/usr" else prefix + "/etc"
    place = etc if SYSTEM else os.path.expanduser("~/.config")
    tap.write(f"{place}/agentcrate/agentcrated.json", json.dumps({"idle_exit": IDLE_EXIT}) + "\n")
    if SYSTEM:
        tap.serve_root()


def main():
    configure()
    tap.case("the units are without fault", verified)
    tap.case("the first call starts the broker", activated)
    with busy():
        tap.case("broker, launcher and job are who they should be", identity)
        tap.case("each process sits in a leaf", groups)
        tap.case("limits are enforced by what is delegated", delegated)
        tap.case("a job that runs out of memory leaves the unit as it is", out_of_memory)
        tap.case("so does a fork bomb", fork_bomb)
    tap.case("the broker ends when idle, and comes back", idle)
    tap.case("a stop ends the job that runs", stopped)
    tap.case("so does a kill, and the next start finds nothing left", killed)
    if SYSTEM:
        tap.case("a workspace lies below a bind root, or is refused", bind_roots)
        tap.case("another user may not connect", refused_to_others)
    tap.case("the socket goes with its unit", socket_stopped)
    tap.case("agentcrate-run is given a scope", scope)


sys.exit(tap.main(main))
