#!/usr/bin/env python3
"""Memory and open files of a run of a million optimizer steps, while it trains. Neither may grow.

    bench/long_run.py --runner build/bin/runner [--steps 1000000]

Samples /proc every 10 ms. The first tenth of the run is start-up. `grew` is the median of
the last third of the run, less that of the third before it.
"""
import argparse
import os
import statistics
import subprocess
import tempfile
import time

RECIPE = """schema_version: 1
name: long
model: {type: linear}
data: {train: {format: synthetic, samples: 256, features: [4], classes: 2}, batch_size: 8}
optimizer: {type: sgd, lr: 0.01}
train: {steps: %d}
checkpoint: {every: %d steps, keep_last: 2}
log: {every: 100 steps}
"""


def sample(pid):
    with open(f"/proc/{pid}/statm") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, len(os.listdir(f"/proc/{pid}/fd"))


def watch(process):
    samples = []
    while process.poll() is None:
        try:
            samples.append(sample(process.pid))
        except (FileNotFoundError, ProcessLookupError, IndexError):
            break  # it has just ended
        time.sleep(0.01)
    return samples


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--steps", type=int, default=1_000_000)
    options = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recipe, db = os.path.join(folder, "long.yaml"), os.path.join(folder, "long.db")
        with open(recipe, "w") as file:
            file.write(RECIPE % (options.steps, max(options.steps // 20, 1)))
        start = time.monotonic()
        process = subprocess.Popen([options.runner, "exec", recipe, "--quiet", "--db", db], stdout=subprocess.DEVNULL)
        samples = watch(process)
        seconds = time.monotonic() - start
        if process.wait() != 0:
            raise SystemExit("the run failed")
        size = os.path.getsize(db) / 2**20
    print(f"{options.steps} steps in {seconds:.1f} s, {options.steps / seconds:.0f} steps/s, store {size:.1f} MiB")
    print(f"{'':12}{'least':>8}{'most':>8}{'grew':>8}  goal")
    third = len(samples) // 3
    for index, name in enumerate(["resident MiB", "descriptors"]):
        values = [each[index] for each in samples[len(samples) // 10:-1]]
        grew = statistics.median(values[-third:]) - statistics.median(values[-2 * third:-third])
        print(f"{name:12}{min(values):8.1f}{max(values):8.1f}{grew:8.1f}  {'<= 1' if index == 0 else '0'}")


if __name__ == "__main__":
    main()
