#!/usr/bin/env python3
"""bpe_speed — compares `millrace convert dataset --tokenizer` on one thread with tiktoken, in
megabytes of text per CPU-second. The programs take turns.

    build/oracles/bin/python bench/bpe_speed.py --millrace build/release/millrace --tokenizer TOKENIZER FILE.txt... [--rounds 3]

TOKENIZER is GPT-2's folder with encoder.json and vocab.bpe, or a tokenizer.json; tiktoken has its
vocabulary and pattern. `--train KIND SIZE` writes a tokenizer.json trained on the files, like that
of Llama 3 or Qwen 2 (KIND: llama3 or qwen2).

millrace's time covers the whole conversion: reading the tokenizer, encoding twice (to count, then
to write), hashing and writing shards. tiktoken's covers encode_ordinary on the whole text as a str.
"""
import argparse
import json
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


LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {"llama3": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}


def train(kind, size, path, files):
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    tokenizer.normalizer = normalizers.NFC() if kind == "qwen2" else normalizers.Sequence([])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[kind]), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.train(files, trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    if kind == "qwen2":
        tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    saved = json.loads(tokenizer.to_str())
    saved["normalizer"] = saved["normalizer"] if kind == "qwen2" else None
    pathlib.Path(path).write_text(json.dumps(saved))


def open_encoding(path):
    if not path.endswith(".json"):
        return tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=data_gym_to_mergeable_bpe_ranks(f"{path}/vocab.bpe", f"{path}/encoder.json"), special_tokens={})
    tokenizer = json.loads(pathlib.Path(path).read_text())
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    byte_of = {chr(byte if byte in printable else next(others)): byte for byte in range(256)}
    ranks = {bytes(map(byte_of.get, token)): rank for token, rank in tokenizer["model"]["vocab"].items()}
    return tiktoken.Encoding("json", pat_str=tokenizer["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"], mergeable_ranks=ranks, special_tokens={})


def convert_seconds(options, path):
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = [options.tokenizer] if options.tokenizer.endswith(".json") else ["gpt2", "--vocab", options.tokenizer]
        command = [options.millrace, "convert", "dataset", path, f"{folder}/out", "--tokenizer", *tokenizer, "-j", "1", "--quiet"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"bpe_speed: {' '.join(command)} ended with status {status}")
        return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--train", nargs=2, metavar=("KIND", "SIZE"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    if options.train:
        train(options.train[0], int(options.train[1]), options.tokenizer, options.files)
        return
    encoding = open_encoding(options.tokenizer)
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
