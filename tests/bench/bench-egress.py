#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What agentcrate-egress costs a job, which is in a net namespace of its own: how long a connection
takes to be made, bytes both ways, memory of idle connections, and what an operation with a
credential adds to curl straight to the same server. Beside it a direct connection over loopback and
a tunnel of tinyproxy (CONNECT). Rounds take turns, so that a busy machine is one to all of them; at
the end is what was to be reached."""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, HERE)
# pylint: disable=wrong-import-position
import egress
import inside
import table
import tap
import upstream

SIZE = 256 << 20
BLOCK = bytes(1 << 20)
NAME, PASSING = "server.example", "passing.example"  # the other one's address holds for no time
IDLE = 1000
WARM = 20  # operations over one connection
SECRET = "bench-" + os.urandom(16).hex()

DIRECT, RELAY, TUNNEL = "direct, over loopback", "relay of agentcrate-egress", "tunnel of tinyproxy"
RESOLVED = "relay, the name asked for each time"
STRAIGHT, OPERATION = "curl straight to the server", "an operation of agentcrate-egress"


@contextlib.contextmanager
def process(run):
    """run(), in a process of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def serve_one(connection):
    """One byte asks for one byte, another for all of them, a third brings all of them."""
    buffer = bytearray(len(BLOCK))
    with connection, contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            asked = connection.recv(1)
            if asked == b"1":
                connection.sendall(b"1")
            elif asked == b"<":
                for _ in range(SIZE // len(BLOCK)):
                    connection.sendall(BLOCK)
            elif asked == b">":
                receive_all(connection, buffer)
                connection.sendall(b".")
            else:
                return


def receive_all(connection, buffer):
    left = SIZE
    while left:
        left -= connection.recv_into(buffer, min(left, len(buffer)))


def serve_each(sock, serve):
    while True:
        connection, _ = sock.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def serve(sock):
    serve_each(sock, serve_one)


def serve_requests(sock, cert):
    """HTTP over TLS; connections are kept, but after requests for something once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*cert)
    answer, last = upstream.reply("fine"), upstream.reply("fine", fields=["Connection: close"])

    def serve_connection(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), \
                context.wrap_socket(connection, server_side=True) as tls:
            data = b""
            while True:
                more = tls.recv(65536)
                if not more:
                    return
                data += more
                if not data.endswith(b"\r\n\r\n"):
                    continue
                if data.startswith(b"GET /once/"):
                    tls.sendall(last)
                    return
                tls.sendall(answer)
                data = b""

    serve_each(sock, serve_connection)


@contextlib.contextmanager
def tinyproxy():
    """The port at which it listens; None if there is none."""
    program = shutil.which("tinyproxy")
    if not program:
        yield None
        return
    with egress.listener("127.0.0.1") as sock:
        port = sock.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tinyproxy.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 100\n"
                       f"LogLevel Critical\nLogFile \"{folder}/log\"\n")
        proxy = subprocess.Popen([program, "-d", "-c", path], stdout=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 5).close()
                    break
                time.sleep(0.05)
            yield port
        finally:
            proxy.terminate()
            proxy.wait()


def connect_direct(where):
    return socket.create_connection(tuple(where), 60)


def connect_by_proxy(proxy, where):
    sock = socket.create_connection(("127.0.0.1", proxy), 60)
    sock.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (where[0].encode(), where[1]))
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(1)
    return sock


# --- what is measured: seconds ---


def made(connect):
    """To a connection that has carried a byte each way."""
    begin = time.monotonic()
    with connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(b"1")
        sock.recv(1)
        return time.monotonic() - begin


def taken(connect):
    """All bytes from the server, over a connection that stands."""
    buffer = bytearray(len(BLOCK))
    with connect() as sock:
        sock.sendall(b"1")
        sock.recv(1)
        begin = time.monotonic()
        sock.sendall(b"<")
        receive_all(sock, buffer)
        return time.monotonic() - begin


def brought(connect):
    """All bytes to the server, until it says that it has them."""
    with connect() as sock:
        sock.sendall(b"1")
        sock.recv(1)
        begin = time.monotonic()
        sock.sendall(b">")
        for _ in range(SIZE // len(BLOCK)):
            sock.sendall(BLOCK)
        sock.recv(1)
        return time.monotonic() - begin


def asked(count, url, *options):
    """By curl, as it says: all requests of one process but the first, or the only one of it."""
    command = ["curl", "-sSf", "-o", "/dev/null", "-w", "%{time_total}\n", *options,
               f"{url}[1-{count}]"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if run.returncode:
        raise RuntimeError(f"curl: {run.stderr}")
    times = [float(line) for line in run.stdout.split()]
    return sum(times[1:]) / (count - 1) if count > 1 else times[0]


VERBS = {"made": made, "taken": taken, "brought": brought}


def job(program, where, upstream_port, authority, answers):
    """What the process inside can do, with sessions whose sockets lie in its namespace."""
    destinations = [{"name": name, "port": where[1]} for name in (NAME, PASSING)]
    session = egress.Session(program, destinations, answers,
                             credentials={"api": credential(upstream_port, authority)},
                             connections=IDLE + 10)
    held = []

    def hold():
        for _ in range(IDLE):
            sock = session.connect(NAME, where[1], timeout=60)
            sock.sendall(b"1")
            sock.recv(1)
            held.append(sock)

    def release():
        while held:
            held.pop().close()

    def connect(name=NAME):
        return session.connect(name, where[1], timeout=60)

    def ask(count, what):
        address = "%s:%d" % session.address("api.crate.internal", 80)
        return asked(count, f"http://api.crate.internal/{what}/", "--connect-to", f"::{address}")

    return {**{name: lambda verb=verb: verb(connect) for name, verb in VERBS.items()},
            "made-resolved": lambda: made(lambda: connect(PASSING)), "hold": hold,
            "release": release, "ask": ask}


def credential(port, authority):
    return {"upstream": f"https://{upstream.HOST}:{port}", "secret": "token",
            "attach": {"as": "bearer"}, "addresses": [egress.OUTSIDE + "/32"],
            "ca": authority.ca,
            "operations": {what: {"method": "GET", "path": f"/{what}/{{n:int}}"}
                           for what in ("get", "once")}}


def measure(ways, rounds):
    samples = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            seconds = way()
            if number:
                samples[name].append(seconds)
    return samples


# --- the tables ---


class Bench:
    def __init__(self, runs, within, where, proxy):
        self.runs, self.within, self.where, self.proxy = runs, within, where, proxy
        self.bars = []

    def ways(self, verb):
        what = VERBS[verb]
        ways = {DIRECT: lambda: what(lambda: connect_direct(self.where)),
                RELAY: lambda: self.within(verb)}
        if self.proxy:
            ways[TUNNEL] = lambda: what(lambda: connect_by_proxy(self.proxy, self.where))
        return ways

    def bar(self, met, text):
        self.bars.append(f"{'met   ' if met else 'missed'}  {text}")

    def connections(self):
        ways = self.ways("made")
        ways[RESOLVED] = lambda: self.within("made-resolved")
        samples = measure(ways, self.runs)
        table.print_table("a connection that has carried a byte each way", samples)
        for name in RELAY, RESOLVED:
            more = table.added(samples, name, DIRECT)
            self.bar(more <= 0.5e-3, f"a connection, {name}: {1e3 * more:+.2f} ms, at most +0.5 ms")

    def bytes(self, verb, text, rounds):
        samples = measure(self.ways(verb), rounds)
        table.print_table(f"{SIZE >> 20} MiB {text}", samples)
        rates = {name: SIZE / table.percentile(values, 50) for name, values in samples.items()}
        print()
        for name, rate in rates.items():
            print(f"{name:52} {rate / 1e6:8.0f} MB/s (p50)")
        ratio = rates[RELAY] / rates[DIRECT]
        self.bar(ratio >= 0.7, f"bytes {text}: {ratio:.2f} x direct, at least 0.7")
        if TUNNEL in rates:
            ratio = rates[RELAY] / rates[TUNNEL]
            self.bar(ratio >= 2, f"bytes {text}: {ratio:.1f} x a tunnel, at least 2")

    def memory(self, pid):
        before = memory_of(pid)
        self.within("hold")
        more = memory_of(pid) - before
        self.within("release")
        self.bar(more <= 64 << 20,
                 f"{IDLE} idle connections: {more / (1 << 20):.1f} MiB, at most 64")

    def operations(self, port, authority, rounds):
        options = ("--cacert", authority.ca, "--resolve",
                   f"{upstream.HOST}:{port}:{egress.OUTSIDE}",
                   "-H", f"Authorization: Bearer {SECRET}")
        url = f"https://{upstream.HOST}:{port}/"
        for what, count, text in (("once", 1, "a request, all connections new"),
                                  ("get", 1 + WARM, "a request, all connections kept")):
            samples = measure({STRAIGHT: lambda: asked(count, f"{url}{what}/", *options),
                               OPERATION: lambda: self.within("ask", count, what)}, rounds)
            table.print_table(text, samples)
            more = table.added(samples, OPERATION, STRAIGHT)
            self.bar(more <= 1e-3, f"{text}: {1e3 * more:+.2f} ms, at most +1 ms")


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS:"))


def secrets():
    folder = tap.folder("secrets")
    tap.write(os.path.join(folder, "token"), SECRET, 0o400)
    return {"CREDENTIALS_DIRECTORY": folder}


class Resolver(egress.Resolver):
    """Served by a process, as a resolver is."""

    def __init__(self):  # pylint: disable=super-init-not-called
        self.answers, self.asked = {name: [("A", egress.OUTSIDE)]
                                    for name in (NAME, PASSING, upstream.HOST)}, []
        self.socket = egress.listener("127.0.0.1", kind=socket.SOCK_DGRAM)
        self.address = "%s:%d" % self.socket.getsockname()

    def _answer(self, query):
        name, _ = egress.dns_read_name(query, 12)
        self.ttl = 0 if name == PASSING else 600
        return super()._answer(query)

    serve = egress.Resolver._serve


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=150, metavar="RUNS")
    options = parser.parse_args()
    listening, talking = egress.listener(egress.OUTSIDE), egress.listener(egress.OUTSIDE)
    where, port = listening.getsockname(), talking.getsockname()[1]
    authority, answers = upstream.Authority(), Resolver()
    cert = authority.sign("good")
    with process(lambda: serve(listening)), process(lambda: serve_requests(talking, cert)), \
            process(answers.serve), tinyproxy() as proxy, egress.Egress(secrets()) as program, \
            inside.Inside(lambda: job(program, where, port, authority, answers)) as within:
        bench = Bench(options.n, within, where, proxy)
        bench.connections()
        bench.bytes("taken", "to the job", max(3, options.n // 15))
        bench.bytes("brought", "from the job", max(3, options.n // 15))
        bench.memory(program.process.pid)
        bench.operations(port, authority, max(3, options.n // 5))
    print("\n" + "\n".join(bench.bars))


if __name__ == "__main__":
    main()
