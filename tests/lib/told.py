# SPDX-License-Identifier: Apache-2.0
"""What the audit says of what a job reached and was refused, line by line; and what is reached by
it: servers of the test's own, on loopback."""

import json
import os
import time

import egress
import mcp
import tap
import web

HELLO = b"hello\n"

# And what they need to send something.
INSIDE = web.INSIDE + """
def send(host, port, data=b"", timeout=10):
    try:
        # Its IPv4 address alone, so that a refusal is not tried anew with the other one.
        with socket.create_connection((socket.gethostbyname(host), port), timeout) as s:
            s.sendall(data)
            return s.recv(4096).decode("latin-1")
    except OSError as error:
        return name(error)
def get(host, more=b""):
    return b"GET / HTTP/1.1\\r\\nHost: " + host + b"\\r\\n" + more + b"\\r\\n"
"""


# --- outside ---


class Upstream(egress.Server):
    """Greets whoever connects, and keeps what it is sent."""

    def __init__(self, address="127.0.0.1"):
        self.heard = []
        super().__init__(self.greet, address)

    def greet(self, connection):
        connection.sendall(HELLO)
        self.heard.append(egress.read_all(connection))


class Source(egress.Server):
    """Sends without an end. ends: when each of those that it sent to was gone, and what it had sent."""

    def __init__(self):
        self.ends = []
        super().__init__(self.pour, "127.0.0.1")

    def pour(self, connection):
        n = 0
        try:
            while True:
                n += connection.send(bytes(1 << 16))
        except OSError:
            self.ends.append((time.monotonic(), n))

    def last(self):
        tap.check(tap.wait_until(lambda: self.ends, 10), "the connection outside is still open")
        return self.ends.pop()


# --- the audit ---


def denied(kind, name=None, count=1, reason=None, **more):
    line = {"event": "dns" if kind == "dns" else "egress", "name": name, "decision": "denied",
            "rule": "default", "kind": kind, "reason": reason, "seen": None, "count": count, **more}
    if kind in ("refused", "unrouted", "more"):
        line["rule"] = None
    return line if kind == "dns" else {"address": None, **line}


def reached(name, port, sent, received=len(HELLO), end="done", **more):
    return {"event": "egress", "name": name, "port": port, "decision": "allowed",
            "address": "127.0.0.1", "through": None, "end": end,
            "bytes": {"in": received, "out": sent}, **more}


class Told:
    """One job: what it told (seen), its result, and the lines of the audit that are about it."""

    OF_ALL = "seq", "prev", "time", "mono_ns", "trace_id"

    def __init__(self, result, records):
        self.result = result
        self.seen = json.loads(result["stdout"].splitlines()[-1]) if result["stdout"] else None
        self.end = records[-1]
        tap.equal((self.end["event"], self.end["job"]), ("end", result["job"]), "the last line")
        self.records = [line for line in records if line["call"] == self.end["call"]]
        self.lines = [self._bare(line) for line in self.records if line["event"] in ("dns", "egress")]

    def _bare(self, line):
        """A line without what all of them have."""
        line = {name: value for name, value in line.items() if name not in self.OF_ALL}
        for name in "call", "job", "tool", "tenant", "peer", "client":
            tap.equal(line.pop(name), self.end[name], f"{name} of {line}")
        if "ms" in line:
            tap.check(0 <= line.pop("ms") <= self.end["ms"]["total"] + 1, f"ms of {line}")
        return line

    def says(self, *expected):
        """These lines, and no others, in any order; and their sums, in the end of the job."""
        def text(line):
            return json.dumps(line, sort_keys=True)

        got, wanted = sorted(map(text, self.lines)), sorted(map(text, expected))
        tap.check(got == wanted, lambda: "the audit says\n  " + "\n  ".join(got) + "\nbut not\n  "
                  + "\n  ".join(wanted))
        made = [line for line in expected if line["decision"] == "allowed"]
        self.sums(connections=sum(line.get("count", 1) for line in made),
                  into=sum(line["bytes"]["in"] for line in made),
                  out=sum(line["bytes"]["out"] for line in made))

    def sums(self, **use):
        counted = sum(line["count"] for line in self.lines
                      if line.get("kind") not in (None, "refused", "unrouted"))
        given = self.end["egress"]
        tap.equal(given["denied"], counted, "denials, at the end")
        if use:
            tap.equal((given["connections"], given["in"], given["out"]),
                      (use["connections"], use["into"], use["out"]), "sums, at the end")

    def line(self, **members):
        """The only one with these members."""
        found = [line for line in self.lines
                 if all(line.get(name) == value for name, value in members.items())]
        tap.equal(len(found), 1, f"lines with {members} among {self.lines}")
        return found[0]


class Rows:
    """A broker of whose jobs each has destinations of its own."""

    def __init__(self, dns, templates, **settings):
        self.dns = dns
        shown = {name: {"ro": ["/usr"], "egress": rows} for name, rows in templates.items()}
        self.broker = mcp.Broker(env=web.environment(dns, shown, **settings))
        self.client = self.broker.client()

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.client.close()
        self.broker.__exit__(*reason)

    def run(self, template, code, **arguments):
        self.dns.asked.clear()
        result = self.client.exec(web.PYTHON, "-c", INSIDE + code, template=template, **arguments)
        return Told(result, mcp.audit_records(self.broker.log_path))

    def asked(self):
        """Names that the resolver outside was asked for."""
        return sorted({name for name, _ in self.dns.asked})


def row(name, port, kind="tcp", addresses=()):
    return {"name": name, "port": port, "type": kind, "addresses": list(addresses)}


def cpu(pid):
    """Seconds of a processor that it has had."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
