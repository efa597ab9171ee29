#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 120
"""NET-13: connections without number, which end in every way that there is, leave no file and no
memory behind in agentcrate-egress."""

import concurrent.futures
import contextlib
import os
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import tap

NAME = "ends.example"
WARMING, WORKERS = 600, 8
# What a plain user cannot see and do is a part of it: so that is tried with fewer.
CONNECTIONS = 10000 if os.geteuid() == 0 else 2000
TCP_REPAIR = 19
AT_ONCE = struct.pack("ii", 1, 0)
# States of /proc/net/tcp that cost a process nothing: TIME_WAIT, CLOSE, LISTEN.
DEAD = {"06", "07", "0A"}
KEEPALIVE = "02"


def reset(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    sock.close()


def vanish(sock):
    """Closes without a word to the other side, as if the machine had lost its power."""
    sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    sock.close()


def serve(connection):
    """Ends as the first byte says."""
    how = connection.recv(1)
    if how == b"r":
        reset(connection)
    elif how == b"h":
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        egress.read_all(connection)
    elif how == b"p":
        with contextlib.suppress(OSError):
            for _ in range(64):
                connection.sendall(bytes(1 << 14))
    elif how == b"v":
        connection.sendall(b"v")
        vanish(connection)
    elif how:
        egress.echo(connection)


# --- how a client ends; what it gets is what it should get ---


def client_resets(job):
    job.sendall(b"exy")
    tap.equal(job.recv(1), b"x")
    reset(job)


def client_is_gone(_):
    """Before a byte."""


def server_resets(job):
    job.sendall(b"r")
    tap.check(egress.read_all(job) in ("reset", b""), "a server that reset")


def client_half(job):
    job.sendall(b"ex")
    job.shutdown(socket.SHUT_WR)
    tap.equal(egress.read_all(job), b"x")


def server_half(job):
    job.sendall(b"h")
    tap.equal(egress.read_all(job), b"bye")
    job.sendall(b"more")


def client_in_transfer(job):
    """With bytes on the way that nobody reads, as when a job is killed."""
    job.sendall(b"p")
    tap.check(job.recv(1), "nothing comes")


def server_vanishes(job):
    """Nobody is told: what ends it is the limit for idle ones, and the client hears of it."""
    job.sendall(b"v")
    tap.equal(job.recv(1), b"v")
    tap.equal(egress.read_all(job), "reset", "the end of one that leads nowhere")


def client_vanishes(job):
    job.sendall(b"ex")
    tap.equal(job.recv(1), b"x")
    vanish(job)


WAYS = [client_resets, client_is_gone, server_resets, client_half, server_half, client_in_transfer]
# What only root can make a socket do, and which lasts until the limit.
VANISHING = [server_vanishes, client_vanishes]


def connect(session, port, way):
    with session.connect(NAME, port, timeout=30) as job:
        way(job)


def connect_many(session, port, n, vanishing=0):
    """So many of the ways in turn, from several threads; of the others, so many beside them."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS + vanishing) as pool:
        late = [pool.submit(connect, session, port, VANISHING[i % 2]) for i in range(vanishing)]

        def part(first):
            for i in range(first, n, WORKERS):
                connect(session, port, WAYS[i // WORKERS % len(WAYS)])

        for done in [*(pool.submit(part, first) for first in range(WORKERS)), *late]:
            done.result()


def live(ports):
    """Connections of these ports that some process still has, as /proc/net/tcp tells them."""
    found = []
    with open("/proc/net/tcp", encoding="ascii") as file:
        for line in file.readlines()[1:]:
            words = line.split()
            if words[3] not in DEAD and {int(words[i].split(":")[1], 16) for i in (1, 2)} & ports:
                found.append(words)
    return found


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def files(pid):
    return len(os.listdir(f"/proc/{pid}/fd")) if os.geteuid() == 0 else 0


@contextlib.contextmanager
def serving(**limits):
    with egress.Resolver(**{NAME.replace(".", "_"): [("A", egress.OUTSIDE)]}) as resolver, \
            egress.Server(serve) as server, egress.Egress() as program:
        resolver.ttl = 60
        yield program, server.port, lambda: egress.Session(
            program, [{"name": NAME, "port": server.port}], resolver, connections=512, **limits)
        tap.equal(program.end(), 0, "exit status")


def every_way():
    with serving(idle_ms=3000) as (program, port, begin):
        session = begin()
        ports = {port, session.address(NAME, port)[1]}
        pid = program.process.pid
        connect_many(session, port, WARMING)
        tap.check(tap.wait_until(lambda: not live(ports), 10), lambda: f"before: {live(ports)}")
        base = files(pid), resident(pid)
        began = time.monotonic()
        connect_many(session, port, CONNECTIONS, 20 if os.geteuid() == 0 else 0)
        tap.check(tap.wait_until(lambda: not live(ports), 10), lambda: f"still there: {live(ports)[:5]}")
        tap.check(tap.wait_until(lambda: files(pid) <= base[0], 10),
                  lambda: f"{base[0]} files before, {files(pid)} after")
        now = resident(pid)
        tap.diag(f"{CONNECTIONS} connections in {time.monotonic() - began:.1f} s, {now - base[1]} KiB more")
        tap.check(now - base[1] < 1024, f"{base[1]} KiB before, {now} KiB after")
        report = session.close()
        tap.check(report["connections"] >= CONNECTIONS // 2, str(report["connections"]))


def sessions_in_transfer():
    """Jobs that are killed while their connections are busy, one after the other."""
    with serving() as (program, port, begin):
        def run():
            session = begin()
            ports.update({port, session.address(NAME, port)[1]})
            jobs = [session.connect(NAME, port) for _ in range(20)]
            for i, job in enumerate(jobs):
                job.sendall(b"ph"[i % 2:][:1])
            for job in jobs:
                tap.check(job.recv(1), "nothing comes")
            session.close()
            for job in jobs:
                job.close()

        ports = set()
        run()
        base = files(program.process.pid), resident(program.process.pid)
        for _ in range(10):
            run()
        tap.check(tap.wait_until(lambda: not live(ports), 10), lambda: f"still there: {live(ports)[:5]}")
        tap.check(tap.wait_until(lambda: files(program.process.pid) <= base[0], 10),
                  lambda: f"{base[0]} files before, {files(program.process.pid)} after")
        tap.check(resident(program.process.pid) - base[1] < 4096, "memory")


def kept_alive():
    """The kernel asks a server that says nothing whether it is still there."""
    with serving() as (_, port, begin):
        session = begin()
        with session.connect(NAME, port) as job:
            job.sendall(b"ex")
            tap.equal(job.recv(1), b"x")
            outside = [words for words in live({port}) if int(words[2].split(":")[1], 16) == port]
            tap.equal(len(outside), 1, "connections to the server")
            timer, when = outside[0][5].split(":")
            tap.equal(timer, KEEPALIVE, "its timer")
            tap.check(int(when, 16) <= 60 * os.sysconf("SC_CLK_TCK"), f"in {int(when, 16)} ticks")
        session.close()


def tests():
    # Threads of the server that pour are many, and small.
    threading.stack_size(256 << 10)
    tap.case(f"NET-13: {CONNECTIONS} connections that end in every way", every_way)
    tap.case("NET-13: jobs that end in transfers", sessions_in_transfer)
    tap.case("NET-13: servers that say nothing are asked whether they are there", kept_alive)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
