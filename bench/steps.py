#!/usr/bin/env python3
"""Training speed: runner compared with PyTorch, JAX and the limits of this machine, in one run.

    bench/steps.py --runner build/bin/runner --peak build/bin/peak [--torch PYTHON] [--jax PYTHON]
                   [--compiled] [--backends cpu,gpu] [--workloads small,lua,big,mixed,cnn,resnet,gpt,encoder,gpt2]
                   [--dtypes fp32,bf16] [--threads 2] [--rounds 3] [--seconds 3]

The models are those of peers/workloads.py. Contenders alternate in rounds. The table shows medians; ratios are medians
of the ratios per round. The floor of a step is the flops of its products at the FMA peak (bf16: at the bf16 peak)
plus the bytes that AdamW must move (7 × 4 per parameter) at copy speed, both measured in the same round. Convolutions
with fewer multiplications than their definition can be below it. All train on
arrays in memory, reshuffled in each epoch. The time of runner is that between its points of the loss at n / 4 and at n
steps, so that neither the start nor the final checkpoint counts. It is also compared with itself on other backends, with
one rank. CPU ms is the CPU time of a step on all cores: the difference between a run of n steps and one of n / 4.
"""
import argparse
import array
import contextlib
import functools
import json
import math
import multiprocessing
import os
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
from workloads import WORKLOADS, flops, parameters  # noqa: E402


def output_of(command, environment=None):
    """Returns the last JSON document that a command prints, with the peak memory and the CPU time of its process."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(command)} failed:\n{text}{errors.read()}")
    document = json.loads(text if text.startswith("{\n") else text.strip().splitlines()[-1])
    return {**document, "rss_mb": usage.ru_maxrss / 1024, "cpu_seconds": usage.ru_utime + usage.ru_stime}


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


def normal_values(count):
    """Blocks of normal values repeat, since the values matter little."""
    rng = random.Random(0)
    block = array.array("f", (rng.gauss(0, 1) for _ in range(9973)))  # prime, so that no two samples are equal
    return (block * (count // len(block) + 1))[:count]


def drawn(typecode, below, count):
    rng = random.Random(1)
    return array.array(typecode, (rng.randrange(below) for _ in range(count)))


def write_workload(folder, name):
    """Writes a recipe and its samples."""
    shutil.copy(os.path.join(HERE, "recipes", name + ".yaml"), folder)
    w, path = WORKLOADS[name], os.path.join(folder, name)
    samples = w["samples"]
    if w.get("hook"):
        shutil.copy(os.path.join(HERE, "..", "recipes", "hooks", "digits.lua"), folder)
    if w["kind"] == "gpt":
        with open(path + ".bin", "wb") as file:
            drawn("H", w["vocabulary"], samples * w["length"] + 1).tofile(file)
        return
    if w["kind"] == "encoder":
        write_npy(path + "-x.npy", "<i8", (samples, w["length"]), drawn("q", w["vocabulary"], samples * w["length"]))
        write_npy(path + "-y.npy", "<i8", (samples,), drawn("q", w["classes"], samples))
        return
    shape = (samples, *(w["image"] if "image" in w else w["widths"][:1]))
    write_npy(path + "-x.npy", "<f4", shape, normal_values(math.prod(shape)))
    write_npy(path + "-y.npy", "<i8", (samples,), drawn("q", w["widths"][-1], samples))


def trained(runner, recipe, steps, settings, read=None):
    """Trains with runner in a store of its own. Returns the document of `exec --json` with "points", (step, ms) of four
    losses. read(store, document): its result is returned instead."""
    with tempfile.TemporaryDirectory() as folder:
        db = os.path.join(folder, "bench.db")
        document = output_of([runner, "exec", recipe, "--json", "--db", db, f"train.steps={steps}",
                              f"log.every={max(1, steps // 4)} steps", *settings])
        if read:
            return read(db, document)
        with contextlib.closing(sqlite3.connect(db)) as store:
            points = store.execute("SELECT step, time_ms FROM points WHERE metric = 'train/loss' ORDER BY step").fetchall()
    return {**document, "points": points}


def run_runner(options, name, dtype, backend, steps):
    return trained(options.runner, os.path.join(options.folder, name + ".yaml"), steps,
                   [f"threads={options.threads}", f"backend={backend}", "num_processes=1",
                    f"mixed_precision={'bf16' if dtype == 'bf16' else 'no'}"])


def steps_for(seconds, run):
    """Returns how many steps take about `seconds` after the first, at least 8. run(steps) trains and returns the document
    of `exec --json`."""
    steps = 4
    while (taken := (document := run(steps))["seconds"] - document["first_step_seconds"]) < seconds / 4:
        steps *= 2
    return max(8, int(steps * seconds / taken))


def figures_of(peer, steps, run):
    """Time per step. The CPU time of a run of a quarter of the steps is subtracted, for the start and the checkpoint."""
    short, whole = run(steps // 4), run(steps)
    (first, began), (last, ended) = whole["points"][0], whole["points"][-1]
    return {"peer": peer, "ms": (ended - began) / (last - first),
            "cpu_ms": (whole["cpu_seconds"] - short["cpu_seconds"]) / (steps - steps // 4) * 1e3,
            "first_step_s": whole["first_step_seconds"], "rss_mb": whole["rss_mb"]}


def limits_of_machine(peak, threads):
    """The best of three measurements: other work on the host lowers one now and then."""
    runs = [output_of([peak, str(threads)]) for _ in range(3)]
    return {name: max(run[name] for run in runs) for name in runs[0]}


def floor_ms(name, dtype, peak):
    w = WORKLOADS[name]
    rate = peak["bf16_gflops" if dtype == "bf16" else "fma_gflops"]
    bytes_moved = 7 * 4 * parameters(w) if parameters(w) * 12 > 8e6 else 0  # a small model stays in cache
    return flops(w) / rate * 1e-6 + bytes_moved / peak["copy_gbs"] * 1e-6


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--peak", required=True)
    ap.add_argument("--torch", help="a Python with PyTorch")
    ap.add_argument("--compiled", action="store_true", help="also compare with torch.compile")
    ap.add_argument("--jax", help="a Python with JAX and optax")
    ap.add_argument("--backends", type=lambda text: text.split(","), default=["cpu"],
                    help="of runner; the others are compared with the first")
    ap.add_argument("--workloads", default="small,lua,big,mixed")
    ap.add_argument("--dtypes", default="fp32,bf16")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--seconds", type=float, default=3)
    options = ap.parse_args()
    print(f"runner --help: {help_ms(options.runner):.1f} ms")
    print(f"{'workload':9}{'dtype':6}{'contender':24}{'ms/step':>9}{'CPU ms':>9}{'first step s':>14}{'MB':>7}{'of runner':>11}{'floor ms':>10}{'floor/ms':>10}")
    for row in rows(options):
        print(f"{row['workload']:9}{row['dtype']:6}{row['peer']:24}{row['ms']:9.4f}{row['cpu_ms']:9.4f}{row['first_step_s']:14.3f}{row['rss_mb']:7.0f}"
              f"{row['of_runner']:10.2f}x{row['floor']:10.4f}{row['of_floor']:10.2f}", flush=True)


def rows(options):
    """Yields a dictionary of medians for each workload, dtype and contender."""
    with tempfile.TemporaryDirectory() as options.folder:
        for name in options.workloads.split(","):
            # In its own process, because a child's peak memory starts at that of the process it is forked from.
            writer = multiprocessing.Process(target=write_workload, args=(options.folder, name))
            writer.start()
            writer.join()
        for name in options.workloads.split(","):
            for dtype in options.dtypes.split(","):
                yield from compared(options, name, dtype)


def peers_of(options, name):
    """(Python, arguments) of the peers."""
    if options.torch:
        yield options.torch, "torch_steps.py", []
        if options.compiled:
            yield options.torch, "torch_steps.py", ["compile"]
    if options.jax and not WORKLOADS[name].get("hook"):
        yield options.jax, "jax_steps.py", []


def compared(options, name, dtype):
    runs = {"runner" if backend == "cpu" else f"runner, {backend}":
            functools.partial(run_runner, options, name, dtype, backend) for backend in options.backends}
    steps, rounds = {peer: steps_for(options.seconds, run) for peer, run in runs.items()}, []
    for _ in range(options.rounds):
        rounds.append([figures_of(peer, steps[peer], run) for peer, run in runs.items()])
        for python, script, mode in peers_of(options, name):
            rounds[-1].append(output_of([python, os.path.join(HERE, "peers", script), name, str(options.threads), dtype,
                                         str(options.seconds), *mode]))
        floor = floor_ms(name, dtype, limits_of_machine(options.peak, options.threads))
        for figures in rounds[-1]:
            figures.update(floor=floor, of_runner=figures["ms"] / rounds[-1][0]["ms"], of_floor=floor / figures["ms"])
    for contender in zip(*rounds):
        median = {key: statistics.median(f[key] for f in contender) for key in contender[0] if key != "peer"}
        yield {"workload": name, "dtype": dtype, "threads": options.threads, "peer": contender[0]["peer"], **median}


if __name__ == "__main__":
    main()
