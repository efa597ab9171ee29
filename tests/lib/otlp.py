# SPDX-License-Identifier: Apache-2.0
"""A collector of the test's own, which believes nothing: it checks each body against the JSON form of
OpenTelemetry's protocol, as far as traces use it."""

import http.server
import json
import re
import threading
import time

import canary
import tap

HEX_TRACE = re.compile(r"(?!0{32})[0-9a-f]{32}")
HEX_SPAN = re.compile(r"(?!0{16})[0-9a-f]{16}")
DECIMAL = re.compile(r"0|[1-9][0-9]{0,19}")
KINDS = {1: "INTERNAL", 2: "SERVER", 3: "CLIENT"}


def members(value, required, optional=()):
    tap.check(isinstance(value, dict), f"no object: {value!r}")
    tap.check(set(required) <= set(value) <= set(required) | set(optional), f"members: {value!r}")


def only(value):
    tap.check(isinstance(value, list) and len(value) == 1, f"no list of one: {value!r}")
    return value[0]


def attributes(value):
    """{key: value}; an int is told as one."""
    found = {}
    for item in value:
        members(item, ("key", "value"))
        (kind, told), = item["value"].items()
        tap.check(isinstance(told, str), f"no string: {item!r}")
        tap.check(item["key"] not in found, f"twice: {item!r}")
        if kind == "intValue":
            tap.check(re.fullmatch(r"-?[0-9]+", told), f"no decimal: {item!r}")
            told = int(told)
        else:
            tap.equal(kind, "stringValue")
        found[item["key"]] = told
    return found


class Span:
    """One span, checked."""

    def __init__(self, raw):
        members(
            raw,
            ("traceId", "spanId", "flags", "name", "kind", "startTimeUnixNano", "endTimeUnixNano",
             "attributes"),
            ("parentSpanId", "traceState", "status"),
        )
        tap.check(HEX_TRACE.fullmatch(raw["traceId"]), f"trace id: {raw!r}")
        tap.check(HEX_SPAN.fullmatch(raw["spanId"]), f"span id: {raw!r}")
        self.trace, self.id, self.name = raw["traceId"], raw["spanId"], raw["name"]
        self.parent = raw.get("parentSpanId")
        tap.check(self.parent is None or HEX_SPAN.fullmatch(self.parent), f"parent: {raw!r}")
        self.kind, self.flags, self.state = KINDS[raw["kind"]], raw["flags"], raw.get("traceState")
        for name in "startTimeUnixNano", "endTimeUnixNano":
            tap.check(DECIMAL.fullmatch(raw[name]), f"{name}: {raw!r}")
        self.start, self.end = int(raw["startTimeUnixNano"]), int(raw["endTimeUnixNano"])
        tap.check(self.start <= self.end, f"ends before it begins: {raw!r}")
        self.attributes = attributes(raw["attributes"])
        self.status = raw.get("status", {})
        members(self.status, (), ("code", "message"))
        tap.check(self.status.get("code", 2) == 2, f"status: {raw!r}")

    @property
    def failed(self):
        return "code" in self.status


def spans_of(body):
    """The spans of one ExportTraceServiceRequest."""
    canary.look(body, "a trace")

    def unique(pairs):
        tap.equal(len(dict(pairs)), len(pairs), "names of members")
        return dict(pairs)

    body = json.loads(body.decode("ascii"), object_pairs_hook=unique)
    members(body, ("resourceSpans",))
    resource = only(body["resourceSpans"])
    members(resource, ("resource", "scopeSpans"))
    members(resource["resource"], ("attributes",))
    of_resource = attributes(resource["resource"]["attributes"])
    tap.equal(set(of_resource), {"service.name", "service.version"})
    tap.equal(of_resource["service.name"], "agentcrate")
    scope = only(resource["scopeSpans"])
    members(scope, ("scope", "spans"))
    members(scope["scope"], ("name", "version"))
    return [Span(raw) for raw in scope["spans"]]


class Collector:
    """Listens while the with block lasts. answers: the statuses of the first posts, then 200; an item
    may be a function of the handler, which answers in its place."""

    def __init__(self, *answers):
        self.answers, self.posts, self.faults = list(answers), [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = collector.answers.pop(0) if collector.answers else 200
                if callable(answer):
                    answer(self)
                    return
                try:
                    tap.equal(self.headers["Content-Type"], "application/json")
                    spans = spans_of(body)
                    if answer == 200:
                        collector.posts.append((self.path, dict(self.headers), body, spans))
                except Exception as error:  # pylint: disable=broad-except
                    collector.faults.append(f"{error!r}: {body!r}")
                self.send_response(answer)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_unused):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_unused):
        self.server.shutdown()
        self.server.server_close()
        if kind is None:
            tap.check(not self.faults, "\n".join(self.faults))

    def spans(self):
        return [span for post in self.posts for span in post[3]]

    def wait(self, n_roots, seconds=20):
        """The spans, once so many calls are there."""
        tap.check(
            tap.wait_until(lambda: len(roots(self.spans())) >= n_roots or self.faults, seconds),
            lambda: f"only {len(roots(self.spans()))} of {n_roots} calls after {seconds} s",
        )
        tap.check(not self.faults, "\n".join(self.faults))
        return self.spans()


def roots(spans):
    return [span for span in spans if span.kind == "SERVER"]


def hang(handler):
    """Takes the post and never answers."""
    time.sleep(30)
    handler.close_connection = True
