"""diff_case.py SEED A B: writes two safetensors files with tensors of every dtype, in which some elements differ;
prints the expected comparison, one tensor per line:

    NAME DIFFERENT_COUNT NAN_COUNT LARGEST AT VALUE_A VALUE_B

Elements differ if their bits differ; Python's own arithmetic computes the distance. Decodes 8-bit values by their format's definition.
"""
import json, math, struct, sys
import numpy as np

random = np.random.default_rng(int(sys.argv[1]))


def small_float(exponent_bits, fraction_bits, has_infinity):
    """All values of an 8-bit format, by definition."""
    bias = 2 ** (exponent_bits - 1) - 1
    values = []
    for bits in range(256):
        sign = -1.0 if bits & 128 else 1.0
        exponent = bits >> fraction_bits & (1 << exponent_bits) - 1
        fraction = bits & (1 << fraction_bits) - 1
        top = exponent == (1 << exponent_bits) - 1
        if top and has_infinity:
            values.append(sign * math.inf if fraction == 0 else math.nan)
        elif top and fraction == (1 << fraction_bits) - 1:
            values.append(math.nan)
        elif exponent == 0:
            values.append(sign * fraction / 2**fraction_bits * 2.0 ** (1 - bias))
        else:
            values.append(sign * (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias))
    return values


E5M2, E4M3 = small_float(5, 2, True), small_float(4, 3, False)
# dtype -> (bits as an unsigned integer, their value)
DTYPES = {
    "BOOL": ("u1", int), "U8": ("u1", int), "U16": ("<u2", int), "U32": ("<u4", int), "U64": ("<u8", int),
    "I8": ("u1", lambda bits: int(np.uint8(bits).view("i1"))),
    "I16": ("<u2", lambda bits: int(np.uint16(bits).view("<i2"))),
    "I32": ("<u4", lambda bits: int(np.uint32(bits).view("<i4"))),
    "I64": ("<u8", lambda bits: int(np.uint64(bits).view("<i8"))),
    "F8_E5M2": ("u1", lambda bits: E5M2[bits]), "F8_E4M3": ("u1", lambda bits: E4M3[bits]),
    "F16": ("<u2", lambda bits: float(np.uint16(bits).view("<f2"))),
    "BF16": ("<u2", lambda bits: float(np.uint32(int(bits) << 16).view("<f4"))),
    "F32": ("<u4", lambda bits: float(np.uint32(bits).view("<f4"))),
    "F64": ("<u8", lambda bits: float(np.uint64(bits).view("<f8"))),
}


def text(value):
    return "%.17g" % value if isinstance(value, float) else str(value)


def random_bits(dtype, shape):
    bits = DTYPES[dtype][0]
    if dtype == "BOOL":
        return random.integers(0, 2, shape, dtype=bits)
    return random.integers(0, np.iinfo(bits).max, shape, dtype=bits, endpoint=True)


def change(bits, dtype, places):
    flat = bits.reshape(-1)
    for place in places:
        flat[place] ^= np.array(1 if dtype == "BOOL" else int(random_bits(dtype, 1)[0]), dtype=flat.dtype)


def expected(name, dtype, a, b):
    value = DTYPES[dtype][1]
    x, y = a.reshape(-1), b.reshape(-1)
    places = np.flatnonzero(x != y)
    if len(places) == 0:
        return None
    best, nans = None, 0
    for place in places:
        p, q = value(x[place]), value(y[place])
        distance = abs(p - q)
        nans += distance != distance
        beats = best is None or (distance > best[0] if distance == distance else best[0] == best[0])
        if beats:
            best = (distance, place, p, q)
    distance, place, p, q = best
    at = ",".join(str(int(i)) for i in np.unravel_index(place, a.shape))
    return f"{name} {len(places)} {nans} {text(distance)} [{at}] {text(p)} {text(q)}"


def write(path, tensors):
    header, blob = {}, b""
    for name, (dtype, bits) in tensors.items():
        data = bits.tobytes()
        header[name] = {"dtype": dtype, "shape": list(bits.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    raw = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(raw)) + raw + blob)


a, b, lines = {}, {}, {}
shapes = [(), (1,), (7,), (3, 5, 7), (41, 53), (0, 4)]
for dtype in DTYPES:
    for number, shape in enumerate(shapes):
        for changes in (0, 1, 9):
            name = f"{dtype.lower()}.{number}.{changes}"
            x = random_bits(dtype, shape)
            y = x.copy()
            if y.size:
                change(y, dtype, random.integers(0, y.size, min(changes, y.size)))
            a[name], b[name] = (dtype, x), (dtype, y)
            lines[name] = expected(name, dtype, x, y)
# larger than one comparison chunk, with changes at both ends and around each chunk boundary;
# only a few bit patterns, so that some differences tie
large = random.integers(0x3F800000, 0x3F800004, (2500, 1201), dtype="<u4")
changed = large.copy()
cuts = [k * (1 << 20) + d for k in (1, 2) for d in (-1, 0, 1)]
changed.reshape(-1)[[0, large.size - 1, *cuts, *random.integers(0, large.size, 100)]] ^= 3
a["large"], b["large"] = ("F32", large), ("F32", changed)
lines["large"] = expected("large", "F32", large, changed)
# cases that random choice would miss: signed zeros, infinities on both sides, NaNs with equal and
# with different bits
special = {
    "zeros": ([0x00000000, 0x80000000], [0x80000000, 0x80000000]),
    "infinities": ([0x7F800000, 0x7F800000], [0xFF800000, 0x7F800000]),
    "same_nans": ([0x7FC00000, 0x7F800001], [0x7FC00000, 0x7F800001]),
    "other_nans": ([0x7FC00000, 0x3F800000], [0x7FC00001, 0x40000000]),
    "nan_after_infinity": ([0x00000000, 0x00000000, 0x3F800000], [0x7F800000, 0x7FC00000, 0x7FC00000]),
}
for name, (x, y) in special.items():
    x, y = np.array(x, "<u4"), np.array(y, "<u4")
    a[name], b[name] = ("F32", x), ("F32", y)
    lines[name] = expected(name, "F32", x, y)
# the second file stores the tensors in a different order
write(sys.argv[2], a)
write(sys.argv[3], dict(sorted(b.items(), key=lambda item: item[0][::-1])))
for name in sorted(lines, key=str.encode):
    if lines[name]:
        print(lines[name])
