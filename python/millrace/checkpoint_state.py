"""What a checkpoint holds of models, optimizers and loaders.

The tensors of a model have their names in the model (without those of wrappers), those of an
optimizer begin with "optimizer.", those of `extra` with "optimizer.extra.": so the section `model`
of a checkpoint has the model alone. Everything else is JSON in the state of the step.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
)

from .state_tree import encode

OPTIMIZER_PATH = "optimizer"
EXTRA_PATH = "optimizer.extra"
STATE_VERSION = 1


def is_optimizer_name(name: str) -> bool:
    return name.startswith(f"{OPTIMIZER_PATH}.")


def is_extra_name(name: str) -> bool:
    return name.startswith(f"{EXTRA_PATH}.") or name == EXTRA_PATH


def optimizers_of(optimizer: Any) -> list[Any]:
    """One or several optimizers as a list; none, if it is a dict."""
    if optimizer is None or isinstance(optimizer, Mapping):
        return []
    found = [optimizer] if isinstance(optimizer, torch.optim.Optimizer) else list(optimizer)
    for one in found:
        if not isinstance(one, torch.optim.Optimizer):
            raise TypeError(f"optimizer is of type {type(one).__name__}, and no optimizer or dict")
    return found


def model_state(model: Any) -> Any:
    """A dict of the model's own tensors. A dict is returned as it is."""
    if isinstance(model, torch.nn.Module):
        return get_model_state_dict(model)
    if isinstance(model, Mapping):
        return model
    raise TypeError(f"model is of type {type(model).__name__}, and no module or dict")


def optimizer_state(model: Any, optimizer: Any) -> Any:
    """A dict of the optimizer's own tensors, by the names of the model's parameters. A dict is
    returned as it is. torch fills a state that is empty, by a step without effect."""
    if isinstance(optimizer, Mapping):
        return optimizer
    optimizers = optimizers_of(optimizer)
    if not isinstance(model, torch.nn.Module):
        raise ValueError("an optimizer's parameters have their names in the model: pass it too")
    return get_optimizer_state_dict(model, optimizers)


@contextlib.contextmanager
def _without_first_step(optimizers: Iterable[Any]) -> Iterator[None]:
    """Keeps torch from filling an empty state, which would change the training: it does not if a
    parameter has a gradient."""
    marked = []
    for optimizer in optimizers:
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        if not optimizer.state and parameters and all(one.grad is None for one in parameters):
            parameters[0].grad = torch.zeros_like(parameters[0])
            marked.append(parameters[0])
    try:
        yield
    finally:
        for parameter in marked:
            parameter.grad = None


def collect(
    model: Any,
    optimizer: Any,
    loader: Any,
    extra: Any,
    metrics: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors by name, and the state."""
    tensors: dict[str, Any] = {}
    trees: dict[str, Any] = {"version": STATE_VERSION}
    state: dict[str, Any] = {"torch": trees}
    if model is not None:
        trees["model"] = encode(model_state(model), "", tensors)
        for name in tensors:
            if is_optimizer_name(name):
                raise ValueError(f"tensor {name!r} of the model has the name of an optimizer's")
    if optimizer is not None:
        with _without_first_step(optimizers_of(optimizer)):
            own = optimizer_state(model, optimizer)
        trees["optimizer"] = encode(own, OPTIMIZER_PATH, tensors)
    if extra is not None:
        trees["extra"] = encode(extra, EXTRA_PATH, tensors)
    if loader is not None:
        state["loader"] = _encode_plain(loader.state_dict(), "loader")
    if metrics is not None:
        numbers = {
            name: value if type(value) is int else float(value) for name, value in metrics.items()
        }
        state["metrics"] = _encode_plain(numbers, "metrics")
    return tensors, state


def _encode_plain(value: Any, path: str) -> Any:
    tensors: dict[str, Any] = {}
    node = encode(value, path, tensors)
    for name in tensors:
        raise TypeError(f"{name} is a tensor: pass it in extra")
    return node
