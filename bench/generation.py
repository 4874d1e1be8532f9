#!/usr/bin/env python3
"""Time of a generated token, compared with reading the weights once and with PyTorch, in the same run.

    bench/generation.py --runner build/bin/runner --peak build/bin/peak [--models gpt,gpt2] [--dtypes fp32,bf16]
                        [--torch PYTHON] [--threads N] [--rounds N]

The models are those of steps.py: `gpt` with 10.8 million parameters and a context of 256, or GPT-2 with 124 million and
a context of 64. They fill the context, from one token on. The peer is GPT2LMHeadModel of `transformers` with its cache.
The limit is the time to read the weights of all products from memory. A model that fits in the cache is faster.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

import steps

PEER = """
import sys, time, torch
from transformers import GPT2Config, GPT2LMHeadModel
threads, tokens, vocabulary, context, width, layers, heads = map(int, sys.argv[2:])
torch.set_num_threads(threads)
model = GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_positions=context, n_embd=width, n_layer=layers, n_head=heads))
model = model.eval().to(getattr(torch, sys.argv[1]))
with torch.no_grad():
    output = model(torch.tensor([[5]]), use_cache=True)
    begin = time.perf_counter()
    for _ in range(tokens):
        token = output.logits[:, -1].argmax(-1, keepdim=True)
        output = model(token, past_key_values=output.past_key_values, use_cache=True)
print((time.perf_counter() - begin) / tokens)
"""


def runner_seconds(runner, db, run, tokens):
    """Seconds per token, from the first one on, so that the start of the program does not count."""
    with subprocess.Popen([runner, "generate", run, "--prompt", "5", "--temperature", "0", "--max-tokens", str(tokens + 1),
                           "--db", db], stdout=subprocess.PIPE, bufsize=0) as process:
        process.stdout.read(1)
        begin = time.perf_counter()
        process.stdout.read()
        seconds = time.perf_counter() - begin
    assert process.returncode == 0
    return seconds / tokens


def peer_seconds(options, w, dtype, tokens):
    numbers = [options.threads, tokens, w["vocabulary"], w["length"], w["width"], w["layers"], w["heads"]]
    output = subprocess.run([options.torch, "-c", PEER, {"fp32": "float32", "bf16": "bfloat16"}[dtype],
                             *map(str, numbers)], check=True, capture_output=True, text=True)
    return float(output.stdout)


def weight_bytes(w, dtype):
    """Of the products of a token: 12 matrices of (width, width) a layer, and the rows of the vocabulary."""
    return (12 * w["layers"] * w["width"] + w["vocabulary"]) * w["width"] * (2 if dtype == "bf16" else 4)


def measured(options, model, dtype):
    """Seconds per token of the runner, of the peer and of reading the weights, one of each per round."""
    w = steps.WORKLOADS[model]
    tokens = w["length"] - 2
    ours, theirs, floors = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        db = os.path.join(folder, "bench.db")
        steps.write_workload(folder, model)
        subprocess.run([options.runner, "exec", os.path.join(folder, model + ".yaml"), "--quiet", "--db", db, "train.steps=1",
                        f"threads={options.threads}", f"mixed_precision={'bf16' if dtype == 'bf16' else 'no'}"],
                       check=True, stdout=subprocess.DEVNULL)
        for _ in range(options.rounds):  # alternates, so that other work on the machine hits all
            ours.append(runner_seconds(options.runner, db, "bench-" + model, tokens))
            if options.torch:
                theirs.append(peer_seconds(options, w, dtype, tokens))
            peak = steps.limits_of_machine(options.peak, options.threads)
            floors.append(weight_bytes(w, dtype) / peak["read_gbs"] / 1e9)
    return ours, theirs, floors


def rows(options):
    """A row for each model, dtype and contender, with medians."""
    for model in options.models:
        for dtype in options.dtypes:
            ours, theirs, floors = measured(options, model, dtype)
            contenders = [("runner", ours)] + ([("PyTorch", theirs)] if theirs else [])
            for peer, seconds in contenders:
                median = statistics.median(seconds)
                yield dict(model=model, dtype=dtype, peer=peer, ms=median * 1e3,
                           of_runner=median / statistics.median(ours), of_bandwidth=statistics.median(floors) / median)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True, type=os.path.abspath)
    ap.add_argument("--peak", required=True, type=os.path.abspath)
    ap.add_argument("--models", default="gpt,gpt2", type=lambda text: text.split(","))
    ap.add_argument("--dtypes", default="fp32,bf16", type=lambda text: text.split(","))
    ap.add_argument("--torch")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    ap.add_argument("--rounds", type=int, default=5)
    print(f"{'model':6}{'dtype':>6}{'':>9}{'ms/token':>10}{'tokens/s':>10}{'of runner':>11}{'of bandwidth':>14}")
    for row in rows(ap.parse_args()):
        print(f"{row['model']:6}{row['dtype']:>6}{row['peer']:>9}{row['ms']:10.2f}{1e3 / row['ms']:10.0f}"
              f"{row['of_runner']:11.2f}{row['of_bandwidth']:14.2f}", flush=True)


if __name__ == "__main__":
    main()
