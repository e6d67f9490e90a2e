#!/usr/bin/env python3
"""Writes tiny_logits.json: logits of the tiny random models by transformers in float64.

The weights come from the files that tests/support/tiny_model.c writes (compiled and run here), dequantized by the
`gguf` package. K and V are rounded to float16 when they enter the cache, as the cache of the server holds them, so that
what is left to differ is the rounding of float32.

Needs: pip install torch==2.13.0 transformers gguf; gcc, libxxhash-dev.
Usage: make_tiny_logits.py OUT.json   (from the root of the repository)
"""
import functools
import glob
import json
import os
import subprocess
import sys
import tempfile

import gguf
import numpy
import torch
import transformers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

TOKENS = 300  # beyond one 256-position segment of attention
POSITIONS = [0, 1, 15, 100, 255, 256, 299]


class HalfCache(DynamicCache):
    """A cache that holds what float16 holds."""

    def update(self, key_states, value_states, *args, **kwargs):
        return super().update(key_states.half().double(), value_states.half().double(), *args, **kwargs)


def write_models(folder):
    program = os.path.join(folder, "write_tiny_models")
    sources = ["tests/golden/write_tiny_models.c", "tests/support/tiny_model.c", "tests/support/gguf_writer.c",
               "kernels/tensor_type.c", "kernels/quant_block.c"] + glob.glob("kernels/base/*.c")
    subprocess.run(["gcc", "-std=c17", "-D_GNU_SOURCE", "-O1", "-I.", *sources, "-o", program, "-lxxhash", "-lm",
                    "-lpthread"], check=True)
    lines = subprocess.run([program, folder], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: [int(i) for i in ids] for name, *ids in (line.split() for line in lines)}


def halves(weight, heads):
    """GGUF keeps rotated pairs next to each other, transformers half a head apart."""
    rows = weight.shape[0]
    shape = (heads, rows // heads // 2, 2) + weight.shape[1:]
    return weight.reshape(shape).swapaxes(1, 2).reshape(weight.shape)


def load(path):
    reader = gguf.GGUFReader(path)

    def number(key):
        return reader.fields["llama." + key].contents()

    tensors = {t.name: torch.from_numpy(numpy.array(gguf.quants.dequantize(t.data, t.tensor_type))).double()
               for t in reader.tensors}
    heads, kv_heads = number("attention.head_count"), number("attention.head_count_kv")
    tied = "output.weight" not in tensors
    config = LlamaConfig(
        hidden_size=number("embedding_length"), intermediate_size=number("feed_forward_length"),
        num_hidden_layers=number("block_count"), num_attention_heads=heads, num_key_value_heads=kv_heads,
        head_dim=number("attention.key_length"), vocab_size=number("vocab_size"),
        max_position_embeddings=number("context_length"), rope_theta=number("rope.freq_base"),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"), attention_bias="blk.0.attn_q.bias" in tensors,
        tie_word_embeddings=tied, attn_implementation="sdpa")
    model = LlamaForCausalLM(config).double().eval()
    names = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
             "output.weight": "lm_head.weight"}
    parts = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    state = {}
    for name, tensor in tensors.items():
        if name.startswith("blk."):
            _, layer, part, kind = name.split(".")
            if part in ("attn_q", "attn_k"):
                tensor = halves(tensor, heads if part == "attn_q" else kv_heads)
            state[f"model.layers.{layer}.{parts[part]}.{kind}"] = tensor
        else:
            state[names[name]] = tensor
    if tied:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    missing, unexpected = model.load_state_dict(state, strict=True)
    assert not missing and not unexpected
    # transformers computes angles and norms in float32: take them in double.
    for module in model.modules():
        if isinstance(module, LlamaRMSNorm):
            module.forward = functools.partial(norm, module)
    rotary = model.model.rotary_emb
    dims = config.head_dim
    rotary.inv_freq = config_base(config) ** (-torch.arange(0, dims, 2, dtype=torch.float64) / dims)
    rotary.forward = lambda x, position_ids: angles(rotary.inv_freq, position_ids)
    return model


def norm(module, x):
    return module.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + module.variance_epsilon))


def config_base(config):
    return torch.tensor(float(config.rope_parameters["rope_theta"]), dtype=torch.float64)


def angles(inverse, position_ids):
    angle = position_ids[..., None].double() * inverse
    both = torch.cat((angle, angle), dim=-1)
    return both.cos(), both.sin()


def main():
    out_path = sys.argv[1]
    models = {}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        for name, ids in write_models(folder).items():
            model = load(os.path.join(folder, name + ".gguf"))
            logits = model(torch.tensor([ids[:TOKENS]]), past_key_values=HalfCache(), use_cache=True).logits[0]
            models[name] = [[round(float(v), 7) for v in logits[p]] for p in POSITIONS]
            print(name, float(logits.std()), float(logits.abs().max()), flush=True)
    versions = {m.__name__: m.__version__ for m in (torch, transformers)}
    with open(out_path, "w", encoding="utf-8") as out:
        out.write('{"made_with": %s, "positions": %s, "models": {\n' % (json.dumps(versions), POSITIONS))
        out.write(",\n".join(f'"{n}": ' + json.dumps(v, separators=(",", ":")) for n, v in models.items()))
        out.write("\n}}\n")


if __name__ == "__main__":
    main()
