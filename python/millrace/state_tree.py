"""Nested states of tensors and plain values, as JSON. The tensors are stored beside it.

Plain values are dicts, lists, tuples, texts, numbers, booleans and None. What JSON lacks is an
object with one key: {"$tensor": null}, {"$tuple": [...]}, {"$int": "0x..."} beyond 64 bits,
{"$float": "7ff8000000000000"} for infinity and NaN, and {"$dict": [[key, value], ...]} if a key is
no text or begins with "$". So a state that was saved comes back equal to the bit.
"""

from __future__ import annotations

import collections
import math
import struct
from collections.abc import Callable
from typing import Any

import torch


def join_path(path: str, key: object) -> str:
    """The path of a value within another one, which is also the name of a tensor."""
    return f"{path}.{key}" if path else str(key)


def encode(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    """The value for JSON. Adds its tensors by their paths. Refuses what JSON cannot hold exactly,
    by its path."""
    if isinstance(value, torch.Tensor):
        if path in tensors:
            raise ValueError(f"two tensors have the name {path!r} in the checkpoint")
        tensors[path] = value
        return {"$tensor": None}
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is str:
        return _check_text(value, path)
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 63 else {"$int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": struct.pack(">d", value).hex()}
    if kind is list:
        return [encode(item, join_path(path, i), tensors) for i, item in enumerate(value)]
    if kind is tuple:
        items = [encode(item, join_path(path, i), tensors) for i, item in enumerate(value)]
        return {"$tuple": items}
    if kind in (dict, collections.OrderedDict):
        items = [(key, encode(item, join_path(path, key), tensors)) for key, item in value.items()]
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {_check_text(key, path): item for key, item in items}
        return {"$dict": [[encode(key, join_path(path, key), {}), item] for key, item in items]}
    raise refusal(path, f"type {kind.__module__}.{kind.__qualname__}")


def refusal(path: str, kind: str) -> TypeError:
    """The error for a value that JSON cannot hold."""
    return TypeError(
        f"{path or 'the state'} is of {kind}, which a checkpoint does not hold: pass tensors, "
        "dicts, lists, tuples, texts, numbers, booleans and None"
    )


def _check_text(text: str, path: str) -> str:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{path}: the text {text!r} has a NUL or is not valid Unicode")
    return text


def decode(node: Any, path: str, tensor: Callable[[str], Any]) -> Any:
    """The value that `encode` was given, with the tensors that `tensor` returns for their paths.
    An OrderedDict becomes a dict."""
    if isinstance(node, list):
        return [decode(item, join_path(path, i), tensor) for i, item in enumerate(node)]
    if not isinstance(node, dict):
        return node
    tag: str = next(iter(node), "")
    content: Any = node.get(tag)
    if tag == "$tensor":
        return tensor(path)
    if tag == "$int":
        return int(content, 16)
    if tag == "$float":
        return struct.unpack(">d", bytes.fromhex(content))[0]
    if tag == "$tuple":
        return tuple(decode(content, path, tensor))
    if tag == "$dict":
        keys = [decode(key, path, tensor) for key, _ in content]
        return {
            key: decode(item, join_path(path, key), tensor)
            for key, (_, item) in zip(keys, content, strict=True)
        }
    return {key: decode(item, join_path(path, key), tensor) for key, item in node.items()}
