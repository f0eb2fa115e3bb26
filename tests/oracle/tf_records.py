"""Writes TFRecord files of tf.train.Example, from their specification, without TensorFlow.

    import tf_records
    tf_records.write(path, [{"image": b"...", "label": 3, "box": [0.5, 1.0]}, ...])
"""
import struct


def _table():
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        yield crc


_TABLE = list(_table())


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


class Floats(list):
    """A list of floats, perhaps an empty one."""


def feature(value, packed=True):
    """bytes, str, int, float, or a list of one of them. packed: numbers in one field, as writers do."""
    values = value if isinstance(value, list) else [value]
    if values and isinstance(values[0], (bytes, str)):
        values = [v.encode() if isinstance(v, str) else v for v in values]
        return field(1, b"".join(field(1, v) for v in values))
    if isinstance(values, Floats) or (values and isinstance(values[0], float)):
        numbers, kind, tag = [struct.pack("<f", v) for v in values], 2, 1 << 3 | 5
    else:
        numbers, kind, tag = [varint(v) for v in values], 3, 1 << 3
    return field(kind, field(1, b"".join(numbers)) if packed else b"".join(varint(tag) + n for n in numbers))


def example(features, packed=True):
    return field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature(value, packed)))
                             for name, value in features.items()))


def record(message):
    length = struct.pack("<Q", len(message))
    return length + struct.pack("<I", masked_crc(length)) + message + struct.pack("<I", masked_crc(message))


def write(path, samples, packed=True):
    with open(path, "wb") as file:
        for sample in samples:
            file.write(record(example(sample, packed)))
