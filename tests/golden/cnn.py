"""cnn.json: convolutional networks of torch.nn and torchvision's ResNet-18: logits, and trainings step by step.

Weights and images are values of a formula, values_of() below, which the tests repeat; so the file is small. Losses,
running statistics and logits are those of PyTorch in f32. The script stops unless f64, and weights with another last
bit, give nearly the same losses, and unless each of some usual mistakes changes the figures of a case by several
tolerances.
"""

import math
import sys

sys.path.append(sys.path.pop(0))  # torch must import the standard profile module, not the script in this folder

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.func import functional_call

from golden_io import flow, numbers, tensor, write

STEPS, BATCH, SAMPLES, CLASSES = 10, 8, 40, 5
SHOWN = 6  # elements of each running statistic in the file
TOLERANCE = {"logits": 1e-5, "loss": 1e-4}
MISSES = 5


def hashes_of(name, count):
    """32-bit hashes of 0, 1, …: FNV-1a of the name, and the finalizer of MurmurHash3."""
    seed = 2166136261
    for byte in name.encode():
        seed = (seed ^ byte) * 16777619 % 2**32
    h = np.uint32(seed) + np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B9)
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return h ^ h >> np.uint32(16)


def values_of(name, shape, low, high):
    """Values between low and high, by the upper 24 bits of the hashes of the name."""
    u = (hashes_of(name, math.prod(shape)) >> np.uint32(8)).astype(np.float64) / 2**24
    return torch.from_numpy((low + (high - low) * u).astype(np.float32)).reshape(shape)


def range_of(name, shape):
    if name.endswith("running_var"):
        return 0.5, 1.5
    if name.endswith("weight") and len(shape) == 1:
        return 0.3, 0.9
    if len(shape) == 1:
        return -0.2, 0.2
    bound = math.sqrt(6 / math.prod(shape[1:]))
    return -bound, bound


def fill(model):
    """Gives all parameters and running statistics values of the formula, by their names."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                value.copy_(values_of(name, tuple(value.shape), *range_of(name, tuple(value.shape))))
    return model


def data_of(shape):
    labels = torch.from_numpy((hashes_of("labels", SAMPLES) >> np.uint32(8)).astype(np.int64) % CLASSES)
    return values_of("images", (SAMPLES, *shape), -1, 1), labels


# ---- models: the recipe's, and the same in PyTorch


def plain():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3), nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1), nn.Flatten(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, CLASSES),
    )  # fmt: skip


def grouped():
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.SiLU(),
        nn.Conv2d(8, 12, (3, 2), padding="same", dilation=2, groups=4), nn.GroupNorm(3, 12), nn.GELU(),
        nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), nn.Tanh(),
        nn.Flatten(), nn.Linear(12 * 5 * 4, CLASSES),
    )  # fmt: skip


def normed():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, bias=False),
        nn.BatchNorm2d(16, momentum=0.3, eps=1e-3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1),
        nn.Linear(16, CLASSES),
    )  # fmt: skip


def resnet(stem):
    model = torchvision.models.resnet18(num_classes=CLASSES)
    if stem == "small":
        model.conv1, model.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return model


class Renamed(nn.Module):
    """`normed` with the recipe's names: global_avg_pool flattens, so the output layer is layer 7."""

    def __init__(self):
        super().__init__()
        layers = list(normed())
        for i, layer in enumerate([*layers[:6], nn.Sequential(*layers[6:8]), layers[8]]):
            self.add_module(str(i), layer)

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x


def conv(size, **options):
    return {"conv": size, **options}


CASES = {
    "plain": {
        "shape": (3, 10, 9),
        "model": {
            "type": "cnn",
            "stack": [conv(8, kernel=3, padding=1), "relu", {"max_pool": 2}, conv(12, kernel=3), "relu",
                      {"max_pool": 3, "stride": 2, "padding": 1}, "flatten", {"linear": 16}, "relu"],
        },  # fmt: skip
        "torch": plain,
        "optimizers": {
            "sgd": {"type": "sgd", "lr": 0.05, "momentum": 0.9},
            "adamw": {"type": "adamw", "lr": 0.01},
        },
        "mistakes": {"no_momentum": lambda model, options: options.update(momentum=0)},
    },
    "grouped": {
        "shape": (3, 15, 13),
        "model": {
            "type": "cnn",
            "stack": [conv(8, kernel=5, stride=2, padding=2), "silu",
                      conv(12, kernel=[3, 2], padding="same", dilation=2, groups=4), {"group_norm": 3}, "gelu",
                      {"avg_pool": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
                      "tanh", "flatten"],
        },  # fmt: skip
        "torch": grouped,
        "optimizers": {
            "sgd": {"type": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True},
            "adamw": {"type": "adamw", "lr": 0.01},
        },
        "mistakes": {
            "counts_padding": lambda model, _: setattr(model[5], "count_include_pad", True),
            "gelu_tanh": lambda model, _: setattr(model[4], "approximate", "tanh"),
            "two_groups": lambda model, _: setattr(model[3], "num_groups", 2),
        },
    },
    "normed": {
        "shape": (3, 10, 9),
        "model": {
            "type": "cnn",
            "stack": [conv(8, kernel=3, bias=False), "batch_norm", "relu", conv(16, kernel=3, stride=2, bias=False),
                      {"batch_norm": {"momentum": 0.3, "eps": 1e-3}}, "relu", "global_avg_pool"],
        },  # fmt: skip
        "torch": Renamed,
        "optimizers": {
            "sgd": {"type": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
            "adamw": {"type": "adamw", "lr": 0.01},
        },
        "mistakes": {
            "eps": lambda model, _: setattr(model.get_submodule("4"), "eps", 1e-5),
            "no_decay": lambda model, options: options.update(weight_decay=0),
        },
    },
    "resnet18_small": {
        "shape": (3, 16, 16),
        "model": {"type": "resnet", "depth": 18, "stem": "small"},
        "torch": lambda: resnet("small"),
        "optimizers": {"sgd": {"type": "sgd", "lr": 0.00002, "momentum": 0.9}},
        "mistakes": {"eps": lambda model, _: setattr(model.bn1, "eps", 1e-3)},
    },
    "resnet18_imagenet": {
        "shape": (3, 32, 32),
        "model": {"type": "resnet", "depth": 18},
        "torch": lambda: resnet("imagenet"),
        "optimizers": {"sgd": {"type": "sgd", "lr": 0.00002, "momentum": 0.9}},
        "mistakes": {"eps": lambda model, _: setattr(model.bn1, "eps", 1e-3)},
    },
}
# How `normed` is trained in other ways with sgd: processes, and micro-batches of an optimizer step.
VARIANTS = {"ranks_2": (2, 1), "ranks_4": (4, 1), "micro_batches_2": (1, 2)}


def optimizer_of(parameters, options):
    options = dict(options)
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[options.pop("type")]
    return kind(parameters, **options)


def train(model, shape, options, ranks=1, micro_batches=1):
    """The losses of STEPS steps in file order, and the running statistics of rank 0 after them.

    Each rank has a part of every micro-batch and its own buffers, as in DistributedDataParallel without SyncBatchNorm
    and without broadcasts of buffers, which its forward pass in training does not read. The loss is the mean over all
    samples of the step.
    """
    x, labels = data_of(shape)
    x = x.to(next(model.parameters()).dtype)
    parameters = dict(model.named_parameters())
    buffers = [{name: value.clone() for name, value in model.named_buffers()} for _ in range(ranks)]
    optimizer = optimizer_of(model.parameters(), options)
    model.train()
    losses = []
    for step in range(STEPS):
        rows = torch.arange(BATCH) + step * BATCH % SAMPLES
        total = 0
        for micro_batch in rows.chunk(micro_batches):
            for rank, part in enumerate(micro_batch.chunk(ranks)):
                logits = functional_call(model, parameters | buffers[rank], x[part])
                total = total + F.cross_entropy(logits, labels[part], reduction="sum")
        loss = total / BATCH
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, buffers[0]


def logits_of(model, shape):
    with torch.no_grad():
        return model.eval()(data_of(shape)[0][:BATCH].to(next(model.parameters()).dtype))


def nudged(model, seed):
    """The model with weights that differ by about their rounding."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + 1e-7 * torch.randn(p.shape, generator=generator))
    return model


def largest(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


def check_mistakes(name, case, logits, losses):
    for mistake, make in case["mistakes"].items():
        model, options = fill(case["torch"]()), dict(case["optimizers"]["sgd"])
        make(model, options)
        wrong = logits_of(model, case["shape"])
        distances = {"logits": (wrong - logits).abs().max().item()}
        distances["loss"] = largest(train(model, case["shape"], options)[0], losses)
        assert any(d > MISSES * TOLERANCE[key] for key, d in distances.items()), (name, mistake, distances)


def result_of(losses, buffers):
    shown = {key: tensor(value.flatten()[:SHOWN]) for key, value in buffers.items()}
    return {"loss": numbers(losses), "running": shown}


def recipe_of(name, model, options):
    return "\n".join([
        "schema_version: 1",
        f"name: {name}",
        f"model: {flow(model | {'init_from': 'weights.safetensors'})}",
        "data:",
        "  train: {format: safetensors, path: images.safetensors}",
        "  eval: {format: safetensors, path: first.safetensors}",
        f"  batch_size: {BATCH}",
        "  shuffle: false",
        f"optimizer: {flow(options)}",
        f"train: {{steps: {STEPS}}}",
        "log: {every: 1 step}",
        "",
    ])  # fmt: skip


def cases_of(name, case):
    shape = case["shape"]
    logits = logits_of(fill(case["torch"]()), shape)
    for kind, options in case["optimizers"].items():
        losses, buffers = train(fill(case["torch"]()), shape, options)
        others = [fill(case["torch"]()).double(), *(nudged(fill(case["torch"]()), seed) for seed in range(3))]
        noise = max(largest(losses, train(other, shape, options)[0]) for other in others)
        print(f"{name}/{kind}: losses {losses[0]:.4f} … {losses[-1]:.4f}, rounding changes them by {noise:.1e}")
        assert noise < TOLERANCE["loss"] / 4, noise
        if kind == "sgd":
            check_mistakes(name, case, logits, losses)
        yield {
            "name": f"{name}/{kind}",
            "recipe": recipe_of(name, case["model"], options),
            "sample": list(shape),
            "logits": tensor(logits),
            **result_of(losses, buffers),
        }


def variants():
    case = CASES["normed"]
    for name, (ranks, micro_batches) in VARIANTS.items():
        model = fill(case["torch"]())
        yield name, result_of(*train(model, case["shape"], case["optimizers"]["sgd"], ranks, micro_batches))


def main():
    torch.set_num_threads(1)
    cases = [item for name, case in CASES.items() for item in cases_of(name, case)]
    write("cnn.json", "convolutional networks of PyTorch and torchvision", cases, [torchvision], samples=SAMPLES,
          batch=BATCH, classes=CLASSES, variants=dict(variants()))


main()
