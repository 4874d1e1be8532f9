"""unused.json: trainings of a model whose branches are not in every loss, so that some parameters have no gradient.

Reference: torch.optim, which skips parameters whose grad is None (zero_grad sets it). A step has four micro-batches,
whose losses are added and divided by their samples, as DistributedDataParallel with find_unused_parameters does over
processes: a parameter has a gradient if any of them reaches it.
"""

import torch
import torch.nn.functional as F
from torch import nn

from golden_io import flat, number, tensor, write

STEPS, MICRO, SAMPLES = 12, 4, 3  # steps, micro-batches per step, samples of each
FEATURES, WIDTH, CLASSES = 5, 6, 3

SGD, ADAM, ADAMW, RMSPROP, ADAGRAD = (getattr(torch.optim, n) for n in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"))
# name, class, recipe keys, of the training
CASES = [
    ("sgd", SGD, {"lr": 0.1, "weight_decay": 0.1}, {}),
    ("sgd_momentum", SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.05}, {}),
    ("sgd_nesterov", SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True}, {"clip_grad_norm": 0.3}),
    ("adam", ADAM, {"lr": 0.03, "betas": [0.8, 0.95], "weight_decay": 0.1, "amsgrad": True}, {}),
    ("adamw", ADAMW, {"lr": 0.03, "weight_decay": 0.3}, {"linear": True}),
    ("rmsprop", RMSPROP, {"lr": 0.01, "momentum": 0.5, "centered": True, "eps": 1e-3}, {}),
    ("adagrad", ADAGRAD, {"lr": 0.1, "lr_decay": 0.2}, {"clip_grad_value": 0.05}),
]


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(FEATURES, WIDTH)
        self.a = nn.Linear(WIDTH, WIDTH)
        self.b = nn.Linear(WIDTH, WIDTH)
        self.spare = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, path):
        x = self.trunk(x).tanh()
        for name in path:
            x = x + getattr(self, name)(x).tanh()
        return self.head(x)


def make_paths():
    """Paths per micro-batch: a is missing from some steps; b begins late, then is in one micro-batch of few steps."""
    paths = [["a" if step % 3 != 1 and m != 2 else "" for m in range(MICRO)] for step in range(STEPS)]
    for step, m in ((4, 1), (5, 3), (8, 2), (9, 0), (11, 3)):
        paths[step][m] += "b"
    return paths


def make_data():
    generator = torch.Generator().manual_seed(31)
    labels = torch.randint(0, CLASSES, (STEPS * MICRO * SAMPLES,), generator=generator)
    centres = torch.randn(CLASSES, FEATURES, generator=generator)
    return centres[labels] + 0.8 * torch.randn(len(labels), FEATURES, generator=generator), labels


def make_model():
    torch.manual_seed(32)
    return Branches()


def train(cls, hyper, training, dtype):
    model = make_model().to(dtype)
    keys = {k: tuple(v) if k == "betas" else v for k, v in hyper.items()}
    optimizer = cls(model.parameters(), foreach=False, **keys)
    x, labels = make_data()
    updates = {name: 0 for name, _ in model.named_parameters()}
    for step, paths in enumerate(make_paths()):
        for m, path in enumerate(paths):
            first = (step * MICRO + m) * SAMPLES
            logits = model(x[first : first + SAMPLES].to(dtype), path)
            loss = F.cross_entropy(logits, labels[first : first + SAMPLES], reduction="sum")
            (loss / (MICRO * SAMPLES)).backward()
        if "clip_grad_norm" in training:
            nn.utils.clip_grad_norm_(model.parameters(), training["clip_grad_norm"])
        if "clip_grad_value" in training:
            nn.utils.clip_grad_value_(model.parameters(), training["clip_grad_value"])
        if "linear" in training:
            optimizer.param_groups[0]["lr"] = hyper["lr"] * (STEPS - step) / STEPS
        for name, p in model.named_parameters():
            updates[name] += p.grad is not None
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return {name: value.detach() for name, value in model.state_dict().items()}, updates


def case(name, cls, hyper, training):
    single, updates = train(cls, hyper, training, torch.float32)
    double, _ = train(cls, hyper, training, torch.float64)
    noise = max((single[key].double() - double[key]).abs().max().item() for key in single)
    return {
        "name": name,
        "optimizer": {"type": name.split("_")[0]} | hyper,
        "train": training,
        "noise": number(noise),
        "updates": updates,
        "final": {key: tensor(value) for key, value in single.items()},
    }


def main():
    x, labels = make_data()
    about = "trainings with parameters that have no gradient in some steps: weights in the end, updates of each parameter"
    write(
        "unused.json",
        about,
        [case(*item) for item in CASES],
        x=tensor(x),
        labels=flat(labels),
        paths=make_paths(),
        initial={key: tensor(value) for key, value in make_model().state_dict().items()},
    )


if __name__ == "__main__":
    main()
