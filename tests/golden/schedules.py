"""schedules.json: the learning rate (and momentum) that each step of a run uses.

References: transformers.optimization, torch.optim.lr_scheduler, and for `compat` Accelerate's scheduler wrapper, as if
it ran on several processes.
"""

import accelerate
import torch
import transformers
from accelerate.scheduler import AcceleratedScheduler
from accelerate.state import AcceleratorState, PartialState
from torch.optim import lr_scheduler
from transformers import optimization

from golden_io import numbers, write


def constant(optimizer, warmup=0):
    return optimization.get_constant_schedule_with_warmup(optimizer, warmup)


def linear(optimizer, length, warmup=0):
    return optimization.get_linear_schedule_with_warmup(optimizer, warmup, length)


def cosine(optimizer, length, warmup=0, cycles=0.5):
    return optimization.get_cosine_schedule_with_warmup(optimizer, warmup, length, cycles)


def cosine_restarts(optimizer, length, warmup=0, cycles=1):
    return optimization.get_cosine_with_hard_restarts_schedule_with_warmup(optimizer, warmup, length, cycles)


def polynomial(optimizer, length, warmup=0, end=1e-7, power=1.0):
    return optimization.get_polynomial_decay_schedule_with_warmup(optimizer, warmup, length, end, power)


def one_cycle(optimizer, length, max_lr, **keys):
    return lr_scheduler.OneCycleLR(optimizer, max_lr, total_steps=length, **keys)


def step(optimizer, every, gamma=0.1):
    return lr_scheduler.StepLR(optimizer, every, gamma)


def exponential(optimizer, gamma, every=1):
    return lr_scheduler.ExponentialLR(optimizer, gamma) if every == 1 else lr_scheduler.StepLR(optimizer, every, gamma)


LINEAR = {"max_lr": 0.1, "anneal_strategy": "linear"}

# type, lr, keys of the recipe's scheduler (lengths in steps), steps shown
CASES = [
    (constant, 0.1, {}, 5),
    (constant, 0.1, {"warmup": 7}, 20),
    (constant, 0.1, {"warmup": 1}, 5),
    (linear, 0.1, {"length": 40}, 40),
    (linear, 0.1, {"length": 40, "warmup": 10}, 45),
    (linear, 3e-4, {"length": 7, "warmup": 3}, 10),
    (linear, 0.1, {"length": 5, "warmup": 10}, 12),
    (linear, 0.1, {"length": 10, "warmup": 10}, 12),
    (cosine, 0.1, {"length": 40}, 40),
    (cosine, 0.1, {"length": 40, "warmup": 9}, 45),
    (cosine, 3e-4, {"length": 33, "warmup": 4, "cycles": 1.25}, 40),
    (cosine_restarts, 0.1, {"length": 40}, 45),
    (cosine_restarts, 0.1, {"length": 40, "warmup": 10, "cycles": 3}, 45),
    (cosine_restarts, 0.1, {"length": 23, "warmup": 2, "cycles": 4}, 25),
    (polynomial, 0.1, {"length": 40}, 45),
    (polynomial, 0.1, {"length": 40, "warmup": 10, "power": 2.0, "end": 1e-3}, 45),
    (polynomial, 3e-4, {"length": 23, "warmup": 5, "power": 0.5, "end": 0.0}, 25),
    (one_cycle, 0.1, {"max_lr": 0.1, "length": 40}, 40),
    (one_cycle, 0.02, {"length": 40, "max_lr": 0.5}, 40),
    (one_cycle, 0.1, {"max_lr": 0.1, "length": 37, "pct_start": 0.45, "div_factor": 9.0, "final_div_factor": 99.0}, 37),
    (one_cycle, 0.1, LINEAR | {"length": 40}, 40),
    (one_cycle, 0.1, {"max_lr": 0.1, "length": 41, "three_phase": True}, 41),
    (one_cycle, 0.1, LINEAR | {"length": 41, "three_phase": True, "pct_start": 0.2}, 41),
    (one_cycle, 0.1, {"max_lr": 0.1, "length": 3}, 3),
    (one_cycle, 0.1, {"max_lr": 0.1, "length": 20, "base_momentum": 0.5, "max_momentum": 0.99}, 20),
    (one_cycle, 0.1, {"max_lr": 0.1, "length": 20, "cycle_momentum": False}, 20),
    (step, 0.1, {"every": 10}, 40),
    (step, 0.1, {"every": 7, "gamma": 0.5}, 40),
    (exponential, 0.1, {"gamma": 0.95}, 60),
    (exponential, 0.1, {"gamma": 0.5, "every": 4}, 20),
]
WARMED = [(step, 0.1, {"every": 5, "gamma": 0.5, "warmup": 6}, 25), (exponential, 0.1, {"gamma": 0.9, "warmup": 4}, 20)]
COMPAT = [
    (linear, 0.1, {"length": 40, "warmup": 10}, 15, 4),
    (cosine, 0.1, {"length": 20}, 25, 2),
    (one_cycle, 0.1, {"max_lr": 0.1, "length": 30}, 20, 2),
    (one_cycle, 0.1, LINEAR | {"length": 31}, 12, 4),
    (step, 0.1, {"every": 5, "gamma": 0.5}, 12, 3),
]
NOISE = [0.9, 0.91, 0.5, 0.49999, 0.6, 0.4, 0.41, 0.42, 0.43, 0.39999, 0.2, 0.2, float("nan"), 0.2, 0.2, 0.2, 0.1, 0.1]
PLATEAU = [
    (0.1, {"patience": 2}, NOISE),
    (0.1, {"patience": 0, "factor": 0.5}, NOISE),
    (0.1, {"patience": 1, "cooldown": 3, "factor": 0.5}, NOISE),
    (0.1, {"patience": 1, "threshold": 0.05, "threshold_mode": "abs"}, NOISE),
    (0.1, {"patience": 1, "mode": "max"}, [1 - x for x in NOISE]),
    (0.1, {"patience": 1, "mode": "max", "threshold": 0.02, "threshold_mode": "abs"}, [1 - x for x in NOISE]),
    (0.1, {"patience": 0, "factor": 0.2, "min_lr": 0.003}, NOISE),
    (1e-7, {"patience": 0, "factor": 0.5, "eps": 1e-8}, NOISE),
    (0.1, {"patience": 1}, [float("inf"), float("inf"), 1.0, 1.0, 1.0, 0.5]),
]


def new_optimizer(lr):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr, momentum=0.9)


def record(optimizer, advance, count):
    """Returns the rate and momentum that each of `count` steps uses. `advance` is called after each but the last."""
    rates, momenta = [], []
    for i in range(count):
        group = optimizer.param_groups[0]
        rates.append(group["lr"])
        momenta.append(group["momentum"])
        optimizer.step()
        if i + 1 < count:
            advance()
    return rates, momenta


def case(make, lr, keys, rates, momenta=None, **more):
    variant = "_".join(f"{k}_{v}" for k, v in ({"lr": lr} | keys | more).items() if k != "metrics")
    cycled = make is one_cycle and keys.get("cycle_momentum", True)
    shown = {"name": f"{make.__name__}/{variant}", "type": make.__name__, "lr": lr, "keys": keys, **more}
    return shown | {"rates": numbers(rates)} | ({"momenta": numbers(momenta)} if cycled else {})


def plain_case(make, lr, keys, count):
    optimizer = new_optimizer(lr)
    scheduler = make(optimizer, **keys)
    return case(make, lr, keys, *record(optimizer, scheduler.step, count))


def warmed_case(make, lr, keys, count):
    """torch's decays have no warm-up: that of transformers comes first, and the decay counts from its end."""
    warmup = keys["warmup"]
    first, second = new_optimizer(lr), new_optimizer(lr)
    ramp, _ = record(first, constant(first, warmup).step, warmup)
    decay, _ = record(second, make(second, **{k: v for k, v in keys.items() if k != "warmup"}).step, count - warmup)
    return case(make, lr, keys, ramp + decay)


def wrapped(scheduler, processes):
    """The scheduler as Accelerate drives it on `processes` processes."""
    accelerate.Accelerator(cpu=True)
    PartialState._shared_state["num_processes"] = processes
    assert AcceleratorState().num_processes == processes
    scheduler.optimizer.step_was_skipped = False
    return AcceleratedScheduler(scheduler, [scheduler.optimizer])


def compat_case(make, lr, keys, count, processes):
    optimizer = new_optimizer(lr)
    scheduler = wrapped(make(optimizer, **keys), processes)
    return case(make, lr, keys, *record(optimizer, scheduler.step, count), compat_processes=processes)


def plateau(lr, keys, metrics, **compat):
    optimizer = new_optimizer(lr)
    scheduler = wrapped(lr_scheduler.ReduceLROnPlateau(optimizer, **keys), compat.get("compat_processes", 1))
    rates = []
    for metric in metrics:
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    return case(plateau, lr, keys, rates, metrics=numbers(metrics), **compat)


def main():
    cases = [plain_case(*c) for c in CASES] + [warmed_case(*c) for c in WARMED] + [compat_case(*c) for c in COMPAT]
    cases += [plateau(*c) for c in PLATEAU] + [plateau(0.1, {"patience": 3}, NOISE, compat_processes=2)]
    write("schedules.json", "the rate and momentum of each step; for plateau the rate after each evaluation", cases,
          versions=(transformers, accelerate))


if __name__ == "__main__":
    main()
