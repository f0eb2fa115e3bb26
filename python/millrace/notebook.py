"""How notebooks show a loader or a dataset: the samples of a batch."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Mapping, Sequence

from . import _native

SAMPLES_MAX = 16


def _png(pixels: memoryview) -> bytes:
    """An image of bytes [height, width, 1 or 3] (PNG, ISO/IEC 15948)."""
    height, width, channels = pixels.shape or ()
    data, stride = pixels.tobytes(), width * channels
    rows = b"".join(b"\0" + data[at : at + stride] for at in range(0, len(data), stride))

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 1))
        + chunk(b"IEND", b"")
    )


def _is_picture(array: _native.Array) -> bool:
    return array.dtype == "U8" and len(array.shape) == 4 and array.shape[3] in (1, 3)


def _describe(name: str, array: _native.Array, i: int, classes: Sequence[str] | None) -> str:
    """The value of sample i, or the shape of what is too long to show."""
    if len(array.shape) > 1 or array.dtype == "BF16":
        return f"{name} {array.dtype.lower()} {list(array.shape[1:])}"
    value = memoryview(array)[i]
    if name == "label" and classes and 0 <= value < len(classes):
        return f"{name} {value}: {classes[value]}"
    return f"{name} {value}"


def contact_sheet(
    batch: Mapping[str, _native.Field], keys: Sequence[str], classes: Sequence[str] | None
) -> str:
    """HTML of the first samples of a batch."""
    figures = []
    for i, key in enumerate(keys[:SAMPLES_MAX]):
        pictures, lines = "", [key]
        for name, field in batch.items():
            if isinstance(field, tuple):
                offsets = memoryview(field[1])
                lines.append(f"{name}: {offsets[i + 1] - offsets[i]} values")
            elif _is_picture(field):
                # a memoryview of several dimensions has no slices
                height, width, channels = field.shape[1:]
                size = height * width * channels
                flat = memoryview(field).cast("B")[i * size : (i + 1) * size]
                png = base64.b64encode(_png(flat.cast("B", (height, width, channels)))).decode()
                pictures += f'<img alt="{html.escape(name)}" src="data:image/png;base64,{png}">'
            else:
                lines.append(_describe(name, field, i, classes))
        caption = "<br>".join(map(html.escape, lines))
        figures.append(
            f'<figure style="margin:4px;max-width:16em;overflow-wrap:anywhere">{pictures}'
            f"<figcaption><small>{caption}</small></figcaption></figure>"
        )
    return f'<div style="display:flex;flex-wrap:wrap">{"".join(figures)}</div>'
