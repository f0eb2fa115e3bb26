"""read_step.py STEP FOLDER: reads a step using only the documentation; FOLDER/names and FOLDER/N.raw hold the expected contents."""
import json, struct, sys

step, folder = sys.argv[1:]


def crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


text = open(f"{step}/manifest.json", "rb").read()
assert text.startswith(b'{"crc32c":"')
assert int(text[11:19], 16) == crc32c(text[:11] + b"00000000" + text[19:]), "manifest's CRC"
manifest = json.loads(text)
assert manifest["format"] == "millrace-checkpoint" and manifest["version"] == 1 and manifest["ranks"] == 1
(file,) = manifest["files"]
data = open(f"{step}/{file['name']}", "rb").read()
assert len(data) == file["size_bytes"]
last = (len(data) - 1) // 1048576  # one block is enough for this slow CRC
assert int(file["block_crc32c"][8 * last :], 16) == crc32c(data[last * 1048576 :]), "last block's CRC"

(length,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8 : 8 + length])
header.pop("__metadata__")
names = open(f"{folder}/names", encoding="utf-8").read().split("\n")[:-1]
assert sorted(names) == sorted(header) == sorted(t["name"] for t in manifest["tensors"])
assert [t["name"].encode() for t in manifest["tensors"]] == sorted(n.encode() for n in names)
widths = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
order = sorted(header, key=lambda n: header[n]["data_offsets"])
assert [widths.get(header[n]["dtype"], 1) for n in order] == sorted((widths.get(h["dtype"], 1) for h in header.values()), reverse=True)
for tensor in manifest["tensors"]:
    raw = open(f"{folder}/{names.index(tensor['name'])}.raw", "rb").read()
    entry = header[tensor["name"]]
    begin, end = entry["data_offsets"]
    assert data[8 + length + begin : 8 + length + end] == raw, tensor["name"]
    assert entry["dtype"] == tensor["dtype"] and entry["shape"] == tensor["shape"]
    (chunk,) = tensor["chunks"]
    assert chunk == {"file": 0, "offset_bytes": 8 + length + begin, "start": [0] * len(tensor["shape"]), "extent": tensor["shape"]}
