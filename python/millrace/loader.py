"""The loader: an iterable of batches, in an order that depends only on its arguments."""

from __future__ import annotations

import html
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar

from . import _native
from .device_batches import Uploader, pinned_memory, split_work, torch_device
from .fields import Field, Image, channels_last_names, field_options
from .frameworks import Framework, converter
from .log import log_line, logger
from .mapping import Map, Mapper, Ref
from .notebook import contact_sheet
from .sampling import Mix, PathLike, Sample
from .sizes import bytes_of

_Pulled = TypeVar("_Pulled")

# Of a state: what determines the order, and where the next batch is.
_STATE_VERSION = 1
_ORDER_KEYS = ("seed", "order", "lanes", "window", "run")
_PLACE_KEYS = ("epoch", "position", "micros_done")
_BATCHING_KEYS = ("batching.global", "batching.micro", "drop_last", "pad_last")
_STATE_KEYS = (*_ORDER_KEYS, *_PLACE_KEYS, *_BATCHING_KEYS, "fingerprint", "order_version")

# Options of the C library that only the loader itself may set.
_OWN_KEYS = {*_PLACE_KEYS, "set_digest", "sequence_digest", "positions_max", "epochs_max"}


class _Place(NamedTuple):
    """Where an iterator continues after a batch, and the keys of the batch's samples."""

    state: dict[str, Any]
    keys: list[str]


def _environment_ranks() -> tuple[int, int]:
    """Rank and number of ranks: of torch.distributed, or what torchrun has set for it."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    return 0, 1


def _given_ranks(rank: int | None, world_size: int | None, mesh: Any) -> tuple[int, int] | None:
    """Rank and number of ranks that share the data, if the caller names them."""
    if (rank is None) != (world_size is None):
        raise ValueError("pass both rank and world_size, or neither")
    if mesh is not None:
        if rank is not None:
            raise ValueError("pass a mesh, or rank and world_size, not both")
        if mesh.ndim != 1:
            raise ValueError(
                f"the mesh has {mesh.ndim} dimensions: pass the one that shares the data, such as "
                "mesh['dp'], or flatten several with mesh[...]._flatten()"
            )
        return mesh.get_local_rank(), mesh.size()
    if rank is None or world_size is None:
        return None
    return rank, world_size


def _epoch_end(samples: int, batching: Mapping[str, Any]) -> int:
    """The position at which an epoch ends."""
    step = int(batching["batching.global"])
    if batching["drop_last"]:
        return samples // step * step
    return -(-samples // step) * step if batching["pad_last"] else samples


def _step_end(position: int, samples: int, batching: Mapping[str, Any]) -> int:
    """The position at which the step that contains a position ends."""
    step = int(batching["batching.global"])
    return min((position // step + 1) * step, _epoch_end(samples, batching))


def _in_epoch(place: dict[str, int], samples: int, batching: Mapping[str, Any]) -> dict[str, int]:
    """The place, or the next epoch if it is at the end of one."""
    if place["position"] < _epoch_end(samples, batching):
        return place
    return {**place, "epoch": place["epoch"] + 1, "position": 0}


def _work_ahead(
    stage: Mapper[_Place] | Uploader[_Place],
    pull: Callable[[], _Pulled | None],
    put: Callable[[_Pulled], None],
) -> tuple[dict[str, Any], _Place] | None:
    """Fills the stage from pull, and takes its oldest batch. None: nothing is left."""
    while not stage.is_full:
        try:
            pulled = pull()
        except Exception:
            if len(stage) == 0:
                raise
            break  # it is raised again after the batches before it
        if pulled is None:
            break
        put(pulled)
    return stage.take() if len(stage) else None


class Loader:
    """Batches of a dataset, as dicts of tensors.

    An iterator ends with the epoch; the next one begins the next epoch. After ``break``, a new
    iterator continues after the last batch that was yielded.

    dataset: a converted dataset, a tar or a pattern of tars; or a Mix of them
    fields: what a batch has, by name
    batch_size: samples per rank and batch, so that the global batch is batch_size * world_size
    global_batch: samples per step on all ranks. With it, results do not depend on the number of
        ranks, and batch_size is that of a micro-batch
    sample: which of the samples; all, if None
    shuffle: False reads in the order of the dataset
    tail: of an epoch whose samples do not fill the last step: "drop" them, "keep" a smaller step,
        or "pad" it with samples from the start of the epoch ("valid" is False for these)
    rank, world_size: those of torch.distributed or torchrun, if neither is given
    mesh: instead of them, the dimension of a DeviceMesh that shares the data
    framework: of the tensors: "torch", "numpy", "jax" or "dlpack"
    device: of PyTorch's tensors, such as "cuda": they are copied ahead on a CUDA stream of our own,
        and images become floats there, with the same bits. None: host memory
    keep: what happens if so many tensors are kept that the memory is used up: "copy" each of them,
        let the memory "grow", or raise an "error"
    memory: limit of batches and read-ahead, such as "1GiB"
    on_error: of a sample that cannot be used: "substitute" another one, or "stop"
    map: a function of a sample and its random generator that returns the sample to use instead, or
        a Map. It runs on threads; the batches keep their order
    """

    def __init__(
        self,
        dataset: PathLike | Mix,
        *,
        fields: Mapping[str, Field],
        batch_size: int | None = None,
        global_batch: int | None = None,
        sample: Sample | None = None,
        seed: int = 0,
        shuffle: bool = True,
        tail: Literal["drop", "keep", "pad"] = "drop",
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        framework: Framework = "torch",
        device: Any = None,
        keep: Literal["copy", "grow", "error"] = "grow",
        workers: int = 0,
        memory: int | str = "1GiB",
        on_error: Literal["substitute", "stop"] = "substitute",
        map: Map | Callable[..., dict[str, Any]] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if tail not in ("drop", "keep", "pad"):
            raise ValueError(f"tail {tail!r} is none of drop, keep, pad")
        if keep not in ("copy", "grow", "error"):
            raise ValueError(f"keep {keep!r} is none of copy, grow, error")
        given = _given_ranks(rank, world_size, mesh)
        self._assumes_ranks = given is None
        self.rank, self.world_size = given or _environment_ranks()
        self._batching = _batching(batch_size, global_batch, self.world_size) | {
            "drop_last": tail == "drop",
            "pad_last": tail == "pad",
        }
        place = None if device is None else torch_device(device, framework)
        decoded, finished = dict(fields), dict[str, Image]()
        if place and not map:
            decoded, finished = split_work(fields)
        copies = keep == "copy" and (place is None or place.type == "cpu")
        self._options: dict[str, Any] = {
            **_dataset_options(dataset),
            **(sample._options() if sample else {}),
            **field_options(decoded),
            **(pinned_memory(place) if place else {}),
            "seed": seed,
            "order": "shuffle" if shuffle else "sequential",
            "batching.rank": self.rank,
            "batching.ranks": self.world_size,
            "batching.interleaved": True,
            "keep": "error" if keep == "error" or copies else "grow",
            "workers": workers,
            "memory_bytes": bytes_of(memory),
            "bad_policy": on_error,
        }
        for name in options or {}:
            if name in self._options or name in self._batching or name in _OWN_KEYS:
                raise ValueError(f"options may not set {name!r}, which an argument or a state sets")
        self._options |= options or {}
        self._convert = converter(framework, copies, channels_last_names(decoded))
        self._uploader: Uploader[_Place] | None = Uploader(place, finished) if place else None
        self._drops_label = "label" not in fields
        if map is not None and not isinstance(map, Map):
            map = Map(map)
        if map is not None and map.by == "sample" and framework == "dlpack":
            raise ValueError('a map of samples needs a framework with indexing, and not "dlpack"')
        self._mapper: Mapper[_Place] | None = Mapper(map) if map else None
        self._has_failed = False
        self._native: _native.Loader | None = None
        self._rest: _native.Loader | None = None
        self._rest_batches = 0
        self._rest_batching: dict[str, Any] = {}
        self._open(self._options)
        shape = self._loader.shape()
        self._samples, self._steps = int(shape["samples"]), int(shape["steps"])
        if self._assumes_ranks and self.world_size > 1 and self.rank == 0:
            logger.warning(
                "%d ranks, as in torch.distributed: each gets its own samples. With tensor, "
                "context or pipeline parallelism, pass mesh=mesh['dp']",
                self.world_size,
            )

    # ---- Iteration. ----

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._check_ranks()
        epoch = self.epoch
        while self.epoch == epoch:
            if self._has_failed:  # behind the place: batches were dropped
                self._reopen()
            self._has_failed = True
            following = self._next()
            if following is not None:
                batch, self._place = following
            self._has_failed = False
            if following is None:
                return
            yield batch

    def __len__(self) -> int:
        """Batches of this rank in a whole epoch."""
        micros = self._batching["batching.global"] // self._batching["batching.micro"]
        return self._steps * int(micros) // self.world_size

    def _check_ranks(self) -> None:
        if self._assumes_ranks and (self.rank, self.world_size) != _environment_ranks():
            raise RuntimeError(
                f"the loader was opened for rank {self.rank} of {self.world_size}, before "
                "torch.distributed was initialized: open it afterwards (Lightning: in "
                "train_dataloader), or pass rank and world_size"
            )

    def _next(self) -> tuple[dict[str, Any], _Place] | None:
        """The next batch, and the place after it."""
        uploader = self._uploader
        if uploader is None:
            return self._next_on_host()
        return _work_ahead(uploader, self._next_on_host, lambda following: uploader.put(*following))

    def _next_on_host(self) -> tuple[dict[str, Any], _Place] | None:
        mapper = self._mapper
        if mapper is None:
            pulled = self._pull()
            return pulled and (pulled[0], pulled[2])

        def put(pulled: tuple[dict[str, Any], list[Ref], _Place]) -> None:
            batch, refs, place = pulled
            mapper.put(batch, refs, place.keys, place.state["seed"], place)

        return _work_ahead(mapper, self._pull, put)

    def _pull(self) -> tuple[dict[str, Any], list[Ref], _Place] | None:
        """The next batch of the extension, what its samples are, and the place after it."""
        current = self._rest or self._loader
        fields = current.next()
        if fields is None:
            return None
        keys = current.keys()
        refs = [] if self._mapper is None else current.refs()
        if self._rest is not None:
            self._rest_batches -= 1
            if self._rest_batches == 0:
                self._rest.close()
                self._rest = None
        if self._drops_label:
            fields = {name: field for name, field in fields.items() if name != "label"}
        return self._convert(fields), refs, _Place(self._state_ahead(), keys)

    def keys(self) -> list[str]:
        """The keys of the samples of the last batch."""
        return self._place.keys

    @property
    def epoch(self) -> int:
        """That of the next batch."""
        return int(self._place.state["epoch"])

    def set_epoch(self, epoch: int) -> None:
        """Begins this epoch, unless the next batch belongs to it."""
        if epoch != self.epoch:
            self._open(self._place.state, {"epoch": epoch})

    def restart(self) -> None:
        """Begins the epoch of the next batch again."""
        self._open(self._place.state, {"epoch": self.epoch})

    # ---- State. ----

    def state_dict(self) -> dict[str, Any]:
        """The order and the place after the last batch that was yielded, for json or torch.save. It
        is the same on all ranks after equally many batches."""
        return dict(self._place.state)

    def _state_ahead(self) -> dict[str, Any]:
        """After the last batch that was pulled."""
        cursor = (self._rest or self._loader).cursor()
        batching = self._rest_batching if self._rest else self._batching
        values = cursor | batching
        return {"version": _STATE_VERSION, **{key: values[key] for key in _STATE_KEYS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues after the batch at which the state was taken, on any number of ranks that can
        share what is left of its step."""
        if state.get("version") != _STATE_VERSION or not set(_STATE_KEYS) <= state.keys():
            raise ValueError(f"this is no state of a loader, or one of another version: {state!r}")
        cursor = self._loader.cursor()
        if state["fingerprint"] != cursor["fingerprint"]:
            raise ValueError(
                f"the state is of another dataset: fingerprint {state['fingerprint']:016x}, "
                f"but this one has {cursor['fingerprint']:016x}"
            )
        if state["order_version"] != cursor["order_version"]:
            raise ValueError("the state is of a version of millrace that shuffles differently")
        begin = {key: state[key] for key in _PLACE_KEYS}
        saved = {key: state[key] for key in _BATCHING_KEYS}
        rest, rest_batches = None, 0
        if begin["micros_done"]:
            rest_batches = self._share_rest(begin["micros_done"], saved)
            if saved != self._batching:  # the rest of the step as it was begun
                end = _step_end(begin["position"], self._samples, saved)
                rest = {**begin, **saved, "positions_max": end - begin["position"]}
                begin |= {"position": end, "micros_done": 0}
                begin = _in_epoch(begin, self._samples, saved)
        self._open(state, _in_epoch(begin, self._samples, self._batching), rest, rest_batches)

    def _share_rest(self, micros_done: int, batching: Mapping[str, Any]) -> int:
        """This rank's batches of what is left of a step."""
        left = int(batching["batching.global"] // batching["batching.micro"]) - micros_done
        if left % self.world_size:
            raise ValueError(
                f"the state is in the middle of a step, of which {left} micro-batches are left, "
                f"and {self.world_size} ranks cannot share them equally: load it on a number of "
                "ranks that divides them, or a state of the end of a step"
            )
        return left // self.world_size

    def _reopen(self) -> None:
        """Goes back to the place after the last batch that was yielded."""
        keys = self._place.keys
        self.load_state_dict(self._place.state)
        self._place = self._place._replace(keys=keys)

    def _open(
        self,
        order: Mapping[str, Any],
        begin: Mapping[str, int] | None = None,
        rest: Mapping[str, Any] | None = None,
        rest_batches: int = 0,
    ) -> None:
        """Replaces the extension's loaders. If that fails, they stay."""
        options = {**self._options, **self._batching, **(begin or {})}
        options |= {key: order[key] for key in _ORDER_KEYS if key in order}
        native = _native.Loader(options, log_line)
        try:
            rest_of_step = _native.Loader({**options, **rest}, log_line) if rest else None
        except BaseException:
            native.close()
            raise
        self.close()
        self._native, self._rest, self._rest_batches = native, rest_of_step, rest_batches
        self._rest_batching = {key: rest[key] for key in _BATCHING_KEYS} if rest else {}
        self._has_failed = False
        self._place = _Place(self._state_ahead(), [])

    # ---- Life cycle. ----

    @property
    def _loader(self) -> _native.Loader:
        if self._native is None:
            raise RuntimeError("the loader is closed")
        return self._native

    def stats(self) -> dict[str, Any]:
        """Counts of what was read and decoded; "limited_by" names the slowest stage."""
        return self._loader.stats()

    @property
    def classes(self) -> list[str] | None:
        """The names of the classes by number."""
        return self._loader.classes()

    def __repr__(self) -> str:
        if self._native is None:
            return "<millrace.Loader: closed>"
        return (
            f"<millrace.Loader of {self._samples} samples: {len(self)} batches, "
            f"rank {self.rank} of {self.world_size}, epoch {self.epoch}>"
        )

    def __reduce__(self) -> str:
        raise TypeError(
            "a loader has threads and cannot be sent to another process: open it there. In a "
            "DataLoader, set num_workers=0"
        )

    def _repr_html_(self) -> str:
        """The samples of the next batch, before any map. The loader keeps its place."""
        text = html.escape(repr(self))
        if self._native is None:
            return text
        state = self.state_dict()
        names = (*_ORDER_KEYS, *_PLACE_KEYS, *_BATCHING_KEYS)
        peek = _native.Loader({**self._options, **{name: state[name] for name in names}}, log_line)
        try:
            fields = peek.next()
            sheet = contact_sheet(fields, peek.keys(), self.classes) if fields else ""
        finally:
            peek.close()
        return text + sheet

    def close(self) -> None:
        """Ends all threads. Tensors stay valid."""
        for loader in (self._rest, self._native):
            if loader is not None:
                loader.close()
        self._rest = self._native = None
        if self._mapper is not None:
            self._mapper.clear()
        if self._uploader is not None:
            self._uploader.clear()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _batching(batch_size: int | None, global_batch: int | None, world_size: int) -> dict[str, int]:
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size {batch_size} is less than 1")
    if global_batch is None:
        if batch_size is None:
            raise ValueError("pass batch_size, or global_batch")
        global_batch = batch_size * world_size
    if batch_size is None:
        batch_size = global_batch // world_size
    if batch_size < 1 or global_batch % (batch_size * world_size):
        raise ValueError(
            f"global_batch {global_batch} is no multiple of batch_size {batch_size} times "
            f"{world_size} ranks, which then would not get equally many batches"
        )
    return {"batching.global": global_batch, "batching.micro": batch_size}


def _dataset_options(dataset: PathLike | Mix) -> dict[str, Any]:
    return dataset._options() if isinstance(dataset, Mix) else {"dataset": os.fspath(dataset)}
