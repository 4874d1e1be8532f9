"""xla/scalars.json: which Python scalars, by their value, make torch_xla compile a training step again.

`uses` is measured: how torch_xla treats scalars, for each op to which torch.optim passes them. `special`: 0 and +-1 are
constants of the graph, compared as f32 or f64. `pool`: scalars of one pool with equal values in its dtype are one
parameter of the graph, so the graph changes when they become equal or different.
`functions`: the same for ops to which users pass numbers. `special` as above; none: every value is part of the graph;
`float` and `integer`: the dtype in which 0.3 and 3 are uploaded.
`cases` are traced: the scalars of one parameter in each step of torch.optim's code for XLA devices, in order.
"""

import os
import sys

os.environ["PJRT_DEVICE"] = "CPU"
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch
import torch_xla
from torch.utils._python_dispatch import TorchDispatchMode

from golden_io import number, write

DEVICE = torch_xla.device()
OPTIMIZERS = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
}
FACTORS = [1.0, 0.5, 0.25, 1.0, 0.0]  # of the learning rate

USES = {
    "mul": lambda x, y, s: x * s,
    "div": lambda x, y, s: x / s,
    "add": lambda x, y, s: x + s,
    "add_alpha": lambda x, y, s: x.add(y, alpha=s),
    "lerp": lambda x, y, s: x.lerp(y, s),
    "addcmul": lambda x, y, s: x.addcmul(y, y, value=s),
    "addcdiv": lambda x, y, s: x.addcdiv(y, y, value=s),
}


# `x`: a tensor, f32 unless the name says otherwise.
FUNCTIONS = {
    "add": lambda x, s: x + s,
    "sub": lambda x, s: x - s,
    "sub_from": lambda x, s: s - x,
    "mul": lambda x, s: s * x,
    "div": lambda x, s: x / s,
    "div_by": lambda x, s: s / x,
    "pow": lambda x, s: x**s,
    "pow_of": lambda x, s: s**x,
    "minimum": lambda x, s: x.clamp(max=s),
    "maximum": lambda x, s: x.clamp(min=s),
    "eq": lambda x, s: x == s,
    "ne": lambda x, s: x != s,
    "lt": lambda x, s: x < s,
    "le": lambda x, s: x <= s,
    "gt": lambda x, s: x > s,
    "ge": lambda x, s: x >= s,
    "clamp": lambda x, s: x.clamp(s, 9),
    "where": lambda x, s: torch.where(x > 9, x, s),
    "masked_fill": lambda x, s: x.masked_fill(x > 9, s),
    "full_like": lambda x, s: torch.full_like(x, s),
    "leaky_relu": lambda x, s: torch.nn.functional.leaky_relu(x, s),
    "elu": lambda x, s: torch.nn.functional.elu(x, s),
    "mul_bf16": lambda x, s: x.to(torch.bfloat16) * s,
    "mul_f64": lambda x, s: x.to(torch.float64) * s,
    "mul_i64": lambda x, s: x.to(torch.int64) * s,
    "gt_i64": lambda x, s: x.to(torch.int64) > s,
}


def graph_hash(f):
    x, y = torch.ones(4, 3).to(DEVICE), torch.ones(4, 3).to(DEVICE)
    torch_xla.sync()
    results = f(x, y)
    return torch_xla._XLAC._get_graph_hash(list(results) if isinstance(results, tuple) else [results])


def special_dtype(op):
    """Returns the dtype in which a scalar equal to 1, 0 or -1 becomes a constant. Asserts that no other scalar does."""
    of = lambda s: graph_hash(lambda x, y: op(x, y, s))
    plain = of(0.3)
    assert of(0.7) == of(2.0) == of(1 + 1e-6) == plain
    assert len({plain, of(1.0), of(-1.0), of(0.0)}) == 4
    near = [(of(1 + 2**-30), of(1.0)), (of(-1 + 2**-30), of(-1.0)), (of(1e-60), of(0.0))]
    assert all(a == b for a, b in near) or all(a == plain for a, b in near)
    return "f32" if near[0][0] == near[0][1] else "f64"


def pool_of(a, b):
    """Returns the dtype in which equal scalars of two ops are one parameter; None if they never are."""
    of = lambda s, t: graph_hash(lambda x, y: b(a(x, y, s).sin(), y, t))
    apart, equal, near = of(0.3, 0.4), of(0.3, 0.3), of(0.3, 0.3 + 1e-12)
    if equal == apart:
        return None
    assert near in (equal, apart)
    return "f32" if near == equal else "f64"


def measured_uses():
    rows = []
    for name, op in USES.items():
        pool = pool_of(op, op)
        shares = [other for other, f in USES.items() if pool_of(op, f) is not None]
        assert all(pool_of(op, USES[other]) == pool for other in shares)
        rows.append({"name": name, "special": special_dtype(op), "pool": pool, "shares_with": shares})
    return rows


def uploaded_as(f, s, other):
    """Returns the dtype in which f's number shares a parameter with that of an op that has this dtype."""
    like = {"f32": (USES["mul"], s), "f64": (USES["addcmul"], float(s)), "i64": (USES["addcmul"], int(s))}
    found = []
    for dtype, (op, number) in like.items():
        with_number = lambda t: graph_hash(lambda x, y: (f(x, s), op(x, y, t)))
        if number == s and with_number(number) != with_number(type(number)(other)):
            found.append(dtype)
    assert len(found) == 1, found
    return found[0]


def measured_functions():
    rows = []
    for name, f in FUNCTIONS.items():
        of = lambda s: graph_hash(lambda x, y: f(x, s))
        if of(0.3) != of(0.7):
            rows.append({"name": name})
            continue
        integers = "f64" if name == "mul_f64" else uploaded_as(f, 3, 4)
        row = {"special": special_dtype(lambda x, y, s: f(x, s)), "float": uploaded_as(f, 0.3, 0.4)}
        rows.append({"name": name, **row, "integer": integers})
    return rows


class Scalars(TorchDispatchMode):
    """Records the scalars of the ops that run on XLA tensors."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[1].rstrip("_")
        on_device = isinstance(args[0], torch.Tensor) and args[0].device.type == "xla"
        if on_device:
            self.note(name, args, kwargs)
        return func(*args, **kwargs)

    def note(self, name, args, kwargs):
        plain = [a for a in args[1:] if isinstance(a, (int, float)) and not isinstance(a, bool)]
        if name in ("mul", "div", "add") and plain:
            self.seen += [(name, float(plain[0]))]
        if name == "add" and "alpha" in kwargs:
            self.seen += [("add_alpha", float(kwargs["alpha"]))]
        if name == "lerp":
            self.seen += [("lerp", float(plain[0]))]
        if name in ("addcmul", "addcdiv"):
            self.seen += [(name, float(kwargs.get("value", 1)))]


def case(name, optimizer, **hyper):
    parameter = torch.nn.Parameter(torch.ones(4, 3).to(DEVICE))
    keys = {k: (list(v) if isinstance(v, tuple) else v) for k, v in hyper.items()}
    optim = OPTIMIZERS[optimizer]([parameter], **hyper)
    base, steps = optim.param_groups[0]["lr"], []
    for factor in FACTORS:
        optim.param_groups[0]["lr"] = base * factor
        parameter.grad = torch.ones(4, 3).to(DEVICE)
        with Scalars() as scalars:
            optim.step()
        torch_xla.sync()
        steps.append([[use, number(value)] for use, value in scalars.seen])
    return {"name": name, "optimizer": optimizer, "hyper": keys, "factors": FACTORS, "steps": steps}


CASES = [
    case("sgd", "sgd", lr=0.1),
    case("sgd_decay", "sgd", lr=0.1, weight_decay=0.01),
    case("sgd_momentum", "sgd", lr=0.1, momentum=0.9),
    case("sgd_dampening", "sgd", lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.1),
    case("sgd_nesterov", "sgd", lr=0.1, momentum=0.8, nesterov=True),
    case("adam", "adam", lr=1e-3),
    case("adam_decay", "adam", lr=1e-3, weight_decay=0.01, betas=(0.8, 0.99)),
    case("adam_amsgrad", "adam", lr=1e-3, amsgrad=True, eps=1e-6),
    case("adamw", "adamw", lr=1e-3),
    case("adamw_no_decay", "adamw", lr=1e-3, weight_decay=0.0),
    case("adamw_amsgrad", "adamw", lr=0.1, weight_decay=0.01, amsgrad=True),
    case("rmsprop", "rmsprop", lr=0.01),
    case("rmsprop_momentum", "rmsprop", lr=0.01, momentum=0.9, weight_decay=0.1),
    case("rmsprop_centered", "rmsprop", lr=0.01, centered=True, alpha=0.9),
    case("rmsprop_centered_momentum", "rmsprop", lr=0.01, centered=True, momentum=0.5, eps=1e-6),
    case("adagrad", "adagrad", lr=0.01),
    case("adagrad_decay", "adagrad", lr=0.01, lr_decay=0.1, weight_decay=0.1),
]

if __name__ == "__main__":
    about = "Scalars of torch.optim's steps, and how torch_xla takes them."
    write("xla/scalars.json", about, CASES, versions=(torch_xla,), uses=measured_uses(), functions=measured_functions())
