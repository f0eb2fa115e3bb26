"""Rows as sources: dicts or tuples, one by one."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .columns import Field, Type, choose, choose_by_extension
from .log import logger
from .rows import Columns, KeyEncoder, common_type, encode_values, type_of
from .source import Batch, Classes, need_classes, number_classes

_HEAD_ROWS = 64  # that decide which columns become which fields
_BATCH_ROWS_MAX = 64
_BATCH_BYTES = 8 << 20


class RowSource:
    """Rows that are dicts, or tuples."""

    def __init__(
        self,
        first: Callable[[int], Iterator[Any]],
        identity: str | None,
        rows: int | None,
        classes: Sequence[str] | None = None,
        sequence: Sequence[Any] | None = None,
    ) -> None:
        """first: the rows from a number on; called with 0, or once. classes: the names of the class
        numbers. sequence: the rows, if they are in memory.
        """
        self.identity, self.rows = identity, rows
        self._first, self._classes, self._sequence = first, classes, sequence
        self._head: list[dict[str, Any]] = []
        self._rest: Iterator[Any] | None = None
        self._tuple_names: list[str] = []
        self._is_inferred = False

    def _read_head(self) -> list[dict[str, Any]]:
        if self._rest is None:
            self._rest = self._first(0)
            rows = itertools.islice(self._rest, _HEAD_ROWS)
            self._head = [self._as_dict(row, i) for i, row in enumerate(rows)]
        return self._head

    def _as_dict(self, row: Any, number: int) -> dict[str, Any]:
        if hasattr(row, "_asdict"):
            row = row._asdict()
        if isinstance(row, Mapping):
            wrong = next((name for name in row if not isinstance(name, str)), None)
            if wrong is not None:
                raise TypeError(f"row {number}: the name {wrong!r} of a column is no str")
            if "__key__" not in row:
                return dict(row)
            return {n: v for n, v in row.items() if n[:2] != "__" or n == "__key__"}
        if not isinstance(row, tuple | list):
            raise TypeError(f"row {number} is a {type(row).__qualname__}: expected a dict or tuple")
        names = self._tuple_names = self._tuple_names or _name_items(row)
        if len(row) != len(names):
            raise ValueError(f"row {number} has {len(row)} items, and the first one {len(names)}")
        return dict(zip(names, row, strict=True))

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self._head for name in row))

    def check(self, fields: Sequence[Field]) -> None:
        pass

    def choose(self) -> list[Field]:
        """Reads the first rows."""
        head = self._read_head()
        if not head:
            return [Field("*", "json", "json")]  # the program refuses a source without samples
        self._is_inferred = True
        types: dict[str, Type] = {}
        for name in self.names():
            values = [row.get(name) for row in head]
            found = {type_of(value) for value in values if value is not None}
            if name != "__key__":
                types[name] = common_type(name, found)
        if self.rows is None or self.rows > len(head):
            logger.info("the first %d rows decide about the fields", len(head))
        nulls = [name for name, kind in types.items() if kind == "null"]
        if nulls:
            raise ValueError(
                f"the column {nulls[0]!r} is None in the first {len(head)} rows; "
                "map it with fields="
            )
        return choose_by_extension(types) if "__key__" in self.names() else choose(types)

    def classes(self, column: str) -> Classes | None:
        if self._sequence is not None:
            dicts = (self._as_dict(row, i) for i, row in enumerate(self._sequence))
            values = {v if isinstance(v, str) else None for v in (r.get(column) for r in dicts)}
            if values - {None}:
                return Classes(number_classes(values, column), True)
        if any(isinstance(row.get(column), str) for row in self._head) and not self._classes:
            raise need_classes(column)
        return None if self._classes is None else Classes(list(self._classes), False)

    def _rows(self, skip: int) -> Iterator[dict[str, Any]]:
        """In order, with each row read once."""
        if self._rest is None:
            yield from (self._as_dict(row, skip + i) for i, row in enumerate(self._first(skip)))
            return
        head, self._head = self._head, []
        yield from head[skip:]
        at = max(skip, len(head))
        rest = self._rest
        if at > len(head):
            more = at - len(head)
            rest = _leave_out(rest, more) if self.rows is None else self._first(at)
        yield from (self._as_dict(row, at + i) for i, row in enumerate(rest))

    def encode(
        self, fields: Sequence[Field], classes: Sequence[str] | None, skip: int
    ) -> Iterator[Batch]:
        known = set(self.names()) if self._is_inferred else None
        mapped = {field.column for field in fields} | {"__key__"}
        key = next((field.column for field in fields if field.kind == "key"), None)
        rows, first = self._rows(skip), skip
        make_keys, size = None, 1
        while batch := list(itertools.islice(rows, size)):
            if first == skip:
                key = key or ("__key__" if "__key__" in batch[0] else None)
                make_keys = KeyEncoder(key) if key not in (None, "#") else None
            if known is not None:
                _check_names(batch, known, first)
            keys = make_keys([row.get(key or "") for row in batch], first) if make_keys else None
            encoded: Columns = []
            for field in fields:
                if field.kind == "key":
                    continue
                if field.column == "*":
                    rest = [{n: v for n, v in row.items() if n not in mapped} for row in batch]
                    encoded += _encode_rest(field, rest, first)
                else:
                    values = [row.get(field.column) for row in batch]
                    encoded += encode_values(field, classes, values, first)
            stored = sum(len(v) for _, column in encoded for v in column if v is not None)
            size = max(1, min(_BATCH_ROWS_MAX, _BATCH_BYTES * len(batch) // max(stored, 1)))
            yield Batch(len(batch), keys, encoded)
            first += len(batch)


def _leave_out(rows: Iterator[Any], count: int) -> Iterator[Any]:
    if count:
        logger.info("reading and leaving out the first %d rows, which are stored already", count)
    return itertools.islice(rows, count, None)


def _name_items(row: Sequence[Any]) -> list[str]:
    types = [type_of(item) for item in row]
    if len(types) == 2 and types[0] in ("image", "array") and types[1] == "int":
        return ["image", "label"]
    return [str(i) for i in range(len(row))]


def _check_names(batch: list[dict[str, Any]], known: set[str], first: int) -> None:
    for i, row in enumerate(batch):
        new = next((name for name in row if name not in known), None)
        if new is not None:
            raise ValueError(
                f"row {first + i} has a column {new!r}, which the first rows lack; "
                "map the columns with fields="
            )


def _encode_rest(field: Field, values: list[dict[str, Any]], first: int) -> Columns:
    """Rows without other columns lack the field."""
    try:
        return encode_values(field, None, [value or None for value in values], first)
    except (TypeError, ValueError):
        for i, value in enumerate(values):
            for name, member in value.items():
                encode_values(dataclasses.replace(field, column=name), None, [member], first + i)
        raise


def map_source(rows: Any, identity: str | None = None) -> RowSource:
    """A sequence, or a map-style dataset of PyTorch."""
    count = len(rows)
    classes = getattr(rows, "classes", None)
    are_names = isinstance(classes, list) and all(isinstance(name, str) for name in classes)
    return RowSource(
        lambda first: (rows[i] for i in range(first, count)),
        identity or f"{type(rows).__module__}.{type(rows).__qualname__} of {count} rows",
        count,
        classes if are_names else None,
        rows if isinstance(rows, list | tuple) else None,
    )


def iterable_source(start: Callable[[], Iterator[Any]]) -> RowSource:
    """Rows that can only be read in order."""
    return RowSource(lambda skip: _leave_out(start(), skip), None, None)
