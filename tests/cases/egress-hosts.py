#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root
# test-timeout: 180
"""Hosts that have one family of addresses only, or on which one leads nowhere (NET-15), and hosts with
other users (NET-14). They are net namespaces of the test's own, in which it starts itself again:
resolver, servers, agentcrate-egress and the crates' runner all live there, and nobody else."""

import contextlib
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import mcp
import tap
from web import (INSIDE, LOOPBACK, PYTHON, Blob, Web, crate, destination, environment, fetch, python,
                 resolver)

FOUR, SIX = "11.22.33.44", "2606:4700::44"
# Where whoever wants to connect is never answered.
LOST_FOUR, LOST_SIX = "11.22.34.99", "2606:4700:1::99"
OPEN = "@11.22.0.0/16,2606:4700::/32"
# Less than is waited for an address that does not answer, before the next one is tried.
WAITING = 0.2

ANSWERS = {
    "dual.example": [("A", FOUR), ("AAAA", SIX)],
    "lost-four.example": [("A", LOST_FOUR), ("AAAA", SIX)],
    "lost-six.example": [("A", FOUR), ("AAAA", LOST_SIX)],
}


def inside(function):
    """Runs that one of this file in a net namespace of its own."""
    ran = tap.run(["unshare", "-n", sys.executable, "-B", os.path.abspath(__file__), function.__name__],
                  timeout=100)
    tap.equal((ran.rc, ran.err), (0, b""), f"{function.__name__} within: {ran.err.decode()[-800:]}")


@contextlib.contextmanager
def full(address, port):
    """A server whose queue is full: it answers nobody any more."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.socket(family))
        server.bind((address, port))
        server.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket(family))
            client.setblocking(False)
            client.connect_ex((address, port))
        yield


def setup(*commands):
    for command in commands:
        tap.run(command.split()).expect(0)


# --- NET-15: within such a namespace ---

# Five times each, so that one slow answer of a busy machine is none of ours.
CONNECT = """
def get(host, port, family):
    at = next(a for a in find(host) if (":" in a) == (family == 6))
    began = time.monotonic()
    with socket.create_connection((at, port), 10) as s:
        s.sendall(b"GET /hello HTTP/1.1\\r\\nHost: " + host.encode() + b"\\r\\nConnection: close\\r\\n\\r\\n")
        answer = b""
        while data := s.recv(4096):
            answer += data
    return answer.startswith(b"HTTP/1.1 200"), time.monotonic() - began
"""
CLIENTS = {
    "curl": "curl -sS -m 10 {url}",
    "python": PYTHON + " -c \"import urllib.request; print(urllib.request.urlopen('{url}').read().decode(), end='')\"",
    "node": "node -e \"fetch('{url}').then(r => r.text()).then(t => process.stdout.write(t))\"",
}


def fetches(env, name, port):
    """Ordinary clients reach that name, and nobody waits for an address that does not answer."""
    allow = [f"{name}:{port}/http{OPEN}"]
    commands = [command.replace("{url}", f"http://{name}:{port}/hello") for command in CLIENTS.values()]
    crate(env, "sh", "-c", "; ".join(commands), allow=allow).expect(0, out=f"hello from {name}\n" * len(CLIENTS))
    seen, record = python(env, CONNECT + f"""
tell(got=[[get({name!r}, {port}, family) for _ in range(5)] for family in (4, 6)])
""", allow)
    for family, rows in zip((4, 6), seen["got"]):
        tap.check(all(good for good, _ in rows), f"{name}, family {family} inside: {rows}")
        fastest = min(seconds for _, seconds in rows)
        tap.check(fastest < WAITING, f"{name}, family {family} inside: {fastest} s at least")
    tap.equal([row for row in record["denied"] if row["kind"] != "refused"], [], name)


def serve(*rows):
    """For each name a server at one of its addresses, and nobody who answers at the other."""
    with resolver() as dns:
        dns.answers, dns.ttl = ANSWERS, 60
        env = environment(dns)
        for name, address, *lost in rows:
            with Web(address) as web, contextlib.ExitStack() as stack:
                for other in lost:
                    stack.enter_context(full(other, web.port))
                fetches(env, name, web.port)


def four_only():
    for name in "all", "default":
        with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w", encoding="ascii") as file:
            file.write("1")
    setup("ip link set lo up", f"ip addr add {FOUR}/32 dev lo")
    serve(("dual.example", FOUR))


def six_only():
    setup("ip link set lo up", "ip addr del 127.0.0.1/8 dev lo", f"ip addr add {SIX}/128 dev lo nodad")
    egress.Resolver.place = "::1"
    serve(("dual.example", SIX))


def both(*more):
    setup("ip link set lo up", *(f"ip addr add {address}/{32 if '.' in address else 128} dev lo"
                                 for address in (FOUR, SIX, *more)))


def one_refuses():
    """Both families, one of which has no server."""
    both()
    serve(("dual.example", FOUR), ("dual.example", SIX))


def one_is_lost():
    """Both families, one of which answers nothing: that is waited for once, not each time."""
    both(LOST_FOUR, LOST_SIX)
    serve(("lost-four.example", SIX, LOST_FOUR), ("lost-six.example", FOUR, LOST_SIX))


# --- NET-14: within such a namespace ---

LISTENS = 0x10000  # flag of /proc/net/unix
SERVING = INSIDE + """
servers = [socket.create_server(("127.0.0.1", 8000)), socket.create_server(("0.0.0.0", 8001))]
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 8000))
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\\0of-the-job")
abstract.listen()
import urllib.request
print(urllib.request.urlopen(sys.argv[1]).read().decode(), end="", flush=True)
sys.stdin.readline()
"""
PROBE = """
import socket, sys
for where in sys.argv[1:]:
    host, _, port = where.rpartition(":")
    kind = socket.AF_UNIX if not port.isdigit() else socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(kind) as s:
        s.settimeout(5)
        try:
            s.connect((host, int(port)) if port.isdigit() else where.replace("@", "\\0"))
        except OSError:
            continue
        print(where, "is open")
"""


def open_ports():
    """What anybody in this namespace could send to, by its table."""
    found = set()
    for table in "tcp", "tcp6", "udp", "udp6":
        with open(f"/proc/net/{table}", encoding="ascii") as file:
            for line in file.readlines()[1:]:
                _, local, peer, state, *_ = line.split()
                if state == "0A" or table.startswith("udp") and not int(peer.replace(":", ""), 16):
                    found.add((table, local))
    with open("/proc/net/unix", encoding="utf-8") as file:
        for line in file.readlines()[1:]:
            _, _, _, flags, _, _, _, *path = line.split()
            if int(flags, 16) & LISTENS or path:
                found.add(("unix", *path))
    return found


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"] if uid else []


def home_of(uid):
    path = tap.folder(f"home{uid}")
    os.chown(path, uid, uid)
    return path


def probe(uid, *places):
    """What answers that user there."""
    ran = tap.run([*as_user(uid), PYTHON, "-c", PROBE, *places])
    ran.expect(0)
    return ran.out.decode()


def runner_opens_nothing(dns, web, owner, other):
    """While a job of one user is served, another finds nothing that was not there before."""
    env = {**environment(dns), "HOME": home_of(owner)}
    env["XDG_CONFIG_HOME"] = env["AGENTCRATE_STATE_DIR"] = env["HOME"]
    before = open_ports()
    with subprocess.Popen(
        [*as_user(owner), tap.program("agentcrate-run"), "--allow", f"web.example:{web.port}/http{LOOPBACK}", "--",
         PYTHON, "-c", SERVING, f"http://web.example:{web.port}/hello"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as job:
        try:
            tap.equal(job.stdout.readline(), b"hello from web.example\n")
            tap.equal(open_ports() - before, set(), f"what is open while a job of {owner} runs")
            tap.equal(probe(other, "127.0.0.1:8000", "127.0.0.1:8001", "198.18.0.1:53", f"198.18.0.2:{web.port}",
                            f"fd00:ac::2:{web.port}", "@of-the-job"), "", f"what answers {other}")
        finally:
            job.communicate(b"\n")
        tap.equal(job.returncode, 0)


class Held(Blob):
    """Answers when it is told to."""

    asked, released = threading.Event(), threading.Event()

    def do_GET(self):
        self.asked.set()
        self.released.wait(20)
        super().do_GET()


def broker_opens_its_socket(dns):
    """And nothing else, on which another user is served nothing."""
    with Web(handler=Held) as web:
        templates = {"net": {"ro": ["/usr"], "egress": [destination(web)]}}
        before = open_ports()
        with mcp.Broker(env=environment(dns, templates)) as broker, broker.client() as client:
            job = client.start("tools/call", {"name": "sandbox_exec", "arguments": {
                "argv": fetch(web), "template": "net"}})
            tap.check(Held.asked.wait(20), "the job asks for nothing")
            tap.equal(open_ports() - before, {("unix", broker.path)}, "what is open")
            tap.equal(probe(1000, broker.path, "127.0.0.1:7717", "[::1]:7717", f"198.18.0.2:{web.port}"), "",
                      "what answers another")
            Held.released.set()
            tap.equal(client.wait(job)["structuredContent"]["exit_code"], 0)


def users():
    setup("ip link set lo up")
    with resolver() as dns, Web() as web:
        where = f"127.0.0.1:{web.port}"
        tap.equal(probe(1001, where), f"{where} is open\n", "what is open")
        tap.contains(open_ports(), ("tcp", f"0100007F:{web.port:04X}"))
        for owner, other in (1000, 1001), (1001, 1000), (0, 1000):
            runner_opens_nothing(dns, web, owner, other)
        broker_opens_its_socket(dns)


def tests():
    tap.need("node")
    for title, function in (("NET-15: a host of IPv4 only", four_only), ("NET-15: a host of IPv6 only", six_only),
                            ("NET-15: one family refuses", one_refuses),
                            ("NET-15: one family leads nowhere", one_is_lost),
                            ("NET-14: other users find no port and no socket", users)):
        tap.case(title, inside, function)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {function.__name__: function for function in (
            four_only, six_only, one_refuses, one_is_lost, users)}[sys.argv[1]]()
        sys.exit(0)
    sys.exit(tap.main(tests))
