#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 600
"""What jobs reach by name, and that they reach nothing else: real clients in crates, servers and a
resolver of the test's own outside. The servers lie on loopback, which each destination that leads
there has to open. Attacks, row by row, are those of egress-rows.py, ordinary clients those of
egress-clients.py."""

import concurrent.futures
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import otlp
import tap
from web import (ANSWERS, INSIDE, LOOPBACK, PYTHON, Web, crate, destination, egress_of, environment, fetch, python,
                 resolver, tenant)


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


def rules(env, allow, options=()):
    """Lines of --print-plan that tell what decides."""
    given = [word for one in allow for word in ("--allow", one)]
    ran = tap.run([tap.program("agentcrate-run"), "--print-plan", *given, *options, "--", "true"], env=env)
    ran.expect(0)
    lines = ran.out.decode().splitlines()
    return lines[lines.index("egress rules") + 1:] if "egress rules" in lines else []


def net_9(dns, web):
    """Range, address or name, allowed or denied, in either order: what is denied wins, takes nothing
    else with it, and the plan tells which rule it was."""
    url = f"http://web.example:{web.port}/hello"
    for opened in "127.0.0.0/8", "127.0.0.1/32":
        for deny, hits in (("127.0.0.0/8", True), ("127.0.0.1/32", True), ("web.example", True),
                           ("127.0.0.2/32", False), ("other.example", False)):
            for listed in ([deny, "198.51.100.0/24"], ["198.51.100.0/24", deny]):
                env = environment(dns, deny=listed)
                file = os.path.join(env["AGENTCRATE_DATA_DIR"], "agentcrated.json")
                allow = [f"web.example:{web.port}/http@{opened}"]
                ran = crate(env, "curl", "-sS", url, allow=allow)
                tap.equal(ran.rc == 0, not hits, f"{opened} opened, {listed} denied")
                if hits:
                    row, = (row for row in ran.record["denied"] if row["kind"] != "refused")
                    tap.equal(row.get("class") or row.get("reason"), "policy", str(row))
                told = rules(env, allow)
                tap.contains(told, f"deny  {deny} by {file}")
                by, wide = " by --allow", f", but denied is {deny} by {file}"
                name = f"allow web.example:{web.port}/http{by}"
                tap.contains(told, name + (wide if deny == "web.example" else ""))
                if deny != "web.example":
                    within = hits or opened == "127.0.0.0/8" and deny == "127.0.0.2/32"
                    tap.contains(told, f"open  {opened} for web.example:{web.port}{by}" + (wide if within else ""))


def net_9_sources(dns, web):
    """A template and the command line add up, in either order; the name itself decides before a wildcard;
    each line of the plan says where it comes from. Without egress there are none."""
    port, narrow, wide = web.port, "127.0.0.1/32", "127.0.0.0/16"
    row = {"name": "one.wild.example", "port": port, "type": "http", "addresses": [wide]}
    more = [f"one.wild.example:{port}/http@{narrow},::1", f"*.wild.example:{port}/http"]
    env = environment(dns, {"net": {"ro": ["/usr"], "egress": [row]}})
    from_file = f"template net ({env['AGENTCRATE_DATA_DIR']}/templates.d/net.json:1)"
    for allow in (more, more[::-1]):
        told = rules(env, allow, ["--template", "net"])
        for line in (f"allow one.wild.example:{port}/http by {from_file}, --allow",
                     f"open  {wide} for one.wild.example:{port} by {from_file}",
                     f"open  ::1/128 for one.wild.example:{port} by --allow",
                     f"allow *.wild.example:{port}/http by --allow"):
            tap.contains(told, line)
        ran = crate(env, "sh", "-c", f"curl -sS http://one.wild.example:{port}/hello; "
                    f"curl -sS http://two.wild.example:{port}/hello", allow=allow, options=["--template", "net"])
        tap.equal(ran.out, b"hello from one.wild.example\n")
        tap.equal({row["what"] for row in ran.record["denied"] if row["kind"] == "address"}, {"two.wild.example"})
    tap.equal(rules(env, []), [])


def reads_of_refusals(env, web):
    """What agentcrate-run says of what was refused: what, why, and what to type; to a person always, to
    a program only where the command failed."""
    def said(command, *options, terminal=False):
        if not terminal:
            ran = tap.run([tap.program("agentcrate-run"), *options, "--", "sh", "-c", command], env=env)
            return ran.out, ran.err.replace(b"agentcrate-run: network: ", b"")
        ours, theirs = os.openpty()
        with open(ours, "rb", buffering=0) as master:
            ran = subprocess.run([tap.program("agentcrate-run"), *options, "--", "sh", "-c", command],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=env,
                                 timeout=60, check=False)
            err = os.read(ours, 1 << 16) if select.select([ours], [], [], 0)[0] else b""
            master.close()
            os.close(theirs)
            return ran.stdout, err.replace(b"agentcrate-run: network: ", b"").replace(b"\r", b"")

    allow = "--allow", f"web.example:{web.port}/http"
    ask = "getent hosts evil.example; echo done"
    evil = b"evil.example was asked for, and is not allowed; --allow evil.example:PORT allows it\n"
    tap.equal(said(ask, *allow), (b"done\n", b""), "it went well")
    tap.equal(said(ask + "; exit 3", *allow), (b"done\n", evil), "it failed")
    tap.equal(said(ask, *allow, terminal=True), (b"done\n", evil), "at a terminal")
    tap.equal(said(ask + "; exit 3", *allow, "--json")[1], b"", "with --json")
    url = f"http://web.example:{web.port}/hello"
    closed, remedy = said(f"curl -s {url}", *allow)[1].decode().split("; ")
    tap.equal(closed, f"web.example:{web.port} leads to 127.0.0.1, which is loopback")
    tap.contains(remedy, " opens it")
    tap.equal(said(f"curl -s {url}", *remedy.replace(" opens it", "").split()), (b"hello from web.example\n", b""),
              "as it was told")
    tap.equal(said(f"curl -s http://web.example:{web.port + 1}/", *allow)[1].split(b"; ")[1],
              b"--allow NAME:PORT is for one port\n")
    tap.equal(said("curl -s http://1.1.1.1/", *allow)[1].split(b" went ")[0], b"1 connection or datagram")
    without = b"the command asked for names or addresses, and reaches none; --allow NAME:PORT names what it may reach\n"
    for command in "getent hosts evil.example", "curl -s http://1.1.1.1/":
        tap.equal(said(command)[1], without, command)
    for command in "false", "getent hosts evil.example; true":
        tap.equal(said(command)[1], b"", command)


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
         INSIDE + code], env) as job:
        tap.equal(job.stdout.readline(), b"done\n")
        child = egress_of(job.pid)
        base = 24
        tap.check(tap.wait_until(lambda: len(os.listdir(f"/proc/{child}/fd")) <= base, 20),
                  lambda: f"{len(os.listdir(f'/proc/{child}/fd'))} files are open")


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


def run_loses(env):
    """Without the process there is no network: the job ends as lost, and does not hang."""
    with started([tap.program("agentcrate-run"), "--allow", "web.example:80", "--", "sh", "-c",
                      "echo up; sleep 600"], env) as job:
        tap.equal(job.stdout.readline(), b"up\n")
        os.kill(egress_of(job.pid), signal.SIGKILL)
        tap.equal(job.wait(timeout=20), 125)
        tap.contains(job.stderr.read().decode(), "agentcrate-egress ended")


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
        ("a job cannot have the ports", ports_are_taken, env, web),
        ("NET-01: loopback", net_1, env),
        ("NET-02: localhost", net_2, env),
        ("NET-07: names that lead where nothing may", net_7, env, dns),
        ("NET-08, NET-09: opened and denied addresses", net_8_and_9, dns, web),
        ("NET-09: allowed and denied by range, address and name", net_9, dns, web),
        ("NET-09: where each rule stands", net_9_sources, dns, web),
        ("what is refused is said, with the remedy", reads_of_refusals, env, web),
        ("NET-10: names that share an address", net_10, env, web),
        ("NET-13: connections leave nothing behind", net_13, env, web),
        ("NET-15: either family", net_15, env, web, six),
        ("wildcards", wildcard, env, web),
        ("NET-12: templates with an /etc of their own", own_etc, dns, web),
        ("the process is killed", run_loses, env),
        ("broker: template, arguments, records", broker_serves, dns, web),
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
