#!/usr/bin/env python3
"""Writes tests/images/files/ and tests/images/figures.json: small images of every kind, and what Pillow and torchvision
make of them. The figures are of Pillow 13.0 and torchvision 0.29.

    tests/images/figures.py

Pixels are digests (SHA-256) of the RGB bytes of ImageOps.exif_transpose(Image.open(file)).convert("RGB").
"""
import hashlib
import io
import json
import os
import struct
import zlib

import numpy
from PIL import Image, ImageOps
from torchvision.transforms import functional

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "files")
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def picture(height, width, channels, seed=1):
    """Waves with some noise, so that a JPEG of it is neither flat nor large."""
    random = numpy.random.RandomState(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    waves = [128 + 90 * numpy.sin(x / (5.0 + c) + seed) * numpy.cos(y / (7.0 - c)) for c in range(channels)]
    noise = random.randint(-30, 31, (height, width, channels))
    return numpy.clip(numpy.stack(waves, axis=2) + noise, 0, 255).astype(numpy.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def scan_lines(samples, bits):
    """Rows of (height, width, channels) samples, each with filter 0."""
    lines = b""
    for row in samples:
        flat = row.reshape(-1)
        if bits == 16:
            lines += b"\0" + flat.astype(">u2").tobytes()
        else:
            binary = "".join(f"{value:0{bits}b}" for value in flat)
            binary += "0" * (-len(binary) % 8)
            lines += b"\0" + bytes(int(binary[i : i + 8], 2) for i in range(0, len(binary), 8))
    return lines


def png(samples, color, bits, before=b"", after=b"", interlaced=False):
    height, width = samples.shape[:2]
    samples = samples.reshape(height, width, CHANNELS[color])
    if interlaced:
        passes = [samples[y0::dy, x0::dx] for x0, y0, dx, dy in ADAM7]
        data = b"".join(scan_lines(part, bits) for part in passes if part.size)
    else:
        data = scan_lines(samples, bits)
    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + before + chunk(b"IDAT", zlib.compress(data, 9)) + after +
            chunk(b"IEND", b""))


def exif(orientation, order=">", kind=3):
    """A TIFF structure with the tags Make and Orientation."""
    value = struct.pack(order + ("HH" if kind in (3, 8) else "I"), *([orientation, 0] if kind in (3, 8) else [orientation]))
    entries = struct.pack(order + "HHI", 0x10F, 2, 4) + b"abc\0" + struct.pack(order + "HHI", 0x112, kind, 1) + value
    start = b"MM\0*" if order == ">" else b"II*\0"
    return start + struct.pack(order + "I", 8) + struct.pack(order + "H", 2) + entries + struct.pack(order + "I", 0)


def xmp(orientation, as_element=False):
    tag = f"<tiff:Orientation>{orientation}</tiff:Orientation>" if as_element else ""
    attribute = "" if as_element else f' tiff:Orientation="{orientation}"'
    return f'<x:xmpmeta><rdf:Description tiff:OrientationX="3"{attribute}>{tag}</rdf:Description></x:xmpmeta>'.encode()


def raw_profile(orientation):
    data = b"Exif\0\0" + exif(orientation)
    return f"\nexif\n{len(data):8}\n{data.hex()}\n".encode()


def jpeg(pixels, mode=None, **options):
    file = io.BytesIO()
    Image.fromarray(pixels, mode).save(file, "JPEG", **options)
    return file.getvalue()


def segment(marker, data):
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def with_segments(file, *segments):
    """After the marker that begins the file."""
    return file[:2] + b"".join(segments) + file[2:]


def without_segment(file, marker):
    at = file.index(bytes([0xFF, marker]))
    return file[:at] + file[at + 2 + struct.unpack(">H", file[at + 2 : at + 4])[0] :]


def with_adobe_transform(file, transform):
    at = file.index(b"Adobe") + 11
    return file[:at] + bytes([transform]) + file[at + 1 :]


def ycck(inks):
    """A JPEG as Adobe writes it: inverted inks, of which the first three are inverted again and stored as Y, Cb, Cr."""
    colours = Image.fromarray(numpy.ascontiguousarray(inks[..., :3]), "RGB").convert("YCbCr")
    channels = numpy.dstack([numpy.asarray(colours), 255 - inks[..., 3]])
    # Pillow inverts what it writes.
    return with_adobe_transform(jpeg(255 - channels, "CMYK", quality=95), 2)


def png_files():
    height, width = 11, 19
    files = {}
    for bits in (1, 2, 4, 8, 16):
        grey = picture(height, width, 1) if bits == 8 else picture(height, width, 2).astype(numpy.uint16)
        if bits == 16:
            grey = grey[..., :1] * 256 + grey[..., 1:]
        elif bits < 8:
            grey = grey[..., :1] >> (8 - bits)
        files[f"grey_{bits}"] = png(grey, GREY, bits)
        files[f"grey_{bits}_interlaced"] = png(grey, GREY, bits, interlaced=True)
        files[f"grey_{bits}_trns"] = png(grey, GREY, bits, chunk(b"tRNS", struct.pack(">H", int(grey[0, 0, 0]))))
    for bits in (1, 2, 4, 8):
        colours = picture(1, 1 << bits, 3, seed=bits).tobytes()
        indices = picture(height, width, 1, seed=9) >> (8 - bits)
        files[f"palette_{bits}"] = png(indices, PALETTE, bits, chunk(b"PLTE", colours))
        files[f"palette_{bits}_interlaced"] = png(indices, PALETTE, bits, chunk(b"PLTE", colours), interlaced=True)
        files[f"palette_{bits}_trns"] = png(indices, PALETTE, bits, chunk(b"PLTE", colours) + chunk(b"tRNS", b"\0\x80"))
    files["palette_beyond_the_end"] = png(numpy.array([[0, 1, 2, 3]]), PALETTE, 8,
                                          chunk(b"PLTE", bytes([10, 20, 30, 200, 100, 50])))
    for name, color in (("rgb", RGB), ("grey_alpha", GREY_ALPHA), ("rgba", RGBA)):
        high = picture(height, width, CHANNELS[color], seed=3)
        wide = high.astype(numpy.uint16) * 256 + picture(height, width, CHANNELS[color], seed=4)
        for bits, samples in ((8, high), (16, wide)):
            files[f"{name}_{bits}"] = png(samples, color, bits)
            files[f"{name}_{bits}_interlaced"] = png(samples, color, bits, interlaced=True)
    files["rgb_8_trns"] = png(picture(5, 5, 3), RGB, 8, chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    files["rgb_8_gamma"] = png(picture(5, 5, 3), RGB, 8, chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"sBIT", b"\5\6\5"))
    files["rgb_1x1"] = png(picture(1, 1, 3), RGB, 8, interlaced=True)

    dot = numpy.zeros((2, 3, 3), numpy.uint8)  # bright in the first pixel
    dot[0, 0] = (255, 200, 100)
    for orientation in range(1, 9):
        files[f"exif_{orientation}"] = png(dot, RGB, 8, chunk(b"eXIf", exif(orientation)))
    files["exif_little_endian"] = png(dot, RGB, 8, chunk(b"eXIf", exif(6, "<")))
    files["exif_long"] = png(dot, RGB, 8, chunk(b"eXIf", exif(8, ">", 4)))
    files["exif_9"] = png(dot, RGB, 8, chunk(b"eXIf", exif(9)) + chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(6)))
    files["exif_prefix"] = png(dot, RGB, 8, chunk(b"eXIf", b"Exif\0\0" + exif(5)))
    files["exif_after_data"] = png(dot, RGB, 8, after=chunk(b"eXIf", exif(7)))
    files["exif_cut"] = png(dot, RGB, 8, chunk(b"eXIf", exif(6)[:24]))
    files["xmp"] = png(dot, RGB, 8, chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0en\0key\0" + xmp(3)))
    files["xmp_element"] = png(dot, RGB, 8, chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(6, True)))
    files["xmp_compressed"] = png(dot, RGB, 8, chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp(8))))
    files["raw_profile"] = png(dot, RGB, 8, chunk(b"tEXt", b"Raw profile type exif\0" + raw_profile(6)))
    files["raw_profile_compressed"] = png(
        dot, RGB, 8, chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(raw_profile(4))))
    return {name + ".png": data for name, data in files.items()}


def jpeg_files():
    colour, odd = picture(48, 64, 3), picture(37, 53, 3, seed=5)
    inks = picture(37, 53, 4, seed=6)
    files = {
        "grey": jpeg(odd[..., 0], quality=80),
        "grey_progressive": jpeg(odd[..., 0], quality=80, progressive=True),
        "rgb": jpeg(odd, quality=85, keep_rgb=True),
        "progressive": jpeg(odd, quality=60, progressive=True),
        "restarts": jpeg(colour, quality=70, restart_marker_blocks=2),
        "quality_5": jpeg(odd, quality=5),
        "quality_100": jpeg(picture(17, 15, 3), quality=100, subsampling=0),
        "1x1": jpeg(picture(1, 1, 3)),
        "cmyk": jpeg(inks, "CMYK", quality=80),
        "cmyk_progressive": jpeg(inks, "CMYK", quality=80, progressive=True),
    }
    red = numpy.zeros((8, 8, 4), numpy.uint8)  # full magenta and yellow
    red[..., 1:3] = 255
    files["cmyk_red"] = jpeg(red, "CMYK", quality=95)
    files["ycck_red"] = ycck(red)
    for name, subsampling in (("444", 0), ("422", 1), ("420", 2)):
        files[f"ycc_{name}"] = jpeg(odd, quality=75, subsampling=subsampling)
        files[f"ycc_{name}_whole_blocks"] = jpeg(colour, quality=90, subsampling=subsampling)
    files["ycck"] = with_adobe_transform(files["cmyk"], 2)
    files["cmyk_without_adobe"] = without_segment(files["cmyk"], 0xEE)
    files["adobe_rgb"] = with_segments(without_segment(files["ycc_444"], 0xE0),
                                       segment(0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, 0)))
    files["trailing_bytes"] = files["grey"] + b"\0\0 something else" + files["1x1"]
    files["early_end"] = files["ycc_420"][: len(files["ycc_420"]) * 2 // 3] + b"\xff\xd9"
    files["junk_before_marker"] = files["grey"][:-2] + b"\1\2\3" + files["grey"][-2:]

    dot = numpy.zeros((16, 24, 3), numpy.uint8)
    dot[:8, :8] = 255
    plain = jpeg(dot, quality=90, subsampling=0)
    for orientation in range(1, 9):
        files[f"exif_{orientation}"] = with_segments(plain, segment(0xE1, b"Exif\0\0" + exif(orientation)))
    files["exif_little_endian"] = with_segments(plain, segment(0xE1, b"Exif\0\0" + exif(6, "<")))
    files["exif_twice"] = with_segments(plain, segment(0xE1, b"Exif\0\0Exif\0\0" + exif(6)))
    files["exif_split"] = with_segments(plain, segment(0xE1, b"Exif\0\0" + exif(6)[:20]),
                                        segment(0xE1, b"Exif\0\0" + exif(6)[20:]))
    files["xmp"] = with_segments(plain, segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(8)))
    files["exif_before_xmp"] = with_segments(plain, segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + xmp(8)),
                                             segment(0xE1, b"Exif\0\0" + exif(3)))
    return {name + ".jpg": data for name, data in files.items()}


def digest(pixels):
    return hashlib.sha256(numpy.ascontiguousarray(pixels).tobytes()).hexdigest()


def expected_pixels(path):
    with Image.open(path) as image:
        if image.mode == "I;16":  # Pillow clips at 255
            return numpy.repeat((numpy.asarray(image) >> 8).astype(numpy.uint8)[..., None], 3, axis=2)
        return numpy.asarray(ImageOps.exif_transpose(image).convert("RGB"))


def write_files():
    os.makedirs(FILES, exist_ok=True)
    for old in os.listdir(FILES):
        os.remove(os.path.join(FILES, old))
    rows = []
    for name, data in sorted((png_files() | jpeg_files()).items()):
        path = os.path.join(FILES, name)
        with open(path, "wb") as file:
            file.write(data)
        pixels = expected_pixels(path)
        rows.append([name, *pixels.shape[:2], digest(pixels)])
    return rows


def resized_figures():
    """Rows of [file, height, width, digest]."""
    sizes = [(20, 30), (37, 30), (37, 53), (12, 53), (100, 150), (1, 1), (3, 200), (200, 3), (36, 52), (74, 106), (38, 54), (10, 40), (10, 39), (11, 40),
             (36, 54), (5, 20)]
    rows = []
    for name in ("ycc_420.jpg", "rgb_8.png", "grey_4.png", "rgb_1x1.png"):
        image = Image.open(os.path.join(FILES, name)).convert("RGB")
        rows += [[name, h, w, digest(numpy.asarray(image.resize((w, h), Image.BILINEAR)))] for h, w in sizes]
    return rows


def cropped_figures():
    """The same for CenterCrop."""
    sizes = [(37, 53), (20, 30), (21, 31), (36, 50), (1, 1), (40, 60), (41, 61), (37, 70), (50, 10), (38, 52), (100, 100)]
    image = Image.open(os.path.join(FILES, "ycc_420.jpg")).convert("RGB")
    return [["ycc_420.jpg", h, w, digest(numpy.asarray(functional.center_crop(image, [h, w])))] for h, w in sizes]


def shorter_side_figures():
    """Rows of [height, width, side, height, width] of Resize(side)."""
    random = numpy.random.RandomState(2)
    rows = [[375, 500, 256], [500, 375, 224], [7, 7, 3], [1, 1000, 5], [333, 1000, 99], [9, 49, 3]]
    rows += random.randint(1, 2000, (60, 3)).tolist()
    return [row + functional._compute_resized_output_size((row[0], row[1]), [row[2]]) for row in rows]


def main():
    figures = {"images": write_files(), "resized": resized_figures(), "cropped": cropped_figures(),
               "shorter_side": shorter_side_figures()}
    with open(os.path.join(HERE, "figures.json"), "w") as file:
        parts = [f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" for key, rows in figures.items()]
        file.write("{" + ",\n".join(parts) + "}\n")


main()
