# SPDX-License-Identifier: Apache-2.0
"""Where the images of the emulated machine are kept, and how they come to be.

An image is a folder AGENTCRATE_VM_CACHE/vm-KEY, by default below ~/.cache/agentcrate. The key is a
hash of all that the image depends on: the recipe, the versions of kernel and qemu, the clock. It is
built under another name and renamed when it is complete; one build goes on at a time.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time

import vm

HERE = os.path.dirname(os.path.abspath(__file__))
RECIPE = ("build-image", "guest-agent", "vm.py")
KERNEL = "linux-image-cloud-amd64"
BUILDERS = ("apt-cache", "apt-get", "busybox", "dpkg-deb", "lz4", "mke2fs", "mmdebstrap", "qemu-img")
BOOT_SECONDS = 300
UNUSED_DAYS = 14


class CannotRun(Exception):
    """There is no image and there will be none here; the text names what is missing."""


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise CannotRun(f"host has no {program}")


def ask(*command):
    """What a program prints; nothing if there is no such program."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False).stdout
    except FileNotFoundError:
        return ""


def kernel_version():
    """The version that would be installed here; where that is not known, any will do."""
    found = re.search(r"^  Candidate: (.*)", ask("apt-cache", "policy", KERNEL), re.M)
    return found[1] if found else "unknown"


def key():
    digest = hashlib.sha256()
    for name in RECIPE:
        with open(os.path.join(HERE, name), "rb") as file:
            digest.update(file.read())
    for fact in (kernel_version(), ask(vm.QEMU, "--version"), str(vm.clock_khz())):
        digest.update(b"\0" + fact.encode())
    return digest.hexdigest()[:16]


def cache():
    given = os.environ.get("AGENTCRATE_VM_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.abspath(given or os.path.join(base, "agentcrate"))


def build(folder, say):
    """Builds an image in an empty folder."""
    began = time.monotonic()
    say("building the image from Debian's packages")
    built = subprocess.run([os.path.join(HERE, "build-image"), folder], stdin=subprocess.DEVNULL,
                           stdout=2, check=False, preexec_fn=vm.die_with_parent).returncode
    if built == 3:
        raise CannotRun("host cannot build the VM image: its packages cannot be fetched")
    if built != 0:
        raise vm.VmError(f"build-image failed with status {built}")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", "root.ext4", "-F", "raw",
                    f"{folder}/disk.qcow2"], check=True, stdin=subprocess.DEVNULL)
    say(f"booting it, after {time.monotonic() - began:.0f} s")
    work = os.path.join(folder, "work")
    os.mkdir(work)
    try:
        with vm.Machine(folder, work, saved=False) as machine:
            machine.save(BOOT_SECONDS)
    except vm.VmError as error:
        raise vm.VmError(f"{error}; the console says:\n{console(work)}") from None
    shutil.rmtree(work)
    subprocess.run(["fallocate", "--dig-holes", f"{folder}/memory"], check=True)
    say(f"image complete, after {time.monotonic() - began:.0f} s")


def console(work):
    """The last lines that guest and qemu have left, to explain a failure."""
    text = ""
    for name in ("console", "qemu.log"):
        with contextlib.suppress(OSError), open(f"{work}/{name}", errors="replace") as file:
            text += "".join(file.readlines()[-20:])
    return text


def locked(path, how):
    """An open file with a lock on it, which goes when it is closed."""
    file = open(path, "a", encoding="ascii") if os.access(os.path.dirname(path), os.W_OK) else \
        open(path, encoding="ascii")
    try:
        fcntl.flock(file, how)
    except OSError:
        file.close()
        raise
    return file


def remove_old(base):
    """What a killed build has left, and images that nobody has used for long or uses now."""
    for name in os.listdir(base):
        path = os.path.join(base, name)
        if name.startswith(".vm-"):
            shutil.rmtree(path, ignore_errors=True)
        elif name.startswith("vm-") and os.path.exists(f"{path}/lock"):
            if time.time() - os.stat(f"{path}/lock").st_mtime < UNUSED_DAYS * 86400:
                continue
            with contextlib.suppress(OSError), locked(f"{path}/lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(path, ignore_errors=True)


def find(say):
    """The folder of the image, which is built if there is none, and a lock that keeps it."""
    if platform.machine() != "x86_64":
        raise CannotRun("host is no x86-64")
    need(vm.QEMU, "mke2fs")
    base = cache()
    folder = os.path.join(base, f"vm-{key()}")
    if not os.path.exists(f"{folder}/lock"):
        if os.geteuid() != 0:
            raise CannotRun("host has no VM image yet, and building one needs root")
        need(*BUILDERS)
        os.makedirs(base, exist_ok=True)
        with locked(os.path.join(base, "build-lock"), fcntl.LOCK_EX):
            if not os.path.exists(f"{folder}/lock"):
                remove_old(base)
                build_as(folder, base, say)
    lock = locked(f"{folder}/lock", fcntl.LOCK_SH)
    with contextlib.suppress(OSError):
        os.utime(f"{folder}/lock")
    return folder, lock


def build_as(folder, base, say):
    place = tempfile.mkdtemp(prefix=".vm-", dir=base)
    try:
        os.chmod(place, 0o755)
        build(place, say)
        with open(f"{place}/lock", "w", encoding="ascii"):
            pass
        os.rename(place, folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)
