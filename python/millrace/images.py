"""Images as files whose pixels are exactly those of the value."""

from __future__ import annotations

import io
import os
import pathlib
from collections.abc import Iterator
from typing import Any

# Modes that PNG stores as they are. Pillow would cut "I" to 16 bits.
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I;16")
_KEPT_FORMATS = {"JPEG": "jpg", "MPO": "jpg", "PNG": "png", "WEBP": "webp"}
_ORIENTATION = 0x0112  # of Exif
HEAD_BYTES = 12  # that image_extension needs


def image_extension(head: bytes) -> str | None:
    """jpg, png, webp or ppm, by the first bytes of a file; None: another file."""
    if head.startswith(b"\xff\xd8\xff"):
        return "jpg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    if head[:2] in (b"P5", b"P6") and head[2:3] in b" \t\r\n#" and len(head) > 2:
        return "ppm"
    return None


def is_pillow(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "PIL" and hasattr(value, "getbands")


def _files(image: Any) -> Iterator[bytes]:
    """What the image may have been opened from."""
    file = getattr(image, "fp", None)
    if file is not None and not getattr(file, "closed", False):
        position = file.tell()
        file.seek(0)
        yield file.read()
        file.seek(position)
    path = getattr(image, "filename", "")
    if path and os.path.isfile(path):
        yield pathlib.Path(path).read_bytes()


def _original(image: Any) -> bytes | None:
    """The bytes of the file from which the image was opened, if its pixels are still the same."""
    from PIL import Image

    if getattr(image, "format", None) not in _KEPT_FORMATS:
        return None
    is_decoded = not getattr(image, "tile", None)
    for data in _files(image):
        try:
            fresh = Image.open(io.BytesIO(data))
        except OSError:
            continue
        if (fresh.format, fresh.mode, fresh.size) != (image.format, image.mode, image.size):
            continue  # after Image.draft, or of another file
        is_same = fresh.tobytes() == image.tobytes() if is_decoded else True
        if is_same and fresh.getpalette() == image.getpalette():
            return data
    return None


def _encode_png(image: Any) -> bytes:
    if image.mode not in _PNG_MODES:
        raise ValueError(
            f"PNG cannot store an image of mode {image.mode!r} exactly; "
            "convert it, for example with image.convert('RGB')"
        )
    if image.getexif().get(_ORIENTATION, 1) != 1:
        raise ValueError(
            "the image is to be rotated, by its Exif data; apply PIL.ImageOps.exif_transpose"
        )
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _from_pillow(image: Any) -> tuple[str, bytes]:
    if image.format != "MPO" and getattr(image, "is_animated", False):
        raise ValueError(f"an animated image of {image.n_frames} frames; choose one of them")
    data = _original(image)
    if data is not None:
        return _KEPT_FORMATS[image.format], data
    return "png", _encode_png(image)


def is_pixels(value: Any) -> bool:
    """Whether an array is an image: u8 of [height, width] or [height, width, 1 or 3]."""
    shape: tuple[int, ...] = getattr(value, "shape", ())
    is_image = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    return is_image and str(value.dtype).rpartition(".")[2] == "uint8" and 0 not in shape


def image_file(value: Any) -> tuple[str, bytes]:
    """The extension and the bytes of a Pillow image, or of an array that is_pixels. An image of
    Pillow that nobody has changed since it was opened keeps the bytes of its file.
    """
    if is_pillow(value):
        return _from_pillow(value)
    if not is_pixels(value):
        raise TypeError(
            f"an array of {value.dtype} {tuple(value.shape)} is no image; "
            "expected uint8 [height, width] or [height, width, 3]"
        )
    import numpy
    from PIL import Image

    pixels = numpy.ascontiguousarray(value)
    return "png", _encode_png(
        Image.fromarray(pixels[..., 0] if pixels.shape[2:] == (1,) else pixels)
    )
