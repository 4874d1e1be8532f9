#!/usr/bin/env python3
"""Checks exported ONNX files with onnxruntime.

    RUNNER_ONNX_FOLDER=FOLDER build/bin/formats_tests --gtest_filter='Onnx.*'
    tests/formats/onnx_check.py FOLDER

Every NAME.onnx in the folder is checked by the ONNX checker, and run on the inputs in NAME.json. Its outputs must be
those in NAME.json, which runner has computed, up to 1e-5. Needs the packages onnx, onnxruntime and numpy.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime

SHAPES = {"features": (-1, 4), "p": (-1, 4), "ids": (-1, 2)}


def check(file):
    onnx.checker.check_model(onnx.load(file), full_check=True)
    session = onnxruntime.InferenceSession(file)
    values = json.loads(file.with_suffix(".json").read_text())
    inputs = {
        i.name: np.array(values[i.name], np.int64 if i.type == "tensor(int64)" else np.float32).reshape(SHAPES[i.name])
        for i in session.get_inputs()
    }
    got = session.run(None, inputs)[0].astype(np.float64).flatten()
    expected = np.array(values["outputs"], np.float64)
    assert got.shape == expected.shape, f"{got.shape} values, expected {expected.shape}"
    error = np.max(np.abs(got - expected) / np.maximum(1, np.abs(expected)))
    assert error <= 1e-5, f"differs by {error}"
    return error


def main():
    files = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
    assert files, "no .onnx files"
    for file in files:
        print(f"{file.stem}: {check(file):.1e}")


main()
