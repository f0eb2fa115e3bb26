"""What a source of samples offers to a conversion."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from .columns import Field
from .rows import Columns


@dataclasses.dataclass
class Batch:
    """The next rows, for encode_samples."""

    rows: int
    keys: list[str] | None  # None: the rows' numbers
    fields: Columns


class Classes(NamedTuple):
    names: list[str]
    are_values: bool  # the column holds names; else numbers, whose names they are


class Source(Protocol):
    identity: str | None  # a text that differs if the rows do; None: unknown
    rows: int | None  # None: unknown

    def names(self) -> list[str]:
        """The columns, as far as they are known."""

    def choose(self) -> list[Field]:
        """The fields, if the user maps none."""

    def check(self, fields: Sequence[Field]) -> None:
        """ValueError: a column does not exist, as far as that is known before rows are read."""

    def classes(self, column: str) -> Classes | None:
        """None: the column holds numbers without names. ValueError: unknown."""

    def encode(
        self, fields: Sequence[Field], classes: Sequence[str] | None, skip: int
    ) -> Iterator[Batch]:
        """All rows but the first ones."""


def number_classes(names: set[Any], column: str) -> list[str]:
    """The names in the order of their numbers: byte order, or themselves if all are numbers."""
    names.discard(None)
    if any(not isinstance(name, str) for name in names):
        raise TypeError(f"the column {column!r} holds texts and others as classes")
    is_number = all(
        name.isascii() and name.isdigit() and str(int(name)) == name and len(name) < 8
        for name in names
    )
    if names and is_number:
        return [str(number) for number in range(max(map(int, names)) + 1)]
    return sorted(names, key=str.encode)


def need_classes(column: str) -> ValueError:
    return ValueError(
        f"the column {column!r} holds the names of classes, which can be read only once; "
        "give all of them with classes=[NAME, ...]"
    )
