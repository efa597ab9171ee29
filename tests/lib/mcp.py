# SPDX-License-Identifier: Apache-2.0
"""A broker of the test's own and a small MCP client: newline JSON-RPC, both eras."""

import json
import os
import signal
import socket
import subprocess
import time

import canary
import tap

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
_META = "io.modelcontextprotocol/"


class RpcError(Exception):
    """The broker answered with a JSON-RPC error."""

    def __init__(self, error):
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.error = error.get("code"), error


class Closed(tap.Failed):
    """The broker closed the connection before it answered."""


class Client:
    """One connection. version LEGACY and older: initialize; MODERN: _meta in each request.
    workspace, mode: the connection's default workspace, as "agentcrate stdio -w" tells it."""

    def __init__(
        self,
        path=None,
        version=LEGACY,
        timeout=60,
        streams=None,
        hello=True,
        workspace=None,
        mode="rw",
    ):
        self.version, self.timeout, self.streams = version, timeout, streams
        self.modern = version == MODERN
        self.buffer, self.next_id = b"", 1
        self.answers, self.notifications = {}, []
        self.socket = None
        if streams is None:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        if workspace:
            given = {"path": workspace, "mode": mode}
            self.notify("notifications/agentcrate/connection", {"workspace": given})
        if hello and not self.modern:
            self.server = self.request("initialize", self._hello())
            self.notify("notifications/initialized")

    def _hello(self):
        return {
            "protocolVersion": self.version,
            "capabilities": {},
            "clientInfo": {"name": "agentcrate-tests", "version": "1"},
        }

    def close(self):
        if self.socket:
            self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    # --- bytes ---

    def send_bytes(self, data):
        if self.socket:
            self.socket.sendall(data)
        else:
            self.streams[0].write(data)
            self.streams[0].flush()

    def send(self, message):
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self, timeout=None):
        """The next message; None at end of file. socket.timeout if nothing comes."""
        while b"\n" not in self.buffer:
            if self.socket:
                self.socket.settimeout(self.timeout if timeout is None else timeout)
                data = self.socket.recv(1 << 20)
            else:
                data = self.streams[1].read1(1 << 20)
            if not data:
                return None
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        canary.look(line, "what the broker said")
        return json.loads(line.decode("utf-8"))

    # --- messages ---

    def start(self, method, params=None, progress=None, request_id=None):
        """Sends a request; returns its id, for wait()."""
        if request_id is None:
            request_id, self.next_id = self.next_id, self.next_id + 1
        params = dict(params or {})
        meta = dict(params.get("_meta", {}))
        if progress is not None:
            meta["progressToken"] = progress
        if self.modern:
            meta.setdefault(_META + "protocolVersion", self.version)
            meta.setdefault(_META + "clientCapabilities", {})
        if meta:
            params["_meta"] = meta
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params:
            message["params"] = params
        self.send(message)
        return request_id

    def wait(self, request_id, timeout=None):
        """The result for that id; RpcError if it is an error. Other messages are kept."""
        end = time.monotonic() + (timeout or self.timeout)
        while request_id not in self.answers:
            left = end - time.monotonic()
            if left <= 0:
                raise tap.Failed(f"no answer to request {request_id!r} in time")
            try:
                message = self.receive(left)
            except socket.timeout:
                continue
            if message is None:
                raise Closed(f"connection closed before the answer to {request_id!r}")
            if "method" in message:
                self.notifications.append(message)
            else:
                self.answers[message.get("id")] = message
        answer = self.answers.pop(request_id)
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def request(self, method, params=None, timeout=None, **kwargs):
        return self.wait(self.start(method, params, **kwargs), timeout)

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def call(self, tool, arguments=None, **kwargs):
        """tools/call; the whole result."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}}, **kwargs)

    def exec(self, *argv, **arguments):
        """sandbox_exec of argv (or command=TEXT); the result record."""
        if argv:
            arguments["argv"] = list(argv)
        result = self.call("sandbox_exec", arguments)
        if "structuredContent" not in result:
            raise tap.Failed(f"no result record: {result!r}")
        return result["structuredContent"]


def audit_records(*paths):
    """The records of audit logs; a line that is no JSON fails the test."""
    found = []
    for path in paths:
        with open(path, "rb") as file:
            for line in file.read().split(b"\n")[:-1]:
                try:
                    found.append(json.loads(line))
                except ValueError:
                    raise tap.Failed(f"{path}: no record: {line[:200]!r}") from None
    return found


def check_pairs(records):
    """Each call has exactly one decision and, behind it, exactly one end. A connection that was
    refused is a decision and no call."""
    state = {}
    for record in records:
        call, event = record["call"], record["event"]
        if call is None and (event, record["rule"]) == ("decision", "peer"):
            continue
        if event in ("operation", "egress", "dns"):
            if state.get(call) != "decision":
                raise tap.Failed(f"{event} of {call} comes behind {state.get(call)}: {record}")
            continue
        if state.get(call) != {"decision": None, "end": "decision"}[event]:
            raise tap.Failed(f"{event} of {call} comes behind {state.get(call)}: {record}")
        state[call] = event
    unended = [call for call, event in state.items() if event != "end"]
    if unended:
        raise tap.Failed(f"calls without an end in the audit log: {unended}")
    return len(state)


class Broker:
    """agentcrated on a socket and with an audit log of its own, ended at the end of the with block.
    state: the folder of the log; without one the log is looked at when the broker has stopped.
    open_files: how many it may have."""

    def __init__(self, *options, env=None, path=None, state=None, open_files=None, cwd="/"):
        self.path = path or os.path.join(tap.folder("broker"), "agentcrate.sock")
        self.state = state or tap.folder("state")
        self.check = state is None
        env = {**(env or tap.clean_env()), "AGENTCRATE_STATE_DIR": self.state}
        # In its memory, too.
        env.setdefault("OTEL_EXPORTER_OTLP_HEADERS", f"x-canary={canary.WORD}")
        limited = ["/usr/bin/prlimit", f"--nofile={open_files}"] if open_files else []
        self.log = open(self.path + ".log", "w+b")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [*limited, tap.libexec("agentcrated"), "--listen", self.path, *options],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            env=env,
            cwd=cwd,
        )
        if not tap.wait_until(self._answers, 20):
            self.kill()
            raise tap.Failed(f"the broker does not listen: {self.errors()!r}")

    def _answers(self):
        if self.process.poll() is not None:
            raise tap.Failed(f"the broker ended with {self.process.returncode}: {self.errors()!r}")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(self.path)
                return True
        except OSError:
            return False

    @property
    def pid(self):
        return self.process.pid

    def client(self, version=LEGACY, **kwargs):
        return Client(self.path, version, **kwargs)

    def errors(self):
        """What the broker wrote so far."""
        with open(self.log.name, "rb") as file:
            return file.read().decode("utf-8", "backslashreplace")

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0

    def stop(self):
        """Asks it to end, as a service manager does; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.kill()
                raise tap.Failed(f"the broker does not stop: {self.errors()!r}") from None
        self.log.close()
        return self.process.returncode

    @property
    def log_path(self):
        return os.path.join(self.state, "audit.jsonl")

    def kill(self):
        tap.kill_and_wait(self.process)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_unused):
        status = self.stop()
        if kind is None and status != 0:
            raise tap.Failed(f"the broker ended with {status}: {self.errors()!r}")
        if kind is None and self.check:
            names = [name for name in os.listdir(self.state) if name.startswith("audit.jsonl")]
            records = audit_records(*(os.path.join(self.state, name) for name in names))
            check_pairs(sorted(records, key=lambda record: record["seq"]))
