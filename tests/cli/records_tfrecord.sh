#!/usr/bin/env bash
# `millrace convert dataset` of TFRecord files.
. "$(dirname "$0")/lib.sh"
need_python
export PYTHONPATH=$here/../oracle

"$RENDER_SHAPES" --count 3 --side 40 photos >/dev/null
convert() { millrace convert dataset "$@" --quiet >/dev/null; }

# Like TensorFlow's ImageNet: train-00000-of-00003 and so on, and their samples in expected.pickle.
"$python" - <<'PY'
import glob, pickle, random, tf_records
r = random.Random(3)
samples = []
for i, path in enumerate(sorted(glob.glob("photos/*/*.jpg"))):
    samples.append({"image/encoded": open(path, "rb").read(), "image/class/label": i % 5 + 1,
                    "image/class/text": f"class {i % 5}", "image/filename": f"n{i:03d}.JPEG", "image/height": 40,
                    "image/object/bbox/xmin": tf_records.Floats(r.random() for _ in range(i % 3))})
pickle.dump(samples, open("expected.pickle", "wb"))
import os
os.mkdir("records")
for shard in range(3):
    tf_records.write(f"records/train-{shard:05d}-of-00003", samples[shard * 7:shard * 7 + 7])
PY

# check DATASET: compares the default fields with expected.pickle.
check() {
  "$python" - "$1" <<'PY'
import glob, json, pickle, struct, sys, tarfile
expected = pickle.load(open("expected.pickle", "rb"))
got = {}
for path in sorted(glob.glob(f"{sys.argv[1]}/*.tar")):
    with tarfile.open(path) as tar:
        for member in tar:
            key, extension = member.name.split(".", 1)
            got.setdefault(key, {})[extension] = tar.extractfile(member).read()
assert list(got) == [f"{i:08d}" for i in range(len(expected))], list(got)
f32 = lambda v: struct.unpack("<f", struct.pack("<f", v))[0]
for want, sample in zip(expected, got.values()):
    want = dict(want)
    assert sample.pop("jpg") == want.pop("image/encoded")
    assert sample.pop("cls") == b"%d" % want.pop("image/class/label")
    rest = {name: value if isinstance(value, list) else [value] for name, value in want.items()}
    found = json.loads(sample.pop("json"))
    name = "image/object/bbox/xmin"
    assert list(map(f32, found.pop(name))) == list(map(f32, rest.pop(name)))
    assert found == rest, (found, rest)
    assert not sample
PY
}

records_become_samples_with_an_image_a_class_and_the_rest() {
  convert records all --jpeg keep
  check all
  millrace verify all >/dev/null
  contains "$(millrace inspect all)" "tfrecord"
  same "$(status_of millrace convert dataset records other --jpeg keep -j 1)" 0
  contains "$(cat errors)" "image/encoded -> its extension (image), image/class/label -> class, others -> json (json): image/class/text"
  contains "$(cat errors)" "21 records in 3 TFRecord files; their order is kept"
  diff -r all other
  convert records tiled --shard-samples 4 -j 4 # crosses files
  same "$(tar -xOf tiled/shard-000000.tar 00000003.cls)" 4
  convert records split --split a=0.5,b=0.5 --order shuffle
  same "$(for part in a b; do millrace inspect split/$part; done | awk '/^samples/ {n += $2} END {print n}')" 21
}

a_source_is_a_file_a_folder_a_glob_or_a_pattern() {
  convert 'records/*' glob --jpeg keep
  convert 'records/train-{00000..00002}-of-00003' braces --jpeg keep
  diff -r all glob
  diff -r all braces
  convert records/train-00001-of-00003 one --jpeg keep
  same "$(tar -tf one/shard-000000.tar | wc -l)" 21
  for name in records/*; do cp "$name" "x.tfrecord-${name#records/train-}"; done
  mkdir tfds && mv x.* tfds && echo '{}' >tfds/dataset_info.json && echo '{}' >tfds/features.json && echo dog >tfds/label.labels.txt
  touch tfds/x.tfrecord-00003-of-00003
  convert tfds named --jpeg keep
  cmp all/shard-000000.tar named/shard-000000.tar
  cp photos/ring/0001.jpg tfds
  same "$(status_of millrace convert dataset tfds none)" 1
  contains "$(cat errors)" "convert the records alone"
  rm tfds/0001.jpg
  cp records/train-00000-of-00003 tfds/x-validation.tfrecord
  cp records/train-00000-of-00003 tfds/x-train.tfrecord
  same "$(status_of millrace convert dataset tfds none)" 2
  contains "$(cat errors)" "the records of several splits: tfds: found train and validation"
  convert 'tfds/*train*' train
  [[ ! -e none ]]
}

columns_become_fields_keys_and_classes() {
  convert records mapped --jpeg keep --column image/encoded=jpg --column image/filename=:key --column image/class/text=:class \
    --column image/class/label=label:int --column image/object/bbox/xmin=npy --column image/height=height:json --column image/class/text=txt
  same "$(sed -n 's/^class names  *//p' <(millrace inspect mapped))" "class 0, class 1, class 2, class 3, class 4"
  same "$(tar -xOf mapped/shard-000000.tar n007_JPEG.cls n007_JPEG.label n007_JPEG.height n007_JPEG.txt)" "2[40]3class 2"
  millrace read mapped --field 'x={from: npy, decode: array, dtype: f32}' --print json --quiet >read
  same "$(json '[s["fields"]["x"][0] for s in sorted(d, key=lambda s: s["key"])[:4]]' read)" "[0, 1, 2, 0]"
  same "$(status_of millrace convert dataset records bad --column caption=txt)" 2
  contains "$(cat errors)" 'the records have no column "caption": records: expected image/encoded, image/class/label'
  same "$(status_of millrace convert dataset records bad --column image/class/label=:key --column image/height=height:int)" 1
  contains "$(cat errors)" 'two records have the same key: "1"'
  same "$(status_of millrace convert dataset records bad --column image/object/bbox/xmin=x:float --column image/height=h:int)" 1
  contains "$(cat errors)" 'expected a finite number, found an array'
  same "$(status_of millrace convert dataset records bad --fields jpg)" 2
  contains "$(cat errors)" "--fields is not for lists, records and arrays"
  [[ ! -e bad ]]
}

several_images_need_columns() {
  "$python" - <<'PY'
import glob, tf_records
jpeg = open(sorted(glob.glob("photos/*/*.jpg"))[0], "rb").read()
tf_records.write("two.tfrecord", [{"left": jpeg, "right": jpeg, "sound": b"\xff\x00\xfe", "caption": "it's \u00e9", "vector": [1.5, -2.0]}] * 3)
PY
  same "$(status_of millrace convert dataset two.tfrecord two)" 2
  contains "$(cat errors)" "several columns hold images: two.tfrecord at 0: found left, right"
  contains "$(cat errors)" "--column 'left=:image' --column 'right=second.:image' --column '*=json'"
  same "$(status_of millrace convert dataset two.tfrecord two --column left=:image --column right=right.:image --column '*=json')" 1
  contains "$(cat errors)" 'column "sound" cannot be stored as JSON or text: two.tfrecord at 0: found bytes that are not text; store it with --column '"'sound=x.bin:file'"
  convert two.tfrecord two --column left=:image --column right=right.:image --column '*=json' --column sound=bin --jpeg keep
  same "$(tar -tf two/shard-000000.tar | head -n 4 | tr '\n' ' ')" "00000000.bin 00000000.jpg 00000000.json 00000000.right.jpg "
  same "$(tar -xOf two/shard-000000.tar 00000000.json)" '{"caption":["it'"'"'s é"],"vector":[1.5,-2]}'
}

compressed_files_are_read() {
  mkdir compressed && cd compressed
  "$python" - <<'PY'
import gzip, os, tf_records, zlib
for folder in "plain", "gz", "zlib", "named":
    os.mkdir(folder)
for i in range(3):
    # a record of 40,056 bytes begins as zlib does, one of 559,903 bytes as gzip
    tf_records.write(f"plain/{i}.tfrecord", [{"text": "x" * size, "n": i} for size in (40056 - 29, 559903 - 29, 5)])
    data = open(f"plain/{i}.tfrecord", "rb").read()
    open(f"gz/{i}.tfrecord", "wb").write(gzip.compress(data))
    open(f"zlib/{i}.tfrecord", "wb").write(zlib.compress(data))
    open(f"named/{i}.tfrecord.gz", "wb").write(gzip.compress(data))
PY
  convert plain plain-shards
  for folder in gz zlib named; do
    convert $folder $folder-shards
    diff -r plain-shards $folder-shards
  done
  convert 'gz/*.tfrecord' pattern
  convert 'named/{0..2}.tfrecord.gz' braces
  convert named/1.tfrecord.gz one
  cmp plain-shards/shard-000000.tar pattern/shard-000000.tar
  cmp plain-shards/shard-000000.tar braces/shard-000000.tar
  same "$(tar -xOf one/shard-000000.tar 00000002.json)" '{"n":[1]}'
  cd ..
}

names_with_another_meaning_are_refused() {
  "$python" - <<'PY'
import glob, tf_records
jpeg = open(sorted(glob.glob("photos/*/*.jpg"))[0], "rb").read()
tf_records.write("dollar.tfrecord", [{"$.b$.": jpeg}])
PY
  same "$(status_of millrace convert dataset dollar.tfrecord dollar)" 2
  contains "$(cat errors)" 'another meaning in --column: dollar.tfrecord at 0:'
  contains "$(cat errors)" 'found "$.b$."; rename the column'
  [[ ! -e dollar ]]
}

damage_is_found_and_names_the_record() {
  "$python" - <<'PY'
import gzip, tf_records as t
def put(name, data):
    open(name, "wb").write(data)
messages = [t.example({"text": f"number {i}", "n": i}) for i in range(3)]
whole = b"".join(map(t.record, messages))
put("whole.tfrecord", whole)
for at in range(0, len(whole), 3):
    put(f"flip-{at}.tfrecord", whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:])
    if at % 5 == 2 and at not in (len(whole) // 3, len(whole) // 3 * 2):
        put(f"cut-{at}.tfrecord", whole[:at])
put("gz.tfrecord", gzip.compress(whole)[:-5])
sequence = t.field(1, t.field(1, t.field(1, b"n") + t.field(2, t.feature(1)))) + t.field(2, b"")
put("sequence.tfrecord", t.record(sequence))
put("other.tfrecord", t.record(b"\x08\x01"))
put("twice.tfrecord", t.record(t.field(1, messages[0][2:] + messages[1][2:])))
put("skip.tfrecord", t.record(messages[0]) + t.record(b"junk") + t.record(messages[2]))
put("empty.tfrecord", b"")
PY
  convert whole.tfrecord whole
  same "$(tar -xOf whole/shard-000000.tar 00000002.txt 00000002.json)" '{"n":[2]}number 2'
  for file in flip-*.tfrecord cut-*.tfrecord; do
    [[ $(status_of millrace convert dataset "$file" none) == 1 ]] || fail "$file: $(cat errors)"
    contains "$(cat errors)" ": $file"
  done
  find_error() { # find_error FILE MESSAGE
    same "$(status_of millrace convert dataset "$1" none)" "${3:-1}" "$(cat errors)"
    contains "$(cat errors)" "$2"
  }
  find_error cut-12.tfrecord "a TFRecord file is truncated: cut-12.tfrecord at 0: expected a record of"
  find_error flip-3.tfrecord "the length of a record has a wrong checksum: flip-3.tfrecord at 0"
  find_error flip-21.tfrecord "a record has a wrong checksum: the data was damaged: flip-21.tfrecord at 0"
  find_error gz.tfrecord "the compressed file is truncated: gz.tfrecord at"
  find_error sequence.tfrecord "a record is a tf.train.SequenceExample"
  find_error other.tfrecord "a record is not a valid tf.train.Example: other.tfrecord at 12"
  find_error twice.tfrecord "two values with the same name"
  find_error empty.tfrecord "the source has no files to convert"
  find_error skip.tfrecord "a record is not a valid tf.train.Example"
  convert skip.tfrecord skip --on-error skip 2>/dev/null
  same "$(tar -tf skip/shard-000000.tar | tr '\n' ' ')" "00000000.json 00000000.txt 00000002.json 00000002.txt "
  convert skip.tfrecord skip2 --on-error skip --column text=:class --column n=n:int --column text=txt 2>/dev/null
  same "$(tar -xOf skip2/shard-000000.tar 00000002.cls)" 1
  [[ ! -e none ]]
}

# The package's files must give the values that it wrote.
files_of_the_tfrecord_package_are_read() {
  "$python" -c 'import tfrecord' 2>/dev/null || skip "no tfrecord for $python"
  "$python" - <<'PY'
import json, random
from tfrecord.writer import TFRecordWriter
r = random.Random(8)
writer, expected = TFRecordWriter("package.tfrecord"), []
for i in range(200):
    ints = [r.choice([0, -1, 2**63 - 1, -2**63, r.randrange(-10**6, 10**6)]) for _ in range(r.randrange(600))]
    floats = [r.gauss(0, 1) * 10 ** r.randrange(-30, 30) for _ in range(r.randrange(20))]
    texts = ["".join(r.choices("a\u00e9\u2028\U0001f600\"\\\n\t", k=r.randrange(9))) for _ in range(r.randrange(4))]
    writer.write({"ints": (ints, "int"), "floats": (floats, "float"), "texts": ([t.encode() for t in texts], "byte"),
                  "text": (f"row {i}".encode(), "byte")})
    expected.append([ints, floats, texts])
writer.close()
json.dump(expected, open("expected.json", "w"))
PY
  convert package.tfrecord package
  "$python" - <<'PY'
import json, numpy as np, tarfile
expected = json.load(open("expected.json"))
with tarfile.open("package/shard-000000.tar") as tar:
    for i, (ints, floats, texts) in enumerate(expected):
        row = json.load(tar.extractfile(f"{i:08d}.json"))
        assert row["ints"] == ints and row["texts"] == texts, i
        assert np.array_equal(np.array(row["floats"], "f4"), np.array(floats, "f4")), i
        assert tar.extractfile(f"{i:08d}.txt").read() == b"row %d" % i
PY
  "$python" - <<'PY'
import tf_records, json
expected = json.load(open("expected.json"))
samples = [{"ints": i, "floats": tf_records.Floats(f), "texts": t, "text": f"row {n}"} for n, (i, f, t) in enumerate(expected)]
tf_records.write("unpacked.tfrecord", samples, packed=False)
PY
  convert unpacked.tfrecord unpacked
  cmp <(tar -xOf package/shard-000000.tar 00000009.txt) <(tar -xOf unpacked/shard-000000.tar 00000009.txt)
  cmp <(tar -xOf package/shard-000000.tar 00000009.json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["ints"])') \
    <(tar -xOf unpacked/shard-000000.tar 00000009.json | "$python" -c 'import json, sys; print(json.load(sys.stdin)["ints"])')
}

run_cases records_become_samples_with_an_image_a_class_and_the_rest a_source_is_a_file_a_folder_a_glob_or_a_pattern \
  columns_become_fields_keys_and_classes several_images_need_columns \
  names_with_another_meaning_are_refused compressed_files_are_read damage_is_found_and_names_the_record \
  files_of_the_tfrecord_package_are_read
