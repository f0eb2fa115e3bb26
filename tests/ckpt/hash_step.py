"""Computes the section hashes of a one-rank step from the documentation alone; prints model, optimizer, loader."""
import ctypes, json, struct, sys


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXH3_128bits = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
XXH3_128bits.restype = Hash128
XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def digest(data):
    value = XXH3_128bits(data, len(data))
    return f"{value.high:016x}{value.low:016x}"


step = sys.argv[1]
manifest = json.load(open(f"{step}/manifest.json"))
data = open(f"{step}/rank-00000.safetensors", "rb").read()
(length,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8 : 8 + length])
header.pop("__metadata__")


def text(value):
    raw = value.encode()
    return struct.pack("<I", len(raw)) + raw


for optimizer in (False, True):
    stream = b""
    for name in sorted(header, key=str.encode):
        if name.startswith("optimizer.") != optimizer:
            continue
        entry = header[name]
        shape = entry["shape"]
        begin, end = entry["data_offsets"]
        stream += text(name) + text(entry["dtype"]) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        stream += data[8 + length + begin : 8 + length + end]
    print(digest(stream))
stream = b""
for key, value in sorted(manifest["state"]["loader"].items()):
    stream += text(key) + text(json.dumps(value, sort_keys=True, separators=(",", ":")))
print(digest(stream))
