"""The parts of tensors that a rank holds, for the extension."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

CPU = torch.device("cpu")
DTYPE_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.float8_e5m2: "F8_E5M2",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
}
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
_TYPES = (torch.Tensor, torch.nn.Parameter, DTensor)


class Part(NamedTuple):
    """This rank's part of a tensor: a box of the whole shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: tuple[int, ...]
    local: Any  # a torch.Tensor
    is_distributed: bool = False  # a DTensor
    is_held: bool = True  # this rank has a part, which is not empty
    is_first: bool = True  # no rank before this one has the same part

    def is_row_major_on(self, *devices: torch.device) -> bool:
        """Whether the extension can use the memory as it is."""
        local = self.local
        return local.device in devices and local.is_contiguous() and not local.is_neg()

    def item(self, memory: Any, replicated: bool = False, group: int = 0) -> tuple[Any, ...]:
        """For the extension. memory: a row-major tensor with the shape of the part."""
        extent = tuple(memory.shape)
        place = (memory.data_ptr(), memory.nbytes, memory)
        return (self.name, self.dtype, self.shape, self.start, extent, replicated, group, *place)


def dtype_name_of(name: str, tensor: Any) -> str:
    """Refuses tensors that are no arrays of numbers, by name."""
    if type(tensor) not in _TYPES or tensor.layout != torch.strided:
        raise ValueError(
            f"tensor {name!r} is of type {type(tensor).__name__} and layout {tensor.layout}: only "
            "dense tensors and DTensors can be saved"
        )
    if tensor.dtype not in DTYPE_NAMES:
        raise ValueError(f"tensor {name!r}: a checkpoint cannot hold the dtype {tensor.dtype}")
    return DTYPE_NAMES[tensor.dtype]


def part_of(name: str, tensor: Any) -> Part:
    """Refuses tensors that are no arrays of numbers, by name."""
    dtype = dtype_name_of(name, tensor)
    shape = tuple(tensor.shape)
    start = (0,) * len(shape)
    is_member = is_first = True
    local = tensor.detach()
    if isinstance(tensor, DTensor):
        if any(placement.is_partial() for placement in tensor.placements):
            raise ValueError(
                f"tensor {name!r} has partial sums ({tensor.placements}): redistribute it first"
            )
        local = local.to_local()
        coordinate = tensor.device_mesh.get_coordinate()
        is_member = coordinate is not None
        if coordinate is not None:
            extent, start = compute_local_shape_and_global_offset(
                shape, tensor.device_mesh, tensor.placements
            )
            if tuple(extent) != tuple(local.shape):
                raise ValueError(
                    f"tensor {name!r}: its part on this rank has the shape {tuple(local.shape)}, "
                    f"but its placements {tensor.placements} imply {tuple(extent)}"
                )
            is_first = all(
                place == 0
                for place, placement in zip(coordinate, tensor.placements, strict=True)
                if placement.is_replicate()
            )
    if local.device.type == "meta":
        raise ValueError(f"tensor {name!r} is on the device 'meta' and has no values")
    return Part(
        name,
        dtype,
        shape,
        tuple(start),
        local,
        isinstance(tensor, DTensor),
        is_member and math.prod(local.shape) > 0,
        is_first,
    )
