"""Checkpoints of Lightning's Trainer as folders of safetensors files, without pickle."""

from __future__ import annotations

import os
import shutil
from typing import Any

import lightning.fabric.plugins

from .checkpoint import Checkpointer


class CheckpointIO(lightning.fabric.plugins.CheckpointIO):
    """For Trainer(plugins=[CheckpointIO()]), on one device or with DDP: rank 0 saves for all.

    What Lightning would write to a file becomes a folder of that name with one step, which
    replaces the previous one when it is complete. Tensors are loaded on the CPU.
    """

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        if storage_options is not None:
            raise TypeError("millrace's CheckpointIO has no storage_options")
        rest = dict(checkpoint)
        weights = rest.pop("state_dict")
        with Checkpointer(path, keep_last=1, process_group=False) as checkpointer:
            number = max(checkpointer.steps(), default=-1) + 1
            checkpointer.save(number, model=weights, extra=rest)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        weights: dict[str, Any] = {}
        with Checkpointer(path, process_group=False) as checkpointer:
            rest = checkpointer.load(model=weights, strict=False).extra
        return {**rest, "state_dict": weights}

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        if os.path.exists(path):
            shutil.rmtree(path)
