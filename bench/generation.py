#!/usr/bin/env python3
"""Time of a generated token, compared with reading the weights once and with PyTorch, in the same run.

    bench/generation.py --runner build/bin/runner --peak build/bin/peak [--torch PYTHON] [--threads N]

The model is a GPT with 10.8 million parameters and a context of 256, which generates 250 tokens after the first. The peer
is GPT2LMHeadModel of `transformers` with its cache. The limit is the time to read the weights at the copy bandwidth.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

TOKENS, ROUNDS = 250, 5
PARAMETERS = 10_770_816
RECIPE = """schema_version: 1
name: gpt
model: {{type: gpt, layers: 6, heads: 6, width: 384}}
data: {{train: {{format: text, path: "{text}", sequence_length: 256}}, batch_size: 1}}
optimizer: {{type: sgd, lr: 0.01}}
train: {{steps: 1}}
threads: {threads}
"""
PEER = """
import sys, time, torch
from transformers import GPT2Config, GPT2LMHeadModel
torch.set_num_threads(int(sys.argv[1]))
model = GPT2LMHeadModel(GPT2Config(vocab_size=65, n_positions=256, n_embd=384, n_layer=6, n_head=6)).eval()
with torch.no_grad():
    output = model(torch.tensor([[5]]), use_cache=True)
    begin = time.perf_counter()
    for _ in range(int(sys.argv[2])):
        token = output.logits[:, -1].argmax(-1, keepdim=True)
        output = model(token, past_key_values=output.past_key_values, use_cache=True)
print((time.perf_counter() - begin) / int(sys.argv[2]))
"""


def runner_seconds(runner):
    """Seconds per token, from the first one on, so that the start of the program does not count."""
    with subprocess.Popen([runner, "generate", "gpt", "--prompt", "R", "--temperature", "0", "--max-tokens", str(TOKENS + 1)],
                          stdout=subprocess.PIPE, bufsize=0) as process:
        process.stdout.read(1)
        begin = time.perf_counter()
        process.stdout.read()
        seconds = time.perf_counter() - begin
    assert process.returncode == 0
    return seconds / TOKENS


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--peak", required=True)
    ap.add_argument("--torch")
    ap.add_argument("--threads", type=int, default=os.cpu_count())
    options = ap.parse_args()
    runner, peak = os.path.abspath(options.runner), os.path.abspath(options.peak)
    text = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../recipes/data/tinyshakespeare.txt.gz")
    ours, theirs, floors = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("gpt.yaml", "w", encoding="utf-8") as file:
            file.write(RECIPE.format(text=os.path.abspath(text), threads=options.threads))
        subprocess.run([runner, "exec", "gpt.yaml", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        for _ in range(ROUNDS):  # alternates, so that other work on the machine hits all
            ours.append(runner_seconds(runner))
            if options.torch:
                output = subprocess.run([options.torch, "-c", PEER, str(options.threads), str(TOKENS)], check=True,
                                        capture_output=True, text=True)
                theirs.append(float(output.stdout))
            output = subprocess.run([peak, str(options.threads)], check=True, capture_output=True, text=True)
            floors.append(4 * PARAMETERS / json.loads(output.stdout)["copy_gbs"] / 1e9)
    mine, floor = min(ours), min(floors)
    print(f"runner     {mine * 1e3:6.2f} ms per token, {1 / mine:5.0f} tokens/s")
    if theirs:
        print(f"PyTorch    {min(theirs) * 1e3:6.2f} ms per token: {min(theirs) / mine:.2f} times as long")
    print(f"weights    {floor * 1e3:6.2f} ms to read them once: {mine / floor:.2f} times as fast as the runner")


main()
