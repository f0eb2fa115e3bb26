"""Python values as the bytes of fields."""

from __future__ import annotations

import base64
import binascii
import io
import math
import numbers
import operator
import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .columns import Field, Type, is_image_extension
from .images import HEAD_BYTES, image_extension, image_file, is_pillow, is_pixels
from .json_text import json_text

Columns = list[tuple[str, Any]]  # extension and values, for encode_samples
CLASSES_MAX = 1 << 23
_NPY_MAGIC = b"\x93NUMPY"
_KEY_BYTES_MAX = 1022
_PLAIN_KEY = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]*")


def cell_error(error: Exception, row: int, column: str) -> Exception:
    """The error with its place, as far as its type allows."""
    text = f"row {row}, column {column!r}: {error}"
    kinds = (TypeError, ValueError, OverflowError)
    if isinstance(error, OSError):
        return OSError(text) if error.errno is None else OSError(error.errno, text)
    return next((kind(text) for kind in kinds if type(error) is kind), ValueError(text))


# ---- Arrays. ----


def is_array(value: Any) -> bool:
    """Of NumPy, including its scalars, PyTorch or JAX."""
    framework = type(value).__module__.partition(".")[0]
    has_shape = hasattr(value, "dtype") and hasattr(value, "shape")
    return framework in ("numpy", "torch", "jax", "jaxlib") and has_shape


def as_numpy(value: Any) -> Any:
    import numpy

    if type(value).__module__.partition(".")[0] == "torch":
        if "bfloat16" in str(value.dtype) or "float8" in str(value.dtype):
            raise TypeError(f"NumPy has no {value.dtype}; convert it, such as with .float()")
        value = value.detach().cpu().numpy()
    return numpy.asarray(value)


def npy_file(value: Any) -> bytes:
    """A NumPy file with the type and the shape of the value, little-endian and in C order."""
    import numpy

    array = as_numpy(value)
    if array.dtype.kind not in "biufc" or array.dtype.char in "gG":
        raise TypeError(f"an array of {array.dtype} cannot be stored as npy")
    array = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
    out = io.BytesIO()
    numpy.lib.format.write_array(out, array, (1, 0), allow_pickle=False)
    return out.getvalue()


# ---- Fields. ----


def check_file(extension: str, head: bytes) -> None:
    """ValueError: the file is of another type than its extension says."""
    found = image_extension(head)
    if is_image_extension(extension) and found != extension.rpartition(".")[2]:
        raise ValueError(
            f"expected a file of type {extension}, found {found or 'no image'}; "
            "':image' stores each image by its own type"
        )
    if extension.rpartition(".")[2] == "npy" and not head.startswith(_NPY_MAGIC):
        raise ValueError("expected a NumPy file or an array")


def open_extension(field: Field, head: bytes) -> str:
    """Of a field that takes the extension of its value."""
    found = image_extension(head)
    if found is None and field.kind == "image":
        raise ValueError("no image: expected JPEG, PNG, WebP or PPM")
    return field.extension + (found or ("npy" if head.startswith(_NPY_MAGIC) else "bin"))


def _file_bytes(value: Any, field: Field) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Mapping) and {"bytes", "path"} >= value.keys() and value:
        if value.get("bytes") is not None:
            return bytes(value["bytes"])
        value = value.get("path")
    if isinstance(value, str | os.PathLike):
        return pathlib.Path(value).read_bytes()
    raise TypeError(
        f"expected bytes, an image, an array or the path of a file, "
        f"found {type(value).__qualname__}"
    )


def encode_file(value: Any, field: Field) -> tuple[str, bytes]:
    """The extension and the bytes."""
    is_image = field.kind == "image" or is_image_extension(field.extension)
    is_open = field.is_open
    if is_pillow(value) or (is_image and is_array(value)):
        found, data = image_file(value)
        extension = field.extension + found if is_open else field.extension
        if not is_open and found != extension.rpartition(".")[2]:
            if found != "png" and extension.rpartition(".")[2] == "png":
                value.load()
                copy = value.copy()  # which has no file
                return extension, image_file(copy)[1]
            check_file(extension, data[:HEAD_BYTES])
        return extension, data
    if is_array(value) or (
        field.extension.rpartition(".")[2] == "npy" and isinstance(value, numbers.Number | list)
    ):
        if is_open or field.extension.rpartition(".")[2] == "npy":
            return field.extension + ("npy" if is_open else ""), npy_file(value)
        raise TypeError(f"an array cannot be stored as {field.extension}, but as 'npy'")
    data = _file_bytes(value, field)
    if is_open:
        return open_extension(field, data[:HEAD_BYTES]), data
    check_file(field.extension, data[:HEAD_BYTES])
    return field.extension, data


def encode_text(value: Any) -> bytes:
    if isinstance(value, str):
        data = value.encode()
    elif isinstance(value, bytes):
        data = value
        data.decode()
    else:
        raise TypeError(f"expected a text, found {type(value).__qualname__}")
    if b"\0" in data:
        raise ValueError("the text has a NUL")
    return data


def encode_int(value: Any) -> str:
    """Also of a float that is a whole number."""
    if isinstance(value, bool) or "bool" in type(value).__name__:
        raise TypeError(f"expected an integer, found {value!r}")
    if isinstance(value, float) or (is_array(value) and "float" in str(value.dtype)):
        number = float(value)
        if not number.is_integer():
            raise ValueError(f"expected an integer, found {number!r}")
        return str(int(number))
    return str(operator.index(value))


def encode_float(value: Any) -> bytes:
    is_number = isinstance(value, numbers.Real) or (is_array(value) and len(value.shape) == 0)
    if not is_number or isinstance(value, bool) or "bool" in type(value).__name__:
        raise TypeError(f"expected a number, found {type(value).__qualname__}")
    if not math.isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    return json_text(value)


def encode_bool(value: Any) -> str:
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"expected a truth value, found {type(value).__qualname__}")
    return "true" if value else "false"


def encode_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"no base64: {error}") from None


class ClassEncoder:
    """Class numbers in decimal, of numbers or of names."""

    def __init__(self, names: Sequence[str] | None, is_optional: bool) -> None:
        self._numbers = None if names is None else {name: str(i) for i, name in enumerate(names)}
        self._count = CLASSES_MAX if names is None else len(names)
        self._is_optional = is_optional

    def check(self, number: int) -> str | None:
        if number == -1 and self._is_optional:
            return None
        if number < 0:
            raise ValueError(
                f"{number} is no class number; ':class?' leaves -1 out, as a sample without a class"
            )
        if number >= self._count:
            raise ValueError(f"{number} is no class number below {self._count}")
        return str(number)

    def __call__(self, value: Any) -> str | None:
        if isinstance(value, bytes):
            value = value.decode()
        if not isinstance(value, str):
            if isinstance(value, float) or "float" in str(getattr(value, "dtype", "")):
                raise TypeError(f"{value!r} is no class number; 'cls:int' takes whole numbers")
            return self.check(int(encode_int(value)))
        if self._numbers is None:
            if not re.fullmatch("0|[1-9][0-9]{0,6}", value):
                raise ValueError(f"the class {value!r} has no number; give classes=[NAME, ...]")
            return self.check(int(value))
        if value not in self._numbers:
            raise ValueError(f"{value!r} is none of the {len(self._numbers)} classes")
        return self._numbers[value]


def _json_value(value: Any) -> bytes:
    if not isinstance(value, bytes):
        return json_text(value)
    import json

    json.loads(value)  # of a webdataset
    return value


def field_encoder(field: Field, classes: Sequence[str] | None) -> Callable[[Any], Any]:
    """Of a field with a fixed extension: bytes or str, or None to leave the field out."""
    if field.kind == "class":
        return ClassEncoder(classes, field.is_optional)
    if field.kind == "int" and field.extension == "cls":
        check = ClassEncoder(None, False).check
        return lambda value: check(int(encode_int(value)))
    encoders: dict[str, Callable[[Any], Any]] = {
        "text": encode_text,
        "int": encode_int,
        "float": encode_float,
        "bool": encode_bool,
        "base64": encode_base64,
        "json": _json_value,
    }
    return encoders[field.kind]


def encode_values(
    field: Field, classes: Sequence[str] | None, values: Sequence[Any], first_row: int
) -> Columns:
    """Columns of bytes, one for each extension. None stays None."""
    is_file = field.kind in ("file", "image")
    encode = None if is_file else field_encoder(field, classes)
    columns: dict[str, list[Any]] = {} if is_file else {field.extension: [None] * len(values)}
    for i, value in enumerate(values):
        if value is None:
            continue
        try:
            if encode is not None:
                columns[field.extension][i] = encode(value)
            else:
                extension, data = encode_file(value, field)
                columns.setdefault(extension, [None] * len(values))[i] = data
        except (TypeError, ValueError, OverflowError, OSError, SyntaxError) as error:  # of Pillow
            raise cell_error(error, first_row + i, field.column) from error
    return list(columns.items())


# ---- Keys. ----


def make_key(value: Any) -> str:
    """A key by the rules for keys in lists: parts such as ".." are left out, and dots and spaces
    in the last part become "_".
    """
    if isinstance(value, bool) or not isinstance(value, str | numbers.Integral):
        raise TypeError(f"expected a key, a text or an integer, found {type(value).__qualname__}")
    text = str(value)
    if _PLAIN_KEY.fullmatch(text) and len(text) <= _KEY_BYTES_MAX:
        return text
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    if not parts:
        raise ValueError(f"{text!r} is no key: expected a name")
    parts[-1] = re.sub("[. ]", "_", parts[-1])
    key = "/".join(parts)
    if re.search(r"[\x00-\x1f\x7f]", key):
        raise ValueError(f"the key {text!r} has control characters")
    if len(key.encode()) > _KEY_BYTES_MAX:
        raise ValueError(f"the key {text[:100]!r}... has more than {_KEY_BYTES_MAX} bytes")
    if any(part[:2] == part[-2:] == "__" and len(part) > 3 for part in parts[:-1]):
        raise ValueError(f"the key {text!r} has a folder such as __x__, which readers skip")
    return key


class KeyEncoder:
    """Keys that are unique."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._seen: set[str] = set()

    def __call__(self, values: Sequence[Any], first_row: int) -> list[str]:
        keys = []
        for i, value in enumerate(values):
            try:
                key = make_key(value)
                if key in self._seen:
                    raise ValueError(f"an earlier row has the key {key!r} too")
            except (TypeError, ValueError) as error:
                raise cell_error(error, first_row + i, self._column) from error
            self._seen.add(key)
            keys.append(key)
        return keys


# ---- Types. ----


def type_of(value: Any) -> Type:
    if is_pillow(value) or (is_array(value) and is_pixels(value)):
        return "image"
    if isinstance(value, bytes | bytearray | memoryview):
        return "image" if image_extension(bytes(value[:HEAD_BYTES])) else "bytes"
    if isinstance(value, str):
        return "text"
    if isinstance(value, os.PathLike):
        return "path"
    if isinstance(value, bool):
        return "bool"
    if is_array(value):
        kind = str(value.dtype).rpartition(".")[2]
        if len(value.shape) > 0:
            return "array"
        return "bool" if "bool" in kind else "float" if "float" in kind else "int"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, Mapping) and value.keys() == {"bytes", "path"}:
        data = value["bytes"]
        return "path" if data is None else type_of(data)
    return "json"


def common_type(column: str, types: set[Type]) -> Type:
    """Of the values of one column. ValueError: they are files and others."""
    if not types:
        return "null"
    if len(types) == 1:
        return next(iter(types))
    if not types & {"image", "bytes", "array", "path"}:
        return "float" if types == {"int", "float"} else "json"
    if types == {"image", "bytes"}:
        return "bytes"
    names = " and ".join(sorted(types))
    raise ValueError(f"the column {column!r} holds values of {names}; map it with fields=")
