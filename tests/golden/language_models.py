"""language_models.json and language/: trainings of small language models, step by step, without randomness.

Reference: models of `transformers`, or the same computation in plain PyTorch where it has no such option, in f32, windows
of a text in file order. Weights are large enough to tell the usual mistakes apart: the script stops unless each of them
changes the first losses or logits by at least MISSES tolerances.
"""

import os
import sys

sys.path.append(sys.path.pop(0))  # torch must import the standard profile module, not the script in this folder

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file
from torch import nn

from golden_io import FOLDER, flow, number, numbers, tensor, write

STEPS, BATCH, LENGTH, RATE = 10, 3, 12, 0.01
TOLERANCE = {"loss": 1e-4, "logits": 1e-5}
MISSES = 5
TEXT = (
    "the cat sat on the mat, and the dog sat on the log.\n"
    "a bird in the hand is worth two in the bush;\n"
    "the early bird catches the worm, but the second mouse gets the cheese!\n"
    "all that glitters is not gold. who said so? a man of the sea.\n"
) * 3
WIDTH, HEADS, LAYERS = 16, 4, 2

CASES = {
    "gpt_tanh": {"model": {"layers": LAYERS, "heads": HEADS, "width": WIDTH, "activation": "gelu_tanh"}},
    "gpt_nano": {
        "model": {
            "layers": LAYERS,
            "heads": HEADS,
            "width": WIDTH,
            "activation": "gelu",
            "bias": False,
            "tie_weights": False,
            "mlp_width": 40,
            "context": 20,
        }
    },
}


def windows(text):
    """Samples of LENGTH tokens, whose labels are the next tokens; characters are numbered in sorted order."""
    characters = sorted(set(text))
    ids = torch.tensor([characters.index(c) for c in text])
    count = (len(ids) - 1) // LENGTH
    cut = lambda first: torch.stack([ids[first + i * LENGTH : first + (i + 1) * LENGTH] for i in range(count)])
    return cut(0), cut(1), len(characters)


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads, self.scaled, self.masked = heads, True, True
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.c_attn(x).split(c, 2))
        scores = q @ k.transpose(2, 3) * ((c // self.heads) ** -0.5 if self.scaled else 1)
        if self.masked:
            scores = scores.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Mlp(nn.Module):
    def __init__(self, width, hidden, bias, approximate):
        super().__init__()
        self.approximate = approximate
        self.c_fc, self.c_proj = nn.Linear(width, hidden, bias=bias), nn.Linear(hidden, width, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate=self.approximate))


class Block(nn.Module):
    def __init__(self, width, heads, hidden, bias, approximate):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width, bias=bias), Attention(width, heads, bias)
        self.ln_2, self.mlp = nn.LayerNorm(width, bias=bias), Mlp(width, hidden, bias, approximate)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """GPT-2 with the options of nanoGPT."""

    def __init__(self, spec, vocabulary):
        super().__init__()
        width, bias = spec["width"], spec.get("bias", True)
        approximate = {"gelu": "none", "gelu_tanh": "tanh"}[spec["activation"]]
        hidden = spec.get("mlp_width", 4 * width)
        blocks = [Block(width, spec["heads"], hidden, bias, approximate) for _ in range(spec["layers"])]
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, width),
                "wpe": nn.Embedding(spec.get("context", LENGTH), width),
                "h": nn.ModuleList(blocks),
                "ln_f": nn.LayerNorm(width, bias=bias),
            }
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if spec.get("tie_weights", True):
            self.lm_head.weight = self.transformer["wte"].weight

    def forward(self, ids):
        x = self.transformer["wte"](ids) + self.transformer["wpe"](torch.arange(ids.shape[1]))
        for block in self.transformer["h"]:
            x = block(x)
        return self.lm_head(self.transformer["ln_f"](x))


def initial_state(model):
    """Random weights of all parameters. Biases and norms are not 0 and 1."""
    generator = torch.Generator().manual_seed(11)
    state = {}
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=generator)
        is_norm = ".ln_" in name and name.endswith("weight")
        state[name] = (1 + 0.3 * noise if is_norm else 0.35 * noise).contiguous()
    return state


def train(model, initial, samples, labels, dtype):
    model.load_state_dict(initial, strict=False)
    model.to(dtype)
    logits = model(samples[:BATCH]).detach()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, foreach=False)
    losses, norms = [], []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(samples[rows]).flatten(0, 1), labels[rows].flatten())
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item())
        losses.append(loss.item())
        optimizer.step()
    return losses, norms, logits


def mistakes(spec):
    """The usual ones: functions that change a model."""

    def each(kind, change):
        def apply(model):
            for module in model.modules():
                if isinstance(module, kind):
                    change(module)

        return apply

    def transposed(module):  # a square weight
        module.c_proj.weight.data = module.c_proj.weight.data.T.contiguous()

    other = "none" if spec["activation"] == "gelu_tanh" else "tanh"
    return {
        "other gelu": each(Mlp, lambda m: setattr(m, "approximate", other)),
        "eps 1e-3": each(nn.LayerNorm, lambda m: setattr(m, "eps", 1e-3)),
        "no scale": each(Attention, lambda m: setattr(m, "scaled", False)),
        "no mask": each(Attention, lambda m: setattr(m, "masked", False)),
        "other heads": each(Attention, lambda m: setattr(m, "heads", 2)),
        "transposed": each(Attention, transposed),
    }


def check_mistakes(name, spec, vocabulary, initial, samples, logits):
    for mistake, change in mistakes(spec["model"]).items():
        model = Gpt(spec["model"], vocabulary)
        model.load_state_dict(initial, strict=False)
        change(model)
        miss = (model(samples[:BATCH]) - logits).abs().max().item() / TOLERANCE["logits"]
        assert miss >= MISSES, f"{name}: {mistake} misses by {miss} tolerances only"
        print(f"{name}: {mistake} misses by {miss:.0f} tolerances")


def check_transformers(spec, vocabulary, initial, samples, logits):
    """Gpt above computes what GPT2LMHeadModel does, whose projections are (in, out)."""
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, activation_function="gelu_new",
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    turn = lambda name, x: x.T if x.dim() == 2 and ".h." in name else x
    model.load_state_dict({name: turn(name, x) for name, x in initial.items()}, strict=False)
    difference = (model(samples[:BATCH]).logits - logits).abs().max().item()
    assert difference < TOLERANCE["logits"] / 2, difference


def recipe_of(name, spec):
    return {
        "schema_version": 1,
        "name": name,
        "model": {"type": "gpt"} | spec["model"] | {"init_from": f"{name}.safetensors"},
        "data": {
            "train": {"format": "text", "path": "proverbs.txt", "sequence_length": LENGTH},
            "batch_size": BATCH,
            "shuffle": False,
        },
        "optimizer": {"type": "adamw", "lr": RATE, "weight_decay": 0.1},
        "train": {"steps": STEPS},
        "log": {"every": "1 step"},
    }


def case(name, spec):
    samples, labels, vocabulary = windows(TEXT)
    assert len(samples) >= STEPS * BATCH
    model = Gpt(spec["model"], vocabulary)
    initial = initial_state(model)
    losses, norms, logits = train(model, initial, samples, labels, torch.float32)
    exact, _, exact_logits = train(Gpt(spec["model"], vocabulary), initial, samples, labels, torch.float64)
    noise = max(abs(a - b) for a, b in zip(losses, exact))
    assert noise < TOLERANCE["loss"] / 4 and (logits - exact_logits).abs().max() < TOLERANCE["logits"] / 2
    check_mistakes(name, spec, vocabulary, initial, samples, logits)
    if name == "gpt_tanh":
        check_transformers(spec, vocabulary, initial, samples, logits)
    folder = os.path.join(FOLDER, "language")
    with open(os.path.join(folder, f"{name}.yaml"), "w", encoding="utf-8") as file:
        file.write("# Written by ../language_models.py; what each step gives is in ../language_models.json.\n")
        file.writelines(f"{key}: {flow(value)}\n" for key, value in recipe_of(name, spec).items())
    path = os.path.join(folder, f"{name}.safetensors")
    save_file(initial, path)
    os.chmod(path, 0o644)
    return {
        "name": name,
        "noise": {"loss": number(noise)},
        "loss": numbers(losses),
        "grad_norm": numbers(norms),
        "lr": numbers(STEPS * [RATE]),
        "vocabulary": vocabulary,
        "ids": samples[0].tolist(),  # of the first sample
        "logits": tensor(logits[0]),
    }


if __name__ == "__main__":
    with open(os.path.join(FOLDER, "language", "proverbs.txt"), "w", encoding="utf-8") as file:
        file.write(TEXT)
    write(
        "language_models.json",
        "Losses and gradient norms of each step, and logits of the first sample before the first step.",
        [case(name, spec) for name, spec in CASES.items()],
        versions=(transformers,),
    )
