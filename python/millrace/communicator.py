"""Communication between the ranks of torch.distributed that torch itself does not use, so that
threads of the library can use it at any time."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

from . import _native

_SECRET_BYTES = 32
_PORT_DEFAULT = 29500  # torchrun's
_Result = TypeVar("_Result")


class Invitation(NamedTuple):
    """From rank 0 to the others."""

    address: str
    port: int
    token: int
    secret: bytes


def invite() -> Invitation:
    """On rank 0."""
    port = int(os.environ.get("MASTER_PORT", _PORT_DEFAULT))
    token, secret = secrets.randbits(64), secrets.token_bytes(_SECRET_BYTES)
    return Invitation(_address_of_this_machine(), port, token, secret)


def accept(
    invitation: Invitation | None, rank: int, ranks: int, timeout: float
) -> _native.Communicator:
    """Collective. None: of this process alone."""
    if invitation is None:
        return _native.Communicator()
    return _native.Communicator(rank=rank, ranks=ranks, timeout=timeout, **invitation._asdict())


def together(communicator: _native.Communicator, prepare: Callable[[], _Result]) -> _Result:
    """Runs on each rank. If it fails on one of them, all raise an error. Collective."""
    try:
        result = prepare()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        communicator.agree(text.encode("utf-8", "backslashreplace").decode())
        raise
    communicator.agree(None)
    return result


def _address_of_this_machine() -> str:
    """A name or address by which the other ranks reach this machine: MASTER_ADDR if that is this
    machine, else the address from which it reaches that."""
    master = os.environ.get("MASTER_ADDR", socket.gethostname())
    family, _, _, _, place = socket.getaddrinfo(master, 0, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as local:
        try:
            local.bind(place)
            return master
        except OSError:
            pass
    with socket.socket(family, socket.SOCK_DGRAM) as outward:
        outward.connect((place[0], _PORT_DEFAULT, *place[2:]))  # sends nothing
        return str(outward.getsockname()[0])


def ranks_of(group: Any) -> tuple[int, int]:
    """This process's rank and the number of ranks in a process group (None: all) of
    torch.distributed, if that is initialized and group is not False, else of this process alone."""
    distributed = torch.distributed
    if group is False or not (distributed.is_available() and distributed.is_initialized()):
        return 0, 1
    rank, ranks = distributed.get_rank(group), distributed.get_world_size(group)
    if rank < 0:
        raise ValueError("this rank is not in the process group")
    return rank, ranks


def open_communicator(group: Any, timeout: float) -> _native.Communicator:
    """Of the ranks of ranks_of(). Collective."""
    distributed = torch.distributed
    rank, ranks = ranks_of(group)
    if ranks == 1:
        return _native.Communicator()
    first = 0 if group is None else distributed.get_global_rank(group, 0)
    invitation = [invite() if rank == 0 else None]
    distributed.broadcast_object_list(invitation, src=first, group=group)
    assert invitation[0] is not None
    return accept(invitation[0], rank, ranks, timeout)
