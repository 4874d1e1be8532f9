#!/usr/bin/env python3
"""Cost of training a GPT by context and by layers: nothing may grow faster than the mathematics does.

    bench/scaling.py --runner build/bin/runner [--threads 2] [--contexts 64,…,4096] [--layers 1,…,48] [--width 128]
                     [--seconds 2] [--plots FOLDER]

The model is a GPT with a vocabulary of 65; each step has 4,096 tokens. The first table has 4 layers, the second a context
of 256. A level rate of GF/s means that time grows with the flops of the products. MB is the peak memory.
"""
import argparse
import functools
import os
import tempfile

from charts import curves
from steps import drawn, figures_of, steps_for, trained

TOKENS, VOCABULARY, LAYERS = 4096, 65, 4
RECIPE = """schema_version: 1
name: scaling
model: {{type: gpt, layers: {layers}, heads: {heads}, width: {width}}}
data:
  train: {{format: text, path: tokens.bin, tokens: ids, vocabulary: {vocabulary}, sequence_length: {context}}}
  batch_size: {batch}
  drop_last: true
optimizer: {{type: adamw, lr: 1e-3}}
train: {{steps: 4}}
"""


def flops_of_token(width, layers, context):
    """Forward and backward pass: products with weights, and attention to half of the context on average."""
    return 6 * (layers * (12 * width * width + width * context) + width * VOCABULARY)


def measured(options, layers, context):
    with tempfile.TemporaryDirectory() as folder:
        recipe = os.path.join(folder, "gpt.yaml")
        with open(recipe, "w", encoding="utf-8") as file:
            file.write(RECIPE.format(layers=layers, heads=options.width // 64, width=options.width, context=context,
                                     vocabulary=VOCABULARY, batch=TOKENS // context))
        with open(os.path.join(folder, "tokens.bin"), "wb") as file:
            drawn("H", VOCABULARY, 16 * TOKENS + 1).tofile(file)
        run = functools.partial(run_runner, options, recipe)
        return figures_of("runner", steps_for(options.seconds, run), run)


def run_runner(options, recipe, steps):
    return trained(options.runner, recipe, steps, [f"threads={options.threads}"])


def compare(options, label, cases):
    """cases: (value on the axis, layers, context). Returns the curve of the time of a token."""
    curve = []
    print(f"{label:>8}{'us/token':>10}{'GF/s':>8}{'MB':>7}")
    for value, layers, context in cases:
        figures = measured(options, layers, context)
        micros = figures["ms"] * 1e3 / TOKENS
        gflops = flops_of_token(options.width, layers, context) / micros * 1e-3
        curve.append((value, micros))
        print(f"{value:8}{micros:10.2f}{gflops:8.1f}{figures['rss_mb']:7.0f}", flush=True)
    return curve


def main():
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runner", required=True)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--contexts", type=numbers, default=[64, 128, 256, 512, 1024, 2048, 4096])
    ap.add_argument("--layers", type=numbers, default=[1, 2, 4, 8, 16, 32, 48])
    ap.add_argument("--width", type=int, default=128)
    ap.add_argument("--seconds", type=float, default=2)
    ap.add_argument("--plots", help="a folder for scaling-context.svg and scaling-layers.svg")
    options = ap.parse_args()
    if any(n < 1 or TOKENS % n for n in options.contexts) or options.width % 64 or min(options.layers) < 1:
        ap.error(f"a context must divide {TOKENS}, and the width must be a multiple of 64")
    if options.plots:
        os.makedirs(options.plots, exist_ok=True)
    by_context = compare(options, "context", [(n, LAYERS, n) for n in options.contexts])
    by_layers = compare(options, "layers", [(n, n, 256) for n in options.layers])
    if options.plots:
        floor = lambda curve, flops: [(n, curve[0][1] * flops(n) / flops(curve[0][0])) for n, _ in curve]  # noqa: E731
        of_context = lambda n: flops_of_token(options.width, LAYERS, n)  # noqa: E731
        of_layers = lambda n: flops_of_token(options.width, n, 256)  # noqa: E731
        curves(os.path.join(options.plots, "scaling-context.svg"), "Microseconds per token by context",
               "tokens of context", {"runner": by_context, "by flops": floor(by_context, of_context)})
        curves(os.path.join(options.plots, "scaling-layers.svg"), "Microseconds per token by layers", "layers",
               {"runner": by_layers, "by flops": floor(by_layers, of_layers)})


if __name__ == "__main__":
    main()
