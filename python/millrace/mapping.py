"""Python callables on samples and batches, on threads, in the order of the batches."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Literal, TypeVar

Batch = dict[str, Any]
Sample = dict[str, Any]
Ref = tuple[int, int, int]  # dataset, epoch, sample
Place = TypeVar("Place")


def generator(seed: int, ref: Ref) -> Any:
    """The numpy.random.Generator of a sample. It depends on nothing but the arguments."""
    import numpy

    dataset, epoch, sample = ref
    bits = numpy.random.Philox(
        key=numpy.array([seed, sample], numpy.uint64),
        counter=numpy.array([0, 0, epoch, dataset], numpy.uint64),
    )
    return numpy.random.Generator(bits)


def _stack(values: Sequence[Any]) -> Any:
    """Arrays of one type and shape as one array, as numbers of one type; else a list."""
    first = values[0]
    kind = type(first)
    if any(type(value) is not kind for value in values):
        return list(values)
    framework = kind.__module__.partition(".")[0]
    is_array = framework in ("torch", "numpy", "jax", "jaxlib") and hasattr(first, "shape")
    if is_array and any(v.shape != first.shape or v.dtype != first.dtype for v in values):
        return list(values)
    if framework == "torch" and is_array:
        import torch

        return torch.stack(list(values))
    if framework in ("jax", "jaxlib") and is_array:
        import jax

        return jax.numpy.stack(list(values))
    if is_array or kind in (bool, int, float):
        import numpy

        return numpy.stack([numpy.asarray(value) for value in values])
    return list(values)


def collate(samples: Sequence[Sample]) -> Batch:
    """A batch of the samples, whose names must agree."""
    names = samples[0].keys()
    for sample in samples:
        if sample.keys() != names:
            differing = ", ".join(sorted(names ^ sample.keys()))
            raise ValueError(f"map returned samples with different fields: {differing}")
    return {name: _stack([sample[name] for sample in samples]) for name in names}


def split(batch: Batch, count: int) -> list[Sample]:
    """The samples of a batch, without copies."""
    return [{name: field[i] for name, field in batch.items()} for i in range(count)]


@dataclasses.dataclass(frozen=True)
class Map:
    """A callable for each sample, or for each batch.

    function: called with a sample and its random generator, or with a batch and the list of its
        samples' generators; returns the dict that replaces it. Several threads may call it at once
    by: "sample" or "batch"
    collate: makes a batch of what the function returned for at least one sample; by default, equal
        shapes are stacked, as are numbers, and other values are lists
    """

    function: Callable[..., dict[str, Any]]
    by: Literal["sample", "batch"] = "sample"
    threads: int = 4
    collate: Callable[[Sequence[Sample]], Batch] | None = None

    def __post_init__(self) -> None:
        if self.by not in ("sample", "batch"):
            raise ValueError(f"map by {self.by!r} is neither sample nor batch")
        if self.by == "batch" and self.collate is not None:
            raise ValueError("a map by batch has nothing to collate")
        if self.threads < 0:
            raise ValueError(f"map threads {self.threads} is negative")


class Mapper(Generic[Place]):
    """Applies a Map to batches. Up to threads + 1 batches are in work.

    ``put`` a batch and its place, ``take`` the oldest one. With 0 threads, ``put`` does the work.
    Not thread-safe.
    """

    def __init__(self, how: Map) -> None:
        self._how = how
        self._collate = how.collate or collate
        self._pool: ThreadPoolExecutor | None = None
        self._queue: collections.deque[tuple[Callable[[], Batch], Place]] = collections.deque()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_full(self) -> bool:
        return len(self._queue) > self._how.threads

    def _start(self, *arguments: Any) -> Callable[[], Any]:
        if self._how.threads:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._how.threads, "millrace-map")
            future: Future[Any] = self._pool.submit(self._how.function, *arguments)
            return future.result
        result = self._how.function(*arguments)
        return lambda: result

    def put(
        self, batch: Batch, refs: Sequence[Ref], keys: Sequence[str], seed: int, place: Place
    ) -> None:
        if not refs:  # of a step with fewer samples than ranks
            self._queue.append((lambda: batch, place))
            return
        generators = [generator(seed, ref) for ref in refs]
        if self._how.by == "batch":
            self._queue.append((self._start(batch | {"__key__": list(keys)}, generators), place))
            return
        results = [
            self._start(sample | {"__key__": key}, rng)
            for sample, key, rng in zip(split(batch, len(refs)), keys, generators, strict=True)
        ]
        self._queue.append((lambda: self._collate([result() for result in results]), place))

    def take(self) -> tuple[Batch, Place]:
        """Waits for the oldest batch. Raises what the function raised."""
        finish, place = self._queue.popleft()
        return finish(), place

    def clear(self) -> None:
        """Drops all batches, after what works on them has ended."""
        self._queue.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


__all__ = ["Map", "Mapper", "collate", "generator", "split"]
