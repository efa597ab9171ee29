#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""Ways out that take more than one question: two parties, a whole job, or a look from outside."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import machine
import mcp
import tap

PROBE = "/workspace/crate-probe"
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
KEY = 0x41430000 + os.getpid() % 0xFFFF


def workspace():
    place = tap.folder("workspace")
    shutil.copy(tap.helper("crate-probe"), place)
    os.chmod(os.path.join(place, "crate-probe"), 0o755)
    return place


def ask(*questions, place=None, options=(), **kwargs):
    """The answers of one crate, in order."""
    ran = tap.crate(PROBE, *questions, options=["-w", place or workspace(), *options], **kwargs)
    answers = dict(line.split("\t", 1) for line in ran.text.splitlines() if "\t" in line)
    return [answers.get(question) for question in questions]


def asked_outside(*questions):
    ran = tap.run([tap.helper("crate-probe"), *questions])
    return [line.split("\t", 1)[1] for line in ran.text.splitlines()]


# --- what the job is made of ---


def row_2():
    ran = tap.shell("kill -SEGV $$; echo survived")
    ran.expect(128 + 11, out="")
    tap.equal((ran.record["outcome"], ran.record["signal"]), ("signaled", "SIGSEGV"), "end")


def row_3():
    """A script whose interpreter is "whoever executes me" comes to be run by init's own program,
    which knows that it was not started by us and ends at once; its file is as before."""
    place = workspace()
    tap.write(os.path.join(place, "entry"), "#!/proc/self/exe\n", 0o755)
    os.symlink("/proc/self/exe", os.path.join(place, "link"))
    launcher = tap.libexec("agentcrate-launcher")
    before = os.stat(launcher)
    for name in ("/workspace/entry", "/workspace/link", "/proc/self/exe"):
        ran = tap.crate(name, options=["-w", place, "-t", "20"])
        tap.check(ran.rc not in (0, 124) and not ran.out, f"{name} is not refused: {ran}")
    after = os.stat(launcher)
    tap.equal(
        (after.st_ino, after.st_size, after.st_mode, after.st_mtime_ns),
        (before.st_ino, before.st_size, before.st_mode, before.st_mtime_ns),
        "the launcher's file",
    )


def row_4(client):
    """No descriptor that a job could name as its folder leads out."""
    place = workspace()
    os.symlink("/proc/self/fd/5", os.path.join(place, "way-out"))
    ran = tap.crate("/bin/pwd", options=["-w", place, "-C", "/workspace/way-out"])
    tap.equal(ran.record["outcome"], "exec_failed", f"outcome: {ran}")
    numbers = [*range(3, 64), 100, 127, 128, 255, 256, 511, 512, 1000, 1023]
    waiting = [
        (
            n,
            client.start(
                "tools/call",
                {
                    "name": "sandbox_exec",
                    "arguments": {"argv": ["/bin/pwd"], "cwd": f"/proc/self/fd/{n}"},
                },
            ),
        )
        for n in numbers
    ]
    for n, request in waiting:
        result = client.wait(request)
        outcome = result.get("structuredContent", {}).get("outcome", "refused")
        tap.check(
            result.get("isError") and outcome in ("exec_failed", "refused"), f"fd {n}: {result}"
        )


def row_12():
    """With a terminal of its own the job cannot type into it either."""
    import pty  # pylint: disable=import-outside-toplevel

    place = workspace()
    master, slave = pty.openpty()
    argv = [tap.program("agentcrate-run"), "--tty", "-w", place, "-t", "20", "--", PROBE]
    argv += [f"ioctl=0,{TIOCSTI:#x}", f"ioctl=0,{TIOCLINUX:#x}", "ioctl=0,0x5401"]
    child = subprocess.Popen(
        argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=tap.clean_env(TERM="dumb"),
        cwd="/",
        start_new_session=True,
    )
    os.close(slave)
    output = b""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:
            break
        if not data:
            break
        output += data
    child.wait(timeout=30)
    os.close(master)
    answers = re.findall(r"\t(\S+)", output.decode("utf-8", "replace"))
    # The last is TCGETS and shows that there is a terminal.
    tap.equal(answers, ["EPERM", "EPERM", "OK"], f"answers in {output!r}")


def row_20():
    """A set-uid program of the host starts without its bit: for the kernel it is not in secure
    mode."""
    for name in ("su", "passwd", "newgrp", "mount", "chsh", "gpasswd"):
        path = shutil.which(name, path="/usr/bin:/usr/sbin")
        if path and os.stat(path).st_mode & 0o4000:
            break
    else:
        raise tap.Skip("host has no set-uid program in /usr")
    ran = tap.crate(path, "--help", options=["-e", "LD_SHOW_AUXV=1"])
    values = dict(re.findall(r"^AT_(\w+): +(\S+)", ran.text, re.M))
    tap.equal(
        {name: values.get(name) for name in ("UID", "EUID", "GID", "EGID", "SECURE")},
        {"UID": "1000", "EUID": "1000", "GID": "1000", "EGID": "1000", "SECURE": "0"},
        f"ids of {path}",
    )


def row_20_own():
    """So does one that lies in the workspace, put there by root."""
    place = workspace()
    os.chmod(os.path.join(place, "crate-probe"), 0o6755)
    tap.equal(ask("status=Uid", "status=Gid", place=place), ["1000 1000 1000 1000"] * 2, "ids")


def row_21():
    place = workspace()
    everything = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0xFFFFFFFF, 0x1FF, 0x1FF)
    os.setxattr(os.path.join(place, "crate-probe"), "security.capability", everything)
    tap.equal(ask("status=CapEff", "status=CapPrm", place=place), ["0" * 16] * 2, "capabilities")


# --- what is shared with the host or between jobs ---


def row_38():
    """An abstract socket of the host, which needs no file."""
    name = f"agentcrate-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("\0" + name)
        server.listen(8)
        tap.equal(asked_outside(f"connect-abstract={name}"), ["OK"], "answer outside")
        tap.equal(ask(f"connect-abstract={name}"), ["ECONNREFUSED"], "answer")
        tap.equal(
            ask(f"connect-abstract={name}", options=["--profile", "strict"]),
            ["ECONNREFUSED"],
            "answer in strict",
        )


def row_38_inet():
    """A server on the host's loopback."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        question = f"connect-inet={0x7F000001:#x},{server.getsockname()[1]}"
        tap.equal(asked_outside(question), ["OK"], "answer outside")
        tap.equal(ask(question), ["ECONNREFUSED"], "answer")


def row_39():
    """No socket, no cgroup file, no device out of its place in the whole tree."""
    tap.equal(ask("walk=/"), ["sockets 0, cgroup files 0, devices 0"], "answer")


def row_41():
    """System V and POSIX objects of the host."""
    try:
        tap.equal(asked_outside(f"ipc-make={KEY}"), ["OK OK OK OK"], "making outside")
        tap.equal(asked_outside(f"ipc-find={KEY}"), ["OK OK OK OK"], "finding outside")
        for profile in ("default", "strict"):
            found = ask(f"ipc-find={KEY}", options=["--profile", profile])
            tap.equal(found, ["ENOENT ENOENT ENOENT ENOENT"], f"finding inside, {profile}")
    finally:
        asked_outside(f"ipc-drop={KEY}")


def row_41_jobs():
    """Those of a job, by the next and from outside."""
    tap.equal(ask(f"ipc-make={KEY}", f"ipc-find={KEY}"), ["OK OK OK OK"] * 2, "making inside")
    tap.equal(ask(f"ipc-find={KEY}"), ["ENOENT ENOENT ENOENT ENOENT"], "finding in the next")
    tap.equal(asked_outside(f"ipc-find={KEY}"), ["ENOENT ENOENT ENOENT ENOENT"], "finding outside")


def row_42():
    """Files of one job, while it lives, by another; and those of the host."""
    name = f"agentcrate-test-canary-{os.getpid()}"
    paths = [f"{place}/{name}" for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/home/agent")]
    place = workspace()
    script = "".join(f"echo x > {path}; " for path in paths) + "echo ready; sleep 60"
    first = subprocess.Popen(
        [tap.program("agentcrate-run"), "--", "/bin/sh", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=tap.clean_env(),
        cwd="/",
    )
    host = [path for path in paths[:3] if not os.path.exists(path)]
    try:
        tap.equal(first.stdout.readline(), b"ready\n", "first job")
        tap.equal([path for path in paths if os.path.exists(path)], [], "files on the host")
        for path in host:
            tap.write(path + "-host", "x")
        questions = [f"exists={path}" for path in paths] + [f"exists={path}-host" for path in host]
        tap.equal(
            ask(*questions, place=place), ["ENOENT"] * len(questions), "answers of the second"
        )
    finally:
        tap.kill_and_wait(first)
        first.stdout.close()
        for path in host:
            os.unlink(path + "-host")


def row_49():
    """What mountinfo tells. The host path of the workspace cannot be kept from a job: the kernel
    shows of every bind the path below its file system. All else tells nothing of the user."""
    place = workspace()
    inside = tap.shell("cat /proc/self/mountinfo", options=["-w", place]).expect(0).text
    secrets = {
        "the scratch folder": tap.scratch(),
        "the home": tap.home(),
        "the programs": os.path.dirname(tap.program("agentcrate-run")),
        "the launcher": os.path.dirname(tap.libexec("agentcrate-launcher")),
        "the caller's home": os.path.expanduser("~"),
        "the host's name": os.uname().nodename,
    }
    for line in inside.splitlines():
        fields = line.split()
        if fields[4] == "/workspace":
            continue
        words = [fields[3], fields[4], *fields[fields.index("-") + 1 :]]
        for what, secret in secrets.items():
            if len(secret) > 4 and not secret.startswith("/usr"):
                tap.check(not any(secret in word for word in words), f"{what} is told by: {line}")
    tap.contains(inside, " /workspace ", "mountinfo")
    alone = tap.shell("cat /proc/self/mountinfo").expect(0).text
    tap.lacks(alone, tap.scratch(), "mountinfo without a workspace")


def row_49_names():
    """Nor do the other things that are readable tell of the host."""
    inside = tap.shell(
        "hostname; uname -n; cat /etc/hostname /etc/hosts /etc/passwd /proc/self/cgroup "
        "/proc/cmdline; env"
    ).text
    name = os.uname().nodename
    if len(name) > 3:
        tap.lacks(inside, name, "what a job reads")
    if "HOME" in os.environ and len(os.environ["HOME"]) > 5:
        tap.lacks(inside, os.environ["HOME"], "what a job reads")


# --- processes ---


def row_60():
    """Nobody to signal: neither all, nor the one that started it."""
    tap.equal(ask("kill-all"), ["ESRCH"], "kill(-1, 0)")
    if os.getpid() > 1000:
        tap.equal(ask(f"kill={os.getpid()},0"), ["ESRCH"], "kill(a process of the host, 0)")


def row_61():
    """Init outlives what a job sends it, and tells how the job ended."""
    place = workspace()
    for number in (9, 19, 15, 11, 1):
        ran = tap.crate(PROBE, f"kill=1,{number}", "splice", options=["-w", place, "-t", "20"])
        ran.expect(0)
        tap.contains(ran.text, "splice\tOK", f"output after signal {number}")


def row_103():
    """After the attack on pid 1 it is as before: the job's end comes at once."""
    ran = tap.shell(
        "for p in 1; do prlimit --pid $p --nofile=0 --cpu=1; taskset -p 1 $p; renice -n 19 -p $p; "
        "ionice -c 3 -p $p; chrt -i -p 0 $p; done; echo; exec true",
        options=["-t", "30"],
    )
    ran.expect(0)
    tap.equal(ran.record["outcome"], "exited", "outcome")
    tap.check(
        ran.errors.count("Operation not permitted") + ran.errors.count("not permitted") >= 3,
        str(ran),
    )


def row_76():
    """A descendant that holds stdout does not hold the runner."""
    ran = tap.crate(PROBE, "daemon=300", options=["-w", workspace()], timeout=30)
    ran.expect(0)
    tap.check(ran.seconds < 15, f"took {ran.seconds} s")


def row_77():
    """A daemon ends with the job, whatever it ignores."""
    before = machine.Picture()
    for profile in ("default", "strict"):
        options = ["-w", workspace(), "--profile", profile]
        tap.crate(PROBE, "daemon=300", "daemon=301", options=options, timeout=30).expect(0)
    before.expect_same()


def row_79():
    """Orphans are reaped by init; those whom nobody waits for go with the job."""
    tap.equal(ask("orphans=200"), ["0 zombies"], "answer")
    before = machine.Picture()
    tap.equal(ask("zombies=200"), ["200"], "answer")
    before.expect_same()


# --- limits that this version has ---


def limited(question, options, name):
    """With on-hit refuse the job meets the error; with end it is ended and the limit named."""
    answer = ask(question, options=[*options, "--on-hit", "refuse"])[0]
    tap.check(answer and answer.endswith(" ENOSPC"), f"answer: {answer}")
    place = workspace()
    tap.equal(sorted(os.listdir(place)), ["crate-probe"], "workspace")
    ran = tap.shell(
        f"{PROBE} {question}; sleep 30; echo survived",
        options=["-w", place, *options, "--on-hit", "end"],
        timeout=30,
    )
    ran.expect(137)
    tap.equal(
        (ran.record["outcome"], (ran.record["limit"] or {}).get("name")), ("limit", name), "end"
    )
    tap.contains(ran.errors, name, "stderr")
    return int(answer.split()[0])


def row_68():
    size = limited("fill=/tmp/file,0x10000000", ["--limit", "disk=8M"], "disk")
    tap.check(size <= 8 << 20, f"{size} bytes were written")
    for path in ("/dev/shm/file", "/home/agent/file", "/var/tmp/file", "/run/file"):
        answer = ask(
            f"fill={path},0x10000000", options=["--limit", "disk=8M", "--on-hit", "refuse"]
        )[0]
        tap.check(
            answer and answer.endswith("ENOSPC") and int(answer.split()[0]) <= 8 << 20,
            f"{path}: {answer}",
        )


def row_69():
    count = limited("fill-inodes=/tmp/folder,100000", ["--limit", "inodes=500"], "inodes")
    tap.check(count <= 500, f"{count} files were made")


# --- output ---


def row_74(broker, client):
    """10 GiB are asked for; the broker keeps its bound and names it."""
    before = broker.memory()
    record = client.exec(PROBE, f"flood={10 << 30}", timeout_ms=60000)
    tap.equal((record["outcome"], record["limit"]["name"]), ("limit", "output"), "end")
    tap.check(
        64 << 20 <= record["stdout_bytes"] <= 72 << 20, f"{record['stdout_bytes']} bytes were taken"
    )
    tap.check(record["stdout_truncated"], "not marked as truncated")
    tap.check(
        broker.memory() - before < 16 << 20,
        f"the broker grew from {before} to {broker.memory()} bytes",
    )


def row_74_run():
    """Without a limit the runner passes everything on and keeps nothing."""
    size = 512 << 20
    argv = [tap.program("agentcrate-run"), "-w", workspace(), "--", PROBE, f"flood={size}"]
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=tap.clean_env(), cwd="/"
    ) as child:
        seen = 0
        while True:
            data = child.stdout.read(1 << 20)
            if not data:
                break
            seen += len(data)
        _pid, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    tap.equal(child.returncode, 0, "exit status")
    tap.check(size <= seen <= size + 64, f"{seen} bytes of {size} came")
    tap.check(usage.ru_maxrss < 24 * 1024, f"the runner took {usage.ru_maxrss} KiB")


NASTY = (
    b'\x00\x1b[31m\x1b]0;title\x07\rback\x08\x7f\xc2\x9b31m \xe2\x80\xa8 \xe2\x80\xa9 \\ " \\u0000 '
    b"</script>\n"
    b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    + bytes(range(256))
    + b"\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf\xfe"
)


def row_75(client):
    """Whatever the bytes, the reply is one valid message, and the bytes can be had."""
    import base64  # pylint: disable=import-outside-toplevel

    place = client.place
    tap.write(os.path.join(place, "nasty"), NASTY)
    record = client.exec("/bin/cat", "/workspace/nasty")
    tap.equal(record["stdout_encoding"], "base64", "encoding")
    tap.equal(base64.b64decode(record["stdout"]), NASTY, "bytes")
    text = b'\x1b]0;t\x07 \xe2\x80\xa8 \\u0000 " \r\n' + b'{"jsonrpc":"2.0"}\n'
    tap.write(os.path.join(place, "text"), text)
    record = client.exec("/bin/cat", "/workspace/text")
    tap.equal((record["stdout_encoding"], record["stdout"]), ("utf-8", text.decode()), "text")


def row_75_line(client):
    """A line without an end."""
    record = client.exec("/bin/sh", "-c", "head -c 33554432 /dev/zero | tr '\\0' x")
    tap.equal((record["outcome"], record["stdout_bytes"]), ("exited", 32 << 20), "end")
    tap.check(record["stdout_truncated"] and len(record["stdout"]) < 300000, "the text is not cut")


def row_75_record():
    """The same in the file of --result, and on stdout with --json."""
    place = workspace()
    tap.write(os.path.join(place, "nasty"), NASTY)
    argv = [
        tap.program("agentcrate-run"),
        "--json",
        "-w",
        place,
        "--",
        "/bin/cat",
        "/workspace/nasty",
    ]
    ran = tap.run(argv)
    lines = ran.out.splitlines()
    tap.equal(len(lines), 1, "lines")
    record = json.loads(lines[0])
    tap.equal((record["stdout_bytes"], record["stdout_encoding"]), (len(NASTY), "base64"), "stdout")
    ran = tap.crate("/bin/sh", "-c", "exit 3", options=["-w", place])
    tap.equal(ran.record["exit_code"], 3, "exit code in the file")


# --- time ---


def row_83():
    """The wall clock jumps by hours; deadlines and durations do not."""
    env = tap.clean_env(LD_PRELOAD=tap.helper("clock-jump.so"))
    jumping = tap.run(["/bin/date", "+%s"], env=env)
    if abs(int(jumping.out or b"0") - time.time()) < 1000:
        raise tap.Failed("the preloaded clock does not jump")
    ran = tap.crate("/bin/sleep", "30", options=["-t", "2"], env=env, timeout=25)
    if "ASan runtime" in ran.errors:
        raise tap.Skip("the programs are built with a sanitizer that must be the first library")
    ran.expect(124)
    tap.check(
        1900 <= ran.record["usage"]["wall_ms"] < 15000,
        f"wall_ms is {ran.record['usage']['wall_ms']}",
    )
    ran = tap.crate("/bin/sleep", "1", options=["-t", "20"], env=env, timeout=25)
    ran.expect(0)
    tap.check(
        900 <= ran.record["usage"]["wall_ms"] < 10000,
        f"wall_ms is {ran.record['usage']['wall_ms']}",
    )


def row_83_broker():
    env = tap.clean_env(LD_PRELOAD=tap.helper("clock-jump.so"))
    if "ASan runtime" in tap.run([tap.libexec("agentcrated"), "--version"], env=env).errors:
        raise tap.Skip("the programs are built with a sanitizer that must be the first library")
    with mcp.Broker(env=env) as broker, broker.client() as client:
        record = client.exec("/bin/sleep", "30", timeout_ms=2000)
        tap.equal((record["outcome"], record["limit"]["name"]), ("limit", "wall_time"), "end")
        tap.check(
            1900 <= record["usage"]["wall_ms"] < 15000, f"wall_ms is {record['usage']['wall_ms']}"
        )
        record = client.exec("/bin/sleep", "1", timeout_ms=20000)
        tap.equal(record["outcome"], "exited", "outcome")
        tap.check(
            900 <= record["usage"]["wall_ms"] < 10000, f"wall_ms is {record['usage']['wall_ms']}"
        )


# --- arguments and environment ---


def refused(client, word, **arguments):
    """The call is a tool error without a record whose text has the word."""
    result = client.call("sandbox_exec", arguments)
    text = " ".join(part.get("text", "") for part in result["content"])
    tap.check(result.get("isError") is True, f"not an error: {result}"[:2000])
    tap.check("structuredContent" not in result, f"has a record: {result}"[:2000])
    tap.contains(text, word, "text")


def row_84(client):
    refused(client, "argv", argv=[])
    refused(client, "argv", argv=["/bin/true", "a\0b"])
    refused(client, "131071", argv=["/bin/true", "x" * 131072])
    refused(client, "env", argv=["/bin/true"], env={"A": "x\0y"})
    refused(client, "env", argv=["/bin/true"], env={"A=B": "x"})
    tap.equal(client.exec("/bin/true", "x" * 131071)["exit_code"], 0, "longest argument")
    refused(client, "argv[0]", argv=[""])
    refused(client, "bytes", argv=["/bin/true", *["x" * 100000] * 60])
    # What the kernel takes hangs on the stack's limit: a quarter of it.
    record = client.exec("/bin/true", *["x" * 100000] * 30)
    if record["outcome"] != "exited":
        tap.equal(
            (record["outcome"], record["error"]["errno"]),
            ("exec_failed", "E2BIG"),
            "3 MB of arguments",
        )
    tap.equal(client.exec("/bin/true")["exit_code"], 0, "exit code of the next")


def row_84_run():
    ran = tap.run([tap.program("agentcrate-run"), "--"])
    tap.equal(ran.rc, 125, "exit status without a command")
    ran = tap.crate("")
    tap.check(ran.rc in (125, 127) and ran.errors.strip(), str(ran))


DECLARED = set(
    "PATH LANG HOME USER LOGNAME SHELL TMPDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME "
    "XDG_STATE_HOME".split()
)
POISON = {
    "SECRET": "canary-1",
    "BASH_ENV": "/canary-2",
    "NODE_OPTIONS": "--canary-3",
    "PYTHONPATH": "/canary-4",
    "LD_LIBRARY_PATH": "/canary-5",
    "GIT_DIR": "/canary-6",
    "http_proxy": "canary-7",
    "LANG": "canary_8",
    "PATH": "/canary-9:/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "canary_10",
    "BASH_FUNC_ls%%": "() { echo canary-11; }",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/canary-12",
    "SSH_AUTH_SOCK": "/canary-13",
    "ENV": "/canary-14",
}


def check_environment(text):
    names = {entry.partition("=")[0] for entry in text.split("\0") if entry}
    tap.equal(names, DECLARED, "names")
    tap.lacks(text, "canary", "environment")


def row_85():
    ran = tap.crate("/usr/bin/env", "-0", env=tap.clean_env(**POISON)).expect(0)
    check_environment(ran.text)


def row_85_broker():
    with mcp.Broker(env=tap.clean_env(**POISON)) as broker, broker.client() as client:
        check_environment(client.exec("/usr/bin/env", "-0")["stdout"])


def row_98():
    tap.need("systemctl")
    for command in (
        "systemctl list-units",
        "systemctl --user list-units",
        "systemd-run true",
        "busctl list",
    ):
        ran = tap.shell(command, options=["-t", "30"])
        tap.check(ran.rc not in (0, 124), f"{command} works: {ran}")


def by_broker():
    place = workspace()
    with mcp.Broker() as broker, broker.client(workspace=place) as client:
        client.place = place
        tap.case("row 4 no descriptor can be the folder of a job", row_4, client)
        tap.case(
            "row 74 an output flood is bounded in the broker, and named", row_74, broker, client
        )
        tap.case("row 75 any bytes in the output make a valid reply", row_75, client)
        tap.case("row 75 a line of 32 MiB makes a valid reply", row_75_line, client)
        tap.case("row 84 odd arguments are refused with the reason", row_84, client)
        tap.case(
            "row 60 the broker is out of a job's reach", lambda: broker_unreached(broker, client)
        )


def broker_unreached(broker, client):
    record = client.exec(
        PROBE, f"kill={broker.pid},0" if broker.pid > 1000 else "kill=999999,0", "kill-all"
    )
    tap.equal(re.findall(r"\t(\S+)", record["stdout"]), ["ESRCH", "ESRCH"], "answers")
    tap.equal(broker.process.poll(), None, "end of the broker")


def main():
    tap.become_subreaper()
    tap.case("row 2 a crash is told as its signal and leaves no helper", row_2)
    tap.case("row 3 a script cannot have init's program as its interpreter", row_3)
    tap.case("row 12 a job cannot type into its terminal", row_12)
    tap.case("row 20 a set-uid program of the host gains nothing", row_20)
    if tap.WHO == "root":
        tap.case("row 20 a set-uid program in the workspace gains nothing", row_20_own)
        tap.case("row 21 a program with file capabilities gains nothing", row_21)
    tap.case("row 38 an abstract socket of the host is not reached", row_38)
    tap.case("row 38 a loopback server of the host is not reached", row_38_inet)
    tap.case("row 39 44 no socket, cgroup file or stray device in the whole tree", row_39)
    tap.case("row 41 IPC objects of the host are not found", row_41)
    tap.case("row 41 IPC objects of a job are not found by the next", row_41_jobs)
    tap.case("row 42 private folders are private while the job lives", row_42)
    tap.case("row 49 mountinfo tells of the workspace only", row_49)
    tap.case("row 49 nothing readable tells the host's name", row_49_names)
    tap.case("row 60 a job finds nobody to signal", row_60)
    tap.case("row 61 init outlives signals of the job", row_61)
    tap.case("row 68 disk ends in ENOSPC and is named", row_68)
    tap.case("row 69 inodes end in ENOSPC and are named", row_69)
    tap.case("row 74 an output flood passes through the runner", row_74_run)
    tap.case("row 75 any bytes in the output make a valid record", row_75_record)
    tap.case("row 76 a descendant with stdout does not hold the runner", row_76)
    tap.case("row 77 a daemon does not outlive the job", row_77)
    tap.case("row 79 zombies are reaped or go with the job", row_79)
    tap.case("row 83 a jumping wall clock changes no deadline", row_83)
    tap.case("row 84 no command and an empty one are refused", row_84_run)
    tap.case("row 85 the environment is exactly what is declared", row_85)
    tap.case("row 98 no service manager is reached", row_98)
    tap.case("row 103 tools that cripple pid 1 are refused", row_103)
    try:
        by_broker()
    except (tap.Failed, mcp.RpcError, OSError) as why:
        tap.not_ok("the rows by way of the broker", str(why))
    tap.case("row 83 a jumping wall clock changes no deadline (broker)", row_83_broker)
    tap.case("row 85 the environment is exactly what is declared (broker)", row_85_broker)


sys.exit(tap.main(main))
