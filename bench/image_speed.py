#!/usr/bin/env python3
"""Speed of decoding images and of resizing them to a shorter side of 256 on one core, compared with Pillow, in CPU time of
the same run.

    bench/image_speed.py --bench build/bin/image_bench --pillow PYTHON [FILE…]

Without files, generates photographs of 500 x 375 pixels (waves with noise) as JPEG and PNG. PYTHON has `pillow` and `numpy`.
"""
import argparse
import os
import subprocess
import tempfile

GENERATE = """
import sys
import numpy
from PIL import Image
y, x = numpy.mgrid[0:375, 0:500]
waves = [128 + 80 * numpy.sin(x / (20 + 7 * c)) * numpy.cos(y / (31 - 5 * c)) + 20 * numpy.sin(x * y / 900 + c) for c in range(3)]
noise = numpy.random.RandomState(1).normal(0, 6, (375, 500, 3))
photo = Image.fromarray(numpy.clip(numpy.stack(waves, axis=2) + noise, 0, 255).astype(numpy.uint8))
photo.save(sys.argv[1] + "/photo.jpg", quality=90)
photo.save(sys.argv[1] + "/progressive.jpg", quality=90, progressive=True)
photo.save(sys.argv[1] + "/photo.png")
photo.quantize(64).save(sys.argv[1] + "/palette.png")
"""

PEER = """
import io, sys, time
from PIL import Image, ImageOps


def best(work):
    times = []
    for _ in range(10):
        begin, calls, elapsed = time.process_time(), 0, 0
        while elapsed < 0.1:
            work()
            calls += 1
            elapsed = time.process_time() - begin
        times.append(elapsed / calls)
    return min(times) * 1e3


for path in sys.argv[1:]:
    data = open(path, "rb").read()
    decode = lambda: ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
    image = decode()
    width, height = image.size
    size = (256, 256 * height // width) if width <= height else (256 * width // height, 256)
    print(path, "decode", best(decode))
    print(path, "resize", best(lambda: image.resize(size, Image.BILINEAR)))
"""


def measure(command):
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.rsplit(" ", 3) if line.endswith(" ms") else line.rsplit(" ", 2) for line in output.splitlines()]
    return {(row[0], row[1]): float(row[2]) for row in rows}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bench", required=True)
    ap.add_argument("--pillow", required=True)
    ap.add_argument("files", nargs="*")
    options = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = options.files
        if not files:
            subprocess.run([options.pillow, "-c", GENERATE, folder], check=True)
            files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        mine = measure([options.bench, *files])
        theirs = measure([options.pillow, "-c", PEER, *files])
        for (path, work), time in theirs.items():
            print(f"{os.path.basename(path):<16} {work} {mine[path, work]:7.3f} ms, Pillow {time:7.3f} ms: "
                  f"{time / mine[path, work]:.2f} times as fast")


main()
