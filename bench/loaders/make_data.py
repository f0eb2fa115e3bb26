#!/usr/bin/env python3
"""make_data — stores a set of photos in the formats of all loaders of peers.py.

    PEERS/bin/python bench/loaders/make_data.py PHOTOS OUT [--copies 4] [--imagenet-like] [--millrace build/release/millrace]

PHOTOS is a folder of class folders of JPEGs. Creates these folders in OUT:
    original/   the photos, unchanged
    small/      reencoded at quality 90, longer side at most 512
    raw/        decoded, longer side at most 256: PPM files
    imagenet/   with --imagenet-like: 500 x 375 or 375 x 500, quality 96, 4:4:4 except one in five
    bytes/      the photos, unchanged, --bytes-copies times each: for reading without decoding
Each contains the formats that its jobs read: photos/ (an image folder), millrace/, wds/, mds/,
ffcv.beton. Formats of loaders that are not installed are left out. Copies are hard links in photos/
and full copies in shards.

All formats are made from photos/. Its JPEGs have no restart markers. Markers make files about 3 %
larger and help only decoders that cut out parts, so only millrace/ has them, added losslessly by
`convert dataset`. All loaders therefore decode the same pixels, except that FFCV encodes its JPEGs
itself, at the same size and quality. wds/ and mds/ contain the files of photos/ unchanged.
raw/millrace does too, so its tars are also WebDataset's.
"""
import argparse
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import turns

SIDE, RAW_SIDE, QUALITY = 512, 256, 90
# ImageNet's photos are 500 x 375 on average, with high quality and mostly no chroma subsampling.
IMAGENET_SIDES, IMAGENET_QUALITY, IMAGENET_SUBSAMPLED_EVERY = (500, 375), 96, 5


def add_copies(target, data, copies):
    """Writes a file once and adds hard links until there is one name per copy."""
    names = [target.with_stem(f"{target.stem}-{copy}") for copy in range(copies)]
    names[0].write_bytes(data)
    for name in names[1:]:
        os.link(names[0], name)


def copy_photos(photos, out, copies):
    for path in sorted(photos.glob("*/*.jpg")):
        target = out / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        add_copies(target, path.read_bytes(), copies)


def convert(millrace, source, out, *options):
    subprocess.run([millrace, "convert", "dataset", source, out, "--quiet", *options], check=True, stdout=subprocess.DEVNULL)


def members(shards):
    """Yields the samples of our shards: class, key, image bytes."""
    names = json.loads((shards / "dataset.json").read_text())["millrace"]["classes"]
    for shard in sorted(shards.glob("shard-*.tar")):
        with tarfile.open(shard) as tar:
            for member in tar:
                data = tar.extractfile(member).read()
                key, extension = member.name.split(".", 1)
                if extension == "cls":  # extensions are sorted: the label precedes its image
                    label = names[int(data)]
                else:
                    yield label, pathlib.Path(key).name, data


def write_small(millrace, photos, out, copies):
    """Scales and encodes like `convert dataset`, but without restart markers, which jpegtran
    removes losslessly."""
    convert(millrace, photos, out / "marked", "--jpeg", "reencode", "--max-side", str(SIDE), "--quality", str(QUALITY))
    for label, key, marked in members(out / "marked"):
        target = out / "photos" / label / f"{key}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        plain = subprocess.run(["jpegtran", "-copy", "all", "-optimize"], input=marked, check=True, stdout=subprocess.PIPE).stdout
        add_copies(target, plain, copies)
    shutil.rmtree(out / "marked")


def write_raw(photos, out, copies):
    from PIL import Image
    for path in sorted(photos.glob("*/*.jpg")):
        target, encoded = out / "photos" / path.parent.name / f"{path.stem}.ppm", io.BytesIO()
        target.parent.mkdir(parents=True, exist_ok=True)
        image = Image.open(path).convert("RGB")
        image.thumbnail((RAW_SIDE, RAW_SIDE))
        image.save(encoded, "ppm")
        add_copies(target, encoded.getvalue(), copies)


def write_imagenet_like(photos, out, copies):
    """Crops the center to 4:3 and scales down. Skips smaller photos, which would compress
    unrealistically well if scaled up."""
    from PIL import Image, ImageOps
    written_count, skipped_count = 0, 0
    for path in sorted(photos.glob("*/*.jpg")):
        image = Image.open(path).convert("RGB")
        size = IMAGENET_SIDES if image.width >= image.height else IMAGENET_SIDES[::-1]
        if image.width < size[0] or image.height < size[1]:
            skipped_count += 1
            continue
        target, encoded = out / "photos" / path.parent.name / path.name, io.BytesIO()
        target.parent.mkdir(parents=True, exist_ok=True)
        subsampling = "4:2:0" if written_count % IMAGENET_SUBSAMPLED_EVERY == 0 else "4:4:4"
        ImageOps.fit(image, size, Image.LANCZOS).save(encoded, "jpeg", quality=IMAGENET_QUALITY, subsampling=subsampling)
        add_copies(target, encoded.getvalue(), copies)
        written_count += 1
    print(f"make_data: imagenet: {written_count} photos; {skipped_count} are smaller than {IMAGENET_SIDES[0]} x {IMAGENET_SIDES[1]} and skipped", file=sys.stderr)
    if not written_count:
        sys.exit(f"make_data: {photos}: no photo is large enough for --imagenet-like")


def write_mds(photos, out):
    try:
        from streaming import MDSWriter
    except ImportError:
        return
    names = sorted(path.name for path in photos.iterdir())
    with MDSWriter(out=str(out), columns={"image": "bytes", "cls": "int"}) as writer:
        for path in sorted(photos.glob("*/*.*")):
            writer.write({"image": path.read_bytes(), "cls": names.index(path.parent.name)})


def write_ffcv(photos, out, **options):
    try:
        from ffcv.fields import IntField, RGBImageField
        from ffcv.writer import DatasetWriter
        from torchvision.datasets import ImageFolder
    except ImportError:
        return
    fields = {"image": RGBImageField(jpeg_quality=QUALITY, **options), "label": IntField()}
    DatasetWriter(str(out), fields, num_workers=2).from_indexed_dataset(ImageFolder(str(photos)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--copies", type=int, default=4, help="of each photo, so that a run lasts longer")
    parser.add_argument("--bytes-copies", type=int, default=16, help="of each photo in bytes/, so that the disk is busy for several seconds")
    parser.add_argument("--imagenet-like", action="store_true", help="also create photos like ImageNet's from PHOTOS")
    parser.add_argument("--millrace", default="build/release/millrace")
    args = parser.parse_args()
    turns.need(parser, args.millrace, turns.BUILDING)
    turns.need(parser, args.photos, "a folder of class folders of JPEGs")
    turns.need(parser, "jpegtran", "apt-get install libjpeg-turbo-progs")

    original, small, raw, undecoded, imagenet = (args.out / name for name in ("original", "small", "raw", "bytes", "imagenet"))
    jpegs = [original, small]
    if args.imagenet_like:
        write_imagenet_like(args.photos, imagenet, args.copies)
        jpegs.append(imagenet)
    copy_photos(args.photos, original / "photos", args.copies)
    write_small(args.millrace, args.photos, small, args.copies)
    write_raw(args.photos, raw, args.copies)
    copy_photos(args.photos, undecoded / "photos", args.bytes_copies)
    for kind in jpegs:
        convert(args.millrace, kind / "photos", kind / "millrace", "--jpeg", "tile")
        convert(args.millrace, kind / "photos", kind / "wds", "--jpeg", "keep")
    convert(args.millrace, raw / "photos", raw / "millrace", "--store", "raw")
    convert(args.millrace, undecoded / "photos", undecoded / "millrace", "--jpeg", "keep")
    for kind in (*jpegs, raw, undecoded):
        write_mds(kind / "photos", kind / "mds")
    for kind in jpegs:
        write_ffcv(kind / "photos", kind / "ffcv.beton", write_mode="jpg")
    write_ffcv(raw / "photos", raw / "ffcv.beton", write_mode="raw")


main()
