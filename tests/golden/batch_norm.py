"""batch_norm.json: torch.nn.BatchNorm1d, BatchNorm2d and GroupNorm, and the training of an MLP with BatchNorm1d.

`batches` are the inputs of successive forward passes in training, `outputs` theirs; `running` are the buffers after
each. `evaluated` is the output in evaluation mode for the last batch, after all of them. `grads` are those of
Σ output × grad_output of the last forward pass in training.
"""

import torch

from golden_io import tensor, write

CASES = []
GENERATOR = torch.Generator().manual_seed(5)


def random(*shape):
    return torch.randn(shape, generator=GENERATOR)


def buffers(module):
    return {key: tensor(value.clone()) for key, value in module.named_buffers()}


def add(name, module, batches, **attrs):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(random(*parameter.shape) * 0.5 + 1)
    outputs, running = [], []
    for x in batches:
        x = x.clone().requires_grad_()
        output = module.train()(x)
        outputs.append(tensor(output.detach()))
        running.append(buffers(module))
    seed = random(*output.shape)
    inputs = [x, *module.parameters()]
    grads = torch.autograd.grad(output, inputs, seed)
    names = ["x", *(key for key, _ in module.named_parameters())]
    CASES.append({
        "name": name,
        "attrs": attrs,
        "parameters": {key: tensor(value.detach()) for key, value in module.named_parameters()},
        "batches": [tensor(x) for x in batches],
        "outputs": outputs,
        "running": running,
        "grad_output": tensor(seed),
        "grads": {key: tensor(value) for key, value in zip(names, grads)},
        "evaluated": tensor(module.eval()(batches[-1]).detach()),
    })


def column(*values):
    return torch.tensor(values, dtype=torch.float32).reshape(-1, 1)


def train():
    """Ten steps of SGD (lr 0.1, momentum 0.9) in file order, batches of 8, over two epochs of 40 samples."""
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(random(*parameter.shape) * 0.5)
    x, labels = random(40, 5), torch.randint(3, (40,), generator=GENERATOR)
    initial = {key: tensor(value.clone()) for key, value in model.state_dict().items()}
    velocities = [torch.zeros_like(parameter) for parameter in model.parameters()]
    losses = []
    for step in range(10):
        rows = slice(step % 5 * 8, step % 5 * 8 + 8)
        loss = torch.nn.functional.cross_entropy(model.train()(x[rows]), labels[rows])
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for parameter, velocity, grad in zip(model.parameters(), velocities, grads):
                velocity.mul_(0.9).add_(grad)
                parameter.sub_(0.1 * velocity)
        losses.append(loss.item())
    evaluated = torch.nn.functional.cross_entropy(model.eval()(x), labels).item()
    CASES.append({
        "name": "training",
        "x": tensor(x),
        "labels": tensor(labels),
        "initial": initial,
        "loss": losses,
        "final": {key: tensor(value) for key, value in model.state_dict().items()},
        "evaluated": evaluated,
    })


def main():
    torch.set_num_threads(1)
    one = lambda **options: torch.nn.BatchNorm1d(1, **options)
    add("four_values", one(), [column(1, 2, 3, 6)], dimensions=1)
    add("plain_mean", one(momentum=None), [column(1, 3), column(5, 9)], dimensions=1, momentum=False)
    add("micro_batches", one(), [column(1, 3), column(5, 9)], dimensions=1)
    add("whole_batch", one(), [column(1, 3, 5, 9)], dimensions=1)
    add("one_image", torch.nn.BatchNorm2d(1), [torch.tensor([[[[1.0, 2.0], [3.0, 6.0]]]])], dimensions=2)
    add("sequences", torch.nn.BatchNorm1d(3, momentum=0.3), [random(2, 3, 4), random(4, 3, 4) + 2], dimensions=1,
        momentum=0.3)
    add("images", torch.nn.BatchNorm2d(3, eps=1e-3), [random(2, 3, 4, 5) * 3 + 1, random(2, 3, 4, 5)], dimensions=2,
        eps=1e-3)
    add("no_affine", torch.nn.BatchNorm2d(2, affine=False), [random(3, 2, 2, 2)], dimensions=2, affine=False)
    add("groups", torch.nn.GroupNorm(2, 6), [random(2, 6, 3, 2) * 2 + 1], groups=2)
    add("groups/no_affine", torch.nn.GroupNorm(3, 6, affine=False), [random(2, 6)], groups=3, affine=False)
    train()
    write("batch_norm.json", "batch and group norm of PyTorch with running statistics", CASES)


main()
