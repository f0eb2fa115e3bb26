"""mr.open and mr.Dataset: single samples, compared with tarfile and with mr.Loader."""

import gc
import io
import json
import multiprocessing
import os
import pathlib
import pickle
import random
import subprocess
import sys
import tarfile
import threading

import millrace as mr
import numpy
import pytest

IMAGE = mr.Image(24, crop="random", flip=True)


def stored(folder: pathlib.Path) -> list[dict]:
    """The samples of a folder's tars, as Python reads them."""
    samples: dict[str, dict] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                slash = member.name.rfind("/") + 1
                stem, extension = member.name[slash:].split(".", 1)
                key = member.name[:slash] + stem
                sample = samples.setdefault(key, {"__key__": key})
                sample[extension] = tar.extractfile(member).read()
    return list(samples.values())


def write_tar(path: pathlib.Path, members: dict[str, bytes]) -> pathlib.Path:
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture(scope="module")
def shards(photos, millrace, tmp_path_factory) -> pathlib.Path:
    """Several shards."""
    folder = tmp_path_factory.mktemp("several") / "shards"
    millrace("convert", "dataset", photos, folder, "--shard-samples", 10, "--quiet")
    assert len(list(folder.glob("*.tar"))) > 3
    return folder


def flip_bit(path: pathlib.Path, key: str) -> int:
    """Damages a member. Returns where its data begins."""
    with tarfile.open(path) as tar:
        member = tar.getmember(key)
    path.chmod(0o644)
    with open(path, "r+b") as file:
        file.seek(member.offset_data + member.size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    return member.offset_data


# ---- Stored samples. ----


def test_stored_samples_are_those_of_the_tar(shards):
    expected = stored(shards)
    with mr.open(shards) as ds:
        assert len(ds) == len(expected) > 30
        assert ds.fields == ["cls", "jpg"]
        assert ds.path == str(shards)
        assert list(ds) == expected
        for number in random.Random(1).choices(range(len(expected)), k=200):
            assert ds[number] == expected[number]
            assert ds[number - len(ds)] == expected[number]
            assert ds[expected[number]["__key__"]] == expected[number]
            assert ds[numpy.int64(number)] == expected[number]
            assert ds.key(number) == expected[number]["__key__"]
            assert ds.number(expected[number]["__key__"]) == number


def test_several_samples_are_a_list(shards):
    expected = stored(shards)
    with mr.open(shards) as ds:
        assert ds[3:8] == expected[3:8]
        assert ds[::-7] == expected[::-7]
        assert ds[500:] == []
        assert ds[[3, -1, 3]] == [expected[3], expected[-1], expected[3]]
        assert ds[numpy.array([5, 2])] == [expected[5], expected[2]]
        assert ds[[expected[4]["__key__"]]] == [expected[4]]


def test_what_is_no_sample_is_refused(shards):
    with mr.open(shards) as ds:
        for number in (len(ds), -len(ds) - 1, 2**70):
            with pytest.raises(IndexError, match=f"{len(ds)} samples"):
                ds[number]
        with pytest.raises(KeyError, match="no sample of .*shards has the key 'circle/'"):
            ds["circle/"]
        for item in (1.0, None, b"circle/0001"):
            with pytest.raises(TypeError, match="numbers and keys"):
                ds[item]
        for mask in ([True, False], numpy.array([True, False]), True, numpy.array(True)):
            with pytest.raises(TypeError, match="masks"):
                ds[mask]
        assert "circle/" not in ds
        assert ds.key(0) in ds
        assert 0 not in ds
    with pytest.raises(TypeError, match="Mix"):
        mr.Dataset(mr.Mix({"a": 1}))
    with pytest.raises(FileNotFoundError):
        mr.open(shards / "nothing")


def test_tars_of_other_tools_with_any_key(tmp_path):
    names = ["caf\u00e9/\u732b 1", "a=b&c'd", "x" * 200, "surrogate\udcff", "-"]
    stored_names = {name: name.encode("utf-8", "surrogateescape") for name in names}
    members = {f"{name}.{i}.bin": data for name, data in stored_names.items() for i in "xy"}
    path = write_tar(tmp_path / "a.tar", members)
    with mr.open(path) as ds:
        assert len(ds) == len(names)
        for number, (name, data) in enumerate(stored_names.items()):
            assert ds[name] == {"__key__": name, "x.bin": data, "y.bin": data}
            assert ds.number(name) == number
            assert ds.key(number) == name


def test_a_key_of_several_samples_is_refused(tmp_path):
    for shard in "01":
        write_tar(tmp_path / f"{shard}.tar", {"a.txt": b"1", f"b{shard}.txt": b"2"})
    with mr.open(f"{tmp_path}/{{0..1}}.tar") as ds:
        assert len(ds) == 4
        assert ds["b1"]["txt"] == b"2"
        with pytest.raises(ValueError, match="several samples .*0 and 2"):
            ds["a"]


def test_samples_may_lack_fields_and_be_empty(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"a.txt": b"", "b.json": b"{}", "c.txt": b"x"})
    with mr.open(path) as ds:
        assert ds[:] == [
            {"__key__": "a", "txt": b""},
            {"__key__": "b", "json": b"{}"},
            {"__key__": "c", "txt": b"x"},
        ]


def test_compressed_shards_have_the_same_samples(shards, millrace, tmp_path):
    millrace("convert", "dataset", shards, tmp_path / "zstd", "--zstd", "--keep-order", "--quiet")
    assert list((tmp_path / "zstd").glob("*.zst"))
    with mr.open(tmp_path / "zstd") as ds:
        for number in random.Random(2).sample(range(len(ds)), len(ds)):
            assert ds[number] == stored(shards)[number]


# ---- Decoded samples. ----


def same(sample: dict, batch: dict, i: int) -> bool:
    """Whether a sample has the bits, shapes and types of a batch's item."""
    assert sample.keys() == batch.keys()
    for name, field in sample.items():
        other = batch[name][i]
        assert field.shape == other.shape and field.dtype == other.dtype
        assert field.tobytes() == other.tobytes()
    return True


def check_all(path, fields, **options) -> None:
    """Compares all samples, in the shuffled order of a loader, in two epochs."""
    arguments = {"fields": fields, "framework": "numpy", "seed": 5}
    with (
        mr.Dataset(path, **arguments) as ds,
        mr.Loader(path, batch_size=7, tail="keep", **arguments, **options) as loader,
    ):
        for epoch in range(2):
            ds.set_epoch(epoch)
            count = 0
            for batch in loader:
                for i, (key, ref) in enumerate(
                    zip(loader.keys(), loader._loader.refs(), strict=True)
                ):
                    assert ref[1] == epoch
                    assert same(ds[ref[2]], batch, i)
                    assert ds.key(ref[2]) == key
                    count += 1
            assert count == len(ds)


@pytest.mark.parametrize(
    "image", [IMAGE, mr.Image(24, crop="center"), mr.Image((8, 9), jitter=(0.4,))]
)
def test_decoded_images_have_the_bits_of_a_loader(shards, image):
    check_all(shards, {"image": image, "label": mr.Label()})
    check_all(shards, {"image": image})
    check_all(shards, {"photo": image, "class": mr.Int("cls")})


def test_normalized_images(shards):
    image = mr.Image(16, layout="chw", dtype="f32", mean=(0.4, 0.5, 0.6), std=0.2)
    check_all(shards, {"image": image})


def test_records_have_the_bits_of_a_loader(texts):
    check_all(
        texts,
        {
            "text": mr.Text("txt"),
            "score": mr.Float("json", path="$.score"),
            "tags": mr.Array("json", path="$.tags", dtype="i64"),
            "json": mr.Json("json"),
        },
    )


def test_windows_of_tokens_have_the_bits_of_a_loader(millrace, tmp_path):
    text, tokens = tmp_path / "a.txt", tmp_path / "shards"
    text.write_bytes(random.Random(3).randbytes(3000))
    millrace("convert", "dataset", text, tokens, "--tokenizer", "bytes", "--quiet")
    fields = {"tokens": mr.Windows(32)}
    check_all(tokens, fields)
    with mr.Dataset(tokens, fields=fields, framework="numpy") as ds:
        with pytest.raises(ValueError, match="windows of text have no keys"):
            ds["a"]
    with mr.open(tokens) as ds:
        assert ds[:] == stored(tokens)


def test_arrays_of_any_framework_by_dlpack(shards):
    fields = {"image": mr.Image(8, crop="center"), "label": mr.Label()}
    with (
        mr.Dataset(shards, fields=fields, framework="dlpack") as objects,
        mr.Dataset(shards, fields=fields, framework="numpy") as arrays,
    ):
        sample = objects[3]
        assert sample["image"].shape == (8, 8, 3)
        assert sample["label"].shape == ()
        for name in fields:
            assert numpy.from_dlpack(sample[name]).tobytes() == arrays[3][name].tobytes()


def test_errors_have_the_text_of_the_program(shards):
    with pytest.raises(ValueError, match="no field of that name.*found flac"):
        mr.Dataset(shards, fields={"audio": mr.Bytes("flac")})
    with pytest.raises(ValueError, match="no fields; without fields="):
        mr.Dataset(shards, fields={})
    with pytest.raises(ValueError, match="none of torch"):
        mr.Dataset(shards, fields={"image": IMAGE}, framework="mxnet")
    with mr.Dataset(shards, fields={"label": mr.Float("jpg")}) as ds:
        with pytest.raises(OSError, match="cannot be used.*shard-0"):
            ds[0]


# ---- Damage. ----


@pytest.fixture
def damaged(shards, tmp_path) -> tuple[pathlib.Path, str, str, int]:
    """A copy with a damaged photo, its key, shard and offset."""
    subprocess.run(["cp", "-r", shards, tmp_path / "bad"], check=True)
    path = sorted((tmp_path / "bad").glob("*.tar"))[1]
    with tarfile.open(path) as tar:
        name = [member.name for member in tar if member.name.endswith(".jpg")][4]
    return tmp_path / "bad", name[:-4], str(path), flip_bit(path, name)


@pytest.mark.parametrize("fields", [None, {"image": IMAGE}])
def test_a_damaged_sample_is_named(damaged, shards, fields):
    folder, key, path, offset = damaged
    with mr.Dataset(folder, fields=fields, framework="numpy") as ds:
        number = ds.number(key)
        with pytest.raises(OSError, match="CRC32C") as caught:
            ds[number]
        assert key in str(caught.value)
        assert f"{path} at {offset}" in str(caught.value)
        for other in (number - 1, number + 1):
            ds[other]
        if fields is None:
            assert ds[:number] + ds[number + 1 :] == [
                s for s in stored(shards) if s["__key__"] != key
            ]


def test_verify_names_what_is_damaged(damaged, shards, millrace):
    with mr.open(shards) as ds:
        assert ds.verify()["samples_count"] == len(ds)
        assert ds.verify(decode=True)["bad_count"] == 0
    folder, key, path, offset = damaged
    with mr.open(folder) as ds, pytest.raises(OSError, match="2 items are bad") as caught:
        ds.verify()
    assert key in str(caught.value)
    assert f"{path} at {offset}" in str(caught.value)


def test_inspect_is_what_the_program_prints(shards, millrace):
    with mr.open(shards) as ds:
        assert ds.inspect() == json.loads(millrace("inspect", shards, "--json"))
        assert ds.inspect()["samples_count"] == len(ds)
        assert ds.classes == ds.inspect()["class_names"]


def test_a_truncated_tar_is_refused(tmp_path):
    path = write_tar(tmp_path / "a.tar", {f"{i}.bin": bytes(5000) for i in range(9)})
    os.truncate(path, 30000)
    with pytest.raises(OSError, match="a.tar"):
        mr.open(path)


# ---- Threads, processes, life cycle. ----


def test_threads_read_the_same(shards):
    with mr.Dataset(shards, fields={"image": IMAGE}, framework="numpy") as ds:
        expected = [sample["image"].tobytes() for sample in ds]
        keys = [ds.key(i) for i in range(len(ds))]
        failures = []

        def read(seed: int) -> None:
            try:
                for i in random.Random(seed).choices(range(len(ds)), k=300):
                    item = i if i % 2 else keys[i]
                    if ds[item]["image"].tobytes() != expected[i]:
                        failures.append(i)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def read_until_closed(ds: mr.Dataset, errors: list) -> None:
    try:
        while True:
            ds[7]
    except RuntimeError as error:
        errors.append(str(error))


def test_close_while_threads_read(shards):
    for _ in range(20):
        ds = mr.Dataset(shards, fields={"image": IMAGE}, framework="numpy")
        errors: list[str] = []
        arguments = (ds, errors)
        threads = [threading.Thread(target=read_until_closed, args=arguments) for _ in range(4)]
        for thread in threads:
            thread.start()
        ds.close()
        for thread in threads:
            thread.join()
        assert errors == ["the dataset is closed"] * 4


def test_use_after_close(shards):
    ds = mr.Dataset(shards, fields={"image": IMAGE}, framework="numpy")
    image = ds[0]["image"]
    copy = image.copy()
    ds.close()
    ds.close()
    assert (image == copy).all()
    assert repr(ds) == "<millrace.Dataset: closed>"
    for use in (lambda: ds[0], lambda: ds["a"], lambda: ds.key(0), lambda: pickle.dumps(ds)):
        with pytest.raises(RuntimeError, match="the dataset is closed"):
            use()


def test_pickle_opens_it_again(shards):
    ds = mr.Dataset(shards, fields={"image": IMAGE}, framework="numpy", seed=3)
    ds.set_epoch(4)
    copy = pickle.loads(pickle.dumps(ds))
    assert copy[5]["image"].tobytes() == ds[5]["image"].tobytes()
    ds.close()
    assert len(copy[:]) == len(copy)


def test_pickle_refuses_another_dataset(shards, photos, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(shards)
    data = pickle.dumps(mr.open(link))
    link.unlink()
    write_tar(tmp_path / "link", {"a.txt": b"1"})
    with pytest.raises(RuntimeError, match="has changed since"):
        pickle.loads(data)


def read_in_child(ds: mr.Dataset, queue) -> None:
    queue.put([sample["image"].tobytes() for sample in ds])


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_read_the_same(shards, method):
    context = multiprocessing.get_context(method)
    with mr.Dataset(shards, fields={"image": IMAGE}, framework="numpy") as ds:
        expected = [sample["image"].tobytes() for sample in ds]
        queue = context.Queue()
        process = context.Process(target=read_in_child, args=(ds, queue))
        process.start()
        assert queue.get(timeout=60) == expected
        process.join(60)
        assert process.exitcode == 0
        assert ds[1]["image"].tobytes() == expected[1]


FORK_WHILE_READING = """
import os, sys, threading
import millrace as mr
ds = mr.Dataset(sys.argv[1], fields={"image": mr.Image(24)}, framework="numpy")
expected = ds[3]["image"].tobytes()
stop = False
def read():
    while not stop:
        ds[3], ds[ds.key(5)]
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(40):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if ds[3]["image"].tobytes() == expected else 3)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for thread in threads:
    thread.join()
print("done")
"""


def test_forks_while_threads_read(shards):
    command = [sys.executable, "-W", "ignore", "-c", FORK_WHILE_READING, shards]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stdout == "done\n", result.stderr


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def count_files() -> int:
    return len(os.listdir("/proc/self/fd"))


needs_exact_memory = pytest.mark.skipif(
    bool(os.environ.get("SANITIZE")), reason="a sanitizer keeps freed memory for a while"
)


@needs_exact_memory
def test_memory_and_files_do_not_grow(shards):
    def use(ds: mr.Dataset, times: int) -> None:
        for i in range(times):
            ds[i % len(ds)]
            ds[ds.key(i % len(ds))]

    fields = {"image": mr.Image(64), "label": mr.Label(), "file": mr.Bytes("jpg")}
    with mr.Dataset(shards, fields=fields, framework="numpy") as ds, mr.open(shards) as raw:
        use(ds, 2000)
        use(raw, 2000)
        gc.collect()
        files, resident, blocks = count_files(), resident_bytes(), sys.getallocatedblocks()
        use(ds, 10000)
        use(raw, 100000)
        gc.collect()
        assert count_files() == files
        assert sys.getallocatedblocks() - blocks < 1000
        assert resident_bytes() - resident < 4 << 20


def test_a_dropped_dataset_closes_its_files(shards):
    gc.collect()
    files = count_files()
    for _ in range(50):
        mr.open(shards)[0]
    assert count_files() == files


@needs_exact_memory
def test_kept_fields_keep_no_others(shards):
    fields = {"label": mr.Label(), "image": mr.Image(256)}
    with mr.Dataset(shards, fields=fields, framework="numpy") as ds:
        ds[0]
        resident = resident_bytes()
        labels = [ds[i % len(ds)]["label"] for i in range(2000)]
        assert resident_bytes() - resident < 16 << 20
    assert [int(label) for label in labels[: len(ds)]] == [int(s["cls"]) for s in stored(shards)]


def test_a_notebook_shows_the_first_samples(shards, texts):
    with mr.open(shards) as ds:
        assert repr(ds) == f"<millrace.Dataset {shards}: {len(ds)} samples of cls, jpg, 7 classes>"
        page = ds._repr_html_()
        assert page.count("data:image/png;base64,") == 16
        assert ds.key(0) in page
    with mr.open(texts) as ds:
        assert ds._repr_html_() == repr(ds).replace("<", "&lt;").replace(">", "&gt;")


# ---- PyTorch. ----


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_torch_dataloader(shards, method):
    torch = pytest.importorskip("torch")
    fields = {"image": IMAGE, "label": mr.Label()}
    with mr.Dataset(shards, fields=fields) as ds:
        assert ds[0]["image"].shape == (3, 24, 24)
        assert ds[0]["image"].permute(1, 2, 0).is_contiguous()
        loader = torch.utils.data.DataLoader(
            ds, batch_size=8, num_workers=2, shuffle=True, multiprocessing_context=method
        )
        alone = sorted((sample["image"].numpy().tobytes(), int(sample["label"])) for sample in ds)
        for epoch in range(2):
            ds.set_epoch(epoch)
            expected = [(s["image"].numpy().tobytes(), int(s["label"])) for s in ds]
            found = []
            for batch in loader:
                images = batch["image"].permute(0, 2, 3, 1).contiguous()
                for image, label in zip(batch["image"], batch["label"], strict=True):
                    found.append((image.numpy().tobytes(), int(label)))
                assert images.dtype == torch.uint8
            assert sorted(found) == sorted(expected)
            assert (sorted(found) == alone) == (epoch == 0)


def test_torch_subsets_and_stored_bytes(shards):
    torch = pytest.importorskip("torch")
    with mr.open(shards) as ds:
        subset = torch.utils.data.Subset(ds, [4, 2])
        batch = next(iter(torch.utils.data.DataLoader(subset, batch_size=2)))
        assert batch["__key__"] == [ds.key(4), ds.key(2)]
        assert batch["jpg"] == [ds[4]["jpg"], ds[2]["jpg"]]
        assert ds[torch.tensor(3)] == ds[3]
        assert ds[torch.tensor([3, 1])] == [ds[3], ds[1]]
        with pytest.raises(TypeError, match="masks"):
            ds[torch.tensor([True, False])]
