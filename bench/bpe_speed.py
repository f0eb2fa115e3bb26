#!/usr/bin/env python3
"""bpe_speed — compares `millrace convert dataset --tokenizer gpt2` on one thread with tiktoken, in
megabytes of text per CPU-second. The programs take turns.

    build/oracles/bin/python bench/bpe_speed.py --millrace build/release/millrace --vocab FOLDER FILE.txt... [--rounds 3]

millrace's time covers the whole conversion: encoding twice (to count, then to write), hashing and
writing shards. tiktoken's covers encode_ordinary on the whole text as a str.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks
from tiktoken_ext.openai_public import r50k_pat_str


def convert_seconds(options, path):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.millrace, "convert", "dataset", path, f"{folder}/out", "--tokenizer", "gpt2", "--vocab", options.vocab, "-j", "1", "--quiet"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"bpe_speed: {' '.join(command)} ended with status {status}")
        return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    ranks = data_gym_to_mergeable_bpe_ranks(f"{options.vocab}/vocab.bpe", f"{options.vocab}/encoder.json")
    encoding = tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={})
    print(f"tiktoken {tiktoken.__version__}")
    print("| text | MB | tokens | millrace convert, MB/CPU s | tiktoken, MB/CPU s | ratio |")
    print("|---|---|---|---|---|---|")
    for path in options.files:
        text = pathlib.Path(path).read_text(errors="replace")
        megabytes = pathlib.Path(path).stat().st_size / 1e6
        rows = []
        for _ in range(options.rounds):
            ours = convert_seconds(options, path)
            began = time.process_time()
            count = len(encoding.encode_ordinary(text))
            rows.append((megabytes / ours, megabytes / (time.process_time() - began)))
        mine, theirs = (statistics.median(column) for column in zip(*rows))
        print(f"| {pathlib.Path(path).name} | {megabytes:.1f} | {count} | {mine:.1f} | {theirs:.1f} | {mine / theirs:.2f} |", flush=True)


main()
