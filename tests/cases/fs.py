#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Mounts and paths: FS-01 to 04, 10.

Left to their issues: FS-05, 06 (overlays), FS-07 to 09 (file tools).
"""

import itertools
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import mcp
import tap

HOST = {"root": "host", "ro": ["/usr"]}
PROTECTED = [".gitconfig", ".mcp.json", ".git/hooks"]


def plan(*options, env=None):
    ran = tap.run(
        [tap.program("agentcrate-run"), *options, "--print-plan", "--", "/bin/true"], env=env
    )
    return ran.expect(0).text


def protecting_env():
    return tap.template_env(careful={**HOST, "hide": [f"/workspace/{name}" for name in PROTECTED]})


def nothing_appears():
    """Of what a policy protects and the workspace has not, nothing is made there."""
    env, place = protecting_env(), tap.folder("workspace")
    tap.write(os.path.join(place, "file"), "x")
    before = jobs.files_of(place)
    options = ["--template", "careful", "-w", place]
    tap.crate("/bin/true", options=options, env=env).expect(0)
    tap.equal(jobs.files_of(place), before, "workspace")
    text = plan(*options, env=env)
    for name in PROTECTED:
        tap.contains(text, name, "plan")


def nothing_appears_after_kill():
    env, place = protecting_env(), tap.folder("workspace")
    before = jobs.files_of(place)
    argv = [
        tap.program("agentcrate-run"),
        "--template",
        "careful",
        "-w",
        place,
        "--",
        "/bin/sh",
        "-c",
        "echo up; sleep 60",
    ]
    job = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env, cwd="/")
    tap.equal(job.stdout.readline(), b"up\n", "output")
    job.send_signal(signal.SIGKILL)
    job.wait()
    job.stdout.close()
    tap.equal(jobs.files_of(place), before, "workspace")


def protected_is_hidden():
    """What is there is neither read nor changed, nor does it change on the host."""
    env, place = protecting_env(), tap.folder("workspace")
    for name in (".gitconfig", ".mcp.json", ".git/hooks/pre-commit"):
        tap.write(os.path.join(place, name), "secret\n", 0o755)
    before = jobs.files_of(place)
    ran = tap.shell(
        "cat .gitconfig .mcp.json .git/hooks/pre-commit; ls .git/hooks; echo x > .gitconfig; echo "
        "x > .mcp.json; "
        "echo x > .git/hooks/post-commit; rm -rf .gitconfig .mcp.json .git/hooks; mv .mcp.json "
        "other; echo end",
        options=["--template", "careful", "-w", place],
        env=env,
    )
    tap.equal(ran.out, b"end\n", f"output: {ran}")
    tap.equal(jobs.files_of(place), before, "workspace")


def missing_paths():
    missing = tap.folder("host")
    policy = {
        "root": "host",
        "ro": ["/usr", "/also/missing", f"{missing}/ro"],
        "hide": ["/no/such", "/usr/no/such", "/home/agent/.aws", f"{missing}/hide"],
    }
    env = tap.template_env(sparse=policy)
    ran = tap.shell(
        f"ls -d /also {missing}/ro 2>/dev/null; echo end", options=["--template", "sparse"], env=env
    )
    ran.expect(0, out="end\n", err="")
    tap.equal(os.listdir(missing), [], "made on the host")
    text = plan("--template", "sparse", env=env)
    for path in ("/also/missing", f"{missing}/ro", "/no/such", "/usr/no/such"):
        notes = [line for line in text.splitlines() if path in line and "skipped" in line]
        tap.check(notes, f"no note tells that {path} was skipped: {text}")


def path_appears_later():
    """What a launcher left out when it started stays out or comes in; the jobs run."""
    place = tap.folder("host")
    late = os.path.join(place, "late")
    env = tap.template_env(host={"root": "host", "ro": ["/usr", late], "hide": [f"{place}/hidden"]})
    with mcp.Broker(env=env) as broker, broker.client() as client:
        look = f"cat {late}/file 2>/dev/null; echo end"
        tap.equal(client.exec("/bin/sh", "-c", look)["stdout"], "end\n", "before")
        tap.write(os.path.join(late, "file"), "late\n")
        tap.write(os.path.join(place, "hidden"), "x")
        tap.check(client.exec("/bin/sh", "-c", look)["stdout"] in ("end\n", "late\nend\n"), "after")


def link_root():
    root = tap.folder("root")
    for name in (
        "dev",
        "etc",
        "home",
        "proc",
        "run",
        "tmp",
        "usr",
        "var/tmp",
        "workspace",
        "mnt/target",
    ):
        os.makedirs(os.path.join(root, name))
    import shutil  # pylint: disable=import-outside-toplevel

    shutil.copy(tap.helper("crate-probe"), root)
    os.chmod(os.path.join(root, "crate-probe"), 0o755)
    return root


def bind_at_link(target, works):
    """A bind's place is a link of the root: followed within the root or refused, never outside."""
    root, given = link_root(), tap.folder("given")
    tap.write(os.path.join(given, "file"), "12345")
    os.symlink(target, os.path.join(root, "mnt/link"))
    before = os.listdir("/etc"), jobs.files_of(root)
    env = tap.template_env(
        linked={"root": root, "ro": [{"from": given, "to": "/mnt/link"}], "etc": "root"}
    )
    ran = tap.crate(
        "/crate-probe",
        "read=/mnt/link/file",
        "read=/mnt/target/file",
        options=["--template", "linked"],
        env=env,
    )
    if works:
        tap.equal(
            ran.text,
            "read=/mnt/link/file\t5 bytes\nread=/mnt/target/file\t5 bytes\n",
            f"answers: {ran}",
        )
    else:
        tap.equal(ran.rc, 125, f"exit status: {ran}")
        tap.contains(ran.errors, "/mnt/link", "stderr")
    tap.equal(
        (os.listdir("/etc"), jobs.files_of(root)), before, "host's /etc and the root's folder"
    )


ORDER = """
cd {place} || exit 2
(echo x > x) 2>/dev/null || echo ro
echo x > out/x && echo rw
cat out/secret/s 2>/dev/null; (echo x > out/secret/y) 2>/dev/null || echo hidden
echo x > tmp/x && echo private
"""


def order_folder():
    place = tap.folder("order")
    for name in ("out/secret", "tmp"):
        os.makedirs(os.path.join(place, name))
    tap.write(os.path.join(place, "out/secret/s"), "secret\n")
    return place


def check_order(ran, place):
    ran.expect(0, out="ro\nrw\nhidden\nprivate\n")
    made = set(jobs.files_of(place))
    tap.equal(made, {"out", "out/secret", "out/secret/s", "out/x", "tmp"}, "on the host")
    os.unlink(os.path.join(place, "out/x"))


def order_of_template():
    """In whatever order keys and entries stand, parents and children come out the same."""
    place = order_folder()
    keys = {
        "ro": ["/usr", place],
        "rw": [f"{place}/out"],
        "hide": [f"{place}/out/secret"],
        "tmpfs": [f"{place}/tmp"],
    }
    digests = set()
    for order in itertools.permutations(keys):
        template = {"root": "host", **{key: keys[key] for key in order}}
        env = tap.template_env(mixed=template)
        digests.add(plan("--template", "mixed", env=env).splitlines()[-1])
        if order in (tuple(keys), tuple(reversed(list(keys)))):
            ran = tap.shell(ORDER.format(place=place), options=["--template", "mixed"], env=env)
            check_order(ran, place)
    tap.equal(len(digests), 1, f"plans {digests}")
    keys["ro"].reverse()
    env = tap.template_env(mixed={"root": "host", **keys})
    digests.add(plan("--template", "mixed", env=env).splitlines()[-1])
    tap.equal(len(digests), 1, f"plans {digests}")


def order_of_options():
    place = order_folder()
    env = tap.template_env(
        rest={**HOST, "hide": [f"{place}/out/secret"], "tmpfs": [f"{place}/tmp"]}
    )
    given = [["--ro", place], ["--rw", f"{place}/out"], ["-w", tap.folder("workspace")]]
    digests = set()
    for order in itertools.permutations(given):
        options = ["--template", "rest", *itertools.chain(*order)]
        digests.add(plan(*options, env=env).splitlines()[-1])
        check_order(tap.shell(ORDER.format(place=place), options=options, env=env), place)
    tap.equal(len(digests), 1, f"plans {digests}")


def cgroup_absent(way):
    job = way.run(
        command="ls /sys/fs/cgroup /sys; mkdir /sys/fs/cgroup/x; echo max > "
        "/sys/fs/cgroup/memory.max; "
        "mkdir /tmp/c && mount -t cgroup2 none /tmp/c; grep -c cgroup /proc/self/mounts"
    )
    tap.equal((job.out, job.exit_code), (b"0\n", 1), f"output: {job}")


def main():
    tap.case("FS-01 nothing appears in the workspace", nothing_appears)
    tap.case("FS-01 nor when the runner is killed", nothing_appears_after_kill)
    tap.case("FS-01 what is protected and there is hidden", protected_is_hidden)
    tap.case("FS-02 missing paths are skipped with a note", missing_paths)
    tap.case("FS-02 a path that appears later", path_appears_later)
    tap.case("FS-03 bind at a relative link", bind_at_link, "target", True)
    tap.case("FS-03 bind at an absolute link", bind_at_link, "/mnt/target", True)
    tap.case("FS-03 bind at a dangling link", bind_at_link, "nowhere", False)
    tap.case("FS-03 bind at a dangling absolute link", bind_at_link, "/etc/no-such-name", False)
    tap.case(
        "FS-03 bind at a link out of the root",
        bind_at_link,
        "../../../../../../etc/no-such-name",
        False,
    )
    tap.case("FS-03 bind at a link loop", bind_at_link, "link", False)
    tap.case("FS-04 order in a template", order_of_template)
    tap.case("FS-04 order of options", order_of_options)
    with jobs.ways() as ways:
        for way in ways:
            tap.case(f"FS-10 no cgroup file system ({way.name})", cgroup_absent, way)


sys.exit(tap.main(main))
