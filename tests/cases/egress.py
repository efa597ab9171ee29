#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 600
"""What jobs reach by name, and that they reach nothing else: real clients in crates, servers and a
resolver of the test's own outside. The servers lie on loopback, which each destination that leads
there has to open. Rows that need no crate are those of egress-process.py,
ordinary clients those of egress-clients.py."""

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import machine
import mcp
import otlp
import tap
from web import ANSWERS, CHUNK, LOOPBACK, Web, crate, environment, resolver

PYTHON = "/usr/bin/python3"

# What jobs need to tell what happens to them.
PRELUDE = """
import errno, json, os, socket, struct, sys, time
def name(error):
    return errno.errorcode.get(error.errno, str(error))
def attempt(address, port, kind=socket.SOCK_STREAM, timeout=5):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as s:
        s.settimeout(timeout)
        try:
            s.connect((address, port))
            return "connected"
        except OSError as error:
            return name(error)
def find(host):
    try:
        return sorted({row[4][0] for row in socket.getaddrinfo(host, 1, type=socket.SOCK_STREAM)})
    except socket.gaierror as error:
        return error.args[0]
def ask(wire, tcp=False, timeout=5):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect(("198.18.0.1", 53))
        s.sendall(struct.pack("!H", len(wire)) + wire if tcp else wire)
        try:
            return s.recv(65535)
        except (socket.timeout, ConnectionError):
            return None
def query(host, kind):
    labels = b"".join(bytes([len(l)]) + l.encode() for l in host.split("."))
    return struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\\0" + struct.pack("!HH", kind, 1)
def answer(host, kind):
    reply = ask(query(host, kind))
    return None if reply is None else [reply[3] & 15, struct.unpack_from("!H", reply, 6)[0]]
def tell(**facts):
    print(json.dumps(facts), flush=True)
"""


def python(env, code, allow=(), **kwargs):
    """(facts that the job told, its record)"""
    ran = crate(env, PYTHON, "-c", PRELUDE + code, allow=allow, **kwargs).expect(0)
    return json.loads(ran.out.splitlines()[-1]), ran.record


@contextlib.contextmanager
def started(argv, env):
    """A program with pipes, that is ended in the end."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    try:
        yield process
    finally:
        process.stdin.close()
        tap.kill_and_wait(process, signal.SIGTERM)
        process.stdout.close()
        process.stderr.close()


def counts(record):
    return {row["kind"]: row["count"] for row in record["denied"] if row["kind"] != "dns"}


def names(record):
    return {row["what"] for row in record["denied"] if row["kind"] == "dns"}


# --- rows of attacks ---


def row_1_and_2(env, dns):
    """Names that are not allowed do not exist, whatever is asked; of those that are there is nothing
    but addresses. Nothing of either is asked outside."""
    seen, record = python(env, """
kinds = {"A": 1, "NULL": 10, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64, "HTTPS": 65, "ANY": 255}
tell(evil={k: answer("secret-data.evil.example", n) for k, n in kinds.items()},
     good={k: answer("web.example", n) for k, n in kinds.items()},
     libc=find("evil.example"))
""", allow=["web.example:80"])
    tap.equal(set(map(tuple, seen["evil"].values())), {(3, 0)}, "what is not allowed")
    tap.equal(seen["good"].pop("A"), [0, 1])
    tap.equal(seen["good"].pop("AAAA"), [0, 1])
    seen["good"].pop("ANY")
    tap.equal(set(map(tuple, seen["good"].values())), {(0, 0)}, "other types of an allowed name")
    tap.equal(seen["libc"], socket.EAI_NONAME)
    tap.equal(dns.asked, [], "asked outside")
    tap.equal(names(record), {"secret-data.evil.example", "evil.example"})


def row_6_and_61(dns):
    """Names that are no names, or too many at once, are refused when they are read, wherever they
    stand, and so are letters that look like others."""
    bad = ["*", "*.", "*.com", "ex*mple.com", "api.*.com", "example.*", "*.*.example.org", "a..b", ".example.org",
           "-", "a b.example", "a%00.example", "evil.com\\0.example.org", "127.0.0.1", "::1", "x" * 64 + ".example",
           "\u0435xample.org", "exa\u200bmple.org", "b\u00fccher.example", "\u202egro.elpmaxe", "ex\uff41mple.org"]
    for name in bad:
        ran = crate(environment(dns), "true", allow=[name + ":80"])
        tap.equal(ran.rc, 125, f"--allow {name!a}")
    for name in bad:
        env = environment(dns, {"net": {"ro": ["/usr"], "egress": [{"name": name, "port": 80}]}})
        ran = crate(env, "true", options=["--template", "net"])
        tap.equal(ran.rc, 125, f"template {name!a}")
        tap.contains(ran.err.decode(), "net.json:1:", f"template {name!a}")
        env = environment(dns, tenants={"us": tenant(egress=[{"name": name, "port": 80}])})
        checked = tap.run([tap.program("agentcrate"), "policy", "check"], env=env)
        tap.check(checked.rc != 0 and b"us.json:1:" in checked.out + checked.err, lambda ran=checked: str(ran))
    tap.equal(dns.asked, [], "asked outside")


def row_8(env):
    """Addresses that are not synthetic: unreachable at once, and counted."""
    seen, record = python(env, """
began = time.monotonic()
hosts = ["1.1.1.1", "10.0.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "198.20.0.1", "2001:db8::1",
         "fd00:ec2::254", "fd00:ad::1"]
tell(tcp=[attempt(h, 443) for h in hosts], udp=[attempt(h, 53, socket.SOCK_DGRAM) for h in hosts],
     seconds=time.monotonic() - began)
""", allow=["web.example:80"])
    tap.equal(set(seen["tcp"] + seen["udp"]), {"ENETUNREACH"})
    tap.check(seen["seconds"] < 5, f"it took {seen['seconds']} s")
    tap.check(counts(record).get("unrouted", 0) >= 9, str(record["denied"]))


def row_9_and_17(env, web):
    """A synthetic address that is nobody's, and a port that is not allowed: refused, and counted. The
    job's own servers have the ports of destinations nevertheless, at loopback."""
    seen, record = python(env, f"""
at = find("web.example")
own = socket.create_server(("127.0.0.1", {web.port}))
tell(nobody=[attempt("198.18.0.77", 80), attempt("fd00:ac::77", 80)],
     port=[attempt(a, 443) for a in at], right=[attempt(a, {web.port}) for a in at],
     own=attempt("127.0.0.1", {web.port}))
""", allow=[f"web.example:{web.port}/http{LOOPBACK}"])
    tap.equal(set(seen["nobody"] + seen["port"]), {"ECONNREFUSED"})
    tap.equal(set(seen["right"]), {"connected"})
    tap.equal(seen["own"], "connected")
    tap.equal(counts(record)["refused"], 4)


def row_19(env):
    """What is no DNS is answered with an error or not at all, and the stub lives on."""
    seen, _ = python(env, """
head = struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0)
bad = [b"", b"\\0", head, head + b"\\xc0\\x0c\\0\\1\\0\\1", struct.pack("!HHHHHH", 7, 0x100, 65535, 0, 0, 0),
       head + b"\\x40" + b"a" * 64 + b"\\0\\0\\1\\0\\1", head + b"\\3a\\0b\\0\\0\\1\\0\\1", os.urandom(512)]
codes = set()
for wire in bad:
    for tcp in (False, True):
        reply = ask(wire, tcp, timeout=0.3)
        codes.add(None if not reply else reply[3 + 2 * tcp] & 15)
with socket.create_connection(("198.18.0.1", 53)) as s:
    s.sendall(b"\\xff\\xff" + query("web.example", 1))
tell(codes=[c for c in codes if c], after=answer("web.example", 1))
""", allow=["web.example:80"])
    tap.check(set(seen["codes"]) <= {1, 3, 4, 5}, f"codes {seen['codes']}")
    tap.equal(seen["after"], [0, 1])


def row_26(dns, web):
    """More connections than a job may have: those that it has go on."""
    env = environment(dns, connections=4)
    seen, record = python(env, f"""
held = [socket.create_connection(("web.example", {web.port})) for _ in range(4)]
time.sleep(0.3)
with socket.create_connection(("web.example", {web.port})) as more:
    more.settimeout(5)
    try:
        more.sendall(b"GET /hello HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n")
        fifth = len(more.recv(10))
    except OSError:
        fifth = 0
held[0].sendall(b"GET /hello HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n")
tell(fifth=fifth, first=held[0].recv(12).decode())
""", allow=[f"web.example:{web.port}/tcp{LOOPBACK}"])
    tap.equal(seen, {"fifth": 0, "first": "HTTP/1.1 200"})
    tap.check(counts(record).get("limit", 0) >= 1, str(record["denied"]))


def row_26_idle(dns):
    """A connection on which nothing comes is closed to both sides."""
    ended = threading.Event()

    def wait(connection):
        try:
            connection.recv(1)
        finally:
            ended.set()

    with egress.Server(wait, "127.0.0.1") as server:
        seen, _ = python(environment(dns, idle="1s"), f"""
with socket.create_connection(("web.example", {server.port})) as s:
    s.settimeout(20)
    try:
        tell(got=len(s.recv(1)))
    except ConnectionError:
        tell(got=0)
""", allow=[f"web.example:{server.port}{LOOPBACK}"])
        tap.equal(seen, {"got": 0})
        tap.check(ended.wait(5), "the server's side was not closed")


def row_27(env):
    """A job that ends in the midst of a transfer: its server hears of it within a second, and what it
    had is counted."""
    ended = []

    def pour(connection):
        try:
            while True:
                connection.sendall(b"x" * CHUNK)
        except OSError:
            ended.append(time.monotonic())

    with egress.Server(pour, "127.0.0.1") as server:
        _, record = python(env, f"""
s = socket.create_connection(("web.example", {server.port}))
n = 0
while n < 1 << 20:
    n += len(s.recv(1 << 16))
tell(n=n)
os.kill(os.getpid(), 0)
""", allow=[f"web.example:{server.port}{LOOPBACK}"])
        returned = time.monotonic()
        tap.check(tap.wait_until(lambda: ended, 5), "the server's side was not closed")
        tap.check(ended[0] - returned < 1, f"closed after {ended[0] - returned} s")
    usage = record["usage"]
    tap.equal(usage["egress_connections"], 1)
    tap.check(usage["egress_bytes_in"] >= 1 << 20, str(usage))


def row_60(env, web):
    """Variables of proxies change nothing, and other ways to ask for names lead nowhere."""
    hostile = {"HTTP_PROXY": "http://10.0.0.1:3128", "ALL_PROXY": "socks5://10.0.0.1:1", "NO_PROXY": ""}
    options = [word for name, value in hostile.items() for word in ("-e", f"{name}={value}")]
    seen, _ = python(env, f"""
s = socket.create_connection(("web.example", {web.port}))
tell(direct=True, dot=[attempt("1.1.1.1", 853), attempt("198.18.0.1", 853)],
     udp=[attempt("8.8.8.8", 53, socket.SOCK_DGRAM)], doh=find("dns.google"))
""", allow=[f"web.example:{web.port}/http{LOOPBACK}"], options=options)
    tap.equal(seen["dot"], ["ENETUNREACH", "ECONNREFUSED"])
    tap.equal(seen["udp"], ["ENETUNREACH"])
    tap.equal(seen["doh"], socket.EAI_NONAME)


def ports_are_taken(env, web):
    """No socket option lets a job have the stub's address, or a destination's."""
    seen, _ = python(env, f"""
out = []
at = find("web.example")[0]
for host, port, kind in (("198.18.0.1", 53, socket.SOCK_DGRAM), (at, {web.port}, socket.SOCK_STREAM)):
    for options in ((), (socket.SO_REUSEADDR,), (socket.SO_REUSEPORT,), (socket.SO_REUSEADDR, socket.SO_REUSEPORT)):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind) as s:
            for option in options:
                s.setsockopt(socket.SOL_SOCKET, option, 1)
            try:
                s.bind((host, port))
                if kind == socket.SOCK_STREAM:
                    s.listen()
                out.append("bound")
            except OSError as error:
                out.append(name(error))
tell(out=out, still=attempt(at, {web.port}))
""", allow=[f"web.example:{web.port}/http{LOOPBACK}"])
    tap.check(set(seen["out"]) <= {"EACCES", "EADDRINUSE", "EADDRNOTAVAIL"}, str(seen))
    tap.equal(seen["still"], "connected")


def need_root():
    """The process that has the network lets nobody but root look at it."""
    if os.geteuid() != 0:
        raise tap.Skip("needs root")


# --- field cases ---


def net_1(env):
    """lo is up, with both families; each crate has its own."""
    code = """
import threading
servers = [socket.create_server(("127.0.0.1", 8000)), socket.create_server(("::1", 8000), family=socket.AF_INET6)]
time.sleep(0.5)
tell(own=[attempt("127.0.0.1", 8000), attempt("::1", 8000)])
"""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(python, env, code, ["web.example:80"]) for _ in range(2)]:
            tap.equal(done.result()[0]["own"], ["connected", "connected"])


def net_2(env):
    """localhost has both addresses."""
    seen, _ = python(env, 'tell(at=find("localhost"))', ["web.example:80"])
    tap.equal(seen["at"], ["127.0.0.1", "::1"])


def net_7(env, dns):
    """A name that leads where nothing may: refused by the class of the address, told in the record.
    What was checked is what is dialled."""
    for name in ("private.example", "meta.example"):
        allow = f"{name}:80/tcp" + ("@169.254.0.0/16" if name.startswith("meta") else "")
        seen, record = python(env, f"""
with socket.create_connection(("{name}", 80)) as s:
    s.settimeout(10)
    try:
        tell(got=len(s.recv(1)))
    except ConnectionError as error:
        tell(got=name(error))
""", allow=[allow])
        tap.check(seen["got"] in (0, "ECONNRESET"), str(seen))
        denied = [row for row in record["denied"] if row["kind"] == "address"]
        tap.equal([(row["what"], row["address"]) for row in denied], [(name, ANSWERS[name][0][1])])
        tap.check(denied[0]["class"], str(denied))
    tap.equal({name for name, _ in dns.asked}, {"private.example", "meta.example"})


def net_8_and_9(dns, web):
    """An address that policy opens is reached; one that it denies is not, whatever opens it."""
    allow = [f"web.example:{web.port}/http{LOOPBACK}"]
    url = f"http://web.example:{web.port}/hello"
    crate(environment(dns), "curl", "-sS", url, allow=allow).expect(0, out="hello from web.example\n")
    ran = crate(environment(dns, deny=["127.0.0.0/8"]), "curl", "-sS", url, allow=allow)
    tap.check(ran.rc != 0, str(ran))
    tap.equal({row["kind"] for row in ran.record["denied"]}, {"address"})
    ran = crate(environment(dns), "curl", "-sS", url, allow=[f"web.example:{web.port}/http"])
    tap.check(ran.rc != 0, str(ran))
    tap.equal({row["kind"] for row in ran.record["denied"]}, {"address"})


def net_10(env, web):
    """Two names on one address: the one that is allowed works, also late and through an alias; the
    other does not, though its address is the same."""
    seen, record = python(env, f"""
def get(host):
    with socket.create_connection(("alias.example", {web.port})) as s:
        s.settimeout(10)
        s.sendall(b"GET /hello HTTP/1.1\\r\\nHost: " + host + b"\\r\\nConnection: close\\r\\n\\r\\n")
        return s.recv(1 << 16).split(b"\\r\\n")[0].decode()
first = find("alias.example")
time.sleep(1.5)
def quiet(host):
    try:
        return get(host)
    except OSError as error:
        return name(error)
tell(same=first == find("alias.example"), right=quiet(b"alias.example"), wrong=quiet(b"web.example"),
     other=find("web.example"))
""", allow=[f"alias.example:{web.port}/http{LOOPBACK}"])
    tap.equal(seen["same"], True)
    tap.equal(seen["right"], "HTTP/1.1 200 OK")
    tap.check("200" not in seen["wrong"], str(seen))
    tap.equal(seen["other"], socket.EAI_NONAME)
    tap.check("host" in counts(record), str(record["denied"]))


def net_13(env, web):
    """Connections that end in every way leave nothing behind in the process that relays them."""
    need_root()
    code = f"""
import struct
how = 0
for i in range(300):
    s = socket.create_connection(("web.example", {web.port}))
    if i % 3 == 0:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif i % 3 == 1:
        s.sendall(b"GET /hello HTTP/1.1\\r\\nHost: web.example\\r\\nConnection: close\\r\\n\\r\\n")
        s.shutdown(socket.SHUT_WR)
        while s.recv(65536):
            pass
    s.close()
print("done", flush=True)
sys.stdin.readline()
"""
    with started(
        [tap.program("agentcrate-run"), "--allow", f"web.example:{web.port}/tcp{LOOPBACK}", "--", PYTHON, "-c",
         PRELUDE + code], env) as job:
        tap.equal(job.stdout.readline(), b"done\n")
        child = egress_of(job.pid)
        base = 24
        tap.check(tap.wait_until(lambda: len(os.listdir(f"/proc/{child}/fd")) <= base, 20),
                  lambda: f"{len(os.listdir(f'/proc/{child}/fd'))} files are open")


def net_14(env, web):
    """The egress process has no socket in the host's network that anybody could connect to."""
    need_root()
    with started(
        [tap.program("agentcrate-run"), "--allow", f"web.example:{web.port}/http{LOOPBACK}", "--", "sh", "-c",
         "echo up; read x"], env) as job:
        tap.equal(job.stdout.readline(), b"up\n")
        child = egress_of(job.pid)
        inodes = set()
        for fd in os.listdir(f"/proc/{child}/fd"):
            link = os.readlink(f"/proc/{child}/fd/{fd}")
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
        for table in ("tcp", "tcp6"):
            with open(f"/proc/net/{table}", encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    tap.check(not (words[9] in inodes and words[3] == "0A"), f"it listens: {line}")


def net_15(env, web, six):
    """Both families are served inside, whichever the server outside has."""
    for name, port in (("web.example", web.port), ("six.example", six.port)):
        for family in "-4", "-6":
            crate(env, "curl", "-sS", "-m", "10", family, f"http://{name}:{port}/hello",
                  allow=[f"{name}:{port}/http{LOOPBACK}"]).expect(0, out=f"hello from {name}\n")


def wildcard(env, web):
    """Names of a wildcard have addresses of their own; the name above it is none of them."""
    seen, record = python(env, f"""
tell(one=find("one.wild.example"), two=find("two.wild.example"), above=find("wild.example"),
     use=attempt(find("one.wild.example")[0], {web.port}))
""", allow=[f"*.wild.example:{web.port}/http{LOOPBACK}"])
    tap.check(not set(seen["one"]) & set(seen["two"]) and seen["one"], str(seen))
    tap.equal(seen["above"], socket.EAI_NONAME)
    tap.equal(seen["use"], "connected")
    tap.equal(names(record), {"wild.example"})


def own_etc(dns, web):
    """Names are found whatever /etc a template shows; where they cannot be, the job is refused."""
    foreign = "nameserver 192.0.2.53\n"
    forms = {
        "a file": lambda path: tap.write(path, foreign),
        "a link out of the tree": lambda path: os.symlink("../run/systemd/resolve/stub-resolv.conf", path),
        "an absolute link": lambda path: os.symlink("/run/resolvconf/resolv.conf", path),
        "nothing": lambda path: None,
    }
    templates = {}
    for number, make in enumerate(forms.values()):
        root = tap.folder(f"root{number}")
        os.chmod(root, 0o755)
        for name in "usr", "etc":
            os.mkdir(os.path.join(root, name))
        for name in "bin", "lib", "lib64":
            os.symlink("usr/" + name, os.path.join(root, name))
        make(os.path.join(root, "etc", "resolv.conf"))
        tap.write(os.path.join(root, "etc", "nsswitch.conf"), "hosts: files\n")
        templates[f"own{number}"] = {"root": root, "ro": ["/usr"], "etc": "root"}
    etc = tap.folder("etc")
    os.chmod(etc, 0o755)
    tap.write(os.path.join(etc, "resolv.conf"), foreign)
    templates["bound"] = {"root": "host", "ro": ["/usr", {"from": etc, "to": "/etc"}]}
    env = environment(dns, templates)
    for template, title in zip(templates, [*forms, "a bind"]):
        ran = crate(env, "sh", "-c", f"curl -sS -m 10 http://web.example:{web.port}/hello; cat /etc/resolv.conf",
                    allow=[f"web.example:{web.port}/http{LOOPBACK}"], options=["--template", template])
        if title == "nothing":
            tap.equal(ran.rc, 125, title)
            tap.contains(ran.err.decode(), "etc/resolv.conf is no file")
            continue
        tap.equal(ran.rc, 0, f"{title}: {ran}")
        tap.contains(ran.out.decode(), "hello from web.example\nnameserver 198.18.0.1\n", title)
        if title == "a file":
            crate(env, "cat", "/etc/resolv.conf", options=["--template", template]).expect(0, foreign)
    templates = {"own": {"root": "host", "ro": ["/usr", {"from": etc, "to": "/etc"}],
                         "egress": [destination(web)]}}
    with mcp.Broker(env=environment(dns, templates)) as broker, broker.client() as client_:
        tap.equal(client_.exec(*fetch(web), template="own")["stdout"], "hello from web.example\n")


# --- the process, and the broker ---


def egress_of(pid):
    """The agentcrate-egress that a process has started."""
    for child in machine.descendants(pid):
        try:
            with open(f"/proc/{child}/comm", encoding="ascii") as file:
                if file.read().startswith("agentcrate-egre"):
                    return child
        except OSError:
            continue
    raise tap.Failed("there is no agentcrate-egress")


class Greet(egress.Server):
    """Sends a line to whoever connects, and waits for the end."""

    def __init__(self):
        super().__init__(self.greet, "127.0.0.1")

    @staticmethod
    def greet(connection):
        connection.sendall(b"hello\n")
        egress.read_all(connection)


def audit_lines(dns, templates, code, **settings):
    """What a job told, and the audit lines of what it reached or was not let reach."""
    with mcp.Broker(env=environment(dns, templates, **settings)) as broker, broker.client() as client_:
        result = client_.exec(PYTHON, "-c", PRELUDE + code, template="net")
        tap.equal((result["outcome"], result["exit_code"]), ("exited", 0), str(result))
        broker.stop()
        lines = mcp.audit_records(broker.log_path)
    ends = [line for line in lines if line["event"] == "end"]
    found = [line for line in lines if line["event"] in ("dns", "egress")]
    for line in found:
        tap.equal((line["call"], line["job"], line["tool"], line["tenant"]),
                  (ends[0]["call"], ends[0]["job"], "sandbox_exec", ends[0]["tenant"]), "whose it is")
    return json.loads(result["stdout"]), found, ends[0]


def audit_tells(dns, web):
    """Rows 1, 2, 7, 8, 9, 10, 11, 16, 17, 20, 22, 25, 26, 27: a line for each thing that was refused,
    and one for each connection, with its address and its bytes; no line has what was sent."""
    with Greet() as greet:
        rows = [destination(web), destination(web, name="alias.example"),
                {"name": "dual.example", "port": greet.port, "type": "tcp", "addresses": ["127.0.0.0/8"]},
                {"name": "web.example", "port": 443}, {"name": "private.example", "port": 80, "type": "tcp"},
                {"name": "meta.example", "port": 80, "type": "tcp", "addresses": ["169.254.0.0/16"]},
                {"name": "gone.example", "port": 80, "type": "tcp"}]
        seen, lines, end = audit_lines(dns, {"net": {"ro": ["/usr"], "egress": rows}}, f"""
import ssl
def send(host, port, data=b""):
    try:
        with socket.create_connection((host, port), 10) as s:
            s.sendall(data)
            return len(s.recv(4096))
    except OSError as error:
        return name(error)
def get(host):
    return b"GET /hello?key=private HTTP/1.1\\r\\nHost: " + host + b"\\r\\nConnection: close\\r\\n\\r\\n"
def hello(host):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("web.example", 443), 10) as s:
            context.wrap_socket(s, server_hostname=host)
    except OSError as error:
        return type(error).__name__
for host in ("secret-data.evil.example", "evil.example"):
    find(host)
answer("secret-data.evil.example", 16)
attempt("10.9.9.9", 1)
attempt(find("web.example")[0], 9)
tell(allowed=send("alias.example", {web.port}, get(b"alias.example")),
     dual=send("dual.example", {greet.port}, b"12345"),
     host=send("web.example", {web.port}, get(b"other.example")),
     h2=send("web.example", {web.port}, b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"),
     sni=hello("other.example"), none=hello(None), plain=send("web.example", 443, b"GET / HTTP/1.1\\r\\n\\r\\n"),
     private=send("private.example", 80), meta=send("meta.example", 80), gone=send("gone.example", 80))
""")
    tap.check(seen["allowed"] > 0 and seen["dual"] == 6, str(seen))
    tap.equal({seen["private"], seen["meta"], seen["gone"]} - {0, "ECONNRESET"}, set(), "what leads nowhere")
    told = {(line["event"], line.get("kind"), line["name"], line.get("reason")): line
            for line in lines if line["decision"] == "denied"}
    for key, more in {
            ("dns", "dns", "secret-data.evil.example", None): {"count": 3},
            ("dns", "dns", "evil.example", None): {"count": 2},
            ("egress", "address", "private.example", "private"): {"address": "10.0.0.1"},
            ("egress", "address", "meta.example", "metadata"): {"address": "169.254.169.254"},
            ("egress", "host", "web.example", "Host is not the destination that was connected to"): {},
            ("egress", "sni", "web.example", "mismatch"): {"seen": "other.example"},
            ("egress", "sni", "web.example", "missing"): {},
            ("egress", "sni", "web.example", "not-tls"): {},
            ("egress", "unreachable", "gone.example", "not-resolved"): {},
            ("egress", "refused", None, None): {"count": 1},
            ("egress", "unrouted", None, None): {}}.items():
        tap.check(key in told, lambda key=key: f"{key} is not among {sorted(map(str, told))}")
        tap.equal({name: told[key][name] for name in more}, more, str(key))
    good = {line["name"]: line for line in lines if line["decision"] == "allowed"}
    tap.equal(set(good), {"alias.example", "dual.example"})
    tap.equal((good["alias.example"]["port"], good["alias.example"]["address"], good["alias.example"]["through"]),
              (web.port, "127.0.0.1", "web.example"))
    tap.equal(good["dual.example"]["bytes"], {"in": 6, "out": 5})
    tap.equal(end["egress"]["connections"], 2)
    tap.lacks(json.dumps(lines), "private HTTP", "what was sent")
    tap.lacks(json.dumps(lines), "key=", "what was sent")


def run_loses(env):
    """Without the process there is no network: the job ends as lost, and does not hang."""
    with started([tap.program("agentcrate-run"), "--allow", "web.example:80", "--", "sh", "-c",
                      "echo up; sleep 600"], env) as job:
        tap.equal(job.stdout.readline(), b"up\n")
        os.kill(egress_of(job.pid), signal.SIGKILL)
        tap.equal(job.wait(timeout=20), 125)
        tap.contains(job.stderr.read().decode(), "agentcrate-egress ended")


def destination(web, **more):
    return {"name": "web.example", "port": web.port, "type": "http", "addresses": ["127.0.0.0/8"], **more}


def fetch(web):
    return ["curl", "-sS", "-m", "20", f"http://web.example:{web.port}/hello"]


def ask(client_, web):
    return client_.call("sandbox_exec", {"argv": fetch(web), "egress": [destination(web)]})


def broker_serves(dns, web):
    """By template and by arguments, as far as the tenant may; its audit and metrics tell."""
    templates = {"net": {"ro": ["/usr"], "egress": [destination(web)]}}
    with mcp.Broker(env=environment(dns, templates)) as broker, broker.client() as client_:
        result = client_.exec(*fetch(web), template="net")
        tap.equal(result["stdout"], "hello from web.example\n")
        tap.equal(result["usage"]["egress_connections"], 1)
        text = ask(client_, web)["content"][0]["text"]
        tap.contains(text, f"may not reach web.example:{web.port}/http@127.0.0.0/8 (rule owner:egress)")
        result = client_.exec(*fetch(web))
        tap.equal(result["outcome"], "exited")
        tap.check(result["exit_code"] != 0, str(result))
        broker.stop()
        ends = [line for line in mcp.audit_records(broker.log_path) if line["event"] == "end"]
        tap.equal(ends[0]["egress"]["connections"], 1)
        tap.check("egress" not in ends[-1], str(ends[-1]))


def tenant(**more):
    return {"match": {"uid": [os.getuid()]}, "tools": {"allow": ["*"]}, "templates": ["*"],
            "scopes": ["exec", "net:egress"], **more}


def broker_denies(dns, web):
    """The scope, and each destination."""
    cases = {
        "no scope": (tenant(scopes=["exec"], egress=[destination(web)]), "needs the scope net:egress"),
        "no list": (tenant(), "may not reach web.example"),
        "other port": (tenant(egress=[destination(web, port=1)]), "may not reach web.example"),
        "no address": (tenant(egress=[{"name": "web.example", "port": web.port, "type": "http"}]),
                       "may not reach web.example"),
        "covered": (tenant(egress=[destination(web)]), None),
        "wildcard": (tenant(egress=[destination(web, name="*.web.example")]), "may not reach web.example"),
    }
    for title, (given, part) in cases.items():
        with mcp.Broker(env=environment(dns, tenants={"us": given})) as broker, broker.client() as client_:
            result = ask(client_, web)
            text = result["content"][0]["text"]
            if part:
                tap.contains(text, part, title)
                tap.check("structuredContent" not in result, title)
            else:
                tap.equal(text, "hello from web.example\n", title)


def broker_loses(dns, web):
    """The jobs that it served are lost, others are not, and the next one has a new one."""
    templates = {"net": {"ro": ["/usr"], "egress": [destination(web)]}}
    with mcp.Broker(env=environment(dns, templates)) as broker, broker.client() as client_:
        served = client_.start("tools/call", {"name": "sandbox_exec",
                                              "arguments": {"argv": ["sleep", "600"], "template": "net"}})
        other = client_.start("tools/call", {"name": "sandbox_exec", "arguments": {"argv": ["sleep", "4"]}})

        def child():
            try:
                return egress_of(broker.pid)
            except tap.Failed:
                return None

        tap.check(tap.wait_until(child, 20), "there is no agentcrate-egress")
        time.sleep(1)
        os.kill(child(), signal.SIGKILL)
        record = client_.wait(served)["structuredContent"]
        tap.equal(record["outcome"], "lost")
        tap.contains(record["error"]["text"], "agentcrate-egress ended")
        tap.equal(client_.wait(other)["structuredContent"]["outcome"], "exited")
        result = client_.exec(*fetch(web), template="net")
        tap.equal(result["stdout"], "hello from web.example\n")


def broker_traces(dns, web):
    """A connection is a span in exec, as long as it was there."""
    templates = {"net": {"ro": ["/usr"], "egress": [destination(web)]}}
    with otlp.Collector() as collector:
        env = dict(environment(dns, templates), OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        with mcp.Broker(env=env) as broker, broker.client() as client_:
            tap.equal(client_.exec(*fetch(web), template="net")["exit_code"], 0)
            spans = collector.wait(1)
    inside, = (span for span in spans if span.name == "exec")
    made, = (span for span in spans if span.kind == "CLIENT")
    tap.equal((made.name, made.parent), ("web.example", inside.id))
    tap.check(inside.start <= made.start < made.end <= inside.end, "its time")
    told = made.attributes
    tap.equal((told["server.address"], told["server.port"]), ("web.example", web.port))
    tap.contains(told, "network.peer.address", "attributes")
    tap.check(told["agentcrate.bytes_in"] > 0 < told["agentcrate.bytes_out"], str(told))


def row_58(dns, web):
    """A new policy holds for new jobs, the old one for those that run; one with a fault is none."""
    env = environment(dns, {"net": {"ro": ["/usr"], "egress": [destination(web)]}})
    path = os.path.join(env["AGENTCRATE_DATA_DIR"], "templates.d", "net.json")
    with mcp.Broker(env=env) as broker, broker.client() as client_:
        script = "sleep 6; " + " ".join(fetch(web))
        running = client_.start("tools/call", {"name": "sandbox_exec",
                                               "arguments": {"command": script, "template": "net"}})
        time.sleep(1)
        tap.write(path, json.dumps({"ro": ["/usr"], "egress": [{"name": "*", "port": 1}]}))
        os.kill(broker.pid, signal.SIGHUP)
        time.sleep(1)
        result = client_.exec(*fetch(web), template="net")
        tap.equal(result["stdout"], "hello from web.example\n", "by the old policy")
        tap.write(path, json.dumps({"ro": ["/usr"]}))
        os.kill(broker.pid, signal.SIGHUP)
        tap.check(tap.wait_until(
            lambda: client_.exec(*fetch(web), template="net")["exit_code"] != 0, 10),
            "the new policy does not hold")
        tap.equal(client_.wait(running)["structuredContent"]["stdout"], "hello from web.example\n")


def nothing_is_left(dns, web):
    """Net namespaces and files of jobs that have ended are gone while the broker lives."""
    need_root()
    templates = {"net": {"ro": ["/usr"], "egress": [destination(web)]}}
    with mcp.Broker(env=environment(dns, templates)) as broker, broker.client() as client_:
        client_.exec(*fetch(web), template="net")
        child = egress_of(broker.pid)

        def look():
            return len(os.listdir(f"/proc/{child}/fd")), len(os.listdir(f"/proc/{broker.pid}/fd"))

        before = look()
        for _ in range(20):
            client_.exec(*fetch(web), template="net")
        tap.check(tap.wait_until(lambda: look() <= before, 10), lambda: f"{before} before, {look()} now")


def cases(dns, web, six):
    env = environment(dns)
    for title, function, *args in (
        ("1, 2: names that are not allowed, other types of those that are", row_1_and_2, env, dns),
        ("6, 61: names that are refused when they are read", row_6_and_61, dns),
        ("8: addresses that are nobody's name", row_8, env),
        ("9, 17: no listener, other ports", row_9_and_17, env, web),
        ("19: what is no DNS", row_19, env),
        ("26: connections of a job", row_26, dns, web),
        ("26: idle connections", row_26_idle, dns),
        ("27: a job ends in a transfer", row_27, env),
        ("60: proxies, and other ways to names", row_60, env, web),
        ("a job cannot have the ports", ports_are_taken, env, web),
        ("NET-01: loopback", net_1, env),
        ("NET-02: localhost", net_2, env),
        ("NET-07: names that lead where nothing may", net_7, env, dns),
        ("NET-08, NET-09: opened and denied addresses", net_8_and_9, dns, web),
        ("NET-10: names that share an address", net_10, env, web),
        ("NET-13: connections leave nothing behind", net_13, env, web),
        ("NET-14: nobody else is served", net_14, env, web),
        ("NET-15: either family", net_15, env, web, six),
        ("wildcards", wildcard, env, web),
        ("NET-12: templates with an /etc of their own", own_etc, dns, web),
        ("the process is killed", run_loses, env),
        ("broker: template, arguments, records", broker_serves, dns, web),
        ("1, 2, 8-11, 16, 17, 20, 22, 25: what the audit tells of each", audit_tells, dns, web),
        ("broker: what is denied", broker_denies, dns, web),
        ("broker: connections are spans", broker_traces, dns, web),
        ("broker: the process is killed", broker_loses, dns, web),
        ("58: a new policy", row_58, dns, web),
        ("nothing of a job is left", nothing_is_left, dns, web),
    ):
        dns.asked.clear()
        tap.case(title, function, *args)


def main():
    with resolver() as dns:
        with Web() as web, Web("::1") as six:
            cases(dns, web, six)


sys.exit(tap.main(main))
