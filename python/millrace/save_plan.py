"""What a rank writes at each save, and from which memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch

from . import _native
from .log import logger
from .tensor_parts import CPU, Part

# Groups of the saver: what steps of hooked optimizers change, and what only save() changes.
GROUP_UPDATED, GROUP_COPIES, GROUPS_COUNT = 0, 1, 2

_STAGING_BYTES, _STAGING_BYTES_MAX = 64 << 20, 1 << 30

Memory = tuple[int, int]  # address and bytes


def _memory_of(tensor: Any) -> Memory:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return local.data_ptr(), local.nbytes


def device_of(optimizer: Any) -> torch.device:
    """The GPU of its first parameter that is on one, if this package can use it; else the CPU."""
    parameters = (one for group in optimizer.param_groups for one in group["params"])
    device = next((one.device for one in parameters if one.is_cuda), CPU)
    if device == CPU:
        return CPU
    try:
        _native.open_device(str(device))
    except OSError as error:
        logger.warning("save() itself copies the tensors on %s: %s", device, error)
        return CPU
    return device


def updated_memory(optimizers: Iterable[Any]) -> set[Memory]:
    """Of the tensors that steps of the optimizers change."""
    memory: set[Memory] = set()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            memory.update(map(_memory_of, group["params"]))
        for state in optimizer.state.values():
            values = state.values() if isinstance(state, Mapping) else ()
            memory.update(_memory_of(one) for one in values if isinstance(one, torch.Tensor))
    return memory


class Choice(NamedTuple):
    """A part that this rank writes, or shares in writing."""

    part: Part
    replicated: bool
    in_place: bool  # read after save() has returned; else save() copies it

    def signature(self) -> tuple[Any, ...]:
        """What must stay the same for the next save of an open saver."""
        local = self.part.local
        address = local.data_ptr() if self.in_place else None
        return (*self.part[:4], tuple(local.shape), self.replicated, address, local.device)


class SavePlan:
    """The choices of a rank.

    shared: memory of tensors that are the same on all ranks, which divide the work; of all other
        tensors that are no DTensors, rank 0 writes its own
    in_place: memory that nothing but the steps of hooked optimizers changes
    device: whose memory the saver can read, besides that of the CPU
    """

    def __init__(
        self,
        parts: list[Part],
        rank: int,
        shared: set[Memory],
        in_place: set[Memory],
        device: torch.device,
    ) -> None:
        self._device = device
        self.choices: list[Choice] = []
        self.kinds: list[tuple[Any, ...]] = []  # the same on all ranks
        for part in parts:
            if math.prod(part.shape) == 0:
                whole = torch.empty(part.shape, dtype=part.local.dtype)
                choice = Choice(part._replace(local=whole, start=(0,) * whole.ndim), True, False)
            else:
                memory = _memory_of(part.local)
                replicated = not part.is_distributed and memory in shared
                stays = memory in in_place and part.is_row_major_on(CPU, device)
                choice = Choice(part, replicated, stays)
            self.kinds.append((part.name, part.dtype, part.shape, choice.replicated))
            writes = part.is_first if part.is_distributed else rank == 0
            if choice.replicated or (part.is_held and writes):
                self.choices.append(choice)
        self.signature = [choice.signature() for choice in self.choices]

    def allocate(self) -> dict[str, Any]:
        """Memory for copies, by name; pinned for tensors of a GPU."""
        return {
            choice.part.name: torch.empty(
                choice.part.local.shape,
                dtype=choice.part.local.dtype,
                pin_memory=choice.part.local.is_cuda,
            )
            for choice in self.choices
            if not choice.in_place
        }

    def staging_bytes(self) -> int:
        """Enough for a step to go on at once: with a GPU, for all that it changes."""
        if self._device == CPU:
            return _STAGING_BYTES
        changed: int = sum(choice.part.local.nbytes for choice in self.choices if choice.in_place)
        return min(changed + _STAGING_BYTES, _STAGING_BYTES_MAX)

    def items(self, copies: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """For the extension."""
        return [
            choice.part.item(choice.part.local, choice.replicated, GROUP_UPDATED)
            if choice.in_place
            else choice.part.item(copies[choice.part.name], choice.replicated, GROUP_COPIES)
            for choice in self.choices
        ]

    def copy(self, copies: Mapping[str, Any]) -> None:
        """Copies the present values, and waits for all work on the GPUs that hold tensors: the
        saver reads those in place on streams of its own."""
        for choice in self.choices:
            if not choice.in_place:
                copies[choice.part.name].copy_(choice.part.local, non_blocking=True)
        for device in {choice.part.local.device for choice in self.choices}:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
