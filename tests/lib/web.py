# SPDX-License-Identifier: Apache-2.0
"""What jobs reach by name in tests: servers on loopback, a resolver of the test's own, and crates
whose destinations open those addresses."""

import hashlib
import http.server
import json
import os
import socket
import ssl
import threading

import egress
import machine
import tap

LOOPBACK = "@127.0.0.0/8,::1"
BLOB = 64 << 20
CHUNK = 1 << 16
PYTHON = "/usr/bin/python3"

# What jobs need to tell what happens to them.
INSIDE = """
import errno, json, os, socket, struct, sys, time
def name(error):
    return errno.errorcode.get(error.errno, str(error))
def attempt(address, port, kind=socket.SOCK_STREAM, timeout=5):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, kind) as s:
        s.settimeout(timeout)
        try:
            s.connect((address, port))
            return "connected"
        except OSError as error:
            return name(error)
def find(host):
    try:
        return sorted({row[4][0] for row in socket.getaddrinfo(host, 1, type=socket.SOCK_STREAM)})
    except socket.gaierror as error:
        return error.args[0]
def ask(wire, tcp=False, timeout=5):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(timeout)
        s.connect(("198.18.0.1", 53))
        s.sendall(struct.pack("!H", len(wire)) + wire if tcp else wire)
        try:
            return s.recv(65535)
        except (socket.timeout, ConnectionError):
            return None
def query(host, kind):
    if isinstance(host, str):
        host = b"".join(bytes([len(l)]) + l.encode() for l in host.split(".")) + b"\\0"
    return struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + host + struct.pack("!HH", kind, 1)
def answer(host, kind):
    reply = ask(query(host, kind))
    return None if reply is None else [reply[3] & 15, struct.unpack_from("!H", reply, 6)[0]]
def tell(**facts):
    print(json.dumps(facts), flush=True)
"""


class Blob(http.server.BaseHTTPRequestHandler):
    """GET /blob, /hello, /echo-headers; PUT anything: its hash."""

    protocol_version = "HTTP/1.1"
    DATA = hashlib.sha256(b"x").digest() * (CHUNK // 32)

    def log_message(self, *_):
        pass

    def reply(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/blob":
            self.reply(b"hello from " + self.headers["Host"].split(":")[0].encode() + b"\n")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(BLOB))
        self.end_headers()
        for _ in range(BLOB // CHUNK):
            self.wfile.write(self.DATA)

    def do_PUT(self):
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left > 0:
            data = self.rfile.read(min(left, CHUNK))
            digest.update(data)
            left -= len(data)
        self.reply(digest.hexdigest().encode())


BLOB_HASH = hashlib.sha256(Blob.DATA * (BLOB // CHUNK)).hexdigest()


class Web:
    """An HTTP server on loopback, by TLS if it is given a certificate."""

    def __init__(self, address="127.0.0.1", certificate=None, handler=Blob):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        # Connections that a test resets are no news.
        kind = type("Server", (http.server.ThreadingHTTPServer,),
                    {"address_family": family, "handle_error": lambda *_: None})
        self.server = kind((address, 0), handler)
        self.port = self.server.server_address[1]
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


ANSWERS = {
    "web.example": [("A", "127.0.0.1")],
    "dual.example": [("A", "127.0.0.1"), ("AAAA", "::1")],
    "six.example": [("AAAA", "::1")],
    "alias.example": [("CNAME", "web.example"), ("A", "127.0.0.1")],
    "one.wild.example": [("A", "127.0.0.1")],
    "two.wild.example": [("A", "127.0.0.1")],
    "private.example": [("A", "10.0.0.1")],
    "meta.example": [("A", "169.254.169.254")],
}


def resolver():
    found = egress.Resolver()
    found.answers = dict(ANSWERS)
    return found


def environment(dns, templates=None, tenants=None, **settings):
    """One in which names are resolved by dns, and with these settings of agentcrated.json's egress."""
    env = tap.template_env(**(templates or {}))
    place = env["AGENTCRATE_DATA_DIR"]
    tap.write(os.path.join(place, "agentcrated.json"),
              json.dumps({"egress": {"resolver": [dns.address], **settings}}))
    for name, tenant in (tenants or {}).items():
        os.makedirs(os.path.join(place, "tenants.d"), exist_ok=True)
        tap.write(os.path.join(place, "tenants.d", name + ".json"), json.dumps(tenant))
    return env


def crate(env, *command, allow=(), options=(), **kwargs):
    given = [word for one in allow for word in ("--allow", one)]
    return tap.crate(*command, options=[*given, *options], env=env, **kwargs)


def python(env, code, allow=(), **kwargs):
    """(facts that the job told, its record)"""
    ran = crate(env, PYTHON, "-c", INSIDE + code, allow=allow, **kwargs).expect(0)
    return json.loads(ran.out.splitlines()[-1]), ran.record


def destination(web, **more):
    return {"name": "web.example", "port": web.port, "type": "http", "addresses": ["127.0.0.0/8"], **more}


def fetch(web):
    return ["curl", "-sS", "-m", "20", f"http://web.example:{web.port}/hello"]


def tenant(**more):
    return {"match": {"uid": [os.getuid()]}, "tools": {"allow": ["*"]}, "templates": ["*"],
            "scopes": ["exec", "net:egress"], **more}


def egress_of(pid):
    """The agentcrate-egress that a process has started."""
    for child in machine.descendants(pid):
        try:
            with open(f"/proc/{child}/comm", encoding="ascii") as file:
                if file.read().startswith("agentcrate-egre"):
                    return child
        except OSError:
            continue
    raise tap.Failed("there is no agentcrate-egress")


def certificate():
    """(chain, key, authority) of web.example and dual.example."""
    tap.need("openssl")
    place = tap.folder("tls")
    path = {name: os.path.join(place, name) for name in ("chain.pem", "key.pem")}
    tap.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", "/CN=web.example", "-addext",
             "subjectAltName=DNS:web.example,DNS:dual.example", "-keyout", path["key.pem"], "-out",
             path["chain.pem"]]).expect(0)
    os.chmod(path["chain.pem"], 0o644)
    os.chmod(place, 0o755)
    return path["chain.pem"], path["key.pem"]
