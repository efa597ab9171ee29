#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 900
"""The audit log of a real broker: each call has exactly one decision and one end, nothing that a
client says breaks a line, nothing that is changed afterwards goes unseen, and neither a kill nor a
full disk nor a rotation loses what was written (AUD-01 to AUD-05).
"""

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import tap

LINE_MAX = 64 * 1024
LONG = {"argv": ["/bin/sleep", "60"]}
SECRET = "S3cr3t-canary"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def configured(**audit):
    """An environment whose agentcrated.json has these keys of audit."""
    env = tap.template_env()
    path = os.path.join(env["AGENTCRATE_DATA_DIR"], "agentcrated.json")
    tap.write(path, json.dumps({"audit": audit}) + "\n")
    return env


def audit(*args, env=None, rc=0):
    ran = tap.run([tap.program("agentcrate"), "audit", *args], env=env)
    return ran.expect(rc) if rc is not None else ran


def verify(*files, rc=0):
    return audit("verify", *files, rc=rc).text


def logs(state):
    """All logs of a folder, by the number of their first line."""
    paths = [os.path.join(state, name) for name in os.listdir(state) if ".jsonl" in name]
    return sorted(
        (path for path in paths if os.path.getsize(path)),
        key=lambda path: mcp.audit_records(path)[0]["seq"],
    )


def of_event(records, event):
    return [record for record in records if record["event"] == event]


def ends(records):
    return {record["call"]: record for record in of_event(records, "end")}


# --- which calls, and what stands of them ---


def wait_for(broker, event, n, seconds=20):
    """Waits until so many records of that event are there."""

    def seen():
        return len(of_event(mcp.audit_records(broker.log_path), event)) >= n

    tap.check(tap.wait_until(seen, seconds), f"no {n} records of {event}")


def one_of_each():
    """Every way a call can go, each with one decision and one end."""
    with mcp.Broker() as broker:
        with broker.client() as client:
            client.exec("/bin/true")
            client.exec("/bin/false")
            client.exec("/bin/sh", "-c", "kill -9 $$")
            client.exec("/no/such/program")
            client.exec("/bin/sleep", "60", timeout_ms=100)
            client.call("sandbox_exec", {"argv": 3})
            client.call("sandbox_exec", {"argv": ["x"], "workspace": {"path": "/etc"}})
            for params in (
                {"name": "nope"},
                {"name": 7},
                {},
                {"name": "sandbox_exec", "arguments": []},
            ):
                try:
                    client.request("tools/call", params)
                    raise tap.Failed(f"{params} is taken")
                except mcp.RpcError:
                    pass
            client.notify("tools/call", {"name": "sandbox_exec", "arguments": LONG})
            cancelled = client.start("tools/call", {"name": "sandbox_exec", "arguments": LONG})
            wait_for(broker, "decision", 12)
            try:
                client.start("tools/call", {"name": "sandbox_exec"}, request_id=cancelled)
                client.wait(cancelled)
                raise tap.Failed("an id that is in use is taken")
            except mcp.RpcError:
                pass
            client.notify("notifications/cancelled", {"requestId": cancelled})
            wait_for(broker, "end", 13)
            client.start("tools/call", {"name": "sandbox_exec", "arguments": LONG})
            wait_for(broker, "decision", 14)
        wait_for(broker, "end", 14)
        with broker.client(mcp.MODERN) as client:
            client.exec("/bin/true")
        lost = broker.client()
        lost.start("tools/call", {"name": "sandbox_exec", "arguments": LONG})
        wait_for(broker, "decision", 16)
        broker.stop()
        lost.close()
        records = mcp.audit_records(broker.log_path)
        tap.equal(mcp.check_pairs(records), 16, "calls")
        outcomes = [record["outcome"] for record in of_event(records, "end")]
        tap.equal(
            sorted(outcomes),
            sorted(
                ["exited"] * 3
                + ["signaled", "exec_failed", "limit"]
                + ["denied"] * 7
                + ["cancelled"] * 2
                + ["lost"]
            ),
            "outcomes",
        )
        tap.contains(verify(broker.log_path), "16 decisions, 16 ends; nothing was changed")
        copy = shutil.copy(broker.log_path, os.path.join(tap.folder("copy"), "audit.jsonl"))
        tap.contains(verify(copy), "a tail that was cut off cannot be noticed without it; nothing was changed")


def members():
    """Hashes, sizes, exits, durations and who it was."""
    with mcp.Broker() as broker, broker.client() as client:
        arguments = b'{"argv": ["/bin/sh","-c","echo out; echo error >&2; exit 7"]}'
        client.send_bytes(
            b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":'
            b'{"name":"sandbox_exec","arguments":' + arguments + b"}}\n"
        )
        while b"\n" not in client.buffer:
            client.buffer += client.socket.recv(1 << 20)
        answer = client.buffer.split(b"\n")[0]
        decision, end = mcp.audit_records(broker.log_path)
        tap.equal(decision["hashes"]["arguments"], digest(arguments))
        tap.equal(decision["bytes"]["arguments"], len(arguments))
        tap.equal(decision["decision"], "allowed")
        tap.equal(decision["peer"], {"uid": os.geteuid(), "pid": os.getpid()})
        tap.equal(decision["client"], "agentcrate-tests/1")
        tap.equal(end["hashes"]["result"], digest(answer))
        tap.equal(end["bytes"], {"result": len(answer), "stdout": 4, "stderr": 6})
        tap.equal(end["exit"], {"code": 7, "signal": None})
        record = json.loads(answer)["result"]["structuredContent"]
        tap.equal((end["job"], end["plan_digest"]), (record["job"], record["plan_digest"]))
        tap.check(0 <= end["ms"]["decide"] <= end["ms"]["total"], f"durations {end['ms']}")
        tap.check(decision["mono_ns"] < end["mono_ns"], "the clock")
        tap.equal(os.stat(broker.log_path).st_mode & 0o7777, 0o600, "mode")
        tap.check("argv" not in json.dumps(decision), "payloads stand in it unasked")


# --- AUD-03: what clients say ---


def hostile_names():
    forged = 'x"}\n{"event":"decision","call":"c-0000000000000000"}\r\u2028\u202e\x1b[2J\x9b'
    info = {"name": forged, "version": "\u2029"}
    hello = {"protocolVersion": mcp.LEGACY, "capabilities": {}, "clientInfo": info}
    with mcp.Broker() as broker:
        with broker.client(hello=False) as client:
            client.request("initialize", hello)
            for name in forged, "n" * (1 << 20), "\U0001f600" * 1000, "":
                try:
                    client.request("tools/call", {"name": name})
                    raise tap.Failed(f"{name[:20]!r} is taken")
                except mcp.RpcError:
                    pass
            client.call("sandbox_exec", {"argv": [forged, "a" * (10 << 20)], "stdin": forged})
            client.exec(forged)
            client.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"\xff"}\n')
            client.receive()
        with broker.client(mcp.MODERN) as client:
            meta = {"io.modelcontextprotocol/clientInfo": {"name": "m" * (1 << 20), "version": "1"}}
            client.request(
                "tools/call",
                {"name": "sandbox_exec", "arguments": {"argv": ["true"]}, "_meta": meta},
            )
        with open(broker.log_path, "rb") as file:
            text = file.read()
        records = mcp.audit_records(broker.log_path)
        tap.equal(mcp.check_pairs(records), 7, "calls")
        tap.equal(text.count(b"\n"), 14, "lines")
        tap.check(re.fullmatch(rb"[\x20-\x7e\n]*", text), "not plain ASCII")
        tap.check(all(len(line) < LINE_MAX for line in text.split(b"\n")), "a line is too long")
        tap.equal(records[0]["client"], f"{forged}/\u2029")
        tap.equal(records[0]["tool"], forged)
        tap.equal(records[2]["tool"], "n" * 256 + "\u2026(1048576 bytes)")
        tap.equal(records[4]["tool"], "\U0001f600" * 64 + "\u2026(4000 bytes)")
        tap.equal(records[-1]["client"], "m" * 256 + "\u2026(1048578 bytes)")
        shown = audit("tail", "-n", "100", broker.log_path).out
        tap.check(re.fullmatch(rb"[\x20-\x7e\n]*", shown), "tail prints what a terminal obeys")
        verify(broker.log_path)


# --- AUD-04: payloads ---


def secrets_left_out():
    arguments = {
        "argv": ["/bin/true"],
        "env": {"PLAIN": SECRET},
        "stdin": SECRET,
    }
    with mcp.Broker() as broker, broker.client() as client:
        client.exec(**arguments)
        with open(broker.log_path, encoding="ascii") as file:
            tap.lacks(file.read(), SECRET, "the log")
    del arguments["stdin"]
    with mcp.Broker(env=configured(payloads=True)) as broker, broker.client() as client:
        client.exec(**arguments)
        decision, end = mcp.audit_records(broker.log_path)
        tap.lacks(json.dumps([decision, end]), SECRET, "the log")
        payload = json.loads(decision["arguments"])
        tap.equal(payload, {"argv": ["/bin/true"], "env": {"PLAIN": "[redacted]"}})
        tap.contains(end["result"], '"structuredContent"')
        verify(broker.log_path)


# --- what is changed afterwards ---


def make_log(calls=4, state=None):
    with mcp.Broker(state=state) as broker:
        with broker.client() as client:
            for _ in range(calls):
                client.exec("/bin/true")
    return broker.log_path


def tampered(name, change, place):
    """place: line and words of the one fault that is expected."""
    path = make_log()
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    tap.equal(len(lines), 8, "lines")
    with open(path, "wb") as file:
        file.writelines(change(lines))
    text = verify(path, rc=1)
    line, words = place
    tap.contains(text, f'"{path}":{line}: ', f"verify, {name}")
    tap.contains(text, words, f"verify, {name}")


def edit(lines):
    at = lines[3].index(b'"owner"') + 1
    lines[3] = lines[3][:at] + b"O" + lines[3][at + 1 :]
    return lines


def edit_last(lines):
    lines[7] = lines[7].replace(b'"code":0', b'"code":1')
    return lines


def swap(lines):
    lines[3], lines[4] = lines[4], lines[3]
    return lines


TAMPERINGS = (
    ("an edited byte", edit, (4, "was changed")),
    ("an edited last line", edit_last, (8, "was changed")),
    ("a deleted line", lambda lines: lines[:3] + lines[4:], (4, "1 lines are missing here")),
    ("swapped lines", swap, (4, "missing here")),
    ("a cut tail", lambda lines: lines[:6], (6, "the last 2 lines are missing")),
    ("a line that is cut", lambda lines: lines[:7] + [lines[7][:40]], (8, "ends in the midst")),
    ("a hole", lambda lines: lines[:2] + [b"\0" * 100 + b"\n"] + lines[2:], (3, "is no record")),
)


def spliced():
    """A file of another log between two of this one, with the right numbers."""
    other, path = make_log(), make_log()
    with open(other, "rb") as file:
        foreign = file.read().splitlines(keepends=True)
    with open(path, "rb") as file:
        own = file.read().splitlines(keepends=True)
    parts = {path + ".2": own[:3], path + ".1": foreign[3:5], path: own[5:]}
    for name, lines in parts.items():
        with open(name, "wb") as file:
            file.writelines(lines)
    text = verify(*parts, rc=1)
    tap.contains(text, f'"{path}.2":3: it was changed, or is not of this log', "verify")


# --- rotation, AUD-02, AUD-05 ---


class Calls(threading.Thread):
    """Calls without a pause until it is told to stop."""

    def __init__(self, broker):
        super().__init__()
        self.broker, self.going, self.n = broker, True, 0
        self.start()

    def run(self):
        with self.broker.client() as client:
            while self.going:
                client.exec("/bin/true")
                self.n += 1

    def __exit__(self, *_unused):
        self.going = False
        self.join()

    def __enter__(self):
        return self


def rotated():
    """Renamed and told, renamed and not told, and again, while calls run."""
    with mcp.Broker() as broker:
        with Calls(broker) as calls:
            for i in range(3, 0, -1):
                n = calls.n
                tap.check(tap.wait_until(lambda n=n: calls.n > n + 3, 60), "no calls")
                os.rename(broker.log_path, f"{broker.log_path}.{i}")
                n = calls.n
                if i == 2:
                    tap.check(tap.wait_until(lambda n=n: calls.n > n + 3, 60), "no calls")
                broker.process.send_signal(signal.SIGHUP)
                tap.check(tap.wait_until(lambda: os.path.exists(broker.log_path)), "no new log")
        env = tap.clean_env(AGENTCRATE_STATE_DIR=broker.state)
        found = audit("verify", env=env).text
        tap.contains(found, f"{calls.n} decisions, {calls.n} ends; nothing was changed")
        paths = logs(broker.state)
        tap.equal(len(paths), 4, "files")
        records = mcp.audit_records(*paths)
        tap.equal(mcp.check_pairs(records), calls.n, "calls")
        tap.equal([record["seq"] for record in records], list(range(1, len(records) + 1)))
        queried = audit("query", "--json", "--outcome", "exited", env=env).text
        tap.equal(queried.count("\n"), calls.n, "records that query finds over all files")


def rotated_by_logrotate():
    """By the configuration that is shipped, of which only place, user and signal are the test's."""
    logrotate = shutil.which("logrotate", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if not logrotate:
        raise tap.Skip("host has no logrotate")
    with open(os.path.join(tap.data_dir(), "logrotate", "agentcrate"), encoding="utf-8") as file:
        text = file.read()
    place = tap.folder("logrotate")
    config = os.path.join(place, "agentcrate")
    with mcp.Broker() as broker:
        for old, new in (("/var/log/agentcrate", broker.state), ("su agentcrate agentcrate\n", "\n"),
                         ("systemctl kill -s HUP --kill-whom=main agentcrated.service",
                          f"kill -HUP {broker.pid}")):
            tap.equal(text.count(old), 1, f"how often {old!r} is there")
            text = text.replace(old, new)
        # What else a host's logrotate.conf may ask for, of whose files ours is one.
        tap.write(config, "compress\ncreate\ndaily\n" + text)
        with Calls(broker) as calls:
            for _ in range(3):
                n = calls.n
                tap.check(tap.wait_until(lambda n=n: calls.n > n + 3, 60), "no calls")
                tap.run([logrotate, "-f", "-s", os.path.join(place, "state"), config]).expect(0)
                tap.check(tap.wait_until(lambda: os.path.exists(broker.log_path)), "no new log")
        names = sorted(name for name in os.listdir(broker.state) if name.startswith("audit.jsonl"))
        tap.equal(names, ["audit.jsonl"] + [f"audit.jsonl.{i}" for i in (1, 2, 3)])
        found = audit("verify", env=tap.clean_env(AGENTCRATE_STATE_DIR=broker.state)).text
        tap.contains(found, f"{calls.n} decisions, {calls.n} ends; nothing was changed")


def copied_and_emptied():
    """copytruncate: no hole, and what got lost between is told."""
    with mcp.Broker() as broker:
        with broker.client() as client:
            for _ in range(3):
                client.exec("/bin/true")
            shutil.copy(broker.log_path, broker.log_path + ".1")
            os.truncate(broker.log_path, 0)
            client.exec("/bin/true")
        with open(broker.log_path, "rb") as file:
            tap.lacks(file.read(), b"\0", "the log")
        tap.contains(verify(broker.log_path + ".1", broker.log_path), "nothing was changed")
        mcp.check_pairs(mcp.audit_records(broker.log_path + ".1", broker.log_path))


def removed():
    with mcp.Broker() as broker, broker.client() as client:
        client.exec("/bin/true")
        shutil.rmtree(broker.state)
        client.exec("/bin/true")
        tap.contains(broker.errors(), "was removed: a new one is begun")
        tap.equal([record["seq"] for record in mcp.audit_records(broker.log_path)], [3, 4])


def one_writer():
    with mcp.Broker() as broker, broker.client() as client:
        client.exec("/bin/true")
        try:
            with mcp.Broker(state=broker.state):
                raise tap.Failed("two brokers write one log")
        except tap.Failed as failure:
            tap.contains(str(failure), "is written by another broker")
        client.exec("/bin/true")
        tap.contains(verify(broker.log_path), "nothing was changed")


def bad_places():
    for name, make, words in (
        ("a link", lambda path: os.symlink("/dev/null", path), "symbolic link"),
        ("others may write", lambda path: tap.write(path, mode=0o622), "others may write"),
        ("a folder", os.mkdir, "Is a directory"),
        ("no record", lambda path: tap.write(path, "hello\n", mode=0o600), "is no record"),
    ):
        state = tap.folder("state")
        make(os.path.join(state, "audit.jsonl"))
        try:
            with mcp.Broker(state=state):
                raise tap.Failed(f"{name}: the broker starts")
        except tap.Failed as failure:
            tap.contains(str(failure), words, name)
            tap.contains(str(failure), "audit.jsonl", name)


def bad_place_continues():
    """Without a log, where the policy says so: it is said, and a place that is mended is taken."""
    state = tap.folder("state")
    path = os.path.join(state, "audit.jsonl")
    os.mkdir(path)
    with mcp.Broker(env=configured(on_failure="continue"), state=state) as broker:
        with broker.client() as client:
            client.exec("/bin/true")
            tap.contains(broker.errors(), "calls go on without (audit.on_failure)")
            os.rmdir(path)
            client.exec("/bin/true")
        tap.equal(mcp.check_pairs(mcp.audit_records(path)), 2, "calls")
        verify(path)


# --- kill ---


def need_tracer():
    if not shutil.which("strace"):
        raise tap.Skip("host has no strace")
    if tap.run(["strace", "-q", "-o", "/dev/null", "true"]).rc != 0:
        raise tap.Skip("host lets nobody trace")


def kill_at(state, call, when=1, limit=None):
    """kill -9 of the broker at that system call of a record; limit: the log has so many bytes of
    room."""
    with mcp.Broker(state=state) as broker:
        with broker.client() as client:
            client.exec("/bin/true")
            if limit is not None:
                size = os.path.getsize(broker.log_path) + limit
                tap.run(["prlimit", f"--pid={broker.pid}", f"--fsize={size}:"]).expect(0)
            tracer = subprocess.Popen(
                [
                    *("strace", "-q", "-o", "/dev/null", "-P", broker.log_path),
                    *("-P", os.path.join(state, "audit.head"), "-e", f"trace={call}"),
                    *("-e", f"inject={call}:signal=KILL:when={when}", "-p", str(broker.pid)),
                ],
                stderr=subprocess.PIPE,
            )
            try:
                traced = f"TracerPid:\t{tracer.pid}\n"

                def attached():
                    with open(f"/proc/{broker.pid}/status", encoding="ascii") as file:
                        return traced in file.read()

                tap.check(tap.wait_until(attached), "strace did not attach")
                try:
                    client.exec("/bin/true")
                    raise tap.Failed(f"{call}: the broker lives")
                except (ConnectionError, mcp.Closed):
                    pass
            finally:
                tracer.terminate()
                tracer.wait()
                tracer.stderr.close()
            broker.kill()
        broker.process.returncode = 0
    return broker.log_path


def killed(call, when, limit):
    need_tracer()
    state = tap.folder("state")
    path = kill_at(state, call, when, limit)
    with open(path, "rb") as file:
        before = file.read()
    whole = before[: before.rindex(b"\n") + 1]
    if limit:
        tap.check(len(whole) < len(before), "no line was torn")
    make_log(1, state=state)
    with open(path, "rb") as file:
        after = file.read()
    tap.check(after.startswith(whole), "a line that was whole is gone")
    cut = [name for name in os.listdir(state) if name.startswith("audit.cut-")]
    if limit:
        with open(os.path.join(state, *cut), "rb") as file:
            tap.equal(file.read(), before[len(whole) :], "what was cut")
    else:
        tap.equal(cut, [], "files of what was cut")
    tap.contains(verify(path), "nothing was changed")
    mcp.check_pairs(mcp.audit_records(path))


def killed_job():
    """The end of what ran when the broker was killed is recorded by the next one."""
    state = tap.folder("state")
    broker = mcp.Broker(state=state)
    with broker.client() as client:
        client.start("tools/call", {"name": "sandbox_exec", "arguments": LONG})
        wait_for(broker, "decision", 1)
        broker.kill()
        broker.log.close()
    path = make_log(1, state=state)
    records = mcp.audit_records(path)
    tap.equal(mcp.check_pairs(records), 2, "calls")
    tap.equal(records[1]["outcome"], "lost")
    tap.contains(records[1]["reason"], "was killed")
    verify(path)


# --- no room: AUD-01 ---


def in_namespace(what):
    """This script again, with mounts of its own, in which DIR is a small tmpfs."""
    place = tap.folder("tmpfs")
    mount = f"mount -t tmpfs -o size=512k,mode=0755 tmpfs {place}"
    fake = "mount -t tmpfs -o mode=0755 tmpfs /run/systemd && mkdir /run/systemd/journal"
    inner = [sys.executable, "-B", os.path.abspath(__file__), what, place]
    if what == "journal":
        if not os.path.isdir("/run/systemd"):
            raise tap.Skip("host has no /run/systemd")
        mount = fake
    outer = ["unshare", "-m"]
    if os.geteuid() != 0:
        # The user is itself again inside, or the broker would take it for root.
        uid = f"--map-user={os.geteuid()}"
        outer, inner = ["unshare", "-rm"], ["unshare", uid, f"--map-group={os.getegid()}", *inner]
    ran = tap.run(
        [*outer, "sh", "-c", mount + ' && exec "$@"', "sh", *inner], env=dict(os.environ)
    )
    if ran.rc != 0:
        raise tap.Failed(str(ran))


def inside_full(place, on_failure):
    state = os.path.join(place, "state")
    filler = os.path.join(place, "filler")
    tap.write(filler, b"x" * (464 << 10))
    with mcp.Broker(env=configured(on_failure=on_failure), state=state) as broker:
        refused = 0
        with broker.client() as client:
            for _ in range(100):
                result = client.call("sandbox_exec", {"argv": ["/bin/true"]})
                if result["isError"]:
                    refused += 1
                    text = result["content"][0]["text"]
                    tap.contains(text, "cannot be recorded", "the answer")
                    tap.lacks(result, "structuredContent", "the answer")
            before = mcp.audit_records(broker.log_path)
            tap.check(len(before) < 100, "the disk has room for all")
            tap.check((refused > 0) == (on_failure == "refuse"), f"{refused} were refused")
            tap.contains(broker.errors(), "nothing can be written to the audit log")
            os.remove(filler)
            client.exec("/bin/true")
        tap.contains(broker.errors(), "is written again; records that were lost so far: 0")
    records = mcp.audit_records(broker.log_path)
    tap.equal(records[: len(before)], before, "what was there before")
    tap.contains(verify(broker.log_path), "nothing was changed")
    denied = [r for r in of_event(records, "decision") if r["rule"] == "audit.on_failure"]
    tap.equal(len(denied), refused, "denials")
    tap.equal(mcp.check_pairs(records), 101, "calls")


def inside_journal(_place):
    sink = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sink.bind("/run/systemd/journal/socket")
    os.chmod("/run/systemd/journal/socket", 0o666)
    sink.settimeout(20)

    def entry():
        lines = sink.recv(1 << 16).decode().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    with mcp.Broker() as broker:
        tap.equal(entry()["AGENTCRATE_EVENT"], "start")
        with broker.client() as client:
            client.exec("/bin/true")
            first, second = entry(), entry()
        with open(broker.log_path, "rb") as file:
            lines = file.read().splitlines()
    for got, line in (first, lines[0]), (second, lines[1]):
        record = json.loads(line)
        tap.equal(got["AGENTCRATE_HASH"], digest(line))
        tap.equal(got["AGENTCRATE_SEQ"], str(record["seq"]))
        tap.equal(got["AGENTCRATE_CALL"], record["call"])
        tap.equal(got["AGENTCRATE_EVENT"], record["event"])
    tap.equal(first["AGENTCRATE_DECISION"], "allowed")
    tap.equal(second["AGENTCRATE_OUTCOME"], "exited")
    tap.contains(second["MESSAGE"], "sandbox_exec")


# --- the commands ---


def queries():
    with mcp.Broker() as broker, broker.client() as client:
        client.exec("/bin/true")
        client.call("sandbox_exec", {"argv": 3})
        path = broker.log_path

        def found(*options):
            return audit("query", *options, path).text.count("\n")

        tap.equal(found(), 4)
        tap.equal(found("--outcome", "denied"), 1)
        wrong = audit("query", "--outcome", "bogus", rc=2).errors
        tap.contains(wrong, "there is no such outcome; there are exited, ")
        tap.equal(found("--tool", "sandbox_exec"), 4)
        tap.equal(found("--tool", "other"), 0)
        tap.equal(found("--tenant", "other"), 0)
        tap.equal(found("--since", "1h"), 4)
        tap.equal(found("--until", "1h"), 0)
        tap.equal(found("--since", "2026-01-01T00:00:00Z", "--until", "2026-01-01T00:00:01Z"), 0)
        tap.contains(audit("query", "--since", "yesterday", rc=2).errors, "give a time in UTC")
        tap.contains(audit("verify", "--tool", "x", rc=2).errors, "is no option of it")
        tap.contains(audit("nope", rc=2).errors, "known are verify, query and tail")
        tap.contains(audit("verify", "/no/such/file", rc=125).errors, "cannot be read")


def followed():
    with mcp.Broker() as broker, broker.client() as client:
        client.exec("/bin/true")
        follower = subprocess.Popen(
            [tap.program("agentcrate"), "audit", "tail", "-n", "1", "-f", broker.log_path],
            stdout=subprocess.PIPE,
            env=tap.clean_env(),
        )
        try:
            tap.check(follower.stdout.readline().startswith(b"2 "), "the last line")
            client.exec("/bin/true")
            os.rename(broker.log_path, broker.log_path + ".1")
            broker.process.send_signal(signal.SIGHUP)
            client.exec("/bin/true")
            got = [int(follower.stdout.readline().split()[0]) for _ in range(4)]
            tap.equal(got, [3, 4, 5, 6], "lines that follow")
        finally:
            tap.kill_and_wait(follower)
            follower.stdout.close()


def runner_writes_none():
    state = os.path.join(tap.folder("state"), "sub")
    env = tap.clean_env(AGENTCRATE_STATE_DIR=state)
    tap.run([tap.program("agentcrate-run"), "--", "true"], env=env).expect(0)
    tap.check(not os.path.exists(state), "agentcrate-run has made a folder for a log")


def tests():
    tap.become_subreaper()
    tap.case("each call has one decision and one end, however it goes", one_of_each)
    tap.case("hashes, sizes, exit and peer are those of the call", members)
    tap.case("AUD-03: nothing that a client says breaks or forges a line", hostile_names)
    tap.case("AUD-04: arguments are left out, and redacted where they are not", secrets_left_out)
    for name, change, place in TAMPERINGS:
        tap.case(f"verify names {name}", tampered, name, change, place)
    tap.case("verify names a spliced file", spliced)
    tap.case("AUD-05: the chain goes on over rotations while calls run", rotated)
    tap.case("AUD-05: so it does when logrotate does it", rotated_by_logrotate)
    tap.case("AUD-02: copytruncate leaves no hole", copied_and_emptied)
    tap.case("a log that was removed is begun anew", removed)
    tap.case("two brokers never write one log", one_writer)
    tap.case("a log at a bad place is refused by name", bad_places)
    tap.case("a log at a bad place is done without where the policy says so", bad_place_continues)
    for call, when, limit in (("write", 1, None), ("pwrite64", 1, None), ("ftruncate", 1, 100)):
        title = f"a kill at {call} leaves a log that goes on"
        tap.case(title, killed, call, when, limit)
    tap.case("calls of a killed broker get their end", killed_job)
    tap.case("AUD-01: a full disk refuses calls, and recovers", in_namespace, "refuse")
    tap.case("AUD-01: a full disk goes on where the policy says so", in_namespace, "continue")
    tap.case("each record is an entry of the journal", in_namespace, "journal")
    tap.case("query finds by tenant, tool, outcome and time", queries)
    tap.case("tail -f goes on over a rotation", followed)
    tap.case("agentcrate-run writes no audit log", runner_writes_none)


if len(sys.argv) == 3:
    if sys.argv[1] == "journal":
        inside_journal(sys.argv[2])
    else:
        inside_full(sys.argv[2], sys.argv[1])
else:
    sys.exit(tap.main(tests))
