"""cast_case.py FOLDER: checks for each FOLDER/FROM.TO.in that .out is .in rounded to nearest, ties to even.

Derives the values of the 8-bit and 16-bit formats from their definitions, and finds the nearest one by comparing with the midpoints,
which a double represents exactly. Also compares F32 and F16 with numpy, and BF16 with torch if installed.
"""
import pathlib, sys
import numpy as np

np.seterr(over="ignore", invalid="ignore")  # overflow and signaling NaNs are intended
FORMATS = {"F16": (5, 10, True), "BF16": (8, 7, True), "F8_E5M2": (5, 2, True), "F8_E4M3": (4, 3, False)}


def values_of(exponent_bits, fraction_bits, has_infinity):
    """The values of all non-negative codes; nan for codes that are not numbers."""
    bias, codes = 2 ** (exponent_bits - 1) - 1, np.arange(2 ** (exponent_bits + fraction_bits))
    exponent, fraction = codes >> fraction_bits, codes & (1 << fraction_bits) - 1
    values = np.where(exponent == 0, np.ldexp(fraction, 1 - bias - fraction_bits), np.ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits))
    top = exponent == (1 << exponent_bits) - 1
    if has_infinity:
        return np.where(top, np.where(fraction == 0, np.inf, np.nan), values)
    return np.where(top & (fraction == (1 << fraction_bits) - 1), np.nan, values)


def decode(raw, dtype):
    if dtype in ("F32", "F64"):
        return np.frombuffer(raw, {"F32": "<f4", "F64": "<f8"}[dtype]).astype(np.float64)
    exponent_bits, fraction_bits, has_infinity = FORMATS[dtype]
    codes = np.frombuffer(raw, "<u2" if exponent_bits + fraction_bits > 7 else "u1").astype(np.int64)
    sign = codes >> exponent_bits + fraction_bits
    positive = values_of(exponent_bits, fraction_bits, has_infinity)[codes & (1 << exponent_bits + fraction_bits) - 1]
    return np.where(sign == 1, -positive, positive)


def nearest(values, dtype):
    """The nearest codes, without sign; -1 for NaN."""
    table = values_of(*FORMATS[dtype])
    finite = table[np.isfinite(table)]
    above = 2 * finite[-1] - finite[-2]  # the next code's value if it were a number
    middles = (np.append(finite[1:], above) + finite) / 2
    magnitude = np.abs(values)
    below, at_most = np.searchsorted(middles, magnitude, "left"), np.searchsorted(middles, magnitude, "right")
    codes = np.where((below != at_most) & (below % 2 == 1), at_most, below)  # at a midpoint: the even neighbor
    beyond = len(finite) if FORMATS[dtype][2] else -1
    return np.where(np.isnan(values), -1, np.where(codes >= len(finite), beyond, codes))


def check(name, raw_in, raw_out):
    source, target = name.split(".")
    values = decode(raw_in, source)
    if target in ("F32", "F64"):
        found, kind = np.frombuffer(raw_out, {"F32": "<f4", "F64": "<f8"}[target]), {"F32": np.float32, "F64": np.float64}[target]
        expected = values.astype(kind)
        assert np.array_equal(np.isnan(found), np.isnan(expected)), name
        rest = ~np.isnan(found)
        assert np.array_equal(found[rest].view(f"u{found.itemsize}"), expected[rest].view(f"u{found.itemsize}")), name
        return len(found)
    exponent_bits, fraction_bits, _ = FORMATS[target]
    bits = exponent_bits + fraction_bits
    found = np.frombuffer(raw_out, "<u2" if bits > 7 else "u1").astype(np.int64)
    expected = nearest(values, target)
    is_nan = np.isnan(decode(raw_out, target))
    assert np.array_equal(is_nan, expected == -1), name
    wrong = ~is_nan & ((found & (1 << bits) - 1) != expected)
    assert not wrong.any(), (name, values[wrong][:5], found[wrong][:5], expected[wrong][:5])
    assert np.array_equal((found >> bits)[~is_nan], np.signbit(values)[~is_nan]), name
    if target == "F16" and source in ("F32", "F64"):
        theirs = np.frombuffer(raw_in, "<f4" if source == "F32" else "<f8").astype(np.float16)
        assert np.array_equal(theirs.view(np.uint16)[~is_nan], found[~is_nan]), name
    if target == "BF16" and source == "F32":
        try:
            import torch
        except ImportError:
            return len(found)
        theirs = torch.frombuffer(bytearray(raw_in), dtype=torch.float32).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
        assert np.array_equal(theirs[~is_nan], found[~is_nan]), name
    return len(found)


pairs = sorted(pathlib.Path(sys.argv[1]).glob("*.in"))
assert len(pairs) == 30, len(pairs)
print(sum(check(path.stem, path.read_bytes(), path.with_suffix(".out").read_bytes()) for path in pairs), "values")
