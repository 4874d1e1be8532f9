"""The models of workloads.py in JAX: parameters as trees of arrays, and functions logits(params, x, key).

Products have operands in `compute`, f32 or bf16. Images are (B, H, W, C), which XLA computes fastest on the CPU.
"""
import jax
import jax.numpy as jnp
import numpy as np

from workloads import resnet_convolutions

rng = np.random.default_rng(0)


def uniform(shape, inputs):
    bound = inputs ** -0.5
    return rng.uniform(-bound, bound, shape).astype("f4")


def linear(a, b):
    return {"weight": uniform((a, b), a), "bias": uniform((b,), a)}


def norm(width):
    return {"gamma": np.ones(width, "f4"), "beta": np.zeros(width, "f4")}


def convolution(a, b, k):
    return uniform((k, k, a, b), a * k * k)


def normal(*shape):
    return (0.02 * rng.standard_normal(shape)).astype("f4")


class Layers:
    def __init__(self, compute):
        self.compute = compute

    def linear(self, p, x):
        return x.astype(self.compute) @ p["weight"].astype(self.compute) + p["bias"].astype(self.compute)

    def convolution(self, weight, x, stride=1, padding=0):
        return jax.lax.conv_general_dilated(x.astype(self.compute), weight.astype(self.compute), (stride, stride),
                                            [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def normalized(self, p, x, axes, eps=1e-5):
        x = x.astype(jnp.float32)
        return (x - x.mean(axes, keepdims=True)) * jax.lax.rsqrt(x.var(axes, keepdims=True) + eps) * p["gamma"] + p["beta"]

    def attention(self, p, x, heads, is_causal):
        batch, length, width = x.shape
        q, k, v = (part.reshape(batch, length, heads, -1) for part in jnp.split(self.linear(p["qkv"], x), 3, axis=2))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=is_causal)
        return self.linear(p["proj"], y.reshape(batch, length, width)).astype(jnp.float32)

    def widened(self, p, x, is_causal):
        return self.linear(p["down"], jax.nn.gelu(self.linear(p["up"], x), approximate=is_causal)).astype(jnp.float32)


def block(width):
    return {"norm1": norm(width), "norm2": norm(width), "qkv": linear(width, 3 * width), "proj": linear(width, width),
            "up": linear(width, 4 * width), "down": linear(4 * width, width)}


def mlp(w, layers):
    params = [{**linear(a, b), **norm(b)} for a, b in zip(w["widths"], w["widths"][1:])]

    def between(p, x, key):
        if not w["extra"]:
            return jax.nn.relu(x)
        x = jax.nn.gelu(layers.normalized(p, x, -1), approximate=False)
        return jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    def logits(params, x, key):
        for i, p in enumerate(params):
            x = layers.linear(p, x)
            if i + 1 < len(params):
                x = between(p, x, jax.random.fold_in(key, i) if w["extra"] else key)
        return x

    return params, logits


def cnn(w, layers):
    first, second = w["conv"]
    params = {"conv1": convolution(w["image"][0], first, 3), "bias1": np.zeros(first, "f4"),
              "conv2": convolution(first, second, 3), "bias2": np.zeros(second, "f4"),
              "linear": [linear(a, b) for a, b in zip(w["widths"], w["widths"][1:])]}

    def logits(p, x, _):
        for i in "12":
            x = jax.nn.relu(layers.convolution(p["conv" + i], x) + p["bias" + i].astype(layers.compute))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(layers.linear(p["linear"][0], x.reshape(x.shape[0], -1)))
        return layers.linear(p["linear"][1], x)

    return params, logits


def resnet(w, layers):
    shapes = resnet_convolutions(w)
    params = {"conv": [convolution(a, b, k) for a, b, k, *_ in shapes], "norm": [norm(b) for _, b, *_ in shapes],
              "linear": linear(*w["widths"])}

    def logits(p, x, _):
        """Statistics of the batch; running statistics, which cost little, are left out."""
        at = iter(range(len(shapes)))

        def convolved(x):
            i = next(at)
            _, _, k, stride, _ = shapes[i]
            return layers.normalized(p["norm"][i], layers.convolution(p["conv"][i], x, stride, k // 2), (0, 1, 2))

        x = jax.nn.relu(convolved(x))
        for stage in range(len(w["channels"])):
            for first in (True, False):
                y = convolved(jax.nn.relu(convolved(x)))
                x = jax.nn.relu(y + (convolved(x) if first and stage > 0 else x))
        return layers.linear(p["linear"], x.mean((1, 2)))

    return params, logits


def gpt(w, layers):
    params = {"tokens": normal(w["vocabulary"], w["width"]), "places": normal(w["length"], w["width"]),
              "norm": norm(w["width"]), "blocks": [block(w["width"]) for _ in range(w["layers"])]}

    def logits(p, ids, _):
        x = p["tokens"][ids] + p["places"]
        for b in p["blocks"]:
            x = x + layers.attention(b, layers.normalized(b["norm1"], x, -1), w["heads"], True)
            x = x + layers.widened(b, layers.normalized(b["norm2"], x, -1), True)
        return layers.normalized(p["norm"], x, -1).astype(layers.compute) @ p["tokens"].T.astype(layers.compute)

    return params, logits


def encoder(w, layers):
    width = w["width"]
    params = {"tokens": normal(w["vocabulary"], width), "places": normal(w["length"], width), "segments": normal(2, width),
              "norm": norm(width), "blocks": [block(width) for _ in range(w["layers"])], "pool": linear(width, width),
              "classifier": linear(width, w["classes"])}

    def logits(p, ids, _):
        x = layers.normalized(p["norm"], p["tokens"][ids] + p["places"] + p["segments"][0], -1)
        for b in p["blocks"]:
            x = layers.normalized(b["norm1"], x + layers.attention(b, x, w["heads"], False), -1)
            x = layers.normalized(b["norm2"], x + layers.widened(b, x, False), -1)
        return layers.linear(p["classifier"], jnp.tanh(layers.linear(p["pool"], x[:, 0])))

    return params, logits


def model_of(w, compute):
    """(parameters, logits)."""
    return {"mlp": mlp, "cnn": cnn, "resnet": resnet, "gpt": gpt, "encoder": encoder}[w["kind"]](w, Layers(compute))


def samples_of(w):
    """(features, labels) of all samples."""
    n = w["samples"]
    if w["kind"] == "gpt":
        ids = rng.integers(w["vocabulary"], size=(n, w["length"] + 1), dtype="i4")
        return ids[:, :-1], ids[:, 1:]
    if w["kind"] == "encoder":
        return rng.integers(w["vocabulary"], size=(n, w["length"]), dtype="i4"), rng.integers(w["classes"], size=n)
    shape = (*w["image"][1:], w["image"][0]) if "image" in w else tuple(w["widths"][:1])
    return rng.standard_normal((n, *shape)).astype("f4"), rng.integers(w["widths"][-1], size=n)
