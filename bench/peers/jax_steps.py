"""JAX (jit, donated state, optax.adamw) on one workload: jax_steps.py NAME THREADS DTYPE SECONDS -> one line of JSON."""
import os
import sys

name, threads, dtype, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:threads])
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import optax  # noqa: E402
from functools import partial  # noqa: E402

from clock import measure, report  # noqa: E402
from jax_models import model_of, rng, samples_of  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

w = WORKLOADS[name]
params, logits = model_of(w, jnp.bfloat16 if dtype == "bf16" else jnp.float32)
params = jax.tree.map(jnp.asarray, params)
optimizer = optax.adamw(1e-3, weight_decay=0.01)
state = optimizer.init(params)


def loss_of(params, x, y, key):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, x, key).astype(jnp.float32), y).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def update(params, state, x, y, key):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y, key)
    updates, state = optimizer.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


features, labels = samples_of(w)


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
    params, state, loss = update(params, state, x, y, jax.random.fold_in(key, count) if w.get("extra") else key)
    return loss


report(peer="JAX " + jax.__version__, **measure(step, float, seconds))
