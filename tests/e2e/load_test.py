"""A load of 64 clients for some seconds; tests/long/load_test.py is the same for ten minutes, with timings judged."""
import sys

import _harness
import _load
from _harness import Server, test

SECONDS = 20
GROWTH_MAX = 24 << 20  # bytes: it is short, and pages are touched for the first time
SEED = 1


@test
def a_mixed_load_leaves_nothing_behind(server):
    _load.check(server, SEED, SECONDS, GROWTH_MAX)


if __name__ == "__main__":
    print(f"seed {SEED}")
    with Server("--kv-memory", "64MiB", "--context", "512") as server:
        sys.exit(_harness.run(server))
