#!/usr/bin/env python3
"""Time to start many ranks: a run of two tiny steps, and an MPI program that only starts and ends.

    bench/launch.py --runner build/bin/runner [--ranks 64] [--rounds 5]

Shows the seconds and CPU-seconds of whole commands, medians of rounds in which commands alternate. `num_processes` starts
ranks without MPI. The floor of mpirun is an MPI program of one barrier; it needs mpicc of the library.
"""
import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

from steps import HERE

LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"], "mpich": ["mpirun.mpich"]}
RECIPE = """schema_version: 1
name: launch
model: {type: mlp, hidden: [16]}
data: {train: {format: synthetic, samples: 4096, features: [8], classes: 2}, batch_size: 4}
optimizer: {type: sgd, lr: 0.1}
train: {steps: 2}
threads: 1
"""
FLOOR = """#include <mpi.h>
int main(void) { MPI_Init(0, 0); MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); return 0; }
"""


def seconds_of(command, folder):
    """Returns the wall-clock and CPU seconds of a command and its children."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    cpu = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    begin, used = time.perf_counter(), cpu()
    subprocess.run(command, check=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin, cpu() - used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runner", default=os.path.join(HERE, "..", "build", "bin", "runner"))
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ranks = str(options.ranks)
    training = [os.path.abspath(options.runner), "exec", "launch.yaml", "--quiet", "--db", "launch.db"]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "launch.yaml"), "w", encoding="utf-8") as file:
            file.write(RECIPE)
        with open(os.path.join(folder, "floor.c"), "w", encoding="utf-8") as file:
            file.write(FLOOR)
        commands = {"num_processes": training + ["num_processes=" + ranks]}
        for module, launcher in LAUNCHERS.items():
            if shutil.which(launcher[0]) is None or shutil.which("mpicc." + module) is None:
                continue
            subprocess.run(["mpicc." + module, "floor.c", "-o", "floor-" + module], check=True, cwd=folder)
            commands[module + ", only MPI"] = [*launcher, "-n", ranks, "./floor-" + module]
            commands[module] = [*launcher, "-n", ranks, *training]
        times = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                times[name].append(seconds_of(command, folder))
    print(f"{'started by':<22}{'seconds':>9}{'CPU-seconds':>13}{'to only MPI':>13}")
    medians = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in times.items()}
    for name, (wall, cpu) in medians.items():
        floor = medians.get(name + ", only MPI")
        print(f"{name:<22}{wall:9.2f}{cpu:13.2f}{f'{wall / floor[0]:.2f}' if floor else '':>13}")


if __name__ == "__main__":
    main()
