"""The models that bench/steps.py compares: the runner trains them with bench/recipes/NAME.yaml, the peers with
torch_models.py and jax_models.py.

kind        fields
mlp         widths of the layers; extra: layer_norm, gelu and dropout between them; hook: the step of hooks/digits.lua
cnn         conv: channels of two 3 x 3 convolutions; then a max_pool of 2, and widths of linear layers
resnet      channels of the four stages of ResNet-18, for images of 32 x 32
gpt         GPT-2: each token is followed by its label
encoder     BERT, with two classes of a whole sequence
"""
WORKLOADS = {
    "small": dict(kind="mlp", widths=[64, 128, 10], batch=32, samples=1437, extra=False, hook=False),
    "lua": dict(kind="mlp", widths=[64, 128, 10], batch=32, samples=1437, extra=False, hook=True),
    "big": dict(kind="mlp", widths=[784, 1024, 1024, 10], batch=256, samples=8192, extra=False, hook=False),
    "mixed": dict(kind="mlp", widths=[784, 1024, 1024, 10], batch=256, samples=8192, extra=True, hook=False),
    "cnn": dict(kind="cnn", image=(1, 28, 28), conv=[32, 64], widths=[9216, 128, 10], batch=64, samples=4096),
    "resnet": dict(kind="resnet", image=(3, 32, 32), channels=[64, 128, 256, 512], widths=[512, 10], batch=64, samples=1024),
    "gpt": dict(kind="gpt", layers=6, heads=6, width=384, length=256, vocabulary=65, batch=8, samples=256),
    "encoder": dict(kind="encoder", layers=6, heads=6, width=384, length=128, vocabulary=8192, classes=2, batch=16, samples=512),
    "gpt2": dict(kind="gpt", layers=12, heads=12, width=768, length=64, vocabulary=50257, batch=4, samples=256),
}
# The model of bench/recipes/layers.lua.
LAYERS = dict(vocabulary=90, width=64, heads=4, layers=12, length=64, batch=4)


def resnet_convolutions(w):
    """(in, out, kernel, stride, size of the result) of each convolution, in order."""
    size, channels = w["image"][1], w["channels"][0]
    found = [(w["image"][0], channels, 3, 1, size)]
    for stage, out in enumerate(w["channels"]):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            size //= stride
            found += [(channels, out, 3, stride, size), (out, out, 3, 1, size)]
            if channels != out:
                found.append((channels, out, 1, stride, size))
            channels = out
    return found


def products(w):
    """Multiply-adds of each product of a sample's forward pass. The first needs no gradient of its input, unless it is
    None."""
    linear = [a * b for a, b in zip(w.get("widths", []), w.get("widths", [])[1:])]
    if w["kind"] == "mlp":
        return linear
    if w["kind"] == "cnn":
        (c, n, _), (first, second) = w["image"], w["conv"]
        return [c * first * 9 * (n - 2) ** 2, first * second * 9 * (n - 4) ** 2, *linear]
    if w["kind"] == "resnet":
        return [a * b * k * k * n * n for a, b, k, _, n in resnet_convolutions(w)] + linear
    width, length = w["width"], w["length"]
    seen = length / 2 if w["kind"] == "gpt" else length  # tokens that a token sees, on average
    layer = length * (12 * width * width + 2 * width * seen)
    head = length * width * w["vocabulary"] if w["kind"] == "gpt" else width * width + width * w["classes"]
    return [0, *[layer] * w["layers"], head]


def flops(w):
    """Of the products of a training step: forward, and the gradients of both operands."""
    found = products(w)
    return 2 * w["batch"] * (3 * sum(found) - found[0])


def parameters(w):
    dense = sum(a * b + b for a, b in zip(w.get("widths", []), w.get("widths", [])[1:]))
    if w["kind"] == "cnn":
        first, second = w["conv"]
        return dense + 9 * (w["image"][0] * first + first * second) + first + second
    if w["kind"] == "resnet":
        return dense + sum(a * b * k * k + 2 * b for a, b, k, *_ in resnet_convolutions(w))
    if w["kind"] == "mlp":
        return dense
    return w["layers"] * 12 * w["width"] ** 2 + (w["vocabulary"] + w["length"]) * w["width"]
