#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The part of scope.sh that runs under systemd, as root: agentcrate-run and its scope, with service
managers that are whole, absent, dead, slow, or say no.

There are no controllers here, so that a limit is never enforced by cgroup: what counts is where the
job sits, what is said, and how long it takes.
"""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

USER = os.environ["NS_USER"]
# What a run may take when nobody answers: 5 s and what a busy machine needs.
PATIENCE = 30
OWN = "grep ^0:: /proc/self/cgroup"


def run(who, *command, options=(), env=None, before=""):
    """agentcrate-run as root or user; before is shell text in a mount namespace of its own."""
    argv = [tap.program("agentcrate-run"), "--json", *options, "--", *command]
    session = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
    if who == "user":
        session["XDG_RUNTIME_DIR"] = "/run/user/1000"
        argv = ["setpriv", "--reuid=1000", "--regid=1000", "--init-groups", *argv]
    for name in ("AGENTCRATE_LIBEXEC_DIR", "AGENTCRATE_DATA_DIR"):
        if name in os.environ:
            session[name] = os.environ[name]
    for name, value in (env or {}).items():
        session.pop(name, None)
        if value is not None:
            session[name] = value
    if before:
        argv = ["unshare", "--mount", "/bin/sh", "-ec", before + '; exec "$0" "$@"', *argv]
    ran = tap.run(argv, env=session, timeout=60)
    ran.record = json.loads(ran.out) if ran.out else None
    return ran


def scopes():
    """The scopes of ours that both managers have."""
    names = set()
    for who in ([], ["--user", f"--machine={USER}@.host"]):
        text = subprocess.run(["systemctl", *who, "list-units", "--all", "--plain", "--no-legend",
                               "agentcrate-*"], stdout=subprocess.PIPE, text=True, check=False).stdout
        names |= set(re.findall(r"agentcrate-\S+", text))
    return names


def left():
    return scopes() or [path for path, _, _ in os.walk("/sys/fs/cgroup") if "agentcrate-" in path]


# --- a whole manager ---


def in_scope(who, env=None):
    ran = run(who, "/bin/sh", "-c", OWN, env=env).expect(0)
    path = ran.record["stdout"]
    tap.check(re.fullmatch(r"0::/jobs/t-0/c-[0-9a-f]{16}/exec-1\n", path), path)


def scope_is_collected(who):
    """HOST-05, HOST-07: scopes of runs that were killed or broke a limit do not stay."""
    for _ in range(3):
        run(who, "/bin/sh", "-c", "kill -9 $$")
        run(who, "/bin/sh", "-c", "sleep 20", options=["-t", "0.2"])
        in_scope(who)
    tap.check(tap.wait_until(lambda: not left(), 20), lambda: f"left: {left()}")


def runner_killed(who):
    """LEAK-01: a killed runner leaves neither job nor scope."""
    argv = [tap.program("agentcrate-run"), "--", "/bin/sleep", "654"]
    if who == "user":
        argv = ["setpriv", "--reuid=1000", "--regid=1000", "--init-groups", "env",
                "XDG_RUNTIME_DIR=/run/user/1000", *argv]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    job = lambda: subprocess.run(["pgrep", "-f", "^/bin/sleep 654"], stdout=subprocess.PIPE,
                                 text=True, check=False).stdout
    tap.check(tap.wait_until(job, 20), "the job does not start")
    tap.equal(len(scopes()), 1, "scopes")
    process.kill()
    process.wait()
    tap.check(tap.wait_until(lambda: not job() and not left(), 20), lambda: f"{job()} {left()}")


def several(who):
    """HOST-06: many at once; each has its own, or says why it has none."""
    runs = []
    def one():
        runs.append(run(who, "/bin/sh", "-c", OWN))
    threads = [threading.Thread(target=one) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tap.equal(len(runs), 12, "runs that ended")
    paths = {ran.expect(0).record["stdout"] for ran in runs}
    tap.equal(len(paths), 12, "different cgroups")


def job_leaf():
    return next((path for path, _, _ in os.walk("/sys/fs/cgroup") if path.endswith("/exec-1")), None)


def members(group):
    with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as file:
        return file.read()


def cgroup_vanishes():
    """Root can take a job out of its cgroup and remove that: it does not go on without limits."""
    argv = [tap.program("agentcrate-run"), "--json", "--", "/bin/sleep", "655"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        tap.check(tap.wait_until(job_leaf, 20), "the job has no cgroup")
        leaf = job_leaf()
        tap.check(tap.wait_until(lambda: members(leaf), 20), "the job does not start")
        with open(os.path.join(leaf, "../init/cgroup.procs"), "w", encoding="ascii") as file:
            file.write(members(leaf))
        os.rmdir(leaf)
        try:
            record = json.loads(process.communicate(timeout=PATIENCE)[0])
        finally:
            process.kill()
    tap.equal((record["outcome"], record["error"]["step"]), ("lost", "cgroup"))
    tap.contains(record["error"]["text"], "exec-1/cpu.stat", "what is gone")


# --- managers that are not whole ---


def reason_of(who, expected, env=None, before="", seconds=PATIENCE):
    """sampled: the run goes on and the record says why; strict: it is refused, with that reason."""
    sampled = run(who, "/bin/sh", "-c", OWN, options=["--limit", "memory=64M"], env=env,
                  before=before)
    sampled.expect(0)
    tap.lacks(sampled.record["stdout"], "exec-1", "the job's cgroup")
    memory = [limit for limit in sampled.record["limits"] if limit["name"] == "memory"][0]
    tap.equal(memory["enforced_by"], "sampler", "what enforces memory")
    tap.contains(json.dumps(sampled.record["evidence"]), expected, "evidence")
    tap.check(sampled.seconds < seconds, lambda: f"took {sampled.seconds:.1f} s")

    strict = run(who, "/bin/touch", "/tmp/ran", env=env, before=before,
                 options=["--enforce", "strict", "--limit", "memory=64M"])
    strict.expect(125, out="")
    tap.contains(strict.errors, "limit memory", "the refusal")
    tap.contains(strict.errors, expected, "the refusal")
    tap.check(strict.seconds < seconds, lambda: f"took {strict.seconds:.1f} s")
    tap.check(tap.wait_until(lambda: not left(), 20), lambda: f"left: {left()}")


class Manager:
    """Something that listens where a user's manager would. answer(connection) is all it does."""

    def __init__(self, answer=None, listen=True):
        self.folder = "/tmp/fake-runtime"
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder + "/systemd")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.folder + "/systemd/private")
        for path in (self.folder, self.folder + "/systemd", self.folder + "/systemd/private"):
            os.chown(path, 1000, 1000)
        if listen:
            self.socket.listen(8)
        self.answer = answer

    def __enter__(self):
        if self.answer:
            threading.Thread(target=self.serve, daemon=True).start()
        return {"XDG_RUNTIME_DIR": self.folder}

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            try:
                self.answer(connection)
            except OSError:
                pass

    def __exit__(self, *_):
        if self.answer:
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


def hang_up(connection):
    connection.close()


KEPT = []


def greet(connection):
    """The authentication of D-Bus; whatever comes behind it is the first message."""
    data = b""
    while b"BEGIN\r\n" not in data:
        more = connection.recv(4096)
        if not more:
            return b""
        data += more
    connection.sendall(b"DATA\r\nOK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n")
    return data.split(b"BEGIN\r\n", 1)[1]


def message(kind, serial, fields, body=b"", signature=""):
    """A little-endian message; fields are (code, type, value)."""
    def text(value):
        raw = value.encode()
        return struct.pack("<I", len(raw)) + raw + b"\0"

    if signature:
        fields = [*fields, (8, "g", signature)]
    array = b""
    for code, form, value in fields:
        array += b"\0" * (-len(array) % 8) + bytes([code, 1]) + form.encode() + b"\0"
        if form == "u":
            array += b"\0" * (-len(array) % 4) + struct.pack("<I", value)
        elif form == "g":
            array += bytes([len(value)]) + value.encode() + b"\0"
        else:
            array += b"\0" * (-len(array) % 4) + text(value)
    head = b"l" + bytes([kind, 0, 1]) + struct.pack("<III", len(body), serial, len(array)) + array
    return head + b"\0" * (-len(head) % 8) + body


def requests(connection, data):
    """The serials of the calls that come."""
    while True:
        while len(data) < 16:
            more = connection.recv(65536)
            if not more:
                return
            data += more
        body, serial, array = struct.unpack("<III", data[4:16])
        size = 16 + array + (-(16 + array) % 8) + body
        while len(data) < size:
            data += connection.recv(65536)
        data = data[size:]
        yield serial


def refuse(connection):
    text = "The answer is no."
    body = struct.pack("<I", len(text)) + text.encode() + b"\0"
    for serial in requests(connection, greet(connection)):
        connection.sendall(message(3, 1, [(4, "s", "org.example.No"), (5, "u", serial)], body, "s"))


def silent(connection):
    KEPT.append(connection)
    for _ in requests(connection, greet(connection)):
        pass


def hang_up_late(connection):
    for _ in requests(connection, greet(connection)):
        connection.close()
        return


def late_scope():
    """A scope that nobody waited for is stopped after the run: a manager that moves a process which
    is just ending would keep it for ever."""
    heard = bytearray()

    def listen(connection):
        heard.extend(greet(connection))
        while more := connection.recv(65536):
            heard.extend(more)

    with Manager(listen) as env:
        run("user", "true", env=env).expect(0)
        tap.check(tap.wait_until(lambda: b"StopUnit" in heard, 20), "the scope is not stopped")
        asked, stopped = heard.split(b"StopUnit", 1)
    names = [re.findall(rb"agentcrate-[0-9a-f]{16}\.scope", part) for part in (asked, stopped)]
    tap.check(len(names[0]) == 1 and names[0] == names[1], f"asked for and stopped: {names}")
    tap.check(tap.wait_until(lambda: subprocess.run(
        ["pgrep", "-f", "^agentcrate-scope"], stdout=subprocess.DEVNULL,
        check=False).returncode != 0, 40), "agentcrate-scope does not end")


def with_manager(expected, answer=None, listen=True):
    with Manager(answer, listen) as env:
        reason_of("user", expected, env=env)


# --- the helper itself ---


def helper(expected, text):
    """agentcrate-scope that is missing, hangs, or says something else."""
    folder = "/tmp/libexec"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    if text:
        with open(folder + "/agentcrate-scope", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(folder + "/agentcrate-scope", 0o755)
    reason_of("user", expected, env={"AGENTCRATE_LIBEXEC_DIR": folder})


# --- the broker ---


class Broker:
    """A user's broker that is no unit, so that it has no subtree of its own."""

    def __init__(self, env=None):
        self.folder = tap.folder("broker")
        os.chown(self.folder, 1000, 1000)
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "XDG_RUNTIME_DIR": "/run/user/1000",
                    "AGENTCRATE_SOCKET": self.folder + "/socket"}
        for name in ("AGENTCRATE_LIBEXEC_DIR", "AGENTCRATE_DATA_DIR"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.log = open(self.folder + "/log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [*self.as_user(), tap.libexec("agentcrated"), "--listen", self.folder + "/socket"],
            env={**self.env, **(env or {})}, stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log)

    @staticmethod
    def as_user():
        return ["setpriv", "--reuid=1000", "--regid=1000", "--init-groups"]

    def text(self):
        with open(self.folder + "/log", encoding="utf-8") as file:
            return file.read()

    def __enter__(self):
        ready = tap.wait_until(lambda: os.path.exists(self.folder + "/socket"), PATIENCE)
        tap.check(ready, lambda: f"the broker is not ready: {self.text()}")
        return self

    def call(self, command):
        ran = tap.run([*self.as_user(), tap.program("agentcrate"), "call", "--json", "sandbox_exec",
                       json.dumps({"command": command})], env=self.env, timeout=60)
        tap.check(ran.rc == 0, lambda: f"{ran} {self.text()}")
        return json.loads(ran.out)["structuredContent"]

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(timeout=30)
        self.log.close()


def broker_in_scope():
    with Broker() as broker:
        for _ in range(3):
            path = broker.call(OWN)["stdout"]
            tap.check(re.fullmatch(r"0::/jobs/t-0/c-[0-9a-f]{16}/exec-1\n", path), path)
        tap.equal(len(scopes()), 1, "scopes")
        own = re.search("^0::(.*)$", open(f"/proc/{broker.process.pid}/cgroup",
                                          encoding="ascii").read(), re.M)[1]
        tap.lacks(own, "agentcrate-", "the broker's own cgroup")
    tap.equal(broker.process.returncode, 0, "exit status")
    tap.check(tap.wait_until(lambda: not left(), 20), lambda: f"left: {left()}")


def broker_killed():
    """LEAK-01: a killed broker leaves nothing, and the next one works."""
    with Broker() as broker:
        broker.call("true")
        client = subprocess.Popen([*broker.as_user(), tap.program("agentcrate"), "call",
                                   "sandbox_exec", '{"command": "sleep 543"}'], env=broker.env,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        job = lambda: subprocess.run(["pgrep", "-f", "^sleep 543"], stdout=subprocess.PIPE,
                                     text=True, check=False).stdout
        tap.check(tap.wait_until(job, 20), "the job does not start")
        broker.process.kill()
        client.wait(timeout=30)
        tap.check(tap.wait_until(lambda: not job() and not left(), 20),
                  lambda: f"left: {job()} {left()}")
    with Broker() as broker:
        tap.contains(broker.call(OWN)["stdout"], "/exec-1", "the next job's cgroup")
    tap.check(tap.wait_until(lambda: not left(), 20), lambda: f"left: {left()}")


def broker_without(expected, answer=None, listen=True):
    with Manager(answer, listen) as env, Broker(env) as broker:
        answered = broker.call(OWN)
        tap.lacks(answered["stdout"], "exec-1", "the job's cgroup")
        tap.contains(json.dumps(answered["evidence"]), expected, "evidence")
        tap.contains(broker.text(), expected, "the broker's log")


def broker_stopped_early():
    """A broker that waits for a manager ends when it is told to."""
    with Manager() as env:
        broker = Broker(env)
        tap.check(tap.wait_until(lambda: subprocess.run(
            ["pgrep", "-P", str(broker.process.pid)], stdout=subprocess.DEVNULL,
            check=False).returncode == 0, 20), "the broker has no child")
        began = time.monotonic()
        broker.__exit__()
        tap.check(time.monotonic() - began < 4, "the stop waits for the manager")


def main():
    for who in ("root", "user"):
        tap.case(f"{who}: the job sits in a scope of its own", in_scope, who)
        tap.case(f"{who}: HOST-05, HOST-07: no scope stays", scope_is_collected, who)
        tap.case(f"{who}: HOST-06: many at once", several, who)
        tap.case(f"{who}: LEAK-01: a killed runner leaves nothing", runner_killed, who)
    tap.case("a cgroup that vanishes: the job is ended", cgroup_vanishes)
    tap.case("HOST-03: a stale environment does not matter", in_scope, "user",
             env={"XDG_RUNTIME_DIR": None, "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"})
    tap.case("HOST-03: no manager of the user", reason_of, "user",
             "try loginctl enable-linger", env={"XDG_RUNTIME_DIR": None},
             before="mount -t tmpfs tmpfs /run/user")
    tap.case("no manager of the system", reason_of, "root", "can be reached in /run",
             before="mount -t tmpfs tmpfs /run; mkdir -p /run/systemd/system")
    tap.case("a dead socket", with_manager, "Connection refused", listen=False)
    tap.case("a manager that never answers", with_manager, "has not answered within 5 s")
    tap.case("a manager that hangs up", with_manager, "has closed the connection", hang_up)
    tap.case("a manager that says no", with_manager, "The answer is no. (org.example.No)", refuse)
    tap.case("a manager that falls silent", with_manager, "has not answered within 5 s", silent)
    tap.case("a manager that hangs up when asked", with_manager, "has closed the connection",
             hang_up_late)
    tap.case("a manager that is late: the scope is stopped", late_scope)
    tap.case("broker: jobs sit in a scope of its own", broker_in_scope)
    tap.case("broker: LEAK-01: a killed one leaves nothing", broker_killed)
    tap.case("broker: a dead socket", broker_without, "Connection refused", listen=False)
    tap.case("broker: a manager that never answers", broker_without, "has not answered within 5 s")
    tap.case("broker: stopped while it waits", broker_stopped_early)
    tap.case("broker: a manager that says no", broker_without,
             "The answer is no. (org.example.No)", refuse)
    tap.case("a helper that is missing", helper, "cannot be started", None)
    tap.case("a helper that hangs", helper, "has not answered in time", "exec sleep 60")
    tap.case("a helper that ends", helper, "ended without an answer", "exit 0")


sys.exit(tap.main(main))
