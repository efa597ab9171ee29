# SPDX-License-Identifier: Apache-2.0
"""A word that nobody else has, planted where jobs and records must not get at it: in the environment
of what the tests start, in files beside what crates are shown, as the secret of credentials. Whatever
comes out is looked through for it, in every form in which it could be had back without effort.

tap.py looks at what our programs print, and at the end of a script at every file that was left in its
folders: audit logs, logs, records, cores; mcp.py at what brokers answer; taprun.py at what the script
itself prints."""

import base64
import mmap
import os
import re

VARIABLE = "AGENTCRATE_TEST_CANARY"
# A file above twice this is looked through at its beginning and its end.
PART = 32 << 20

if not re.fullmatch("c4n[0-9a-f]{32}", os.environ.get(VARIABLE, "")):
    os.environ[VARIABLE] = "c4n" + os.urandom(16).hex()
WORD = os.environ[VARIABLE]
# For secrets: with all that some encoding writes in another way.
SECRET = f"s/{WORD}+/==\"\\%41&z"


class Leak(Exception):
    """The word was found where it must not be."""


def _base64(word, offset):
    """What is the same of it whatever stands before and behind it."""
    text = base64.b64encode(b"\0" * offset + word)
    return text[(0, 2, 3)[offset]:(offset + len(word)) * 8 // 6]


def forms(text=WORD):
    """Name -> bytes to look for."""
    word = text.encode()
    found = {"as it is": word, "reversed": word[::-1], "hex": word.hex().encode(),
             "UTF-16": text.encode("utf-16-le"),
             "percent-encoded": "".join(f"%{byte:02X}" for byte in word).encode(),
             "percent-encoded, small": "".join(f"%{byte:02x}" for byte in word).encode(),
             "JSON-escaped": "".join(f"\\u{byte:04x}" for byte in word).encode(),
             "JSON-escaped, big": "".join(f"\\u{byte:04X}" for byte in word).encode()}
    found.update({f"base64 at offset {n}": _base64(word, n) for n in range(3)})
    return found


_FORMS = forms()
_planted = set()


def find(data):
    """The form in which it stands in some bytes, or None."""
    for name, form in _FORMS.items():
        if data.find(form) >= 0:
            return name
    return None


def look(data, where):
    """Raises Leak if it is in some bytes or a text."""
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    form = find(data)
    if form:
        raise Leak(f"the canary is in {where}, {form}: {data[:500]!r}")


def plant(path):
    """That file has it, and may."""
    _planted.add(os.path.realpath(path))


def unplant(path):
    _planted.discard(os.path.realpath(path))


def _find_in_file(path):
    if os.path.islink(path) or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            return None
        if size <= 2 * PART:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return find(data)
        first = file.read(PART)
        file.seek(size - PART)
        return find(first) or find(file.read(PART))


def leaks(folder):
    """Lines that name the files below a folder that have it and may not."""
    found = []
    for top, _names, files in os.walk(folder):
        for name in files:
            path = os.path.join(top, name)
            if os.path.realpath(path) in _planted:
                continue
            try:
                form = _find_in_file(path)
            except (OSError, ValueError):
                continue  # another's, or gone
            if form:
                found.append(f"{path}: {form}")
    return found
