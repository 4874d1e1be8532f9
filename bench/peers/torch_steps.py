"""PyTorch on one workload: torch_steps.py NAME THREADS DTYPE SECONDS [eager|compile] -> one line of JSON."""
import os
import sys

name, threads, dtype, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
mode = sys.argv[5] if len(sys.argv) > 5 else "eager"
os.environ["OMP_NUM_THREADS"] = str(threads)
import torch  # noqa: E402
from torch import nn  # noqa: E402

from clock import measure, report  # noqa: E402
from torch_models import model_of, samples_of  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

torch.set_num_threads(threads)
w = WORKLOADS[name]
model = model_of(w)
forward = torch.compile(model) if mode == "compile" else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
features, labels = samples_of(w)


def batches():
    while True:
        order = torch.randperm(w["samples"])
        for i in range(0, w["samples"] - w["batch"] + 1, w["batch"]):
            rows = order[i:i + w["batch"]]
            yield features[rows], labels[rows]


source, sums = batches(), torch.zeros(2)


def loss_of_hook(logits, y):
    """Like training_step of recipes/hooks/digits.lua, with metrics summed like runner's."""
    log_p = nn.functional.log_softmax(logits, 1)
    entropy = -(log_p.exp() * log_p).sum(1)
    with torch.no_grad():
        sums[0] += entropy.sum()
        sums[1] += (logits.argmax(1) == y).sum()
    return (nn.functional.cross_entropy(logits, y, reduction="none") - 0.02 * entropy).mean()


def step():
    x, y = next(source)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
        loss = (loss_of_hook if w.get("hook") else nn.functional.cross_entropy)(forward(x).float(), y.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


report(peer=f"PyTorch {torch.__version__.split('+')[0]}" + (", compiled" if mode == "compile" else ""),
       **measure(step, lambda loss: loss.item(), seconds))
