#!/usr/bin/env python3
"""Steps of a GPT (6 x 384) on one rank, on two ranks of a machine, and on two hosts, with the cost of the network.

    bench/hosts.py --runner build/bin/runner [--steps 12] [--rounds 3] [--gbit 0.5,1,2] [--layers 6]

Hosts are processes of this machine that share no memory and send messages over TCP; each has one thread. Speed-up: time
of one rank with the same samples a step over that of two, 2.00 at best. As root, hosts are also joined by a link of a
limited rate (a network namespace of its own). The wire needs at least 2 x the bytes of the gradients over that rate, as
both directions share it. Hidden: the share of this time that does not lengthen the step.
"""
import argparse
import contextlib
import dataclasses
import os
import shutil
import sqlite3
import statistics
import subprocess
import tempfile

from steps import HERE, write_workload

NAMESPACE = f"runner-bench-{os.getpid()}"
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "tcp,self",
       "OMPI_MCA_btl_tcp_if_include": "lo"}


@dataclasses.dataclass
class Case:
    name: str
    settings: list
    hosts: bool = False
    gbit: float = None  # rate of the link between the hosts; None: no limit

    def launch(self, command):
        """Returns the command that starts the ranks."""
        if not self.hosts:
            return command
        launch = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
        for host in "ab":
            launch += ([":"] if host == "b" else []) + ["-n", "1", "env", "RUNNER_HOST=" + host, *command]
        return (["ip", "netns", "exec", NAMESPACE] if self.gbit else []) + launch


def step_ms(options, folder, case):
    """Trains in a store of its own. Returns the median step."""
    if case.gbit:
        limit_link(case.gbit)
    with tempfile.TemporaryDirectory() as place:
        db = os.path.join(place, "bench.db")
        command = [options.runner, "exec", os.path.join(folder, "gpt.yaml"), "--quiet", "--db", db, "threads=1",
                   f"model.layers={options.layers}", f"train.steps={options.steps}", "log.every=1 steps", *case.settings]
        subprocess.run(case.launch(command), check=True, stdout=subprocess.DEVNULL, env={**os.environ, **MPI})
        with contextlib.closing(sqlite3.connect(db)) as store:
            times = [ms for ms, in store.execute("SELECT time_ms FROM points WHERE metric = 'train/loss' ORDER BY step")]
    return statistics.median(after - before for before, after in zip(times[2:], times[3:]))


def limit_link(gbit):
    if subprocess.run(["ip", "netns", "pids", NAMESPACE], capture_output=True).returncode != 0:
        subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
        subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "netns", "exec", NAMESPACE, "tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate",
                    f"{gbit}gbit", "burst", "512kb", "latency", "100ms"], check=True)


def gradient_bytes(layers, width=384, vocabulary=65, context=256):
    """Of the GPT with tied embeddings: per layer 12 width² weights and 13 width biases and norms."""
    return 4 * (layers * (12 * width * width + 13 * width) + 2 * width + (vocabulary + context) * width)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runner", default=os.path.join(HERE, "..", "build", "bin", "runner"))
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--gbit", default="0.5,1,2")
    options = parser.parse_args()
    if options.steps < 5:
        parser.error("--steps: expected at least 5")
    # The same samples a step: batch_size is that of a rank.
    cases = [Case("1 rank", ["num_processes=1", "data.batch_size=8"]),
             Case("2 ranks", ["num_processes=2", "data.batch_size=4"])]
    if shutil.which("mpirun.openmpi"):
        cases.append(Case("2 hosts", ["data.batch_size=4"], hosts=True))
        if os.geteuid() == 0 and shutil.which("tc") and shutil.which("ip"):
            cases += [Case(f"2 hosts, {rate} Gbit/s", ["data.batch_size=4"], hosts=True, gbit=float(rate))
                      for rate in options.gbit.split(",")]
    times = [[] for _ in cases]
    with tempfile.TemporaryDirectory() as folder:
        write_workload(folder, "gpt")
        try:
            for _ in range(options.rounds):
                for case, measured in zip(cases, times):
                    measured.append(step_ms(options, folder, case))
        finally:
            subprocess.run(["ip", "netns", "del", NAMESPACE], stderr=subprocess.DEVNULL)
    medians = [statistics.median(measured) for measured in times]
    wire = 2 * gradient_bytes(options.layers) * 8 / 1e6  # ms at 1 Gbit/s
    print(f"{'ranks':<22}{'ms a step':>10}{'speed-up':>10}{'wire ms':>9}{'hidden':>8}")
    for case, ms in zip(cases, medians):
        line = f"{case.name:<22}{ms:10.1f}{medians[0] / ms:10.2f}"
        if case.gbit:
            least = wire / case.gbit
            line += f"{least:9.1f}{1 - (ms - medians[2]) / least:8.2f}"
        print(line)


if __name__ == "__main__":
    main()
