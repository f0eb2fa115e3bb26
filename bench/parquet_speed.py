#!/usr/bin/env python3
"""parquet_speed — compares mr.convert on Parquet files with MosaicML's MDSWriter and webdataset's
ShardWriter, which get their rows from pyarrow. The programs take turns on two CPUs; each writes the
same samples to the same disk.

    PYTHONPATH=build/release/python PYTHON bench/parquet_speed.py PHOTOS [--rows 200000] [--rounds 3]

PYTHON has pyarrow, webdataset and mosaicml-streaming. PHOTOS is a folder with JPEGs, at any depth;
one file has them, each with a class number, and another file has --rows texts of about 100 bytes,
also with numbers. Photos are copied unchanged (jpeg="keep"), as the others do; a last line is for
the default, which tiles them. After the first round, all samples are read back and compared with
the Parquet file. Times exclude imports.
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

SHARD_BYTES = 256 << 20
PROGRAMS = ("millrace", "MDSWriter", "ShardWriter")


def write_parquet(folder, photos, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    r = random.Random(1)
    paths = sorted(pathlib.Path(photos).rglob("*.jpg"))
    schema = pa.schema([("image", pa.binary()), ("label", pa.int64())])
    with pq.ParquetWriter(f"{folder}/photos.parquet", schema, compression="none") as writer:
        for i in range(0, len(paths), 100):
            part = [path.read_bytes() for path in paths[i : i + 100]]
            writer.write_table(pa.table([part, [r.randrange(10) for _ in part]], schema=schema))
    words = ["".join(r.choices("abcdefghij", k=7)) for _ in range(500)]
    texts = [" ".join(r.choices(words, k=r.randrange(5, 20))) for _ in range(rows)]
    table = pa.table({"text": texts, "label": [r.randrange(1000) for _ in texts]})
    pq.write_table(table, f"{folder}/texts.parquet", row_group_size=10000)


def rows_of(path):
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(1024):
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist())


def cpu_seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def convert(program, path, target, jpeg):
    """Returns when it is done; imports come first."""
    is_photos = path.endswith("photos.parquet")
    if program == "millrace":
        import millrace as mr
        import pyarrow.compute
        import pyarrow.parquet  # noqa: F401

        began, cpu = time.monotonic(), cpu_seconds()
        mr.convert(path, target, shard_bytes=SHARD_BYTES, jpeg=jpeg)
    elif program == "MDSWriter":
        from streaming import MDSWriter

        began, cpu = time.monotonic(), cpu_seconds()
        columns = {"image": "bytes", "label": "int"} if is_photos else {"text": "str", "label": "int"}
        with MDSWriter(out=target, columns=columns, size_limit=SHARD_BYTES) as writer:
            for value, label in rows_of(path):
                writer.write({"image" if is_photos else "text": value, "label": label})
    else:
        from webdataset import ShardWriter

        began, cpu = time.monotonic(), cpu_seconds()
        os.mkdir(target)
        name = "jpg" if is_photos else "txt"
        with ShardWriter(f"{target}/%06d.tar", maxcount=1 << 40, maxsize=SHARD_BYTES, verbose=0) as writer:
            for i, (value, label) in enumerate(rows_of(path)):
                writer.write({"__key__": f"{i:08}", name: value, "cls": label})
    print(json.dumps({"wall": time.monotonic() - began, "cpu": cpu_seconds() - cpu}))


def digest(rows):
    """The number of the samples and a digest of their values."""
    total, count = hashlib.sha256(), 0
    for value, label in rows:
        data = value if isinstance(value, bytes) else value.encode()
        total.update(b"%d %d " % (len(data), int(label)) + data)
        count += 1
    return count, total.hexdigest()


def stored_rows(program, target):
    if program == "MDSWriter":
        from streaming import LocalDataset

        dataset = LocalDataset(local=target)
        for i in range(len(dataset)):
            sample = dataset[i]
            yield sample.get("image", sample.get("text")), sample["label"]
        return
    for path in sorted(pathlib.Path(target).glob("*.tar")):
        with tarfile.open(path) as tar:
            sample, last = {}, None
            for member in tar:
                key, _, extension = member.name.partition(".")
                if key != last and sample:
                    yield sample.get("jpg", sample.get("txt")), sample["cls"]
                    sample = {}
                sample[extension], last = tar.extractfile(member).read(), key
            yield sample.get("jpg", sample.get("txt")), sample["cls"]


def measure(program, path, target, jpeg):
    command = [sys.executable, __file__, "--convert", program, path, target, jpeg]
    child = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if child.returncode:
        sys.exit(f"parquet_speed: {program} failed: {child.stderr[-2000:]}")
    result = json.loads(child.stdout.splitlines()[-1])
    return result["wall"], result["cpu"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="?")
    parser.add_argument("--rows", type=int, default=200000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--convert", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.convert:
        convert(*options.convert)
        return
    if not options.photos:
        parser.error("PHOTOS is missing")
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(folder, options.photos, options.rows)
        print(f"load average {os.getloadavg()[0]:.1f}\n")
        print("| rows | MB | program | rows/s | rows per CPU second | speedup of millrace |")
        print("|---|---|---|---|---|---|")
        for name in "texts", "photos":
            path, target = f"{folder}/{name}.parquet", f"{folder}/out"
            count, expected = digest(rows_of(path))
            jobs = [(program, "keep") for program in PROGRAMS]
            if name == "photos":
                jobs.append(("millrace", "tile"))
            times = {job: [] for job in jobs}
            for turn in range(options.rounds):
                for job in jobs:
                    times[job].append(measure(job[0], path, target, job[1]))
                    if turn == 0 and job[1] == "keep":
                        assert digest(stored_rows(job[0], target)) == (count, expected), job
                    shutil.rmtree(target)
            medians = {job: [statistics.median(column) for column in zip(*rounds)] for job, rounds in times.items()}
            megabytes = pathlib.Path(path).stat().st_size / 1e6
            for (program, jpeg), (wall, cpu) in medians.items():
                speedup = wall / medians["millrace", "keep"][0]
                label = f"{program}, tiled" if jpeg == "tile" else program
                shown = "" if program == "millrace" else f"{speedup:.1f}"
                print(f"| {name} | {megabytes:.0f} | {label} | {count / wall:.0f} | {count / cpu:.0f} | {shown} |", flush=True)


main()
