#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""Operations with a credential from inside of a crate: ordinary clients, against an upstream of the
test's own."""

import hashlib
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import tap
import upstream
from place import SECRET, place


def curl():
    with place() as p:
        p.run("sh", "-c", "curl -sS $API_URL/get/7").expect(0, "fine")
        request, = p.server.requests
        tap.equal((request.method, request.target, request.field("authorization")),
                  ("GET", "/get/7", ["Bearer " + SECRET]))


def python():
    text = ("import urllib.request, os; r = urllib.request.Request(os.environ['API_URL'] + '/items',"
            " b'{}', {'Content-Type': 'application/json'}); print(urllib.request.urlopen(r).read())")
    with place() as p:
        p.run("python3", "-c", text, operations=["api.*"]).expect(0, "b'fine'\n")


def only_what_was_asked_for():
    with place() as p:
        run = p.run("curl", "-sS", "-X", "POST", "http://api.crate.internal/items")
        tap.contains(str(run.out), "operation.no_match")
        tap.equal(p.server.n_connections, 0, "connections")
        run = p.run("curl", "-sS", "http://other.crate.internal/get/7")
        tap.check(run.rc == 6, f"curl of another name: {run}")


def secret_is_not_inside():
    """Row 55: nothing of it in environment, memory of processes, files, or what the job is told."""
    answer = upstream.reply(f"you said {SECRET}", fields=[f"ETag: {SECRET}"])
    with place(answer) as p:
        run = p.run("sh", "-c", "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n';"
                    "curl -sSi $API_URL/get/1; grep -rs c4n /etc /run /tmp /home /var 2>/dev/null;"
                    "true", options=["--json"])
        text = str(run.out) + str(run.err)
        tap.contains(text, "you said ********")
        tap.lacks(text, SECRET, "what came out")
        plan = p.run("true", options=["--print-plan"])
        tap.lacks(str(plan.out), SECRET, "plan")


def refused_by_name():
    """CRED-01, and what the files do not have."""
    with place() as p:
        for name, text in (("api.nothing", "there is no operation nothing, which api.nothing asks for; there are: "),
                           ("none.get", f"credentials.d/none.json would be it, in one of {p.data}, ")):
            run = p.run("true", operations=[name])
            tap.equal(run.rc, 125, name)
            tap.contains(str(run.err), text)
        os.unlink(os.path.join(p.secrets, "token"))
        run = p.run("true")
        tap.equal(run.rc, 125, "a secret that is missing")
        tap.contains(str(run.err), "the secret token is missing")
        tap.equal(p.server.n_connections, 0, "connections")
        for bad in "api", "*", "api.", "Api.get", "api.get.more":
            tap.equal(p.run("true", operations=[bad]).rc, 125, bad)


GET = {"command": "curl -sS $API_URL/get/7; curl -sS $API_URL/other"}


def broker_serves():
    """Row 57: each request is on record, the refused one too, and nothing of the secret is."""
    with place() as p, p.broker() as broker, broker.client() as client:
        answer = client.call("sandbox_exec", {**GET, "operations": ["api.get"]})
        result = answer["structuredContent"]
        tap.equal(result["exit_code"], 0, "exit code")
        tap.check(result["stdout"].startswith("fine{"), result["stdout"])
        tap.contains(result["stdout"], "operation.no_match")
        broker.stop()
        lines = [line for line in mcp.audit_records(broker.log_path) if line["event"] == "operation"]
        tap.equal([(line["credential"], line["operation"], line["decision"], line["reason"],
                    line["status"]) for line in lines],
                  [("api", "get", "allowed", None, 200),
                   ("api", None, "denied", "operation.no_match", 403)], "operations on record")
        tap.equal(lines[0]["bytes"], {"in": 4, "out": 0})
        tap.check(lines[0]["hashes"]["request"].startswith("sha256:"), str(lines[0]))
        tap.equal(lines[0]["hashes"]["parameters"], {"n": "sha256:" + hashlib.sha256(b"7").hexdigest()})
        with open(broker.log_path, encoding="utf-8") as file:
            tap.lacks(file.read(), SECRET, "audit log")


def broker_denies():
    rows = [
        ({"scopes": ["exec"]}, ["api.get"], "needs the scope credential:use"),
        ({"operations": []}, ["api.get"], "may not call api.get"),
        ({"operations": ["api.create"]}, ["api.get"], "may not call api.get"),
        ({"operations": ["api.create"]}, ["api.*"], "may not call api.*"),
        ({"operations": ["other.*"]}, ["api.get"], "may not call api.get"),
        ({"operations": ["*"]}, ["api.nothing"], "there is no operation api.nothing"),
        ({"operations": ["*"]}, ["none.get"], "there is no operation none.get"),
    ]
    with place() as p:
        for tenant, asked, text in rows:
            with p.broker(**tenant) as broker, broker.client() as client:
                answer = client.call("sandbox_exec", {**GET, "operations": asked})
                tap.check(answer["isError"], text)
                tap.contains(answer["content"][0]["text"], text)
        tap.equal(p.server.n_connections, 0, "connections")


def broker_template():
    with place() as p:
        with open(os.path.join(p.data, "templates.d", "host.json"), encoding="ascii") as file:
            template = json.load(file)
        with open(os.path.join(p.data, "templates.d", "api.json"), "w", encoding="ascii") as file:
            json.dump({**template, "operations": ["api.get"]}, file)
        with p.broker() as broker, broker.client() as client:
            answer = client.call("sandbox_exec", {**GET, "template": "api"})
            tap.check(answer["structuredContent"]["stdout"].startswith("fine{"), str(answer))
        with p.broker(operations=["api.create"]) as broker, broker.client() as client:
            answer = client.call("sandbox_exec", {**GET, "template": "api"})
            tap.contains(answer["content"][0]["text"], "asked for by template api")


def broker_reload():
    """Row 58: a job keeps the menu that it began with; a bad one never comes into force."""
    with place() as p, p.broker() as broker, broker.client() as client:
        running = client.start("tools/call", {"name": "sandbox_exec", "arguments": {
            "command": "curl -sS $API_URL/get/1; sleep 4; curl -sS $API_URL/get/2",
            "operations": ["api.get"]}})
        tap.check(tap.wait_until(lambda: p.server.n_connections == 1, 20), "the first request")
        path = os.path.join(p.data, "credentials.d", "api.json")
        with open(path, encoding="ascii") as file:
            row = json.load(file)
        row["operations"] = {"new": {"method": "GET", "path": "/new"}}
        p.write("api", row)
        os.kill(broker.pid, signal.SIGHUP)

        def is_new():
            answer = client.call("sandbox_exec", {"command": "curl -sS $API_URL/new",
                                                  "operations": ["api.new"]})
            return answer["content"][0]["text"].startswith("fine")

        tap.check(tap.wait_until(is_new, 20), "the new menu is not in force")
        tap.equal(client.wait(running)["structuredContent"]["stdout"], "finefine", "the old one")
        row["operations"]["bad"] = {"method": "GET", "path": "/{x:slug}"}
        p.write("api", row)
        os.kill(broker.pid, signal.SIGHUP)
        tap.check(is_new(), "a bad policy came into force")


def broker_without_a_record():
    """Row 57: where the record of a request cannot be written, the job makes no other."""
    with place() as p, p.broker() as broker, broker.client() as client:
        running = client.start("tools/call", {"name": "sandbox_exec", "arguments": {
            "command": "for n in 1 2 3 4; do curl -sS $API_URL/get/$n; sleep 2; done", "operations": ["api.get"]}})
        tap.check(tap.wait_until(lambda: p.server.n_connections == 1, 20), "the first request")

        def written():
            with open(broker.log_path, encoding="utf-8") as file:
                return '"event":"operation"' in file.read()

        tap.check(tap.wait_until(written, 10), "the first request is not on record")
        size = os.stat(broker.log_path).st_size
        tap.run(["prlimit", f"--pid={broker.pid}", f"--fsize={size}:"]).expect(0)
        record = client.wait(running)["structuredContent"]
        tap.run(["prlimit", f"--pid={broker.pid}", "--fsize=unlimited:"]).expect(0)
        tap.equal(record["outcome"], "lost")
        tap.contains(record["error"]["text"], "cannot be recorded")
        tap.equal(p.server.n_connections, 2, "requests that went out")
        tap.equal(client.exec("true")["outcome"], "exited", "another call, later")


def tests():
    for fn in (curl, python, only_what_was_asked_for, secret_is_not_inside, refused_by_name,
               broker_serves, broker_denies, broker_template, broker_reload, broker_without_a_record):
        tap.case(fn.__name__.replace("_", " "), fn)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
