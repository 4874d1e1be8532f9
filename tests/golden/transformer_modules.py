"""transformer_modules.json: outputs and gradients of torch.nn.MultiheadAttention and TransformerEncoderLayer.

Parameters are in the order of the state dict. `grads` are those of Σ output × grad_output.
"""

import torch

from golden_io import tensor, write

WIDTH, HEADS, TOKENS, BATCH = 8, 2, 5, 3
CASES = []
GENERATOR = torch.Generator().manual_seed(3)


def random(*shape):
    return torch.randn(shape, generator=GENERATOR)


def add(name, module, inputs, call, attrs):
    module = module.train()  # eval() would use a fused path without gradients
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(random(*parameter.shape) * 0.5)
    output = call(module, **inputs)
    seed = random(*output.shape)
    names = [key for key, _ in module.named_parameters()]
    grads = torch.autograd.grad(output, list(module.parameters()), seed)
    CASES.append({
        "name": name,
        "attrs": attrs,
        "parameters": {key: tensor(value) for key, value in module.named_parameters()},
        "inputs": {key: tensor(value) for key, value in inputs.items()},
        "output": tensor(output),
        "grad_output": tensor(seed),
        "grads": {key: tensor(value) for key, value in zip(names, grads)},
    })


def main():
    torch.set_num_threads(1)
    x, memory = random(BATCH, TOKENS, WIDTH), random(BATCH, 4, WIDTH)
    causal = torch.triu(torch.ones(TOKENS, TOKENS), 1).bool()
    padding = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 1, 0, 1, 0]]).bool()

    attention = lambda bias=True: torch.nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True)
    itself = lambda m, x, **masks: m(x, x, x, need_weights=False, **masks)[0]
    of = {"module": "MultiheadAttention", "bias": True}
    add("attention", attention(), {"x": x}, itself, of)
    add("attention/no_bias", attention(False), {"x": x}, itself, of | {"bias": False})
    add("attention/padding", attention(), {"x": x, "key_padding_mask": padding}, itself, of)
    add("attention/of_others", attention(), {"x": x, "key": memory, "value": random(BATCH, 4, WIDTH)},
        lambda m, x, key, value: m(x, key, value, need_weights=False)[0], of)

    layer = lambda **options: torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 16, 0.0, batch_first=True, **options)
    of = {"module": "TransformerEncoderLayer", "activation": "relu", "norm_first": False}
    add("layer", layer(), {"x": x}, lambda m, x: m(x), of)
    add("layer/gelu_norm_first", layer(activation="gelu", norm_first=True), {"x": x}, lambda m, x: m(x),
        of | {"activation": "gelu", "norm_first": True})
    add("layer/causal", layer(), {"x": x}, lambda m, x: m(x, src_mask=causal, is_causal=True), of | {"causal": True})
    write("transformer_modules.json", "outputs and gradients of modules with PyTorch's parameter names", CASES)


main()
