#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 240
"""Metrics: what they count, how they are served, and what becomes of those who ask for them wrongly,
slowly or too often. A real Prometheus reads them where there is one."""

import concurrent.futures
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

# pylint: disable=wrong-import-position
import machine
import mcp
import tap

TOOL = "sandbox_exec"
TCP_MAX = 64
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = GET[:-2] + b"Connection: close\r\n\r\n"
SERIES = re.compile(r'^agentcrate_(\w+?)(?:\{(.*)\})? (\S+)$')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configured(address):
    """An environment whose agentcrated.json lets metrics be served there."""
    env = tap.template_env()
    path = os.path.join(env["AGENTCRATE_DATA_DIR"], "agentcrated.json")
    tap.write(path, json.dumps({"listen": {"metrics": address}}) + "\n")
    return env


def connect(where, timeout=60):
    """A connection to a UNIX socket, or to a port of this host."""
    if isinstance(where, int):
        return socket.create_connection(("127.0.0.1", where), timeout)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    connection.settimeout(timeout)
    connection.connect(where)
    return connection


def read_all(connection):
    """All until the end of the connection."""
    data = b""
    while True:
        try:
            part = connection.recv(1 << 20)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


def ask(where, data, timeout=60):
    """What comes back until the end: (status, head, body) of the first answer; status 0 if none."""
    with connect(where, timeout) as connection:
        connection.sendall(data)
        answer = read_all(connection)
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1]) if head.startswith(b"HTTP/1.1 ") else 0
    return status, head.decode(), body.decode()


def scrape(where):
    """Each series by its name and labels."""
    status, head, body = ask(where, LAST)
    tap.equal(status, 200, "the status")
    tap.contains(head, "text/plain; version=0.0.4; charset=utf-8")
    series = {}
    for line in body.splitlines():
        if not line.startswith("#"):
            found = SERIES.match(line)
            tap.check(found, f"no series: {line!r}")
            key = (found[1], found[2] or "")
            tap.check(key not in series, f"there are two of {key}")
            series[key] = float(found[3])
    return series


def moved(before, after):
    """What has changed of the counters, without the buckets and sums of durations."""
    tap.equal(set(before), set(after), "the names of all series")
    return {
        key: after[key] - before[key]
        for key in after
        if after[key] != before[key] and not key[0].endswith(("_bucket", "_sum"))
    }


# --- counts ---


def calls(outcome, tool=TOOL):
    return ("calls_total", f'tool="{tool}",outcome="{outcome}"')


def durations(tool=TOOL):
    return ("call_duration_seconds_count", f'tool="{tool}"')


AUTHORIZED = {("authorize_duration_seconds_count", ""): 1}
STARTED = {("crate_start_seconds_count", 'template="host",temperature="cold"'): 1}


def ended(outcome, *more, started=True):
    expected = {calls(outcome): 1, durations(): 1, **AUTHORIZED}
    if started:
        expected.update(STARTED)
    for part in more:
        expected.update(part)
    return expected


def run_ok(_broker, client):
    tap.equal(client.exec("/bin/false")["outcome"], "exited")


def run_signaled(_broker, client):
    tap.equal(client.exec(command="kill -KILL $$")["outcome"], "signaled")


def run_exec_failed(_broker, client):
    tap.equal(client.exec("/no/such/program")["outcome"], "exec_failed")


def run_limit(_broker, client):
    tap.equal(client.exec("/bin/sleep", "60", timeout_ms=300)["outcome"], "limit")


def run_refused(_broker, client):
    tap.check(client.call(TOOL, {"argv": []})["isError"], "it is taken")


def run_denied(_broker, client):
    workspace = {"path": "/", "mode": "ro"}
    result = client.call(TOOL, {"argv": ["/bin/true"], "workspace": workspace})
    tap.check(result["isError"] and "structuredContent" not in result, f"{result}")


def run_unknown(_broker, client):
    try:
        client.call("no_such_tool")
    except mcp.RpcError:
        return
    raise tap.Failed("an unknown tool is called")


def run_cancelled(broker, client):
    request = client.start("tools/call", {"name": TOOL, "arguments": {"argv": ["/bin/sleep", "60"]}})
    wait_for_running(broker)
    client.notify("notifications/cancelled", {"requestId": request})
    tap.check(tap.wait_until(lambda: running(broker) == 0, 20), "the job does not end")


def running(broker):
    return scrape(broker.path)[("crates", 'template="host",state="running"')]


def wait_for_running(broker):
    tap.check(tap.wait_until(lambda: running(broker) == 1, 20), "no crate runs")


def of_job(broker, command, steps):
    """The ancestor of the job so many steps above it: 1 is the crate's init, 2 its launcher."""
    def find():
        found = [pid for pid, name in machine.descendants(broker.pid).items() if name == command]
        return found and found[0]
    pid = tap.wait_until(find, 20)
    tap.check(pid, f"no {command} runs")
    for _ in range(steps):
        pid = machine.processes()[pid][0]
    return pid


def run_lost(broker, client):
    """Without its init a crate is no more, and that is told at once."""
    request = client.start("tools/call", {"name": TOOL, "arguments": {"argv": ["/bin/sleep", "60"]}})
    os.kill(of_job(broker, "sleep", 1), signal.SIGKILL)
    result = client.wait(request, 20)
    tap.check(result["isError"], "it is no error")
    tap.equal(result["structuredContent"]["outcome"], "lost")


def run_orphaned(broker, client):
    """A crate that was made needs its launcher no more: the job goes on to its own end."""
    request = client.start("tools/call", {"name": TOOL, "arguments": {"argv": ["/bin/sleep", "2"]}})
    os.kill(of_job(broker, "sleep", 2), signal.SIGKILL)
    tap.equal(client.wait(request, 20)["structuredContent"]["outcome"], "exited")


COUNTED = [
    ("ok", run_ok, ended("ok")),
    ("error: killed by a signal", run_signaled, ended("error")),
    ("error: no such program", run_exec_failed, ended("error")),
    ("denied: wrong arguments", run_refused,
     ended("denied", {("denials_total", 'kind="request"'): 1}, started=False)),
    ("limit", run_limit, ended("limit", {("limit_hits_total", 'limit="wall_time"'): 1})),
    ("denied by the policy", run_denied,
     ended("denied", {("denials_total", 'kind="workspaces"'): 1}, started=False)),
    ("denied: an unknown tool", run_unknown,
     {calls("denied", "other"): 1, durations("other"): 1, ("denials_total", 'kind="request"'): 1}),
    ("cancelled", run_cancelled, ended("cancelled")),
    ("lost: init is killed", run_lost, ended("lost")),
    ("ok: the launcher is killed meanwhile", run_orphaned, ended("ok")),
]


def counts(broker, run, expected):
    """One call moves what it should by one, and nothing else."""
    with broker.client() as client:
        before = scrape(broker.path)
        run(broker, client)
        after = scrape(broker.path)
    change = moved(before, after)
    tap.equal(change, expected)
    name = [key for key in change if key[0] == "calls_total"][0][1].partition(",")[0]
    buckets = [after[key] for key in after
               if key[0] == "call_duration_seconds_bucket" and key[1].startswith(name)]
    tap.equal(buckets, sorted(buckets), "the buckets")
    tap.equal(buckets[-1], after[("call_duration_seconds_count", name)])


def names_are_bounded(broker):
    """Whatever clients name becomes no series."""
    before = scrape(broker.path)
    with broker.client() as client:
        for i in range(200):
            try:
                client.call(f'tool_{i}"}} 1\n')
            except mcp.RpcError:
                pass
    tap.equal(moved(before, scrape(broker.path))[calls("denied", "other")], 200)


# --- serving ---


def both_framings(broker):
    """The first byte decides, on one socket."""
    with broker.client() as client, connect(broker.path) as web:
        web.sendall(GET[:3])
        tap.equal(client.exec("/bin/true")["outcome"], "exited")
        web.sendall(GET[3:] + LAST)
        answer = read_all(web)
        tap.equal(answer.count(b"HTTP/1.1 200 OK"), 2, "the answers")
        client.send_bytes(b"GET / HTTP/1.1\r\n")
        tap.check("error" in client.receive(20), "a method within JSON is taken")


def methods(port):
    web = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    lengths = {}
    for method, path, status in (
        ("GET", "/metrics", 200),
        ("HEAD", "/metrics", 200),
        ("GET", "/metrics?x=y", 200),
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/mcp", 404),
        ("HEAD", "/nope", 404),
        ("DELETE", "/metrics", 405),
        ("OPTIONS", "/metrics", 405),
    ):
        web.request(method, path)
        answer = web.getresponse()
        body = answer.read()
        tap.equal(answer.status, status, f"{method} {path}")
        tap.equal(body == b"", method == "HEAD", f"{method} {path} has a body")
        if status == 405:
            tap.equal(answer.getheader("Allow"), "GET, HEAD")
        if status == 404 and method == "GET":
            tap.contains(body.decode(), "/metrics")
        lengths[method, path] = int(answer.getheader("Content-Length"))
    tap.check(lengths["HEAD", "/metrics"] > 1000, "HEAD tells no length")
    web.close()


def hosts(port):
    """A name that leads here only by DNS is not answered."""
    for host, status in (
        ("localhost", 200),
        (f"127.0.0.1:{port}", 200),
        ("[::1]", 200),
        ("evil.example", 403),
        (f"evil.example:{port}", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.1.1", 403),
        ("", 403),
    ):
        request = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        got, _, body = ask(port, request.encode())
        tap.equal(got, status, f"Host {host!r}")
        tap.equal("agentcrate_" in body, status == 200, f"Host {host!r} shows metrics")


BAD = [
    (b"GET /metrics HTTP/1.1\r\n\r\n", 400),
    (b"GET /metrics\r\n\r\n", 400),
    (b"GET /metrics HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
    (b"BREW /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX : y\r\n\r\n", 400),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", 400),
    (b"GET /metrics HTTP/1.1\nHost: localhost\n\n", 400),
    (b"GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    (b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello", 413),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n" + GET,
     400),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
     b"\r\n0\r\n\r\n" + GET, 400),
    (b"GET /" + b"a" * 10000 + b" HTTP/1.1\r\n", 414),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20000, 431),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
]


def bad_requests(where):
    """One answer that says why, and the end: what follows is not read as a request."""
    for data, status in BAD:
        with connect(where, 20) as connection:
            connection.sendall(data)
            answer = read_all(connection)
        tap.equal(answer.count(b"\r\nDate: "), 1, f"the answers to {data[:80]!r}")
        tap.check(answer.startswith(b"HTTP/1.1 %d " % status), f"{data[:80]!r}: {answer[:40]!r}")
        tap.contains(answer.decode(), "Connection: close")
    scrape(where)


def no_http(port):
    """At the port of metrics nothing else is spoken."""
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b'{"jsonrpc":"2.0"}\n', b"\n"):
        tap.equal(ask(port, data, 20)[0], 400, f"{data!r}")


def drip(port, first, drop):
    """Bytes that never make a request: how long it lasts, and what is said at the end."""
    begun = time.monotonic()
    with connect(port, 60) as connection:
        connection.sendall(first)
        connection.settimeout(0.5)
        data = b""
        while time.monotonic() - begun < 50:
            try:
                part = connection.recv(1 << 16)
                data += part
                if not part:
                    break
            except socket.timeout:
                try:
                    connection.sendall(drop)
                except OSError:
                    pass
            except OSError:
                break
    return time.monotonic() - begun, data


SLOW = [
    # What is sent first, what then again and again; the answer's status (b"": none), and how often.
    (b"GET /metrics HTTP/1.1\r\n", b"X: y\r\n", b"408", 8),
    (b"GET /", b"a", b"408", 8),
    (b"", b"", b"", 2),
    (GET, b"", b"200", 1),
]


def slow(broker, port):
    """Those who never finish lose their place, and hold up nobody meanwhile."""
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        asked = [(status, pool.submit(drip, port, first, drop))
                 for first, drop, status, count in SLOW for _ in range(count)]
        time.sleep(1)
        with broker.client() as client:
            tap.equal(client.exec("/bin/true")["outcome"], "exited")
        scrape(port)
        for status, future in asked:
            seconds, data = future.result(90)
            tap.check(seconds < 49, f"a connection that does nothing lives on ({status!r})")
            tap.equal(data[9:12], status, "the status")


def open_files(broker):
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def many_connections(broker, port):
    """1000 connections: as many as there is room for are served, the others are told so."""
    before = open_files(broker)
    connections = [connect(port) for _ in range(1000)]
    tap.check(open_files(broker) <= before + TCP_MAX + 8, f"{open_files(broker)} files are open")
    scrape(broker.path)
    with broker.client() as client:
        tap.equal(client.exec("/bin/true")["outcome"], "exited")
    served = refused = 0
    for connection in connections:
        try:
            connection.sendall(LAST)
        except OSError:
            pass
        answer = read_all(connection)
        served += answer.startswith(b"HTTP/1.1 200 ")
        refused += not answer.startswith(b"HTTP/1.1 200 ")
        connection.close()
    tap.equal((served, refused), (TCP_MAX, 1000 - TCP_MAX))
    tap.check(tap.wait_until(lambda: open_files(broker) <= before, 20), "descriptors are left")
    scrape(port)


def last_place():
    """Who was let in may speak HTTP, although there is no place left."""
    with mcp.Broker(open_files=128) as broker:
        held = [connect(broker.path) for _ in range(128)]
        # Connections are judged in their order, and the last one was refused.
        tap.contains(read_all(held.pop()), b"close some")
        refused, _, _ = select.select(held, [], [], 0)
        inside = [connection for connection in held if connection not in refused]
        tap.check(0 < len(inside) < len(held), f"{len(inside)} connections are in")
        for connection in inside:
            connection.sendall(LAST)
            tap.contains(read_all(connection), b"HTTP/1.1 200 ", "the answer to HTTP")
        for connection in held:
            connection.close()


def many_requests(broker, port):
    """Requests that are sent ahead are answered in their order; whoever takes no answer gets no
    other, and costs no memory."""
    with connect(port) as connection:
        connection.sendall(b"".join(GET.replace(b"/metrics", b"/%d" % i) for i in range(500)) + LAST)
        answer = read_all(connection)
    tap.equal(answer.count(b"HTTP/1.1 404 "), 500)
    tap.equal(answer.count(b"HTTP/1.1 200 "), 1)

    before = broker.memory()
    greedy = [connect(port, 1) for _ in range(20)]
    for connection in greedy:
        try:
            connection.sendall(GET * 20000)
        except socket.timeout:
            pass
    scrape(broker.path)
    grown = broker.memory() - before
    tap.check(grown < 8 << 20, f"the broker grew by {grown} bytes")
    for connection in greedy:
        connection.close()
    scrape(port)


# --- where it listens ---


def ended_with(env, *texts):
    path = os.path.join(tap.folder("broker"), "s")
    ran = tap.run([tap.libexec("agentcrated"), "--listen", path], env=env)
    tap.equal(ran.rc, 1, "the exit status")
    for text in texts:
        tap.contains(ran.errors, text)


def bad_addresses():
    for address in ("0.0.0.0:9090", "[::]:9090", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536",
                    "127.0.0.2:9090", "localhost:9090", ":9090", "/run/s", "127.0.0.1:+80", ""):
        ended_with(configured(address), "agentcrated.json:1:", "listen.metrics", "127.0.0.1:PORT")


def address_in_use():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ended_with(configured("127.0.0.1:%d" % other.getsockname()[1]), "listen.metrics", "in use")


def ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            port = probe.getsockname()[1]
    except OSError:
        raise tap.Skip("host has no IPv6 on loopback") from None
    with mcp.Broker(env=configured(f"[::1]:{port}")):
        url = f"http://[::1]:{port}/metrics"
        with urllib.request.urlopen(url, timeout=20) as answer:
            tap.contains(answer.read().decode(), "agentcrate_build_info")


def activated(sockets, names):
    """agentcrated with these sockets passed in."""
    def give():
        # Copies above the wanted numbers first, so that none is overwritten.
        copies = [os.dup2(s.fileno(), 100 + i) for i, s in enumerate(sockets)]
        for i, copy in enumerate(copies):
            os.dup2(copy, 3 + i)
        os.environ["LISTEN_PID"] = str(os.getpid())
    env = tap.clean_env(LISTEN_FDS=str(len(sockets)), LISTEN_FDNAMES=":".join(names))
    env["AGENTCRATE_STATE_DIR"] = tap.folder("state")
    shell = 'LISTEN_PID=$$ exec "$0" "$@"'
    return subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
        ["/bin/sh", "-c", shell, tap.libexec("agentcrated")], env=env, stderr=subprocess.PIPE,
        preexec_fn=give, close_fds=False)


def activation():
    """Both sockets passed in, in either order; the one for metrics speaks HTTP only."""
    for order in (("mcp", "metrics"), ("metrics", "mcp")):
        path = os.path.join(tap.folder("activated"), "s")
        with socket.socket(socket.AF_UNIX) as unix, socket.socket() as tcp:
            unix.bind(path)
            unix.listen()
            tcp.bind(("127.0.0.1", 0))
            tcp.listen()
            made = {"mcp": unix, "metrics": tcp}
            process = activated([made[name] for name in order], order)
            try:
                with mcp.Client(path) as client:
                    tap.equal(client.exec("/bin/true")["outcome"], "exited")
                tap.equal(scrape(tcp.getsockname()[1])[calls("ok")], 1)
                tap.equal(ask(tcp.getsockname()[1], b'{"jsonrpc":"2.0"}\n')[0], 400)
            finally:
                process.terminate()
                process.communicate(timeout=30)


def bad_activation():
    """A socket for metrics that others than this host could reach, or that is no TCP."""
    with socket.socket(socket.AF_UNIX) as unix, socket.socket() as tcp:
        unix.bind(os.path.join(tap.folder("activated"), "s"))
        unix.listen()
        tcp.bind(("0.0.0.0", 0))
        tcp.listen()
        for sockets, names, text in (
            ([unix, tcp], ["mcp", "metrics"], "does not listen for TCP on a loopback address"),
            ([unix, unix], ["mcp", "metrics"], "does not listen for TCP on a loopback address"),
            ([unix, unix], ["mcp", "mcp"], "two sockets for mcp"),
            ([unix, tcp], ["mcp", "http"], "named http"),
        ):
            process = activated(sockets, names)
            errors = process.communicate(timeout=30)[1].decode()
            tap.equal(process.returncode, 1, f"the exit status with {names}")
            tap.contains(errors, text)


# --- the judges ---


def promtool(port):
    if not shutil.which("promtool"):
        raise tap.Skip("host has no promtool")
    body = ask(port, LAST)[2]
    ran = tap.run(["promtool", "check", "metrics"], stdin=body.encode())
    ran.expect(0, "", "")


def query(port, text):
    url = f"http://127.0.0.1:{port}/api/v1/query?query=" + urllib.request.quote(text)
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:
        return []


def prometheus(broker, port):
    """A real one comes by and takes what there is."""
    if not shutil.which("prometheus"):
        raise tap.Skip("host has no prometheus")
    folder, own = tap.folder("prometheus"), free_port()
    tap.write(os.path.join(folder, "p.yml"), "scrape_configs:\n- job_name: agentcrate\n"
              "  scrape_interval: 1s\n  static_configs:\n"
              f"  - targets: ['127.0.0.1:{port}']\n")
    with broker.client() as client:
        tap.equal(client.exec("/bin/true")["outcome"], "exited")
    with open(os.path.join(folder, "log"), "wb") as log:
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["prometheus", f"--config.file={folder}/p.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{own}"], stdout=log, stderr=log,
            env={"PATH": os.environ["PATH"], "GOMAXPROCS": "1"})
    try:
        found = tap.wait_until(lambda: query(own, 'agentcrate_calls_total{outcome="ok"}'), 60, 0.5)
        tap.check(found, "nothing was scraped")
        values = {row["metric"]["tool"]: float(row["value"][1]) for row in found}
        tap.equal(values[TOOL], scrape(port)[calls("ok")])
        tap.equal([row["value"][1] for row in query(own, "up")], ["1"])
    finally:
        tap.kill_and_wait(process)


def tests():
    port = free_port()
    with mcp.Broker(env=configured(f"127.0.0.1:{port}")) as broker:
        for name, run, expected in COUNTED:
            tap.case(f"counts: {name}", counts, broker, run, expected)
        tap.case("counts: names of clients become no series", names_are_bounded, broker)
        tap.case("both framings on one socket", both_framings, broker)
        tap.case("methods and paths", methods, port)
        tap.case("Host must name this host", hosts, port)
        tap.case("bad requests at the UNIX socket", bad_requests, broker.path)
        tap.case("bad requests by TCP", bad_requests, port)
        tap.case("other protocols by TCP", no_http, port)
        tap.case("1000 connections", many_connections, broker, port)
        tap.case("the last place is good for HTTP", last_place)
        tap.case("requests that are sent ahead", many_requests, broker, port)
        tap.case("promtool finds nothing to blame", promtool, port)
        tap.case("a Prometheus reads them", prometheus, broker, port)
        tap.case("slow connections end", slow, broker, port)
    tap.case("addresses that are none", bad_addresses)
    tap.case("an address that is in use", address_in_use)
    tap.case("IPv6", ipv6)
    tap.case("sockets that are passed in", activation)
    tap.case("sockets that are passed in and are wrong", bad_activation)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
