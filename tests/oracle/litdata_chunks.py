"""Writes folders of litdata's chunks, from litdata's source, without litdata.

    import litdata_chunks
    litdata_chunks.write("folder", {"image": "jpeg", "label": "int"}, [{"image": b"...", "label": 3}, ...], chunk_samples=10)

Formats without a rule here are encoded by the caller, as bytes. A key with a dot becomes a nested dictionary.
"""
import json
import os
import struct

LEAF = {"type": None, "context": None, "children_spec": []}


def tree(names):
    """The spec of a dictionary with these keys, as PyTorch writes it."""
    groups = {}
    for name in names:
        first, _, rest = name.partition(".")
        groups.setdefault(first, []).append(rest)
    children = [tree(rest) if rest[0] else LEAF for rest in groups.values()]
    return {"type": "builtins.dict", "context": json.dumps(list(groups)), "children_spec": children}


def array(number, shape, data, order="<"):
    """numpy; with order ">": tensor."""
    return struct.pack(f"{order}{2 + len(shape)}I", number, len(shape), *shape) + data


def encode(kind, value):
    if isinstance(value, bytes):
        return value
    if kind in ("int", "float"):
        return struct.pack("<q" if kind == "int" else "<d", value)
    return bytes([value]) if kind == "bool" else value.encode()


def write(folder, columns, samples, chunk_samples=10, **config):
    os.makedirs(folder)
    chunks = []
    for first in range(0, len(samples), chunk_samples):
        encoded = []
        for sample in samples[first:first + chunk_samples]:
            values = [encode(kind, sample[name]) for name, kind in columns.items()]
            encoded.append(struct.pack(f"<{len(values)}I", *map(len, values)) + b"".join(values))
        offsets = [4 * (len(encoded) + 2)]
        for item in encoded:
            offsets.append(offsets[-1] + len(item))
        data = struct.pack(f"<{len(offsets) + 1}I", len(encoded), *offsets) + b"".join(encoded)
        name = f"chunk-0-{len(chunks)}{'.' + config['compression'] if config.get('compression') else ''}.bin"
        with open(f"{folder}/{name}", "wb") as file:
            file.write(data)
        chunks.append({"chunk_bytes": len(data), "chunk_size": len(encoded), "dim": None, "filename": name})
    config = {"compression": None, "encryption": None, "chunk_size": chunk_samples, "chunk_bytes": None, "item_loader": "PyTreeLoader",
              "data_format": list(columns.values()), "data_spec": json.dumps([1, tree(columns)]), **config}
    with open(f"{folder}/index.json", "w") as file:
        json.dump({"chunks": chunks, "config": config, "updated_at": "0"}, file)
