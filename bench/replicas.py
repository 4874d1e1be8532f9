#!/usr/bin/env python3
"""Replicas: cost of several processes, compared with one process with the same global batch and with Accelerate.

    bench/replicas.py --runner build/bin/runner [--accelerate PYTHON] [--backend cpu] [--processes 1,2,8] [--cores 2] [--rounds 5]

Contenders alternate in rounds. The table shows medians; ratios are medians of the ratios per round. The processes share
the cores: one process has as many threads as there are cores, several divide them. Below the table: by how much a run
of one step takes longer, from fork to exit, per additional process.
"""
import argparse
import functools
import multiprocessing
import os
import socket
import statistics
import subprocess
import tempfile
import time

from steps import HERE, figures_of, output_of, steps_for, trained, write_workload


def run(options, name, processes, steps):
    return trained(options.runner, os.path.join(options.folder, name + ".yaml"), steps,
                   [f"num_processes={processes}", f"threads={max(1, options.cores // processes)}", "split_batches=true",
                    f"backend={options.backend}"])


def peer_of(processes):
    return f"{processes} processes" if processes > 1 else "1 process"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def figures_of_accelerate(options, name):
    threads = max(1, options.cores // 2)
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), ACCELERATE_USE_CPU="true",
                       BENCH_STARTED=str(time.clock_gettime(time.CLOCK_BOOTTIME)))
    return output_of([options.accelerate, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr",
                      "127.0.0.1", "--master_port", str(free_port()),
                      os.path.join(HERE, "peers", "accelerate_steps.py"), name, str(100 if name == "big" else 1500)],
                     environment)


def seconds_to_exit(options, processes):
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run([options.runner, "exec", os.path.join(options.folder, "small.yaml"), "--quiet", "--db",
                        os.path.join(folder, "bench.db"), "train.steps=1", f"num_processes={processes}", "threads=1",
                        "split_batches=true", f"backend={options.backend}"], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - start


def compare(options, name):
    runs = {processes: functools.partial(run, options, name, processes) for processes in options.processes}
    steps = {processes: steps_for(options.seconds, one) for processes, one in runs.items()}
    rounds = []
    for _ in range(options.rounds):
        rounds.append([figures_of(peer_of(processes), steps[processes], one) for processes, one in runs.items()])
        if options.accelerate:
            rounds[-1].append(figures_of_accelerate(options, name))
        for figures in rounds[-1]:
            figures["speed"] = rounds[-1][0]["ms"] / figures["ms"]
    for contender in zip(*rounds):
        median = {key: statistics.median(f[key] for f in contender) for key in contender[0] if key != "peer"}
        print(f"{name:9}{contender[0]['peer']:19}{median['ms']:9.4f}{median['first_step_s']:14.3f}{median['speed']:13.3f}x",
              flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--accelerate", help="a Python with PyTorch and Accelerate")
    ap.add_argument("--backend", default="cpu", help="cpu: processes; tpu: threads of one process")
    ap.add_argument("--processes", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 8])
    ap.add_argument("--cores", type=int, default=2)
    ap.add_argument("--workloads", default="big,small")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=3)
    options = ap.parse_args()
    with tempfile.TemporaryDirectory() as options.folder:
        names = options.workloads.split(",")
        for name in {"small", *names}:
            writer = multiprocessing.Process(target=write_workload, args=(options.folder, name))
            writer.start()
            writer.join()
        print(f"{'workload':9}{'contender':19}{'ms/step':>9}{'first step s':>14}{'of its speed':>14}")
        for name in names:
            compare(options, name)
        start = {n: statistics.median(seconds_to_exit(options, n) for _ in range(7)) for n in (1, 2, 4, 8)}
        print("a run of one step:", ", ".join(f"{n}: {s * 1e3:.0f} ms" for n, s in start.items()),
              f"- each process beyond the first {(start[8] - start[1]) / 7 * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
