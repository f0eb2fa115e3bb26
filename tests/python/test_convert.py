"""Samples that mr.convert stores, read back by other tools: tarfile, Pillow, NumPy, pyarrow."""

import datetime
import decimal
import hashlib
import io
import json
import logging
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

import millrace as mr
import numpy
import pytest
from PIL import Image as pillow

SMALL = {"shard_bytes": "64KiB"}


def read(folder) -> list[tuple[str, dict[str, bytes]]]:
    """The samples in their order."""
    samples: dict[str, dict[str, bytes]] = {}
    for path in sorted(pathlib.Path(folder).glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                folder_, _, base = member.name.rpartition("/")
                key, _, extension = base.partition(".")
                fields = samples.setdefault(f"{folder_}/{key}" if folder_ else key, {})
                assert extension not in fields
                fields[extension] = tar.extractfile(member).read()
    return list(samples.items())


def fields_of(folder) -> list[dict[str, bytes]]:
    return [fields for _, fields in read(folder)]


def classes_of(folder):
    return json.loads((pathlib.Path(folder) / "dataset.json").read_text())["millrace"].get(
        "classes"
    )


def convert(source, target, *arguments, is_complete=True, **options):
    """Also verifies the shards, unless samples lack an image or a class, which counts as bad."""
    result = mr.convert(source, target, *arguments, **options)
    if is_complete:
        subprocess.run([os.environ["MILLRACE"], "verify", target, "--quiet"], check=True)
    return result


def refused(source, target, *arguments, error=ValueError, match, **options):
    with pytest.raises(error, match=match):
        mr.convert(source, target, *arguments, **options)
    assert not (pathlib.Path(target) / "dataset.json").exists()


def digest(folder) -> dict[str, str]:
    files = (path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def npy(data: bytes):
    return numpy.load(io.BytesIO(data), allow_pickle=False)


def image_bytes(mode="RGB", size=(9, 7), format="PNG", seed=1, **options) -> bytes:
    rng = numpy.random.default_rng(seed)
    image = pillow.fromarray(rng.integers(0, 256, (*size[::-1], 3), numpy.uint8)).convert(mode)
    out = io.BytesIO()
    image.save(out, format, **options)
    return out.getvalue()


def same_pixels(data: bytes, image) -> bool:
    stored = pillow.open(io.BytesIO(data))
    if image.mode == "I;16":  # old versions of Pillow read it as "I"
        return (numpy.asarray(stored) == numpy.asarray(image)).all()
    return (stored.mode, stored.size, stored.tobytes(), stored.getpalette()) == (
        image.mode,
        image.size,
        image.tobytes(),
        image.getpalette(),
    )


# ---- Iterables of dicts. ----


def test_values_of_dicts_become_fields(tmp_path, caplog):
    caplog.set_level(logging.INFO, "millrace")
    jpeg = image_bytes(format="JPEG")
    rows = [
        {
            "image": pillow.open(io.BytesIO(jpeg)),
            "caption": "caf\u00e9",
            "label": 3,
            "vector": numpy.arange(3, dtype=">f4"),
            "blob": b"\0\xff",
            "score": 0.1,
            "big": 2**63 - 1,
            "huge": 2**80,
            "ok": True,
            "none": None,
            "tags": [1, "two", {"three": None}],
            "scalar": numpy.float32(0.1),
        },
        {"caption": "", "label": numpy.int64(0), "none": "x", "scalar": numpy.float32(2)},
    ]
    result = convert(iter(rows), tmp_path / "out", jpeg="keep", is_complete=False)
    assert result["samples_count"] == 2
    (first_key, first), (second_key, second) = read(tmp_path / "out")
    assert (first_key, second_key) == ("00000000", "00000001")
    assert first["jpg"] == jpeg
    assert (first["txt"], first["cls"], first["blob.bin"]) == ("café".encode(), b"3", b"\0\xff")
    vector = npy(first["vector.npy"])
    assert vector.dtype == numpy.dtype("<f4") and vector.tolist() == [0, 1, 2]
    assert json.loads(first["json"]) == {
        "score": 0.1,
        "big": 2**63 - 1,
        "huge": 2**80,
        "ok": True,
        "none": None,
        "tags": [1, "two", {"three": None}],
        "scalar": float(numpy.float32(0.1)),
    }
    assert second.keys() == {"txt", "cls", "json"} and second["cls"] == b"0"
    assert "image -> its extension (image), label -> class, caption -> txt (text)" in caplog.text
    assert "the first 2 rows decide" in caplog.text


def test_fields_map_columns_as_the_program_does(tmp_path):
    rows = [
        {"im": image_bytes(), "t": "x", "n": 7, "f": 2.5, "ok": False, "j": [1], "b": "AQI=",
         "l": "b", "id": f"a/{i}.x y", "left": 1, "m": b"mp3", "w": 3.0}
        for i in range(2)
    ]  # fmt: skip
    mapping = {
        "im": "mask.:image",
        "t": "prompt:text",
        "n": "n:int",
        "f": "f:float",
        "ok": "ok:bool",
        "j": "j:json",
        "b": "raw.bin:base64",
        "l": ":class",
        "id": ":key",
        "m": "mp3",
        "w": "w:int",
    }
    convert(rows, tmp_path / "out", mapping)
    (key, fields), (second, _) = read(tmp_path / "out")
    assert (key, second) == ("a/0_x_y", "a/1_x_y")
    assert fields == {
        "mask.png": image_bytes(),
        "prompt": b"x",
        "n": b"7",
        "f": b"2.5",
        "ok": b"false",
        "j": b"[1]",
        "raw.bin": b"\1\2",
        "cls": b"0",
        "mp3": b"mp3",
        "w": b"3",
    }
    assert classes_of(tmp_path / "out") == ["b"]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"t": "TXT:text"}, "without capitals"),
        ({"t": "a b:text"}, "without capitals"),
        ({"t": ".txt:text"}, "without capitals"),
        ({"t": "x"}, "a kind after the field"),
        ({"t": "x:string"}, "a kind: file, image"),
        ({"t": ":text"}, "a field, such as 'txt'"),
        ({"t": "x:class"}, "no field before :class"),
        ({"t": "gif:image"}, "an image field"),
        ({"*": "txt"}, "all other columns together"),
        ({"t": "txt", "u": "txt"}, "'t' and 'u' both become txt"),
        ({"t": "png", "u": ":image"}, "'t' and 'u' both become png"),
        ({"t": ":key", "u": ":key"}, "'t' and 'u' both become the key"),
        ({"t": ":key"}, "no column becomes a field"),
    ],
)
def test_wrong_mappings_are_refused(tmp_path, mapping, message):
    refused([{"t": "a", "u": "b"}], tmp_path / "out", mapping, match=message)


def test_names_of_columns_that_are_no_extensions(tmp_path):
    rows = [{"My Vector!": numpy.zeros(2), "A.B": b"\0"}]
    convert(rows, tmp_path / "out")
    assert fields_of(tmp_path / "out")[0].keys() == {"my_vector.npy", "a_b.bin"}
    rows = [{"a b": numpy.zeros(2), "a_b": numpy.zeros(2)}]
    refused(rows, tmp_path / "two", match="'a b' and 'a_b' both become a_b.npy")
    refused([{"é": b"\0"}], tmp_path / "two", match="'é' cannot be part .* fields={'é': 'x.bin'}")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "NaN and infinity are no JSON"),
        ({"a": [float("inf")]}, "NaN and infinity are no JSON"),
        (numpy.float32("nan"), "NaN and infinity are no JSON"),
        ({1: 2}, "the key 1 of a dict is no str"),
        ({"a": b"x"}, "bytes cannot be stored as JSON"),
        ({1, 2}, "set cannot be stored as JSON"),
        (1j, "complex cannot be stored as JSON"),
        (datetime.timedelta(1), "timedelta cannot be stored"),
        (decimal.Decimal("NaN"), "NaN is no JSON number"),
        ("\ud800", "surrogates"),
        ("a\0", "a text has a NUL"),
    ],
)
def test_values_without_exact_json_are_refused_by_row_and_column(tmp_path, value, message):
    rows = [{"good": 1, "bad": "\\u0000"}, {"good": 1, "bad": value}]
    error = (TypeError, ValueError)
    refused(rows, tmp_path / "out", error=error, match=f"row 1, column 'bad': .*{message}")


def test_exact_json(tmp_path):
    when = datetime.datetime(2024, 2, 29, 12, 0, 0, 1, datetime.UTC)
    value = {
        "when": when,
        "day": when.date(),
        "ns": numpy.datetime64("2024-02-29T12:00:00.123456789"),
        "nat": numpy.datetime64("NaT"),
        "money": decimal.Decimal("12.500000000000000000000001"),
        "array": numpy.array([[1, 2]], "u8") + 2**63,
        "flag": numpy.bool_(True),
        "text": "\\u0000 \\\\u0000",
    }
    convert([{"v": value}], tmp_path / "out")
    assert json.loads(fields_of(tmp_path / "out")[0]["json"])["v"] == {
        "when": "2024-02-29T12:00:00.000001+00:00",
        "day": "2024-02-29",
        "ns": "2024-02-29T12:00:00.123456789",
        "nat": None,
        "money": "12.500000000000000000000001",
        "array": [[2**63 + 1, 2**63 + 2]],
        "flag": True,
        "text": "\\u0000 \\\\u0000",
    }


@pytest.mark.parametrize("value", ["a\0", "\ud800", 3, b"\xff"])
def test_texts_with_nul_or_surrogates_are_refused(tmp_path, value):
    rows = [{"text": "x"}, {"text": value}]
    error = (TypeError, ValueError)
    refused(rows, tmp_path / "out", {"text": "txt"}, error=error, match="row 1, column 'text'")


def test_a_later_column_is_refused_and_a_later_type_too(tmp_path):
    rows = [{"text": "a"}] * 70 + [{"text": "a", "more": 1}]
    refused(rows, tmp_path / "out", match="row 70 has a column 'more'")
    rows = [{"text": "a"}] * 70 + [{"text": 1}]
    refused(rows, tmp_path / "out", error=TypeError, match="row 70, column 'text'")
    rows = [{"x": None, "text": "a"}] * 3
    refused(rows, tmp_path / "out", match="'x' is None in the first 3 rows")
    convert([{"text": "a", "more": 1}], tmp_path / "mapped", {"text": "txt"})
    assert fields_of(tmp_path / "mapped") == [{"txt": b"a"}]


def test_a_sample_without_fields_is_refused_by_its_row(tmp_path):
    rows = [{"text": "a"}] * 100 + [{"text": None}]
    refused(rows, tmp_path / "out", match="row 100: all its fields are null")


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([], RuntimeError, "the stream has no samples"),
        ([3], TypeError, "row 0 is a int: expected a dict or tuple"),
        ([{1: "a"}], TypeError, "the name 1 of a column is no str"),
        ([("a", 1), ("a",)], ValueError, "row 1 has 1 items, and the first one 2"),
        (5, TypeError, "a int is no source of samples"),
        (numpy.zeros((2, 2)), TypeError, "a ndarray is no source"),
    ],
)
def test_no_sources(tmp_path, rows, error, message):
    refused(rows, tmp_path / "out", error=error, match=message)


# ---- Keys. ----


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        ("", ValueError, "expected a name"),
        ("a/..", None, "a"),
        ("../a.b c", None, "a_b_c"),
        ("x.y/z", None, "x.y/z"),
        (17, None, "17"),
        ("a\nb", ValueError, "control characters"),
        ("k0", ValueError, "an earlier row has the key 'k0' too"),
        ("__x__/a", ValueError, "which readers skip"),
        ("é" * 600, ValueError, "more than 1022 bytes"),
        (None, TypeError, "found NoneType"),
        (1.5, TypeError, "found float"),
        (True, TypeError, "found bool"),
        (b"a", TypeError, "found bytes"),
    ],
)
def test_keys(tmp_path, key, error, message):
    rows = [{"id": "k0", "text": "a"}, {"id": key, "text": "b"}]
    mapping = {"id": ":key", "text": "txt"}
    if error:
        refused(
            rows, tmp_path / "out", mapping, error=error, match=f"row 1, column 'id': .*{message}"
        )
        return
    convert(rows, tmp_path / "out", mapping)
    assert [name for name, _ in read(tmp_path / "out")] == ["k0", message]


# ---- Classes. ----


def test_names_of_classes_are_numbered_in_byte_order_of_all_rows(tmp_path):
    names = ["b", "B", "é", "a"] * 40 + ["0last"]
    rows = [{"label": name, "text": "x"} for name in names]
    convert(rows, tmp_path / "list")
    assert classes_of(tmp_path / "list") == ["0last", "B", "a", "b", "é"]
    stored = [int(fields["cls"]) for fields in fields_of(tmp_path / "list")]
    assert [classes_of(tmp_path / "list")[number] for number in stored] == names
    refused(iter(rows), tmp_path / "once", match="classes=")
    convert(iter(rows), tmp_path / "once", classes=["é", "b", "B", "a", "0last", "more"])
    assert [fields["cls"] for fields in fields_of(tmp_path / "once")][:3] == [b"1", b"2", b"0"]
    refused(rows, tmp_path / "few", classes=["a", "b"], match="row 1, column 'label': 'B' is none")
    refused(rows, tmp_path / "few", classes=["a", "a"], match="a name twice")


def test_names_that_are_all_numbers_are_the_class_numbers(tmp_path):
    rows = [{"label": name, "text": "x"} for name in ("10", "9", "0")]
    convert(rows, tmp_path / "out")
    assert [fields["cls"] for fields in fields_of(tmp_path / "out")] == [b"10", b"9", b"0"]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (-1, ValueError, "-1 is no class number; ':class\\?' leaves -1 out"),
        (5, ValueError, "5 is no class number below 2"),
        (1.0, TypeError, "'cls:int' takes whole numbers"),
        (True, TypeError, "expected an integer, found True"),
        (numpy.bool_(True), TypeError, "expected an integer"),
    ],
)
def test_values_that_are_no_classes(tmp_path, value, error, message):
    rows = [{"label": 0, "text": "a"}, {"label": value, "text": "b"}]
    options = {"fields": {"label": ":class", "text": "txt"}, "classes": ["a", "b"]}
    message = f"row 1, column 'label': .*{message}"
    refused(rows, tmp_path / "out", error=error, match=message, **options)


def test_classes_that_the_mapping_permits(tmp_path):
    rows = [{"label": 1, "text": "a"}, {"label": -1, "text": "b"}]
    convert(rows, tmp_path / "out", {"label": ":class?", "text": "txt"}, is_complete=False)
    assert [fields.get("cls") for fields in fields_of(tmp_path / "out")] == [b"1", None]
    rows = [{"label": 1.0, "text": "a"}, {"label": 3.0, "text": "b"}]
    refused(rows, tmp_path / "two", match="'label' holds floating-point numbers")
    convert(rows, tmp_path / "two", {"label": "cls:int", "text": "txt"})
    assert [fields["cls"] for fields in fields_of(tmp_path / "two")] == [b"1", b"3"]


# ---- Images and arrays. ----


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_images_keep_their_mode_and_pixels(tmp_path, mode):
    if mode == "I;16":
        image = pillow.fromarray(numpy.arange(63, dtype="u2").reshape(7, 9) * 1000)
    else:
        image = pillow.open(io.BytesIO(image_bytes())).convert(mode)
    assert image.mode == mode
    convert([{"image": image}], tmp_path / "out")
    (fields,) = fields_of(tmp_path / "out")
    assert fields.keys() == {"png"} and same_pixels(fields["png"], image)


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "F", "I", "HSV", "LAB"])
def test_images_that_png_cannot_store_are_refused(tmp_path, mode):
    image = pillow.new("RGB", (4, 4)).convert(mode) if mode != "LAB" else pillow.new("LAB", (4, 4))
    rows = [{"image": image}]
    refused(rows, tmp_path / "out", match=f"row 0, column 'image': .* of mode '{mode}' exactly")


def test_files_of_images_are_kept_if_their_pixels_are(tmp_path):
    data = {
        "jpg": image_bytes(format="JPEG"),
        "png": image_bytes("P"),
        "webp": image_bytes(format="WEBP", lossless=True),
    }
    cmyk = image_bytes("CMYK", format="JPEG")
    bmp = image_bytes(format="BMP")
    for name, content in data.items():
        (tmp_path / f"a.{name}").write_bytes(content)
        loaded = pillow.open(tmp_path / f"a.{name}")
        loaded.load()
        changed = pillow.open(tmp_path / f"a.{name}")
        changed.putpixel((0, 0), 1 if name == "png" else (1, 2, 3))
        target = tmp_path / f"out-{name}"
        rows = [
            {"image": image}
            for image in [pillow.open(io.BytesIO(content)), loaded, changed, loaded.copy()]
        ]
        convert(rows, target, jpeg="keep")
        stored = fields_of(target)
        assert stored[0] == stored[1] == {name: content}
        assert same_pixels(stored[2]["png"], changed) and same_pixels(stored[3]["png"], loaded)
    draft = pillow.open(io.BytesIO(image_bytes(size=(64, 64), format="JPEG")))
    draft.draft("RGB", (16, 16))
    rows = [{"image": pillow.open(io.BytesIO(cmyk))}, {"image": pillow.open(io.BytesIO(bmp))}]
    convert([*rows, {"image": draft}], tmp_path / "others", jpeg="keep")
    first, second, third = fields_of(tmp_path / "others")
    assert first == {"jpg": cmyk} and same_pixels(second["png"], pillow.open(io.BytesIO(bmp)))
    assert same_pixels(third["png"], draft) and draft.size == (16, 16)


def test_rotated_and_animated_images(tmp_path):
    exif = pillow.Exif()
    exif[0x0112] = 6
    rotated = image_bytes(format="JPEG", exif=exif)
    convert([{"image": pillow.open(io.BytesIO(rotated))}], tmp_path / "out", jpeg="keep")
    assert fields_of(tmp_path / "out") == [{"jpg": rotated}]
    changed = pillow.open(io.BytesIO(rotated))
    changed.putpixel((0, 0), (0, 0, 0))
    refused([{"image": changed}], tmp_path / "two", match="exif_transpose")
    out = io.BytesIO()
    frames = [pillow.new("L", (4, 4), gray) for gray in (0, 255)]
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    refused([{"image": pillow.open(out)}], tmp_path / "two", match="animated image of 2 frames")


def test_bytes_and_paths_of_images(tmp_path):
    jpeg, png = image_bytes(format="JPEG"), image_bytes()
    (tmp_path / "a.png").write_bytes(png)
    rows = [{"image": jpeg}] * 70 + [{"image": png}, {"image": str(tmp_path / "a.png")}]
    convert(rows, tmp_path / "any", jpeg="keep")
    assert fields_of(tmp_path / "any") == [{"jpg": jpeg}] * 70 + [{"png": png}] * 2
    message = "row 70, column 'image': expected a file of type jpg, found png; ':image' stores"
    refused(rows, tmp_path / "jpg", {"image": "jpg"}, match=message)
    rows = [{"image": jpeg}] * 70 + [{"image": b"GIF89a"}]
    refused(rows, tmp_path / "gif", match="row 70, column 'image': no image")
    rows = [{"image": tmp_path / "a.png"}]
    refused(rows, tmp_path / "path", match="fields={'image': ':file'}")
    convert(rows, tmp_path / "path", {"image": ":file"})
    assert fields_of(tmp_path / "path") == [{"png": png}]
    rows = [{"image": str(tmp_path / "none.png")}]
    refused(rows, tmp_path / "none", {"image": "png"}, error=OSError, match="row 0, .*none.png")
    rows = [{"a": png, "b": png}]
    refused(rows, tmp_path / "several", match="several columns hold images: a, b; map them")
    convert([{"a": png, "image": png}], tmp_path / "several")
    assert fields_of(tmp_path / "several") == [{"a.png": png, "png": png}]


def test_arrays_keep_type_and_shape(tmp_path):
    arrays = [numpy.arange(24).astype(kind).reshape(2, 3, 4) for kind in "?bBhHiIqQefdFD"] + [
        numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        numpy.arange(6, dtype=">i4")[::2],
        numpy.array(2**63 + 1, "u8"),
        numpy.float16(0.1),
        numpy.zeros((0, 3), "f4"),
    ]
    convert([{"a": array} for array in arrays], tmp_path / "out", {"a": "npy"})
    for array, fields in zip(arrays, fields_of(tmp_path / "out"), strict=True):
        stored = npy(fields["npy"])
        assert stored.dtype == array.dtype.newbyteorder("<") and stored.flags.c_contiguous
        assert stored.shape == array.shape and (stored == array).all()
    for wrong in [numpy.array(["a"]), numpy.array([None]), numpy.zeros(2, "g"), [[1], [2, 3]]]:
        error = (TypeError, ValueError)
        rows = [{"a": wrong}]
        refused(rows, tmp_path / "no", {"a": "npy"}, error=error, match="row 0, column 'a'")


def test_pixels_become_png(tmp_path):
    rng = numpy.random.default_rng(1)
    shapes = [(5, 6), (5, 6, 3), (5, 6, 1)]
    arrays = [rng.integers(0, 256, shape, numpy.uint8) for shape in shapes]
    convert([{"image": array} for array in arrays], tmp_path / "out")
    for array, fields in zip(arrays, fields_of(tmp_path / "out"), strict=True):
        stored = numpy.asarray(pillow.open(io.BytesIO(fields["png"])))
        assert (stored == array.squeeze()).all()
    rows = [{"image": arrays[0]}, {"image": arrays[0].astype("f4")}]
    refused(rows, tmp_path / "no", match="'image' holds values of array and image")
    refused(
        rows,
        tmp_path / "no",
        {"image": "png"},
        error=TypeError,
        match="row 1, .*float32 .*is no image",
    )


# ---- Splits, options and the program's errors. ----


def test_each_sample_is_in_one_split(tmp_path):
    rows = [{"text": str(i)} for i in range(200)]
    result = convert(iter(rows), tmp_path / "out", split={"train": 0.8, "val": 0.2})
    assert [part["name"] for part in result["splits"]] == ["train", "val"]
    train, val = fields_of(tmp_path / "out/train"), fields_of(tmp_path / "out/val")
    texts = [fields["txt"] for fields in train + val]
    assert sorted(texts) == sorted(row["text"].encode() for row in rows) and len(val) in range(
        20, 60
    )
    convert(iter(rows), tmp_path / "again", split="train=0.8,val=0.2", num_workers=1)
    assert digest(tmp_path / "again") == digest(tmp_path / "out")
    refused(rows, tmp_path / "no", split={"train": 0.8}, match="fractions that sum to 1")


def test_a_dict_of_sources_has_a_split_for_each(tmp_path):
    parts = {
        "train": [{"text": "a", "label": "x"}, {"text": "b", "label": "z"}],
        "val": [{"text": "c", "label": "y"}],
    }
    result = convert(parts, tmp_path / "out")
    assert result["samples_count"] == 3
    for name, numbers in [("train", [b"0", b"2"]), ("val", [b"1"])]:
        assert classes_of(tmp_path / "out" / name) == ["x", "y", "z"]
        assert [fields["cls"] for fields in fields_of(tmp_path / "out" / name)] == numbers
    message = f"the target already has a dataset: {tmp_path / 'out/val'}"
    shutil.rmtree(tmp_path / "out/train")
    with pytest.raises(RuntimeError, match=message):  # before train is written
        mr.convert(parts, tmp_path / "out")
    assert not (tmp_path / "out/train/dataset.json").exists()
    parts["val"] = [{"text": "c", "label": 1}]
    refused(parts, tmp_path / "no", match="the splits have different classes in 'label'")
    parts["val"] = [{"text": "c"}]
    refused(parts, tmp_path / "no", match="the splits have different columns: train: .*; val: ")
    refused({"a/b": [{"text": "c"}]}, tmp_path / "no", match="'a/b' is no name of a split")
    refused(parts, tmp_path / "no", split="a=1", match="not for a source that has splits")


def test_options_and_errors_are_the_programs(tmp_path, millrace):
    rows = [{"text": "x" * 100}] * 50
    convert(rows, tmp_path / "out", zstd=True, shard_samples=10)
    assert len(list((tmp_path / "out").glob("*.tar.zst"))) == 5
    with pytest.raises(RuntimeError) as caught:
        mr.convert(rows, tmp_path / "out")
    assert str(caught.value) == (
        f"the target already has a dataset: {tmp_path / 'out'}; "
        "give another target or replace it with --force"
    )
    with pytest.raises(RuntimeError, match="has other files or options"):
        mr.convert(rows, tmp_path / "out", resume=True)
    convert(rows, tmp_path / "out", force=True)
    assert fields_of(tmp_path / "out") == [{"txt": b"x" * 100}] * 50
    refused(rows, tmp_path / "no", no_such=1, match="unknown option --no-such")
    refused(rows, tmp_path / "no", order="shuffle", error=(ValueError, RuntimeError), match="order")


def test_paths_go_to_the_program(tmp_path, millrace):
    lines = [{"id": f"k{i}", "text": f"t{i}", "n": i} for i in range(5)]
    path = tmp_path / "list.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    mapping = {"text": "txt", "id": ":key", "*": "json"}
    result = convert(path, tmp_path / "out", mapping, order="keep")
    assert result["samples_count"] == 5
    columns = [f"--column={name}={field}" for name, field in mapping.items()]
    millrace("convert", "dataset", path, tmp_path / "same", *columns, "--order=keep", "--quiet")
    assert digest(tmp_path / "out") == digest(tmp_path / "same")
    convert(lines, tmp_path / "rows", mapping)
    assert read(tmp_path / "rows") == read(tmp_path / "out")
    refused(tmp_path / "none", tmp_path / "no", error=RuntimeError, match="none")


def test_the_bytes_do_not_depend_on_workers(tmp_path):
    jpegs = [image_bytes(size=(40, 30), format="JPEG", seed=i) for i in range(30)]
    rows = [{"image": jpeg, "label": i % 3} for i, jpeg in enumerate(jpegs)]
    for workers in (1, 4):
        convert(iter(rows), tmp_path / str(workers), num_workers=workers, **SMALL)
    convert(lambda: rows, tmp_path / "callable", **SMALL)
    assert digest(tmp_path / "1") == digest(tmp_path / "4") == digest(tmp_path / "callable")
    assert len(list((tmp_path / "1").glob("*.tar"))) > 1


def test_warnings_of_the_program_are_logged(tmp_path, caplog):
    rows = [{"id": str(i), "image": image_bytes(format="JPEG") + b""} for i in range(3)]
    rows[1]["image"] = b"\xff\xd8\xff broken"
    mapping = {"id": ":key", "image": "jpg"}
    options = {"jpeg": "reencode", "on_error": "skip"}
    assert convert(rows, tmp_path / "out", mapping, **options)["skipped_count"] == 1
    assert [record.name for record in caplog.records if record.levelno >= logging.WARNING] == [
        "millrace"
    ]


# ---- Interruptions. ----


def many_rows(count):
    return [{"text": f"{i} " * 300, "id": f"k{i}"} for i in range(count)]


class Stop(Exception):
    pass


def rows_until(count, error):
    """Rows as fast as the program takes them, and then an exception."""
    yield from many_rows(count)
    raise error


def test_the_exception_of_an_iterable_comes_out_and_resuming_continues(tmp_path, caplog):
    caplog.set_level(logging.INFO, "millrace")
    whole, target = tmp_path / "whole", tmp_path / "out"
    options = {"identity": "v1", "num_workers": 2, **SMALL}
    convert(many_rows(900), whole, **options)
    error = Stop("mine")
    with pytest.raises(Stop) as caught:
        mr.convert(rows_until(700, error), target, resume=True, **options)
    assert caught.value is error and not (target / "dataset.json").exists()
    seen = []
    rows = iter(many_rows(900))
    convert((seen.append(row) or row for row in rows), target, resume=True, **options)
    assert digest(target) == digest(whole) and len(seen) == 900
    assert "the first" in caplog.text
    assert mr.convert(many_rows(900), target, resume=True, **options)["samples_count"] == 900
    with pytest.raises(RuntimeError, match="has other files or options"):
        mr.convert(many_rows(900), target, resume=True, **(options | {"identity": "v2"}))


def test_resuming_an_iterable_needs_an_identity(tmp_path):
    for source in (iter(many_rows(3)), lambda: many_rows(3)):
        refused(source, tmp_path / "out", resume=True, match="identity=TEXT")


class Rows:
    """A map-style source that fails once, and records what is read."""

    def __init__(self, count, fail_at=None):
        self.rows, self.fail_at, self.read = many_rows(count), fail_at, []

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        if i == self.fail_at:
            raise Stop(i)
        self.read.append(i)
        return self.rows[i]


@pytest.mark.parametrize("fields", [None, {"text": "txt", "id": ":key"}])
def test_a_map_style_source_resumes_without_reading_what_is_stored(tmp_path, fields):
    whole, target = tmp_path / "whole", tmp_path / "out"
    convert(Rows(900), whole, fields, **SMALL)
    with pytest.raises(Stop):
        mr.convert(Rows(900, 800), target, fields, **SMALL)
    rows = Rows(900)
    convert(rows, target, fields, resume=True, **SMALL)
    assert digest(target) == digest(whole)
    later = [i for i in rows.read if fields is not None or i >= 64]
    assert later == list(range(later[0], 900)) and later[0] > 64
    assert len(rows.read) == len(set(rows.read))


SENDER = """
import sys, time, millrace as mr
sys.path.append(sys.argv[1])
from test_convert import many_rows, SMALL
def rows():
    for i, row in enumerate(many_rows(900)):
        if i == 600:
            print("ready", flush=True)
            time.sleep(600)
        yield row
mr.convert(rows, sys.argv[2], identity="v1", num_workers=2, **SMALL)
"""


def start_sender(target):
    code = [sys.executable, "-c", SENDER, str(pathlib.Path(__file__).parent), str(target)]
    process = subprocess.Popen(code, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def children(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def wait_until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize("victim", ["SIGINT", "SIGKILL", "program"])
def test_death_leaves_no_dataset_and_resuming_continues(tmp_path, caplog, victim):
    whole, target = tmp_path / "whole", tmp_path / "out"
    process = start_sender(target)
    (program,) = children(process.pid)
    if victim == "program":
        os.kill(program, signal.SIGKILL)
        process.kill()  # it sleeps
    else:
        process.send_signal(getattr(signal, victim))
    errors = process.communicate(timeout=60)[1]
    if victim == "SIGINT":
        assert "KeyboardInterrupt" in errors
    wait_until(lambda: not pathlib.Path(f"/proc/{program}").exists())
    assert not (target / "dataset.json").exists()
    options = {"identity": "v1", **SMALL}
    convert(lambda: many_rows(900), whole, **options)
    caplog.set_level(logging.INFO, "millrace")
    convert(lambda: many_rows(900), target, resume=True, **options)
    assert digest(target) == digest(whole)
    if victim == "SIGKILL":  # the program has stored all that was sent
        assert re.search(r"leaving out the first [45]\d\d rows", caplog.text)


def test_the_death_of_the_program_is_an_error(tmp_path):
    def rows():
        for i, row in enumerate(many_rows(100000)):
            if i == 100:
                (program,) = children(os.getpid())
                os.kill(program, signal.SIGKILL)
            yield row

    refused(rows, tmp_path / "out", error=RuntimeError, match="was ended by SIGKILL")


def test_user_code_runs_in_the_callers_thread(tmp_path):
    threads = set()

    def rows():
        for row in many_rows(300):
            threads.add(threading.get_ident())
            yield row

    convert(rows, tmp_path / "out", num_workers=4, progress=True)
    assert threads == {threading.get_ident()}


def test_large_rows_are_sent_one_by_one(tmp_path, monkeypatch):
    from millrace import conversion, row_source

    monkeypatch.setattr(row_source, "_BATCH_BYTES", 1000)
    sizes, encode = [], conversion._encode
    monkeypatch.setattr(
        conversion, "_encode", lambda batch, row: (sizes.append(batch.rows), encode(batch, row))[1]
    )
    rows = [{"text": "x" * size} for size in [9] * 300 + [2000] * 80]
    convert(iter(rows), tmp_path / "out")
    assert max(sizes) == 64 and sizes[-1] == 1 and sum(sizes) == len(rows)
    assert [row["txt"].decode() for row in fields_of(tmp_path / "out")] == [
        row["text"] for row in rows
    ]


def test_the_choice_is_shown_with_the_progress(tmp_path, capsys):
    convert([{"text": "a", "n": 1}], tmp_path / "out", progress=True)
    errors = capsys.readouterr().err
    assert "columns: text -> txt (text), others -> json (json): n\n" in errors
    assert "converting  1/1 samples" in errors
