#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Tenants: who sees which tools, which calls are denied and how that is told, and a policy that
changes while the broker runs. And agentcrate policy, which tells the same without a broker."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import mcp  # noqa: E402
import tap  # noqa: E402

# Nobody has to exist who has these.
ALICE, BOB, CAROL, STAFF, OTHER = 74001, 74002, 74003, 74100, 74101
TOOL = "sandbox_exec"
ALWAYS = "operations_list"  # needs no scope and no template
SLOW = 5 if "AGENTCRATE_TEST_VM" in os.environ else 1


class Place:
    """A folder of configuration: the shipped templates and tenants of the test's own."""

    def __init__(self, **tenants):
        self.path = tap.folder("policy")
        os.chmod(self.path, 0o755)
        self.tenants = os.path.join(self.path, "tenants.d")
        self.templates = os.path.join(self.path, "templates.d")
        shutil.copytree(os.path.join(tap.data_dir(), "templates.d"), self.templates)
        os.chmod(self.templates, 0o755)
        if tenants:
            os.mkdir(self.tenants, 0o755)
        for name, tenant in tenants.items():
            self.put(name, tenant)

    def put(self, name, tenant, folder=None):
        """In one step, as editors do it."""
        path = os.path.join(folder or self.tenants, name + ".json")
        text = tenant if isinstance(tenant, str) else json.dumps(tenant) + "\n"
        tap.write(path + "~", text)
        os.rename(path + "~", path)

    def env(self):
        return tap.clean_env(AGENTCRATE_DATA_DIR=self.path)

    def broker(self, **options):
        return mcp.Broker(env=self.env(), **options)


def tenant(*uids, **keys):
    grant = {
        "match": {"uid": list(uids)},
        "scopes": ["exec", "fs:read", "fs:write"],
        "tools": {"allow": ["*"]},
        "templates": ["*"],
    }
    grant.update(keys)
    return grant


def own(**keys):
    return tenant(os.geteuid(), **keys)


class As:
    """A connection of another user and groups; made by root."""

    def __init__(self, broker, uid, groups=(), hello=True):
        self.hello = hello
        place = broker.path
        os.chmod(place, 0o666)
        while (place := os.path.dirname(place)) != "/":
            if os.stat(place).st_uid == os.geteuid() and place.startswith(("/tmp/", "/var/tmp/")):
                os.chmod(place, 0o755)
        before = os.getgroups()
        os.setgroups(groups)
        os.setegid(uid)
        os.seteuid(uid)
        try:
            self.client = mcp.Client(broker.path, hello=False)
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(before)

    def __enter__(self):
        if self.hello:
            self.client.server = self.client.request("initialize", self.client._hello())
        return self.client

    def __exit__(self, *_unused):
        self.client.close()


def tools(client):
    return {tool["name"]: tool for tool in client.request("tools/list")["tools"]}


def call(client, **arguments):
    arguments = arguments or {"argv": ["true"]}
    return client.request("tools/call", {"name": TOOL, "arguments": arguments})


def works(result):
    tap.equal(result["isError"], False, result["content"][0]["text"])


def denied(result, rule, *parts):
    """One text that names the rule, and nothing structured."""
    text = result["content"][0]["text"]
    tap.equal(result["isError"], True, text)
    tap.check("structuredContent" not in result, "a denial has structured content")
    tap.equal(len(result["content"]), 1)
    tap.contains(text, f"(rule {rule})")
    tap.contains(text, "Needed: ")
    for part in parts:
        tap.contains(text, part)
    return text


def settled(broker, text, before=0):
    """Waits until the broker has logged this more often than before."""
    tap.check(tap.wait_until(lambda: broker.errors().count(text) > before, 20),
              lambda: f"{text!r} was not logged: {broker.errors()!r}")


def reload(broker, text="is in force"):
    before = broker.errors().count(text)
    broker.process.send_signal(signal.SIGHUP)
    settled(broker, text, before)


# --- who ---


def two_users():
    """Two users on one socket see different tools and get different answers; a third gets none."""
    place = Place(alice=tenant(ALICE), bob=tenant(BOB, tools={"allow": ["*"], "deny": [TOOL]}))
    with place.broker() as broker:
        with As(broker, ALICE) as alice, As(broker, BOB) as bob:
            tap.equal(sorted(tools(alice)), [ALWAYS, TOOL])
            tap.equal(sorted(tools(bob)), [ALWAYS])
            works(call(alice))
            denied(call(bob), "bob:tools.deny[0]", f"tenant bob must not call {TOOL}")
            works(call(alice))
            for client in alice, bob:
                try:
                    client.request("tools/call", {"name": "no_such_tool", "arguments": {}})
                    raise tap.Failed("a tool that does not exist was called")
                except mcp.RpcError as error:
                    tap.equal(error.code, -32602)
        carol = As(broker, CAROL).client
        refusal = carol.receive()
        tap.contains(refusal["error"]["message"], f"user {CAROL} is no tenant of this broker")
        tap.equal(carol.receive(), None)
        # Not even whoever runs it, where somebody was named.
        with broker.client(hello=False) as root:
            tap.contains(root.receive()["error"]["message"], "user 0 is no tenant")


def metrics(broker):
    with socket.socket(socket.AF_UNIX) as web:
        web.settimeout(20)
        web.connect(broker.path)
        web.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: web.recv(1 << 16), b"")).decode()


def strangers():
    """Who is no tenant is refused by name; that is on record and counted, but not without end."""
    place = Place(me=tenant(0), alice=tenant(ALICE))
    with place.broker() as broker:
        os.chmod(broker.path, 0o666)
        for _ in range(40):
            with As(broker, BOB, hello=False) as client:
                tap.contains(client.receive(20)["error"]["message"], "is no tenant of this broker")
        with broker.client() as client:
            works(call(client))
        records = mcp.audit_records(broker.log_path)
        tap.contains(metrics(broker), 'agentcrate_denials_total{kind="peer"} 40\n')
        verified = tap.run([tap.program("agentcrate"), "audit", "verify", broker.log_path])
        verified.expect(0)
    refused = [record for record in records if record.get("rule") == "peer"]
    tap.check(20 <= len(refused) <= 40, f"{len(refused)} are recorded")
    for record in refused:
        tap.equal((record["event"], record["decision"], record["call"], record["tenant"]),
                  ("decision", "denied", None, None))
        tap.equal(record["peer"]["uid"], BOB)
        tap.contains(record["reason"], f"user {BOB} is no tenant")
        tap.check(record["policy_digest"].startswith("sha256:"), str(record))
    # None of them is a call that the next broker would have to end.
    with open(os.path.join(broker.state, "audit.head"), encoding="ascii") as file:
        tap.equal(json.load(file)["open"], 0)


def crowd():
    """One who connects as often as he may leaves room for others, however they speak."""
    place = Place(alice=tenant(ALICE), bob=tenant(BOB))
    with place.broker(open_files=128) as broker:
        held = [As(broker, ALICE, hello=False).client for _ in range(80)]
        for client in held[::2]:
            # One that was refused is gone.
            with contextlib.suppress(OSError):
                client.send_bytes(b"GET")
        held += [As(broker, ALICE, hello=False).client for _ in range(80)]
        with As(broker, ALICE, hello=False).client as more:
            tap.contains(more.receive()["error"]["message"], "close some")
        with As(broker, BOB) as bob:
            works(call(bob))
        for client in held:
            client.close()
        with As(broker, ALICE) as alice:
            works(call(alice))


def groups():
    place = Place(
        staff=tenant(BOB, match={"gid": [STAFF]}),
        other=tenant(BOB, match={"gid": [OTHER]}, scopes=[]),
        alice=tenant(ALICE, tools={}),
    )
    with place.broker() as broker:
        with As(broker, CAROL, [STAFF]) as carol:
            works(call(carol))
        # The user decides before any group.
        with As(broker, ALICE, [STAFF]) as alice:
            denied(call(alice), "alice:tools.allow")
        both = As(broker, CAROL, [STAFF, OTHER]).client
        tap.contains(both.receive()["error"]["message"], "by one of its groups and tenant")
        none = As(broker, CAROL, [STAFF + 7]).client
        tap.contains(none.receive()["error"]["message"], "is no tenant")


def owner():
    """A user's broker without tenants serves its user, with what is useful and safe."""
    place = Place()
    with place.broker() as broker:
        with broker.client() as client:
            tap.equal(sorted(tools(client)), [ALWAYS, TOOL])
            works(call(client))
            works(call(client, argv=["true"], template="host"))
            text = denied(call(client, argv=["true"], workspace={"path": "/etc"}),
                          "owner:workspaces")
            tap.contains(text, "agentcrate stdio -w DIR")
        folder = tap.folder("workspace")
        with broker.client(workspace=folder) as client:
            works(call(client, argv=["touch", "/workspace/made"]))
            tap.check(os.path.exists(os.path.join(folder, "made")), "no file was made")


# --- what ---


def scopes_and_templates():
    place = Place(me=own(templates=["other-*"]))
    with place.broker() as broker, broker.client() as client:
        denied(call(client), "me:templates", 'may not use the template "host"')
        denied(call(client, argv=["true"], template="host\n"), "me:templates", '"host\\x0a"')
        result = call(client, argv=["true"], template="other-one")
        tap.equal(result["isError"], True)
        tap.contains(result["content"][0]["text"], 'there is no template "other-one"')
    place = Place(me=own(scopes=["fs:read"]))
    with place.broker() as broker, broker.client() as client:
        denied(call(client), "me:scopes", f"{TOOL} needs the scope exec")
        tap.equal(list(tools(client)), [ALWAYS])


def arguments():
    """What the arguments must be like is listed, and asked of each call."""
    constraint = {
        "properties": {
            "timeout_ms": {"maximum": 5000},
            "argv": {"items": {"not": {"const": "s3cr3t-canary"}}},
        },
        "required": ["argv"],
    }
    place = Place(me=own(arguments={TOOL: constraint}))
    with place.broker() as broker:
        for version in mcp.LEGACY, mcp.MODERN, "2024-11-05":
            with broker.client(version) as client:
                schema = tools(client)[TOOL]["inputSchema"]
                tap.equal(schema["properties"]["timeout_ms"].get("maximum"), 5000)
                for word in "not", "allOf", "anyOf":
                    tap.check(word not in schema, f"{word} stands at the top of the schema")
        with broker.client() as client:
            works(call(client, argv=["true"], timeout_ms=5000))
            rule = f"me:arguments.{TOOL}"
            text = denied(call(client, argv=["true"], timeout_ms=654321), rule,
                          "arguments.timeout_ms", "at most 5000")
            tap.lacks(text, "654321")
            denied(call(client, command="true"), rule, "argv")
            text = denied(call(client, argv=["echo", "s3cr3t-canary"]), rule, "arguments.argv[1]")
            denied(client.request("tools/call", {"name": TOOL}), rule)


def workspaces():
    """Folders of the host: below one that was granted, wherever links lead."""
    base = tap.folder("base")
    for name in "granted", "granted/inner", "granted-not":
        os.mkdir(os.path.join(base, name))
    granted, inner, outside = (os.path.join(base, name)
                               for name in ("granted", "granted/inner", "granted-not"))
    os.symlink(outside, os.path.join(granted, "link"))
    place = Place(me=own(workspaces=[granted]))
    with place.broker() as broker:
        with broker.client() as client:
            works(call(client, argv=["true"], workspace={"path": inner}))
            for path in (outside, base, os.path.join(granted, "link"), inner + "/../..", "/no/such"):
                text = denied(call(client, argv=["true"], workspace={"path": path}), "me:workspaces")
                tap.lacks(text, base)
        with broker.client(workspace=inner) as client:
            works(call(client))
            denied(call(client, argv=["true"], workspace={"path": granted}), "me:workspaces")
        with broker.client(workspace=outside) as client:
            denied(call(client), "me:workspaces", "the workspace of this connection")


def ceilings():
    """What a tenant's jobs may have at most, and how many there may be."""
    place = Place(me=own(ceilings={"output": 1000, "wall_time": "20s", "sandboxes": 1}))
    with place.broker() as broker, broker.client() as client:
        result = call(client, argv=["true"], limits={"output": "1M"})
        tap.equal(result["isError"], True)
        tap.contains(result["content"][0]["text"], "above the ceiling ceilings.output")
        works(call(client, argv=["true"], limits={"output": 1000}))
        # A default that is above it is lowered.
        result = call(client, argv=["head", "-c", "5000", "/dev/zero"])
        tap.equal(result["structuredContent"]["limit"]["name"], "output")
        running = client.start("tools/call", {"name": TOOL, "arguments": {"argv": ["sleep", "2"]}})
        result = call(client)
        tap.equal(result["isError"], True)
        tap.contains(result["content"][0]["text"], "tenant me runs 1 jobs, which is its limit")
        works(client.wait(running))
        works(call(client))
    place = Place(me=own(ceilings={"output": 1000, "on_excess": "clamp"}))
    with place.broker() as broker, broker.client() as client:
        result = call(client, argv=["head", "-c", "5000", "/dev/zero"], limits={"output": "1M"})
        tap.equal(result["structuredContent"]["limit"]["name"], "output")


# Takes its memory at once and holds it.
HOLD = ["python3", "-c", "import sys, time; x = bytearray(int(sys.argv[1]) << 20); "
        "time.sleep(float(sys.argv[2]))"]


def hold(client, size, seconds, limit="300M"):
    arguments = {"argv": [*HOLD, str(size), str(seconds)], "limits": {"memory": limit}}
    return client.start("tools/call", {"name": TOOL, "arguments": arguments})


def ended_by(result):
    """Level and ceiling of the limit that a job ended for, or its outcome."""
    record = result["structuredContent"]
    limit = record["limit"]
    return (limit["level"], limit["max"]) if limit else record["outcome"]


def together():
    """All jobs of a tenant together stay below its ceiling, and those of another do not count."""
    place = Place(alice=tenant(ALICE, ceilings={"memory": "160M"}), bob=tenant(BOB))
    with place.broker() as broker:
        with As(broker, ALICE) as alice, As(broker, ALICE) as too, As(broker, BOB) as bob:
            others = hold(bob, 250, 8 * SLOW)
            small = hold(alice, 50, 8 * SLOW, limit="150M")
            time.sleep(1 * SLOW)
            large = hold(too, 130, 60 * SLOW, limit="150M")
            tap.equal(ended_by(too.wait(large, 60 * SLOW)), ("tenant", 160 << 20), "the larger job")
            tap.equal(ended_by(alice.wait(small, 60 * SLOW)), "exited", "the smaller job")
            tap.equal(ended_by(bob.wait(others, 60 * SLOW)), "exited", "another's job")


def max_of(result, name):
    works(result)
    limits = result["structuredContent"]["limits"]
    return next(limit["max"] for limit in limits if limit["name"] == name)


def other_ceilings():
    """Ceilings are lowered and lifted while the broker runs, and jobs run on."""
    place = Place(me=own(ceilings={"memory": "300M"}))
    with place.broker() as broker, broker.client() as client:
        for ceilings_now, instance, memory in (
            ({"memory": "300M"}, {}, 300 << 20),
            ({"memory": "200M", "pids": 50}, {}, 200 << 20),
            ({"pids": 60}, {"memory": "250M"}, 250 << 20),
            ({}, {}, 2 << 30),
        ):
            place.put("me", own(ceilings=ceilings_now))
            place.put("agentcrated", {"instance": instance}, folder=place.path)
            before = broker.errors().count("is in force")
            if memory != 300 << 20:
                reload(broker)
            tap.equal(max_of(call(client), "memory"), memory, f"after {before} changes")
        tap.check("restart the broker" not in broker.errors(), broker.errors())


# --- change ---


def tighten():
    """The same call on the same connection: allowed, then denied, and recorded so; what runs ends as
    it began."""
    place = Place(me=own())
    with place.broker() as broker, broker.client() as client:
        works(call(client))
        running = client.start(
            "tools/call", {"name": TOOL, "arguments": {"argv": ["sh", "-c", "sleep 2; echo done"]}})
        tap.equal(sorted(tools(client)), [ALWAYS, TOOL])  # and the call has begun
        place.put("me", own(scopes=["fs:read"]))
        reload(broker)
        denied(call(client), "me:scopes")
        tap.equal(list(tools(client)), [ALWAYS])
        works(client.wait(running))
        place.put("me", own())
        reload(broker)
        answer = call(client)
        works(answer)
        tap.equal(answer["structuredContent"]["tenant"], "me", "the tenant of the record")
        tap.equal(sorted(tools(client)), [ALWAYS, TOOL])
        records = mcp.audit_records(broker.log_path)
    decisions = [line for line in records if line["event"] == "decision"]
    tap.equal([line["decision"] for line in decisions],
              ["allowed", "allowed", "denied", "allowed"])
    tap.equal([line["rule"] for line in decisions],
              ["me:tools.allow[0]", "me:tools.allow[0]", "me:scopes", "me:tools.allow[0]"])
    digests = [line["policy_digest"] for line in decisions]
    tap.check(digests[0] == digests[1] == digests[3] != digests[2], f"policy digests {digests}")
    tap.equal([line["tenant"] for line in decisions], ["me"] * 4)


CHANGED = "notifications/tools/list_changed"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def heard(client, seconds):
    """What a client is told beside its answers: method and params."""
    found = []
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            message = client.receive(left)
        except TimeoutError:
            break
        found.append((message["method"], message.get("params")))
    return found


def list_changed():
    """Those whose list is another after a reload are told so, once and in their era's way; others are
    not. What they list then is the new one."""
    place = Place(me=own())
    with place.broker() as broker, broker.client() as legacy, broker.client(hello=False) as mute, \
            broker.client(mcp.MODERN) as modern:
        tap.equal(legacy.server["capabilities"], {"tools": {"listChanged": True}})
        listening = modern.start("subscriptions/listen",
                                 {"notifications": {"toolsListChanged": True}})
        tap.equal(modern.receive(20)["params"], {"_meta": {SUBSCRIPTION: listening},
                                                "notifications": {"toolsListChanged": True}})
        other = modern.start("subscriptions/listen", {"notifications": {}})
        tap.equal(modern.receive(20)["params"], {"_meta": {SUBSCRIPTION: other},
                                                "notifications": {}})
        # Something else has changed.
        place.put("me", own(ceilings={"pids": 100}))
        reload(broker)
        tap.equal(heard(legacy, 0.3), [])
        for change in ({"scopes": []},
                       {"arguments": {TOOL: {"properties": {"timeout_ms": {"maximum": 1000}}}}}):
            place.put("me", own(**change))
            reload(broker)
            tap.equal(heard(legacy, 0.5), [(CHANGED, None)])
            tap.equal(heard(modern, 0.2), [(CHANGED, {"_meta": {SUBSCRIPTION: listening}})])
            tap.equal(heard(mute, 0.2), [], "who has not said hello")
        schema = tools(legacy)[TOOL]["inputSchema"]
        tap.equal(schema["properties"]["timeout_ms"]["maximum"], 1000)
        modern.notify("notifications/cancelled", {"requestId": listening})
        modern.request("server/discover")
        place.put("me", own())
        reload(broker)
        tap.equal(heard(legacy, 0.5), [(CHANGED, None)])
        tap.equal(heard(modern, 0.2), [])


def tenant_gone():
    """A connection outlives its tenant, and is told so by each call."""
    place = Place(me=own(), other=tenant(ALICE))
    with place.broker() as broker, broker.client() as client:
        works(call(client))
        os.unlink(os.path.join(place.tenants, "me.json"))
        reload(broker)
        denied(call(client), "nobody:match", "is no tenant of this broker")
        tap.equal(tools(client), {})
        with broker.client(hello=False) as late:
            tap.contains(late.receive()["error"]["message"], "is no tenant")


def bad_reload():
    """A policy with faults never becomes active, and says where they are."""
    place = Place(me=own())
    kept = "the one before stays in force"
    with place.broker() as broker, broker.client() as client:
        place.put("me", own(scopes=["fs:read"], tols={}))
        place.put("more", '{"match": {"uid": [1]},\n"scopes": ["exce"]}')
        reload(broker, kept)
        works(call(client))
        log = broker.errors()
        tap.contains(log, f"{place.tenants}/me.json:1:")
        tap.contains(log, 'unknown key "tols"')
        tap.contains(log, f'{place.tenants}/more.json:2:12: scopes[0]: "exce" is no scope')
        place.put("more", '{"match": {"uid": [%d]}}' % os.geteuid())
        place.put("me", own())
        reload(broker, kept)
        tap.contains(broker.errors(), "take it out of one of them")
        works(call(client))
        os.unlink(os.path.join(place.tenants, "more.json"))
        reload(broker, "is the same")


def many_tenants():
    """What takes long to read holds up nobody: calls are decided by the old policy until then."""
    place = Place(me=own())
    enum = {f"p{i}": {"enum": [f"v{k}" for k in range(20)]} for i in range(100)}
    grant = {"scopes": [], "arguments": {TOOL: {"properties": enum}}}
    with place.broker() as broker, broker.client() as client:
        works(call(client))
        for i in range(1000):
            text = json.dumps({"match": {"uid": [100000 + i]}, **grant})
            tap.write(os.path.join(place.tenants, f"t{i}.json"), text)
        reload(broker)
        place.put("me", own(scopes=["fs:read"]))
        before, served = broker.errors().count("is in force"), 0
        broker.process.send_signal(signal.SIGHUP)
        while broker.errors().count("is in force") == before:
            result = call(client)
            served += not result["isError"]
            if result["isError"]:
                break
        tap.check(served > 2, f"{served} calls were served while the policy was read")
        settled(broker, "is in force", before)
        denied(call(client), "me:scopes")


def by_file():
    """Changes are seen without being told, also of folders that were not there."""
    place = Place()
    with place.broker() as broker, broker.client() as client:
        works(call(client))
        os.mkdir(place.tenants, 0o755)
        place.put("me", own(scopes=[]))
        settled(broker, "is in force")
        denied(call(client), "me:scopes")
        # Many changes, one reload: after half a second of quiet.
        before = broker.errors().count("was read again")
        for _ in range(5):
            place.put("me", own(scopes=["exec"]))
            time.sleep(0.05)
        settled(broker, "is in force", 1)
        works(call(client))
        tap.equal(broker.errors().count("was read again"), before + 1)
        # What an editor leaves behind is none.
        tap.write(os.path.join(place.tenants, ".me.json.swp"), "x")
        tap.write(os.path.join(place.tenants, "me.json~"), "x")
        shutil.rmtree(place.tenants)
        settled(broker, "is in force", 2)
        works(call(client))


def templates():
    """Templates come, change and go; crates that run keep theirs."""
    place = Place(me=own())
    with open(os.path.join(place.templates, "host.json"), encoding="utf-8") as file:
        host = json.load(file)
    with place.broker() as broker, broker.client() as client:
        new = {"argv": ["sh", "-c", "echo $GREETING; ls -d /marked"], "template": "new"}
        tap.equal(call(client, **new)["isError"], True)
        place.put("new", {**host, "env": {**host.get("env", {}), "GREETING": "one"}},
                  place.templates)
        reload(broker)
        result = call(client, **new)
        tap.equal(result["structuredContent"]["stdout"], "one\n")
        running = client.start("tools/call", {"name": TOOL, "arguments": {
            "argv": ["sh", "-c", "sleep 2; echo $GREETING"], "template": "new"}})
        client.request("ping")  # messages are taken in order: the call has begun
        changed = {**host, "env": {**host.get("env", {}), "GREETING": "two"}, "tmpfs": ["/marked"]}
        place.put("new", changed, place.templates)
        reload(broker)
        tap.equal(call(client, **new)["structuredContent"]["stdout"], "two\n/marked\n")
        os.unlink(os.path.join(place.templates, "new.json"))
        reload(broker)
        tap.contains(call(client, **new)["content"][0]["text"], 'there is no template "new"')
        tap.equal(client.wait(running)["structuredContent"]["stdout"], "one\n")
        place.put("new", changed, place.templates)
        reload(broker)
        tap.equal(call(client, **new)["structuredContent"]["stdout"], "two\n/marked\n")
        works(call(client))


# --- agentcrate policy ---


def policy(place, *words, env=None):
    return tap.run([tap.program("agentcrate"), "policy", *words, "--user"],
                   env=env or place.env())


def check():
    place = Place(me=own(workspaces=["connection"]))
    ran = policy(place, "check").expect(0)
    tap.contains(ran.text, "no faults: 1 tenant, ")
    tap.equal(ran.errors, "")
    tap.contains(ran.text, "the policy of a broker of one's own, from ")
    tap.contains(ran.text, f"from {place.path}, ")
    place.put("me", own())
    tap.contains(policy(place, "check").expect(0).errors, f'warning: {place.tenants}/me.json: there is no workspaces, '
                 'so jobs see no folder of the host; add "workspaces": ["connection"]')
    for more in {"workspaces": []}, {"scopes": []}:
        place.put("me", own(**more))
        tap.equal(policy(place, "check").expect(0).errors, "", str(more))
    ran = tap.run([tap.program("agentcrate"), "policy", "check"], env=place.env()).expect(0)
    whose = ("machine's broker", "--user") if os.geteuid() == 0 else ("broker of one's own", "--system")
    for words in whose:
        tap.contains(ran.text, words)
    place.put("me", own(tools={"allow": ["*", "file_red"]}))
    ran = policy(place, "check").expect(0)
    tap.contains(ran.errors, 'warning: ')
    tap.contains(ran.errors, "there is no tool file_red in this version")
    half = ("there is no scopes, so no tool that needs one may be called; add ",
            "there is no templates, so sandbox_exec may not be called; add ")
    place.put("me", {"match": {"uid": [os.geteuid()]}, "tools": {"allow": ["sandbox_*"]}})
    ran = policy(place, "check").expect(0)
    for words in half:
        tap.contains(ran.errors, f"warning: {place.tenants}/me.json: {words}")
    tap.equal(ran.err.count(b"\n"), 2, ran.errors)
    for keys, words in (
        ({"egress": ["templates"]}, "egress: nothing of it may be used without the scope net:egress; "),
        ({"operations": ["*"]}, "operations: nothing of it may be used without the scope credential:use; "),
        ({"scopes": ["net:egress"]}, "scopes: net:egress allows nothing, for there is no egress; "),
        ({"scopes": ["credential:use"]}, "scopes: credential:use allows nothing, for there is no operations; "),
        ({"scopes": ["exec", "net:egress"], "egress": []}, ""),
        ({"scopes": ["exec", "credential:use"], "operations": ["*"]}, ""),
    ):
        place.put("me", own(workspaces=[], **keys))
        ran = policy(place, "check").expect(0)
        tap.equal(ran.errors.partition("add ")[0].partition("take ")[0],
                  words and f"warning: {place.tenants}/me.json:1: {words}", str(keys))
    place.put("me", own(scopes=["exec", "credential:use"], templates=["host", "hots"], workspaces=["/usr", "/nowhere/at/all", "/etc/passwd"],
                        operations=["*", "hub.list"]))
    ran = policy(place, "check").expect(0)
    for words in ("templates[1]: there is no template hots; ", "workspaces: /nowhere/at/all is not there; ",
                  "workspaces: /etc/passwd is no folder", "operations: hub.list is no operation of any "):
        tap.contains(ran.errors, f"warning: {place.tenants}/me.json:1: {words}")
    tap.equal(ran.err.count(b"\n"), 4, ran.errors)
    ran = tap.run([tap.program("agentcrate"), "policy", "check", "--system", "--dir",
                   tap.folder("nobody")]).expect(0)
    tap.contains(ran.errors, "warning: there is no tenant, so nobody ")
    place.put("me", own(scope=[]))
    place.put("b", '{"match": {"uid": 5}}')
    ran = policy(place, "check").expect(1)
    tap.equal(ran.text, "")
    lines = ran.errors.splitlines()
    tap.equal(len(lines), 2, ran.errors)
    tap.check(lines[0].startswith(f"{place.tenants}/b.json:1:19: match.uid: "), lines[0])
    tap.check(lines[1].startswith(f"{place.tenants}/me.json:1:"), lines[1])
    ran = policy(place, "check", "--dir", "/nowhere").expect(1)
    tap.contains(ran.errors, "--dir /nowhere: No such file or directory")
    ran = policy(place, "check", "--dir", tap.folder("empty")).expect(0)
    tap.contains(ran.text, "no faults: 1 tenant, 0 templates, 0 credentials, sha256:")


def dump():
    """What is dumped is the same policy, and so is its dump."""
    place = Place(me=own(arguments={TOOL: {"properties": {"timeout_ms": {"maximum": 5}}}},
                         ceilings={"memory": "1G", "cpus": 1.5}))
    for env in place.env(), tap.clean_env():
        first, second = tap.folder("first"), tap.folder("second")
        policy(place, "dump", "--to", first, env=env).expect(0)
        policy(place, "dump", "--dir", first, "--to", second, env=env).expect(0)
        tap.run(["diff", "-r", first, second]).expect(0)
        whole = json.loads(policy(place, "dump", env=env).expect(0).text)
        again = json.loads(policy(place, "dump", "--dir", first, env=env).expect(0).text)
        sources = whole.pop("sources")
        tap.equal(sorted(sources), sorted(whole))
        again.pop("sources")
        tap.equal(whole, again)
    whole = json.loads(policy(place, "dump").expect(0).text)
    tap.equal(whole["sources"]["tenants.d/me.json"], f"{place.tenants}/me.json")
    # A broker without tenants: a user's has its owner, the machine's has nobody.
    bare = Place()
    whole = json.loads(policy(bare, "dump").expect(0).text)
    tap.equal(whole["sources"]["tenants.d/owner.json"], "built in")
    tap.contains(whole["tenants.d/owner.json"]["match"]["uid"], os.geteuid())
    if os.geteuid() == 0:
        ran = tap.run([tap.program("agentcrate"), "policy", "dump", "--system", "--dir", bare.path],
                      env=bare.env()).expect(0)
        tap.check(not [key for key in json.loads(ran.text) if key.startswith("tenants.d/")],
                  "a system's broker has a tenant that nobody named")


def explain():
    place = Place(me=own(tools={"allow": ["sandbox_*"]},
                         arguments={TOOL: {"properties": {"timeout_ms": {"maximum": 5}}}}),
                  none=tenant(ALICE, tools={"allow": ["*"], "deny": ["sandbox_*"]}))
    asked = ["explain", "--tenant", "me", "--tool", TOOL]
    ran = policy(place, *asked).expect(0)
    tap.equal(ran.text.splitlines()[:2],
              ["allowed", f"rule         me:tools.allow[0], {place.tenants}/me.json:1"])
    ran = policy(place, *asked, "--args", '{"timeout_ms": 6}').expect(1)
    tap.equal(ran.text.splitlines()[0], "denied")
    tap.contains(ran.text, f"me:arguments.{TOOL}, {place.tenants}/me.json:1")
    tap.contains(ran.text, "arguments.timeout_ms")
    policy(place, *asked, "--args", '{"argv": ["true"], "timeout_ms": 5}').expect(0)
    ran = policy(place, *asked, "--args", '{"timeout_ms": 5, "argw": []}').expect(1)
    tap.equal(ran.text.splitlines()[0], "allowed")
    tap.contains(ran.text, "wrong in itself: ")
    tap.contains(ran.text, "argw")
    for args, first, words in (
        ({"egress": [{"name": "a.example", "port": 80}]}, "denied", "me:scopes"),
        ({"operations": ["forge.list"]}, "denied", "me:scopes"),
        ({"template": "nowhere"}, "allowed", 'wrong in itself: there is no template "nowhere"'),
    ):
        ran = policy(place, *asked, "--args", json.dumps({"argv": ["true"], **args})).expect(1)
        tap.equal(ran.text.splitlines()[0], first)
        tap.contains(ran.text, words)
    place.put("me", own(scopes=["exec", "net:egress"], egress=["templates", {"name": "*.b.example", "port": 80}]))
    tap.write(f"{place.path}/agentcrated.json", '{"egress": {"deny": ["*.c.b.example"]}}')
    for name in "a.b.example", "a.c.b.example":
        ran = policy(place, *asked, "--args", json.dumps(
            {"argv": ["true"], "egress": [{"name": name, "port": 80}]})).expect(0)
        tap.equal(f'But {name}:80 is denied, and the job does not reach it: "*.c.b.example" of egress.deny in '
                  f"{place.path}/agentcrated.json covers it" in ran.text.splitlines(), name == "a.c.b.example", ran.text)
    ran = policy(place, "explain", "--tenant", "none", "--tool", TOOL).expect(1)
    tap.contains(ran.text, "none:tools.deny[0]")
    for words, text in (
        (["explain", "--tenant", "you", "--tool", TOOL], "there are: me, none"),
        (["explain", "--tenant", "me", "--tool", "x\n"], f"there are: {TOOL}"),
        (["explain", "--tenant", "me"], "give --tenant and --tool"),
        ([*asked, "--args", "[]"], "give an object"),
        ([*asked, "--args", "{"], "line 1"),
        ([*asked, "--to", "/tmp"], "--to is no option of it"),
        (["check", "--tenant", "me"], "--tenant is no option of it"),
        (["check", "--system"], "exclude one another"),
        (["chek"], "known are check, dump and explain"),
        ([], "an argument is missing"),
    ):
        tap.contains(policy(place, *words).expect(2).errors, text)


def tests():
    if os.geteuid() == 0:
        tap.case("two users on one socket see and may do different things", two_users)
        tap.case("strangers are refused, recorded and counted", strangers)
        tap.case("one user's connections leave room for others", crowd)
        tap.case("groups are asked after users, and not two of them", groups)
    tap.case("a user's broker serves its user", owner)
    tap.case("scopes and templates", scopes_and_templates)
    tap.case("arguments keep their constraints, and show them", arguments)
    tap.case("folders of the host", workspaces)
    tap.case("ceilings of a tenant", ceilings)
    if os.geteuid() == 0:
        tap.case("a ceiling of a tenant holds its jobs together, and no others", together)
    tap.case("ceilings change while the broker runs", other_ceilings)
    tap.case("a scope is taken away while the broker runs", tighten)
    tap.case("clients are told that their tools have changed", list_changed)
    tap.case("a tenant is taken away while it is connected", tenant_gone)
    tap.case("a policy with faults is not used", bad_reload)
    tap.case("a thousand tenants are read beside the calls", many_tenants)
    tap.case("changed files are seen", by_file)
    tap.case("templates change while the broker runs", templates)
    tap.case("policy check", check)
    tap.case("policy dump", dump)
    tap.case("policy explain", explain)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
