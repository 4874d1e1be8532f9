"""mixup.json and mixup/: trainings of small MLPs on mixed images, step by step.

The draws come from their definition (draws.py): the partner of a sample and its weight, of the distribution Beta(alpha,
alpha), are functions of (seed, epoch, sample). PyTorch computes the rest: labels
are probabilities of the classes, as torchvision's MixUp makes them, and cross_entropy smooths and weights them. Each
case is also a recipe (mixup/NAME.yaml with its data and initial weights), as those of training.py.
"""

import math
import os
import sys

sys.path.append(sys.path.pop(0))  # profile.py of this folder would hide Python's module, which torch imports
import safetensors
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from draws import MIXUP, below, unit, words
from golden_io import FOLDER, flow, number, numbers, tensor, write

SAMPLES, CLASSES, SEED, EPOCHS = 24, 4, 5, 2

CASES = {
    "plain": {"alpha": 0.2, "batch_size": 5},
    "smoothed": {"alpha": 0.8, "batch_size": 5, "train": {"label_smoothing": 0.1}},
    "class_weights": {"alpha": 0.4, "batch_size": 5,
                      "train": {"label_smoothing": 0.1, "class_weights": [1.0, 0.5, 2.0, 3.0]}},
    "accumulation": {"alpha": 1.5, "batch_size": 3, "gradient_accumulation_steps": 2,
                     "train": {"label_smoothing": 0.2}},
}
MODEL = {"hidden": [8], "activation": "tanh"}
OPTIMIZER = {"type": "sgd", "lr": 0.5, "momentum": 0.9}


def normal(random):
    radius = math.sqrt(-2 * math.log(1 - unit(random)))
    return radius * math.cos(2 * math.pi * unit(random))


def log_gamma(shape, random):
    """Marsaglia and Tsang, 2000."""
    if shape < 1:
        larger = log_gamma(shape + 1, random)
        return larger + math.log(1 - unit(random)) / shape
    d = shape - 1 / 3
    while True:
        x = normal(random)
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(1 - unit(random)) < x * x / 2 + d - d * v + d * math.log(v):
            return math.log(d * v)


def draw(alpha, epoch, sample):
    """Returns the partner of a sample, and the weight of the sample itself."""
    random = words(SEED, MIXUP, epoch, sample)
    partner = below(SAMPLES, random)
    first, second = log_gamma(alpha, random), log_gamma(alpha, random)
    return partner, 1 / (1 + math.exp(second - first))


def mixed(alpha, epoch, images, labels):
    """Images and probabilities of an epoch, in f32."""
    partners, weights = zip(*(draw(alpha, epoch, i) for i in range(SAMPLES)))
    own = torch.tensor(weights, dtype=torch.float32)
    hot = F.one_hot(labels, CLASSES).float()
    partner = list(partners)
    images = own[:, None, None] * images + (1 - own)[:, None, None] * images[partner]
    return images, own[:, None] * hot + (1 - own)[:, None] * hot[partner]


def make_model():
    return nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def train(spec, images, labels, initial, dtype):
    settings = spec.get("train", {})
    weights = torch.tensor(settings["class_weights"], dtype=dtype) if "class_weights" in settings else None
    model = make_model().to(dtype)
    model.load_state_dict(initial)
    optimizer = torch.optim.SGD(model.parameters(), lr=OPTIMIZER["lr"], momentum=OPTIMIZER["momentum"])
    size = spec["batch_size"] * spec.get("gradient_accumulation_steps", 1)
    losses, norms, rates = [], [], []
    for epoch in range(EPOCHS):
        x, probabilities = (t.to(dtype) for t in mixed(spec["alpha"], epoch, images, labels))
        for begin in range(0, SAMPLES, size):
            optimizer.zero_grad()
            output = model(x[begin : begin + size].flatten(1))
            loss = F.cross_entropy(output, probabilities[begin : begin + size], weights,
                                   label_smoothing=settings.get("label_smoothing", 0.0))
            loss.backward()
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item())
            losses.append(loss.item())
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
    return losses, norms, rates, model.state_dict()


def save(arrays, name):
    path = os.path.join(FOLDER, "mixup", name)
    save_file(arrays, path)
    os.chmod(path, 0o644)


def write_recipe(name, spec):
    recipe = {"schema_version": 1, "name": f"mixup_{name}"}
    recipe |= {k: v for k, v in spec.items() if k == "gradient_accumulation_steps"}
    recipe["model"] = {"type": "mlp"} | MODEL | {"init_from": f"{name}.safetensors"}
    recipe["data"] = {
        "train": {"format": "safetensors", "path": "images.safetensors", "augment": [{"mixup": spec["alpha"]}]},
        "batch_size": spec["batch_size"],
        "shuffle": False,
        "seed": SEED,
    }
    recipe["optimizer"] = OPTIMIZER
    recipe["train"] = {"epochs": EPOCHS} | spec.get("train", {})
    recipe["log"] = {"every": "1 step"}
    with open(os.path.join(FOLDER, "mixup", f"{name}.yaml"), "w", encoding="utf-8") as file:
        file.write("# Written by ../mixup.py; what each step gives is in ../mixup.json.\n")
        file.writelines(f"{key}: {flow(value)}\n" for key, value in recipe.items())


def case(index, name, spec, images, labels):
    torch.manual_seed(200 + index)
    initial = make_model().state_dict()
    write_recipe(name, spec)
    save(initial, f"{name}.safetensors")
    losses, norms, rates, final = train(spec, images, labels, initial, torch.float32)
    exact_losses, _, _, exact = train(spec, images, labels, initial, torch.float64)
    probabilities = mixed(spec["alpha"], 0, images, labels)[1]
    return {
        "name": name,
        "probabilities": tensor(probabilities),  # of epoch 0
        "loss": numbers(losses),
        "grad_norm": numbers(norms),
        "lr": numbers(rates),
        "final": {k: tensor(v) for k, v in final.items()},
        "noise": {
            "loss": number(max(abs(a - b) for a, b in zip(losses, exact_losses))),
            "final": number(max((final[k] - exact[k]).abs().max().item() for k in final)),
        },
    }


if __name__ == "__main__":
    os.makedirs(os.path.join(FOLDER, "mixup"), exist_ok=True)
    generator = torch.Generator().manual_seed(9)
    labels = torch.arange(SAMPLES) % CLASSES
    images = (torch.rand(SAMPLES, 4, 4, generator=generator) * 64).round() / 64
    save({"features": images, "labels": labels}, "images.safetensors")
    cases = [case(i, name, spec, images, labels) for i, (name, spec) in enumerate(CASES.items())]
    write("mixup.json", "trainings on mixed images: loss, gradient norm and rate of each step, final weights", cases,
          versions=[safetensors])
