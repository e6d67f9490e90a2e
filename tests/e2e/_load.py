"""Many clients on few cycles: 64 streaming clients in one selector loop, of whom some hang up, read slowly or send what
is not JSON; a process of its own that asks for /health; and samples of what the server holds.

Each client has one connection a request. A request that sees no byte for STUCK_S is stuck: a stream that waits has
comments every ten seconds. What is expected of each kind:

    whole      a 200 and its stream to [DONE]
    hang-up    nothing; it closes (FIN or RST) before its reply, at its first byte or after some of it
    slow       like whole, but reads a little five times a second, at first; it may be dropped for that
    malformed  a 400 in JSON
"""
import collections
import http.client
import json
import multiprocessing
import os
import random
import selectors
import socket
import struct
import time

CLIENTS = 64
HANG_UPS = 0.20
SLOW = 0.05
MALFORMED = 0.05
STUCK_S = 60
TICK_S = 0.05
SLOW_TICK_S = 0.2
SLOW_BYTES = 256
SLOW_READS = 60
PROBE_S = 0.05
SAMPLE_S = 1.0
FILES_BESIDES = 16  # connections that are just being closed, and that of the looks at /health
BROKEN = (b'{"messages": [', b'\xff\xfe{}', b'{"prompt": 1e999}', b'[]', b'{"prompt":"a","max_tokens":-1}',
          b'{"a":1,"a":2}', b"")
WORDS = "river stone cloud paper green seven quiet north market letter bridge winter copper garden signal harbor".split()


def words(rnd, count):
    return " ".join(rnd.choice(WORDS) for _ in range(count))


def body_of(rnd):
    """Some prompts begin alike, so that the cache, forks of it and waiting for one another take part."""
    more = {"max_tokens": rnd.choice((4, 8, 16, 32)), "stream": True, "ignore_eos": True}
    if rnd.random() < 0.2:
        more["n"] = 2
    if rnd.random() < 0.3:
        more["logprobs"] = True
        more["top_logprobs"] = 5
    system = words(random.Random(rnd.randrange(4)), 40)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": words(rnd, rnd.randrange(1, 60))}]
    return json.dumps({"messages": messages, **more}).encode()


class Client:
    """One request at a time; `act` is called when its socket can be read, or when its time has come."""

    def __init__(self, load, number):
        self.load = load
        self.random = random.Random(load.seed * 1000 + number)
        self.socket = None

    def start(self):
        draw = self.random.random()
        self.kind = "whole"
        for kind, share in (("hang-up", HANG_UPS), ("slow", SLOW), ("malformed", MALFORMED)):
            if draw < share:
                self.kind = kind
                break
            draw -= share
        body = self.random.choice(BROKEN) if self.kind == "malformed" else body_of(self.random)
        # Bytes of the reply after which it goes: before any, at the first, or somewhere in it.
        self.leaves_at = self.random.choice((0, 1, self.random.randrange(1, 8000)))
        self.leaves_after_s = self.random.random()
        self.tail, self.head, self.size, self.slow_reads = b"", b"", 0, 0
        self.began = self.last = time.monotonic()
        self.socket = socket.socket()
        if self.kind == "slow":
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.connect((self.load.server.host, self.load.server.port))
        head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n")
        self.socket.sendall(head.encode() + body)
        self.socket.setblocking(False)
        if self.kind != "slow":
            self.load.selector.register(self.socket, selectors.EVENT_READ, self)

    def end(self, outcome):
        if self.kind != "slow":
            self.load.selector.unregister(self.socket)
        self.socket.close()
        self.socket = None
        self.load.outcomes[self.kind, outcome] += 1

    def hang_up(self):
        if self.random.random() < 0.5:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.end("left")

    def tick(self, now):
        if self.kind == "slow" and now - self.last >= SLOW_TICK_S and self.slow_reads < SLOW_READS:
            self.slow_reads += 1
            self.read(SLOW_BYTES)
        elif self.kind == "slow" and self.slow_reads >= SLOW_READS:
            self.read(1 << 16)
        elif self.kind == "hang-up" and self.leaves_at == 0 and now - self.began > self.leaves_after_s:
            self.hang_up()
        if self.socket is not None and now - max(self.last, self.began) > STUCK_S:
            self.load.notes.append(f"{self.kind}: stuck after {self.size} bytes: {self.tail[-200:]}")
            self.end("stuck")

    def read(self, most):
        try:
            more = self.socket.recv(most)
        except BlockingIOError:
            return
        except OSError as error:
            more = b""
            self.tail += repr(error).encode()
        self.last = time.monotonic()
        self.size += len(more)
        self.head = self.head if len(self.head) >= 2000 else self.head + more
        self.tail = (self.tail + more)[-2000:]
        if not more:
            self.judge()
        elif self.kind == "hang-up" and 0 < self.leaves_at <= self.size:
            self.hang_up()

    def judge(self):
        status = self.head[9:12].decode(errors="replace")
        if self.kind == "malformed":
            good = status == "400" and b'"error"' in self.head
        else:
            good = status == "200" and b"data: [DONE]\n\n" in self.tail and b'{"error"' not in self.tail
        if not good and self.kind in ("whole", "malformed"):
            self.load.notes.append(f"{self.kind}: {self.head[:300]} ... {self.tail[-300:]}")
        self.end("good" if good else "dropped" if self.kind == "slow" else "bad")


def probe(host, port, pipe):
    """In a process of its own: how long each look at /health took, in seconds, until told to end."""
    connection = http.client.HTTPConnection(host, port, timeout=STUCK_S)
    times = []
    while not pipe.poll(PROBE_S):
        began = time.monotonic()
        connection.request("GET", "/health")
        response = connection.getresponse()
        response.read()
        times.append(time.monotonic() - began if response.status == 200 else float("inf"))
    pipe.send(times)


class Load:
    """`run(seconds)`, then `outcomes`, `notes`, `samples` and `health_s` say what came of it."""

    def __init__(self, server, seed):
        self.server = server
        self.seed = seed
        self.selector = selectors.DefaultSelector()
        self.outcomes = collections.Counter()
        self.notes = []
        self.samples = []  # (seconds, resident bytes, file descriptors)
        self.health_s = []
        self.cpu_s = 0

    def run(self, seconds):
        ours, theirs = multiprocessing.Pipe()
        prober = multiprocessing.Process(target=probe, args=(self.server.host, self.server.port, theirs), daemon=True)
        prober.start()
        cpu_before = time.process_time()
        try:
            self.loop(seconds)
        finally:
            self.cpu_s = time.process_time() - cpu_before
            ours.send("end")
            if ours.poll(STUCK_S):
                self.health_s = ours.recv()
            prober.join(5)
            prober.kill()

    def loop(self, seconds):
        clients = [Client(self, number) for number in range(CLIENTS)]
        began = time.monotonic()
        ticked = sampled = 0
        while True:
            now = time.monotonic()
            for key, _ in self.selector.select(TICK_S):
                key.data.read(1 << 16)
            if now - ticked >= TICK_S:
                ticked = now
                for client in clients:
                    if client.socket is not None:
                        client.tick(now)
                    elif now - began < seconds:
                        client.start()
            if now - sampled >= SAMPLE_S:
                sampled = now
                self.samples.append((now - began, *held(self.server.process.pid)))
            if now - began >= seconds and all(client.socket is None for client in clients):
                return


def held(pid):
    """Resident bytes and open file descriptors of a process."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def check(server, seed, seconds, growth_max, health_max_s=None):
    """Runs the load, prints what came of it, and fails on a leak, a stuck request or a wrong reply."""
    before = server.health()
    files_before = held(server.process.pid)[1]
    load = Load(server, seed)
    load.run(seconds)
    for (kind, outcome), count in sorted(load.outcomes.items()):
        print(f"  {count:6d} {kind}: {outcome}")
    health = [1e3 * s for s in load.health_s]
    assert health, "/health was not answered"
    print(f"  /health: {len(health)} looks, p50 {percentile(health, 0.5):.1f} p99 {percentile(health, 0.99):.1f} most "
          f"{max(health):.1f} ms; the clients took {load.cpu_s:.1f} s of CPU in {load.samples[-1][0]:.0f} s")
    assert not load.notes, load.notes[:5]
    assert load.outcomes["whole", "good"] > 0 and load.outcomes["malformed", "good"] > 0, load.outcomes

    idle = server.wait_until(lambda state: state["running"] + state["waiting"] == 0, 10)
    assert idle is not None, server.health()
    after = server.health()["pages"]
    print(f"  pages before {before['pages']}, after {after}")
    assert after["leased"] == 0 and after["free"] + after["cached"] == after["total"] == before["pages"]["total"]
    assert wait_for_files(server, files_before), f"{held(server.process.pid)[1]} files are open, {files_before} before"
    most = max(files for _, _, files in load.samples)
    print(f"  at most {most} files, {files_before} before")
    assert most <= files_before + CLIENTS + FILES_BESIDES, "connections of clients that have gone stay open"
    check_memory(load.samples, growth_max)
    if health_max_s is not None:
        assert percentile(load.health_s, 0.99) < health_max_s, "p99 of /health"


def wait_for_files(server, files):
    deadline = time.monotonic() + 10
    while held(server.process.pid)[1] > files:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def check_memory(samples, growth_max):
    """The median of the last quarter against that of the second: buffers and pages have all been used by then."""
    quarter = len(samples) // 4
    early = percentile([resident for _, resident, _ in samples[quarter:2 * quarter]], 0.5)
    late = percentile([resident for _, resident, _ in samples[-quarter:]], 0.5)
    print(f"  resident: {early / 1e6:.1f} MB in the second quarter, {late / 1e6:.1f} in the last")
    assert late - early <= growth_max, f"grew by {(late - early) / 1e6:.1f} MB"
