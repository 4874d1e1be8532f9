"""xla/eager.json: what torch_xla counts in its eager mode, where each operation is a graph of its own.

Trainings are those of compiles.py: each case is a fresh process, and `steps[i]` is the change during training batch
i + 1, in values of counters and samples of metrics. `begin` is the change from moving the model to the device, `end`
the change after the last batch. Lowered calls (xla::…) are excluded, because there are more of them than operations.

    python eager.py        all cases, each in a process of its own
    python eager.py NAME   one case, to stdout
"""

import os

import compiles  # sets the device

NAMES = [
    "sgd",
    "momentum",
    "adamw",
    "sgd_linear_to_zero",
    "partial_batch",
    "read_each_second_step",
    "accumulate_2_of_3",
    "sgd_clip",
    "evaluate",
    "bf16",
    "square",
    "exponent_grows",
    "peeked",
]
MOVED = ("UncachedCompile", "CachedCompile", "CreateCompileHandles", "ExecuteComputation", "MarkStep")
READS = ("aten::_local_scalar_dense", "DeviceDataCacheMiss")
SAMPLES = ("CompileTime", "ExecuteTime", "EagerOpCompileTime", "EagerOpExecuteTime", "TensorsGraphSize")


def measure(case):
    if case.get("bf16"):
        os.environ["XLA_USE_BF16"] = "1"
    import torch
    import torch_xla
    import torch_xla.debug.metrics as metrics
    import torch_xla.distributed.parallel_loader as loaders
    from compiles import STEPS, factor
    from torch import nn

    torch_xla.experimental.eager_mode(True)
    device = torch_xla.device()
    torch.manual_seed(0)
    before = {}

    def moved():
        torch_xla._XLAC._xla_wait_device_ops(devices=[])
        now = {name: metrics.counter_value(name) or 0 for name in MOVED + READS}
        now.update({name: (metrics.metric_data(name) or (0,))[0] for name in SAMPLES})
        change = {name: value - before.get(name, 0) for name, value in now.items() if value != before.get(name, 0)}
        before.update(now)
        return change

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    keys = dict(case["optimizer"])
    kind = {"sgd": "SGD", "adamw": "AdamW"}[keys.pop("type")]
    optimizer = getattr(torch.optim, kind)(model.parameters(), **keys)
    samples, accumulation = case["samples"], case["accumulation"]
    make_loss = STEPS[case["step"]] if "step" in case else lambda f, model, x, y, n: f.cross_entropy(model(x), y)
    data = torch.utils.data.TensorDataset(torch.randn(samples, 64), torch.randint(10, (samples,)))
    batches = loaders.MpDeviceLoader(torch.utils.data.DataLoader(data, case["batch"]), device)
    begin, steps, evaluations, updates = moved(), [], [], 0
    for _ in range(case["epochs"]):
        for index, (x, y) in enumerate(batches):
            loss = make_loss(nn.functional, model, x, y, len(steps))
            (loss / accumulation if accumulation > 1 else loss).backward()
            if (index + 1) % accumulation == 0 or index + 1 == len(batches):
                if "clip_grad_norm" in case:
                    nn.utils.clip_grad_norm_(model.parameters(), case["clip_grad_norm"])
                for group in optimizer.param_groups:
                    group["lr"] = keys["lr"] * (factor(case["scheduler"], updates) if "scheduler" in case else 1.0)
                optimizer.step()
                optimizer.zero_grad()
                updates += 1
            if "read_every" in case and (len(steps) + 1) % case["read_every"] == 0:
                loss.item()
            steps.append(moved())
        if case.get("evaluate"):
            with torch.no_grad():
                hits = None
                for x, y in batches:
                    found = (model(x).argmax(1) == y).sum()
                    hits = found if hits is None else hits + found
                hits.item()
            evaluations.append(moved())
    end = moved()
    return {"begin": begin, "steps": steps, "end": end, **({"evaluations": evaluations} if evaluations else {})}


if __name__ == "__main__":
    compiles.main(__file__, NAMES, measure, "xla/eager.json", "What torch_xla counts in its eager mode.")
