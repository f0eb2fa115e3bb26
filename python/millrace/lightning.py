"""Checkpoints of Lightning's Trainer as folders of safetensors files, without pickle."""

from __future__ import annotations

import os
import shutil
from typing import Any

import lightning.fabric.plugins
import lightning.pytorch.callbacks
import torch
from lightning.pytorch.utilities import CombinedLoader

from .checkpoint import Checkpointer
from .log import logger


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


def _random_state(device: Any) -> list[torch.Tensor]:
    on_device = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *on_device]


class ModelCheckpoint(lightning.pytorch.callbacks.Checkpoint):
    """Saves all that a Trainer needs to continue, also in mid-epoch, while the training goes on.
    fit() continues from the newest step in the folder, unless it has a ckpt_path.

    The strategy only has to give each rank its tensors: on one device, DDP, or FSDP2 and tensor
    parallelism (ModelParallelStrategy). A checkpoint loads into any of them. The hooks
    on_save_checkpoint and on_load_checkpoint get everything but weights and optimizers.

    dirpath: the folder, for steps named by trainer.global_step
    every_n_train_steps, every_n_epochs: 0: never
    options: of millrace.Checkpointer; keep_best is a name in trainer.callback_metrics
    """

    def __init__(
        self,
        dirpath: str | os.PathLike[str],
        *,
        every_n_train_steps: int = 0,
        every_n_epochs: int = 1,
        **options: Any,
    ) -> None:
        self._path, self._options = dirpath, options
        self._steps, self._epochs = every_n_train_steps, every_n_epochs
        self._checkpointer: Checkpointer | None = None
        self._last_step = 0
        self._random: list[torch.Tensor] | None = None  # to be set before the next batch
        self._loaders: list[Any] = []  # states

    # ---- When. ----

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self._checkpointer = Checkpointer(self._path, **self._options)
        self._last_step, self._random, self._loaders = 0, None, []
        if trainer.ckpt_path is None:
            self._load(trainer, pl_module)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.fit_loop.restarting:  # Lightning ignores the states of whole epochs
            loaders = CombinedLoader(trainer.train_dataloader).flattened
            stateful = [one for one in loaders if hasattr(one, "load_state_dict")]
            for loader, state in zip(stateful, self._loaders, strict=False):
                loader.load_state_dict(state)
        if trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self._set_random_state(trainer)  # before samplers begin an epoch

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        self._set_random_state(trainer)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._steps and trainer.global_step % self._steps == 0:
            self._save(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        if self._epochs and (trainer.current_epoch + 1) % self._epochs == 0:
            self._save(trainer, pl_module)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self._checkpointer is not None:
            self._checkpointer.close()
            self._checkpointer = None

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self._checkpointer is not None:
            self._checkpointer.__exit__(type(exception), exception, exception.__traceback__)
            self._checkpointer = None

    # ---- What. ----

    def _save(self, trainer: Any, module: Any) -> None:
        if self._checkpointer is None or trainer.global_step == self._last_step:
            return
        states = {one.state_key: one.state_dict() for one in trainer.callbacks}
        rest = {
            "epoch": trainer.current_epoch,
            "global_step": trainer.global_step,
            "pytorch-lightning_version": lightning.__version__,
            "loops": {"fit_loop": trainer.fit_loop.state_dict()},
            "callbacks": {key: state for key, state in states.items() if state},
            "lr_schedulers": [one.scheduler.state_dict() for one in trainer.lr_scheduler_configs],
            "precision": trainer.precision_plugin.state_dict(),
            "datamodule": trainer.datamodule.state_dict() if trainer.datamodule else {},
        }
        for callback in trainer.callbacks:
            callback.on_save_checkpoint(trainer, module, rest)
        module.on_save_checkpoint(rest)
        random: list[Any] = [None] * trainer.world_size
        random[0] = own = _random_state(trainer.strategy.root_device)
        if trainer.world_size > 1:
            torch.distributed.all_gather_object(random, own)
        self._checkpointer.save(
            trainer.global_step,
            model=module,
            optimizer=trainer.optimizers or None,
            extra={"trainer": rest, "random": random},
            metrics=trainer.callback_metrics,
        )
        self._last_step = trainer.global_step

    def _load(self, trainer: Any, module: Any) -> None:
        assert self._checkpointer is not None
        try:
            latest = self._checkpointer.load(
                model=module,
                optimizer=trainer.optimizers or None,
                strict=module.strict_loading,
            )
        except FileNotFoundError:
            return
        rest, self._last_step = latest.extra["trainer"], latest.step
        module.on_load_checkpoint(rest)
        for callback in trainer.callbacks:
            callback.on_load_checkpoint(trainer, module, rest)
            if callback.state_key in rest["callbacks"]:
                callback.load_state_dict(rest["callbacks"][callback.state_key])
        trainer.fit_loop.load_state_dict(rest["loops"]["fit_loop"])
        self._loaders = rest["loops"]["fit_loop"]["state_dict"].get("combined_loader", [])
        for config, state in zip(trainer.lr_scheduler_configs, rest["lr_schedulers"], strict=True):
            config.scheduler.load_state_dict(state)
        trainer.precision_plugin.load_state_dict(rest["precision"])
        if trainer.datamodule:
            trainer.datamodule.load_state_dict(rest["datamodule"])
        logger.info("continues from %s", latest.path)
        states = latest.extra["random"]
        if len(states) != trainer.world_size:
            logger.info("random generators do not continue: saved on %d ranks", len(states))
            return
        self._random = states[trainer.global_rank]

    def _set_random_state(self, trainer: Any) -> None:
        if self._random is not None:
            torch.set_rng_state(self._random[0])
            device = trainer.strategy.root_device
            if device.type == "cuda" and len(self._random) > 1:
                torch.cuda.set_rng_state(self._random[1], device)
            self._random = None
