"""Parquet files as a source."""

from __future__ import annotations

import glob
import os
import pathlib
import queue
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_BATCH_BYTES = 8 << 20
_BATCH_ROWS_MAX = 8192
_READ_AHEAD = 2  # batches
_SPLITS = re.compile(r"(?:^|[/_.-])(train|training|validation|valid|val|dev|test)(?=[/_.-]|\d|$)")


def batch_rows(total_bytes: int, rows: int) -> int:
    """How many rows make a batch of a moderate size."""
    return max(1, min(_BATCH_ROWS_MAX, _BATCH_BYTES * max(rows, 1) // max(total_bytes, 1)))


def is_parquet(path: str) -> bool:
    """Whether a path, a glob or a folder names Parquet files."""
    if path.endswith(".parquet"):
        return True
    for _, folders, files in os.walk(path):
        folders.sort()
        for file in sorted(files):
            if file[0] not in "._" and not file.endswith(".md"):
                return file.endswith(".parquet")  # the first one decides
    return False


def _in_folder(folder: str) -> list[str]:
    files: list[str] = []
    others: list[str] = []
    for path in sorted(pathlib.Path(folder).rglob("*")):
        relative = path.relative_to(folder)
        if path.is_dir() or any(part[0] in "._" for part in relative.parts):
            continue
        (files if path.suffix == ".parquet" else others).append(str(relative))
    others = [name for name in others if not name.endswith(".md")]
    if others:
        raise ValueError(
            f"{folder} has Parquet files and others, such as {others[0]}; "
            f"name the Parquet files: '{folder}/*.parquet'"
        )
    partitioned = next((name for name in files if "=" in os.path.dirname(name)), None)
    if partitioned:
        raise ValueError(
            f"{folder} is partitioned: {partitioned} lacks the columns that its folders name; "
            "pass pyarrow.dataset.dataset(FOLDER, partitioning='hive').scanner().to_reader()"
        )
    splits = {match[1] for name in files for match in _SPLITS.finditer(name.lower())}
    if len(splits) > 1:
        raise ValueError(
            f"{folder} has the splits {', '.join(sorted(splits))}; convert each of them, such as "
            "{'train': 'FOLDER/train-*.parquet', ...} as the source"
        )
    return [os.path.join(folder, name) for name in files]


def find_files(source: str | Sequence[str]) -> list[str]:
    """The files of a path, a folder, a glob, or a list of them. Globs and folders are sorted."""
    if not isinstance(source, str):
        files = [file for part in source for file in find_files(os.fspath(part))]
    elif os.path.isdir(source):
        files = _in_folder(source)
    elif os.path.exists(source):
        files = [source]
    else:
        files = sorted(glob.glob(source, recursive=True))
    if not files:
        raise FileNotFoundError(f"no Parquet file matches {source!r}")
    repeated = next((file for i, file in enumerate(files) if file in files[:i]), None)
    if repeated:
        raise ValueError(f"the file {repeated} is given twice")
    return files


def prefetch(items: Iterator[_Item], count: int = _READ_AHEAD) -> Iterator[_Item]:
    """The items, made by a thread that is up to count items ahead."""
    waiting: queue.Queue[tuple[bool, Any]] = queue.Queue(count)
    stop = threading.Event()

    def put(entry: tuple[bool, Any]) -> None:
        while not stop.is_set():
            try:
                return waiting.put(entry, timeout=0.1)
            except queue.Full:
                pass

    def work() -> None:
        try:
            for item in items:
                put((True, item))
                if stop.is_set():
                    return
            put((False, None))
        except BaseException as error:
            put((False, error))

    thread = threading.Thread(target=work, name="millrace-read", daemon=True)
    thread.start()
    try:
        while True:
            is_item, item = waiting.get()
            if is_item:
                yield item
            elif item is not None:
                raise item
            else:
                return
    finally:
        stop.set()
        thread.join()


def _state(path: str) -> tuple[int, int]:
    info = os.stat(path)
    return info.st_size, info.st_mtime_ns


class ParquetFiles:
    """Rows of Parquet files with one schema."""

    def __init__(self, files: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        self.files = list(files)
        self._states = [_state(file) for file in self.files]
        metadata = [pq.read_metadata(file) for file in self.files]
        schemas = [pq.read_schema(file) for file in self.files]
        self.schema = schemas[0]
        for file, schema in zip(self.files, schemas, strict=True):
            if not schema.equals(self.schema):
                raise ValueError(
                    f"{self.files[0]} and {file} have different columns: "
                    f"{_difference(self.schema, schema)}"
                )
        self._rows = [part.num_rows for part in metadata]
        self.rows = sum(self._rows)
        groups = [part.row_group(i) for part in metadata for i in range(part.num_row_groups)]
        self._bytes = sum(group.total_byte_size for group in groups)

    @property
    def identity(self) -> list[Any]:
        return [
            [os.path.abspath(file), *state]
            for file, state in zip(self.files, self._states, strict=True)
        ]

    def _check_state(self, number: int) -> None:
        if _state(self.files[number]) != self._states[number]:
            raise OSError(f"{self.files[number]} has changed since the conversion began")

    def batches(self, columns: Sequence[str], skip: int = 0) -> Iterator[Any]:
        """Record batches of the columns, without the first rows."""
        import pyarrow.parquet as pq

        rows = batch_rows(self._bytes, self.rows)
        for number, file in enumerate(self.files):
            if skip >= self._rows[number]:
                skip -= self._rows[number]
                continue
            self._check_state(number)
            with pq.ParquetFile(file) as opened:
                groups = list(range(opened.num_row_groups))
                while groups and skip >= opened.metadata.row_group(groups[0]).num_rows:
                    skip -= opened.metadata.row_group(groups.pop(0)).num_rows
                for batch in opened.iter_batches(rows, row_groups=groups, columns=list(columns)):
                    if skip < batch.num_rows:
                        yield batch.slice(skip)
                    skip = max(0, skip - batch.num_rows)
            self._check_state(number)


def _difference(first: Any, other: Any) -> str:
    for name in first.names:
        if name not in other.names:
            return f"only the first one has {name!r}"
        if first.field(name).type != other.field(name).type:
            return f"{name!r} is {first.field(name).type} and {other.field(name).type}"
    missing = next((name for name in other.names if name not in first.names), None)
    return f"only the second one has {missing!r}" if missing else "in another order"
