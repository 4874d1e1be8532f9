"""buckets.json: which gradients PyTorch's DistributedDataParallel reduces together.

`cut` cases call DDP's function that divides a list of tensors. `ddp` cases train a model in one process over gloo and
read its buckets from the second step on.
"""

import random
import sys

sys.path.append(sys.path.pop(0))  # DDP must import the standard profile module, not the script in this folder

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from golden_io import write

MIB = 2**20
FIRST, CAP = dist._DEFAULT_FIRST_BUCKET_BYTES, 25 * MIB


def gpt_bytes(layers, width, vocabulary, length):
    """Sizes of GPT-2's parameters in f32, in order of registration."""
    block = [width, width, 3 * width * width, 3 * width, width * width, width]
    block += [width, width, 4 * width * width, 4 * width, 4 * width * width, width]
    return [4 * n for n in [vocabulary * width, length * width] + layers * block + [width, width]]


def random_bytes(seed, count, most):
    generator = random.Random(seed)
    return [4 * generator.randrange(most) for _ in range(count)]


CUT = {
    "one": ([4], FIRST, CAP),
    "one_too_large": ([30 * MIB], FIRST, CAP),
    "fills_the_first": ([FIRST, 4, CAP - 4, 4], FIRST, CAP),
    "just_under": ([FIRST - 4, CAP - 4, CAP - 8, 4], FIRST, CAP),
    "empty_tensors": ([0, FIRST, 0, 0, CAP, 0], FIRST, CAP),
    "one_cap": ([3, 5, 8, 1, 1, 1, 20, 2], 8, 8),
    "each_by_itself": ([3, 5, 8, 1], 1, 1),
    "gpt2": (gpt_bytes(12, 768, 50257, 1024)[::-1], FIRST, CAP),
    "gpt2_medium_half": ([n // 2 for n in gpt_bytes(24, 1024, 50257, 1024)][::-1], FIRST, CAP),
    "random_small": (random_bytes(1, 60, 40), 100, 400),
    "random_large": (random_bytes(2, 200, MIB), FIRST, CAP),
}


def mlp(*widths, bias=True):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Blocks(nn.Module):
    """Residual blocks with a norm, a tied head, and no bias in every second matrix."""

    def __init__(self, width, layers, vocabulary):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width, bias=False))
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.norm(x)


DDP = {
    "mlp": (lambda: mlp(784, 1024, 1024, 10), torch.randn(4, 784), None),
    "mlp_deep": (lambda: mlp(256, *[1024] * 12, 10), torch.randn(4, 256), None),
    "mlp_two_mib": (lambda: mlp(784, 1024, 1024, 10), torch.randn(4, 784), 2),
    "mlp_one_mib": (lambda: mlp(256, *[512] * 6, 10, bias=False), torch.randn(4, 256), 1),
    "blocks": (lambda: Blocks(512, 4, 4000), torch.randint(0, 4000, (2, 8)), None),
    "blocks_eight_mib": (lambda: Blocks(512, 4, 4000), torch.randint(0, 4000, (2, 8)), 8),
}


def cut_case(name, sizes, first, cap):
    tensors = [torch.empty(size, dtype=torch.uint8, device="meta") for size in sizes]
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, [first, cap])
    return {"name": f"cut/{name}", "bytes": sizes, "first_cap": first, "cap": cap, "buckets": buckets}


def ddp_case(name, make, batch, cap_mb):
    model = DistributedDataParallel(make(), bucket_cap_mb=cap_mb)
    for _ in range(3):
        model(batch).sum().backward()
    log = model._get_ddp_logging_data()
    assert log["has_rebuilt_buckets"] == 1
    buckets = [[int(i) for i in text.split()] for text in log["rebuilt_per_bucket_param_indices"].split(", ")]
    sizes = [p.numel() * p.element_size() for p in model.parameters()]
    return {"name": f"ddp/{name}", "bytes": sizes, "cap": log["bucket_cap_bytes"], "buckets": buckets}


def main():
    torch.manual_seed(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    cases = [cut_case(name, *item) for name, item in CUT.items()]
    cases += [ddp_case(name, *item) for name, item in DDP.items()]
    dist.destroy_process_group()
    write("buckets.json", "buckets of gradients: indices of tensors, or of a model's parameters", cases)


if __name__ == "__main__":
    main()
