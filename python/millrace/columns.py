"""Which columns of a source become which fields: NAME=FIELD[:KIND], as for --column."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Literal

# What a column holds. "class": numbers with names. "null": nothing. "path": a path of a file.
Type = Literal[
    "image", "bytes", "text", "int", "float", "bool", "class", "array", "json", "null", "path"
]
KINDS = ("file", "image", "text", "int", "float", "bool", "json", "base64", "class", "key")
IMAGE_EXTENSIONS = ("jpg", "png", "webp", "ppm")
_FILE_EXTENSIONS = frozenset(
    "npy npz wav flac mp3 ogg opus m4a mp4 webm avi mov mkv "
    "jpeg bmp gif tif tiff pdf bin pt".split()
)
_IMAGE_NAMES = ("image", "img", "images", "imgs", "x", "photo", "picture", "pixel_values")
_TEXT_NAMES = ("text", "caption")
_CLASS_NAMES = ("label", "class", "category")
_EXTENSION_BYTES_MAX = 47
_FIELDS_MAX = 63


@dataclasses.dataclass(frozen=True)
class Field:
    column: str  # "*": all that are not mapped
    extension: str  # of files, "" or "mask.": that of the value follows
    kind: str
    is_optional: bool = False  # of a class: -1 means that the sample has none

    @property
    def is_open(self) -> bool:
        return self.kind in ("file", "image") and self.extension[-1:] in ("", ".")


def _last_part(extension: str) -> str:
    return extension.rpartition(".")[2]


def is_image_extension(extension: str) -> bool:
    return _last_part(extension) in IMAGE_EXTENSIONS


def _default_kind(extension: str) -> str | None:
    kinds = {"txt": "text", "json": "json", "cls": "class"}
    if extension in kinds:
        return kinds[extension]
    is_file = is_image_extension(extension) or _last_part(extension) in _FILE_EXTENSIONS
    return "file" if is_file else None


def _extension_is_valid(extension: str) -> bool:
    return (
        not re.search(r"[\x00-\x20\x7f/A-Z:]", extension)
        and not extension.startswith(".")
        and ".." not in extension
        and len(extension.encode()) <= _EXTENSION_BYTES_MAX
    )


def _refuse(name: str, mapping: object, expected: str) -> ValueError:
    return ValueError(f"fields[{name!r}] = {mapping!r}: expected {expected}")


def _parse_field(name: str, mapping: str) -> Field:
    extension, colon, kind_text = mapping.partition(":")
    if extension == "jpeg":
        extension = "jpg"
    kind = kind_text.removesuffix("?") if colon else _default_kind(extension)
    is_optional = kind_text == "class?"
    if kind is None:
        raise _refuse(name, mapping, "a kind after the field, such as :text, :int, :json or :file")
    if kind not in KINDS or (kind_text.endswith("?") and not is_optional):
        raise _refuse(name, mapping, f"a kind: {', '.join(KINDS)}")
    field = Field(name, extension, kind, is_optional)
    if not _extension_is_valid(extension):
        raise _refuse(name, mapping, "a field without capitals, spaces and slashes, such as 'jpg'")
    if kind in ("class", "key") and extension not in ("", "cls" if kind == "class" else ""):
        raise _refuse(name, mapping, "no field before :class or :key")
    if kind == "class":
        return dataclasses.replace(field, extension="cls")
    if kind not in ("file", "image", "key") and extension[-1:] in ("", "."):
        raise _refuse(name, mapping, "a field, such as 'txt'")
    if kind == "image" and not field.is_open and not is_image_extension(extension):
        raise _refuse(name, mapping, "an image field: jpg, png, webp or ppm")
    if name == "*" and kind != "json":
        raise _refuse(name, mapping, "'json': all other columns together are JSON")
    if name == "#" and kind != "key":
        raise _refuse(name, mapping, "':key': the row's number is only for keys")
    return field


def _places(field: Field) -> list[str]:
    """What no other column may become."""
    if field.kind == "key":
        return ["the key"]
    endings = IMAGE_EXTENSIONS if field.kind == "image" and field.is_open else ()
    return [field.extension, *(field.extension + ending for ending in endings)]


def _check(fields: list[Field]) -> None:
    """Two fields must not contradict each other."""
    owners: dict[str, Field] = {}
    for field in fields:
        for place in _places(field):
            other = owners.setdefault(place, field)
            if other is not field:
                raise ValueError(
                    f"the columns {other.column!r} and {field.column!r} both become "
                    f"{place or 'a file with its own extension'}; give one of them another field "
                    "with fields={NAME: FIELD}"
                )
    if len(fields) > _FIELDS_MAX:
        raise ValueError(f"{len(fields)} columns are mapped; at most {_FIELDS_MAX} can be")
    if all(field.kind == "key" for field in fields):
        raise ValueError("no column becomes a field")


def parse(fields: Mapping[str, str]) -> list[Field]:
    """ValueError: a mapping has the wrong form, or two contradict each other."""
    for name, mapping in fields.items():
        if not isinstance(name, str) or not isinstance(mapping, str):
            raise TypeError(f"fields[{name!r}] = {mapping!r}: expected the names and fields as str")
    parsed = [_parse_field(name, mapping) for name, mapping in fields.items()]
    _check(parsed)
    return parsed


def _safe_name(name: str) -> str:
    """The beginning of an extension."""
    safe = re.sub(r"[^a-z0-9_-]+", "_", name.lower()).strip("_")
    if not safe or len(safe) > _EXTENSION_BYTES_MAX - 4:
        raise ValueError(
            f"the name of the column {name!r} cannot be part of a field's name; "
            f"map it, such as fields={{{name!r}: 'x.bin'}}"
        )
    return safe


def _advise(what: str, names: Iterable[str], mapping: str) -> ValueError:
    pairs = ", ".join(f"{name!r}: {mapping.format(name)!r}" for name in names)
    return ValueError(f"{what}; map them, for example with fields={{{pairs}}}")


def _choose_image(types: Mapping[str, Type]) -> list[Field]:
    images = [name for name, kind in types.items() if kind == "image"]
    main = [name for name in images if name.lower() in _IMAGE_NAMES] if images[1:] else images
    if images and len(main) != 1:
        what = f"several columns hold images: {', '.join(images)}"
        raise _advise(what, images, "{}.:image")
    return [Field(name, "" if name in main else f"{_safe_name(name)}.", "image") for name in images]


def _choose_class(types: Mapping[str, Type]) -> list[Field]:
    named = [name for name in types if name.lower() in _CLASS_NAMES]
    for name in named:
        if types[name] == "float":
            raise ValueError(
                f"the column {name!r} holds floating-point numbers, not classes; fields="
                f"{{{name!r}: 'cls:int'}} takes whole ones as class numbers, {{'*': 'json'}} "
                "stores numbers"
            )
    classes = [name for name in named if types[name] in ("class", "int", "text")]
    classes = classes or [name for name, kind in types.items() if kind == "class"]
    return [Field(classes[0], "cls", "class")] if len(classes) == 1 else []


def choose(types: Mapping[str, Type]) -> list[Field]:
    """Fields by the columns' names and types: images; text or caption as txt; label, class or
    category as the class; arrays as npy, bytes as bin, and the others as JSON.
    """
    paths = [name for name, kind in types.items() if kind == "path"]
    if paths:
        what = f"the column {paths[0]!r} holds paths of files"
        raise _advise(f"{what}, or texts ('txt')", paths[:1], ":file")
    fields = _choose_image(types) + _choose_class(types)
    texts = [n for n, kind in types.items() if kind == "text" and n.lower() in _TEXT_NAMES]
    if len(texts) == 1:
        fields.append(Field(texts[0], "txt", "text"))
    for name, kind in types.items():
        if kind in ("array", "bytes"):
            ending = "npy" if kind == "array" else "bin"
            fields.append(Field(name, f"{_safe_name(name)}.{ending}", "file"))
    mapped = {field.column for field in fields}
    if any(name not in mapped and kind != "null" for name, kind in types.items()):
        fields.append(Field("*", "json", "json"))
    _check(fields)
    return fields


def choose_by_extension(types: Mapping[str, Type]) -> list[Field]:
    """Of a webdataset sample, whose columns are named by their extensions."""
    fields = []
    kinds = {"text": "text", "class": "int", "int": "int", "float": "float", "bool": "bool"}
    for name, kind in types.items():
        extension = name.lower()
        if not extension or not _extension_is_valid(extension) or extension.endswith("."):
            raise ValueError(
                f"{name!r} is no extension; map it, such as fields={{{name!r}: 'x.bin:file'}}"
            )
        default = _default_kind(extension) or kinds.get(kind)
        ending = "json" if _last_part(extension) == "json" or kind == "json" else "file"
        fields.append(Field(name, extension, default or ending))
    _check(fields)
    return fields


def describe(fields: list[Field], names: Iterable[str]) -> str:
    """Such as "image -> its extension (image), others -> json: width, height"."""
    parts = []
    mapped = {field.column for field in fields}
    others = [name for name in names if name not in mapped]
    for field in fields:
        if field.column == "*":
            continue
        if field.kind in ("class", "key"):
            parts.append(f"{field.column} -> {field.kind}")
        else:
            extension = "its extension" if field.extension == "" else field.extension
            extension += "EXT" if extension.endswith(".") else ""
            parts.append(f"{field.column} -> {extension} ({field.kind})")
    rest = next((field for field in fields if field.column == "*"), None)
    if rest and others:
        parts.append(f"others -> {rest.extension} (json): {', '.join(others)}")
    left_out = "" if rest or not others else f"; left out: {', '.join(others)}"
    return ", ".join(parts) + left_out
