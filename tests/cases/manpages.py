#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The options of each program are those of its page, and the pages are well formed."""

import glob
import json
import os
import re
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

PAGES = os.environ.get("AGENTCRATE_MAN_DIR", "/usr/local/share/man")
COMMANDS = {"agentcrate": ("stdio", "tools", "call", "audit", "policy", "doctor")}
# Every page but those of sections 5 and 7 belongs to a program; the launcher has no options.
PROGRAMS = {
    "agentcrate-run": (tap.program, 1),
    "agentcrate": (tap.program, 1),
    "agentcrated": (tap.libexec, 8),
    "agentcrate-egress": (tap.libexec, 8),
}


def page_path(name, section):
    return os.path.join(PAGES, f"man{section}", f"{name}.{section}")


def page_options(path):
    """What the page describes: -x and --long of its lines .It Fl x , -long."""
    found = set()
    with open(path, encoding="utf-8") as page:
        for line in page:
            if line.startswith(".It Fl "):
                for word in re.split(r"[ ,]+", line[len(".It Fl "):].strip()):
                    if re.fullmatch(r"[A-Za-z]|-[a-z][a-z-]*", word):
                        found.add("-" + word)
                    else:
                        break
    return found


def help_options(text):
    """What --help lists: the options that a line begins with, "-x, --long" or one of them."""
    found = set()
    for line in text.splitlines():
        line = line.strip()
        while match := re.match(r"(-[A-Za-z]|--[a-z][a-z-]*)(?![\w-])[^ ,]*(, |$| )", line):
            found.add(match[1])
            if match[2] != ", ":
                break
            line = line[match.end():]
    return found


def options_agree(name, find, section):
    listed = {"--help", "-h", "--version"} if name in COMMANDS else set()
    for command in [], *([command] for command in COMMANDS.get(name, ())):
        ran = tap.run([find(name), *command, "--help"]).expect(0)
        listed |= help_options(ran.text)
    described = page_options(page_path(name, section))
    tap.check("--help" in listed, f"--help lists no options: {ran.text!r}")
    tap.equal(sorted(described), sorted(listed), f"options in {name}({section}) and in --help")


def lint(path):
    if not shutil.which("mandoc"):
        raise tap.Skip("host has no mandoc")
    ran = tap.run(["mandoc", "-Tlint", "-W", "warning", path])
    tap.check(ran.rc == 0, lambda: ran.text)


def permits_in_sources(top):
    """The rows of all permit tables: frame -> its states, in order."""
    found = {}
    for path in glob.glob(os.path.join(top, "src", "*", "*.c")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        groups = dict(re.findall(r"#define (\w+) \((\w+_STATE_\w+(?: \| \w+_STATE_\w+)+)\)", text))
        for frame, states in re.findall(r"\{((?:PARENT|LAUNCHER|INIT|SCOPE|EGRESS)_[A-Z]+), ([A-Z_ |]+),\s", text):
            states = groups.get(states, states)
            found[frame] = [state.rpartition("_STATE_")[2].lower() for state in states.split(" | ")]
    return found


def permits_in_page(path):
    with open(path, encoding="utf-8") as page:
        rows = re.findall(r'^\.It ([A-Z_]+) Ta ("[^"]+"|\S+) Ta', page.read(), re.M)
    return {frame: states.strip('"').split(", ") for frame, states in rows}


def permits_agree():
    top = os.environ.get("AGENTCRATE_SOURCE_DIR", "")
    if not os.path.isdir(os.path.join(top, "src")):
        raise tap.Skip("host has no sources of this build")
    permitted = permits_in_sources(top)
    tap.check(len(permitted) >= 10, f"only {len(permitted)} rows were found")
    tap.equal(permits_in_page(page_path("agentcrate-protocol", 7)), permitted, "permit tables")


# What mdoc would change: a lone dot and a quoted word are its own.
RENDERED = (
    ("agentcrate-run", 1, "$ agentcrate-run -w . -t 10m -- make test"),
    ("agentcrate-plan", 7, "$ agentcrate-run --print-plan -w . -- true"),
    ("agentcrate-templates", 5, '{"from": path, "to": path}'),
)


def rendered(path):
    if not shutil.which("mandoc"):
        raise tap.Skip("host has no mandoc")
    text = tap.run(["mandoc", "-Tascii", path]).expect(0).text
    return " ".join(re.sub(".\x08", "", text).split())


def examples_are_shown():
    for name, section, text in RENDERED:
        tap.contains(rendered(page_path(name, section)), text, f"{name}({section})")


def members(value):
    """The names of all members of an object, of those in it and in its lists."""
    if isinstance(value, dict):
        return set(value).union(*map(members, value.values()))
    return set().union(*map(members, value)) if isinstance(value, list) else set()


def record_is_described():
    """Every member that a record has stands in its section, as a word of .Va."""
    with open(page_path("agentcrate-run", 1), encoding="utf-8") as page:
        section = page.read().split(".Sh RESULT RECORD\n")[1].split("\n.Sh ")[0]
    described = set()
    for line in section.splitlines():
        if line.startswith((".Va ", ".It Va ")):
            described |= set(re.findall(r"\w+", line)) - {"It", "Va"}
    found = set()
    for options, command in (["-t", "1"], "sleep 60"), ([], "/no/such/command"):
        ran = tap.run([tap.program("agentcrate-run"), "--json", *options, "--", *command.split()])
        found |= members(json.loads(ran.out))
    tap.check({"outcome", "observed", "remedy", "peak", "wall_ms"} <= found, f"only {found!r}")
    tap.equal(sorted(found - described), [], "members that agentcrate-run(1) does not name")


def capture_maximum():
    """The page names the largest --capture: one byte more is refused."""
    page = rendered(page_path("agentcrate-run", 1))
    maximum = re.search(r"the maximum is (\d+)", page)
    tap.check(maximum, "no maximum")
    run = tap.program("agentcrate-run")
    tap.run([run, "--json", "--capture", maximum[1], "--", "true"]).expect(0)
    tap.run([run, "--json", "--capture", str(int(maximum[1]) + 1), "--", "true"]).expect(125)


def version_is_told(name, find):
    ran = tap.run([find(name), "--version"]).expect(0)
    tap.check(re.fullmatch(rf"{name} \d+\.\d+\.\d+\n", ran.text), lambda: str(ran))


def tests():
    pages = sorted(glob.glob(os.path.join(PAGES, "man?", "agentcrate*")))
    tap.case("each program has its page", lambda: [
        tap.check(page_path(name, section) in pages, f"no page for {name}")
        for name, (_, section) in PROGRAMS.items()
    ])
    for name, (find, section) in PROGRAMS.items():
        tap.case(f"{name}: options in page and --help", options_agree, name, find, section)
        tap.case(f"{name}: --version", version_is_told, name, find)
    tap.case("the permit tables of agentcrate-protocol are those of the programs", permits_agree)
    tap.case("examples are shown as they are to be typed", examples_are_shown)
    tap.case("agentcrate-run(1) names every member of the record", record_is_described)
    tap.case("agentcrate-run(1) names the maximum of --capture", capture_maximum)
    for path in pages:
        tap.case(f"mandoc -Tlint {os.path.basename(path)}", lint, path)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
