"""Which samples an epoch has, and how often."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

PathLike = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Mix:
    """Several datasets, sampled in proportion to their weights, which are whole numbers.

    Each goes through its own epochs in its own order.
    """

    weights: Mapping[PathLike, int]

    def _options(self) -> dict[str, Any]:
        if not self.weights:
            raise ValueError("a mix without datasets")
        return {"mix": [(os.fspath(path), weight) for path, weight in self.weights.items()]}


@dataclasses.dataclass(frozen=True)
class Sample:
    """A part of a dataset, or draws from it. The files list samples by key, one per line.

    keys: a file; only these samples
    order: a file; these samples in this order, also repeatedly
    weights: a file of "KEY<tab>WEIGHT"; draws with replacement
    where: a condition on index fields, such as ``score >= 0.5 && width >= 256``
    balance: "class", or an index field with integers: draws so that all are equally likely
    repeat: how often an epoch has each sample
    """

    keys: PathLike | None = None
    order: PathLike | None = None
    weights: PathLike | None = None
    where: str | None = None
    balance: str | None = None
    repeat: int | None = None

    def _options(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        return {
            f"selection.{name}": os.fspath(value) if isinstance(value, os.PathLike) else value
            for name, value in values.items()
            if value is not None
        }
