"""Writes a small model of random weights behind another model's tokenizer and chat template: what sanitizers run the
end-to-end tests on, since under them a real one takes minutes for a sentence. The same bytes on every machine."""
import random
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, UINT32 = 8, 9, 4
F32, Q4_1, Q8_0 = 0, 3, 8
ALIGNMENT = 32
WIDTH, FFN, HEADS, KV_HEADS, HEAD_DIM, LAYERS = 64, 128, 4, 2, 16, 2
CHANGED = {
    "llama.block_count": LAYERS,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": FFN,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.rope.dimension_count": HEAD_DIM,
}


class Source:
    """The metadata of a GGUF file (version 3): [(key, type, bytes of the value)]."""

    def __init__(self, data):
        self.data, self.at = data, 0
        magic, version, self.tensors, count = self.take("<4sIQQ")
        assert magic == b"GGUF" and version == 3, (magic, version)
        self.metadata = [self.read_pair() for _ in range(count)]

    def take(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values if len(values) > 1 else values[0]

    def skip(self, kind):
        if kind == STRING:
            size = self.take("<Q")
        elif kind == ARRAY:
            inner, count = self.take("<IQ")
            if inner == STRING:
                for _ in range(count):
                    self.skip(STRING)
                return
            size = count * SIZES[inner]
        else:
            size = SIZES[kind]
        self.at += size

    def read_pair(self):
        size = self.take("<Q")
        key = self.data[self.at : self.at + size].decode()
        self.at += size
        kind = self.take("<I")
        began = self.at
        self.skip(kind)
        return key, kind, self.data[began : self.at]


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def tensor_shapes(vocabulary):
    yield "token_embd.weight", (WIDTH, vocabulary), Q8_0
    yield "output_norm.weight", (WIDTH,), F32
    for layer in range(LAYERS):
        for name, shape in (
            ("attn_q", (WIDTH, HEADS * HEAD_DIM)),
            ("attn_k", (WIDTH, KV_HEADS * HEAD_DIM)),
            ("attn_v", (WIDTH, KV_HEADS * HEAD_DIM)),
            ("attn_output", (HEADS * HEAD_DIM, WIDTH)),
            ("ffn_gate", (WIDTH, FFN)),
            ("ffn_up", (WIDTH, FFN)),
            ("ffn_down", (FFN, WIDTH)),
        ):
            yield f"blk.{layer}.{name}.weight", shape, Q4_1
        yield f"blk.{layer}.attn_norm.weight", (WIDTH,), F32
        yield f"blk.{layer}.ffn_norm.weight", (WIDTH,), F32


def weights(shape, kind, draw):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    if kind == F32:
        return struct.pack("<f", 1.0) * count
    if kind == Q8_0:
        return b"".join(struct.pack("<e", 0.004) + draw.randbytes(32) for _ in range(count // 32))
    return b"".join(struct.pack("<ee", 0.03, -0.225) + draw.randbytes(16) for _ in range(count // 32))


def write(source, out):
    vocabulary = next(
        struct.unpack_from("<Q", value, 4)[0] for key, _, value in source.metadata if key == "tokenizer.ggml.tokens"
    )
    draw = random.Random(1)
    tensors = list(tensor_shapes(vocabulary))
    head = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(source.metadata))]
    for key, kind, value in source.metadata:
        if key in CHANGED:
            kind, value = UINT32, struct.pack("<I", CHANGED[key])
        head.append(string(key) + struct.pack("<I", kind) + value)
    data = b""
    for name, shape, kind in tensors:
        head.append(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data)))
        data += weights(shape, kind, draw)
        data += bytes(-len(data) % ALIGNMENT)
    head = b"".join(head)
    out.write(head + bytes(-len(head) % ALIGNMENT) + data)
