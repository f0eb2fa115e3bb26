#!/usr/bin/env bash
# `millrace convert dataset` with images and annotations: what is read back equals what the formats'
# own tools find in the source.
. "$(dirname "$0")/lib.sh"

# need_module NAME: skips unless Python has it.
need_module() {
  need_python
  "$python" -c "import $1" 2>/dev/null || skip "Python lacks $1"
}

boxes=(--field 'boxes={from: json, path: $.boxes, decode: boxes, follows: image, box_format: xywh}'
  --field 'classes={from: json, path: $.classes, decode: array, dtype: i64, follows: boxes}')

# write_coco FOLDER: COCO's files for random images, in COCO's folders.
write_coco() {
  "$python" - "$1" <<'PYTHON'
import json, os, random, sys
from PIL import Image
r = random.Random(1)
root = sys.argv[1]
os.makedirs(f"{root}/annotations")
categories = [{"id": i, "name": n, "supercategory": "x"} for i, n in [(3, "car"), (1, "person"), (90, "toothbrush")]]
objects_count = 0
for split, count in ("train2017", 30), ("val2017", 7):
    os.makedirs(f"{root}/{split}")
    images, objects, people, captions = [], [], [], []
    for i in r.sample(range(1000000), count):
        w, h = r.randrange(20, 90), r.randrange(20, 90)
        Image.new("RGB", (w, h), (i % 255, 9, 100)).save(f"{root}/{split}/{i:012d}.jpg")
        images.append({"license": 1, "file_name": f"{i:012d}.jpg", "height": h, "width": w, "id": i})
        for k in range(r.randrange(5)):
            objects_count += 1
            x, y = round(r.random() * w / 2, 2), round(r.random() * h / 2, 2)
            category = r.choice(categories)["id"]
            crowd = int(r.random() < .2)
            o = {"segmentation": {"counts": [3, 4], "size": [h, w]} if crowd else [[round(r.random() * w, 2) for _ in range(6)]],
                 "area": round(r.random() * 99, 4), "iscrowd": crowd, "image_id": i, "category_id": category, "id": objects_count,
                 "bbox": [x, y, round(1 + r.random() * (w / 2 - 1), 2), round(1 + r.random() * (h / 2 - 1), 2)]}
            objects.append(o)
            if category == 1:
                people.append(dict(o, num_keypoints=2, keypoints=[r.randrange(20) for _ in range(17 * 3)]))
        for k in range(5):
            captions.append({"image_id": i, "id": 10000 + len(captions), "caption": f"a «thing» {i}\n{k}"})
    r.shuffle(objects), r.shuffle(captions)
    def write(kind, **members):
        with open(f"{root}/annotations/{kind}_{split}.json", "w") as f:
            json.dump({"info": {"a": [1, {"b": "]"}]}, "licenses": [], "images": images, **members}, f, ensure_ascii=r.random() < 0.5)
    write("instances", annotations=objects, categories=categories)
    write("captions", annotations=captions)
    write("person_keypoints", annotations=people, categories=[dict(categories[1], keypoints=["point"] * 17)])
PYTHON
}

coco_is_read_as_pycocotools_reads_it() {
  need_module pycocotools
  need_module PIL
  write_coco coco
  millrace convert dataset coco shards --quiet >/dev/null
  millrace verify shards/val2017 >/dev/null
  for split in train2017 val2017; do
    millrace read shards/$split --decode image --size 32 --crop none "${boxes[@]}" --field 'caption={from: txt, decode: str}' \
      --field 'points={from: keypoints.json, path: $.keypoints, decode: keypoints, follows: image}' --out read-$split --quiet >/dev/null
  done
  "$python" - <<'PYTHON' >/dev/null
import json, tarfile
import numpy as np
from pycocotools.coco import COCO
names = ["person", "car", "toothbrush"]
for split in "train2017", "val2017":
    assert json.load(open(f"shards/{split}/dataset.json"))["millrace"]["classes"] == names
    objects, captions, people = (COCO(f"coco/annotations/{kind}_{split}.json") for kind in ("instances", "captions", "person_keypoints"))
    tar = tarfile.open(f"shards/{split}/shard-000000.tar")
    assert len(objects.getImgIds()) * 6 == len([m for m in tar.getnames() if not m.startswith("_")])
    for image in objects.loadImgs(objects.getImgIds()):
        key = image["file_name"][:-4]
        stored = lambda field: tar.extractfile(f"{key}.{field}").read()
        read = lambda field: np.load(f"read-{split}/{key}.{field}.npy")
        wanted = objects.loadAnns(objects.getAnnIds(image["id"]))
        got = json.loads(stored("json"))
        assert (got["image_id"], got["width"], got["height"]) == (image["id"], image["width"], image["height"])
        assert got["boxes"] == [a["bbox"] for a in wanted] and got["ids"] == [a["id"] for a in wanted]
        assert got["areas"] == [a["area"] for a in wanted] and got["iscrowd"] == [a["iscrowd"] for a in wanted]
        assert [names[c] for c in got["classes"]] == [objects.cats[a["category_id"]]["name"] for a in wanted]
        assert got["category_ids"] == [a["category_id"] for a in wanted]
        assert json.loads(stored("segmentation.json")) == [a["segmentation"] for a in wanted]
        texts = [a["caption"] for a in captions.loadAnns(captions.getAnnIds(image["id"]))]
        assert json.loads(stored("captions.json")) == texts and stored("txt").decode() == texts[0]
        assert open(f"read-{split}/{key}.caption", newline="").read() == texts[0]
        of_people = people.loadAnns(people.getAnnIds(image["id"]))
        assert json.loads(stored("keypoints.json"))["keypoints"] == [n for a in of_people for n in a["keypoints"]]
        assert read("points").shape == (17 * len(of_people), 3)
        x0, y0, w, h = np.array([a["bbox"] for a in wanted], float).reshape(-1, 4).T
        corners = np.array([x0, y0, np.minimum(x0 + w, image["width"]), np.minimum(y0 + h, image["height"])]).T
        assert (read("boxes") == (corners * 32 / ([image["width"], image["height"]] * 2)).astype(np.float32)).all()
        assert read("classes").tolist() == got["classes"]
PYTHON
}

missing_images_name_their_annotation_file() {
  need_module PIL
  [[ -e coco ]] || write_coco coco
  rm -rf part && cp -r coco part && rm -r part/train2017
  same "$(status_of millrace convert dataset part bad)" 1
  contains "$(cat errors)" "no folder of the source: part/annotations/instances_train2017.json at "
  same "$(status_of millrace convert dataset part val --ignore '*_train2017.json')" 0
  same "$(sed -n 's/^samples  *//p' out)" 7
  rm "part/val2017/$(ls part/val2017 | tail -n 1)"
  same "$(status_of millrace convert dataset part bad --ignore '*_train2017.json')" 1
  contains "$(cat errors)" "an image does not exist: part/annotations/instances_val2017.json at "
  [[ ! -e bad ]]
}

a_killed_conversion_of_coco_resumes_to_the_same_bytes() {
  need_module PIL
  [[ -e coco ]] || write_coco coco
  millrace convert dataset coco whole --shard-bytes 20KiB -j 1 --quiet >/dev/null
  same "$(MILLRACE_FAULT=commit:kill@3 status_of millrace convert dataset coco killed --shard-bytes 20KiB)" 137
  millrace convert dataset coco killed --shard-bytes 20KiB --resume -j 3 --quiet >/dev/null
  diff -r whole killed
}

run_cases coco_is_read_as_pycocotools_reads_it missing_images_name_their_annotation_file \
  a_killed_conversion_of_coco_resumes_to_the_same_bytes
