#!/usr/bin/env python3
"""list_speed — compares `millrace convert dataset LIST` on one and two CPUs with Python's json or csv
and webdataset.ShardWriter, in rows per second. The programs take turns; each writes the same
samples to the same disk.

    build/oracles/bin/python bench/list_speed.py --millrace build/release/millrace [--rows 100000] [--rounds 3]

A row has a text of about 320 bytes and four other columns, which become the fields txt and json.
millrace lists the rows, checks them and writes them shuffled, with an index; --keep-order would
give the order of webdataset.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import random
import shutil
import statistics
import sys
import tempfile
import time


def write_lists(folder, count):
    r = random.Random(1)
    words = ["".join(r.choices("abcdefghij", k=7)) for _ in range(500)]
    with open(f"{folder}/list.jsonl", "w") as lines, open(f"{folder}/list.csv", "w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["id", "text", "url", "score", "meta"])
        for i in range(count):
            meta = {"width": r.randrange(999), "tags": r.choices(words, k=4)}
            row = {"id": i, "text": " ".join(r.choices(words, k=40)), "url": f"http://example.org/{i}", "score": r.random(), "meta": meta}
            lines.write(json.dumps(row) + "\n")
            writer.writerow([*list(row.values())[:-1], json.dumps(meta)])


def convert_in_python(path, target):
    import webdataset

    os.mkdir(target)
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, newline="")
    with opened as file, webdataset.ShardWriter(f"{target}/%06d.tar", maxsize=256 << 20, verbose=0) as writer:
        rows = csv.DictReader(file) if path.endswith(".csv") else map(json.loads, file)
        for i, row in enumerate(rows):
            writer.write({"__key__": f"{i:08}", "txt": row.pop("text"), "json": row})


def measure(command, cpus):
    """Returns the wall time and the CPU time of a command on so many CPUs."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execvp(command[0], command)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"list_speed: {' '.join(command)} ended with status {status}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", nargs=2, metavar=("LIST", "DST"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.python:
        convert_in_python(*options.python)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_lists(folder, options.rows)
        print("| list | MB | program | rows/s | rows per CPU second |")
        print("|---|---|---|---|---|")
        with open(f"{folder}/list.jsonl", "rb") as plain, gzip.open(f"{folder}/list.jsonl.gz", "wb", 6) as packed:
            shutil.copyfileobj(plain, packed)
        for name in "list.jsonl", "list.csv", "list.jsonl.gz":
            path, target = f"{folder}/{name}", f"{folder}/out"
            ours = [options.millrace, "convert", "dataset", path, target, "--quiet"]
            programs = {
                "millrace, 1 CPU": (ours, 1),
                "millrace, 2 CPUs": (ours, 2),
                "Python and webdataset": ([sys.executable, __file__, "--python", path, target], 2),
            }
            times = {program: [] for program in programs}
            for _ in range(options.rounds):
                for program, (command, cpus) in programs.items():
                    times[program].append(measure(command, cpus))
                    shutil.rmtree(target)
            for program, rounds in times.items():
                wall, cpu = (statistics.median(column) for column in zip(*rounds))
                megabytes = pathlib.Path(path).stat().st_size / 1e6
                print(f"| {name} | {megabytes:.0f} | {program} | {options.rows / wall:.0f} | {options.rows / cpu:.0f} |", flush=True)


main()
