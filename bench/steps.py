#!/usr/bin/env python3
"""Training speed: runner compared with PyTorch, JAX and the limits of this machine, in one run.

    bench/steps.py --runner build/bin/runner --peak build/bin/peak [--torch PYTHON] [--jax PYTHON]
                   [--backends cpu,gpu] [--workloads small,lua,big,mixed] [--dtypes fp32,bf16] [--threads 2] [--rounds 3]
                   [--seconds 3]

Contenders alternate in rounds. The table shows medians; ratios are medians of the ratios per round. The floor of a step
is the flops of its matrix products at the FMA peak (bf16: at the bf16 dot peak) plus the bytes that AdamW must move
(7 × 4 per parameter) at copy speed, both measured in the same round. All train on arrays in memory, reshuffled in each
epoch. The time of runner is that of whole processes, from data to recorded metrics: the difference between a run of n
steps and one of n / 4, per step, so that neither the start nor the final checkpoint counts. It is also compared with
itself on other backends, with one rank.
"""
import argparse
import array
import functools
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
from workloads import WORKLOADS  # noqa: E402


def output_of(command, environment=None):
    """Returns the last JSON document that a command prints, with the peak memory of its process as rss_mb."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{text}{errors.read()}")
    document = json.loads(text if text.startswith("{\n") else text.strip().splitlines()[-1])
    return {**document, "rss_mb": usage.ru_maxrss / 1024}


def help_ms(runner, rounds=21):
    """Median time of `runner --help` from fork to exit."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([runner, "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def write_npy(path, dtype, shape, values):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + values.tobytes())


def write_workload(folder, name):
    """Writes a recipe and samples as two .npy files. Blocks of normal values repeat, since the values matter little."""
    shutil.copy(os.path.join(HERE, "recipes", name + ".yaml"), folder)
    w, rng = WORKLOADS[name], random.Random(0)
    if w["hook"]:
        shutil.copy(os.path.join(HERE, "..", "recipes", "hooks", "digits.lua"), folder)
    count = w["samples"] * w["widths"][0]
    block = array.array("f", (rng.gauss(0, 1) for _ in range(9973)))  # prime, so that no two samples are equal
    write_npy(os.path.join(folder, name + "-x.npy"), "<f4", (w["samples"], w["widths"][0]), (block * (count // 9973 + 1))[:count])
    labels = array.array("q", (rng.randrange(w["widths"][-1]) for _ in range(w["samples"])))
    write_npy(os.path.join(folder, name + "-y.npy"), "<i8", (w["samples"],), labels)


def run_runner(options, name, dtype, backend, steps):
    with tempfile.TemporaryDirectory() as folder:
        return output_of([options.runner, "exec", os.path.join(options.folder, name + ".yaml"), "--json", "--db",
                          os.path.join(folder, "bench.db"), f"train.steps={steps}", f"threads={options.threads}",
                          f"backend={backend}", "num_processes=1",
                          f"mixed_precision={'bf16' if dtype == 'bf16' else 'no'}"])


def steps_for(seconds, run):
    """Returns how many steps take about `seconds`. run(steps) trains and returns the document of `exec --json`."""
    steps = 200
    while (taken := run(steps)["seconds"]) < seconds / 2:
        steps *= 2
    return int(steps * seconds / taken)


def figures_of(peer, steps, run):
    """Time per step, without start and end, which are subtracted with a run of a quarter of the steps."""
    short, whole = run(steps // 4), run(steps)
    return {"peer": peer, "ms": (whole["seconds"] - short["seconds"]) / (steps - steps // 4) * 1e3,
            "first_step_s": whole["first_step_seconds"], "rss_mb": whole["rss_mb"]}


def floor_ms(name, dtype, peak):
    w = WORKLOADS[name]
    products = [a * b for a, b in zip(w["widths"], w["widths"][1:])]
    flops = 2 * w["batch"] * (3 * sum(products) - products[0])  # the input needs no gradient
    parameters = sum(a * b + b for a, b in zip(w["widths"], w["widths"][1:]))
    rate = peak["bf16_gflops" if dtype == "bf16" else "fma_gflops"]
    bytes_moved = 7 * 4 * parameters if parameters * 12 > 8e6 else 0  # a small model stays in cache
    return flops / rate * 1e-6 + bytes_moved / peak["copy_gbs"] * 1e-6


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--peak", required=True)
    ap.add_argument("--torch", help="a Python with PyTorch")
    ap.add_argument("--jax", help="a Python with JAX and optax")
    ap.add_argument("--backends", type=lambda text: text.split(","), default=["cpu"],
                    help="of runner; the others are compared with the first")
    ap.add_argument("--workloads", default="small,lua,big,mixed")
    ap.add_argument("--dtypes", default="fp32,bf16")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=3)
    options = ap.parse_args()
    with tempfile.TemporaryDirectory() as options.folder:
        compare(options)


def compare(options):
    for name in options.workloads.split(","):
        # In its own process, because a child's peak memory starts at that of the process it is forked from.
        writer = multiprocessing.Process(target=write_workload, args=(options.folder, name))
        writer.start()
        writer.join()
    print(f"runner --help: {help_ms(options.runner):.1f} ms")
    print(f"{'workload':9}{'dtype':6}{'contender':18}{'ms/step':>9}{'first step s':>14}{'MB':>7}{'of runner':>11}{'floor ms':>10}{'floor/ms':>10}")
    for name in options.workloads.split(","):
        for dtype in options.dtypes.split(","):
            runs = {"runner" if backend == "cpu" else f"runner, {backend}":
                    functools.partial(run_runner, options, name, dtype, backend) for backend in options.backends}
            steps, rounds = {peer: steps_for(options.seconds, run) for peer, run in runs.items()}, []
            for _ in range(options.rounds):
                rounds.append([figures_of(peer, steps[peer], run) for peer, run in runs.items()])
                for python, script in ((options.torch, "torch_steps.py"), (options.jax, "jax_steps.py")):
                    if python and not (WORKLOADS[name]["hook"] and python == options.jax):
                        rounds[-1].append(output_of([python, os.path.join(HERE, "peers", script), name, str(options.threads),
                                                     dtype, str(options.seconds)]))
                floor = floor_ms(name, dtype, output_of([options.peak, str(options.threads)]))
                for figures in rounds[-1]:
                    figures.update(floor=floor, of_runner=figures["ms"] / rounds[-1][0]["ms"], of_floor=floor / figures["ms"])
            for contender in zip(*rounds):
                median = {key: statistics.median(f[key] for f in contender) for key in contender[0] if key != "peer"}
                print(f"{name:9}{dtype:6}{contender[0]['peer']:18}{median['ms']:9.4f}{median['first_step_s']:14.3f}{median['rss_mb']:7.0f}"
                      f"{median['of_runner']:10.2f}x{median['floor']:10.4f}{median['of_floor']:10.2f}", flush=True)


if __name__ == "__main__":
    main()
