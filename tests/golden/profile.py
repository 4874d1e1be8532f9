"""profile.json: the action for each step of a run under torch.profiler.schedule.

One letter per step: "." not traced, "w" traced and discarded, "r" traced, "R" traced and ends a cycle.
"""

import itertools

from torch.profiler import ProfilerAction, schedule

from golden_io import write

LETTERS = {
    ProfilerAction.NONE: ".",
    ProfilerAction.WARMUP: "w",
    ProfilerAction.RECORD: "r",
    ProfilerAction.RECORD_AND_SAVE: "R",
}
KEYS = ("skip_first", "wait", "warmup", "active", "repeat")
GRID = itertools.product((0, 1, 10), (0, 1, 5), (0, 1, 2), (1, 2, 3), (0, 1, 2))
STEPS = 40


def case(values):
    keys = dict(zip(KEYS, values))
    actions = schedule(**keys)
    return {"name": "_".join(f"{k}_{v}" for k, v in keys.items()), **keys,
            "steps": "".join(LETTERS[actions(step)] for step in range(STEPS))}


def main():
    write("profile.json", "what becomes of each step", [case(values) for values in GRID])


if __name__ == "__main__":
    main()
