"""A long prompt beside four decoding streams: how long their readers wait between two tokens, at the 95th percentile,
against twice --step-ms.

The prompts: 8,000 tokens that nobody has seen, and then 900 new tokens behind 7,000 cached ones, where a row costs
several times what it cost in the step before. Gaps are taken where the client reads; the best of several rounds counts,
since other work on the machine only ever makes them longer.

    tests/long/interference_test.py [--rounds N] [--step-ms N]
"""
import argparse
import json
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import _harness  # noqa: E402
from _harness import Server, test  # noqa: E402

STREAMS = 4
LONG_TOKENS = 8000
CACHED_TOKENS = 7000
NEW_TOKENS = 900
arguments = None


def ids(count, seed):
    rnd = random.Random(seed)
    return [rnd.randrange(1000, 40000) for _ in range(count)]


class Reader(threading.Thread):
    """A decoding stream: notes when each token came."""

    def __init__(self, server, seed):
        super().__init__(daemon=True)
        body = {"prompt": ids(16, seed), "max_tokens": 8000, "stream": True, "ignore_eos": True, "temperature": 0}
        self.raw = server.open_stream("/v1/completions", body)
        self.times = []
        self.start()

    def run(self):
        try:
            while more := self.raw.socket.recv(65536):
                self.times += [time.monotonic()] * more.count(b"data: ")
        except OSError:
            pass  # closed by stop()

    def stop(self):
        self.raw.socket.shutdown(2)
        self.join()
        self.raw.close()

    def gaps(self, began, ended):
        """Between tokens, the waits that touch this time."""
        times = list(self.times)
        return [1e3 * (b - a) for a, b in zip(times, times[1:]) if b > began and a < ended]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def ask(server, prompt):
    body = {"prompt": prompt, "max_tokens": 1, "temperature": 0}
    return server.ok("/v1/completions", body)["usage"]["prompt_tokens_details"]["cached_tokens"]


def measure(server, seed, prompt, cached):
    """p50, p95, maximum of the gaps in ms, and how many seconds the prompt took."""
    readers = [Reader(server, seed + i) for i in range(STREAMS)]
    try:
        while min(len(reader.times) for reader in readers) < 8:
            assert all(reader.is_alive() for reader in readers), "a stream ended"
            time.sleep(0.01)
        began = time.monotonic()
        assert ask(server, prompt) == cached
        ended = time.monotonic()
    finally:
        for reader in readers:
            reader.stop()
    gaps = sum((reader.gaps(began, ended) for reader in readers), [])
    return percentile(gaps, 0.5), percentile(gaps, 0.95), max(gaps), ended - began


def best_of(server, name, prepare):
    """Rounds until one is within the limit; `prepare(seed)` is (prompt, cached tokens)."""
    best = None
    for number in range(arguments.rounds):
        seed = arguments.seed + 1000 * number
        prompt, cached = prepare(seed)
        p50, p95, most, seconds = measure(server, seed + 1, prompt, cached)
        print(f"  {name}: gaps p50 {p50:.0f} p95 {p95:.0f} most {most:.0f} ms; prompt {seconds:.1f} s", flush=True)
        best = p95 if best is None else min(best, p95)
        if best <= 2 * arguments.step_ms:
            break
    assert best <= 2 * arguments.step_ms, f"p95 is {best:.0f} ms at best, more than 2 x {arguments.step_ms}"


@test
def a_prompt_of_8000_tokens_lets_four_streams_go_on(server):
    best_of(server, "8,000 new", lambda seed: (ids(LONG_TOKENS, seed), 0))


@test
def new_tokens_behind_a_deep_hit_let_four_streams_go_on(server):
    def prepare(seed):
        start = ids(CACHED_TOKENS, seed + 500)
        ask(server, start)
        ask(server, ids(400, seed + 600))  # the last speed measured is that of shallow rows
        return start + ids(NEW_TOKENS, seed + 700), CACHED_TOKENS

    best_of(server, "7,000 cached, 900 new", prepare)


def main():
    global arguments
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true", help="more rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--step-ms", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (5 if arguments.long else 2)
    with Server("--step-ms", str(arguments.step_ms)) as server:
        return _harness.run(server)


if __name__ == "__main__":
    sys.exit(main())
