"""Storage for torch.distributed.checkpoint (DCP):

    dcp.save(state, storage_writer=millrace.dcp.StorageWriter("ckpt/step-100"))
    dcp.load(state, storage_reader=millrace.dcp.StorageReader("ckpt/step-100"))

A checkpoint of DCP is a step in a folder, in the format of millrace.Checkpointer. The planner
decides which rank writes what. Values that are no tensors are JSON in the state of the step.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import pickle
import re
import threading
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    LoadPlan,
    LoadPlanner,
    Metadata,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorStorageMetadata,
    WriteItem,
)
from torch.distributed.checkpoint import StorageReader as TorchStorageReader
from torch.distributed.checkpoint import StorageWriter as TorchStorageWriter
from torch.distributed.checkpoint.metadata import TensorProperties
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from . import _native
from .checkpoint_state import STATE_VERSION
from .communicator import Invitation, accept, invite, together
from .log import log_line
from .state_tree import decode, encode, refusal
from .tensor_parts import CPU, DTYPES, Part, dtype_name_of

_Path = str | os.PathLike[str]
_CRC_BYTES = len('{"crc32c":"xxxxxxxx"')


def _step_of(path: _Path) -> tuple[str, int] | None:
    """The folder and the number, if the path is that of a step."""
    folder, name = os.path.split(os.path.abspath(path))
    match = re.fullmatch("step-([0-9]{1,18})", name)
    return (folder, int(match[1])) if match else None


def _done(result: Any) -> Any:
    future: Any = Future()
    future.set_result(result)
    return future


# ---- Saving. ----


class _Task(NamedTuple):
    """From the coordinator to each rank."""

    rank: int
    ranks: int
    invitation: Invitation | None
    empty: list[Part]  # tensors without elements, on rank 0


class _OpenSave(NamedTuple):
    saver: _native.Saver
    communicator: _native.Communicator

    def close(self) -> None:
        self.saver.close()  # waits for a save in progress
        self.communicator.close()


def _plain_value(planner: SavePlanner, item: WriteItem) -> Any:
    """For JSON. The planner serializes the value, which is then read without running its code."""
    name = item.index.fqn
    stream: Any = planner.resolve_data(item)
    stream.seek(0)
    try:
        value = torch.load(stream, weights_only=True)
    except pickle.UnpicklingError:
        raise refusal(name, "another type") from None
    tensors: dict[str, Any] = {}
    node = encode(value, name, tensors)
    for tensor in tensors:
        raise TypeError(f"{tensor} is a tensor in a tuple, which DCP does not divide: use a list")
    return node


def _part(planner: SavePlanner, item: WriteItem) -> Part:
    """The planner's tensor, as a row-major one on the CPU."""
    assert item.tensor_data is not None
    name, chunk = item.index.fqn, item.tensor_data.chunk
    tensor: Any = planner.resolve_data(item)
    dtype = dtype_name_of(name, tensor)
    if tensor.shape != chunk.sizes:
        raise ValueError(
            f"tensor {name!r}: the planner has a part of shape {tuple(tensor.shape)} in place of "
            f"{tuple(chunk.sizes)}"
        )
    part = Part(name, dtype, tuple(item.tensor_data.size), tuple(chunk.offsets), tensor.detach())
    if part.is_row_major_on(CPU):
        return part
    return part._replace(local=part.local.cpu().contiguous().resolve_neg())


class StorageWriter(TorchStorageWriter):
    """Writes a step. A save replaces an earlier one of the same step when it is complete.

    path: such as "ckpt/step-100", written as ckpt/step-00000100
    keep_last: how many of the newest steps in the folder are kept; 0: all
    timeout: in seconds, for ranks that do not answer
    """

    def __init__(self, path: _Path, *, keep_last: int = 0, timeout: float = 600.0) -> None:
        if keep_last < 0:
            raise ValueError("keep_last may not be negative")
        self._keep_last, self._timeout = keep_last, timeout
        self._open: _OpenSave | None = None  # on the coordinator, until finish()
        self.reset(path)

    def reset(self, checkpoint_id: _Path | None = None) -> None:
        if checkpoint_id is not None:
            found = _step_of(checkpoint_id)
            if found is None:
                example = os.path.join(checkpoint_id, "step-0")
                raise ValueError(
                    f"{os.fspath(checkpoint_id)!r} does not end with the number of a step: pass a "
                    f"path such as {example!r}"
                )
            self._folder, self._step = found

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: _Path) -> bool:
        return _step_of(checkpoint_id) is not None

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise ValueError("use_collectives=False is not possible: the ranks write one step")
        self._abandon()

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return dataclasses.replace(plan, storage_data=(self._folder, self._step))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        for rank, plan in enumerate(plans):
            if not getattr(plan, "usable", True):
                raise ValueError("a planner with enable_plan_caching=True is not possible")
            if plan.storage_data != (self._folder, self._step):
                raise ValueError(
                    f"rank {rank} saves step {plan.storage_data[1]} in {plan.storage_data[0]}, but "
                    f"rank 0 step {self._step} in {self._folder}"
                )
        datas = {item.index.fqn: item.tensor_data for plan in plans for item in plan.items}
        empty = []
        for name, data in datas.items():
            if data is not None and math.prod(data.size) == 0:
                tensor = torch.empty(data.size, dtype=data.properties.dtype)
                dtype, start = dtype_name_of(name, tensor), (0,) * len(data.size)
                empty.append(Part(name, dtype, tuple(data.size), start, tensor))
        invitation = invite() if len(plans) > 1 else None
        return [
            dataclasses.replace(
                plan,
                storage_data=_Task(rank, len(plans), invitation, [] if rank else empty),
            )
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        """Rank 0 begins in finish(): until then, the threads of the other ranks wait for it."""
        task: _Task = plan.storage_data
        communicator = accept(task.invitation, task.rank, task.ranks, self._timeout)
        try:
            parts, results = together(communicator, lambda: self._resolve(plan, planner))
            options = {
                "folder": self._folder,
                "groups": 1,
                "staging_bytes": 0,
                "keep_last": self._keep_last,
                "keep_every": 0,
                "best_metric": None,
                "best_mode": None,
                "best_count": 0,
                "numerics_id": f"torch {torch.__version__}",
            }
            items = [part.item(part.local) for part in [*task.empty, *parts]]
            opened = _OpenSave(_native.Saver(options, items, communicator, log_line), communicator)
            if task.rank == 0:
                self._open = opened
            else:
                opened.saver.save(self._step, "{}")
                threading.Thread(target=opened.close, name="millrace-checkpoint").start()
        except BaseException:
            communicator.abort()  # the other ranks need not wait for this one
            raise
        return _done(results)

    def _resolve(
        self, plan: SavePlan, planner: SavePlanner
    ) -> tuple[list[Part], list[WriteResult]]:
        parts: dict[str, Part] = {}
        results = []
        for item in plan.items:
            if item.type == WriteItemType.BYTE_IO:
                results.append(WriteResult(item.index, 0, _plain_value(planner, item)))
                continue
            part = _part(planner, item)
            if part.name in parts:
                raise ValueError(
                    f"the planner gives this rank two parts of tensor {part.name!r}: it can write "
                    "one"
                )
            if part.local.numel() > 0:
                parts[part.name] = part
            results.append(WriteResult(item.index, part.local.nbytes, None))
        return list(parts.values()), results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        assert self._open is not None
        values = {
            result.index.fqn: result.storage_data
            for rank_results in results
            for result in rank_results
            if isinstance(metadata.state_dict_metadata[result.index.fqn], BytesStorageMetadata)
        }
        try:
            planner_data = encode(metadata.planner_data, "planner_data", {})
            trees = {"values": list(values.items()), "planner_data": planner_data}
            state = {"torch": {"version": STATE_VERSION, "dcp": trees}}
            self._open.saver.save(self._step, json.dumps(state, allow_nan=False))
            self._open.saver.wait()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


# ---- Loading. ----


class StorageReader(TorchStorageReader):
    """Reads a step of any program: of DCP, millrace.Checkpointer or `millrace train`. Tensors must
    have the saved shape and type.

    path: a step, such as "ckpt/step-100", or a folder of steps, for its newest one
    """

    def __init__(self, path: _Path) -> None:
        self._reader: _native.Reader | None = None  # from read_metadata() to read_data()
        self._failure: Exception | None = None
        self.reset(path)

    def reset(self, checkpoint_id: _Path | None = None) -> None:
        if checkpoint_id is not None:
            found = _step_of(checkpoint_id)
            self._path = os.path.abspath(checkpoint_id)
            if found is not None:
                self._path = os.path.join(found[0], f"step-{found[1]:08d}")

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: _Path) -> bool:
        return os.path.isdir(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        self._failure = None
        try:
            return self._read_metadata()
        except Exception as error:
            if "rank" not in kwargs:
                raise
            # torch has hidden the error of the first call. Now set_up_storage_reader raises it.
            self._failure = error
            return Metadata({})

    def _read_metadata(self) -> Metadata:
        self._close()
        self._reader = reader = _native.Reader(self._path, _native.Communicator(), log_line)
        trees = json.loads(reader.state()).get("torch", {"version": STATE_VERSION})
        if trees["version"] != STATE_VERSION:
            raise ValueError(f"{reader.path} is of another version of millrace")
        saved = trees.get("dcp", {"values": [], "planner_data": None})
        self._values = dict(saved["values"])
        self._dtypes = {name: dtype for name, dtype, _ in reader.tensors()}
        self._shapes = {name: shape for name, _, shape in reader.tensors()}
        contents: dict[str, Any] = {name: BytesStorageMetadata() for name in self._values}
        for name, shape in self._shapes.items():
            size = torch.Size(shape)
            whole = ChunkStorageMetadata(torch.Size([0] * len(shape)), size)
            properties = TensorProperties(dtype=DTYPES[self._dtypes[name]])
            contents[name] = TensorStorageMetadata(properties, size, [whole])
        nothing: dict[str, Any] = {}
        planner_data = decode(saved["planner_data"], "planner_data", nothing.__getitem__)
        return Metadata(contents, planner_data)

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        if self._failure is not None:
            raise self._failure

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        assert self._reader is not None
        with open(os.path.join(self._reader.path, "manifest.json"), "rb") as manifest:
            identity = (self._reader.path, manifest.read(_CRC_BYTES))
        return dataclasses.replace(plan, storage_data=identity)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        for rank, plan in enumerate(plans):
            if plan.storage_data != plans[0].storage_data:
                raise ValueError(
                    f"rank 0 loads {plans[0].storage_data[0]}, but rank {rank} loads "
                    f"{plan.storage_data[0]}, of another save"
                )
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        try:
            self._read_data(plan, planner)
        finally:
            self._close()
        return _done(None)

    def _read_data(self, plan: LoadPlan, planner: LoadPlanner) -> None:
        assert self._reader is not None
        items, targets = [], []
        for item in plan.items:
            if item.type == LoadItemType.TENSOR:
                target = planner.resolve_tensor(item).detach()
                part = self._part(item, target)
                memory = target
                if not part.is_row_major_on(CPU):
                    memory = torch.empty(target.shape, dtype=target.dtype)
                items.append(part.item(memory))
                targets.append((item, target, memory))
        self._reader.load(items, _native.Communicator())
        with torch.no_grad():
            for item, target, memory in targets:
                if memory is not target:
                    target.copy_(memory)
                planner.commit_tensor(item, target)
        nothing: dict[str, Any] = {}
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                name = item.storage_index.fqn
                stream = io.BytesIO()
                torch.save(decode(self._values[name], name, nothing.__getitem__), stream)
                stream.seek(0)
                planner.load_bytes(item, stream)

    def _part(self, item: ReadItem, target: Any) -> Part:
        name = item.storage_index.fqn
        saved = DTYPES[self._dtypes[name]]
        if target.dtype != saved or target.shape != item.lengths:
            raise ValueError(
                f"tensor {name!r} is {target.dtype} {tuple(target.shape)}, but in {self._path} it "
                f"is {saved} {tuple(item.lengths)}"
            )
        start = tuple(item.storage_offsets)
        return Part(name, self._dtypes[name], self._shapes[name], start, target)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
