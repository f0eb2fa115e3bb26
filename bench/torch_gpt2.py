#!/usr/bin/env python3
"""torch_gpt2 — tokens a second of `millrace train` beside PyTorch's, on the same GPT-2, one thread each, taken in turns.

    bench/torch_gpt2.py --millrace build/release/millrace --data shakespeare/train [--config bench/configs/shakespeare.yaml] [--rounds 5] [--steps 40]

Both train the model of the configuration (float32, AdamW, clipping, tied head, GELU by tanh) on windows of the same tokens: torch from
memory, millrace from its shards. A round is one run of each. Two rates are told: by wall time, which others on the machine disturb, and by
CPU time, which they disturb less. millrace's CPU time is the whole process's, start and final checkpoint included; torch's is that of the steps.
"""
import argparse
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
# An OpenBLAS older than the processor takes its slowest kernels, and torch with it; both sides get the same good ones.
os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX" if " avx512vl" in open("/proc/cpuinfo").read() else "Haswell")
import numpy
import torch
import torch.nn as nn

from torch_models import Model

WARM_UP_STEPS = 5


def load_windows(folder, block):
    """All windows of the dataset's members, as docs/shard.md cuts them."""
    windows = []
    for shard in sorted(pathlib.Path(folder).glob("shard-*.tar")):
        with tarfile.open(shard) as archive:
            for member in archive:
                tokens = numpy.load(io.BytesIO(archive.extractfile(member).read())).astype(numpy.int64)
                windows += [tokens[at:at + block + 1] for at in range(0, len(tokens) - block, block)]
    return torch.from_numpy(numpy.stack(windows))


class Torch:
    def __init__(self, c, windows):
        torch.set_num_threads(1)
        torch.manual_seed(7)
        self.c, self.windows, self.model = c, windows, Model({**c, "type": "gpt2"})
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=c["lr"], betas=c["betas"], weight_decay=c["weight_decay"])

    def step(self):
        self.optimizer.zero_grad()
        micros = self.c["global"] // self.c["micro"]
        total = 0.0
        for _ in range(micros):
            batch = self.windows[torch.randint(len(self.windows), (self.c["micro"],))]
            loss = self.model(batch[:, :-1], batch[:, 1:]) / micros
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.c["clip_norm"])
        self.optimizer.step()
        return total

    def run(self, steps):
        for _ in range(WARM_UP_STEPS):
            self.step()
        wall, cpu = time.monotonic(), time.process_time()
        for _ in range(steps):
            self.step()
        return time.monotonic() - wall, time.process_time() - cpu


def run_millrace(options, steps):
    """Wall time of the last `steps` steps, CPU time a step of the whole run of the warm-up and these."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [f"run.dir={folder}", f"run.steps={WARM_UP_STEPS + steps}", "schedule.warmup=1", f"data.train={options.data}", "data.val=",
                "threads=1", "data.workers=1", f"log.every={WARM_UP_STEPS}", "checkpoint.every=0"]
        command = [options.millrace, "train", options.config, "--quiet", *(word for item in sets for word in ("--set", item))]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"torch_gpt2: {' '.join(command)} ended with status {status}")
        lines = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    at = {line["step"]: line["wall_seconds"] for line in lines if "loss" in line}
    share = steps / (WARM_UP_STEPS + steps)
    return at[WARM_UP_STEPS + steps] - at[WARM_UP_STEPS], (usage.ru_utime + usage.ru_stime) * share


def read_config(options):
    text = subprocess.run([options.millrace, "train", options.config, "--print-config", "--set", f"data.train={options.data}"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    values = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(":")
        values.setdefault(key, []).append(value.strip())
    get = lambda key: values[key][-1]
    vocabulary = json.load(open(pathlib.Path(options.data) / "dataset.json"))["millrace"]["text"]["vocabulary"]
    return {"layers": int(get("layers")), "heads": int(get("heads")), "width": int(get("width")), "block": int(get("block")),
            "vocabulary": vocabulary, "global": int(get("global")), "micro": int(get("micro")), "lr": float(get("lr")),
            "betas": tuple(json.loads(get("betas"))), "weight_decay": float(get("weight_decay")), "clip_norm": float(get("clip_norm"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--config", default="bench/configs/shakespeare.yaml")
    parser.add_argument("--data", required=True, help="folder of the training dataset.json")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help=f"a multiple of {WARM_UP_STEPS}")
    options = parser.parse_args()
    if options.steps % WARM_UP_STEPS:
        parser.error(f"--steps is not a multiple of {WARM_UP_STEPS}")
    c = read_config(options)
    tokens = c["global"] * c["block"] * options.steps
    ours, theirs = [], Torch(c, load_windows(options.data, c["block"]))
    print(f"torch {torch.__version__}, {c['layers']} layers, width {c['width']}, {sum(p.numel() for p in theirs.model.parameters())} parameters, "
          f"batch {c['global']} x {c['block']} in micro-batches of {c['micro']}, {options.steps} steps a round")
    print("| round | millrace, tokens/s | torch, tokens/s | ratio | millrace, tokens/CPU s | torch, tokens/CPU s | ratio | load |")
    print("|---|---|---|---|---|---|---|---|")
    for number in range(options.rounds):
        mine, torchs = run_millrace(options, options.steps), theirs.run(options.steps)
        row = [tokens / t for pair in zip(mine, torchs) for t in pair]
        ours.append((row[0] / row[1], row[2] / row[3]))
        print(f"| {number + 1} | {row[0]:.0f} | {row[1]:.0f} | {ours[-1][0]:.2f} | {row[2]:.0f} | {row[3]:.0f} | {ours[-1][1]:.2f} | {os.getloadavg()[0]:.1f} |",
              flush=True)
    wall, cpu = (statistics.median(ratio[i] for ratio in ours) for i in (0, 1))
    print(f"median ratio: {wall:.2f} by wall time, {cpu:.2f} by CPU time")


main()
