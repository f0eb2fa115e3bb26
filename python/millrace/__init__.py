"""millrace: data loading for training, with the same bits on any number of ranks and restarts."""

from typing import TYPE_CHECKING, Any

from .conversion import convert
from .dataset import Dataset
from .dataset import open as open  # not in __all__, so that `import *` leaves Python's alone
from .fields import (
    Array,
    Bool,
    Boxes,
    Bytes,
    Double,
    Field,
    Float,
    Image,
    Int,
    Json,
    Keypoints,
    Label,
    Mask,
    Text,
    Tokens,
    Windows,
)
from .frameworks import Ragged
from .loader import Loader
from .mapping import Map
from .sampling import Mix, Sample

if TYPE_CHECKING:
    from .checkpoint import Checkpoint, Checkpointer
    from .pytorch import IterableDataset

__all__ = [
    "Array",
    "Bool",
    "Boxes",
    "Bytes",
    "Checkpoint",
    "Checkpointer",
    "Dataset",
    "Double",
    "Field",
    "Float",
    "Image",
    "Int",
    "IterableDataset",
    "Json",
    "Keypoints",
    "Label",
    "Loader",
    "Map",
    "Mask",
    "Mix",
    "Ragged",
    "Sample",
    "Text",
    "Tokens",
    "Windows",
    "convert",
]


def __getattr__(name: str) -> Any:
    """Names that import PyTorch, when they are first used."""
    if name in ("Checkpoint", "Checkpointer"):
        try:
            from . import checkpoint
        except ImportError as error:
            raise ImportError(f"millrace.{name} needs PyTorch 2.5 or newer") from error
        return getattr(checkpoint, name)
    if name == "IterableDataset":
        from .pytorch import IterableDataset

        return IterableDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
