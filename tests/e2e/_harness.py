"""Runs the real server for end-to-end tests, talks HTTP to it, and counts results. Standard library only.

A test file decorates functions with @test and calls run(). Each gets one line, `ok NAME` or `FAILED NAME: why`; the last
line is `N passed, N failed`. The binary is $INCIPIT_BINARY or build/incipit, the model $INCIPIT_MODEL or the default one,
the CPU variant $INCIPIT_CPU or auto.
"""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import _tiny_model

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary():
    return os.environ.get("INCIPIT_BINARY") or str(ROOT / "build" / "incipit")


SLOWNESS = {"address": 10, "undefined": 10, "thread": 40}.get(pathlib.Path(binary()).parent.name, 1)
START_S = 120 * SLOWNESS
STOP_S = 20 * SLOWNESS
REPLY_S = 120 * SLOWNESS


def model():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get("INCIPIT_MODEL") or os.path.join(
        cache, "incipit", "models", "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
    )


def use_tiny_model():
    """From now on: random weights behind the model's tokenizer and template; written beside the binary once."""
    path = pathlib.Path(binary()).parent / "tiny.gguf"
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file, open(model(), "rb") as real:
            _tiny_model.write(_tiny_model.Source(real.read()), file)
        os.replace(file.name, path)
    os.environ["INCIPIT_MODEL"] = str(path)


if SLOWNESS > 1:
    use_tiny_model()


def command(*options):
    """How a server is started."""
    cpu = os.environ.get("INCIPIT_CPU") or "auto"
    fixed = ["--port", "0", "--cpu", cpu, "--drain-timeout", "0"]  # most tests end it with requests under way
    return [binary(), "serve", "--model", model(), *fixed, *options]


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


class Server:
    """A server on a free port, ended by stop() or at the end of a `with`."""

    running = []

    def __init__(self, *options, environment=None, stderr=None):
        self.log = tempfile.TemporaryFile(mode="w+b")
        self.process = subprocess.Popen(
            command(*options),
            stdout=subprocess.PIPE,
            stderr=self.log if stderr is None else stderr,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        Server.running.append(self)
        self.banner = ""  # up to the address
        self.host, self.port = self._read_address()
        self._wait_for_health()

    def _read_address(self):
        timer = threading.Timer(START_S, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout:
                self.banner += line.decode(errors="replace")
                match = re.search(rb"listening\s+https?://([^:\s]+):(\d+)", line)
                if match:
                    drain = threading.Thread(target=self.process.stdout.read, daemon=True)
                    drain.start()
                    return match.group(1).decode(), int(match.group(2))
        finally:
            timer.cancel()
        raise RuntimeError(f"the server did not start: {self.read_log()}")

    def _wait_for_health(self):
        deadline = time.monotonic() + START_S
        while self.get("/health").status != 200:
            if time.monotonic() > deadline:
                raise RuntimeError("the server is not healthy")

    def read_log(self):
        size = os.fstat(self.log.fileno()).st_size
        return os.pread(self.log.fileno(), size, 0).decode(errors="replace")  # its offset is the server's

    def stop(self):
        """Ends it as an operator would; returns its exit status. What a sanitizer found, leaks too, is an error."""
        if self in Server.running:
            Server.running.remove(self)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        log = self.read_log()
        found = re.search(r"(Address|Leak|Thread)Sanitizer:|runtime error:", log)
        if found:
            raise RuntimeError(f"a sanitizer's report: {log[max(0, found.start() - 80) :][:6000]}")
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    # ---- requests ----

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=REPLY_S)

    def open_socket(self):
        return socket.create_connection((self.host, self.port), timeout=REPLY_S)

    def request(self, method, path, body=None, headers=None, connection=None):
        own = connection is None
        connection = connection or self.connect()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        if own:
            connection.close()
        return reply

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def ok(self, path, body):
        """The JSON of a reply that must be a 200."""
        reply = self.post(path, body)
        assert reply.status == 200, f"{reply.status}: {reply.body[:500]}"
        return reply.json()

    def error(self, path, body, status=400):
        """The error of a reply that must have this status; its form is checked."""
        reply = self.post(path, body)
        assert reply.status == status, f"{reply.status} instead of {status}: {reply.body[:500]}"
        return check_error(reply)

    def stream(self, path, body):
        """The frames of a stream, checked for their form: a list of objects, [DONE] left out."""
        reply = self.post(path, {**body, "stream": True})
        assert reply.status == 200, f"{reply.status}: {reply.body[:500]}"
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8", reply.headers
        return read_frames(reply.body)

    def health(self):
        return self.get("/health").json()

    def open_stream(self, path, body):
        """A raw connection with the request sent."""
        return RawRequest(self, path, body)

    def wait_until(self, condition, seconds):
        """How long it took until condition(health) was true; None: longer than that."""
        began = time.monotonic()
        connection = self.connect()
        try:
            while True:
                state = self.get("/health", connection=connection).json()
                passed = time.monotonic() - began
                if condition(state):
                    return passed
                if passed > seconds * SLOWNESS:
                    return None
        finally:
            connection.close()


class RawRequest:
    """A POST over a socket, to be read in part or cut."""

    def __init__(self, server, path, body, headers=None):
        data = json.dumps(body).encode()
        self.socket = server.open_socket()
        fixed = {"Host": server.host, "Content-Type": "application/json", "Content-Length": len(data)}
        lines = [f"{name}: {value}\r\n" for name, value in {**fixed, **(headers or {})}.items()]
        self.socket.sendall(f"POST {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode() + data)
        self.bytes = b""

    def read_until(self, text):
        while text not in self.bytes:
            more = self.socket.recv(65536)
            assert more, f"the connection ended after {self.bytes[-300:]}"
            self.bytes += more

    def read_all(self):
        while more := self.socket.recv(65536):
            self.bytes += more
        return self.bytes

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def check_error(reply):
    assert reply.headers["content-type"] == "application/json", reply.headers
    assert reply.headers["x-request-id"] == reply.headers["request-id"], reply.headers
    error = reply.json()["error"]
    assert sorted(error) == ["code", "message", "param", "type"], error
    assert isinstance(error["message"], str) and error["message"], error
    return error


def read_frames(data):
    frames = data.split(b"\n\n")
    assert frames.pop() == b"", data[-200:]
    frames = [frame for frame in frames if not frame.startswith(b":")]
    assert frames.pop() == b"data: [DONE]", data[-200:]
    objects = []
    for frame in frames:
        assert frame.startswith(b"data: ") and b"\n" not in frame, frame
        objects.append(json.loads(frame[6:].decode("utf-8", errors="strict")))
    return objects


TESTS = []


def test(function):
    TESTS.append(function)
    return function


def test_of_words(function):
    """A test that needs a model which was trained: what a tiny one says is no text, and is read back as other tokens."""
    return test(function) if SLOWNESS == 1 else function


def run(*arguments):
    """Runs all tests of the file with these arguments, in order."""
    failed = 0
    for function in TESTS:
        name = function.__name__
        try:
            function(*arguments)
            print(f"ok {name}", flush=True)
        except Exception as error:  # a test may fail in any way
            failed += 1
            places = [f"{pathlib.Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
            print(f"FAILED {name}: {type(error).__name__}: {error} [{' '.join(places[1:5])}]", flush=True)
            if show_dead_servers():
                failed += len(TESTS) - TESTS.index(function) - 1
                break
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    return 1 if failed or not TESTS else 0


def show_dead_servers():
    """Whether a server that should run ended by itself; its last words are printed."""
    dead = [server for server in Server.running if server.process.poll() is not None]
    for server in dead:
        print(f"   the server ended with status {server.process.returncode}; its log ends:")
        print("".join(f"   | {line}\n" for line in server.read_log().splitlines()[-40:]), flush=True)
    return bool(dead)
