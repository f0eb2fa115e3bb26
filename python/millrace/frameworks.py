"""Arrays of a batch as tensors of a framework, which is imported when used. Nothing is copied."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from . import _native

Framework = Literal["torch", "numpy", "jax", "dlpack"]


@dataclasses.dataclass
class Ragged:
    """Values of all samples one after another: sample i has values[offsets[i]:offsets[i + 1]], of
    the shape shapes[i]."""

    values: Any
    offsets: Any
    shapes: Any

    def to(self, *args: Any, **kwargs: Any) -> Ragged:
        """Moves tensors of PyTorch, such as to a device."""
        parts = (self.values, self.offsets, self.shapes)
        return Ragged(*(part.to(*args, **kwargs) for part in parts))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> Any:
        """The values of sample i, in their shape."""
        if not 0 <= i < len(self):
            raise IndexError(i)
        part = self.values[int(self.offsets[i]) : int(self.offsets[i + 1])]
        return part.reshape([int(n) for n in self.shapes[i]])


def _torch(array: _native.Array) -> Any:
    import torch.utils.dlpack

    return torch.utils.dlpack.from_dlpack(array)


def _numpy(array: _native.Array) -> Any:
    import numpy

    if array.dtype == "BF16":
        raise TypeError("NumPy has no bfloat16; use f32 or f16, or another framework")
    return numpy.asarray(array)


def _jax(array: _native.Array) -> Any:
    import jax

    if array.dtype not in ("I64", "F64") or jax.config.read("jax_enable_x64"):
        return jax.numpy.from_dlpack(array)
    if array.dtype == "F64":
        raise TypeError("JAX has float64 only with jax_enable_x64; use Float")
    import numpy

    wide = numpy.asarray(array)
    narrow = wide.astype(numpy.int32)
    if not numpy.array_equal(narrow, wide):
        raise OverflowError("an integer does not fit in int32: set jax_enable_x64")
    return jax.numpy.asarray(narrow)


_CONVERTERS: dict[str, Callable[[_native.Array], Any]] = {
    "torch": _torch,
    "numpy": _numpy,
    "jax": _jax,
    "dlpack": lambda array: array,
}


def converter(
    framework: Framework, copies: bool, channels_last: Collection[str]
) -> Callable[[Mapping[str, _native.Field]], dict[str, Any]]:
    """Returns the function that converts a batch, or a sample.

    copies: tensors don't keep the batch. channels_last: the fields that PyTorch gets as
    [..., channels, height, width] in this memory format.
    """
    try:
        convert = _CONVERTERS[framework]
    except KeyError:
        known = ", ".join(_CONVERTERS)
        raise ValueError(f"framework {framework!r} is none of {known}") from None
    if framework == "dlpack" and copies:
        raise ValueError('keep="copy" needs a framework that can copy, and "dlpack" cannot')

    def convert_array(array: _native.Array, is_channels_last: bool) -> Any:
        tensor = convert(array)
        if is_channels_last and framework == "torch":
            tensor = tensor.movedim(-1, -3)
        if copies:
            tensor = tensor.clone() if framework == "torch" else tensor.copy()
        return tensor

    def convert_batch(fields: Mapping[str, _native.Field]) -> dict[str, Any]:
        return {
            name: Ragged(*(convert_array(part, False) for part in field))
            if isinstance(field, tuple)
            else convert_array(field, name in channels_last)
            for name, field in fields.items()
        }

    return convert_batch
