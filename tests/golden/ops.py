"""ops.json: values and gradients of each op on small inputs, in f32 and f64.

Both dtypes get the same inputs, numbers that f32 represents exactly, so the f64 case is also the exact reference of the
f32 case. Names, operands and attributes are those of backends/ir/ops.h.
"""

import torch
import torch.nn.functional as F

from golden_io import tensor, write

INF, NAN = float("inf"), float("nan")
HUGE, TINY, DENORMAL = 3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45
SPECIALS = [0.0, -0.0, INF, -INF, NAN, HUGE, -HUGE, TINY, DENORMAL, -DENORMAL]
BOTH_SIGNS = [0.0, -0.0, 1e-30, 1e-3, -1e-3, 0.25, -0.25, 0.75, -0.75, 1.0, -1.0, 2.5, -2.5, 5.5, -5.5, 9.0, -9.0]
POSITIVE = [1e-30, 1e-3, 0.25, 0.75, 1.0, 1.0000001, 2.0, 9.0, 1e4, 1e30]

CASES = []
GENERATOR = torch.Generator().manual_seed(1)


def random(*shape, scale=1.0):
    return torch.randn(shape, generator=GENERATOR) * scale


def values(numbers, *shape):
    t = torch.tensor(numbers, dtype=torch.float32)
    return t.reshape(shape) if shape else t


def ints(numbers, *shape):
    return torch.tensor(numbers).reshape(shape) if shape else torch.tensor(numbers)


def bools(numbers, *shape):
    return ints(numbers, *shape).bool()


def add(name, function, inputs, attrs=None, grad=True, dtypes=(torch.float32, torch.float64)):
    """Adds one case per dtype. `name` is OP or OP/VARIANT. Floating inputs take the dtype, others stay unchanged.

    `grad`: True for the gradients of all floating inputs, False for none, or the names of the inputs.
    """
    seed = random(*function(*inputs.values(), **(attrs or {})).shape) if grad else None
    for dtype in dtypes:
        typed = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
        names = grad if isinstance(grad, list) else [k for k, v in typed.items() if grad and v.is_floating_point()]
        wanted = {k: typed[k].requires_grad_() for k in names}
        result = function(*typed.values(), **(attrs or {}))
        case = {
            "name": f"{name}/{'f32' if dtype == torch.float32 else 'f64'}",
            "op": name.split("/")[0],
            "dtype": "f32" if dtype == torch.float32 else "f64",
            "attrs": attrs or {},
            "inputs": {k: tensor(v) for k, v in typed.items()},
            "output": tensor(result),
        }
        if grad:
            grads = torch.autograd.grad(result, list(wanted.values()), seed.to(dtype))
            case["grad_output"] = tensor(seed.to(dtype))
            case["grads"] = {k: tensor(g) for k, g in zip(wanted, grads)}
        CASES.append(case)


def elementwise():
    unary = {
        "exp": (torch.exp, BOTH_SIGNS, [88.72, 88.73, -87.4, -103.0, -104.0]),
        "log": (torch.log, POSITIVE, [-1.0]),
        "log1p": (torch.log1p, POSITIVE + [-0.5, 1e-8, -1e-8], [-1.0, -2.0]),
        "sqrt": (torch.sqrt, POSITIVE, [-1.0]),
        "rsqrt": (torch.rsqrt, POSITIVE, [-1.0]),
        "tanh": (torch.tanh, BOTH_SIGNS, [20.0, -20.0]),
        "sigmoid": (torch.sigmoid, BOTH_SIGNS, [90.0, -90.0]),
        "erf": (torch.erf, BOTH_SIGNS, [20.0, -20.0]),
        "relu": (torch.relu, BOTH_SIGNS, []),
        "gelu": (F.gelu, BOTH_SIGNS, [40.0, -40.0]),
        "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), BOTH_SIGNS, [40.0, -40.0]),
        "silu": (F.silu, BOTH_SIGNS, [90.0, -90.0]),
        "abs": (torch.abs, BOTH_SIGNS, []),
        "neg": (torch.neg, BOTH_SIGNS, []),
    }
    for name, (function, ordinary, more) in unary.items():
        add(name, function, {"x": values(ordinary)})
        add(f"{name}/specials", function, {"x": values(SPECIALS + more)}, grad=False)
    add("sign", torch.sign, {"x": values(SPECIALS)}, grad=False)

    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
    for name, function in binary.items():
        add(name, function, {"a": random(2, 3), "b": random(2, 3)})
        add(f"{name}/broadcast", function, {"a": random(2, 1, 3), "b": random(4, 1)})
    by_zero = {"a": values([1, -1, 0, INF, 1, NAN]), "b": values([0, 0, 0, INF, -INF, 1])}
    add("div/specials", torch.div, by_zero, grad=False)
    pow_base, pow_exponent = values([2.0, 0.5, 3.0, 1.5, 1.0, 10.0]), values([3.0, -1.5, 0.0, 1.0, 7.5, 2.0])
    add("pow", torch.pow, {"a": pow_base, "b": pow_exponent})
    for exponent in (2.0, 3.0, 0.5, -1.0, 0.0):
        base = BOTH_SIGNS[5:] if exponent == int(exponent) else POSITIVE[1:8]
        add(f"pow/exponent_{exponent}", lambda a, exponent: a**exponent, {"a": values(base)}, {"exponent": exponent})
    bases, exponents = [0, 0, 0, -0.0, -8, -2, INF, INF, NAN, 1, NAN], [0, 2, -1, 3, 1 / 3, 3, 0, -2, 0, NAN, 1]
    add("pow/specials", torch.pow, {"a": values(bases), "b": values(exponents)}, grad=False)
    for name, function in (("minimum", torch.minimum), ("maximum", torch.maximum)):
        add(name, function, {"a": random(7), "b": random(7)})
        add(f"{name}/ties", function, {"a": values([1, 2, -3]), "b": values([1, 2, -3])})
        special = {"a": values([NAN, 1, INF, -INF]), "b": values([1, NAN, 2, 2])}
        add(f"{name}/specials", function, special, grad=False)
    comparisons = {"a": values([1, 2, 3, 0.0, NAN, NAN, INF, -INF]), "b": values([2, 2, 2, -0.0, NAN, 1, INF, INF])}
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        add(name, getattr(torch, name), comparisons, grad=False)

    condition = bools([1, 0, 0, 1, 1, 0], 2, 3)
    add("where", torch.where, {"condition": condition, "x": random(2, 3), "y": random(2, 3)})
    unpicked = {"condition": bools([1, 0]), "x": values([1.0, NAN]), "y": values([INF, 2.0])}
    add("where/unpicked_nan", torch.where, unpicked)  # values that are not selected have gradient 0
    bounds = values([-2.0, -1.0, -0.5, 0.0, 0.5, 1.5, 2.0, 3.0])  # a value equal to a bound passes its gradient
    for variant, low, high in (("both", -1.0, 1.5), ("low", 0.0, None), ("high", None, 0.5)):
        clamp = lambda x, low, high: torch.clamp(x, low, high)
        add(f"clamp/{variant}", clamp, {"x": bounds}, {"low": low, "high": high})
    add("clamp/specials", clamp, {"x": values(SPECIALS)}, {"low": -1.0, "high": 1.0}, grad=False)


def reductions():
    def over(function):
        return lambda x, axes, keep_dims: function(x, axes or list(range(x.dim())), keep_dims)

    table = {
        "sum": torch.sum,
        "mean": torch.mean,
        "reduce_max": torch.amax,
        "reduce_min": torch.amin,
        "norm": lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep),
    }
    x = random(2, 3, 5)
    for name, function in table.items():
        for axes, keep in (([], False), ([0], False), ([-1], True), ([1], False), ([0, 2], False), ([0, 1, 2], True)):
            attrs = {"axes": axes, "keep_dims": keep}
            variant = ("all" if not axes else "axes_" + "_".join(map(str, axes))) + ("_kept" if keep else "")
            add(f"{name}/{variant}", over(function), {"x": x}, attrs)
    last = {"axes": [1], "keep_dims": False}
    ties = values([1, 3, 3, 2, -1, -1, -1, -1], 2, 4)  # equal values share the gradient equally
    add("reduce_max/ties", over(torch.amax), {"x": ties}, last)
    add("reduce_min/ties", over(torch.amin), {"x": ties}, last)
    special = {"x": values([INF, 1, -INF, NAN, 1, 2, 0.0, -0.0, 0.0, -INF, -INF, -INF], 4, 3)}
    for name, function in table.items():
        add(f"{name}/specials", over(function), special, last, grad=False)
    add("norm/zero", over(table["norm"]), {"x": values([0, 0, 3, 4], 2, 2)}, last)  # gradient of a zero row is 0
    argmax = lambda x, axis, keep_dims: torch.argmax(x, axis, keep_dims)
    for axis, keep in ((0, False), (1, True), (-1, False)):
        add(f"argmax/axis_{axis}", argmax, {"x": x}, {"axis": axis, "keep_dims": keep}, grad=False)
    add("argmax/ties", argmax, {"x": ties}, {"axis": 1, "keep_dims": False}, grad=False)
    nans = values([1, NAN, INF, NAN, 5, 2], 2, 3)
    add("argmax/nan", argmax, {"x": nans}, {"axis": 1, "keep_dims": False}, grad=False)


def layout():
    x = random(2, 3, 4)
    add("reshape", lambda x, shape: x.reshape(shape), {"x": x}, {"shape": [4, 6]})
    add("permute", lambda x, axes: x.permute(axes), {"x": x}, {"axes": [2, 0, 1]})
    add("expand", lambda x, shape: x.expand(shape), {"x": random(3, 1)}, {"shape": [2, 3, 4]})
    add("concat", lambda a, b, axis: torch.cat([a, b], axis), {"a": random(2, 3), "b": random(2, 1)}, {"axis": 1})

    def cut(x, axis, start, stop, step):
        return x.movedim(axis, 0)[start:stop:step].movedim(0, axis)

    add("slice", cut, {"x": x}, {"axis": 2, "start": 1, "stop": 3, "step": 1})
    add("slice/step", cut, {"x": random(7, 2)}, {"axis": 0, "start": 1, "stop": 7, "step": 2})
    add("pad", lambda x, axis, before, after: F.pad(x, (0, 0, before, after)), {"x": random(2, 3)},
        {"axis": 0, "before": 1, "after": 2})


def indexing():
    gather = lambda x, index, axis: torch.gather(x, axis, index)
    scatter = lambda x, index, src, axis: torch.scatter_add(x, axis, index, src)
    x = random(3, 4)
    add("gather/axis_0", gather, {"x": x, "index": ints([2, 0, 1, 0, 2, 2, 0, 0], 2, 4)}, {"axis": 0})
    add("gather/axis_1", gather, {"x": x, "index": ints([3, 3, 0, 1, 2, 2], 3, 2)}, {"axis": 1})
    add("gather/fewer_rows", gather, {"x": x, "index": ints([3, 0, 1], 1, 3)}, {"axis": 1})
    index = ints([0, 2, 2, 1, 1, 1, 0, 0], 2, 4)  # repeats add up
    add("scatter_add/axis_0", scatter, {"x": x, "index": index, "src": random(2, 4)}, {"axis": 0})
    index = ints([3, 0, 3, 1, 1, 1, 0, 2, 0], 3, 3)
    add("scatter_add/axis_1", scatter, {"x": x, "index": index, "src": random(3, 3)}, {"axis": 1})
    one_hot = lambda index, classes: F.one_hot(index, classes).float()
    add("one_hot", one_hot, {"index": ints([0, 3, 1, 3], 2, 2)}, {"classes": 4}, grad=False, dtypes=[torch.float32])
    embedding = lambda table, ids: F.embedding(ids, table)
    add("embedding", embedding, {"table": random(5, 3), "ids": ints([4, 0, 4, 2, 4, 0], 2, 3)})


def products():
    def matmul(a, b, transpose_a, transpose_b):
        return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)

    for ta in (False, True):
        for tb in (False, True):
            inputs = {"a": random(*(4, 3) if ta else (3, 4)), "b": random(*(5, 4) if tb else (4, 5))}
            variant = f"{'t' if ta else 'n'}{'t' if tb else 'n'}"
            add(f"matmul/{variant}", matmul, inputs, {"transpose_a": ta, "transpose_b": tb})
    plain = {"transpose_a": False, "transpose_b": False}
    add("matmul/one_row", matmul, {"a": random(1, 17), "b": random(17, 2)}, plain)
    add("matmul/one_deep", matmul, {"a": random(3, 1), "b": random(1, 4)}, plain)
    add("matmul/batched", matmul, {"a": random(2, 2, 3), "b": random(2, 3, 2)}, plain)
    transposed = {"transpose_a": False, "transpose_b": True}
    add("matmul/batched_nt", matmul, {"a": random(2, 2, 2, 3), "b": random(2, 2, 2, 3)}, transposed)
    add("matmul/rows_of_batch", matmul, {"a": random(2, 2, 3), "b": random(3, 4)}, plain)
    special = {"a": values([INF, 0, 1, NAN, 0, 0], 3, 2), "b": values([1, 0, 1, 2], 2, 2)}
    add("matmul/specials", matmul, special, plain, grad=False)


def rows():
    x = random(3, 5, scale=2.0)
    large = values([1e4, 1e4, -1e4, 0, 88.8, -88.8, -200, 0, 1, 1, 1, 1], 3, 4)
    special = values([-INF, 0, 1, -INF, -INF, -INF, INF, 0, 1, NAN, 0, 1], 4, 3)
    for name, function in (("softmax", torch.softmax), ("log_softmax", torch.log_softmax)):
        along = lambda x, axis, function=function: function(x, axis)
        add(name, along, {"x": x}, {"axis": -1})
        add(f"{name}/axis_0", along, {"x": x}, {"axis": 0})
        add(f"{name}/middle", along, {"x": random(2, 3, 2)}, {"axis": 1})
        add(f"{name}/large", along, {"x": large}, {"axis": 1})
        add(f"{name}/specials", along, {"x": special}, {"axis": 1}, grad=False)
    layer_norm = lambda x, gamma, beta, eps: F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)
    scale = {"gamma": random(5), "beta": random(5)}
    add("layer_norm", layer_norm, {"x": x, **scale}, {"eps": 1e-5})
    add("layer_norm/eps", layer_norm, {"x": x, **scale}, {"eps": 0.1})
    add("layer_norm/three_axes", layer_norm, {"x": random(2, 2, 5), **scale}, {"eps": 1e-5})
    rows = values([3, 3, 3, 3, 3, 1024.25, 1024.5, 1024.75, 1025, 1025.25], 2, 5)  # no variance; a mean far from zero
    add("layer_norm/hard_rows", layer_norm, {"x": rows, **scale}, {"eps": 1e-5})


def attention():
    def attend(q, k, v, mask=None, causal=False, scale=None):
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1])

    q, k, v = random(2, 4, 3, 2), random(2, 4, 3, 2), random(2, 4, 3, 2)
    few = {"k": random(2, 2, 5, 2), "v": random(2, 2, 5, 2)}
    hidden = values([0, 0, -INF, 0, 0, 0, -INF, -INF, 0, 0], 2, 1, 1, 5)
    none = values([[0, 0, -INF], [0, 0, -INF], [-INF, -INF, -INF]], 1, 1, 3, 3)
    add("attention", attend, {"q": q, "k": k, "v": v})
    add("attention/causal", attend, {"q": q, "k": k, "v": v}, {"causal": True})
    add("attention/scale", attend, {"q": q, "k": k, "v": v}, {"scale": 0.3})
    add("attention/grouped", attend, {"q": q, **few})
    add("attention/key_mask", attend, {"q": q, **few, "mask": hidden}, grad=["q", "k", "v"])
    add("attention/bias", attend, {"q": q, **few, "mask": random(2, 4, 3, 5)})
    add("attention/hidden_row", attend, {"q": q, "k": k, "v": v, "mask": none}, grad=["q", "k", "v"])


def losses():
    logits, labels = random(6, 4, scale=2.0), ints([3, 0, 2, 2, 1, 0])
    weights, ignored = values([0.5, 2.0, 1.0, 0.25]), ints([3, -100, 2, -100, 1, 0])

    def cross_entropy(logits, labels, class_weights=None, **attrs):
        return F.cross_entropy(logits, labels, class_weights, **attrs)

    variants = {
        "plain": (labels, None, -100, 0.0),
        "weights": (labels, weights, -100, 0.0),
        "ignore": (ignored, None, -100, 0.0),
        "ignore_class": (labels, None, 2, 0.0),
        "smoothing": (labels, None, -100, 0.1),
        "smoothing_ignore": (ignored, None, -100, 0.1),
        "smoothing_weights": (labels, weights, -100, 0.1),
        "all": (ignored, weights, -100, 0.3),
    }
    for variant, (target, weight, ignore, smoothing) in variants.items():
        for reduction in ("none", "mean", "sum"):
            inputs = {"logits": logits, "labels": target}
            attrs = {"ignore_index": ignore, "label_smoothing": smoothing, "reduction": reduction}
            if weight is not None:
                inputs["class_weights"] = weight
            add(f"cross_entropy/{variant}_{reduction}", cross_entropy, inputs, attrs, grad=["logits"])
    plain = {"ignore_index": -100, "label_smoothing": 0.0, "reduction": "none"}
    hard = values([1e4, 0, -1e4, 0, 1e4, 0, 0, 0, 0, -INF, 0, 1], 4, 3)
    add("cross_entropy/large", cross_entropy, {"logits": hard, "labels": ints([0, 0, 1, 2])}, plain)
    nothing = {"logits": logits, "labels": ints([-100] * 6)}  # no sample counts: 0 / 0
    add("cross_entropy/all_ignored", cross_entropy, nothing, plain | {"reduction": "mean"}, grad=False)

    prediction, target = random(3, 4, scale=2.0), random(3, 4)
    target[0, 0] = prediction[0, 0]  # a difference of exactly 0
    prediction[0, 1], target[0, 1] = 2.0, 1.0  # exactly delta
    elementwise = {"mse": (F.mse_loss, {}), "l1": (F.l1_loss, {}), "huber": (F.huber_loss, {"delta": 1.0})}
    elementwise["huber/delta"] = (F.huber_loss, {"delta": 0.3})
    for name, (function, attrs) in elementwise.items():
        for reduction in ("none", "mean", "sum"):
            joint = "_" if "/" in name else "/"
            inputs = {"prediction": prediction, "target": target}
            attrs = attrs | {"reduction": reduction}
            add(f"{name}{joint}{reduction}", function, inputs, attrs, grad=["prediction"])
    logits = values([0, -0.0, 2.5, -2.5, 100, -100, 1e4, -1e4, 0.3, -0.3])
    truth = values([0, 1, 1, 0, 1, 1, 0, 0, 0.25, 0.9])
    bce = lambda logits, target, reduction: F.binary_cross_entropy_with_logits(logits, target, reduction=reduction)
    for reduction in ("none", "mean", "sum"):
        inputs, attrs = {"logits": logits, "target": truth}, {"reduction": reduction}
        add(f"bce_with_logits/{reduction}", bce, inputs, attrs, grad=["logits"])
    weight = values([1, 2, 3, 4, 0.5, 0, 2, 2, 3, 5])
    weighted = lambda logits, target, pos_weight, reduction: F.binary_cross_entropy_with_logits(
        logits, target, reduction=reduction, pos_weight=pos_weight
    )
    inputs = {"logits": logits, "target": truth, "pos_weight": weight}
    add("bce_with_logits_pos_weight", weighted, inputs, {"reduction": "none"}, grad=["logits"])


def casts():
    floats = SPECIALS + [1.0, -1.0, 0.1, 1 / 3, 1e-8, 6e-8, 65504.0, 65519.0, 65520.0, 1e5, 3.39e38, 2.0**-25, 2.0**-24]
    floats += [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 1 + 2.0**-11, 1 + 3 * 2.0**-11]  # ties to even
    whole = [0.0, -0.0, 1.0, -1.0, 0.99, -0.99, 2.5, -2.5, 3.7, 16777216.0, -2147483648.0]
    pairs = [
        ("f32", "bf16", torch.float32, torch.bfloat16, floats),
        ("f32", "f16", torch.float32, torch.float16, floats),
        ("bf16", "f32", torch.bfloat16, torch.float32, floats),
        ("f16", "f32", torch.float16, torch.float32, floats),
        ("f32", "f64", torch.float32, torch.float64, floats),
        ("f64", "f32", torch.float64, torch.float32, floats + [1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-40, 1e39, 1e-46]),
        ("f32", "i32", torch.float32, torch.int32, whole),
        ("f32", "i64", torch.float32, torch.int64, whole),
        ("f64", "i64", torch.float64, torch.int64, whole + [2.0**53 - 1, -(2.0**53) + 1]),
        ("i32", "f32", torch.int32, torch.float32, [0, 1, -1, 16777217, 2147483647, -2147483648]),
        ("i64", "f32", torch.int64, torch.float32, [0, 1, -1, 16777217, 2**40 + 1]),
        ("i64", "f64", torch.int64, torch.float64, [0, -1, 2**53 + 1]),
        ("f32", "bool", torch.float32, torch.bool, [0.0, -0.0, 1.0, 0.5, NAN, INF, DENORMAL]),
        ("bool", "f32", torch.bool, torch.float32, [0, 1]),
    ]
    for source, result, from_dtype, to_dtype, data in pairs:
        x = torch.tensor(data, dtype=from_dtype)
        CASES.append({"name": f"cast/{source}_to_{result}", "op": "cast", "dtype": source, "attrs": {"dtype": result},
                      "inputs": {"x": tensor(x)}, "output": tensor(x.to(to_dtype))})


def transformer():
    rms_norm = lambda x, weight, eps: F.rms_norm(x, (x.shape[-1],), weight, eps)
    add("rms_norm", rms_norm, {"x": random(3, 5), "weight": random(5)}, {"eps": 1e-6})
    add("rms_norm/small_rows", rms_norm, {"x": values([0.01, -0.02, 0.02, 0.03], 1, 4), "weight": random(4)}, {"eps": 1e-5})

    # As transformers' apply_rotary_pos_emb: element i turns with element i + D / 2.
    def rotary(x, positions, frequencies):
        angles = positions[..., None].to(x.dtype) * frequencies
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        if cos.dim() == 3:
            cos, sin = cos[:, None], sin[:, None]
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin

    frequencies = values([1.0, 0.25, 0.0625])
    add("rotary", rotary, {"x": random(2, 2, 3, 6), "positions": ints([0, 1, 7]), "frequencies": frequencies}, grad=["x"])
    add("rotary/by_sample", rotary, {"x": random(2, 1, 2, 6), "positions": ints([3, 4, 0, 9], 2, 2),
                                     "frequencies": frequencies}, grad=["x"])

    top_k = lambda x, k: torch.topk(x, k).indices
    add("top_k", top_k, {"x": random(3, 7)}, {"k": 3}, grad=False)
    add("swiglu", lambda gate, x: F.silu(gate) * x, {"gate": random(2, 3), "x": random(2, 3)})
    add("geglu", lambda gate, x: F.gelu(gate) * x, {"gate": random(2, 3), "x": random(2, 3)})


def main():
    torch.set_num_threads(1)
    for part in (elementwise, reductions, layout, indexing, products, rows, losses, casts, attention, transformer):
        part()
    write("ops.json", "values and gradients of each op; d(sum of output × grad_output) / d(input) in grads", CASES)


main()
