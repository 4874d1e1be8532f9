"""class_weights.json: scikit-learn's compute_class_weight("balanced") for labels of some classes."""

import numpy as np
import sklearn
from sklearn.utils.class_weight import compute_class_weight

from golden_io import numbers, write

CASES = {
    "even": [3, 3, 3],
    "rare": [68, 15, 4],
    "one": [7],
    "many": [1, 2, 3, 5, 8, 13, 21, 34, 55, 89],
}


def weights(counts):
    labels = np.repeat(np.arange(len(counts)), counts)
    return compute_class_weight("balanced", classes=np.unique(labels), y=labels)


if __name__ == "__main__":
    cases = [{"name": name, "counts": counts, "weights": numbers(weights(counts))} for name, counts in CASES.items()]
    write("class_weights.json", f"balanced class weights of scikit-learn {sklearn.__version__}", cases)
