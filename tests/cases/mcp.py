#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""The protocol in the field: MCP-01 to MCP-10, MCP-12, MCP-14 to MCP-16, and LEAK-04.

Left to other issues: the halves of these cases that need HTTP, an upstream, record files or audit.
"""

import json
import os
import random
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import mcp  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

META = {
    "io.modelcontextprotocol/protocolVersion": mcp.MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def ping(request_id):
    return {"jsonrpc": "2.0", "id": request_id, "method": "ping"}


def exec_request(request_id, token=None, **arguments):
    params = {"name": "sandbox_exec", "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def line(message):
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


def expect_error(client, code, request_id=None, says=None):
    answer = client.receive(20)
    tap.check(answer is not None, "the connection was closed")
    tap.equal(answer.get("id", "missing"), request_id, "id")
    tap.equal(answer.get("error", {}).get("code"), code, f"code in {answer!r}")
    if says:
        tap.contains(answer["error"]["message"], says)
    return answer


def expect_alive(client, request_id="alive"):
    client.send(ping(request_id))
    tap.equal(client.receive(20), {"jsonrpc": "2.0", "id": request_id, "result": {}}, "ping")


def nothing_comes(client, seconds):
    try:
        message = client.receive(seconds)
    except socket.timeout:
        return
    raise tap.Failed(f"something came: {message!r}")


def jobs_of(broker):
    """Commands of the processes below the broker that are no launcher or init."""
    found = []
    below = {broker.pid}
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            command = text[text.index("(") + 1 : text.rindex(")")]
            table[int(name)] = (int(text[text.rindex(")") + 2 :].split()[1]), command)
    grown = True
    while grown:
        new = {pid for pid, (parent, _) in table.items() if parent in below} - below
        grown = bool(new)
        below |= new
    for pid in below - {broker.pid}:
        command = table[pid][1] if pid in table else ""
        if not command.startswith(("agentcrate", "crate")):
            found.append(command)
    return found


# --- MCP-01 ---


def ids(client):
    wanted = [0, "", "7", 7, -1, 9007199254740993, "x" * 2000, "é漢😀", 123456789012345678901234]
    client.send_bytes(b"".join(line(ping(i)) for i in wanted))
    got = [client.receive(20) for _ in wanted]
    for request_id, answer in zip(wanted, got):
        tap.equal(answer["id"], request_id, "id")
        tap.check(type(answer["id"]) is type(request_id), f"type of id {answer!r}")
        tap.equal(answer["result"], {}, "result")


def ids_in_flight(client):
    """Answers of calls that run at once are told apart by type, too."""
    wanted = ["7", 7, 0, ""]
    for request_id in wanted:
        client.send(exec_request(request_id, argv=["/bin/echo", repr(request_id)]))
    for _ in wanted:
        answer = client.receive(30)
        tap.equal(answer["result"]["structuredContent"]["stdout"], repr(answer["id"]) + "\n")
        tap.check(any(answer["id"] == w and type(answer["id"]) is type(w) for w in wanted), "id")
        wanted = [w for w in wanted if not (w == answer["id"] and type(w) is type(answer["id"]))]
    tap.equal(wanted, [], "requests without answer")


def id_used_twice(client):
    client.send(exec_request(5, argv=["/bin/sleep", "60"]))
    client.send(exec_request(5, argv=["/bin/true"]))
    expect_error(client, -32600, 5, "still open")
    client.notify("notifications/cancelled", {"requestId": 5})
    expect_alive(client)


def wrong_ids(client):
    for bad in (b"null", b"1.5", b"1e2", b"{}", b"[]", b"true"):
        client.send_bytes(b'{"jsonrpc":"2.0","id":' + bad + b',"method":"ping"}\n')
        expect_error(client, -32600)
    expect_alive(client)


# --- MCP-02 ---


def big_numbers(client):
    """Tokens and ids come back digit by digit; integers are never rounded to fit."""
    client.send_bytes(
        b'{"jsonrpc":"2.0","id":9223372036854775807,"method":"tools/call","params":{"name":'
        b'"sandbox_exec","arguments":{"argv":["/bin/echo","x"]},"_meta":{"progressToken":'
        b"18446744073709551617}}}\n"
    )
    progress = client.receive(30)
    tap.equal(progress["params"]["progressToken"], 18446744073709551617, "token")
    answer = client.receive(30)
    tap.equal(answer["id"], 9223372036854775807, "id")

    for name, value in (("timeout_ms", 9007199254740993), ("capture", 9007199254740993)):
        client.send(exec_request(name, argv=["/bin/true"], **{name: value}))
        answer = client.receive(30)
        if name == "capture":
            tap.check(answer["result"]["isError"], "a capture beyond its maximum is taken")
        else:
            limits = answer["result"]["structuredContent"]["limits"]
            wall = [entry for entry in limits if entry["name"] == "wall_time"][0]
            tap.equal(wall["max"], value, "wall_time")


# --- MCP-03 ---


def strange_text(client):
    client.send_bytes(
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sandbox_exec",'
        b'"arguments":{"argv":["/bin/echo","a\\u0000b"]}}}\n'
    )
    answer = client.receive(20)
    tap.check(answer["result"]["isError"], "NUL in argv is taken")
    tap.contains(answer["result"]["content"][0]["text"], "argv[1]")
    tap.lacks(answer["result"], "structuredContent")

    # A NUL in standard input is data like any other.
    client.send_bytes(
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"sandbox_exec",'
        b'"arguments":{"argv":["/usr/bin/wc","-c"],"stdin":"a\\u0000b"}}}\n'
    )
    tap.equal(client.receive(20)["result"]["structuredContent"]["stdout"].strip(), "3")

    for bad in (
        b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a\\u0000b":1}}',
        b'{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":3,"method":"ping","method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":3,"method":"ping","\\u006dethod":"tools/list"}',
        b'{"jsonrpc":"2.0","id":3,"id":4,"method":"ping"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":3,"method":"ping"}',
    ):
        client.send_bytes(bad + b"\n")
        expect_error(client, -32700)
    # The name that is decided on is the name that is run: two of them are none.
    client.send_bytes(
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"sandbox_exec",'
        b'"name":"other","arguments":{"argv":["/bin/true"]}}}\n'
    )
    expect_error(client, -32700)
    expect_alive(client)


# --- MCP-04 ---


def comma_locale():
    env = tap.clean_env(LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8", LC_NUMERIC="de_DE.UTF-8")
    with mcp.Broker("--idle", "1.5h", env=env) as broker, broker.client() as client:
        record = client.exec("/bin/sleep", "0.05", limits={"wall_time": "1.5s"})
        wall = [entry for entry in record["limits"] if entry["name"] == "wall_time"][0]
        tap.equal(wall["max"], 1500, "wall_time")
        tap.equal(record["outcome"], "exited")


# --- MCP-05 ---


def unknown_requests(broker):
    with broker.client(hello=False) as client:
        for method in ("foo/bar", "resources/templates/list", "", "tools/list/x"):
            client.send({"jsonrpc": "2.0", "id": method, "method": method})
            expect_error(client, -32601, method)
    with broker.client() as client:
        for method in (
            "resources/templates/list",
            "completion/complete",
            "logging/setLevel",
            "server/discover",
            "subscriptions/listen",
        ):
            client.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
            expect_error(client, -32601, 1)
        # Notifications of any name are never answered.
        client.notify("notifications/unheard/of", {"a": 1})
        client.notify("foo/bar")
        expect_alive(client)


def discover(broker):
    with broker.client(mcp.MODERN) as client:
        result = client.request("server/discover")
        tap.equal(result["supportedVersions"], [mcp.MODERN])
        tap.equal(result["resultType"], "complete")
        tap.equal(result["cacheScope"], "private")
        tap.check(isinstance(result["ttlMs"], int), "ttlMs")
        tap.contains(result["_meta"], "io.modelcontextprotocol/serverInfo")
        for method in ("ping", "logging/setLevel", "resources/subscribe"):
            try:
                client.request(method)
            except mcp.RpcError as error:
                tap.equal(error.code, -32601, method)
            else:
                raise tap.Failed(f"{method} is answered in the modern era")
        client.send(
            {
                "jsonrpc": "2.0",
                "id": 9,
                "method": "tools/list",
                "params": {"_meta": {**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}},
            }
        )
        answer = expect_error(client, -32022, 9)
        tap.equal(answer["error"]["data"], {"supported": [mcp.MODERN], "requested": "2099-01-01"})
        client.send({"jsonrpc": "2.0", "id": 10, "method": "tools/list", "params": {}})
        expect_error(client, -32602, 10)


def listen(broker):
    with broker.client(mcp.MODERN) as client:
        asked = client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        note = client.receive(20)
        tap.equal(note["method"], "notifications/subscriptions/acknowledged")
        tap.equal(note["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], asked)
        client.request("server/discover")
        client.notify("notifications/cancelled", {"requestId": asked})
        nothing_comes(client, 0.3)
        client.request("server/discover")


# --- MCP-06 ---


def pings(broker):
    with broker.client(hello=False) as client:
        expect_alive(client, "before")
        client.request("initialize", {"protocolVersion": mcp.LEGACY, "capabilities": {}})
        client.send(exec_request("long", argv=["/bin/sleep", "60"]))
        for params in (None, {}, {"_meta": {"x": 1}}):
            message = ping("p")
            if params is not None:
                message["params"] = params
            client.send(message)
            tap.equal(client.receive(20)["id"], "p")
        client.send_bytes(b"".join(line(ping(i)) for i in range(1000)))
        tap.equal([client.receive(20)["id"] for _ in range(1000)], list(range(1000)))


# --- MCP-07 ---


def batches_refused(broker):
    for version in (None, "2024-11-05", "2025-06-18", mcp.LEGACY):
        with broker.client(version or mcp.LEGACY, hello=version is not None) as client:
            client.send([ping(1), ping(2)])
            expect_error(client, -32600, None, "batches are not supported")
            client.send([])
            expect_error(client, -32600)
            expect_alive(client)


def batches(broker):
    with broker.client("2025-03-26") as client:
        client.send([ping(1), {"jsonrpc": "2.0", "method": "notifications/x"}, 5, ping("2")])
        answers = client.receive(20)
        tap.equal([a["id"] for a in answers], [1, None, "2"])
        tap.equal(answers[1]["error"]["code"], -32600)
        # The array is answered when its last message is.
        client.send([exec_request("a", argv=["/bin/echo", "a"]), ping("b")])
        answers = client.receive(30)
        tap.equal(sorted(a["id"] for a in answers), ["a", "b"])
        client.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
        nothing_comes(client, 0.3)
        client.send([])
        expect_error(client, -32600)
        # One that is cancelled is left out; the others are still answered.
        client.send([exec_request("c", argv=["/bin/sleep", "60"]), ping("d")])
        client.notify("notifications/cancelled", {"requestId": "c"})
        tap.equal([a["id"] for a in client.receive(30)], ["d"])
        expect_alive(client)


def not_objects(client):
    for bad in (b"5", b'"x"', b"null", b"{}", b"true", b'{"jsonrpc":"1.0","method":"ping"}'):
        client.send_bytes(bad + b"\n")
        expect_error(client, -32600)
    client.send_bytes(b'{"jsonrpc":"1.0","id":3,"method":"ping"}\n')
    expect_error(client, -32600, 3)
    client.send_bytes(b'{"jsonrpc":"2.0","id":4,"result":{}}\n')
    expect_alive(client)


# --- MCP-08 ---


def bad_bytes(client):
    for bad in (b"\xff", b'{"a":"\xc3\x28"}', b"{", b"GET / HTTP/1.1", b"[" * 100000):
        client.send_bytes(bad + b"\n")
        expect_error(client, -32700)
    client.send_bytes(b"\n\r\n   \n\t\n")
    expect_alive(client)


def random_bytes(broker):
    noise = random.Random(7).randbytes(3 << 20)
    lines = [part for part in noise.split(b"\n") if part.strip(b" \t\r")]
    with broker.client() as client:
        sent = 0
        while sent < len(lines):
            client.send_bytes(b"\n".join(lines[sent : sent + 200]) + b"\n")
            for _ in lines[sent : sent + 200]:
                answer = client.receive(20)
                tap.check(answer["error"]["code"] in (-32700, -32600), f"{answer!r}")
            sent += 200
        expect_alive(client)


# --- MCP-09 ---


def separators(client):
    text = "a\u2028b\u2029c\u0085d\ve\ff\rg"
    for raw in (True, False):
        request = json.dumps(exec_request(raw, argv=["/bin/cat"], stdin=text), ensure_ascii=not raw)
        client.send_bytes(request.replace('"id": true', '"id": 1').replace('"id": false', '"id": 2').encode() + b"\n")
        tap.equal(client.receive(30)["result"]["structuredContent"]["stdout"], text)


# --- MCP-10 ---


def pieces(broker):
    """One message of 1 MB in every way of splitting it."""
    request = line(exec_request(1, argv=["/usr/bin/wc", "-c"], stdin="x" * 1000000))
    for size in (4095, 4096, 4097, 65536, len(request)):
        with broker.client() as client:
            for start in range(0, len(request), size):
                client.send_bytes(request[start : start + size])
            tap.equal(client.receive(30)["result"]["structuredContent"]["stdout"].strip(), "1000000")
    with broker.client() as client:
        for byte in line(ping("bytewise")):
            client.send_bytes(bytes([byte]))
        tap.equal(client.receive(20)["id"], "bytewise")


def many_in_one_write(client):
    client.send_bytes(b"".join(line(ping(i)) for i in range(200)))
    tap.equal([client.receive(20)["id"] for i in range(200)], list(range(200)))


def half_a_message(broker):
    with broker.client() as slow, broker.client() as other:
        whole = line(ping("slow"))
        slow.send_bytes(whole[:10])
        for i in range(10):
            expect_alive(other, i)
            time.sleep(0.05)
        slow.send_bytes(whole[10:])
        tap.equal(slow.receive(20)["id"], "slow")


def slow_reader(broker):
    """20 MB of answers to one that does not read: it gets them all, and nobody else waits."""
    with broker.client() as slow, broker.client() as other:
        for i in range(6):
            slow.send(
                exec_request(i, command="head -c 1700000 /dev/zero | tr '\\0' x", capture=8388608)
            )
        time.sleep(1)
        record = other.exec("/bin/echo", "ok")
        tap.equal(record["stdout"], "ok\n")
        total = 0
        for _ in range(6):
            answer = slow.receive(60)
            tap.equal(len(answer["result"]["structuredContent"]["stdout"]), 1700000)
            total += len(json.dumps(answer))
        tap.check(total > 20000000, f"only {total} bytes came")


def reader_that_asks_on(broker):
    """A client that sends and sends and never reads is not read any more, and costs no memory."""
    with broker.client() as client:
        before = broker.memory()
        client.socket.setblocking(False)
        request = line({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        sent = 0
        stalled = 0
        while stalled < 20 and sent < 200 << 20:
            try:
                sent += client.socket.send(request * 100)
                stalled = 0
            except BlockingIOError:
                stalled += 1
                time.sleep(0.05)
        tap.check(stalled == 20, f"{sent} bytes were taken of a client that reads nothing")
        grown = broker.memory() - before
        tap.check(grown < 32 << 20, f"the broker grew by {grown} bytes")
        with broker.client() as other:
            expect_alive(other)

        # When it does read, it gets an answer to each request, and no more.
        whole = sent // len(request)
        for _ in range(whole):
            tap.check("result" in client.receive(30), "an answer is no result")
        client.send_bytes(request[sent % len(request) :] + line(ping("last")))
        tap.check("result" in client.receive(30), "an answer is no result")
        tap.equal(client.receive(30)["id"], "last")


# --- MCP-12 ---


def progress_and_result(broker):
    with broker.client() as client:
        client.send(
            exec_request(
                1,
                token="t",
                command="i=0; while [ $i -lt 10000 ]; do echo line $i; i=$((i+1)); done;"
                " head -c 5000000 /dev/zero | tr '\\0' y",
                capture=8388608,
            )
        )
        time.sleep(3)
        last, streamed, answered = -1, 0, False
        while not answered:
            message = client.receive(60)
            if "method" in message:
                tap.equal(message["method"], "notifications/progress")
                tap.equal(message["params"]["progressToken"], "t")
                tap.check(message["params"]["progress"] > last, "progress does not grow")
                last = message["params"]["progress"]
                streamed += 1
            else:
                record = message["result"]["structuredContent"]
                answered = True
        tap.check(streamed > 0, "nothing was streamed")
        tap.check(record["stdout"].startswith("line 0\n"), "the beginning is missing")
        tap.equal(record["stdout_bytes"], 5000000 + sum(len(f"line {i}\n") for i in range(10000)))
        nothing_comes(client, 0.3)


def progress_while_running(client):
    """Output comes while the job runs, in whole characters, with token 0."""
    client.send(
        exec_request(
            1, token=0, command="printf 'caf\\303'; sleep 0.3; printf '\\251\\n'; sleep 0.3; echo end"
        )
    )
    texts = []
    while True:
        message = client.receive(30)
        if "id" in message:
            break
        tap.equal(message["params"]["progressToken"], 0)
        texts.append(message["params"]["message"])
    tap.equal("".join(texts), "café\nend\n")
    tap.check(len(texts) >= 2, f"not streamed: {texts!r}")
    tap.equal(message["result"]["structuredContent"]["stdout"], "café\nend\n")


# --- MCP-14 ---


def older_versions(broker):
    for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
        with broker.client(version) as client:
            tap.equal(client.server["protocolVersion"], version)
            tool = client.request("tools/list")["tools"][0]
            result = client.call("sandbox_exec", {"argv": ["/bin/echo", "hi"]})
            structured = version >= "2025-06-18"
            tap.equal("structuredContent" in result, structured, f"structuredContent in {version}")
            tap.equal("outputSchema" in tool, structured, f"outputSchema in {version}")
            tap.equal("annotations" in tool, version >= "2025-03-26", f"annotations in {version}")
            tap.equal(result["content"][0]["text"], "hi\n")
            tap.lacks(result, "resultType")
    for version in ("2099-01-01", "1999-01-01", mcp.MODERN):
        with broker.client(hello=False) as client:
            result = client.request("initialize", {"protocolVersion": version, "capabilities": {}})
            tap.equal(result["protocolVersion"], mcp.LEGACY)


def both_eras_on_one_socket(broker):
    with broker.client() as old, broker.client(mcp.MODERN) as new:
        tap.equal(old.exec("/bin/echo", "1")["stdout"], "1\n")
        result = new.call("sandbox_exec", {"argv": ["/bin/echo", "2"]})
        tap.equal(result["structuredContent"]["stdout"], "2\n")
        tap.equal(result["resultType"], "complete")
        tap.equal(
            json.dumps(old.request("tools/list")["tools"]),
            json.dumps(new.request("tools/list")["tools"]),
        )


# --- MCP-15 ---


def cancelled(broker):
    with broker.client() as client:
        client.send(exec_request(1, command="echo begun; exec sleep 300", token=1))
        tap.equal(client.receive(30)["method"], "notifications/progress")
        tap.check(tap.wait_until(lambda: "sleep" in jobs_of(broker)), "the job does not run")
        client.notify("notifications/cancelled", {"requestId": 1, "reason": "test"})
        tap.check(
            tap.wait_until(lambda: "sleep" not in jobs_of(broker), 10), "the job lives on"
        )
        client.notify("notifications/cancelled", {"requestId": 1})
        nothing_comes(client, 0.5)
        # Of what has ended or never was.
        client.exec("/bin/true")
        client.notify("notifications/cancelled", {"requestId": client.next_id - 1})
        client.notify("notifications/cancelled", {"requestId": "never"})
        client.notify("notifications/cancelled", {})
        client.notify("notifications/cancelled")
        expect_alive(client)
        # The id is free again.
        client.send(exec_request(1, argv=["/bin/echo", "again"]))
        tap.equal(client.receive(30)["result"]["structuredContent"]["stdout"], "again\n")


def cancelled_at_once(broker):
    """Before the crate stands."""
    with broker.client() as client:
        for i in range(20):
            client.send_bytes(
                line(exec_request(i, argv=["/bin/sleep", "300"]))
                + line(
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/cancelled",
                        "params": {"requestId": i},
                    }
                )
            )
        expect_alive(client)
        tap.check(
            tap.wait_until(lambda: "sleep" not in jobs_of(broker), 15), "jobs live on"
        )
        nothing_comes(client, 0.3)


def stubborn(broker):
    """A job that ignores TERM ends all the same, with all that it has started."""
    with broker.client() as client:
        client.send(
            exec_request(
                1, token=1, command="trap '' TERM; (setsid sleep 301 &) ; echo begun; sleep 302; sleep 303"
            )
        )
        tap.equal(client.receive(30)["method"], "notifications/progress")
        client.notify("notifications/cancelled", {"requestId": 1})
        tap.check(tap.wait_until(lambda: not jobs_of(broker), 15), lambda: f"{jobs_of(broker)} live on")
        expect_alive(client)


# --- MCP-16 ---


def client_gone(broker):
    client = broker.client()
    client.send(exec_request(1, token=1, command="echo begun; exec sleep 300"))
    tap.equal(client.receive(30)["method"], "notifications/progress")
    client.close()
    tap.check(tap.wait_until(lambda: "sleep" not in jobs_of(broker), 10), "the job lives on")
    with broker.client() as other:
        tap.equal(other.exec("/bin/echo", "next")["stdout"], "next\n")


def client_gone_in_the_middle(broker):
    for end in (b"", b"{", line(ping(1)), line(exec_request(1, argv=["/bin/sleep", "300"])) + b'{"js'):
        client = broker.client()
        client.send_bytes(end)
        client.close()
    tap.check(tap.wait_until(lambda: not jobs_of(broker), 10), "jobs live on")


def half_closed(broker):
    """A client that only stops writing still gets its answers, also to a line without newline."""
    with broker.client() as client:
        client.send_bytes(line(exec_request(1, command="sleep 0.3; echo late")) + line(ping(2))[:-1])
        client.socket.shutdown(socket.SHUT_WR)
        answers = {}
        while True:
            message = client.receive(30)
            if message is None:
                break
            answers[message["id"]] = message
        tap.equal(sorted(answers), [1, 2])
        tap.equal(answers[1]["result"]["structuredContent"]["stdout"], "late\n")


def half_closed_and_slow(broker):
    """The same when the answers are more than are held for a client at a time."""
    with broker.client() as client:
        request = line({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        client.send_bytes(request * 600)
        client.socket.shutdown(socket.SHUT_WR)
        time.sleep(0.5)
        answers = 0
        while client.receive(30) is not None:
            answers += 1
        tap.equal(answers, 600)


# --- LEAK-04 ---


def open_files(broker):
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def connections_of(broker):
    """How many connections the broker's socket has."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return sum(1 for entry in file if entry.rstrip().endswith(broker.path)) - 1


def connects(broker):
    with broker.client() as client:
        client.exec("/bin/true")
    tap.check(tap.wait_until(lambda: connections_of(broker) == 0), "connections stay")
    before = open_files(broker)
    for i in range(2000):
        client = mcp.Client(broker.path, hello=False)
        if i % 4 == 1:
            client.send(ping(i))
        elif i % 4 == 2:
            client.send_bytes(b'{"half')
        elif i % 4 == 3:
            client.socket.shutdown(socket.SHUT_RDWR)
        client.close()
    tap.check(
        tap.wait_until(lambda: open_files(broker) <= before, 20),
        lambda: f"{before} files were open, now {open_files(broker)}",
    )


def jobs_leave_nothing(broker):
    with broker.client() as client:
        idle = open_files(broker)
        for _ in range(200):
            tap.equal(client.exec("/bin/true")["outcome"], "exited")
        tap.check(
            tap.wait_until(lambda: open_files(broker) <= idle),
            lambda: f"{idle} files were open, now {open_files(broker)}",
        )


def few_files():
    """With 64 files: what is new is refused by name, what runs goes on, and nothing spins."""
    with mcp.Broker(open_files=64) as broker:
        few_files_with(broker)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def few_files_with(broker):
    worker = broker.client()
    worker.send(exec_request("long", command="sleep 4; echo survived"))
    others, refused = [], 0
    for _ in range(100):
        client = mcp.Client(broker.path, hello=False)
        others.append(client)
    for client in others:
        try:
            client.send(ping(1))
        except BrokenPipeError:
            pass  # refused and closed already: the reason can still be read
        answer = client.receive(10)
        if answer and "error" in answer:
            tap.contains(answer["error"]["message"], "open files")
            refused += 1
    tap.check(refused > 0, "nobody was refused by name")

    for i in range(10):
        worker.send(exec_request(i, argv=["/bin/sleep", "0.2"]))
    denied = 0
    for _ in range(10):
        answer = worker.receive(30)
        result = answer["result"]
        if result["isError"]:
            denied += 1
            tap.contains(result["content"][0]["text"], "open files")
    tap.check(denied > 0, "no job was refused by name")

    before = cpu_seconds(broker.pid)
    time.sleep(1)
    spent = cpu_seconds(broker.pid) - before
    tap.check(spent < 0.5, f"{spent} s of CPU were spent in one idle second")

    answer = worker.receive(30)
    tap.equal(answer["id"], "long")
    tap.equal(answer["result"]["structuredContent"]["stdout"], "survived\n")
    for client in others:
        client.close()
    tap.check(tap.wait_until(lambda: accepts(broker), 10), "no connection is taken any more")
    worker.close()


def accepts(broker):
    with mcp.Client(broker.path, hello=False) as client:
        try:
            client.send(ping(1))
            return "result" in (client.receive(5) or {})
        except OSError:
            return False


def with_client(name, broker, test, version=mcp.LEGACY):
    def run():
        with broker.client(version) as client:
            test(client)

    tap.case(name, run)


def tests():
    with mcp.Broker() as broker:
        with_client("MCP-01 ids keep type and value", broker, ids)
        with_client("MCP-01 ids of calls in flight", broker, ids_in_flight)
        with_client("MCP-01 an id that is in use is refused", broker, id_used_twice)
        with_client("MCP-01 ids that are none", broker, wrong_ids)
        with_client("MCP-02 big integers", broker, big_numbers)
        with_client("MCP-03 NUL, surrogates, duplicates, BOM", broker, strange_text)
        tap.case("MCP-04 a locale with a comma", comma_locale)
        tap.case("MCP-05 unknown requests", unknown_requests, broker)
        tap.case("MCP-05 server/discover", discover, broker)
        tap.case("MCP-05 subscriptions/listen", listen, broker)
        tap.case("MCP-06 ping at any time", pings, broker)
        tap.case("MCP-07 arrays are refused by name", batches_refused, broker)
        tap.case("MCP-07 arrays of revision 2025-03-26", batches, broker)
        with_client("MCP-07 lines that are no objects", broker, not_objects)
        with_client("MCP-08 bad bytes", broker, bad_bytes)
        tap.case("MCP-08 random bytes", random_bytes, broker)
        with_client("MCP-09 separators inside of strings", broker, separators)
        tap.case("MCP-10 a message in pieces", pieces, broker)
        with_client("MCP-10 many messages in one write", broker, many_in_one_write)
        tap.case("MCP-10 half a message holds up nobody", half_a_message, broker)
        tap.case("MCP-10 a slow reader", slow_reader, broker)
        tap.case("MCP-10 a client that never reads", reader_that_asks_on, broker)
        tap.case("MCP-12 progress and result", progress_and_result, broker)
        with_client("MCP-12 progress while the job runs", broker, progress_while_running)
        tap.case("MCP-14 older versions", older_versions, broker)
        tap.case("MCP-14 both eras on one socket", both_eras_on_one_socket, broker)
        tap.case("MCP-15 a cancelled call", cancelled, broker)
        tap.case("MCP-15 cancelled at once", cancelled_at_once, broker)
        tap.case("MCP-15 a job that ignores TERM", stubborn, broker)
        tap.case("MCP-16 the client goes away", client_gone, broker)
        tap.case("MCP-16 in the middle of a message", client_gone_in_the_middle, broker)
        tap.case("MCP-16 closed for writing only", half_closed, broker)
        tap.case("MCP-16 closed for writing only, and slow", half_closed_and_slow, broker)
        tap.case("LEAK-04 2000 connections", connects, broker)
        tap.case("LEAK-04 200 jobs", jobs_leave_nothing, broker)
    tap.case("LEAK-04 few files", few_files)


sys.exit(tap.main(tests))
