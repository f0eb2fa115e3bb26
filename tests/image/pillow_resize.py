"""Resizes with Pillow: each line of stdin is `orient? x y width height out_width out_height path`; raw RGB goes to OUT."""
import sys

from PIL import Image, ImageOps

with open(sys.argv[1], "wb") as out:
    for line in sys.stdin:
        orient, x, y, w, h, ow, oh, path = line.rstrip("\n").split(" ", 7)
        image = Image.open(path)
        if int(orient):
            image = ImageOps.exif_transpose(image)
        x, y, w, h = (int(v) for v in (x, y, w, h))
        box = (x, y, x + w, y + h)
        out.write(image.convert("RGB").resize((int(ow), int(oh)), Image.BILINEAR, box=box).tobytes())
