#!/usr/bin/env python3
"""mixup.py — independent implementation of mixup and CutMix, written from docs/reference/images.md.

    mixup.py PLAIN MIXED LINES SEED BATCH MICRO MIXUP CUTMIX

PLAIN and MIXED: images from `millrace read --decode image -o` without and with mixing. LINES: the
output of the latter with `--print json`. Prints the numbers of blended, pasted and unchanged images.
"""
import json
import math
import pathlib
import struct
import sys

from order import philox


def edges(alpha):
    def power(base, exponent):
        result, factor, whole, fraction = 1.0, base, int(exponent), int(exponent * 2 ** 32) % 2 ** 32
        while whole:
            if whole % 2:
                result *= factor
            factor, whole = factor * factor, whole // 2
        factor = base
        for bit in range(31, -1, -1):
            if fraction % 2 ** (bit + 1) == 0:
                break
            factor = math.sqrt(factor)
            if fraction >> bit & 1:
                result *= factor
        return result

    def g(x):
        total, term, i = 1.0, 1.0, 1
        while term > total * 2.0 ** -60:
            term *= x * (2 * alpha + i - 1) / (alpha + i)
            total, i = total + term, i + 1
        return power(x * (1 - x), alpha) * total

    half = g(0.5)
    return [int(g((k + 0.5) / 4096) / half * 2 ** 31 + 0.5) for k in range(2048)]


def draw(table, word):
    below = sum(edge <= word % 2 ** 31 for edge in table)
    return 4096 - below if word >> 31 else below


def side(length, part, word):
    half, middle = math.isqrt(length ** 2 * part // 16384), word * length >> 32
    return range(max(0, middle - half), min(length, middle + half))


def read(folder, key):
    kind, size, most, pixels = (pathlib.Path(folder) / (key + ".ppm")).read_bytes().split(b"\n", 3)
    assert (kind, most) == (b"P6", b"255")
    return tuple(map(int, size.split())), pixels


def f32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


plain, mixed, lines, seed, batch, micro, mixup, cutmix = sys.argv[1:9]
seed, batch, micros = int(seed), int(batch), int(batch) // int(micro)
tables = [edges(float(alpha)) if float(alpha) else None for alpha in (mixup, cutmix)]
items = sorted((json.loads(line) for line in open(lines)), key=lambda item: item["position"])
batches = {}
for item in items:
    position = item["position"]
    batches.setdefault((position // batch, position % batch % micros), []).append(item)
counts = [0, 0, 0]
for members in batches.values():
    for item, partner in zip(members, members[-1:] + members[:-1]):
        (width, height), own = read(plain, item["key"])
        _, other = read(plain, partner["key"])
        key = seed, item["dataset"] << 48 | 9 << 32 | item["epoch"]
        w = philox(*key, item["sample"])
        label, weight, expected, kind = partner["label"], 1.0, bytearray(own), 2
        if len(members) == 1:
            label = item["label"]
        elif not tables[1] or tables[0] and w[1] >= 2 ** 31:
            kind, k = 0, (draw(tables[0], w[2]) + 8) // 16
            expected = bytes((k * a + (256 - k) * b + 128) // 256 for a, b in zip(own, other))
            weight = k / 256
        else:
            kind, part = 1, 4096 - draw(tables[1], w[2])
            v = philox(*key, 1 << 48 | item["sample"])
            columns, rows = side(width, part, v[0]), side(height, part, v[1])
            for y in rows:
                at = slice(3 * (y * width + columns.start), 3 * (y * width + columns.start + len(columns)))
                expected[at] = other[at]
            weight = f32(1 - len(columns) * len(rows) / (width * height))
        assert read(mixed, item["key"])[1] == bytes(expected), item["key"]
        assert (item["partner_label"], f32(item["label_weight"])) == (label, weight), item
        counts[kind] += 1
print(*counts)
