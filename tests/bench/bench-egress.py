#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""What agentcrate-egress costs: bytes through a relay, and how long a connection takes to be made,
beside a direct connection over loopback and a tunnel of tinyproxy (CONNECT). Rounds take turns, so
that a busy machine is one to all of them."""

import argparse
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, HERE)
# pylint: disable=wrong-import-position
import egress
import table

SIZE = 256 << 20
BLOCK = bytes(1 << 20)
NAME = "server.example"


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
    """One byte asks for one byte, another for all of them."""
    with connection, contextlib.suppress(OSError):
        while True:
            asked = connection.recv(1)
            if asked == b"1":
                connection.sendall(b"1")
            elif asked == b"*":
                for _ in range(SIZE // len(BLOCK)):
                    connection.sendall(BLOCK)
            else:
                return


def serve(sock):
    while True:
        connection, _ = sock.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        serve_one(connection)


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
    return socket.create_connection(where, 60)


def connect_by_proxy(proxy, where):
    sock = socket.create_connection(("127.0.0.1", proxy), 60)
    sock.sendall(b"CONNECT %s:%d HTTP/1.1\r\n\r\n" % (where[0].encode(), where[1]))
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(1)
    return sock


def made(connect):
    """Seconds to a connection that has carried a byte each way."""
    begin = time.monotonic()
    with connect() as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(b"1")
        sock.recv(1)
        return time.monotonic() - begin


def moved(connect):
    """Seconds for all bytes over a connection that stands."""
    buffer = bytearray(1 << 20)
    with connect() as sock:
        sock.sendall(b"1")
        sock.recv(1)
        begin = time.monotonic()
        sock.sendall(b"*")
        left = SIZE
        while left:
            left -= sock.recv_into(buffer)
        return time.monotonic() - begin


def measure(ways, what, rounds):
    samples = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, connect in ways.items():
            seconds = what(connect)
            if number:
                samples[name].append(seconds)
    return samples


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=150, metavar="RUNS")
    options = parser.parse_args()
    listening = egress.listener(egress.OUTSIDE)
    where = listening.getsockname()
    answers = egress.Resolver.__new__(egress.Resolver)
    answers.answers, answers.asked = {NAME: [("A", egress.OUTSIDE)]}, []
    answers.socket = egress.listener("127.0.0.1", kind=socket.SOCK_DGRAM)
    answers.address = "%s:%d" % answers.socket.getsockname()
    # pylint: disable=protected-access
    with process(lambda: serve(listening)), process(answers._serve), tinyproxy() as proxy, \
            egress.Egress() as program:
        session = egress.Session(program, [{"name": NAME, "port": where[1]}], answers)
        ways = {"direct, over loopback": lambda: connect_direct(where),
                "relay of agentcrate-egress": lambda: session.connect(NAME, where[1], timeout=60)}
        if proxy:
            ways["tunnel of tinyproxy"] = lambda: connect_by_proxy(proxy, where)
        table.print_table("a connection that has carried a byte each way",
                          measure(ways, made, options.n))
        samples = measure(ways, moved, max(3, options.n // 15))
        table.print_table(f"{SIZE >> 20} MiB to the job", samples)
        print()
        for name, values in samples.items():
            print(f"{name:52} {SIZE / table.percentile(values, 50) / 1e6:8.0f} MB/s (p50)")


if __name__ == "__main__":
    main()
