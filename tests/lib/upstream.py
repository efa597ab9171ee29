# SPDX-License-Identifier: Apache-2.0
"""A hostile upstream: a TLS server with certificates of the test's own, which sends byte for byte
what the test says, and notes what it was sent."""

import os
import re
import ssl
import subprocess
import threading

import egress
import tap

HOST = "api.upstream.test"


def openssl(*argv, stdin=None):
    run = subprocess.run(["openssl", *argv], input=stdin, capture_output=True, timeout=60,
                         check=False)
    tap.check(run.returncode == 0, lambda: f"openssl {argv[0]}: {run.stderr.decode()}")
    return run.stdout


class Authority:
    """A certificate authority, and the certificates that it signs. ca is its file."""

    def __init__(self):
        self.folder = tap.folder("ca")
        self.ca = self._path("ca.pem")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-days", "2", "-subj", "/CN=test authority", "-keyout",
                self._path("ca.key"), "-out", self.ca, "-sha256")

    def _path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, label, name=HOST, days="2", digest="-sha256", own=False, subject=None):
        """(certificate, key) of a host's name; expired if days is 0; own: signed by itself; subject: its
        only name, which is none of a host."""
        cert, key, request = (self._path(f"{label}.{kind}") for kind in ("pem", "key", "csr"))
        extensions = self._path(f"{label}.ext")
        with open(extensions, "w", encoding="ascii") as file:
            file.write("basicConstraints=CA:FALSE\n" if subject else f"subjectAltName=DNS:{name}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", "/CN=" + re.sub(r"([/\\+=])", r"\\\1", subject or name), "-keyout", key, "-out", request)
        signer = ["-signkey", key] if own else ["-CA", self.ca, "-CAkey", self._path("ca.key"),
                                                "-CAcreateserial"]
        when = ["-days", days]
        openssl("x509", "-req", "-in", request, *signer, *when, digest, "-extfile", extensions,
                "-out", cert)
        return cert, key

    @staticmethod
    def pin(cert):
        """sha256/BASE64 of its public key."""
        key = openssl("x509", "-in", cert, "-noout", "-pubkey")
        der = openssl("pkey", "-pubin", "-outform", "der", stdin=key)
        return "sha256/" + openssl("base64", "-A",
                                   stdin=openssl("dgst", "-sha256", "-binary", stdin=der)).decode()


class Request:
    """What the upstream was sent."""

    def __init__(self, data):
        head, _, self.body = data.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = line.split(" ")
        self.fields = [tuple(field.split(": ", 1)) for field in fields]

    def field(self, name):
        """Its values, as a list."""
        return [value for key, value in self.fields if key.lower() == name.lower()]


class Upstream(egress.Server):
    """answer: bytes, or a function of (connection, request) that sends."""

    def __init__(self, cert, answer=b"", context=None):
        self.answer, self.requests = answer, []
        self.keep = False  # connections, after an answer
        self.ended = threading.Event()
        self.context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*cert)
        super().__init__(self._talk)

    def _talk(self, conn):
        conn.settimeout(20)
        try:
            with self.context.wrap_socket(conn, server_side=True) as tls:
                while True:
                    request = self._read(tls)
                    if not request:
                        return
                    self.requests.append(request)
                    if callable(self.answer):
                        self.answer(tls, request)
                    else:
                        tls.sendall(self.answer)
                    if not self.keep:
                        return
        finally:
            self.ended.set()

    @staticmethod
    def _read(conn):
        data = b""
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                return None
            data += more
        request = Request(data)
        length = int((request.field("content-length") or ["0"])[0])
        while len(request.body) < length:
            request.body += conn.recv(65536)
        return request


def reply(body=b"", status="200 OK", fields=(), length=True):
    """A whole answer."""
    if isinstance(body, str):
        body = body.encode()
    lines = [f"HTTP/1.1 {status}", *fields]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Answer:
    """What the job got."""

    def __init__(self, data):
        self.data = data
        head, _, body = data.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        self.status = int(line.split(" ")[1]) if line else 0
        self.phrase = line.split(" ", 2)[2] if line else ""
        self.fields = {key.lower(): value
                       for key, _, value in (field.partition(": ") for field in fields)}
        self.whole = True
        if self.fields.get("transfer-encoding") == "chunked":
            body, self.whole = self._join(body)
        self.body = body

    @staticmethod
    def _join(data):
        parts, at = [], 0
        while (end := data.find(b"\r\n", at)) > at:
            size = int(data[at:end], 16)
            if size == 0:
                return b"".join(parts), True
            parts.append(data[end + 2:end + 2 + size])
            at = end + 2 + size + 2
        return b"".join(parts), False
