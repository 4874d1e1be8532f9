"""metrics.json: evaluation metrics by their definitions, in plain Python and f64, over batches with padding.

Only the random inputs come from torch. A sample whose mask is 0 is padding and never counts.
"""

import math

import torch

from golden_io import number, tensor, write


def counted(case):
    return [i for i, m in enumerate(case["mask"]) if m]


def log_sum_exp(row):
    top = max(row)
    return top + math.log(sum(math.exp(v - top) for v in row))


def loss(case):
    """Mean of −log softmax(logits)[label]."""
    rows = counted(case)
    return sum(log_sum_exp(case["logits"][i]) - case["logits"][i][case["labels"][i]] for i in rows) / len(rows)


def perplexity(case):
    return math.exp(loss(case))


def predicted(row):
    return max(range(len(row)), key=lambda c: row[c])  # the first of equal ones


def accuracy(case):
    rows = counted(case)
    return sum(predicted(case["logits"][i]) == case["labels"][i] for i in rows) / len(rows)


def top_k(case, k):
    """Share of samples whose label is among the k largest logits: fewer than k logits are larger."""
    rows = counted(case)
    larger = lambda row, label: sum(v > row[label] for v in row)
    return sum(larger(case["logits"][i], case["labels"][i]) < k for i in rows) / len(rows)


def confusion(case, c):
    """True positives, false positives, false negatives of class c."""
    pairs = [(predicted(case["logits"][i]), case["labels"][i]) for i in counted(case)]
    hits = sum(p == c and l == c for p, l in pairs)
    return hits, sum(p == c for p, _ in pairs) - hits, sum(l == c for _, l in pairs) - hits


def f1_of(hits, false_positives, misses):
    """2 TP / (2 TP + FP + FN); 0 if the class does not occur."""
    total = 2 * hits + false_positives + misses
    return 2 * hits / total if total else 0.0


def f1_macro(case):
    """Mean over the classes that occur among the labels or the predictions."""
    counts = [confusion(case, c) for c in range(len(case["logits"][0]))]
    present = [f1_of(*c) for c in counts if sum(c)]
    return sum(present) / len(present)


def f1_micro(case):
    counts = [confusion(case, c) for c in range(len(case["logits"][0]))]
    return f1_of(*(sum(c[i] for c in counts) for i in range(3)))


def f1_binary(case):
    """F1 of class 1."""
    return f1_of(*confusion(case, 1))


def mean_error(case, power):
    """Mean over samples of the mean over targets of |prediction − target|^power."""
    rows = counted(case)
    sample = lambda p, t: sum(abs(a - b) ** power for a, b in zip(p, t)) / len(p)
    return sum(sample(case["predictions"][i], case["targets"][i]) for i in rows) / len(rows)


def class_case(name, seed, samples, classes, masked=0, absent=None):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(samples, classes, generator=generator)
    labels = torch.randint(0, classes, (samples,), generator=generator)
    if absent is not None:
        labels[labels == absent] = (absent + 1) % classes
        logits[:, absent] = -50.0
    mask = torch.ones(samples, dtype=torch.bool)
    mask[samples - masked :] = False
    case = {"logits": logits.tolist(), "labels": labels.tolist(), "mask": mask.tolist()}
    figures = {"loss": loss(case), "perplexity": perplexity(case), "accuracy": accuracy(case)}
    figures |= {f"top_{k}": top_k(case, k) for k in range(1, classes)}
    figures |= {"f1_macro": f1_macro(case), "f1_micro": f1_micro(case)}
    if classes == 2:
        figures["f1_binary"] = f1_binary(case)
    return shown(name, {"logits": logits, "labels": labels, "mask": mask}, figures)


def number_case(name, seed, samples, targets, masked=0):
    generator = torch.Generator().manual_seed(seed)
    predictions, wanted = (torch.randn(samples, targets, generator=generator) for _ in range(2))
    mask = torch.ones(samples, dtype=torch.bool)
    mask[samples - masked :] = False
    case = {"predictions": predictions.tolist(), "targets": wanted.tolist(), "mask": mask.tolist()}
    figures = {"mse": mean_error(case, 2), "mae": mean_error(case, 1)}
    return shown(name, {"predictions": predictions, "targets": wanted, "mask": mask}, figures)


def shown(name, inputs, figures):
    return {
        "name": name,
        "inputs": {k: tensor(v) for k, v in inputs.items()},
        "metrics": {k: number(v) for k, v in figures.items()},
    }


def main():
    cases = [
        class_case("classes/three", 1, 23, 3),
        class_case("classes/three_padded", 2, 23, 3, masked=5),
        class_case("classes/ten", 3, 40, 10),
        class_case("classes/five_one_absent", 4, 30, 5, absent=2),
        class_case("classes/two", 5, 17, 2),
        class_case("classes/two_padded", 6, 17, 2, masked=1),
        class_case("classes/one_sample", 7, 1, 4),
        number_case("numbers/one", 8, 19, 1),
        number_case("numbers/three_padded", 9, 19, 3, masked=4),
    ]
    write("metrics.json", "metrics of whole data sets by their definitions; mask 0 marks padding", cases)


main()
