#!/usr/bin/env python3
"""caption_speed — compares millrace with webdataset on images with captions: random resized crops to
224 pixels, flips, and the caption's text, in shuffled batches of 256, from the same shards.

    build/oracles/bin/python bench/caption_speed.py --millrace build/release/millrace PHOTOS [--rounds 3] [--cpus 2]

PHOTOS: a folder with JPEGs, at any depth. webdataset decodes and resizes with Pillow, in one process
per CPU, which is the fastest number of processes here. The programs take turns; rates are of the
last epoch of two.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

BATCH, SIDE = 256, 224
WORDS = "a photo of one two black white red small large dog cat person shirt on under near the table street".split()


def random_crop(image):
    """The box of torchvision's RandomResizedCrop, and its resize."""
    import math

    from PIL import Image

    width, height = image.size
    box = (0, 0, width, height)
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            box = (x, y, x + w, y + h)
            break
    image = image.resize((SIDE, SIDE), Image.BILINEAR, box)
    return image.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


def cpu_seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def read_with_webdataset(folder, workers):
    import io

    import numpy
    import torch
    import webdataset
    from PIL import Image

    torch.set_num_threads(1)

    def decode(sample):
        image = Image.open(io.BytesIO(sample[0])).convert("RGB")
        return torch.from_numpy(numpy.array(random_crop(image))), sample[1].decode()

    urls = sorted(str(path) for path in pathlib.Path(folder).glob("*.tar"))
    dataset = webdataset.WebDataset(urls, shardshuffle=len(urls)).shuffle(1000).to_tuple("jpg", "txt").map(decode).batched(BATCH, partial=True)
    for _ in range(2):
        began, cpu, count = time.monotonic(), cpu_seconds(), 0
        for images, captions in webdataset.WebLoader(dataset, batch_size=None, num_workers=workers):
            assert images.shape[1:] == (SIDE, SIDE, 3) and len(captions) == len(images)
            count += len(captions)
        seconds, cpu = time.monotonic() - began, cpu_seconds() - cpu
    print(json.dumps({"samples_per_second": count / seconds, "samples_per_cpu_second": count / cpu}))


def read_with_millrace(program, folder, cpus):
    command = [program, "read", folder, "--decode", "image", "--size", str(SIDE), "--crop", "random", "--flip", "--field", "caption={from: txt, decode: str}",
               "--batch", str(BATCH), "--micro", str(BATCH), "--workers", str(cpus), "--json", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    cpu = cpu_seconds()
    result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return result["samples_per_second"], result["samples_count"] / (cpu_seconds() - cpu)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos")
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--webdataset", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cpus])
    if options.webdataset:
        read_with_webdataset(options.photos, options.cpus)
        return
    r = random.Random(1)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        photos = sorted(pathlib.Path(options.photos).rglob("*.jpg"))
        os.mkdir(f"{folder}/files")
        for i, photo in enumerate(photos):
            os.symlink(photo.resolve(), f"{folder}/files/{i:06}.jpg")
            pathlib.Path(f"{folder}/files/{i:06}.txt").write_text(" ".join(r.choices(WORDS, k=r.randint(5, 20))))
        shards = {"tiled": [], "as they are": ["--jpeg", "keep"]}
        rates = {}
        for name, arguments in shards.items():
            subprocess.run([options.millrace, "convert", "dataset", f"{folder}/files", f"{folder}/{name}", "--shard-bytes", "32MiB", *arguments, "--quiet"],
                           check=True, stdout=subprocess.DEVNULL)
        for _ in range(options.rounds):
            for name in shards:
                rates.setdefault(f"millrace, JPEGs {name}", []).append(read_with_millrace(options.millrace, f"{folder}/{name}", options.cpus))
            theirs = json.loads(subprocess.run([sys.executable, __file__, "--webdataset", f"{folder}/as they are", "--cpus", str(options.cpus)],
                                               check=True, stdout=subprocess.PIPE).stdout)
            rates.setdefault("webdataset and Pillow", []).append((theirs["samples_per_second"], theirs["samples_per_cpu_second"]))
        print(f"{len(photos)} photos, {options.cpus} CPUs")
        print("| loader | samples/s | samples per CPU second |\n|---|---|---|")
        for name, rounds in rates.items():
            wall, cpu = (statistics.median(column) for column in zip(*rounds))
            print(f"| {name} | {wall:.0f} | {cpu:.0f} |")


main()
