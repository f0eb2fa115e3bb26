"""A reader of shards written from docs/reference/shards.md alone: checks everything and prints
`key.extension<TAB>size` for each member, and `key name=value` for each number in the index."""
import math
import re
import struct
import sys

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def round_up(value, multiple):
    return -(-value // multiple) * multiple


def main(path):
    with open(path, "rb") as file:
        data = file.read()
    t = data[-512:]
    magic, version, flags, index_offset, index_bytes, file_bytes, archive_end, samples, index_crc, fields = struct.unpack_from(
        "<8sIIQQQQQII", t)
    assert (magic, version) == (b"MILLRACE", 1) and flags in (0, 2, 4, 6)
    assert crc32c(t[:508]) == struct.unpack_from("<I", t, 508)[0] and not any(t[64:508])
    assert file_bytes == len(data) and index_offset == archive_end + 1024
    assert round_up(index_offset + index_bytes, 512) + 512 == file_bytes
    assert not any(data[archive_end:index_offset])
    index = data[index_offset:index_offset + index_bytes]
    assert crc32c(index) == index_crc
    assert struct.unpack_from("<IIQ", index) == (1, fields, samples)
    key_bytes, block_crcs = struct.unpack_from("<QQ", index, 16)
    table = [struct.unpack_from("<48sIIQ", index, 32 + 64 * f) for f in range(fields)]
    at = 32 + 64 * fields

    def column(width, count):
        nonlocal at
        values = struct.unpack_from("<%d%s" % (count, {4: "I", 8: "Q"}[width]), index, at)
        at = round_up(at + width * count, 8)
        return values

    ends = column(4, samples)
    keys = [index[at + start:at + end].decode() for start, end in zip((0,) + ends, ends)]
    assert not samples or ends[-1] == key_bytes
    at = round_up(at + key_bytes, 8)
    columns = []
    assert any(field_flags for _, _, field_flags, _ in table) == bool(flags & 2)
    for extension, width, field_flags, present in table:
        blocks, sizes, crcs = column(4, samples), column(width, samples), column(4, samples)
        assert field_flags in (0, 1) and present == sum(b != 0 for b in blocks)
        if field_flags:
            for block, size, picture_width, pixels_at in zip(blocks, sizes, column(4, samples), column(4, samples)):
                if picture_width:
                    height, rest = divmod(size - pixels_at, 3 * picture_width)
                    header = re.sub(rb"#[^\n]*", b"", data[block * 512:block * 512 + pixels_at]).split()
                    assert rest == 0 and header == [b"P6", b"%d" % picture_width, b"%d" % height, b"255"]
                else:
                    assert pixels_at == 0
        columns.append((extension.rstrip(b"\0").decode(), blocks, sizes, crcs))
    assert [c[0] for c in columns] == sorted(c[0] for c in columns)
    numbers = []
    if flags & 4:
        count, = struct.unpack_from("<Q", index, at)
        assert 1 <= count <= 16
        at += 8
        names = [index[at + 64 * i:at + 64 * i + 64] for i in range(count)]
        at += 64 * count
        for name in names:
            values = struct.unpack_from("<%dd" % samples, index, at)
            assert all(math.isfinite(v) or struct.pack("<d", v) == bytes(6) + b"\xf8\x7f" for v in values)
            at += 8 * samples
            assert re.fullmatch(rb"[A-Za-z_][A-Za-z_0-9]{0,62}", name.rstrip(b"\0"))
            numbers.append((name.rstrip(b"\0").decode(), values))
        assert names == sorted(set(names))
    partial = struct.unpack_from("<%dI" % block_crcs, index, at)
    assert at + 4 * block_crcs == index_bytes
    used = 0
    for _, blocks, sizes, crcs in columns:
        for block, size, crc in zip(blocks, sizes, crcs):
            member = data[block * 512:block * 512 + size] if block else b""
            assert (crc32c(member) if block else 0) == crc
            for start in range(0, size if size > 65536 else 0, 65536):
                assert crc32c(member[start:start + 65536]) == partial[used]
                used += 1
    assert used == block_crcs
    for s, key in enumerate(keys):
        for extension, blocks, sizes, _ in columns:
            if blocks[s]:
                sys.stdout.buffer.write(("%s.%s\t%d\n" % (key, extension, sizes[s])).encode())
        for name, values in numbers:
            sys.stdout.buffer.write(("%s %s=%r\n" % (key, name, values[s])).encode())


main(sys.argv[1])
