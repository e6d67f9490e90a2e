"""Makes chosen calls of a server fail, through tests/support/fault.c: `Faults` is the test's side of the mapped block.

    faults = Faults()
    server = Server(environment=faults.environment)
    with faults.armed(faults.MEMORY, first=3):
        ...                                   # the third allocation from here on, of whatever thread, fails
    faults.failed, faults.foreign, faults.place()
"""
import contextlib
import errno
import mmap
import os
import pathlib
import struct
import subprocess
import tempfile

import _harness

LAYOUT = struct.Struct("<IIQQQQQ")  # kind, error, first, last, calls, failed, foreign
PLACE_BYTES = 4056
FOR_EVER = 2**64 - 1


def library():
    beside = pathlib.Path(_harness.binary()).parent
    return str(next(path for path in (beside / "fault.so", beside / "release" / "fault.so") if path.exists()))


class Faults:
    MEMORY, THREAD, ACCEPT, SEND, RECEIVE, EPOLL = range(1, 7)

    def __init__(self):
        self.file = tempfile.NamedTemporaryFile()
        self.file.truncate(LAYOUT.size + PLACE_BYTES)
        self.block = mmap.mmap(self.file.fileno(), LAYOUT.size + PLACE_BYTES)
        self.calls = self.failed = self.foreign = 0

    @property
    def environment(self):
        # A sanitizer's own library must be allowed to come second.
        checks = {name: (os.environ.get(name) or "") + ":verify_asan_link_order=0" for name in ("ASAN_OPTIONS",)}
        return {"LD_PRELOAD": library(), "INCIPIT_FAULT_BLOCK": self.file.name, **checks}

    def arm(self, kind, first, last=None, error=errno.ENOMEM):
        self.block[LAYOUT.size :] = bytes(PLACE_BYTES)
        self.block[: LAYOUT.size] = LAYOUT.pack(0, error, first, last or first, 0, 0, 0)
        struct.pack_into("<I", self.block, 0, kind)

    def disarm(self):
        struct.pack_into("<I", self.block, 0, 0)
        self.calls, self.failed, self.foreign = LAYOUT.unpack_from(self.block)[4:]

    @contextlib.contextmanager
    def armed(self, *arguments, **more):
        self.arm(*arguments, **more)
        try:
            yield self
        finally:
            self.disarm()

    def place(self):
        """Where the first failing call came from: functions of the binary by name, others by library."""
        lines = self.block[LAYOUT.size :].split(b"\0")[0].decode().splitlines()
        return " < ".join(name_frame(line) for line in lines if not line.startswith("fault.so"))[:900]


def name_frame(line):
    module, offset = line.rsplit("+", 1)
    if module != "incipit":
        return module
    command = ["addr2line", "-f", "-s", "-i", "-e", _harness.binary(), hex(int(offset, 16) - 1)]
    try:
        names = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    except FileNotFoundError:
        return line
    return " < ".join(f"{names[i]} {names[i + 1]}" for i in range(0, len(names) - 1, 2))
