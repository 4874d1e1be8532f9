"""metrics.json: evaluation metrics of whole data sets, over batches with padding.

Losses and accuracies are computed by their definitions, in plain Python and f64. F1 and Matthews' correlation are those
of scikit-learn, Pearson's and Spearman's those of scipy. Random inputs come from torch. A sample whose mask is 0 is padding
and never counts.
"""

import math
import warnings

import scipy
import sklearn
import torch
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

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


def labels_and_predictions(case):
    rows = counted(case)
    return [case["labels"][i] for i in rows], [predicted(case["logits"][i]) for i in rows]


def f1(case, average):
    """`macro` has the classes that occur among the labels or the predictions; `binary` is that of class 1."""
    return float(f1_score(*labels_and_predictions(case), average=average))


def matthews(case):
    return float(matthews_corrcoef(*labels_and_predictions(case)))


def correlation(case, function):
    rows = counted(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant values
        return float(function([case["predictions"][i][0] for i in rows], [case["targets"][i][0] for i in rows])[0])


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
    figures |= {f"f1_{average}": f1(case, average) for average in ("macro", "micro")} | {"matthews": matthews(case)}
    if classes == 2:
        figures |= {"f1_binary": f1(case, "binary"), "f1": f1(case, "binary")}
    return shown(name, {"logits": logits, "labels": labels, "mask": mask}, figures)


def number_case(name, seed, samples, targets, masked=0, steps=None, mean=0.0):
    """`steps`: rounds to multiples of 1 / steps, so that values are equal. `mean`: of targets and predictions."""
    generator = torch.Generator().manual_seed(seed)
    predictions, wanted = (torch.randn(samples, targets, generator=generator) for _ in range(2))
    if steps:
        wanted = (wanted * steps).round() / steps
        predictions = ((predictions + wanted) * steps).round() / steps
    predictions, wanted = predictions + mean, wanted + mean
    mask = torch.ones(samples, dtype=torch.bool)
    mask[samples - masked :] = False
    case = {"predictions": predictions.tolist(), "targets": wanted.tolist(), "mask": mask.tolist()}
    figures = {"mse": mean_error(case, 2), "mae": mean_error(case, 1)}
    if targets == 1:
        figures |= {"pearson": correlation(case, pearsonr), "spearman": correlation(case, spearmanr)}
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
        number_case("numbers/one_with_ties", 10, 40, 1, masked=3, steps=2),
        number_case("numbers/one_far_from_zero", 11, 30, 1, mean=4096.0),
        number_case("numbers/three_padded", 9, 19, 3, masked=4),
    ]
    about = "metrics of whole data sets by their definitions, scikit-learn and scipy; mask 0 marks padding"
    write("metrics.json", about, cases, versions=(sklearn, scipy))


main()
