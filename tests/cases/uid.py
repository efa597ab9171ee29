#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Who a job is, and whose its files are: UID-01, 02, 04, 05.

Left to its issue: UID-03 (templates with more than one uid).
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import jobs
import machine
import tap

GIT = (
    "set -e; git init -q .; echo x > f; git add f; git status --short; git commit -q -m x; git log "
    "--oneline | wc -l"
)


def git_own(way):
    tap.need("git")
    place = tap.folder("workspace")
    way.run(command=GIT, workspace=place, env=jobs.git_env()).expect(0, out="A  f\n1\n", err="")
    info = os.stat(os.path.join(place, "f"))
    tap.equal((info.st_uid, info.st_gid), (os.getuid(), os.getgid()), "owner on the host")
    # A repository that the caller made beforehand.
    way.run(command="git status --short; git log --oneline | wc -l", workspace=place).expect(
        0, out="1\n", err=""
    )


def git_foreign(way):
    """A workspace of somebody else's: as root it is mapped, so that it is the job's own."""
    tap.need("git")
    place = tap.folder("workspace")
    os.chown(place, 12345, 12346)
    way.run(command=GIT, workspace=place, env=jobs.git_env()).expect(0, out="A  f\n1\n", err="")
    tap.equal(os.stat(os.path.join(place, "f")).st_uid, 12345, "owner on the host")


def git_foreign_user(way):
    """A user's job sees what is not the user's as nobody's; git says so."""
    tap.need("git")
    job = way.run(command="stat -c %U /usr; cd /usr; git status", workspace=tap.folder("workspace"))
    tap.check(job.text.startswith("nobody\n"), str(job))


def names(way):
    job = way.run(
        command="whoami; id -un; id -gn; id -G; python3 -c 'import getpass, pwd, os; "
        "print(getpass.getuser(), "
        "pwd.getpwuid(os.getuid()).pw_dir)'; getent passwd agent | cut -d: -f1,3,4,6,7; getent "
        "group agent"
    )
    job.expect(
        0,
        out="agent\nagent\nagent\n1000\nagent "
        "/home/agent\nagent:1000:1000:/home/agent:/bin/sh\nagent:x:1000:\n",
        err="",
    )


def ssh(way):
    tap.need("ssh")
    job = way.run("/usr/bin/ssh", "-V")
    tap.check(job.exit_code == 0 and job.errors.startswith("OpenSSH"), str(job))


def git_empty(way):
    """Without any configuration: the author is the passwd entry at the crate's name."""
    tap.need("git")
    place = tap.folder("workspace")
    way.run(
        command="git init -q . && git commit -q --allow-empty -m x && git log --format=%an",
        workspace=place,
    ).expect(0, out="agent\n")


def not_root(way):
    way.run(command="id -u; id -g; id -ru").expect(0, out="1000\n1000\n1000\n")
    job = way.run(command="cat /proc/self/uid_map /proc/self/gid_map")
    maps = [line.split() for line in job.text.splitlines()]
    tap.equal(
        [(fields[0], fields[2]) for fields in maps], [("1000", "1"), ("1000", "1")], "inner ids"
    )
    if tap.WHO == "root":
        # What the outer id is, is not seen from inside; the owner of a running job tells.
        tap.check(outer_uid() >= tap.SUBUID_BASE, f"the job is host uid {outer_uid()}")


def outer_uid():
    argv = [tap.program("agentcrate-run"), "--", "/bin/sh", "-c", "echo ready; sleep 60"]
    job = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=tap.clean_env(), cwd="/"
    )
    try:
        job.stdout.readline()
        found = [
            pid for pid, name in machine.descendants(job.pid).items() if name in ("sleep", "sh")
        ]
        tap.check(found, "the job is not seen")
        return os.stat(f"/proc/{found[0]}").st_uid
    finally:
        tap.kill_and_wait(job)
        job.stdout.close()


def programs_as_user(way):
    if tap.host_has("node"):
        job = way.run(
            "/usr/bin/node", "-e", "try { process.setuid(1) } catch (e) { console.log(e.code) }"
        )
        # Not EPERM: there is no such uid here.
        job.expect(0, out="EINVAL\n")
    if tap.host_has("pip") or tap.host_has("pip3"):
        job = way.run(
            command="python3 -m pip install --no-index --quiet no-such-package-at-all", seconds=60
        )
        tap.lacks(job.errors.lower(), "as the 'root' user", "stderr")


def owner_of_tar(way):
    """tar does not try to give files away, since it is not root."""
    job = way.run(
        command="cd /tmp; mkdir d; touch d/f; tar --owner=1234 --group=1234 -cf t d; rm -r d; tar "
        "xf t; stat -c %U d/f"
    )
    job.expect(0, out="agent\n", err="")


LEFTOVERS = (
    "mkdir -p a/b; touch a/b/c; chmod 000 a/b a; mkdir -p d; ln -s /etc d/link; ln -s ../../.. "
    "d/up; mkfifo d/fifo; "
    "touch d/f; chattr +i d/f 2>/dev/null; chmod 000 d/f; touch \"$(printf 'new\\nline')\"; true"
)


def leftovers(way):
    """In a host workspace: the caller removes all of it by ordinary means."""
    place = tap.folder("workspace")
    way.run(command=LEFTOVERS, workspace=place).expect(0)
    owners = {os.lstat(os.path.join(place, name)).st_uid for name in os.listdir(place)}
    tap.equal(owners, {os.getuid()}, "owners on the host")
    tap.run(["/bin/chmod", "-R", "u+rwX", place]).expect(0, err="")
    shutil.rmtree(place)
    tap.check(os.path.isdir("/etc") and os.path.exists("/etc/passwd"), "/etc is gone")


def leftovers_of_user(way):
    """Of a root broker's job in a user's workspace: the user can remove all."""
    place = tap.folder("workspace")
    os.chown(place, 12345, 12346)
    way.run(command=LEFTOVERS, workspace=place).expect(0)
    remove = ["/usr/bin/setpriv", "--reuid=12345", "--regid=12346", "--clear-groups"]
    tap.run([*remove, "/bin/chmod", "-R", "u+rwX", place]).expect(0, err="")
    tap.run(
        [*remove, "/bin/sh", "-c", f"rm -r {place}/* {place}/.[!.]* 2>/dev/null; ls -A {place}"]
    ).expect(0, out="")


def private_leftovers(way):
    """In the private folders: they go with the crate, however deep and locked."""
    way.run("/bin/true")
    before = machine.Picture.settled()
    deep = (
        'python3 -c \'import os\nfor i in range(10000): os.mkdir("d"); '
        'os.chdir("d")\nos.chmod(".", 0)\''
    )
    way.run(
        command=f"cd /tmp; {LEFTOVERS}; cd ~; {LEFTOVERS}; cd /dev/shm; {deep}", seconds=60
    ).expect(0)
    before.expect_same()


def main():
    tap.become_subreaper()
    with jobs.ways() as ways:
        for way in ways:
            tap.case(f"UID-01 git in a workspace of the caller's ({way.name})", git_own, way)
            if tap.WHO == "root":
                tap.case(
                    f"UID-01 git in a workspace of somebody else's ({way.name})", git_foreign, way
                )
            else:
                tap.case(
                    f"UID-01 what is not the user's is nobody's ({way.name})", git_foreign_user, way
                )
            tap.case(f"UID-02 the uid has a name ({way.name})", names, way)
            tap.case(f"UID-02 ssh finds its user ({way.name})", ssh, way)
            tap.case(f"UID-02 git finds an author ({way.name})", git_empty, way)
            tap.case(f"UID-04 not root inside, nor outside ({way.name})", not_root, way)
            tap.case(f"UID-04 programs behave as for a user ({way.name})", programs_as_user, way)
            tap.case(f"UID-04 tar does not give files away ({way.name})", owner_of_tar, way)
            tap.case(f"UID-05 leftovers in the workspace ({way.name})", leftovers, way)
            if tap.WHO == "root":
                tap.case(
                    f"UID-05 leftovers in a user's workspace ({way.name})", leftovers_of_user, way
                )
            tap.case(f"UID-05 leftovers in private folders ({way.name})", private_leftovers, way)


sys.exit(tap.main(main))
