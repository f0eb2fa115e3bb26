"""page_fields.py: makes samples with masks, boxes and keypoints, and compares pages with them.

make PHOTOS FOLDER     writes samples from a folder of class folders
compare REPORT FOLDER  compares a page's content (page_check.py) with the files of `read --out`
whole REPORT FOLDER    compares a page of whole images with the samples in FOLDER
"""
import base64
import colorsys
import io
import json
import pathlib
import sys

import numpy
from PIL import Image


def make(photos, folder):
    folder.mkdir()
    names = sorted(path.name for path in photos.iterdir())
    generator = numpy.random.default_rng(7)
    for number, path in enumerate(sorted(photos.glob("*/*.jpg"))):
        image = Image.open(path).resize((60 + 37 * (number % 3), 60 + 20 * (number % 4)))
        width, height = image.size
        mask = generator.integers(0, 9, (height, width), numpy.uint8)
        mask[: height // 2, : width // 2] = names.index(path.parent.name)
        mask[:3] = 255
        count = number % 4
        corners = generator.uniform(0, 0.5, (count, 2)) * [width, height]
        boxes = numpy.concatenate([corners, corners + [width * 0.4, height * 0.4]], 1).round(2).tolist()
        annotations = {
            "boxes": boxes,
            "classes": generator.integers(0, 8, count).tolist(),
            "scores": [0.5] * count,
            "points": [[width / 2, height / 2, 2], [1.5, 2.5, 1], [0, 0, 0]],
        }
        stem = folder / f"{number:04}"
        image.save(f"{stem}.jpg", quality=90)
        Image.fromarray(mask).save(f"{stem}.seg.png")
        pathlib.Path(f"{stem}.json").write_text(json.dumps(annotations))
        pathlib.Path(f"{stem}.txt").write_text('a ring <script>alert(1)</script> & "more"')
        pathlib.Path(f"{stem}.cls").write_text(str(names.index(path.parent.name)))


def image_of(data):
    return Image.open(io.BytesIO(base64.b64decode(data)))


def check_colors(mask):
    """Ignored pixels are transparent, others not; 0 is black, and the first classes differ."""
    assert mask.mode == "P"
    rgba = numpy.asarray(mask.convert("RGBA"))
    indexes = numpy.asarray(mask)
    assert ((rgba[..., 3] == 0) == (indexes == 255)).all()
    assert (rgba[indexes == 0][:, :3] == 0).all()
    hues = {}
    for index in set(indexes.flat) - {0, 255}:
        colors = {tuple(color) for color in rgba[indexes == index]}
        assert len(colors) == 1
        red, green, blue, _ = colors.pop()
        hues[index] = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)[0] * 360
    for index, hue in hues.items():
        assert abs(hue - index * 587 / 1536 * 360 % 360) < 1.5, (index, hue)
    return indexes


def labels_of(classes, scores):
    names = ["circle", "<i>cross</i>", "moon", "ring", "square", "stripes", "triangle"]
    return [f"{names[c] if c < len(names) else c} {s:.6g}" for c, s in zip(classes, scores)]


def compare(figures, folder):
    boxes_count = 0
    for figure in figures:
        stem = folder / figure["key"]
        boxes = numpy.load(f"{stem}.boxes.npy")
        drawn = numpy.array(figure["boxes"], numpy.float32).reshape(-1, 5)
        assert (drawn[:, :4] == boxes).all() and (drawn[:, 4] == boxes[:, 0]).all(), figure["key"]
        assert figure["labels"] == labels_of(numpy.load(f"{stem}.classes.npy"), numpy.load(f"{stem}.scores.npy"))
        points = numpy.load(f"{stem}.points.npy")
        assert (numpy.array(figure["points"], numpy.float32).reshape(-1, 2) == points[points[:, 2] > 0, :2]).all()
        assert (check_colors(image_of(figure["masks"][0])) == numpy.load(f"{stem}.mask.npy")).all()
        pixels = numpy.asarray(Image.open(f"{stem}.ppm"), int)
        shown = numpy.asarray(image_of(figure["picture"]), int)
        assert shown.shape == pixels.shape and numpy.abs(shown - pixels).mean() < 12, numpy.abs(shown - pixels).mean()
        assert figure["text"].endswith("caption " + pathlib.Path(f"{stem}.caption").read_text())
        boxes_count += len(boxes)
    assert boxes_count > 20


def whole(figures, folder):
    for figure in figures[:42]:
        stem = folder / figure["key"]
        annotations = json.loads(pathlib.Path(f"{stem}.json").read_text())
        drawn = numpy.array(figure["boxes"]).reshape(-1, 5)[:, :4]
        # the loader's coordinates are floats in an image of 320 x 320
        assert numpy.abs(drawn - numpy.array(annotations["boxes"]).reshape(-1, 4)).max(initial=0) < 1e-4
        assert (numpy.array(figure["points"]) - [p[:2] for p in annotations["points"][:2]]).max() < 1e-4
        assert (check_colors(image_of(figure["masks"][0])) == numpy.asarray(Image.open(f"{stem}.seg.png"))).all()
        assert image_of(figure["picture"]).size == Image.open(f"{stem}.jpg").size


verb, first, second = sys.argv[1:]
if verb == "make":
    make(pathlib.Path(first), pathlib.Path(second))
else:
    {"compare": compare, "whole": whole}[verb](json.load(open(first))["figures"], pathlib.Path(second))
