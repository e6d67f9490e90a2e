"""A server that cannot start says why in one sentence and ends with status 1: no memory, no thread, no port. It never
crashes and never hangs. Runs on a tiny model, which loads in no time.

    start_test.py [--long]    --long: every allocation, not a sample
"""
import contextlib
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import _harness
from _fault import FOR_EVER, Faults
from _harness import test

LONG = "--long" in sys.argv
THREADS = 2  # of arithmetic
THREADS_MAX = 20

faults = Faults()


class Outcome:
    """What became of one start: it listened and ended when asked to, or it ended by itself."""

    def __init__(self, listened, status, output):
        self.listened, self.status, self.output = listened, status, output
        self.reasons = [line for line in output.splitlines() if line.startswith("incipit: ")]

    def __repr__(self):
        return f"listened: {self.listened}, status {self.status}, stderr {self.output[-900:]!r}, {faults.place()}"


def start(*options, environment=faults.environment):
    command = _harness.command("--kv-memory", "16M", "--threads", str(THREADS), *options)
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **environment}
        )
        timer = threading.Timer(_harness.START_S, process.kill)  # a status of -9: it hung
        timer.start()
        listened = any(line.startswith(b"listening") for line in process.stdout)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.stdout.read()
        status = process.wait()
        timer.cancel()
        process.stdout.close()
        log.seek(0)
        return Outcome(listened, status, log.read().decode(errors="replace"))


def expect_sentence(outcome):
    assert not outcome.listened and outcome.status == 1 and len(outcome.reasons) == 1, outcome
    assert 20 < len(outcome.reasons[0]) < 400 and outcome.output.endswith(outcome.reasons[0] + "\n"), outcome


def start_with(kind, first, last=None, error=errno.ENOMEM):
    """False: the start did not get as far as the call that should fail."""
    with faults.armed(kind, first, last, error):
        outcome = start()
    if faults.failed == 0:
        assert outcome.listened and outcome.status == 0, outcome
    elif outcome.listened:
        assert outcome.status == 0 and not outcome.reasons, outcome  # it could do without, as a log line can
    else:
        expect_sentence(outcome)
    return faults.failed > 0


@test
def a_start_without_memory_says_so():
    with faults.armed(Faults.MEMORY, FOR_EVER):
        assert start().listened
    count = faults.calls
    numbers = range(1, count + 1) if LONG else [1, *random.Random(1).sample(range(2, count), 9), count]
    print(f"   {count} allocations, {len(numbers)} tried twice")
    for number in numbers:
        start_with(Faults.MEMORY, number)
        start_with(Faults.MEMORY, number, FOR_EVER)


@test
def a_start_without_threads_says_so():
    number = 1
    while start_with(Faults.THREAD, number, FOR_EVER, errno.EAGAIN):
        number += 1
        assert number < THREADS_MAX
    # The engine's, the two that prepare, the watcher, the HTTP library's, and those of arithmetic but one.
    assert number - 1 >= 5 + THREADS - 1, number


@test
def a_start_without_a_watch_on_sockets_says_so():
    assert start_with(Faults.EPOLL, 1, FOR_EVER)


@test
def a_taken_port_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        outcome = start("--port", port)
    expect_sentence(outcome)
    assert port in outcome.reasons[0], outcome


if __name__ == "__main__":
    _harness.use_tiny_model()
    sys.exit(_harness.run())
