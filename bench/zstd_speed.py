#!/usr/bin/env python3
"""zstd_speed — compares compressed shards with uncompressed ones: size, conversion and reading, and
reading with webdataset's of the same shards through `zstd -dc`. The programs take turns.

    build/oracles/bin/python bench/zstd_speed.py --millrace build/release/millrace LIST [--rounds 3] [--cpus 2]

LIST: JSON Lines, of which the member text becomes the field txt and the others json. millrace reads
first, from the disk: the conversion leaves little in the page cache.
"""
import argparse
import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def read_with_webdataset(folder):
    import webdataset

    urls = [f"pipe:zstd -dcq {path}" if path.endswith(".zst") else path for path in sorted(glob.glob(f"{folder}/*.tar*"))]
    count = sum(1 for _ in webdataset.WebDataset(urls, shardshuffle=100).shuffle(1000).decode().to_tuple("txt", "json"))
    assert count > 0


def seconds(command):
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def size(folder):
    return sum(os.path.getsize(path) for path in glob.glob(f"{folder}/*.tar*"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list")
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--webdataset", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.webdataset:
        read_with_webdataset(options.webdataset)
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cpus])
    with tempfile.TemporaryDirectory(dir=".") as folder:
        shards = {"uncompressed": [], "--zstd=1": ["--zstd=1"], "--zstd": ["--zstd"], "--zstd=9": ["--zstd=9"]}
        convert = [options.millrace, "convert", "dataset", options.list]
        fields = ["--field", "t={from: txt, decode: str}", "--field", "j={from: json, decode: json}"]
        times = {}
        for round_number in range(options.rounds):
            for name, arguments in shards.items():
                target = f"{folder}/{name}"
                shutil.rmtree(target, ignore_errors=True)
                work = {
                    "convert": [*convert, target, *arguments],
                    "read": [options.millrace, "read", target, *fields],
                    "webdataset": [sys.executable, __file__, "--webdataset", target, options.list],
                }
                for verb, command in work.items():
                    times.setdefault((name, verb), []).append(seconds(command))
        print(f"{options.list}: {os.path.getsize(options.list) / 1e6:.0f} MB, {options.cpus} CPUs, seconds")
        print("| shards | MB | convert | read | webdataset reads |\n|---|---|---|---|---|")
        for name in shards:
            median = {verb: statistics.median(times[name, verb]) for verb in work}
            print(f"| {name} | {size(f'{folder}/{name}') / 1e6:.0f} | {median['convert']:.2f} | {median['read']:.2f} | {median['webdataset']:.2f} |")


main()
