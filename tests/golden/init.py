"""init.json: the distributions of PyTorch's default initialisers, as bounds and moments instead of samples.

nn.Linear draws its weight by kaiming_uniform_(a=√5) and its bias from the same range: U(−1/√fan_in, 1/√fan_in).
nn.Conv2d does the same with fan_in = in / groups · kernel elements, nn.ConvTranspose2d with out / groups · kernel elements.
nn.Embedding draws from N(0, 1). nn.LayerNorm starts at weight 1, bias 0. Each row is checked against torch.
"""

import math

import torch
from torch import nn

from golden_io import number, write

DRAWS = 200_000  # samples for the check


def uniform(bound):
    return {"kind": "uniform", "low": -bound, "high": bound, "mean": 0.0, "std": bound / math.sqrt(3)}


def normal():
    return {"kind": "normal", "mean": 0.0, "std": 1.0}


def constant(value):
    return {"kind": "constant", "mean": value, "std": 0.0}


def linear(fan_in, fan_out):
    bound = 1 / math.sqrt(fan_in)
    rows = {"weight": ([fan_out, fan_in], uniform(bound)), "bias": ([fan_out], uniform(bound))}
    return f"linear/{fan_in}_{fan_out}", lambda: nn.Linear(fan_in, fan_out), rows


def conv(module, inputs, outputs, kernel, groups=1):
    """`module`: the name of a class of nn, which is also that of the case."""
    is_transposed = "Transpose" in module
    shape = [inputs, outputs // groups] if is_transposed else [outputs, inputs // groups]
    row = uniform(1 / math.sqrt(shape[1] * math.prod(kernel)))
    rows = {"weight": (shape + list(kernel), row), "bias": ([outputs], row)}
    name = f"{module}/{inputs}_{outputs}_{'x'.join(map(str, kernel))}" + (f"_groups_{groups}" if groups > 1 else "")
    return name, lambda: getattr(nn, module)(inputs, outputs, kernel, groups=groups), rows, {"groups": groups}


def embedding(rows, width):
    return f"embedding/{rows}_{width}", lambda: nn.Embedding(rows, width), {"weight": ([rows, width], normal())}


def layer_norm(width):
    rows = {"weight": ([width], constant(1.0)), "bias": ([width], constant(0.0))}
    return f"layer_norm/{width}", lambda: nn.LayerNorm(width), rows


CASES = [linear(1, 8), linear(13, 16), linear(64, 128), linear(784, 256)]
CASES += [embedding(10, 4), embedding(100, 32), layer_norm(16)]
CASES += [conv("Conv1d", 3, 8, [5]), conv("Conv2d", 3, 16, [3, 3]), conv("Conv2d", 8, 4, [3, 5], groups=4)]
CASES += [conv("ConvTranspose1d", 3, 8, [4]), conv("ConvTranspose2d", 16, 3, [3, 3])]
CASES += [conv("ConvTranspose2d", 4, 8, [2, 3], groups=2)]


def check(drawn, row):
    """Checks that the moments of many draws are within five standard errors (uniform or normal) of the row's."""
    error = 5 / math.sqrt(drawn.numel())
    assert abs(drawn.mean().item() - row["mean"]) <= error * row["std"]
    assert abs(drawn.std().item() - row["std"]) <= error * row["std"]
    if row["kind"] == "uniform":
        assert row["low"] <= drawn.min() and drawn.max() <= row["high"]
        assert drawn.max() - drawn.min() > 0.99 * (row["high"] - row["low"])


def case(name, make, rows, attrs={}):
    for key, (shape, row) in rows.items():
        repeats = DRAWS // math.prod(shape) + 1
        drawn = torch.stack([getattr(make(), key).detach() for _ in range(repeats)])
        assert list(drawn.shape[1:]) == shape
        check(drawn.double(), row)
    return {
        "name": name,
        "module": name.split("/")[0],
        **attrs,
        "parameters": {
            key: {"shape": shape} | {k: v if isinstance(v, str) else number(v) for k, v in row.items()}
            for key, (shape, row) in rows.items()
        },
    }


def main():
    torch.manual_seed(1)
    write("init.json", "what PyTorch's default initialisers draw from", [case(*c) for c in CASES])


main()
