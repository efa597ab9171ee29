#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema test suite, draft 7, against our subset: each group whose schema has only supported
keywords is loaded and gives the verdicts of the suite; each other is refused when it is loaded."""

import collections
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import tap  # pylint: disable=wrong-import-position

SUITE = "/usr/share/json-schema-test-suite/tests/draft7"
# What was run when this was written: fewer mean that something is passed over.
GROUPS_MIN, TESTS_MIN = 85, 269

SCHEMA = {"additionalProperties", "not"}
SCHEMAS = {"allOf", "anyOf", "oneOf"}
MEMBERS = {"properties", "$defs", "definitions"}
PLAIN = set("""type enum const minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength
    maxLength pattern minItems maxItems uniqueItems required title description default examples
    $schema $comment""".split())


def unsupported(schema):
    """The names of what a schema has beyond the subset."""
    if not isinstance(schema, dict):
        return set()
    found = set()
    for key, value in schema.items():
        if key in MEMBERS:
            found |= set().union(*map(unsupported, value.values()))
        elif key in SCHEMAS:
            found |= set().union(*map(unsupported, value))
        elif key in SCHEMA:
            found |= unsupported(value)
        elif key == "items":
            found |= {"items (list)"} if isinstance(value, list) else unsupported(value)
        elif key == "$ref":
            if not value.startswith("#"):
                found.add("$ref (remote)")
            if set(schema) - {"$ref", "$defs", "definitions"}:
                found.add("$ref (not alone)")
        elif key not in PLAIN:
            found.add(key)
    return found


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    return data, json.loads(data)


def probe(data):
    run = subprocess.run([tap.helper("schema-probe")], input=data, capture_output=True, timeout=60,
                         check=False)
    tap.check(run.returncode == 0, run.stderr.decode())
    return [json.loads(line) for line in run.stdout.splitlines()]


def check_group(group, answer):
    tap.check("reasons" in answer, lambda: f"not loaded: {answer['faults']}")
    tap.check(len(answer["reasons"]) == len(group["tests"]), "tests were passed over")
    for test, reason in zip(group["tests"], answer["reasons"]):
        tap.check(reason is None or isinstance(reason, str), f"{test['description']}: {reason}")
        tap.check((reason is None) == test["valid"], f"{test['description']}: {reason or 'allowed'}")


def check_skipped(keywords, answer):
    tap.check("faults" in answer, f"was loaded, with {sorted(keywords)}")


def check_counts(counts):
    tap.check(counts["groups"] >= GROUPS_MIN and counts["tests"] >= TESTS_MIN,
              f"only {counts['groups']} groups and {counts['tests']} tests were run")


def tests():
    if not os.path.isdir(SUITE):
        tap.skip("every test", "host has no json-schema-test-suite")
        return
    counts, skipped = collections.Counter(), collections.Counter()
    for path in sorted(glob.glob(SUITE + "/*.json") + glob.glob(SUITE + "/optional/*.json")):
        data, groups = load(path)
        answers = probe(data)
        for number, group in enumerate(groups):
            name = f"{os.path.relpath(path, SUITE)[:-5]}: {group['description']}"
            answer = answers[number] if number < len(answers) else {"faults": ["no answer"]}
            keywords = unsupported(group["schema"])
            if keywords:
                for keyword in keywords:
                    skipped[keyword] += 1
                tap.case(f"{name} (not supported: {', '.join(sorted(keywords))})", check_skipped,
                         keywords, answer)
            else:
                counts["groups"] += 1
                counts["tests"] += len(group["tests"])
                tap.case(name, check_group, group, answer)
    tap.diag(f"{counts['groups']} groups with {counts['tests']} tests were run; not supported: " +
             ", ".join(f"{keyword} {n}" for keyword, n in sorted(skipped.items())))
    tap.case("no group is passed over", check_counts, counts)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
