"""convolution_modules.json: torch.nn.functional's convolution, pooling and interpolation, and their gradients.

`code` is the same call in a hook, of the tensors in `inputs`. `grads` are those of Σ output × grad_output.
"""

import torch
from torch.nn import functional as F

from golden_io import tensor, write

CASES = []
GENERATOR = torch.Generator().manual_seed(9)


def random(*shape):
    return torch.randn(shape, generator=GENERATOR)


def add(name, code, call, **inputs):
    inputs = {key: value.requires_grad_() for key, value in inputs.items()}
    output = call(**inputs)
    seed = random(*output.shape)
    grads = torch.autograd.grad(output, list(inputs.values()), seed)
    CASES.append({
        "name": name,
        "code": code,
        "inputs": {key: tensor(value) for key, value in inputs.items()},
        "output": tensor(output),
        "grad_output": tensor(seed),
        "grads": {key: tensor(value) for key, value in zip(inputs, grads)},
    })


def convolutions():
    add("conv1d", "nn.conv1d(x, w, {bias = b, stride = 2, padding = 1})",
        lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1), x=random(2, 3, 8), w=random(4, 3, 3), b=random(4))
    add("conv1d/same", "nn.conv1d(x, w, {padding = 'same', dilation = 2})",
        lambda x, w: F.conv1d(x, w, padding="same", dilation=2), x=random(1, 2, 7), w=random(3, 2, 4))
    add("conv2d", "nn.conv2d(x, w, {bias = b, stride = {2, 1}, padding = {1, 2}, dilation = {1, 2}})",
        lambda x, w, b: F.conv2d(x, w, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
        x=random(2, 2, 6, 7), w=random(3, 2, 3, 2), b=random(3))
    add("conv2d/groups", "nn.conv2d(x, w, {bias = b, groups = 2, padding = 'same'})",
        lambda x, w, b: F.conv2d(x, w, b, groups=2, padding="same"),
        x=random(2, 4, 5, 5), w=random(6, 2, 3, 2), b=random(6))
    add("conv2d/depthwise", "nn.conv2d(x, w, {groups = 3, padding = 'valid'})",
        lambda x, w: F.conv2d(x, w, groups=3), x=random(1, 3, 4, 5), w=random(3, 1, 3, 3))
    add("conv_transpose1d", "nn.conv_transpose1d(x, w, {bias = b, stride = 2, padding = 1, output_padding = 1})",
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1),
        x=random(2, 3, 4), w=random(3, 2, 3), b=random(2))
    add("conv_transpose2d",
        "nn.conv_transpose2d(x, w, {bias = b, stride = {3, 2}, padding = {1, 0}, output_padding = {2, 1}})",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(3, 2), padding=(1, 0), output_padding=(2, 1)),
        x=random(2, 2, 3, 4), w=random(2, 3, 3, 2), b=random(3))
    add("conv_transpose2d/groups", "nn.conv_transpose2d(x, w, {groups = 2, dilation = 2, stride = 2})",
        lambda x, w: F.conv_transpose2d(x, w, groups=2, dilation=2, stride=2), x=random(1, 4, 3, 3),
        w=random(4, 1, 2, 2))


def pooling():
    add("max_pool1d", "nn.max_pool1d(x, 3, {stride = 2, padding = 1, ceil_mode = true})",
        lambda x: F.max_pool1d(x, 3, 2, 1, ceil_mode=True), x=random(2, 2, 8))
    add("max_pool2d", "nn.max_pool2d(x, {3, 2}, {stride = {2, 1}, padding = {1, 0}, dilation = {1, 2}})",
        lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (1, 2)), x=random(2, 2, 7, 6))
    add("avg_pool1d", "nn.avg_pool1d(x, 3, {stride = 2, padding = 1, ceil_mode = true})",
        lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True), x=random(2, 2, 6))
    add("avg_pool1d/ceil_stride", "nn.avg_pool1d(x, 2, {stride = 3, ceil_mode = true})",
        lambda x: F.avg_pool1d(x, 2, 3, ceil_mode=True), x=random(1, 2, 7))
    add("avg_pool2d", "nn.avg_pool2d(x, {2, 3})", lambda x: F.avg_pool2d(x, (2, 3)), x=random(2, 2, 5, 6))
    for counted in (True, False):
        add(f"avg_pool2d/ceil/{'counted' if counted else 'not_counted'}",
            f"nn.avg_pool2d(x, 3, {{stride = 2, padding = 1, ceil_mode = true, count_include_pad = {str(counted).lower()}}})",
            lambda x, counted=counted: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=counted),
            x=random(1, 2, 6, 4))
    for size, text in ((3, "3"), ((2, 3), "{2, 3}"), ((4, 7), "{4, 7}")):
        add(f"adaptive_avg_pool2d/{text}", f"nn.adaptive_avg_pool2d(x, {text})",
            lambda x, size=size: F.adaptive_avg_pool2d(x, size), x=random(1, 2, 4, 6))
        add(f"adaptive_max_pool2d/{text}", f"nn.adaptive_max_pool2d(x, {text})",
            lambda x, size=size: F.adaptive_max_pool2d(x, size), x=random(1, 2, 4, 6))
    add("adaptive_avg_pool1d", "nn.adaptive_avg_pool1d(x, 3)", lambda x: F.adaptive_avg_pool1d(x, 3), x=random(2, 2, 7))
    add("adaptive_max_pool1d", "nn.adaptive_max_pool1d(x, 3)", lambda x: F.adaptive_max_pool1d(x, 3), x=random(2, 2, 7))


def interpolation():
    def resize(name, code, shape, **options):
        add(f"interpolate/{name}", f"nn.interpolate(x, {{{code}}})", lambda x: F.interpolate(x, **options),
            x=random(*shape))

    resize("nearest", "size = 5", (2, 2, 3), size=5)
    resize("nearest/smaller", "size = {3, 2}", (1, 2, 7, 5), size=(3, 2))
    resize("nearest/twice", "scale_factor = 2", (1, 2, 3, 2), scale_factor=2)
    resize("nearest/factor", "scale_factor = {1.5, 0.7}", (1, 2, 3, 5), scale_factor=(1.5, 0.7))
    resize("nearest/factor_2.2", "scale_factor = 2.2", (1, 1, 16), scale_factor=2.2)
    resize("nearest/rounding", "size = 82", (1, 1, 2), size=82)
    resize("linear", "size = 7, mode = 'linear'", (2, 2, 4), size=7, mode="linear")
    resize("linear/factor", "scale_factor = 1.5, mode = 'linear'", (2, 2, 3), scale_factor=1.5, mode="linear")
    resize("linear/align_corners", "scale_factor = 1.5, mode = 'linear', align_corners = true", (2, 2, 3),
           scale_factor=1.5, mode="linear", align_corners=True)
    resize("linear/one", "size = 1, mode = 'linear', align_corners = true", (1, 2, 3), size=1, mode="linear",
           align_corners=True)
    resize("bilinear", "size = {6, 3}, mode = 'bilinear'", (1, 2, 4, 5), size=(6, 3), mode="bilinear")
    resize("bilinear/twice", "scale_factor = 2, mode = 'bilinear', align_corners = false", (1, 2, 3, 2),
           scale_factor=2, mode="bilinear", align_corners=False)
    resize("bilinear/factor", "scale_factor = {2.5, 0.6}, mode = 'bilinear'", (1, 2, 3, 4), scale_factor=(2.5, 0.6),
           mode="bilinear")
    resize("bilinear/align_corners", "size = {5, 7}, mode = 'bilinear', align_corners = true", (1, 2, 3, 4),
           size=(5, 7), mode="bilinear", align_corners=True)


def main():
    torch.set_num_threads(1)
    convolutions()
    pooling()
    interpolation()
    write("convolution_modules.json", "convolution, pooling and interpolation of PyTorch with their gradients", CASES)


main()
