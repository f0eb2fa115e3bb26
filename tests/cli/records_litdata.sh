#!/usr/bin/env bash
# `millrace convert dataset` of litdata's chunks.
. "$(dirname "$0")/lib.sh"
need_python
export PYTHONPATH=$here/../oracle

"$RENDER_SHAPES" --count 3 --side 40 photos >/dev/null

values_are_kept() {
  "$python" - <<'PY'
import glob, litdata_chunks as lit, struct
photos = [open(path, "rb").read() for path in sorted(glob.glob("photos/*/*.jpg"))]
columns = {"image": "jpeg", "label": "int", "x": "float", "ok": "bool", "meta.name": "str", "meta.id": "int", "a": "numpy", "t": "tensor",
           "f": "no_header_numpy:1", "g": "no_header_tensor:17", "raw": "bytes"}
samples = [{"image": photo, "label": i % 4, "x": 0.1 * i, "ok": i % 2 == 0, "meta.name": f"\u00e9 {i}", "meta.id": -i,
            "a": lit.array(9, [2, 3], struct.pack("<6f", *range(i, i + 6))), "t": lit.array(0, [1, 1], struct.pack("<f", i), ">"),
            "f": struct.pack(f"<{i}h", *range(i)), "g": struct.pack("<2q", -i, i), "raw": b"\xff\x00"} for i, photo in enumerate(photos)]
lit.write("chunks", columns, samples)
PY
  millrace convert dataset chunks all --jpeg keep --quiet >/dev/null
  millrace verify all >/dev/null
  "$python" - <<'PY'
import glob, json, struct, tarfile
photos = [open(path, "rb").read() for path in sorted(glob.glob("photos/*/*.jpg"))]
def npy(data):
    end = 10 + struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:end])
    return head["descr"], head["shape"], data[end:]
with tarfile.open("all/shard-000000.tar") as tar:
    members = {m.name: tar.extractfile(m).read() for m in tar if not m.name.startswith("__")}
for i, photo in enumerate(photos):
    get = lambda e: members.pop(f"{i:08d}.{e}")
    assert get("jpg") == photo and get("cls") == b"%d" % (i % 4) and get("raw.bin") == b"\xff\x00"
    assert json.loads(get("json")) == {"x": 0.1 * i, "ok": i % 2 == 0, "meta.name": f"\u00e9 {i}", "meta.id": -i}
    assert npy(get("a.npy")) == ("<f4", (2, 3), struct.pack("<6f", *range(i, i + 6)))
    assert npy(get("t.npy")) == ("<f4", (1, 1), struct.pack("<f", i))
    assert npy(get("f.npy")) == ("<i2", (i,), struct.pack(f"<{i}h", *range(i)))
    assert npy(get("g.npy")) == ("<i8", (2,), struct.pack("<2q", -i, i))
assert not members, members
PY
}

compressed_chunks_are_read() {
  "$python" - <<'PY'
import litdata_chunks as lit
for name, config in ("plain", {}), ("packed", {"compression": "zstd:3"}):
    lit.write(name, {"text": "str", "n": "int"}, [{"text": f"number {i}", "n": i} for i in range(200)], chunk_samples=60, **config)
PY
  for chunk in packed/*.bin; do
    zstd -q "$chunk" -o chunk
    mv chunk "$chunk"
  done
  millrace convert dataset plain expected --quiet >/dev/null
  millrace convert dataset packed found --quiet >/dev/null
  cmp expected/shard-000000.tar found/shard-000000.tar
}

what_cannot_be_read_is_named() {
  "$python" - <<'PY'
import json, litdata_chunks as lit, struct
one = {"text": "str"}
lit.write("pickle", {"x": "pickle"}, [{"x": b"N."}])
lit.write("zip", one, [{"text": "a"}], compression="zstd", compression_level="batch")
lit.write("tokens", {"x": "no_header_tensor:16"}, [{"x": b"1234"}], item_loader="TokensLoader")
lit.write("spec", one, [{"text": "a"}], data_format=["str", "int"])
lit.write("type", one, [{"text": "a"}], data_spec=json.dumps([1, {"type": "x.Y", "context": None, "children_spec": [lit.LEAF]}]))
lit.write("int", {"x": "int"}, [{"x": b"1234"}])
lit.write("array", {"x": "numpy"}, [{"x": lit.array(9, [3], b"12345678")}])
lit.write("complex", {"x": "numpy"}, [{"x": lit.array(11, [1], b"12345678")}])
lit.write("json", {"x": "json"}, [{"x": b"\x02\x01"}])
PY
  find_error() { # find_error FOLDER STATUS MESSAGE
    same "$(status_of millrace convert dataset "$1" none)" "$2" "$(cat errors)"
    contains "$(cat errors)" "$3"
  }
  find_error pickle 1 'the format of column "x" is not supported: pickle/index.json: expected bytes, text'
  find_error zip 1 "the chunks are compressed in another way, or encrypted: zip/index.json: expected chunks that litdata.optimize wrote uncompressed, or compressed as a whole with zstd"
  find_error tokens 1 "the chunks are for another loader: tokens/index.json: expected PyTreeLoader, found TokensLoader"
  find_error spec 1 "data_format and data_spec do not match"
  find_error type 1 "samples have a type that is not supported: type/index.json: expected dictionaries, lists and tuples, found x.Y"
  find_error int 1 "a sample is damaged: int/chunk-0-0.bin at 16: expected a number with the size of its type"
  find_error array 1 "a sample is damaged: array/chunk-0-0.bin at 16: expected an array with as many bytes"
  find_error complex 1 "expected an array of numbers of a type that NumPy has"
  find_error json 1 'column "x" cannot be stored as JSON or text: json/chunk-0-0.bin at 12: found bytes that are not valid JSON'
  [[ ! -e none ]]
}

run_cases values_are_kept compressed_chunks_are_read what_cannot_be_read_is_named
