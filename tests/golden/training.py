"""training.json and training/: whole trainings of small MLPs, step by step, without randomness.

Reference: plain PyTorch in f32, samples in file order. An optimizer step of K micro-batches has one exact gradient: the
sum of its samples' losses divided by the sum of their weights, for any sizes of the micro-batches. Each case is also a
recipe (training/NAME.yaml with its data and initial weights next to it), so that a test may run it like a user.
"""

import json
import math
import os

import safetensors
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

import schedules
from golden_io import FOLDER, flow, number, numbers, tensor, write

EPOCHS = 3
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "tanh": nn.Tanh}


def make_data():
    """classes: 50 samples of 13 features in 3 classes; target: 45 of 8 with one target; targets: the same with two."""
    generator = torch.Generator().manual_seed(7)
    labels = torch.randint(0, 3, (50,), generator=generator)
    centres = torch.randn(3, 13, generator=generator)
    features = centres[labels] + 0.8 * torch.randn(50, 13, generator=generator)
    x = torch.randn(45, 8, generator=generator)
    rule = torch.randn(8, 2, generator=generator)
    both = torch.tanh(x @ rule) + 0.1 * torch.randn(45, 2, generator=generator)
    return {
        "classes": {"features": features, "labels": labels},
        "target": {"features": x, "labels": both[:, 0].contiguous()},
        "targets": {"features": x, "labels": both},
    }


# name: data, batch size, then sections of the recipe
CASES = {
    "tanh_adamw": {
        "data": ("classes", 16),
        "model": {"hidden": [16], "activation": "tanh"},
        "optimizer": {"type": "adamw", "lr": 0.01},
    },
    "mse_sgd_momentum": {
        "data": ("target", 8),
        "model": {"hidden": [32, 16], "activation": "relu"},
        "optimizer": {"type": "sgd", "lr": 0.02, "momentum": 0.9},
    },
    "gelu_layer_norm_adam": {
        "data": ("classes", 16),
        "model": {"hidden": [24, 16], "activation": "gelu", "layer_norm": True},
        "optimizer": {"type": "adam", "lr": 0.01},
    },
    "clip_grad_norm": {
        "data": ("classes", 16),
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "sgd", "lr": 0.3},
        "train": {"clip_grad_norm": 0.4},
    },
    "no_decay_groups": {
        "data": ("classes", 16),
        "model": {"hidden": [16], "activation": "relu", "layer_norm": True},
        "optimizer": {
            "type": "adamw",
            "lr": 0.01,
            "weight_decay": 0.3,
            "groups": [{"params": ["*.bias", "1.weight"], "weight_decay": 0.0}],
        },
    },
    "accumulation": {
        "data": ("classes", 8),
        "gradient_accumulation_steps": 3,
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "sgd", "lr": 0.1, "momentum": 0.9, "nesterov": True},
    },
    "accumulation_class_weights": {
        "data": ("classes", 8),
        "gradient_accumulation_steps": 2,
        "model": {"hidden": [16], "activation": "tanh"},
        "optimizer": {"type": "adam", "lr": 0.01},
        "train": {"class_weights": [0.25, 1.0, 3.0]},
    },
    "linear_warmup": {
        "data": ("classes", 8),
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "adamw", "lr": 0.02},
        "scheduler": {"type": "linear", "warmup": "4 steps"},
    },
    "label_smoothing": {
        "data": ("classes", 16),
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "adagrad", "lr": 0.05},
        "train": {"label_smoothing": 0.1},
    },
    "huber_two_targets": {
        "data": ("targets", 8),
        "model": {"hidden": [16], "activation": "silu", "bias": False},
        "optimizer": {"type": "rmsprop", "lr": 0.003, "momentum": 0.5},
        "train": {"loss": "huber", "huber_delta": 0.5, "clip_grad_value": 0.05},
    },
    "one_cycle_sgd": {
        "data": ("target", 8),
        "model": {"hidden": [16], "activation": "tanh"},
        "optimizer": {"type": "sgd", "momentum": 0.9},
        "scheduler": {"type": "one_cycle", "max_lr": 0.2, "cycle_momentum": False},
    },
    "bf16": {
        "data": ("classes", 16),
        "mixed_precision": "bf16",
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "adamw", "lr": 0.01},
    },
    "one_cycle_sgd_without_momentum": {
        "data": ("target", 8),
        "model": {"hidden": [16], "activation": "tanh"},
        "optimizer": {"type": "sgd"},
        "scheduler": {"type": "one_cycle", "max_lr": 0.1},
    },
    "one_cycle_rmsprop_without_momentum": {
        "data": ("classes", 16),
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "rmsprop"},
        "scheduler": {"type": "one_cycle", "max_lr": 0.002},
    },
    # Both at once: first the norm is clipped, then each value.
    "clip_grad_norm_and_value": {
        "data": ("classes", 16),
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "sgd", "lr": 0.3},
        "train": {"clip_grad_norm": 0.4, "clip_grad_value": 0.05},
    },
    # Gradients overflow until the scale has shrunk, and again after it has grown.
    "fp16_scaler": {
        "data": ("classes", 8),
        "mixed_precision": "fp16",
        "scaler": {"init_scale": 4194304.0, "growth_interval": 3},
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "adamw", "lr": 0.01},
        "scheduler": {"type": "linear", "warmup": "4 steps"},
        "train": {"clip_grad_norm": 0.8},
    },
    "windows_over_epochs": {
        "data": ("classes", 10),
        "model": {"hidden": [16], "activation": "tanh"},
        "optimizer": {"type": "adamw", "lr": 0.01},
        "gradient_accumulation_steps": 4,
        "sync_with_dataloader": False,
        "scheduler": {"type": "linear"},
        "train": {"clip_grad_norm": 0.3},
    },
    # A skipped step must not advance: the momentum of the schedule, the first step of a momentum buffer, the count that
    # the decay of the rate uses.
    "fp16_one_cycle_sgd": {
        "data": ("target", 8),
        "mixed_precision": "fp16",
        "scaler": {"init_scale": 1048576.0, "growth_interval": 3},
        "model": {"hidden": [16], "activation": "tanh"},
        "optimizer": {"type": "sgd", "momentum": 0.9, "dampening": 0.2},
        "scheduler": {"type": "one_cycle", "max_lr": 0.1},
    },
    "fp16_adagrad_decay": {
        "data": ("classes", 8),
        "mixed_precision": "fp16",
        "scaler": {"init_scale": 4194304.0, "growth_interval": 2},
        "model": {"hidden": [16], "activation": "relu"},
        "optimizer": {"type": "adagrad", "lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.1},
        "scheduler": {"type": "linear", "warmup": "2 steps"},
    },
}
AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
OPTIMIZERS |= {"rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad}


def make_model(spec, inputs, outputs):
    layers, width, bias = [], inputs, spec.get("bias", True)
    for hidden in spec["hidden"]:
        layers.append(nn.Linear(width, hidden, bias=bias))
        if spec.get("layer_norm"):
            layers.append(nn.LayerNorm(hidden))
        layers.append(ACTIVATIONS[spec["activation"]]())
        width = hidden
    return nn.Sequential(*layers, nn.Linear(width, outputs, bias=bias))


def make_optimizer(model, spec):
    keys = {k: v for k, v in spec.items() if k not in ("type", "groups")}
    named = dict(model.named_parameters())
    groups = []
    for group in spec.get("groups", []):
        names = [n for n in named if any(n == p or (p[0] == "*" and n.endswith(p[1:])) for p in group["params"])]
        groups.append({"params": [named.pop(n) for n in names]} | {k: v for k, v in group.items() if k != "params"})
    return OPTIMIZERS[spec["type"]](groups + [{"params": list(named.values())}], foreach=False, **keys)


def make_scheduler(optimizer, spec, total_steps):
    keys = {k: int(v.split()[0]) if k == "warmup" else v for k, v in spec.items() if k != "type"}
    if spec["type"] != "constant":
        keys["length"] = total_steps
    return getattr(schedules, spec["type"])(optimizer, **keys)


def sample_losses(output, labels, train):
    """Per-sample losses, already weighted, and the samples' weights."""
    if not labels.is_floating_point():
        weights = torch.tensor(train["class_weights"], dtype=output.dtype) if "class_weights" in train else None
        smoothing = train.get("label_smoothing", 0.0)
        losses = F.cross_entropy(output, labels, weights, label_smoothing=smoothing, reduction="none")
        return losses, torch.ones_like(losses) if weights is None else weights[labels]
    target = labels.to(output.dtype).reshape(output.shape)
    if train.get("loss") == "huber":
        losses = F.huber_loss(output, target, delta=train["huber_delta"], reduction="none").mean(1)
    else:
        losses = F.mse_loss(output, target, reduction="none").mean(1)
    return losses, torch.ones_like(losses)


def windows(count, batch_size, accumulation, end_with_epoch):
    """Returns the optimizer steps of the epochs: lists of (begin, end) of their micro-batches.

    If steps end with the epoch, the last one may be short. Otherwise a step continues into the next epoch, and an
    incomplete last step is dropped.
    """
    epoch = [(i, min(i + batch_size, count)) for i in range(0, count, batch_size)]
    if end_with_epoch:
        return EPOCHS * [epoch[i : i + accumulation] for i in range(0, len(epoch), accumulation)]
    batches = EPOCHS * epoch
    return [batches[i : i + accumulation] for i in range(0, len(batches) - accumulation + 1, accumulation)]


def train(spec, data, initial, dtype, autocast=None, applied=()):
    """With autocast fp16, a loss scaler decides which steps are applied; otherwise `applied` does, or all are."""
    name, batch_size = spec["data"]
    x, labels = data[name]["features"].to(dtype), data[name]["labels"]
    settings = spec.get("train", {})
    model = build(spec, data).to(dtype)
    model.load_state_dict(initial)
    optimizer = make_optimizer(model, spec["optimizer"])
    accumulation = spec.get("gradient_accumulation_steps", 1)
    all_windows = windows(len(x), batch_size, accumulation, spec.get("sync_with_dataloader", True))
    scheduler = make_scheduler(optimizer, spec.get("scheduler", {"type": "constant"}), len(all_windows))
    scaler = torch.amp.GradScaler("cpu", enabled=autocast == torch.float16, **spec.get("scaler", {}))
    losses, norms, rates, scales = [], [], [], []
    for step, window in enumerate(all_windows):
        optimizer.zero_grad()
        loss_sum, weight_sum = 0.0, 0.0
        for begin, end in window:
            with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
                output = model(x[begin:end])
            each, weights = sample_losses(output.to(dtype), labels[begin:end], settings)
            parts = end - begin if scaler.is_enabled() else 1  # the scaled loss is the mean of a batch
            scaler.scale(each.sum() / parts).backward()
            loss_sum, weight_sum = loss_sum + each.detach().sum(), weight_sum + weights.sum()
        scaler.unscale_(optimizer)
        parameters = list(model.parameters())
        for p in parameters:
            p.grad *= parts
            p.grad /= weight_sum
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, settings.get("clip_grad_norm", float("inf"))).item())
        if "clip_grad_value" in settings:
            torch.nn.utils.clip_grad_value_(parameters, settings["clip_grad_value"])
        losses.append((loss_sum / weight_sum).item())
        rates.append(optimizer.param_groups[0]["lr"])
        if step >= len(applied) or applied[step]:
            scaler.step(optimizer)
        scaler.update()
        if applied[step] if applied else math.isfinite(norms[-1]):
            scheduler.step()
        scales.append(scaler.get_scale())
    return losses, norms, rates, scales, model.state_dict()


def build(spec, data):
    arrays = data[spec["data"][0]]
    labels = arrays["labels"]
    outputs = 3 if not labels.is_floating_point() else labels[0].numel()
    return make_model(spec["model"], arrays["features"].shape[1], outputs)


def recipe_of(name, spec):
    data, batch_size = spec["data"]
    recipe = {"schema_version": 1, "name": name}
    keys = ("mixed_precision", "scaler", "gradient_accumulation_steps", "sync_with_dataloader")
    recipe |= {k: v for k, v in spec.items() if k in keys}
    recipe["model"] = {"type": "mlp"} | spec["model"] | {"init_from": f"{name}.safetensors"}
    recipe["data"] = {
        "train": {"format": "safetensors", "path": f"{data}.safetensors"},
        "batch_size": batch_size,
        "shuffle": False,
    }
    recipe["optimizer"] = spec["optimizer"]
    if "scheduler" in spec:
        recipe["scheduler"] = spec["scheduler"]
    recipe["train"] = {"epochs": EPOCHS} | spec.get("train", {})
    recipe["log"] = {"every": "1 step"}
    return recipe


def write_recipe(name, recipe, initial):
    folder = os.path.join(FOLDER, "training")
    with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as file:
        file.write("# Written by ../training.py; what each step gives is in ../training.json.\n")
        file.writelines(f"{key}: {flow(value)}\n" for key, value in recipe.items())
    save(initial, f"{name}.safetensors")


def save(arrays, name):
    path = os.path.join(FOLDER, "training", name)
    save_file(arrays, path)
    os.chmod(path, 0o644)


def largest_difference(a, b):
    return max((x - y).abs().max().item() for x, y in zip(a, b))


def case(index, name, spec, data):
    torch.manual_seed(100 + index)
    initial = build(spec, data).state_dict()
    recipe = recipe_of(name, spec)
    write_recipe(name, recipe, initial)
    autocast = AUTOCAST.get(spec.get("mixed_precision"))
    losses, norms, rates, scales, final = train(spec, data, initial, torch.float32, autocast)
    applied = [math.isfinite(norm) for norm in norms]
    exact_losses, _, _, _, exact = train(spec, data, initial, torch.float64, applied=applied)
    return {
        "name": name,
        "recipe": recipe,
        "loss": numbers(losses),
        "grad_norm": numbers(norms),
        "lr": numbers(rates),
        **({"scale": numbers(scales)} if "scaler" in spec else {}),
        "noise": {
            "loss": number(max(abs(a - b) for a, b in zip(losses, exact_losses))),
            "final": number(largest_difference(final.values(), exact.values())),
        },
        "initial": {k: tensor(v) for k, v in initial.items()},
        "final": {k: tensor(v) for k, v in final.items()},
    }


def main():
    torch.set_num_threads(1)
    os.makedirs(os.path.join(FOLDER, "training"), exist_ok=True)
    data = make_data()
    for name, arrays in data.items():
        save(arrays, f"{name}.safetensors")
    cases = [case(i, name, spec, data) for i, (name, spec) in enumerate(CASES.items())]
    about = "three epochs of small MLPs: loss, gradient norm and rate of each step, weights before and after"
    shown = {n: {k: tensor(v) for k, v in arrays.items()} for n, arrays in data.items()}
    write("training.json", about, cases, versions=(safetensors,), data=shown)


main()
