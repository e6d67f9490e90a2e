"""Connections of the real server: who goes at which stage, floods, pipelines, limits that clients see, and what idling
costs."""
import http.client
import json
import os
import random
import resource
import socket
import statistics
import sys
import threading
import time

import _harness
from _harness import Server, test

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HANG_UP_S = 0.2
CROWD = 3000
ENDS = ("FIN", "RST", "half-close")

draw = random.Random(11)


def completion(**more):
    return {"prompt": f"Note {draw.random()}: ", "temperature": 0, "ignore_eos": True, **more}


def go(request, end):
    if end == "FIN":
        request.close()
    elif end == "RST":
        request.reset()
    else:
        request.socket.shutdown(socket.SHUT_WR)


def is_idle(state):
    pages = state["pages"]
    at_rest = pages["leased"] == 0 and pages["free"] + pages["cached"] == pages["total"]
    return state["running"] == 0 and state["waiting"] == 0 and at_rest


def busy():
    """The limit holds where a processor is to be had: what others run on this machine stretches it."""
    return max(1, os.getloadavg()[0] / os.cpu_count())


def sanitized():
    return any(f"/{name}/" in _harness.binary() for name in ("address", "thread", "undefined"))


def in_queue(server, stream, _):
    request = server.open_stream(COMPLETIONS, completion(max_tokens=5, stream=stream))
    assert server.wait_until(lambda state: state["waiting"] == 1, 20) is not None
    return request, lambda state: state["waiting"] == 0 and state["running"] == 1


def in_prefill(server, stream, _):
    before = server.health()["computed_tokens"]
    prompt = [draw.randrange(1000, 40000) for _ in range(8000)]
    request = server.open_stream(COMPLETIONS, completion(prompt=prompt, max_tokens=5, stream=stream))
    assert server.wait_until(lambda state: state["computed_tokens"] > before, 60) is not None
    return request, is_idle


def in_decode(server, stream, _):
    before = server.health()["generated_tokens"]
    request = server.open_stream(COMPLETIONS, completion(max_tokens=6000, stream=stream))
    assert server.wait_until(lambda state: state["generated_tokens"] > before + 2, 60) is not None
    return request, is_idle


@test
def who_goes_at_any_stage_frees_all_at_once(server):
    times = {}
    with Server("--max-sequences", "1", "--kv-memory", "256MiB") as narrow:
        holder = narrow.open_stream(COMPLETIONS, completion(max_tokens=8000, stream=True))
        holder.read_until(b'"text"')
        for stage, where in ((in_queue, narrow), (in_prefill, server), (in_decode, server)):
            for stream in (False, True):
                for end in ENDS:
                    request, condition = stage(where, stream, end)
                    before = where.health()
                    go(request, end)
                    seconds = where.wait_until(condition, 10)
                    name = f"{stage.__name__} {'stream' if stream else 'whole'} {end}"
                    times[name] = seconds
                    print(f"   {name}: {'never' if seconds is None else round(seconds * 1000)} ms", flush=True)
                    if stage is in_prefill:
                        after = where.health()
                        assert after["generated_tokens"] == before["generated_tokens"], "a token was drawn"
                    request.close()
        holder.close()
        assert narrow.wait_until(is_idle, 10) is not None
    assert len(times) == 18 and None not in times.values(), times
    limit = HANG_UP_S * busy() * (10 if sanitized() else 1)
    assert statistics.median(times.values()) < limit and max(times.values()) < 3 * limit, times


@test
def who_goes_while_a_large_body_is_read_leaves_nothing(server):
    body = json.dumps(completion(prompt="x", max_tokens=1, stop=["y"])).encode()
    body = body[:-1] + b', "extra": [' + b"[]," * 3000000 + b"1]}"
    for end in ENDS:
        for part in (len(body) // 2, len(body)):
            client = socket.create_connection((server.host, server.port))
            head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body[:part])
            request = _harness.RawRequest.__new__(_harness.RawRequest)
            request.socket = client
            go(request, end)
            assert server.wait_until(is_idle, 20) is not None, (end, part)
            client.close()


# ---- many ----


def raise_file_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, CROWD + 1000)), hard))
    return min(CROWD, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)


@test
def a_crowd_of_idle_and_slow_connections_holds_nobody(server):
    size = raise_file_limit()
    parts = (b"", b"G", b"GET /health HTTP/1.1\r\nHost: ", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{")
    stream = server.open_stream(COMPLETIONS, completion(max_tokens=6000, stream=True))
    stream.read_until(b'"text"')
    crowd, times = [], []

    def trickle():
        while not done.wait(1):
            for client in crowd[:]:
                try:
                    client.send(b" ")
                except OSError:
                    pass

    done = threading.Event()
    thread = threading.Thread(target=trickle)
    thread.start()
    for i in range(size):
        client = socket.create_connection((server.host, server.port))
        client.setblocking(False)
        crowd.append(client)
        client.send(parts[i % len(parts)])
        if i % 100 == 99:
            began = time.monotonic()
            assert server.get("/health").status == 200
            times.append(time.monotonic() - began)
            assert server.ok(COMPLETIONS, completion(max_tokens=1))["choices"]
    assert stream.socket.recv(1), "the running stream gave way"
    done.set()
    thread.join()
    print(f"   {size} connections, /health: median {statistics.median(times) * 1000:.1f}, largest {max(times) * 1000:.1f} ms")
    assert max(times) < busy(), times
    stream.close()
    for client in crowd:
        client.close()
    assert server.wait_until(is_idle, 20) is not None


@test
def one_connection_serves_500_requests(server):
    connection = server.connect()
    ids, names = set(), set()
    for turn in range(500):
        if turn % 10 == 0:
            reply = server.post(COMPLETIONS, completion(max_tokens=1, stream=turn % 20 == 0), connection=connection)
        elif turn % 10 == 1:
            reply = server.post("/tokenize", {"prompt": "a"}, connection=connection)
        else:
            reply = server.get("/health", connection=connection)
        assert reply.status == 200, (turn, reply.status, reply.body)
        ids.add(reply.headers["x-request-id"])
        names.add(connection.sock.getsockname())
    assert len(ids) == 500 and len(names) == 1, "it was closed in between"
    connection.close()


@test
def requests_sent_at_once_are_answered_in_order(server):
    texts = [f"word {i}" for i in range(20)]
    client = socket.create_connection((server.host, server.port), timeout=60)
    data = b""
    for text in texts:
        body = json.dumps({"prompt": text, "model": text}).encode()
        data += f"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        data += b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    client.sendall(data)
    wanted = [server.ok("/tokenize", {"prompt": text})["tokens"] for text in texts]
    seen = []
    for _ in range(2 * len(texts)):
        response = http.client.HTTPResponse(reader(client))
        response.begin()
        assert response.status == 200
        seen.append(json.loads(response.read()))
    assert [body["tokens"] for body in seen[0::2]] == wanted
    assert all("version" in body for body in seen[1::2])
    client.close()


class reader:
    """What HTTPResponse reads from: one buffer for all replies of a connection."""

    files = {}

    def __init__(self, client):
        self.file = reader.files.setdefault(client, client.makefile("rb"))

    def makefile(self, _):
        return Unclosed(self.file)


class Unclosed:
    def __init__(self, file):
        self.read, self.readline, self.readinto = file.read, file.readline, file.readinto

    def close(self):
        pass

    def flush(self):
        pass


# ---- limits ----


@test
def a_small_body_limit_is_a_413_for_every_way_to_send(_):
    with Server("--max-body", "100KiB", "--max-body-memory", "150KiB", "--kv-memory", "256MiB") as server:
        large = json.dumps(completion(max_tokens=1, user="x" * 200000))
        for headers in ({}, {"Expect": "100-continue"}):
            for chunked in (False, True):
                connection = server.connect()
                data = iter([large.encode()]) if chunked else large
                more = {"Transfer-Encoding": "chunked"} if chunked else {}
                connection.request("POST", COMPLETIONS, body=data, headers={**headers, **more}, encode_chunked=chunked)
                response = connection.getresponse()
                assert response.status == 413, (headers, chunked, response.status)
                assert json.loads(response.read())["error"]["code"] == "request_too_large"
                connection.close()
        small = json.dumps(completion(max_tokens=3000, user="x" * 90000, stream=True))
        holder = server.open_stream(COMPLETIONS, json.loads(small))
        holder.read_until(b'"text"')
        reply = server.post(COMPLETIONS, json.dumps(completion(max_tokens=1, user="x" * 90000)))
        assert reply.status == 503 and 1 <= int(reply.headers["retry-after"]) <= 30, (reply.status, reply.headers)
        assert _harness.check_error(reply)["code"] == "overloaded"
        holder.close()
        assert server.wait_until(is_idle, 10) is not None
        assert server.post(COMPLETIONS, json.dumps(completion(max_tokens=1, user="x" * 90000))).status == 200


@test
def a_flood_of_refusals_is_a_few_lines(_):
    with Server("--kv-memory", "256MiB") as server:
        connection = server.connect()
        for _ in range(400):
            assert server.get("/nothing", connection=connection, headers={"X-Request-Id": "mine-1"}).status == 404
        connection.close()
        server.stop()
        lines = [line for line in server.read_log().splitlines() if " refused " in line]
        told = [line for line in lines if "left_out=" in line]
        left_out = sum(int(line.split("left_out=")[1].split()[0]) for line in told)
        written = [line for line in lines if "status=404" in line]
        assert len(written) + left_out == 400 and len(written) < 400, (len(written), left_out)
        assert all("client_id=mine-1" in line for line in written), written[0]


# ---- idling ----


def ticks(process):
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@test
def idling_costs_nothing(server):
    assert server.wait_until(is_idle, 20) is not None
    for crowd in (0, 100):
        clients = [server.connect() for _ in range(crowd)]
        for client in clients:
            assert server.get("/health", connection=client).status == 200
        before = ticks(server.process)
        time.sleep(5)
        spent = ticks(server.process) - before
        print(f"   {crowd} idle connections: {spent} clock ticks in 5 s")
        assert spent <= (10 if sanitized() else 2), spent
        for client in clients:
            client.close()


if __name__ == "__main__":
    with Server("--kv-memory", "512MiB", "--max-sequences", "16") as main_server:
        sys.exit(_harness.run(main_server))
