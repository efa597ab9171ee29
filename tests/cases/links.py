#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What each program is made of: the launcher, which is root's, holds no parser of foreign text; and
every source includes only what lies below it."""

import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

# By which a library is known in a program: what it is linked with, or, where it is linked
# statically, the names of its functions.
LIBRARIES = {
    "jansson": ("libjansson.so", rb"\bjson_(loads?b?|dumps|object|array|string)(_\w+)?\b"),
    "libsystemd": ("libsystemd.so", rb"\bsd_(event|bus|listen_fds|notify|journal)\w*"),
    "libcurl": ("libcurl", rb"\bcurl_(easy|multi|global)_\w+"),
    "openssl": ("libssl.so", rb"\bSSL_(has_pending|new|read|write|connect)\b"),
    "c-ares": ("libcares", rb"\bares_(init|getaddrinfo|process)\w*"),
    "nettle": ("libnettle.so", rb"\bnettle_\w+"),
    "pcre2": ("libpcre2", rb"\bpcre2_\w+"),
    "llhttp": ("libllhttp", rb"\bllhttp_(init|execute|settings_init)\b"),
    "libseccomp": ("libseccomp.so", rb"\bseccomp_(init|load|rule_add\w*|export_bpf)\b"),
}
PROGRAMS = {
    "agentcrate-launcher": (tap.libexec, [], list(LIBRARIES)),
    "agentcrate-scope": (tap.libexec, ["libsystemd"],
                         [library for library in LIBRARIES if library != "libsystemd"]),
    "agentcrate-egress": (tap.libexec, ["c-ares", "jansson", "libcurl", "llhttp", "nettle", "openssl"],
                          ["libsystemd", "libseccomp", "pcre2"]),
    "agentcrated": (tap.libexec, ["jansson", "libsystemd", "nettle", "llhttp"],
                    ["c-ares", "libcurl", "libseccomp", "openssl"]),
    "agentcrate-run": (tap.program, ["jansson", "nettle"],
                       ["c-ares", "libsystemd", "libcurl", "libseccomp", "llhttp", "openssl", "pcre2"]),
}

# What a folder may include beside itself. An arrow never points back.
MAY_INCLUDE = {
    "basic": "",
    "ipc": "basic",
    "plan": "basic",
    "schema": "basic",
    "policy": "basic schema",
    "seccomp": "basic",
    "mcp": "basic plan policy",
    "cgroup": "basic ipc plan policy",
    "scope": "basic ipc cgroup",
    "crate": "basic ipc plan policy seccomp cgroup",
    "launcher": "basic ipc plan",
    "egress": "basic ipc http policy seccomp",
    "record": "basic",
    "http": "basic",
    "broker": "basic ipc plan schema policy record http mcp cgroup scope crate",
    "run": "basic ipc plan policy seccomp cgroup crate launcher",
    "doctor": "basic ipc plan policy cgroup crate run egress",  # of egress, how secrets are judged
    "cli": "basic policy record mcp doctor",
}
# The folders that may include a library's headers: what is linked follows from that. cgroup and
# crate have no libsystemd, since agentcrate-run shall start quickly.
MAY_USE = {
    "systemd": "broker doctor record scope",
    "ares": "egress",
    "jansson": "basic policy crate egress mcp broker doctor cli",
    "nettle": "plan crate egress mcp policy record",
    "netlink": "launcher",
    "sys/capability": "launcher",
    "seccomp": "seccomp",
    "pcre2": "schema",
    "curl": "egress",
    "openssl": "egress",
    "llhttp": "http",
}


# --- programs ---


def elf_sections(data):
    """The sections of a 64-bit ELF file: (type, offset, size, link)."""
    if data[:4] != b"\x7fELF" or data[4] != 2:
        raise tap.Failed("no 64-bit ELF program")
    order = "<" if data[5] == 1 else ">"
    start, = struct.unpack_from(order + "Q", data, 40)
    size, count = struct.unpack_from(order + "HH", data, 58)
    sections = []
    for i in range(count):
        kind, _, _, offset, length, link = struct.unpack_from(order + "IQQQQI", data,
                                                              start + i * size + 4)
        sections.append((kind, offset, length, link))
    return order, sections


def elf_needed(data):
    """The names of the shared libraries that a program is linked with."""
    order, sections = elf_sections(data)
    needed = []
    for kind, offset, length, link in sections:
        if kind != 6:  # SHT_DYNAMIC
            continue
        strings = sections[link][1]
        for i in range(offset, offset + length, 16):
            tag, value = struct.unpack_from(order + "QQ", data, i)
            if tag == 0:
                break
            if tag == 1:  # DT_NEEDED
                end = data.index(b"\0", strings + value)
                needed.append(data[strings + value:end].decode())
    return needed


def elf_names(data):
    """All names of symbols, of each symbol table that is left."""
    _, sections = elf_sections(data)
    return b"\n".join(data[sections[link][1]:sections[link][1] + sections[link][2]]
                      for kind, _, _, link in sections if kind in (2, 11)).replace(b"\0", b"\n")


def traces(path, library):
    """What shows that a program has a library: shared objects, functions."""
    with open(path, "rb") as file:
        data = file.read()
    shared, functions = LIBRARIES[library]
    return ([so for so in elf_needed(data) if so.startswith(shared)],
            sorted({match[0].decode() for match in re.finditer(functions, elf_names(data))}))


def program_has(find, name, library):
    # The names show in either way of linking; without them the tests below could not fail.
    tap.check(traces(find(name), library)[1], f"{name} calls no function of {library}")


def program_lacks(find, name, library):
    shared, functions = traces(find(name), library)
    tap.check(not shared and not functions, f"{name} has {library}: {(shared + functions)[:8]}")


# --- sources ---


def source_folder():
    source = os.environ.get("AGENTCRATE_SOURCE_DIR", "")
    if not source or not os.path.isfile(os.path.join(source, "src", "launcher", "main.c")):
        raise tap.Skip("host has no source tree here")
    return os.path.join(source, "src")


def includes(folder):
    """(file, line, "…" or <…>, what) of each include below a folder."""
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            if not name.endswith((".c", ".h")):
                continue
            path = os.path.join(parent, name)
            with open(path, encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    found = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
                    if found:
                        yield os.path.relpath(path, folder), number, found[1], found[2]


def folder_includes(folder):
    allowed = set(MAY_INCLUDE[folder].split()) | {folder}
    wrong, count = [], 0
    for file, line, mark, what in includes(os.path.join(source_folder(), folder)):
        if mark != '"' or what == "config.h":
            continue
        count += 1
        if what.partition("/")[0] not in allowed or "/" not in what:
            wrong.append(f"{folder}/{file}:{line} includes {what}")
    tap.check(count > 0, f"nothing is included in {folder}")
    tap.check(not wrong, "\n".join(wrong))


def every_folder_is_known():
    source = source_folder()
    folders = {name for name in os.listdir(source) if os.path.isdir(os.path.join(source, name))}
    tap.check(folders <= set(MAY_INCLUDE), f"no rule for {sorted(folders - set(MAY_INCLUDE))}")


def rules_have_no_circle():
    """Below each folder lie only folders that it does not lie below."""
    def below(folder, seen):
        for other in MAY_INCLUDE[folder].split():
            tap.check(other not in seen, f"{folder} and {other} may include each other")
            below(other, seen | {other})
    for folder in MAY_INCLUDE:
        below(folder, {folder})


def library_is_used_by(library):
    allowed = set(MAY_USE[library].split())
    wrong, used = [], set()
    source = source_folder()
    for file, line, mark, what in includes(source):
        if mark == "<" and re.match(rf"{library}[/.]", what):
            used.add(file.partition("/")[0])
            if file.partition("/")[0] not in allowed:
                wrong.append(f"{file}:{line} includes <{what}>")
    tap.check(used, f"nothing includes <{library}…>")
    tap.check(not wrong, "\n".join(wrong))


def tests():
    for name, (find, having, lacking) in PROGRAMS.items():
        for library in having:
            tap.case(f"{name}: linked with {library}", program_has, find, name, library)
        for library in lacking:
            tap.case(f"{name}: not linked with {library}", program_lacks, find, name, library)
    for folder in MAY_INCLUDE:
        tap.case(f"src/{folder} includes only what lies below it", folder_includes, folder)
    tap.case("src: a rule for every folder", every_folder_is_known)
    tap.case("src: no two folders below each other", rules_have_no_circle)
    for library in MAY_USE:
        tap.case(f"src: <{library}…> only where it belongs", library_is_used_by, library)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
