"""autocast.json: which ops run in reduced precision, by Accelerate on the CPU (bf16; fp16 by torch.autocast, because
Accelerate does not support it there).

All weights are 1, sums are exact, and bf16 and fp16 round x. So a value shows which dtype a product had.
"""

import contextlib

import accelerate
import torch
from accelerate.utils import AutocastKwargs
from torch import nn

from golden_io import tensor, write

X = torch.tensor([[1 + 2.0**-8, 2 + 2.0**-12, -1 - 2.0**-9], [3 + 2.0**-11, -2 - 2.0**-7, 0.5 + 2.0**-13]])
W = torch.tensor([[1 + 2.0**-9, 0.5], [1 + 2.0**-12, -0.25], [2.0, 1 - 2.0**-10]])


class Torch:
    """The part of an Accelerator that is used here, implemented with torch.autocast."""

    def autocast(self, handler=None):
        enabled = handler is None or handler.enabled
        return torch.autocast("cpu", torch.float16, enabled=enabled)

    def prepare(self, model):
        forward = torch.autocast("cpu", torch.float16)(model.forward)
        model.forward = lambda x: forward(x).float()
        return model


def make_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    return model


def results(accelerator):
    off = AutocastKwargs(enabled=False)
    model = accelerator.prepare(make_model())
    yield "outside", X @ W
    yield "model", model(X)
    yield "after the model", model(X) @ W.T
    with accelerator.autocast():
        yield "inside", X @ W
        yield "a layer inside", model[0](X)
        yield "the model inside", model(X)
        with accelerator.autocast(off):
            yield "off inside", X @ W
            yield "a layer off inside", model[0](X)
            yield "the model off inside", model(X)
            with accelerator.autocast():
                yield "on in off", X @ W
        yield "inside again", X @ W
    yield "outside again", X @ W


def case(dtype, accelerator):
    with torch.no_grad():
        return {"name": dtype, "results": {name: tensor(value) for name, value in results(accelerator)}}


def main():
    torch.set_num_threads(1)
    cases = [case("bf16", accelerate.Accelerator(cpu=True, mixed_precision="bf16")), case("fp16", Torch())]
    about = "which type products have in and outside regions of autocast"
    write("autocast.json", about, cases, versions=(accelerate,), x=tensor(X), w=tensor(W))


main()
