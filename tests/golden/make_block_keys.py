#!/usr/bin/env python3
"""Prints the golden keys of tests/unit/cache/block_key_test.c, from the description in cache/block_key.h alone.

Needs xxhash (4.1.0 was used: XXH3-128 is the same in all). The identity is the test's fill_identity().
"""
import struct
import xxhash


def u32(*values):
    return b"".join(struct.pack("<I", v) for v in values)


def u64(*values):
    return b"".join(struct.pack("<Q", v) for v in values)


def text(data):
    return u32(len(data)) + data


def group(kind, window, layers):
    # kind, K format, V format, window, layers, heads, head dim, tokens a page; bytes of a layer, bytes used
    return u32(kind, 0, 0, window, layers, 3, 64, 32) + u64(24576, 24576 * layers)


def show(name, data):
    value = xxhash.xxh3_128_intdigest(data)
    low, high = value & (2**64 - 1), value >> 64
    print(f"{name}: low 0x{low:016x} high 0x{high:016x}")
    return u64(low, high)


layout = u32(32, 3, 2) + u64(49152) + group(0, 0, 2) + group(1, 512, 1) + bytes([0, 0, 1, 0, 0, 1])
identity = (
    u64(1, 2) + text(b"llama") + u32(3, 9, 3, 64) + struct.pack("<d", 100000.0) + u32(64)
    + struct.pack("<f", 1e-5) + u64(0, 0) + u32(0, 1) + layout
)
root = show("root", text(b"incipit kv root 1") + identity + u64(7) + u64(6) + b"tenant")
ids = struct.pack("<32i", *(i * 1000 - 1 for i in range(32)))
first = show("first", root + ids)
show("second", first + ids + b"image")
