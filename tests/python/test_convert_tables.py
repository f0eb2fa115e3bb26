"""Tables, Parquet files and datasets that mr.convert stores, read back by other tools."""

import datetime
import decimal
import io
import json
import logging
import os
import threading

import millrace as mr
import numpy
import pytest
from PIL import Image as pillow
from test_convert import (
    SMALL,
    Stop,
    classes_of,
    convert,
    digest,
    fields_of,
    image_bytes,
    npy,
    read,
    refused,
)

pa = pytest.importorskip("pyarrow", "14")
import pyarrow.parquet as pq


def needs(name):
    return pytest.importorskip(name)


def json_of(folder):
    return [json.loads(fields["json"]) for fields in fields_of(folder)]


def test_arrow_columns_become_fields(tmp_path, caplog):
    caplog.set_level(logging.INFO, "millrace")
    jpeg, png = image_bytes(format="JPEG"), image_bytes()
    table = pa.table(
        {
            "image": pa.array([jpeg, png, None], pa.large_binary()),
            "text": pa.array(["caf\u00e9", "", None]).dictionary_encode(),
            "label": pa.array([3, 0, None], pa.uint8()),
            "vector": pa.array(
                [[numpy.float16(1), numpy.float16(2)], [numpy.float16(3)], None],
                pa.list_(pa.float16()),
            ),
            "blob": pa.array([b"\0a", b"\1b", None], pa.binary(2)),
            "big": pa.array([2**63 - 1, -(2**63), None]),
            "huge": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "real": pa.array([0.1, 1e300, None]),
            "single": pa.array([0.1, 2, None], pa.float32()),
            "ok": pa.array([True, False, None]),
            "tags": pa.array([["a"], [], None]),
            "meta": pa.array([{"a": 1, "b": [None]}, {"a": None, "b": []}, None]),
            "money": pa.array([decimal.Decimal("1.10"), decimal.Decimal("-2.00"), None]),
            "when": pa.array([1, 10**9, None], pa.timestamp("ns", "UTC")),
            "day": pa.array([datetime.date(2024, 2, 29), None, None]),
            "nothing": pa.nulls(3),
            "last": ["x", "y", "z"],
        }
    )
    convert(table, tmp_path / "out", jpeg="keep", is_complete=False)
    stored = fields_of(tmp_path / "out")
    assert [row.keys() for row in stored] == [
        {"jpg", "txt", "cls", "vector.npy", "blob.bin", "json"},
        {"png", "txt", "cls", "vector.npy", "blob.bin", "json"},
        {"json"},
    ]
    assert (stored[0]["jpg"], stored[1]["png"]) == (jpeg, png)
    assert [row.get("txt") for row in stored] == ["caf\u00e9".encode(), b"", None]
    assert [row.get("cls") for row in stored] == [b"3", b"0", None]
    assert [row.get("blob.bin") for row in stored] == [b"\0a", b"\1b", None]
    vectors = [npy(row["vector.npy"]) for row in stored[:2]]
    assert [vector.tolist() for vector in vectors] == [[1, 2], [3]]
    assert all(vector.dtype == "<f2" for vector in vectors)
    first, second, third = json_of(tmp_path / "out")
    assert first == {
        "big": 2**63 - 1,
        "huge": 2**64 - 1,
        "real": 0.1,
        "single": float(numpy.float32(0.1)),
        "ok": True,
        "tags": ["a"],
        "meta": {"a": 1, "b": [None]},
        "money": "1.10",
        "when": "1970-01-01T00:00:00.000000001Z",
        "day": "2024-02-29",
        "nothing": None,
        "last": "x",
    }
    assert (second["big"], second["money"], second["day"]) == (-(2**63), "-2.00", None)
    assert set(third.values()) == {None, "z"}
    assert "left out, because they hold only nulls: nothing" in caplog.text


def test_arrays_of_arrow_keep_type_and_shape(tmp_path):
    values = numpy.arange(24, dtype="f4").reshape(2, 3, 4)
    flat = pa.array(values.ravel())
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    rows = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(flat, 4), 3)
    table = pa.table(
        {
            "tensor": tensor,
            "fixed": rows,
            "longs": pa.array([[1, 2**62], []], pa.large_list(pa.int64())),
            "flags": pa.array([[True, False], [False]], pa.list_(pa.bool_())),
            "ragged": pa.array([[[1, 2], [3]], [[4]]], pa.list_(pa.list_(pa.int8()))),
            "even": pa.array([[[1, 2], [3, 4]], [[5, 6]]], pa.list_(pa.list_(pa.int8()))),
        }
    )
    convert(table.slice(0, 2), tmp_path / "out")
    for i, row in enumerate(fields_of(tmp_path / "out")):
        for name in ("tensor", "fixed"):
            stored = npy(row[f"{name}.npy"])
            assert stored.dtype == "<f4" and (stored == values[i]).all()
        assert npy(row["longs.npy"]).dtype == "<i8" and npy(row["flags.npy"]).dtype == "?"
    assert npy(fields_of(tmp_path / "out")[0]["longs.npy"]).tolist() == [1, 2**62]
    assert json_of(tmp_path / "out")[0] == {"ragged": [[1, 2], [3]], "even": [[1, 2], [3, 4]]}
    convert(table.slice(1), tmp_path / "later", {"fixed": "npy", "even": "e.npy"})
    (row,) = fields_of(tmp_path / "later")
    assert (npy(row["npy"]) == values[1]).all()
    assert npy(row["e.npy"]).dtype == "i1" and npy(row["e.npy"]).tolist() == [[5, 6]]
    match = "row 0, column 'ragged': .*inhomogeneous"
    refused(table, tmp_path / "no", {"ragged": "npy"}, match=match)
    nulls = pa.table({"a": pa.array([[1], [None]], pa.list_(pa.int8()))})
    refused(nulls, tmp_path / "no", match="row 1, column 'a': an array with a null")
    kind = pa.fixed_shape_tensor(pa.int8(), (2, 3), permutation=(1, 0))
    storage = pa.array([list(range(6))], pa.list_(pa.int8(), 6))
    turned = pa.table({"a": pa.ExtensionArray.from_storage(kind, storage)})
    refused(turned, tmp_path / "no", match="permutation")


@pytest.mark.parametrize(
    ("column", "mapping", "error", "message"),
    [
        (pa.array([0.0, float("nan")]), "x:float", ValueError, "row 1, column 'a': nan"),
        (pa.array([0.0, float("inf")]), None, ValueError, "row 1, column 'a': NaN and inf"),
        (pa.array([1, 2], pa.duration("s")), None, TypeError, "row 0, column 'a': timedelta"),
        (pa.array(["x", "y\0"]), "txt", ValueError, "row 1, column 'a': the text has a NUL"),
        (pa.array([b"x", b"\xff"]), "txt", ValueError, "row 1, column 'a'"),
        (pa.array([b"\xff\xd8\xff", b"x"]), "jpg", ValueError, "row 1, column 'a': expected a fil"),
        (pa.array([0, -1]), ":class", ValueError, "row 1, column 'a': -1 is no class number"),
        (pa.array([0.0, 1.0]), ":class", TypeError, "row 0, column 'a': 0.0 is no class number"),
        (pa.array([True, False]), ":class", TypeError, "row 0, column 'a': expected an integer"),
        (pa.array([1.0, 1.5]), "x:int", ValueError, "row 1, column 'a': expected an integer"),
        (pa.array(["k", "k"]), ":key", ValueError, "row 1, column 'a': an earlier row"),
        (pa.array(["k", None]), ":key", TypeError, "row 1, column 'a': expected a key"),
        (pa.array([1.0, 2.0]), ":key", TypeError, "row 0, column 'a': expected a key"),
        (pa.array([{"a": b"x"}, None]), None, TypeError, "row 0, column 'a': bytes cannot"),
        (pa.array([1, 2]), "txt", TypeError, "row 0, column 'a': expected a text"),
        (pa.array([[1], [2]]), "png", ValueError, "'a' holds arrays of list"),
    ],
)
def test_values_that_cannot_be_stored_are_refused(tmp_path, column, mapping, error, message):
    filler = ["f"] * 2
    fields = None if mapping is None else {"a": mapping, "b": "b:text"}
    table = pa.table({"a": column, "b": filler})
    refused(table, tmp_path / "out", fields, error=error, match=message)


def test_empty_and_tiny_chunks(tmp_path):
    png = image_bytes()
    chunks = [pa.table({"image": pa.array(part, pa.binary())}) for part in ([], [png], [], [png])]
    convert(pa.concat_tables(chunks), tmp_path / "out")
    assert fields_of(tmp_path / "out") == [{"png": png}] * 2
    empty = chunks[0]
    pq.write_table(empty, tmp_path / "empty.parquet")
    for source in (empty, empty.to_reader(), tmp_path / "empty.parquet"):
        refused(source, tmp_path / "no", error=RuntimeError, match="the stream has no samples")


def test_rows_in_later_batches_are_named(tmp_path):
    texts = [str(i) for i in range(20000)]
    texts[17000] = "\0"
    refused(pa.table({"text": texts}), tmp_path / "out", match="row 17000, column 'text'")
    texts[17000] = None
    refused(pa.table({"text": texts}), tmp_path / "out", match="row 17000: all its fields are null")
    table = pa.table({"a": ["x"]})
    refused(table, tmp_path / "out", {"b": "txt"}, match="no column 'b', but a")
    twice = pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"])
    refused(twice, tmp_path / "out", match="several columns have the name 'a'")


def test_a_column_of_nulls_is_named(tmp_path, caplog):
    table = pa.table({"text": pa.array([None, None], pa.string()), "n": [1, 2]})
    convert(table, tmp_path / "out")
    assert "no sample has txt: 'text' is null in all rows" in caplog.text


def test_string_labels_are_numbered_over_the_whole_source(tmp_path):
    names = ["b", "a"] * 6000 + ["B"]
    table = pa.table({"label": names, "text": ["x"] * len(names)})
    convert(table, tmp_path / "table")
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=500)
    convert(tmp_path / "a.parquet", tmp_path / "parquet")
    encoded = table.set_column(0, "label", table["label"].dictionary_encode())
    convert(encoded, tmp_path / "dictionary")
    for name in ("table", "parquet", "dictionary"):
        assert classes_of(tmp_path / name) == ["B", "a", "b"]
        numbers = [int(fields["cls"]) for fields in fields_of(tmp_path / name)]
        assert [["B", "a", "b"][number] for number in numbers] == names
    refused(table.to_reader(), tmp_path / "once", match="give all of them with classes=")
    convert(table.to_reader(), tmp_path / "once", classes=["a", "b", "B"])
    assert fields_of(tmp_path / "once")[0]["cls"] == b"1"


def test_a_reader_is_read_once(tmp_path):
    schema = pa.schema([("text", pa.string())])
    threads, begun = set(), []

    def batches():
        begun.append(1)
        for i in range(30):
            threads.add(threading.get_ident())
            yield pa.record_batch([[f"{i} {j}" for j in range(i)]], schema=schema)

    convert(pa.RecordBatchReader.from_batches(schema, batches()), tmp_path / "out")
    texts = [fields["txt"].decode() for fields in fields_of(tmp_path / "out")]
    assert texts == [f"{i} {j}" for i in range(30) for j in range(i)]
    assert threads == {threading.get_ident()} and begun == [1]
    reader = pa.RecordBatchReader.from_batches(schema, batches())
    refused(reader, tmp_path / "no", resume=True, match="identity=TEXT")


# ---- pandas and polars. ----


def test_pandas(tmp_path):
    pd = needs("pandas")
    frame = pd.DataFrame(
        {
            "text": ["a", None, "c"],
            "label": pd.Categorical(["z", "y", "z"]),
            "score": [1.5, float("nan"), 2],
            "when": pd.to_datetime(["2024-02-29", None, "2024-03-01"]),
            "count": pd.array([1, None, 2**53 + 1], "Int64"),
        },
        index=[5, 5, 6],
    )
    convert(frame, tmp_path / "out")
    assert classes_of(tmp_path / "out") == ["y", "z"]
    stored = fields_of(tmp_path / "out")
    assert [row.get("txt") for row in stored] == [b"a", None, b"c"]
    assert [row["cls"] for row in stored] == [b"1", b"0", b"1"]
    rows = json_of(tmp_path / "out")
    assert [row["score"] for row in rows] == [1.5, None, 2.0]
    assert [row["count"] for row in rows] == [1, None, 2**53 + 1]
    assert rows[0]["when"].startswith("2024-02-29T00:00:00") and rows[1]["when"] is None
    refused(pd.DataFrame({0: ["a"]}), tmp_path / "no", error=TypeError, match="no str; rename")


def test_pandas_with_objects(tmp_path):
    pd = needs("pandas")
    image = pillow.open(io.BytesIO(image_bytes()))
    frame = pd.DataFrame(
        {
            "image": [image, image],
            "a": [numpy.zeros((2, 3), "f4"), numpy.ones((2, 3), "f4")],
            "meta": [{"x": 1}, {"y": None}],
            "score": [1.5, float("nan")],
        }
    )
    convert(frame, tmp_path / "out")
    first, second = fields_of(tmp_path / "out")
    assert npy(second["a.npy"]).tolist() == [[1] * 3] * 2 and npy(first["a.npy"]).dtype == "<f4"
    assert json_of(tmp_path / "out") == [
        {"meta": {"x": 1}, "score": 1.5},
        {"meta": {"y": None}, "score": None},
    ]


def test_polars(tmp_path):
    pl = needs("polars")
    frame = pl.DataFrame(
        {
            "text": ["a", None],
            "label": pl.Series(["z", "y"], dtype=pl.Categorical),
            "vector": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Float32, 2)),
            "n": [2**60, None],
        }
    )
    convert(frame, tmp_path / "out")
    assert classes_of(tmp_path / "out") == ["y", "z"]
    first, second = fields_of(tmp_path / "out")
    assert first["txt"] == b"a" and "txt" not in second
    assert npy(first["vector.npy"]).dtype == "<f4" and npy(first["vector.npy"]).tolist() == [1, 2]
    assert json_of(tmp_path / "out") == [{"n": 2**60}, {"n": None}]
    nan = pl.DataFrame({"score": [1.0, float("nan")]})
    refused(nan, tmp_path / "no", match="row 1, column 'score': NaN")


# ---- Parquet. ----


def write_parts(folder, rows=900, parts=3):
    texts = [f"{i} " * 300 for i in range(rows)]
    size = rows // parts
    for part in range(parts):
        table = pa.table({"text": texts[part * size : (part + 1) * size], "n": range(size)})
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / f"part-{part}.parquet", row_group_size=70)
    return [text.encode() for text in texts]


def test_parquet_files_are_read_in_order(tmp_path):
    texts = write_parts(tmp_path / "in")
    files = [tmp_path / "in" / f"part-{i}.parquet" for i in range(3)]
    for name, source in [
        ("folder", tmp_path / "in"),
        ("glob", str(tmp_path / "in" / "*.parquet")),
        ("list", files),
    ]:
        convert(source, tmp_path / name, {"text": "txt"}, num_workers=len(name))
        assert [fields["txt"] for fields in fields_of(tmp_path / name)] == texts
    assert digest(tmp_path / "folder") == digest(tmp_path / "glob") == digest(tmp_path / "list")
    convert([files[2], files[0]], tmp_path / "two", {"text": "txt"})
    assert [row["txt"] for row in fields_of(tmp_path / "two")] == texts[600:] + texts[:300]
    refused([files[0]] * 2, tmp_path / "no", match="is given twice")
    refused("none*.parquet", tmp_path / "no", error=FileNotFoundError, match="no Parquet file")


def test_folders_whose_meaning_is_unclear_are_refused(tmp_path):
    table = pa.table({"text": ["a"]})
    for name, files, message in [
        ("mixed", ["a.parquet", "b.jpg"], "has Parquet files and others, such as b.jpg"),
        ("hive", ["year=2024/a.parquet"], "is partitioned"),
        ("splits", ["data/train-0.parquet", "data/test-0.parquet"], "has the splits test, train"),
    ]:
        for file in files:
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, tmp_path / name / file)
        refused(tmp_path / name, tmp_path / "no", match=message)
    parts = {name: str(tmp_path / f"splits/data/{name}-*") for name in ("train", "test")}
    parts = {name: f"{glob}.parquet" for name, glob in parts.items()}
    convert(parts, tmp_path / "out")
    assert fields_of(tmp_path / "out/test") == fields_of(tmp_path / "out/train") == [{"txt": b"a"}]


def test_files_with_different_columns_are_refused(tmp_path):
    pq.write_table(pa.table({"text": ["a"], "n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["a"], "n": [1.5]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "c.parquet")
    for other, what in [("b", "'n' is int64 and double"), ("c", "only the first one has 'n'")]:
        files = [tmp_path / "a.parquet", tmp_path / f"{other}.parquet"]
        match = f"{files[0]} and {files[1]} have different columns: {what}"
        refused(files, tmp_path / "no", match=match)


def test_a_parquet_file_that_changes_is_refused(tmp_path, monkeypatch):
    from millrace import conversion_process

    write_parts(tmp_path / "in")
    start = conversion_process.Process.start

    def touch(process, header):
        os.utime(tmp_path / "in/part-1.parquet", ns=(1, 1))
        return start(process, header)

    monkeypatch.setattr(conversion_process.Process, "start", touch)
    match = "part-1.parquet has changed since the conversion began"
    refused(tmp_path / "in", tmp_path / "out", error=OSError, match=match)


@pytest.mark.parametrize("fields", [None, {"text": "txt", "n": ":class"}])
def test_an_interrupted_conversion_of_parquet_resumes(tmp_path, monkeypatch, fields):
    from millrace import conversion, parquet

    monkeypatch.setattr(parquet, "_BATCH_BYTES", 64 << 10)
    write_parts(tmp_path / "in")
    convert(tmp_path / "in", tmp_path / "whole", fields, **SMALL)
    encode, calls = conversion._encode, []

    def fail(batch, row):
        calls.append(row)
        if row > 700:
            raise Stop
        return encode(batch, row)

    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_encode", fail)
        with pytest.raises(Stop):
            mr.convert(tmp_path / "in", tmp_path / "out", fields, **SMALL)
    assert not (tmp_path / "out/dataset.json").exists()
    threads = [thread.name for thread in threading.enumerate()]
    assert "millrace-read" not in threads
    first = []
    monkeypatch.setattr(
        conversion, "_encode", lambda batch, row: (first.append(row), encode(batch, row))[1]
    )
    convert(tmp_path / "in", tmp_path / "out", fields, resume=True, **SMALL)
    assert first[0] > 300 and digest(tmp_path / "out") == digest(tmp_path / "whole")
    os.utime(tmp_path / "in/part-1.parquet", ns=(1, 1))
    with pytest.raises(RuntimeError, match="has other files or options"):
        mr.convert(tmp_path / "in", tmp_path / "out", fields, resume=True, **SMALL)


def test_repeated_keys_are_found_after_resuming(tmp_path, monkeypatch):
    from millrace import conversion

    keys = [f"k{i}" for i in range(20000)]
    table = pa.table({"id": keys, "text": ["x" * 50] * len(keys)})
    encode = conversion._encode

    def fail(batch, row):
        if row > 10000:
            raise Stop
        return encode(batch, row)

    fields = {"id": ":key", "text": "txt"}
    options = {"identity": "mine", "shard_bytes": "1MiB"}
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_encode", fail)
        with pytest.raises(Stop):
            mr.convert(table, tmp_path / "out", fields, **options)
    keys[-1] = "k5"
    wrong = table.set_column(0, "id", [keys])
    with pytest.raises(ValueError, match="row 19999, column 'id': an earlier row has the key 'k5'"):
        mr.convert(wrong, tmp_path / "out", fields, resume=True, **options)
    convert(table, tmp_path / "out", fields, resume=True, **options)
    convert(table, tmp_path / "whole", fields, **options)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


# ---- Hugging Face's datasets. ----


@pytest.fixture(scope="module")
def hugging_face():
    return needs("datasets")


def make_dataset(hf, labels=(1, 0, 1), folder=None):
    jpeg = image_bytes(format="JPEG")
    path = None
    if folder is not None:
        (folder / "a.png").write_bytes(image_bytes())
        path = str(folder / "a.png")
    features = hf.Features(
        {
            "image": hf.Image(),
            "label": hf.ClassLabel(names=["zebra", "ant"]),
            "grid": hf.Array2D((2, 2), "float32"),
            "text": hf.Value("string"),
            "ids": hf.Sequence(hf.Value("int32")),
        }
    )
    count = len(labels)
    images = [{"bytes": jpeg, "path": None}] * count
    if path:
        images[-1] = {"bytes": None, "path": path}
    columns = {
        "image": images,
        "label": list(labels),
        "grid": [[[0.1, i], [2, 3]] for i in range(count)],
        "text": [f"t{i}" for i in range(count)],
        "ids": [[i] * i for i in range(count)],
    }
    return hf.Dataset.from_dict(columns, features=features)


def check_hugging_face(folder, first_text="t0"):
    stored = fields_of(folder)
    assert classes_of(folder) == ["zebra", "ant"]
    assert [row["cls"] for row in stored] == [b"1", b"0", b"1"]
    assert stored[0]["jpg"] == image_bytes(format="JPEG") and stored[0]["txt"] == b"t0"
    grid = npy(stored[1]["grid.npy"])
    assert grid.dtype == "<f4" and grid.tolist() == [[numpy.float32(0.1), 1], [2, 3]]
    assert [npy(row["ids.npy"]).tolist() for row in stored] == [[], [1], [2, 2]]
    return stored


def test_a_hugging_face_dataset(tmp_path, hugging_face):
    dataset = make_dataset(hugging_face, folder=tmp_path)
    convert(dataset, tmp_path / "out", jpeg="keep")
    stored = check_hugging_face(tmp_path / "out")
    assert stored[2]["png"] == image_bytes()
    convert(dataset.to_iterable_dataset(), tmp_path / "stream", jpeg="keep")
    assert fields_of(tmp_path / "stream") == stored
    chosen = dataset.select([2, 0]).rename_column("text", "caption")
    convert(chosen, tmp_path / "chosen", jpeg="keep")
    assert [row["txt"] for row in fields_of(tmp_path / "chosen")] == [b"t2", b"t0"]
    convert(dataset.with_format("numpy", columns=["text"]), tmp_path / "one")
    assert fields_of(tmp_path / "one") == [{"txt": b"t0"}, {"txt": b"t1"}, {"txt": b"t2"}]
    dataset.to_parquet(tmp_path / "a.parquet")
    convert(tmp_path / "a.parquet", tmp_path / "parquet", jpeg="keep")
    assert classes_of(tmp_path / "parquet") == ["zebra", "ant"]
    assert [row["cls"] for row in fields_of(tmp_path / "parquet")] == [b"1", b"0", b"1"]


def test_transforms_of_a_hugging_face_dataset_are_applied(tmp_path, hugging_face):
    dataset = hugging_face.Dataset.from_dict({"text": ["a", "b"]})
    upper = dataset.with_transform(lambda rows: {"text": [t.upper() for t in rows["text"]]})
    convert(upper, tmp_path / "out")
    assert fields_of(tmp_path / "out") == [{"txt": b"A"}, {"txt": b"B"}]


def test_a_class_label_of_minus_one_is_no_class(tmp_path, hugging_face):
    dataset = make_dataset(hugging_face, labels=(1, -1, 0))
    refused(dataset, tmp_path / "no", match="row 1, column 'label': -1 is no class number")
    fields = {"label": ":class?", "text": "txt"}
    convert(dataset, tmp_path / "out", fields, is_complete=False)
    assert [row.get("cls") for row in fields_of(tmp_path / "out")] == [b"1", None, b"0"]
    assert classes_of(tmp_path / "out") == ["zebra", "ant"]


def test_a_dataset_dict_keeps_its_splits(tmp_path, hugging_face):
    dataset = make_dataset(hugging_face)
    parts = hugging_face.DatasetDict(train=dataset, test=dataset.select([1]))
    result = convert(parts, tmp_path / "out", jpeg="keep")
    assert [part["samples_count"] for part in result["splits"]] == [3, 1]
    assert [row["txt"] for row in fields_of(tmp_path / "out/test")] == [b"t1"]
    check_hugging_face(tmp_path / "out/train")
    refused(parts, tmp_path / "no", split={"a": 0.5, "b": 0.5}, match="a source that has splits")
    again = mr.convert(parts, tmp_path / "out", resume=True, jpeg="keep")
    assert again["samples_count"] == 4
    other = hugging_face.ClassLabel(names=["ant", "zebra"])
    parts["test"] = parts["test"].cast_column("label", other)
    refused(parts, tmp_path / "no", match="the splits have different classes in 'label'")


def test_a_stream_without_known_features(tmp_path, hugging_face):
    def rows():
        for i in range(200):
            yield {"text": f"{i}", "n": i}

    stream = hugging_face.IterableDataset.from_generator(rows)
    convert(stream, tmp_path / "out")
    assert [row["txt"] for row in fields_of(tmp_path / "out")] == [b"%d" % i for i in range(200)]
    assert [row["n"] for row in json_of(tmp_path / "out")] == list(range(200))
    refused(stream, tmp_path / "no", resume=True, match="identity=TEXT")


# ---- PyTorch and webdataset. ----


def test_datasets_of_pytorch(tmp_path):
    torch = needs("torch")
    jpeg = image_bytes(format="JPEG")

    class Photos(torch.utils.data.Dataset):
        classes = ["zebra", "ant"]

        def __len__(self):
            return 3

        def __getitem__(self, i):
            return pillow.open(io.BytesIO(jpeg)), i % 2

    convert(Photos(), tmp_path / "map", jpeg="keep")
    assert [row for row in fields_of(tmp_path / "map")] == [
        {"jpg": jpeg, "cls": b"%d" % (i % 2)} for i in range(3)
    ]
    assert classes_of(tmp_path / "map") == ["zebra", "ant"]

    class Tensors(torch.utils.data.IterableDataset):
        def __iter__(self):
            for i in range(3):
                yield {"a": torch.full((2, 3), i, dtype=torch.float16), "n": torch.tensor(i)}

    convert(Tensors(), tmp_path / "stream")
    for i, row in enumerate(fields_of(tmp_path / "stream")):
        stored = npy(row["a.npy"])
        assert stored.dtype == "<f2" and stored.shape == (2, 3) and (stored == i).all()
        assert json.loads(row["json"]) == {"n": i}
    loader = torch.utils.data.DataLoader(Photos())
    refused(loader, tmp_path / "no", error=TypeError, match="yields batches; pass its dataset")
    rows = [{"a": torch.zeros(2, dtype=torch.bfloat16)}]
    refused(rows, tmp_path / "no", error=TypeError, match="row 0, .* NumPy has no torch.bfloat16")


def test_a_webdataset_pipeline(tmp_path):
    wds = needs("webdataset")
    jpeg, mask = image_bytes(format="JPEG"), image_bytes("L")
    with wds.TarWriter(str(tmp_path / "a.tar")) as tar:
        for i in range(3):
            tar.write(
                {
                    "__key__": f"x/{i}",
                    "jpg": jpeg,
                    "seg.png": mask,
                    "cls": i,
                    "json": {"n": i, "big": 2**60},
                    "txt": f"t{i}",
                    "emb.npy": numpy.arange(3, dtype="f4"),
                }
            )
    with open(tmp_path / "a.tar", "rb") as file:
        assert file.read(1)
    expected = {}
    import tarfile

    with tarfile.open(tmp_path / "a.tar") as tar:
        for member in tar:
            expected[member.name] = tar.extractfile(member).read()
    pipeline = wds.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False)
    convert(pipeline, tmp_path / "raw", jpeg="keep")
    stored = read(tmp_path / "raw")
    assert [key for key, _ in stored] == ["x/0", "x/1", "x/2"]
    flat = {f"{key}.{ext}": data for key, row in stored for ext, data in row.items()}
    assert flat == expected
    convert(pipeline.decode(), tmp_path / "decoded", {"cls": ":class", "json": "json"})
    assert [row["cls"] for row in fields_of(tmp_path / "decoded")] == [b"0", b"1", b"2"]
    assert json_of(tmp_path / "decoded")[2] == {"n": 2, "big": 2**60}
    refused(
        pipeline.decode("pil"), tmp_path / "no", match="column 'jpg': expected a file of type jpg"
    )


def test_the_packages_are_imported_only_when_used(tmp_path):
    import subprocess
    import sys

    code = (
        "import sys, millrace as mr; mr.convert([{'text': 'a'}], sys.argv[1]);"
        "print([m for m in ('pyarrow', 'torch', 'pandas', 'datasets', 'numpy', 'PIL')"
        " if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, tmp_path / "out"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"
    code = "import pyarrow.parquet, " + code.removeprefix("import ")
    code = code.replace("[{'text': 'a'}]", "sys.argv[2]").replace("'pyarrow', ", "")
    code = code.replace("'numpy', ", "")
    jpeg = image_bytes(format="JPEG")
    pq.write_table(pa.table({"text": ["a"], "label": [1], "image": [jpeg]}), tmp_path / "a.parquet")
    command = [sys.executable, "-c", code, tmp_path / "parquet", tmp_path / "a.parquet"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "[]\n"
