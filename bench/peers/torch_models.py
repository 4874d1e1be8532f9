"""The models of workloads.py in PyTorch, written as its users write them."""
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A transformer layer: norms before (GPT-2) or after (BERT) what they follow."""

    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))

    def widen(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.is_causal else "none"))

    def forward(self, x):
        if self.is_causal:
            x = x + self.attend(self.norm1(x))
            return x + self.widen(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.widen(x))


class Gpt(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.tokens, self.places = nn.Embedding(w["vocabulary"], w["width"]), nn.Embedding(w["length"], w["width"])
        self.blocks = nn.Sequential(*(Block(w["width"], w["heads"], True) for _ in range(w["layers"])))
        self.norm = nn.LayerNorm(w["width"])
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, ids):
        x = self.blocks(self.tokens(ids) + self.places.weight[:ids.shape[1]])
        return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


class Encoder(nn.Module):
    def __init__(self, w):
        super().__init__()
        width = w["width"]
        self.tokens, self.places = nn.Embedding(w["vocabulary"], width), nn.Embedding(w["length"], width)
        self.segments, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.blocks = nn.Sequential(*(Block(width, w["heads"], False) for _ in range(w["layers"])))
        self.pool, self.classifier = nn.Linear(width, width), nn.Linear(width, w["classes"])

    def forward(self, ids):
        x = self.norm(self.tokens(ids) + self.places.weight[:ids.shape[1]] + self.segments.weight[0])
        return self.classifier(torch.tanh(self.pool(self.blocks(x)[:, 0])))


def mlp(w):
    layers = []
    for i, (a, b) in enumerate(zip(w["widths"], w["widths"][1:])):
        layers.append(nn.Linear(a, b))
        if i + 2 < len(w["widths"]):
            layers += [nn.LayerNorm(b), nn.GELU(), nn.Dropout(0.1)] if w["extra"] else [nn.ReLU()]
            if w["hook"]:
                layers.append(nn.Dropout(0.2))
    return nn.Sequential(*layers)


def cnn(w):
    first, second = w["conv"]
    return nn.Sequential(nn.Conv2d(w["image"][0], first, 3), nn.ReLU(), nn.Conv2d(first, second, 3), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(*w["widths"][:2]), nn.ReLU(), nn.Linear(*w["widths"][1:]))


def resnet(w):
    from torchvision.models import resnet18

    model = resnet18(num_classes=w["widths"][1])
    model.conv1, model.maxpool = nn.Conv2d(w["image"][0], w["channels"][0], 3, padding=1, bias=False), nn.Identity()
    return model


def model_of(w):
    return {"mlp": mlp, "cnn": cnn, "resnet": resnet, "gpt": Gpt, "encoder": Encoder}[w["kind"]](w)


def samples_of(w):
    """(features, labels) of all samples."""
    n = w["samples"]
    if w["kind"] == "gpt":
        ids = torch.randint(w["vocabulary"], (n, w["length"] + 1))
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    if w["kind"] == "encoder":
        return torch.randint(w["vocabulary"], (n, w["length"])), torch.randint(w["classes"], (n,))
    shape = w["image"] if "image" in w else w["widths"][:1]
    return torch.randn(n, *shape), torch.randint(w["widths"][-1], (n,))
