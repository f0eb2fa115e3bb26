"""Writes folders of MosaicML's MDS shards, from their specification, without mosaicml-streaming.

    import mds
    mds.write("folder", {"image": "jpeg", "label": "int"}, [{"image": b"...", "label": 3}, ...], shard_samples=10)

Values of lists and of encodings without a rule here are encoded by the caller, as bytes.
"""
import json
import os
import struct

FORMATS = {"int": "<q", "uint8": "<B", "int8": "<b", "uint16": "<H", "int16": "<h", "uint32": "<I", "int32": "<i", "uint64": "<Q",
           "int64": "<q", "float16": "<e", "float32": "<f", "float64": "<d"}
NUMBERS = {"uint8": 8, "int8": 9, "uint16": 16, "int16": 17, "float16": 18, "uint32": 32, "int32": 33, "float32": 34, "uint64": 64,
           "int64": 65, "float64": 66}


def size_of(encoding):
    if encoding in FORMATS:
        return struct.calcsize(FORMATS[encoding])
    parts = encoding.split(":")
    if parts[0] != "ndarray" or len(parts) < 3:
        return None
    size = struct.calcsize(FORMATS[parts[1]])
    for side in parts[2].split(","):
        size *= int(side)
    return size


def pil(width, height, mode, pixels):
    return struct.pack("<3I", width, height, len(mode)) + mode.encode() + pixels


def images(elements, placeholder=True):
    """list[jpeg] and the like; without the placeholder: jpeg_array."""
    return (struct.pack("<I", 0) * placeholder + struct.pack(f"<{len(elements) + 1}I", len(elements), *map(len, elements))
            + b"".join(elements))


def ndarray(dtype, shape, data, encoding="ndarray"):
    head = b"" if ":" in encoding else bytes([NUMBERS[dtype]])
    if encoding.count(":") < 2:
        width = next(i for i, limit in enumerate((8, 16, 32, 64)) if max(shape) < 1 << limit)
        head += bytes([len(shape) << 2 | width]) + b"".join(side.to_bytes(1 << width, "little") for side in shape)
    return head + data


def encode(encoding, value):
    if isinstance(value, bytes):
        return value
    if encoding in FORMATS:
        return struct.pack(FORMATS[encoding], value)
    return (json.dumps(value) if encoding == "json" else str(value)).encode()


def write(folder, columns, samples, shard_samples=10, compression=None):
    os.makedirs(folder)
    names = sorted(columns)
    sizes = [size_of(columns[name]) for name in names]
    shards = []
    for first in range(0, len(samples), shard_samples):
        encoded = []
        for sample in samples[first:first + shard_samples]:
            values = [encode(columns[name], sample[name]) for name in names]
            head = b"".join(struct.pack("<I", len(v)) for v, size in zip(values, sizes) if size is None)
            encoded.append(head + b"".join(values))
        info = {"column_encodings": [columns[name] for name in names], "column_names": names, "column_sizes": sizes,
                "compression": compression, "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2}
        text = json.dumps(info, sort_keys=True).encode()
        offsets = [4 + 4 * (len(encoded) + 1) + len(text)]
        for sample in encoded:
            offsets.append(offsets[-1] + len(sample))
        data = struct.pack(f"<{len(offsets) + 1}I", len(encoded), *offsets) + text + b"".join(encoded)
        name = f"shard.{len(shards):05d}.mds"
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)
        shards.append({**info, "raw_data": {"basename": name, "bytes": len(data), "hashes": {}}, "samples": len(encoded),
                       "zip_data": {"basename": f"{name}.{compression}", "bytes": 1, "hashes": {}} if compression else None})
    with open(f"{folder}/index.json", "w") as file:
        json.dump({"shards": shards, "version": 2}, file, sort_keys=True)
