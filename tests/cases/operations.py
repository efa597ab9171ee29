#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""Operations with a credential from inside of a crate: ordinary clients, against an upstream of the
test's own."""

import contextlib
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import tap
import upstream

SECRET = "canary-" + os.urandom(16).hex()
HERE = [("A", egress.OUTSIDE)]


class Place:
    """Configuration, a secret and an upstream."""

    def __init__(self, server, resolver, authority):
        self.server = server
        self.data = tap.folder("data")
        shutil.copytree(os.path.join(tap.data_dir(), "templates.d"),
                        os.path.join(self.data, "templates.d"))
        with open(os.path.join(self.data, "agentcrated.json"), "w", encoding="ascii") as file:
            json.dump({"egress": {"resolver": [resolver.address]}}, file)
        os.makedirs(os.path.join(self.data, "credentials.d"), exist_ok=True)
        self.secrets = tap.folder("secrets")
        tap.write(os.path.join(self.secrets, "token"), SECRET, 0o400)
        self.write("api", {
            "upstream": f"https://{upstream.HOST}:{server.port}", "secret": "token",
            "attach": {"as": "bearer"}, "addresses": [egress.OUTSIDE + "/32"], "ca": authority.ca,
            "env": {"API_URL": "http://api.crate.internal"},
            "operations": {
                "get": {"method": "GET", "path": "/get/{n:int}"},
                "create": {"method": "POST", "path": "/items", "body": {"kind": "json"}},
            }})

    def write(self, name, row):
        with open(os.path.join(self.data, "credentials.d", name + ".json"), "w",
                  encoding="ascii") as file:
            json.dump(row, file)

    def run(self, *command, operations=("api.get",), options=()):
        env = tap.clean_env(AGENTCRATE_DATA_DIR=self.data, CREDENTIALS_DIRECTORY=self.secrets)
        asked = [f"--operation={name}" for name in operations]
        return tap.crate(*command, options=[*asked, *options], env=env)


@contextlib.contextmanager
def place(answer=None):
    authority = upstream.Authority()
    with egress.Resolver(**{upstream.HOST: HERE}) as resolver, \
            upstream.Upstream(authority.sign("good"), answer or upstream.reply("fine")) as server:
        yield Place(server, resolver, authority)


def curl():
    with place() as p:
        p.run("sh", "-c", "curl -sS $API_URL/get/7").expect(0, "fine")
        request, = p.server.requests
        tap.equal((request.method, request.target, request.field("authorization")),
                  ("GET", "/get/7", ["Bearer " + SECRET]))


def python():
    text = ("import urllib.request, os; r = urllib.request.Request(os.environ['API_URL'] + '/items',"
            " b'{}', {'Content-Type': 'application/json'}); print(urllib.request.urlopen(r).read())")
    with place() as p:
        p.run("python3", "-c", text, operations=["api.*"]).expect(0, "b'fine'\n")


def only_what_was_asked_for():
    with place() as p:
        run = p.run("curl", "-sS", "-X", "POST", "http://api.crate.internal/items")
        tap.contains(str(run.out), "operation.no_match")
        tap.equal(p.server.connections, 0, "connections")
        run = p.run("curl", "-sS", "http://other.crate.internal/get/7")
        tap.check(run.rc == 6, f"curl of another name: {run}")


def secret_is_not_inside():
    """Row 55: nothing of it in environment, memory of processes, files, or what the job is told."""
    answer = upstream.reply(f"you said {SECRET}", fields=[f"ETag: {SECRET}"])
    with place(answer) as p:
        run = p.run("sh", "-c", "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n';"
                    "curl -sSi $API_URL/get/1; grep -rs canary- /etc /run /tmp /home /var 2>/dev/null;"
                    "true", options=["--json"])
        text = str(run.out) + str(run.err)
        tap.contains(text, "you said ********")
        tap.lacks(text, SECRET, "what came out")
        plan = p.run("true", options=["--print-plan"])
        tap.lacks(str(plan.out), SECRET, "plan")


def refused_by_name():
    """CRED-01, and what the files do not have."""
    with place() as p:
        for name, text in (("api.nothing", "api.nothing"), ("none.get", "none")):
            run = p.run("true", operations=[name])
            tap.equal(run.rc, 125, name)
            tap.contains(str(run.err), text)
        os.unlink(os.path.join(p.secrets, "token"))
        run = p.run("true")
        tap.equal(run.rc, 125, "a secret that is missing")
        tap.contains(str(run.err), "the secret token is missing")
        tap.equal(p.server.connections, 0, "connections")
        for bad in "api", "*", "api.", "Api.get", "api.get.more":
            tap.equal(p.run("true", operations=[bad]).rc, 125, bad)


def tests():
    for fn in (curl, python, only_what_was_asked_for, secret_is_not_inside, refused_by_name):
        tap.case(fn.__name__.replace("_", " "), fn)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
