"""optimizers.json: ten steps of each optimizer on two small tensors, in f32 and f64.

Reference: torch.optim's single-tensor loops. torch has no Lion: it is transcribed here from algorithm 2 of "Symbolic
Discovery of Optimization Algorithms" (arXiv 2302.06675), in f64 only.
"""

import torch

from golden_io import flat, numbers, tensor, write

STEPS = 10
SHAPES = [(17,), (2, 3)]


def float32_normal(generator, shape):
    """Normal numbers that f32 represents exactly, as f64, so that both dtypes start from the same values."""
    return torch.randn(shape, generator=generator, dtype=torch.float32).double()


def make_inputs():
    generator = torch.Generator().manual_seed(20230213)
    params = [float32_normal(generator, s) for s in SHAPES]
    grads = [[float32_normal(generator, s) * 0.5 for s in SHAPES] for _ in range(STEPS)]
    for step, pair in enumerate(grads):
        pair[0][step] = 0.0  # the gradient of one element vanishes
        pair[0][16] = 0.0  # one element moves only by weight decay
    grads[4][1] *= 1024.0  # an outlier, which shows the order of the divisions
    return params, grads


SGD, ADAM, ADAMW, RMSPROP, ADAGRAD = (getattr(torch.optim, n) for n in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad"))
RATES = [0.01 * k for k in (0, 1, 2, 3, 4, 3, 2, 1, 0.5, 0.25)]
MOMENTA = [0.95, 0.93, 0.9, 0.87, 0.85, 0.86, 0.88, 0.9, 0.92, 0.95]

# name, class, recipe keys, values that change at each step
CASES = [
    ("sgd", SGD, {"lr": 0.1}, {}),
    ("sgd_weight_decay", SGD, {"lr": 0.1, "weight_decay": 0.05}, {}),
    ("sgd_momentum", SGD, {"lr": 0.05, "momentum": 0.9}, {}),
    ("sgd_momentum_dampening", SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}, {}),
    ("sgd_nesterov", SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}, {}),
    ("sgd_momentum_cycled", SGD, {"momentum": 0.95}, {"lr": RATES, "momentum": MOMENTA}),
    ("adam", ADAM, {"lr": 0.01}, {}),
    ("adam_weight_decay", ADAM, {"lr": 0.01, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1}, {}),
    ("adam_amsgrad", ADAM, {"lr": 0.01, "amsgrad": True}, {}),
    ("adam_amsgrad_weight_decay", ADAM, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}, {}),
    ("adamw", ADAMW, {"lr": 0.01}, {}),
    ("adamw_weight_decay", ADAMW, {"lr": 0.01, "weight_decay": 0.3, "betas": [0.9, 0.95]}, {}),
    ("adamw_no_weight_decay", ADAMW, {"lr": 0.01, "weight_decay": 0.0}, {}),
    ("adamw_amsgrad", ADAMW, {"lr": 0.01, "amsgrad": True}, {}),
    ("adamw_scheduled", ADAMW, {"weight_decay": 0.3}, {"lr": RATES}),
    ("adamw_cycled_beta1", ADAMW, {}, {"lr": RATES, "beta1": MOMENTA}),
    ("rmsprop", RMSPROP, {"lr": 0.01}, {}),
    ("rmsprop_momentum", RMSPROP, {"lr": 0.01, "momentum": 0.9, "alpha": 0.95, "weight_decay": 0.01}, {}),
    ("rmsprop_centered", RMSPROP, {"lr": 0.01, "centered": True, "eps": 1e-4}, {}),
    ("rmsprop_centered_momentum", RMSPROP, {"lr": 0.01, "centered": True, "momentum": 0.5, "eps": 1e-4}, {}),
    ("adagrad", ADAGRAD, {"lr": 0.1}, {}),
    ("adagrad_lr_decay", ADAGRAD, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.01}, {}),
    ("adagrad_initial", ADAGRAD, {"lr": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-6}, {}),
]

# name, class, recipe keys, average of the weights: an exponential one, or the mean of those after steps start, start +
# every, …
AVERAGES = [
    ("adamw_ema", ADAMW, {"lr": 0.01}, {"decay": 0.6}),
    ("sgd_mean", SGD, {"lr": 0.05, "momentum": 0.9}, {"start": 3, "every": 2}),
]


class Averaged:
    """AveragedModel of torch.optim.swa_utils over a list of parameters."""

    def __init__(self, params, average):
        self.params, self.average = torch.nn.ParameterList(params), average
        ema = torch.optim.swa_utils.get_ema_multi_avg_fn(average["decay"]) if "decay" in average else None
        self.model = torch.optim.swa_utils.AveragedModel(self.params, multi_avg_fn=ema)

    def after(self, step):
        """The average after a step, counted from 1: until the first averaged step it is the weights."""
        later = step - self.average.get("start", 1)
        if later < 0:
            return [flat(p) for p in self.params]
        if later % self.average.get("every", 1) == 0:
            self.model.update_parameters(self.params)
        return [flat(p) for p in self.model.module]


def slots_of(optimizer, params):
    """Every slot except the step count: {name: [value for each tensor]}."""
    names = [k for k, v in optimizer.state[params[0]].items() if k != "step" and v is not None]
    return {n: [flat(optimizer.state[p][n]) for p in params] for n in names}


def set_values(group, per_step, step):
    for key, values in per_step.items():
        if key == "beta1":
            group["betas"] = (values[step], group["betas"][1])
        else:
            group[key] = values[step]


def run(name, cls, hyper, per_step, dtype, start, grads, average=None):
    params = [torch.nn.Parameter(p.to(dtype, copy=True)) for p in start]
    keys = {k: tuple(v) if k == "betas" else v for k, v in hyper.items()}
    optimizer = cls(params, foreach=False, **({"lr": 0.01} | keys))
    averaged = Averaged(params, average) if average else None
    steps = []
    for step in range(STEPS):
        set_values(optimizer.param_groups[0], per_step, step)
        for p, g in zip(params, grads[step]):
            p.grad = g.to(dtype)
        optimizer.step()
        slots = slots_of(optimizer, params) | ({"average": averaged.after(step + 1)} if averaged else {})
        steps.append({"params": [flat(p) for p in params], "slots": slots})
    return case(name, cls.__name__.lower(), dtype, hyper, per_step, steps) | ({"average": average} if average else {})


def case(name, optimizer, dtype, hyper, per_step, steps):
    dtype = "f64" if dtype == torch.float64 else "f32"
    return {
        "name": f"{name}/{dtype}",
        "optimizer": optimizer,
        "dtype": dtype,
        "hyper": hyper,
        "per_step": {k: numbers(v) for k, v in per_step.items()},
        "steps": steps,
    }


def run_lion(name, hyper, start, grads):
    """c = β1 m + (1 − β1) g;  θ ← θ − η (sign(c) + λ θ);  m ← β2 m + (1 − β2) g."""
    lr, decay = hyper.get("lr", 1e-4), hyper.get("weight_decay", 0.0)
    beta1, beta2 = hyper.get("betas", [0.9, 0.99])
    params, momenta, steps = [p.clone() for p in start], [torch.zeros_like(p) for p in start], []
    for step in range(STEPS):
        for i, g in enumerate(grads[step]):
            c = beta1 * momenta[i] + (1 - beta1) * g
            assert ((c == 0) | (c.abs() > 1e-5)).all(), "a sign must not hang on rounding"
            params[i] = params[i] - lr * (torch.sign(c) + decay * params[i])
            momenta[i] = beta2 * momenta[i] + (1 - beta2) * g
        steps.append({"params": [flat(p) for p in params], "slots": {"exp_avg": [flat(m) for m in momenta]}})
    return case(name, "lion", torch.float64, hyper, {}, steps)


def main():
    torch.set_num_threads(1)
    start, grads = make_inputs()
    cases = [run(*spec, dtype, start, grads) for spec in CASES for dtype in (torch.float32, torch.float64)]
    cases += [
        run(name, cls, hyper, {}, dtype, start, grads, average)
        for name, cls, hyper, average in AVERAGES
        for dtype in (torch.float32, torch.float64)
    ]
    cases.append(run_lion("lion", {"lr": 0.01}, start, grads))
    cases.append(run_lion("lion_weight_decay", {"lr": 0.01, "weight_decay": 0.1, "betas": [0.95, 0.98]}, start, grads))
    write(
        "optimizers.json",
        "ten steps of each optimizer; params and slots after each step",
        cases,
        params=[tensor(p.float()) for p in start],
        grads=[[flat(g.float()) for g in pair] for pair in grads],
    )


main()
