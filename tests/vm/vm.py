# SPDX-License-Identifier: Apache-2.0
"""One emulated machine: boot it and save its state, or resume that state and run a command.

The memory of a saved machine is a file. A resumed one maps it privately, so that nothing is loaded,
machines share what they do not write, and the file stays as it is. The root disk is protected in
the same way by a temporary overlay.
"""

import ctypes
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import time

QEMU = "qemu-system-x86_64"
MEMORY = "1536M"
DISK_SIZE = 1 << 30
PORT = "agentcrate.vm"
PR_SET_PDEATHSIG = 1
# The features of the emulated processor that this kernel would use and that cost most to emulate
# are left out; what the kernel would wait for, test or mitigate is no part of any test.
CPU = "qemu64,+fsgsbase,+rdrand,+rdtscp,-svm"
KERNEL_OPTIONS = (
    "console=ttyS0 quiet panic=-1 systemd.show_status=0 audit=0 mitigations=off nokaslr "
    "random.trust_cpu=on init_on_alloc=0 clearcpuid=rep_good,erms,fsrm cryptomgr.notests "
    "rcupdate.rcu_expedited=1 tsc=reliable tsc_early_khz={khz}"
)


class VmError(Exception):
    """The machine could not be started, or has died."""


class TimedOut(Exception):
    """The command did not end in time."""


def clock_khz():
    """The frequency of the time stamp counter, rounded so that it is the same after a reboot. The
    emulated processor shows the counter of the real one."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        found = re.search(r"^bogomips\s*:\s*([0-9.]+)", file.read(), re.M)
    return round(float(found[1]) / 20) * 10000 if found else 2000000


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def command_line(image, work, saved):
    """image: folder of the image, work: of this machine. saved: a state is to be resumed."""
    file = f"{work}/memory" if os.path.exists(f"{work}/memory") else f"{image}/memory"
    memory = f"memory-backend-file,id=memory,size={MEMORY},mem-path={file},prealloc=off"
    disk = f"file={image}/disk.qcow2,format=qcow2,if=none,id=root,cache=unsafe"
    return [
        QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "pc,memory-backend=memory,vmport=off",
        "-accel", "tcg,thread=multi,tb-size=512", "-cpu", CPU, "-smp", "2", "-m", MEMORY,
        "-object", memory + (",share=off" if saved else ",share=on"),
        "-kernel", f"{image}/vmlinux", "-initrd", f"{image}/initrd",
        "-append", KERNEL_OPTIONS.format(khz=clock_khz()),
        "-drive", disk + (",snapshot=on" if saved else ""),
        "-device", "virtio-blk-pci,drive=root",
        "-drive", f"file={work}/share,format=raw,if=none,id=share,cache=unsafe",
        "-device", "virtio-blk-pci,drive=share",
        "-serial", f"file:{work}/console", "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=port,path={work}/port,server=on,wait=off",
        "-device", f"virtserialport,chardev=port,name={PORT}",
        "-qmp", f"unix:{work}/qmp,server=on,wait=off",
        *(["-incoming", "defer"] if saved else []),
    ]


class Machine:
    """A qemu process. Its folder work is the caller's, and needs a short path for the sockets."""

    def __init__(self, image, work, saved):
        self.image, self.work, self.buffer = image, work, b""
        share = os.path.join(work, "share")
        if not os.path.exists(share):
            with open(share, "wb") as file:
                file.truncate(DISK_SIZE)
        if saved and not os.access(f"{image}/memory", os.W_OK):
            # qemu wants to be allowed to write what it will not write.
            subprocess.run(["cp", "--sparse=always", "--no-preserve=all", f"{image}/memory", work],
                           check=True)
        with open(f"{work}/qemu.log", "wb") as log:
            self.qemu = subprocess.Popen(
                command_line(image, work, saved), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "TMPDIR": work}, preexec_fn=die_with_parent)
        try:
            self.qmp = self._connect("qmp").makefile("rwb", buffering=0)
            self.qmp.readline()
            self.ask("qmp_capabilities")
            self.ask("migrate-set-capabilities",
                     capabilities=[{"capability": "x-ignore-shared", "state": True}])
            self.port = self._connect("port")
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.stop()

    def stop(self):
        if self.qemu.poll() is None:
            self.qemu.kill()
        self.qemu.wait()

    def _connect(self, name):
        end = time.monotonic() + 30
        while True:
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(os.path.join(self.work, name))
                return link
            except OSError:
                link.close()
                if self.qemu.poll() is not None or time.monotonic() > end:
                    raise VmError("qemu does not start") from None
                time.sleep(0.01)

    def ask(self, command, **arguments):
        """One request to qemu; its answer."""
        self.qmp.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while line := self.qmp.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise VmError(f"qemu refuses {command}: {answer['error'].get('desc')}")
        raise VmError("qemu has died")

    def _wait_for(self, question, is_done, seconds=60):
        end = time.monotonic() + seconds
        while not is_done(status := self.ask(question).get("status")):
            if time.monotonic() > end:
                raise VmError(f"qemu stays at {status!r} after {question}")
            time.sleep(0.02)
        return status

    def read(self, size, end):
        """The next bytes of the guest: so many, or up to a line break if size is None."""
        while True:
            if size is None:
                line, found, rest = self.buffer.partition(b"\n")
                if found:
                    self.buffer = rest
                    return line
            elif len(self.buffer) >= size:
                data, self.buffer = self.buffer[:size], self.buffer[size:]
                return data
            self.port.settimeout(max(0.001, end - time.monotonic()))
            try:
                data = self.port.recv(1 << 16)
            except TimeoutError:
                raise TimedOut() from None
            if not data:
                raise VmError("qemu has died")
            self.buffer += data

    def save(self, seconds):
        """Waits until the guest has booted, then leaves its state in the image's folder."""
        try:
            if self.read(None, time.monotonic() + seconds) != b"ready":
                raise VmError("the guest says something else than that it is ready")
        except TimedOut:
            raise VmError(f"the guest has not booted within {seconds} s") from None
        self.ask("stop")
        self.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self.ask("migrate", uri=f"exec:cat >'{self.image}/state'")
        if self._wait_for("query-migrate", lambda s: s in ("completed", "failed")) != "completed":
            raise VmError("the state of the guest could not be saved")
        self.ask("quit")
        self.qemu.wait(30)

    def resume(self):
        self.ask("migrate-incoming", uri=f"exec:cat '{self.image}/state'")
        self._wait_for("query-status", lambda s: s not in ("inmigrate", "prelaunch"))
        self.ask("cont")

    def run(self, command, folders, environment, seconds, output):
        """Runs a command; output is called with what it prints. Returns its exit status."""
        end = time.monotonic() + seconds
        request = {"time": time.time(), "random": secrets.token_hex(32), "folders": folders,
                   "environment": environment, "command": command}
        self.port.sendall(json.dumps(request).encode() + b"\n")
        while True:
            kind, number = self.read(None, end).split()
            if kind == b"status":
                return int(number)
            output(self.read(int(number), end))
