"""Arrow arrays as the bytes of fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .columns import Field, Type, is_image_extension
from .images import HEAD_BYTES, image_extension
from .json_text import json_text
from .rows import CLASSES_MAX, Columns, cell_error, check_file, encode_values, open_extension

_NUMPY_TYPES = {"halffloat": "float16", "float": "float32", "double": "float64"}
_TENSOR = "arrow.fixed_shape_tensor"


# ---- Types. ----


def hugging_face_features(schema: Any) -> dict[str, Any]:
    """The columns' features that Hugging Face's datasets store in a schema."""
    text = (schema.metadata or {}).get(b"huggingface")
    features = json.loads(text).get("info", {}).get("features") if text else None
    return features if isinstance(features, dict) else {}


def class_names_of(schema: Any, column: str) -> list[str] | None:
    """Of a column of integers that is a ClassLabel of Hugging Face's datasets."""
    import pyarrow.types as types

    feature = hugging_face_features(schema).get(column)
    if not isinstance(feature, dict) or feature.get("_type") != "ClassLabel":
        return None
    names: list[str] | None = feature.get("names")
    return names if types.is_integer(schema.field(column).type) else None


def _is_file_struct(kind: Any) -> bool:
    """{bytes, path}, the form of images and sounds in Hugging Face's datasets."""
    import pyarrow.types as types

    names = {kind.field(i).name for i in range(kind.num_fields)} if types.is_struct(kind) else set()
    return names == {"bytes", "path"} and _is_binary(kind.field("bytes").type)


def _is_binary(kind: Any) -> bool:
    import pyarrow.types as types

    checks = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    return bool(any(check(kind) for check in checks) or "binary_view" in str(kind))


def _is_text(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_string(kind) or types.is_large_string(kind) or "string_view" in str(kind))


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    checks = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return bool(any(check(kind) for check in checks))


def array_shape(kind: Any) -> tuple[int | None, ...] | None:
    """The shape of a row of numbers; None for a length that varies. None: no numbers, or lists of
    lists whose lengths may vary, which may be ragged.
    """
    import pyarrow as pa
    import pyarrow.types as types

    if isinstance(kind, pa.BaseExtensionType):
        shape = getattr(kind, "shape", None)
        is_tensor = kind.extension_name == _TENSOR or type(kind).__name__.startswith("Array")
        if not is_tensor or shape is None:
            return None
        order = getattr(kind, "permutation", None)
        if order is not None and list(order) != sorted(order):
            raise ValueError(f"tensors with a permutation, as in {kind}, are not supported")
        return tuple(shape)
    shape = []
    while _is_list(kind):
        shape.append(kind.list_size if types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not shape or not is_number or None in shape[1:]:
        return None
    return tuple(shape)


def plain_type(kind: Any) -> Any:
    """Without dictionaries and extensions other than arrays."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return kind.value_type
    if isinstance(kind, pa.BaseExtensionType) and array_shape(kind) is None:
        return kind.storage_type
    return kind


def type_of_column(schema: Any, column: str, head: Any) -> Type:
    """head: the first rows of the column."""
    import pyarrow.types as types

    kind = plain_type(schema.field(column).type)
    if _is_binary(kind) or _is_file_struct(kind):
        feature = hugging_face_features(schema).get(column)
        if isinstance(feature, dict) and feature.get("_type") == "Image":
            return "image"
        files = [value for value in file_bytes(plain(head)).to_pylist() if value is not None]
        is_image = files and all(image_extension(data[:HEAD_BYTES]) for data in files)
        return "image" if is_image else "bytes"
    if class_names_of(schema, column) is not None:
        return "class"
    if array_shape(kind) is not None:
        return "array"
    kinds: list[tuple[Callable[[Any], bool], Type]] = [
        (types.is_null, "null"),
        (types.is_boolean, "bool"),
        (types.is_integer, "int"),
        (types.is_floating, "float"),
        (_is_text, "text"),
    ]
    return next((name for check, name in kinds if check(kind)), "json")


# ---- Arrays. ----


def plain(array: Any) -> Any:
    """The same values in a type that encode_samples reads, as far as there is one."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType) and array_shape(kind) is None:
        return plain(array.storage)
    if types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if "string_view" in str(kind) and not types.is_nested(kind):
        return array.cast(pa.large_string())
    if ("binary_view" in str(kind) and not types.is_nested(kind)) or types.is_fixed_size_binary(
        kind
    ):
        return array.cast(pa.large_binary())
    return array


def file_bytes(array: Any) -> Any:
    """The bytes of a plain column of files; those of a path are read."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if not types.is_struct(array.type):
        return array
    data, path = plain(pc.struct_field(array, "bytes")), pc.struct_field(array, "path")
    lacks = pc.and_(pc.is_null(data), pc.is_valid(path))
    if not pc.any(lacks, min_count=0).as_py():
        return data
    values = data.to_pylist()
    for i in pc.indices_nonzero(lacks).to_pylist():
        with open(path[i].as_py(), "rb") as file:
            values[i] = file.read()
    return pa.array(values, pa.large_binary())


def _where(flags: Any) -> int:
    """The first row that is true; -1: none."""
    import pyarrow.compute as pc

    # Not pc.index: making its scalar imports pandas.
    return int(pc.indices_nonzero(flags)[0].as_py()) if pc.any(flags, min_count=0).as_py() else -1


def _heads(array: Any) -> list[bytes | None]:
    """The first bytes of each file."""
    import pyarrow.compute as pc

    heads: list[bytes | None] = pc.binary_slice(array, 0, HEAD_BYTES).to_pylist()
    return heads


def _encode_files(field: Field, array: Any, first_row: int) -> Columns:
    array = file_bytes(array)
    extensions: list[str | None] = []
    for row, head in enumerate(_heads(array)):
        try:
            if head is None or field.is_open:
                extensions.append(head if head is None else open_extension(field, head))
            else:
                check_file(field.extension, head)
                extensions.append(field.extension)
        except ValueError as error:
            raise cell_error(error, first_row + row, field.column) from None
    names = sorted({name for name in extensions if name is not None})
    if len(names) < 2:
        return [(name, array) for name in names]
    values = array.to_pylist()
    return [
        (name, [v if e == name else None for v, e in zip(values, extensions, strict=True)])
        for name in names
    ]


def _encode_text(field: Field, array: Any, first_row: int) -> Columns:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return encode_values(field, None, array.cast(pa.large_binary()).to_pylist(), first_row)
    row = _where(pc.match_substring(array, "\0"))
    if row >= 0:
        raise cell_error(ValueError("the text has a NUL"), first_row + row, field.column)
    return [(field.extension, array)]


def _encode_class(
    field: Field, array: Any, classes: Sequence[str] | None, first_row: int
) -> Columns:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as types

    if field.kind == "class" and types.is_integer(array.type):
        if field.is_optional and types.is_signed_integer(array.type):
            array = pc.if_else(pc.equal(array, -1), pa.scalar(None, array.type), array)
        count = CLASSES_MAX if classes is None else len(classes)
        ends = pc.min_max(array)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low is None or (low >= 0 and high < count):
            return [(field.extension, array)]
    if field.kind == "class" and classes is not None and _is_text(array.type):
        numbers = pc.index_in(array, pa.array(classes, array.type))
        if numbers.null_count == array.null_count:
            return [(field.extension, numbers)]
    return encode_values(field, classes, array.to_pylist(), first_row)


def _encode_arrays(field: Field, array: Any, shape: tuple[int | None, ...], row: int) -> Columns:
    """Rows of numbers as NumPy files of their type."""
    import numpy
    import pyarrow as pa

    from .rows import npy_file

    lists = array
    while isinstance(lists, pa.ExtensionArray):
        lists = lists.storage
    values: list[bytes | None] = []
    for i in range(len(lists)):
        scalar = lists[i]
        if not scalar.is_valid:
            values.append(None)
            continue
        numbers = scalar.values
        while _is_list(numbers.type):
            if numbers.null_count:
                break
            numbers = numbers.flatten()
        if numbers.null_count:
            error = ValueError("an array with a null; map the column to 'x.json:json'")
            raise cell_error(error, row + i, field.column)
        flat = numbers.to_numpy(zero_copy_only=False)
        exact = tuple(-1 if size is None else size for size in shape)
        try:
            values.append(npy_file(numpy.reshape(flat, exact)))
        except (TypeError, ValueError) as error:
            raise cell_error(error, row + i, field.column) from None
    return [(field.extension + ("npy" if field.is_open else ""), values)]


def python_values(array: Any) -> list[Any]:
    """The values of a plain array, for JSON: times as ISO 8601 texts."""
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_timestamp(array.type):
        texts = array.cast(pa.string()).to_pylist()
        return [text and text.replace(" ", "T", 1) for text in texts]
    if types.is_time(array.type):
        return array.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    if types.is_nested(array.type):
        return array.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]
    return array.to_pylist()  # type: ignore[no-any-return]


def encode_array(
    field: Field, array: Any, classes: Sequence[str] | None, first_row: int
) -> Columns:
    """Columns for encode_samples, one for each extension."""
    import pyarrow.types as types

    array = plain(array)
    kind = array.type
    if types.is_null(kind):
        return []
    if field.kind == "class" or field.extension == "cls":
        return _encode_class(field, array, classes, first_row)
    if field.kind in ("file", "image"):
        if _is_binary(kind) or _is_file_struct(kind):
            return _encode_files(field, array, first_row)
        shape = array_shape(kind)
        is_npy = field.extension.rpartition(".")[2] == "npy" or (field.is_open and shape)
        if shape is not None and is_npy:
            return _encode_arrays(field, array, shape, first_row)
        if is_npy and not _is_text(kind):
            return _encode_uneven_arrays(field, array, first_row)
        if is_image_extension(field.extension) and shape is not None:
            raise ValueError(
                f"the column {field.column!r} holds arrays of {kind}, which cannot be stored as "
                f"{field.extension}, but as 'npy'"
            )
    if field.kind == "text" and (_is_text(kind)):
        return _encode_text(field, array, first_row)
    if field.kind == "int" and types.is_integer(kind):
        return [(field.extension, array)]
    return encode_values(field, classes, python_values(array), first_row)


def _encode_uneven_arrays(field: Field, array: Any, first_row: int) -> Columns:
    """Rows whose shapes the type does not tell."""
    values = []
    for i, scalar in enumerate(array):
        try:
            values.append(_as_array(scalar))
        except (TypeError, ValueError) as error:
            raise cell_error(error, first_row + i, field.column) from None
    return encode_values(field, None, values, first_row)


def _as_array(scalar: Any) -> Any:
    """A number, or a list of lists of equal lengths, with the type of the column."""
    import numpy
    import pyarrow.types as types

    kind = scalar.type
    while _is_list(kind):
        kind = kind.value_type
    value = scalar.as_py()
    if value is None:
        return None
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise TypeError(f"values of {scalar.type} cannot be stored as npy")
    return numpy.array(value, _NUMPY_TYPES.get(str(kind), str(kind)))


def encode_object(
    extension: str, names: Iterable[str], arrays: Iterable[Any], first_row: int
) -> Columns:
    """The columns as one JSON object per row."""
    names = list(names)
    columns = [python_values(plain(array)) for array in arrays]
    texts = []
    for i, row in enumerate(zip(*columns, strict=True)):
        try:
            texts.append(json_text(dict(zip(names, row, strict=True))))
        except (TypeError, ValueError):
            raise _object_error(names, row, first_row + i) from None
    return [(extension, texts)]


def _object_error(names: list[str], values: Sequence[Any], row: int) -> Exception:
    """Finds the column that JSON cannot represent."""
    for name, value in zip(names, values, strict=True):
        try:
            json_text(value)
        except (TypeError, ValueError) as error:
            return cell_error(error, row, name)
    return ValueError(f"row {row}: the columns {', '.join(names)} cannot be stored as JSON")
