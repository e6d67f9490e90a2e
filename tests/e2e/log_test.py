"""What the real server's log says of requests: why they ended, what was refused, how to repeat one."""
import json
import random
import sys
import time

import _harness
from _harness import Server, test

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
LOG_S = 10


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
    requests = [server.open_stream(COMPLETIONS, {**ask, "stream": stream}) for stream in (True, False)]
    assert server.wait_until(lambda state: state["running"] + state["waiting"] == 2, 20) is not None
    assert server.stop() == 0
    assert len(lines(server, "request", finish="stopped")) == 2, server.read_log()[-2000:]
    assert line(server, "refused")["code"] == "draining"
    assert b"503" in requests[1].read_all()


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
