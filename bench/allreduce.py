#!/usr/bin/env python3
"""All-reduce of floats: runner through shared memory and through MPI messages, MPI_Allreduce, and Gloo, in one run.

    bench/allreduce.py --build build [--torch PYTHON] [--ranks 2] [--rounds 11]

Shows the microseconds of a call, medians of rounds in which calls alternate (Gloo, of PyTorch, runs after each library),
and the ratio of the fastest peer to the faster path of runner: 1.00 is as fast, more is faster.
"""
import argparse
import json
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"], "mpich": ["mpirun.mpich"]}
GLOO = """
import json, os, statistics, sys, time, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, size, rounds, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    rows, n = {}, 1024
    while n <= 64 << 20:
        values, times = torch.zeros(n // 4), []
        calls = min(max((8 << 20) // n, 1), 1000)
        for _ in range(rounds):
            dist.barrier()
            begin = time.perf_counter()
            for _ in range(calls): dist.all_reduce(values)
            times.append((time.perf_counter() - begin) / calls * 1e6)
        rows[n], n = statistics.median(times), n * 4
    if rank == 0: print(json.dumps(rows), flush=True)
if __name__ == "__main__":
    mp.start_processes(work, args=(int(sys.argv[1]), int(sys.argv[2]), 29500 + os.getpid() % 1000), nprocs=int(sys.argv[1]), start_method="fork")
"""


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default=os.path.join(HERE, "..", "build"))
    ap.add_argument("--torch")
    ap.add_argument("--ranks", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=11)
    options = ap.parse_args()
    bench = os.path.join(options.build, "bin", "mpi_bench")
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for module, launcher in LAUNCHERS.items():
        if shutil.which(launcher[0]) is None:
            continue
        output = subprocess.run([*launcher, "-n", str(options.ranks), bench, module, str(options.rounds)], check=True,
                                capture_output=True, text=True, env=environment).stdout
        document, gloo = json.loads(output), {}
        if options.torch:
            gloo = json.loads(subprocess.run([options.torch, "-c", GLOO, str(options.ranks), str(options.rounds)],
                                             check=True, capture_output=True, text=True).stdout)
        print(f"{document['library']}, {document['ranks']} ranks; microseconds")
        print(f"{'bytes':>10}{'memory':>11}{'messages':>11}{'Allreduce':>11}{'Gloo':>11}{'peer/memory':>13}{'peer/messages':>15}")
        for row in document["rows"]:
            peers = [row["library"]] + ([gloo[str(row["bytes"])]] if gloo else [])
            shown = f"{peers[1]:11.1f}" if gloo else f"{'':11}"
            print(f"{row['bytes']:10}{row['shared_memory']:11.1f}{row['messages']:11.1f}{peers[0]:11.1f}{shown}"
                  f"{min(peers) / row['shared_memory']:13.2f}{min(peers) / row['messages']:15.2f}", flush=True)


if __name__ == "__main__":
    main()
