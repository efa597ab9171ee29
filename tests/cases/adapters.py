#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 120
"""Libraries that know nothing of AgentCrate use a credential: policy sets what they read of their
environment, and they go on as if they spoke with their own servers."""

import base64
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import place
import tap
import upstream

# As client libraries do it: an address from the environment, a key that is said in a field.
OPENAI = """
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""
GITHUB = """
const url = process.env.GITHUB_API_URL + '/repos/octo/hello/issues?per_page=2';
fetch(url, {headers: {Authorization: 'token none', Accept: 'application/vnd.github+json'}})
    .then(r => r.json()).then(list => console.log(list.length));
"""
HTTP_BACKEND = "git-http-backend"


def base_url():
    """A base URL and a key that is none."""
    answer = upstream.reply(json.dumps({"choices": [{"message": {"content": "hi"}}]}),
                            fields=["Content-Type: application/json"])
    with place.place(answer) as p:
        row = p.row(p.authority, chat={"method": "POST", "path": "/chat/completions",
                                       "body": {"kind": "json"}})
        row["upstream"] += "/v1"
        row["env"] = {"OPENAI_BASE_URL": "http://openai.crate.internal", "OPENAI_API_KEY": "none"}
        p.write("openai", row)
        p.run("/usr/bin/python3", "-c", OPENAI, operations=["openai.chat"]).expect(0, "hi\n")
        request, = p.server.requests
        tap.equal((request.method, request.target), ("POST", "/v1/chat/completions"))
        tap.equal(request.field("authorization"), ["Bearer " + place.SECRET])


def api_url():
    """The variable that GitHub's own tools read."""
    tap.need("node")
    with place.place(upstream.reply("[1,2]", fields=["Content-Type: application/json"])) as p:
        row = p.row(p.authority, issues={"method": "GET", "path": "/repos/{owner:slug}/{repo:slug}/issues",
                                         "query": {"per_page": {"type": "int", "maximum": 100}}})
        row["env"] = {"GITHUB_API_URL": "http://github.crate.internal"}
        p.write("github", row)
        p.run("node", "-e", GITHUB, operations=["github.issues"]).expect(0, "2\n")
        request, = p.server.requests
        tap.equal(request.target, "/repos/octo/hello/issues?per_page=2")
        tap.equal(request.field("authorization"), ["Bearer " + place.SECRET])


class Git:
    """What git's own server answers, for an upstream that wants the secret."""

    def __init__(self):
        tap.need("git")
        where = subprocess.run(["git", "--exec-path"], capture_output=True, check=True).stdout.decode().strip()
        self.program = os.path.join(where, HTTP_BACKEND)
        if not os.access(self.program, os.X_OK):
            raise tap.Skip(f"host has no {HTTP_BACKEND}")
        tree, self.root = tap.folder("tree"), tap.folder("root")
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        tap.run(["git", "init", "-q", tree]).expect(0)
        for n in range(3):
            tap.write(os.path.join(tree, "file"), f"from git {n}\n")
            tap.run(["git", "-C", tree, "add", "file"]).expect(0)
            tap.run(["git", *who, "-C", tree, "commit", "-qm", str(n)]).expect(0)
        os.makedirs(os.path.join(self.root, "octo"))
        tap.run(["git", "clone", "-q", "--bare", tree, os.path.join(self.root, "octo", "hello.git")]).expect(0)

    def __call__(self, conn, request):
        if request.field("authorization") != ["Basic " + self.basic]:
            conn.sendall(upstream.reply("", "401 Unauthorized"))
            return
        path, _, query = request.target.partition("?")
        ran = subprocess.run([self.program], input=request.body, capture_output=True, check=False, env={
            "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": request.method,
            "PATH_INFO": path, "QUERY_STRING": query, "PATH": "/usr/bin:/bin", "HOME": self.root,
            "CONTENT_TYPE": "".join(request.field("content-type")),
            "CONTENT_LENGTH": str(len(request.body)), "GIT_PROTOCOL": "".join(request.field("git-protocol")),
            # The repository is this user's, wherever it lies.
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"})
        head, _, body = ran.stdout.partition(b"\r\n\r\n")
        # It closes, and says so: a request that meets the end of a connection is nobody's fault here.
        conn.sendall(upstream.reply(body, fields=["Connection: close", *head.decode().split("\r\n")]))

    @property
    def basic(self):
        return base64.b64encode(f"x-access-token:{place.SECRET}".encode()).decode()


def instead_of():
    """git clones what is said to lie at its usual address; what is written there is not on the menu."""
    server = Git()
    with place.place(server) as p:
        repo = "/{owner:slug}/{repo:slug}"
        row = p.row(p.authority, refs={
            "method": "GET", "path": repo + "/info/refs",
            "query": {"service": {"type": "enum(git-upload-pack)", "required": True}}}, fetch={
            "method": "POST", "path": repo + "/git-upload-pack", "body": {"kind": "raw", "max_bytes": "1M"},
            "response": {"max_bytes": "64M"}})
        row.update(attach={"as": "basic", "user": "x-access-token"}, headers=["git-protocol"], env={
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "url.http://hub.crate.internal/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.example/"})
        p.write("hub", row)
        ran = p.run("sh", "-c", """
cd /tmp && git clone -q https://github.example/octo/hello.git && cat hello/file && cd hello &&
git -c user.name=a -c user.email=a@b commit -q --allow-empty -m more && git push -q 2>/dev/null || echo not pushed
""", operations=["hub.*"])
        ran.expect(0, "from git 2\nnot pushed\n")
        tap.equal({row["kind"] for row in ran.record["denied"]} - {"refused"}, {"operation"}, "denied")
        tap.check(all("receive-pack" not in request.target for request in p.server.requests), "a push went out")
        tap.check(len(p.server.requests) >= 2, "requests")


def tests():
    for title, fn in (("a base URL with a key that is none", base_url), ("the URL of an API", api_url),
                      ("insteadOf of git", instead_of)):
        tap.case(title, fn)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
