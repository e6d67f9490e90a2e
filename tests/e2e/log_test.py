"""What the real server's log says of requests: why they ended, what was refused, how to repeat one."""
import fcntl
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import _harness
from _harness import Server, test

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
LOG_S = 10


def start(*options, **files):
    """The real server's process, its address taken from its standard output."""
    command = [_harness.binary(), "serve", "--model", _harness.model(), "--port", "0", "--kv-memory", "256MiB", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, **files)
    for text in process.stdout:
        if match := re.search(rb"listening\s+http://([^:\s]+):(\d+)", text):
            return process, match[1].decode(), int(match[2]), text
    raise AssertionError(f"it did not start: {process.wait()}")


def ask(host, port, path):
    connection = http.client.HTTPConnection(host, port, timeout=LOG_S)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def lines(server, event, **fields):
    return [line for line in map(json.loads, server.read_log().splitlines())
            if line.get("event") == event and all(line.get(name) == value for name, value in fields.items())]


def line(server, event, **fields):
    """The one line with these fields, once it is there."""
    deadline = time.monotonic() + LOG_S
    while not (found := lines(server, event, **fields)):
        assert time.monotonic() < deadline, (event, fields, server.read_log()[-2000:])
    assert len(found) == 1, found
    return found[0]


def is_idle(state):
    return state["running"] == 0 and state["waiting"] == 0


@test
def a_refusal_is_one_line_that_says_why(server):
    for method, path, body, status, code in (
        ("POST", CHAT, "{", 400, "invalid_json"),
        ("POST", CHAT, {"messages": [{"role": "user", "content": "a"}], "temperature": 9}, 400, "invalid_value"),
        ("POST", COMPLETIONS, {"prompt": [1] * 9000}, 400, "context_length_exceeded"),
        ("GET", "/nothing/here", None, 404, "not_found"),
        ("GET", CHAT, None, 405, "method_not_allowed"),
        ("GET", "/v1/%zz", None, 400, "invalid_value"),
    ):
        reply = server.request(method, path, body)
        error = _harness.check_error(reply)
        assert reply.status == status and error["code"] == code, (reply.status, error)
        told = line(server, "refused", id=reply.headers["x-request-id"])
        assert told["level"] == "info" and told["method"] == method and told["status"] == status, told
        assert told["code"] == code and told["message"] == error["message"], told
        assert told["path"] == path.partition("%")[0], told
        assert not lines(server, "request", id=reply.headers["x-request-id"])


@test
def work_turned_away_is_a_warning(_):
    with Server("--max-sequences", "1", "--max-queue", "1", "--kv-memory", "256MiB", "--log-format", "json") as server:
        ask = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        requests = [server.open_stream(COMPLETIONS, ask)]
        requests[0].read_until(b'"text"')
        requests.append(server.open_stream(COMPLETIONS, ask))
        assert server.wait_until(lambda state: state["waiting"] == 1, 20) is not None
        reply = server.post(COMPLETIONS, ask)
        assert reply.status == 429, reply.body
        told = line(server, "refused", id=reply.headers["x-request-id"])
        assert told["level"] == "warn" and told["code"] == "queue_full", told


@test
def a_drawn_seed_is_told_and_repeats_the_reply(server):
    ask = {"prompt": "Once upon a time", "temperature": 1.5, "max_tokens": 24, "ignore_eos": True}
    for _ in range(8):
        reply = server.post(COMPLETIONS, ask)
        told = line(server, "request", id=reply.headers["x-request-id"])
        assert 0 <= told["seed"] < 2**63, told
        again = server.post(COMPLETIONS, {**ask, "seed": told["seed"]})
        assert again.json()["choices"][0]["text"] == reply.json()["choices"][0]["text"]
        assert "seed" not in line(server, "request", id=again.headers["x-request-id"])
    reply = server.post(COMPLETIONS, {**ask, "temperature": 0})
    assert "seed" not in line(server, "request", id=reply.headers["x-request-id"])


@test
def a_client_that_goes_is_told_as_such(server):
    before = len(lines(server, "request", finish="disconnected"))
    for prompt, tokens in (("a", 4000), ([random.Random(5).randrange(1000, 40000) for _ in range(8000)], 1)):
        request = server.open_stream(COMPLETIONS, {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True})
        assert server.wait_until(lambda state: state["running"] == 1, 20) is not None
        request.close()
        assert server.wait_until(is_idle, 10) is not None
    assert len(lines(server, "request", finish="disconnected")) == before + 2, server.read_log()[-2000:]
    assert not lines(server, "request", finish="cancelled")


@test
def a_server_that_stops_is_told_as_such(_):
    server = Server("--max-sequences", "1", "--kv-memory", "256MiB", "--log-format", "json")
    ask = {"prompt": "a", "max_tokens": 4000, "ignore_eos": True}
    requests = [server.open_stream(COMPLETIONS, {**ask, "stream": True})]
    requests[0].read_until(b'"text"')
    requests.append(server.open_stream(COMPLETIONS, ask))
    assert server.wait_until(lambda state: state["running"] + state["waiting"] == 2, 20) is not None
    assert server.stop() == 0
    assert len(lines(server, "request", finish="stopped")) == 2, server.read_log()[-2000:]
    assert line(server, "refused")["code"] == "draining"
    assert b"503" in requests[1].read_all()


@test
def the_times_of_a_request_add_up(server):
    reply = server.post(COMPLETIONS, {"prompt": "a b c", "max_tokens": 6, "ignore_eos": True})
    told = line(server, "request", id=reply.headers["x-request-id"])
    assert (told["finish"], told["generated"]) == ("length", 6), told
    assert told["prompt"] == told["cached"] + told["computed"], told
    assert 0 < told["ttft_ms"] <= told["queue_ms"] + told["prefill_ms"] + 0.01, told
    assert told["decode_ms"] > 0, told


@test
def what_a_client_sends_cannot_forge_a_line(_):
    evil = "/v1/x%0A2026-01-01T00:00:00.000Z error forged%0D%1B%5B2J%22,%22level%22:%22error%22%7D%ff%c2%9b"
    for form in ("text", "json"):
        with Server("--kv-memory", "256MiB", "--log-format", form) as server:
            reply = server.get(evil.replace(" ", "%20"))
            assert reply.status in (400, 404), reply.status
            body = {"model": 'a\nb"\x1b[2J', "messages": [{"role": "ev\nil", "content": "a"}]}
            assert server.post(CHAT, body).status == 400
            assert server.post(COMPLETIONS, b'{"prompt": "\xff\xfe"}').status == 400
            deadline = time.monotonic() + LOG_S
            while server.read_log().count("refused") < 3:
                assert time.monotonic() < deadline, server.read_log()
            log = server.read_log()
        assert log.endswith("\n") and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", log), log
        for text in log.splitlines():
            if form == "json":
                assert {"time", "level"} <= json.loads(text).keys() and json.loads(text)["level"] != "error", text
            else:
                assert re.match(r"\d{4}-\d\d-\d\dT\S+Z (warn|info) ", text), text


@test
def a_log_in_json_is_json_from_the_first_line_to_the_last(server):
    with tempfile.TemporaryFile() as log:
        process, host, port, text = start("--log-format", "json", stderr=log)
        told = json.loads(text)
        assert told["message"] == f"listening http://{host}:{port}" and told["event"] == "start", told
        assert told["model"] == server.get("/v1/models").json()["data"][0]["id"] and told["kv_pages"] > 0, told
        assert ask(host, port, "/nothing") == 404
        process.terminate()
        assert process.stdout.read() == b"" and process.wait() == 0
        log.seek(0)
        told = [json.loads(text) for text in log]
        assert told[0]["event"] == "refused" and "message" in told[-1], told
    for options, status in (
        (("--port", "x", "--log-format=json"), 2),
        (("--log-format", "json", "--prt", "1"), 2),
        (("--log-format", "json", "operand"), 2),
        (("--log-format", "json", "--model", "/no/such.gguf"), 1),
        (("--log-format", "json", "--port", str(server.port)), 1),
    ):
        done = subprocess.run([_harness.binary(), "serve", *options], capture_output=True, text=True)
        assert done.returncode == status and done.stdout == "", done
        told = json.loads(done.stderr)
        assert told["level"] == "error" and told["message"], done.stderr


@test
def a_log_that_takes_nothing_holds_no_request_up(_):
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 8192)
    with open("/dev/full", "wb") as full, os.fdopen(reader, "rb") as unread, os.fdopen(writer, "wb") as pipe:
        for name, stderr in (("a full disk", full), ("a full pipe", pipe), ("none", None)):
            close = {"preexec_fn": lambda: os.close(2)} if stderr is None else {"stderr": stderr}
            process, host, port, _text = start("--log-level", "debug", **close)
            for _ in range(300):
                assert ask(host, port, "/" + 200 * "x") == 404, name
            assert ask(host, port, "/health") == 200, name
            process.terminate()
            assert process.wait(20) == 0, name
        assert len(os.read(unread.fileno(), 1 << 20)) > 2048  # two pages: one is full


@test
def json_bodies_end_with_a_line_break(server):
    for reply in (
        server.get("/health"),
        server.get("/v1/models"),
        server.get("/nothing"),
        server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 1}),
        server.post(COMPLETIONS, "{"),
    ):
        assert reply.body.endswith(b"}\n"), reply.body


if __name__ == "__main__":
    with Server("--kv-memory", "512MiB", "--log-format", "json") as main_server:
        sys.exit(_harness.run(main_server))
