# SPDX-License-Identifier: Apache-2.0
"""agentcrate-egress by itself: the test is its host, its jobs, its resolver and the servers outside.

Listeners lie at addresses of 127.77.0.0/16, as they would lie at synthetic ones in a crate; servers
at 127.88.0.1, which is opened to a destination by `addresses`. So nothing needs root."""

import array
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading

import canary
import tap

HEADER = struct.Struct("<HBBHHII")
MAGIC, VERSION, FDS_MAX = 0x4143, 1, 8
COLLECTOR, POST, OPEN, SOCKETS, CLOSE = range(384, 389)
POSTED, READY, FAILED, ENDED, OPERATION = range(448, 453)
OPERATION_FRAME = struct.Struct("<36s68s36s68sIIQQQQQQ400s")
OUTSIDE = "127.88.0.1"
SEALS = (fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)


def memfd(data):
    """A sealed memfd."""
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    return fd


class Gone(Exception):
    """The link has ended."""


class Link:
    """Frames over a socket."""

    def __init__(self, sock):
        self.socket = sock

    def send(self, kind, ident, payload=b"", fds=()):
        header = HEADER.pack(MAGIC, VERSION, len(fds), kind, 0, ident, len(payload))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([header + payload], rights)
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None

    def receive(self, timeout=10):
        """(type, id, payload, fds)"""
        if not select.select([self.socket], [], [], timeout)[0]:
            raise tap.Failed("agentcrate-egress says nothing")
        try:
            data, rights, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4 * FDS_MAX))
        except ConnectionResetError:
            raise Gone from None
        if not data:
            raise Gone
        fds = array.array("i")
        for _, _, part in rights:
            fds.frombytes(part[:len(part) - len(part) % 4])
        magic, version, n_fds, kind, zero, ident, length = HEADER.unpack_from(data)
        tap.equal((magic, version, n_fds, zero, length),
                  (MAGIC, VERSION, len(fds), 0, len(data) - HEADER.size), "header of a frame")
        return kind, ident, data[HEADER.size:], list(fds)


class Failed(Exception):
    """A session was not opened; the text says why."""


class Egress:
    """The program, as a child with its link."""

    def __init__(self, env=None):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = theirs.fileno()

        def prepare():
            os.dup2(fd, 3)
            os.set_inheritable(3, True)

        self.process = subprocess.Popen(
            [tap.libexec("agentcrate-egress")], preexec_fn=prepare, close_fds=True, pass_fds=(3,),
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env={canary.VARIABLE: canary.WORD, **(env or {})}, cwd="/")
        theirs.close()
        self.link = Link(ours)
        self.next_id = 1
        self.answers = {}
        self.operations = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """By its link, and returns the exit status."""
        self.link.socket.close()
        try:
            rc = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise tap.Failed("agentcrate-egress does not end with its link") from None
        if not self.process.stderr.closed:
            with self.process.stderr as file:
                tap.equal(file.read(), b"", "what agentcrate-egress printed")
        return rc

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def answer(self, ident, kinds, timeout=10):
        """The next frame of that session."""
        while not self.answers.get(ident):
            kind, got, payload, fds = self.link.receive(timeout)
            if kind == OPERATION:
                self._note_operation(got, payload)
                continue
            self.answers.setdefault(got, []).append((kind, payload, fds))
        kind, payload, fds = self.answers[ident].pop(0)
        tap.check(kind in kinds, f"answer of type {kind}")
        return kind, payload, fds

    def collect(self, url, timeout_ms):
        """Names the collector of traces."""
        fd = memfd(url.encode() + b"\0\0")
        self.link.send(COLLECTOR, 0, struct.pack("<II", timeout_ms, 0), [fd])
        os.close(fd)

    def post(self, ident, body):
        fd = memfd(body)
        self.link.send(POST, ident, b"", [fd])
        os.close(fd)

    def posted(self, ident, timeout=10):
        """(status of HTTP, why there is none)"""
        _, payload, _ = self.answer(ident, (POSTED,), timeout)
        status, _, text = struct.unpack("<II512s", payload)
        return status, text.split(b"\0")[0].decode()

    def _note_operation(self, ident, payload):
        canary.look(payload, "what is told of an operation")
        (*texts, status, was_denied, out, into, usec, dropped,
         _tokens_in, _tokens_out, text) = OPERATION_FRAME.unpack_from(payload)
        words = payload[OPERATION_FRAME.size:].split(b"\0")[0].decode().split()
        names = "credential", "operation", "reason", "digest"
        self.operations.append({
            **{name: text.split(b"\0")[0].decode() for name, text in zip(names, texts)},
            "session": ident, "status": status, "denied": bool(was_denied), "bytes_out": out,
            "bytes_in": into, "usec": usec, "dropped": dropped,
            "text": text.split(b"\0")[0].decode(),
            "parameters": dict(zip(words[::2], words[1::2]))})

    def wait_operations(self, count, timeout=10):
        """All operations that were told of, once there are so many."""
        while len(self.operations) < count:
            kind, got, payload, _ = self.link.receive(timeout)
            tap.equal(kind, OPERATION, "type of a frame")
            self._note_operation(got, payload)
        return self.operations

    def open(self, document, sockets):
        """Opens a session with this document (bytes or dict); the sockets are closed here."""
        ident = self.next_id
        self.next_id += 1
        if not isinstance(document, bytes):
            document = json.dumps(document).encode()
        fd = memfd(document)
        self.link.send(OPEN, ident, struct.pack("<II", len(sockets), 0), [fd])
        os.close(fd)
        for first in range(0, len(sockets), FDS_MAX):
            part = sockets[first:first + FDS_MAX]
            self.link.send(SOCKETS, ident, struct.pack("<II", first, len(part)),
                           [sock.fileno() for sock in part])
        for sock in sockets:
            sock.close()
        kind, payload, _ = self.answer(ident, (READY, FAILED))
        if kind == FAILED:
            raise Failed(payload.split(b"\0")[0].decode())
        return ident

    def close(self, ident):
        """Closes the session; its report, with the counters of the frame as "sums"."""
        self.link.send(CLOSE, ident)
        _, payload, fds = self.answer(ident, (ENDED,))
        with os.fdopen(fds[0], "rb") as file:
            file.seek(0)
            text = file.read()
        canary.look(text, "the report of a session")
        report = json.loads(text)
        sums = struct.unpack("<QQQQ", payload)
        tap.equal(sums[:3], (report["connections"], report["bytes_in"], report["bytes_out"]),
                  "counters")
        tap.equal(sums[3], sum(row["count"] for row in report["denied"]) + report["n_dropped"],
                  "number of denials")
        return report


def listener(address, port=0, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    sock = socket.socket(family, kind)
    if kind == socket.SOCK_STREAM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    if kind == socket.SOCK_STREAM:
        sock.listen(512)
    return sock


class Session:
    """A session of these destinations: {"name", "port", "type", "addresses"} each. where[name, port]
    is where its listeners are: one for each slot, each a list of addresses by family. Credentials
    are what their files say, by name, and are at where[NAME.crate.internal, 80]."""

    def __init__(self, egress, destinations, resolver=None, deny=(), slots=2, v6=False,
                 credentials=None, **limits):
        self.egress, self.sockets, self.where = egress, [], {}
        self.dns = {}
        numbers = []
        for family, address in ((socket.AF_INET, "127.77.0.1"), (socket.AF_INET6, "::1")):
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                if family == socket.AF_INET6 and not v6:
                    numbers.append(-1)
                    continue
                sock = listener(address, 0, family, kind)
                self.dns[family, kind] = sock.getsockname()[:2]
                numbers.append(self._add(sock))
        self.document = {
            "dns": numbers,
            "names": self._names(destinations, slots, v6),
            "deny": list(deny),
            "limits": {"connections": 64, "idle_ms": 300000, "bytes": 0, **limits},
        }
        if credentials:
            self.document["credentials"] = [
                self._credential(n, name, row) for n, (name, row) in enumerate(credentials.items())]
        if resolver:
            self.document["resolver"] = {"servers": [resolver.address]}
        self.ident = egress.open(self.document, self.sockets)

    def _add(self, sock):
        self.sockets.append(sock)
        return len(self.sockets) - 1

    def _names(self, destinations, slots, v6):
        names, n = {}, 1
        for row in destinations:
            if row["name"] not in names:
                count = slots if row["name"].startswith("*.") else 1
                pairs = [[f"127.77.1.{n + i}", f"fd00:ac::{n + i:x}"] for i in range(count)]
                n += count
                names[row["name"]] = {"name": row["name"], "slots": pairs, "ports": []}
            name = names[row["name"]]
            port = {"port": row["port"], "type": row.get("type", "tcp"),
                    "addresses": row.get("addresses", [OUTSIDE + "/32"]), "sockets": []}
            where = self.where.setdefault((row["name"], row["port"]), [])
            for pair in name["slots"]:
                four = listener(pair[0])
                pair_where = [four.getsockname()[:2]]
                numbers = [self._add(four), -1]
                if v6:
                    six = listener("::1", family=socket.AF_INET6)
                    pair_where.append(six.getsockname()[:2])
                    numbers[1] = self._add(six)
                where.append(pair_where)
                port["sockets"].append(numbers)
            name["ports"].append(port)
        return list(names.values())

    def _credential(self, number, name, row):
        pair = [f"127.77.2.{number + 1}", f"fd00:ac::ff{number:02x}"]
        four = listener(pair[0])
        self.where[name + ".crate.internal", 80] = [[four.getsockname()[:2]]]
        entry = {"name": name, "slots": [pair], "sockets": [[self._add(four), -1]]}
        if row.get("ca"):
            with open(row["ca"], encoding="ascii") as file:
                entry["ca"] = file.read()
        entry["credential"] = row
        return entry

    def address(self, name, port, slot=0, family=0):
        return self.where[name, port][slot][family]

    def connect(self, name, port, slot=0, family=0, timeout=10):
        return socket.create_connection(self.address(name, port, slot, family), timeout)

    def close(self):
        return self.egress.close(self.ident)


class Resolver:
    """A DNS server of the test's own: answers[name] is a list of ("A" | "AAAA" | "CNAME", text), or
    a function that gives one. It notes what was asked."""

    TYPES = {"A": 1, "CNAME": 5, "AAAA": 28}
    ttl = 0  # seconds for which an answer may be used again
    place = "127.0.0.1"

    def __init__(self, **answers):
        self.answers = {name.replace("_", "."): value for name, value in answers.items()}
        self.asked = []
        self.family = socket.AF_INET6 if ":" in self.place else socket.AF_INET
        self.socket = listener(self.place, 0, self.family, socket.SOCK_DGRAM)
        self.address = ("[%s]:%d" if ":" in self.place else "%s:%d") % self.socket.getsockname()[:2]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with socket.socket(self.family, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()

    def _serve(self):
        while True:
            query, peer = self.socket.recvfrom(4096)
            if not query:
                return
            with contextlib.suppress(IndexError, struct.error):
                self.socket.sendto(self._answer(query), peer)

    def _answer(self, query):
        name, at = dns_read_name(query, 12)
        kind, = struct.unpack_from("!H", query, at)
        self.asked.append((name, kind))
        found = self.answers.get(name)
        if callable(found):
            found = found()
        body, n, owner = b"", 0, name
        for row_type, text in found or ():
            if row_type == "CNAME":
                data = dns_name(text)
            elif self.TYPES[row_type] != kind:
                continue
            else:
                data = socket.inet_pton(
                    socket.AF_INET if row_type == "A" else socket.AF_INET6, text)
            body += (b"\xc0\x0c" if owner == name else dns_name(owner)) + struct.pack("!HHIH", self.TYPES[row_type], 1, self.ttl,
                                                len(data))
            body += data
            n += 1
            if row_type == "CNAME":
                owner = text
        code = 3 if found is None else 0
        return (query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, n, 0, 0) + query[12:at + 4]
                + body)


def dns_name(name):
    return b"".join(bytes([len(label)]) + label.encode("latin-1")
                    for label in name.split(".") if label) + b"\0"


def dns_read_name(message, at):
    labels = []
    while message[at]:
        length = message[at]
        if length >= 0xC0:
            name, _ = dns_read_name(message, (length & 0x3F) << 8 | message[at + 1])
            return ".".join(labels + [name]), at + 2
        labels.append(message[at + 1:at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels), at + 1


def dns_query(name, kind=1, ident=0x1234, question=None, cls=1):
    """name: text, or the bytes of the question's name."""
    wire = name if isinstance(name, bytes) else dns_name(name)
    return (struct.pack("!HHHHHH", ident, 0x0100, 1, 0, 0, 0)
            + (question or wire + struct.pack("!HH", kind, cls)))


def dns_answer(reply):
    """(code, addresses)"""
    _, flags, questions, n, _, _ = struct.unpack_from("!HHHHHH", reply)
    at = 12
    for _ in range(questions):
        _, at = dns_read_name(reply, at)
        at += 4
    found = []
    for _ in range(n):
        _, at = dns_read_name(reply, at)
        _, _, _, size = struct.unpack_from("!HHIH", reply, at)
        data = reply[at + 10:at + 10 + size]
        found.append(socket.inet_ntop(socket.AF_INET if size == 4 else socket.AF_INET6, data))
        at += 10 + size
    return flags & 15, found


def ask(session, query, family=socket.AF_INET, timeout=2):
    """By UDP; None if there is no answer."""
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(timeout)
        sock.connect(session.dns[family, socket.SOCK_DGRAM])
        sock.send(query)
        try:
            return sock.recv(65535)
        except socket.timeout:
            return None


def look_up(session, name, kind=1, **more):
    return dns_answer(ask(session, dns_query(name, kind), **more))


class Server:
    """A TCP server outside: serve(connection) runs in a thread for each. It counts."""

    def __init__(self, serve, address=OUTSIDE, family=socket.AF_INET):
        self.socket = listener(address, 0, family)
        self.port = self.socket.getsockname()[1]
        self.serve, self.n_connections, self.threads = serve, 0, []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.n_connections += 1
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        with connection, contextlib.suppress(OSError):
            self.serve(connection)


def echo(connection):
    while True:
        data = connection.recv(65536)
        if not data:
            return
        connection.sendall(data)


def read_all(sock, limit=1 << 30):
    """Up to end of file, or a reset: then "reset" stands in its place."""
    parts, size = [], 0
    try:
        while size < limit:
            data = sock.recv(1 << 18)
            if not data:
                break
            parts.append(data)
            size += len(data)
    except ConnectionResetError:
        return "reset"
    return b"".join(parts)
