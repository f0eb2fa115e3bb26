"""Batches on a device: copied ahead of the consumer, on a CUDA stream of their own."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from . import _native
from .fields import Field, Image
from .frameworks import Ragged
from .log import logger

Batch = dict[str, Any]
Place = TypeVar("Place")

_AHEAD = 2  # batches whose copies are queued before the consumer asks for them


def torch_device(device: Any, framework: str) -> Any:
    """The device as torch.device, with its number."""
    if framework != "torch":
        raise ValueError(f"device is for the framework torch, and not for {framework!r}")
    import torch

    device = torch.device(device)
    if device.type not in ("cuda", "cpu"):
        raise ValueError(f"device {str(device)!r} is neither cuda nor cpu")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def pinned_memory(device: Any) -> dict[str, str]:
    """The option of the extension that makes it allocate what the device can copy by itself."""
    if device.type != "cuda":
        return {}
    try:
        _native.open_device(str(device))
    except OSError as error:
        logger.warning("batches are copied from pageable memory, which is slower: %s", error)
        return {}
    return {"device": str(device)}


def split_work(fields: Mapping[str, Field]) -> tuple[dict[str, Field], dict[str, Image]]:
    """The fields as the loader decodes them for a device, and the images that the device finishes:
    the loader leaves them as bytes, pixel by pixel, a quarter of what floats take."""
    decoded = dict(fields)
    images = {name: field for name, field in fields.items() if isinstance(field, Image)}
    for name, image in images.items():
        decoded[name] = dataclasses.replace(image, layout="hwc")
        if image.dtype != "u8":
            decoded[name] = dataclasses.replace(image, layout="hwc", dtype="u8", mean=0.0, std=1.0)
    return decoded, images


def _finisher(image: Image, device: Any) -> Callable[[Any], Any]:
    """What makes the image's tensor of bytes [batch, height, width, channels].

    A level has one value in each channel, so a table gives the bits that the loader computes.
    """
    import torch

    table = offsets = None
    if image.dtype != "u8":
        dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[image.dtype]
        values = _native.image_levels(image.dtype.upper(), image.channels, *image._mean_std())
        table = torch.frombuffer(bytearray(values), dtype=dtype).to(device)
        offsets = torch.arange(image.channels, dtype=torch.int32).to(device)

    def finish(pixels: Any) -> Any:
        if table is not None:
            index = pixels.int().mul_(image.channels).add_(offsets)
            pixels = table.index_select(0, index.flatten()).reshape(pixels.shape)
        if image.layout == "hwc":
            return pixels
        planes = pixels.permute(0, 3, 1, 2)
        return planes.contiguous() if image.layout == "chw" else planes

    return finish


class Uploader(Generic[Place]):
    """Copies batches to a device and finishes their images there.

    ``put`` a batch of tensors in host memory and its place, ``take`` the oldest one. The consumer's
    current stream waits for the copies; the CPU does not. Not thread-safe.
    """

    def __init__(self, device: Any, images: Mapping[str, Image]) -> None:
        import torch

        self._device = device
        is_cuda = device.type == "cuda"
        self._streams: Any = torch.cuda if is_cuda else torch.cpu
        self._stream = torch.cuda.Stream(device) if is_cuda else torch.cpu.Stream()
        with self._streams.stream(self._stream):
            self._finish = {name: _finisher(image, device) for name, image in images.items()}
        self._ready: collections.deque[tuple[Batch, Any, Place]] = collections.deque()
        # Batches in host memory that copies may still read, until their events are complete.
        self._copies: collections.deque[tuple[Batch, Any]] = collections.deque()

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def is_full(self) -> bool:
        return len(self._ready) >= _AHEAD

    def put(self, batch: Batch, place: Place) -> None:
        while self._copies and self._copies[0][1].query():
            self._copies.popleft()
        done = self._streams.Event()
        with self._streams.stream(self._stream):
            moved = {name: self._move(name, field) for name, field in batch.items()}
            done.record(self._stream)
        self._copies.append((batch, done))
        self._ready.append((moved, done, place))

    def take(self) -> tuple[Batch, Place]:
        batch, done, place = self._ready.popleft()
        consumer = self._streams.current_stream(self._device)
        consumer.wait_event(done)
        for tensor in _tensors(batch):
            if tensor.is_cuda:  # allocated on our stream, and freed while the consumer's uses it
                tensor.record_stream(consumer)
        return batch, place

    def clear(self) -> None:
        """Drops all batches."""
        self._ready.clear()
        while self._copies:
            self._copies.popleft()[1].synchronize()

    def _move(self, name: str, field: Any) -> Any:
        moved = field.to(self._device, non_blocking=True)
        finish = self._finish.get(name)
        return finish(moved) if finish else moved


def _tensors(batch: Batch) -> Iterator[Any]:
    for field in batch.values():
        if isinstance(field, Ragged):
            yield from (field.values, field.offsets, field.shapes)
        else:
            yield field
