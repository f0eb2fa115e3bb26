"""Compares each step of augment.c with Pillow: FOLDER/source.rgb is WIDTH x HEIGHT; FOLDER/steps
has one `op value` per line; FOLDER/given.rgb has the result of each. Exits with 1 if a result
differs by more than allowed."""
import math
import pathlib
import sys

from PIL import Image, ImageEnhance, ImageOps

folder, width, height = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
source = Image.frombytes("RGB", (width, height), (folder / "source.rgb").read_bytes())
given = (folder / "given.rgb").read_bytes()


def affine(*matrix):
    return source.transform(source.size, Image.AFFINE, matrix, Image.NEAREST)


def hue(turn):
    """Rotates the hue in real numbers, with colorsys's definition."""
    out = bytearray()
    for pixel in source.getdata():
        most, least = max(pixel), min(pixel)
        spread = most - least
        if spread == 0:
            out += bytes(pixel)
            continue
        r, g, b = pixel
        h = (g - b) / spread if r == most else 2 + (b - r) / spread if g == most else 4 + (r - g) / spread
        h = (h + turn) % 6
        out += bytes(round(most - spread * max(0, min(k, 4 - k, 1))) for k in ((n + h) % 6 for n in (5, 3, 1)))
    return Image.frombytes("RGB", source.size, bytes(out))


def pillow_result(op, value):
    factor = value / 65536
    return {
        "identity": lambda: source,
        "shear_x": lambda: affine(1, math.tan(math.radians(math.degrees(math.atan(value / 100)))), 0, 0, 1, 0),
        "shear_y": lambda: affine(1, 0, 0, math.tan(math.radians(math.degrees(math.atan(value / 100)))), 1, 0),
        "translate_x": lambda: affine(1, 0, -value, 0, 1, 0),
        "translate_y": lambda: affine(1, 0, 0, 0, 1, -value),
        "rotate": lambda: source.rotate(value, Image.NEAREST),
        "brightness": lambda: ImageEnhance.Brightness(source).enhance(factor),
        "color": lambda: ImageEnhance.Color(source).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(source).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(source).enhance(factor),
        "posterize": lambda: ImageOps.posterize(source, value),
        "solarize": lambda: ImageOps.solarize(source, value / 2),
        "auto_contrast": lambda: ImageOps.autocontrast(source),
        "equalize": lambda: ImageOps.equalize(source),
        "hue": lambda: hue(factor),
    }[op]()


exact = {"identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "posterize", "solarize", "equalize"}
status = 0
lines = (folder / "steps").read_text().split("\n")[:-1]
size = 3 * width * height
assert len(given) == size * len(lines), (len(given), len(lines))
for i, line in enumerate(lines):
    op, value = line.split()
    wanted = pillow_result(op, int(value)).tobytes()
    worst = max(abs(a - b) for a, b in zip(wanted, given[i * size:(i + 1) * size]))
    if worst > (0 if op in exact else 1):
        print(f"{line}: {worst} levels away", file=sys.stderr)
        status = 1
sys.exit(status)
