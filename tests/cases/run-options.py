#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""The command line of agentcrate-run: every option does what it says, and every mistake is one
sentence that names it and the remedy, before anything has been started."""

import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

RUN = tap.program("agentcrate-run")
ARGUMENT_MAX = 131071


def run(*arguments, **kwargs):
    return tap.run([RUN, *arguments], **kwargs)


def refused(words, *arguments, rc=125, **kwargs):
    """One line on standard error that has all words, nothing on standard output."""
    ran = run(*arguments, **kwargs)
    ran.expect(rc, out="")
    tap.check(ran.errors.startswith("agentcrate-run: ") and ran.err.count(b"\n") == 1,
              f"not one sentence of ours: {ran}")
    for word in words:
        tap.contains(ran.errors, word, "message")


# --- our own folders ---

def own_folders():
    """What says what a job may do, and what it did, is not a job's to change or to read."""
    home = tap.folder("home")
    config, state = os.path.join(home, ".config"), os.path.join(home, "state")
    env = tap.clean_env(XDG_CONFIG_HOME=config, AGENTCRATE_STATE_DIR=state)
    words = ["where AgentCrate's own policy, secrets or logs are", home]
    # A job could make what is not there yet.
    refused(words, "-w", home, "--", "true", env=env)
    tap.write(os.path.join(state, "audit.jsonl"), "canary")
    tap.write(os.path.join(config, "agentcrate/credentials/token"), "canary")
    os.mkdir(os.path.join(home, "src"))
    os.symlink("state", os.path.join(home, "link"))
    for place in home, state, "/":
        refused(words[:1], "-w", place, "--", "true", env=env)
    refused(words[:1], "--rw", home, "--", "true", env=env)
    refused(words[:1], "--ro", state, "--", "true", env=env)
    files = "state/audit.jsonl link/audit.jsonl" + (
        " .config/agentcrate/credentials/token" if tap.WHO == "user" else "")
    text = f'cd /workspace && for f in {files}; do cat $f && exit 1; done; ls src'
    tap.shell(text, options=["-w", f"{home}:ro"], env=env).expect(0, out="")
    tap.shell("touch x", options=["-w", os.path.join(home, "src")], env=env).expect(0)


# --- mistakes ---

MISTAKES = [
    ("no arguments", ["no command", "--help"]),
    ("only --", ["no command"], "--"),
    ("unknown option", ["--nope", "known are", "--workspace", "--limit"], "--nope", "true"),
    ("unknown letter", ["-q", "known are"], "-q", "true"),
    ("abbreviated option", ["--work", "unknown"], "--work", "/", "true"),
    ("value for a flag", ["--json", "no value"], "--json=yes", "true"),
    ("option without value", ["--template", "NAME"], "--template"),
    ("unknown template", ["nope", "host"], "--template", "nope", "true"),
    ("template with a path", ["../host"], "--template", "../host", "true"),
    ("unknown profile", ["nope", "default", "strict", "debug"], "--profile", "nope", "true"),
    ("unknown limit", ["nope", "wall_time", "disk"], "--limit", "nope=1", "true"),
    ("limit without value", ["disk", "NAME=VALUE"], "--limit", "disk", "true"),
    ("unknown on-hit", ["maybe", "end", "refuse"], "--on-hit", "maybe", "true"),
    ("negative size", ["disk", "-1", "64M"], "--limit", "disk=-1", "true"),
    ("unknown suffix", ["disk", "1Q", "64M"], "--limit", "disk=1Q", "true"),
    ("too large a size", ["disk", "18446744073709551616"], "--limit",
     "disk=18446744073709551616", "true"),
    ("zero", ["inodes", "zero"], "--limit", "inodes=0", "true"),
    ("negative time", ["wall_time", "-1", "10s"], "-t", "-1", "true"),
    ("unknown suffix of a time", ["wall_time", "1Q", "10s"], "-t", "1Q", "true"),
    ("too large a time", ["wall_time", "18446744073709551616"], "-t", "18446744073709551616",
     "true"),
    ("no time", ["wall_time", "empty"], "-t", "", "true"),
    ("time twice", ["--timeout", "wall_time"], "-t", "1", "--limit", "wall_time=2", "true"),
    ("limit memory", ["memory", "2M"], "--limit", "memory=1M", "true"),
    ("limit pids", ["pids", "zero"], "--limit", "pids=0", "true"),
    ("limit cpus", ["cpus", "negative"], "--limit", "cpus=-1", "true"),
    ("limit cpu_time", ["cpu_time", "zero"], "--limit", "cpu_time=0", "true"),
    ("limit io_read_bps", ["io_read_bps", "1Q"], "--limit", "io_read_bps=1Q", "true"),
    ("limit io_write_bps", ["io_write_bps", "empty"], "--limit", "io_write_bps=", "true"),
    ("unknown enforce", ["maybe", "strict", "sampled"], "--enforce", "maybe", "true"),
    ("capture that is too large", ["--capture", "1G"], "--json", "--capture", "1G", "true"),
    ("capture without --json", ["--capture", "--json"], "--capture", "1K", "true"),
    ("terminal and record", ["--tty", "--json", "--result"], "--tty", "--json", "true"),
    ("variable without name", ["-e", "NAME=VALUE"], "-e", "=x", "true"),
    ("variable that is not set", ["NOT_SET", "NAME=VALUE"], "-e", "NOT_SET", "true"),
    ("workspace mode cow", ["cow", "DIR:ro"], "-w", "/tmp:cow", "true"),
    ("workspace mode rx", ["only :ro", "writable"], "-w", "/tmp:rx", "true"),
    ("workspace mode rw", ["only :ro", "writable"], "-w", "/tmp:rw", "true"),
    ("workspace twice", ["--workspace", "twice"], "-w", "/tmp", "-w", "/tmp:ro", "true"),
    ("timeout twice", ["--timeout", "twice"], "-t", "1", "--timeout=2", "true"),
    ("root folder shown", ["--ro", "root folder"], "--ro", "/", "true"),
]


def no_templates():
    """An AgentCrate that is installed in part says so, whatever was asked of it."""
    empty = tap.folder("data")
    words = ["there is no template", "AGENTCRATE_DATA_DIR", "install"]
    for data in "/nonexist", empty:
        env = tap.clean_env(AGENTCRATE_DATA_DIR=data)
        for options in [], ["--json"], ["--print-plan"], ["--tty"]:
            refused([*words, '"host"', f"{data}/templates.d"], *options, "--", "true", env=env)
        refused([*words, '"foo"'], "--template", "foo", "true", env=env)


def failed_step():
    """What breaks in the runner itself is named with the step."""
    ran = tap.run(["/bin/bash", "-c", 'ulimit -n 4; exec "$0" true', RUN])
    ran.expect(125, out="")
    tap.contains(ran.errors, "agentcrate-run: cannot start the launcher: ")
    tap.contains(ran.errors, "EMFILE")
    tap.equal(ran.err.count(b"\n"), 1, "lines")


def file_size():
    """Our caller's limit on the size of files is said, not died of; the job's own signal is its."""
    ran = tap.run(["/bin/bash", "-c", 'ulimit -f 0; exec "$0" true', RUN])
    ran.expect(125, out="")
    tap.contains(ran.errors, "EFBIG")
    job = "ulimit -f 1; exec dd if=/dev/zero of=/tmp/x bs=4k count=4 status=none"
    tap.equal(tap.shell(job).rc, 128 + signal.SIGXFSZ)


def paths(option):
    folder = tap.folder("paths")
    os.symlink("loop", os.path.join(folder, "loop"))
    os.symlink("nowhere", os.path.join(folder, "dangling"))
    file = tap.write(os.path.join(folder, "file"), "x")
    refused([option, "/no/such/path", "ENOENT"], option, "/no/such/path", "true")
    refused([option, "dangling", "ENOENT"], option, os.path.join(folder, "dangling"), "true")
    refused([option, "loop", "ELOOP"], option, os.path.join(folder, "loop"), "true")
    refused([option, "ENOTDIR"], option, os.path.join(file, "below"), "true")
    refused([option, "empty"], option, "", "true")
    refused([option, "ENAMETOOLONG"], option, "/" + "x" * 300, "true")
    deep = folder
    while len(deep) < 1100:
        deep = os.path.join(deep, "d" * 200)
    os.makedirs(deep)
    refused([option, "the limit is 1023"], option, deep, "true")
    if option == "--workspace":
        refused([option, "ENOTDIR"], option, file, "true")
    if tap.WHO == "user":
        closed = tap.folder("closed")
        os.chmod(closed, 0)
        refused([option, "EACCES", "you may read"], option, closed, "true")
        os.chmod(closed, 0o755)


def long_argument():
    """A longer one never gets this far: the kernel refuses to start us with it."""
    run("--", "/bin/sh", "-c", "echo ${#1}", "sh", "a" * ARGUMENT_MAX).expect(
        0, out=f"{ARGUMENT_MAX}\n")


def many_strings():
    run("--", "true", *["x"] * 4000).expect(0, out="")
    refused(["strings", "limit"], "--", "true", *["x"] * 5000)


def commands_that_cannot_run():
    folder = tap.folder("work")
    os.chmod(folder, 0o777)
    tap.write(os.path.join(folder, "plain"), "echo\n", 0o644)
    tap.write(os.path.join(folder, "script"), "#!/no/such/interpreter\n", 0o755)
    tap.write(os.path.join(folder, "garbage"), b"\0\1\2garbage", 0o755)
    for command, rc, words in (
        ("no-such-command", 127, ["no-such-command", "ENOENT"]),
        ("/no/such/command", 127, ["/no/such/command", "ENOENT"]),
        ("", 127, ["ENOENT"]),
        ("/workspace", 126, ["/workspace", "EACCES"]),
        ("/workspace/plain", 126, ["/workspace/plain", "EACCES"]),
        ("/workspace/script", 127, ["/workspace/script", "interpreter"]),
        ("/workspace/garbage", 126, ["/workspace/garbage", "ENOEXEC"]),
    ):
        ran = tap.crate(command, options=["-w", folder])
        tap.equal(ran.rc, rc, f"status of {command!r}")
        for word in words:
            tap.contains(ran.errors, word, f"message for {command!r}")
        tap.equal(ran.record["outcome"], "exec_failed", f"outcome of {command!r}")
        tap.check(ran.record["error"]["errno"], "no errno")


def wrong_cwd():
    ran = tap.crate("true", options=["-C", "/no/such/folder"])
    tap.equal(ran.rc, 125, "status")
    tap.contains(ran.errors, "/no/such/folder")


# --- options ---


def workspace():
    folder = tap.folder("work")
    os.chmod(folder, 0o777)
    tap.write(os.path.join(folder, "input"), "in\n")
    tap.shell("pwd; cat input; echo written > output", options=["-w", folder]).expect(
        0, out="/workspace\nin\n")
    with open(os.path.join(folder, "output"), encoding="utf-8") as file:
        tap.equal(file.read(), "written\n", "output")
    ran = tap.shell("cat input; echo x > output2", options=[f"--workspace={folder}:ro"])
    tap.equal(ran.out, b"in\n", "output")
    tap.check(ran.rc != 0 and not os.path.exists(os.path.join(folder, "output2")),
              "the workspace is writable")


def workspace_relative():
    folder = tap.folder("work")
    tap.write(os.path.join(folder, "sub", "file"), "x\n")
    os.chmod(os.path.join(folder, "sub"), 0o755)
    tap.crate("cat", "file", options=["-w", "."], cwd=os.path.join(folder, "sub")).expect(
        0, out="x\n")
    tap.crate("cat", "file", options=["-w", "../sub"], cwd=os.path.join(folder, "sub")).expect(
        0, out="x\n")
    os.symlink("sub", os.path.join(folder, "link"))
    tap.crate("cat", "file", options=["-w", os.path.join(folder, "sub", "..", "sub")]).expect(
        0, out="x\n")


def planted_link():
    """What an earlier job put in the place of a folder is not what the next one is given."""
    folder = tap.folder("work")
    secret = tap.folder("secret")
    tap.shell(f"rmdir sub 2>/dev/null; ln -s {secret} sub", options=["-w", folder]).expect(0)
    planted = os.path.join(folder, "sub")
    tap.check(os.path.islink(planted), "the job could not make a link")
    for options in ["-w", planted], ["-w", planted + "/"], ["-w", planted + ":ro"], ["--rw", planted]:
        ran = tap.crate("touch", "/workspace/x", options=options)
        tap.equal(ran.rc, 125)
        tap.contains(ran.errors, "is a link")
        tap.contains(ran.errors, secret)
    tap.equal(os.listdir(secret), [])


def workspace_none():
    tap.shell("pwd; ls -A; touch x; ls").expect(0, out="/workspace\nx\n")


def workspace_names():
    for name in "a b", "a:b", "ü€", "-x", "quo'te\"", "new\nline":
        folder = os.path.join(tap.folder("work"), name)
        os.mkdir(folder)
        tap.write(os.path.join(folder, "f"), "x\n")
        tap.crate("cat", "f", options=["-w", folder]).expect(0, out="x\n")


def binds():
    folder = tap.folder("bind")
    os.chmod(folder, 0o777)
    file = tap.write(os.path.join(folder, "file"), "x\n")
    link = os.path.join(folder, "link")
    os.symlink("file", link)
    tap.crate("cat", file, options=["--ro", folder]).expect(0, out="x\n")
    tap.crate("cat", file, options=["--ro", file]).expect(0, out="x\n")
    tap.crate("cat", link, options=["--ro", link]).expect(0, out="x\n")
    tap.crate("cat", file, options=["--ro", "file"], cwd=folder).expect(0, out="x\n")
    ran = tap.shell(f"echo y > {folder}/new", options=["--ro", folder])
    tap.check(ran.rc != 0 and not os.path.exists(f"{folder}/new"), "--ro is writable")
    tap.shell(f"echo y > {folder}/new", options=["--rw", folder]).expect(0)
    tap.check(os.path.exists(f"{folder}/new"), "--rw is not writable")


def cwd():
    folder = tap.folder("work")
    tap.write(os.path.join(folder, "sub", "file"), "x\n")
    os.chmod(os.path.join(folder, "sub"), 0o755)
    tap.crate("pwd", options=["-C", "/tmp"]).expect(0, out="/tmp\n")
    tap.crate("pwd", options=["-w", folder, "-C", "sub"]).expect(0, out="/workspace/sub\n")


def environment():
    env = tap.clean_env(GIVEN="from outside", SECRET="1", LD_PRELOAD_X="1")
    tap.shell('echo "$A|$B|$GIVEN|$SECRET|"', options=["-e", "A=1=2", "-e", "B=", "-e", "GIVEN"],
              env=env).expect(0, out="1=2||from outside||\n")
    ran = tap.crate("env", "-0", options=["-e", "NL=a\nb"], env=env)
    tap.contains(ran.out.split(b"\0"), b"NL=a\nb")


def template():
    env = tap.template_env(other={"description": "another", "root": "host", "ro": ["/usr"],
                                  "env": {"PATH": "/usr/bin:/bin", "WHICH": "other"}})
    ran = tap.shell("echo $WHICH", options=["--template", "other"], env=env).expect(0, "other\n")
    tap.equal(ran.record["template"], "other", "template")


def profile():
    for name in "default", "strict", "debug":
        tap.crate("true", options=["--profile", name]).expect(0)
    plans = {run("--print-plan", "--profile", name).expect(0).out
             for name in ("default", "strict", "debug")}
    tap.equal(len(plans), 3, "different plans")


def timeout():
    for option in ["-t", "1"], ["--timeout=1000ms"], ["--limit", "wall_time=1s"]:
        ran = tap.crate("sleep", "300", options=option, timeout=30)
        tap.equal(ran.rc, 124, "status")
        tap.equal(ran.record["limit"]["name"], "wall_time", "limit")
        tap.equal(ran.record["limit"]["max"], 1000, "max")
        tap.contains(ran.errors, "agentcrate-run: limit wall_time: 1s")
    ran = tap.crate("true")
    tap.equal([limit["max"] for limit in ran.record["limits"] if limit["name"] == "wall_time"],
              [None], "default")


def limits():
    tap.shell("ulimit -n", options=["--limit", "open_files=77"]).expect(0, out="77\n")
    ran = tap.shell("exec head -c 2M /dev/zero > /tmp/f", options=["--limit", "file_size=1M"])
    tap.equal((ran.rc, ran.record["limit"]["name"]), (137, "file_size"), "file_size")
    ran = tap.shell("head -c 20M /dev/zero > /tmp/f; sleep 20", options=["--limit", "disk=5M"])
    tap.equal((ran.rc, ran.record["limit"]["name"]), (137, "disk"), "disk")
    ran = tap.shell("i=0; while :; do i=$((i+1)); : > /tmp/$i || sleep 20; done",
                    options=["--limit", "inodes=100"])
    tap.equal((ran.rc, ran.record["limit"]["name"]), (137, "inodes"), "inodes")
    ran = tap.crate("yes", options=["--limit", "output=1M", "-t", "60"])
    tap.equal((ran.rc, ran.record["limit"]["name"]), (137, "output"), "output")


def on_hit():
    text = "head -c 20M /dev/zero > /tmp/f; sleep %d; echo alive"
    ran = tap.shell(text % 1, options=["--limit", "disk=5M", "--on-hit", "refuse"])
    ran.expect(0, out="alive\n")
    tap.equal([limit["hits"] > 0 for limit in ran.record["limits"] if limit["name"] == "disk"],
              [True], "hits")
    ran = tap.shell(text % 60, options=["--limit", "disk=5M", "--on-hit=end"])
    tap.equal((ran.rc, ran.record["limit"]["name"]), (137, "disk"), "disk")


def capture():
    def record(*options):
        return json.loads(run("--json", *options, "--", "seq", "1", "20000").expect(0).out)

    whole = record()
    tap.equal(whole["stdout"], "".join(f"{i}\n" for i in range(1, 20001)), "stdout")
    cut = record("--capture", "1K")
    tap.check(cut["stdout_truncated"], "not marked")
    tap.equal(cut["stdout_bytes"], len(whole["stdout"]), "stdout_bytes")
    tap.check(cut["stdout"].startswith("1\n2\n") and cut["stdout"].endswith("19999\n20000\n"),
              "head and tail are not there")
    tap.contains(cut["stdout"], f"{len(whole['stdout']) - 1024} bytes left out")
    tap.equal(record("--capture", "0")["stdout"], "", "capture of nothing")


def print_plan():
    folder = tap.folder("work")
    marker = os.path.join(folder, "touched")
    os.chmod(folder, 0o777)
    ran = run("--print-plan", "-w", folder, "--", "touch", "/workspace/touched").expect(0)
    tap.check(not os.path.exists(marker), "something was run")
    for word in "/workspace", folder, "seccomp", "nofile", "digest sha256:":
        tap.contains(ran.text, word, "plan")
    digest = re.search(r"^digest (sha256:[0-9a-f]{64})$", ran.text, re.M)
    tap.check(digest, "no digest")
    tap.equal(tap.crate("true", options=["-w", folder]).record["plan_digest"], digest.group(1),
              "digest of the run")
    tap.check(run("--print-plan").expect(0).out != ran.out, "the workspace is not in the plan")


def help_and_version():
    tap.contains(run("--help").expect(0, err="").text, "Usage: agentcrate-run")
    tap.equal(run("-h").out, run("--help").out, "-h")
    tap.check(re.fullmatch(r"agentcrate-run \d+\.\d+\.\d+\n", run("--version").expect(0).text),
              "version")


def options_end():
    run("--", "echo", "--json", "-t").expect(0, out="--json -t\n")
    run("printf", "%s", "--help").expect(0, out="--help")
    run("-t", "60", "echo", "--", "x").expect(0, out="-- x\n")


def main():
    for name, words, *arguments in MISTAKES:
        tap.case(f"mistake: {name}", refused, words, *arguments)
    tap.case("mistake: no templates", no_templates)
    tap.case("a failure of the runner names its step", failed_step)
    tap.case("a limit of the caller on the size of files", file_size)
    tap.case("AgentCrate's own folders", own_folders)
    for option in "--workspace", "--ro", "--rw":
        tap.case(f"mistake: path of {option}", paths, option)
    tap.case("ENV-01 longest argument", long_argument)
    tap.case("many arguments", many_strings)
    tap.case("commands that cannot run", commands_that_cannot_run)
    tap.case("-C with a folder that is not there", wrong_cwd)
    tap.case("-w DIR and DIR:ro", workspace)
    tap.case("-w with a relative path", workspace_relative)
    tap.case("row 11 a link that a job has planted is not followed", planted_link)
    tap.case("-w with any name", workspace_names)
    tap.case("no -w", workspace_none)
    tap.case("--ro and --rw", binds)
    tap.case("-C", cwd)
    tap.case("-e", environment)
    tap.case("--template", template)
    tap.case("--profile", profile)
    tap.case("-t and --limit wall_time", timeout)
    tap.case("--limit", limits)
    tap.case("--on-hit", on_hit)
    tap.case("--capture", capture)
    tap.case("--print-plan", print_plan)
    tap.case("--help and --version", help_and_version)
    tap.case("options end at the command", options_end)


sys.exit(tap.main(main))
