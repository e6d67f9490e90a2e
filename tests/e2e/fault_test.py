"""What fails around the server: memory, threads, sockets, its log. Each request is a good reply, an honest refusal, or,
where the HTTP library had no memory, a closed connection; and the next one is as if nothing had been.

    fault_test.py [--long]    --long: every allocation of a request's life, not a sample
"""
import http.client
import json
import os
import random
import re
import sys
import time

import _harness
from _fault import FOR_EVER, Faults
from _harness import Server, test

LONG = "--long" in sys.argv
SAMPLES = 10  # allocations of a kind of request that fail, one after the other
IDLE_S = 20

faults = Faults()


class Kind:
    """A kind of request, and what of its reply must not change."""

    def __init__(self, name, method, path, body=None, read=None):
        self.name, self.method, self.path, self.body, self.read = name, method, path, body, read


def choices_of(reply):
    body = reply.json()
    parts = [(c["index"], c.get("text") or c["message"]["content"], c["finish_reason"]) for c in body["choices"]]
    return parts, body["usage"]["prompt_tokens"], body["usage"]["completion_tokens"]


def stream_of(reply):
    text, reason = "", None
    for frame in _harness.read_frames(reply.body):
        if "error" in frame:
            return frame
        for choice in frame["choices"]:
            text += choice["delta"].get("content", "")
            reason = choice["finish_reason"] or reason
    return text, reason


def json_of(reply):
    return reply.json()


def state_of(reply):
    body = reply.json()
    return body["status"], body["pages"]["total"]


def chat(**more):
    messages = [
        {"role": "system", "content": "You answer in one short sentence."},
        {"role": "user", "content": [{"type": "text", "text": "What is a river?"}]},
        {"role": "assistant", "content": "Water on its way."},
        {"role": "user", "content": 'And a lake? \u00e9 "quoted"\n'},
    ]
    return {"messages": messages, "temperature": 0, "max_tokens": 5, **more}


KINDS = [
    Kind("chat", "POST", "/v1/chat/completions", chat(stop=["zzz"], logit_bias={"11": 1}), choices_of),
    # Tokens that are no whole character are replaced where a reply shows them.
    Kind(
        "chat logprobs",
        "POST",
        "/v1/chat/completions",
        chat(logprobs=True, top_logprobs=3, logit_bias={"175": 100}),
        choices_of,
    ),
    Kind("chat stream", "POST", "/v1/chat/completions", chat(stream=True), stream_of),
    Kind(
        "completions n=2",
        "POST",
        "/v1/completions",
        {"prompt": "A lake is", "n": 2, "max_tokens": 4, "temperature": 1, "seed": 7},
        choices_of,
    ),
    Kind(
        "completions of a batch",
        "POST",
        "/v1/completions",
        {"prompt": ["A lake is", "A river"], "logprobs": 2, "max_tokens": 3, "temperature": 0},
        choices_of,
    ),
    Kind("template", "POST", "/apply-template", {"messages": chat()["messages"]}, json_of),
    Kind("tokenize", "POST", "/tokenize", {"prompt": "a river, a lake", "return_token_strs": True}, json_of),
    Kind("detokenize", "POST", "/detokenize", {"tokens": [504, 9837, 314]}, json_of),
    Kind("models", "GET", "/v1/models", None, json_of),
    Kind("health", "GET", "/health", None, state_of),
    Kind("metrics", "GET", "/metrics", None, lambda reply: sorted(set(re.findall(r"# TYPE (\S+)", reply.body.decode())))),
    Kind("no such path", "GET", "/v1/nothing", None, lambda reply: reply.json()["error"]["code"]),
]


def ask(server, kind):
    return server.request(kind.method, kind.path, kind.body)


def expect_refusal(reply):
    """503, so that a client tries again."""
    assert reply.status == 503, f"{reply.status}: {reply.body[:300]}"
    assert reply.headers["content-type"] == "application/json", reply.headers
    error = reply.json()["error"]
    assert sorted(error) == ["code", "message", "param", "type"] and error["type"] == "server_error", error
    assert "retry-after" in reply.headers and "x-should-retry" not in reply.headers, reply.headers


def expect_baseline(server):
    def at_rest(state):
        pages = state["pages"]
        conserved = pages["free"] + pages["cached"] == pages["total"]
        return state["running"] + state["waiting"] == 0 and pages["leased"] == 0 and conserved

    assert server.wait_until(at_rest, IDLE_S) is not None, server.health()


def try_with_fault(server, kind, expected, first, last):
    """One request with allocations failing. False: none was reached any more."""
    closed = None
    with faults.armed(Faults.MEMORY, first, last):
        try:
            reply = ask(server, kind)
        except (http.client.HTTPException, ConnectionError) as error:
            closed = error
    if closed is not None:
        assert faults.foreign > 0, f"the connection was closed without a reply: {closed!r}"
    elif reply.status == expected["status"]:
        assert {"content-type", "x-request-id", "request-id"} <= set(reply.headers), reply.headers
        seen = kind.read(reply)
        if isinstance(seen, dict) and "error" in seen and kind.name == "chat stream":
            assert seen["error"]["type"] == "server_error", seen
        else:
            assert seen == expected["value"], f"another reply: {reply.body[:600]}"
    else:
        expect_refusal(reply)
    return faults.failed > 0


def count_allocations(server, kind):
    with faults.armed(Faults.MEMORY, FOR_EVER):
        ask(server, kind)
    return faults.calls


def numbers_to_try(count, seed):
    """All, or the first, the last and some between."""
    if LONG:
        return range(1, 2 * count + 10)  # until none is reached
    inner = random.Random(seed).sample(range(2, count), min(SAMPLES, count - 2))
    return [1, *sorted(inner), count]


def sweep(server, kind, last_of):
    reply = ask(server, kind)
    expected = {"status": reply.status, "value": kind.read(reply)}
    count = count_allocations(server, kind)
    problems = []
    for first in numbers_to_try(count, f"{kind.name} {last_of(1)}"):
        try:
            reached = try_with_fault(server, kind, expected, first, last_of(first))
            expect_baseline(server)
            again = ask(server, kind)
            assert again.status == expected["status"] and kind.read(again) == expected["value"], again.body[:600]
        except Exception as error:
            assert server.process.poll() is None, f"allocation {first} of {count} ended the server; {faults.place()}"
            problems.append(f"allocation {first} of {count}: {error!r} at {faults.place()}")
            continue
        if not reached and LONG:
            break
    assert not problems, f"{len(problems)} problems:\n" + "\n".join(problems)


def file_count(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def expect_files(server, before):
    deadline = time.monotonic() + IDLE_S
    while file_count(server) > before and time.monotonic() < deadline:
        server.health()
    assert file_count(server) <= before, "file descriptors were lost"


def make_memory_test(kind, name, last_of):
    def memory_test(server):
        before = file_count(server)
        sweep(server, kind, last_of)
        expect_files(server, before)

    memory_test.__name__ = name
    test(memory_test)


for one in KINDS:
    words = one.name.replace(" ", "_").replace("=", "_")
    make_memory_test(one, f"{words}_survives_an_allocation_that_fails", lambda first: first)
    make_memory_test(one, f"{words}_survives_memory_that_stays_away", lambda first: FOR_EVER)


@test
def a_crowd_of_good_bad_and_gone_clients_leaves_nothing(server):
    """Under the address sanitizer the end of the server tells what was lost."""
    draw = random.Random(3)
    before = file_count(server)
    for turn in range(300 if LONG else 100):
        kind = draw.choice(KINDS)
        act = draw.randrange(4)
        if act == 0 or kind.body is None:
            assert ask(server, kind).status < 500, kind.name
        elif act == 1:
            text = json.dumps(kind.body)
            bad = text[: draw.randrange(1, len(text))]
            assert server.post(kind.path, bad).status == 400, bad
        else:
            request = server.open_stream(kind.path, {**kind.body, "stream": bool(turn & 1)})
            if act == 2:
                request.socket.recv(draw.randrange(1, 200))
            draw.choice((request.close, request.reset))()
    expect_baseline(server)
    expect_files(server, before)


if __name__ == "__main__":
    with Server("--max-sequences", "4", environment=faults.environment) as the_server:
        status = _harness.run(the_server)
        assert the_server.stop() == 0, the_server.read_log()[-3000:]
    sys.exit(status)
