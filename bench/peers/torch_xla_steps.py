"""PyTorch/XLA on the CPU on one workload: torch_xla_steps.py NAME SECONDS -> one line of JSON."""
import os
import sys
import warnings

name, seconds = sys.argv[1], float(sys.argv[2])
os.environ["PJRT_DEVICE"] = "CPU"
warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch_xla  # noqa: E402
import torch_xla.debug.metrics as met  # noqa: E402
from torch import nn  # noqa: E402

from clock import measure, report  # noqa: E402
from workloads import LAYERS, WORKLOADS  # noqa: E402


class Block(nn.Module):
    """Like that of bench/recipes/layers.lua."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        q, k, v = (part(x).reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        scores = q @ k.transpose(2, 3) / (width // self.heads) ** 0.5
        future = torch.ones_like(scores).tril() == 0
        weights = scores.masked_fill(future, -1e9).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, width, heads, layers, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.blocks(self.tokens(ids) + self.places(places))).flatten(0, 1)


def mlp(widths):
    layers = []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        layers += [nn.Linear(a, b)] + ([nn.ReLU()] if i + 2 < len(widths) else [])
    return nn.Sequential(*layers)


device = torch_xla.device()
if name == "layers":
    samples, batch = 1024, LAYERS["batch"]
    model = Gpt(LAYERS["vocabulary"], LAYERS["width"], LAYERS["heads"], LAYERS["layers"], LAYERS["length"])
    features = torch.randint(LAYERS["vocabulary"], (samples, LAYERS["length"]))
    labels = torch.randint(LAYERS["vocabulary"], (samples, LAYERS["length"]))
else:
    w = WORKLOADS[name]
    samples, batch, model = w["samples"], w["batch"], mlp(w["widths"])
    features, labels = torch.randn(samples, w["widths"][0]), torch.randint(w["widths"][-1], (samples,))
model = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def batches():
    while True:
        order = torch.randperm(samples)
        for i in range(0, samples - batch + 1, batch):
            rows = order[i:i + batch]
            yield features[rows].to(device), labels[rows].to(device)


source = batches()


def step():
    x, y = next(source)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y.flatten())
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    return loss.detach()


figures = measure(step, lambda loss: loss.item(), seconds)
compiles, nanoseconds, _ = met.metric_data("CompileTime")
report(peer="torch_xla " + torch_xla.__version__.split("+")[0], compiles=compiles, compile_s=nanoseconds * 1e-9, **figures)
