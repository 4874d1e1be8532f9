"""hlo_cost.json: what XLA's HloCostAnalysis counts, through JAX, for single operations and the row operations.

The HLO is not optimised, so bytes equal those of one fusion only if a case is one operation.
"""

import json
import os
import platform

import jax
import jax.numpy as jnp
from jax import lax

f32, i32 = jnp.float32, jnp.int32


def log_sum_exp(x):
    shifted = x - jnp.max(x, axis=-1, keepdims=True)
    exponentials = jnp.exp(shifted)
    return shifted, exponentials, jnp.sum(exponentials, axis=-1, keepdims=True)


def softmax(x):
    _, exponentials, total = log_sum_exp(x)
    return exponentials / total


def log_softmax(x):
    shifted, _, total = log_sum_exp(x)
    return shifted - jnp.log(total)


def normalised(x):
    # The mean is a sum and a product, since XLA turns a division by a constant into one.
    centred = x - jnp.sum(x, axis=-1, keepdims=True) * (1 / x.shape[-1])
    variance = jnp.sum(centred * centred, axis=-1, keepdims=True) * (1 / x.shape[-1])
    return centred * lax.rsqrt(variance + 1e-5)


# name: function, shapes of its operands (i32 if followed by an int)
CASES = {
    "add": (lambda x, y: x + y, [(32, 128), (32, 128)]),
    "gt": (lambda x, y: x > y, [(32, 128), (32, 128)]),
    "exp": (jnp.exp, [(32, 128)]),
    "log": (jnp.log, [(32, 128)]),
    "log1p": (jnp.log1p, [(32, 128)]),
    "sqrt": (jnp.sqrt, [(32, 128)]),
    "rsqrt": (lax.rsqrt, [(32, 128)]),
    "tanh": (jnp.tanh, [(32, 128)]),
    "pow": (lax.pow, [(32, 128), (32, 128)]),
    "sum": (lambda x: jnp.sum(x, axis=0), [(32, 128)]),
    "reduce_max": (lambda x: jnp.max(x, axis=-1), [(32, 128)]),
    "matmul": (jnp.matmul, [(32, 64), (64, 128)]),
    "batched_matmul": (jnp.matmul, [(4, 32, 64), (4, 64, 128)]),
    "concat": (lambda x, y: jnp.concatenate([x, y]), [(32, 128), (64, 128)]),
    "embedding": (lambda x, i: lax.gather(
        x, i[:, None], lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)),
        (1, 128), mode="clip"), [(1024, 128), ((256,), i32)]),
    "softmax": (softmax, [(32, 128)]),
    "log_softmax": (log_softmax, [(32, 128)]),
    "layer_norm": (lambda x, g, b: normalised(x) * g + b, [(32, 128), (128,), (128,)]),
    "gelu_tanh": (lambda x: x * 0.5 * (1 + jnp.tanh((x + x * x * x * 0.044715) * 0.79788456)), [(32, 128)]),
}


def argument(spec):
    return jax.ShapeDtypeStruct(*spec) if spec[-1] is i32 else jax.ShapeDtypeStruct(spec, f32)


def main():
    cases = []
    for name, (function, shapes) in CASES.items():
        figures = jax.jit(function).lower(*map(argument, shapes)).cost_analysis()
        cases.append({"name": name, "flops": int(figures.get("flops", 0)),
                      "transcendentals": int(figures.get("transcendentals", 0)),
                      "bytes": int(figures.get("bytes accessed", 0))})
    lines = ",\n".join(f"  {json.dumps(case)}" for case in cases)
    made_by = json.dumps({"python": platform.python_version(), "jax": jax.__version__})
    about = json.dumps("HloCostAnalysis of operations, before any optimisation")
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hlo_cost.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"about": {about},\n "made_by": {made_by},\n "cases": [\n{lines}\n ]}}\n')


if __name__ == "__main__":
    main()
