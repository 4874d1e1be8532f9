#!/usr/bin/env python3
"""Speed of a tokenizer on one core, compared with Hugging Face's `tokenizers`, in CPU time of the same run.

    bench/tokenizer_speed.py --bench build/bin/tokenize_bench --tokenizers PYTHON --tokenizer FOLDER --text FILE

The package also returns pieces and offsets. FOLDER has tokenizer.json, or vocab.json and merges.txt of GPT-2 (`tests/text/fetch_vocabularies.sh` fetches both).
"""
import argparse
import os
import subprocess

PEER = """
import os, sys, time
from tokenizers import Tokenizer, models, pre_tokenizers
folder, file = sys.argv[1:]
if os.path.exists(folder + "/tokenizer.json"):
    tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
else:
    tokenizer = Tokenizer(models.BPE.from_file(folder + "/vocab.json", folder + "/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
text = open(file, encoding="utf-8", newline="").read()
lines = text.split("\\n")


def best(encode):
    times = []
    for _ in range(5):
        begin = time.process_time()
        encode()
        times.append(time.process_time() - begin)
    return len(text.encode()) / min(times) / 1e6


print("the text", best(lambda: tokenizer.encode(text, add_special_tokens=False)))
print("its lines", best(lambda: [tokenizer.encode(line, add_special_tokens=False) for line in lines]))
"""


def ours(options):
    output = subprocess.run([options.bench, options.tokenizer, options.text], check=True, capture_output=True, text=True)
    return {line[:20].strip(): float(line[20:].split()[0]) for line in output.stdout.splitlines()}


def peers(options):
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    output = subprocess.run([options.tokenizers, "-c", PEER, options.tokenizer, options.text], check=True,
                            capture_output=True, text=True, env=environment)
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in output.stdout.splitlines()}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bench", "tokenizers", "tokenizer", "text"):
        ap.add_argument("--" + name, required=True)
    options = ap.parse_args()
    mine, theirs = ours(options), peers(options)
    for name, speed in theirs.items():
        print(f"{name:<10} {mine[name]:7.1f} MB/s, tokenizers {speed:5.2f} MB/s: {mine[name] / speed:.1f} times as fast")


main()
