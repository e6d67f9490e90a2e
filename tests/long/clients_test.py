"""Every refusal that Incipit makes, as requests, httpx, curl and the official clients for Python and Node see it: the
right status and JSON with the right code; a Retry-After where trying again makes sense. What libmicrohttpd refuses by
itself, a page of HTML, is judged by its status. Prints a table of refusals and clients, and fails on any hole in it.

Bodies are too large by 6 MiB: a client may still be sending when the reply comes.

    tests/long/clients_test.py [--only TEXT]      refusals whose name holds this text
"""
import argparse
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import _clients  # noqa: E402
import _harness  # noqa: E402
from _clients import Missed, Request  # noqa: E402
from _harness import Server, test  # noqa: E402

CHAT = "/chat/completions"
COMPLETIONS = "/completions"
LARGE = 70 << 20
PIECE = 1 << 20
SLOW_S = 130  # longer than a body may take
SLOW_PIECE_S = 3
HEADERS_LARGE = 100000
FETCH = ("openai-node",)  # it takes no iterator and no Expect
HTTPX = ("httpx", "openai-python")  # URLs of 64 KiB at most
HTML = None  # libmicrohttpd's own page
arguments = None


def large_body():
    return b'{"prompt": "a", "user": "' + b"x" * LARGE + b'"}'


def large_pieces():
    """Made as it is sent; nobody knows how long it will be."""
    yield b'{"prompt": "a", "user": "'
    for _ in range(LARGE // PIECE):
        yield b"x" * PIECE
    yield b'"}'


def slow_pieces():
    began = time.monotonic()
    while time.monotonic() - began < SLOW_S:
        yield b" "
        time.sleep(SLOW_PIECE_S)


def chat(**more):
    return json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **more}).encode()


def check(seen, status, code):
    """What is wrong with it, or None."""
    if isinstance(seen, Missed):
        return f"no reply: {seen.reason}"
    if seen.status != status:
        return f"{seen.status} instead of {status}"
    if code is HTML:
        return None
    if not isinstance(seen.error, dict) or sorted(seen.error) != ["code", "message", "param", "type"]:
        return f"not an error in JSON: {seen.error}"
    if seen.error["code"] != code:
        return f"code {seen.error['code']} instead of {code}"
    if status in (429, 503) and not 1 <= int(seen.headers.get("retry-after", 0)) <= 30:
        return f"Retry-After is {seen.headers.get('retry-after')}"
    if seen.headers.get("x-request-id") is None:
        return "no x-request-id"
    return None


def compare(server, refusals):
    """`refusals`: (name, Request, status, code) each."""
    problems = []
    refusals = [refusal for refusal in refusals if arguments.only in refusal[0]]
    for name, request, status, code in refusals:
        cells = []
        for client, ask in _clients.CLIENTS.items():
            if client in request.unsent_by:
                cells.append("-")
                continue
            problem = check(ask(f"{server.url}/v1", request), status, code)
            cells.append("ok" if problem is None else "HOLE")
            problems += [] if problem is None else [f"{name}, {client}: {problem}"]
        print(f"  {status} {code or 'by status':24} {name:34} " + " ".join(f"{cell:13}" for cell in cells), flush=True)
    for problem in problems:
        print(f"    {problem}"[:600])
    assert not problems, f"{len(problems)} holes"


def holder(server, **more):
    """A stream that goes on until it is closed."""
    body = {"prompt": "a", "max_tokens": 8000, "stream": True, "ignore_eos": True, **more}
    return contextlib.closing(server.open_stream("/v1/completions", body))


@test
def what_the_body_says(server):
    compare(server, [
        ("bad JSON", Request(CHAT, body=b'{"messages": ['), 400, "invalid_json"),
        ("a value out of range", Request(CHAT, body=chat(temperature=3)), 400, "invalid_value"),
        ("a field that is not built", Request(CHAT, body=chat(web_search_options={})), 400, "unsupported_parameter"),
        ("a prompt longer than the context", Request(CHAT, body=chat(stop="a" * 9, user="b", messages=[
            {"role": "user", "content": "word " * 9000}])), 400, "context_length_exceeded"),
        ("the same, streamed", Request(CHAT, body=chat(stream=True, messages=[
            {"role": "user", "content": "word " * 9000}])), 400, "context_length_exceeded"),
        ("an unknown model", Request(CHAT, body=chat(model="no/such")), 404, "model_not_found"),
    ])


@test
def where_it_goes(server):
    compare(server, [
        ("an unknown path", Request("/nothing", "GET"), 404, "not_found"),
        ("an unknown model's page", Request("/models/no-such", "GET"), 404, "model_not_found"),
        ("a method it does not take", Request(CHAT, "DELETE"), 405, "method_not_allowed"),
        ("a body in Latin-1", Request(CHAT, headers={"Content-Type": "application/json; charset=latin-1"}, body=chat()),
         415, "unsupported_media_type"),
        ("a body that is packed", Request(CHAT, headers={"Content-Encoding": "gzip"}, body=chat()), 415,
         "unsupported_media_type"),
        ("another site's page", Request(CHAT, headers={"Origin": "http://evil.example"}, body=chat()), 403,
         "permission_denied"),
    ])


@test
def bodies_that_are_too_large(server):
    expect = {"Expect": "100-continue"}
    compare(server, [
        ("70 MiB", Request(COMPLETIONS, body=large_body()), 413, "request_too_large"),
        ("70 MiB, Expect", Request(COMPLETIONS, headers=expect, body=large_body(), unsent_by=FETCH), 413,
         "request_too_large"),
        ("70 MiB in chunks", Request(COMPLETIONS, body=large_pieces, unsent_by=FETCH), 413, "request_too_large"),
    ])


@test
def what_libmicrohttpd_refuses(server):
    long_header = {"X-Long": "x" * HEADERS_LARGE}
    compare(server, [
        ("100 kB of headers", Request("/models", "GET", headers=long_header), 431, HTML),
        ("100 kB of path", Request("/models/" + "x" * HEADERS_LARGE, "GET", unsent_by=HTTPX), 414, HTML),
    ])


@test
def what_no_client_sends(server):
    post = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    for name, text, status in (
        ("HTTP/3.0", "GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", 505),
        ("a length that is no number", post + "Content-Length: x\r\n\r\n", 400),
        ("two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na", 400),
    ):
        with socket.create_connection((server.host, server.port), timeout=20) as raw:
            raw.sendall(text.encode())
            line = raw.recv(4096).split(b"\r\n")[0]
            print(f"  {name}: {line.decode()}")
            assert line.split()[1] == str(status).encode(), line


@test
def a_body_that_does_not_come(server):
    """All at once: each takes two minutes."""
    results = {}

    def ask(client, function):
        results[client] = function(f"{server.url}/v1", Request(COMPLETIONS, body=slow_pieces))

    clients = {name: f for name, f in _clients.CLIENTS.items() if name != "openai-node" and arguments.only in "slow"}
    threads = [threading.Thread(target=ask, args=item) for item in clients.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    problems = {client: check(seen, 408, "request_timeout") for client, seen in results.items()}
    for client, problem in problems.items():
        print(f"  408 request_timeout          a slow body, {client}: {problem or 'ok'}")
    assert not any(problems.values()), problems


@test
def who_may_ask(_):
    keys = "- name: good\n  key: good-key\n- name: limited\n  key: limited-key\n  requests_per_minute: 1\n"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(keys)
        file.flush()
        with Server("--api-keys", file.name, "--context", "512", "--kv-memory", "128MiB") as server:
            used = _clients.with_requests(f"{server.url}/v1", Request(CHAT, body=chat(), key="limited-key"))
            assert used.status == 200, used
            compare(server, [
                ("a wrong key", Request(CHAT, body=chat(), key="wrong"), 401, "invalid_api_key"),
                ("a wrong key, 70 MiB", Request(CHAT, body=large_body(), key="wrong"), 401,
                 "invalid_api_key"),
                ("a key used too often", Request(CHAT, body=chat(), key="limited-key"), 429, "rate_limit_exceeded"),
            ])


@test
def no_room(_):
    sizes = ("--max-body-memory", "150KiB", "--max-body", "100KiB")
    with Server("--max-sequences", "1", "--max-queue", "1", *sizes) as server:
        with holder(server) as running:
            running.read_until(b'"text"')
            with holder(server):
                assert server.wait_until(lambda state: state["waiting"] == 1, 20) is not None
                compare(server, [("a full queue", Request(CHAT, body=chat()), 429, "queue_full")])
            assert server.wait_until(lambda state: state["waiting"] == 0, 20) is not None
        with holder(server, user="x" * 90000) as running:
            running.read_until(b'"text"')
            compare(server, [("no memory for the body", Request(CHAT, body=chat(user="x" * 90000)), 503, "overloaded")])


@test
def a_server_that_drains(_):
    with Server("--drain-timeout", "600") as server:
        with holder(server) as running:
            running.read_until(b'"text"')
            server.process.send_signal(signal.SIGTERM)
            while server.get("/health").status == 200:
                time.sleep(0.05)
            compare(server, [("a request while it drains", Request(CHAT, body=chat()), 503, "draining"),
                             ("a look at /models while it drains", Request("/models", "GET"), 503, "draining")])


def main():
    global arguments
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true", help="all, as by default")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    print(f"  {'':63} " + " ".join(f"{client:13}" for client in _clients.CLIENTS))
    with Server("--strict-model", "--kv-memory", "512MiB") as server:
        return _harness.run(server)


if __name__ == "__main__":
    sys.exit(main())
