"""mr.convert: datasets from Python's tables, datasets and iterables."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ._native import encode_samples
from .columns import Field, describe, parse
from .conversion_process import STREAM, Process, running
from .log import logger
from .parquet import find_files, is_parquet
from .source import Batch, Source, number_classes
from .sources import open_source
from .table_source import parquet_source

# Raise it if the same source would be sent as other samples.
_SENDER_VERSION = 1
_REDRAW_SECONDS = 0.2

Option = str | int | float | bool | Sequence[str]
Result = dict[str, Any]


class _Progress:
    def __init__(self, is_shown: bool, done: int, total: int | None) -> None:
        self._is_shown, self._done, self._total = is_shown, done, total
        self._first, self._began, self._drawn = done, time.monotonic(), 0.0

    def add(self, samples: int) -> None:
        self._done += samples
        now = time.monotonic()
        if not self._is_shown or now < self._drawn + _REDRAW_SECONDS:
            return
        self._drawn = now
        total = f"/{self._total}" if self._total else ""
        rate = (self._done - self._first) / max(now - self._began, 1e-9)
        print(
            f"\rconverting  {self._done}{total} samples  {rate:.0f}/s\033[K",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def end(self) -> None:
        if self._is_shown and self._drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _arguments(options: Mapping[str, Option | None]) -> list[str]:
    """As the program takes them: shard_bytes="1GiB" as --shard-bytes=1GiB."""
    arguments = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
        elif isinstance(value, str | int | float):
            arguments.append(f"{option}={value}")
        else:
            arguments += [f"{option}={item}" for item in value]
    return arguments


def _split_text(split: Mapping[str, float] | str | None) -> str | None:
    if isinstance(split, Mapping):
        return ",".join(f"{name}={part!r}" for name, part in split.items())
    return split


def _encode(batch: Batch, first_row: int) -> bytes:
    try:
        keys = first_row if batch.keys is None else batch.keys
        return encode_samples(keys, batch.fields, 0, batch.rows)
    except ValueError as error:
        match = re.match(r"row (\d+): ", str(error))
        if match is None:
            raise
        row = first_row + int(match[1])
        raise ValueError(f"row {row}: {str(error)[match.end() :]}") from None


def _note_extensions(batch: Batch, seen: set[str]) -> None:
    for extension, column in batch.fields:
        if extension not in seen:
            nulls = getattr(column, "null_count", None)
            is_empty = all(v is None for v in column) if nulls is None else nulls == batch.rows
            if not is_empty:
                seen.add(extension)


def _send(
    process: Process,
    source: Source,
    fields: list[Field],
    classes: Sequence[str] | None,
    skip: int,
    progress: _Progress,
) -> None:
    row, seen = skip, set[str]()
    for batch in source.encode(fields, classes, skip):
        _note_extensions(batch, seen)
        process.send(_encode(batch, row))
        row += batch.rows
        progress.add(batch.rows)
    if source.rows is not None and row != source.rows:
        raise RuntimeError(f"the source ended after {row} of {source.rows} rows")
    for field in fields:
        is_missing = field.extension not in seen and not field.is_open and field.kind != "key"
        if is_missing and skip == 0 and field.column != "*":
            logger.warning(
                "no sample has %s: %r is null in all rows", field.extension, field.column
            )


def _require_identity(source: Source, identity: str | None) -> None:
    if identity is None and source.identity is None:
        raise ValueError(
            "resume=True needs identity=TEXT for this source: a text that differs if its samples "
            "do, such as a version of the data"
        )


def _header(
    source: Source, identity: str | None, fields: list[Field], classes: Sequence[str] | None
) -> dict[str, Any]:
    found = identity if identity is not None else source.identity
    parts = [[field.column, field.extension, field.kind, field.is_optional] for field in fields]
    header: dict[str, Any] = {"identity": json.dumps([_SENDER_VERSION, found, parts])}
    return header if classes is None else header | {"classes": list(classes)}


def _choose_fields(
    sources: Mapping[str, Source], mapping: Mapping[str, str] | None, is_shown: bool
) -> list[Field]:
    """Of all sources, which need the same ones."""
    choices = [
        parse(mapping) if mapping is not None else source.choose() for source in sources.values()
    ]
    for source in sources.values():
        source.check(choices[0])
    if any(choice != choices[0] for choice in choices):
        shown = "; ".join(
            f"{name}: {describe(choice, source.names())}"
            for (name, source), choice in zip(sources.items(), choices, strict=True)
        )
        raise ValueError(f"the splits have different columns: {shown}; map them with fields=")
    shown = describe(choices[0], next(iter(sources.values())).names())
    if is_shown and not logger.isEnabledFor(logging.INFO):
        print(f"columns: {shown}", file=sys.stderr)
    logger.info("columns: %s", shown)
    return choices[0]


def _choose_classes(
    sources: Mapping[str, Source], fields: list[Field], names: Sequence[str] | None
) -> Sequence[str] | None:
    """The names of the classes, which all sources number alike."""
    label = next((field.column for field in fields if field.kind == "class"), None)
    if label is None or names is not None:
        if label is None and names is not None:
            raise ValueError("classes= needs a column that is the class, such as 'label': ':class'")
        if names is not None and len(set(names)) < len(names):
            raise ValueError("classes= has a name twice")
        return names
    found = [source.classes(label) for source in sources.values()]
    first = found[0]
    if all(classes == first for classes in found):
        return None if first is None else first.names
    if any(classes is None or not classes.are_values for classes in found):
        raise ValueError(f"the splits have different classes in {label!r}; give classes=")
    return number_classes({name for classes in found if classes for name in classes.names}, label)


def _send_source(
    source: Source,
    target: str,
    fields: list[Field],
    header: dict[str, Any],
    arguments: list[str],
    is_shown: bool,
) -> Result:
    with running(STREAM, target, arguments) as process:
        stored = process.start(header)
        if stored is not None:
            progress = _Progress(is_shown, stored, source.rows)
            try:
                _send(process, source, fields, header.get("classes"), stored, progress)
            finally:
                progress.end()
        return process.finish(stored is not None)


def _convert_path(
    source: str, target: str, fields: Mapping[str, str] | None, arguments: list[str]
) -> Result:
    """By the program alone."""
    columns = [f"--column={name}={field}" for name, field in (fields or {}).items()]
    with running(source, target, [*arguments, *columns]) as process:
        return process.finish(False)


def _is_path(source: Any) -> bool:
    return isinstance(source, str | os.PathLike)


def _open(source: Any) -> Source | str:
    """A source, or a path for the program."""
    if isinstance(source, list | tuple) and source and all(map(_is_path, source)):
        return parquet_source(find_files([os.fspath(path) for path in source]))
    if not _is_path(source):
        return open_source(source)
    path = os.fspath(source)
    return parquet_source(find_files(path)) if is_parquet(path) else path


def _open_splits(source: Mapping[str, Any]) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for name, part in source.items():
        if not isinstance(name, str) or not name or name[0] == "." or "/" in name:
            raise ValueError(f"{name!r} is no name of a split: expected one such as 'train'")
        opened = _open(part)
        if isinstance(opened, str):
            raise ValueError(f"convert the path {opened} by itself, to the target's folder {name}")
        sources[name] = opened
    if not sources:
        raise ValueError("the dict of sources is empty")
    return sources


def convert(
    source: Any,
    target: str | os.PathLike[str],
    fields: Mapping[str, str] | None = None,
    *,
    split: Mapping[str, float] | str | None = None,
    classes: Sequence[str] | None = None,
    resume: bool = False,
    identity: str | None = None,
    force: bool = False,
    num_workers: int | None = None,
    progress: bool | None = None,
    **options: Option | None,
) -> Result:
    """Converts a source of samples to shards in the folder target.

    source: an iterable of dicts, or a callable that returns one; a table of pyarrow, pandas or
        polars, or a RecordBatchReader; Parquet files, by a path, a glob, a folder or a list; a
        dataset of Hugging Face or PyTorch; a webdataset pipeline; any path that
        `millrace convert dataset` takes; or a dict of sources, one for each split
    fields: which column becomes which field, as of the option --column of the program:
        {"image": "jpg", "caption": "txt", "label": ":class", "id": ":key", "*": "json"}.
        By default, the columns' names and types decide, and the log shows the choice
    split: writes several datasets, such as {"train": 0.9, "val": 0.1}
    classes: the names of the classes, in the order of their numbers
    resume: continues an interrupted conversion. An iterable must yield the same rows again
    identity: a text that differs if the samples do; resuming needs it for iterables
    force: replaces a dataset in target
    num_workers: threads; by default one for each CPU. The bytes do not depend on it
    progress: whether to show it; by default on a terminal
    options: others of the program, such as shard_bytes="1GiB", zstd=True or jpeg="keep"

    Returns what `millrace convert dataset --json` prints. An exception leaves no dataset, and a
    later call with resume=True continues after the last complete shard.
    """
    target = os.fspath(target)
    arguments = _arguments(
        {
            **options,
            "split": _split_text(split),
            "resume": resume,
            "force": force,
            "workers": num_workers,
        }
    )
    is_shown = sys.stderr.isatty() if progress is None else progress
    has_splits = isinstance(source, Mapping)
    if has_splits and split is not None:
        raise ValueError("split= is not for a source that has splits")
    opened = _open_splits(source) if has_splits else _open(source)
    if isinstance(opened, str):
        if opened == STREAM:
            raise ValueError("standard input is not for mr.convert; pass an iterable")
        if classes is not None or identity is not None:
            raise ValueError("classes= and identity= are not for a source that is a path")
        return _convert_path(opened, target, fields, arguments)
    sources = opened if isinstance(opened, dict) else {"": opened}
    for part in sources.values():
        if resume:
            _require_identity(part, identity)
    chosen = _choose_fields(sources, fields, is_shown)
    names = _choose_classes(sources, chosen, classes)
    results = {}
    # A target that has a dataset already is refused before the others are written.
    for name in sorted(sources, key=lambda name: not os.path.exists(os.path.join(target, name))):
        header = _header(sources[name], identity, chosen, names)
        folder = os.path.join(target, name) if name else target
        results[name] = _send_source(sources[name], folder, chosen, header, arguments, is_shown)
    if not has_splits:
        return results[""]
    return {
        "dataset": target,
        "samples_count": sum(result["samples_count"] for result in results.values()),
        "splits": [{"name": name, **results[name]} for name in sources],
    }
