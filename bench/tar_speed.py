#!/usr/bin/env python3
"""tar_speed — compares conversions of tars, compressed or not, with `cp` and fsync, and with Python's
webdataset, in megabytes of tar per second. The programs take turns on the same disk, in a random
order after a round that does not count: the program after `cp` finds a busier disk.

    build/oracles/bin/python bench/tar_speed.py --millrace build/release/millrace [--mb 1024] [--rounds 5] [--folder FOLDER]

A sample is a JPEG of random bytes, 60 to 160 KB, and a class number. millrace copies the fields,
computes their checksums and writes an index.
"""
import argparse
import os
import pathlib
import io
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time


def write_tars(folder, megabytes):
    r = random.Random(1)
    noise = r.randbytes(64 << 20)
    os.mkdir(f"{folder}/tars")
    os.mkdir(f"{folder}/gz")
    number = 0
    for shard in range(4):
        path, written = f"{folder}/tars/{shard}.tar", 0
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            while written < megabytes * 1e6 / 4:
                size = r.randrange(60000, 160000)
                at = r.randrange(len(noise) - size)
                for extension, data in ("cls", b"%d" % r.randrange(10)), ("jpg", noise[at : at + size]):
                    member = tarfile.TarInfo(f"{number:08}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
                number += 1
                written += size
        with open(f"{folder}/gz/{shard}.tar.gz", "wb") as out:
            subprocess.run(["gzip", "-1", "-c", path], stdout=out, check=True)


def convert_in_python(source, target):
    import webdataset

    os.mkdir(target)
    paths = sorted(str(path) for path in pathlib.Path(source).iterdir())
    with webdataset.ShardWriter(f"{target}/%06d.tar", maxsize=256 << 20, verbose=0) as writer:
        for sample in webdataset.WebDataset(paths, shardshuffle=False):
            writer.write({name: value for name, value in sample.items() if name in ("__key__", "jpg", "cls")})


def copy(source, target):
    shutil.copytree(source, target)
    for path in pathlib.Path(target).iterdir():
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where the data and the outputs lie")
    parser.add_argument("--python", nargs=2, metavar=("SRC", "DST"), help=argparse.SUPPRESS)
    parser.add_argument("--copy", nargs=2, metavar=("SRC", "DST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.python or options.copy:
        convert_in_python(*options.python) if options.python else copy(*options.copy)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        write_tars(folder, options.mb)
        target = f"{folder}/out"
        script = [sys.executable, __file__]
        print("| source | MB | program | MB/s | relative to the first |")
        print("|---|---|---|---|---|")
        for source in "tars", "gz":
            path = f"{folder}/{source}"
            programs = {"millrace": [options.millrace, "convert", "dataset", path, target, "--jpeg", "keep", "--quiet"]}
            if source == "tars":
                programs = {"cp -r and fsync": [*script, "--copy", path, target], **programs}
            programs["webdataset"] = [*script, "--python", path, target]
            times = {program: [] for program in programs}
            order = list(programs.items())
            for round_number in range(options.rounds + 1):
                random.shuffle(order)
                for program, command in order:
                    subprocess.run(["sync"], check=True)
                    time.sleep(1)
                    began = time.monotonic()
                    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
                    if round_number > 0:
                        times[program].append(time.monotonic() - began)
                    shutil.rmtree(target)
            first = statistics.median(times[next(iter(programs))])
            for program, rounds in times.items():
                seconds = statistics.median(rounds)
                print(f"| {source} | {options.mb} | {program} | {options.mb / seconds:.0f} | {first / seconds:.2f} |", flush=True)


main()
