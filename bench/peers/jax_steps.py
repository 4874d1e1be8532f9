"""JAX (jit, donated state, optax.adamw) on one workload: jax_steps.py NAME THREADS DTYPE SECONDS -> one line of JSON."""
import os
import sys

name, threads, dtype, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:threads])
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from functools import partial  # noqa: E402

from clock import measure, report  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

w = WORKLOADS[name]
compute = jnp.bfloat16 if dtype == "bf16" else jnp.float32
rng = np.random.default_rng(0)


def linear(a, b):
    bound = a ** -0.5
    return {"weight": rng.uniform(-bound, bound, (a, b)).astype("f4"), "bias": rng.uniform(-bound, bound, b).astype("f4"),
            "gamma": np.ones(b, "f4"), "beta": np.zeros(b, "f4")}


params = [linear(a, b) for a, b in zip(w["widths"], w["widths"][1:])]
optimizer = optax.adamw(1e-3, weight_decay=0.01)
state = optimizer.init(params)


def between(layer, x, key):
    if not w["extra"]:
        return jax.nn.relu(x)
    x = x.astype(jnp.float32)
    x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * layer["gamma"] + layer["beta"]
    x = jax.nn.gelu(x, approximate=False)
    return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)


def loss_of(params, x, y, key):
    for i, layer in enumerate(params):
        x = x.astype(compute) @ layer["weight"].astype(compute) + layer["bias"].astype(compute)
        if i + 1 < len(params):
            x = between(layer, x, jax.random.fold_in(key, i))
    return optax.softmax_cross_entropy_with_integer_labels(x.astype(jnp.float32), y).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def update(params, state, x, y, key):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y, key)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


features = rng.standard_normal((w["samples"], w["widths"][0])).astype("f4")
labels = rng.integers(w["widths"][-1], size=w["samples"])


def batches():
    while True:
        order = rng.permutation(w["samples"])
        for i in range(0, w["samples"] - w["batch"] + 1, w["batch"]):
            rows = order[i:i + w["batch"]]
            yield features[rows], labels[rows]


source, key, count = batches(), jax.random.key(0), 0


def step():
    global params, state, count
    x, y = next(source)
    count += 1
    params, state, loss = update(params, state, x, y, jax.random.fold_in(key, count) if w["extra"] else key)
    return loss


report(peer="JAX " + jax.__version__, **measure(step, float, seconds))
