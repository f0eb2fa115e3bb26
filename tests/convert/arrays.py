"""arrays.py write CASE FOLDER: writes the arrays of a case in its format.
arrays.py check CASE TARGET: compares the shards in TARGET with the same arrays."""
import glob, io, json, os, struct, sys, tarfile
import numpy as np
from PIL import Image

random = np.random.default_rng(7)


def numpy_columns():
    n = 40
    return {"images": random.integers(0, 256, (n, 9, 14, 3), dtype=np.uint8), "labels": random.integers(0, 5, (n, 1)).astype(">i8"),
            "score": random.normal(size=n).astype("<f4"), "half": random.normal(size=n).astype(">f2"), "big": random.integers(0, 2**63, n, dtype=np.uint64),
            "ok": random.integers(0, 2, n).astype(bool), "emb": random.normal(size=(n, 3, 2)).astype(">f8"), "Mask": random.integers(0, 9, (n, 9, 14), dtype=np.int16)}


def keras():
    return {"x_train": random.integers(0, 256, (30, 8, 8), dtype=np.uint8), "y_train": random.integers(0, 10, 30, dtype=np.uint8),
            "x_test": random.integers(0, 256, (11, 8, 8), dtype=np.uint8), "y_test": random.integers(0, 10, 11, dtype=np.uint8)}


def planar():
    return {"images": random.integers(0, 256, (20, 3, 7, 5), dtype=np.uint8), "gray": random.integers(0, 256, (20, 1, 7, 5), dtype=np.uint8)}


def expected_numpy():
    c = numpy_columns()
    names = ["score", "half", "big", "ok"]
    return {"": [{"png": c["images"][i], "cls": int(c["labels"][i, 0]), "json": {k: c[k][i].item() for k in names}, "emb.npy": c["emb"][i], "mask.npy": c["Mask"][i]} for i in range(40)]}


def expected_keras():
    c = keras()
    return {s: [{"png": x, "cls": int(y)} for x, y in zip(c["x_" + s], c["y_" + s])] for s in ("train", "test")}


def expected_planar():
    c = planar()
    return {"": [{"png": x.transpose(1, 2, 0), "seg.png": g[0]} for x, g in zip(c["images"], c["gray"])]}


def write_folder(columns, folder):
    for name, column in columns.items():
        np.save(os.path.join(folder, name), column)


def write_npz(columns, folder):
    np.savez(os.path.join(folder, "a.npz"), **columns)


def mnist():
    return {s: (random.integers(0, 256, (n, 28, 28), dtype=np.uint8), random.integers(0, 10, n, dtype=np.uint8)) for s, n in (("train", 50), ("t10k", 20))}


def write_idx(splits, folder):
    for split, (images, labels) in splits.items():
        with open(os.path.join(folder, split + "-images-idx3-ubyte"), "wb") as f:
            f.write(struct.pack(">4B3I", 0, 0, 8, 3, *images.shape) + images.tobytes())
        with open(os.path.join(folder, split + "-labels-idx1-ubyte"), "wb") as f:
            f.write(struct.pack(">4BI", 0, 0, 8, 1, len(labels)) + labels.tobytes())


def expected_mnist():
    return {s: [{"png": x, "cls": int(y)} for x, y in zip(*arrays)] for s, arrays in zip(("train", "test"), mnist().values())}


def cifar(labels, files):
    return {name: [random.integers(0, count, n, dtype=np.uint8) for count in labels] + [random.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)]
            for name, n in files.items()}


def cifar_10():
    return cifar([10], {"data_batch_%d.bin" % i: 7 for i in range(1, 6)} | {"test_batch.bin": 5})


def cifar_100():
    return cifar([20, 100], {"train.bin": 12, "test.bin": 6})


def write_cifar(files, folder):
    for name, columns in files.items():
        with open(os.path.join(folder, name), "wb") as f:
            for row in zip(*columns):
                f.write(b"".join(value.tobytes() for value in row))
    for name, count in (("batches.meta.txt", 10),) if "test_batch.bin" in files else (("coarse_label_names.txt", 20), ("fine_label_names.txt", 100)):
        with open(os.path.join(folder, name), "w") as f:
            f.write("".join("class %d\n" % i for i in range(count)) + "\n")


def expected_cifar(files):
    splits = {"train": [], "test": []}
    for name, columns in files.items():
        for *labels, image in zip(*columns):
            coarse = {"json": {"coarse_label": int(labels[0])}} if len(labels) == 2 else {}
            splits["test" if "test" in name else "train"].append({"png": image.transpose(1, 2, 0), "cls": int(labels[-1])} | coarse)
    return splits


def beton():
    rows = []
    for i in range(30):
        pixels = random.integers(0, 256, (int(random.integers(1, 20)), int(random.integers(1, 20)), 3), dtype=np.uint8)
        jpeg = io.BytesIO()
        Image.fromarray(pixels).save(jpeg, "jpeg")
        rows.append({"image": jpeg.getvalue() if i % 3 else pixels, "label": int(random.integers(0, 6)), "Second": pixels[::-1], "score": float(random.normal()),
                     "audio": bytes(random.integers(0, 256, i % 4, dtype=np.uint8)), "emb": random.normal(size=(2, 3)).astype("<f4"), "meta": {"i": [i, None, "\u00e9"]}})
    return rows


# FFCV's layout, from ffcv/types.py, writer.py and memory_allocator.py of version 1.0.2
def write_beton(rows, folder):
    image = np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("data_ptr", "<u8")])
    data = np.dtype([("ptr", "<u8"), ("size", "<u8")])
    fields = {"image": (2, image), "label": (1, "<i8"), "Second": (2, image), "score": (0, "<f8"), "audio": (3, data), "emb": (4, "<u8"), "meta": (5, data)}
    metadata = np.zeros(len(rows), np.dtype([(name, dtype) for name, (_, dtype) in fields.items()], align=True))
    page, allocations = 1 << 12, []
    values = bytearray((24 + 1041 * len(fields) + metadata.nbytes + page - 1) // page * page)

    def malloc(sample, content):
        allocations.append((sample, len(values), len(content)))
        values.extend(content)
        return allocations[-1][1]

    for i, row in enumerate(rows):
        to = metadata[i]
        for name in "image", "Second":
            is_jpeg = isinstance(row[name], bytes)
            size = Image.open(io.BytesIO(row[name])).size if is_jpeg else row[name].shape[1::-1]
            to[name] = (0 if is_jpeg else 1, *size, malloc(i, row[name] if is_jpeg else row[name].tobytes()))
        to["label"], to["score"] = row["label"], row["score"]
        to["audio"] = (malloc(i, row["audio"]), len(row["audio"]))
        to["emb"] = malloc(i, row["emb"].tobytes())
        text = json.dumps(row["meta"]).encode() + b"\0"
        to["meta"] = (malloc(i, text), len(text))
    values.extend(bytes(-len(values) % page))
    arguments = {"emb": struct.pack("<33Q", 2, 3, *[0] * 30, 13) + json.dumps(np.dtype("<f4").descr).encode()}
    head = struct.pack("<HHIQQ", 2, len(fields), page, len(rows), len(values))
    for name, (kind, _) in fields.items():
        head += bytes([kind]) + name.encode().ljust(16, b"\0") + arguments.get(name, b"").ljust(1024, b"\0")
    values[:len(head) + metadata.nbytes] = head + metadata.tobytes()
    random.shuffle(allocations)
    with open(os.path.join(folder, "a.beton"), "wb") as f:
        f.write(values + b"".join(struct.pack("<3Q", *allocation) for allocation in allocations))


def expected_beton():
    return {"": [{"image.jpg" if isinstance(row["image"], bytes) else "image.png": row["image"], "second.png": row["Second"], "cls": row["label"],
                  "json": {"score": row["score"], "meta": row["meta"]}, "audio.bin": row["audio"], "emb.npy": row["emb"]} for row in beton()]}


CASES = {"numpy": (numpy_columns, write_folder, expected_numpy), "npz": (numpy_columns, write_npz, expected_numpy), "keras": (keras, write_npz, expected_keras),
         "keras_folder": (keras, write_folder, expected_keras), "mnist": (mnist, write_idx, expected_mnist), "cifar_10": (cifar_10, write_cifar, lambda: expected_cifar(cifar_10())), "cifar_100": (cifar_100, write_cifar, lambda: expected_cifar(cifar_100())),
         "beton": (beton, write_beton, expected_beton),
         "planar": (planar, write_folder, expected_planar)}


def decode(extension, data):
    if extension.endswith(("jpg", "bin")):
        return data
    if extension.endswith("png"):
        return np.asarray(Image.open(io.BytesIO(data)))
    return np.load(io.BytesIO(data)) if extension.endswith("npy") else json.loads(data)


def check(expected, target):
    for split, rows in expected.items():
        samples = {}
        for shard in glob.glob(os.path.join(target, split, "*.tar")):
            for member in (tar := tarfile.open(shard)):
                key, extension = member.name.split(".", 1)
                samples.setdefault(int(key), {})[extension] = decode(extension, tar.extractfile(member).read())
        assert sorted(samples) == list(range(len(rows))), (split, len(samples))
        for i, row in enumerate(rows):
            assert samples[i].keys() == row.keys(), (samples[i].keys(), row.keys())
            for name, value in row.items():
                found = samples[i][name]
                if isinstance(value, np.ndarray):
                    assert found.dtype == value.dtype.newbyteorder("<") and found.shape == value.shape, (name, found.dtype, found.shape)
                    assert (found == value).all(), (i, name)
                else:
                    assert found == value, (i, name, found, value)


command, case, folder = sys.argv[1:]
arrays, write, expected = CASES[case]
if command == "write":
    write(arrays(), folder)
else:
    check(expected(), folder)
