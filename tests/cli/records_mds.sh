#!/usr/bin/env bash
# `millrace convert dataset` of MosaicML's MDS shards.
. "$(dirname "$0")/lib.sh"
need_python
export PYTHONPATH=$here/../oracle

"$RENDER_SHAPES" --count 3 --side 40 photos >/dev/null
convert() { millrace convert dataset "$@" --quiet >/dev/null; }
"$python" - <<'PY'
import glob, mds
photos = [open(path, "rb").read() for path in sorted(glob.glob("photos/*/*.jpg"))]
mds.write("photos-mds", {"image": "jpeg", "label": "int", "caption": "str", "id": "str_int"},
          [{"image": photo, "label": i % 4, "caption": f"it's \u00e9 {i}", "id": i} for i, photo in enumerate(photos)], shard_samples=4)
PY

samples_become_an_image_a_class_and_the_rest() {
  convert photos-mds all --jpeg keep
  millrace verify all >/dev/null
  contains "$(millrace inspect all)" "mds"
  "$python" - <<'PY'
import glob, tarfile
with tarfile.open("all/shard-000000.tar") as tar:
    names = [m.name for m in tar if m.name != "__index__"]
    photos = sorted(glob.glob("photos/*/*.jpg"))
    assert names[:4] == [f"00000000.{e}" for e in ("cls", "jpg", "json", "txt")], names[:4]
    for i, path in enumerate(photos):
        member = lambda e: tar.extractfile(f"{i:08d}.{e}").read()
        assert member("jpg") == open(path, "rb").read()
        assert (member("cls"), member("json"), member("txt")) == (b"%d" % (i % 4), b'{"id":%d}' % i, f"it's \u00e9 {i}".encode())
PY
  convert photos-mds other --jpeg keep -j 1
  diff -r all other
  convert photos-mds named --column image=jpg --column id=:key --column caption=:class
  contains "$(tar -tf named/shard-000000.tar | head -n 3 | tr '\n' ' ')" "0.cls 0.jpg 1.cls "
  same "$(status_of millrace convert dataset photos-mds/shard.00000.mds none)" 1
  contains "$(cat errors)" "convert the folder that holds index.json"
  cp photos/ring/0001.jpg photos-mds
  same "$(status_of millrace convert dataset photos-mds none)" 1
  contains "$(cat errors)" "convert the folder that holds index.json"
  rm photos-mds/0001.jpg
  [[ ! -e none ]]
}

all_encodings_keep_their_values() {
  "$python" - <<'PY'
import glob, json, mds, random, struct
r = random.Random(2)
jpeg = open(sorted(glob.glob("photos/*/*.jpg"))[0], "rb").read()
scalars = [name for name in mds.FORMATS if name != "int"]
columns = {f"s_{name}": name for name in scalars}
columns.update({"blob": "bytes", "big": "str_decimal", "real": "str_float", "meta": "json", "gray": "pil", "many": "list[jpeg]",
                "more": "jpeg_array", "fixed": "ndarray:float32:2,3", "typed": "ndarray:int16", "free": "ndarray"})
samples = []
for i in range(20):
    sample = {f"s_{name}": r.choice([-1.5, 0.25, 3.0]) if "float" in name else r.randrange(100) for name in scalars}
    free = r.choice(sorted(mds.NUMBERS))
    shape = [r.choice([1, 3, 300]) for _ in range(r.randrange(1, 4))]
    count = 1
    for side in shape:
        count *= side
    data = bytes(r.randrange(256) for _ in range(count * struct.calcsize(mds.FORMATS[free])))
    sample.update({"blob": b"\xff\x00" + bytes([i]), "big": "1.500", "real": 1e22, "meta": {"a": [i, None, "\u00e9"]},
                   "gray": mds.pil(3, 2, "L", bytes(range(6))), "many": mds.images([jpeg] * (i % 3)), "more": mds.images([jpeg], False),
                   "fixed": struct.pack("<6f", *range(6)), "typed": mds.ndarray("int16", [2], struct.pack("<2h", -1, i), ":int16"),
                   "free": mds.ndarray(free, shape, data)})
    sample["_free"] = [free, shape, data.hex()]
    samples.append(sample)
mds.write("kinds", columns, samples)
json.dump([{**{k: v for k, v in s.items() if k.startswith("s_")}, "meta": s["meta"], "free": s["_free"]} for s in samples], open("expected.json", "w"))
PY
  same "$(status_of millrace convert dataset kinds none)" 2
  contains "$(cat errors)" "several columns hold images"
  convert kinds values --jpeg keep --column gray=:image --column many=many.:image --column more=more.:image --column blob=bin \
    --column fixed=fixed.npy:file --column typed=typed.npy:file --column free=npy --column '*=json'
  "$python" - <<'PY'
import glob, json, mds, struct, tarfile
expected = json.load(open("expected.json"))
jpeg = open(sorted(glob.glob("photos/*/*.jpg"))[0], "rb").read()
def npy(data):
    head = eval(data[10:10 + struct.unpack("<H", data[8:10])[0]])
    assert not head["fortran_order"]
    return head["descr"], head["shape"], data[10 + struct.unpack("<H", data[8:10])[0]:]
with tarfile.open("values/shard-000000.tar") as tar:
    members = {m.name: tar.extractfile(m).read() for m in tar}
for i, want in enumerate(expected):
    get = lambda e: members.pop(f"{i:08d}.{e}")
    text = get("json")
    row = json.loads(text)
    assert b'"big":1.500' in text and row["real"] == 1e22 and row["meta"] == want["meta"], text
    for name in mds.FORMATS:
        assert name == "int" or row["s_" + name] == want["s_" + name], (name, row, want)
    assert get("bin") == b"\xff\x00" + bytes([i])
    assert get("ppm") == b"P6\n3 2\n255\n" + bytes(v for v in range(6) for _ in range(3)), i
    for k in range(i % 3):
        assert get(f"many.{k}.jpg") == jpeg
    assert get("more.0.jpg") == jpeg
    assert npy(get("fixed.npy")) == ("<f4", (2, 3), struct.pack("<6f", *range(6)))
    assert npy(get("typed.npy")) == ("<i2", (2,), struct.pack("<2h", -1, i))
    dtype, shape, data = want["free"]
    kind = {"u": "u", "i": "i", "f": "f"}[dtype[0]]
    size = struct.calcsize(mds.FORMATS[dtype])
    assert npy(get("npy")) == (("|" if size == 1 else "<") + kind + str(size), tuple(shape), bytes.fromhex(data)), i
members = {name for name in members if not name.startswith("__")}
assert not members, members
PY
}

compressed_shards_are_read() {
  millrace convert dataset photos-mds plain --jpeg keep --quiet >/dev/null
  for method in zstd gz bz2; do
    cp -r photos-mds photos-$method
    for shard in photos-$method/*.mds; do
      case $method in
        zstd) zstd -q "$shard" -o "$shard.zstd" ;;
        gz) gzip -k "$shard" ;;
        bz2) bzip2 -k "$shard" ;;
      esac
    done
    convert photos-$method $method-both --jpeg keep
    rm photos-$method/*.mds
    convert photos-$method $method-only --jpeg keep
    diff -r plain $method-both
    diff -r plain $method-only
  done
  truncate -s -1 photos-gz/shard.00001.mds.gz
  same "$(status_of millrace convert dataset photos-gz none)" 1
  contains "$(cat errors)" "the compressed file is truncated: photos-gz/shard.00001.mds.gz at"
  [[ ! -e none && -z $(find . -name '.tmp-*') ]]
}

what_cannot_be_read_is_named() {
  "$python" - <<'PY'
import json, mds, shutil, struct
text = {"text": "str"}
mds.write("pickle", {"text": "str", "x": "pkl"}, [{"text": "a", "x": b"N."}])
mds.write("zip", text, [{"text": "a"}], compression="br")
import os
os.rename("zip/shard.00000.mds", "zip/shard.00000.mds.br")
mds.write("cut", text, [{"text": "abc"}] * 3)
data = open("cut/shard.00000.mds", "rb").read()
open("cut/shard.00000.mds", "wb").write(data[:-1])
mds.write("count", text, [{"text": "abc"}] * 3)
open("count/shard.00000.mds", "wb").write(struct.pack("<I", 4) + data[4:])
mds.write("order", text, [{"text": "abc"}] * 3)
open("order/shard.00000.mds", "wb").write(data[:8] + struct.pack("<I", 10**9) + data[12:])
mds.write("sizes", text, [{"text": "abc"}] * 3)
at = struct.unpack("<I", data[4:8])[0]
open("sizes/shard.00000.mds", "wb").write(data[:at] + struct.pack("<I", 4) + data[at + 4:])
mds.write("utf8", text, [{"text": "abc"}] * 2 + [{"text": b"\xff"}])
mds.write("outside", text, [{"text": "abc"}])
index = json.load(open("outside/index.json"))
index["shards"][0]["raw_data"]["basename"] = "../utf8/shard.00000.mds"
json.dump(index, open("outside/index.json", "w"))
mds.write("bare", text, [{"text": "abc"}])
os.remove("bare/index.json")
mds.write("cmyk", {"image": "pil"}, [{"image": mds.pil(1, 1, "CMYK", b"1234")}])
mds.write("nan", {"x": "float32"}, [{"x": float("nan")}])
PY
  find_error() { # find_error FOLDER STATUS MESSAGE
    same "$(status_of millrace convert dataset "$1" none)" "$2" "$(cat errors)"
    contains "$(cat errors)" "$3"
  }
  find_error pickle 1 'the encoding of column "x" is not supported: pickle/index.json: expected an encoding other than a Python pickle, which may run any code, found pkl'
  find_error zip 1 "zip/shard.00000.mds: expected shards, or shards compressed with zstd, gz or bz2, found the compression br in index.json"
  find_error cut 1 "an MDS shard is damaged, or does not match index.json: cut/shard.00000.mds at 0: expected as many bytes as in index.json"
  find_error count 1 "count/shard.00000.mds at 0: expected as many samples as in index.json, found 4"
  find_error order 1 "order/shard.00000.mds at 8: expected an offset after the one before"
  find_error sizes 1 "a sample is damaged: sizes/shard.00000.mds at "
  find_error utf8 1 'column "text" cannot be stored as JSON or text: utf8/shard.00000.mds at '
  find_error outside 1 "a file has an invalid name: outside/index.json: expected a path within the folder"
  find_error bare 1 "index.json describes the folder's files: fetch it too"
  find_error cmyk 1 'the mode of a PIL image is not supported: cmyk/shard.00000.mds at '
  find_error nan 1 "a number that is not finite; store it with --column 'x=x.npy:file'"
  convert utf8 skip --on-error skip 2>/dev/null
  same "$(tar -tf skip/shard-000000.tar | tr '\n' ' ')" "00000000.txt 00000001.txt "
  [[ ! -e none ]]
}

run_cases samples_become_an_image_a_class_and_the_rest all_encodings_keep_their_values \
  compressed_shards_are_read what_cannot_be_read_is_named
