"""data_plan.json: which samples each process gets from a loader prepared by Accelerate, in file order.

Shards (map-style and streams) are pure functions of (processes, rank) and are computed rank by rank. The dispatcher
reads in process 0 and broadcasts, so it runs in as many real processes (gloo).
"""

import json
import os
import socket
import tempfile

import accelerate
import torch
from accelerate.data_loader import prepare_data_loader
from accelerate.state import PartialState
from torch.utils.data import DataLoader, Dataset, IterableDataset

from golden_io import write

PROCESSES = (1, 2, 3, 4, 5)
BATCH_SIZES = (1, 3, 4, 6, 10)
BOOLEANS = (False, True)


class Indices(Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return index


class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(range(self.samples))


def sizes(processes, batch_size, split):
    """Data sets with fewer samples than processes, whole epochs, and tails of every kind."""
    group = batch_size if split else batch_size * processes
    if split and batch_size % processes != 0:  # rejected, except for batches of 1
        return [1, 2 * batch_size + 1]
    return sorted({1, 2, processes, group - 1, group, group + 1, group + batch_size, 2 * group - 1} - {0})


def batches(dataset, batch_size, drop_last, **options):
    """Every batch of one rank and the remainder that gather_for_metrics would see in the last one, or the error."""
    try:
        loader = prepare_data_loader(DataLoader(dataset, batch_size=batch_size, drop_last=drop_last),
                                     device=torch.device("cpu"), **options)
        found, remainder = [], 0
        for batch in loader:
            found.append(batch.tolist())
            remainder = loader.remainder
        return found, remainder
    except Exception as error:  # upstream has no exception type of its own
        return type(error).__name__


def of_each_rank(kind, processes, samples, batch_size, drop_last, **flags):
    """Returns what the ranks get; for the dispatcher, called in each process, what this process gets."""
    options = {"num_processes": processes, **flags}
    if kind == "dispatch":
        options |= {"dispatch_batches": True, "put_on_device": True}
        mine = batches(Indices(samples), batch_size, drop_last, **options)
        assert mine == batches(Stream(samples), batch_size, drop_last, **options)
        return [mine]
    dataset = {"shard": Indices, "stream": Stream}[kind](samples)
    return [batches(dataset, batch_size, drop_last, process_index=rank, **options) for rank in range(processes)]


def runs(indices):
    """Formats [18, 19, 0] as 18-19,0, and nothing as a dash."""
    parts = []
    for index in indices:
        if parts and parts[-1][1] + 1 == index:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(f"{a}-{b}" if a < b else str(a) for a, b in parts) or "-"


def point_text(processes, batch_size, samples, ranks):
    point = f"{processes} {batch_size} {samples}"
    if isinstance(ranks[0], str):
        assert all(isinstance(rank, str) for rank in ranks), ranks
        return f"{point} {ranks[0]}"
    remainder = ranks[0][1]
    assert all(rank[1] == remainder for rank in ranks if rank[0])
    shares = " | ".join(" ".join(runs(batch) for batch in rank[0]) or "none" for rank in ranks)
    return f"{point} {remainder}: {shares}"


def grid(kind):
    for split in BOOLEANS:
        for drop_last in BOOLEANS:
            flags = {"split_batches": split, "drop_last": drop_last}
            if kind == "shard":
                yield from (flags | {"even_batches": even} for even in BOOLEANS)
            else:  # they have no such option
                yield flags


def points_of(processes, flags):
    return [(b, n) for b in BATCH_SIZES for n in sizes(processes, b, flags["split_batches"])]


def figures(kind, processes, flags):
    return [of_each_rank(kind, processes, n, b, **flags) for b, n in points_of(processes, flags)]


def dispatch_worker(rank, processes, port, folder):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes),
                   "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                   "ACCELERATE_USE_CPU": "true"}
    torch.set_num_threads(1)
    state = PartialState(cpu=True)
    assert state.num_processes == processes
    found = [figures("dispatch", processes, flags) for flags in grid("dispatch")]
    with open(f"{folder}/{rank}", "w") as file:
        json.dump(found, file)
    state.destroy_process_group()


def dispatched(processes):
    """[combination of flags][point][rank]"""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(dispatch_worker, (processes, port, folder), nprocs=processes)
        of_ranks = [json.load(open(f"{folder}/{rank}")) for rank in range(processes)]
    return [[sum(ranks, []) for ranks in zip(*points)] for points in zip(*of_ranks)]


def main():
    cases = []
    for kind in ("shard", "stream", "dispatch"):
        found = {p: dispatched(p) for p in PROCESSES} if kind == "dispatch" else {
            p: [figures(kind, p, flags) for flags in grid(kind)] for p in PROCESSES}
        for i, flags in enumerate(grid(kind)):
            name = "/".join([kind] + [flag for flag, on in flags.items() if on])
            points = [point_text(p, b, n, ranks) for p in PROCESSES
                      for (b, n), ranks in zip(points_of(p, flags), found[p][i])]
            cases.append({"name": name, "kind": kind, **flags, "points": points})
    write("data_plan.json", "the batches of each process: PROCESSES BATCH_SIZE SAMPLES REMAINDER: rank 0 | rank 1 | …; "
          "none: no batch; -: an empty one; a word instead of the remainder: the error", cases, versions=(accelerate,))


if __name__ == "__main__":
    main()
