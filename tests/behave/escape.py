#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""Ways out of a crate that a single question of crate-probe can try, each a row of a table.

All questions of a crate are asked in one run: by agentcrate-run in the profiles default and strict,
and by a broker's sandbox_exec. Rows are numbered by the project's list of attacks, whose other rows
are in escape-roots.py and escape-jobs.py.
"""

import os
import re
import resource
import shutil
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import mcp
import tap

# Values of the kernel's interface, which do not change.
NEW_FLAGS = {
    "NEWTIME": 0x80,
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x2000000,
    "NEWUTS": 0x4000000,
    "NEWIPC": 0x8000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}
STREAM, DGRAM, RAW, SEQPACKET = 1, 2, 3, 5
CLOEXEC_NONBLOCK = 0o2000000 | 0o4000
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
PROC_MAGIC = "9fa0"

ABSENT = "ENOENT|EACCES"
SHUT = "EACCES|EROFS|ENOENT"
EMPTY = "ENOENT|EACCES|empty"
UNREADABLE = "ENOENT|EACCES|EINVAL|0 bytes"
NO_FAMILY = "EAFNOSUPPORT"
NO_PROTOCOL = "EPROTONOSUPPORT"

# row, questions, answer: alternatives are separated by "|".
ROWS = [
    (1, ["write=/proc/sys/kernel/hostname,x", "write=/proc/sys/vm/drop_caches,0"], SHUT),
    (1, ["write=/proc/sys/kernel/randomize_va_space,2"], SHUT),
    (2, ["segv"], "killed SIGSEGV"),
    # 1 instead of 0: a core_pattern that is a pipe is fed whatever the limit is, except at 1.
    # A caller who may have no more than 0 cannot give more.
    (
        2,
        [f"rlimit={resource.RLIMIT_CORE}"],
        "1 1" if resource.getrlimit(resource.RLIMIT_CORE)[1] else "0 0",
    ),
    (3, ["open=/proc/self/exe,w"], "EACCES|ETXTBSY"),
    (3, ["open=/proc/1/exe,r", "open=/proc/1/exe,w"], ABSENT),
    (4, ["fds"], "0 1 2"),
    (12, [f"ioctl=0,{TIOCSTI:#x}"], "EPERM"),
    (14, [f"ioctl=0,{TIOCLINUX:#x}"], "EPERM"),
    (15, ["call=clone3"], "ENOSYS"),
    # NEWTIME is within clone's signal byte and so means nothing there.
    (16, [f"clone={flag:#x}" for name, flag in NEW_FLAGS.items() if name != "NEWTIME"], "EPERM"),
    (16, [f"clone={NEW_FLAGS['NEWUSER'] | 1 << 32:#x}"], "EPERM"),
    (16, [f"unshare={flag:#x}" for flag in NEW_FLAGS.values()], "EPERM"),
    (16, ["call=unshare", "call=setns"], "EPERM"),
    (17, ["call=fsopen", "call=fsconfig", "call=fsmount", "call=fspick"], "ENOSYS"),
    (17, ["call=open_tree", "call=open_tree_attr", "call=move_mount"], "ENOSYS"),
    (17, ["call=mount_setattr", "call=statmount", "call=listmount"], "ENOSYS"),
    (18, ["call=mount", "call=umount2", "call=pivot_root", "call=chroot"], "EPERM"),
    (19, ["mount-type=overlay,/tmp", "mount-type=tmpfs,/tmp", "mount-type=proc,/tmp"], "EPERM"),
    (20, ["status=NoNewPrivs"], "1"),
    (20, ["mounts-without=nosuid"], "none"),
    (
        21,
        [f"status=Cap{which}" for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")],
        "0000000000000000",
    ),
    (22, ["call=io_uring_setup", "call=io_uring_enter", "call=io_uring_register"], "ENOSYS"),
    (23, ["call=userfaultfd", "call=userfaultfd_user"], "ENOSYS"),
    (23, ["open=/dev/userfaultfd,r"], "ENOENT"),
    (24, ["call=bpf"], "ENOSYS"),
    (25, ["call=perf_event_open"], "ENOSYS"),
    (26, ["call=keyctl", "call=add_key", "call=request_key"], "EPERM"),
    (26, ["read=/proc/keys", "read=/proc/key-users"], UNREADABLE),
    (27, ["call=ptrace", "call=ptrace_attach"], "EPERM"),
    (27, ["call=process_vm_readv", "call=process_vm_writev"], "EPERM"),
    (28, ["call=pidfd_getfd", "call=kcmp", "call=process_madvise"], "ENOSYS"),
    (29, ["call=open_by_handle_at", "call=name_to_handle_at"], "ENOSYS"),
    (31, [f"socket=38,{SEQPACKET},0"], NO_FAMILY),
    (32, [f"socket=17,{RAW},0", f"socket=17,{DGRAM},0", "socket=17,10,0"], NO_FAMILY),
    (33, [f"socket=40,{STREAM},0", f"socket=40,{DGRAM},0", "socket=0x100000028,1,0"], NO_FAMILY),
    (33, ["open=/dev/vsock,r"], "ENOENT"),
    # AF_XDP, AF_KCM, AF_KEY, AF_TIPC, AF_RXRPC, AF_RDS, AF_SMC, AF_CAN, AF_BLUETOOTH, AF_NFC,
    # AF_QIPCRTR
    (34, [f"socket={n},{RAW},0" for n in (44, 41, 15, 30, 33, 21, 43, 29, 31, 39, 42)], NO_FAMILY),
    (34, [f"socket={n},{SEQPACKET},0" for n in (30, 21, 31, 41)], NO_FAMILY),
    (34, [f"socketpair={n},{SEQPACKET}" for n in (30, 31)], NO_FAMILY),
    # Families of today and tomorrow that nobody has on a list.
    (
        34,
        [f"socket={n},{DGRAM},0" for n in (0, 3, 5, 9, 19, 20, 22, 24, 28, 35, 36, 45, 46, 60)],
        NO_FAMILY,
    ),
    (
        36,
        [f"socket={INET},{RAW},1", f"socket={INET6},{RAW},58", f"socket={INET},{RAW},255"],
        NO_PROTOCOL,
    ),
    # MPTCP, UDPLITE, SCTP, ping
    (36, [f"socket={INET},{STREAM},262", f"socket={INET},{DGRAM},136"], NO_PROTOCOL),
    (36, [f"socket={INET},{SEQPACKET},132", f"socket={INET},{DGRAM},1"], NO_PROTOCOL),
    # USERSOCK, SOCK_DIAG, XFRM, SELINUX, AUDIT, NETFILTER, UEVENT, GENERIC, CRYPTO
    (36, [f"socket={NETLINK},{RAW},{n}" for n in (2, 4, 6, 7, 9, 12, 15, 16, 21)], NO_PROTOCOL),
    (36, [f"socket={NETLINK},{DGRAM},{1 << 32 | 4:#x}"], NO_PROTOCOL),
    # What must work, so that the refusals above are no accident.
    (36, [f"socket={UNIX},{STREAM},0", f"socket={UNIX},{DGRAM | CLOEXEC_NONBLOCK},0"], "OK"),
    (36, [f"socket={INET},{STREAM | CLOEXEC_NONBLOCK},6", f"socket={INET6},{DGRAM},17"], "OK"),
    (36, [f"socket={NETLINK},{RAW},0", f"socketpair={UNIX},{STREAM}", "loopback"], "OK"),
    (36, ["interfaces"], "lo"),
    (36, ["lo-down"], "up EPERM"),
    # 1.1.1.1, 10.0.0.1, the metadata service
    (
        36,
        ["connect-inet=0x01010101,80", "connect-inet=0x0a000001,80", "connect-inet=0xa9fea9fe,80"],
        "ENETUNREACH",
    ),
    (43, ["list=/sys"], EMPTY),
    (
        43,
        ["write=/sys/kernel/uevent_helper,x", "list=/sys/kernel/debug", "list=/sys/firmware"],
        ABSENT,
    ),
    (44, ["mount-type=cgroup,/tmp", "mount-type=cgroup2,/tmp"], "EPERM"),
    (
        45,
        ["write=/sys/fs/cgroup/cgroup.procs,0", "write=/sys/fs/cgroup/unified/cgroup.procs,0"],
        "ENOENT",
    ),
    (47, ["pids"], "none"),
    (47, ["exists=/proc/1/root", "list=/proc/1/fd", "exists=/proc/1/cwd"], ABSENT),
    (48, ["open=/proc/1/environ,r", "open=/proc/1/mem,r", "open=/proc/1/mem,rw"], ABSENT),
    (48, ["open=/proc/1/maps,r", "open=/proc/1/auxv,r", "open=/proc/1/stack,r"], ABSENT),
    (50, ["write=/proc/sysrq-trigger,h"], SHUT),
    (50, ["list=/proc/irq"], EMPTY),
    (50, ["oom-lower"], "EACCES"),
    (51, ["mknod=char", "mknod=block"], "EPERM"),
    (51, ["mknod=fifo", "mknod=file"], "OK"),
    (
        52,
        [
            f"open=/dev/{name},r"
            for name in (
                "mem kmem kmsg port kvm fuse net/tun loop0 loop-control vda sda zram0 tty0 tty1 "
                "console "
                "ttyS0 hwrng rtc0 vhost-net vhost-vsock mapper/control btrfs-control autofs cuse "
                "uinput "
                "input/event0 dri/card0 snd/seq watchdog nvram cpu/0/msr"
            ).split()
        ],
        "ENOENT",
    ),
    (
        52,
        ["list=/dev"],
        "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero",
    ),
    (52, ["stat=/dev/null"], "char 1:3 666"),
    (52, ["stat=/dev/zero"], "char 1:5 666"),
    (52, ["stat=/dev/full"], "char 1:7 666"),
    (52, ["stat=/dev/random"], "char 1:8 666"),
    (52, ["stat=/dev/urandom"], "char 1:9 666"),
    (52, ["stat=/dev/shm"], "dir 1777"),
    (53, ["int80"], "killed SIGSYS"),
    (53, ["x32"], "ENOSYS"),
    (53, ["call=unknown"], "ENOSYS"),
    (54, ["call=personality_no_randomize", "call=personality_read_implies_exec"], "EPERM"),
    (54, ["call=personality_query", "call=personality_none"], "OK"),
    (55, ["call=modify_ldt", "call=iopl", "call=ioperm"], "EPERM"),
    (56, ["clock_settime", "settimeofday", "call=adjtimex", "call=clock_adjtime"], "EPERM"),
    (56, ["sethostname", "setdomainname", "call=reboot", "call=syslog", "call=vhangup"], "EPERM"),
    (56, ["call=kexec_load", "call=kexec_file_load", "call=swapon", "call=swapoff"], "EPERM"),
    (56, ["call=acct", "call=quotactl", "call=quotactl_fd"], "EPERM"),
    (56, ["call=init_module", "call=finit_module", "call=delete_module"], "EPERM"),
    (
        56,
        ["call=lookup_dcookie", "call=nfsservctl", "call=sysfs", "call=uselib", "call=ustat"],
        "EPERM",
    ),
    (56, ["call=fanotify_init", "call=fanotify_mark", "call=memfd_secret"], "ENOSYS"),
    (57, ["call=mbind", "call=move_pages", "call=migrate_pages"], "EPERM"),
    (57, ["call=get_mempolicy", "call=set_mempolicy", "call=set_mempolicy_home_node"], "EPERM"),
    (92, ["call=seccomp", "filter-listener"], "EPERM"),
    (92, ["filter-stack"], "prctl OK clone3 ENOSYS"),
    (95, ["call=vmsplice"], "EPERM"),
    (95, ["splice"], "OK"),
    # Allowed: what has no name can do no more than what has one.
    (96, ["fileless"], "splice\tOK"),
    (98, ["connect-path=/run/dbus/system_bus_socket", "connect-path=/run/systemd/private"], ABSENT),
    (98, ["connect-path=/run/user/1000/bus", "connect-path=/run/user/0/bus"], ABSENT),
    (99, ["exists=/dev/log", "connect-path=/run/systemd/journal/socket"], "ENOENT"),
    (
        99,
        ["connect-path=/run/systemd/journal/dev-log", "connect-path=/run/systemd/journal/stdout"],
        "ENOENT",
    ),
    (
        102,
        [f"setid={how}" for how in ("chmod_u", "chmod_g", "chmod_high", "fchmod", "fchmodat")],
        "EPERM",
    ),
    (102, [f"setid={how}" for how in ("open", "openat", "tmpfile", "creat")], "EPERM"),
    (102, [f"setid={how}" for how in ("mkdir", "mkdirat", "mknod", "mknodat")], "EPERM"),
    (102, ["setid=fchmodat2", "setid=openat2"], "ENOSYS"),
    (
        103,
        [
            f"act-on={how},{pid}"
            for how in (
                "prlimit64 sched_setaffinity sched_setscheduler sched_setparam sched_setattr "
                "setpriority "
                "ioprio_set"
            ).split()
            for pid in ("1", "0x100000001")
        ],
        "EPERM",
    ),
    (103, ["nice-init=user", "nice-init=group"], "unchanged"),
    # Upon themselves they work, so that the refusals are about init.
    (103, ["act-on=prlimit64,0", "act-on=sched_setaffinity,0", "act-on=setpriority,0"], "OK"),
]
# Outside of a crate these are answered as inside: the host has no such thing, or refuses it itself.
SAME_OUTSIDE = {"segv", "filter-stack", "fileless"}


def questions():
    return [question for _row, asked, _answer in ROWS for question in asked]


def parse(output):
    """question -> answer"""
    answers = {}
    for line in output.splitlines():
        question, tab, answer = line.partition("\t")
        if tab:
            answers[question] = answer
    return answers


def fits(answer, expected):
    return answer is not None and answer in expected.split("|")


def workspace():
    """A folder with the probe in it."""
    place = tap.folder("workspace")
    shutil.copy(tap.helper("crate-probe"), place)
    os.chmod(os.path.join(place, "crate-probe"), 0o755)
    return place


def no_gate(question, outside):
    """Whether the host's kernel has not even the entry that a question is about."""
    return question == "int80" and outside.get("int80") == "killed SIGSEGV"


def report(answers, where, outside):
    for row, asked, expected in ROWS:
        for question in asked:
            name = f"row {row} {question} {expected} ({where})"
            if no_gate(question, outside):
                tap.skip(name, "host kernel has no 32-bit gate")
            elif fits(answers.get(question), expected):
                tap.ok(name)
            else:
                tap.not_ok(name, f"answer: {answers.get(question)}")


def check_set_id(place, where):
    """Row 102 from outside: the probe came to make its files, and none bears a bit."""
    made = [name for name in os.listdir(place) if name.startswith("setid-")]
    bad = [
        name
        for name in made
        if os.lstat(os.path.join(place, name)).st_mode & (stat.S_ISUID | stat.S_ISGID)
    ]

    def test():
        tap.check(any(name.endswith("-file") for name in made), "the probe made no file at all")
        tap.equal(bad, [], "files with a set-id bit")

    tap.case(f"row 102 no file in the workspace has a set-id bit ({where})", test)


def check_core(place, where):
    def test():
        left = [name for name in os.listdir(place) if re.match(r"core|.*\.core", name)]
        tap.equal(left, [], "core files")

    tap.case(f"row 2 no core file in the workspace ({where})", test)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def row_1(profile):
    """The host's core_pattern is what it was. It is put back if not."""
    path = "/proc/sys/kernel/core_pattern"
    before = read(path)
    ran = tap.crate(
        "/workspace/crate-probe",
        f"write={path},agentcrate-test-was-here",
        options=["-w", workspace(), "--profile", profile],
    )
    after = read(path)
    if after != before:
        with open(path, "w", encoding="utf-8") as file:
            file.write(before)
        raise tap.Failed(f"the host's core_pattern became {after!r}")
    answer = next(iter(parse(ran.text).values()), None)
    tap.check(fits(answer, SHUT), lambda: f"answer: {answer}; {ran}")


def by_run(profile, outside):
    place = workspace()
    ran = tap.crate(
        "/workspace/crate-probe",
        *questions(),
        options=["-w", place, "--profile", profile, "-t", "60"],
    )
    where = f"agentcrate-run, {profile}"
    report(parse(ran.text), where, outside)
    check_set_id(place, where)
    check_core(place, where)

    def test():
        # Init has been attacked by the rows above and still told how the job ended.
        ran.expect(0)
        tap.equal(ran.record["outcome"], "exited", "outcome")

    tap.case(f"row 103 the job ends well after all that ({where})", test)


def by_broker(outside):
    place = workspace()
    with mcp.Broker() as broker, broker.client(workspace=place) as client:
        record = client.exec("/workspace/crate-probe", *questions(), timeout_ms=60000)
        report(parse(record["stdout"]), "broker", outside)
        check_set_id(place, "broker")
        check_core(place, "broker")

        def test():
            tap.equal((record["outcome"], record["exit_code"]), ("exited", 0), "end of the job")
            tap.equal(client.exec("true")["exit_code"], 0, "exit code of the next job")

        tap.case("row 103 the job ends well after all that, and so does the next (broker)", test)


def outside_answers():
    """The same questions in namespaces without our filter and mounts: the baseline."""
    place = workspace()
    asked = [
        question for question in questions() if not question.startswith(("nice-init", "write="))
    ]
    argv = [
        "/usr/bin/unshare",
        "-Urmpf",
        "--kill-child",
        os.path.join(place, "crate-probe"),
        *asked,
    ]
    if tap.WHO == "root":
        argv = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *argv]
        os.chmod(place, 0o777)
    return parse(tap.run(argv, cwd=place).text)


def baseline(outside):
    """A row proves something only if some question of it is answered otherwise outside."""

    def test():
        tap.check(len(outside) > 100, f"the probe does not work outside: {outside}")
        refused = [
            question
            for _row, asked, expected in ROWS
            for question in asked
            if question.startswith(
                ("call=", "clone", "unshare=", "socket", "ioctl=", "setid=", "act-on=")
            )
            and "OK" not in expected
            and fits(outside.get(question), expected)
        ]
        share = len(refused) / len(questions())
        tap.diag("refused outside as well: " + " ".join(refused))
        tap.check(
            share < 0.35,
            f"{len(refused)} of {len(questions())} questions are refused outside as well",
        )

    tap.case("the questions are answered otherwise outside of a crate", test)


def main():
    tap.case(
        "row 1 core_pattern cannot be written, the host's is unchanged (default)", row_1, "default"
    )
    tap.case(
        "row 1 core_pattern cannot be written, the host's is unchanged (strict)", row_1, "strict"
    )
    outside = outside_answers()
    baseline(outside)
    by_run("default", outside)
    by_run("strict", outside)
    try:
        by_broker(outside)
    except (tap.Failed, mcp.RpcError, OSError) as why:
        tap.not_ok("the questions are asked by way of the broker", str(why))


sys.exit(tap.main(main))
