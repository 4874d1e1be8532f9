"""augment.json: what torchvision's functions on tensors make of small images of floats from 0 to 1, and the parts that
RandomResizedCrop takes with the draws of the data path."""

import sys

here = sys.path.pop(0)  # profile.py of this folder would hide Python's module, which torchvision imports
import torch
import torchvision
import torchvision.transforms.functional as F

sys.path.insert(0, here)
from draws import AUGMENT, below, unit, words
from golden_io import numbers, tensor, write
from torchvision.transforms import RandomResizedCrop

torch.manual_seed(0)
CASES = []


def add(name, image, output, **arguments):
    CASES.append({"name": name, **arguments, "image": tensor(image), "output": tensor(output)})


for name, shape in {"rgb": (3, 5, 6), "square": (3, 6, 6), "grey": (1, 5, 7)}.items():
    image = torch.rand(shape).round(decimals=3)
    for degrees in (0.0, 15.0, -40.5, 90.0, 180.0):
        # fill None: pixels outside of the image are 0; a fill would also darken the border twice.
        rotated = F.rotate(image, degrees, F.InterpolationMode.BILINEAR, fill=None)
        add(f"rotate/{name}/{degrees}", image, rotated, value=degrees)
    for kind in ("brightness", "contrast", "saturation"):
        for factor in (0.0, 0.8, 1.25, 2.0):
            output = getattr(F, f"adjust_{kind}")(image, factor)
            add(f"{kind}/{name}/{factor}", image, output, value=factor)
    add(f"flip/{name}/horizontal", image, F.hflip(image), value=0.0)
    add(f"flip/{name}/vertical", image, F.vflip(image), value=0.0)
    for top, left in ((0, 0), (1, 4), (4, 3)):
        padded = F.pad(image, [2, 2])
        output = F.crop(padded, top, left, shape[1], shape[2])
        add(f"crop/{name}/{top}_{left}", image, output, value=0.0, top=top, left=left)



def resized_crop(index, height, width, scale, ratio):
    """The part that torchvision takes of an image if its draws are those of sample `index` in epoch 2 of seed 9."""
    random = words(9, AUGMENT, 2, index)
    uniform, integers = torch.Tensor.uniform_, torch.randint
    torch.Tensor.uniform_ = lambda self, least, most: torch.tensor(float(least) + float(most - least) * unit(random))
    torch.randint = lambda least, end, size: torch.tensor(below(end, random))
    torch.set_default_dtype(torch.float64)
    part = RandomResizedCrop.get_params(torch.empty(3, height, width), scale, ratio)
    torch.Tensor.uniform_, torch.randint = uniform, integers
    torch.set_default_dtype(torch.float32)
    return {"index": index, "image": [height, width], "scale": numbers(scale), "ratio": numbers(ratio), "part": list(part)}


DEFAULT, WIDE, NARROW = [3 / 4, 4 / 3], [0.1, 10.0], [1.0, 1.0]
SIZES = [(375, 500), (500, 333), (1, 1), (7, 300), (64, 64), (1000, 3)]
PARTS = [resized_crop(len(SIZES) * i + j, *size, scale, ratio)
         for i, (scale, ratio) in enumerate([([0.08, 1.0], DEFAULT), ([0.08, 1.0], DEFAULT), ([0.9, 1.0], NARROW),
                                             ([0.01, 0.3], WIDE), ([1.0, 1.0], DEFAULT)])
         for j, size in enumerate(SIZES)]

write("augment.json", "images before and after torchvision's functions", CASES, versions=[torchvision],
      parts=PARTS)
