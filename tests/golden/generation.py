"""generation.json: which tokens may follow, with which probability, after temperature, top-k and top-p.

Reference: the logits processors of transformers in their order, in f64. Logits are distinct, and no sum of probabilities
is close to top_p, so that the sets of tokens do not depend on rounding. The script stops unless the usual mistake, leaving
out the token that crosses top_p, changes each case where others are left.
"""

import torch
import transformers
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from golden_io import number, tensor, write

CLOSE = 1e-6


def chances(logits, temperature=1.0, top_k=None, top_p=1.0):
    scores = TemperatureLogitsWarper(temperature)(None, logits) if temperature != 1 else logits
    if top_k:
        scores = TopKLogitsWarper(min(top_k, len(logits[0])))(None, scores)
    if top_p < 1:
        sums = scores.softmax(-1).sort(descending=True).values.cumsum(-1)
        assert (sums - top_p).abs().min() > CLOSE
        scores = TopPLogitsWarper(top_p)(None, scores)
    return scores.softmax(-1)


def without_last(logits, **options):
    """The mistake: keeps a token while the sum with it is below p."""
    kept = chances(logits, **options)
    least = kept.masked_fill(kept == 0, 2).argmin()
    wrong = kept.clone()
    wrong[0, least] = 0
    return wrong / wrong.sum()


def cases():
    generator = torch.Generator().manual_seed(11)
    for size, options in [
        (8, {}),
        (8, {"temperature": 0.7}),
        (8, {"temperature": 3.0}),
        (8, {"top_k": 3}),
        (8, {"top_k": 1}),
        (8, {"top_k": 100}),
        (30, {"top_p": 0.3}),
        (30, {"top_p": 0.9}),
        (30, {"top_p": 0.0001}),
        (30, {"temperature": 0.5, "top_p": 0.8}),
        (30, {"temperature": 1.7, "top_p": 0.8}),
        (200, {"temperature": 1.3, "top_k": 40, "top_p": 0.7}),
        (200, {"temperature": 0.6, "top_k": 5, "top_p": 0.95}),
    ]:
        logits = (torch.randn(1, size, generator=generator) * 2).float().double()
        assert len(logits.unique()) == size
        result = chances(logits, **options)
        if options.get("top_p", 1) < 1 and (result > 0).sum() > 1:
            assert (without_last(logits, **options) - result).abs().max() > 1e-3
        name = ", ".join(f"{key} {value}" for key, value in options.items()) or "all"
        yield {
            "name": f"{name} of {size}",
            "temperature": number(options.get("temperature", 1.0)),
            "top_k": options.get("top_k"),
            "top_p": number(options.get("top_p", 1.0)),
            "logits": tensor(logits[0].float()),
            "probabilities": tensor(result[0]),
        }


write("generation.json", "Probabilities of the next token by transformers' logits processors.", list(cases()), (transformers,))
