#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
"""Secrets that are missing or no good: agentcrate doctor names each, with its file, the credentials
that need it and the remedy, and what needs it is refused by that name.

As root the machine is one whose /etc and /run are made here, which only the program itself sees."""

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 16384, 1 << 18
CANARY = "doctor-canary-" + os.urandom(12).hex()
PREFIX = tap.program("").rstrip("/").removeprefix(os.environ.get("AGENTCRATE_ROOT", "")) \
    .removesuffix("/bin")
ETC = "/etc/agentcrate" if PREFIX == "/usr" else PREFIX + "/etc/agentcrate"
EGRESS_UID = 4711

# Name, content, mode, owner, what is said of it, what is to be done. None: it is as it should be.
FILES = (
    ("good", CANARY, 0o400, None, None, None),
    ("line-end", CANARY + "\n", 0o600, None, None, None),
    ("missing", None, 0, None, "is missing", "write it to"),
    ("empty", "", 0o400, None, "is empty", "write it to"),
    ("only-line-end", "\n", 0o400, None, "is empty", "write it to"),
    ("two-lines", CANARY + "\n" + CANARY, 0o400, None, "has more than one line", "one only"),
    ("carriage", CANARY + "\r\n", 0o400, None, "has more than one line", "one only"),
    ("world", CANARY, 0o404, None, "can be read by everybody", "chmod 0400"),
    ("group", CANARY, 0o440, None, "can be read by its group", "chmod 0400"),
    ("short", CANARY[:7], 0o400, None, "is shorter than 8 bytes", None),
    ("foreign", CANARY, 0o400, 12345, "cannot be read", "chown"),
)
OWN = [row for row in FILES if tap.WHO == "root" or row[3] is None]


def credential(secret):
    return json.dumps({
        "upstream": "https://api.example.org", "secret": secret, "attach": {"as": "bearer"},
        "operations": {"get": {"method": "GET", "path": "/x"}}}) + "\n"


def write_tree(place, rows, owner=None):
    """credentials.d/ and credentials/ there, a credential for each secret, and of its name."""
    for name, content, mode, other, _said, _remedy in rows:
        tap.write(os.path.join(place, "credentials.d", name + ".json"), credential(name))
        if content is None:
            continue
        path = tap.write(os.path.join(place, "credentials", name), content, mode)
        if other is not None or owner is not None:
            os.chown(path, owner if other is None else other, 0)
    return place


def fail_if(status, what):
    if status != 0:
        raise OSError(ctypes.get_errno(), what)


def mount(source, target, kind, flags=0, options=None):
    fail_if(LIBC.mount(source, target.encode() if target else None, kind, flags, options),
            f"mount {target}")


def change_in_private(path):
    """That folder can be written to, and nobody else sees it."""
    upper = tap.folder("upper")
    mount(b"none", upper, b"tmpfs")
    for name in "upper", "work":
        os.mkdir(os.path.join(upper, name), 0o755)
    mount(b"none", path, b"overlay", 0,
          f"lowerdir={path},upperdir={upper}/upper,workdir={upper}/work".encode())


def ancestor(path):
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def own_host(tree, run=None):
    """/etc/agentcrate is that tree; run: what is in /run, and /etc has a user for the service."""
    def prepare():
        fail_if(LIBC.unshare(CLONE_NEWNS), "unshare")
        mount(None, "/", None, MS_REC | MS_PRIVATE)
        change_in_private(ancestor(ETC))
        if run is not None:
            if not ETC.startswith("/etc/"):
                change_in_private("/etc")
            with open("/etc/passwd", "a", encoding="ascii") as file:
                file.write(f"agentcrate-egress:x:{EGRESS_UID}:{EGRESS_UID}::/:/bin/false\n")
            mount(b"none", "/run", b"tmpfs", 0, b"mode=0755")
            run()
        copy_tree(tree, ETC)
    return prepare


def copy_tree(source, target):
    """With owners and modes."""
    os.makedirs(target, exist_ok=True)
    subprocess.run(["cp", "-a", source + "/.", target], check=True)


class Doctor:
    """What it says, by --json and in text; nothing of a secret may be in either."""

    def __init__(self, prepare, env):
        runs = [subprocess.run([tap.program("agentcrate"), "doctor", *more], preexec_fn=prepare,
                               env=env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=60, check=False)
                for more in (["--json"], [])]
        tap.check(runs[0].stdout, lambda: str(runs[0]))
        self.report, self.text = json.loads(runs[0].stdout), runs[1].stdout.decode()
        self.secrets = {row["name"]: row for row in self.report["secrets"]}
        self.summary = next(row for row in self.report["checks"] if row["id"] == "secrets")
        for ran in runs:
            for data in ran.stdout, ran.stderr:
                tap.lacks(data, CANARY[:7].encode(), "what doctor prints")

    def expect(self, name, answer, said=None, remedy=None, path=None):
        row = self.secrets[name]
        tap.equal(row["answer"], answer, f"answer of {row}")
        tap.check((row["cause"] is None) == (answer == "yes"), f"{row}")
        for part, text in ((said, row["cause"]), (remedy, row["remedy"]), (name, row["cause"])):
            if part and answer != "yes":
                tap.contains(text or "", part, f"what is told of {name}")
        if path:
            tap.equal(row["path"], path, f"path of {name}")
        for text in row["cause"], row["remedy"]:
            tap.check(not text or text in self.text, f"{text!r} is not in the text")

    def expect_rows(self, rows, place, instance):
        tap.equal(sorted(self.secrets), sorted(row[0] for row in rows), "secrets")
        for name, _content, _mode, _owner, said, remedy in rows:
            self.expect(name, "no" if said else "yes", said, remedy, f"{place}/credentials/{name}")
            tap.equal((self.secrets[name]["credentials"], self.secrets[name]["instance"]),
                      ([name], instance), name)
            if said:
                tap.contains(self.secrets[name]["cause"], f"{place}/credentials.d/{name}.json")
        bad = [row[0] for row in rows if row[4]]
        tap.equal(self.summary["answer"], "no", "the check")
        for name in bad:
            tap.contains(self.summary["cause"], name)


def own_env(tree):
    """prepare and environment of a user, or of root, whose configuration is that tree."""
    if tap.WHO == "root":
        return own_host(tree), tap.clean_env()
    home = tap.folder("config")
    shutil.copytree(tree, os.path.join(home, "agentcrate"))
    return None, tap.clean_env(XDG_CONFIG_HOME=home)


def own():
    prepare, env = own_env(write_tree(tap.folder("tree"), OWN))
    place = ETC if tap.WHO == "root" else env["XDG_CONFIG_HOME"] + "/agentcrate"
    Doctor(prepare, env).expect_rows(OWN, place, "user")


def none_needed():
    prepare, env = own_env(tap.folder("tree"))
    doctor = Doctor(prepare, env)
    tap.equal((doctor.secrets, doctor.summary["answer"]), ({}, "yes"), "secrets")
    tap.lacks(doctor.text, "Secrets that credentials need")


def shared():
    """One secret of two credentials is told once, with both."""
    tree = write_tree(tap.folder("tree"), FILES[2:3])
    tap.write(os.path.join(tree, "credentials.d", "other.json"), credential("missing"))
    doctor = Doctor(*own_env(tree))
    tap.equal(doctor.secrets["missing"]["credentials"], ["missing", "other"], "credentials")
    for name in "missing.json", "other.json":
        tap.contains(doctor.secrets["missing"]["cause"], name)


def refused():
    """A job that needs such a one does not start, and is told the same; others do."""
    prepare, env = own_env(write_tree(tap.folder("tree"), OWN))

    def run(*options):
        return subprocess.run([tap.program("agentcrate-run"), *options, "--", "echo", "ran"],
                              preexec_fn=prepare, env=env, cwd="/", stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)

    tap.equal(run().stdout, b"ran\n", "a job that needs none")
    for name, _content, _mode, _owner, said, _remedy in OWN:
        ran = run(f"--operation={name}.get")
        if not said:
            tap.equal((ran.returncode, ran.stdout), (0, b"ran\n"), f"{name}: {ran}")
            continue
        tap.equal((ran.returncode, ran.stdout), (125, b""), f"{name}: {ran}")
        tap.contains(ran.stderr.decode(), f"the secret {name} {said}")
        tap.lacks(ran.stderr, CANARY[:7].encode(), "the refusal")


# --- the machine's ---

DROP_IN = """[Service]
LoadCredential=taken-back:/etc/secret/good
LoadCredential=
# LoadCredential=in-comment:/etc/secret/good
LoadCredential=plain:/etc/secret/good
LoadCredential=plain-world:/etc/secret/world
LoadCredential=plain-gone:/etc/secret/gone
LoadCredential=plain-lines:/etc/secret/lines
LoadCredential=many:/etc/secret/many
LoadCredentialEncrypted=sealed:/etc/secret/sealed
LoadCredentialEncrypted= \\
  sealed-empty:/etc/secret/empty
LoadCredentialEncrypted=sealed-gone
SetCredential=clear:%s
[Unit]
LoadCredential=elsewhere:/etc/secret/good
""" % CANARY

# Secret, answer, part of the cause, part of the remedy, path.
UNIT = (
    ("plain", "yes", None, None, "/etc/secret/good"),
    ("many_one", "yes", None, None, "/etc/secret/many/one"),
    ("many_two", "no", "is missing", "put it to /etc/secret/many/two", "/etc/secret/many/two"),
    ("plain-world", "no", "can be read by everybody", "chmod 0400 /etc/secret/world", None),
    ("plain-gone", "no", "is missing", "put it to /etc/secret/gone", None),
    ("plain-lines", "no", "has more than one line", None, None),
    ("sealed", "limited", "is encrypted", "systemctl restart agentcrate-egress.service", None),
    ("sealed-empty", "no", "is empty", None, "/etc/secret/empty"),
    ("sealed-gone", "no", "is missing", None, "/etc/credstore.encrypted/sealed-gone"),
    ("clear", "no", "which everybody can read", "LoadCredential", None),
    ("taken-back", "no", "is missing", "LoadCredentialEncrypted= of", None),
    ("in-comment", "no", "is missing", None, ETC + "/credentials/in-comment"),
    ("elsewhere", "no", "is missing", None, None),
)


def machine(drop_in="", loaded=None):
    """Fills /run and /etc of a machine whose broker is there."""
    def fill():
        tap.write("/run/agentcrate/egress.sock")
        tap.write("/etc/systemd/system/agentcrate-egress.service", "[Service]\n")
        tap.write("/run/systemd/system/agentcrate-egress.service.d/secrets.conf", drop_in)
        for name, text, mode in (("good", CANARY, 0o400), ("world", CANARY, 0o444),
                                 ("lines", CANARY + "\nx", 0o400), ("empty", "", 0o400),
                                 ("sealed", "c2VhbGVk", 0o444), ("many/one", CANARY, 0o600)):
            tap.write("/etc/secret/" + name, text, mode)
        for name, text in (loaded or {}).items():
            path = tap.write("/run/credentials/agentcrate-egress.service/" + name, text, 0o400)
            os.chown(path, EGRESS_UID, 0)
    return fill


def unit_tree(names):
    tree = tap.folder("tree")
    for name in names:
        tap.write(os.path.join(tree, "credentials.d", name.replace("_", "-") + ".json"),
                  credential(name))
    return tree


def by_unit():
    doctor = Doctor(own_host(unit_tree(row[0] for row in UNIT), machine(DROP_IN)), tap.clean_env())
    tap.equal(sorted(doctor.secrets), sorted(row[0] for row in UNIT), "secrets")
    for row in UNIT:
        doctor.expect(*row)
        tap.equal(doctor.secrets[row[0]]["instance"], "system", row[0])


def by_running_unit():
    """What the service that runs was given is looked at as it sees it."""
    loaded = {"sealed": CANARY, "sealed-lines": "a\nb", "plain": CANARY}
    drop_in = DROP_IN + "[Service]\nLoadCredentialEncrypted=sealed-lines:/etc/secret/sealed\n" \
        "LoadCredentialEncrypted=sealed-new:/etc/secret/sealed\n"
    names = ["sealed", "sealed-lines", "sealed-new", "plain"]
    doctor = Doctor(own_host(unit_tree(names), machine(drop_in, loaded)), tap.clean_env())
    doctor.expect("sealed", "yes")
    doctor.expect("plain", "yes")
    doctor.expect("sealed-lines", "no", "has more than one line")
    doctor.expect("sealed-new", "no", "not to the service that runs", "daemon-reload")


def by_file():
    """Files of the service belong to its user, and root's are none of its."""
    rows = [*(row for row in FILES if row[0] != "foreign"),
            ("roots", CANARY, 0o400, 0, "cannot be read", "chown agentcrate-egress " + ETC)]
    tree = write_tree(tap.folder("tree"), rows, EGRESS_UID)
    Doctor(own_host(tree, machine()), tap.clean_env()).expect_rows(rows, ETC, "system")


def plain_user():
    """Whoever cannot see them is told so, and what is his own is judged."""
    tree = write_tree(tap.folder("tree"), FILES[:1], EGRESS_UID)
    home = tap.folder("config")
    write_tree(home + "/agentcrate", FILES[2:3])
    prepare = own_host(tree, machine())

    def as_user():
        prepare()
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)

    doctor = Doctor(as_user, {"PATH": "/usr/bin:/bin", "HOME": "/", "XDG_CONFIG_HOME": home,
                              **{name: value for name, value in os.environ.items()
                                 if name.startswith("AGENTCRATE_")}})
    doctor.expect("good", "limited", "is root's to see", "run agentcrate doctor as root")
    doctor.expect("missing", "no", "is missing", home)
    tap.equal([doctor.secrets[name]["instance"] for name in ("good", "missing")],
              ["system", "user"], "instances")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(home + "/agentcrate/credentials.d/missing.json")
    tap.equal(Doctor(as_user, tap.clean_env(XDG_CONFIG_HOME=home)).summary["answer"], "limited",
              "the check")


def tests():
    tap.case("each fault is named with file, credential and remedy", own)
    tap.case("no credential, no secret", none_needed)
    tap.case("a secret of two credentials", shared)
    tap.case("what needs a bad one is refused by its name", refused)
    if tap.WHO == "root":
        tap.case("the machine's: what its unit gives", by_unit)
        tap.case("the machine's: what the running service was given", by_running_unit)
        tap.case("the machine's: files", by_file)
        tap.case("the machine's, to a plain user", plain_user)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
