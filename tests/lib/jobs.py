# SPDX-License-Identifier: Apache-2.0
"""One job, by whichever way: agentcrate-run, or a broker's sandbox_exec. Cases that hold for both
are written once:

        with jobs.ways() as ways:
            for way in ways:
                tap.case(f"OUT-09 ... ({way.name})", test, way)
"""

import base64
import contextlib
import os
import time

import mcp
import tap


class Job:
    """What came of it: outcome, exit_code, signal, limit (its name), error, out and err (bytes as
    far as they were kept), record, seconds."""

    def __init__(self, record, out, err, seconds):
        self.record, self.out, self.err, self.seconds = record, out, err, seconds
        record = record or {}
        self.outcome, self.exit_code = record.get("outcome"), record.get("exit_code")
        self.signal, self.error = record.get("signal"), record.get("error")
        self.limit = (record.get("limit") or {}).get("name")

    @property
    def text(self):
        return self.out.decode("utf-8", "backslashreplace")

    @property
    def errors(self):
        return self.err.decode("utf-8", "backslashreplace")

    def __str__(self):
        return (
            f"{self.outcome}, exit {self.exit_code}, signal {self.signal}, limit {self.limit}, "
            f"error {self.error}, {self.seconds:.2f} s\nstdout {self.out[:2000]!r}\nstderr "
            f"{self.err[:2000]!r}"
        )

    def expect(self, code=0, out=None, err=None):
        """Raises Failed unless it exited with that code and, where given, exactly that output."""
        tap.check(
            self.outcome == "exited" and self.exit_code == code,
            lambda: f"not exited {code}: {self}",
        )
        for what, got, wanted in (("stdout", self.out, out), ("stderr", self.err, err)):
            if wanted is not None:
                wanted = wanted.encode() if isinstance(wanted, str) else wanted
                tap.check(got == wanted, lambda w=what, e=wanted: f"{w} is not {e!r}: {self}")
        return self


class Run:
    """By agentcrate-run."""

    name = "agentcrate-run"

    def __init__(self):
        self.last = None

    # pylint: disable=too-many-arguments
    def run(
        self,
        *argv,
        command=None,
        stdin=None,
        workspace=None,
        mode="rw",
        cwd=None,
        env=None,
        limits=None,
        seconds=None,
        profile=None,
        on_hit=None,
        hang=60,
        caller_env=None,
    ):
        options = []
        if workspace:
            options += ["-w", workspace + (":ro" if mode == "ro" else "")]
        if cwd:
            options += ["-C", cwd]
        for name, value in (env or {}).items():
            options += ["-e", f"{name}={value}"]
        for name, value in (limits or {}).items():
            # A bare time is in milliseconds in a call.
            bare = name.endswith("_time") and isinstance(value, int)
            options += ["--limit", f"{name}={value}{'ms' if bare else ''}"]
        if seconds:
            options += ["-t", str(seconds)]
        if on_hit:
            options += ["--on-hit", on_hit]
        if profile:
            options += ["--profile", profile]
        if command is not None:
            argv = ("/bin/sh", "-c", command)
        ran = tap.crate(*argv, options=options, stdin=stdin, timeout=hang, env=caller_env)
        self.last = ran
        if ran.record is None:
            raise tap.Failed(f"no record: {ran}")
        return Job(ran.record, ran.out, ran.err, ran.seconds)


class Call:
    """By sandbox_exec of a broker; a connection for each workspace."""

    name = "sandbox_exec"

    def __init__(self, broker):
        self.broker, self.clients = broker, {}

    def client(self, workspace=None, mode="rw"):
        key = (workspace, mode)
        if key not in self.clients:
            self.clients[key] = self.broker.client(workspace=workspace, mode=mode)
        return self.clients[key]

    # pylint: disable=too-many-arguments
    def run(
        self,
        *argv,
        command=None,
        stdin=None,
        workspace=None,
        mode="rw",
        cwd=None,
        env=None,
        limits=None,
        seconds=None,
        profile=None,
        on_hit=None,
        hang=60,
        capture=8 << 20,
    ):
        arguments = {"argv": list(argv)} if command is None else {"command": command}
        if stdin is not None:
            arguments["stdin"] = base64.b64encode(stdin).decode()
            arguments["stdin_encoding"] = "base64"
        for name, value in (
            ("cwd", cwd),
            ("env", env),
            ("limits", limits),
            ("on_hit", on_hit),
            ("capture", capture),
        ):
            if value:
                arguments[name] = value
        if seconds:
            arguments["timeout_ms"] = int(seconds * 1000)
        if profile:
            arguments["template"] = profile
        started = time.monotonic()
        result = self.client(workspace, mode).call("sandbox_exec", arguments, timeout=hang)
        elapsed = time.monotonic() - started
        if "structuredContent" not in result:
            raise tap.Failed(f"no record: {str(result)[:2000]}")
        record = result["structuredContent"]
        streams = []
        for stream in ("stdout", "stderr"):
            text = record[stream]
            kind = record[stream + "_encoding"]
            streams.append(base64.b64decode(text) if kind == "base64" else text.encode())
        return Job(record, *streams, elapsed)

    def close(self):
        for client in self.clients.values():
            client.close()


@contextlib.contextmanager
def ways():
    """Both ways, with a broker that has a template "strict" as well."""
    strict = {
        "description": "the host's /usr under the strict profile",
        "root": "host",
        "ro": ["/usr", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs"],
        "seccomp": "strict",
    }
    with mcp.Broker(env=tap.template_env(strict=strict)) as broker:
        call = Call(broker)
        try:
            yield [Run(), call]
        finally:
            call.close()


def git_env(home="/home/agent"):
    """Variables with which git asks nobody who the author is."""
    return {
        "GIT_AUTHOR_NAME": "Agent",
        "GIT_AUTHOR_EMAIL": "agent@example.org",
        "GIT_COMMITTER_NAME": "Agent",
        "GIT_COMMITTER_EMAIL": "agent@example.org",
        "HOME": home,
    }


def files_of(place):
    """Every entry below place: relative name -> (type and mode, size)."""
    seen = {}
    for top, names, plain in os.walk(place):
        for name in names + plain:
            path = os.path.join(top, name)
            info = os.lstat(path)
            seen[os.path.relpath(path, place)] = (info.st_mode, info.st_size)
    return seen
