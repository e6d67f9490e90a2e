#!/usr/bin/env python3
"""Compares `incipit bench` with llama.cpp's llama-bench on the same file: same threads, interleaved runs, one table.

usage: scripts/bench_peers.py --llama-bench PATH [--model FILE] [--threads 2] [--rounds 5] [--prompt 512] [--generate 128]

Each round runs one after the other, so that a machine whose speed drifts slows both alike; the ratio is taken pair by
pair, and its median is what to quote. llama-bench must have been built for this machine, with optimisation."""
import argparse
import json
import os
import statistics
import subprocess
import sys


def default_model():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "incipit/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def incipit(options, prompt, generate):
    out = run([options.incipit, "bench", "--model", options.model, "--threads", str(options.threads), "--prompt", str(prompt),
               "--generate", str(generate), "--repeat", "1", "--json"])
    return json.loads(out.splitlines()[-1])


def llama(options, prompt, generate):
    out = run([options.llama_bench, "-m", options.model, "-t", str(options.threads), "-p", str(prompt), "-n", str(generate),
               "-r", "1", "-o", "json"])
    return json.loads(out)[0]["avg_ts"]


def show(name, ours, theirs):
    ratios = [a / b for a, b in zip(ours, theirs)]
    print(f"{name:10s} incipit {statistics.median(ours):8.1f}   llama.cpp {statistics.median(theirs):8.1f}   "
          f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--incipit", default="build/incipit")
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--model", default=default_model())
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    options = parser.parse_args()
    prefill, decode = ([], []), ([], [])
    for _ in range(options.rounds):
        prefill[0].append(incipit(options, options.prompt, 0)["prefill_tokens_per_s"])
        prefill[1].append(llama(options, options.prompt, 0))
        # llama-bench generates after an empty prompt; one token is the shortest that there is here.
        decode[0].append(incipit(options, 1, options.generate)["decode_tokens_per_s"])
        decode[1].append(llama(options, 0, options.generate))
    print(f"tokens a second, medians of {options.rounds} interleaved rounds, {options.threads} threads")
    show(f"pp{options.prompt}", *prefill)
    show(f"tg{options.generate}", *decode)


if __name__ == "__main__":
    main()
