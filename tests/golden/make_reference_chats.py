#!/usr/bin/env python3
"""Writes reference_chats.json: 20 chats continued greedily by transformers in float32 over the dequantized GGUF file.

Each chat: the prompt's ids (the model's own template, the corrected tokenizer), the ids generated, and for each
generated position the five most probable ids with their log-probabilities. The conformance test
tests/conformance/reference_chats_test.c compares the model with it.

Needs: pip install torch==2.13.0 transformers accelerate gguf.
Usage: make_reference_chats.py MODEL.gguf OUT.json
"""
import json
import os
import sys

import tokenizers
import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS_MAX = 112
TOP = 5

CHATS = [
    [("user", "What is the capital of France?")],
    [("user", "Write a haiku about autumn rain.")],
    [("system", "You are a terse assistant. Answer in one sentence."), ("user", "Why is the sky blue?")],
    [("user", "List three uses of a paperclip.")],
    [("user", "Explain recursion to a ten year old.")],
    [("user", "def fibonacci(n):\n    # complete this Python function\n")],
    [("user", "Translate into French: The cat sleeps on the warm windowsill.")],
    [("user", "Hi!"), ("assistant", "Hello! How can I help you today?"),
     ("user", "Tell me a short story about a lighthouse keeper.")],
    [("user", "What is 17 + 25? Show your steps.")],
    [("system", "You are a pirate. Stay in character."), ("user", "How do I make pancakes?")],
    [("user", "Summarize: The mitochondrion is an organelle found in most eukaryotic cells. It produces ATP, which the "
              "cell uses as a source of chemical energy. Mitochondria have their own DNA and divide independently.")],
    [("user", "Give me an email template for asking my manager for a day off.")],
    [("user", "¿Cuál es la diferencia entre 'ser' y 'estar'?")],
    [("user", "Who wrote Pride and Prejudice?"), ("assistant", "Jane Austen wrote Pride and Prejudice."),
     ("user", "When was it published?"), ("assistant", "It was published in 1813."),
     ("user", "Name two other novels by her.")],
    [("user", "Compare TCP and UDP in a small table.")],
    [("user", "Write a SQL query that counts the orders of each customer in 2023.")],
    [("system", "Reply only with valid JSON."), ("user", "Describe a book: title, author, year.")],
    [("user", "What should I pack for a week in Iceland in March?")],
    [("user", "Rewrite this to be more polite: Send me the report now.")],
    [("user", "Name the planets of the solar system in order, with one fact each.")],
]


def corrected_tokenizer(directory, name):
    """transformers loses the digit split of this model's pre-tokenizer: put it back."""
    tokenizer = AutoTokenizer.from_pretrained(directory, gguf_file=name)
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = Sequence([Digits(individual_digits=True),
                                      ByteLevel(add_prefix_space=False, use_regex=True)])
    return tokenizer, backend


def continue_greedily(model, ids, end_id):
    generated, top = [], []
    past, step = None, torch.tensor([ids])
    while len(generated) < TOKENS_MAX:
        out = model(input_ids=step, past_key_values=past, use_cache=True)
        past = out.past_key_values
        logprobs = torch.log_softmax(out.logits[0, -1].double(), dim=-1)
        values, indices = torch.topk(logprobs, TOP)
        generated.append(int(indices[0]))
        top.append([[int(i), round(float(v), 5)] for i, v in zip(indices, values)])
        if generated[-1] == end_id:
            break
        step = torch.tensor([[generated[-1]]])
    return generated, top


def main():
    path, out_path = sys.argv[1:3]
    directory, name = os.path.split(os.path.abspath(path))
    torch.set_num_threads(2)
    tokenizer, backend = corrected_tokenizer(directory, name)
    model = AutoModelForCausalLM.from_pretrained(directory, gguf_file=name, dtype=torch.float32).eval()
    chats = []
    with torch.inference_mode():
        for messages in CHATS:
            text = tokenizer.apply_chat_template([{"role": r, "content": c} for r, c in messages], tokenize=False,
                                                 add_generation_prompt=True)
            ids = backend.encode(text, add_special_tokens=False).ids
            generated, top = continue_greedily(model, ids, tokenizer.eos_token_id)
            chats.append({"prompt": ids, "generated": generated, "top": top})
            print(len(chats), len(ids), len(generated), repr(tokenizer.decode(generated))[:100], flush=True)
    versions = {m.__name__: m.__version__ for m in (torch, transformers, tokenizers)}
    with open(out_path, "w", encoding="utf-8") as out:
        out.write('{"model": %s, "made_with": %s, "chats": [\n' % (json.dumps(name), json.dumps(versions)))
        out.write(",\n".join(json.dumps(c, separators=(",", ":")) for c in chats))
        out.write("\n]}\n")
    print("positions", sum(len(c["generated"]) for c in chats))


if __name__ == "__main__":
    main()
