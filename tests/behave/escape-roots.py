#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 120
"""Template roots and workspaces that are built to lead a mount elsewhere."""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import tap

PROC_MAGIC = "9fa0"


def root_folder():
    """A root with the probe in it and the folders that every root has."""
    root = tap.folder("root")
    for name in ("dev", "etc", "home", "proc", "run", "tmp", "usr", "var", "var/tmp", "workspace"):
        os.mkdir(os.path.join(root, name))
    shutil.copy(tap.helper("crate-probe"), root)
    os.chmod(os.path.join(root, "crate-probe"), 0o755)
    return root


def picture(*places):
    """Names, modes and times of what lies in these folders."""
    seen = {}
    for place in places:
        for name in sorted(os.listdir(place)):
            info = os.lstat(os.path.join(place, name))
            seen[os.path.join(place, name)] = (
                info.st_mode,
                info.st_ino,
                info.st_size,
                info.st_mtime_ns,
            )
    return seen


def run_root(root, *questions, options=(), **template):
    env = tap.template_env(hostile={"root": root, **template})
    return tap.crate(
        "/crate-probe", *questions, options=["--template", "hostile", "-t", "20", *options], env=env
    )


def answers(ran):
    return dict(line.split("\t", 1) for line in ran.text.splitlines() if "\t" in line)


def sound():
    """A root without traps works: else the refusals below would prove nothing."""
    ran = run_root(root_folder(), "splice", "filesystem=/proc", "stat=/dev/null")
    ran.expect(0)
    tap.equal(
        answers(ran),
        {"splice": "OK", "filesystem=/proc": PROC_MAGIC, "stat=/dev/null": "char 1:3 666"},
    )


def trap(name, target, options=()):
    """A link where every crate mounts something: refused, and what it leads to is untouched."""
    root = root_folder()
    victim = tap.folder("victim")
    tap.write(os.path.join(victim, "file"), "untouched\n")
    path = os.path.join(root, name)
    if os.path.isdir(path):
        os.rmdir(path)
    os.symlink(target.replace("VICTIM", victim), path)
    before = picture(victim, "/etc")
    ran = run_root(root, "splice", options=options)
    tap.equal(ran.rc, 125, f"exit status: {ran}")
    tap.contains(ran.errors, name.split("/", maxsplit=1)[0], "stderr")
    after = picture(victim, "/etc")
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    tap.equal(changed, set(), "changed at the target")


TRAPS = [
    (5, "dev/null", "VICTIM/file"),
    (5, "dev/null", "/etc/passwd"),
    (5, "dev/zero", "VICTIM/not-there"),
    (6, "dev/pts", "VICTIM"),
    (6, "dev/tty", "VICTIM/file"),
    (7, "proc", "VICTIM"),
    (8, "dev", "/etc"),
    (8, "dev", "../../../../../../etc"),
    (8, "proc", "/"),
    (8, "tmp", "../../etc"),
    (8, "tmp", "VICTIM"),
    (8, "run", "VICTIM"),
    (8, "home", "VICTIM"),
    (8, "var/tmp", "VICTIM"),
    (8, "workspace", "VICTIM"),
    (8, "dev/shm", "VICTIM"),
]


def console():
    """A link at a terminal's place is covered by the crate's own devpts, or refused."""
    root = root_folder()
    victim = tap.write(os.path.join(tap.folder("victim"), "file"), "untouched\n")
    os.mkdir(os.path.join(root, "dev/pts"))
    os.symlink(victim, os.path.join(root, "dev/pts/0"))
    os.symlink(victim, os.path.join(root, "dev/console"))
    ran = run_root(root, "list=/dev/pts", "exists=/dev/console")
    if ran.rc != 125:
        ran.expect(0)
        tap.equal(answers(ran), {"list=/dev/pts": "ptmx", "exists=/dev/console": "ENOENT"})
    with open(victim, encoding="utf-8") as file:
        tap.equal(file.read(), "untouched\n", "the target")


def false_proc():
    """Something at /proc that pretends: what a crate has there is the kernel's, and its writes went
    there."""
    root = root_folder()
    victim = tap.write(os.path.join(tap.folder("victim"), "file"), "untouched\n")
    for name in ("self/attr", "1", "sys/kernel"):
        os.makedirs(os.path.join(root, "proc", name))
    for name in (
        "self/attr/current",
        "self/uid_map",
        "self/setgroups",
        "1/uid_map",
        "sys/kernel/hostname",
    ):
        os.symlink(victim, os.path.join(root, "proc", name))
    ran = run_root(
        root, "filesystem=/proc", "filesystem=/proc/self/attr", "status=Uid", "status=Seccomp"
    )
    if ran.rc != 125:
        ran.expect(0)
        tap.equal(
            answers(ran),
            {
                "filesystem=/proc": PROC_MAGIC,
                "filesystem=/proc/self/attr": PROC_MAGIC,
                "status=Uid": "1000 1000 1000 1000",
                "status=Seccomp": "2",
            },
        )
    with open(victim, encoding="utf-8") as file:
        tap.equal(file.read(), "untouched\n", "the target")


def compat_link():
    """The links that distributions have for compatibility lead to where they should."""
    root = root_folder()
    shutil.rmtree(os.path.join(root, "var"))
    os.mkdir(os.path.join(root, "var"))
    os.symlink("/run", os.path.join(root, "var/run"))
    os.symlink("usr/lib", os.path.join(root, "lib"))
    os.makedirs(os.path.join(root, "usr/lib/y"))
    os.mkdir(os.path.join(root, "var/tmp"))
    given = tap.folder("given")
    tap.write(os.path.join(given, "file"), "12345")
    ran = run_root(
        root,
        "read=/var/run/x/file",
        "read=/run/x/file",
        "read=/lib/y/file",
        "read=/usr/lib/y/file",
        ro=[{"from": given, "to": "/var/run/x"}, {"from": given, "to": "/lib/y"}],
    )
    ran.expect(0)
    tap.equal(set(answers(ran).values()), {"5 bytes"}, f"answers {answers(ran)}")
    tap.equal(os.listdir(os.path.join(root, "usr/lib/y")), [], "the root's own folder")


def bind_target_out(target):
    """A bind's place that a link of the root leads out of it does not make anything there."""
    root = root_folder()
    victim = tap.folder("victim")
    os.symlink(target.replace("VICTIM", victim), os.path.join(root, "etc/link"))
    given = tap.folder("given")
    tap.write(os.path.join(given, "file"), "12345")
    ran = run_root(
        root, "read=/etc/link/x/file", ro=[{"from": given, "to": "/etc/link/x"}], etc="root"
    )
    tap.check(ran.rc in (0, 125), str(ran))
    tap.equal(os.listdir(victim), [], "made at the link's target")
    tap.check(not os.path.lexists("/etc/link"), "/etc/link was made")


def swapped(place):
    """What a job put there: the folder that the next is to have is now a link to the host's."""
    victim = tap.folder("victim")
    tap.write(os.path.join(victim, "file"), "untouched\n")
    return victim, f"mv {place} {place}.old; ln -s {victim} {place}"


def swap_broker():
    """A client's paths are below its root without any link. agentcrate-run is another matter: it
    follows the links of the path that its caller names, as every command does."""
    workspace = tap.folder("workspace")
    os.mkdir(os.path.join(workspace, "sub"))
    below = {"path": os.path.join(workspace, "sub"), "mode": "rw"}
    victim, text = swapped("sub")
    with mcp.Broker() as broker, broker.client(workspace=workspace) as client:
        first = client.exec("/bin/sh", "-c", "echo 1 > file", workspace=below)
        tap.equal(first["exit_code"], 0, "exit code of the job before")
        tap.equal(client.exec("/bin/sh", "-c", text)["exit_code"], 0, "exit code of the swap")
        result = client.call(
            "sandbox_exec", {"command": "cat file; echo 2 > file", "workspace": below}
        )
        tap.check(result.get("isError") is True, f"not refused: {result}")
        tap.check(
            (result.get("structuredContent") or {}).get("exit_code") is None, f"it ran: {result}"
        )
        outside = client.call(
            "sandbox_exec", {"command": "true", "workspace": {"path": victim, "mode": "ro"}}
        )
        tap.check(
            outside.get("isError") is True and "structuredContent" not in outside,
            f"not refused: {outside}",
        )
    with open(os.path.join(victim, "file"), encoding="utf-8") as file:
        tap.equal(file.read(), "untouched\n", "the file in the link's target")


def main():
    tap.case("a root without traps works", sound)
    for row, name, target in TRAPS:
        tap.case(
            f"row {row} root with {name} -> {target.lower()} is refused, the host untouched",
            trap,
            name,
            target,
        )
    tap.case("row 6 root with links at terminals does not lead there", console)
    tap.case("row 7 root with a false /proc does not take writes", false_proc)
    tap.case("row 10 root with compatibility links takes binds below them", compat_link)
    tap.case(
        "row 10 a bind below a link out of the root makes nothing there", bind_target_out, "VICTIM"
    )
    tap.case(
        "row 10 a bind below a link upwards makes nothing there",
        bind_target_out,
        "../../../../../etc",
    )
    tap.case("row 11 a workspace folder swapped for a link is refused (broker)", swap_broker)


sys.exit(tap.main(main))
