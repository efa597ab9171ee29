#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 600
"""agentcrate-egress by itself, without a crate: names, connections, limits, and what it tells of
them. Rows are those of the attacks on egress, by their numbers; the ones that need a crate are
tested with one."""

import contextlib
import hashlib
import os
import socket
import ssl
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import tap

HERE = [("A", egress.OUTSIDE)]
NAME = "echo.example"


@contextlib.contextmanager
def serving(serve=egress.echo, answers=None, more=(), **options):
    """(session, port, server, resolver) of NAME, which leads to a server of the test's own."""
    port_type = options.pop("type", "tcp")
    opened = options.pop("addresses", [egress.OUTSIDE + "/32"])
    name = options.pop("name", NAME)
    with egress.Resolver(**{NAME: HERE, **(answers or {})}) as resolver, \
            egress.Server(serve) as server, egress.Egress() as program:
        row = {"name": name, "port": server.port, "type": port_type, "addresses": opened}
        yield (egress.Session(program, [row, *more], resolver, **options), server.port, server,
               resolver)
        tap.equal(program.end(), 0, "exit status")


def denied(report, kind):
    return [row for row in report["denied"] if row["kind"] == kind]


def refused(session, port, send=b"", **where):
    """Connects, sends, and returns what comes back: bytes, or "reset"."""
    try:
        with session.connect(where.pop("name", NAME), port, **where) as job:
            job.sendall(send)
            return egress.read_all(job)
    except (ConnectionResetError, BrokenPipeError):
        return "reset"


# --- the way there and back ---


def one_name():
    with serving() as (session, port, _, _):
        tap.equal(egress.look_up(session, NAME), (0, ["127.77.1.1"]), "A")
        with session.connect(NAME, port) as job:
            job.sendall(b"hello")
            tap.equal(job.recv(100), b"hello")
            job.shutdown(socket.SHUT_WR)
            tap.equal(job.recv(100), b"", "after end of file")
        report = session.close()
        use = {"connections": 1, "bytes_in": 5, "bytes_out": 5}
        tap.equal(report["names"], [{"name": NAME, "port": port, **use}], "names")
        tap.equal({key: report[key] for key in use}, use, "sums")
        tap.equal((report["denied"], report["n_dropped"]), ([], 0), "denials")
        tap.equal([(row["address"], row["end"]) for row in report["log"]],
                  [(egress.OUTSIDE, "done")], "log")


def take(connection, digest, buffer):
    """All until the end of file."""
    view = memoryview(buffer)
    while True:
        size = connection.recv_into(buffer)
        if not size:
            return digest.hexdigest()
        digest.update(view[:size])


def large_both_ways():
    """Sixteen different blocks in turn, so that one which is missing or in another place shows."""
    n, blocks = 1024, [os.urandom(1 << 20) for _ in range(16)]
    digests, expected = {}, hashlib.sha256()
    for i in range(n):
        expected.update(blocks[i % 16])

    def serve(connection):
        digests["up"] = take(connection, hashlib.sha256(), bytearray(1 << 20))
        for i in range(n):
            connection.sendall(blocks[i % 16])

    with serving(serve) as (session, port, _, _):
        with session.connect(NAME, port, timeout=60) as job:
            for i in range(n):
                job.sendall(blocks[i % 16])
            job.shutdown(socket.SHUT_WR)
            digests["down"] = take(job, hashlib.sha256(), bytearray(1 << 20))
        tap.equal(digests, {"up": expected.hexdigest(), "down": expected.hexdigest()}, "digests")
        report = session.close()
        tap.equal((report["bytes_in"], report["bytes_out"]), (n << 20, n << 20), "bytes")


def half_close_of_the_server():
    def serve(connection):
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        heard.append(egress.read_all(connection))

    heard = []
    with serving(serve) as (session, port, _, _):
        with session.connect(NAME, port) as job:
            tap.equal(egress.read_all(job), b"bye")
            time.sleep(0.05)
            job.sendall(b"still here")
        tap.wait_until(lambda: heard)
        tap.equal(heard, [b"still here"])


def ipv6_here():
    try:
        egress.listener("::1", family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def ipv6():
    if not ipv6_here():
        raise tap.Skip("host has no IPv6 on loopback")
    with egress.Resolver(**{NAME: [("AAAA", "::1")]}) as resolver, \
            egress.Server(egress.echo, "::1", socket.AF_INET6) as server, \
            egress.Egress() as program:
        row = {"name": NAME, "port": server.port, "addresses": ["::1/128"]}
        session = egress.Session(program, [row], resolver, v6=True)
        for family in socket.AF_INET, socket.AF_INET6:
            tap.equal(egress.look_up(session, NAME, 28, family=family), (0, ["fd00:ac::1"]), "AAAA")
        with session.connect(NAME, server.port, family=1) as job:
            job.sendall(b"six")
            tap.equal(job.recv(10), b"six")
        tap.equal(session.close()["log"][0]["address"], "::1")


def happy_eyeballs():
    """Addresses that refuse, or lead nowhere, cost a quarter of a second at most."""
    answers = {NAME: [("A", "127.88.0.9"), ("A", "127.88.0.8"), ("A", egress.OUTSIDE)]}
    with serving(answers=answers, addresses=["127.88.0.0/24"]) as (session, port, _, _):
        with session.connect(NAME, port) as job:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x")
        tap.equal(session.close()["log"][0]["address"], egress.OUTSIDE)


# --- names ---


def row_1_2():
    with serving() as (session, _, _, resolver):
        for kind in (1, 28, 16, 255, 10, 15, 33, 65, 64, 12, 5):
            tap.equal(egress.look_up(session, "secret-data.evil.example", kind), (3, []), kind)
            if kind not in (1,):
                tap.equal(egress.look_up(session, NAME, kind), (0, []), f"{NAME}, type {kind}")
        report = session.close()
        tap.equal(report["denied"],
                  [{"kind": "dns", "name": "secret-data.evil.example", "count": 11}])
        tap.equal(resolver.asked, [], "what went out")


def row_3():
    answers = {f"n{i}.wild.example": HERE for i in range(8)}
    with serving(name="*.wild.example", slots=4, answers=answers) as (session, port, _, resolver):
        tap.equal(egress.look_up(session, "wild.example"), (3, []), "the name itself")
        for i in range(4):
            tap.equal(egress.look_up(session, f"n{i}.wild.example"), (0, [f"127.77.1.{i + 1}"]))
        tap.equal(egress.look_up(session, "n1.WILD.example"), (0, ["127.77.1.2"]), "again")
        tap.equal(egress.look_up(session, "n4.wild.example"), (5, []), "a fifth name")
        tap.equal(resolver.asked, [], "what went out before somebody connects")
        with session.connect("*.wild.example", port, slot=2) as job:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x")
        tap.equal({name for name, _ in resolver.asked}, {"n2.wild.example"}, "what went out")
        report = session.close()
        tap.equal(denied(report, "limit"), [{"kind": "limit", "name": "n4.wild.example",
                                             "reason": "names", "count": 1}])
        tap.equal([row["name"] for row in report["log"]], ["n2.wild.example"])


def wildcard_slot_of_nobody():
    with serving(name="*.wild.example", slots=4) as (session, port, server, _):
        tap.equal(refused(session, port, name="*.wild.example", slot=3), "reset")
        tap.equal(server.n_connections, 0)


def row_4():
    label = b"\x3f" + b"a" * 63
    wire = {
        "upper case": (b"\x04ECHO\x07example\x00", 0),
        "underscore": (b"\x0a_x._y_z.aa\x00", 3),
        "NUL": (b"\x0aevil.com\0a\x04echo\x07example\x00", 3),
        "dot in a label": (b"\x0cecho.example\x00", 3),
        "space": (b"\x05ec ho\x07example\x00", 3),
        "percent": (b"\x07echo%00\x07example\x00", 3),
        "not ASCII": (b"\x05\xc3\xa9cho\x07example\x00", 3),
        "a label of 64": (b"\x40" + b"a" * 64 + b"\x00", 1),
        "255 bytes": (label * 3 + b"\x3d" + b"b" * 61 + b"\x00", 3),
        "256 bytes": (label * 3 + b"\x3e" + b"b" * 62 + b"\x00", 1),
        "root": (b"\x00", 3),
    }
    with serving(more=[{"name": "xn--bcher-kva.example", "port": 1}]) as (session, *_):
        for what, (name, code) in wire.items():
            got = egress.dns_answer(egress.ask(session, egress.dns_query(name)))
            tap.equal(got[0], code, what)
        tap.equal(egress.look_up(session, "xn--bcher-kva.example")[0], 0, "punycode")
        names = [row.get("name") for row in denied(session.close(), "dns")]
        tap.contains(names, "evil\\046com\\000a.echo.example")
        tap.contains(names, "echo\\046example")


def whole_answers():
    """The longest answer there can be is whole in a datagram, and the same by TCP: nobody is told to ask
    again by TCP because it was cut."""
    longest = ".".join(["a" * 63] * 3 + ["b" * 46, "wild.example"])
    tap.equal(len(longest), 251, "length of the name")
    with serving(name="*.wild.example", slots=1, v6=ipv6_here()) as (session, *_):
        for kind in (1, 28, 16):
            plain = egress.dns_query(longest, kind)
            edns = plain[:11] + b"\1" + plain[12:] + b"\0\0\x29\2\0\0\0\0\0\0\0"
            for query in plain, edns:
                reply = egress.ask(session, query)
                tap.check(len(reply) <= 512 and not reply[2] & 2, f"{len(reply)} bytes, flags {reply[2]:02x}")
                with socket.create_connection(session.dns[socket.AF_INET, socket.SOCK_STREAM], 10) as sock:
                    sock.sendall(struct.pack("!H", len(query)) + query)
                    tap.equal(sock.recv(4096), struct.pack("!H", len(reply)) + reply, "by TCP")


def row_19():
    header = struct.Struct("!HHHHHH")
    question = egress.dns_name(NAME) + struct.pack("!HH", 1, 1)
    answers = {
        "loop": (header.pack(1, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\x00\x01\x00\x01", 1),
        "pointer": (header.pack(1, 0x100, 1, 0, 0, 0) + b"\x04echo\xc0\x0c\x00\x01\x00\x01", 1),
        "no question": (header.pack(1, 0x100, 0, 0, 0, 0), 1),
        "65535 questions": (header.pack(1, 0x100, 65535, 0, 0, 0) + question, 1),
        "answers": (header.pack(1, 0x100, 1, 1, 0, 0) + question, 1),
        "cut": (header.pack(1, 0x100, 1, 0, 0, 0) + question[:-1], 1),
        "records that are not there": (header.pack(1, 0x100, 1, 0, 0, 1) + question, 1),
        "65535 records": (header.pack(1, 0x100, 1, 0, 0, 65535) + question, 1),
        "notify": (header.pack(1, 0x2100, 1, 0, 0, 0) + question, 4),
        "class ANY": (header.pack(1, 0x100, 1, 0, 0, 0) + question[:-2] + b"\x00\xff", 5),
        "EDNS": (header.pack(1, 0x100, 1, 0, 0, 1) + question
                 + b"\0\0\x29\x10\0\0\0\0\0\0\0", 0),
        "EDNS 1": (header.pack(1, 0x100, 1, 0, 0, 1) + question
                   + b"\0\0\x29\x10\0\0\1\0\0\0\0", 0),  # BADVERS, of which 0 is the low part
    }
    silent = {"empty": b"", "header cut": b"\0" * 11,
              "an answer": header.pack(1, 0x8180, 1, 0, 0, 0) + question}
    with serving() as (session, *_):
        for what, message in silent.items():
            tap.equal(egress.ask(session, message, timeout=0.2), None, what)
        for what, (message, code) in answers.items():
            tap.equal(egress.dns_answer(egress.ask(session, message))[0], code, what)
        stream_lies(session)
        tap.equal(egress.look_up(session, NAME)[0], 0, "after all that")


def stream_lies(session):
    """Framing of DNS over TCP."""
    where = session.dns[socket.AF_INET, socket.SOCK_STREAM]
    query = egress.dns_query(NAME)
    framed = struct.pack("!H", len(query)) + query
    with socket.create_connection(where, 10) as sock:
        for byte in framed + framed:
            sock.sendall(bytes([byte]))
        got = b""
        while len(got) < 2 * (2 + len(query) + 16):
            got += sock.recv(4096)
        size, = struct.unpack_from("!H", got)
        tap.equal(egress.dns_answer(got[2:2 + size]), (0, ["127.77.1.1"]), "by TCP")
    for what, data in (("no length", b"\0\0"), ("more than there may be", b"\xff\xff" + query),
                       ("no query", b"\0\x05abcde")):
        with socket.create_connection(where, 10) as sock:
            sock.sendall(data)
            tap.check(egress.read_all(sock) in (b"", "reset"), what)
    held = [socket.create_connection(where, 10) for _ in range(16)]
    time.sleep(0.1)
    with socket.create_connection(where, 10) as sock:
        tap.check(egress.read_all(sock) in (b"", "reset"), "more connections than there may be")
    for sock in held:
        sock.close()


def row_62():
    """A flood of refused names: few lines, the rest counted, and little time of the processor."""
    def cpu():
        with open(f"/proc/{session.egress.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    with serving() as (session, port, _, _):
        before, end, n = cpu(), time.monotonic() + 2, 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(session.dns[socket.AF_INET, socket.SOCK_DGRAM])
            while time.monotonic() < end:
                sock.send(egress.dns_query(f"n{n}.evil.example"))
                n += 1
        used = cpu() - before
        with session.connect(NAME, port) as job:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x", "a relay meanwhile")
        report = session.close()
        tap.equal(len(report["denied"]), 80, "lines of one kind")
        tap.check(report["n_dropped"] > 1000, f"{n} asked, {report['n_dropped']} told as dropped")
        tap.check(used < 1.0, f"{used} s of the processor for {n} questions in 2 s")


# --- addresses ---


CLASSES = {
    "127.0.0.1": "loopback", "0.0.0.0": "unspecified", "10.1.2.3": "private",
    "172.16.0.1": "private", "192.168.0.1": "private", "169.254.1.1": "link-local",
    "100.64.0.1": "shared", "224.0.0.1": "multicast", "255.255.255.255": "broadcast",
    "240.0.0.1": "reserved", "192.0.0.1": "protocol", "198.18.0.1": "benchmark",
    "192.0.2.1": "documentation", "198.51.100.1": "documentation", "203.0.113.1": "documentation",
    "::1": "loopback", "fd00::1": "private", "fe80::1": "link-local", "ff02::1": "multicast",
    "::ffff:127.0.0.1": "loopback", "64:ff9b::a00:1": "private", "2002:7f00:1::": "loopback",
}
METADATA = ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192",
            "fd20:ce::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe")


def family_of(address):
    return "AAAA" if ":" in address else "A"


def judged(address, opened):
    """What becomes of a destination that resolves to that address."""
    answers = {NAME: [(family_of(address), address)]}
    with serving(answers=answers, addresses=opened) as (session, port, _, _):
        got = refused(session, port)
        report = session.close()
        tap.equal((got, report["connections"]), ("reset", 0), address)
        return denied(report, "address")


def row_10():
    answers = {f"a{i}.example": [(family_of(address), address)]
               for i, address in enumerate(CLASSES)}
    with egress.Resolver(**answers) as resolver, egress.Egress() as program:
        rows = [{"name": name, "port": 9, "addresses": []} for name in answers]
        session = egress.Session(program, rows, resolver)
        for name in answers:
            tap.equal(refused(session, 9, name=name), "reset", name)
        report = session.close()
        got = {row["name"]: (row["address"], row["class"]) for row in denied(report, "address")}
        tap.equal(got, dict(zip(answers, CLASSES.items())), "classes")
        tap.equal(report["connections"], 0)


def row_11():
    everything = ["0.0.0.0/0", "::/0"]
    for address in METADATA:
        tap.equal([row["class"] for row in judged(address, everything)], ["metadata"], address)


def unreachable():
    """What was allowed and could not be had is told with why: else a job has no trace of it."""
    answers = {"shut.example": [("A", "127.0.0.1")]}
    with egress.Resolver(**answers) as resolver, egress.Egress() as program:
        rows = [{"name": name, "port": 9, "addresses": ["127.0.0.0/8"]}
                for name in ("gone.example", "shut.example")]
        session = egress.Session(program, rows, resolver)
        for row in rows:
            tap.equal(refused(session, 9, name=row["name"]), "reset", row["name"])
        report = session.close()
    tap.equal(denied(report, "unreachable"),
              [{"kind": "unreachable", "name": "gone.example", "port": 9, "reason": "not-resolved",
                "count": 1},
               {"kind": "unreachable", "name": "shut.example", "port": 9, "reason": "not-connected",
                "address": "127.0.0.1", "count": 1}])


def row_13():
    """In a net namespace that has an address which nothing else forbids."""
    ran = tap.run(["unshare", *(() if os.geteuid() == 0 else ("-Ur",)), "-n", sys.executable, "-B",
                   os.path.abspath(__file__), "--own-addresses"])
    tap.equal((ran.rc, ran.err), (0, b""), "the test within")


def own_addresses_within():
    for command in "link set lo up", "addr add 11.22.33.44/32 dev lo":
        tap.equal(tap.run(["ip", *command.split()]).rc, 0, command)
    tap.equal([row["class"] for row in judged("11.22.33.44", [])], ["host"], "an address")
    with serving(answers={NAME: [("A", "11.22.33.55")]}) as (session, port, _, _):
        tap.equal(tap.run(["ip", "addr", "add", "11.22.33.55/32", "dev", "lo"]).rc, 0, "ip")
        tap.equal(refused(session, port), "reset")
        tap.equal([row["class"] for row in denied(session.close(), "address")], ["host"],
                  "an address that came later")
    with egress.Resolver(**{NAME: [("A", "11.22.33.44")]}) as resolver, \
            egress.Server(egress.echo, "11.22.33.44") as server, egress.Egress() as program:
        row = {"name": NAME, "port": server.port, "addresses": ["11.22.33.44/32"]}
        session = egress.Session(program, [row], resolver)
        with session.connect(NAME, server.port) as job:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x", "one that was opened")


def policy_denies():
    with serving(deny=["127.88.0.0/16"]) as (session, port, server, _):
        tap.equal(refused(session, port), "reset")
        tap.equal(denied(session.close(), "address"),
                  [{"kind": "address", "name": NAME, "port": port, "class": "policy",
                    "address": egress.OUTSIDE, "count": 1}])
        tap.equal(server.n_connections, 0)


def net_9():
    """Whatever is opened, by network or address, and whatever stands before what: what is denied wins,
    and takes nothing with it that it does not name."""
    for opened in (["127.88.0.0/16"], [egress.OUTSIDE + "/32"], ["127.88.0.0/16", egress.OUTSIDE]):
        for deny, reached in (([egress.OUTSIDE], False), (["127.88.0.0/16"], False), (["127.0.0.0/8"], False),
                              (["127.88.0.2"], True), (["127.89.0.0/16"], True), (["other.example"], True)):
            for listed in (["::/0", *deny], [*deny, "::/0"]):
                with serving(deny=listed, addresses=opened) as (session, port, _, _):
                    tap.equal(refused_or_echo(session, port), reached, f"{opened} opened, {listed} denied")
                    tap.equal([row["class"] for row in denied(session.close(), "address")],
                              [] if reached else ["policy"], f"{opened} opened, {listed} denied")


def net_9_names():
    """The same by name: of a wildcard's names those that are denied are asked for in vain."""
    denies = ["*.in.wild.example", "one.wild.example"]
    answers = {name: HERE for name in ("one.wild.example", "two.wild.example", "a.in.wild.example")}
    for listed in (denies, denies[::-1], ["10.0.0.0/8", *denies]):
        with serving(name="*.wild.example", answers=answers, deny=listed) as (session, port, _, resolver):
            for name in ("one.wild.example", "ONE.wild.example", "a.in.wild.example", "b.a.in.wild.example"):
                tap.equal(egress.look_up(session, name), (3, []), name)
            tap.equal(egress.look_up(session, "two.wild.example")[0], 0, "another name")
            tap.equal(egress.look_up(session, "in.wild.example")[0], 0, "the name above a wildcard")
            tap.equal(resolver.asked, [], "what went out")
            tap.check(refused_or_echo(session, port, name="*.wild.example"), "another name")
            rows = denied(session.close(), "dns")
            tap.equal({(row["name"], row["reason"], row["count"]) for row in rows},
                      {("one.wild.example", "policy", 2), ("a.in.wild.example", "policy", 1),
                       ("b.a.in.wild.example", "policy", 1)})


def row_14():
    """The second answer is never asked for within one connection, nor obeyed in the next."""
    n = []

    def answer():
        n.append(1)
        return [("A", egress.OUTSIDE if len(n) <= 2 else "127.0.0.1")]

    with serving(answers={NAME: answer}) as (session, port, server, resolver):
        with session.connect(NAME, port) as job:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x")
        tap.equal(sorted(kind for _, kind in resolver.asked), [1, 28], "questions of a connection")
        tap.equal(refused(session, port), "reset")
        report = session.close()
        tap.equal([row["address"] for row in denied(report, "address")], ["127.0.0.1"])
        tap.equal(server.n_connections, 1)


def known_names():
    """An answer is used again as long as its server says, and checked each time."""
    with serving() as (session, port, _, resolver):
        for ttl, count in ((0, 2), (600, 1)):
            resolver.ttl = ttl
            resolver.asked.clear()
            for _ in range(2):
                with session.connect(NAME, port) as job:
                    job.sendall(b"x")
                    tap.equal(job.recv(1), b"x")
            asked = sum(row == (NAME, 1) for row in resolver.asked)
            tap.equal(asked, count, f"questions for addresses that hold {ttl} s")


def row_16():
    answers = {NAME: [("CNAME", "internal.corp.example"), ("A", "10.0.0.1")],
               "far.example": [("CNAME", "cdn.example"), ("A", egress.OUTSIDE), ("AAAA", "2001:4860::1")]}
    with serving(answers=answers) as (session, port, _, _):
        tap.equal(refused(session, port), "reset")
        report = session.close()
        tap.equal(report["log"][0]["through"], "internal.corp.example")
        tap.equal([row["class"] for row in denied(report, "address")], ["private"])
    with serving(name="far.example", answers=answers) as (session, port, _, _):
        with session.connect("far.example", port) as job:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x", "behind a CNAME")
        tap.equal(session.close()["log"][0]["through"], "cdn.example")


def row_17():
    """A port that is not allowed has no listener; so there is one socket for each that is."""
    with serving() as (session, port, _, _):
        address, _ = session.address(NAME, port)
        try:
            socket.create_connection((address, 9), 5).close()
        except ConnectionRefusedError:
            return
        raise tap.Failed("a port without a listener was connected to")


# --- TLS ---


def client_hello(name, **context_options):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for key, value in context_options.items():
        setattr(context, key, value)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def tls_passes():
    hello = client_hello(NAME)
    cut = len(hello) // 2
    records = (b"\x16\x03\x01" + struct.pack("!H", cut) + hello[5:5 + cut]
               + b"\x16\x03\x01" + struct.pack("!H", len(hello) - 5 - cut) + hello[5 + cut:])
    with serving(type="tls") as (session, port, _, _):
        for what, data in (("whole", hello), ("upper case", client_hello(NAME.upper())),
                           ("in two records", records)):
            with session.connect(NAME, port) as job:
                job.sendall(data + b"more")
                got = b""
                while len(got) < len(data) + 4:
                    got += job.recv(65536)
                tap.equal(got, data + b"more", what)
        with session.connect(NAME, port) as job:
            for byte in hello:
                job.sendall(bytes([byte]))
            got = b""
            while len(got) < len(hello):
                got += job.recv(65536)
            tap.equal(got, hello, "byte by byte")
        tap.equal(session.close()["denied"], [])


def row_20():
    alert = bytes([21, 3, 1, 0, 2, 2, 112])
    with serving(type="tls") as (session, port, server, resolver):
        for name in "evil.example", NAME + ".evil.example", "x" + NAME, None:
            tap.equal(refused(session, port, client_hello(name)), alert, str(name))
        rows = denied(session.close(), "sni")
        tap.equal([(row["reason"], row.get("seen")) for row in rows],
                  [("mismatch", "evil.example"), ("mismatch", NAME + ".evil.example"),
                   ("mismatch", "x" + NAME), ("missing", None)])
        tap.equal((server.n_connections, resolver.asked), (0, []), "what went out")


def extension(kind, data):
    return struct.pack("!HH", kind, len(data)) + data


def server_name(*names, kind=0):
    entries = b"".join(struct.pack("!BH", kind, len(name)) + name for name in names)
    return extension(0, struct.pack("!H", len(entries)) + entries)


def own_hello(*extensions, version=b"\x03\x03", record=1 << 14, more=b""):
    """A ClientHello of these extensions, in records of that size."""
    body = version + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0"
    if extensions:
        joined = b"".join(extensions)
        body += struct.pack("!H", len(joined)) + joined
    whole = b"\1" + struct.pack("!I", len(body))[1:] + body + more
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(whole[at:at + record])) + whole[at:at + record]
                    for at in range(0, len(whole), record))


def row_20_shapes():
    """What tells two readers two names, or hides the one: refused. In pieces of any size, and with an
    encrypted name beside the right one, it is what it is."""
    name, evil = NAME.encode(), b"evil.example"
    good = {
        "plain": own_hello(server_name(name)),
        "records of a byte": own_hello(server_name(name), record=1),
        "an encrypted one, too": own_hello(extension(0xfe0d, bytes(200)), server_name(name)),
    }
    bad = {
        "two extensions": own_hello(server_name(name), server_name(evil)),
        "twice the same": own_hello(server_name(name), server_name(name)),
        "two names": own_hello(server_name(name, evil)),
        "another kind of name": own_hello(server_name(name, kind=1)),
        "nothing": own_hello(server_name(b"")),
        "no list": own_hello(extension(0, b"")),
        "NUL": own_hello(server_name(name + b"\0.evil.example")),
        "two dots": own_hello(server_name(name + b"..")),
        "port": own_hello(server_name(name + b":443")),
        "address": own_hello(server_name(b"127.88.0.1")),
        "only an encrypted one": own_hello(extension(0xfe0d, bytes(200))),
        "another name outside": own_hello(extension(0xfe0d, bytes(200)), server_name(b"cover.example")),
        "no extensions": own_hello(),
        "behind a record of another kind": b"\x15\3\1\0\2\1\0" + own_hello(server_name(name)),
        "behind an empty record": b"\x16\3\1\0\0" + own_hello(server_name(name)),
        "longer than there may be": b"\x16\3\1\x40\0\1\xff\xff\xff" + bytes(100),
        "SSL 2": b"\x80\x2e\1\3\1\0\x15\0\0\0\x10" + bytes(40),
    }
    with serving(type="tls") as (session, port, server, resolver):
        for what, data in bad.items():
            got = refused(session, port, data)
            tap.check(got == "reset" or len(got) <= 7, lambda what=what, got=got: f"{what}: {got!r}")
            tap.equal((server.n_connections, resolver.asked), (0, []), what)
        for what, data in good.items():
            with session.connect(NAME, port) as job:
                job.sendall(data)
                tap.equal(job.recv(len(data), socket.MSG_WAITALL), data, what)
        tap.equal(sum(row["count"] for row in denied(session.close(), "sni")), len(bad))


def row_22():
    with serving(type="tls") as (session, port, server, _):
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", b"\x16\x03\x01\x00\x00", b"\x80\x2e"
                     b"\x01\x00\x02", b"\x16\x02\x00\x00\x05", b"\x16\x03\x01\x00\x04\x02\0\0\0"):
            tap.equal(refused(session, port, data), b"", data)
        tap.equal(denied(session.close(), "sni"),
                  [{"kind": "sni", "name": NAME, "port": port, "reason": "not-tls", "count": 6}])
        tap.equal(server.n_connections, 0)


def row_23():
    """What is inside of TLS is not seen, and so not told apart: documented."""
    hello = client_hello(NAME)
    with serving(type="tls") as (session, port, server, _):
        with session.connect(NAME, port) as job:
            job.sendall(hello + b"Host: other.example")
            tap.check(job.recv(65536), "nothing came back")
        tap.equal(server.n_connections, 1)


# --- HTTP ---


def http_request(host, more="", line="GET / HTTP/1.1", body=""):
    return f"{line}\r\nHost: {host}\r\n{more}\r\n{body}".encode()


def http_passes():
    chunked = "Transfer-Encoding: chunked\r\n"
    with serving(type="http") as (session, port, _, _):
        for host in NAME, NAME.upper(), NAME + ".", f"{NAME}:{port}":
            request = (http_request(host) + http_request(host, "Content-Length: 5\r\n",
                                                         "POST /x HTTP/1.1", "12345")
                       + http_request(host, chunked, "PUT / HTTP/1.1",
                                      "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n")
                       + http_request(host))
            with session.connect(NAME, port) as job:
                job.sendall(request)
                got = b""
                while len(got) < len(request):
                    got += job.recv(65536)
                tap.equal(got, request, host)
        tap.equal(session.close()["denied"], [])


def http_half_close():
    """The end of what a client sends reaches its server, and the answer the client."""
    def serve(connection):
        heard.append(egress.read_all(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    heard = []
    with serving(serve, type="http") as (session, port, server, _):
        with session.connect(NAME, port) as job:
            job.sendall(http_request(NAME))
            tap.check(tap.wait_until(lambda: server.n_connections), "nobody was dialled")
            job.shutdown(socket.SHUT_WR)
            tap.equal(egress.read_all(job), b"HTTP/1.1 200 OK\r\n\r\n")
        tap.equal(heard, [http_request(NAME)])
        tap.equal(session.close()["log"][0]["end"], "done")


def http_host():
    with serving(type="http") as (session, port, server, _):
        for host in "evil.example", NAME + ".evil.example", f"{NAME}:{port + 1}", "":
            got = refused(session, port, http_request(host))
            tap.check(got.startswith(b"HTTP/1.1 421 "), f"{host}: {got!r}")
        tap.equal(server.n_connections, 0)
        # A second request on a connection that was let through.
        with session.connect(NAME, port) as job:
            job.sendall(http_request(NAME))
            tap.check(job.recv(65536), "the first request")
            job.sendall(http_request("evil.example"))
            tap.equal(egress.read_all(job), "reset", "the second request")
        # The same in one piece with the first, and behind content that ends where it says.
        for first in (http_request(NAME), http_request(NAME, "Content-Length: 3\r\n", "POST / HTTP/1.1", "abc"),
                      http_request(NAME, "Transfer-Encoding: chunked\r\n", "POST / HTTP/1.1", "1\r\na\r\n0\r\n\r\n")):
            with session.connect(NAME, port) as job:
                job.sendall(first + http_request("evil.example"))
                got = egress.read_all(job)
                tap.check(got == "reset" or b"evil" not in got, got)
        report = session.close()
        tap.equal(sum(row["count"] for row in denied(report, "host")), 8)


def http_targets():
    """Forms of a request that name where it goes in another place than Host, or twice."""
    refusals = {
        "absolute": (400, http_request(NAME, line="GET http://evil.example/ HTTP/1.1")),
        "absolute, for the name": (400, http_request(NAME, line=f"GET http://{NAME}/ HTTP/1.1")),
        "authority": (400, http_request(NAME, line="GET evil.example HTTP/1.1")),
        "CONNECT": (400, http_request(NAME, line="CONNECT evil.example:443 HTTP/1.1")),
        "user": (421, http_request(f"{NAME}@evil.example")),
        "user for the name": (421, http_request(f"evil.example@{NAME}")),
        "list": (421, http_request(f"{NAME}, evil.example")),
        "two dots": (421, http_request(NAME + "..")),
        "port of words": (421, http_request(NAME + ":http")),
        "space": (421, http_request(NAME + " evil.example")),
        "none": (400, b"GET / HTTP/1.1\r\nX: y\r\n\r\n"),
        "folded": (400, b"GET / HTTP/1.1\r\nHost:\r\n " + NAME.encode() + b"\r\n\r\n"),
    }
    with serving(type="http") as (session, port, server, resolver):
        for what, (status, request) in refusals.items():
            got = refused(session, port, request)
            tap.check(isinstance(got, bytes) and got.split(b" ")[1:2] in ([b"%d" % status], [b"405"]),
                      lambda what=what, got=got: f"{what}: {got!r}")
        tap.equal((server.n_connections, resolver.asked), (0, []), "what went out")
        tap.equal(sum(row["count"] for row in denied(session.close(), "host")), len(refusals))


def http_smuggling():
    lines = {
        "both lengths": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "two lengths": "Content-Length: 5\r\nContent-Length: 5\r\n",
        "two hosts": f"Host: {NAME}\r\n",
        "identity": "Transfer-Encoding: chunked, identity\r\n",
        "space": "Transfer-Encoding : chunked\r\n",
        "fold": "X: a\r\n b\r\n",
        "bare LF": "X: a\n",
        "NUL": "X: a\0b\r\n",
    }
    with serving(type="http") as (session, port, server, _):
        for what, more in lines.items():
            got = refused(session, port, http_request(NAME, more))
            tap.check(got.startswith(b"HTTP/1.1 400 "), f"{what}: {got!r}")
        tap.equal(server.n_connections, 0)
        for body in ("5;x=y\r\n", "+5\r\n", "0x5\r\n", "5\n", "\r\n", "1" * 17, "1\r\nab",
                     "0\r\nX: y\r\n"):
            with session.connect(NAME, port) as job:
                job.sendall(http_request(NAME, "Transfer-Encoding: chunked\r\n"))
                tap.check(job.recv(65536), "the head")
                job.sendall(body.encode())
                tap.equal(egress.read_all(job), "reset", body)


def row_25():
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    with serving(type="http") as (session, port, _, _):
        got = refused(session, port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        tap.check(got.startswith(b"HTTP/1.1 400 "), got)
        got = refused(session, port, http_request(NAME, "Upgrade: websocket\r\n"))
        tap.check(got.startswith(b"HTTP/1.1 501 "), got)
        with session.connect(NAME, port) as job:
            job.sendall(http_request(NAME, offer + "Accept: */*\r\n"))
            tap.equal(job.recv(65536), http_request(NAME, "Accept: */*\r\n"), "the offer of h2c")


# --- limits ---


def row_26_connections():
    with serving(connections=3) as (session, port, server, _):
        held = [session.connect(NAME, port) for _ in range(3)]
        for job in held:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x")
        tap.equal(refused(session, port), "reset")
        held.pop().close()
        tap.wait_until(lambda: server.n_connections == 3)

        def again():
            return refused_or_echo(session, port)

        tap.check(tap.wait_until(again), "a place that was given back")
        for job in held:
            job.close()
        row, = denied(session.close(), "limit")
        tap.equal((row["name"], row["reason"]), (NAME, "connections"))


def refused_or_echo(session, port, name=NAME):
    try:
        with session.connect(name, port) as job:
            job.sendall(b"y")
            return job.recv(1) == b"y"
    except OSError:
        return False


def row_26_idle():
    with serving(idle_ms=200) as (session, port, _, _):
        with session.connect(NAME, port) as job:
            job.sendall(b"x")
            tap.equal(job.recv(1), b"x")
            tap.equal(egress.read_all(job), "reset")
        row, = denied(session.close(), "limit")
        tap.equal(row["reason"], "idle")


def net_6():
    """A stream lasts as long as something comes now and then; nothing limits the whole."""
    def serve(connection):
        for _ in range(8):
            connection.sendall(b"x")
            time.sleep(0.1)

    with serving(serve, idle_ms=400) as (session, port, _, _):
        with session.connect(NAME, port) as job:
            tap.equal(egress.read_all(job), b"x" * 8, "what came in twice the time of an idle one")
        report = session.close()
        tap.equal((report["denied"], report["log"][0]["end"]), ([], "done"))


def row_26_slow_head():
    """Who does not say in time whom it wants is refused, whatever it sends a byte at a time."""
    for kind, begin in (("tls", b"\x16\x03\x01"), ("http", b"GET / HTTP/1.1\r\nHost: ")):
        with serving(type=kind, head_ms=200) as (session, port, server, _):
            with session.connect(NAME, port) as job:
                job.sendall(begin)
                tap.equal(egress.read_all(job), "reset", kind)
            tap.equal(server.n_connections, 0, "connections")
            row, = denied(session.close(), "limit")
            tap.equal(row["reason"], "head")


def row_26_bytes():
    with serving(bytes=100000) as (session, port, _, _):
        with session.connect(NAME, port) as job:
            with contextlib.suppress(OSError):
                for _ in range(100):
                    job.sendall(bytes(10000))
            got = egress.read_all(job)
            tap.check(got == "reset" or len(got) <= 200000, "more than there may be")
        tap.equal(refused(session, port), "reset", "another one")
        report = session.close()
        tap.check({row["reason"] for row in denied(report, "limit")} == {"bytes"}, report)
        # What is under way when the limit is met, and no more.
        tap.check(report["bytes_in"] + report["bytes_out"] < 1000000, report)


def row_26_slow_reader():
    """Who reads nothing holds up only its own server, with a bounded part of what that sends."""
    sent = []

    def serve(connection):
        connection.settimeout(2)
        n = 0
        with contextlib.suppress(OSError):
            while n < 256 << 20:
                n += connection.send(bytes(1 << 20))
        sent.append(n)

    with serving(serve) as (session, port, _, _):
        with session.connect(NAME, port) as job:
            job.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            tap.check(tap.wait_until(lambda: sent, 30), "the server still sends")
            tap.check(sent[0] < 64 << 20, f"{sent[0]} bytes were taken off the server")


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    return 0


def row_26_idle_memory():
    """A thousand connections, each of which has moved something, in both directions."""
    n = 1000
    with serving(connections=n) as (session, port, _, _):
        pid = session.egress.process.pid
        before = memory_of(pid)
        held = []
        try:
            for _ in range(n):
                job = session.connect(NAME, port)
                held.append(job)
                job.sendall(bytes(4096))
            for job in held:
                got = 0
                while got < 4096:
                    got += len(job.recv(4096))
            after = memory_of(pid)
            files = len(os.listdir(f"/proc/{pid}/fd")) if os.geteuid() == 0 else 0
        finally:
            for job in held:
                job.close()
        tap.diag(f"{n} idle relays: {(after - before) >> 10} KiB, {files} files")
        tap.check(after - before < 64 << 20, f"{after - before} bytes")
        tap.check(files < 2 * n + 100, f"{files} files are open")


def row_26_floods():
    """All at once: beginnings of TLS, HTTP and DNS that never end, names without number. The process
    stays small, and another session does not notice."""
    with egress.Resolver(**{NAME: HERE}) as resolver, egress.Server(egress.echo) as server, \
            egress.Egress() as program:
        rows = [{"name": f"{kind}.example", "port": server.port, "type": kind} for kind in ("tls", "http")]
        hostile = egress.Session(program, [*rows, {"name": "*.wild.example", "port": server.port}], resolver,
                                 connections=64)
        other = egress.Session(program, [{"name": NAME, "port": server.port}], resolver)
        before, held = memory_of(program.process.pid), []
        with other.connect(NAME, server.port) as job, contextlib.ExitStack() as stack:
            for i in range(64):
                kind = ("tls", "http")[i % 2]
                sock = stack.enter_context(hostile.connect(kind + ".example", server.port))
                sock.sendall(b"\x16\3\1\x40\0\1\0\x7f\xf0" + bytes(16000) if kind == "tls" else
                             b"GET / HTTP/1.1\r\nHost: http.example\r\nX: " + b"x" * 30000)
                held.append(sock)
            for _ in range(20):
                sock = stack.enter_context(socket.create_connection(
                    hostile.dns[socket.AF_INET, socket.SOCK_STREAM], 10))
                with contextlib.suppress(OSError):
                    sock.sendall(b"\2\0" + bytes(400))
            udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            udp.connect(hostile.dns[socket.AF_INET, socket.SOCK_DGRAM])
            slowest = 0
            for i in range(20000):
                udp.send(egress.dns_query(f"n{i}.wild.example" if i % 2 else "a." * 60 + f"n{i}.evil.example"))
                if i % 1000 == 0:
                    begin = time.monotonic()
                    job.sendall(b"still here")
                    tap.equal(job.recv(100), b"still here", "the other session")
                    slowest = max(slowest, time.monotonic() - begin)
            used = memory_of(program.process.pid) - before
        tap.diag(f"{used >> 10} KiB more; the slowest answer of the other took {slowest * 1000:.1f} ms")
        tap.check(used < 16 << 20, f"{used} bytes")
        tap.check(slowest < 2, f"the other session waited {slowest} s")
        report = hostile.close()
        tap.check(len(report["denied"]) <= 100 and report["n_dropped"] > 0, f"{len(report['denied'])} lines")
        tap.equal(other.close()["denied"], [])
        tap.equal(program.end(), 0)


def row_27():
    gone = []

    def serve(connection):
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begin < 20:
                connection.sendall(bytes(65536))
        gone.append(time.monotonic())

    with serving(serve) as (session, port, _, _):
        job = session.connect(NAME, port)
        tap.check(job.recv(65536), "nothing comes")
        closed = time.monotonic()
        job.close()
        tap.check(tap.wait_until(lambda: gone, 10), "the server still sends")
        tap.check(gone[0] - closed < 1, f"closed after {gone[0] - closed} s")
        report = session.close()
        tap.check(report["bytes_in"] > 65536, "bytes are told")
        tap.equal(report["log"][0]["end"], "reset")


def row_27_close():
    """The end of a session, and that of the link, close everything that belongs to it."""
    heard = []

    def serve(connection):
        heard.append(egress.read_all(connection))

    with serving(serve) as (session, port, server, _):
        with session.connect(NAME, port) as job:
            tap.check(tap.wait_until(lambda: server.n_connections), "no connection")
            report = session.close()
            tap.equal(egress.read_all(job), "reset", "the job's end")
            tap.check(tap.wait_until(lambda: heard, 1), "the server's end is open")
            tap.equal(report["log"][0]["end"], "closed")
        for where in session.address(NAME, port), session.dns[socket.AF_INET, socket.SOCK_STREAM]:
            try:
                socket.create_connection(where, 5).close()
            except ConnectionRefusedError:
                continue
            raise tap.Failed("a socket of the session still listens")


def row_60():
    """There is nothing to trick: what a job may set is its own, and egress has no environment."""
    with serving() as (session, port, _, _):
        with session.connect(NAME, port) as job:
            job.sendall(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
            tap.check(job.recv(100).startswith(b"CONNECT"), "the destination itself answers")
        tap.equal(egress.look_up(session, "dns.google"), (3, []), "DoH by a name that is no one's")


# --- traces ---


def http_reply(connection):
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(65536)
        if not data:
            return
        head += data
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def silent(connection):
    egress.read_all(connection)


def a_collector_that_hangs():
    """Whatever it does, relays go on, and the post ends in its time."""
    with serving() as (session, port, _, _), egress.Server(silent) as collector:
        program = session.egress
        program.collect(f"http://{egress.OUTSIDE}:{collector.port}/v1/traces", 1500)
        begin = time.monotonic()
        program.post(1000, b"{}")
        tap.check(tap.wait_until(lambda: collector.n_connections), "nothing was posted")
        for _ in range(5):
            with session.connect(NAME, port) as job:
                job.sendall(b"x")
                tap.equal(job.recv(1), b"x", "a relay meanwhile")
        tap.check(time.monotonic() - begin < 1.4, "relays waited for the collector")
        status, text = program.posted(1000)
        tap.equal(status, 0)
        tap.contains(text, "timed out")


def collectors():
    """By address and by a name that is looked up; posts one after the other; one that is not there."""
    with egress.Server(http_reply) as collector, egress.Egress() as program:
        program.collect(f"http://localhost:{collector.port}/v1/traces", 2000)
        program.post(1, b"{}")
        status, text = program.posted(1)
        tap.check(status == 0 and text, "a port where nobody listens")
    for host, expected in ((egress.OUTSIDE, 200), ("no.such.name.invalid", 0)):
        with egress.Server(http_reply) as collector, egress.Egress() as program:
            program.collect(f"http://{host}:{collector.port}/v1/traces", 2000)
            for ident in 1, 2:
                program.post(ident, b"{}")
                status, text = program.posted(ident)
                tap.equal(status, expected, f"{host}: {text}")
            if not expected:
                tap.check(text, "no reason is given")


# --- the link ---


def bad_documents():
    good = {"dns": [-1] * 4, "names": [], "deny": [],
            "limits": {"connections": 1, "idle_ms": 1, "bytes": 0}}
    name = {"name": "a.example", "slots": [["127.0.0.1", "::1"]],
            "ports": [{"port": 1, "type": "tcp", "addresses": [], "sockets": [[-1, -1]]}]}
    bad = {
        b"": None,
        b"{": "JSON",
        b"[]": "object",
        b'{"dns":[-1,-1,-1,-1]}': "lacks",
    }
    with egress.Egress() as program:
        for document, text in bad.items():
            if text:
                expect_failed(program, document, text)
        for change, text in (({"more": 1}, '"more" is unknown'), ({"dns": [0, -1, -1, -1]}, "dns"),
                             ({"deny": ["x y"]}, "network"), ({"limits": {}}, "lacks"),
                             ({"resolver": {"servers": ["x"]}}, "ADDRESS:PORT"),
                             ({"names": [{**name, "name": "*"}]}, "name of a host"),
                             ({"names": [{**name, "name": "*.com"}]}, "name of a host"),
                             ({"names": [{**name, "name": "a..b"}]}, "name of a host"),
                             ({"names": [{**name, "name": "A.example"}]}, "name of a host"),
                             ({"names": [name, name]}, "second time"),
                             ({"names": [{**name, "slots": [["::1", "::1"]]}]}, "pair")):
            expect_failed(program, {**good, **change}, text)
        datagram = egress.listener("127.0.0.1", kind=socket.SOCK_DGRAM)
        expect_failed(program, {**good, "dns": [-1, 0, -1, -1]}, "socket 0", [datagram])
        ident = program.open(good, [])
        tap.equal(program.close(ident)["names"], [])
        tap.equal(program.end(), 0)


def expect_failed(program, document, text, sockets=()):
    try:
        program.open(document, list(sockets))
    except egress.Failed as why:
        tap.contains(str(why), text, str(document))
    else:
        raise tap.Failed(f"was taken: {document!r}")


def broken_protocol():
    """A host that breaks the protocol has its link closed."""
    def of_an_open_session(program):
        ident = program.open({"dns": [-1] * 4, "names": [], "deny": [],
                              "limits": {"connections": 1, "idle_ms": 1, "bytes": 0}}, [])
        fd = egress.memfd(b"{}")
        program.link.send(egress.OPEN, ident, struct.pack("<II", 0, 0), [fd])

    def of_too_many(program):
        program.link.send(egress.OPEN, 1, struct.pack("<II", 513, 0), [egress.memfd(b"{}")])

    def of_no_memfd(program):
        program.link.send(egress.OPEN, 1, struct.pack("<II", 0, 0), [0])

    def of_id_0(program):
        program.link.send(egress.OPEN, 0, struct.pack("<II", 0, 0), [egress.memfd(b"{}")])

    def of_a_type(program):
        program.link.send(1, 1)

    for breach in of_an_open_session, of_too_many, of_no_memfd, of_id_0, of_a_type:
        with egress.Egress() as program:
            breach(program)
            try:
                while True:
                    program.link.receive()
            except egress.Gone:
                pass
            tap.equal(program.end(), 1, f"exit status after {breach.__name__}")
    with egress.Egress() as program:
        program.link.send(egress.CLOSE, 77)
        program.link.send(egress.SOCKETS, 77, struct.pack("<II", 0, 1), [0])
        expect_failed(program, b"{", "JSON")


def sessions_apart():
    """Two sessions with the same name: each has its own listeners, report and end."""
    with egress.Resolver(**{NAME: HERE}) as resolver, egress.Server(egress.echo) as server, \
            egress.Egress() as program:
        row = {"name": NAME, "port": server.port}
        one = egress.Session(program, [row], resolver)
        two = egress.Session(program, [row], resolver)
        with one.connect(NAME, server.port) as first, two.connect(NAME, server.port) as second:
            first.sendall(b"1")
            second.sendall(b"22")
            tap.equal((first.recv(9), second.recv(9)), (b"1", b"22"))
            tap.equal(one.close()["bytes_in"], 1)
            second.sendall(b"22")
            tap.equal(second.recv(9), b"22", "the other one lives on")
        tap.equal(two.close()["bytes_in"], 4)


def hidden():
    """Nobody but root looks into it, and it can write nothing and execute nothing."""
    with egress.Egress() as program:
        program.open({"dns": [-1] * 4, "names": [], "deny": [],
                      "limits": {"connections": 1, "idle_ms": 1, "bytes": 0}}, [])
        pid = program.process.pid
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        for name in "CapEff", "CapPrm", "CapInh", "CapAmb":
            tap.equal(int(status[name], 16), 0, name)
        tap.equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "filter")
        tap.equal(status["Threads"], "1")
        tap.equal(os.stat(f"/proc/{pid}/mem").st_uid, 0, "owner of its memory")
        if os.geteuid() != 0:
            for name in "environ", "mem", "maps":
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        file.read(1)
                except PermissionError:
                    continue
                raise tap.Failed(f"{name} can be read")


def main():
    tap.case("one name is answered, relayed and reported", one_name)
    tap.case("1 GiB each way arrives whole", large_both_ways)
    tap.case("a server that has ended is still sent to", half_close_of_the_server)
    tap.case("IPv6 within and outside", ipv6)
    tap.case("an address that does not answer is followed by the next", happy_eyeballs)
    tap.case("rows 1, 2: no question leaves, whatever its type", row_1_2)
    tap.case("row 3: a wildcard's names, bounded, resolved when connected to", row_3)
    tap.case("an address that was given to no name is refused", wildcard_slot_of_nobody)
    tap.case("row 4: odd names", row_4)
    tap.case("NET-11: no answer is cut", whole_answers)
    tap.case("row 19: what is no question", row_19)
    tap.case("row 62: a flood of questions", row_62)
    tap.case("row 10: addresses of each class", row_10)
    tap.case("row 11: metadata, although everything is opened", row_11)
    tap.case("an allowed name that cannot be had is told of", unreachable)
    tap.case("row 13: addresses of this machine", row_13)
    tap.case("what the operator denies is not opened", policy_denies)
    tap.case("NET-09: what is denied wins over what is opened", net_9)
    tap.case("NET-09: names that are denied among those of a wildcard", net_9_names)
    tap.case("row 14: rebinding", row_14)
    tap.case("an answer is used as long as it holds", known_names)
    tap.case("row 16: a CNAME", row_16)
    tap.case("row 17: a port that is not allowed", row_17)
    tap.case("TLS for the name passes", tls_passes)
    tap.case("row 20: TLS for another name, or none", row_20)
    tap.case("row 20: shapes of TLS that hide a name", row_20_shapes)
    tap.case("row 22: no TLS", row_22)
    tap.case("row 23: inside of TLS nothing is seen", row_23)
    tap.case("HTTP for the name passes", http_passes)
    tap.case("a client that has said all is answered over HTTP", http_half_close)
    tap.case("row 28 of plain HTTP: each request's Host is looked at", http_host)
    tap.case("rows 28, 29 of plain HTTP: targets that are none of the name's", http_targets)
    tap.case("rows 28, 32 of plain HTTP: shapes that hide requests", http_smuggling)
    tap.case("row 25: HTTP/2 and changes of protocol", row_25)
    tap.case("row 26: connections at one time", row_26_connections)
    tap.case("row 26: idle connections", row_26_idle)
    tap.case("NET-06: a stream that is slow", net_6)
    tap.case("row 26: heads that do not come", row_26_slow_head)
    tap.case("row 26: bytes", row_26_bytes)
    tap.case("row 26: a reader that does not read", row_26_slow_reader)
    tap.case("row 26: memory of 1,000 idle connections", row_26_idle_memory)
    tap.case("row 26, 62: floods of what never ends", row_26_floods)
    tap.case("row 27: a job that dies", row_27)
    tap.case("row 27: a session that ends", row_27_close)
    tap.case("row 60: no proxy, no other resolver", row_60)
    tap.case("a collector that hangs holds up nobody", a_collector_that_hangs)
    tap.case("collectors, and what is none", collectors)
    tap.case("documents that are wrong", bad_documents)
    tap.case("a host that breaks the protocol", broken_protocol)
    tap.case("sessions do not know each other", sessions_apart)
    tap.case("it is hidden and bound", hidden)


if __name__ == "__main__":
    if sys.argv[1:] == ["--own-addresses"]:
        own_addresses_within()
        sys.exit(0)
    sys.exit(tap.main(main))
