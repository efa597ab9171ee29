#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 120
"""The attacks on the host of a credential from inside of a crate, by their numbers: what the job saw,
what the upstream saw, and the whole line that is on record."""

import base64
import contextlib
import gzip
import hashlib
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import mcp
import tap
import upstream
from place import HERE, SECRET, Place

# Sends what it is given, each request by a connection of its own, and tells what came back.
CLIENT = """
import base64, json, socket, sys
told = []
for host, data in json.load(sys.stdin):
    got = b""
    with socket.create_connection((host, 80), 30) as sock:
        try:
            sock.sendall(base64.b64decode(data))
            while more := sock.recv(65536):
                got += more
        except (BrokenPipeError, ConnectionResetError):
            pass
    told.append(base64.b64encode(got).decode())
print(json.dumps(told))
"""
OTHER = "another-" + os.urandom(8).hex()
JSON = "Content-Type: application/json"
KEYS = [f"k{n:02}" for n in range(32)]
OPERATIONS = {
    "do": {"method": "GET", "path": "/do/{what:slug}", "expose": True},
    "issues": {"method": "GET", "path": "/repos/{owner:slug}/{repo:slug}/issues",
               "query": {"per_page": {"type": "int", "maximum": 100}}},
    "create": {"method": "POST", "path": "/items", "body": {"kind": "json", "max_bytes": "4K"}},
    "raw": {"method": "PUT", "path": "/raw", "body": {"kind": "raw", "max_bytes": "8K"}},
    "once": {"method": "GET", "path": "/once", "per_job": 1},
    "twice": {"method": "GET", "path": "/twice", "per_minute": 2},
    "small": {"method": "GET", "path": "/small/{what:slug}", "response": {"max_bytes": 1000},
              "expose": True},
    "quick": {"method": "GET", "path": "/quick/{what:slug}", "response": {"timeout": "300ms"},
              "expose": True},
    "keys": {"method": "GET", "path": "/keys", "query": {key: {"type": "slug"} for key in KEYS}},
}
# Of credentials whose upstream is not even asked.
ONE = {"do": {"method": "GET", "path": "/do", "expose": True},
       "quick": {"method": "GET", "path": "/quick", "response": {"timeout": "300ms"}}}


def sha256(data):
    return "sha256:" + hashlib.sha256(data.encode("latin-1") if isinstance(data, str) else data).hexdigest()


def line(target="/do/x", method="GET", fields=(), body="", host="api.crate.internal"):
    """One request as its bytes, of a job that writes it well."""
    length = [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close", *fields,
                        *length, "", body])


class Seen:
    """What came of one request: the job's answer, the upstream's requests, the line on record."""

    def __init__(self, data, requests, record):
        self.answer = upstream.Answer(data)
        self.requests, self.record = requests, record

    # pylint: disable-next=too-many-arguments
    def is_recorded(self, operation, reason=None, text=None, denied=False, status=200, out=0, size=0,
                    asked=None, parameters=(), tokens=None, credential="api"):
        """asked: "METHOD TARGET\\nCONTENT", of which there is the hash; None: it was not understood.
        size None: as much as had come."""
        if size is None:
            size = self.record["bytes"]["in"]
        want = {"event": "operation", "tool": "sandbox_exec", "tenant": "us", "credential": credential,
                "operation": operation, "decision": "denied" if denied else "allowed",
                "reason": reason, "text": text, "status": status,
                "bytes": {"in": size, "out": out}, "dropped": 0, "trace_id": None}
        if asked is not None:
            want["hashes"] = {"request": sha256(asked), "parameters": {
                name: sha256(value) for name, value in dict(parameters).items()}}
        if tokens:
            want["tokens"] = tokens
        got = {key: self.record[key] for key in self.record
               if key not in ("seq", "prev", "time", "mono_ns", "call", "peer", "client", "ms")}
        tap.equal(got, want, "line on record")
        tap.check(isinstance(self.record["ms"], float) and self.record["ms"] >= 0, self.record["ms"])

    def is_refused(self, status, reason, text, operation=None, **more):
        """Nothing was sent, and job and record say the same."""
        tap.equal(self.answer.status, status, "status")
        tap.equal(json.loads(self.answer.body)["error"], {"reason": reason, "text": text},
                  "what the job is told")
        tap.equal(self.requests, [], "what the upstream was sent")
        self.is_recorded(operation, reason, text, denied=True, status=status, **more)

    def has_failed(self, reason, text, operation, status=502, sent=1, **more):
        """The upstream is at fault, and job and record say the same."""
        if self.answer.status == status and self.answer.fields.get("content-length"):
            tap.equal(json.loads(self.answer.body)["error"], {"reason": reason, "text": text},
                      "what the job is told")
        else:
            tap.check(not self.answer.whole, "an answer that broke off looks whole")
        tap.equal(len(self.requests), sent, "requests to the upstream")
        tap.lacks(self.answer.data, SECRET.encode(), "the answer")
        more.setdefault("asked", "GET /do/x\n")
        self.is_recorded(operation, reason, text, status=status, **more)

    def is_well(self, operation="do", body=b"fine", **more):
        tap.equal((self.answer.status, self.answer.body), (more.get("status", 200), body), "answer")
        tap.equal(len(self.requests), 1, "requests to the upstream")
        more.setdefault("size", len(body))
        more.setdefault("asked", "GET /do/x\n")
        if operation == "do":
            more.setdefault("parameters", {"what": "x"})
        self.is_recorded(operation, **more)


class Bench:
    """One broker, its upstreams, and a client of the broker's."""

    def __init__(self, stack):
        authority = upstream.Authority()
        self.cert = authority.sign("good")
        self.answers = {upstream.HOST: HERE, "none.test": None, "meta.test": [("A", "169.254.169.254")],
                        "private.test": [("A", "10.1.2.3")], "closed.test": HERE, "denied.test": [("A", "192.0.9.9")], "mute.test": HERE,
                        "expired.test": HERE, "own.test": HERE, "other.test": HERE,
                        "unknown.test": HERE, "pinned.test": HERE, "named.test": HERE, "old.test": HERE,
                        "turning.test": self.turn}
        self.turns = []
        self.stack, self.authority = stack, authority
        self.resolver = stack.enter_context(egress.Resolver())
        self.resolver.answers = self.answers
        self.server = stack.enter_context(upstream.Upstream(self.cert, self.serve))
        self.odd, self.ports = {}, {}  # upstreams of other credentials, by their names
        self.behaviour = {}
        self.place = Place(self.server, self.resolver, authority)
        self.place.configure(egress={"resolver": [self.resolver.address], "deny": ["denied.test"]})
        tap.write(os.path.join(self.place.secrets, "other"), OTHER, 0o400)
        self.row = self.place.row(authority, **OPERATIONS)
        self.place.write("api", self.row)
        self.place.write("two", {**self.row, "secret": "other",
                                 "operations": {"own": {"method": "GET", "path": "/own"}}})
        self.add_odd()
        self.broker = stack.enter_context(self.place.broker(operations=["*"]))
        self.client = stack.enter_context(self.broker.client())
        self.offset = 0

    def add_odd(self):
        """Credentials whose upstreams are none to be trusted, or none at all."""
        sign = self.authority.sign
        self.add("expired", sign("expired", name="expired.test", days="0"))
        self.add("own", sign("own", name="own.test", own=True))
        self.add("other", sign("other", name="evil.test"))
        self.add("named", sign("named", subject=SECRET))
        self.add("unknown", sign("unknown", name="unknown.test"), ca=None)
        self.add("pinned", sign("pinned", name="pinned.test"), pin=["sha256/" + "A" * 43 + "="])
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with contextlib.suppress(ssl.SSLError):
            old.set_ciphers("ALL:@SECLEVEL=0")
        self.add("old", sign("old", name="old.test"), context=old)
        for name in "none", "meta", "private", "denied":
            self.add_at(name, 443, addresses=["169.254.0.0/16"] if name == "meta" else [])
        self.add_at("turning", self.server.port, upstream=f"https://turning.test:{self.server.port}")
        self.closed = self.stack.enter_context(socket.socket())
        self.closed.bind((egress.OUTSIDE, 0))
        self.add_at("closed", self.closed.getsockname()[1])
        self.mute = self.stack.enter_context(egress.listener(egress.OUTSIDE, 0))
        self.add_at("mute", self.mute.getsockname()[1])

    def add(self, name, cert, context=None, **changes):
        server = self.stack.enter_context(upstream.Upstream(cert, upstream.reply("fine"), context))
        self.odd[name] = server
        self.add_at(name, server.port, **changes)

    def add_at(self, name, port, **changes):
        row = {**self.row, "upstream": f"https://{name}.test:{port}", "operations": ONE, "env": {},
               **changes}
        self.ports[name] = port
        self.place.write(name, {key: value for key, value in row.items() if value is not None})

    def turn(self):
        """Another answer each time."""
        return self.turns.pop(0)

    def serve(self, conn, request):
        answer = self.behaviour.get(request.target, upstream.reply("fine"))
        if callable(answer):
            answer(conn, request)
        else:
            conn.sendall(answer)

    @property
    def at(self):
        return f"upstream {upstream.HOST}:{self.server.port}: "

    def records(self):
        """Of what has happened since the last look."""
        with open(self.broker.log_path, "rb") as file:
            file.seek(self.offset)
            data = file.read()
        self.offset += len(data)
        tap.lacks(data, SECRET.encode(), "audit log")
        return [json.loads(text) for text in data.splitlines()]

    def job(self, *requests, operations=("api.*",), host="api.crate.internal"):
        """Has a job send these, each a text or (host, text), and returns what came of each. They are
        told apart at the upstream by a field that is passed on."""
        self.records()
        given = [one if isinstance(one, tuple) else (host, one) for one in requests]
        marked = []
        for number, (where, text) in enumerate(given):
            first, rest = text.split("\r\n" if "\r\n" in text else "\n", 1)
            end = text[len(first):len(text) - len(rest)]
            marked.append((where, base64.b64encode(
                f"{first}{end}User-Agent: {number}{end}{rest}".encode("latin-1")).decode()))
        before = len(self.server.requests)
        result = self.client.exec("python3", "-c", CLIENT, stdin=json.dumps(marked),
                                  operations=list(operations), capture=1 << 20)
        tap.equal(result["exit_code"], 0, result["stderr"])
        got = [base64.b64decode(text) for text in json.loads(result["stdout"])]
        records = [record for record in self.records() if record["event"] == "operation"]
        tap.equal(len(records), len(requests), "operations on record")
        sent = self.server.requests[before:]
        seen = [[one for one in sent if one.field("user-agent") == [str(n)]] for n in range(len(got))]
        tap.equal(sum(map(len, seen)), len(sent), "requests of which it is known whose they are")
        return [Seen(*one) for one in zip(got, seen, records)]

    def behaves(self, answer):
        """Of /do/x, /small/x and /quick/x."""
        self.behaviour = {f"/{name}/x": answer for name in ("do", "small", "quick")}

    def fails(self, answer, reason, text, operation="do", **more):
        self.behaves(answer)
        seen, = self.job(line(f"/{operation}/x"))
        seen.has_failed(reason, self.at + text, operation, asked=f"GET /{operation}/x\n",
                        parameters={"what": "x"}, **more)
        return seen


def each(rows, check):
    """check(*row) for each; what fails names its row."""
    for row in rows:
        try:
            check(*row)
        except tap.Failed as why:
            raise tap.Failed(f"{row[0]!r}: {why}") from None


# --- what a job may ask ---


def row_28(b):
    """Another Host."""
    hosts = ["evil.example", "api.crate.internal:443", "api.crate.internal.evil.example", "x"]
    *wrong, right = b.job(*(line(host=host) for host in hosts), line(host="API.crate.internal:80"))
    for seen in wrong:
        seen.is_refused(421, "request.host", "the Host of the request is another one than it was sent to",
                        asked="GET /do/x\n")
    right.is_well()
    tap.equal(right.requests[0].field("host"), [f"{upstream.HOST}:{b.server.port}"])


def row_29(b):
    """Forms of a request that are a proxy's."""
    path = ("the target of the request is no path: it begins with a slash and holds visible ASCII "
            "characters only")
    proxy = "there is no such method here: this is no proxy"
    methods = "operations are called by GET, HEAD, POST, PUT, PATCH and DELETE"
    rows = [("GET", "http://evil.example/do/x", 400, "request.malformed", path),
            ("CONNECT", "evil.example:443", 405, "request.malformed", proxy),
            ("OPTIONS", "*", 405, "request.malformed", proxy),
            ("TRACE", "/do/x", 405, "operation.method", methods),
            ("OPTIONS", "/do/x", 405, "operation.method", methods)]
    found = b.job(*(line(target, method) for method, target, *_ in rows))
    each(zip(rows, found), lambda row, seen: seen.is_refused(
        *row[2:], asked=f"{row[0]} {row[1]}\n" if row[3] == "operation.method" else None))


def row_30(b):
    """Credentials of the job's own."""
    mine = ["Authorization: Bearer mine", "authorization: Basic mine", "X-Api-Key: mine", "Cookie: a=b",
            "Proxy-Authorization: mine", "Range: bytes=0-1"]
    seen, = b.job(line(fields=mine))
    seen.is_well()
    request, = seen.requests
    tap.equal(request.field("authorization"), ["Bearer " + SECRET])
    for name in "x-api-key", "cookie", "proxy-authorization", "range":
        tap.equal(request.field(name), [], name)


def row_32(b):
    """Requests that two readers end at different places."""
    head = f"POST /items HTTP/1.1\r\nHost: api.crate.internal\r\n{JSON}\r\n"
    chunked, crlf = "Transfer-Encoding: chunked\r\n", "a line ends with something else than CR LF"
    field = "a line is no field: it is a name, a colon right behind it, and a value"
    only, control = "the only Transfer-Encoding is chunked", "the request holds a control character"
    shapes = [
        (head + chunked + "Content-Length: 4\r\n\r\n0\r\n\r\n", "Content-Length and Transfer-Encoding are given, and only one can tell the end"),
        (head + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "Content-Length is given twice"),
        (head + "Content-Length: 2, 2\r\n\r\n{}", "Content-Length is no number"),
        (head + "Content-Length: +2\r\n\r\n{}", "Content-Length is no number"),
        (head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", only),
        (head + "Transfer-Encoding: identity\r\n\r\n", only),
        (head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", field),
        (head + chunked + chunked + "\r\n0\r\n\r\n", "Transfer-Encoding is given twice"),
        (head + "X: a\r\n b\r\nContent-Length: 2\r\n\r\n{}",
         "a line goes on with the field before: fold none"),
        (head.replace("\r\n", "\n") + "Content-Length: 2\n\n{}", crlf),
        (head + "X: a\0b\r\nContent-Length: 2\r\n\r\n{}", control),
        (head + "X: a\rb\r\nContent-Length: 2\r\n\r\n{}", crlf),
        (head + "Host: api.crate.internal\r\nContent-Length: 2\r\n\r\n{}", "Host is given twice"),
        (head + chunked + "\r\n2;\r\n{}\n0\r\n\r\n", "the content is not chunked as it should be"),
    ]
    smuggled = "GET /do/x HTTP/1.1\r\nHost: api.crate.internal\r\n\r\n"
    before = b.server.n_connections
    found = b.job(*(shape + smuggled for shape, _ in shapes))

    def check(shape, text, seen):
        del shape
        seen.is_refused(400, "request.malformed", text)
        tap.equal(seen.answer.data.count(b"HTTP/1.1 "), 1, "answers")

    each([(*shape, seen) for shape, seen in zip(shapes, found)], check)
    tap.equal(b.server.n_connections, before, "connections to the upstream")


def row_33(b):
    """Nothing of how the job wrote it is sent."""
    seen, = b.job("POST /%69tems HTTP/1.1\r\nhOsT: api.crate.internal\r\nContent-Type:application/json\r\n"
                  "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\n[\r\n1\r\n]\r\n0\r\n\r\n")
    seen.is_well("create", out=2, asked="POST /%69tems\n[]")
    request, = seen.requests
    tap.equal((request.target, request.body, request.field("content-length"),
               request.field("transfer-encoding")), ("/items", b"[]", ["2"], []))


def row_33_spoilt(b):
    """More than was asked for, on a connection that is kept, is the answer to no other request."""
    def answer(conn, _request):
        if len(asked) == 0:
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
            conn.sendall(b"first" + upstream.reply("bad"))
        else:
            conn.sendall(upstream.reply("fine"))
        asked.append(conn)

    asked = []
    b.behaves(answer)
    b.server.keep = True
    try:
        first, second, third = b.job(line(), line(), line())
    finally:
        b.server.keep = False
    first.is_well(body=b"first")
    second.is_well()
    third.is_well()
    tap.equal([conn is asked[1] for conn in asked], [False, True, True], "connections")


def row_34(b):
    """Paths that are another one to somebody else."""
    targets = ["/repos/a/b/../../../do", "/repos/a/%2e%2e/issues", "/repos/a%2Fb/c/issues", "//do/x",
               "/do/x;x", "/do\\x", "/repos/a/%252e%252e/issues", "/repos/a/%ff/issues", "/do/x%3Fx",
               "/do/x%00", "/repos/a/%/issues", "/DO/x", "/do/x/"]
    found = b.job(*map(line, targets))
    each(zip(targets, found), lambda target, seen: seen.is_refused(
        403, "operation.no_match", "no operation of this job has that path with that method: GET",
        asked=f"GET {target}\n"))


def row_35(b):
    """Keys of the query: they are named, their values are not."""
    unknown = "the query has a key that the operation does not have"
    value = "the query has a value that is not of the key's type: per_page"
    rows = [("x=1", unknown + ": x"), ("access_token=s3cret", unknown + ": access_token"),
            ("s3cret", unknown), ("s3%20cret=1", unknown), ("s3cret%3D1", unknown),
            ("per_page=1&per_page=2", "the query has a key twice: per_page"),
            ("per_page=101", value), ("per_page=s3cret", value), ("per_page", value),
            ("per_page=1%23x", value), ("per_page=1&", "the query ends with an &"),
            ("%zz=1", "a key of the query is malformed")]
    *found, fragment = b.job(*(line("/repos/a/b/issues?" + query) for query, _ in rows),
                             line("/repos/a/b/issues?per_page=1#x"))
    each([(*row, seen) for row, seen in zip(rows, found)], lambda query, text, seen: seen.is_refused(
        403, "operation.query", text, "issues", asked=f"GET /repos/a/b/issues?{query}\n"))
    tap.lacks(json.dumps([seen.record for seen in found]), "cret", "what is on record")
    fragment.is_refused(400, "request.malformed", "the target of the request is no path: it begins with "
                        "a slash and holds visible ASCII characters only")


def row_37(b):
    """Content that is none of the operation's."""
    long, packed = '"' + "x" * 4096 + '"', gzip.compress(b"{}").decode("latin-1")
    kind, broken = "operation.body_type", "the content is no JSON, or has a key twice in one object"
    only = "the operation takes application/json only"
    rows = [(long, [JSON], 413, "operation.body_size",
             "the content is longer than body.max_bytes of the operation"),
            (packed, [JSON, "Content-Encoding: gzip"], 415, kind,
             "the content is compressed, and is taken as it is only"),
            ("{}", ["Content-Type: text/plain"], 415, kind, only),
            ("--x--", ["Content-Type: multipart/form-data; boundary=x"], 415, kind, only),
            ('{"a":1,"a":2}', [JSON], 400, "operation.body", broken)]
    *found, none, endless = b.job(
        *(line("/items", "POST", fields, body) for body, fields, *_ in rows),
        line(body="{}", fields=[JSON]),
        "PUT /raw HTTP/1.1\r\nHost: api.crate.internal\r\nTransfer-Encoding: chunked\r\n\r\n"
        + ("1000\r\n" + "x" * 4096 + "\r\n") * 5)
    each(zip(rows, found), lambda row, seen: seen.is_refused(
        *row[2:], "create", asked="POST /items\n" + row[0]))
    none.is_refused(400, "operation.body", "the operation takes no content", "do", asked="GET /do/x\n{}",
                    parameters={"what": "x"})
    endless.is_refused(413, "request.malformed", "the content is longer than is taken here")


def row_38(b):
    """A line end in a parameter."""
    target = "/repos/a%0d%0aX-Evil:%20b/c/issues"
    seen, = b.job(line(target))
    seen.is_refused(403, "operation.no_match", "no operation of this job has that path with that method: GET",
                    asked=f"GET {target}\n")


def row_39(b):
    """Words of a template engine, which there is none of."""
    targets = ["/repos/{{token}}/b/issues", "/repos/${token}/b/issues", "/repos/%7b%7bx/b/issues"]
    for target, seen in zip(targets, b.job(*map(line, targets))):
        seen.is_refused(403, "operation.no_match",
                        "no operation of this job has that path with that method: GET",
                        asked=f"GET {target}\n")


def row_40(b):
    """What other jobs may call, this one may not."""
    good, bad = b.job(line(), line("/items", "POST"), operations=["api.do"])
    good.is_well()
    bad.is_refused(403, "operation.no_match",
                   "no operation of this job has that path with that method: POST",
                   asked="POST /items\n")
    result = b.client.call("sandbox_exec", {"argv": ["true"], "operations": ["api.nothing"]})
    tap.contains(result["content"][0]["text"], "there is no operation api.nothing")


def row_41(b):
    """The secret is that of the host which is asked, whatever is asked for."""
    own, theirs, swapped = b.job(
        ("two.crate.internal", line("/own", host="two.crate.internal")), line("/own"),
        ("two.crate.internal", line("/own")), operations=["api.*", "two.*"])
    own.is_well("own", asked="GET /own\n", credential="two")
    tap.equal(own.requests[0].field("authorization"), ["Bearer " + OTHER])
    theirs.is_refused(403, "operation.no_match",
                      "no operation of this job has that path with that method: GET", asked="GET /own\n")
    swapped.is_refused(421, "request.host", "the Host of the request is another one than it was sent to",
                       asked="GET /own\n", credential="two")


def row_42(b):
    """Quotas: which one it was, and how much it is. A call counts although its upstream fails."""
    b.behaviour = {"/once": b""}
    failed, second, *found = b.job(line("/once"), line("/once"), *[line("/twice")] * 3)
    failed.has_failed("upstream.broken", b.at + "the answer broke off or is malformed (Server returned "
                      "nothing (no headers, no data))", "once", asked="GET /once\n")
    second.is_refused(429, "limit.per_job",
                      "the job has made all the calls of this operation that per_job allows, 1", "once",
                      asked="GET /once\n")
    for seen in found[:2]:
        seen.is_well("twice", asked="GET /twice\n")
    found[2].is_refused(429, "limit.per_minute", "all the calls of this operation that per_minute allows, "
                        "2, were made in the last minute: try again later", "twice",
                        asked="GET /twice\n")


def row_43(b):
    """Clear text: that policy never comes into force, and the one before stays."""
    b.place.write("two", {**b.row, "upstream": f"http://{upstream.HOST}:1"})
    os.kill(b.broker.pid, signal.SIGHUP)
    tap.check(tap.wait_until(lambda: "clear text" in b.broker.errors(), 20), "nothing is told of it")
    seen, = b.job(("two.crate.internal", line("/own", host="two.crate.internal")), operations=["two.*"])
    seen.is_well("own", asked="GET /own\n", credential="two")
    b.place.write("two", {**b.row, "secret": "other",
                          "operations": {"own": {"method": "GET", "path": "/own"}}})


def row_44(b):
    """What asks for more than one request and one answer."""
    upgrade, expect, good = b.job(
        line(fields=["Upgrade: websocket"]), line(fields=["Expect: a-miracle"]),
        line("/items", "POST", [JSON, "Expect: 100-continue"], "{}"))
    upgrade.is_refused(400, "request.upgrade",
                       "an operation is one request and one answer: it cannot be upgraded",
                       asked="GET /do/x\n")
    expect.is_refused(417, "request.expect", "nothing but 100-continue can be expected here",
                      asked="GET /do/x\n")
    good.is_recorded("create", out=2, size=4, asked="POST /items\n{}")
    tap.equal((len(good.requests), good.requests[0].field("expect")), (1, []), "Expect")


# --- what an upstream may answer ---


def row_45(b):
    """The secret in the content, in pieces."""
    raw = SECRET.encode()
    forms = [raw, base64.b64encode(b"me:" + raw), json.dumps(SECRET)[1:-1].encode(),
             "".join(f"%{byte:02X}" for byte in raw).encode()]
    whole = b"before " + b" ".join(forms) + b" behind"

    def answer(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(whole), 7):
            part = whole[at:at + 7]
            conn.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        conn.sendall(b"0\r\n\r\n")

    b.behaves(answer)
    seen, = b.job(line())
    body = seen.answer.body
    tap.check(body.startswith(b"before ") and body.endswith(b" behind"), body)
    tap.equal([form for form in forms if form in body], [], "forms of the secret")
    tap.equal(body.count(b"********"), len(forms), "what stands in its place")
    seen.is_recorded("do", size=len(whole), asked="GET /do/x\n", parameters={"what": "x"})


def row_46(b):
    """The secret in the head and behind the content."""
    b.behaves((f"HTTP/1.1 418 {SECRET}\r\nETag: \"{SECRET}\"\r\nX-Token: {SECRET}\r\n"
               "Transfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n"
               f"2\r\nok\r\n0\r\nETag: {SECRET}\r\n\r\n").encode())
    seen, = b.job(line())
    seen.is_well(body=b"ok", status=418)
    tap.equal((seen.answer.phrase, seen.answer.fields.get("etag")), ("Client Error", '"********"'))
    tap.lacks(seen.answer.data, SECRET.encode())


def row_47(b):
    """What is compressed."""
    for coding in "gzip", "br":
        b.fails(upstream.reply(gzip.compress(SECRET.encode()), fields=["Content-Encoding: " + coding]),
                "response.encoding", "the answer is compressed although identity was asked for, and what "
                "cannot be looked at is not passed on")
    tap.equal(b.server.requests[-1].field("accept-encoding"), ["identity"])
    b.fails(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "response.encoding",
            "the answer is compressed although identity was asked for, and what cannot be looked at is not "
            "passed on")


def row_48(b):
    """What nobody promised to find is passed on."""
    passed = (OTHER[::-1] + " " + OTHER.encode().hex() + " ").encode()
    b.behaviour = {"/own": upstream.reply(passed + OTHER.encode())}
    host = "two.crate.internal"
    seen, = b.job((host, line("/own", host=host)), operations=["two.*"])
    seen.is_well("own", passed + b"********", size=len(passed) + len(OTHER), asked="GET /own\n",
                 credential="two")


def row_50(b):
    """Fields that would bind the job to the upstream, or lead it elsewhere."""
    dropped = ["Set-Cookie: a=b", "WWW-Authenticate: Basic", "Proxy-Authenticate: Basic",
               "Alt-Svc: h3=\":443\"", "Refresh: 0; url=http://evil.example/", "Link: <x>; rel=y",
               "Location: http://evil.example/"]
    b.behaves(upstream.reply("fine", "302 Found", dropped))
    seen, = b.job(line())
    seen.is_well(status=302)
    tap.equal(sorted(seen.answer.fields), ["connection", "transfer-encoding"])


def row_51(b):
    """Requests for new secrets are no operations."""
    for target, seen in zip(("/oauth/token", "/app/installations/1/access_tokens"), b.job(
            *(line(target, "POST", [JSON], "{}")
              for target in ("/oauth/token", "/app/installations/1/access_tokens")))):
        seen.is_refused(403, "operation.no_match",
                        "no operation of this job has that path with that method: POST",
                        asked=f"POST {target}\n{{}}")


def row_52(b):
    """Answers without an end, or that are none: each with its name, and what can be done."""
    def slow(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            conn.sendall(b"x")
            time.sleep(0.05)

    def endless(conn, _request):
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            conn.sendall(b"200\r\n" + b"x" * 512 + b"\r\n")

    def flood(conn, _request):
        while True:
            conn.sendall(b"HTTP/1.1 103 Early Hints\r\nX: " + b"y" * 1000 + b"\r\n\r\n")

    def silent(conn, _request):
        conn.settimeout(10)
        conn.recv(1)

    head = "the head of the answer is longer than 64 KiB"
    size = ("the answer is longer than response.max_bytes, 1000: ask for less, or raise it for small in "
            "credentials.d/api.json")
    late = ("it did not answer within response.timeout, 300 ms: ask for less, or raise it for quick in "
            "credentials.d/api.json")
    broken = "the answer broke off or is malformed "
    start = b"HTTP/1.1 200 OK\r\n"
    rows = [
        ("longer than it may be", upstream.reply("x" * 1001), "response.size", size, "small", {}),
        ("no end", endless, "response.size", size, "small", {"status": 200, "size": 1024}),
        ("slow", slow, "response.timeout", late, "quick", {"status": 200, "size": None}),
        ("silent", silent, "response.timeout", late, "quick", {"status": 504}),
        ("many before it", flood, "response.head", head, "do", {}),
        ("a long head", start + b"X: y\r\n" * 20000 + b"\r\n", "response.head", head, "do", {}),
        ("a field with the secret", start + b"X-Y: " + SECRET.encode() * 1600 + b"\r\n\r\n",
         "response.head", head, "do", {}),
        ("shorter than it says", start + b"Content-Length: 10\r\n\r\nshort", "upstream.broken",
         broken + "(Transferred a partial file)", "do", {"status": 200, "size": 5}),
        ("a chunk that is none", start + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
         "upstream.broken", broken + "(Failure when receiving data from the peer)", "do", {"status": 200}),
        ("nothing", b"", "upstream.broken",
         broken + "(Server returned nothing (no headers, no data))", "do", {}),
        ("no HTTP", SECRET.encode() + b"\r\n\r\n", "upstream.broken",
         broken + "(Unsupported protocol)", "do", {}),
        ("a line that is no field", start + b"Set Cookie: a\r\n\r\n", "upstream.broken",
         "the head of the answer has a line that is no field", "do", {}),
        ("no length", start + b"Content-Length: 3, 6\r\n\r\nabcdef", "upstream.broken",
         "the head of the answer has a Content-Length that is none", "do", {}),
        ("a length beyond all", start + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
         "response.size", size, "small", {}),
        ("another protocol", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
         "upstream.broken", "the answer has a status that is none of a request's", "do", {}),
    ]
    def check(name, answer, reason, text, operation, more):
        del name
        b.fails(answer, reason, text, operation, **more)

    each(rows, check)


FAULTS = {
    "none": ("upstream.unresolved", "its name is not known (Domain name not found): mend upstream in "
             "credentials.d/none.json, or the host's resolver"),
    "meta": ("upstream.address", "its name leads to 169.254.169.254 (metadata), which is never dialled: "
             "mend upstream in credentials.d/meta.json, or what its name leads to"),
    "private": ("upstream.address", "its name leads to 10.1.2.3 (private), which is not dialled unless "
                "addresses in credentials.d/private.json has it"),
    "denied": ("upstream.address", "egress.deny in agentcrated.json forbids its name, or the address "
               "192.0.9.9 that it leads to"),
    "closed": ("upstream.unreachable", "it takes no connection (Connection refused): see that it runs, "
               "that this host reaches it, and upstream in credentials.d/closed.json"),
    "expired": ("upstream.certificate", "its certificate is not to be trusted (SSL certificate problem: "
                "certificate has expired): mend it there, or name its authority by ca in "
                "credentials.d/expired.json"),
    "own": ("upstream.certificate", "its certificate is not to be trusted (SSL certificate problem: "
            "self-signed certificate): mend it there, or name its authority by ca in "
            "credentials.d/own.json"),
    "other": ("upstream.certificate", "its certificate is not to be trusted (SSL: no alternative "
              "certificate subject name matches target host name 'other.test'): mend it there, or name "
              "its authority by ca in credentials.d/other.json"),
    "unknown": ("upstream.certificate", "its certificate is not to be trusted (SSL certificate problem: "
                "unable to get local issuer certificate): mend it there, or name its authority by ca in "
                "credentials.d/unknown.json"),
    "pinned": ("upstream.pin", "its public key is none of pin in credentials.d/pinned.json: add it there "
               "if its owner has changed it"),
    "old": ("upstream.tls", "it agrees to no TLS 1.2 or 1.3"),
}


def names_fault(b, name):
    """The job, the record, and whoever calls it as a tool are told the same of that upstream."""
    reason, clause = FAULTS[name]
    text = f"upstream {name}.test:{b.ports[name]}: {clause}"
    host = f"{name}.crate.internal"
    seen, = b.job((host, line("/do", host=host)), operations=[name + ".*"])
    if name == "old":
        # Which of two says no is not told apart here.
        tap.contains(seen.record["text"], text)
        text = seen.record["text"]
    seen.has_failed(reason, text, "do", sent=0, asked="GET /do\n", credential=name)
    if name in b.odd:
        tap.equal(b.odd[name].requests, [], "requests")
    result = b.client.call(name + "_do")
    record, = [record for record in b.records() if record["event"] == "operation"]
    tap.equal((result["structuredContent"]["reason"], result["structuredContent"]["text"]),
              (reason, text), "what the agent is told")
    tap.equal(result["content"][0]["text"], f"{name}_do failed: {text} ({reason})")
    tap.equal((record["tool"], record["reason"], record["text"]), (name + "_do", reason, text))


def row_53(b):
    """Certificates that are none to be trusted, and ends that never come to one."""
    each([(name,) for name in ("expired", "own", "other", "unknown", "pinned", "old", "closed")],
         lambda name: names_fault(b, name))
    seen, = b.job(("mute.crate.internal", line("/quick", host="mute.crate.internal")),
                  operations=["mute.*"])
    seen.has_failed("response.timeout", f"upstream mute.test:{b.ports['mute']}: it was not connected to "
                    "within response.timeout, 300 ms: ask for less, or raise it for quick in "
                    "credentials.d/mute.json", "quick", status=504, sent=0, asked="GET /quick\n",
                    credential="mute")


def row_54(b):
    """Names that lead to where nobody goes, at once or the second time."""
    each([(name,) for name in ("none", "meta", "private", "denied")], lambda name: names_fault(b, name))
    b.turns = [HERE, HERE, [("A", "169.254.169.254")], [("A", "169.254.169.254")]]
    host = "turning.crate.internal"
    # The upstream's certificate is for another name: the first one is dialled, the second is not.
    first, second = b.job(*[(host, line("/do", host=host))] * 2, operations=["turning.*"])
    at = f"upstream turning.test:{b.server.port}: "
    tap.equal(first.record["reason"], "upstream.certificate")
    second.has_failed("upstream.address", at + FAULTS["meta"][1].replace("meta.json", "turning.json"),
                      "do", sent=0, asked="GET /do\n", credential="turning")


# --- what is on record ---


def row_55(b):
    """Whatever the upstream says, the secret is in no answer, record or log; also if it is the name
    of its certificate, which the fault tells."""
    seen, = b.job(("named.crate.internal", line("/do", host="named.crate.internal")), operations=["named.*"])
    seen.has_failed("upstream.certificate", f"upstream named.test:{b.ports['named']}: its certificate is not "
                    "to be trusted (SSL: certificate subject name '********' does not match target host name "
                    "'named.test'): mend it there, or name its authority by ca in credentials.d/named.json",
                    "do", sent=0, asked="GET /do\n", credential="named")
    b.behaves(upstream.reply(f"you said {SECRET}", "500 " + SECRET.replace("\\", "")))
    seen, = b.job(line())
    seen.is_well(body=b"you said ********", status=500, size=len(f"you said {SECRET}"))
    for path in b.broker.log_path, b.broker.log.name:
        with open(path, "rb") as file:
            data = file.read()
        tap.lacks(data, SECRET.encode(), path)
        tap.lacks(data, OTHER.encode(), path)


def row_57(b):
    """Each request has its line, with keys and hashes of values; many keys are no trouble."""
    given = "&".join(f"{key}={'v' * 100}{n}" for n, key in enumerate(KEYS))
    b.behaviour = {"/do/tokens": upstream.reply(
        '{"usage": {"prompt_tokens": 9, "completion_tokens": 12}}', fields=[JSON])}
    many, tokens, issues = b.job(line("/keys?" + given), line("/do/tokens"),
                                 line("/repos/own%65r/r/issues?per_page=77"))
    tap.equal((many.answer.status, many.record["operation"], many.record["status"]), (200, "keys", 200))
    hashes = many.record["hashes"]["parameters"]
    tap.check(len(hashes) >= 16, f"{len(hashes)} parameters")
    for n, (key, value) in enumerate(hashes.items()):
        tap.equal((key, value), (KEYS[n], sha256(f"{'v' * 100}{n}")), "hash")
    tap.lacks(json.dumps(many.record), "vvv", "what is on record")
    tokens.is_well(body=tokens.answer.body, asked="GET /do/tokens\n", parameters={"what": "tokens"},
                   tokens={"input": 9, "output": 12})
    issues.is_well("issues", asked="GET /repos/own%65r/r/issues?per_page=77\n",
                   parameters={"owner": "owner", "repo": "r", "per_page": "77"})


def row_57_unwritten(b):
    """What cannot be put on record is not sent."""
    def bound(size):
        tap.run(["prlimit", f"--pid={b.broker.pid}", f"--fsize={size}:"]).expect(0)

    b.records()
    before = len(b.server.requests)
    bound(os.path.getsize(b.broker.log_path))
    try:
        result = b.client.call("api_do", {"what": "x"})
    finally:
        bound("unlimited")
    tap.contains(result["content"][0]["text"], "it cannot be recorded")
    tap.equal(len(b.server.requests), before, "requests to the upstream")
    tap.equal(b.client.call("api_do", {"what": "x"})["isError"], False, "another one, later")


def row_58(b):
    """A request that is under way while policy changes, the next one of its job, and one of another."""
    asked, go = threading.Event(), threading.Event()

    def answer(conn, _request):
        asked.set()
        go.wait(20)
        conn.sendall(upstream.reply("fine"))

    b.behaves(answer)
    b.records()
    marked = [("api.crate.internal", base64.b64encode(line().encode()).decode())] * 2
    running = b.client.start("tools/call", {"name": "sandbox_exec", "arguments": {
        "argv": ["python3", "-c", CLIENT], "stdin": json.dumps(marked), "operations": ["api.*"]}})
    tap.check(asked.wait(20), "nothing was asked")
    try:
        b.place.write("api", {**b.row, "operations": {"new": {"method": "GET", "path": "/new"}}})
        os.kill(b.broker.pid, signal.SIGHUP)
        with b.broker.client() as other:
            tap.check(tap.wait_until(lambda: "api.new" in other.call("operations_list")["content"][0]["text"],
                                     20), "the new menu is not in force")
    finally:
        go.set()
    result = b.client.wait(running)["structuredContent"]
    tap.equal([upstream.Answer(base64.b64decode(text)).body for text in json.loads(result["stdout"])],
              [b"fine", b"fine"], "what the job was told")
    first = [record for record in b.records() if record["tool"] == "sandbox_exec"]
    old, new = b.job(line(), line("/new"))
    old.is_refused(403, "operation.no_match",
                   "no operation of this job has that path with that method: GET", asked="GET /do/x\n")
    new.is_well("new", asked="GET /new\n")
    tap.equal([record.get("operation") for record in first], [None, "do", "do", None], "on record")


def tests():
    with contextlib.ExitStack() as stack:
        b = Bench(stack)
        for name, fn in sorted(globals().items()):
            if name.startswith("row_"):
                b.behaviour = {}
                tap.case(f"{name.replace('_', ' ')}: {fn.__doc__.splitlines()[0].rstrip('.')}", fn, b)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
