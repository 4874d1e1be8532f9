#!/usr/bin/env python3
"""Peak memory that `runner plan` predicts, compared with the peak that the run measures, for each backend and recipe.

    bench/memory.py --runner build/bin/runner [--recipes digits,wine,…] [--backends cpu,gpu,tpu] [--processes 1,3]

`plan` and `exec` print both figures per process and phase. The table shows the largest phase and the largest relative
difference of a phase. `rss` is the peak of the whole process as the system counts it, with data and program.
"""
import argparse
import multiprocessing
import os
import shutil
import tempfile

from steps import HERE, output_of, write_workload

OURS = ["digits", "regression", "wine"]  # recipes whose steps are declared
PHASES = ["training", "evaluation", "saving"]


def write_recipes(folder, names):
    shutil.copytree(os.path.join(HERE, "..", "recipes"), folder, dirs_exist_ok=True)
    for name in set(names) - set(OURS):
        write_workload(folder, name)


def row_of(options, name, backend, processes):
    common = [os.path.join(options.folder, name + ".yaml"), "--json", f"backend={backend}", f"num_processes={processes}",
              "train={steps: 60}", "checkpoint=null"]
    predicted = output_of([options.runner, "plan", *common])["predicted_memory"]
    run = output_of([options.runner, "exec", *common, "--db", os.path.join(options.folder, "bench.db")])
    measured = run["peak_memory"]
    phases = [phase for phase in PHASES if measured[phase] > 0]
    worst = max((predicted[phase] / measured[phase] - 1 for phase in phases), key=abs)
    return max(predicted[phase] for phase in phases), max(measured[phase] for phase in phases), worst, run["rss_mb"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--recipes", default=",".join([*OURS, "small", "big", "mixed"]))
    ap.add_argument("--backends", default="cpu,gpu,tpu")
    ap.add_argument("--processes", default="1,3")
    options = ap.parse_args()
    print(f"{'recipe':12}{'backend':8}{'P':>2}{'predicted KiB':>15}{'measured KiB':>14}{'worst phase':>13}{'rss MB':>8}")
    with tempfile.TemporaryDirectory() as options.folder:
        # In its own process, because a child's peak memory starts at that of the process it is forked from.
        writer = multiprocessing.Process(target=write_recipes, args=(options.folder, options.recipes.split(",")))
        writer.start()
        writer.join()
        for name in options.recipes.split(","):
            for backend in options.backends.split(","):
                for processes in options.processes.split(","):
                    predicted, measured, worst, rss = row_of(options, name, backend, processes)
                    print(f"{name:12}{backend:8}{processes:>2}{predicted / 1024:15.1f}{measured / 1024:14.1f}"
                          f"{100 * worst:12.1f}%{rss:8.0f}", flush=True)


if __name__ == "__main__":
    main()
