#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""operations_list, and operations that are tools themselves: their schemas, who may call them, what
comes of an upstream that misbehaves, and what is on record. Against an upstream of the test's own."""

import contextlib
import fcntl
import gzip
import json
import os
import re
import signal
import socket
import struct
import sys
import termios
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import otlp
import tap
import upstream
from place import SECRET, place

OPERATIONS = {
    "get": {"description": "Gets one.", "method": "GET", "path": "/get/{owner:slug}/{n:int}",
            "query": {"per_page": {"type": "int", "minimum": 1, "maximum": 100},
                      "state": {"type": "enum(open|closed)", "required": True}}, "expose": True},
    "plain": {"method": "GET", "path": "/plain", "expose": True},
    "create": {"method": "POST", "path": "/items/{day:date}", "body": {"kind": "json"},
               "expose": True},
    "form": {"method": "POST", "path": "/form", "body": {"kind": "form"}, "expose": True},
    "raw": {"method": "PUT", "path": "/raw/{id:uuid}", "body": {"kind": "raw", "max_bytes": 100},
            "expose": True},
    "small": {"method": "GET", "path": "/small", "response": {"max_bytes": 1000}, "expose": True},
    "quick": {"method": "GET", "path": "/quick", "response": {"timeout": "500ms"}, "expose": True},
    "twice": {"method": "GET", "path": "/twice", "per_minute": 2, "expose": True},
    "hidden": {"method": "DELETE", "path": "/hidden", "per_job": 3},
}
GET = {"owner": "me", "n": 7, "state": "open"}
UUID = "123e4567-e89b-12d3-a456-426614174000"


@contextlib.contextmanager
def serve(answer=None, operations=None, on_failure="refuse", **tenant):
    """(place, broker, client)"""
    with place(answer) as p:
        p.configure(audit={"on_failure": on_failure})
        p.write("api", p.row(p.authority, **(operations or OPERATIONS)))
        with p.broker(**tenant) as broker, broker.client() as client:
            yield p, broker, client


def tools(client):
    return {tool["name"]: tool for tool in client.request("tools/list")["tools"]}


def failed(answer, reason):
    """The call was made and has failed, and says why."""
    tap.equal(answer["isError"], True, "isError")
    tap.equal(answer["structuredContent"]["reason"], reason, "reason")
    tap.contains(answer["content"][0]["text"], reason)
    tap.lacks(json.dumps(answer), SECRET, "answer")
    return answer


def denied(answer, text):
    tap.equal(answer["isError"], True, "isError")
    tap.lacks(answer, "structuredContent")
    tap.contains(answer["content"][0]["text"], text)


def lines_of(broker, event):
    return [line for line in mcp.audit_records(broker.log_path) if line["event"] == event]


# --- operations_list ---


def menu(client):
    answer = client.call("operations_list")
    tap.equal(answer["isError"], False, "isError")
    result = answer["structuredContent"]
    if result["operations"]:
        tap.equal(json.loads(answer["content"][0]["text"]), result["operations"], "text")
    return {row["operation"]: row for row in result["operations"]}, result["reason"]


def listed():
    with serve() as (_, broker, client):
        rows, reason = menu(client)
        tap.equal(sorted(rows), sorted("api." + name for name in OPERATIONS))
        tap.equal(reason, None)
        tap.equal(rows["api.get"], {
            "operation": "api.get", "description": "Gets one.", "method": "GET",
            "url": "http://api.crate.internal/get/{owner}/{n}",
            "parameters": [
                {"name": "owner", "in": "path", "type": "slug", "required": True},
                {"name": "n", "in": "path", "type": "int", "required": True, "minimum": 0},
                {"name": "per_page", "in": "query", "type": "int", "required": False, "minimum": 1,
                 "maximum": 100},
                {"name": "state", "in": "query", "type": "enum", "required": True,
                 "enum": ["open", "closed"]}],
            "body": {"kind": "none"}, "response": {"max_bytes": 1 << 20, "timeout_ms": 30000},
            "per_job": None, "per_minute": None, "templates": [], "tool": "api_get"})
        tap.equal(rows["api.hidden"]["tool"], None)
        tap.equal(rows["api.hidden"]["per_job"], 3)
        tap.equal(rows["api.raw"]["body"], {"kind": "raw", "max_bytes": 100})
        denied(client.call("operations_list", {"x": 1}), 'there is no argument "x"')
        broker.stop()
        tap.equal([line["outcome"] for line in lines_of(broker, "end")], ["exited", "denied"])


def listed_as_far_as_policy_goes():
    """Row 40: nobody is told of what is not for him."""
    rows = [
        ({"operations": ["api.get", "api.hidden"]}, ["api.get", "api.hidden"], None),
        ({"operations": []}, [], "your tenant may call no operation"),
        ({"scopes": ["exec"]}, [], "the scope credential:use"),
        ({"tools": {"allow": ["*"], "deny": ["api_get"]}, "operations": ["api.get"]},
         ["api.get"], None),
    ]
    with place() as p:
        p.write("api", p.row(p.authority, **OPERATIONS))
        with open(os.path.join(p.data, "templates.d", "host.json"), encoding="ascii") as file:
            template = json.load(file)
        for name in ("mine", "other"):
            with open(os.path.join(p.data, "templates.d", name + ".json"), "w",
                      encoding="ascii") as file:
                json.dump({**template, "operations": ["api.get"]}, file)
        for tenant, names, reason in rows:
            with p.broker(templates=["host", "mine"], **tenant) as broker, \
                    broker.client() as client:
                got, why = menu(client)
                tap.equal(sorted(got), names)
                tap.check(why is None if reason is None else reason in why, f"reason: {why}")
                if "api.get" in got:
                    tap.equal(got["api.get"]["templates"], ["mine"])
                if tenant.get("tools"):
                    tap.equal(got["api.get"]["tool"], None)
        with p.broker(tools={"allow": ["sandbox_exec"]}) as broker, broker.client() as client:
            denied(client.call("operations_list"), "no rule lets tenant us call operations_list")


# --- as tools ---


def schemas():
    with serve() as (_, _, client):
        found = tools(client)
        tap.equal(sorted(found), sorted(
            ["sandbox_exec", "operations_list"]
            + ["api_" + name for name, row in OPERATIONS.items() if row.get("expose")]))
        tool = found["api_get"]
        tap.contains(tool["description"], "Gets one. GET /get/{owner:slug}/{n:int} of "
                     + upstream.HOST)
        tap.equal(tool["annotations"]["readOnlyHint"], True)
        tap.equal(tool["annotations"]["openWorldHint"], True)
        tap.equal(found["api_create"]["annotations"]["destructiveHint"], True)
        tap.equal(tool["inputSchema"], {
            "type": "object", "additionalProperties": False,
            "required": ["owner", "n", "state"],
            "properties": {
                "owner": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,128}$"},
                "n": {"type": "integer", "minimum": 0},
                "per_page": {"type": "integer", "minimum": 1, "maximum": 100},
                "state": {"type": "string", "enum": ["open", "closed"]}}})
        tap.equal(found["api_create"]["inputSchema"]["required"], ["day", "body"])
        tap.equal(sorted(found["api_raw"]["inputSchema"]["properties"]),
                  ["body", "body_encoding", "content_type", "id"])
        tap.equal(found["api_plain"]["inputSchema"],
                  {"type": "object", "additionalProperties": False, "properties": {}})
        tap.check("status" in tool["outputSchema"]["required"], "outputSchema")


def works():
    """The request that the upstream sees, the result, and what is on record."""
    answer = upstream.reply('{"a": 1}', fields=["Content-Type: application/json",
                                                "X-RateLimit-Remaining: 5", "Set-Cookie: no=1"])
    with serve(answer) as (p, broker, client):
        result = client.call("api_get", {**GET, "per_page": 50})
        tap.equal(result["isError"], False, result)
        tap.equal(result["content"], [{"type": "text", "text": '{"a": 1}'}])
        record = result["structuredContent"]
        tap.check(record.pop("ms") > 0, "ms")
        tap.equal(record, {
            "credential": "api", "operation": "get", "status": 200,
            "headers": {"content-type": "application/json", "x-ratelimit-remaining": "5"},
            "body": '{"a": 1}', "body_encoding": "utf-8", "bytes": 8, "tokens": None, "reason": None, "text": None})
        request, = p.server.requests
        tap.equal((request.method, request.target, request.field("authorization")),
                  ("GET", "/get/me/7?per_page=50&state=open", ["Bearer " + SECRET]))
        broker.stop()
        decision, operation, end = mcp.audit_records(broker.log_path)
        tap.equal([line["event"] for line in (decision, operation, end)],
                  ["decision", "operation", "end"])
        tap.equal(len({line["call"] for line in (decision, operation, end)}), 1)
        tap.equal((decision["tool"], decision["decision"], decision["scopes"]),
                  ("api_get", "allowed", ["credential:use"]))
        tap.equal((operation["credential"], operation["operation"], operation["status"],
                   operation["bytes"]), ("api", "get", 200, {"in": 8, "out": 0}))
        tap.equal((end["outcome"], end["exit"]["code"]), ("exited", None))
        with open(broker.log_path, encoding="utf-8") as file:
            tap.lacks(file.read(), SECRET, "audit log")


def contents():
    rows = [
        ("api_create", {"day": "2024-02-29", "body": {"title": "é", "n": [1, 2.5, None]}},
         "POST", "/items/2024-02-29", "application/json",
         json.dumps({"title": "é", "n": [1, 2.5, None]}).encode()),
        ("api_create", {"day": "2024-02-29", "body": []}, "POST", "/items/2024-02-29",
         "application/json", b"[]"),
        ("api_form", {"body": {"a b": "c&d=é", "e": ""}}, "POST", "/form",
         "application/x-www-form-urlencoded", b"a+b=c%26d%3D%C3%A9&e="),
        ("api_form", {}, "POST", "/form", "application/x-www-form-urlencoded", b""),
        ("api_raw", {"id": UUID, "body": "text", "content_type": "text/plain"}, "PUT",
         "/raw/" + UUID, "text/plain", b"text"),
        ("api_raw", {"id": UUID, "body": "AAECAw==", "body_encoding": "base64"}, "PUT",
         "/raw/" + UUID, "application/octet-stream", bytes(range(4))),
    ]
    with serve() as (p, _, client):
        for tool, arguments, method, target, kind, body in rows:
            result = client.call(tool, arguments)
            tap.equal(result["isError"], False, result)
            request = p.server.requests.pop()
            tap.equal((request.method, request.target, request.field("content-type"),
                       request.body), (method, target, [kind], body), tool)


def wrong_arguments():
    """Each is refused by name before anything is sent, and says what there may be."""
    rows = [
        ("api_get", {"n": 7, "state": "open"}, "owner is missing; it must be a string of"),
        ("api_get", {**GET, "owner": "../x"}, "owner must be a string of 1 to 128 letters"),
        ("api_get", {**GET, "owner": ".."}, "owner must be"),
        ("api_get", {**GET, "owner": "a/b"}, "owner must be"),
        ("api_get", {**GET, "owner": "a\u0000b"}, "owner must be"),
        ("api_get", {**GET, "owner": 5}, "owner must be"),
        ("api_get", {**GET, "owner": "x" * 129}, "owner must be"),
        ("api_get", {**GET, "n": -1}, "n must be a whole number from 0 on"),
        ("api_get", {**GET, "n": "7"}, "n must be"),
        ("api_get", {**GET, "n": 1.5}, "n must be"),
        ("api_get", {**GET, "per_page": 101}, "per_page must be a whole number from 1 to 100"),
        ("api_get", {**GET, "state": "OPEN"}, "state must be one of open, closed"),
        ("api_get", {**GET, "token": "x"},
         'there is no argument "token"; the arguments are owner, n, per_page, state'),
        ("api_plain", {"body": "x"}, 'there is no argument "body"; the arguments are none'),
        ("api_create", {"day": "2023-02-29", "body": {}}, "day must be a string with a date"),
        ("api_create", {"day": "2024-02-29"}, "body is missing"),
        ("api_create", {"day": "2024-02-29", "body": "{}"}, "body must be an object or an array"),
        ("api_create", {"day": "2024-02-29", "body": {"x": "y" * 70000}}, "operation takes 65536"),
        ("api_form", {"body": {"a": 1}}, "body must be an object of strings"),
        ("api_raw", {"id": "x"}, "id must be a string with a UUID"),
        ("api_raw", {"id": UUID, "body": "x" * 101}, "body has 101 bytes"),
        ("api_raw", {"id": UUID, "body": "?", "body_encoding": "base64"}, "no valid base64"),
        ("api_raw", {"id": UUID, "body_encoding": "hex"}, "must be utf-8 or base64"),
        ("api_raw", {"id": UUID, "body": "", "content_type": "a\r\nX: y"}, "content_type must be"),
    ]
    with serve() as (p, _, client):
        for tool, arguments, text in rows:
            denied(client.call(tool, arguments), text)
        tap.equal(p.server.n_connections, 0, "connections")


def who_may():
    """Default deny, readably, and what is denied is not listed."""
    rows = [
        ({"scopes": ["exec"]}, "needs the scope credential:use"),
        ({"operations": []}, "tenant us may not call api.plain, which the tool is"),
        ({"operations": ["api.get"]}, "tenant us may not call api.plain"),
        ({"tools": {"allow": ["sandbox_exec"]}}, "no rule lets tenant us call api_plain"),
        ({"tools": {"allow": ["*"], "deny": ["api_*"]}}, "must not call api_plain"),
        ({"arguments": {"api_plain": {"required": ["reason"]}}}, "arguments"),
    ]
    with place() as p:
        p.write("api", p.row(p.authority, **OPERATIONS))
        for tenant, text in rows:
            with p.broker(**tenant) as broker, broker.client() as client:
                denied(client.call("api_plain"), text)
                tap.equal("api_plain" in tools(client), "arguments" in tenant, "listed")
                with contextlib.suppress(mcp.RpcError):
                    client.call("api_hidden")
                    raise tap.Failed("what is not exposed is no tool")
        tap.equal(p.server.n_connections, 0, "connections")


def two_tenants():
    """One may, one may not, at the same broker."""
    with place() as p:
        p.write("api", p.row(p.authority, **OPERATIONS))
        p.tenant("other", match={"uid": [74001]}, operations=["api.get"])
        with p.broker(operations=["api.plain"]) as broker, broker.client() as client:
            tap.equal(client.call("api_plain")["isError"], False)
            denied(client.call("api_get", GET), "tenant us may not call api.get")
            tap.equal([name for name in tools(client) if name.startswith("api_")], ["api_plain"])
            explain = [tap.program("agentcrate"), "policy", "explain", "--user", "--tenant",
                       "other", "--tool"]
            env = tap.clean_env(AGENTCRATE_DATA_DIR=p.data)
            tap.run([*explain, "api_get"], env=env).expect(0)
            run = tap.run([*explain, "api_plain"], env=env)
            tap.contains(run.text, "other:operations")
            tap.contains(run.text, "denied: tenant other may not call api.plain")
            tap.run([*explain[:2], "check", "--user"], env=env).expect(0)


def narrowed():
    with serve(arguments={"api_get": {"properties": {"per_page": {"maximum": 10}}}}) as (
            p, _, client):
        schema = tools(client)["api_get"]["inputSchema"]
        tap.equal(schema["properties"]["per_page"]["maximum"], 10)
        denied(client.call("api_get", {**GET, "per_page": 11}), "arguments.per_page")
        tap.equal(client.call("api_get", {**GET, "per_page": 10})["isError"], False)
        tap.equal(len(p.server.requests), 1)


def list_changes():
    """Who sees other tools after a reload is told so, and others are not."""
    with serve(operations={"plain": OPERATIONS["plain"]}) as (p, broker, client):
        def reload(**operations):
            p.write("api", p.row(p.authority, **operations))
            os.kill(broker.pid, signal.SIGHUP)
            message = client.receive(20)
            tap.equal(message["method"], "notifications/tools/list_changed")

        tap.check("api_plain" in tools(client), "listed")
        reload(plain=OPERATIONS["plain"], twice=OPERATIONS["twice"])
        tap.equal(client.call("api_twice")["isError"], False)
        reload(twice=OPERATIONS["twice"])
        tap.check("api_plain" not in tools(client), "still listed")
        with contextlib.suppress(mcp.RpcError):
            client.call("api_plain")
            raise tap.Failed("what is gone is called")


# --- on record ---


def not_on_record():
    """Row 57: while the audit log cannot be written, no tool sends anything; then it goes on."""
    with serve() as (p, broker, client):
        def bound(size):
            """How large the broker's files may be."""
            tap.run(["prlimit", f"--pid={broker.pid}", f"--fsize={size}:"]).expect(0)

        tap.equal(client.call("api_plain")["isError"], False)
        bound(os.path.getsize(broker.log_path))
        denied(client.call("api_plain"), "it cannot be recorded")
        tap.equal(len(p.server.requests), 1, "requests")
        bound("unlimited")
        tap.equal(client.call("api_plain")["isError"], False)
        broker.stop()
        tap.equal(len(lines_of(broker, "operation")), len(p.server.requests), "on record")


def counted():
    """In the job's record, in the metrics, and as spans inside of exec."""
    command = ("curl -sS $API_URL/plain; curl -sS $API_URL/plain; curl -sS $API_URL/none;"
               " curl -sS $API_URL/small")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with place(upstream.reply("x" * 2000)) as p, otlp.Collector() as collector:
        p.write("api", p.row(p.authority, **OPERATIONS))
        tap.write(os.path.join(p.data, "agentcrated.json"), json.dumps(
            {"egress": {"resolver": [p.resolver.address]}, "listen": {"metrics": f"127.0.0.1:{port}"},
             "telemetry": {"otlp": collector.url}}))
        with p.broker() as broker, broker.client() as client:
            record = client.exec(command=command, operations=["api.*"])
            rows = [{"operation": "api.plain", "status": 200, "reason": None, "count": 2},
                    {"operation": "api", "status": 403, "reason": "operation.no_match", "count": 1},
                    {"operation": "api.small", "status": 502, "reason": "response.size",
                     "count": 1}]
            tap.equal(record["operations"], rows)
            tap.equal(client.call("api_plain")["isError"], False)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
                text = answer.read().decode()
            for credential, operation, outcome, count in (
                    ("api", "plain", "ok", 3), ("api", "small", "error", 1),
                    ("other", "other", "denied", 1)):
                tap.contains(text, f'agentcrate_operations_total{{credential="{credential}",'
                             f'operation="{operation}",outcome="{outcome}"}} {count}\n')
            tap.contains(text, 'agentcrate_calls_total{tool="api_plain",outcome="ok"} 1\n')
            spans = collector.wait(2)
            tool, job = (next(span for span in spans if span.name == "tools/call " + name)
                         for name in ("api_plain", "sandbox_exec"))
            for root, names in ((tool, ["api.plain"]),
                                (job, ["api", "api.plain", "api.plain", "api.small"])):
                inside, = (s for s in spans if s.name == "exec" and s.parent == root.id)
                found = [s for s in spans if s.parent == inside.id and s.kind == "CLIENT"]
                tap.equal(sorted(s.name for s in found), names)
                for span in found:
                    tap.check(inside.start <= span.start <= span.end <= inside.end, "its time")
            tap.equal([span.attributes["error.type"] for span in spans
                       if span.name == "api.small"], ["response.size"])
        run = p.run("sh", "-c", command, operations=["api.*"], options=["--json"])
        tap.equal(run.record["operations"], rows, "of agentcrate-run")


def tokens():
    """What a language model says that it took, in JSON and in a stream, for tools and for jobs."""
    events = (b'data: {"message":{"usage":{"input_tokens":25,"output_tokens":1}}}\n\n'
              b'data: {"delta":{"text":"\\"usage\\":{}"}}\n\n'
              b'data: {"usage":{"output_tokens":15}}\n\n')
    rows = [
        (upstream.reply('{"usage": {"prompt_tokens": 9, "completion_tokens": 12}}',
                        fields=["Content-Type: application/json"]), {"input": 9, "output": 12}),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + events,
         {"input": 25, "output": 15}),
        (upstream.reply('{"usage": {"prompt_tokens": 9}}', fields=["Content-Type: text/plain"]),
         None),
    ]
    for answer, expected in rows:
        with serve(answer) as (_, broker, client):
            tap.equal(client.call("api_plain")["structuredContent"]["tokens"], expected)
            client.exec(command="curl -sS $API_URL/plain", operations=["api.plain"])
            broker.stop()
            tap.equal([line.get("tokens") for line in lines_of(broker, "operation")],
                      [expected] * 2)


def digest():
    """Another certificate to trust is another policy."""
    with place() as p:
        def check():
            run = tap.run([tap.program("agentcrate"), "policy", "check", "--user"],
                          env=tap.clean_env(AGENTCRATE_DATA_DIR=p.data))
            run.expect(0)
            return run.text

        before = check()
        tap.equal(check(), before)
        with open(p.authority.ca, "a", encoding="ascii") as file:
            file.write("\n")
        tap.check(check() != before, "the digest is the same")


# --- upstreams that misbehave ---


def statuses():
    """Any answer of the upstream is one; 400 and above are errors to whoever asks."""
    for status, error in (("201 Created", False), ("404 Not Found", True), ("302 Found", False),
                          ("500 Oops", True)):
        answer = upstream.reply("the body", status, ["Location: https://evil.example/"])
        with serve(answer) as (_, broker, client):
            result = client.call("api_plain")
            tap.equal((result["isError"], result["structuredContent"]["status"],
                       result["structuredContent"]["reason"]), (error, int(status[:3]), None))
            tap.lacks(json.dumps(result), "evil.example")
            tap.contains(result["content"][0]["text"], "the body")
            broker.stop()
            tap.equal(lines_of(broker, "end")[0]["outcome"], "exited")


def misbehaving():
    def slow(tls, _request):
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab")
        threading.Event().wait(3)

    head = b"HTTP/1.1 200 OK\r\n"
    rows = [
        ("api_plain", upstream.reply(gzip.compress(b"x"), fields=["Content-Encoding: gzip"]),
         "response.encoding", "exec_failed", None),
        ("api_plain", head + b"Content-Length: 10\r\n\r\nab", "upstream.broken", "exec_failed",
         None),
        ("api_plain", b"nonsense\r\n\r\n", "upstream.broken", "exec_failed", None),
        ("api_plain", lambda tls, request: None, "upstream.broken", "exec_failed", None),
        ("api_small", upstream.reply("x" * 1001), "response.size", "limit", "response.max_bytes"),
        ("api_small", head + b"Transfer-Encoding: chunked\r\n\r\n" + b"200\r\n" + b"x" * 512
         + b"\r\n" + b"1fe\r\n" + b"y" * 510 + b"\r\n0\r\n\r\n", "response.size", "limit",
         "response.max_bytes"),
        ("api_quick", slow, "response.timeout", "limit", "response.timeout"),
    ]
    for tool, answer, reason, outcome, limit in rows:
        with serve(answer) as (_, broker, client):
            failed(client.call(tool), reason)
            broker.stop()
            end, = lines_of(broker, "end")
            tap.equal((end["outcome"], end["limit"]), (outcome, limit), reason)
            operation, = lines_of(broker, "operation")
            tap.equal((operation["decision"], operation["reason"]), ("allowed", reason))


def dead():
    with serve() as (p, broker, client):
        p.write("api", {**p.row(p.authority, **OPERATIONS), "upstream":
                        f"https://{upstream.HOST}:1"})
        os.kill(broker.pid, signal.SIGHUP)
        tap.check(tap.wait_until(lambda: "is in force" in broker.errors(), 20), "reload")
        failed(client.call("api_plain"), "upstream.unreachable")
        os.unlink(os.path.join(p.secrets, "token"))
        answer = failed(client.call("api_plain"), "egress.refused")
        tap.contains(answer["content"][0]["text"], "the secret token is missing")
        broker.stop()
        tap.equal([line["outcome"] for line in lines_of(broker, "end")], ["exec_failed"] * 2)


def echo():
    """Row 45: a secret that comes back does not come in, and bytes stay bytes."""
    with serve(upstream.reply(f"you said {SECRET}", fields=[f"ETag: {SECRET}"])) as (_, _, client):
        result = client.call("api_plain")
        tap.lacks(json.dumps(result), SECRET, "result")
        tap.equal(result["structuredContent"]["body"], "you said ********")
    with serve(upstream.reply(bytes(range(256)))) as (_, _, client):
        record = client.call("api_plain")["structuredContent"]
        tap.equal((record["body_encoding"], record["bytes"]), ("base64", 256))


def per_minute():
    """Calls of a tool and requests of jobs count together, whatever session they come by."""
    with serve() as (p, broker, client):
        tap.equal(client.call("api_twice")["isError"], False)
        run = client.exec(command="curl -sS $API_URL/twice", operations=["api.twice"])
        tap.equal(run["stdout"], "fine")
        failed(client.call("api_twice"), "limit.per_minute")
        run = client.exec(command="curl -sS $API_URL/twice", operations=["api.twice"])
        tap.contains(run["stdout"], "limit.per_minute")
        tap.equal(client.call("api_plain")["isError"], False, "another operation")
        tap.equal(len(p.server.requests), 3)
        broker.stop()
        tap.equal([(line["outcome"], line["limit"]) for line in lines_of(broker, "end")],
                  [("exited", None), ("exited", None), ("limit", "per_minute"), ("exited", None),
                   ("exited", None)])


# --- ends that come from elsewhere ---


@contextlib.contextmanager
def hanging(**options):
    """An upstream that has answered half and goes on when it is told to."""
    go = threading.Event()

    def answer(tls, _request):
        tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
        go.wait(20)
        tls.sendall(b"done")

    with serve(answer, **options) as found:
        try:
            yield (*found, go)
        finally:
            go.set()


def begun(client, told="\n[4 bytes left out]\n"):
    """A call whose first half has come, as progress tells."""
    request = client.start("tools/call", {"name": "api_plain"}, progress="t")
    message = client.receive(20)
    tap.equal((message["method"], message["params"]["message"]),
              ("notifications/progress", told))
    return request


def streams():
    """The content only where it may leave before it is on record; else how much it is."""
    for options, told in (({"on_failure": "continue"}, "half"), ({}, "\n[4 bytes left out]\n")):
        with hanging(**options) as (_, _, client, go):
            request = begun(client, told)
            go.set()
            result = client.wait(request)
            tap.equal(result["structuredContent"]["body"], "halfdone")


def answer_not_on_record():
    """Row 57: where the record of a request cannot be written, nothing of its answer is given."""
    def bound(broker, size):
        tap.run(["prlimit", f"--pid={broker.pid}", f"--fsize={size}:"]).expect(0)

    with hanging() as (p, broker, client, go):
        request = begun(client)
        bound(broker, os.path.getsize(broker.log_path))
        go.set()
        answer = failed(client.wait(request), "audit.record")
        bound(broker, "unlimited")
        tap.contains(answer["content"][0]["text"], "the audit log cannot be written")
        result = answer["structuredContent"]
        tap.equal((result["status"], result["headers"], result["body"]), (None, {}, ""))
        tap.lacks(json.dumps([answer, client.notifications]), "half", "what the client got")
        tap.equal(client.call("api_plain")["structuredContent"]["body"], "halfdone")
        broker.stop()
        tap.equal([line["outcome"] for line in lines_of(broker, "end")], ["lost", "exited"])
        tap.equal(len(lines_of(broker, "operation")), len(p.server.requests), "on record")

    with hanging(on_failure="continue") as (_, broker, client, go):
        request = begun(client, "half")
        bound(broker, os.path.getsize(broker.log_path))
        go.set()
        tap.equal(client.wait(request)["structuredContent"]["body"], "halfdone")
        bound(broker, "unlimited")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def slow_reader():
    """A client that does not read costs no time of the broker's, whatever its call's upstream does."""
    with hanging() as (_, broker, client, go), broker.client() as other:
        request = begun(client)
        client.send_bytes(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % n
                                   for n in range(1000, 3000)))
        waiting = [0]

        def is_blocked():
            """What the broker has not read stays as much as it is while it answers another."""
            before = waiting[0]
            other.request("ping")
            waiting[0] = unread_by_peer(client.socket)
            return waiting[0] == before > 0

        tap.check(tap.wait_until(is_blocked, 20), "the client is read on and on")
        go.set()
        tap.check(tap.wait_until(lambda: lines_of(broker, "operation"), 20), "no answer")
        before = cpu_seconds(broker.pid)
        # After 2 s agentcrate-egress hangs up, whether or not the answer was read.
        time.sleep(4)
        used = cpu_seconds(broker.pid) - before
        tap.check(used < 0.5, f"{used} s of CPU in 4 s")
        tap.equal(client.wait(request)["structuredContent"]["body"], "halfdone")
        client.wait(2999)


def unread_by_peer(sock):
    """SIOCOUTQ"""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


def cancelled():
    with hanging() as (_, broker, client, _):
        request = begun(client)
        client.notify("notifications/cancelled", {"requestId": request})
        tap.check(tap.wait_until(lambda: lines_of(broker, "end"), 20), "no end")
        client.request("ping")
        tap.lacks(client.answers, request, "answers")
        broker.stop()
        tap.equal([line["outcome"] for line in lines_of(broker, "end")], ["cancelled"])
        operation, = lines_of(broker, "operation")
        tap.equal((operation["reason"], operation["bytes"]["in"]), ("job.gone", 4))


def client_gone():
    with hanging() as (_, broker, client, _):
        begun(client)
        client.close()
        tap.check(tap.wait_until(lambda: lines_of(broker, "end"), 20), "no end")
        tap.equal([line["outcome"] for line in lines_of(broker, "end")], ["cancelled"])


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def find_egress(broker):
    for pid in children(broker.pid):
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            if file.read().startswith("agentcrate-egre"):
                return pid
    raise tap.Failed("there is no egress process")


def egress_killed():
    """The call under way is lost, says so, and the next one works."""
    with hanging() as (_, broker, client, go):
        request = begun(client)
        os.kill(find_egress(broker), signal.SIGKILL)
        answer = failed(client.wait(request), "egress.lost")
        tap.contains(answer["content"][0]["text"], "is not known")
        go.set()
        tap.equal(client.call("api_plain")["isError"], False)
        broker.stop()
        tap.equal([line["outcome"] for line in lines_of(broker, "end")], ["lost", "exited"])


def many_at_once():
    with serve() as (p, _, client):
        requests = [client.start("tools/call", {"name": "api_plain"}) for _ in range(70)]
        answers = [client.wait(request) for request in requests]
        good = [answer for answer in answers if not answer["isError"]]
        tap.check(len(good) >= 64, f"{len(good)} of 70")
        for answer in answers:
            if answer["isError"]:
                denied(answer, "which is the limit")
        tap.equal(len(p.server.requests), len(good))


def agentcrate(p, *words, rc=0):
    env = tap.clean_env(AGENTCRATE_DATA_DIR=p.data)
    return tap.run([tap.program("agentcrate"), *words], env=env).expect(rc).text


def shown():
    """What audit prints for people: which operation it was, and a reason that can be read."""
    with serve() as (p, broker, client):
        client.call("api_plain")
        denied(client.call("api_plain", {"ID": 1, "a\n\\": 1}), "there is no argument")
        with contextlib.suppress(mcp.RpcError):
            client.call("\x1b\\\"")
        broker.stop()
        lines = agentcrate(p, "audit", "query", broker.log_path).splitlines()
        operation, = [line for line in lines if " operation " in line]
        tap.check(re.search(r" api_plain allowed api\.plain 200 [0-9.]+ms$", operation), operation)
        tap.check(any('there is no argument "ID"' in line for line in lines), lines)
        tap.check(any('\\u001b\\\\"' in line for line in lines), lines)


def shown_as_tools():
    """agentcrate tools has their arguments, which nobody has described."""
    with serve(operations={"get": dict(OPERATIONS["get"], description="Gets one")}) as (_, broker, client):
        tap.contains(tools(client)["api_get"]["description"], "Gets one. GET /get/")
        env = tap.clean_env(AGENTCRATE_SOCKET=broker.path)
        lines = tap.run([tap.program("agentcrate"), "tools"], env=env).expect(0).text.splitlines()
        line, = [line for line in lines if line.split()[:1] == ["n"]]
        tap.equal(line.split(maxsplit=1)[1], '{"type":"integer","minimum":0} (required)')


def explained():
    """policy explain refuses what the broker refuses of an operation's arguments."""
    with serve() as (p, _, client):
        asked = ["policy", "explain", "--tenant", "us", "--tool", "api_get", "--dir", p.data]
        tap.contains(agentcrate(p, *asked, "--args", json.dumps(GET)), "allowed")
        for args in ({}, {**GET, "n": "x"}, {**GET, "ID": 1}):
            answer = client.call("api_get", args)["content"][0]["text"]
            text = agentcrate(p, *asked, "--args", json.dumps(args), rc=1)
            tap.contains(text, "wrong in itself: " + answer)


def in_both_eras():
    with serve() as (_, broker, client), broker.client(mcp.MODERN) as modern, \
            broker.client("2024-11-05") as old:
        tap.equal(modern.call("api_plain")["structuredContent"]["body"], "fine")
        answer = old.call("api_plain")
        tap.equal((answer["content"][0]["text"], "structuredContent" in answer), ("fine", False))
        tap.equal(client.call("api_plain")["content"][0]["text"], "fine")


def tests():
    for fn in (listed, listed_as_far_as_policy_goes, schemas, works, contents, wrong_arguments,
               who_may, two_tenants, narrowed, list_changes, not_on_record, counted, tokens, digest,
               statuses, misbehaving, dead, echo, per_minute, streams, answer_not_on_record,
               slow_reader, shown, shown_as_tools, explained, cancelled, client_gone, egress_killed,
               many_at_once, in_both_eras):
        tap.case(fn.__name__.replace("_", " "), fn)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
