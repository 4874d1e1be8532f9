#!/usr/bin/env python3
"""The emulated TPU compared with PyTorch/XLA on the CPU, in one run: time per step and compile time.

    bench/xla.py --runner build/bin/runner --xla PYTHON [--workloads small,big,layers] [--rounds 3] [--seconds 3]

Contenders alternate in rounds, each on all cores. The table shows medians; ratios are medians of the ratios per round.
One rank trains in f32: `default` computes products in one bf16 pass, like a TPU; `highest` in f32, like PyTorch/XLA
here; `bf16` has mixed_precision: bf16. `compile ms` is the sum of the metric CompileTime on both sides.
"""
import argparse
import functools
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import tempfile

from steps import HERE, figures_of, output_of, steps_for, trained, write_workload

CONTENDERS = {
    "default": [],
    "highest": ["tpu.matmul_precision=highest"],
    "bf16": ["mixed_precision=bf16"],
}


def write_layers(folder):
    for extension in ("yaml", "lua"):
        shutil.copy(os.path.join(HERE, "recipes", "layers." + extension), folder)
    draw = random.Random(0)
    with open(os.path.join(folder, "layers.txt"), "w") as text:
        text.write("".join(chr(33 + draw.randrange(90)) for _ in range(200000)))


def run(options, name, settings, steps, read=None):
    return trained(options.runner, os.path.join(options.folder, name + ".yaml"), steps,
                   ["backend=tpu", "num_processes=1", *settings], read)


def compile_ms(options, db, document):
    """Compile time before the first step, and at the second one."""
    shown = subprocess.run([options.runner, "show", document["run"], "--json", "--db", db], check=True, text=True,
                           stdout=subprocess.PIPE).stdout
    return json.loads(shown)["tpu"]["metrics"]["CompileTime"]["sum"] * 1e-6


def compare(options, name):
    runs = {peer: functools.partial(run, options, name, settings) for peer, settings in CONTENDERS.items()}
    steps = {peer: steps_for(options.seconds, one) for peer, one in runs.items()}
    rounds = []
    for _ in range(options.rounds):
        rounds.append([figures_of(peer, steps[peer], one) for peer, one in runs.items()])
        for figures, one in zip(rounds[-1], runs.values()):
            figures["compile_ms"] = one(10, functools.partial(compile_ms, options))
        xla = output_of([options.xla, os.path.join(HERE, "peers", "torch_xla_steps.py"), name, str(options.seconds)])
        rounds[-1].append({**xla, "compile_ms": xla["compile_s"] * 1e3})
        for figures in rounds[-1]:
            figures["speed"] = xla["ms"] / figures["ms"]
            figures["compile_share"] = figures["compile_ms"] / rounds[-1][-1]["compile_ms"]
    for contender in zip(*rounds):
        median = {key: statistics.median(f[key] for f in contender) for key in contender[0] if key != "peer"}
        print(f"{name:9}{contender[0]['peer']:17}{median['ms']:9.4f}{median['speed']:9.1f}x{median['first_step_s']:14.3f}"
              f"{median['compile_ms']:13.1f}{median['compile_share']:12.4f}", flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--xla", required=True, help="a Python with PyTorch and torch_xla")
    ap.add_argument("--workloads", default="small,big,layers")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=3)
    options = ap.parse_args()
    with tempfile.TemporaryDirectory() as options.folder:
        write_layers(options.folder)
        for name in set(options.workloads.split(",")) - {"layers"}:
            writer = multiprocessing.Process(target=write_workload, args=(options.folder, name))
            writer.start()
            writer.join()
        print(f"{'workload':9}{'contender':17}{'ms/step':>9}{'of XLA':>10}{'first step s':>14}{'compile ms':>13}{'of XLA':>12}")
        for name in options.workloads.split(","):
            compare(options, name)


if __name__ == "__main__":
    main()
