"""power_sgd.json: trainings by two processes whose gradients are reduced by torch.distributed's PowerSGD hooks.

Reference: DistributedDataParallel over gloo with powerSGD_hook and batched_powerSGD_hook, on full batches of equal size
per rank in file order. Two things are made independent of torch: The first Qs are given (q), which the hook takes as
those of the previous step. And the batched hook sees a bucket in the order of the model's parameters, which DDP
reverses. batched_powerSGD_hook of torch 2.13 cannot orthogonalize its own matrix, because it takes it for a batch of
matrices; this is fixed here.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel

from golden_io import numbers, tensor, write

STEPS, BATCH, START = 10, 8, 3  # steps, batch per process, uncompressed reductions
WIDTHS = (12, 16, 20, 3)  # rank 2 does not make the last matrix smaller
CASES = {
    "rank_1": {"rank": 1},
    "rank_2": {"rank": 2},
    "rank_3": {"rank": 3, "min_compression_rate": 1.2},
    "without_error_feedback": {"rank": 2, "error_feedback": False},
    "batched": {"hook": "batched_power_sgd", "rank": 2},
    "fp16": {"rank": 1, "wrapper": "fp16"},
    "bf16": {"rank": 1, "wrapper": "bf16"},
}
WRAPPERS = {"fp16": default_hooks.fp16_compress_wrapper, "bf16": default_hooks.bf16_compress_wrapper}
HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def make_model():
    torch.manual_seed(11)
    layers = []
    for inputs, outputs in zip(WIDTHS, WIDTHS[1:]):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def make_data():
    generator = torch.Generator().manual_seed(12)
    labels = torch.randint(0, 3, (STEPS * 2 * BATCH,), generator=generator)
    centres = torch.randn(3, WIDTHS[0], generator=generator)
    return centres[labels] + 0.7 * torch.randn(len(labels), WIDTHS[0], generator=generator), labels


def first_qs(model, spec):
    """By parameter name; for the batched hook a single one, ''."""
    generator = torch.Generator().manual_seed(13)
    if spec.get("hook") == "batched_power_sgd":
        elements = sum(p.numel() for p in model.parameters())
        side = int(-(-(elements**0.5) // 1))
        return {"": torch.randn(side, spec["rank"], generator=generator)}
    qs = {}
    for name, p in model.named_parameters():
        matrix = p.view(p.shape[0], -1)
        rank = min(*matrix.shape, spec["rank"])
        if sum(matrix.shape) * rank * spec.get("min_compression_rate", 2) < matrix.numel():
            qs[name] = torch.randn(matrix.shape[1], rank, generator=generator)
    return qs


class Reordered:
    """A bucket as the batched hook sees it, with the parameters in the order of the model."""

    def __init__(self, bucket, order):
        self.bucket = bucket
        by_parameter = {id(p): g for p, g in zip(bucket.parameters(), bucket.gradients())}
        self.parts = [by_parameter[id(p)] for p in order]
        self.flat = torch.cat([part.flatten() for part in self.parts])

    def buffer(self):
        return self.flat

    def index(self):
        return self.bucket.index()

    def is_last(self):
        return self.bucket.is_last()

    def back(self, flat):
        offset = 0
        for part in self.parts:
            part.copy_(flat[offset : offset + part.numel()].view_as(part))
            offset += part.numel()
        return self.bucket.buffer()


def make_hook(model, spec, qs):
    dtype = HALVES.get(spec.get("wrapper"), torch.float32)
    names = {id(p): name for name, p in model.named_parameters()}

    def give_qs(state, parameters):
        if state.iter == START and 0 not in state.q_memory_dict:
            ordered = [qs[names[id(p)]] for p in parameters if names[id(p)] in qs] or [qs[""]]
            flat = torch.cat([q.flatten() for q in ordered]).to(dtype)
            # A batch of matrices has a row of numbers, a single matrix one number; P is written before it is read.
            state.q_memory_dict[0] = flat if "" not in qs else qs[""].clone()
            rows = [p.shape[0] * min(*p.view(p.shape[0], -1).shape, spec["rank"]) for p in parameters if names[id(p)] in qs]
            state.p_memory_dict[0] = torch.empty(sum(rows), dtype=dtype) if "" not in qs else torch.empty_like(qs[""])

    def layers(state, bucket):
        give_qs(state, bucket.parameters())
        return power.powerSGD_hook(state, bucket)

    def batched(state, bucket):
        give_qs(state, bucket.parameters())
        seen = Reordered(bucket, list(model.parameters()))
        return power.batched_powerSGD_hook(state, seen).then(lambda future: seen.back(future.value()))

    hook = batched if spec.get("hook") == "batched_power_sgd" else layers
    if "wrapper" in spec:
        hook = WRAPPERS[spec["wrapper"]](hook)
        hook.__name__ = "wrapped"  # DDP allows bf16 only on GPUs, and checks the name of the wrapper
    return hook


def orthogonalize(matrices, epsilon=0, original=power._orthogonalize):
    original(matrices if matrices.dim() == 3 else matrices.unsqueeze(0), epsilon)


def train(rank, spec):
    model = make_model()
    qs = first_qs(model, spec)
    replica = DistributedDataParallel(model)
    state = power.PowerSGDState(
        None,
        matrix_approximation_rank=spec["rank"],
        start_powerSGD_iter=START,
        min_compression_rate=spec.get("min_compression_rate", 2),
        use_error_feedback=spec.get("error_feedback", True),
    )
    replica.register_comm_hook(state, make_hook(model, spec, qs))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    x, labels = make_data()
    losses = []
    for step in range(STEPS):
        first = (2 * step + rank) * BATCH
        loss = F.cross_entropy(replica(x[first : first + BATCH]), labels[first : first + BATCH])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / 2)
    return {"loss": losses, "final": model.state_dict()}


def train_all(rank, store, out):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    power._orthogonalize = orthogonalize
    torch.save({name: train(rank, spec) for name, spec in CASES.items()}, f"{out}.{rank}")
    dist.destroy_process_group()


def run():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train_all, (f"{folder}/store", f"{folder}/out"), nprocs=2)
        ranks = [torch.load(f"{folder}/out.{rank}") for rank in range(2)]
    for name, result in ranks[0].items():
        for key, value in result["final"].items():
            assert torch.equal(value, ranks[1][name]["final"][key]), (name, key)
    return ranks[0]


def case(name, spec, result):
    return {
        "name": name,
        "comm": {"hook": "power_sgd", "start": START} | spec,
        "q": {key: tensor(q) for key, q in first_qs(make_model(), spec).items()},
        "loss": numbers(result["loss"]),
        "final": {key: tensor(value) for key, value in result["final"].items()},
    }


def main():
    results = run()
    cases = [case(name, spec, results[name]) for name, spec in CASES.items()]
    x, labels = make_data()
    about = "two processes whose gradients travel by PowerSGD: loss of each step, weights in the end"
    initial = {key: tensor(value) for key, value in make_model().state_dict().items()}
    write("power_sgd.json", about, cases, x=tensor(x), labels=tensor(labels), initial=initial, batch=BATCH, steps=STEPS)


if __name__ == "__main__":
    main()
