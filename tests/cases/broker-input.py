#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Bad input of the broker: messages that are too long or never end, wrong arguments of the tool,
wrong sockets, wrong options, a wrong peer; and how it starts and stops."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import mcp  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

MESSAGE_MAX = 16 << 20
OTHER_UID = 1000


def ping(request_id):
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "ping"}).encode() + b"\n"


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- long messages ---


def too_long(broker):
    """100 MiB in one message: told once, thrown away, and the next message is answered."""
    with broker.client(hello=False) as client, broker.client(hello=False) as other:
        before = broker.memory()
        chunk = b"x" * (1 << 20)
        client.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"')
        for _ in range(100):
            client.send_bytes(chunk)
        other.send_bytes(ping("other"))
        tap.equal(other.receive(20)["id"], "other")
        client.send_bytes(b'"}}\n' + ping(2))
        answer = client.receive(20)
        tap.equal(answer["id"], None)
        tap.equal(answer["error"]["code"], -32600)
        tap.contains(answer["error"]["message"], str(MESSAGE_MAX))
        tap.equal(client.receive(20)["id"], 2)
        grown = broker.memory() - before
        tap.check(grown < 4 * MESSAGE_MAX, f"the broker grew by {grown} bytes")


def exactly_as_long(broker):
    """The maximum is of the whole message, however it comes."""
    with broker.client(hello=False) as client:
        frame = b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"x":"%s"}}'
        for more in (0, 1):
            text = frame % (b"y" * (MESSAGE_MAX - len(frame) + 2 + more))
            tap.equal(len(text), MESSAGE_MAX + more)
            client.send_bytes(text + b"\n")
            answer = client.receive(30)
            tap.equal("result" in answer, more == 0, f"{MESSAGE_MAX} bytes and {more}")


def no_newline(broker):
    """1 GB that never ends costs time in proportion and no memory."""
    with broker.client(hello=False) as client:
        before, started = broker.memory(), cpu_seconds(broker.pid)
        chunk = b"z" * (4 << 20)
        for _ in range(256):
            client.send_bytes(chunk)
        grown = broker.memory() - before
        tap.check(grown < 4 * MESSAGE_MAX, f"the broker grew by {grown} bytes")
        spent = cpu_seconds(broker.pid) - started
        tap.check(spent < 30, f"{spent} s of CPU were spent")
        tap.equal(client.receive(20)["error"]["code"], -32600)
    with broker.client(hello=False) as client:
        client.send_bytes(ping(1))
        tap.equal(client.receive(20)["id"], 1)


def deeply_nested(broker):
    with broker.client(hello=False) as client:
        for text in (b"[" * (1 << 20), b'{"a":' * 200000, b"[" * 50 + b"]" * 50):
            client.send_bytes(text + b"\n")
            tap.check("error" in client.receive(30), "nesting is taken")
        client.send_bytes(ping(1))
        tap.equal(client.receive(20)["id"], 1)


# --- arguments of the tool ---

BAD_ARGUMENTS = [
    ({}, "argv"),
    ({"argv": []}, "argv"),
    ({"argv": [""]}, "argv[0]"),
    ({"argv": "ls"}, "argv"),
    ({"argv": ["ls"], "command": "ls"}, "not both"),
    ({"argv": ["/bin/echo", "x" * 131072]}, "131071"),
    ({"command": "true", "env": {"A": "x" * 131072}}, "131071"),
    ({"argv": ["a\0b"]}, "NUL"),
    ({"command": "true", "nope": 1}, "the arguments are argv, command"),
    ({"command": "true", "sandbox": "s-1"}, "sandbox is not built yet"),
    ({"command": "true", "egress": [{"name": "a"}]}, "egress[0]: \"port\" is missing"),
    ({"command": "true", "operations": ["a"]}, "names no operation"),
    ({"command": "true", "workspace": {"path": "/tmp", "mode": "cow"}}, "not built yet"),
    ({"command": "true", "workspace": {"path": "/tmp"}}, "no host directory"),
    ({"command": "true", "timeout_ms": -1}, "timeout_ms"),
    ({"command": "true", "timeout_ms": 5, "limits": {"wall_time": 5}}, "same limit"),
    ({"command": "true", "limits": {"memory": "1M"}}, "memory"),
    ({"command": "true", "limits": {"disk": "1Q"}}, "disk"),
    ({"command": "true", "limits": {"disk": "18446744073709551616"}}, "disk"),
    ({"command": "true", "limits": {"nope": 1}}, "nope"),
    ({"command": "true", "template": "nope"}, "the templates are:"),
    ({"command": "true", "template": "../host"}, "there is no template"),
    ({"command": "true", "cwd": "relative"}, "cwd"),
]


def bad_arguments(broker):
    with broker.client() as client:
        for arguments, says in BAD_ARGUMENTS:
            result = client.call("sandbox_exec", arguments)
            tap.check(result["isError"], f"{str(arguments)[:200]} is taken")
            tap.lacks(result, "structuredContent")
            tap.contains(result["content"][0]["text"], says)
        tap.equal(client.exec("/bin/echo", "alive")["stdout"], "alive\n")


def just_right(broker):
    with broker.client() as client:
        record = client.exec("/usr/bin/printf", "%s", "x" * 131071)
        tap.equal(record["stdout_bytes"], 131071)


def not_run(broker):
    """What cannot be executed says why, as a record with an error."""
    with broker.client() as client:
        result = client.call("sandbox_exec", {"argv": ["/no/such/program"]})
        tap.check(result["isError"], "isError")
        record = result["structuredContent"]
        tap.equal(record["outcome"], "exec_failed")
        tap.equal(record["error"]["errno"], "ENOENT")
        tap.equal(client.call("sandbox_exec", {"argv": ["/usr"]})["structuredContent"]["outcome"], "exec_failed")


def unread_input(broker):
    """A job that ends without reading its input, however much there is."""
    with broker.client() as client:
        for text in ("exit 3", "exec <&-; sleep 0.2; exit 3", "head -c 10 >/dev/null; exit 3"):
            record = client.exec(command=text, stdin="x" * 1000000)
            tap.equal(record["exit_code"], 3, text)
        record = client.exec("/bin/grep", "SigIgn", "/proc/self/status")
        tap.equal(int(record["stdout"].split()[1], 16), 0, "ignored signals of a job")


def workspace_rules(broker):
    """Only at or below what the connection announced first, and only as it was announced."""
    place = tap.folder("space")
    inner = os.path.join(place, "inner")
    os.mkdir(inner)
    os.symlink("/etc", os.path.join(place, "link"))
    tap.write(os.path.join(inner, "file"), "hello")
    with broker.client(workspace=place, mode="ro") as client:
        tap.equal(client.exec("/bin/cat", "/workspace/inner/file")["stdout"], "hello")
        tap.equal(client.exec("/usr/bin/touch", "/workspace/x")["exit_code"], 1)
        record = client.exec("/bin/cat", "file", workspace={"path": inner})
        tap.equal(record["stdout"], "hello")
        for wrong in (
            {"path": "/etc"},
            {"path": place + "/link"},
            {"path": place + "/../.."},
            {"path": place + "x"},
            {"path": place + "/missing"},
            {"path": inner + "/file"},
            {"path": inner, "mode": "rw"},
        ):
            result = client.call("sandbox_exec", {"argv": ["/bin/true"], "workspace": wrong})
            tap.check(result["isError"], f"{wrong!r} is taken")
            tap.lacks(result, "structuredContent")
    with broker.client() as client:
        client.notify("notifications/agentcrate/connection", {"workspace": {"path": place}})
        record = client.exec("/bin/ls", "/workspace")
        tap.equal(record["stdout"], "", "a late announcement")
    with broker.client(workspace="/no/such/place") as client:
        result = client.call("sandbox_exec", {"argv": ["/bin/true"]})
        tap.check(result["isError"], "a workspace that is missing is passed over")
        tap.contains(result["content"][0]["text"], "/no/such/place")


# --- sockets ---


def start(argv, env=None, pass_fds=(), before=None):
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env or tap.clean_env(),
        pass_fds=pass_fds,
        preexec_fn=before,
        cwd="/",
        timeout=30,
        check=False,
    )


def expect_refused(ended, says):
    errors = ended.stderr.decode("utf-8", "backslashreplace")
    tap.equal(ended.returncode, 1, f"exit status, with {errors!r}")
    tap.contains(errors, says)
    tap.equal(len(errors.splitlines()), 1, f"number of lines of {errors!r}")


def no_socket():
    expect_refused(start([tap.libexec("agentcrated")]), "no socket was passed in")


def inherit(fds, names=None, options=()):
    """Starts the broker with these descriptors from 3 on, as a service manager does."""

    def arrange():
        for i, fd in enumerate(fds):
            os.dup2(fd, 100 + i)
        for i in range(len(fds)):
            os.dup2(100 + i, 3 + i)
            os.set_inheritable(3 + i, True)

    # The shell sets LISTEN_PID to what will be the broker's.
    env = tap.clean_env(LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
    script = 'LISTEN_PID=$$; export LISTEN_PID; exec "$@"'
    return start(
        ["/bin/sh", "-c", script, "sh", tap.libexec("agentcrated"), *options],
        env=env,
        pass_fds=tuple(range(3, 3 + len(fds))),
        before=arrange,
    )


def listening(kind=socket.SOCK_STREAM, listen=True):
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(os.path.join(tap.folder("socket"), "s"))
    if listen:
        made.listen(5)
    return made


def two_sockets():
    with listening() as one, listening() as two:
        expect_refused(inherit([one.fileno(), two.fileno()]), "two sockets for mcp were passed in")


def wrong_descriptors():
    with open("/dev/null", "rb") as file:
        expect_refused(inherit([file.fileno()]), "no listening UNIX stream socket")
    with listening(listen=False) as made:
        expect_refused(inherit([made.fileno()]), "no listening UNIX stream socket")
    with listening(socket.SOCK_SEQPACKET) as made:
        expect_refused(inherit([made.fileno()]), "no listening UNIX stream socket")
    with listening(socket.SOCK_DGRAM, listen=False) as made:
        expect_refused(inherit([made.fileno()]), "no listening UNIX stream socket")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.bind(("127.0.0.1", 0))
        made.listen(5)
        expect_refused(inherit([made.fileno()]), "no listening UNIX stream socket")
    with listening() as made:
        expect_refused(inherit([made.fileno()], names="metrics"), "named metrics")
        path = os.path.join(tap.folder("both"), "s")
        expect_refused(inherit([made.fileno()], options=["--listen", path]), "only one of them")


def activated():
    """With one right socket it serves, and ends by itself when nobody needs it."""
    with listening() as made:
        made.setblocking(True)
        client = mcp.Client(made.getsockname(), hello=False)
        client.send_bytes(ping(1))
        client.socket.shutdown(socket.SHUT_WR)
        ended = inherit([made.fileno()], options=["--idle", "300ms"])
        tap.equal(ended.returncode, 0, f"exit status, with {ended.stderr!r}")
        tap.equal(client.receive(10)["id"], 1)
        client.close()
        tap.check(stat.S_ISSOCK(os.stat(made.getsockname()).st_mode), "the socket was removed")


def wrong_options():
    for options, says in (
        (["--nope"], 'option "--nope" is unknown; known are --listen, --launcher, --egress'),
        (["extra"], 'no argument "extra"'),
        (["--listen"], "--listen needs a value: PATH"),
        (["--listen", ""], "--listen has an empty value"),
        (["--idle"], "--idle needs a value: TIME"),
        (["--idle", "-1"], "negative"),
        (["--idle", "1Q"], '--idle "1Q"'),
        (["--idle", "5x"], "give a time such as"),
        (["--listen", "/" + "x" * 200], "longer than 107"),
        (["--listen", "/no/such/folder/s"], "No such file"),
        (["--listen", "/dev/null"], "no socket"),
    ):
        ended = start([tap.libexec("agentcrated"), *options])
        tap.equal(ended.returncode, 1, f"exit status with {options!r}")
        tap.contains(ended.stderr.decode(), says)
        tap.check(ended.stderr.startswith(b"agentcrated: ") and ended.stderr.count(b"\n") == 1,
                  f"not one sentence of ours: {ended.stderr!r}")
    tap.check(stat.S_ISCHR(os.stat("/dev/null").st_mode), "/dev/null was replaced")


def wrong_configuration():
    env = tap.template_env()
    tap.write(os.path.join(env["AGENTCRATE_DATA_DIR"], "agentcrated.json"), '{ "nope": 1 }\n')
    path = os.path.join(tap.folder("config"), "s")
    ended = start([tap.libexec("agentcrated"), "--listen", path], env=env)
    tap.equal(ended.returncode, 1, "exit status")
    tap.contains(ended.stderr.decode(), "agentcrated.json:1:")
    tap.contains(ended.stderr.decode(), "nope")
    tap.check(not os.path.exists(path), "the socket was left")


def no_templates():
    """Without any template it serves, warns once, and each call is told the remedy."""
    data = tap.folder("data")
    with mcp.Broker(env=tap.clean_env(AGENTCRATE_DATA_DIR=data)) as broker:
        with broker.client() as client:
            result = client.call("sandbox_exec", {"argv": ["/bin/true"]})
            tap.check(result["isError"], "isError")
            for words in 'no template "host"; the templates are: none', "AGENTCRATE_DATA_DIR":
                tap.contains(result["content"][0]["text"], words)
        errors = broker.errors()
    for words in f"no templates in {data}/templates.d, ", "AGENTCRATE_DATA_DIR":
        tap.equal(errors.count(words), 1, f"{words!r} in {errors!r}")


def socket_in_use(broker):
    """A socket that is served is not taken away; one that is left over is replaced."""
    ended = start([tap.libexec("agentcrated"), "--listen", broker.path])
    expect_refused(ended, "is served by another process")
    with broker.client(hello=False) as client:
        client.send_bytes(ping(1))
        tap.equal(client.receive(20)["id"], 1)
    with listening() as made:
        path = made.getsockname()
    with mcp.Broker(path=path) as second, second.client(hello=False) as client:
        client.send_bytes(ping(2))
        tap.equal(client.receive(20)["id"], 2)
        tap.equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode of the socket")


# --- peers ---


def wrong_peer(broker):
    if os.geteuid() != 0:
        raise tap.Skip("host offers no second user to a plain user")
    shutil.chown(broker.path, OTHER_UID)
    os.chmod(os.path.dirname(broker.path), 0o755)
    script = (
        "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
        "s.settimeout(10); print(s.recv(65536).decode(), end=''); print(s.recv(1))"
    )
    ran = tap.run(
        ["/usr/bin/setpriv", f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups",
         sys.executable, "-c", script, broker.path]
    )
    lines = ran.text.splitlines()
    answer = json.loads(lines[0])
    tap.equal(answer["id"], None)
    tap.contains(answer["error"]["message"], f"you are user {OTHER_UID}")
    tap.equal(lines[1], "b''", "the connection stays open")


# --- its end ---


def stop_ends_jobs():
    """TERM: jobs have five seconds, then they are lost, by name; nothing of them stays."""
    broker = mcp.Broker()
    try:
        client = broker.client()
        quick = client.start("tools/call", {"name": "sandbox_exec", "arguments": {"command": "sleep 2; echo done"}})
        long = client.start("tools/call", {"name": "sandbox_exec", "arguments": {"command": "sleep 307"}})
        listen = broker.client(mcp.MODERN)
        asked = listen.start("subscriptions/listen", {"notifications": {}})
        tap.equal(listen.receive(20)["method"], "notifications/subscriptions/acknowledged")
        time.sleep(0.3)
        broker.process.send_signal(signal.SIGTERM)
        result = listen.wait(asked)
        tap.equal(result["_meta"]["io.modelcontextprotocol/subscriptionId"], asked)
        late = client.call("sandbox_exec", {"command": "true"})
        tap.check(late["isError"], "new work is taken while it stops")
        tap.equal(client.wait(quick)["structuredContent"]["stdout"], "done\n")
        lost = client.wait(long)
        tap.check(lost["isError"], "isError of a lost job")
        tap.equal(lost["structuredContent"]["outcome"], "lost")
        tap.equal(broker.process.wait(20), 0, "exit status")
        tap.check(not os.path.exists(broker.path), "the socket was left")
    finally:
        broker.kill()


def stop_when_idle():
    broker = mcp.Broker()
    client = broker.client()
    client.request("ping")
    started = time.monotonic()
    tap.equal(broker.stop(), 0, "exit status")
    tap.check(time.monotonic() - started < 4, "an idle broker does not stop at once")
    tap.equal(client.receive(5), None, "end of file")


def killed():
    """KILL: the jobs end with it."""
    tap.become_subreaper()
    broker = mcp.Broker()
    client = broker.client()
    client.start("tools/call", {"name": "sandbox_exec", "arguments": {"command": "echo x; sleep 311"}}, progress=1)
    tap.equal(client.receive(20)["method"], "notifications/progress")
    broker.kill()

    def running():
        return subprocess.run(
            ["/usr/bin/pgrep", "-f", "^sleep 311$"], stdout=subprocess.PIPE, check=False
        ).stdout.split()

    tap.check(tap.wait_until(lambda: not running(), 10), lambda: f"{running()} live on")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def launcher_killed():
    """What runs goes on without its launcher, and the next one is there at once."""
    with mcp.Broker() as broker, broker.client() as client:
        asked = client.start(
            "tools/call",
            {"name": "sandbox_exec", "arguments": {"command": "echo x; sleep 1; echo y"}},
            progress=1,
        )
        tap.equal(client.receive(20)["method"], "notifications/progress")
        children = [pid for parent in children_of(broker.pid) for pid in children_of(parent)]
        tap.check(children, "the broker has no launcher")
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        tap.check(tap.wait_until(lambda: "template host" in broker.errors()), "nothing was said")
        tap.equal(client.exec("/bin/echo", "next")["stdout"], "next\n")
        tap.equal(client.wait(asked, 20)["structuredContent"]["stdout"], "x\ny\n")
        tap.equal(client.exec("/bin/echo", "again")["stdout"], "again\n")


def parent_killed():
    """Without the parent of launchers nothing can be made any more: what runs is lost and told, and
    the broker fails, so that the next start is a clean one."""
    broker = mcp.Broker()
    client = broker.client()
    asked = client.start(
        "tools/call",
        {"name": "sandbox_exec", "arguments": {"command": "echo x; sleep 312"}},
        progress=1,
    )
    tap.equal(client.receive(20)["method"], "notifications/progress")
    os.kill(children_of(broker.pid)[0], signal.SIGKILL)
    tap.equal(client.wait(asked, 20)["structuredContent"]["outcome"], "lost")
    tap.check(tap.wait_until(lambda: "parent of the launchers has ended" in broker.errors(), 10),
              "nothing was said")
    tap.check(tap.wait_until(lambda: not os.path.exists(f"/proc/{broker.pid}/fd/0"), 15),
              "the broker goes on")
    broker.kill()


def changed_host():
    """What the host shows changes while the broker runs: the next job sees it, running ones stay."""
    place = os.path.join(tap.folder("host"), "new")
    template = {"root": "host", "ro": ["/usr", {"from": place, "to": "/opt/new"}]}
    env = tap.template_env(changing=template)
    with mcp.Broker(env=env) as broker, broker.client() as client:
        gone = client.exec("/bin/cat", "/opt/new/file", template="changing")
        tap.equal(gone["exit_code"], 1)
        job = {"command": "read x; echo $x", "template": "changing", "stdin": "old\n"}
        running = client.start("tools/call", {"name": "sandbox_exec", "arguments": job})
        os.mkdir(place, 0o755)
        tap.write(os.path.join(place, "file"), "seen")
        tap.equal(client.exec("/bin/cat", "/opt/new/file", template="changing")["stdout"], "seen")
        tap.equal(client.wait(running, 20)["structuredContent"]["stdout"], "old\n")
        tap.contains(broker.errors(), "a new launcher is started")


def tests():
    with mcp.Broker() as broker:
        tap.case("a message of 100 MiB", too_long, broker)
        tap.case("messages around the maximum", exactly_as_long, broker)
        tap.case("1 GB without a newline", no_newline, broker)
        tap.case("deep nesting", deeply_nested, broker)
        tap.case("bad arguments are told by name", bad_arguments, broker)
        tap.case("an argument of 131071 bytes", just_right, broker)
        tap.case("what cannot be executed", not_run, broker)
        tap.case("input that is not read", unread_input, broker)
        tap.case("the rules of workspaces", workspace_rules, broker)
        tap.case("a socket in use, and one left over", socket_in_use, broker)
        tap.case("a peer of another user", wrong_peer, broker)
    tap.case("no socket", no_socket)
    tap.case("two sockets", two_sockets)
    tap.case("wrong descriptors", wrong_descriptors)
    tap.case("one right socket, and the end when idle", activated)
    tap.case("wrong options", wrong_options)
    tap.case("wrong configuration", wrong_configuration)
    tap.case("no templates", no_templates)
    tap.case("a stop while jobs run", stop_ends_jobs)
    tap.case("a stop when idle", stop_when_idle)
    tap.case("a kill while a job runs", killed)
    tap.case("a launcher that is killed", launcher_killed)
    tap.case("the parent of launchers is killed", parent_killed)
    tap.case("a host that changes what a template shows", changed_host)


sys.exit(tap.main(tests))
