"""Tables as sources: Arrow, Parquet and Hugging Face's datasets."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from . import arrow
from .columns import Field, Type, choose
from .log import logger
from .parquet import ParquetFiles, batch_rows, prefetch
from .rows import Columns, KeyEncoder
from .source import Batch, Classes, need_classes, number_classes

_HEAD_ROWS = 64  # that decide which columns hold images
_STREAMED_ROWS = 64  # per batch
_SAMPLED_ROWS = 64  # that identify a table in memory


class TableSource:
    """Record batches with one schema."""

    def __init__(
        self,
        schema: Any,
        batches: Callable[[Sequence[str], int], Iterator[Any]],
        identity: str | None,
        rows: int | None,
        unique: Callable[[str], set[Any]] | None,
    ) -> None:
        """batches: of these columns, without the first rows. unique: a column's values; None: they
        can be read only once, and in order.
        """
        self.identity, self.rows = identity, rows
        self._schema, self._batches, self._unique = schema, batches, unique
        repeated = {name for name in schema.names if schema.names.count(name) > 1}
        if repeated:
            raise ValueError(f"several columns have the name {sorted(repeated)[0]!r}")

    def names(self) -> list[str]:
        return list(self._schema.names)

    def check(self, fields: Sequence[Field]) -> None:
        for field in fields:
            if field.column not in ("*", "#", *self._schema.names):
                raise ValueError(
                    f"the source has no column {field.column!r}, but "
                    f"{', '.join(self._schema.names)}"
                )

    def choose(self) -> list[Field]:
        types = self._types()
        nulls = [name for name, kind in types.items() if kind == "null"]
        if nulls:
            logger.warning("left out, because they hold only nulls: %s", ", ".join(nulls))
        return choose(types)

    def _types(self) -> dict[str, Type]:
        head = next((batch for batch in self._batches(self.names(), 0) if batch.num_rows), None)
        if head is None:
            return dict.fromkeys(self.names(), "json")
        head = head.slice(0, _HEAD_ROWS)
        return {
            name: arrow.type_of_column(self._schema, name, head.column(name))
            for name in self.names()
        }

    def classes(self, column: str) -> Classes | None:
        names = arrow.class_names_of(self._schema, column)
        kind = arrow.plain_type(self._schema.field(column).type)
        if names is not None or "string" not in str(kind):
            return None if names is None else Classes(names, False)
        if self._unique is None:
            raise need_classes(column)
        return Classes(number_classes(self._unique(column), column), True)

    def encode(
        self, fields: Sequence[Field], classes: Sequence[str] | None, skip: int
    ) -> Iterator[Batch]:
        mapped = {field.column for field in fields}
        named = [field.column for field in fields if field.column not in ("*", "#")]
        rest = [name for name in self._schema.names if name not in mapped]
        key = next((field.column for field in fields if field.kind == "key"), None)
        make_keys = KeyEncoder(key) if key not in (None, "#") else None
        if make_keys and skip:
            self._add_keys(make_keys, key or "", skip)
        columns = named + (rest if "*" in mapped else [])
        row = skip
        for batch in self._batches(columns, skip):
            keys = make_keys(_key_values(batch.column(key)), row) if make_keys else None
            encoded: Columns = []
            for field in fields:
                if field.kind == "key":
                    continue
                if field.column == "*":
                    arrays = [batch.column(name) for name in rest]
                    encoded += arrow.encode_object(field.extension, rest, arrays, row)
                else:
                    encoded += arrow.encode_array(field, batch.column(field.column), classes, row)
            yield Batch(batch.num_rows, keys, encoded)
            row += batch.num_rows

    def _add_keys(self, make_keys: KeyEncoder, key: str, rows: int) -> None:
        """Remembers the keys of the rows that are stored already."""
        if self._unique is None:
            return  # they are not read again
        row = 0
        for batch in self._batches([key], 0):
            values = _key_values(batch.column(key))[: rows - row]
            make_keys(values, row)
            row += len(values)
            if row == rows:
                return


def _key_values(array: Any) -> list[Any]:
    values: list[Any] = arrow.plain(array).to_pylist()
    return values


def _unique(arrays: Iterable[Any]) -> set[Any]:
    values: set[Any] = set()
    for array in arrays:
        values.update(arrow.plain(array).unique().to_pylist())
    return values


def table_source(table: Any) -> TableSource:
    """A pyarrow.Table."""
    import pyarrow as pa

    size = batch_rows(table.nbytes, table.num_rows)
    digest = hashlib.sha256(repr((table.num_rows, str(table.schema))).encode())
    step = max(1, table.num_rows // _SAMPLED_ROWS)
    with pa.ipc.new_stream(sink := pa.BufferOutputStream(), table.schema) as writer:
        for row in range(0, table.num_rows, step):
            writer.write_table(table.slice(row, 1))
    digest.update(sink.getvalue())

    def batches(columns: Sequence[str], skip: int) -> Iterator[Any]:
        return iter(table.select(columns).slice(skip).to_batches(size))

    return TableSource(
        table.schema,
        batches,
        f"table {digest.hexdigest()}",
        table.num_rows,
        lambda column: _unique(table.column(column).chunks),
    )


def _count_rows(batches: Iterator[Any], skip: int) -> Iterator[Any]:
    """The batches without the first rows."""
    if skip:
        logger.info("reading and leaving out the first %d rows, which are stored already", skip)
    for batch in batches:
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


def reader_source(reader: Any) -> TableSource:
    """A pyarrow.RecordBatchReader, which is read once."""
    seen: list[Any] = []

    def limited() -> Iterator[Any]:
        for batch in reader:
            size = batch_rows(batch.nbytes, batch.num_rows)
            yield from (batch.slice(start, size) for start in range(0, batch.num_rows, size))

    rest = limited()

    def batches(columns: Sequence[str], skip: int) -> Iterator[Any]:
        if not seen:  # the first one is read twice, to choose the fields
            seen.extend(itertools.islice(rest, 1))
        for batch in _count_rows(itertools.chain(seen, rest), skip):
            yield batch.select(list(columns))

    return TableSource(reader.schema, batches, None, None, None)


def parquet_source(files: Sequence[str]) -> TableSource:
    parquet = ParquetFiles(files)

    return TableSource(
        parquet.schema,
        lambda columns, skip: prefetch(parquet.batches(columns, skip)),
        f"parquet {parquet.identity}",
        parquet.rows,
        lambda column: _unique(batch.column(column) for batch in parquet.batches([column])),
    )


def hugging_face_source(dataset: Any) -> TableSource:
    """A Dataset of Hugging Face's datasets."""
    columns = dataset.format["columns"]
    arrows = dataset.with_format("arrow", columns=columns)
    size = batch_rows(dataset.data.nbytes, dataset.data.num_rows)
    schema = arrows[:1].schema if len(dataset) else dataset.data.schema

    def batches(columns: Sequence[str], skip: int) -> Iterator[Any]:
        part = arrows.with_format("arrow", columns=list(columns))
        for start in range(skip, len(part), size):
            yield from part[start : start + size].to_batches()

    return TableSource(
        schema.with_metadata(dataset.features.arrow_schema.metadata),
        batches,
        f"datasets {dataset._fingerprint} {columns}",
        len(dataset),
        lambda column: set(dataset.unique(column)),
    )


def streaming_source(dataset: Any) -> TableSource:
    """An IterableDataset. Without known features, those of its first rows are valid for all."""
    if dataset.features is None:
        dataset = dataset._resolve_features()
    schema = dataset.features.arrow_schema

    def batches(columns: Sequence[str], skip: int) -> Iterator[Any]:
        part = dataset.skip(skip) if skip else dataset
        for table in part.with_format("arrow").iter(batch_size=_STREAMED_ROWS):
            table = table.select(list(columns)).combine_chunks()
            yield from table.to_batches()

    return TableSource(schema, batches, None, None, None)
