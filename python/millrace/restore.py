"""Fills models, optimizers and loaders from an open checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    set_model_state_dict,
    set_optimizer_state_dict,
)

from . import _native
from .checkpoint_state import (
    EXTRA_PATH,
    OPTIMIZER_PATH,
    STATE_VERSION,
    is_extra_name,
    is_optimizer_name,
    model_state,
    optimizer_state,
)
from .state_tree import decode, encode
from .tensor_parts import CPU, DTYPES, part_of

_NAMES_LISTED_MAX = 5


def _list_names(names: Iterable[str]) -> str:
    listed = sorted(names)
    rest = len(listed) - _NAMES_LISTED_MAX
    text = ", ".join(map(repr, listed[:_NAMES_LISTED_MAX]))
    return f"{text} and {rest} more" if rest > 0 else text


def _tensors_of(tree: Any, path: str) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    encode(tree, path, tensors)
    return tensors


def _parameter_names(optimizer: Mapping[str, Any]) -> set[Any]:
    return {name for group in optimizer["param_groups"] for name in group["params"]}


class Restore:
    """The constructor checks that everything fits, and changes nothing except that torch fills the
    empty state of an optimizer. Then the reader loads `items`, and finish() does the rest."""

    def __init__(
        self,
        reader: _native.Reader,
        *,
        model: Any,
        optimizer: Any,
        loader: Any,
        extra: Any,
        strict: bool,
    ) -> None:
        self._model, self._optimizer, self._loader = model, optimizer, loader
        self._path = reader.path
        self._saved = {name: (dtype, shape) for name, dtype, shape in reader.tensors()}
        self._state = json.loads(reader.state())
        self._trees = self._state.get("torch", {"version": STATE_VERSION})
        if self._trees["version"] != STATE_VERSION:
            raise ValueError(f"{self._path} is of another version of millrace")
        self._targets: dict[str, Any] = {}
        self._model_state: Any = self._prepare_model(strict) if model is not None else None
        self._optimizer_state: Any = self._prepare_optimizer() if optimizer is not None else None
        if loader is not None and "loader" not in self._state:
            raise ValueError(f"{self._path} has no state of a loader")
        own = {} if extra is None else _tensors_of(extra, EXTRA_PATH)
        self._check_present(own)
        self._add_targets(own, filter(is_extra_name, self._saved))
        self.items: list[tuple[Any, ...]] = []
        self._copies: list[tuple[Any, Any]] = []
        for name, tensor in self._targets.items():
            self._add_item(name, tensor)

    # ---- Before the load. ----

    def _check_present(self, tensors: Iterable[str]) -> None:
        missing = set(tensors) - self._saved.keys()
        if missing:
            raise ValueError(f"{self._path} lacks the tensors {_list_names(missing)}")

    def _add_targets(self, own: Mapping[str, Any], names: Iterable[str]) -> None:
        """Fills the caller's own tensors, and new ones of the CPU for other names."""
        for name in names:
            dtype, shape = self._saved[name]
            tensor = own.get(name)
            if tensor is None:
                tensor = torch.empty(shape, dtype=DTYPES[dtype])
            elif (tensor.dtype, tuple(tensor.shape)) != (DTYPES[dtype], shape):
                raise ValueError(
                    f"tensor {name!r} is {tensor.dtype} {tuple(tensor.shape)}, but in "
                    f"{self._path} it is {DTYPES[dtype]} {shape}"
                )
            self._targets[name] = tensor

    def _add_item(self, name: str, tensor: Any) -> None:
        part = part_of(name, tensor)
        if not part.is_held:
            return
        memory = part.local
        if not part.is_row_major_on(CPU):
            memory = torch.empty(part.local.shape, dtype=part.local.dtype)
            self._copies.append((part.local, memory))
        self.items.append(part.item(memory))

    def _prepare_model(self, strict: bool) -> Any:
        state = model_state(self._model)
        own = _tensors_of(state, "")
        names = {name for name in self._saved if not is_optimizer_name(name)}
        if strict:
            self._check_present(own)
            if names - own.keys():
                raise ValueError(
                    f"{self._path} has the tensors {_list_names(names - own.keys())}, which the "
                    "model lacks: pass strict=False to ignore them"
                )
        is_module = isinstance(self._model, torch.nn.Module)
        self._add_targets(own, sorted(names & own.keys() if is_module else names))
        return state

    def _prepare_optimizer(self) -> Any:
        if "optimizer" not in self._trees:
            raise ValueError(f"{self._path} has no optimizer that millrace.Checkpointer saved")
        state = optimizer_state(self._model, self._optimizer)
        own = _tensors_of(state, OPTIMIZER_PATH)
        names = [
            name for name in self._saved if is_optimizer_name(name) and not is_extra_name(name)
        ]
        self._add_targets(own, names)
        saved = decode(self._trees["optimizer"], OPTIMIZER_PATH, self._targets.__getitem__)
        if isinstance(self._optimizer, Mapping):
            return saved
        if _parameter_names(saved) != _parameter_names(state):
            differing = _parameter_names(saved) ^ _parameter_names(state)
            raise ValueError(
                f"{self._path} has an optimizer of other parameters: only one of both has "
                f"{_list_names(map(str, differing))}"
            )
        for name in _parameter_names(saved):
            saved["state"].setdefault(name, {})  # it had no gradient yet
        return saved

    # ---- After the load. ----

    def finish(self) -> None:
        for local, memory in self._copies:
            local.copy_(memory)
        if self._model is not None:
            self._finish_model()
        if isinstance(self._optimizer, Mapping):
            _replace(self._optimizer, self._optimizer_state)
        elif self._optimizer is not None:
            set_optimizer_state_dict(self._model, self._optimizer, self._optimizer_state)
        if self._loader is not None:
            self._loader.load_state_dict(_plain(self._state["loader"], "loader"))

    def _finish_model(self) -> None:
        tree = self._trees.get("model", {})
        if isinstance(self._model, Mapping):
            _replace(self._model, decode(tree, "", self._targets.__getitem__))
            return
        for name, value in self._model_state.items():
            if not isinstance(value, torch.Tensor) and name in tree:
                self._model_state[name] = decode(tree[name], name, self._targets.__getitem__)
        options = StateDictOptions(strict=True)
        set_model_state_dict(self._model, self._model_state, options=options)

    def extra(self) -> Any:
        return decode(self._trees.get("extra"), EXTRA_PATH, self._targets.__getitem__)

    def metrics(self) -> Any:
        return _plain(self._state.get("metrics", {}), "metrics")


def _plain(node: Any, path: str) -> Any:
    """Decodes a tree without tensors."""
    none: dict[str, Any] = {}
    return decode(node, path, none.__getitem__)


def _replace(target: Any, content: Mapping[str, Any]) -> None:
    target.clear()
    target.update(content)
