# SPDX-License-Identifier: Apache-2.0
"""What a job must not leave behind: pictures of the machine to be compared.

Other work may go on beside the tests, so a picture holds what can only be ours: the descendants of
the test (which adopts all orphans), what these hold, mounts, cgroups, files with our names or uids.
"""

import os
import re
import time

import tap

# Temporary folders of tests that may run meanwhile.
OF_OTHER_TESTS = re.compile(r"agentcrate-(authorize|check|distcheck|ns|test|user|vm)\.")


def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "backslashreplace")
    except OSError:
        return ""


def processes():
    """pid -> (parent, state, command) of everything that runs."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            text = _read(f"/proc/{name}/stat")
            if text:
                command = text[text.index("(") + 1 : text.rindex(")")]
                state, parent = text[text.rindex(")") + 2 :].split()[:2]
                found[int(name)] = (int(parent), state, command)
    return found


def descendants(root=None, besides=()):
    """pid -> command of all below root (default: the test itself); dead ones are reaped first."""
    root = root or os.getpid()
    found = processes()
    for pid, (parent, state, _command) in list(found.items()):
        if parent == os.getpid() and state == "Z" and pid not in besides:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                pass
            del found[pid]
    below = {}
    wanted = {root}
    while wanted:
        wanted = {pid for pid, entry in found.items() if entry[0] in wanted and pid not in below}
        below.update({pid: found[pid][2] for pid in wanted})
    for pid in besides:
        below.pop(pid, None)
    return below


def fds(pid="self"):
    """The targets of a process's descriptors, sorted, without numbers that change by chance."""
    targets = []
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        targets.append(re.sub(r"\d+", "N", target))
    return sorted(targets)


def net_namespaces(pids):
    """Inodes of the net namespaces in which these processes live or which they hold."""
    inodes = set()
    for pid in pids:
        links = [f"/proc/{pid}/ns/net"]
        try:
            links += [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            pass
        for link in links:
            try:
                target = os.readlink(link)
            except OSError:
                continue
            if target.startswith("net:["):
                inodes.add(target)
    inodes.discard(os.readlink("/proc/self/ns/net"))
    return inodes


def shrink_net_namespaces():
    """Until then the kernel counts all of the slabs that its processors have at hand as in use."""
    try:
        with open("/sys/kernel/slab/net_namespace/shrink", "w", encoding="ascii") as file:
            file.write("1")
    except OSError:
        pass


def net_namespace_objects():
    """How many net namespaces the kernel has, also those that no process shows; None if unknown."""
    match = re.search(r"^net_namespace +(\d+)", _read("/proc/slabinfo"), re.M)
    return int(match.group(1)) if match else None


def mounts():
    """Mounts of the test's own mount namespace, without ids that change."""
    return sorted(" ".join(line.split()[3:]) for line in _read("/proc/self/mountinfo").splitlines())


def cgroups():
    """Cgroup folders that bear our name, in whatever version of the hierarchy, and all below them.
    What is kept in stock has other numbers each time."""
    found = []
    for top, names, _files in os.walk("/sys/fs/cgroup"):
        names[:] = [name for name in names if not name.startswith("agentcrate-ns-")]
        inside = "agentcrate" in top
        found += [re.sub(r"[0-9a-f]{8,}|\d+", "N", os.path.join(top, name)) for name in names
                  if inside or "agentcrate" in name]
        if top.count("/") > 16:
            del names[:]
    return sorted(found)


def dying_cgroups():
    """How many cgroups the kernel still has that nobody sees any more; None if unknown. What was
    read from files keeps them, so root has that forgotten first."""
    if os.geteuid() == 0:
        try:
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
                file.write("3")
        except OSError:
            pass
    match = re.search(r"^nr_dying_descendants (\d+)", _read("/sys/fs/cgroup/cgroup.stat"), re.M)
    return int(match.group(1)) if match else None


def _ours(path):
    try:
        info = os.lstat(path)
    except OSError:
        return False
    name = os.path.basename(path)
    if OF_OTHER_TESTS.match(name):
        return False
    return "crate" in name or tap.SUBUID_BASE <= info.st_uid < tap.SUBUID_BASE + tap.SUBUID_COUNT


def files():
    """Entries of the places where programs like to leave something that can only be ours."""
    found = set()
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock"):
        try:
            found.update(
                path for name in os.listdir(place) if _ours(path := os.path.join(place, name))
            )
        except OSError:
            pass
    for top, names, plain in os.walk("/run/agentcrate"):
        found.update(os.path.join(top, name) for name in names + plain)
    return found


def ipc():
    """System V objects and message queues of the host's ipc namespace that a sub-uid or we own."""
    found = set()
    for kind in ("shm", "sem", "msg"):
        for line in _read(f"/proc/sysvipc/{kind}").splitlines()[1:]:
            found.add(f"{kind} {' '.join(line.split()[:3])}")
    return found


class Picture:
    """One look at the machine. besides: children of the test that may live on, such as a broker."""

    def __init__(self, besides=(), fds_of=()):
        self.besides, self.fds_of = tuple(besides), tuple(fds_of)
        self.facts = {
            "processes": sorted(descendants(besides=self.besides).values()),
            "descriptors of the test": fds(),
            "mounts": mounts(),
            "cgroups": cgroups(),
            "files": files(),
            "ipc objects": ipc(),
        }
        for pid in self.fds_of:
            self.facts[f"descriptors of {pid}"] = fds(pid)
        pids = [*descendants(), *self.fds_of]
        self.facts["net namespaces"] = len(net_namespaces(pids))

    @classmethod
    def settled(cls, besides=(), fds_of=(), seconds=10.0):
        """A picture taken when nothing moves any more, as when a launcher has filled its stock."""
        picture, end = cls(besides, fds_of), time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.3)
            last, picture = picture, cls(besides, fds_of)
            if not last.difference(picture):
                break
        return picture

    def difference(self, other):
        """Lines that tell how other differs; empty if it does not."""
        lines = []
        for what, before in self.facts.items():
            after = other.facts[what]
            if before == after:
                continue
            if what == "files" and after <= before:
                continue
            if isinstance(before, (set, list)) and isinstance(after, (set, list)):
                gone = [item for item in before if item not in after]
                new = [item for item in after if item not in before]
                sizes = f"{len(before)} -> {len(after)}"
                lines.append(f"{what}: {sizes}, new {new[:10]}, gone {gone[:10]}")
            else:
                lines.append(f"{what}: {before} -> {after}")
        return lines

    def expect_same(self, seconds=10.0):
        """Raises Failed if the machine does not come back to this picture within the time."""
        end = time.monotonic() + seconds
        while True:
            lines = self.difference(Picture(self.besides, self.fds_of))
            if not lines:
                return
            if time.monotonic() >= end:
                raise tap.Failed("left behind:\n" + "\n".join(lines))
            time.sleep(0.1)
