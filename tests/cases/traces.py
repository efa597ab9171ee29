#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""Traces: each call has its spans, in the trace that the client wants; and no collector, whatever it
does, costs a call anything (OBS-01)."""

import os
import pwd
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import otlp
import tap

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "S3cr3t-canary"
DENIED = {"argv": ["x"], "workspace": {"path": "/etc"}}


def environment(url, **more):
    return tap.clean_env(OTEL_EXPORTER_OTLP_ENDPOINT=url, **more)


def tree(spans):
    """{name: span} of one call, whose spans each lie within their parent."""
    found = {span.name: span for span in spans}
    tap.equal(len(found), len(spans), "names of spans")
    by_id = {span.id: span for span in spans}
    for span in spans:
        tap.equal(span.trace, spans[0].trace, "trace")
        if span.kind == "SERVER":
            continue
        tap.contains(by_id, span.parent, f"parent of {span.name}")
        outer = by_id[span.parent]
        tap.check(outer.start <= span.start and span.end <= outer.end, f"{span.name} is outside")
    return found


def one_call(arguments, meta=None, rpc_error=False):
    """The spans of one call, and the records of the log."""
    with otlp.Collector() as collector, mcp.Broker(env=environment(collector.url)) as broker:
        with broker.client() as client:
            params = {"name": "sandbox_exec", "arguments": arguments}
            if rpc_error:
                params["name"] = "nope"
            if meta:
                params["_meta"] = meta
            before = time.time_ns()
            try:
                client.request("tools/call", params)
            except mcp.RpcError:
                tap.check(rpc_error, "an error")
        found = tree(collector.wait(1))
        for span in found.values():
            tap.check(before - 10**9 <= span.start <= time.time_ns() + 10**9, "time")
        for record in mcp.audit_records(broker.log_path):
            tap.equal(record["trace_id"], next(iter(found.values())).trace, "trace_id in the log")
        return found, mcp.audit_records(broker.log_path)


def of_an_allowed_call():
    found, records = one_call({"argv": ["/bin/sh", "-c", "exit 3"]})
    root = found["tools/call sandbox_exec"]
    tap.equal(
        {name: found[name].parent for name in found},
        {
            "tools/call sandbox_exec": None,
            "authorize": root.id,
            "route": root.id,
            "exec": root.id,
            "create": found["exec"].id,
            "run": found["exec"].id,
            "drain": found["exec"].id,
            "destroy": found["exec"].id,
        },
    )
    end = records[1]
    crate = {
        "agentcrate.job": end["job"],
        "agentcrate.template": "host",
        "agentcrate.plan_digest": end["plan_digest"],
    }
    decision = {
        "agentcrate.tenant": "owner",
        "agentcrate.decision": "allowed",
        "agentcrate.rule": records[0]["rule"],
    }
    tap.equal(
        root.attributes,
        {
            "mcp.method.name": "tools/call",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "sandbox_exec",
            "jsonrpc.request.id": "2",
            "mcp.protocol.version": mcp.LEGACY,
            "network.transport": "unix",
            **decision,
            **crate,
        },
    )
    tap.equal(found["authorize"].attributes, decision)
    tap.equal(found["exec"].attributes, crate)
    tap.equal(found["run"].attributes, {"process.exit.code": 3})
    tap.equal([span.name for span in found.values() if span.failed], [], "failed")
    tap.equal(root.flags, 0x101)


def of_a_denied_call():
    found, records = one_call(DENIED)
    tap.equal(set(found), {"tools/call sandbox_exec", "authorize", "route"})
    root = found["tools/call sandbox_exec"]
    told = {
        "agentcrate.tenant": "owner",
        "agentcrate.decision": "denied",
        "agentcrate.rule": records[0]["rule"],
        "agentcrate.reason": records[0]["reason"],
    }
    tap.equal(found["authorize"].attributes, told)
    tap.equal({key: root.attributes[key] for key in told}, told)
    tap.equal(root.attributes["error.type"], "tool_error")
    tap.equal(root.status, {"code": 2, "message": records[0]["reason"]})


def of_no_tool():
    """A name that a client has made up names no span."""
    found, _ = one_call({}, rpc_error=True)
    root = found["tools/call"]
    tap.equal(root.attributes["rpc.response.status_code"], "-32602")
    tap.equal(root.attributes["error.type"], "-32602")
    tap.equal(root.attributes["agentcrate.decision"], "denied")
    tap.lacks(root.attributes, "gen_ai.tool.name")


def of_a_limit():
    found, _ = one_call({"argv": ["/bin/sleep", "60"], "timeout_ms": 100})
    root = found["tools/call sandbox_exec"]
    tap.equal(root.attributes["agentcrate.limit"], "wall_time")
    tap.equal(root.attributes["error.type"], "timeout")
    tap.equal(found["exec"].attributes["agentcrate.limit"], "wall_time")
    tap.check(root.failed and found["exec"].failed and found["run"].failed, "no failure")
    tap.check(found["run"].end - found["run"].start >= 90 * 10**6, "run is too short")


def of_a_parent():
    found, _ = one_call(
        {"argv": ["/bin/true"]},
        {"traceparent": f"00-{TRACE}-{PARENT}-00", "tracestate": 'a=1,b="x"'},
    )
    root = found["tools/call sandbox_exec"]
    tap.equal((root.trace, root.parent, root.flags), (TRACE, PARENT, 0x301))
    tap.equal({span.state for span in found.values()}, {'a=1,b="x"'})
    tap.lacks(root.attributes, "agentcrate.traceparent")


MALFORMED = [
    "", "x", 7, None, ["00"], {"a": 1},
    f"00-{TRACE}-{PARENT}", f"01-{TRACE}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01",
    f"00-{TRACE.upper()}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE}-{PARENT}-01-x", f"00-{TRACE}-{PARENT}-01\n", f"00-{TRACE}-{PARENT}\0-01",
    f"00-{TRACE}-{PARENT}-01" * 20000,
]


def of_malformed_parents():
    """Each is ignored and noted; the call runs as if there were none."""
    with otlp.Collector() as collector, mcp.Broker(env=environment(collector.url)) as broker:
        with broker.client() as client:
            for parent in MALFORMED:
                meta = {"traceparent": parent, "tracestate": "a=1"}
                result = client.request(
                    "tools/call", {"name": "sandbox_exec", "arguments": DENIED, "_meta": meta})
                tap.check(result["isError"], "not denied")
        for root in otlp.roots(collector.wait(len(MALFORMED))):
            tap.equal((root.parent, root.state), (None, None))
            tap.check(root.trace != TRACE, "the trace of a malformed parent")
            tap.equal(root.attributes["agentcrate.traceparent"], "malformed")


def of_many_clients():
    """Batches hold whole calls; each call is there once, also those of a batch that was refused."""
    with otlp.Collector(503, 503) as collector, mcp.Broker(env=environment(collector.url)) as broker:
        with broker.client() as client:
            for _ in range(300):
                client.call("sandbox_exec", DENIED)
        spans = collector.wait(300, 30)
        tap.equal(len(otlp.roots(spans)), 300)
        tap.equal(len({span.trace for span in spans}), 300)
        for post in collector.posts:
            tap.check(len(otlp.roots(post[3])) <= 64, "a batch of more than 64")
        tap.contains(broker.errors(), "traces do not reach their collector: it answers with status")
        tap.check(tap.wait_until(lambda: "reach their collector again" in broker.errors()), "no word")


def of_a_stop():
    """What was not sent yet is sent at the end."""
    with otlp.Collector() as collector:
        with mcp.Broker(env=environment(collector.url)) as broker, broker.client() as client:
            client.call("sandbox_exec", DENIED)
        tap.equal(len(otlp.roots(collector.spans())), 1)


# --- headers ---


def headers_are_sent_and_not_told():
    env = dict(OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{SECRET}, x-y=z")
    with otlp.Collector(400) as collector:
        with mcp.Broker(env=environment(collector.url, **env)) as broker, broker.client() as client:
            client.call("sandbox_exec", DENIED)
            said = lambda: "do not reach" in broker.errors()  # pylint: disable=unnecessary-lambda-assignment
            tap.check(tap.wait_until(said), "no word of the first")
            client.call("sandbox_exec", DENIED)
            collector.wait(1)
            for name in "cmdline", "environ":
                if os.path.exists(f"/proc/{egress_of(broker)}/{name}"):
                    tap.lacks(read_of(egress_of(broker), name), SECRET)
        path, headers, _, _ = collector.posts[0]
        tap.equal((path, headers["authorization"], headers["x-y"]),
                  ("/v1/traces", f"Bearer {SECRET}", "z"))
        tap.lacks(broker.errors(), SECRET)
        tap.lacks(repr(mcp.audit_records(broker.log_path)), SECRET)


def no_redirection():
    """What is said in a collector's name goes nowhere else."""
    with otlp.Collector() as other:
        def redirect(handler):
            handler.send_response(307)
            handler.send_header("Location", other.url + "/v1/traces")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        with otlp.Collector(redirect) as collector:
            with mcp.Broker(env=environment(collector.url)) as broker, broker.client() as client:
                client.call("sandbox_exec", DENIED)
                tap.check(tap.wait_until(lambda: "status 307" in broker.errors()), "no word")
        tap.equal(other.posts, [])


def from_the_configuration():
    with otlp.Collector() as collector:
        env = tap.template_env()
        tap.write(os.path.join(env["AGENTCRATE_DATA_DIR"], "agentcrated.json"),
                  f'{{"telemetry": {{"otlp": "{collector.url}/"}}}}\n')
        with mcp.Broker(env=env) as broker, broker.client() as client:
            client.call("sandbox_exec", DENIED)
            collector.wait(1)
        tap.equal(collector.posts[0][0], "/v1/traces")


def wrong_variables():
    """They may be meant for others: the broker says so once and serves."""
    env = environment("SECRET-no-url")
    with mcp.Broker(env=env) as broker, broker.client() as client:
        tap.equal(client.exec("/bin/true")["exit_code"], 0)
        tap.contains(broker.errors(), "no traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT")
        tap.lacks(broker.errors(), "SECRET")
        tap.equal(egress_of(broker), None)


# --- agentcrate-egress ---


def read_of(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def egress_of(broker):
    """Its pid; None: there is none."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        stat = read_of(pid, "stat").rpartition(") ")
        if stat[2].split()[1:2] == [str(broker.pid)] and "(agentcrate-egre" in stat[0]:
            return int(pid)
    return None


def egress_holds_nothing():
    with otlp.Collector() as collector, mcp.Broker(env=environment(collector.url)) as broker:
        with broker.client() as client:
            tap.equal(egress_of(broker), None)
            client.call("sandbox_exec", DENIED)
            collector.wait(1)
        pid = egress_of(broker)
        status = dict(line.split(":\t", 1) for line in read_of(pid, "status").splitlines() if "\t" in line)
        tap.equal(status["NoNewPrivs"], "1")
        for name in "CapEff", "CapPrm", "CapInh", "CapAmb":
            tap.equal(int(status[name], 16), 0, name)
        tap.equal(read_of(pid, "environ"), "")
        # Of a process that is not dumpable, all in /proc is root's.
        tap.equal(os.stat(f"/proc/{pid}/maps").st_uid, 0)


def egress_is_started_again():
    with otlp.Collector() as collector, mcp.Broker(env=environment(collector.url)) as broker:
        with broker.client() as client:
            for n in range(1, 4):
                client.call("sandbox_exec", DENIED)
                collector.wait(n)
                pid = egress_of(broker)
                os.kill(pid, signal.SIGKILL)
                tap.check(tap.wait_until(lambda old=pid: egress_of(broker) != old), "not reaped")


def egress_dies_in_a_post():
    with otlp.Collector(otlp.hang) as collector:
        with mcp.Broker(env=environment(collector.url)) as broker, broker.client() as client:
            client.call("sandbox_exec", DENIED)
            tap.check(tap.wait_until(lambda: egress_of(broker) and not collector.answers), "no post")
            os.kill(egress_of(broker), signal.SIGKILL)
            collector.wait(1)
            tap.equal(len(otlp.roots(collector.spans())), 1)


class Service:
    """agentcrate-egress as its units start it: a listening socket is its descriptor 3."""

    def __init__(self, user=None):
        self.path = os.path.join(tap.folder("egress"), "egress.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(self.path)
        listener.listen(8)
        user = user or pwd.getpwuid(os.getuid()).pw_name
        with open(self.path + ".log", "wb") as log:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", 'exec "$0" "$@" 3<&0 </dev/null',
                 tap.libexec("agentcrate-egress"), "--user", user],
                stdin=listener, stdout=log, stderr=log, cwd="/", env=tap.clean_env())
        listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        tap.kill_and_wait(self.process)


def service_serves_one_broker_after_the_other():
    with otlp.Collector() as collector, Service() as service:
        for n in range(1, 4):
            env = environment(collector.url)
            with mcp.Broker("--egress", service.path, env=env) as broker, broker.client() as client:
                client.call("sandbox_exec", DENIED)
                collector.wait(n)
                tap.equal(egress_of(broker), None, "a child")
        tap.equal(service.process.poll(), None, "the end of the service")


def service_ends_a_link_that_breaks_the_protocol():
    """A post before there is a collector, and what is no frame; the next broker is served."""
    header = struct.Struct("=HBBHHII")
    with otlp.Collector() as collector, Service() as service:
        for bad in header.pack(0x4143, 1, 0, 385, 0, 1, 0), b"GET / HTTP/1.1", b"\0":
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
                link.settimeout(20)
                link.connect(service.path)
                link.send(bad)
                tap.equal(link.recv(64), b"", "answer")
        env = environment(collector.url)
        with mcp.Broker("--egress", service.path, env=env) as broker, broker.client() as client:
            client.call("sandbox_exec", DENIED)
            collector.wait(1)


def service_is_absent():
    path = os.path.join(tap.folder("egress"), "none.sock")
    env = environment("http://127.0.0.1:1")
    with mcp.Broker("--egress", path, env=env) as broker, broker.client() as client:
        client.call("sandbox_exec", DENIED)
        tap.check(tap.wait_until(lambda: "start agentcrate-egress.socket" in broker.errors()),
                  broker.errors)
        tap.equal(client.exec("/bin/true")["exit_code"], 0)


# --- collectors that are none ---


class Port:
    """A TCP port on which each connection is served by a function."""

    def __init__(self, serve):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.serve = serve
        if serve is absent:
            return
        self.socket.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                peer = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._run, args=(peer,), daemon=True).start()

    def _run(self, peer):
        with peer:
            try:
                self.serve(peer)
            except OSError:
                pass


def absent(_peer):
    """The port is taken, and nobody listens."""


def silent(peer):
    while peer.recv(1 << 16):
        pass


def slow(peer):
    peer.recv(1 << 16)
    for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 1000:
        peer.sendall(bytes([byte]))
        time.sleep(0.2)


def garbage(peer):
    peer.recv(1 << 16)
    peer.sendall(os.urandom(1 << 16))


def endless(peer):
    peer.recv(1 << 16)
    peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        peer.sendall(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")


def failing(peer):
    while peer.recv(1 << 16):
        peer.sendall(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")


# What waits at most: the queue and the batch that is under way.
KEPT_MAX = 1024 + 64
CALLS = 1200


def dropped(broker):
    with socket.socket(socket.AF_UNIX) as web:
        web.settimeout(20)
        web.connect(broker.path)
        web.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: web.recv(1 << 16), b"")).decode()
    name = 'agentcrate_records_dropped_total{kind="trace"} '
    return int(text.partition(name)[2].split()[0])


def costs_nothing(serve):
    """More calls than are ever kept: all succeed, memory stays, what is dropped is counted, and the way
    to the end is as short as ever."""
    port = Port(serve)
    try:
        with mcp.Broker(env=environment(port.url)) as broker, broker.client() as client:
            for _ in range(CALLS):
                client.call("sandbox_exec", DENIED)
            settled = broker.memory()
            begin = time.monotonic()
            for _ in range(CALLS):
                tap.check(client.call("sandbox_exec", DENIED)["isError"], "not denied")
            tap.equal(client.exec("/bin/true")["exit_code"], 0)
            tap.check(time.monotonic() - begin < 60, "calls are held up")
            grown = broker.memory() - settled
            tap.check(grown < 8 << 20, f"{grown} bytes more")
            lost = dropped(broker)
            # The endless one has taken what it was sent, by its status.
            least = 0 if serve is endless else 2 * CALLS + 1 - KEPT_MAX
            tap.check(least <= lost <= 2 * CALLS + 1, f"{lost} were dropped")
            begin = time.monotonic()
            tap.equal(broker.stop(), 0)
            tap.check(time.monotonic() - begin < 20, "the stop is held up")
    finally:
        port.socket.close()


def tests():
    # A second passes before a batch is sent, so most of these wait.
    tap.cases_side_by_side([
        ("an allowed call: every span, below its parent, with its attributes", of_an_allowed_call),
        ("a denied call: what, why and by which rule", of_a_denied_call),
        ("a tool that does not exist: no name of the client's", of_no_tool),
        ("a limit: failed, and by which", of_a_limit),
        ("a parent: its trace, its state", of_a_parent),
        ("malformed parents: ignored and noted", of_malformed_parents),
        ("batches: whole calls, each once, also after refusals", of_many_clients),
        ("a stop: what is left is sent", of_a_stop),
        ("headers: sent, and told to nobody", headers_are_sent_and_not_told),
        ("a redirection is not followed", no_redirection),
        ("telemetry.otlp of the configuration", from_the_configuration),
        ("variables that are wrong: said, and served all the same", wrong_variables),
        ("agentcrate-egress: no right, no environment", egress_holds_nothing),
        ("agentcrate-egress: killed, and started again", egress_is_started_again),
        ("agentcrate-egress: killed in a post, which is sent again", egress_dies_in_a_post),
        ("the service: one broker after the other", service_serves_one_broker_after_the_other),
        ("the service: ends a link that breaks the protocol",
         service_ends_a_link_that_breaks_the_protocol),
        ("the service: absent, and said", service_is_absent),
    ])
    tap.cases_side_by_side([
        (f"a collector that is {serve.__name__} costs no call anything", costs_nothing, serve)
        for serve in (absent, silent, slow, garbage, endless, failing)
    ])


if __name__ == "__main__":
    sys.exit(tap.main(tests))
