#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# test-as: root user
# test-timeout: 300
"""Ordinary clients in crates, with nothing set that they would not have anywhere else: each reaches
the destination that it may by its name, and nothing else. NET-03, NET-04, NET-05, NET-11."""

import base64
import glob
import hashlib
import http.server
import io
import json
import os
import pwd
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tarfile
import urllib.parse
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
# pylint: disable=wrong-import-position
import egress
import tap
from web import BLOB, BLOB_HASH, LOOPBACK, Blob, Web, certificate, crate, environment, resolver

PYTHON = "/usr/bin/python3"
HELLO = "hello from web.example\n"


class Place:
    """Certificate and environment of all cases. Its folder is the crate's workspace."""

    def __init__(self, dns):
        self.dns, self.env = dns, environment(dns)
        self.chain, self.key = certificate()
        self.folder = os.path.dirname(self.chain)

    def web(self, **options):
        return Web(certificate=(self.chain, self.key), **options)

    def run(self, *command, allow, options=(), **kwargs):
        return crate(self.env, *command, allow=allow, options=[
            "-w", self.folder + ":ro", "-e", "NODE_EXTRA_CA_CERTS=/workspace/chain.pem", *options], **kwargs)

    def write(self, name, text):
        tap.write(os.path.join(self.folder, name), text)
        return "/workspace/" + name


def allowed(server, kind="tls"):
    return [f"web.example:{server.port}/{kind}{LOOPBACK}"]


# --- HTTP ---

SIMPLE = {
    "curl": ["curl", "-sS", "--cacert", "/workspace/chain.pem", "{url}"],
    "python urllib": [PYTHON, "-c", "import ssl, urllib.request; print(urllib.request.urlopen('{url}', "
                      "context=ssl.create_default_context(cafile='/workspace/chain.pem')).read().decode(), end='')"],
    "node fetch": ["node", "-e", "fetch('{url}').then(r => r.text()).then(t => process.stdout.write(t))"],
    "wget": ["wget", "-q", "-O-", "--ca-certificate=/workspace/chain.pem", "{url}"],
}


def simple(place, name):
    tap.need(SIMPLE[name][0].rpartition("/")[2])
    with place.web() as web:
        command = [word.replace("{url}", f"https://web.example:{web.port}/hello") for word in SIMPLE[name]]
        place.run(*command, allow=allowed(web)).expect(0, out=HELLO)


def busybox(place):
    """The resolver of its own is that of the C library it is built with; its wget knows plain HTTP."""
    tap.need("busybox")
    with Web() as web:
        place.run("busybox", "wget", "-q", "-O-", f"http://web.example:{web.port}/hello",
                  allow=allowed(web, "http")).expect(0, out=HELLO)


MUSL = """
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found, *at;
        int n4 = 0, n6 = 0, fd, r = getaddrinfo(argv[1], argv[2], &hints, &found);

        if (argc < 3 || r != 0) {
                printf("%s\\n", r == EAI_NONAME ? "no such name" : gai_strerror(r));
                return 1;
        }
        for (at = found; at; at = at->ai_next) {
                n4 += at->ai_family == AF_INET;
                n6 += at->ai_family == AF_INET6;
                fd = socket(at->ai_family, SOCK_STREAM, 0);
                if (fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) < 0)
                        printf("%s\\n", strerror(errno));
                close(fd);
        }
        printf("%d %d\\n", n4, n6);
        return 0;
}
"""


def musl_client(place):
    """Its path in a crate."""
    tap.need("musl-gcc")
    source, program = (os.path.join(place.folder, name) for name in ("client.c", "client"))
    tap.write(source, MUSL)
    tap.run(["musl-gcc", "-static", "-o", program, source]).expect(0)
    os.chmod(program, 0o755)
    return "/workspace/client"


def musl(place):
    """NET-11: a static client of musl asks for A and AAAA at once, and takes an error of either for
    both."""
    program = musl_client(place)
    with Web() as web:
        place.run(program, "web.example", str(web.port),
                  allow=allowed(web, "http")).expect(0, out="1 1\n")
        place.run(program, "other.example", str(web.port),
                  allow=allowed(web, "http")).expect(1, out="no such name\n")


# The longest name that there is: its answer is the longest that the stub ever gives.
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 52, "example"])
LOOK_UP = """
import socket, sys
print(sorted({row[4][0] for row in socket.getaddrinfo(sys.argv[1], 80, type=socket.SOCK_STREAM)}))
with open("/proc/self/net/tcp") as file:
    print(sum(line.split()[2] == "010012C6:0035" for line in file))
"""


def long_names(place):
    """No answer is so long that it would have to be cut and asked for again by TCP: one address or none
    to a question. So a client of musl, which asks by TCP only then, if at all, need not do so; one of
    glibc that asks by TCP alone, with use-vc, is answered the same."""
    place.dns.answers[LONG] = [("A", "127.0.0.1")]
    with Web() as web:
        allow = [f"{LONG}:{web.port}/http{LOOPBACK}"]
        for more, streams in ([], "0"), (["-e", "RES_OPTIONS=use-vc"], "1"), (["-e", "RES_OPTIONS=edns0"], "0"):
            ran = place.run(PYTHON, "-c", LOOK_UP, LONG, allow=allow, options=more).expect(0)
            tap.equal(ran.out.decode().splitlines(), ["['198.18.0.2', 'fd00:ac::2']", streams], str(more))
            place.run("curl", "-sS", f"http://{LONG}:{web.port}/hello", allow=allow,
                      options=more).expect(0, out=f"hello from {LONG}\n")
        tap.need("musl-gcc")
        place.run(musl_client(place), LONG, str(web.port), allow=allow).expect(0, out="1 1\n")


def npm_undici():
    """Where npm has its copy of the library."""
    tap.need("node")
    found = glob.glob("/usr/*/node_modules/npm/node_modules/undici") + glob.glob("/usr/share/nodejs/undici")
    if not found:
        raise tap.Skip("host has no undici")
    return found[0]


def undici(place):
    with place.web() as web:
        place.run("node", "-e", f"""
const {{request}} = require({json.dumps(npm_undici())});
request('https://web.example:{web.port}/hello').then(r => r.body.text()).then(t => process.stdout.write(t));
""", allow=allowed(web)).expect(0, out=HELLO)


JAVA = """
import java.io.*;
import java.net.URI;
import java.net.http.*;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.concurrent.*;
import javax.net.ssl.*;

public class Fetch {
    public static void main(String[] argv) throws Exception {
        KeyStore keys = KeyStore.getInstance(KeyStore.getDefaultType());
        keys.load(null, null);
        try (InputStream in = new FileInputStream("/workspace/chain.pem")) {
            keys.setCertificateEntry("own", CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(keys);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        HttpClient client = HttpClient.newBuilder().sslContext(context).build();
        HttpResponse<String> answer = client.send(HttpRequest.newBuilder(URI.create(argv[0])).build(),
                                                  HttpResponse.BodyHandlers.ofString());
        System.out.print(answer.statusCode() + " " + answer.body());
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        WebSocket socket = client.newWebSocketBuilder().buildAsync(URI.create(argv[1]), new WebSocket.Listener() {
            public CompletionStage<?> onText(WebSocket from, CharSequence text, boolean last) {
                heard.add(text.toString());
                from.request(1);
                return null;
            }
        }).get(10, TimeUnit.SECONDS);
        for (int i = 0; i < 100; i++) {
            socket.sendText("message " + i, true).get(10, TimeUnit.SECONDS);
        }
        for (String want = "server first"; ; want = heard.poll(10, TimeUnit.SECONDS)) {
            if (want.equals("message 99")) break;
        }
        socket.sendClose(1000, "").get(10, TimeUnit.SECONDS);
        System.out.println("echoed");
    }
}
"""


def java(place):
    """NET-04: a client that knows no variables of proxies, and its websockets."""
    tap.need("java")
    tap.need("javac")
    source = os.path.join(place.folder, "Fetch.java")
    tap.write(source, JAVA)
    tap.run(["javac", "-d", place.folder, source]).expect(0)
    # Debian has its certificates and settings below /etc.
    etc = [word for path in glob.glob("/etc/java-*-openjdk") + ["/etc/ssl"] for word in ("--ro", path)]
    with place.web() as web, EchoFrames(place) as frames:
        ran = place.run("java", "-Xshare:auto", "-cp", "/workspace", "Fetch",
                        f"https://web.example:{web.port}/hello",
                        f"wss://web.example:{frames.port}/", allow=[*allowed(web), *allowed(frames)],
                        options=etc)
        ran.expect(0, out="200 " + HELLO + "echoed\n")


# --- websockets ---


class EchoFrames(egress.Server):
    """A server of websockets that speaks first, then sends back what it gets. place None: no TLS."""

    def __init__(self, place=None):
        self.context = None
        if place:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(place.chain, place.key)
        super().__init__(self.talk, "127.0.0.1")

    def talk(self, connection):
        connection.settimeout(20)
        stream = self.context.wrap_socket(connection, server_side=True) if self.context else connection
        with stream.makefile("rwb") as file:
            fields = {}
            while (line := file.readline().strip()):
                name, _, value = line.partition(b":")
                fields[name.lower()] = value.strip()
            mark = hashlib.sha1(fields[b"sec-websocket-key"] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            file.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       b"Sec-WebSocket-Accept: " + base64.b64encode(mark) + b"\r\n\r\n")
            self.put(file, 1, b"server first")
            while True:
                kind, data = self.get(file)
                self.put(file, kind, data)
                if kind == 8:
                    return

    @staticmethod
    def get(file):
        first, second = file.read(2)
        size = second & 127
        if size >= 126:
            size, = struct.unpack("!H" if size == 126 else "!Q", file.read(2 if size == 126 else 8))
        mask, data = file.read(4), file.read(size)
        whole = int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")
        return first & 15, whole.to_bytes(size, "big")

    @staticmethod
    def put(file, kind, data):
        size = (struct.pack("!B", len(data)) if len(data) < 126 else struct.pack("!BH", 126, len(data))
                if len(data) < 65536 else struct.pack("!BQ", 127, len(data)))
        file.write(bytes([0x80 | kind]) + size + data)
        file.flush()


FRAMES = """
const {WebSocket} = require(LIBRARY);
const socket = new WebSocket(URL), sent = [];
for (let i = 0; i < 100; i++) sent.push(Buffer.alloc(i == 50 ? 1 << 20 : i + 1, i));
let got = -1;
socket.binaryType = 'arraybuffer';
socket.onmessage = event => {
    if (got++ < 0) {
        if (event.data !== 'server first') throw new Error(event.data);
        sent.forEach(data => socket.send(data));
        return;
    }
    if (Buffer.compare(Buffer.from(event.data), sent[got - 1])) throw new Error('frame ' + got);
    if (got == 100) socket.close(1000);
};
socket.onerror = event => { console.log('error'); process.exit(3); };
socket.onclose = event => console.log(got, event.code, event.wasClean);
"""


def websockets(place):
    """NET-05: a hundred messages each way, one of them large, in order, then the end; over TLS, and
    in clear text where the destination is tcp. One that is http speaks HTTP only, and says so."""
    library = json.dumps(npm_undici())

    def run(server, scheme, kind):
        code = FRAMES.replace("LIBRARY", library).replace("URL", f"'{scheme}://web.example:{server.port}/'")
        return place.run("node", "-e", code, allow=allowed(server, kind))

    with EchoFrames(place) as server:
        ran = run(server, "wss", "tls").expect(0, out="100 1000 true\n")
        tap.equal(ran.record["usage"]["egress_connections"], 1)
        size = sum(i + 1 for i in range(100)) + (1 << 20)
        tap.check(ran.record["usage"]["egress_bytes_in"] >= size <= ran.record["usage"]["egress_bytes_out"],
                  str(ran.record["usage"]))
    with EchoFrames() as server:
        run(server, "ws", "tcp").expect(0, out="100 1000 true\n")
        n = server.n_connections
        run(server, "ws", "http").expect(3)
        tap.equal(server.n_connections, n, "connections for an upgrade on http")
        ran = place.run("curl", "-sS", "-H", "Connection: Upgrade", "-H", "Upgrade: websocket",
                        f"http://web.example:{server.port}/", allow=allowed(server, "http"))
        tap.contains(ran.out.decode(), "allow it as NAME:PORT/tcp instead")


# --- packages ---


def archive(name):
    """A wheel, which is all that pip needs."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr(f"{name}.py", "x = 1\n")
        file.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return data.getvalue()


def package(name):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as file:
        text = json.dumps({"name": name, "version": "1.0.0"}).encode()
        info = tarfile.TarInfo("package/package.json")
        info.size = len(text)
        file.addfile(info, io.BytesIO(text))
    return data.getvalue()


class Index(Blob):
    """An index of Python packages, and a registry of npm's."""

    WHEEL, TARBALL = archive("unit"), package("unit")

    def do_GET(self):
        base = f"https://{self.headers['Host']}"
        pages = {
            "/simple/unit/": b'<a href="/unit-1.0-py3-none-any.whl">unit-1.0-py3-none-any.whl</a>',
            "/unit-1.0-py3-none-any.whl": self.WHEEL,
            "/unit": json.dumps({"name": "unit", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
                "name": "unit", "version": "1.0.0", "dist": {
                    "tarball": f"{base}/unit-1.0.0.tgz",
                    "shasum": hashlib.sha1(self.TARBALL).hexdigest()}}}}).encode(),
            "/unit-1.0.0.tgz": self.TARBALL,
        }
        page = pages.get(self.path)
        if page is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)


def pip(place):
    if subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        raise tap.Skip("host has no pip")
    with place.web(handler=Index) as web:
        ran = place.run("sh", "-c", f"""
{PYTHON} -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps -d /tmp/x \\
    --cert /workspace/chain.pem -i https://web.example:{web.port}/simple unit && ls /tmp/x""", allow=allowed(web))
        ran.expect(0)
        tap.contains(ran.out.decode(), "unit-1.0-py3-none-any.whl\n")
        tap.equal([row for row in ran.record["denied"] if row["kind"] != "refused"], [], "denied")


def npm(place):
    tap.need("npm")
    with place.web(handler=Index) as web:
        place.run("sh", "-c", f"cd /tmp && npm pack -s --fetch-retries 0 --cafile /workspace/chain.pem --registry https://web.example:{web.port}/ unit",
                  allow=allowed(web)).expect(0, out="unit-1.0.0.tgz\n")


# --- go ---


class Prometheus(Blob):
    """Answers a query as a server of Prometheus does."""

    def do_POST(self):
        query = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.reply(json.dumps({"status": "success", "data": {"resultType": "vector", "result": [
            {"metric": {"asked": query["query"][0]}, "value": [1700000000, "1"]}]}}).encode())


def go(place):
    """Its own resolver, and that of the C library; promtool is an ordinary program of Go's net/http."""
    tap.need("promtool")
    with place.web(handler=Prometheus) as web:
        for resolver_name, told in ("go", "use of Go's resolver"), ("cgo", "using cgo DNS resolver"):
            def ask(name):
                return place.run("promtool", "query", "instant", f"https://{name}:{web.port}", "up",
                                 allow=allowed(web), options=["-e", f"GODEBUG=netdns={resolver_name}+1",
                                                              "-e", "SSL_CERT_FILE=/workspace/chain.pem"])

            ran = ask("web.example").expect(0)
            tap.contains(ran.out.decode(), '{asked="up"} => 1 @', resolver_name)
            tap.contains(ran.err.decode(), told)
            ran = ask("other.example")
            tap.equal(ran.rc, 1, f"{resolver_name}, a name that is not allowed")
            tap.contains(ran.err.decode(), "no such host", resolver_name)
            tap.contains([row["what"] for row in ran.record["denied"] if row["kind"] == "dns"], "other.example")


# --- git ---


def repository():
    """A folder with a bare repository x.git of one commit."""
    tap.need("git")
    tree, bare = tap.folder("tree"), tap.folder("bare")
    os.chmod(bare, 0o755)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    tap.run(["git", "init", "-q", tree]).expect(0)
    tap.write(os.path.join(tree, "file"), "from git\n")
    tap.run(["git", "-C", tree, "add", "file"]).expect(0)
    tap.run(["git", *who, "-C", tree, "commit", "-qm", "one"]).expect(0)
    tap.run(["git", "clone", "-q", "--bare", tree, os.path.join(bare, "x.git")]).expect(0)
    tap.run(["git", "-C", os.path.join(bare, "x.git"), "update-server-info"]).expect(0)
    return bare


def git_https(place):
    bare = repository()

    class Files(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=bare, **kwargs)

        def log_message(self, *_):
            pass

    with place.web(handler=Files) as web:
        place.run("sh", "-c", f"git clone -q https://web.example:{web.port}/x.git /tmp/x && cat /tmp/x/file",
                  allow=allowed(web), options=["-e", "GIT_SSL_CAINFO=/workspace/chain.pem"]
                  ).expect(0, out="from git\n")


class Sshd:
    """A server of ssh on loopback that lets one key in, as an ordinary user."""

    def __init__(self, folder):
        self.folder = folder
        who = 1000 if os.geteuid() == 0 else os.geteuid()
        try:
            self.user = pwd.getpwuid(who).pw_name
        except KeyError:
            raise tap.Skip("host has no user with a name") from None
        server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
        if not server:
            raise tap.Skip("host has no sshd")
        for name in "host", "id":
            tap.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(name)]).expect(0)
            if os.geteuid() == 0:
                os.chown(self.path(name), who, who)
        with egress.listener("127.0.0.1") as probe:
            self.port = probe.getsockname()[1]
        drop = ["setpriv", f"--reuid={who}", f"--regid={who}", "--clear-groups"] if os.geteuid() == 0 else []
        options = {"Port": self.port, "ListenAddress": "127.0.0.1", "HostKey": self.path("host"), "PidFile": "none",
                   "AuthorizedKeysFile": self.path("id.pub"), "StrictModes": "no", "UsePAM": "no"}
        self.process = subprocess.Popen(
            [*drop, server, "-D", "-e", "-f", "/dev/null", *(f"-o{key}={value}" for key, value in options.items())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def path(self, name):
        return os.path.join(self.folder, name)

    def __enter__(self):
        def up():
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                return self.process.poll() is not None
            return True

        tap.check(tap.wait_until(up, 10) and self.process.poll() is None,
                  lambda: f"sshd: {self.process.stderr.read().decode()}")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.process.stderr.close()


def git_ssh(place):
    """A destination that is tcp, whose server speaks first."""
    tap.need("ssh")
    folder, bare = tap.folder("ssh"), repository()
    os.chmod(folder, 0o755)
    for name, _, files in os.walk(bare):
        for path in (name, *(os.path.join(name, file) for file in files)):
            if os.geteuid() == 0:
                os.chown(path, 1000, 1000)
    with Sshd(folder) as server:
        shutil.copy(server.path("id"), place.folder)
        os.chmod(os.path.join(place.folder, "id"), 0o644)
        ran = place.run("sh", "-c", f"""
install -m 600 /workspace/id /tmp/id && export GIT_SSH_COMMAND="ssh -i /tmp/id -o StrictHostKeyChecking=no \\
    -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR" &&
git clone -q ssh://{server.user}@web.example:{server.port}{bare}/x.git /tmp/x && cat /tmp/x/file""",
                        allow=[f"web.example:{server.port}/tcp{LOOPBACK}"])
        ran.expect(0, out="from git\n")
        tap.equal(ran.record["usage"]["egress_connections"], 1)


# --- much ---


def transfer(place):
    """The same bytes arrive, both ways."""
    with Web() as web:
        url = f"http://web.example:{web.port}/blob"
        ran = place.run("sh", "-c", f"curl -sS {url} | sha256sum", allow=allowed(web, "http")).expect(0)
        tap.equal(ran.out.split()[0].decode(), BLOB_HASH)
        usage = ran.record["usage"]
        tap.check(usage["egress_bytes_in"] >= BLOB, str(usage))
        ran = place.run("sh", "-c", f"head -c {BLOB} /dev/zero | curl -sS -T - -H 'Content-Length: {BLOB}' "
                        f"-H 'Transfer-Encoding:' {url}", allow=allowed(web, "http")).expect(0)
        tap.equal(ran.out.decode(), hashlib.sha256(bytes(BLOB)).hexdigest())


def tests():
    with resolver() as dns:
        try:
            place = Place(dns)
        except tap.Skip as reason:
            tap.skip("ordinary clients", str(reason))
            return
        for name in SIMPLE:
            tap.case(f"NET-03: {name}", simple, place, name)
        for title, fn in (("NET-03: node's undici", undici), ("NET-03: busybox wget", busybox),
                          ("NET-11: a client of musl", musl),
                          ("NET-11: the longest name, by UDP and TCP", long_names), ("NET-04: java", java),
                          ("NET-05: websockets", websockets), ("NET-03: pip", pip), ("NET-03: npm", npm),
                          ("NET-03: go", go),
                          ("NET-03: git by TLS", git_https), ("NET-03: git by ssh", git_ssh),
                          ("transfers both ways", transfer)):
            tap.case(title, fn, place)


if __name__ == "__main__":
    sys.exit(tap.main(tests))
