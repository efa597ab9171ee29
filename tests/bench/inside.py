# SPDX-License-Identifier: Apache-2.0
"""A process in a net namespace of its own, with loopback and nothing else, as a crate has one. It
does on request what it was given to do, and its measurements are its own."""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import traceback

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def enter_namespace():
    libc = ctypes.CDLL(None, use_errno=True)
    # A plain user owns a net namespace by a user namespace.
    flags = CLONE_NEWNET if os.geteuid() == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(flags) < 0:
        raise OSError(ctypes.get_errno(), "cannot make a net namespace")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        name, before = struct.unpack("16sh14x", fcntl.ioctl(sock, SIOCGIFFLAGS, request))
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh14x", name, before | IFF_UP))
    # As a crate's routes to what it may reach say.
    with open("/proc/sys/net/ipv4/tcp_congestion_control", "w", encoding="ascii") as file:
        file.write("reno")


class Inside:
    """begin() runs within first, and returns what can be asked for, by name."""

    def __init__(self, begin):
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ours.close()
                enter_namespace()
                self._serve(theirs.makefile("rw", encoding="ascii"), begin())
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
            finally:
                os._exit(1)
        theirs.close()
        self.file = ours.makefile("rw", encoding="ascii")
        ours.close()

    @staticmethod
    def _serve(file, verbs):
        for line in file:
            verb, *args = json.loads(line)
            file.write(json.dumps(verbs[verb](*args)) + "\n")
            file.flush()
        os._exit(0)

    def __call__(self, verb, *args):
        self.file.write(json.dumps([verb, *args]) + "\n")
        self.file.flush()
        line = self.file.readline()
        if not line:
            raise RuntimeError("the process inside has ended")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
