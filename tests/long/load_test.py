"""The load of a bad day: 64 streaming clients for ten minutes, of whom 20% hang up, 5% read slowly and 5% send what is
not JSON (tests/e2e/_load.py), and then thousands of connections that send nothing or next to nothing. Nothing may leak,
no request be stuck, and /health answer within 50 ms at the 99th percentile.

    tests/long/load_test.py [--minutes N] [--seed N] [--no-timing]     --no-timing only prints what /health took
"""
import argparse
import os
import resource
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import _harness  # noqa: E402
import _load  # noqa: E402
from _harness import Server, test  # noqa: E402

HEALTH_MAX_S = 0.05
GROWTH_MAX = 8 << 20  # bytes
CROWD = 5000
TRICKLERS = 500
REQUESTS = 20
arguments = None


@test
def a_mixed_load_leaves_nothing_behind(server):
    health_max = None if arguments.no_timing else HEALTH_MAX_S
    _load.check(server, arguments.seed, 60 * arguments.minutes, GROWTH_MAX, health_max)


@test
def thousands_of_idle_connections_hold_nobody(server):
    """Far more than there are places: whoever asks for something gets one of them."""
    files = _load.held(server.process.pid)[1]
    crowd = []
    for _ in range(CROWD):
        crowd.append(socket.create_connection((server.host, server.port), timeout=20))
    stop = threading.Event()

    def trickle():
        while not stop.wait(1):
            for one in crowd[:TRICKLERS]:
                try:
                    one.send(b"G")
                except OSError:
                    pass  # closed by the server

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        times = []
        for _ in range(REQUESTS):
            began = time.monotonic()
            assert server.get("/health").status == 200
            server.ok("/v1/completions", {"prompt": "a", "max_tokens": 2})
            times.append(time.monotonic() - began)
        print(f"  among {CROWD} connections: /health and a completion took at most {max(times):.2f} s")
    finally:
        stop.set()
        thread.join()
        for one in crowd:
            one.close()
    assert _load.wait_for_files(server, files), f"{_load.held(server.process.pid)[1]} files are open, {files} before"


def main():
    global arguments
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true", help="ten minutes, as by default")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-timing", action="store_true")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(f"seed {arguments.seed}")
    with Server("--kv-memory", "64MiB", "--context", "512") as server:
        return _harness.run(server)


if __name__ == "__main__":
    sys.exit(main())
