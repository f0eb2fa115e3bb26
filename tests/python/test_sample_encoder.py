"""The records that the extension makes of columns, beside those of the tests' own sender."""

import pathlib
import random
import sys

import pytest
from millrace import _native

sys.path.append(str(pathlib.Path(__file__).parents[1] / "oracle"))
from sample_stream import record

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def expected(keys, columns, begin, end):
    rows = []
    for row in range(begin, end):
        fields = {ext: as_bytes(values[row]) for ext, values in columns.items()}
        rows.append(record(keys[row], {e: data for e, data in fields.items() if data is not None}))
    return b"".join(rows)


def as_bytes(value):
    return value if value is None or isinstance(value, bytes) else str(value).encode()


def test_lists_and_numbered_keys():
    texts = ["one", "", "zwei é", "\0"]
    data = (b"", b"\xff\0", None, b"x" * 70000)
    keys = ["00000041", "00000042", "00000043", "00000044"]
    columns = {"txt": texts, "a.bin": data}
    for begin, end in [(0, 4), (1, 3), (2, 2)]:
        encoded = _native.encode_samples(41, list(columns.items()), begin, end)
        assert encoded == expected(keys, columns, begin, end)


def test_a_column_of_keys():
    columns = {"txt": ["a", "b"]}
    keys = ["x/1", "y/\u00fc"]
    encoded = _native.encode_samples(keys, tuple(columns.items()), 0, 2)
    assert encoded == expected(keys, columns, 0, 2)


@pytest.mark.parametrize(
    ("keys", "fields", "rows", "error", "message"),
    [
        (0, [("txt", [None])], (0, 1), ValueError, "row 0: all its fields are null"),
        (0, [], (0, 1), ValueError, "row 0: all its fields are null"),
        ([None], [("txt", ["a"])], (0, 1), ValueError, "row 0: its key is null"),
        (-1, [("txt", ["a"])], (0, 1), OverflowError, "negative"),
        (0, [("txt", ["a"])], (0, 2), IndexError, "'txt' has 1 rows, fewer than 2"),
        (["k"], [("txt", ["a", "b"])], (0, 2), IndexError, "'key' has 1 rows"),
        (0, [("txt", ["a"])], (-1, 1), IndexError, "range"),
        (0, [("txt", ["a"])], (1, 0), IndexError, "range"),
        (0, [("txt", [1])], (0, 1), TypeError, "row 0 of a column: expected bytes, str or None"),
        (0, [("txt", ["\ud800"])], (0, 1), UnicodeEncodeError, "surrogates"),
        (0, [("txt", {"a"})], (0, 1), TypeError, "a list, a tuple or an Arrow array"),
        (0, ["txt"], (0, 1), TypeError, "no pair"),
        (0, 7, (0, 1), TypeError, "iterable"),
    ],
)
def test_refusals(keys, fields, rows, error, message):
    with pytest.raises(error, match=message):
        _native.encode_samples(keys, fields, *rows)


def test_arrow_columns_with_nulls_and_offsets():
    pa = pytest.importorskip("pyarrow", "14")
    rng = random.Random(5)
    texts = [rng.choice([None, "", "abc", "\u20ac" * 9]) for _ in range(200)]
    columns = {
        "a.txt": (texts, pa.string()),
        "b.txt": (texts, pa.large_string()),
        "a.bin": ([t and t.encode() for t in texts], pa.binary()),
        "b.bin": ([t and t.encode() for t in texts], pa.large_binary()),
    }
    for name in INTEGERS:
        bits, low = int(name.lstrip("uint")), name[0] == "i"
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if low else (0, (1 << bits) - 1)
        values = [rng.choice([least, most, 0, 7, None]) for _ in texts]
        columns[name] = (values, getattr(pa, name)())
    values = {name: column[0] for name, column in columns.items()} | {"one": [1] * 200}
    arrays = {name: pa.array(*column) for name, column in columns.items()}
    arrays["one"] = pa.array([1] * 200, pa.int8())  # without a bitmap
    keys = [f"k{row}" for row in range(200)]
    whole = _native.encode_samples(pa.array(keys), list(arrays.items()), 0, 200)
    assert whole == expected(keys, values, 0, 200)
    for start, length in [(0, 200), (3, 100), (8, 9), (199, 1)]:
        slices = [(name, array.slice(start, length)) for name, array in arrays.items()]
        encoded = _native.encode_samples(keys[start : start + length], slices, 0, length)
        assert encoded == expected(keys, values, start, start + length)


def test_other_arrow_types_are_refused():
    pa = pytest.importorskip("pyarrow", "14")
    for array in [
        pa.array([1.5]),
        pa.array([True]),
        pa.array(["a"]).dictionary_encode(),
        pa.array([[1]]),
        pa.array([b"ab"], pa.binary(2)),
        pa.array([None]),
    ]:
        with pytest.raises(TypeError, match="an Arrow array of type"):
            _native.encode_samples(0, [("txt", array)], 0, 1)
