"""Chooses the source for an object."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from .row_source import RowSource, iterable_source, map_source
from .rows import is_array
from .source import Source
from .table_source import (
    TableSource,
    hugging_face_source,
    reader_source,
    streaming_source,
    table_source,
)


def _pandas_source(frame: Any) -> TableSource | RowSource:
    import pyarrow as pa

    names = list(frame.columns)
    if any(not isinstance(name, str) for name in names):
        raise TypeError("a column of the DataFrame has a name that is no str; rename it")
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        has_dicts = any("struct<" in str(kind) for kind in table.schema.types)
    except (pa.ArrowException, TypeError, OverflowError):
        has_dicts = True
    if not has_dicts:
        return table_source(table)

    def first(skip: int) -> Iterator[Any]:
        for row in frame.iloc[skip:].itertuples(index=False, name=None):
            yield {name: None if _is_missing(v) else v for name, v in zip(names, row, strict=True)}

    return RowSource(first, f"DataFrame of {len(frame)} rows", len(frame), None, None)


def _is_missing(value: Any) -> bool:
    if type(value).__module__.partition(".")[0] == "pandas":
        return type(value).__name__ in ("NAType", "NaTType")
    return isinstance(value, float) and value != value


def open_source(source: Any) -> Source:
    """TypeError: an object that is none of those that can be converted."""
    package = type(source).__module__.partition(".")[0]
    name = type(source).__name__
    torch_data = sys.modules.get("torch.utils.data")
    if package == "pyarrow" and name == "Table":
        return table_source(source)
    if package == "pyarrow" and name == "RecordBatch":
        import pyarrow as pa

        return table_source(pa.Table.from_batches([source]))
    if package == "pyarrow" and name.endswith("RecordBatchReader"):
        return reader_source(source)
    if package == "pandas" and name == "DataFrame":
        return _pandas_source(source)
    if package == "polars" and name == "DataFrame":
        return table_source(source.to_arrow())
    if package == "datasets" and name == "IterableDataset":
        return streaming_source(source)
    if package == "datasets" and name == "Dataset":
        if source.format["type"] == "custom":  # a transform that makes the rows
            return map_source(source, f"datasets {source._fingerprint}")
        return hugging_face_source(source)
    if torch_data is not None and isinstance(source, torch_data.DataLoader):
        raise TypeError("a DataLoader yields batches; pass its dataset")
    if torch_data is not None and isinstance(source, torch_data.IterableDataset):
        return iterable_source(lambda: iter(source))
    if isinstance(source, str | bytes) or is_array(source):
        raise TypeError(f"a {name} is no source of samples")
    if hasattr(source, "__len__") and hasattr(source, "__getitem__"):
        return map_source(source)
    if hasattr(source, "__iter__"):
        return iterable_source(lambda: iter(source))
    if callable(source):
        return iterable_source(lambda: iter(source()))
    raise TypeError(
        f"a {type(source).__qualname__} is no source of samples: expected an iterable of dicts, "
        "a table, a dataset or a path"
    )
