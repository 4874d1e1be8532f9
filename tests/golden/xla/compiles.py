"""xla/compiles.json: at which training batches torch_xla compiles, and how often it executes.

Each case is a fresh process with an empty compile cache: an MLP (64-32-10) trained as users of torch_xla do, with its
device loader, which cuts the graph before each batch and at the end of an epoch. `steps[i]` are the counts of
CompileTime and ExecuteTime after training batch i + 1, `evaluations[e]` those after the evaluation of epoch e,
`counters` those at the end, including MarkStep. Keys of a case that a recipe has too have its meaning; lengths are
numbers of steps. `read_every`: the loss is read in every n-th step. `factors`: of the learning rate. `step`: the
function of STEPS that computes the loss instead of cross_entropy. `limits`: limits of clip_grad_norm, one per step.
`batches_per_execution`: the loader cuts before every n-th batch. `loader: false`: there is no loader, and only reads
cut the graph. `rule`: the function of RULES that updates. `no_sync`: accumulation over so many batches with
Accelerate's no_sync, where no loss is divided.

    python compiles.py        all cases, each in a process of its own
    python compiles.py NAME   one case, to stdout
"""

import json
import math
import os
import subprocess
import sys

os.environ["PJRT_DEVICE"] = "CPU"
FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.dirname(FOLDER))

SGD, MOMENTUM = {"type": "sgd", "lr": 0.1}, {"type": "sgd", "lr": 0.1, "momentum": 0.9}
ADAM, ADAMW = {"type": "adam", "lr": 1e-3}, {"type": "adamw", "lr": 1e-3}
RMSPROP, ADAGRAD = {"type": "rmsprop", "lr": 1e-3}, {"type": "adagrad", "lr": 1e-2}
NESTEROV = {"type": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True}


def linear(length, warmup=0):
    return {"type": "linear", "length": length, "warmup": warmup}


CASES = {
    # ---- one optimizer each
    "sgd": {},
    "sgd_decay": {"optimizer": {**SGD, "weight_decay": 0.01}},
    "momentum": {"optimizer": MOMENTUM},
    "nesterov": {"optimizer": NESTEROV},
    "dampening": {"optimizer": {**MOMENTUM, "dampening": 0.2, "weight_decay": 0.1}},
    "adam": {"optimizer": ADAM},
    "adam_decay": {"optimizer": {**ADAM, "weight_decay": 0.1}},
    "adam_amsgrad": {"optimizer": {**ADAM, "amsgrad": True}},
    "adamw": {"optimizer": ADAMW},
    "adamw_no_decay": {"optimizer": {**ADAMW, "weight_decay": 0.0}},
    "rmsprop": {"optimizer": RMSPROP},
    "rmsprop_centered_momentum": {"optimizer": {**RMSPROP, "centered": True, "momentum": 0.9}},
    "adagrad": {"optimizer": ADAGRAD},
    "adagrad_decay": {"optimizer": {**ADAGRAD, "lr_decay": 0.1, "weight_decay": 0.01}},
    # ---- schedules
    "sgd_linear_to_zero": {"scheduler": linear(6)},
    "momentum_linear_to_zero": {"optimizer": MOMENTUM, "scheduler": linear(6)},
    "adamw_linear_to_zero": {"optimizer": ADAMW, "scheduler": linear(6)},
    "rmsprop_linear_to_zero": {"optimizer": RMSPROP, "scheduler": linear(6)},
    "adagrad_linear_to_zero": {"optimizer": ADAGRAD, "scheduler": linear(6)},
    "sgd_warmup": {"scheduler": {"type": "constant", "warmup": 4}},
    "sgd_warmup_to_1": {"optimizer": {**SGD, "lr": 1.0}, "scheduler": {"type": "constant", "warmup": 4}},
    "adamw_warmup": {"optimizer": ADAMW, "scheduler": {"type": "constant", "warmup": 4}},
    "momentum_warmup_and_linear": {"optimizer": MOMENTUM, "scheduler": linear(8, warmup=3)},
    "adamw_warmup_and_linear": {"optimizer": ADAMW, "scheduler": linear(8, warmup=3)},
    "sgd_cosine": {"scheduler": {"type": "cosine", "length": 9}},
    "adamw_cosine_short": {"optimizer": ADAMW, "scheduler": {"type": "cosine", "length": 4}},
    "sgd_step": {"scheduler": {"type": "step", "every": 3, "gamma": 0.1}},
    "rate_meets_momentum": {"optimizer": {**MOMENTUM, "lr": 0.9}, "factors": [1.0] * 5 + [0.5] * 4},
    "sgd_from_1": {"optimizer": {**SGD, "lr": 1.0}, "factors": [1.0] * 4 + [0.5] * 5},
    "adamw_to_1": {"optimizer": {**ADAMW, "lr": 1.0}, "factors": [0.5] * 4 + [1.0] * 5},
    "rmsprop_from_1": {"optimizer": {**RMSPROP, "lr": 1.0}, "factors": [1.0] * 4 + [0.5] * 5},
    "adamw_decay_meets_beta2": {
        "optimizer": {**ADAMW, "lr": 0.1, "weight_decay": 0.01},
        "factors": [1.0] * 4 + [0.5] * 5,
    },
    "sgd_decay_meets_rate": {"optimizer": {**SGD, "weight_decay": 0.1}, "factors": [-1.0] * 4 + [-0.5] * 5},
    "adam_short_memory": {"optimizer": {**ADAM, "betas": [0.9, 0.5]}, "epochs": 12},
    "adam_beta1_is_0": {"optimizer": {**ADAM, "betas": [0.0, 0.99]}},
    # ---- batches
    "partial_batch": {"samples": 100},
    "partial_batch_dropped": {"samples": 100, "drop_last": True},
    "adamw_partial_batch": {"samples": 100, "optimizer": ADAMW},
    "momentum_partial_batch_clip": {"samples": 100, "optimizer": MOMENTUM, "clip_grad_norm": 1.0},
    # ---- reads
    "read_each_step": {"read_every": 1},
    "read_each_second_step": {"read_every": 2},
    "adamw_read_each_third_step": {"optimizer": ADAMW, "read_every": 3},
    "momentum_read_partial_batch": {"optimizer": MOMENTUM, "samples": 100, "read_every": 1},
    # ---- accumulation
    "accumulate_2_of_4": {"samples": 128, "accumulation": 2},
    "accumulate_3_of_4": {"samples": 128, "accumulation": 3},
    "accumulate_2_of_3": {"accumulation": 2},
    "accumulate_4_of_3": {"accumulation": 4},
    "momentum_accumulate_2_of_3": {"optimizer": MOMENTUM, "accumulation": 2},
    "adamw_accumulate_2_of_3": {"optimizer": ADAMW, "accumulation": 2},
    "adamw_accumulate_3_of_4_clip": {"samples": 128, "optimizer": ADAMW, "accumulation": 3, "clip_grad_norm": 1.0},
    "adamw_accumulate_2_partial_batch": {"samples": 100, "optimizer": ADAMW, "accumulation": 2},
    "momentum_accumulate_2_linear_to_zero": {
        "samples": 128, "optimizer": MOMENTUM, "accumulation": 2, "scheduler": linear(4),
    },
    # ---- clipping
    "sgd_clip": {"clip_grad_norm": 1.0},
    "sgd_clip_half": {"clip_grad_norm": 0.5},
    "adamw_clip_cosine": {"optimizer": ADAMW, "clip_grad_norm": 1.0, "scheduler": {"type": "cosine", "length": 9}},
    "momentum_clip_meets_rate": {
        "optimizer": {**MOMENTUM, "lr": 0.2}, "clip_grad_norm": 0.9, "scheduler": linear(6),
    },
    "sgd_clip_value": {"clip_grad_value": 0.5},
    # ---- evaluation
    "evaluate": {"evaluate": True},
    "evaluate_partial_batch": {"evaluate": True, "samples": 100},
    "adamw_evaluate": {"optimizer": ADAMW, "evaluate": True},
    "adamw_evaluate_read": {"optimizer": ADAMW, "evaluate": True, "read_every": 2},
    "momentum_evaluate_accumulate": {"optimizer": MOMENTUM, "evaluate": True, "samples": 128, "accumulation": 2},
    # ---- dropout
    "dropout": {"dropout": 0.1},
    "adamw_dropout_partial_batch": {"optimizer": ADAMW, "dropout": 0.2, "samples": 100},
    "dropout_evaluate": {"dropout": 0.1, "evaluate": True},
    # ---- bf16 as the device's type
    "bf16": {"bf16": True},
    "momentum_bf16": {"optimizer": MOMENTUM, "bf16": True},
    "adamw_bf16": {"optimizer": ADAMW, "bf16": True},
    "adamw_bf16_linear_to_zero": {"optimizer": ADAMW, "bf16": True, "scheduler": linear(6)},
    "adamw_bf16_clip_accumulate": {
        "samples": 128, "optimizer": ADAMW, "bf16": True, "clip_grad_norm": 1.0, "accumulation": 3,
    },
    "rate_meets_momentum_bf16": {
        "optimizer": {**SGD, "momentum": 0.9, "weight_decay": 0.9001, "lr": 0.1}, "bf16": True,
    },
}
CASES |= {
    # ---- several batches between cuts
    "executions_of_2": {"batches_per_execution": 2},
    "executions_of_3": {"batches_per_execution": 3},
    "executions_of_2_of_4": {"samples": 128, "batches_per_execution": 2},
    "momentum_executions_of_2": {"optimizer": MOMENTUM, "batches_per_execution": 2},
    "momentum_executions_of_2_of_4": {"samples": 128, "optimizer": MOMENTUM, "batches_per_execution": 2},
    "momentum_executions_of_3": {"optimizer": MOMENTUM, "batches_per_execution": 3},
    "adamw_executions_of_2": {"optimizer": ADAMW, "batches_per_execution": 2},
    "adamw_executions_of_2_of_4": {"samples": 128, "optimizer": ADAMW, "batches_per_execution": 2},
    "adamw_executions_of_3": {"optimizer": ADAMW, "batches_per_execution": 3},
    "adamw_executions_of_3_linear_to_zero": {
        "optimizer": ADAMW, "batches_per_execution": 3, "scheduler": linear(6),
    },
    "executions_of_2_partial_batch": {"samples": 100, "batches_per_execution": 2},
    "evaluate_executions_of_2": {"evaluate": True, "batches_per_execution": 2},
    "evaluate_executions_of_3": {"evaluate": True, "batches_per_execution": 3},
    "adamw_evaluate_executions_of_2": {"optimizer": ADAMW, "evaluate": True, "batches_per_execution": 2},
    "accumulate_2_of_4_executions_of_2": {"samples": 128, "accumulation": 2, "batches_per_execution": 2},
    "accumulate_2_of_4_executions_of_3": {"samples": 128, "accumulation": 2, "batches_per_execution": 3},
    "momentum_accumulate_2_of_3_executions_of_2": {
        "optimizer": MOMENTUM, "accumulation": 2, "batches_per_execution": 2,
    },
    "momentum_accumulate_3_of_4_executions_of_2": {
        "samples": 128, "optimizer": MOMENTUM, "accumulation": 3, "batches_per_execution": 2,
    },
    "executions_of_2_read_each_third_step": {"batches_per_execution": 2, "read_every": 3},
    # ---- only reads cut the graph
    "no_sync_at_all": {"loader": False, "epochs": 1},
    "no_sync_read_each_third_step": {"loader": False, "read_every": 3},
    "momentum_no_sync_read_each_second_step": {"loader": False, "optimizer": MOMENTUM, "read_every": 2},
    "adamw_no_sync_read_each_step": {"loader": False, "optimizer": ADAMW, "read_every": 1},
    # ---- accumulation without dividing the loss
    "no_sync_2_of_4": {"samples": 128, "no_sync": 2},
    "momentum_no_sync_3_of_4": {"samples": 128, "optimizer": MOMENTUM, "no_sync": 3},
    "adamw_no_sync_2_of_3": {"optimizer": ADAMW, "no_sync": 2},
}
# Training steps by name; they get the step number, from 0. `f`: torch.nn.functional.
def scaled(scale):
    return lambda f, model, x, y, n: f.cross_entropy(model(x), y) * scale(n)


def second_term(f, model, x, y, n):
    logits = model(x)
    loss = f.cross_entropy(logits, y)
    return loss + 0.5 * (logits * logits).mean() if n % 2 == 1 else loss


def shorter(f, model, x, y, n):
    length = [32, 24, 16, 32, 8][n % 5]
    return f.cross_entropy(model(x[:length]), y[:length])


def above(threshold):
    def step(f, model, x, y, n):
        logits = model(x)
        return f.cross_entropy(logits, y) + (logits * (logits > threshold(n)).float()).mean()

    return step


def raised(exponent):
    def step(f, model, x, y, n):
        logits = model(x)
        return f.cross_entropy(logits, y) + ((logits.abs() + 1) ** exponent(n)).mean()

    return step


def peeked(f, model, x, y, n):
    logits = model(x)
    logits.mean().item()
    return f.cross_entropy(logits, y) + (logits * logits).mean()


def masked(f, model, x, y, n):
    logits = model(x)
    filled = logits.masked_fill(logits > 0, n / 4).where(logits < 0.25, 1 - n / 4)
    return f.cross_entropy(logits, y) + filled.mean()


def clamped(f, model, x, y, n):
    return f.cross_entropy(model(x).clamp(-1 - n / 4, 1 + n / 4), y)


def two_terms(f, model, x, y, n):
    logits = model(x)
    return f.cross_entropy(logits, y) * (0.5 + n / 10) + (logits * logits).mean() * 0.9


def listed(f, model, x, y, n):
    import torch

    weights = torch.tensor([(n + i) / 10 for i in range(10)]).to(x.device)
    return f.cross_entropy(model(x) * weights, y)


def unused(f, model, x, y, n):
    logits = model(x)
    (logits * (n % 3)).sum() if n % 2 else logits.abs().max()
    return f.cross_entropy(logits, y)


def smoothed(smoothing):
    return lambda f, model, x, y, n: f.cross_entropy(model(x), y, label_smoothing=smoothing(n))


STEPS = {
    "unused": unused,
    "smoothing_grows": smoothed(lambda n: 0.05 + n / 20),
    "smoothing_falls_to_0": smoothed(lambda n: max(0.0, 0.2 - n / 20)),
    "smoothing_rises_to_1": smoothed(lambda n: min(1.0, 0.6 + n / 10)),
    "smoothing_alternates": smoothed(lambda n: 0.1 + 0.1 * (n % 2)),
    "scale_grows": scaled(lambda n: 1 + n / 10),
    "scale_at_0_and_1": scaled(lambda n: (n % 4) * 0.5),
    "scale_falls_to_0": scaled(lambda n: max(0.0, 1 - n / 4)),
    "scale_meets_09": scaled(lambda n: 0.5 + n / 10),
    "scale_meets_2": scaled(lambda n: 1.5 + n / 4),
    "divided": lambda f, model, x, y, n: f.cross_entropy(model(x), y) / (0.5 + n / 4),
    "subtracted": lambda f, model, x, y, n: -(n / 4 - f.cross_entropy(model(x), y)),
    "second_term": second_term,
    "shorter": shorter,
    "above_fractions": above(lambda n: n / 4),
    "above_integers": above(lambda n: n),
    "power": raised(lambda n: 2 + n % 2),
    "square": raised(lambda n: 2),
    "exponent_grows": raised(lambda n: 1.5 + n / 4),
    "peeked": peeked,
    "masked": masked,
    "clamped": clamped,
    "two_terms": two_terms,
    "list": listed,
}
CASES |= {
    # ---- numbers of the user
    "scaled_loss": {"step": "scale_grows"},
    "adamw_scaled_loss": {"optimizer": ADAMW, "step": "scale_grows"},
    "scaled_loss_read": {"step": "scale_grows", "read_every": 1},
    "scaled_loss_read_each_third_step": {"step": "scale_grows", "read_every": 3},
    "scaled_loss_partial_batch": {"samples": 100, "step": "scale_grows"},
    "scaled_loss_evaluate": {"step": "scale_grows", "evaluate": True},
    "scaled_loss_dropout": {"step": "scale_grows", "dropout": 0.1},
    "scale_at_0_and_1": {"step": "scale_at_0_and_1"},
    "momentum_scale_at_0_and_1": {"optimizer": MOMENTUM, "step": "scale_at_0_and_1"},
    "scale_falls_to_0": {"step": "scale_falls_to_0"},
    "scale_falls_with_rate": {"step": "scale_falls_to_0", "scheduler": linear(6)},
    "scale_meets_momentum": {"optimizer": MOMENTUM, "step": "scale_meets_09"},
    "scale_meets_rate": {"optimizer": {**SGD, "lr": 2.0}, "step": "scale_meets_2", "factors": [-1.0] * 9},
    "scale_meets_accumulation": {"samples": 128, "accumulation": 2, "step": "scale_meets_2"},
    "adamw_scale_accumulate_3_of_4": {
        "samples": 128, "optimizer": ADAMW, "accumulation": 3, "step": "scale_at_0_and_1",
    },
    "adamw_scaled_loss_read_linear_to_zero": {
        "optimizer": ADAMW, "step": "scale_grows", "read_every": 1, "scheduler": linear(6),
    },
    "accumulate_2_of_4_read": {"samples": 128, "accumulation": 2, "read_every": 1},
    "second_term_read": {"step": "second_term", "read_every": 2},
    "lengths_read": {"step": "shorter", "epochs": 4, "read_every": 1},
    "divided_loss": {"step": "divided"},
    "subtracted_loss": {"step": "subtracted"},
    "second_term": {"step": "second_term"},
    "adamw_second_term": {"optimizer": ADAMW, "step": "second_term"},
    "lengths": {"step": "shorter", "epochs": 5},
    "momentum_lengths": {"optimizer": MOMENTUM, "step": "shorter", "epochs": 5},
    "above_fractions": {"step": "above_fractions"},
    "above_integers": {"step": "above_integers"},
    "power": {"step": "power"},
    "masked": {"step": "masked"},
    "clamped": {"step": "clamped"},
    "two_terms_meet": {"step": "two_terms"},
    "list": {"step": "list"},
    "clip_limits": {"limits": [0.5 + n / 4 for n in range(9)]},
    "adamw_clip_limits_scaled": {
        "optimizer": ADAMW, "step": "scale_meets_2", "limits": [2 - n / 4 for n in range(8)] + [1.0],
    },
}
# Update rules of the user: the new parameter from a parameter, its gradient and its state.
def mean_of_signs(p, g, state, lr, step):
    state["mean"] = state.get("mean", g * 0) * 0.9 + g * 0.1
    p.sub_(state["mean"].sign() * lr)


RULES = {
    "halves": lambda p, g, state, lr, step: p.sub_(g * 0.5 * lr),
    "mean_of_signs": mean_of_signs,
    "by_step": lambda p, g, state, lr, step: p.sub_(g * lr / step),
}
CASES |= {
    # ---- values that no output depends on
    "unused_nodes": {"step": "unused"},
    "adamw_unused_nodes_read": {"optimizer": ADAMW, "step": "unused", "read_every": 2},
    # ---- update rules of the user
    "rule": {"rule": "halves"},
    "rule_linear_to_zero": {"rule": "halves", "scheduler": linear(6)},
    "rule_with_state": {"rule": "mean_of_signs"},
    "rule_of_the_step": {"rule": "by_step"},
    "rule_meets_half": {"rule": "halves", "optimizer": {**SGD, "lr": 1.0}, "factors": [0.9] * 4 + [0.5] * 5},
}
CASES |= {
    # ---- label smoothing that changes
    "smoothed": {"step": "smoothing_alternates"},
    "smoothing_grows": {"step": "smoothing_grows"},
    "adamw_smoothing_grows": {"optimizer": ADAMW, "step": "smoothing_grows"},
    "smoothing_grows_read": {"step": "smoothing_grows", "read_every": 1},
    "smoothing_falls_to_0": {"step": "smoothing_falls_to_0"},
    "smoothing_rises_to_1": {"step": "smoothing_rises_to_1"},
}
CASES |= {
    # ---- exponents, and values that are read before the loss exists
    "square": {"step": "square"},
    "exponent_grows": {"step": "exponent_grows"},
    "peeked": {"step": "peeked"},
}
DEFAULTS = {"samples": 96, "batch": 32, "epochs": 3, "optimizer": SGD, "accumulation": 1}


def factor(spec, step):
    """Learning rate factor of a step, counted from 0, as in transformers and torch."""
    if step < spec.get("warmup", 0):
        return step / spec["warmup"]
    if spec["type"] == "linear":
        return max(0.0, (spec["length"] - step) / (spec["length"] - spec["warmup"]))
    if spec["type"] == "cosine":
        return max(0.0, 0.5 * (1.0 + math.cos(math.pi * step / spec["length"])))
    if spec["type"] == "step":
        return spec["gamma"] ** (step // spec["every"])
    return 1.0


def measure(case):
    if case.get("bf16"):
        os.environ["XLA_USE_BF16"] = "1"
    import torch
    import torch_xla
    import torch_xla.debug.metrics as metrics
    import torch_xla.distributed.parallel_loader as loaders
    from torch import nn

    device = torch_xla.device()
    torch.manual_seed(0)
    samples, accumulation = case["samples"], case["accumulation"]
    window = case.get("no_sync", accumulation)
    dropout = [nn.Dropout(case["dropout"])] if "dropout" in case else []
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), *dropout, nn.Linear(32, 10)).to(device)
    keys = dict(case["optimizer"])
    kind = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "adagrad": "Adagrad"}[keys.pop("type")]
    optimizer = getattr(torch.optim, kind)(model.parameters(), **keys)
    states = {p: {} for p in model.parameters()}
    make_loss = STEPS[case["step"]] if "step" in case else lambda f, model, x, y, n: f.cross_entropy(model(x), y)
    data = torch.utils.data.TensorDataset(torch.randn(samples, 64), torch.randint(10, (samples,)))
    plain = torch.utils.data.DataLoader(data, case["batch"], drop_last=case.get("drop_last", False))
    if case.get("loader", True):
        batches = loaders.MpDeviceLoader(plain, device, batches_per_execution=case.get("batches_per_execution", 1))
    else:
        batches = [(x.to(device), y.to(device)) for x, y in plain]

    def counts():
        torch_xla._XLAC._xla_wait_device_ops(devices=[])
        names = ("CompileTime", "ExecuteTime")
        return [(metrics.metric_data(n) or (0,))[0] for n in names]

    def rate(update):
        if "factors" in case:
            return case["factors"][update]
        return factor(case["scheduler"], update) if "scheduler" in case else 1.0

    def train(step, updates):
        for index, (x, y) in enumerate(batches):
            if index > 0:
                steps.append(counts())
            step += 1
            loss = make_loss(nn.functional, model, x, y, step - 1)
            (loss / accumulation if accumulation > 1 else loss).backward()
            if (index + 1) % window == 0 or index + 1 == len(batches):
                if "clip_grad_norm" in case:
                    nn.utils.clip_grad_norm_(model.parameters(), case["clip_grad_norm"])
                if "limits" in case:
                    nn.utils.clip_grad_norm_(model.parameters(), case["limits"][updates])
                if "clip_grad_value" in case:
                    nn.utils.clip_grad_value_(model.parameters(), case["clip_grad_value"])
                for group in optimizer.param_groups:
                    group["lr"] = keys["lr"] * rate(updates)
                if "rule" in case:
                    with torch.no_grad():
                        for p, state in states.items():
                            RULES[case["rule"]](p, p.grad, state, keys["lr"] * rate(updates), updates + 1)
                else:
                    optimizer.step()
                optimizer.zero_grad()
                updates += 1
            if "read_every" in case and step % case["read_every"] == 0:
                loss.item()
        steps.append(counts())
        return step, updates

    def evaluate():
        model.eval()
        with torch.no_grad():
            hits = None
            for x, y in batches:
                found = (model(x).argmax(1) == y).sum()
                hits = found if hits is None else hits + found
            hits.item()
        model.train()
        evaluations.append(counts())

    steps, evaluations, step, updates = [], [], 0, 0
    for _ in range(case["epochs"]):
        step, updates = train(step, updates)
        if case.get("evaluate"):
            evaluate()
    wanted = ("MarkStep", "CachedCompile", "UncachedCompile", "aten::_local_scalar_dense", "DeviceDataCacheMiss")
    counters = {name: metrics.counter_value(name) or 0 for name in wanted}
    return {"steps": steps, "counters": counters, **({"evaluations": evaluations} if evaluations else {})}


def described(name):
    return {**DEFAULTS, **CASES[name]}


def main(script, names, measure, file, about):
    """Runs a script on these cases: prints the case that its argument names, or writes all, each in its own process."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(described(sys.argv[1]))))
        return
    import torch_xla
    from golden_io import write

    cases = []
    for name in names:
        run = subprocess.run([sys.executable, script, name], capture_output=True, text=True, check=True)
        measured = json.loads(run.stdout.splitlines()[-1])
        cases.append({"name": name, **described(name), **measured})
        print(name, measured, file=sys.stderr)
    write(file, about, cases, versions=(torch_xla,))


if __name__ == "__main__":
    main(
        __file__,
        CASES,
        measure,
        "xla/compiles.json",
        "Compiles and executions of torch_xla, after each training batch.",
    )
