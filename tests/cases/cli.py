#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""agentcrate: stdio passes every byte in both directions and ends right; tools and call speak to a
broker; and every mistake is one sentence."""

import hashlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import mcp  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

CLI = tap.program("agentcrate")


class Peer:
    """A listening socket in the place of a broker's, and one connection of agentcrate stdio."""

    def __init__(self, *options, **kwargs):
        self.path = os.path.join(tap.folder("peer"), "socket")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(1)
        self.listener.settimeout(20)
        kwargs.setdefault("stdin", subprocess.PIPE)
        kwargs.setdefault("stdout", subprocess.PIPE)
        self.process = subprocess.Popen(
            [CLI, "stdio", *options], stderr=subprocess.PIPE,
            env=tap.clean_env(AGENTCRATE_SOCKET=self.path), cwd="/", **kwargs)
        self.socket, _address = self.listener.accept()
        self.socket.settimeout(20)

    def read_all(self):
        data = b""
        while chunk := self.socket.recv(1 << 20):
            data += chunk
        return data

    def wait(self):
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            raise tap.Failed("agentcrate stdio hangs") from None

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        tap.kill_and_wait(self.process)
        for file in self.process.stdin, self.process.stdout, self.process.stderr:
            if file:
                file.close()
        self.socket.close()
        self.listener.close()


# --- stdio ---


def bytes_in_both_directions():
    """8 MiB of every byte each way at the same time, in odd pieces."""
    data = random.Random(1).randbytes(8 << 20)
    received = []
    with Peer() as peer:
        def write():
            for start in range(0, len(data), 99991):
                peer.process.stdin.write(data[start:start + 99991])
            peer.process.stdin.close()

        threads = [threading.Thread(target=write, daemon=True),
                   threading.Thread(target=lambda: received.append(peer.read_all()), daemon=True),
                   threading.Thread(target=lambda: peer.socket.sendall(data), daemon=True)]
        for thread in threads:
            thread.start()
        back = b""
        while len(back) < len(data):
            chunk = peer.process.stdout.read1(1 << 20)
            tap.check(chunk, "standard output ended early")
            back += chunk
        for thread in threads:
            thread.join(20)
        tap.equal(hashlib.sha256(back).digest(), hashlib.sha256(data).digest(), "from the broker")
        tap.check(received and received[0] == data, "what the broker got is not what was sent")
        peer.socket.close()
        tap.equal(peer.wait(), 0, "status")


def answers_after_the_end_of_input():
    with Peer() as peer:
        peer.process.stdin.write(b"last words\n")
        peer.process.stdin.close()
        tap.equal(peer.read_all(), b"last words\n", "input")
        peer.socket.sendall(b"late answer\n" * 5000)
        peer.socket.close()
        tap.equal(peer.process.stdout.read(), b"late answer\n" * 5000, "output")
        tap.equal(peer.wait(), 0, "status")
        tap.equal(peer.process.stderr.read(), b"", "standard error")


def broker_closes():
    with Peer() as peer:
        peer.socket.sendall(b"bye\n")
        peer.socket.close()
        tap.equal(peer.process.stdout.read(), b"bye\n", "output")
        tap.equal(peer.wait(), 1, "status")
        tap.contains(peer.process.stderr.read().decode(), "has closed the connection")


def reader_goes_away():
    """The agent is gone: the connection ends, and with it its jobs, though no byte comes."""
    with Peer() as peer:
        peer.process.stdout.close()
        tap.equal(peer.socket.recv(100), b"", "connection")
        tap.equal(peer.wait(), 1, "status")


def agent_is_killed():
    read_end, write_end = os.pipe()
    with Peer(stdin=read_end) as peer:
        os.close(read_end)
        os.write(write_end, b"x\n")
        tap.equal(peer.socket.recv(100), b"x\n", "input")
        os.close(write_end)
        tap.equal(peer.socket.recv(100), b"", "end of input")


def slow_reader_holds_back():
    """What nobody reads is not collected: the other side feels it."""
    with Peer() as peer:
        peer.socket.settimeout(2)
        sent = 0
        try:
            while sent < 64 << 20:
                sent += peer.socket.send(b"x" * 65536)
        except socket.timeout:
            pass
        tap.check(sent < 8 << 20, f"{sent} bytes were taken from the broker")
        with open(f"/proc/{peer.process.pid}/status", encoding="ascii") as file:
            memory = [int(line.split()[1]) for line in file if line.startswith("VmRSS")]
        tap.check(memory[0] < 16 << 10, f"{memory[0]} KiB resident")
        total = 0
        while total < sent:
            total += len(peer.process.stdout.read1(1 << 20))
        tap.equal(total, sent, "bytes")


def socket_as_standard_files():
    """Node hands its children sockets."""
    ours, theirs = socket.socketpair()
    with ours, Peer(stdin=theirs, stdout=theirs) as peer:
        theirs.close()
        ours.sendall(b"ping\n")
        tap.equal(peer.socket.recv(100), b"ping\n", "input")
        peer.socket.sendall(b"pong\n")
        tap.equal(ours.recv(100), b"pong\n", "output")
        ours.shutdown(socket.SHUT_WR)
        tap.equal(peer.socket.recv(100), b"", "end of input")
        peer.socket.sendall(b"late\n")
        tap.equal(ours.recv(100), b"late\n", "late output")
        peer.socket.close()
        tap.equal(peer.wait(), 0, "status")


def workspace_first():
    folder = tap.folder('work "ü" ')
    for given, mode in (folder, "rw"), (folder + ":ro", "ro"), (folder + "/../" +
                                                                os.path.basename(folder), "rw"):
        with Peer("-w", given) as peer:
            peer.process.stdin.write(b"{}\n")
            peer.process.stdin.close()
            first, second = peer.read_all().splitlines()
            tap.equal(json.loads(first), {
                "jsonrpc": "2.0", "method": "notifications/agentcrate/connection",
                "params": {"workspace": {"path": folder, "mode": mode}}}, "first message")
            tap.equal(second, b"{}", "second message")


def signals():
    for signum in signal.SIGTERM, signal.SIGINT:
        with Peer() as peer:
            peer.process.send_signal(signum)
            tap.equal(peer.wait(), -signum, "status")
            tap.equal(peer.socket.recv(100), b"", "connection")


# --- mistakes ---


def refused(words, *arguments, rc=2, env=None):
    ran = tap.run([CLI, *arguments], env=env).expect(rc, out="")
    tap.check(ran.errors.startswith("agentcrate: ") and ran.err.count(b"\n") == 1,
              f"not one sentence of ours: {ran}")
    for word in words:
        tap.contains(ran.errors, word, "message")


MISTAKES = [
    ("no command", ["--help"]),
    ("unknown command", ["nope", "stdio", "tools", "call"], "nope"),
    ("option before the command", ["option", "--socket", "after it"], "--socket", "x", "tools"),
    ("unknown option", ["--nope", "--workspace"], "stdio", "--nope"),
    ("too many words", ["too many", "usage"], "tools", "x"),
    ("no tool", ["missing", "TOOL"], "call"),
    ("workspace that is not there", ["/no/such", "ENOENT"], "stdio", "-w", "/no/such"),
    ("workspace that is no folder", ["ENOTDIR"], "call", "-w", "/etc/passwd", "x"),
    ("workspace mode cow", ["cow"], "stdio", "-w", "/tmp:cow"),
    ("broken JSON", ["line 2, column 1"], "call", "sandbox_exec", "{\n"),
    ("no object", ["object"], "call", "sandbox_exec", "[1]"),
    ("member twice", ["line 1"], "call", "sandbox_exec", '{"a":1,"a":2}'),
]


def no_broker():
    path = os.path.join(tap.folder("nobody"), "socket")
    env = tap.clean_env(AGENTCRATE_SOCKET=path)
    for command in ["stdio"], ["tools"], ["call", "sandbox_exec"]:
        refused([path, "ENOENT", "agentcrated"], *command, rc=125, env=env)
        refused([path + "2", "ENOENT"], *command, "--socket", path + "2", rc=125)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
    refused([path, "ECONNREFUSED"], "tools", rc=125, env=env)
    refused(["/dev/null is no socket", "--socket"], "tools", "--socket", "/dev/null", rc=125)
    refused(["longer than 107"], "tools", "--socket", "/" + "x" * 200, rc=125)
    if tap.WHO == "user":
        refused(["XDG_RUNTIME_DIR", "AGENTCRATE_SOCKET"], "tools", rc=125)
        place = tap.folder("run")
        refused([place + "/agentcrate/agentcrate.sock"], "tools", rc=125,
                env=tap.clean_env(XDG_RUNTIME_DIR=place))
    else:
        refused(["/run/agentcrate/agentcrate.sock"], "tools", rc=125)


def completion_offers(name, *words):
    """The completion of bash offers the long options that --help lists, and no other."""
    path = os.path.join(os.path.dirname(tap.data_dir()), "bash-completion", "completions", name)
    listed = tap.run([tap.program(name), *words, "--help"]).expect(0).text
    script = (f". {path}; COMP_WORDS=({name} {' '.join(words)} --); "
              'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
              f'_{name.replace("-", "_")} && printf "%s\\n" "${{COMPREPLY[@]}}"')
    offered = tap.run(["/bin/bash", "-c", script]).expect(0, err="").text.split()
    tap.equal({word for word in offered if word.startswith("--")},
              set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", listed, re.M)), "options")


# --- with a broker ---


def cli(broker, *arguments, **kwargs):
    return tap.run([CLI, *arguments], env=tap.clean_env(AGENTCRATE_SOCKET=broker.path), **kwargs)


def tools(broker):
    ran = cli(broker, "tools").expect(0, err="")
    tap.check(ran.text.startswith("sandbox_exec\n"), f"no tool: {ran}")
    tap.contains(ran.text, "\n    argv ")
    tap.contains(ran.text, "{path, mode}")
    refused(["no tool", "agentcrate tools"], "call", "nosuch", "{}",
            env=tap.clean_env(AGENTCRATE_SOCKET=broker.path))
    listed = json.loads(cli(broker, "tools", "--json").expect(0).out)
    tap.equal(listed[0]["name"], "sandbox_exec", "name")
    tap.check("inputSchema" in listed[0], "no schema")


def call(broker):
    arguments = json.dumps({"command": "echo out; id -u; exit 3"}, indent=2)
    ran = cli(broker, "call", "sandbox_exec", arguments).expect(0, err="")
    tap.contains(ran.text, "out\n1000\n")
    tap.contains(ran.text, "exited with status 3")
    ran = cli(broker, "call", "--json", "sandbox_exec", arguments).expect(0, err="")
    tap.equal(json.loads(ran.out)["structuredContent"]["exit_code"], 3, "exit_code")
    ran = cli(broker, "call", "sandbox_exec", '{"argv": ["sleep", "60"], "timeout_ms": 100}')
    tap.contains(ran.expect(1).text, "limit wall_time")
    tap.contains(cli(broker, "call", "sandbox_exec", '{"nope": 1}').expect(1).text, "nope")
    ran = cli(broker, "call", "no_such_tool").expect(2, out="")
    tap.contains(ran.errors, "no_such_tool")


def call_with_workspace(broker):
    folder = tap.folder("work")
    os.chmod(folder, 0o777)
    tap.write(os.path.join(folder, "file"), "content\n")
    ran = cli(broker, "call", "sandbox_exec", '{"argv": ["cat", "file"]}', "-w", folder)
    tap.equal(ran.expect(0).out, b"content\n", "output")
    ran = cli(broker, "call", "-w", folder + ":ro", "sandbox_exec", '{"argv": ["touch", "x"]}')
    tap.contains(ran.expect(0).text, "Read-only file system")
    ran = cli(broker, "call", "sandbox_exec", json.dumps({
        "argv": ["true"], "workspace": {"path": folder, "mode": "rw"}}))
    tap.equal(ran.rc, 1, "status of a workspace without -w")


def call_with_progress(broker):
    command = "echo first; sleep 0.3; echo second; sleep 0.3"
    ran = cli(broker, "call", "--progress", "sandbox_exec", json.dumps({"command": command}))
    ran.expect(0, out="first\nsecond\n")
    tap.contains(ran.errors, "first")
    tap.contains(ran.errors, "second")


def through_stdio(broker):
    with subprocess.Popen([CLI, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/",
                          env=tap.clean_env(AGENTCRATE_SOCKET=broker.path)) as process:
        client = mcp.Client(streams=(process.stdin, process.stdout))
        tap.equal(client.exec("cat")["stdout"], "", "STDIN-01: cat sees the end at once")
        tap.equal(client.exec("cat", stdin="x")["stdout"], "x", "stdout")
        process.stdin.close()
        tap.equal(process.wait(20), 0, "status")


def main():
    tap.case("stdio passes every byte", bytes_in_both_directions)
    tap.case("stdio delivers answers after the end of input", answers_after_the_end_of_input)
    tap.case("stdio ends when the broker closes", broker_closes)
    tap.case("stdio ends when nobody reads its output", reader_goes_away)
    tap.case("stdio tells the broker when its input ends", agent_is_killed)
    tap.case("stdio holds back what nobody reads", slow_reader_holds_back)
    tap.case("stdio on sockets", socket_as_standard_files)
    tap.case("stdio -w names the workspace first", workspace_first)
    tap.case("stdio ends by a signal", signals)
    for name, words, *arguments in MISTAKES:
        tap.case(f"mistake: {name}", refused, words, *arguments)
    tap.case("mistake: no broker", no_broker)
    for name, *words in ["agentcrate-run"], *(["agentcrate", command]
                                               for command in ("stdio", "tools", "call")):
        tap.case(f"completion of {' '.join([name, *words])}", completion_offers, name, *words)
    with mcp.Broker() as broker:
        tap.case("tools", tools, broker)
        tap.case("call", call, broker)
        tap.case("call -w", call_with_workspace, broker)
        tap.case("call --progress", call_with_progress, broker)
        tap.case("STDIN-01 through stdio", through_stdio, broker)


sys.exit(tap.main(main))
