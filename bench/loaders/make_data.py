#!/usr/bin/env python3
"""make_data — one set of photos as every loader of peers.py wants it.

    PEERS/bin/python bench/loaders/make_data.py PHOTOS OUT [--copies 4] [--millrace build/release/millrace]

PHOTOS is a folder of class folders of JPEGs. Under OUT appear, for each kind of data:
    original/   the photos as they are          small/   re-encoded, longer side at most 512, quality 90
    raw/        decoded, longer side at most 256 (millrace, FFCV)
    bytes/      the photos as they are, each so often as --bytes-copies says: for reading what nobody decodes
and in each: photos/ (an image folder), millrace/, wds/ (the same tars), mds/, ffcv.beton, as far as a job reads them. What a loader that is not
installed needs is left out. Copies are hard links; shards hold them all.
"""
import argparse
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


def copy_photos(photos, out, copies):
    """The first is a copy; its names are as many as there are to be copies."""
    for path in sorted(photos.glob("*/*.jpg")):
        targets = [out / path.parent.name / f"{path.stem}-{copy}.jpg" for copy in range(copies)]
        targets[0].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, targets[0])
        for target in targets[1:]:
            os.link(targets[0], target)


def convert(millrace, source, out, *options):
    subprocess.run([millrace, "convert", "dataset", source, out, "--quiet", *options], check=True, stdout=subprocess.DEVNULL)


def unpack(shards, photos):
    """The members of our shards as an image folder, so that all decode the same bytes."""
    names = json.loads((shards / "dataset.json").read_text())["millrace"]["classes"]
    for shard in sorted(shards.glob("shard-*.tar")):
        with tarfile.open(shard) as tar:
            image = None
            for member in tar:
                data = tar.extractfile(member).read()
                key, extension = member.name.split(".", 1)
                if extension == "cls":
                    label = names[int(data)]
                else:
                    image = data
                if extension == "jpg":  # sorted extensions: cls came before
                    target = photos / label / f"{pathlib.Path(key).name}.jpg"
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(image)


def write_mds(photos, out):
    try:
        from streaming import MDSWriter
    except ImportError:
        return
    names = sorted(path.name for path in photos.iterdir())
    with MDSWriter(out=str(out), columns={"jpg": "bytes", "cls": "int"}) as writer:
        for path in sorted(photos.glob("*/*.jpg")):
            writer.write({"jpg": path.read_bytes(), "cls": names.index(path.parent.name)})


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
    parser.add_argument("--bytes-copies", type=int, default=16, help="of each photo in bytes/, so that a disk is busy for some seconds")
    parser.add_argument("--millrace", default="build/release/millrace")
    args = parser.parse_args()
    turns.need(parser, args.millrace, turns.BUILDING)
    turns.need(parser, args.photos, "a folder of class folders of JPEGs")

    original, small, raw, undecoded = (args.out / name for name in ("original", "small", "raw", "bytes"))
    copy_photos(args.photos, original / "photos", args.copies)
    convert(args.millrace, original / "photos", original / "millrace")
    convert(args.millrace, original / "photos", original / "wds", "--jpeg", "keep")
    convert(args.millrace, original / "photos", small / "millrace", "--jpeg", "reencode", "--max-side", str(SIDE), "--quality", str(QUALITY))
    unpack(small / "millrace", small / "photos")
    convert(args.millrace, small / "photos", small / "wds", "--jpeg", "keep")
    convert(args.millrace, original / "photos", raw / "millrace", "--store", "raw", "--max-side", str(RAW_SIDE))
    copy_photos(args.photos, undecoded / "photos", args.bytes_copies)
    convert(args.millrace, undecoded / "photos", undecoded / "millrace", "--jpeg", "keep")
    for kind in (original, small, undecoded):
        write_mds(kind / "photos", kind / "mds")
    # FFCV keeps JPEGs as it encoded them itself, from pixels: the originals are encoded once more, at their own size.
    write_ffcv(original / "photos", original / "ffcv.beton", write_mode="jpg")
    write_ffcv(original / "photos", small / "ffcv.beton", write_mode="jpg", max_resolution=SIDE)
    write_ffcv(original / "photos", raw / "ffcv.beton", write_mode="raw", max_resolution=RAW_SIDE)


main()
