#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""/dev and /proc: DEV-01, 02, 06, 07. DEV-04 and 05 are in terminal.py.

DEV-06 is tried with a /proc that is masked as outer containers mask it; a real outer container is
left to its issue, and so is DEV-03 (nested user namespaces).
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import tap

USABLE = """
set -e
echo x >/dev/null
head -c3 /dev/zero | wc -c
head -c3 /dev/urandom | wc -c
head -c3 /dev/random | wc -c
echo x 2>/dev/null >/dev/full && exit 9
test -d /dev/fd -a -e /dev/stdin -a -e /dev/stdout -a -e /dev/stderr
test -c /dev/tty -a -w /dev/shm
echo in | cat /dev/fd/0
ls /dev/pts
"""


def usable(way):
    way.run(command=USABLE).expect(0, out="3\n3\n3\nin\nptmx\n")


def pseudo_terminal(way):
    """A job makes terminals of its own."""
    text = (
        "import os, pty; m, s = pty.openpty(); os.write(s, b'x'); print(os.read(m, 9), "
        "os.ttyname(s), os.isatty(s))"
    )
    way.run("/usr/bin/python3", "-c", text).expect(0, out="b'x' /dev/pts/0 True\n", err="")


def programs(way):
    tap.need("git")
    way.run(command="git --version >/dev/null && (: </dev/tty) 2>/dev/null; echo $?").expect(0)


def named_in_policy():
    """A template that names /dev itself does not break it: it is refused, or has no effect."""
    broken = {
        "ro": {"root": "host", "ro": ["/usr", "/dev"]},
        "rw": {"root": "host", "ro": ["/usr"], "rw": ["/dev"]},
        "hidden": {"root": "host", "ro": ["/usr"], "hide": ["/dev/null"]},
        "tmpfs": {"root": "host", "ro": ["/usr"], "tmpfs": ["/dev"]},
    }
    env = tap.template_env(**broken)
    for name in broken:
        ran = tap.shell(USABLE + "ls /dev", options=["--template", name], env=env)
        if ran.rc == 125:
            tap.contains(ran.errors, "/dev", f"stderr of {name}")
            continue
        ran.expect(0)
        tap.lacks(ran.text, "kmsg", f"/dev of {name}")


SEMAPHORES = (
    "import multiprocessing as m; from multiprocessing import shared_memory as s\n"
    "if __name__ == '__main__':\n"
    "    p = m.Pool(2); print(p.map(abs, [-1, -2])); m.Semaphore(); p.terminate()\n"
    "    b = s.SharedMemory(create=True, size=1 << 20); b.buf[0] = 7; print(b.buf[0]); b.close(); "
    "b.unlink()\n"
)


def semaphores(way):
    way.run("/usr/bin/python3", "-c", SEMAPHORES, seconds=60).expect(0, out="[1, 2]\n7\n", err="")


def shared_memory(way):
    way.run(
        command="stat -f -c %T /dev/shm; stat -c '%a %F' /dev/shm; df -k /dev/shm | tail -1 | wc -l"
    ).expect(0, out="tmpfs\n1777 directory\n1\n")


def masked_proc():
    """As under an outer container: /proc is covered in part, and the kernel allows no new one."""
    script = (
        "mount -t proc proc /proc && mount -t tmpfs -o ro tmpfs /proc/acpi 2>/dev/null || mount -t "
        "tmpfs -o ro tmpfs /proc/sys; "
        'exec "$@"'
    )
    user = ["--map-user=1000", "--map-group=1000"]
    argv = [
        "/usr/bin/unshare",
        "-Urmpf",
        "--kill-child",
        "--propagation",
        "private",
        "/bin/sh",
        "-c",
        script,
        "sh",
    ]
    # Once more a namespace, with an ordinary uid: what was mounted above is locked there.
    argv += [
        "/usr/bin/unshare",
        "-Um",
        *user,
        tap.program("agentcrate-run"),
        "--",
        "/bin/sh",
        "-c",
        "echo ran; ls /proc",
    ]
    ran = tap.run(argv, timeout=30)
    if ran.rc == 1 and "unshare:" in ran.errors:
        raise tap.Skip("host lets no user namespace be nested")
    tap.equal(ran.rc, 125, f"exit status: {ran}")
    tap.lacks(ran.out, b"ran", "stdout")
    tap.contains(ran.errors, "/proc", "stderr")
    tap.check(len(ran.errors) > 60, f"cause and remedy are not told: {ran.errors}")


def process_tools(way):
    for tool in ("ps", "top", "pgrep"):
        tap.need(tool)
    job = way.run(
        command="sleep 50 & ps aux; ps -ef | wc -l; TERM=dumb top -bn1 >/dev/null && echo top; "
        "pgrep -c sleep; "
        "cat /proc/self/status /proc/meminfo /proc/loadavg /proc/uptime /proc/stat /proc/cpuinfo "
        ">/dev/null && echo read"
    )
    job.expect(0, err="")
    lines = job.text.splitlines()
    shown = [line for line in lines if line.startswith("agent")]
    tap.check(2 <= len(shown) <= 4, f"ps shows {shown}")
    tap.check(
        all(line.split()[0] in ("USER", "agent") for line in lines if len(line.split()) > 8),
        f"others are shown: {lines}",
    )
    tap.equal(lines[-3:], ["top", "1", "read"], "the other tools")


def main():
    with jobs.ways() as ways:
        for way in ways:
            tap.case(f"DEV-01 the devices are usable ({way.name})", usable, way)
            tap.case(f"DEV-01 a job makes its own terminals ({way.name})", pseudo_terminal, way)
            tap.case(f"DEV-01 git starts ({way.name})", programs, way)
            tap.case(f"DEV-02 semaphores and shared memory of python ({way.name})", semaphores, way)
            tap.case(f"DEV-02 /dev/shm is a tmpfs of mode 1777 ({way.name})", shared_memory, way)
            tap.case(f"DEV-07 ps, top, pgrep show the crate's own ({way.name})", process_tools, way)
    tap.case("DEV-01 a template that names /dev does not break it", named_in_policy)
    tap.case("DEV-06 a /proc that cannot be mounted is told, with the cause", masked_proc)


sys.exit(tap.main(main))
