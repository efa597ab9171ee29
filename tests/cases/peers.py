#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Peers that are not what they should be.

A launcher that was taken over, or is stopped, or says nothing, must cost its own crates and nobody
else: agentcrate-run, whose launcher is a copy of itself, ends and says why, the broker goes on to serve.
The copy has nothing of whoever called agentcrate-run. And a job that is shown a folder with sockets of
the host in it must not reach the programs behind them, the broker least of all.
"""

import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import mcp  # noqa: E402
import tap  # noqa: E402

# In place of agentcrate-launcher: file descriptor 3 is the link, the environment is empty. The numbers
# are those of src/ipc/proto.h.
IMPOSTOR = r"""#!/usr/bin/python3 -B
import array, os, signal, socket, struct, sys, time

MODE = open(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "mode")).read()
link = socket.socket(fileno=3)

def frame(kind, payload=b"", number=0, sock=None, fds=()):
    head = struct.pack("<HBBHHII", 0x4143, 1, len(fds), kind, 0, number, len(payload))
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    (sock or link).sendmsg([head, payload], rights)

def receive():
    data, rights, _flags, _address = link.recvmsg(16 + 8192, socket.CMSG_SPACE(8 * 4))
    fds = array.array("i")
    for _level, _kind, some in rights:
        fds.frombytes(some[: len(some) - len(some) % 4])
    return struct.unpack("<HBBHHII", data[:16]) if data else None, list(fds)

def failure(step):
    return struct.pack("<iI32s1024s", 5, 0, step, b"")

# First as the parent of launchers.
if MODE == "parent exits":
    sys.exit(0)
if MODE == "parent is silent":
    time.sleep(60)
receive()
if MODE == "parent sends garbage":
    link.send(b"\xff" * 100)
    time.sleep(60)
if MODE == "parent refuses":
    frame(97, failure(b"y" * 32))
    time.sleep(60)
if MODE == "parent sends too much":
    frame(96, struct.pack("<4I", 1, 1, 0, 0) + b"x")
    time.sleep(60)
frame(96, struct.pack("<4I", os.getpid(), 2 if os.geteuid() == 0 else 1, 0, 0))
if MODE == "parent is ready twice":
    frame(96, struct.pack("<4I", os.getpid(), 1, 0, 0))
    time.sleep(60)
parent = link
_head, fds = receive()
if MODE == "parent ends later":
    sys.exit(0)
link = socket.socket(fileno=fds[0])

# And then as the one launcher.
if MODE == "exit":
    link.close()
    time.sleep(60)
if MODE == "silent":
    time.sleep(60)
if MODE == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
receive()
if MODE == "garbage":
    link.send(b"\xff" * 100)
    time.sleep(60)
if MODE == "refuses":
    frame(65, failure(b"x" * 32))
    time.sleep(60)
frame(64, struct.pack("<II", os.getpid(), 0))
head, fds = receive()
if head is None:
    time.sleep(60)
if MODE == "unmade":
    frame(67, struct.pack("<iI", 0, 0), head[5])
if MODE == "foreign id":
    frame(67, struct.pack("<iI", 0, 0), head[5] + 77)
if MODE == "init fails":
    frame(193, failure(b"private"), sock=socket.socket(fileno=fds[0]))
if MODE == "init garbage":
    socket.socket(fileno=fds[0]).send(b"garbage")
if MODE == "init weak":
    frame(192, struct.pack("<5Q8I256s", 1, 1, 0, 1, 0, 2, 1, 1, 1000, 1000, 1, 1, 0, b""),
          sock=socket.socket(fileno=fds[0]))
if MODE == "made nothing":
    frame(66, struct.pack("<II", 1, 0), head[5])
time.sleep(60)
"""

# Without a parent of launchers there is nothing to serve with.
PARENTS = (
    "parent exits",
    "parent is silent",
    "parent sends garbage",
    "parent refuses",
    "parent sends too much",
    "parent is ready twice",
    "parent ends later",
)
# What each of them leads to at once; the others say nothing, and are left to signals.
LOUD = (
    "exit",
    "garbage",
    "refuses",
    "unmade",
    "foreign id",
    "init fails",
    "init garbage",
    "init weak",
    "made nothing",
)


def impostor(mode):
    """An environment with this launcher."""
    folder = tap.folder("impostor")
    tap.write(os.path.join(folder, "agentcrate-launcher"), IMPOSTOR, 0o755)
    tap.write(os.path.join(folder, "mode"), mode)
    return tap.clean_env(AGENTCRATE_LIBEXEC_DIR=folder)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def own_session(pid):
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def end_run(process):
    """Ends agentcrate-run and, as it may be stopped, its launcher."""
    for pid in (*children(process.pid), process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.communicate()


def run_with_launcher(number, env=None, **options):
    """agentcrate-run and its launcher, which got that signal once it had left our session and
    before it made init: that takes some 3 ms, so that the first tries may come too late."""
    for _ in range(100):
        process = subprocess.Popen(
            [tap.program("agentcrate-run"), "--", "sleep", "60"],
            env=env or tap.clean_env(),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            **options,
        )
        end = time.monotonic() + 5
        while time.monotonic() < end and process.poll() is None:
            found = children(process.pid)
            if found and own_session(found[0]):
                os.kill(found[0], number)
                # A stopped one never makes init any more.
                if children(process.pid) == found and not children(found[0]):
                    return process, found[0]
                break
        end_run(process)
    raise tap.Failed("the launcher was never caught in time")


def run_without_launcher():
    """Killed: agentcrate-run says so and ends. The kill may come when all is done, too late."""
    for _ in range(100):
        process, _launcher = run_with_launcher(signal.SIGKILL)
        if tap.wait_until(lambda p=process: p.poll() is not None, 2):
            break
        end_run(process)
    _out, errors = process.communicate(timeout=15)
    tap.equal(process.returncode, 125, "exit status")
    tap.contains(errors.decode(), "agentcrate-run: ")
    tap.lacks(errors.decode(), "not recoverable")


def run_and_stop():
    """What waits for a launcher that is stopped can be told to stop."""
    process, _launcher = run_with_launcher(signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        end_run(process)
        raise tap.Failed("TERM did not end it") from None
    tap.equal(process.returncode, 128 + signal.SIGTERM, "exit status")


def look(pid):
    """What can be seen of a process: arguments, environment, descriptors, name, session."""
    def read(name):
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    return {
        "cmdline": read("cmdline").strip(b"\0"),
        "environ": read("environ").strip(b"\0"),
        "comm": read("comm").strip(),
        "fds": [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")],
        "session": os.getsid(pid),
    }


def run_gives_nothing(number):
    """The copy that is the launcher, and init, have no argument, variable or file of the caller."""
    folder = tap.folder("caller")
    path = os.path.join(folder, "caller-file")
    with open(path, "w", encoding="ascii") as file:
        os.set_inheritable(file.fileno(), True)
        env = tap.clean_env(CALLER_SECRET="caller-value")
        if number:
            process, pid = run_with_launcher(number, env=env, close_fds=False)
        else:
            process = subprocess.Popen([tap.program("agentcrate-run"), "--", "sleep", "60"],
                                       env=env, close_fds=False, stdin=subprocess.DEVNULL)
            # Init is the child that has a child once there is a job, and the launcher has gone.
            def inits():
                return [pid for pid in children(process.pid) if children(pid) and
                        not any(children(child) for child in children(pid))]
            tap.check(tap.wait_until(inits, 10), "no job")
            time.sleep(0.2)
            pid = inits()[0]
        try:
            tap.check(path in look(process.pid)["fds"], "the caller's file was not handed over")
            seen = look(pid)
            tap.equal(seen["comm"], b"agentcrate-laun", "name")
            tap.check(b"caller" not in seen["environ"] and b"=" not in seen["environ"], str(seen))
            tap.check(b"sleep" not in seen["cmdline"], str(seen))
            tap.check(not any(folder in fd for fd in seen["fds"]), str(seen))
            tap.equal(seen["session"], pid if number else seen["session"], "session")
            tap.check(seen["session"] != os.getsid(0), "it is in our session")
        finally:
            end_run(process)


def broker_with(mode):
    env = impostor(mode)
    with mcp.Broker(env=env) as broker:
        with broker.client() as client:
            if mode in LOUD:
                result = client.call("sandbox_exec", {"argv": ["/bin/true"]}, timeout=20)
                tap.equal(result["isError"], True)
                tap.equal(result["structuredContent"]["outcome"], "lost")
            else:
                client.start("tools/call", {"name": "sandbox_exec", "arguments": {"command": "true"}})
            with broker.client() as other:
                tap.equal(other.request("ping", timeout=10), {})
            tap.equal(client.request("ping", timeout=10), {})


def broker_with_refusal():
    """One that says why it cannot begin: every call is told so."""
    with mcp.Broker(env=impostor("parent refuses")) as broker, broker.client() as client:
        result = client.call("sandbox_exec", {"command": "true"})
        tap.equal((result["isError"], result["structuredContent"]["outcome"]), (True, "lost"))
        tap.contains(result["content"][0]["text"], "y" * 31)


def broker_with_parent(mode):
    """The broker ends, with a failure that says why."""
    if mode == "parent refuses":
        broker_with_refusal()
        return
    path = os.path.join(tap.folder("socket"), "broker.sock")
    broker = tap.run([tap.libexec("agentcrated"), "--listen", path], env=impostor(mode), timeout=30)
    tap.equal(broker.rc, 1, "exit status")
    tap.contains(broker.errors, "agentcrated: ")


CONNECT = """import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
try:
    s.connect(sys.argv[1])
    print("connected", s.recv(400))
except OSError as e:
    print(e.strerror)
"""


def shown_socket():
    """A host program's socket in a shown folder: it is covered, writable or not."""
    folder = tap.folder("shown")
    os.chmod(folder, 0o777)
    path = os.path.join(folder, "agent.sock")
    with socket.socket(socket.AF_UNIX) as host:
        host.bind(path)
        os.chmod(path, 0o777)
        host.listen()
        for options, place in (
            (["-w", folder], "/workspace"),
            (["-w", folder + ":ro"], "/workspace"),
            (["--ro", folder], folder),
            (["--rw", folder], folder),
            (["--profile", "strict", "-w", folder], "/workspace"),
        ):
            ran = tap.crate("python3", "-c", CONNECT, place + "/agent.sock", options=options)
            ran.expect(0, out="Permission denied\n")
        plan = tap.run([tap.program("agentcrate-run"), "--print-plan", "-w", folder, "--", "true"])
        tap.contains(plan.text, "/workspace/agent.sock is a socket of a host program")


def broker_from_inside():
    """The broker's socket appears in a shown folder only after the crate was made."""
    folder = tap.folder("late")
    os.chmod(folder, 0o777)
    path = os.path.join(folder, "agentcrate.sock")
    wait = "import os, time\nwhile not os.path.exists('/workspace/ready'): time.sleep(0.02)\n"
    job = subprocess.Popen(
        [tap.program("agentcrate-run"), "-w", folder, "--", "python3", "-c", wait + CONNECT,
         "/workspace/agentcrate.sock"],
        env=tap.clean_env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    time.sleep(1)
    with mcp.Broker(path=path) as broker:
        tap.write(os.path.join(folder, "ready"))
        out = job.communicate(timeout=30)[0].decode()
        rules = [(line["call"], line["rule"]) for line in mcp.audit_records(broker.log_path)]
    if "Permission denied" not in out:
        tap.equal(rules, [(None, "peer")], "what is on record")
    if os.geteuid() == 0:
        # The job's uid is not root's.
        tap.check("serves user" in out or "Permission denied" in out, out)
    else:
        tap.contains(out, "user namespace only")


def tests():
    tap.case("agentcrate-run and a launcher: killed", run_without_launcher)
    tap.case("agentcrate-run and a launcher: stopped", run_and_stop)
    if os.geteuid() == 0:
        tap.case("agentcrate-run's launcher has nothing of the caller", run_gives_nothing,
                 signal.SIGSTOP)
        tap.case("agentcrate-run's init has nothing of the caller", run_gives_nothing, 0)
    tap.cases_side_by_side(
        [(f"the broker and the parent of launchers: {mode}", broker_with_parent, mode)
         for mode in PARENTS]
        + [(f"the broker and a launcher: {mode}", broker_with, mode)
           for mode in (*LOUD, "silent", "stopped")])
    tap.case("row 39 a host program's socket in a shown folder", shown_socket)
    tap.case("row 39 a job asks the broker for a crate", broker_from_inside)


sys.exit(tap.main(tests))
