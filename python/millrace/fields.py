"""Fields of a batch: what is read from a sample, and how it becomes an array.

A loader takes a dict of them by name: ``{"image": Image(224), "label": Label()}``. They are the
fields of ``millrace read --field``, with the same meaning and the same bits.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

IMAGE_EXTENSIONS = "jpg;jpeg;png;webp;ppm"


def _flatten(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options without those that are None, with the prefix of their struct."""
    return {prefix + key: value for key, value in options.items() if value is not None}


_COLORS = ("brightness", "contrast", "saturation", "hue")


class Field:
    """Base of all fields."""

    def _options(self) -> dict[str, Any]:
        """The field as the extension's dict (python/native/options.h), without its name."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Image(Field):
    """An image: uint8, or as dtype, mean and std say.

    The field ``image`` is the image of a sample. Others have random choices of their own, unless
    they follow one: then they get its crop, size, flip and moves, but keep their colors.

    size: pixels of the square's side, or (height, width)
    crop: "random" (torchvision's RandomResizedCrop; the default), "center" or "none" (the whole
        image)
    scale: of a random crop, the smallest and largest part of the image's area, by default 0.08, 1
    center_fraction: of a center crop, its part of the image's shorter side, by default 1
    randaugment: (operations, magnitude); jitter: brightness, contrast, saturation and hue, or the
        first of these
    layout: "channels_last": pixel by pixel; in PyTorch a tensor [channels, height, width] in the
        memory format torch.channels_last, elsewhere an array [height, width, channels]. "hwc": the
        latter everywhere. "chw": [channels, height, width], plane by plane
    mean, std: of floats, in units of 0 to 1, as of torchvision's normalize
    """

    size: int | tuple[int, int] | None = None
    source: str = IMAGE_EXTENSIONS
    crop: Literal["random", "center", "none"] | None = None
    flip: bool = False
    scale: tuple[float, float] | None = None
    center_fraction: float | None = None
    randaugment: tuple[int, int] | None = None
    jitter: Sequence[float] = ()
    layout: Literal["channels_last", "hwc", "chw"] = "channels_last"
    dtype: Literal["u8", "f32", "f16", "bf16"] = "u8"
    channels: Literal[1, 3] = 3
    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    follows: str | None = None

    def __post_init__(self) -> None:
        of_own = ("size", "crop", "flip", "scale", "center_fraction", "randaugment", "jitter")
        given = [name for name in of_own if getattr(self, name)]
        if self.follows is not None and given:
            raise ValueError(
                f"an image that follows {self.follows!r} gets its size, crop and augmentations; "
                f"remove {', '.join(given)}"
            )
        if self.follows is None and self.size is None:
            raise ValueError("an image needs a size, or follows another image")
        if self.scale is not None and self._crop != "random":
            raise ValueError(f"scale is for random crops, and not for {self.crop!r}")
        if self.center_fraction is not None and self._crop != "center":
            raise ValueError(f"center_fraction is for crop='center', and not for {self._crop!r}")
        if len(self.jitter) > len(_COLORS):
            raise ValueError(f"jitter has {len(self.jitter)} values, and at most {len(_COLORS)}")

    @property
    def _crop(self) -> str:
        return self.crop or "random"

    def _geometry(self) -> dict[str, Any]:
        if self.size is None:
            return {}
        height, width = (self.size, self.size) if isinstance(self.size, int) else self.size
        scale = self.scale or (0.08, 1.0)
        crop = {
            "kind": self._crop,
            "scale_min": scale[0],
            "scale_max": scale[1],
            "ratio_min": 3 / 4,
            "ratio_max": 4 / 3,
            "center_fraction": self.center_fraction or 1.0,
            "flip": self.flip,
        }
        augment = dict(zip(_COLORS, self.jitter, strict=False))
        if self.randaugment is not None:
            operations, magnitude = self.randaugment
            augment |= {"randaugment_ops": operations, "randaugment_magnitude": magnitude}
        return {
            "width": width,
            "height": height,
            **_flatten("crop.", crop),
            **_flatten("augment.", augment),
        }

    def _mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """By channel, of three."""

        def by_channel(value: float | Sequence[float], name: str) -> tuple[float, ...]:
            if isinstance(value, (int, float)):
                return (float(value),) * 3
            if len(value) != self.channels:
                raise ValueError(f"{name} has {len(value)} values for {self.channels} channels")
            return tuple(float(value[i % self.channels]) for i in range(3))

        return by_channel(self.mean, "mean"), by_channel(self.std, "std")

    def _normalize(self) -> dict[str, Any]:
        mean, std = self._mean_std()
        return {
            "layout": "chw" if self.layout == "chw" else "hwc",
            "dtype": self.dtype,
            "channels": self.channels,
            "mean": mean,
            "std": std,
        }

    def _main_options(self) -> dict[str, Any]:
        """Of the loader, for the field "image"."""
        return {
            "image.field": self.source,
            **_flatten("image.", self._geometry()),
            **_flatten("image.normalize.", self._normalize()),
        }

    def _options(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "decode": "image",
            **_flatten("", {"follows": self.follows}),
            **_flatten("image.", self._geometry()),
            **_flatten("normalize.", self._normalize()),
        }


@dataclasses.dataclass(frozen=True)
class Label(Field):
    """A class number, int64.

    source: the field of the sample; path: of JSON, where the value is, such as ``$.class.id``
    map: a file of class names, one per line, of which the stored value is one
    """

    source: str = "cls"
    path: str | None = None
    map: str | None = None

    def _main_options(self) -> dict[str, Any]:
        """Of the loader, for the field "label" of images."""
        options = {"from": self.source, "path": self.path, "map": self.map}
        return {
            "image.requires_label": True,
            "image.label_dtype": "i64",
            **_flatten("image.label.", options),
        }

    def _options(self) -> dict[str, Any]:
        options = {"from": self.source, "path": self.path, "map": self.map}
        return {"decode": "int", **_flatten("", options)}


@dataclasses.dataclass(frozen=True)
class _Stored(Field):
    source: str
    path: str | None = None
    default: Any = None

    def _stored_options(self, decode: str) -> dict[str, Any]:
        default = self.default
        if default is not None and not isinstance(default, str):
            default = json.dumps(default)
        options = {"from": self.source, "path": self.path, "default": default}
        return {"decode": decode, **_flatten("", options)}


class Bytes(_Stored):
    """The stored bytes of each sample: uint8, ragged."""

    def _options(self) -> dict[str, Any]:
        return self._stored_options("bytes")


class Text(_Stored):
    """UTF-8 text: uint8, ragged."""

    def _options(self) -> dict[str, Any]:
        return self._stored_options("str")


class Json(_Stored):
    """JSON text, or the value at a path in compact form: uint8, ragged."""

    def _options(self) -> dict[str, Any]:
        return self._stored_options("json")


class Float(_Stored):
    """A JSON number, float32."""

    def _options(self) -> dict[str, Any]:
        return self._stored_options("f32")


class Double(_Stored):
    """A JSON number, float64."""

    def _options(self) -> dict[str, Any]:
        return self._stored_options("f64")


class Bool(_Stored):
    """A JSON truth value."""

    def _options(self) -> dict[str, Any]:
        return self._stored_options("bool")


@dataclasses.dataclass(frozen=True)
class Int(_Stored):
    """A JSON integer, or with a map a name in that file: int64."""

    map: str | None = None

    def _options(self) -> dict[str, Any]:
        return self._stored_options("int") | _flatten("", {"map": self.map})


@dataclasses.dataclass(frozen=True)
class Array(_Stored):
    """A NumPy file of this dtype ("f32") and rank, or with a path a JSON array: ragged."""

    dtype: str = "f32"
    rank: int = 1
    map: str | None = None
    follows: str | None = None

    def _options(self) -> dict[str, Any]:
        options = {"dtype": self.dtype, "rank": self.rank, "map": self.map, "follows": self.follows}
        return self._stored_options("array") | _flatten("", options)


@dataclasses.dataclass(frozen=True)
class Tokens(_Stored):
    """The token ids of a text: int32, [length] and ``NAME_length``, or ragged without a length.

    tokenizer: a tokenizer.json, or a folder with encoder.json and vocab.bpe
    begin, end: names of special tokens around each text, such as ``<|endoftext|>``
    """

    tokenizer: str = dataclasses.field(kw_only=True)
    length: int = 0
    pad: int = 0
    begin: str | None = None
    end: str | None = None

    def _options(self) -> dict[str, Any]:
        options = {
            "tokenizer": self.tokenizer,
            "length": self.length,
            "pad": self.pad,
            "begin": self.begin,
            "end": self.end,
        }
        return self._stored_options("tokens") | _flatten("", options)


@dataclasses.dataclass(frozen=True)
class Windows(Field):
    """Windows of a dataset of tokens: int32 [block + 1], with the target of the last token."""

    block: int
    source: str = "npy"

    def _main_options(self) -> dict[str, Any]:
        return {"text.field": self.source, "text.block": self.block}


@dataclasses.dataclass(frozen=True)
class Mask(Field):
    """The class of each pixel of an image that it follows: [height, width]."""

    source: str
    follows: str = "image"
    dtype: Literal["u8", "u16", "i32", "i64"] = "u8"

    def _options(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "decode": "labels",
            "follows": self.follows,
            "dtype": self.dtype,
        }


@dataclasses.dataclass(frozen=True)
class Boxes(Field):
    """Boxes in an image that they follow: float32 [n, 4], ragged: x0, y0, x1, y1 in pixels."""

    source: str
    path: str | None = None
    follows: str = "image"
    box_format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy"
    normalized: bool = False
    visible_min: float = 0.0

    def _options(self) -> dict[str, Any]:
        options = {
            "from": self.source,
            "path": self.path,
            "follows": self.follows,
            "box_format": self.box_format,
            "normalized": self.normalized,
            "visible_min": self.visible_min,
        }
        return {"decode": "boxes", **_flatten("", options)}


@dataclasses.dataclass(frozen=True)
class Keypoints(Field):
    """Points in an image that they follow: float32 [n, 3], ragged: x, y, visibility."""

    source: str
    path: str | None = None
    follows: str = "image"
    normalized: bool = False

    def _options(self) -> dict[str, Any]:
        options = {
            "from": self.source,
            "path": self.path,
            "follows": self.follows,
            "normalized": self.normalized,
        }
        return {"decode": "keypoints", **_flatten("", options)}


def field_options(fields: Mapping[str, Field]) -> dict[str, Any]:
    """The main field ("image" with "label", or windows of tokens) and the others."""
    for name, field in fields.items():
        if not isinstance(field, Field):
            raise TypeError(f"field {name!r} is {field!r}, and none of millrace's fields")
    options: dict[str, Any] = {"decode": "record"}
    others = dict(fields)
    image, label = others.get("image"), others.get("label")
    if isinstance(image, Image) and image.follows is None:
        options |= {"decode": "image", **image._main_options()}
        del others["image"]
        if isinstance(label, Label):
            options |= label._main_options()
            del others["label"]
        elif label is not None:
            raise ValueError(f'beside "image", the field "label" must be a Label, not {label!r}')
    windows = [name for name, field in fields.items() if isinstance(field, Windows)]
    if windows:
        if windows != ["tokens"] or len(fields) > 1:
            raise ValueError('windows of tokens are the only field, with the name "tokens"')
        window = others.pop("tokens")
        assert isinstance(window, Windows)
        options |= {"decode": "tokens", **window._main_options()}
    options["fields"] = [{"name": name, **field._options()} for name, field in others.items()]
    return options


def channels_last_names(fields: Mapping[str, Field]) -> list[str]:
    """The fields that PyTorch gets as [channels, height, width] in this memory format."""
    return [
        name
        for name, field in fields.items()
        if isinstance(field, Image) and field.layout == "channels_last"
    ]
