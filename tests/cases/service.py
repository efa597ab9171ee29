#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root
# test-exclusive: it makes a cgroup
"""agentcrate-launcher as a system service, and a broker that was taken over: what it may not do is
refused by the launcher, whatever it says, and by name."""

import array
import contextlib
import os
import re
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import tap  # noqa: E402

BASE, COUNT = 1879048192, 16
# The numbers are those of src/ipc/proto.h and src/plan/plan.h.
BEGIN, FORK, READY = 32, 33, 96
SETUP, MAKE, LAUNCHER_READY, FAILED = 1, 2, 64, 65
OP_DIR, OP_BIND, OP_HOST_PROC, OP_LATE_BIND = 1, 4, 6, 8
RDONLY, RECURSIVE = 1, 8


def cgroup_root():
    """The root of cgroup2, None if there is none."""
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        found = re.search(r" (/sys/fs/cgroup\S*) [^-]*- cgroup2 ", file.read())
    return found[1] if found else None


class Link:
    """A link to one of our own programs."""

    def __init__(self, sock):
        self.sock = sock
        sock.settimeout(15)

    def send(self, kind, payload=b"", number=0, fds=()):
        head = struct.pack("<HBBHHII", 0x4143, 1, len(fds), kind, 0, number, len(payload))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([head, payload], rights)

    def receive(self):
        """(type, id, payload, fds); None at the end."""
        data, rights, _flags, _address = self.sock.recvmsg(16 + 8192, socket.CMSG_SPACE(8 * 4))
        if not data:
            return None
        fds = array.array("i")
        for _level, _kind, some in rights:
            fds.frombytes(some[: len(some) - len(some) % 4])
        _magic, _version, _n, kind, _reserved, number, _size = struct.unpack("<HBBHHII", data[:16])
        return kind, number, data[16:], list(fds)

    def expect(self, kind):
        got = self.receive()
        tap.check(got and got[0] == kind, f"not {kind}: {got}")
        return got

    def expect_failure(self, step):
        _kind, _number, payload, _fds = self.expect(FAILED)
        _error, _reserved, name, path = struct.unpack("<iI32s1024s", payload)
        tap.equal(name.split(b"\0")[0].decode(), step)
        return path.split(b"\0")[0].decode()

    def close(self):
        self.sock.close()


def plan(*ops):
    """A sealed memfd with (type, path, source, flags) of each."""
    body = b""
    for kind, path, source, flags in ops:
        strings = b"".join(s.encode() + b"\0" for s in (path, source) if s)
        body += struct.pack("<HHIIIIIQQ", kind, 0, flags, 0o755 if kind == OP_DIR else 0,
                            len(path) + 1 if path else 0, len(source) + 1 if source else 0, 0, 0, 0)
        body += strings + b"\0" * (-len(strings) % 8)
    fd = os.memfd_create("plan", os.MFD_ALLOW_SEALING)
    os.write(fd, struct.pack("<IIII", 0x504C4E31, len(ops), len(body), 0) + body)
    import fcntl  # pylint: disable=import-outside-toplevel

    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 0xF)
    return fd


TREE = ((OP_DIR, "/usr", "", 0), (OP_BIND, "/usr", "/usr", RDONLY | RECURSIVE),
        (OP_DIR, "/proc", "", 0), (OP_HOST_PROC, "/proc", "", 0))


class Service:
    """The service in a cgroup of its own, and a connection to it."""

    def __init__(self, roots="ro /usr\n", arguments=None):
        self.folder = tap.folder("service")
        self.roots = os.path.join(self.folder, "bind-roots")
        tap.write(self.roots, roots, 0o644)
        self.path = os.path.join(self.folder, "launcher.sock")
        self.listen = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listen.bind(self.path)
        self.listen.listen()
        top = cgroup_root()
        self.group = os.path.join(top, f"agentcrate-service-{os.getpid()}") if top else None
        if self.group:
            os.makedirs(self.group, exist_ok=True)
        self.arguments = arguments or ["--user", "nobody", "--subuids", f"{BASE}:{COUNT}",
                                       "--bind-roots", self.roots]
        self.pid = self._start()
        self.link, self.links = None, []

    def _start(self):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            if self.group:
                with open(os.path.join(self.group, "cgroup.procs"), "w", encoding="ascii") as file:
                    file.write("0")
            os.dup2(write, 2)
            os.dup2(os.dup(self.listen.fileno()), 3, inheritable=True)
            os.closerange(4, 256)
            program = tap.libexec("agentcrate-launcher")
            os.execve(program, ["agentcrate-launcher", *self.arguments],
                      {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})
        os.close(write)
        self.errors = os.fdopen(read, encoding="utf-8")
        return pid

    def connect(self):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(self.path)
        return Link(sock)

    def begin(self):
        """Connects and begins; jobs/ or None."""
        self.link = self.connect()
        self.link.send(BEGIN)
        _kind, _number, payload, fds = self.link.expect(READY)
        _pid, mode, base, count = struct.unpack("<4I", payload)
        tap.equal((mode, base, count), (2, BASE, COUNT))
        return fds[0] if fds else None

    def launcher(self, *ops, ready=True):
        """A launcher with that tree."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.send(FORK, fds=[theirs.fileno()])
        theirs.close()
        link = Link(ours)
        self.links.append(link)
        link.send(SETUP, struct.pack("<4I", 2, 0, 0, 0), fds=[plan(*(ops or TREE))])
        if ready:
            link.expect(LAUNCHER_READY)
        return link

    def status(self, seconds=10):
        """Waits for its end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = None
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.05)
        raise tap.Failed("it did not end")

    def close(self):
        for link in (self.link, *self.links):
            if link:
                link.close()
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.listen.close()
        if self.group:
            tap.wait_until(self._remove_group, 5)

    def _remove_group(self):
        for top, names, _files in os.walk(self.group, topdown=False):
            for name in names:
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(top, name))
        with contextlib.suppress(OSError):
            os.rmdir(self.group)
        return not os.path.exists(self.group)


@contextlib.contextmanager
def service(**options):
    made = Service(**options)
    try:
        yield made
    finally:
        made.close()


def make(link, uid, gid=None, late=(), cgroup=None):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fds = [theirs.fileno(), plan(*late)] + ([cgroup] if cgroup is not None else [])
    link.send(MAKE, struct.pack("<4I", uid, uid if gid is None else gid, cgroup is not None, 0),
              number=7, fds=fds)
    theirs.close()
    return Link(ours)


def tree_within():
    with service() as made:
        made.begin()
        made.launcher().close()


def tree_outside(*ops):
    with service() as made:
        made.begin()
        link = made.launcher(*ops, ready=False)
        path = link.expect_failure("bind-roots")
        tap.equal(path, ops[-1][2])
        tap.equal(link.receive(), None)
        # The next one is served.
        made.launcher().close()


def foreign_id(uid, gid):
    with service() as made:
        made.begin()
        link = made.launcher()
        make(link, uid, gid)
        link.expect_failure("ids")


def foreign_cgroup(opener):
    with service() as made:
        jobs = made.begin()
        if jobs is None:
            raise tap.Skip("host has no cgroup2")
        link = made.launcher()
        make(link, BASE, cgroup=opener(made, jobs))
        link.expect_failure("cgroup")


def own_cgroup():
    """The same with a crate's own: it is not the cgroup that is refused."""
    with service() as made:
        jobs = made.begin()
        if jobs is None:
            raise tap.Skip("host has no cgroup2")
        link = made.launcher()
        for name in "t-1", "t-1/c-1", "t-1/c-1/init":
            os.mkdir(name, dir_fd=jobs)
        make(link, BASE, cgroup=os.open("t-1/c-1/init", os.O_RDONLY, dir_fd=jobs))
        got = link.receive()
        tap.check(got and (got[0] == 66 or b"cgroup\0" not in got[2][:40]), str(got))


def closed_jobs():
    """Whoever can open jobs/ can hold its lock, and keep the broker from it."""
    with service() as made:
        jobs = made.begin()
        if jobs is None:
            raise tap.Skip("host has no cgroup2")
        tap.equal(os.fstat(jobs).st_mode & 0o777, 0o700)


def broken_protocol(*frames):
    with service() as made:
        made.link = made.connect()
        for kind, payload, fds in frames:
            made.link.send(kind, payload, fds=fds)
        tap.check(tap.wait_until(lambda: not alive(made.pid), 10), "it goes on")


def alive(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def ends_with_broker():
    with service() as made:
        made.begin()
        link = made.launcher()
        link.close()
        made.link.close()
        made.link = None
        tap.equal(made.status(), 0)


def second_broker():
    with service() as made:
        made.begin()
        other = made.connect()
        tap.equal(other.receive(), None)
        made.launcher().close()


def bad_start(said, roots="ro /usr\n", mode=None, arguments=None):
    with service(roots=roots, arguments=arguments) as made:
        tap.equal(made.status(), 1)
        tap.contains(made.errors.read(), said)
        if mode:
            os.chmod(made.roots, mode)


def tests():
    tap.case("a tree of what the bind roots have", tree_within)
    for what, op in (
        ("/etc", (OP_BIND, "/x", "/etc", RDONLY)),
        ("a root to write to", (OP_BIND, "/x", "/usr", 0)),
        ("what begins like a root", (OP_BIND, "/x", "/usrx", RDONLY)),
        ("/", (OP_BIND, "/x", "/", RDONLY | RECURSIVE)),
    ):
        tap.case(f"a tree with {what} is refused", tree_outside, (OP_DIR, "/x", "", 0), op)
    for uid, gid in ((0, 0), (1000, 1000), (BASE - 1, BASE - 1), (BASE + COUNT, BASE + COUNT),
                     (BASE, 0), (BASE, BASE + 1), (2**32 - 1, 2**32 - 1)):
        tap.case(f"a crate as {uid}:{gid} is refused", foreign_id, uid, gid)
    tap.case("a crate in the cgroup of the launcher is refused", foreign_cgroup,
             lambda made, jobs: os.open(os.path.join(made.group, "launcher"), os.O_RDONLY))
    tap.case("a crate in jobs/ is refused", foreign_cgroup, lambda made, jobs: os.dup(jobs))
    tap.case("a crate in the root of all cgroups is refused", foreign_cgroup,
             lambda made, jobs: os.open(cgroup_root(), os.O_RDONLY))
    tap.case("a crate in what is no cgroup is refused", foreign_cgroup,
             lambda made, jobs: os.open("/usr/lib/systemd/system", os.O_RDONLY))
    tap.case("a crate in a cgroup of its own is not", own_cgroup)
    tap.case("jobs/ is closed to others", closed_jobs)
    with open("/dev/null", "rb") as null:
        for what, frames in (
            ("a launcher before the beginning", [(FORK, b"", [null.fileno()])]),
            ("the beginning twice", [(BEGIN, b"", []), (BEGIN, b"", [])]),
            ("a cgroup of the broker's", [(BEGIN, b"", [null.fileno()])]),
            ("a link that is none", [(BEGIN, b"", []), (FORK, b"", [null.fileno()])]),
            ("a frame of a launcher's", [(SETUP, b"\0" * 16, [null.fileno()])]),
        ):
            tap.case(f"{what}: the link ends", broken_protocol, *frames)
    tap.case("it ends when the broker does", ends_with_broker)
    tap.case("a second broker is turned away", second_broker)
    tap.case("bind roots with a fault", bad_start, "bind-roots:2: ", roots="ro /usr\nrw etc\n")
    for what, arguments in (
        ("no user", ["--user", "no-such-user", "--subuids", "70000:5", "--bind-roots", "/dev/null"]),
        ("ids of users", ["--user", "nobody", "--subuids", "1000:5", "--bind-roots", "/dev/null"]),
        ("no ids", ["--user", "nobody", "--subuids", "70000:0", "--bind-roots", "/dev/null"]),
        ("no file", ["--user", "nobody", "--subuids", "70000:5", "--bind-roots", "/nowhere"]),
        ("a device", ["--user", "nobody", "--subuids", "70000:5", "--bind-roots", "/dev/null"]),
        ("a part of it", ["--user", "nobody"]),
    ):
        tap.case(f"a command line with {what}", bad_start, "agentcrate-launcher: ",
                 arguments=arguments)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
