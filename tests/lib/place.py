# SPDX-License-Identifier: Apache-2.0
"""Configuration with a credential, its secret, and an upstream of the test's own: for a broker, and for
what runs without one."""

import contextlib
import json
import os
import shutil

import canary
import egress
import mcp
import tap
import upstream

SECRET = canary.SECRET
HERE = [("A", egress.OUTSIDE)]


class Place:
    """Configuration, a secret and an upstream."""

    def __init__(self, server, resolver, authority):
        self.server, self.resolver, self.authority = server, resolver, authority
        self.data = tap.folder("data")
        shutil.copytree(os.path.join(tap.data_dir(), "templates.d"),
                        os.path.join(self.data, "templates.d"))
        self.configure()
        os.makedirs(os.path.join(self.data, "credentials.d"), exist_ok=True)
        self.secrets = tap.folder("secrets")
        tap.write(os.path.join(self.secrets, "token"), SECRET, 0o400)
        self.write("api", self.row(authority))

    def configure(self, **config):
        with open(os.path.join(self.data, "agentcrated.json"), "w", encoding="ascii") as file:
            json.dump({"egress": {"resolver": [self.resolver.address]}, **config}, file)

    def row(self, authority, **operations):
        """The file of the credential; operations: instead of the usual ones."""
        return {
            "upstream": f"https://{upstream.HOST}:{self.server.port}", "secret": "token",
            "attach": {"as": "bearer"}, "addresses": [egress.OUTSIDE + "/32"], "ca": authority.ca,
            "env": {"API_URL": "http://api.crate.internal"},
            "operations": operations or {
                "get": {"method": "GET", "path": "/get/{n:int}"},
                "create": {"method": "POST", "path": "/items", "body": {"kind": "json"}},
            }}

    def write(self, name, row):
        with open(os.path.join(self.data, "credentials.d", name + ".json"), "w",
                  encoding="ascii") as file:
            json.dump(row, file)

    def tenant(self, name="us", **tenant):
        row = {"match": {"uid": [os.geteuid()]}, "scopes": ["exec", "credential:use"],
               "tools": {"allow": ["*"]}, "templates": ["*"], "operations": ["api.*"], **tenant}
        folder = os.path.join(self.data, "tenants.d")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name + ".json")
        with open(path + "~", "w", encoding="ascii") as file:
            json.dump(row, file)
        os.rename(path + "~", path)

    def broker(self, **tenant):
        """A broker whose caller is this tenant."""
        self.tenant(**tenant)
        return mcp.Broker(env=tap.clean_env(AGENTCRATE_DATA_DIR=self.data,
                                            CREDENTIALS_DIRECTORY=self.secrets))

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
