#!/usr/bin/env python3
"""Writes tests/golden/dequantize.bin: random blocks of every quantized type and what the `gguf` package decodes them to.

    python3 tests/golden/make_dequantize.py        (made with gguf 0.19.0, numpy 2.4.6)

For each type: u32 type, u32 count of elements, the blocks, the count binary32 values; little endian.
Scales are random finite halves, denormal ones and both signs included.
"""
import os
import struct

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

NAMES = ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
SCALES = {"F16": [], "BF16": [], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
ELEMENTS = 1536

rng = np.random.default_rng(20240611)


def finite_half():
    bits = int(rng.integers(0, 0x7C00))
    return struct.pack("<H", bits | int(rng.integers(0, 2)) << 15)


out = b""
for name in NAMES:
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ELEMENTS // elements, size), dtype=np.uint8)
    for block in blocks:
        for at in SCALES[name]:
            block[at:at + 2] = np.frombuffer(finite_half(), dtype=np.uint8)
        if name == "F16":
            block[:] = np.frombuffer(finite_half(), dtype=np.uint8)
        if name == "BF16" and block[1] & 0x7F == 0x7F:
            block[1] &= 0xBF
    values = quants.dequantize(blocks, kind).astype("<f4").reshape(-1)
    assert values.size == ELEMENTS and np.isfinite(values).all()
    out += struct.pack("<II", kind, ELEMENTS) + blocks.tobytes() + values.tobytes()

with open(os.path.join(os.path.dirname(__file__), "dequantize.bin"), "wb") as file:
    file.write(out)
