"""HTTPS: the same server behind TLS. Certificates are made here, with openssl."""
import http.client
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile

import _harness
from _harness import Server, test

KV = ("--kv-memory", "256MiB")
COMPLETIONS = "/v1/completions"
LONG = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_pair(folder, name):
    """A key, and a certificate of its own for localhost and 127.0.0.1."""
    certificate, key = str(pathlib.Path(folder, f"{name}.pem")), str(pathlib.Path(folder, f"{name}.key"))
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl("req", *kind, "-subj", "/CN=localhost", "-addext", names, "-keyout", key, "-out", certificate)
    return certificate, key


class SecureServer(Server):
    def __init__(self, certificate, key, *options):
        self.certificate, self.key = certificate, key
        self.context = ssl.create_default_context(cafile=certificate)
        super().__init__("--tls-cert", certificate, "--tls-key", key, *KV, *options)

    def connect(self):
        return http.client.HTTPSConnection(self.host, self.port, timeout=_harness.REPLY_S, context=self.context)

    def open_socket(self):
        return self.context.wrap_socket(super().open_socket(), server_hostname=self.host)


@test
def answers_as_without(server):
    assert "https://127.0.0.1" in server.banner, server.banner
    connection = server.connect()
    for _ in range(20):
        reply = server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1}, connection=connection)
        assert reply.status == 200 and reply.json()["choices"], reply.body
    connection.close()
    frames = server.stream(COMPLETIONS, {"prompt": "a", "max_tokens": 20, "ignore_eos": True})
    assert frames[-1]["choices"][0]["finish_reason"] == "length", frames[-1]
    reply = server.post(COMPLETIONS, {"prompt": "a " * (1 << 18), "max_tokens": 1})
    assert reply.status == 400 and _harness.check_error(reply)["code"] == "context_length_exceeded", reply.body
    reply = server.post(COMPLETIONS, b"a" * (65 << 20))
    assert reply.status == 413, reply.status


@test
def a_client_that_goes_ends_its_request(server):
    for leave in (_harness.RawRequest.close, _harness.RawRequest.reset):
        for begun in (False, True):
            stream = server.open_stream(COMPLETIONS, LONG)
            if begun:
                stream.read_until(b"data: ")
            else:
                assert server.wait_until(lambda state: state["running"] == 1, 20) is not None
            leave(stream)
            assert server.wait_until(lambda state: state["running"] + state["waiting"] == 0, 5) is not None, (leave, begun)


@test
def only_newer_versions_are_spoken(server):
    for version, good in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_1, False)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
        plain = socket.create_connection((server.host, server.port), timeout=20)
        try:
            with context.wrap_socket(plain, server_hostname=server.host) as secure:
                assert good, secure.version()
        except (ssl.SSLError, ConnectionError) as error:
            assert not good, (version, error)
        finally:
            plain.close()


@test
def plain_http_is_closed(server):
    with socket.create_connection((server.host, server.port), timeout=20) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = b""
        try:
            while more := plain.recv(4096):
                data += more
        except ConnectionError:
            pass
    assert b"HTTP/" not in data, data
    assert server.get("/health").status == 200


@test
def handshakes_that_stall_hold_nobody(server):
    idle = [socket.create_connection((server.host, server.port), timeout=20) for _ in range(50)]
    for connection in idle[::2]:
        connection.sendall(b"\x16\x03\x01")
    assert server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1}).status == 200
    for connection in idle:
        connection.close()
    assert server.get("/health").status == 200


@test
def what_is_no_pair_is_refused_at_start(server):
    folder = pathlib.Path(server.certificate).parent
    _, other_key = make_pair(folder, "other")
    locked = str(folder / "locked.key")
    openssl("ec", "-in", server.key, "-aes256", "-passout", "pass:x", "-out", locked)
    empty = folder / "empty"
    empty.write_bytes(b"")
    cases = (
        (server.certificate, other_key, other_key),
        (server.certificate, locked, locked),
        (server.certificate, server.certificate, server.certificate),
        (server.key, server.key, server.key),
        (str(empty), server.key, str(empty)),
        (str(folder / "missing"), server.key, "missing"),
        (server.certificate, "", "--tls-key"),
        ("", server.key, "--tls-cert"),
    )
    for certificate, key, named in cases:
        command = _harness.command("--tls-cert", certificate, "--tls-key", key, *KV)
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode in (1, 2) and named in done.stderr and done.stderr.count("\n") == 1, (certificate, key, done.stderr)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as main_folder:
        main_certificate, main_key = make_pair(main_folder, "server")
        with SecureServer(main_certificate, main_key) as main_server:
            sys.exit(_harness.run(main_server))
