"""Writes golden files: readable JSON that preserves every number exactly.

A tensor is {"dtype", "shape", "data"}: data is flat, row-major, each float the shortest decimal that reads back to the
same value of its dtype; NaN and infinities are the strings "nan", "inf", "-inf"; booleans are 0 and 1.
"""

import json
import math
import os
import platform

import numpy as np
import torch

FOLDER = os.path.dirname(os.path.abspath(__file__))
WIDTH = 120
NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
}


class Token(str):
    """Text that is written to the file unchanged."""


def number(value, single=False):
    """The shortest decimal that reads back to the same f64, or f32 if `single`."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = str(np.float32(value)) if single else repr(float(value))
    assert (np.float32(float(text)) if single else float(text)) == value
    return Token(text)


def numbers(values):
    return [number(v) for v in values]


def flat(t):
    """The elements of a tensor in row-major order, as exact numbers."""
    t = t.detach().flatten()
    if t.dtype in (torch.bfloat16, torch.float16, torch.float32):
        return [number(v, single=True) for v in t.float().tolist()]
    if t.dtype == torch.float64:
        return numbers(t.tolist())
    return [int(v) for v in t.tolist()]


def tensor(t):
    return {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data": flat(t)}


def render(node, indent=0, used=0):
    """JSON on one line if it fits after `used` columns; otherwise numbers fill lines, other items get one each."""
    line = one_line(node)
    if indent + used + len(line) < WIDTH or not isinstance(node, (dict, list)):
        return line
    pad = " " * (indent + 1)
    if isinstance(node, dict):
        lines = [f"{json.dumps(k)}: {render(v, indent + 1, len(k) + 4)}" for k, v in node.items()]
        return "{" + f",\n{pad}".join(lines) + "}"
    if all(not isinstance(v, (dict, list)) for v in node):
        return f"[\n{pad}" + fill([one_line(v) for v in node], indent + 1) + "]"
    return f"[\n{pad}" + f",\n{pad}".join(render(v, indent + 1) for v in node) + "]"


def one_line(node):
    if isinstance(node, Token):
        return node
    if isinstance(node, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {one_line(v)}" for k, v in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(one_line(v) for v in node) + "]"
    if isinstance(node, float):
        return one_line(number(node))
    return json.dumps(node, ensure_ascii=False, allow_nan=False)


def fill(words, indent):
    lines, line = [], ""
    for word in words:
        if line and indent + len(line) + len(word) + 3 > WIDTH:
            lines.append(line)
            line = ""
        line += (", " if line else "") + word
    return f",\n{' ' * indent}".join(lines + [line])


def flow(value):
    """A value of a recipe in one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    plain = isinstance(value, str) and value[0].isalnum()
    return value if plain else json.dumps(value)


def write(name, about, cases, versions=(), **shared):
    """Writes `name` next to this script: its generator, what is common to all cases, the cases."""
    made_by = {"python": platform.python_version(), "torch": torch.__version__}
    made_by.update({m.__name__: m.__version__ for m in versions})
    names = [c["name"] for c in cases]
    assert len(names) == len(set(names)), "case names must differ"
    text = render({"about": about, "made_by": made_by, **shared, "cases": cases})
    path = os.path.join(FOLDER, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    print(f"{name}: {len(cases)} cases, {len(text) + 1} bytes")
