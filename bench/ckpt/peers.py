"""Runs one save or load of another library for bench/ckpt/run, and prints a line of JSON.

    peers.py safetensors save FOLDER BYTES COUNT      a state of COUNT tensors of F32, BYTES in total

A save ends when the bytes are durable. A load ends when the values are in the tensors of an
existing state, as a resume needs them; `cold` drops the files from the page cache first. CPU
seconds are those of the process and its children during the save or load.
"""
import json
import os
import pathlib
import resource
import sys
import threading
import time

import torch

library, operation, folder, size, count = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
torch.set_num_threads(1)


def make_state():
    elements = size // count // 4
    memory = torch.arange(count * elements, dtype=torch.int64).mul_(2654435761).to(torch.int32).view(torch.float32)
    return {f"array.{i:06}": memory[i * elements:(i + 1) * elements] for i in range(count)}


def sync(path):
    for file in [path] if path.is_file() else [*path.iterdir(), path]:
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def drop_cache(path):
    for file in [path] if path.is_file() else path.iterdir():
        handle = os.open(file, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def copy_into(state, loaded):
    for name, tensor in state.items():
        tensor.copy_(loaded[name])


class Torch:
    path = folder / "torch.pt"

    def save(self, state):
        torch.save(state, self.path)  # views of one storage, which torch writes once
        sync(self.path)

    def load(self, state):
        copy_into(state, torch.load(self.path, weights_only=True))


class Safetensors:
    path = folder / "peer.safetensors"

    def save(self, state):
        from safetensors.torch import save_file
        save_file(state, self.path)
        sync(self.path)

    def load(self, state):
        from safetensors.torch import load_file
        copy_into(state, load_file(self.path))


class Dcp:
    path = folder / "dcp"

    def save(self, state):
        import torch.distributed.checkpoint as dcp
        dcp.save(state, checkpoint_id=self.path)  # fsyncs its files
        sync(self.path)

    def load(self, state):
        import torch.distributed.checkpoint as dcp
        dcp.load(state, checkpoint_id=self.path)

    def block(self, state):
        import torch.distributed.checkpoint as dcp
        blocked = []
        for number in range(2):  # the first save also starts threads that later saves use
            began = time.monotonic()
            future = dcp.async_save(state, checkpoint_id=self.path / str(number))
            blocked.append(time.monotonic() - began)
            future.result()
        return {"first blocked": blocked[0], "blocked": blocked[1]}

    def full(self, state):
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
        dcp_to_torch_save(self.path, folder / "full.pt")
        sync(folder / "full.pt")


def cpu_seconds():
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    peer = {"torch": Torch, "safetensors": Safetensors, "dcp": Dcp}[library]()
    if library == "dcp":
        import torch.distributed as dist
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        import torch.distributed.checkpoint  # noqa: F401 (excludes imports from the measurement)
    if library == "safetensors":
        import safetensors.torch  # noqa: F401
    state = {} if operation == "full" else make_state()
    if operation == "cold":
        drop_cache(peer.path)
    before_bytes = peak_bytes()
    began, cpu = time.monotonic(), cpu_seconds()
    details = getattr(peer, "load" if operation == "cold" else operation)(state) or {}
    report = {"elapsed_seconds": time.monotonic() - began, "cpu_seconds": cpu_seconds() - cpu, "more_bytes": peak_bytes() - before_bytes,
            "peak_bytes": peak_bytes(), "threads_count": threading.active_count(), **details}
    print(json.dumps(report))


main()
