"""Time since the kernel started this process, and step times."""
import json
import os
import time


def since_start():
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def measure(step, read, seconds):
    """Calls step() until `seconds` have passed after a warm-up, reading its loss every tenth time as a logger would.

    Returns a dictionary to print: median milliseconds of a step over groups of ten, seconds to the first loss.
    """
    read(step())
    first = since_start()
    for _ in range(20):
        read(step())
    groups, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(groups) < 5:
        t = time.perf_counter()
        for _ in range(10):
            loss = step()
        read(loss)
        groups.append((time.perf_counter() - t) * 100)
    groups.sort()
    return {"ms": groups[len(groups) // 2], "first_step_s": first}


def report(**figures):
    print(json.dumps(figures))
