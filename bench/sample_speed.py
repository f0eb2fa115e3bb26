#!/usr/bin/env python3
"""sample_speed — compares random reads of single samples from cached shards: millrace's Dataset, wids of
Python's webdataset, and a bare pread of known places, as an upper limit. They take turns in a random
order after a round that does not count.

    PYTHONPATH=build/release/python build/oracles/bin/python bench/sample_speed.py --millrace build/release/millrace [--mb 512]
        [--rounds 5] [--reads 20000] [--folder FOLDER]

A sample is a JPEG of random bytes and a class number. millrace verifies checksums; the others do not.
"""
import argparse
import io
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

SIZES = {"4 KB": (3000, 5000), "110 KB": (60000, 160000)}


def write_tars(folder, megabytes, sizes):
    r = random.Random(1)
    noise = r.randbytes(64 << 20)
    number = 0
    for shard in range(4):
        written = 0
        with tarfile.open(f"{folder}/{shard}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            while written < megabytes * 1e6 / 4:
                size = r.randrange(*sizes)
                at = r.randrange(len(noise) - size)
                for extension, data in ("cls", b"%d" % r.randrange(10)), ("jpg", noise[at : at + size]):
                    member = tarfile.TarInfo(f"{number:08}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
                number += 1
                written += size


class Preads:
    """The JPEGs only."""

    def __init__(self, shards):
        self.places = []
        for path in sorted(pathlib.Path(shards).glob("*.tar")):
            file = os.open(path, os.O_RDONLY)
            with tarfile.open(path) as tar:
                self.places += [(file, m.size, m.offset_data) for m in tar if m.name.endswith("jpg")]

    def __len__(self):
        return len(self.places)

    def __getitem__(self, i):
        file, size, offset = self.places[i]
        return {"jpg": os.pread(file, size, offset)}


def open_dataset(program, shards):
    if program == "millrace":
        import millrace

        return millrace.open(shards)
    if program == "wids":
        import wids

        return wids.ShardListDataset(f"{shards}/dataset.json", transformations=[], keep=True)
    return Preads(shards)


def run(program, shards, reads):
    """Prints reads per second, and the seconds to the first sample."""
    sys.stdout = sys.stderr
    began = time.monotonic()
    dataset = open_dataset(program, shards)
    count = len(dataset)
    dataset[count // 2]
    first = time.monotonic() - began
    r = random.Random(2)
    numbers = [r.randrange(count) for _ in range(reads)]
    for i in range(0, count, 10):
        dataset[i]
    began = time.monotonic()
    for i in numbers:
        dataset[i]
    seconds = time.monotonic() - began
    print(json.dumps([reads / seconds, first]), file=sys.__stdout__)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--reads", type=int, default=20000)
    parser.add_argument("--folder", help="where the data lies")
    parser.add_argument("--run", nargs=2, metavar=("PROGRAM", "SHARDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(*options.run, options.reads)
        return
    print("| sample | program | reads per second | relative to wids | to the first sample |")
    print("|---|---|---|---|---|")
    for name, sizes in SIZES.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
            os.mkdir(f"{folder}/tars")
            write_tars(f"{folder}/tars", options.mb, sizes)
            shards = f"{folder}/shards"
            words = ["--jpeg", "keep", "--shard-bytes", f"{options.mb // 4}MB", "--quiet"]
            subprocess.run([options.millrace, "convert", "dataset", f"{folder}/tars", shards, *words], check=True)
            results = {"wids": [], "millrace": [], "pread": []}
            order = list(results)
            for round_number in range(options.rounds + 1):
                random.shuffle(order)
                for program in order:
                    command = [sys.executable, __file__, "--reads", str(options.reads), "--run", program, shards]
                    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
                    if round_number > 0:
                        results[program].append(json.loads(output))
            wids = statistics.median(rate for rate, _ in results["wids"])
            for program, rounds in results.items():
                rates, firsts = zip(*rounds)
                rate = statistics.median(rates)
                print(f"| {name} | {program} | {rate:.0f} ({min(rates):.0f}–{max(rates):.0f}) | {rate / wids:.2f} | {1000 * statistics.median(firsts):.0f} ms |", flush=True)


main()
