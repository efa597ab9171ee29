#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The system units: how much of the host each may touch, by the judgement of systemd's own tool, and
that the AppArmor profile is one."""

import glob
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position


def unit(name):
    root = os.environ.get("AGENTCRATE_ROOT", "")
    path = root + os.environ.get("AGENTCRATE_SYSTEM_UNIT_DIR", "") + "/" + name
    tap.check(os.path.isfile(path), f"{path} is not installed")
    return path


def exposure(name, maximum):
    """From 0 (nothing) to 10 (all of the host)."""
    if not shutil.which("systemd-analyze"):
        raise tap.Skip("host has no systemd-analyze")
    ran = tap.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit(name)])
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", ran.text)
    if not found:
        raise tap.Failed(f"no level: {ran}")
    tap.check(float(found[1]) <= maximum, f"{found[1]} is above {maximum}:\n{ran.text}")


def settings(name):
    """Key -> values of a unit file, in their order."""
    found = {}
    with open(unit(name), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def broker_has_no_rights():
    seen = settings("agentcrated.service")
    tap.equal(seen["User"], ["agentcrate"])
    tap.equal(seen["CapabilityBoundingSet"], [""])
    tap.check("Delegate" not in seen and "AmbientCapabilities" not in seen, str(seen))


def launcher_capabilities():
    """Each one is explained, and no more are had than that."""
    seen = settings("agentcrate-launcher.service")
    has = {cap for value in seen["CapabilityBoundingSet"] for cap in value.split()}
    with open(unit("agentcrate-launcher.service"), encoding="utf-8") as file:
        lines = [line[4:36] for line in file if line.startswith("#   ")]
    told = {f"CAP_{word}" for line in lines for word in line.split() if word.isupper()}
    tap.equal(has, told & has)
    tap.equal(has, {f"CAP_{name}" for name in (
        "SYS_ADMIN NET_ADMIN NET_BIND_SERVICE SETUID SETGID SETPCAP SYS_CHROOT DAC_OVERRIDE DAC_READ_SEARCH CHOWN KILL "
        "SYS_RESOURCE").split()})


def verified(kind):
    """By systemd's own reader, with the programs where the stage has them: every setting is known,
    every dependency is there, and the programs can be executed."""
    if not shutil.which("systemd-analyze"):
        raise tap.Skip("host has no systemd-analyze")
    root = os.environ.get("AGENTCRATE_ROOT", "")
    folder = root + os.environ[f"AGENTCRATE_{kind.upper()}_UNIT_DIR"]
    libexec = tap.libexec("").rstrip("/")
    copies = tap.folder("units")
    names = [name for name in sorted(os.listdir(folder)) if name.startswith("agentcrate")]
    tap.check("agentcrated.socket" in names, f"units: {names}")
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read().replace(libexec.removeprefix(root) + "/", libexec + "/")
        tap.write(os.path.join(copies, name), text)
    env = tap.clean_env(SYSTEMD_UNIT_PATH=copies + ":", XDG_RUNTIME_DIR=tap.folder("runtime"))
    options = ["--user"] if kind == "user" else []
    ran = tap.run(["systemd-analyze", *options, "verify", "--man=no", "--recursive-errors=no",
                   *(os.path.join(copies, name) for name in names)], env=env)
    tap.equal((ran.rc, ran.out + ran.err), (0, b""), "what systemd says of the units")


def apparmor():
    """The rule that the profile is for came with AppArmor 4, as have the hosts that need it; an older
    parser reads the rest."""
    parser = shutil.which("apparmor_parser", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not parser:
        raise tap.Skip("host has no apparmor_parser")
    paths = glob.glob(os.path.join(os.environ["AGENTCRATE_TEST_DIR"], "apparmor", "*"))
    tap.check(paths, "no profile was made")
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        tap.equal(text.count("  userns,\n"), 2, "rules for user namespaces")
        if not os.path.exists("/etc/apparmor.d/abi/4.0"):
            text = text.replace("abi/4.0", "abi/3.0").replace("  userns,\n", "")
        copy = tap.write(os.path.join(tap.folder("apparmor"), "profile"), text)
        tap.run([parser, "--skip-kernel-load", "--skip-cache", copy]).expect(0)
        names = tap.run([parser, "--names", "--skip-cache", copy]).expect(0).text.split()
        tap.equal(sorted(names), ["agentcrate-launcher", "agentcrate-run"], "profiles")


def tests():
    tap.case("agentcrated.service: exposed at most 1.5", exposure, "agentcrated.service", 1.5)
    tap.case("agentcrate-launcher.service: exposed at most 7.5", exposure,
             "agentcrate-launcher.service", 7.5)
    tap.case("agentcrate-egress.service: exposed at most 1.5", exposure,
             "agentcrate-egress.service", 1.5)
    tap.case("agentcrated.service: a user without rights", broker_has_no_rights)
    tap.case("agentcrate-launcher.service: capabilities, each explained", launcher_capabilities)
    tap.case("the system's units are without fault", verified, "system")
    tap.case("a user's units are without fault", verified, "user")
    tap.case("AppArmor profile: its syntax", apparmor)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
