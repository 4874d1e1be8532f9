#!/usr/bin/env python3
"""Fine-tuning an encoder of the size of MiniLM on texts, compared with transformers' Trainer, tokenization included.

    bench/finetune.py --runner build/bin/runner --torch PYTHON [--dtypes fp32,bf16] [--threads 2] [--rounds 3] [--texts 1024]

The texts are lines of recipes/data/tinyshakespeare.txt.gz, in batches of 32 that are padded to their longest. The time of
runner is that of its whole process; that of the Trainer begins after its imports, when the model is loaded. The Python
needs torch, transformers and accelerate.
"""
import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import tempfile
import time

from steps import HERE, output_of


def write_texts(folder, count):
    with gzip.open(os.path.join(HERE, "../recipes/data/tinyshakespeare.txt.gz"), "rt") as file:
        lines = [line.strip() for line in file if len(line) > 10]
    # Texts of one to four lines.
    texts, at = [], 0
    for i in range(count):
        texts.append(" ".join(lines[at:at + 1 + i % 4]))
        at += 1 + i % 4
    with open(os.path.join(folder, "texts.tsv"), "w") as file:
        file.write("text\tlabel\n" + "".join(f"{text}\t{i * 7 % 3 % 2}\n" for i, text in enumerate(texts)))


def run_runner(options, dtype):
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        document = output_of([options.runner, "exec", os.path.join(options.folder, "finetune.yaml"), "--json", "--db",
                              os.path.join(folder, "bench.db"), f"threads={options.threads}",
                              f"mixed_precision={'bf16' if dtype == 'bf16' else 'no'}"])
    return {"peer": "runner", "seconds": time.perf_counter() - begin, "samples": options.texts, "rss_mb": document["rss_mb"]}


def run_trainer(options, dtype):
    return output_of([options.torch, os.path.join(HERE, "peers", "trainer.py"), os.path.join(options.folder, "minilm"),
                      os.path.join(options.folder, "texts.tsv"), str(options.threads), dtype])


def rows(options):
    """Yields a dictionary of medians for each dtype and contender."""
    with tempfile.TemporaryDirectory() as options.folder:
        shutil.copy(os.path.join(HERE, "recipes", "finetune.yaml"), options.folder)
        write_texts(options.folder, options.texts)
        subprocess.run([options.torch, os.path.join(HERE, "peers", "trainer.py"), os.path.join(options.folder, "minilm"),
                        "WRITE"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for dtype in options.dtypes.split(","):
            rounds = [[run_runner(options, dtype), run_trainer(options, dtype)] for _ in range(options.rounds)]
            for figures in rounds:
                for each in figures:
                    each["of_runner"] = each["seconds"] / figures[0]["seconds"]
            for contender in zip(*rounds):
                median = {key: statistics.median(f[key] for f in contender) for key in contender[0] if key != "peer"}
                yield {"dtype": dtype, "threads": options.threads, "peer": contender[0]["peer"], **median}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--torch", required=True)
    ap.add_argument("--dtypes", default="fp32,bf16")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--texts", type=int, default=1024)
    for row in rows(ap.parse_args()):
        print(f"{row['dtype']:6}{row['peer']:24}{row['samples'] / row['seconds']:9.1f} texts/s{row['rss_mb']:7.0f} MB"
              f"{row['of_runner']:8.2f}x", flush=True)


if __name__ == "__main__":
    main()
