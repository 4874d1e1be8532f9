"""Accelerate, data parallel on the CPU: accelerate_steps.py NAME STEPS, in each process of torch.distributed.run.

The global batch is that of the workload (split_batches). Rank 0 prints one line of JSON.
"""
import os
import sys

import accelerate
import torch
from torch import nn

from clock import measure, report
from workloads import WORKLOADS

name, steps = sys.argv[1], int(sys.argv[2])
w = WORKLOADS[name]
accelerator = accelerate.Accelerator(cpu=True, dataloader_config=accelerate.DataLoaderConfiguration(split_batches=True))
layers = []
for a, b in zip(w["widths"], w["widths"][1:]):
    layers += [nn.Linear(a, b), nn.ReLU()]
model = nn.Sequential(*layers[:-1])
data = torch.utils.data.TensorDataset(torch.randn(w["samples"], w["widths"][0]), torch.randint(w["widths"][-1], (w["samples"],)))
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True),
    torch.utils.data.DataLoader(data, batch_size=w["batch"], shuffle=True, drop_last=True))


def batches():
    while True:
        yield from loader


source = batches()


def step():
    x, y = next(source)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    accelerator.backward(loss)
    optimizer.step()
    return loss.detach()


figures = measure(step, lambda loss: loss.item(), at_least=max(1, steps // 10))
if accelerator.is_main_process:
    report(peer="Accelerate " + accelerate.__version__, **figures)
sys.stdout.flush()
accelerator.wait_for_everyone()
os._exit(0)  # a regular exit would abort because the loader is not exhausted
