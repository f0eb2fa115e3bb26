"""The loader where PyTorch expects an IterableDataset: in DataLoader, torchdata's
StatefulDataLoader, and what is built on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch.utils.data

from .loader import Loader


def _resharder() -> str | None:
    """What of Accelerate iterates over this dataset to divide its batches among ranks, if any."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            owner = type(frame.f_locals.get("self")).__name__
            if owner in ("DataLoaderDispatcher", "IterableDatasetShard"):
                return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None


class IterableDataset(torch.utils.data.IterableDataset[dict[str, Any]]):
    """A Loader as a dataset of whole batches, with the same arguments:

        DataLoader(IterableDataset("shards", ...), batch_size=None, num_workers=0)

    It has its own threads, so DataLoader needs no workers. It divides the samples among the ranks
    itself, and each iterator is the next epoch. StatefulDataLoader saves and restores its state.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
        self.loader = Loader(*args, **options)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if torch.utils.data.get_worker_info() is not None:
            raise RuntimeError(
                "the loader decodes in threads and cannot be used in a worker process: "
                "set num_workers=0"
            )
        owner = _resharder() if self.loader.world_size > 1 else None
        if owner is not None:
            raise RuntimeError(
                f"Accelerate's {owner} would divide the samples among the ranks again: give "
                "prepare() the millrace.Loader itself instead of a DataLoader"
            )
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state)
