"""Checkpoints that are written while the training goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Literal, NamedTuple

import torch

from . import _native
from .checkpoint_state import collect, optimizers_of
from .communicator import open_communicator, ranks_of, together
from .log import log_line
from .restore import Restore
from .save_plan import GROUP_UPDATED, GROUPS_COUNT, SavePlan, device_of, updated_memory
from .sizes import bytes_of
from .tensor_parts import CPU, part_of


class Checkpoint(NamedTuple):
    """What load() has found."""

    step: int
    extra: Any
    metrics: dict[str, int | float]
    path: str


class _OpenSaver(NamedTuple):
    native: _native.Saver
    signature: list[tuple[Any, ...]]  # of the plan
    copies: dict[str, Any]


class Checkpointer:
    """Saves a training run in a folder, and loads it on any number of ranks.

    With torch.distributed, all ranks make the same calls. Only hook(), steps() and stats() may be
    called on some of them.

    folder: holds step-00001000 and so on; created if absent
    keep_last: how many of the newest steps are kept; 0: all
    keep_every: steps that are multiples are kept too
    keep_best: a name in the metrics; the best_count steps with the best value are kept too.
        best_mode: "min" or "max"; known of losses and accuracies
    process_group: the ranks that save together; all, if None; this one alone, if False
    staging: memory for what an optimizer changes before it is written; None: 64 MiB, and for
        tensors on a GPU their size in addition, at most 1 GiB
    timeout: in seconds, for ranks that do not answer
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep_last: int = 3,
        keep_every: int = 0,
        keep_best: str | None = None,
        best_mode: Literal["min", "max"] | None = None,
        best_count: int = 1,
        process_group: Any = None,
        staging: int | str | None = None,
        timeout: float = 600.0,
    ) -> None:
        if min(keep_last, keep_every, best_count) < 0:
            raise ValueError("keep_last, keep_every and best_count may not be negative")
        self._folder = os.fspath(folder)
        self._options = {
            "folder": self._folder,
            "groups": GROUPS_COUNT,
            "keep_last": keep_last,
            "keep_every": keep_every,
            "best_metric": keep_best,
            "best_mode": best_mode,
            "best_count": best_count,
            "numerics_id": f"torch {torch.__version__}",
        }
        self._staging_bytes = None if staging is None else bytes_of(staging)
        self._device = CPU  # whose memory savers read, besides that of the CPU
        self._group = process_group
        self._saver: _OpenSaver | None = None
        self._hooked: list[Any] = []
        self._handles: list[Any] = []
        self._communicator = open_communicator(process_group, timeout)
        self._rank, self._ranks = ranks_of(process_group)

    # ---- Saving. ----

    def hook(self, optimizer: Any) -> None:
        """Lets saves read the parameters and the state of this optimizer while the training goes
        on: its step() first copies what is not written yet. Nothing but its step() may change
        them; without the hook, save() copies them.
        """
        if self._device == CPU:
            self._device = device_of(optimizer)
        self._handles.append(optimizer.register_step_pre_hook(self._before_update))
        self._hooked.append(optimizer)

    def _before_update(self, *_: Any) -> None:
        if self._saver is not None:
            self._saver.native.before_update(GROUP_UPDATED)

    def save(
        self,
        step: int,
        *,
        model: Any = None,
        optimizer: Any = None,
        loader: Any = None,
        extra: Any = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Begins a save of the present values and returns; a thread writes them. Waits for a
        previous save, and if that failed, raises its error after it has begun this one.

        model: a module, or a nested dict of tensors and plain values
        optimizer: an optimizer of the model's parameters, or several, or a nested dict
        loader: anything with a state_dict() without tensors, such as a millrace.Loader
        extra: tensors and plain values in dicts, lists and tuples
        metrics: numbers by name, for keep_best and `millrace ckpt list`
        """
        self._check_ranks()
        failure = self._finish()

        def prepare() -> tuple[SavePlan, str]:
            if type(step) is not int or not 0 <= step < 1 << 63:
                raise ValueError(f"step {step!r} is not a number from 0 to 2**63 - 1")
            with torch.no_grad():
                tensors, state = collect(model, optimizer, loader, extra, metrics)
            plan = SavePlan(
                [part_of(name, tensors[name]) for name in sorted(tensors)],
                self._rank,
                updated_memory([*optimizers_of(optimizer), *self._hooked]),
                updated_memory(self._hooked),
                self._device,
            )
            return plan, json.dumps(state, allow_nan=False)

        plan, state = together(self._communicator, prepare)
        saver = self._saver_for(plan)
        plan.copy(saver.copies)
        saver.native.save(step, state)
        if failure is not None:
            raise failure

    def _saver_for(self, plan: SavePlan) -> _OpenSaver:
        """The open saver if it fits on all ranks, else a new one. Collective."""
        saver = self._saver
        fits = saver is not None and saver.signature == plan.signature
        if saver is not None and not self._communicator.any(not fits):
            return saver
        self._close_saver()
        self._check_kinds(plan.kinds)
        copies = plan.allocate()
        options = {
            **self._options,
            "device": str(self._device),
            "staging_bytes": self._staging_bytes or plan.staging_bytes(),
        }
        native = _native.Saver(options, plan.items(copies), self._communicator, log_line)
        self._saver = _OpenSaver(native, plan.signature, copies)
        return self._saver

    def _check_kinds(self, kinds: list[tuple[Any, ...]]) -> None:
        """Collective. Refuses tensors that are not on all ranks with the same shape."""
        if self._ranks == 1:
            return
        digests: list[Any] = [None] * self._ranks
        digest = hashlib.sha256(repr(kinds).encode()).digest()
        torch.distributed.all_gather_object(digests, digest, group=self._group)
        differing = next((rank for rank, other in enumerate(digests) if other != digests[0]), None)
        if differing is None:
            return
        gathered: list[Any] = [None] * self._ranks
        torch.distributed.all_gather_object(gathered, kinds, group=self._group)
        ours, theirs = dict.fromkeys(gathered[0]), dict.fromkeys(gathered[differing])
        name = next(kind[0] for kind in [*ours, *theirs] if not (kind in ours and kind in theirs))
        raise ValueError(
            f"tensor {name!r} is not the same on ranks 0 and {differing}: all ranks must save "
            "tensors of the same names, types and whole shapes"
        )

    def _check_ranks(self) -> None:
        if (self._rank, self._ranks) != ranks_of(self._group):
            raise RuntimeError(
                f"the Checkpointer was opened for rank {self._rank} of {self._ranks}, before "
                "torch.distributed was initialized: open it afterwards"
            )

    def _finish(self) -> Exception | None:
        """Waits for a save in progress. Returns the error of one that failed."""
        try:
            if self._saver is not None:
                self._saver.native.wait()
        except (OSError, ValueError, MemoryError) as error:
            return error
        return None

    def wait(self) -> None:
        """Until no save is in progress. Raises the error of one that failed."""
        failure = self._finish()
        if failure is not None:
            raise failure

    def stats(self) -> dict[str, Any]:
        """Counts of the saves since the last one with tensors of other names, shapes or places."""
        return {} if self._saver is None else self._saver.native.stats()

    # ---- Loading. ----

    def load(
        self,
        step: int | Literal["latest"] | None = None,
        *,
        model: Any = None,
        optimizer: Any = None,
        loader: Any = None,
        extra: Any = None,
        strict: bool = True,
    ) -> Checkpoint:
        """Fills what save() has saved, on any number of ranks. FileNotFoundError: there is no step.
        Otherwise, errors of names and shapes are raised before anything changes.

        step: None or "latest": the newest one that is complete
        model, optimizer, loader: as for save(). The tensors of a dict are filled in place, and
            everything else in it is replaced
        extra: tensors of this tree are filled in place; others are new, whole, and on the CPU
        strict: False ignores tensors that only the model or only the checkpoint has
        """
        self._check_ranks()
        self.wait()
        path = self._folder
        if isinstance(step, int):
            path = os.path.join(path, f"step-{step:08d}")
        elif step not in (None, "latest"):
            raise ValueError(f"step {step!r} is neither a number nor 'latest'")
        reader = _native.Reader(path, self._communicator, log_line)
        try:
            restore = together(
                self._communicator,
                lambda: Restore(
                    reader,
                    model=model,
                    optimizer=optimizer,
                    loader=loader,
                    extra=extra,
                    strict=strict,
                ),
            )
            reader.load(restore.items, self._communicator)
            with torch.no_grad():
                together(self._communicator, restore.finish)
            return Checkpoint(reader.step, restore.extra(), restore.metrics(), reader.path)
        finally:
            reader.close()

    def steps(self) -> list[int]:
        """The complete steps in the folder."""
        try:
            return _native.Reader.list_steps(self._folder)
        except FileNotFoundError:
            return []

    # ---- Life cycle. ----

    def _close_saver(self) -> None:
        if self._saver is not None:
            self._saver.native.close()
            self._saver = None

    def _release(self) -> None:
        self._close_saver()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._hooked.clear()

    def close(self) -> None:
        """Waits for a save in progress, and raises its error if it failed. Collective."""
        failure = self._finish()
        self._release()
        self._communicator.close()
        if failure is not None:
            raise failure

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        self._finish()  # of a failed save, the log has the error
        self._release()
        self._communicator.abort()  # the other ranks need not wait for this one

    def __repr__(self) -> str:
        return f"<millrace.Checkpointer of {self._folder!r}: rank {self._rank} of {self._ranks}>"
