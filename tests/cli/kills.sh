#!/usr/bin/env bash
# A conversion of any source that is killed at random moments, by a signal that it cannot handle, and
# resumed until it ends, gives the same bytes. ROUNDS (1) is how often each source is converted so;
# a round kills up to three times.
. "$(dirname "$0")/lib.sh"
need_python
export PYTHONPATH=$here/../oracle XDG_CACHE_HOME=$scratch/.cache
rounds=${ROUNDS:-1}
RANDOM=${SEED:-$$}

"$RENDER_SHAPES" --count 40 --side 96 photos >/dev/null
"$python" - <<'PY'
import csv, glob, gzip, io, json, os, random, shutil, struct, tarfile, zipfile
import litdata_chunks, mds, tf_records
r = random.Random(4)
photos = [open(path, "rb").read() for path in sorted(glob.glob("photos/*/*.jpg"))]
for name in ("sidecars", "csv", "jsonl", "tars", "npy", "idx", "cifar", "coco/annotations", "coco/train", "voc/JPEGImages", "voc/Annotations", "voc/ImageSets/Main", "yolo/images",
             "yolo/labels", "texts"):
    os.makedirs(name)
def put(path, data):
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
for i, photo in enumerate(photos):
    put(f"sidecars/{i:04}.jpg", photo), put(f"sidecars/{i:04}.txt", f"caption {i}"), put(f"sidecars/{i:04}.json", json.dumps({"n": i}))
    for folder in "csv/a", "jsonl/a", "coco/train/a", "voc/JPEGImages/a", "yolo/images/a":
        put(f"{folder}{i:04}.jpg", photo)
    put(f"yolo/labels/a{i:04}.txt", f"{i % 3} 0.5 0.5 0.25 0.25\n")
    put(f"voc/Annotations/a{i:04}.xml", "<annotation><size><width>96</width><height>96</height><depth>3</depth></size><object><name>thing</name>"
        "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>40</ymax></bndbox></object></annotation>")
put("yolo/classes.txt", "a\nb\nc\n")
put("voc/ImageSets/Main/train.txt", "".join(f"a{i:04}\n" for i in range(len(photos))))
with open("csv/list.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerows([("file", "text")] + [(f"a{i:04}.jpg", f"one, \"{i}\"") for i in range(len(photos))])
put("jsonl/list.jsonl", "".join(json.dumps({"image": f"a{i:04}.jpg", "caption": f"c{i}", "label": i % 4}) + "\n" for i in range(len(photos))))
for shard in range(2):
    with tarfile.open(f"tars/{shard}.tar", "w") as tar, zipfile.ZipFile(f"{shard}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(shard, len(photos), 2):
            for name, data in (f"{i:04}.jpg", photos[i]), (f"{i:04}.cls", b"%d" % (i % 5)):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
                archive.writestr(name, data)
    put(f"{shard}.tar.gz", gzip.compress(open(f"tars/{shard}.tar", "rb").read(), 1))
os.mkdir("records")
tf_records.write("records/train-00000-of-00001", [{"image/encoded": photo, "image/class/label": i % 5} for i, photo in enumerate(photos)])
mds.write("mds", {"image": "jpeg", "label": "int"}, [{"image": photo, "label": i % 4} for i, photo in enumerate(photos)], shard_samples=50)
litdata_chunks.write("chunks", {"image": "jpeg", "label": "int"}, [{"image": photo, "label": i % 4} for i, photo in enumerate(photos)], chunk_samples=50)
def npy(kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\1\0" + struct.pack("<H", 118) + head.ljust(117).encode() + b"\n" + data
pixels, labels = r.randbytes(400 * 24 * 24), bytes(i % 6 for i in range(400))
put("npy/images.npy", npy("|u1", (400, 24, 24), pixels)), put("npy/labels.npy", npy("|u1", (400,), labels))
with zipfile.ZipFile("arrays.npz", "w") as archive:
    archive.writestr("images.npy", npy("|u1", (400, 24, 24), pixels)), archive.writestr("labels.npy", npy("|u1", (400,), labels))
put("idx/train-images-idx3-ubyte", struct.pack(">IIII", 0x803, 400, 24, 24) + pixels), put("idx/train-labels-idx1-ubyte", struct.pack(">II", 0x801, 400) + labels)
for name in *(f"data_batch_{k}" for k in range(1, 6)), "test_batch":
    put(f"cifar/{name}.bin", b"".join(bytes([i % 10]) + r.randbytes(3072) for i in range(60)))
json.dump({"images": [{"id": i, "file_name": f"a{i:04}.jpg", "width": 96, "height": 96} for i in range(len(photos))], "categories": [{"id": 1, "name": "thing"}],
           "annotations": [{"id": i, "image_id": i, "category_id": 1, "bbox": [1, 2, 30, 40], "area": 1200, "iscrowd": 0} for i in range(len(photos))]},
          open("coco/annotations/instances_train.json", "w"))
words = ["word", "another", "thing\n", "12", "\u00e9", "  "]
text = " ".join(r.choices(words, k=200000))
put("text.txt", text), put("texts/a.txt", text[:300000]), put("texts/b.txt", text[300000:])
documents = "".join(json.dumps({"text": text[at:at + 500]}) + "\n" for at in range(0, len(text), 500))
put("documents.jsonl", documents), os.mkdir("packed")
for name in "abc":
    put(f"packed/{name}.jsonl.gz", gzip.compress(documents.encode(), 1))
tokens = [r.randrange(50000) if i % 700 else 50256 for i in range(300000)]
put("llmc.bin", struct.pack("<3i", 20240520, 1, len(tokens)).ljust(1024, b"\0") + struct.pack(f"<{len(tokens)}H", *tokens))
PY

# check NAME SOURCE [OPTION...]
check() {
  local name=$1 source=$2 began took at kills=0 round attempt status
  shift 2
  began=$EPOCHREALTIME
  millrace convert dataset "$source" whole "$@" --shard-bytes 100KiB -j 2 --quiet >/dev/null
  took=$((${EPOCHREALTIME/./} - ${began/./})) # microseconds
  for ((round = 0; round < rounds; round++)); do
    rm -rf killed
    for attempt in 1 2 3 4; do
      at=$(((RANDOM * 32768 + RANDOM) % (took + took / 4)))
      status=0
      "$MILLRACE" convert dataset "$source" killed "$@" --shard-bytes 100KiB -j $((1 + RANDOM % 3)) --resume --quiet >/dev/null 2>errors &
      if [[ $attempt -lt 4 ]]; then # the last attempt is not killed
        sleep "$(printf '%d.%06d' $((at / 1000000)) $((at % 1000000)))"
        kill -KILL $! 2>/dev/null || true
      fi
      wait $! 2>/dev/null || status=$?
      [[ $status != 0 ]] || break
      [[ $status == 137 ]] || fail "$name: status $status after $kills kills: $(cat errors)"
      kills=$((kills + 1))
    done
    diff -r whole killed || fail "$name: different after $kills kills"
    [[ -z $(find . -maxdepth 1 -name '.tmp-*') ]] || fail "$name: leftovers after $kills kills: $(ls -A)"
  done
  rm -rf whole killed
  echo "$name: $rounds rounds, $kills kills" >&2
}

images_and_lists_resume() {
  check folder photos
  check sidecars sidecars
  check csv csv/list.csv
  check jsonl jsonl/list.jsonl
  check coco coco
  check voc voc
  check yolo yolo
}
archives_and_records_resume() {
  check tars tars
  check gz '*.tar.gz'
  check zip '*.zip'
  check tfrecord records
  check mds mds
  check litdata chunks
  millrace convert dataset tars shards --quiet >/dev/null
  check shards shards --jpeg keep
  millrace convert dataset tars compressed --zstd --quiet >/dev/null
  check zstd compressed --jpeg keep --zstd=1
}
arrays_resume() {
  check npy npy
  check npz arrays.npz
  check idx idx
  check cifar cifar
  "$python" -c 'import numpy, PIL' 2>/dev/null || return 0
  mkdir ffcv
  "$python" "$here/../convert/arrays.py" write beton ffcv
  check beton ffcv/a.beton --shard-bytes 10KiB
}
text_resumes() {
  check text text.txt
  check texts texts
  check documents documents.jsonl --tokenizer bytes
  check packed packed --tokenizer bytes
  check llmc llmc.bin --vocab-size 50257 --document-end 50256
}

run_cases images_and_lists_resume archives_and_records_resume arrays_resume text_resumes
