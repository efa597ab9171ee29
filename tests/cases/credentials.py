#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""The host of a credential against a hostile upstream and hostile jobs, by agentcrate-egress itself.
Rows are those of the attacks on the credential endpoint, by their numbers."""

import base64
import contextlib
import gzip
import hashlib
import json
import os
import select
import signal
import socket
import ssl
import sys
import threading
import time
import types
import urllib.parse
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import canary
import egress
import tap
import upstream

SECRET = canary.SECRET
HERE = [("A", egress.OUTSIDE)]
HOST = "api.crate.internal"
OPERATIONS = {
    "get": {"method": "GET", "path": "/get"},
    "head": {"method": "HEAD", "path": "/get"},
    "issues": {"method": "GET", "path": "/repos/{owner:slug}/{repo:slug}/issues",
               "query": {"per_page": {"type": "int", "maximum": 100}}},
    "create": {"method": "POST", "path": "/items", "body": {"kind": "json", "max_bytes": "4K"}},
    "remove": {"method": "DELETE", "path": "/items/{id:int}"},
    "raw": {"method": "PUT", "path": "/raw", "body": {"kind": "raw", "max_bytes": "2M"}},
    "once": {"method": "GET", "path": "/once", "per_job": 1},
    "twice": {"method": "GET", "path": "/twice", "per_minute": 2},
    "small": {"method": "GET", "path": "/small", "response": {"max_bytes": 1000}},
    "quick": {"method": "GET", "path": "/quick", "response": {"timeout": "700ms"}},
    "big": {"method": "GET", "path": "/big", "response": {"max_bytes": "64M", "timeout": "60s"}},
}
STATE = {}


def authority():
    if "authority" not in STATE:
        STATE["authority"] = upstream.Authority()
        STATE["cert"] = STATE["authority"].sign("good")
    return STATE["authority"]


def secrets(**values):
    """A folder of secrets, as systemd would make it."""
    folder = tap.folder("secrets")
    for name, text in {"token": SECRET, **values}.items():
        tap.write(os.path.join(folder, name), text, 0o400)
    return {"CREDENTIALS_DIRECTORY": folder}


def credential(port, **more):
    row = {"upstream": f"https://{upstream.HOST}:{port}", "secret": "token",
           "attach": {"as": "bearer"}, "addresses": [egress.OUTSIDE + "/32"],
           "ca": authority().ca, "operations": OPERATIONS, **more}
    return {key: value for key, value in row.items() if value is not None}


class Bench:
    """One session with one credential, and what is behind it."""

    def __init__(self, program, session, server):
        self.program, self.session, self.server = program, session, server

    def connect(self):
        return self.session.connect(HOST, 80)

    def send(self, data):
        """What comes back on one connection, until its end."""
        with self.connect() as job:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                job.sendall(data)
            got = b""
            try:
                while True:
                    more = job.recv(65536)
                    if not more:
                        break
                    got += more
            except ConnectionResetError:
                pass
        return upstream.Answer(got)

    def ask(self, method="GET", target="/get", fields=(), body=b""):
        lines = [f"{method} {target} HTTP/1.1", f"Host: {HOST}", "Connection: close", *fields]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        return self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def refused(self, status, reason, *args, **kwargs):
        """Asks, and is refused without anything being sent."""
        before = self.server.n_connections
        answer = self.ask(*args, **kwargs)
        self.was_refused(answer, status, reason, before)
        return answer

    def was_refused(self, answer, status, reason, before):
        tap.equal(answer.status, status, "status")
        tap.equal(json.loads(answer.body)["error"]["reason"], reason, "reason")
        told = self.program.wait_operations(len(self.program.operations) + 1)[-1]
        tap.equal((told["denied"], told["reason"], told["status"]), (True, reason, status),
                  "what the host was told")
        tap.equal(self.server.n_connections, before, "connections to the upstream")

    def failed(self, reason, status=502, target="/get"):
        """Asks, and gets the named failure of the upstream's answer."""
        answer = self.ask(target=target)
        told = self.program.wait_operations(len(self.program.operations) + 1)[-1]
        tap.equal((told["denied"], told["reason"]), (False, reason), "what the host was told")
        if answer.status == status and answer.fields.get("content-length"):
            tap.equal(json.loads(answer.body)["error"]["reason"], reason, "reason")
        else:
            tap.check(not answer.whole, "an answer that broke off looks whole")
        tap.lacks(answer.data, SECRET.encode(), "the answer")
        return answer


@contextlib.contextmanager
def bench(answer=None, more=None, cert=None, context=None, answers=None, env=None, deny=(), **changes):
    authority()
    answer = upstream.reply("fine") if answer is None else answer
    with egress.Resolver(**{upstream.HOST: HERE, **(answers or {})}) as resolver, \
            upstream.Upstream(cert or STATE["cert"], answer, context) as server, \
            egress.Egress(env or secrets()) as program:
        entries = {"api": credential(server.port, **changes)}
        for name, row in (more or {}).items():
            entries[name] = credential(server.port, **row)
        session = egress.Session(program, [], resolver, deny, credentials=entries)
        b = Bench(program, session, server)
        yield b
        with contextlib.suppress(egress.Gone):
            b.session.close()
        tap.equal(program.end(), 0, "exit status")


# --- what it is for ---


def way_there_and_back():
    with bench() as b:
        answer = b.ask(target="/repos/a/b.c/issues?per_page=%35%30")
        tap.equal((answer.status, answer.body), (200, b"fine"))
        request, = b.server.requests
        tap.equal((request.method, request.target), ("GET", "/repos/a/b.c/issues?per_page=50"))
        tap.equal(request.field("authorization"), ["Bearer " + SECRET])
        tap.equal(request.field("host"), [f"{upstream.HOST}:{b.server.port}"])
        tap.equal(request.field("accept-encoding"), ["identity"])
        told, = b.program.wait_operations(1)
        tap.equal((told["credential"], told["operation"], told["status"], told["reason"],
                   told["denied"], told["bytes_in"], len(told["digest"])),
                  ("api", "issues", 200, "", False, 4, 64), "what the host was told")
        report = b.session.close()
        tap.equal((report["connections"], report["denied"]), (1, []), "report")
        b.session.close = lambda: None


def name_is_found():
    with bench() as b:
        tap.equal(egress.look_up(b.session, HOST), (0, ["127.77.2.1"]), "A")
        tap.equal(egress.look_up(b.session, "other.crate.internal")[0], 3, "another name")


def methods_and_bodies():
    with bench() as b:
        tap.equal(b.ask("HEAD").body, b"", "body of HEAD")
        tap.equal(b.ask("POST", "/items", ["Content-Type: application/json"], b'{"a":1}').status, 200)
        tap.equal(b.ask("DELETE", "/items/7").status, 200)
        tap.equal(b.ask("PUT", "/raw", [], b"x" * 1000000).status, 200)
        head, create, remove, raw = b.server.requests
        tap.equal((head.method, remove.method, raw.method), ("HEAD", "DELETE", "PUT"))
        tap.equal((create.method, create.body, create.field("content-type")),
                  ("POST", b'{"a":1}', ["application/json"]))
        tap.equal(raw.body, b"x" * 1000000, "body")


def keeps_connection():
    with bench() as b, b.connect() as job:
        for _ in range(3):
            job.sendall(f"GET /get HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
            got = b""
            while not got.endswith(b"0\r\n\r\n"):
                got += job.recv(65536)
            tap.equal(upstream.Answer(got).body, b"fine")
        job.sendall(f"GET /get HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() * 2)
        got = b""
        while got.count(b"0\r\n\r\n") < 2:
            got += job.recv(65536)
        tap.equal(got.count(b"fine"), 2, "answers to two requests at once")
        tap.equal(b.server.n_connections, 5, "a connection for each request")


def streams():
    """Server-sent events come as they are sent, although the secret is looked for in them."""
    def answer(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        for n in range(3):
            data = b"data: %d\n\n" % n
            conn.sendall(b"%x\r\n%s\r\n" % (len(data), data))
            STATE["go"].wait(10)
            STATE["go"].clear()
        conn.sendall(b"0\r\n\r\n")

    STATE["go"] = threading.Event()
    with bench(answer) as b, b.connect() as job:
        job.settimeout(10)
        job.sendall(f"GET /get HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        got = b""
        for n in range(3):
            while b"data: %d\n\n" % n not in got:
                got += job.recv(65536)
            tap.lacks(got, b"data: %d" % (n + 1), "what was not sent yet")
            STATE["go"].set()
        while not got.endswith(b"0\r\n\r\n"):
            got += job.recv(65536)
        tap.contains(got, b"text/event-stream")


def long_streams():
    """NET-06: of a stream of events the time for an answer is a limit between two of them, and the whole
    has none; one that says nothing is ended on both sides."""
    def answer(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                     b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(8):
            conn.sendall(b"9\r\ndata: x\n\n\r\n")
            time.sleep(0.2)
        if not silent:
            conn.sendall(b"0\r\n\r\n")
            return
        with contextlib.suppress(OSError):
            conn.recv(1)
        ended.set()

    ended = threading.Event()
    with bench(answer) as b:
        for silent in False, True:
            with b.connect() as job:
                job.settimeout(20)
                job.sendall(f"GET /quick HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
                got = egress.read_all(job)
            if not silent:
                tap.equal((got.count(b"data: x"), got[-5:]), (8, b"0\r\n\r\n"), "the whole")
            else:
                tap.check(got == "reset" or not got.endswith(b"0\r\n\r\n"), "what is cut has an end")
        tap.check(ended.wait(10), "the silent server's side is open")
        tap.equal([told["reason"] for told in b.program.wait_operations(2)], ["", "response.timeout"])


def attachments():
    kinds = {
        "basic": ({"as": "basic", "user": "me"}, "authorization",
                  "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()),
        "own": ({"as": "header", "name": "X-Api-Key"}, "x-api-key", SECRET),
        "signed": ({"as": "hmac", "algorithm": "sha256", "header": "X-Sig", "over": "body"},
                   "x-sig", None),
        "amazon": ({"as": "aws-sigv4", "region": "eu-west-1", "service": "s3",
                    "access_key_id": "AKID"}, "authorization", None),
    }
    more = {name: {"attach": row[0]} for name, row in kinds.items()}
    more["key"] = {"attach": {"as": "query", "name": "key"}}
    with bench(more=more) as b:
        for name, (_, field, value) in kinds.items():
            with b.session.connect(f"{name}.crate.internal", 80) as job:
                job.sendall(f"GET /get HTTP/1.1\r\nHost: {name}.crate.internal\r\n"
                            f"Connection: close\r\n{field}: mine\r\n\r\n".encode())
                tap.equal(upstream.Answer(egress.read_all(job)).status, 200, name)
            got = b.server.requests[-1].field(field)
            tap.equal(len(got), 1, f"{name}: fields {field}")
            tap.check(value is None or got == [value], f"{name}: {got}")
        with b.session.connect("key.crate.internal", 80) as job:
            job.sendall(b"GET /repos/a/b/issues?per_page=1 HTTP/1.1\r\nHost: key.crate.internal\r\n"
                        b"Connection: close\r\n\r\n")
            egress.read_all(job)
        tap.equal(b.server.requests[-1].target,
                  "/repos/a/b/issues?per_page=1&key=" + urllib.parse.quote(SECRET, safe="-_.~"))


# --- what a job may ask ---


def row_28():
    with bench() as b:
        for host in "evil.example", "api.crate.internal:443", "api.crate.internal.evil.example", "x":
            before = b.server.n_connections
            answer = b.send(f"GET /get HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                            .encode())
            b.was_refused(answer, 421, "request.host", before)
        tap.equal(b.send(b"GET /get HTTP/1.1\r\nHost: API.crate.internal:80\r\n"
                         b"Connection: close\r\n\r\n").status, 200)


def row_29():
    with bench() as b:
        for line, status in (("GET http://evil.example/get", 400), ("CONNECT evil.example:443", 405),
                             ("OPTIONS *", 405), ("TRACE /get", 405), ("OPTIONS /get", 405)):
            answer = b.send(f"{line} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            tap.equal(answer.status, status, line)
        tap.equal(b.server.n_connections, 0, "connections to the upstream")


def row_30():
    with bench(headers=["x-more"]) as b:
        b.ask(fields=["Authorization: Bearer mine", "authorization: Basic mine", "X-Api-Key: mine",
                      "Cookie: a=b", "Proxy-Authorization: mine", "X-Forwarded-For: mine",
                      "Range: bytes=0-1", "Accept: a/b", "X-More: yes", "X-More: no",
                      "User-Agent: job"])
        request, = b.server.requests
        tap.equal(request.field("authorization"), ["Bearer " + SECRET])
        for name in "x-api-key", "cookie", "proxy-authorization", "x-forwarded-for", "range":
            tap.equal(request.field(name), [], name)
        tap.equal((request.field("accept"), request.field("x-more"), request.field("user-agent")),
                  (["a/b"], ["yes"], ["job"]))


def row_32():
    head = f"POST /items HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    shapes = [
        head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
        head + "Content-Length: 2, 2\r\n\r\n{}",
        head + "Content-Length: +2\r\n\r\n{}",
        head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding: identity\r\n\r\n",
        head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        head + "X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
        head.replace("\r\n", "\n") + "Content-Length: 2\n\n{}",
        head + "X: a\0b\r\nContent-Length: 2\r\n\r\n{}",
        head + "X: a\rb\r\nContent-Length: 2\r\n\r\n{}",
        head + f"Host: {HOST}\r\nContent-Length: 2\r\n\r\n{{}}",
        head + "Transfer-Encoding: chunked\r\n\r\n2;\r\n{}\n0\r\n\r\n",
    ]
    with bench() as b:
        for shape in shapes:
            smuggled = f"GET /get HTTP/1.1\r\nHost: {HOST}\r\n\r\n"
            answer = b.send((shape + smuggled).encode("latin-1"))
            tap.equal(answer.status, 400, repr(shape[len(head):]))
            tap.equal(answer.data.count(b"HTTP/1.1 "), 1, f"answers to {shape[len(head):]!r}")
        tap.equal(b.server.n_connections, 0, "connections to the upstream")


def row_33():
    """Nothing of how the job wrote it is sent."""
    with bench() as b:
        b.send(f"POST /%69tems HTTP/1.1\r\nhOsT: {HOST}\r\nContent-Type:application/json\r\n"
               "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n"
               .encode())
        b.ask()
        first = b.server.requests[0]
        tap.equal((first.target, first.body, first.field("content-length"),
                   first.field("transfer-encoding")), ("/items", b"[]", ["2"], []))
        tap.equal(b.server.n_connections, 2, "connections for two requests")


def row_33_kept():
    """Connections are used again for the same credential of the same session, unless there was
    something wrong with the answer."""
    odd = {"/big": upstream.reply("fine") + b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad",
           "/quick": upstream.reply("x", fields=["Content-Length: 1"])}

    def answer(conn, request):
        conn.sendall(odd.get(request.target, upstream.reply("fine")))

    with bench(answer, more={"other": {}}) as b:
        b.server.keep = True
        for n in range(3):
            tap.equal(b.ask().body, b"fine", f"request {n}")
        tap.equal(b.server.n_connections, 1, "connections")
        b.ask(target="/big")
        tap.equal(b.ask().body, b"fine", "behind one with too much")
        tap.equal(b.server.n_connections, 2, "connections after too much")
        tap.equal(b.ask(target="/quick").body, b"x", "one with two lengths")
        tap.equal(b.ask().body, b"fine", "behind one with two lengths")
        tap.equal(b.server.n_connections, 3, "connections after two lengths")
        with b.session.connect("other.crate.internal", 80) as job:
            job.sendall(b"GET /get HTTP/1.1\r\nHost: other.crate.internal\r\n"
                        b"Connection: close\r\n\r\n")
            tap.contains(egress.read_all(job), b"fine")
        tap.equal(b.server.n_connections, 4, "connections with another credential")
        resolver = types.SimpleNamespace(address=b.session.document["resolver"]["servers"][0])
        b.session.close()
        b.session = egress.Session(b.program, [], resolver,
                                   credentials={"api": credential(b.server.port)})
        tap.equal(b.ask().body, b"fine", "another session")
        tap.equal(b.server.n_connections, 5, "connections with another session")


def row_33_spoilt():
    """A kept connection on which something came that nobody asked for, or its end, is not used again: the
    next request is sent once, by a new one, and gets its own answer."""
    bad = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"

    def at_once(conn):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        conn.sendall(b"first" + bad)  # in one record of TLS, of which only the answer is taken

    def later(conn, data):
        conn.sendall(upstream.reply("first"))
        STATE["idle"].wait(10)
        conn.sendall(data)
        STATE["spoilt"].set()

    def ends(conn):
        conn.sendall(upstream.reply("first"))
        STATE["idle"].wait(10)
        conn.settimeout(0)
        with contextlib.suppress(ssl.SSLError):
            conn.unwrap()
        conn.settimeout(20)
        STATE["spoilt"].set()

    ways = {"a whole answer": lambda conn: later(conn, bad), "part of one": lambda conn: later(conn, bad[:20]),
            "the end": ends, "an answer at once": at_once}
    for name, way in ways.items():
        STATE["idle"], STATE["spoilt"] = threading.Event(), threading.Event()
        answers = [way]
        with bench(lambda conn, _, left=answers: left.pop()(conn) if left else
                   conn.sendall(upstream.reply("fine"))) as b:
            b.server.keep = True
            tap.equal(b.ask().body, b"first", name)
            STATE["idle"].set()
            tap.check(way is at_once or STATE["spoilt"].wait(10), "nothing was sent later")
            got = b.ask("POST", "/items", ["Content-Type: application/json"], b"[]")
            tap.equal((got.status, got.body), (200, b"fine"), f"behind {name}")
            tap.equal(b.server.n_connections, 2, f"connections behind {name}")
            tap.equal(b.ask().body, b"fine", f"the one after {name}")
            tap.equal(b.server.n_connections, 2, f"connections, one after {name}")
            tap.equal([request.method for request in b.server.requests], ["GET", "POST", "GET"], name)
            tap.equal([(told["operation"], told["status"], told["reason"], told["bytes_in"])
                       for told in b.program.wait_operations(3)],
                      [("get", 200, "", 5), ("create", 200, "", 4), ("get", 200, "", 4)], name)


def row_33_lost():
    """A kept connection that ends as it is used again: what changes nothing is sent once more."""
    lost = []

    def serve(conn, request):
        if lost and lost.pop() == request.method:
            conn.shutdown(socket.SHUT_RDWR)
        else:
            conn.sendall(upstream.reply("fine"))

    with bench(serve) as b:
        b.server.keep = True
        b.ask()
        lost.append("GET")
        tap.equal(b.ask().body, b"fine", "GET")
        tap.equal(len(b.server.requests), 3, "requests")
        lost.append("POST")
        answer = b.ask("POST", "/items", ["Content-Type: application/json"], b"[]")
        tap.equal((answer.status, json.loads(answer.body)["error"]["reason"]),
                  (502, "upstream.broken"), "POST")
        tap.equal(len(b.server.requests), 4, "requests")


def row_34():
    with bench() as b:
        for target in ("/repos/a/b/../../../get", "/repos/a/%2e%2e/issues", "/repos/a%2Fb/c/issues",
                       "//get", "/get;x", "/get\\", "/repos/a/%252e%252e/issues", "/repos/a/%ff/issues",
                       "/get%3Fx", "/get%00", "/repos/a/%/issues", "/GET", "/get/"):
            b.refused(403, "operation.no_match", target=target)


def row_35():
    with bench() as b:
        for query in ("x=1", "per_page=1&per_page=2", "access_token=x", "per_page=101", "per_page=1#x",
                      "per_page=1%23x", "per_page", "per_page=1&"):
            if "#" in query:
                tap.equal(b.ask(target=f"/repos/a/b/issues?{query}").status, 400, query)
                b.program.wait_operations(len(b.program.operations) + 1)
            else:
                b.refused(403, "operation.query", target=f"/repos/a/b/issues?{query}")


def row_37():
    as_json = ["Content-Type: application/json"]
    with bench() as b:
        b.refused(413, "operation.body_size", "POST", "/items", as_json, b'"' + b"x" * 4096 + b'"')
        b.refused(415, "operation.body_type", "POST", "/items", as_json + ["Content-Encoding: gzip"],
                  gzip.compress(b"{}"))
        b.refused(415, "operation.body_type", "POST", "/items", ["Content-Type: text/plain"], b"{}")
        b.refused(415, "operation.body_type", "POST", "/items",
                  ["Content-Type: multipart/form-data; boundary=x"], b"--x--")
        b.refused(400, "operation.body", "POST", "/items", as_json, b'{"a":1,"a":2}')
        b.refused(400, "operation.body", "GET", "/get", as_json, b"{}")
        before = b.server.n_connections
        answer = b.send(f"PUT /raw HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n"
                        .encode() + b"10000\r\n" + b"x" * 65536 + b"\r\n"
                        + b"10000\r\n" * 1 + b"x" * 65536 + b"\r\n" + (b"ffff\r\n" + b"y" * 65535
                                                                      + b"\r\n") * 40)
        b.was_refused(answer, 413, "request.malformed", before)


def row_37_many():
    """Large contents without an end, on every connection that there may be: some are refused, the
    process stays small, and goes on."""
    with bench() as b:
        pid = b.program.process.pid
        head = f"PUT /raw HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 2000000\r\n\r\n".encode()
        before = largest = memory_of(pid)
        refused = set()

        def many_are_refused():
            nonlocal largest
            largest = max(largest, memory_of(pid))
            for sock in select.select(socks, [], [], 0)[0]:
                with contextlib.suppress(ConnectionResetError):
                    if sock.recv(4096).startswith(b"HTTP/1.1 503 "):
                        refused.add(sock)
            return len(refused) >= 30

        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(b.connect()) for _ in range(48)]
            for sock in socks:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    sock.sendall(head + bytes(1900000))
                many_are_refused()
            tap.check(tap.wait_until(many_are_refused, 10), lambda: f"{len(refused)} were refused")
        tap.check(largest - before < 48 << 20, f"{largest - before} bytes more")
        tap.check(tap.wait_until(lambda: b.ask("PUT", "/raw", [], b"x" * 1000000).status == 200, 10),
                  "nothing goes on")


def memory_of(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def row_38():
    """A parameter cannot end a line, and a secret that does is none."""
    with bench() as b:
        b.refused(403, "operation.no_match", target="/repos/a%0d%0aX-Evil:%20b/c/issues")
    with tap_failed("more than one line"):
        with bench(env=secrets(token="a secret\r\nX-Evil: yes")):
            pass


def row_39():
    with bench() as b:
        for target in "/repos/{{token}}/b/issues", "/repos/${token}/b/issues", "/repos/%7b%7bx/b/issues":
            b.refused(403, "operation.no_match", target=target)


def row_40_41():
    """What is no operation of this job does not exist, and a request can name no other secret."""
    other = "another-" + os.urandom(8).hex()
    with bench(more={"two": {"secret": "other", "operations": {"own": {
            "method": "GET", "path": "/own"}}}}, env=secrets(other=other)) as b:
        b.refused(403, "operation.no_match", target="/own")
        with b.session.connect("two.crate.internal", 80) as job:
            job.sendall(b"GET /own HTTP/1.1\r\nHost: two.crate.internal\r\nConnection: close\r\n\r\n")
            tap.equal(upstream.Answer(egress.read_all(job)).status, 200)
        tap.equal(b.server.requests[-1].field("authorization"), ["Bearer " + other])
        with b.session.connect("two.crate.internal", 80) as job:
            job.sendall(f"GET /own HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
            tap.equal(upstream.Answer(egress.read_all(job)).status, 421)


def row_42():
    with bench(b"") as b:
        # A call counts although its upstream fails.
        b.failed("upstream.broken", target="/once")
        b.refused(429, "limit.per_job", target="/once")
    with bench() as b:
        for _ in range(2):
            tap.equal(b.ask(target="/twice").status, 200)
        b.program.wait_operations(2)
        b.refused(429, "limit.per_minute", target="/twice")
        tap.equal(b.ask().status, 200, "another operation")


def row_43():
    with tap_failed("clear text"):
        with bench(upstream=f"http://{upstream.HOST}:1"):
            pass


def row_44():
    with bench() as b:
        b.refused(400, "request.upgrade", fields=["Upgrade: websocket"])
        b.refused(417, "request.expect", fields=["Expect: a-miracle"])
        with b.connect() as job:
            job.settimeout(10)
            job.sendall(f"PUT /raw HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 3\r\n"
                        "Expect: 100-continue\r\nConnection: close\r\n\r\n".encode())
            tap.equal(job.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            job.sendall(b"abc")
            tap.equal(upstream.Answer(egress.read_all(job)).status, 200)
        tap.equal(b.server.requests[-1].field("expect"), [], "Expect")


# --- what an upstream may answer ---


def forms():
    """Every form that is promised to be found."""
    raw = SECRET.encode()
    found = {
        "raw": raw, "bearer": b"Bearer " + raw,
        "percent": urllib.parse.quote(SECRET, safe="").encode(),
        "percent, all": "".join(f"%{byte:02x}" for byte in raw).encode(),
        "JSON": json.dumps(SECRET)[1:-1].encode(),
        "JSON, slash": json.dumps(SECRET)[1:-1].replace("/", "\\/").encode(),
        "JSON, all": "".join(f"\\u{byte:04x}" for byte in raw).encode(),
        "basic": base64.b64encode(b"me:" + raw),
    }
    for n in range(3):
        found[f"base64 at {n}"] = base64.b64encode(b"x" * n + raw + b"y" * n)
        found[f"base64url at {n}"] = base64.urlsafe_b64encode(b"x" * n + raw + b"y" * n)
    lines = base64.encodebytes(b"x" * 50 + raw)
    found["base64 in lines"] = lines
    found["base64 in lines of MIME"] = lines.replace(b"\n", b"\r\n")
    found["base64 in lines, JSON"] = json.dumps(lines.decode()).encode()
    found["base64 in lines of MIME, JSON"] = json.dumps(lines.decode().replace("\n", "\r\n")).encode()
    return found


def in_it(data):
    """Whether the secret can be had from it, without any of our code."""
    texts = [data, urllib.parse.unquote_to_bytes(data),
             data.replace(b"\\/", b"/").replace(b'\\"', b'"').replace(b"\\\\", b"\\")]
    lines = data
    for line_end in b"\r", b"\n", b"\\r", b"\\n":
        lines = lines.replace(line_end, b"")
    raw = SECRET.encode()
    if any(raw in text for text in texts):
        return True
    for n in range(3):
        whole = base64.b64encode(b"\0" * n + raw)
        middle = whole[-(-n * 8 // 6):(n + len(raw)) * 8 // 6]
        for text in data, lines:
            if middle in text or middle.replace(b"+", b"-").replace(b"/", b"_") in text:
                return True
    return False


def row_45():
    def answer(conn, request):
        form, piece = request.target.split("/")[2:4]
        data = b"before " + list(forms().values())[int(form)] + b" behind"
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(data), int(piece)):
            part = data[at:at + int(piece)]
            conn.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        conn.sendall(b"0\r\n\r\n")

    menu = {"echo": {"method": "GET", "path": "/repos/{form:int}/{piece:int}/issues"}}
    with bench(answer, operations=menu) as b:
        for number, name in enumerate(forms()):
            for piece in 1, 7, 10000:
                got = b.ask(target=f"/repos/{number}/{piece}/issues")
                tap.equal((got.status, got.whole), (200, True), name)
                tap.check(got.body.startswith(b"before ") and got.body.endswith(b" behind"), name)
                tap.check(not in_it(got.body), f"{name} in pieces of {piece}: {got.body}")


def row_46():
    answer = (f"HTTP/1.1 418 {SECRET}\r\nETag: \"{SECRET}\"\r\nX-Request-Id: {SECRET}\r\n"
              f"X-Token: {SECRET}\r\nAuthorization: Bearer {SECRET}\r\n"
              "Transfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n"
              f"2\r\nok\r\n0\r\nETag: {SECRET}\r\nX-Late: {SECRET}\r\n\r\n").encode()
    with bench(answer) as b:
        got = b.ask()
        tap.equal((got.status, got.phrase, got.body, got.whole), (418, "Client Error", b"ok", True))
        tap.check(not in_it(got.data), got.data)
        tap.equal(sorted(got.fields), ["connection", "etag", "transfer-encoding", "x-request-id"])
        tap.lacks(got.data, b"X-Late")


def row_46_names():
    """The name of a field is none that the upstream can choose."""
    secret = "canary-" + os.urandom(8).hex()
    with bench(upstream.reply("x", fields=[
            f"X-RateLimit-{secret}: 1", f"ratelimit-{secret.upper()}: 2", "X-RateLimit-: 3",
            f"Anthropic-RateLimit-Limit-{secret}: 4", "X-RateLimit-Remaining: 5",
            "anthropic-ratelimit-input-tokens-reset: 6", "RateLimit-Policy: 7"]),
               env=secrets(token=secret)) as b:
        got = b.ask()
        tap.lacks(got.data.lower(), secret.encode(), "the answer")
        tap.equal(sorted(got.fields), ["anthropic-ratelimit-input-tokens-reset", "connection",
                                       "ratelimit-policy", "transfer-encoding",
                                       "x-ratelimit-remaining"])


def row_47():
    for coding in "gzip", "br", "deflate", "x-own":
        with bench(upstream.reply(gzip.compress(SECRET.encode()),
                                  fields=[f"Content-Encoding: {coding}"])) as b:
            b.failed("response.encoding")
    with bench(upstream.reply("x", fields=["Content-Encoding: identity"])) as b:
        tap.equal(b.ask().status, 200)
    packed = gzip.compress(b"hello")
    for coding in ("gzip, chunked", "gzip\r\nTransfer-Encoding: chunked", "chunked, gzip", "x-gzip,chunked",
                   "identity", ""):
        with bench(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n{len(packed):x}\r\n".encode()
                   + packed + b"\r\n0\r\n\r\n") as b:
            try:
                tap.equal(b.failed("response.encoding").status, 502)
            except tap.Failed as why:
                raise tap.Failed(f"{coding!r}: {why}") from None


def row_47_odd():
    """Nor does it pass if its field is written so that it may be overlooked."""
    packed = gzip.compress(SECRET.encode())
    for field, reason in (("Content-Encoding:\r\n gzip", "response.encoding"),
                          ("Content-Encoding: identity\r\n\tgzip", "upstream.broken"),
                          ("Content-Encoding : gzip", "upstream.broken"),
                          ("Content-Encoding", "upstream.broken"),
                          ("Content-Encoding:", "response.encoding"),
                          ("Content-Encoding: identity, gzip", "response.encoding")):
        with bench(upstream.reply(packed, fields=["Vary: x", field])) as b:
            try:
                tap.lacks(b.failed(reason).data, packed, "the answer")
            except tap.Failed as why:
                raise tap.Failed(f"{field!r}: {why}") from None
    # A field is no status line, whatever its name.
    with bench(upstream.reply("x", fields=["ETag: a", "HTTP/x: y"])) as b:
        tap.equal(b.ask().fields.get("etag"), "a")


def row_48():
    """What is promised to be found is found; other forms are not looked for, as the manual page says,
    and are passed on as they are."""
    other = [SECRET[::-1].encode(), SECRET[:8].encode() + b" " + SECRET[8:].encode(), SECRET.encode().hex().encode()]
    body = b"|".join(other)
    with bench(upstream.reply(body)) as b:
        tap.equal(b.ask().body, body)


def row_50():
    dropped = ["Set-Cookie: a=b", "WWW-Authenticate: Basic", "Proxy-Authenticate: Basic",
               "Alt-Svc: h3=\":443\"", "Refresh: 0; url=http://evil.example/", "Link: <x>; rel=y",
               "Location: http://evil.example/", "Server: x", "Content-Length: 4"]
    with bench("\r\n".join(["HTTP/1.1 302 Found", *dropped, "", "fine"]).encode()) as b:
        got = b.ask()
        tap.equal((got.status, got.body), (302, b"fine"))
        tap.equal(sorted(got.fields), ["connection", "transfer-encoding"])
        tap.equal(b.server.n_connections, 1, "connections")


def row_52():
    def endless(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            conn.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    def slow(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            conn.sendall(b"x")
            time.sleep(0.1)

    def flood(conn, _request):
        while True:
            conn.sendall(b"HTTP/1.1 103 Early Hints\r\nX: " + b"y" * 1000 + b"\r\n\r\n")

    shapes = [
        (endless, "response.size", 502, "/get"),
        (slow, "response.timeout", 504, "/quick"),
        (flood, "response.head", 502, "/get"),
        (lambda conn, _: time.sleep(5), "response.timeout", 504, "/quick"),
        (upstream.reply("x" * 1001), "response.size", 502, "/small"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
         "upstream.broken", 502, "/get"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "upstream.broken", 502, "/get"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000 + b"\r\n", "response.head", 502, "/get"),
        (b"HTTP/1.1 200 OK\r\nX-Y: " + SECRET.encode() * 1600 + b"\r\n\r\n", "response.head", 502,
         "/get"),
        (b"", "upstream.broken", 502, "/get"),
        (SECRET.encode() + b"\r\n\r\n", "upstream.broken", 502, "/get"),
    ]
    for number, (answer, reason, status, target) in enumerate(shapes):
        with bench(answer) as b:
            try:
                b.failed(reason, status, target)
            except tap.Failed as why:
                raise tap.Failed(f"answer {number}: {why}") from None


def row_52_lengths():
    """A length that is none, or more than one, makes no part of an answer the whole."""
    for lengths, reason in ((["99999999999999999999999"], "response.size"), (["3, 6"], "upstream.broken"),
                            (["3, 3"], "upstream.broken"), (["+3"], "upstream.broken"),
                            (["-1"], "upstream.broken"), (["3x"], "upstream.broken"),
                            (["3 6"], "upstream.broken"), ([""], "upstream.broken"),
                            (["0x3"], "upstream.broken"), (["3", "6"], "upstream.broken"),
                            (["6", "3"], "upstream.broken")):
        with bench(upstream.reply("abc", fields=[f"Content-Length: {length}" for length in lengths],
                                  length=False)) as b:
            try:
                tap.equal(b.failed(reason).status, 502, "status")
            except tap.Failed as why:
                raise tap.Failed(f"{lengths}: {why}") from None
    with bench(upstream.reply("abc", fields=["Content-Length: 003", "Content-Length: 3"], length=False)) as b:
        tap.equal(b.ask().body, b"abc", "one length, said twice")
    with bench(b"HTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\n\r\n" + upstream.reply("abc")) as b:
        tap.equal(b.ask().body, b"abc", "behind another head")


def row_53():
    signer = authority()
    lax = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    lax.set_ciphers("DEFAULT:@SECLEVEL=0")
    rows = [
        ("expired", signer.sign("expired", days="0"), None, "upstream.certificate", {}),
        ("self-signed", signer.sign("own", own=True), None, "upstream.certificate", {}),
        ("SHA-1", signer.sign("sha1", digest="-sha1"), lax, "upstream.certificate", {}),
        ("another name", signer.sign("other", name="other.upstream.test"), None,
         "upstream.certificate", {}),
        ("system's authorities only", None, None, "upstream.certificate", {"ca": None}),
        ("another pin", None, None, "upstream.pin", {"pin": ["sha256/" + "A" * 43 + "="]}),
    ]
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with contextlib.suppress(ssl.SSLError):
        old.set_ciphers("ALL:@SECLEVEL=0")
    rows.append(("TLS 1.1", None, old, "upstream.tls", {}))
    for name, cert, context, reason, changes in rows:
        with bench(cert=cert, context=context, **changes) as b:
            try:
                b.failed(reason)
            except tap.Failed as why:
                raise tap.Failed(f"{name}: {why}") from None
            tap.equal(b.server.requests, [], f"{name}: requests")
    # Nobody is asked instead of the one whose certificate is none.
    answers = {upstream.HOST: [("A", egress.OUTSIDE), ("A", "127.88.0.3")]}
    with bench(cert=signer.sign("own"), answers=answers, addresses=["127.88.0.0/24"], ca=None) as b, \
            egress.listener("127.88.0.3", b.server.port) as other:
        b.failed("upstream.certificate")
        tap.check(not select.select([other], [], [], 0)[0], "another address was connected to")
    with bench(pin=["sha256/" + "A" * 43 + "=", signer.pin(STATE["cert"][0])]) as b:
        tap.equal(b.ask().status, 200, "the right pin")


def row_57():
    """Each request is told of, with the keys of its parameters and hashes of their values, which are
    nowhere themselves."""
    def hashed(text):
        return hashlib.sha256(text.encode()).hexdigest()

    with bench() as b:
        tap.equal(b.ask(target="/repos/own%65r/r/issues?per_page=77").status, 200)
        b.program.wait_operations(1)
        b.refused(403, "operation.query", target="/repos/owner/r/issues?per_page=777")
        b.refused(413, "operation.body_size", "POST", "/items", ["Content-Type: application/json"],
                  b'"' + b"x" * 4096 + b'"')
        good, bad, large = b.program.operations
        tap.equal(good["parameters"], {"owner": hashed("owner"), "repo": hashed("r"),
                                       "per_page": hashed("77")}, "parameters")
        tap.equal((good["status"], good["bytes_in"], good["denied"]), (200, 4, False))
        tap.check(good["usec"] > 0, "no time was told")
        tap.equal((bad["parameters"], bad["denied"], large["operation"]), ({}, True, "create"))
        tap.lacks(json.dumps(b.program.operations), "owner/", "what was told")


def row_49():
    """An upstream that changes the protocol, or has no status, answers nothing: what it sends is not
    taken for content, for the answer or for the next one."""
    behind = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 5\r\n\r\nbehind"
    change = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
    for head in (change, b"HTTP/1.1 103 Early Hints\r\n\r\n" + change,
                 b"HTTP/1.1 999 X\r\n\r\n", b"HTTP/1.1 600 X\r\n\r\n",
                 b"HTTP/1.1 000 X\r\n\r\n"):
        with bench(head + behind) as b:
            try:
                got = b.failed("upstream.broken")
                tap.equal((got.status, got.whole), (502, True), "answer")
                tap.lacks(got.data, b"behind", "the answer")
                tap.lacks(got.data, b"Set-Cookie", "the answer")
            except tap.Failed as why:
                raise tap.Failed(f"{head!r}: {why}") from None


def row_51():
    """A request for a new secret is no operation unless somebody makes it one: then its answer is the
    job's, as nobody holds what is in it. No key says that it be kept."""
    fresh = "ghs_" + os.urandom(12).hex()
    with bench(upstream.reply(json.dumps({"access_token": fresh}))) as b:
        for target in "/app/installations/1/access_tokens", "/oauth/token", "/login/oauth/access_token":
            answer = b.refused(403, "operation.no_match", "POST", target, ["Content-Type: application/json"],
                               b"{}")
            tap.lacks(answer.data, fresh.encode())
        tap.equal(b.server.n_connections, 0)
        tap.contains(b.ask().body, fresh.encode(), "what an operation answers")
    with tap_failed("capture"):
        with bench(operations={"get": {"method": "GET", "path": "/get", "capture": ["access_token"]}}):
            pass


def row_54():
    for address in "169.254.169.254", "10.0.0.1", "127.88.0.2", "0.0.0.0":
        with bench(answers={upstream.HOST: [("A", address)]}) as b:
            b.failed("upstream.address")
    with bench(answers={upstream.HOST: None}) as b:
        b.failed("upstream.unresolved")
    for deny in (upstream.HOST, egress.OUTSIDE):
        with bench(deny=[deny]) as b:
            b.failed("upstream.address")
            tap.equal(b.server.n_connections, 0, f"connections, {deny} denied")


def row_27():
    """An upstream is let go of when its job goes away."""
    def endless(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            conn.sendall(b"1\r\nx\r\n")
            time.sleep(0.01)

    with bench(endless) as b:
        with b.connect() as job:
            job.sendall(f"GET /big HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
            job.recv(1)
        tap.check(b.server.ended.wait(5), "the upstream is still sending")
        told = b.program.wait_operations(1)[-1]
        tap.equal(told["reason"], "job.gone")


def half_closes():
    """A job that has no more to ask gets its answer, and the end; one that stops amid a request the
    end alone."""
    def late(conn, _request):
        STATE["asked"].set()
        STATE["closed"].wait(10)
        conn.sendall(upstream.reply(b"x" * 1000000))

    STATE["asked"], STATE["closed"] = threading.Event(), threading.Event()
    one = f"GET /get HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with bench(late) as b:
        with b.connect() as job:
            job.settimeout(20)
            job.sendall(one + one)
            tap.check(STATE["asked"].wait(10), "nothing was asked")
            job.shutdown(socket.SHUT_WR)
            STATE["closed"].set()
            got = egress.read_all(job)
        tap.equal((got.count(b"HTTP/1.1 200 OK"), got.count(b"x"), got[-5:]),
                  (2, 2000000, b"0\r\n\r\n"), "what came")
        told = b.program.wait_operations(2)
        tap.equal([row["reason"] for row in told], ["", ""], "reasons")
        with b.connect() as job:
            job.settimeout(20)
            job.sendall(one[:-2])
            job.shutdown(socket.SHUT_WR)
            tap.equal(egress.read_all(job), b"", "answer to half a request")


def slow_reader():
    """What a job does not read waits at its upstream."""
    size = 32 << 20
    with bench(upstream.reply(b"x" * size)) as b, b.connect() as job:
        job.settimeout(20)
        job.sendall(f"GET /big HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
        time.sleep(1)
        with open(f"/proc/{b.program.process.pid}/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        tap.check(pages * 4096 < 48 << 20, f"{pages * 4096} bytes are held")
        tap.equal(len(upstream.Answer(egress.read_all(job)).body), size, "bytes")


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def answers_not_read():
    """Who asks on and on, and reads no answer, is not read from: nothing of it is held."""
    one = f"GET /none HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    most = 64 << 20
    with bench() as b, b.connect() as job:
        before = resident(b.program.process.pid)
        job.settimeout(1)
        sent = 0
        with contextlib.suppress(socket.timeout):
            while sent < most:
                sent += job.send(one * 1000)
        tap.check(sent < most, "all of it was taken")
        tap.check(resident(b.program.process.pid) - before < 8 << 20, "what waits is held")
        job.settimeout(20)
        job.shutdown(socket.SHUT_WR)
        tap.equal(egress.read_all(job).count(b"operation.no_match"), sent // len(one), "answers")


def many_requests_of_another():
    """What one job asks for at a thousand places does not hold up another's request: each has its
    turn. Both wait while the process stands still, so that it finds them at the same time."""
    one = f"GET /none HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    with bench() as b, contextlib.ExitStack() as stack:
        entries = {"api": credential(b.server.port)}
        many = egress.Session(b.program, [], credentials=entries)
        jobs = [stack.enter_context(many.connect(HOST, 80)) for _ in range(40)]
        job = stack.enter_context(b.connect())
        pid = b.program.process.pid
        for each in jobs + [job]:
            each.sendall(one)
            each.recv(4096)
        os.kill(pid, signal.SIGSTOP)
        try:
            for each in jobs:
                each.sendall(one * 300)
            job.sendall(one)
            os.kill(pid, signal.SIGCONT)
            job.settimeout(30)
            tap.contains(job.recv(4096), b"operation.no_match")
            os.kill(pid, signal.SIGSTOP)
            answered = 0
            for each in jobs:
                each.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while True:
                        answered += each.recv(1 << 16).count(b"operation.no_match")
        finally:
            os.kill(pid, signal.SIGCONT)
        tap.check(answered < 40 * 300 / 2, f"{answered} requests of the other job came first")


def limit_before_content():
    """A job that has used its quota up is told so whatever it sends: the content is not looked at."""
    with bench(operations={"create": {"method": "POST", "path": "/items", "per_job": 1,
                                      "body": {"kind": "json"}}}) as b:
        for body, status in ((b"{}", 200), (b"{", 429)):
            answer = b.ask("POST", "/items", ["Content-Type: application/json"], body)
            tap.equal(answer.status, status)


# --- secrets ---


@contextlib.contextmanager
def tap_failed(text):
    try:
        yield
    except egress.Failed as why:
        tap.contains(str(why), text)
        return
    raise tap.Failed("the session was opened")


def unusable_secrets():
    """CRED-01: what needs it is refused by name, before anything runs."""
    for value, text in (("", "is empty"), ("\n", "is empty"), ("two\nlines of it", "has more than one line"),
                        ("short", "is shorter than 8"), ("x" * 65536, "is longer than 4096"),
                        ("binary \x00\x01\x02", "holds a byte"), ("a secret ", "begins or ends")):
        with tap_failed("the secret token " + text):
            with bench(env=secrets(token=value)):
                pass
    with tap_failed("the secret nothing is missing"):
        with bench(secret="nothing"):
            pass
    env = secrets()
    os.chmod(os.path.join(env["CREDENTIALS_DIRECTORY"], "token"), 0o444)
    with tap_failed("can be read by everybody"):
        with bench(env=env):
            pass
    with bench(env=secrets(token="a good secret\n")) as b:
        b.ask()
        tap.equal(b.server.requests[0].field("authorization"), ["Bearer a good secret"])


def only_known_values():
    """CRED-02: nothing is taken for a secret that is none."""
    body = json.dumps({"commit": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
                       "uuid": "123e4567-e89b-12d3-a456-426614174000",
                       "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
                       "image": base64.b64encode(os.urandom(4096)).decode(),
                       "key": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}).encode()
    with bench(upstream.reply(body)) as b:
        tap.equal(b.ask().body, body)


def row_55():
    """The process tells nobody but the upstream: not by its memory, environment, or command line."""
    with bench() as b:
        b.ask()
        folder = f"/proc/{b.program.process.pid}"
        for name in "environ", "cmdline":
            with contextlib.suppress(PermissionError):
                with open(f"{folder}/{name}", "rb") as file:
                    tap.check(not in_it(file.read()), name)
        if os.geteuid() != 0:
            for name in "mem", "environ", "maps":
                try:
                    with open(f"{folder}/{name}", "rb") as file:
                        file.read(1)
                except PermissionError:
                    continue
                raise tap.Failed(f"{folder}/{name} can be opened")
        report = b.session.close()
        tap.check(not in_it(json.dumps(report).encode()), "report")
        tap.check(not in_it(json.dumps(b.program.operations).encode()), "operations")
        b.session.close = lambda: None


def row_62():
    """Refusals by the thousand are counted, and told of a few at a time."""
    with bench() as b, b.connect() as job:
        job.settimeout(30)
        one = f"GET /none HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
        count = 3000
        sent = got = 0
        while got < count:
            if sent < count:
                job.sendall(one * 100)
                sent += 100
            got += job.recv(1 << 20).count(b"operation.no_match")
        told = []
        while True:
            try:
                told = b.program.wait_operations(len(b.program.operations) + 1, timeout=0.5)
            except tap.Failed:
                break
        tap.check(len(told) < count, f"{len(told)} were told of one by one")
        report = b.session.close()
        tap.equal([(row["kind"], row["count"]) for row in report["denied"]], [("operation", count)])
        b.session.close = lambda: None


def tests():
    for fn in (way_there_and_back, name_is_found, methods_and_bodies, keeps_connection, streams, long_streams,
               attachments, half_closes, slow_reader, answers_not_read, many_requests_of_another,
               limit_before_content, unusable_secrets, only_known_values):
        tap.case(fn.__name__.replace("_", " "), fn)
    for name, fn in sorted(globals().items()):
        if name.startswith("row_"):
            tap.case(name.replace("_", " "), fn)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
