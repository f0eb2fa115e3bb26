"""A dataset whose samples are read by number or key, in any order."""

from __future__ import annotations

import errno
import html
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, overload

from . import _native
from ._program import run_json
from .fields import IMAGE_EXTENSIONS, Field, Image, channels_last_names, field_options
from .frameworks import Framework, converter
from .log import log_line
from .notebook import SAMPLES_MAX, contact_sheet
from .sampling import Mix, PathLike

_BAD_ITEMS_SHOWN = 10


def open(path: PathLike) -> Dataset:  # noqa: A001
    """Opens a dataset, whose samples are dicts of stored bytes."""
    return Dataset(path)


class Dataset:
    """The samples of a dataset: ``ds[17]`` by number, ``ds["cats/0017"]`` by key, and lists of them
    by ``ds[10:20]`` or ``ds[[3, 5, 8]]``. Negative numbers count from the end.

    Without fields, a sample is ``{"__key__": "cats/0017", "jpg": b"...", "cls": b"7"}``. With
    fields, it is what a Loader's batch has for that sample, without the first dimension; random
    choices are those of a Loader with this seed in the epoch of ``set_epoch``, so that each access
    gives the same bits.

    It is a map-style dataset for ``torch.utils.data.DataLoader`` with any number of workers: it is
    opened again in a process that was forked or got it by pickle. Any number of threads may use it.
    Reading a sample checks its checksums.

    path: a converted dataset, a tar or a pattern of tars
    fields: what a sample has, by name; as for a Loader
    framework: of the tensors, as for a Loader
    seed: of random choices
    """

    def __init__(
        self,
        path: PathLike,
        *,
        fields: Mapping[str, Field] | None = None,
        framework: Framework = "torch",
        seed: int = 0,
    ) -> None:
        if isinstance(path, Mix):
            raise TypeError("samples of a Mix have no numbers: open each of its datasets")
        if fields is not None and not fields:
            raise ValueError("there are no fields; without fields=, samples are stored bytes")
        self._arguments = (
            os.fspath(path),
            dict(fields) if fields is not None else None,
            framework,
            seed,
        )
        self._epoch = 0
        self._fingerprint: int | None = None
        self._open()

    # ---- Samples. ----

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, item: int | str) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, item: slice | Iterable[int] | list[str]) -> list[dict[str, Any]]: ...

    def __getitem__(
        self, item: int | str | slice | Iterable[int] | list[str]
    ) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(item, slice):
            return [self._read(number) for number in range(*item.indices(self._count))]
        if isinstance(item, str) or hasattr(item, "__index__") and not getattr(item, "shape", ()):
            return self._read(self.number(item))
        if isinstance(item, Iterable) and not isinstance(item, bytes):
            return [self._read(number) for number in [self.number(one) for one in item]]
        raise TypeError(f"samples have numbers and keys, and not {item!r}")

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The samples in the order of their numbers."""
        return map(self._read, range(self._count))

    def __contains__(self, key: object) -> bool:
        """Whether a sample has this key."""
        return isinstance(key, str) and self._reader.find(key) is not None

    def number(self, item: Any) -> int:
        """The number of a sample, from 0 on: of a key, or of a number that may be negative.

        The first key takes longer, because it is searched in the indexes of all shards.
        """
        if isinstance(item, str):
            found = self._reader.find(item)
            if found is None:
                raise KeyError(f"no sample of {self._arguments[0]} has the key {item!r}")
            return found
        if "bool" in str(getattr(item, "dtype", type(item).__name__)):
            raise TypeError("a truth value is no number of a sample; masks are not supported")
        number: int = operator.index(item)
        if not -self._count <= number < self._count:
            raise IndexError(f"{self._arguments[0]} has {self._count} samples, and no {number}")
        return number % self._count

    def key(self, number: int) -> str:
        """The key of a sample; of a window of tokens, that of its text."""
        return self._reader.key(self.number(number))

    def _read(self, number: int) -> dict[str, Any]:
        sample = self._reader.read(self._epoch, number)
        if self._convert is None:
            return sample
        if self._drops_label:
            sample.pop("label", None)
        return self._convert(sample)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of random choices. DataLoader's persistent workers keep theirs."""
        if not 0 <= epoch < 1 << 32:
            raise ValueError(f"epoch {epoch} is not between 0 and 2^32 - 1")
        self._epoch = epoch

    # ---- The dataset. ----

    @property
    def path(self) -> str:
        return self._arguments[0]

    @property
    def fields(self) -> list[str]:
        """The extensions that stored samples have."""
        return list(self._info["fields"])

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes by number."""
        return self._info["classes"] and list(self._info["classes"])

    def inspect(self) -> dict[str, Any]:
        """What ``millrace inspect --json`` prints: shards, sizes, how it was converted."""
        summary, error = run_json("inspect", self.path)
        if error:
            raise OSError(errno.EIO, error)
        return summary

    def verify(self, decode: bool = False) -> dict[str, Any]:
        """Checks every byte, as ``millrace verify --json``, and returns its counts. If anything is
        damaged, an OSError names it.

        decode: images completely, and not only their headers
        """
        result, error = run_json("verify", self.path, *(["--decode"] if decode else []))
        bad = result.pop("bad")
        if error or bad:
            more = (
                [f"and {len(bad) - _BAD_ITEMS_SHOWN} more"] if len(bad) > _BAD_ITEMS_SHOWN else []
            )
            raise OSError(errno.EBADMSG, "\n".join([error, *bad[:_BAD_ITEMS_SHOWN], *more]))
        return result

    def __repr__(self) -> str:
        if self._native is None:
            return "<millrace.Dataset: closed>"
        classes = f", {len(self.classes)} classes" if self.classes else ""
        fields = ", ".join(self.fields)
        return f"<millrace.Dataset {self.path}: {self._count} samples of {fields}{classes}>"

    def _repr_html_(self) -> str:
        """The first samples."""
        text = html.escape(repr(self))
        fields = self._arguments[1]
        if fields is None and not set(self.fields).isdisjoint(IMAGE_EXTENSIONS.split(";")):
            fields = {"image": Image(128, crop="center")}
        if self._native is None or fields is None:
            return text
        options = {
            **self._options(fields),
            "order": "sequential",
            "epoch": self._epoch,
            "batching.global": SAMPLES_MAX,
            "batching.micro": SAMPLES_MAX,
            "bad_policy": "stop",
        }
        loader = _native.Loader(options, log_line)
        try:
            batch = loader.next()
            return text + (contact_sheet(batch, loader.keys(), self.classes) if batch else "")
        finally:
            loader.close()

    # ---- Life cycle. ----

    def _options(self, fields: Mapping[str, Field] | None) -> dict[str, Any]:
        path, _, _, seed = self._arguments
        decode = field_options(fields) if fields else {"decode": "bytes"}
        return {"dataset": path, "seed": seed, **decode}

    def _open(self) -> None:
        path, fields, framework, _ = self._arguments
        self._convert = converter(framework, False, channels_last_names(fields)) if fields else None
        self._drops_label = fields is not None and "label" not in fields
        native = _native.Dataset(self._options(fields))
        info = native.info()
        if self._fingerprint not in (None, info["fingerprint"]):
            native.close()
            raise RuntimeError(
                f"{path} has changed since the dataset was opened: fingerprint "
                f"{info['fingerprint']:016x}, and not {self._fingerprint:016x}; open it again"
            )
        self._info, self._fingerprint = info, info["fingerprint"]
        self._count = int(info["samples"])
        self._native: _native.Dataset | None = native
        self._pid = os.getpid()

    @property
    def _reader(self) -> _native.Dataset:
        if self._native is None:
            raise RuntimeError("the dataset is closed")
        if self._pid != os.getpid():  # after fork; several threads may open it, the last one wins
            self._open()
        return self._native

    def __getstate__(self) -> dict[str, Any]:
        if self._native is None:
            raise RuntimeError("the dataset is closed")
        names = ("_arguments", "_epoch", "_fingerprint")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def close(self) -> None:
        """Closes the files. Tensors stay valid."""
        if self._native is not None:
            self._native.close()
        self._native = None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
