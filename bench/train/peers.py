#!/usr/bin/env python3
"""peers — trains PyTorch models on the CPU, one thread per rank, for bench/train/run.

    PEERS/bin/python bench/train/peers.py MODEL eager|compiled RANKS BATCH

The models are those of `millrace bench train`: float32, cross-entropy, gradients clipped to a norm of
1, fused AdamW. Several ranks use DistributedDataParallel over gloo. The data is already in memory,
which favors torch: millrace loads and decodes its data.

The program runs in its own session and stops itself and its ranks (SIGSTOP) after each line that it
prints. After its first steps, which include compilation, it prints a JSON line with its version and
the memory of its imports. For each line `WARMING STEPS` on stdin, it runs that many uncounted and
counted steps, then prints the seconds of the counted ones, the CPU seconds of the first rank, the
samples or tokens of all ranks, and the peak memory of the first rank. It exits at the end of stdin.
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import torch
import torch.distributed as dist
import torch.nn as nn

from torch_models import Model

MODELS = {
    "gpt2": dict(type="gpt2", layers=6, heads=6, width=384, block=256, vocabulary=256),
    "vit": dict(type="vit", layers=6, heads=6, width=384, patch=16, side=224, classes=10),
}


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Trainer:
    def __init__(self, m, mode, ranks, batch):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.m, self.batch, self.ranks = m, batch, ranks
        self.model = Model(m)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        self.step_model = nn.parallel.DistributedDataParallel(self.model, gradient_as_bucket_view=True) if ranks > 1 else self.model
        if mode == "compiled":
            self.step_model = torch.compile(self.step_model)
        if m["type"] == "gpt2":
            self.data, self.targets = (torch.randint(97, 123, (batch, m["block"])) for _ in range(2))
        else:
            self.data, self.targets = torch.rand(batch, 3, m["side"], m["side"]), torch.randint(0, m["classes"], (batch,))

    def train(self, count):
        for _ in range(count):
            self.optimizer.zero_grad(set_to_none=True)
            self.step_model(self.data, self.targets).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()

    def run_turn(self, warming, measured):
        """Runs one turn on all ranks and returns the first rank's report."""
        self.train(warming)
        if self.ranks > 1:
            dist.barrier()
        began, cpu = time.monotonic(), time.process_time()
        self.train(measured)
        if self.ranks > 1:
            dist.barrier()
        items = measured * self.batch * self.ranks * self.m.get("block", 1)
        return {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu, "items": items, "peak_bytes": peak_bytes()}


def print_and_stop(report):
    print(json.dumps(report), flush=True)
    os.killpg(0, signal.SIGSTOP)


def main():
    name, mode, ranks, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rank, rendezvous = (int(sys.argv[5]), sys.argv[6]) if len(sys.argv) > 5 else (0, None)
    imported = peak_bytes()
    if ranks > 1:
        folder = None if rank else tempfile.TemporaryDirectory()
        rendezvous = rendezvous or f"{folder.name}/rendezvous"
        others = [] if rank else [subprocess.Popen([sys.executable, *sys.argv, str(other), rendezvous]) for other in range(1, ranks)]
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    trainer = Trainer(MODELS[name], mode, ranks, batch)
    trainer.train(2)
    if rank == 0:
        print_and_stop({"version": torch.__version__, "imported_bytes": imported})
    while True:
        words = torch.zeros(2, dtype=torch.int64)
        if rank == 0:
            words += torch.tensor([int(word) for word in (sys.stdin.readline() or "0 0").split()])
        if ranks > 1:
            dist.broadcast(words, 0)
        if words[1] == 0:
            return
        report = trainer.run_turn(*words.tolist())
        if rank == 0:
            print_and_stop(report)


main()
