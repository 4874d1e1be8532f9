#!/usr/bin/env python3
"""Training speed: runner against PyTorch, JAX and the floor of this machine, in one run.

    bench/steps.py --runner build/bin/runner --peak build/bin/peak [--torch PYTHON] [--jax PYTHON]
                   [--workloads small,big,mixed] [--dtypes fp32,bf16] [--threads 2] [--rounds 3] [--seconds 3]

Contenders run in turn, round after round; the table shows medians.  The floor of a step is its products' flops at the
FMA peak (bf16: at the bf16 dot peak) plus the bytes that AdamW must move (7 × 4 for each parameter) at copy speed, both
measured in the same run.  runner's figure is that of whole processes, from data to recorded metrics: (seconds −
seconds to the first step) / steps.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
from workloads import WORKLOADS  # noqa: E402


def output_of(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1]) if not done.stdout.startswith("{\n") else json.loads(done.stdout)


def runner_figures(options, name, dtype, ms_guess):
    steps = max(200, int(options.seconds * 1000 / ms_guess))
    with tempfile.TemporaryDirectory() as folder:
        document = output_of([options.runner, "exec", os.path.join(HERE, "recipes", name + ".yaml"), "--json", "--db",
                              os.path.join(folder, "bench.db"), f"train.steps={steps}", f"threads={options.threads}",
                              f"mixed_precision={'bf16' if dtype == 'bf16' else 'no'}"])
    return {"peer": "runner", "ms": (document["seconds"] - document["first_step_seconds"]) / (steps - 1) * 1e3,
            "first_step_s": document["first_step_seconds"]}


def floor_ms(name, dtype, peak):
    w = WORKLOADS[name]
    products = [a * b for a, b in zip(w["widths"], w["widths"][1:])]
    flops = 2 * w["batch"] * (3 * sum(products) - products[0])  # the input needs no gradient
    parameters = sum(a * b + b for a, b in zip(w["widths"], w["widths"][1:]))
    rate = peak["bf16_gflops" if dtype == "bf16" else "fma_gflops"]
    bytes_moved = 7 * 4 * parameters if parameters * 12 > 8e6 else 0  # a small model stays in the cache
    return flops / rate * 1e-6 + bytes_moved / peak["copy_gbs"] * 1e-6


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--peak", required=True)
    ap.add_argument("--torch", help="a Python with PyTorch")
    ap.add_argument("--jax", help="a Python with JAX and optax")
    ap.add_argument("--workloads", default="small,big,mixed")
    ap.add_argument("--dtypes", default="fp32,bf16")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=3)
    options = ap.parse_args()

    print(f"{'workload':9}{'dtype':6}{'contender':18}{'ms/step':>9}{'first step s':>14}{'of runner':>11}{'floor ms':>10}{'floor/ms':>10}")
    for name in options.workloads.split(","):
        for dtype in options.dtypes.split(","):
            guess = runner_figures(argparse.Namespace(**{**vars(options), "seconds": 0.2}), name, dtype, 1.0)["ms"]
            rows, floors = {}, []
            for _ in range(options.rounds):
                floors.append(floor_ms(name, dtype, output_of([options.peak, str(options.threads)])))
                contenders = [runner_figures(options, name, dtype, guess)]
                for python, script in ((options.torch, "torch_steps.py"), (options.jax, "jax_steps.py")):
                    if python:
                        contenders.append(output_of([python, os.path.join(HERE, "peers", script), name, str(options.threads),
                                                     dtype, str(options.seconds)]))
                for figures in contenders:
                    rows.setdefault(figures["peer"], []).append(figures)
            floor = statistics.median(floors)
            ours = statistics.median(f["ms"] for f in rows["runner"])
            for peer, figures in rows.items():
                ms = statistics.median(f["ms"] for f in figures)
                first = statistics.median(f["first_step_s"] for f in figures)
                print(f"{name:9}{dtype:6}{peer:18}{ms:9.4f}{first:14.3f}{ms / ours:10.2f}x{floor:10.4f}{floor / ms:10.2f}", flush=True)


if __name__ == "__main__":
    main()
