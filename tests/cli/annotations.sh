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

# Roboflow's: the annotations lie next to the images.
annotations_next_to_the_images_give_the_same_dataset() {
  need_module PIL
  [[ -e coco ]] || write_coco coco
  local split
  mkdir export
  for split in train:train2017 valid:val2017; do
    cp -r "coco/${split#*:}" "export/${split%:*}"
    cp "coco/annotations/instances_${split#*:}.json" "export/${split%:*}/_annotations.coco.json"
  done
  echo "exported by" >export/README.roboflow.txt
  millrace convert dataset coco from-coco --ignore 'person_keypoints_*' --ignore 'captions_*' --quiet >/dev/null
  millrace convert dataset export from-export --quiet >/dev/null
  for split in train:train2017 valid:val2017; do
    cmp "from-export/${split%:*}/shard-000000.tar" "from-coco/${split#*:}/shard-000000.tar"
  done
  # COCO takes precedence over YOLO
  mkdir export/train/images export/train/labels
  millrace convert dataset export with-yolo --quiet >/dev/null
  rm -r export/train/images export/train/labels
  cmp with-yolo/train/shard-000000.tar from-export/train/shard-000000.tar
  # a single split
  millrace convert dataset export/valid single --quiet >/dev/null
  same "$(tar tf single/shard-000000.tar | sort)" "$(tar tf from-export/valid/shard-000000.tar | sort)"
  rm export/valid/_annotations.coco.json
  refused 'only some of the split folders have _annotations.coco.json' millrace convert dataset export refused
  [[ ! -e refused ]]
}

a_killed_conversion_of_coco_resumes_to_the_same_bytes() {
  need_module PIL
  [[ -e coco ]] || write_coco coco
  millrace convert dataset coco whole --shard-bytes 20KiB -j 1 --quiet >/dev/null
  same "$(MILLRACE_FAULT=commit:kill@3 status_of millrace convert dataset coco killed --shard-bytes 20KiB)" 137
  millrace convert dataset coco killed --shard-bytes 20KiB --resume -j 3 --quiet >/dev/null
  diff -r whole killed
}

# write_voc FOLDER: annotations, masks and lists as those of VOC2012.
write_voc() {
  "$python" - "$1" <<'PYTHON'
import os, random, sys
from PIL import Image
import xml.etree.ElementTree as ET
r = random.Random(3); root = sys.argv[1]
for d in "Annotations", "JPEGImages", "ImageSets/Main", "ImageSets/Segmentation", "SegmentationClass", "SegmentationObject": os.makedirs(f"{root}/{d}")
names = ["aeroplane", "person", "bird", "tvmonitor"]
ids = {"train": [], "val": []}
for i in range(20):
    key = f"2007_{i:06d}"; w, h = r.randrange(20, 90), r.randrange(20, 90)
    ids["train" if i % 3 else "val"].append(key)
    Image.new("RGB", (w, h), (i, 9, 100)).save(f"{root}/JPEGImages/{key}.jpg")
    a = ET.Element("annotation"); ET.SubElement(a, "folder").text = "VOC2012"; ET.SubElement(a, "filename").text = key + ".jpg"
    s = ET.SubElement(a, "size")
    for t, v in ("width", w), ("height", h), ("depth", 3): ET.SubElement(s, t).text = str(v)
    ET.SubElement(a, "segmented").text = "0"
    for k in range(r.randrange(4)):
        o = ET.SubElement(a, "object"); ET.SubElement(o, "name").text = r.choice(names); ET.SubElement(o, "pose").text = "Unspecified"
        ET.SubElement(o, "truncated").text = str(r.randrange(2)); ET.SubElement(o, "difficult").text = str(r.randrange(2))
        b = ET.SubElement(o, "bndbox"); x, y = r.randrange(1, w + 1), r.randrange(1, h + 1)
        for t, v in ("xmin", x), ("ymin", y), ("xmax", r.randrange(x, w + 1)), ("ymax", r.randrange(y, h + 1)): ET.SubElement(b, t).text = str(v)
        p = ET.SubElement(o, "part"); ET.SubElement(p, "name").text = "head"; b = ET.SubElement(p, "bndbox")
        for t in "xmin", "ymin", "xmax", "ymax": ET.SubElement(b, t).text = "7"
    ET.indent(a, "\t"); ET.ElementTree(a).write(f"{root}/Annotations/{key}.xml", encoding="unicode")
    if i % 4 == 0:
        m = Image.new("P", (w, h), 1 + i % 3); m.putpalette([x * 3 % 256 for x in range(768)]); m.putpixel((0, 0), 255)
        m.save(f"{root}/SegmentationClass/{key}.png"); m.save(f"{root}/SegmentationObject/{key}.png")
for s in ids: open(f"{root}/ImageSets/Main/{s}.txt", "w").write("\n".join(ids[s]) + "\n")
open(f"{root}/ImageSets/Main/trainval.txt", "w").write("\n".join(ids["train"] + ids["val"]) + "\n")
open(f"{root}/ImageSets/Main/bird_train.txt", "w").write("\n".join(k + " -1" for k in ids["train"]) + "\n")
PYTHON
}

# The convention for boxes is that of Detectron2: 1-based pixels, of which the box includes the last.
voc_is_read_as_pythons_xml_parser_reads_it() {
  need_module PIL
  need_module numpy
  write_voc voc
  millrace convert dataset voc objects --jpeg keep --quiet >/dev/null
  same "$(ls objects | xargs)" "train val"
  for split in train val; do
    millrace read objects/$split --decode image --size 32 --crop none --field 'boxes={from: json, path: $.boxes, decode: boxes, follows: image}' \
      --field 'classes={from: json, path: $.classes, decode: array, dtype: i64, follows: boxes}' --out objects-$split --quiet >/dev/null
  done
  "$python" - <<'PYTHON'
import json, os, tarfile
import numpy as np
import xml.etree.ElementTree as ET
names, masks = set(), 0
for path in os.listdir("voc/Annotations"):
    names |= {o.text for o in ET.parse(f"voc/Annotations/{path}").iterfind("object/name")}
for split in "train", "val":
    assert json.load(open(f"objects/{split}/dataset.json"))["millrace"]["classes"] == sorted(names)
    tar = tarfile.open(f"objects/{split}/shard-000000.tar")
    ids = open(f"voc/ImageSets/Main/{split}.txt").read().split()
    assert sorted(ids) == sorted(m[:-4] for m in tar.getnames() if m.endswith(".jpg"))
    for key in ids:
        stored = lambda field: tar.extractfile(f"{key}.{field}").read()
        file = lambda path: open(f"voc/{path}", "rb").read()
        assert stored("jpg") == file(f"JPEGImages/{key}.jpg") and stored("xml") == file(f"Annotations/{key}.xml")
        root = ET.parse(f"voc/Annotations/{key}.xml").getroot()
        objects = root.findall("object")
        boxes = [[int(o.findtext(f"bndbox/{t}")) - (t[1:] == "min") for t in ("xmin", "ymin", "xmax", "ymax")] for o in objects]
        got = json.loads(stored("json"))
        assert got["boxes"] == boxes and [sorted(names)[c] for c in got["classes"]] == [o.findtext("name") for o in objects]
        assert got["difficult"] == [int(o.findtext("difficult")) for o in objects]
        assert got["truncated"] == [int(o.findtext("truncated")) for o in objects]
        size = [int(root.findtext("size/width")), int(root.findtext("size/height"))]
        assert [got["width"], got["height"]] == size
        wanted = (np.array(boxes, float).reshape(-1, 4) * 32 / (size * 2)).astype(np.float32)
        assert (np.load(f"objects-{split}/{key}.boxes.npy") == wanted).all()
        assert np.load(f"objects-{split}/{key}.classes.npy").tolist() == got["classes"]
        if os.path.exists(f"voc/SegmentationClass/{key}.png"):
            assert stored("seg.png") == file(f"SegmentationClass/{key}.png") and stored("object.png") == file(f"SegmentationObject/{key}.png")
            masks += 1
assert masks == 5
PYTHON
  same "$(status_of millrace convert dataset voc none --split a=0.5,b=0.5)" 2
  contains "$(cat errors)" "--split cannot be used with a source that has splits"
}

# Labels are found by numpy and by the rule of Ultralytics: the last images in a path becomes labels.
yolo_is_read_as_numpy_reads_its_labels() {
  need_module PIL
  need_module numpy
  "$python" - <<'PYTHON'
import os, random
from PIL import Image
r = random.Random(4)
for split, count in ("train", 20), ("val", 6):
    for kind in "images", "labels":
        os.makedirs(f"yolo/{kind}/{split}/sub")
    for i in range(count):
        name = ("sub/" if i % 5 == 0 else "") + f"{i:03}"
        Image.new("RGB", (r.randrange(20, 90), r.randrange(20, 90)), (i, 9, 100)).save(f"yolo/images/{split}/{name}.{'png' if i % 3 else 'jpg'}")
        if i % 4:
            with open(f"yolo/labels/{split}/{name}.txt", "w") as f:
                for k in range(r.randrange(4)):
                    w, h = .05 + r.random() / 2, .05 + r.random() / 2
                    print(r.randrange(3), *(f"{v:.6f}" for v in (w / 2 + r.random() * (1 - w), h / 2 + r.random() * (1 - h), w, h)), file=f)
open("yolo/data.yaml", "w").write("path: ../datasets/yolo\ntrain: images/train\nval: images/val\n\nnames:\n  0: person\n  1: traffic light\n  2: cat\n")
PYTHON
  millrace convert dataset yolo normalized --quiet >/dev/null
  for split in train val; do
    millrace verify normalized/$split >/dev/null
    millrace read normalized/$split --decode image --size 32 --crop none --out normalized-$split --quiet \
      --field 'boxes={from: json, path: $.boxes, decode: boxes, follows: image, box_format: cxcywh, normalized: true}' \
      --field 'classes={from: json, path: $.classes, decode: array, dtype: i64, follows: boxes}' >/dev/null
  done
  "$python" - <<'PYTHON'
import glob, json, os, tarfile, warnings
import numpy as np
warnings.simplefilter("ignore")
for split, count in ("train", 20), ("val", 6):
    assert json.load(open(f"normalized/{split}/dataset.json"))["millrace"]["classes"] == ["person", "traffic light", "cat"]
    tar = tarfile.open(f"normalized/{split}/shard-000000.tar")
    images = [p for p in glob.glob(f"yolo/images/{split}/**/*.*", recursive=True)]
    assert len(images) == count and len([n for n in tar.getnames() if n.endswith(".json")]) == count
    for path in images:
        label = "/labels/".join(path.rsplit("/images/", 1)).rsplit(".", 1)[0] + ".txt"
        rows = np.loadtxt(label, ndmin=2) if os.path.exists(label) else np.empty((0, 5))
        rows = rows.reshape(-1, 5)
        key = path[len(f"yolo/images/{split}/"):-4]
        got = json.loads(tar.extractfile(f"{key}.json").read())
        assert got["boxes"] == rows[:, 1:].tolist() and got["classes"] == rows[:, 0].astype(int).tolist()
        half = rows[:, 3:] / 2
        wanted = np.concatenate([rows[:, 1:3] - half, rows[:, 1:3] + half], 1) * 32
        boxes = np.load(f"normalized-{split}/{key}.boxes.npy")
        assert boxes.shape == wanted.shape and np.abs(boxes - np.clip(wanted, 0, 32)).max(initial=0) < 1e-4
        assert np.load(f"normalized-{split}/{key}.classes.npy").tolist() == got["classes"]
PYTHON
}

run_cases yolo_is_read_as_numpy_reads_its_labels voc_is_read_as_pythons_xml_parser_reads_it coco_is_read_as_pycocotools_reads_it missing_images_name_their_annotation_file \
  annotations_next_to_the_images_give_the_same_dataset \
  a_killed_conversion_of_coco_resumes_to_the_same_bytes
