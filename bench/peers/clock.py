"""Time since a process was started, and step times."""
import json
import os
import time


def since_start():
    """Time since this process started, or its launcher if BENCH_STARTED is set (seconds of CLOCK_BOOTTIME)."""
    if "BENCH_STARTED" in os.environ:
        return time.clock_gettime(time.CLOCK_BOOTTIME) - float(os.environ["BENCH_STARTED"])
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def measure(step, read, seconds=0.0, at_least=5):
    """Calls step() after a warm-up and reads its loss every tenth time, like a logger; of steps over 50 ms, every time.

    Runs until `seconds` have passed and `at_least` groups of ten steps (or slow steps) are done. Processes that step
    together must pass no time: all then take as many steps.

    Returns a dictionary to print: median milliseconds per step over groups, CPU time per step, seconds to the first loss.
    """
    read(step())
    first = since_start()
    read(step())
    t = time.perf_counter()
    read(step())
    is_slow = seconds > 0 and time.perf_counter() - t > 0.05
    for _ in range(2 if is_slow else 18):
        read(step())
    size, groups, end = 1 if is_slow else 10, [], time.perf_counter() + seconds
    cpu = time.process_time()
    while time.perf_counter() < end or len(groups) < at_least:
        t = time.perf_counter()
        for _ in range(size):
            loss = step()
        read(loss)
        groups.append((time.perf_counter() - t) / size * 1e3)
    cpu = time.process_time() - cpu
    groups.sort()
    return {"ms": groups[len(groups) // 2], "cpu_ms": cpu / (size * len(groups)) * 1e3, "first_step_s": first}


def report(**figures):
    print(json.dumps(figures))
