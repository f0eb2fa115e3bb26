"""Writes a folder of photos with JSON and text, and prints `key name=value` for each number that
tests/convert/index_fields.c records in the index, read by Python's json and Pillow."""
import json
import math
import os
import random
import sys

from PIL import Image, ImageOps

random.seed(7)
source = sys.argv[1]
VALUES = [0, -1, 0.1, 1e-300, -2.5e17, 2**53, -2**53, True, False, None]
for i in range(40):
    name = "%s/%03d" % (("a", "b", "c d")[i % 3], i)
    path = os.path.join(source, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    extension = ("jpg", "png", "jpg")[i % 3]
    image = Image.new("RGB", (random.randint(10, 90), random.randint(10, 90)), (i, 2 * i, 3 * i))
    exif = Image.Exif()
    exif[0x112] = i % 9  # orientation; 0 is invalid
    image.save("%s.%s" % (path, extension), exif=exif)
    document = {"aesthetic": random.uniform(-10, 10), "meta": {"n s=f": VALUES[i % len(VALUES)]}}
    if i % 7 == 0:
        del document["aesthetic"]
    if i % 11 == 0:
        document["meta"] = [1]
    if i % 5:
        with open(path + ".json", "w") as file:
            json.dump(document, file)
    if i % 4:
        with open(path + ".txt", "w") as file:
            file.write("%d\n" % random.randint(0, 1000))

for folder, _, files in os.walk(source):
    for key in sorted({os.path.splitext(f)[0] for f in files}):
        base = os.path.join(folder, key)
        document = json.load(open(base + ".json")) if os.path.exists(base + ".json") else {}
        jpg = os.path.exists(base + ".jpg")
        image = ImageOps.exif_transpose(Image.open(base + (".jpg" if jpg else ".png")))
        meta = document.get("meta", {})
        values = {
            "score": document.get("aesthetic"),
            "nsfw": meta.get("n s=f") if isinstance(meta, dict) else None,
            "length": json.load(open(base + ".txt")) if os.path.exists(base + ".txt") else None,
            "width": image.width,
            "jpg_height": image.height if jpg else None,
            "label": sorted(os.listdir(source)).index(os.path.basename(folder)),
        }
        for name, value in values.items():
            print("%s/%s %s=%r" % (os.path.basename(folder), key, name, math.nan if value is None else float(value)))
