"""How the real server ends and comes back: SIGTERM under load, its limits, and a kill."""
import os
import signal
import sys
import time

import _harness
from _harness import Server, test

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESTART_S = 2


def completion(text, **more):
    return {"prompt": text, "temperature": 0, "ignore_eos": True, **more}


def endless(server):
    stream = server.open_stream(COMPLETIONS, completion("a", max_tokens=8000, stream=True))
    stream.read_until(b'"text"')
    return stream


def wait_for_drain(server):
    """Until /health says so; its reply."""
    deadline = time.monotonic() + 20
    while (reply := server.get("/health")).status == 200:
        assert time.monotonic() < deadline, "it does not drain"
    return reply


@test
def sigterm_under_load_loses_no_running_answer():
    count, tokens = 12, 60
    server = Server("--kv-memory", "512MiB", "--max-sequences", "8", "--drain-timeout", "100")
    bodies = [completion(f"Number {i} is", max_tokens=tokens, stream=bool(i % 2)) for i in range(count)]
    for body in bodies:
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
    holder = endless(server)  # it is still there when all others are
    requests = [server.open_stream(COMPLETIONS, body) for body in bodies]
    assert server.wait_until(lambda state: state["requests"] > 0 and state["running"] + state["waiting"] > count // 2, 60) is not None
    server.process.send_signal(signal.SIGTERM)
    reply = wait_for_drain(server)
    assert reply.headers["connection"] == "close" and _harness.check_error(reply)["code"] == "draining"
    reply = server.post(COMPLETIONS, completion("b", max_tokens=1))
    assert reply.status == 503 and _harness.check_error(reply)["code"] == "draining"
    assert reply.headers["connection"] == "close" and 1 <= int(reply.headers["retry-after"]) <= 30
    for request in requests:
        data = request.read_all()
        assert data.startswith(b"HTTP/1.1 200"), data[:300]
        assert f'"completion_tokens":{tokens}'.encode() in data, data[-400:]
        assert b'"code":"draining"' not in data
    holder.close()
    assert server.process.wait(60) == 0, server.read_log()[-1000:]
    assert "requests are left" in server.read_log()
    server.stop()


@test
def what_does_not_end_in_time_is_ended_with_an_error():
    server = Server("--kv-memory", "256MiB", "--drain-timeout", "1")
    stream = endless(server)
    server.process.send_signal(signal.SIGTERM)
    assert b'"code":"draining"' in stream.read_all() and stream.bytes.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert server.process.wait(20) == 0
    assert "1 requests are ended" in server.read_log(), server.read_log()[-500:]
    server.stop()


@test
def a_second_signal_ends_at_once():
    for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)):
        server = Server("--kv-memory", "256MiB", "--drain-timeout", "3600")
        stream = endless(server)
        idle = server.connect()
        assert server.get("/version", connection=idle).status == 200
        server.process.send_signal(first)
        assert idle.sock.recv(1) == b"", "the idle connection is still open"
        wait_for_drain(server)
        assert server.process.poll() is None
        server.process.send_signal(second)
        assert b'"code":"draining"' in stream.read_all()
        assert server.process.wait(20) == 0
        server.stop()


@test
def without_requests_it_ends_at_once():
    server = Server("--kv-memory", "256MiB", "--drain-timeout", "3600")
    idle = [server.connect() for _ in range(5)]
    for connection in idle:
        assert server.get("/version", connection=connection).status == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0
    server.stop()


@test
def many_that_wait_do_not_abort_the_end():
    for timeout in ("0", "1"):
        server = Server("--kv-memory", "256MiB", "--max-sequences", "2", "--drain-timeout", timeout)
        requests = [server.open_stream(CHAT, {"messages": [{"role": "user", "content": f"{i}"}], "stream": bool(i % 2), "ignore_eos": True})
                    for i in range(40)]
        assert server.wait_until(lambda state: state["running"] + state["waiting"] == len(requests), 60) is not None
        for request in requests[:10]:
            request.reset()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0, server.read_log()[-1000:]
        for request in requests[10:]:
            assert b"draining" in request.read_all(), request.bytes[-300:]
        server.stop()


@test
def after_a_kill_it_serves_within_two_seconds():
    server = Server("--kv-memory", "256MiB")
    stream = endless(server)
    port = server.port
    server.process.kill()
    server.process.wait()
    server.stop()
    stream.close()
    began = time.monotonic()
    with Server("--kv-memory", "256MiB", "--port", str(port)) as again:
        assert again.port == port
        assert again.ok(COMPLETIONS, completion("a", max_tokens=1))["choices"]
        seconds = time.monotonic() - began
    busy = max(1, os.getloadavg()[0] / os.cpu_count())
    slow = 10 if any(f"/{name}/" in _harness.binary() for name in ("address", "thread", "undefined")) else 1
    print(f"   serving after {seconds:.2f} s, {busy:.1f} threads a processor")
    assert seconds < RESTART_S * busy * slow, seconds


if __name__ == "__main__":
    sys.exit(_harness.run())
