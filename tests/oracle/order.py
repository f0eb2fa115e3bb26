#!/usr/bin/env python3
"""order.py — independent implementation of the order of samples, written from docs/reference/order.md.

Reads lines from stdin:

    N L w c epoch seed kind            the sums `once` and `order` of the whole epoch, and the sum of
                                       position * (sample + 1) over its positions
    mix epoch seed first count lanes   the same sums for count positions of a mix; its datasets
                                       follow as N:L:w:c:kind:m
    refs epoch seed first count lanes  `position dataset epoch sample` for each position of the mix

Sums are modulo 2^64, in 16 hex digits.
"""
import functools
import struct
import sys
from fractions import Fraction

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def philox(key, high, low):
    c0, c1, c2, c3 = low & M32, low >> 32, high & M32, high >> 32
    k0, k1 = key & M32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & M32, (p0 >> 32) ^ c3 ^ k1, p0 & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0, c1, c2, c3


def scramble(x, k):
    h = x ^ k
    h ^= h >> 16
    h = h * 0x85EBCA6B & M32
    h ^= h >> 13
    h = h * 0xC2B2AE35 & M32
    h ^= h >> 16
    return (h + k) & M32


def cipher(n, key):
    """Returns the permutation as a list."""
    bits = max(2, (n - 1).bit_length())
    left = bits // 2
    right = bits - left
    keys = []
    for i in range(0, 24, 4):
        a = philox(key[0], key[1], i)
        keys += philox(key[2] ^ (a[0] << 32 | a[1]), key[3], a[2] << 32 | a[3])
    left_mask, right_mask = (1 << left) - 1, (1 << right) - 1
    rounds = range(0, 24 if n < 256 else 12, 2)

    def once(v):
        l, r = v >> right, v & right_mask
        for i in rounds:
            l ^= scramble(r, keys[i]) & left_mask
            r ^= scramble(l, keys[i + 1]) & right_mask
        return l << right | r

    table = []
    for v in range(n):
        v = once(v)
        while v >= n:
            v = once(v)
        table.append(v)
    return table


def in_run(number, begin, size, dataset, epoch, seed):
    """The samples of a run in their order."""
    word = dataset << 48 | 3 << 32 | epoch
    for quarter in cipher(4, (seed, word, number, 4)):
        first, end = quarter * size // 4, (quarter + 1) * size // 4
        if end > first:
            yield from (begin + first + i for i in cipher(end - first, (seed, word, number, quarter)))


@functools.lru_cache(64)
def samples(n, lanes, window, run, kind, dataset, epoch, seed):
    """The sample at each position of an epoch."""
    if kind == "sequential":
        return list(range(n))
    if kind == "full":
        lanes, window, run = 1, n, 1
    count = -(-n // run)
    slots = cipher(count, (seed, dataset << 48 | 1 << 32 | epoch, 0, 0))
    line = [x for number in slots for x in in_run(number, number * run, min(run, n - number * run), dataset, epoch, seed)]
    q, r = divmod(n, lanes)
    columns = []
    for lane in range(lanes):
        begin = lane * q + min(lane, r)
        end = begin + q + (lane < r)
        size, number, column = window - lane * window // lanes, 0, []
        while begin < end:
            size = min(size, end - begin)
            column += [line[begin + i] for i in cipher(size, (seed, dataset << 48 | 2 << 32 | epoch, lane, number))]
            begin, size, number = begin + size, window, number + 1
        columns.append(column)
    return [columns[p % lanes][p // lanes] for p in range(n)]


def mixed(datasets, lanes, epoch, seed, first, count):
    """(position, dataset, its epoch, sample) at positions of an epoch of a mix."""
    lanes = lanes if sum(d[0] for d in datasets) // 64 >= lanes else 1
    period = sum(d[-1] for d in datasets)
    table = sorted((Fraction((2 * k + 1) * period, 2 * d[-1]), i, k) for i, d in enumerate(datasets) for k in range(d[-1]))
    for position in range(first, first + count):
        turn, lane = divmod(epoch * sum(d[0] for d in datasets) + position, lanes)
        begin = lane * period // lanes
        _, i, k = table[(begin + turn) % period]
        *parameters, weight = datasets[i]
        draw = (begin + turn) // period * weight + k - sum(d == i for _, d, _ in table[:begin])
        own_epoch, place = divmod(draw * lanes + lane, parameters[0])
        yield position, i, own_epoch, samples(*parameters, i, own_epoch, seed)[place]


SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e")


def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & M64
    return h ^ (h >> 32)


def xxh3(data):
    """XXH3-64, seed 0, of 16 or 24 bytes (the XXH3 specification's cases 9..16 and 17..128)."""
    word = [int.from_bytes(SECRET[i:i + 8], "little") for i in range(0, 56, 8)]
    read = lambda at: int.from_bytes(data[at:at + 8], "little")
    n = len(data)
    if n == 16:
        low, high = read(0) ^ word[3] ^ word[4], read(8) ^ word[5] ^ word[6]
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return avalanche((n + swapped + high + fold(low, high)) & M64)
    total = n * 0x9E3779B185EBCA87
    total += fold(read(0) ^ word[0], read(8) ^ word[1])
    total += fold(read(n - 16) ^ word[2], read(n - 8) ^ word[3])
    return avalanche(total & M64)


def print_sums(refs, epoch):
    once = order = plain = 0
    for position, dataset, own_epoch, sample in refs:
        once += xxh3(struct.pack("<IIQ", dataset, own_epoch, sample))
        order += xxh3(struct.pack("<IIQQ", epoch, dataset, position, sample))
        plain += position * (sample + 1)
    print(f"{once & M64:016x} {order & M64:016x} {plain & M64:016x}")


def main():
    for line in sys.stdin:
        words = line.split()
        if words[0] in ("mix", "refs"):
            epoch, seed, first, count, lanes = map(int, words[1:6])
            parts = [word.split(":") for word in words[6:]]
            refs = mixed([(*map(int, p[:4]), p[4], int(p[5])) for p in parts], lanes, epoch, seed, first, count)
            if words[0] == "mix":
                print_sums(refs, epoch)
            else:
                for ref in refs:
                    print(*ref)
            continue
        n, lanes, window, run, epoch, seed = map(int, words[:6])
        order = samples(n, lanes, window, run, words[6], 0, epoch, seed)
        print_sums(((p, 0, epoch, x) for p, x in enumerate(order)), epoch)


main()
