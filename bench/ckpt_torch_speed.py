#!/usr/bin/env python3
"""ckpt_torch_speed — compares millrace's checkpoints of an FSDP2 model with those of
torch.distributed.checkpoint (DCP): the time blocked in the call, and with an update one second later;
the time until durable; and that of a load.

    PYTHONPATH=build/release/python PYTHON bench/ckpt_torch_speed.py FOLDER [--mib 2048] [--ranks 2] [--rounds 5]

PYTHON needs PyTorch. The ranks are processes with gloo on the CPU. Parameters and AdamW's state have
--mib in all. In each round all programs save and load the same state, in an order that rotates; each
load is cold and is compared with what was saved. Times are those of the slower rank. A warm-up round
is not counted.
"""
import argparse
import os
import pathlib
import shutil
import socket
import statistics
import time
import warnings
import zlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict, set_model_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import fully_shard

import millrace as mr
import millrace.dcp

WIDTH = 2048
COMPUTING_S = 1.0  # from a save to the next update


def slowest(seconds):
    value = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return value.tolist()


def drop_cache(folder):
    """Makes the next load read from the disk."""
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


class Run:
    def __init__(self, folder, mib):
        torch.manual_seed(0)
        layers = max(1, mib * (1 << 20) // (12 * WIDTH * WIDTH))
        self.model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
        for layer in self.model:
            fully_shard(layer)
        fully_shard(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.folder, self.mib = folder, 12 * layers * WIDTH * WIDTH >> 20
        self.checkpointer = mr.Checkpointer(folder / "checkpointer", keep_last=1)
        self.checkpointer.hook(self.optimizer)
        self.step = 0
        self.train()

    def train(self):
        self.optimizer.zero_grad()
        self.model(torch.randn(4, WIDTH)).square().mean().backward()
        self.optimizer.step()
        self.step += 1

    def tensors(self):
        states = [value for state in self.optimizer.state.values() for value in state.values()]
        return [one.to_local() if hasattr(one, "to_local") else one for one in [*self.model.parameters(), *states]]

    def digest(self):
        return [zlib.crc32(one.detach().contiguous().view(-1).view(torch.uint8).numpy()) for one in self.tensors()]

    def state(self):
        return {"model": get_model_state_dict(self.model), "optimizer": get_optimizer_state_dict(self.model, self.optimizer)}

    def place(self, name):
        return self.folder / name / f"step-{self.step}"

    # Each returns the seconds that the call of a save blocks, those with the next update's wait, and
    # those until the save is durable.

    def save_checkpointer(self):
        began = time.monotonic()
        self.checkpointer.save(self.step, model=self.model, optimizer=self.optimizer)
        blocked = time.monotonic() - began
        time.sleep(COMPUTING_S)
        began = time.monotonic()
        self.checkpointer._before_update()  # what step() waits for
        waited = time.monotonic() - began
        self.checkpointer.wait()
        return blocked, blocked + waited, blocked + self.checkpointer.stats()["last_save_seconds"]

    def save_async(self):
        began = time.monotonic()
        future = dcp.async_save(self.state(), storage_writer=dcp.FileSystemWriter(self.place("async")))
        blocked = time.monotonic() - began
        future.result()
        return blocked, blocked, time.monotonic() - began

    def save_by(self, writer):
        began = time.monotonic()
        dcp.save(self.state(), storage_writer=writer)
        return [time.monotonic() - began] * 3

    def save_sync(self):
        return self.save_by(dcp.FileSystemWriter(self.place("sync")))

    def save_storage(self):
        return self.save_by(millrace.dcp.StorageWriter(self.place("storage"), keep_last=1))

    def load_checkpointer(self):
        self.checkpointer.load(model=self.model, optimizer=self.optimizer)

    def load_reader(self, reader):
        state = self.state()
        dcp.load(state, storage_reader=reader)
        set_model_state_dict(self.model, state["model"])
        set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"])

    def load_sync(self):
        self.load_reader(dcp.FileSystemReader(self.place("sync")))

    def load_storage(self):
        self.load_reader(millrace.dcp.StorageReader(self.place("storage")))

    def measure_save(self, name):
        dist.barrier()
        return slowest(getattr(self, f"save_{name}")())

    def measure_load(self, name, expected):
        with torch.no_grad():
            for one in self.tensors():
                one.zero_()
        if dist.get_rank() == 0:
            drop_cache(self.folder / name)
        dist.barrier()
        began = time.monotonic()
        getattr(self, f"load_{name}")()
        took = time.monotonic() - began
        if self.digest() != expected:
            raise SystemExit(f"ckpt_torch_speed: what {name} loaded differs from what was saved")
        return slowest([took])


PROGRAMS = {
    "checkpointer": "millrace.Checkpointer",
    "async": "DCP, async_save",
    "sync": "DCP, save and load",
    "storage": "DCP, save and load with millrace.dcp",
}


def measure(rank, options, port):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(options.ranks))
    dist.init_process_group("gloo")
    run = Run(options.folder, options.mib)
    saves, loads = {name: [] for name in PROGRAMS}, {name: [] for name in PROGRAMS if name != "async"}
    names = list(PROGRAMS)
    for round in range(options.rounds + 1):
        run.train()
        expected = run.digest()
        for name in names[round % 4 :] + names[: round % 4]:
            took = run.measure_save(name)
            if round:
                saves[name].append(took)
        for name in sorted(loads, key=lambda name: (names.index(name) + round) % 4):
            took = run.measure_load(name, expected)
            if round:
                loads[name].append(took)
        dist.barrier()
        if rank == 0:
            for name in "async", "sync":
                shutil.rmtree(options.folder / name)
    run.checkpointer.close()
    if rank:
        return
    print(f"{run.mib} MiB on {options.ranks} ranks, PyTorch {torch.__version__}, load average {os.getloadavg()[0]:.1f}\n")
    print("| program | blocked, s | with the next update, s | durable after, s | load, s |")
    print("|---|---|---|---|---|")
    for name, title in PROGRAMS.items():
        columns = [*zip(*saves[name]), *(zip(*loads[name]) if name in loads else [])]
        cells = [f"{statistics.median(column):.3f} ({min(column):.3f}–{max(column):.3f})" for column in columns]
        print(f"| {title} | {' | '.join(cells)}{' |' * (5 - len(cells))}")

    def ratio(theirs, ours, column):
        return statistics.median(a[column] / b[column] for a, b in zip(theirs, ours))

    ours, storage = saves["checkpointer"], saves["storage"]
    print("\n| ratio, median of the rounds | |")
    print("|---|---|")
    print(f"| blocked by async_save, to Checkpointer.save | {ratio(saves['async'], ours, 0):.1f} |")
    print(f"| the same, with the next update | {ratio(saves['async'], ours, 1):.1f} |")
    print(f"| until durable by async_save, to Checkpointer.save | {ratio(saves['async'], ours, 2):.2f} |")
    print(f"| DCP's load, to Checkpointer.load | {ratio(loads['sync'], loads['checkpointer'], 0):.2f} |")
    print(f"| DCP's save, to that with millrace.dcp | {ratio(saves['sync'], storage, 2):.2f} |")
    print(f"| DCP's load, to that with millrace.dcp | {ratio(loads['sync'], loads['storage'], 0):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        torch.multiprocessing.spawn(measure, (options, port), options.ranks)
    finally:
        shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
