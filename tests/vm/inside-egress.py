#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# vm-as: root dev
"""Egress by the installed units: of the system, whose secrets are systemd's credentials, and of a user
who lingers, whose secrets are files. A job reaches a name and calls an operation, whose secret the
upstream sees and nobody else. agentcrate-egress is killed, and comes back."""

import contextlib
import glob
import json
import os
import pwd
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

# pylint: disable=wrong-import-position
import egress
import mcp
import tap
import upstream

SYSTEM = tap.WHO == "root"
SYSTEMCTL = ["systemctl"] if SYSTEM else ["systemctl", "--user"]
BROKER, EGRESS = "agentcrated.service", "agentcrate-egress.service"
SOCKET = ("/run" if SYSTEM else "/run/user/1000") + "/agentcrate/agentcrate.sock"
PREFIX = tap.program("").rstrip("/").removesuffix("/bin")
CONFIG = ("/etc" if PREFIX == "/usr" else PREFIX + "/etc") + "/agentcrate" if SYSTEM \
    else os.path.expanduser("~/.config/agentcrate")
SECRETS = {name: f"vm-canary-{os.urandom(16).hex()}" for name in ("token", "plain", "many_one")}
NAME = "files.upstream.test"


def run(*command, rc=0, stdin=None):
    ran = tap.run(list(command), env=dict(os.environ), timeout=120, stdin=stdin)
    return ran if rc is None else ran.expect(rc)


def show(name, unit):
    return run(*SYSTEMCTL, "show", "-P", name, unit).text.strip()


def doctor():
    ran = run(tap.program("agentcrate"), "doctor", "--json", rc=None)
    for secret in SECRETS.values():
        tap.lacks(ran.text, secret, "what doctor says")
    return {row["name"]: (row["answer"], row["cause"]) for row in json.loads(ran.text)["secrets"]}


# --- configuration ---


def give_by_systemd():
    """One that is encrypted, one in a plain file, and one of a folder."""
    os.makedirs("/etc/credstore.encrypted", mode=0o700, exist_ok=True)
    run("systemd-creds", "encrypt", "--name=token", "-", "/etc/credstore.encrypted/token",
        stdin=SECRETS["token"].encode())
    tap.write("/etc/secrets/plain", SECRETS["plain"] + "\n", 0o400)
    tap.write("/etc/secrets/many/one", SECRETS["many_one"], 0o400)
    tap.write("/etc/systemd/system/agentcrate-egress.service.d/secrets.conf",
              "[Service]\nLoadCredentialEncrypted=token:/etc/credstore.encrypted/token\n"
              "LoadCredential=plain:/etc/secrets/plain\nLoadCredential=many:/etc/secrets/many\n")
    run("systemctl", "daemon-reload")


def give_by_files():
    for name, text in SECRETS.items():
        tap.write(f"{CONFIG}/credentials/{name}", text, 0o400)


def configure(resolver, port, ca):
    """Credentials "token", "plain", "many-one", each with its secret, and the name."""
    os.umask(0o022)
    tap.write(f"{CONFIG}/agentcrated.json", json.dumps({"egress": {"resolver": [resolver]}}))
    shown = tap.write(f"{CONFIG}/ca.pem", ca)
    for name in SECRETS:
        tap.write(f"{CONFIG}/credentials.d/{name.replace('_', '-')}.json", json.dumps({
            "upstream": f"https://{upstream.HOST}:{port}", "secret": name,
            "attach": {"as": "bearer"}, "addresses": [egress.OUTSIDE + "/32"], "ca": shown,
            "operations": {"get": {"method": "GET", "path": "/get"}}}))
    tap.write(f"{CONFIG}/tenants.d/root.json", json.dumps({
        "match": {"uid": [os.geteuid()]}, "scopes": ["exec", "credential:use", "net:egress"],
        "tools": {"allow": ["*"]}, "templates": ["*"], "operations": ["*"],
        "egress": [{"name": NAME, "port": port, "type": "tls",
                    "addresses": [egress.OUTSIDE + "/32"]}]}))


class Place:
    """The servers outside, and the configuration that leads to them."""

    def __init__(self, server, resolver, authority):
        self.server, self.resolver = server, resolver
        with open(authority.ca, encoding="ascii") as file:
            configure(resolver.address, server.port, file.read())

    def call(self, client, command, operations=("token.get",), **more):
        asked = {"egress": [{"name": NAME, "port": self.server.port, "type": "tls",
                             "addresses": [egress.OUTSIDE + "/32"]}],
                 "operations": list(operations), "timeout_ms": 60000, **more}
        answer = client.call("sandbox_exec", {"command": command, **asked}, timeout=120)
        if "structuredContent" not in answer:
            raise tap.Failed(f"no record: {answer}")
        record = answer["structuredContent"]
        for secret in SECRETS.values():
            tap.lacks(json.dumps(record), secret, "what a job can tell")
        return record


@contextlib.contextmanager
def place():
    authority = upstream.Authority()
    names = {name: [("A", egress.OUTSIDE)] for name in (upstream.HOST, NAME)}
    with egress.Resolver(**names) as resolver, \
            upstream.Upstream(authority.sign("good"), answer) as server:
        yield Place(server, resolver, authority)


def answer(connection, request):
    """It says the secret back, as no upstream should."""
    said = request.field("authorization") or ["nothing"]
    connection.sendall(upstream.reply(f"heard {said[0]};"))


def egress_pid():
    if SYSTEM:
        return int(show("MainPID", EGRESS))
    found = run("pgrep", "-u", "1000", "-f", "agentcrate-egress", rc=None).text.split()
    return int(found[0]) if found else 0


# --- what is tested ---


def before_start():
    """What is encrypted is not seen until the service has it."""
    seen = doctor()
    if not SYSTEM:
        tap.equal({answer for answer, _ in seen.values()}, {"yes"}, f"{seen}")
        return
    tap.equal([seen[name][0] for name in ("token", "plain", "many_one")],
              ["limited", "yes", "yes"], f"{seen}")
    tap.contains(seen["token"][1], "is encrypted")


JOB = """curl -sSk --max-time 20 https://{name}:{port}/name
curl -sS --max-time 20 http://token.crate.internal/get
curl -sS --max-time 20 http://plain.crate.internal/get
curl -sS --max-time 20 http://many-one.crate.internal/get
curl -sS --max-time 20 http://token.crate.internal/other | head -c 200
curl -sS --max-time 20 https://evil.example/; echo "evil $?"
cat /etc/resolv.conf; env; cat /proc/*/environ | tr '\\0' '\\n'
"""


def reached(p, client):
    """Ports below 1024 are bound by a launcher that has the capability for it, and what is let into a
    crate by its address gets there."""
    record = p.call(client, JOB.format(name=NAME, port=p.server.port),
                    operations=[f"{name}.get" for name in ("token", "plain", "many-one")])
    out = record["stdout"]
    tap.check(out.startswith("heard nothing;" + "heard Bearer ********;" * 3), f"{record}")
    tap.contains(out, "operation.no_match")
    tap.contains(out, "evil 6\n")
    tap.equal([request.field("authorization") for request in p.server.requests],
              [[]] + [[f"Bearer {SECRETS[name]}"] for name in ("token", "plain", "many_one")],
              "what the upstream was sent")
    denied = [row for row in record["denied"] if row["kind"] == "dns"]
    tap.check("evil.example" in json.dumps(denied), f"denied: {record['denied']}")


LOOPBACK = """
import socket
for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    server = socket.create_server((host, 0), family=family)
    client = socket.create_connection(server.getsockname()[:2], 5)
    server.accept()[0].sendall(b"heard")
    print(client.recv(5).decode())
"""


def own_loopback(client):
    """A job's own servers are none of the unit's rules' business."""
    record = client.exec("/usr/bin/python3", "-c", LOOPBACK, timeout_ms=60000)
    tap.equal(record["stdout"], "heard\nheard\n", f"{record}")


def broken_secret():
    """One that is no good any more is named by doctor, and refused by its name; others serve."""
    path = "/etc/secrets/plain" if SYSTEM else f"{CONFIG}/credentials/plain"
    os.unlink(path)
    tap.write(path, "two\nlines are none\n", 0o400)
    if SYSTEM:
        run("systemctl", "restart", EGRESS)


def refused(p, client):
    broken_secret()
    seen = doctor()
    tap.equal([seen[name][0] for name in SECRETS], ["yes", "no", "yes"], f"{seen}")
    tap.contains(seen["plain"][1], "has more than one line")
    record = p.call(client, "echo ran", operations=["plain.get"])
    tap.equal((record["outcome"], record["stdout"]), ("lost", ""), f"{record}")
    tap.contains(record["error"]["text"], "the secret plain has more than one line")
    record = p.call(client, "curl -sS --max-time 20 http://token.crate.internal/get")
    tap.equal(record["stdout"], "heard Bearer ********;", f"{record}")


LOOK = """
import os, sys
for pid in sys.argv[1:]:
    for name in ("environ", "mem", "maps", "fd", "stack", "io", "auxv", "root", "cwd", "exe"):
        path = f"/proc/{pid}/{name}"
        try:
            if name == "fd":
                os.listdir(path)
            elif name in ("root", "cwd", "exe"):
                os.readlink(path)
            else:
                with open(path, "rb") as file:
                    file.seek(0)
                    file.read(1)
        except OSError:
            continue
        print("readable:", path)
print("looked")
"""


def unreadable(client):
    """By another user, by whoever has the same uid, and by a job."""
    pids = [str(egress_pid()), show("MainPID", BROKER)]
    with open(f"/proc/{pids[1]}/limits", encoding="ascii") as file:
        tap.check(re.search(r"^Max core file size +[01] ", file.read(), re.M), "cores of the broker")
    tap.check("0" not in pids, f"pids {pids}")
    whose = [pwd.getpwuid(os.stat(f"/proc/{pid}/environ").st_uid).pw_name for pid in pids]
    tap.equal(whose, ["root", "root" if SYSTEM else "dev"], "who may look at egress and at broker")
    uids = [1000, 1001, pwd.getpwnam("agentcrate").pw_uid,
            pwd.getpwnam("agentcrate-egress").pw_uid] if SYSTEM else [1000]
    for uid in uids:
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if SYSTEM else []
        # A user's broker is his own.
        ran = run(*become, "/usr/bin/python3", "-c", LOOK, *(pids if SYSTEM else pids[:1]))
        tap.equal(ran.text, "looked\n", f"what uid {uid} can read")
    record = client.exec("/bin/sh", "-c", "ls -d /proc/[0-9]* | wc -l; "
                         "ls /proc/%s /proc/%s 2>&1 | grep -c 'No such file'" % tuple(pids))
    tap.check(record["stdout"].endswith("\n2\n"), f"{record}")


def killed(p, client):
    """What uses it ends and does not hang; the next job is served by another one,
    which has the secrets again. However often: no limit of starts holds it down."""
    tap.equal(show("StartLimitIntervalUSec", EGRESS) if SYSTEM else "0", "0", "limit of starts")
    for _ in range(2):
        pid = egress_pid()
        running = client.start("tools/call", {"name": "sandbox_exec", "arguments": {
            "command": "sleep 600", "operations": ["token.get"]}})
        tap.check(tap.wait_until(lambda: run("pgrep", "-f", "^sleep 600", rc=None).text, 30, 0.2),
                  "the job does not start")
        os.kill(pid or egress_pid(), 9)
        record = client.wait(running, 60)["structuredContent"]
        tap.equal(record["outcome"], "lost", f"{record}")
        tap.contains(record["error"]["text"], "agentcrate-egress")
        record = p.call(client, "curl -sS --max-time 20 http://token.crate.internal/get")
        tap.equal(record["stdout"], "heard Bearer ********;", f"{record}")
        tap.check(egress_pid() not in (0, pid), "the same process")


def nothing_is_told(client):
    """Nothing of a secret is in what is kept: the audit log, the journal, the units' properties."""
    client.close()
    run(*SYSTEMCTL, "stop", BROKER)
    places = glob.glob("/var/log/agentcrate/*" if SYSTEM else
                       os.path.expanduser("~/.local/state/agentcrate/*"))
    tap.check(places, "no audit log")
    records = [mcp.audit_records(path) for path in places if path.endswith(".jsonl")]
    tap.check(any(record["event"] == "operation" for some in records for record in some),
              "no operation on record")
    said = [run("journalctl", "--no-pager", "-q", rc=None).out,
            run(*SYSTEMCTL, "show", BROKER, *([EGRESS] if SYSTEM else []), rc=None).out]
    for path in places:
        with open(path, "rb") as file:
            said.append(file.read())
    for text in said:
        tap.check(not re.search(rb"vm-canary-[0-9a-f]{32}", text), "a secret is told")


def verified():
    units = ["agentcrate-egress.service", "agentcrate-egress.socket"] if SYSTEM else []
    for unit in units:
        ran = run("systemd-analyze", "verify", "--man=no", unit)
        tap.lacks(ran.errors, "agentcrate", f"what is said of {unit}")


def main():
    with place() as p:
        if SYSTEM:
            give_by_systemd()
        else:
            give_by_files()
        tap.case("the units are without fault", verified)
        run(*SYSTEMCTL, "stop", BROKER, *([EGRESS] if SYSTEM else []))
        run(*SYSTEMCTL, "start", "agentcrated.socket",
            *(["agentcrate-launcher.socket", "agentcrate-egress.socket"] if SYSTEM else []))
        tap.case("doctor, before the service runs", before_start)
        with mcp.Client(SOCKET, timeout=120) as client:
            tap.case("a name is reached, and operations are called", reached, p, client)
            tap.case("a job reaches its own servers", own_loopback, client)
            tap.case("/proc of broker and egress is closed to others", unreadable, client)
            tap.case("a secret that is no good is refused by its name", refused, p, client)
            tap.case("a kill ends what uses it, and the next job is served", killed, p, client)
            tap.case("no secret is told anywhere", nothing_is_told, client)
    subprocess.run([*SYSTEMCTL, "stop", "agentcrated.socket"], check=False)


sys.exit(tap.main(main))
