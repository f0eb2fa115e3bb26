"""The order, the bits and the states of mr.Loader, compared with `millrace read`."""

import base64
import collections
import gc
import html.parser
import io
import itertools
import json
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading
import time

import millrace as mr
import numpy
import pytest
from PIL import Image as pillow

IMAGE = mr.Image(24, crop="random", flip=True)
READ = ("--decode", "image", "--size", 24, "--crop", "random", "--flip")


def open_loader(path, **options) -> mr.Loader:
    arguments = {
        "fields": {"image": IMAGE, "label": mr.Label()},
        "batch_size": 8,
        "seed": 7,
        "framework": "numpy",
    }
    return mr.Loader(path, **(arguments | options))


def samples_of(loader, batches) -> list[tuple[str, bytes, int]]:
    """(key, pixels, label) of each sample."""
    result = []
    for batch in batches:
        for key, image, label in zip(loader.keys(), batch["image"], batch["label"], strict=True):
            result.append((key, image.tobytes(), int(label)))
    return result


def read_samples(millrace, photos, folder: pathlib.Path, *options) -> dict[str, bytes]:
    """Pixels by key, as `millrace read` writes them."""
    millrace("read", photos, *READ, "--seed", 7, "--out", folder, *options, "--quiet")
    pixels = {}
    for path in folder.rglob("*.ppm"):
        pixels[path.relative_to(folder).as_posix().split(".")[0]] = path.read_bytes()[
            -24 * 24 * 3 :
        ]
    return pixels


def test_batches_have_the_bits_and_the_order_of_read(millrace, photos, tmp_path):
    keys = millrace(
        "read", photos, *READ, "--seed", 7, "--batch", 8, "--micro", 8, "--print", "keys"
    )
    pixels = read_samples(millrace, photos, tmp_path / "out", "--batch", 8)
    with open_loader(photos, tail="keep") as loader:
        samples = samples_of(loader, loader)
    assert [key for key, _, _ in samples] == [line.split("\t")[1] for line in keys.splitlines()]
    assert len(samples) == len(pixels) > 20
    for key, image, label in samples:
        assert image == pixels[key]
        assert loader_classes(photos)[label] == key.split("/")[0]


def loader_classes(photos) -> list[str]:
    with open_loader(photos) as loader:
        return loader.classes


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_share_each_step(photos, ranks):
    with open_loader(photos, batch_size=4, global_batch=24, tail="drop") as loader:
        alone = samples_of(loader, loader)
    shared = []
    for rank in range(ranks):
        options = {"batch_size": 4, "global_batch": 24, "rank": rank, "world_size": ranks}
        with open_loader(photos, **options) as loader:
            assert len(loader) == 18 // ranks
            shared += samples_of(loader, loader)
    assert sorted(shared) == sorted(alone)


def test_a_state_of_any_batch_continues_with_the_next_sample(photos):
    with open_loader(photos, tail="keep") as loader:
        whole = samples_of(loader, itertools.chain(loader, loader))
    count = len(whole) // 2
    for stop in range(0, len(whole) // 8):
        loader, resumed = open_loader(photos, tail="keep"), open_loader(photos, tail="keep")
        before = samples_of(loader, itertools.islice(itertools.chain(loader, loader), stop))
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        after = samples_of(resumed, resumed)
        end = count if len(before) < count else 2 * count
        assert before + after == whole[:end], stop
        loader.close()
        resumed.close()


# Prints a line for each batch: keys, pixels and the state behind it.
CONSUMER = """
import hashlib, json, sys
import millrace as mr
path, rank, ranks, state = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
loader = mr.Loader(path, fields={"image": mr.Image(24, flip=True), "label": mr.Label()}, seed=7,
                   batch_size=2, global_batch=12, rank=rank, world_size=ranks, framework="numpy")
if state:
    loader.load_state_dict(json.loads(state))
while loader.epoch < 3:
    for batch in loader:
        pixels = hashlib.sha256(batch["image"].tobytes()).hexdigest()
        print(json.dumps([[loader.keys(), pixels], loader.state_dict()]), flush=True)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_killed_and_resumed_at_random_batches(photos, ranks):
    chance = random.Random(ranks)

    def consume(rank, state, count) -> list:
        """The lines of at least count batches, after which the consumer is killed; None: all."""
        command = [sys.executable, "-c", CONSUMER, photos, str(rank), str(ranks), state]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            lines = list(itertools.islice(program.stdout, count))
            if count is not None:
                program.kill()
                lines += [line for line in program.stdout if line.endswith("\n")]
        assert program.returncode == (0 if count is None else -signal.SIGKILL)
        return [json.loads(line) for line in lines]

    for rank in range(ranks):
        whole = consume(rank, "", None)
        parts = consume(rank, "", chance.randrange(1, 6))
        for _ in range(3):
            if len(parts) + 6 < len(whole):
                parts += consume(rank, json.dumps(parts[-1][1]), chance.randrange(1, 6))
        if len(parts) < len(whole):
            parts += consume(rank, json.dumps(parts[-1][1]), None)
        assert [batch for batch, _ in parts] == [batch for batch, _ in whole]


@pytest.mark.skipif(
    bool(os.environ.get("SANITIZE")), reason="a sanitizer keeps freed memory for a while"
)
def test_memory_does_not_grow(photos):
    def resident_bytes() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    batches = 100_000
    fields = {"image": mr.Image(8, crop="center"), "label": mr.Label()}
    loader = open_loader(photos, fields=fields, batch_size=1, memory="64MiB")
    kept = collections.deque(maxlen=5)
    chance = random.Random(1)
    at_warm, blocks_at_warm = 0, 0
    endless = itertools.chain.from_iterable(itertools.repeat(loader))
    for number, batch in enumerate(itertools.islice(endless, batches)):
        kept.append(batch["image"] if chance.random() < 0.5 else batch)
        if number == batches // 5:
            gc.collect()
            at_warm, blocks_at_warm = resident_bytes(), sys.getallocatedblocks()
    gc.collect()
    assert sys.getallocatedblocks() - blocks_at_warm < 1000
    assert resident_bytes() - at_warm < 4 << 20


def keys_by_position(photos, state, epoch=0) -> list[str]:
    """The keys of an epoch in the order of a state."""
    with open_loader(photos, batch_size=1, tail="keep") as loader:
        loader.load_state_dict(state)
        loader.set_epoch(epoch)
        return [key for _ in loader for key in loader.keys()]


def keys_of_batches(loader) -> list[list[str]]:
    return [loader.keys() for _ in loader]


@pytest.mark.parametrize(("batch_size", "ranks"), [(4, 1), (2, 3), (8, 1), (2, 1), (5, 3)])
def test_a_state_in_mid_step_continues_with_other_sizes(photos, batch_size, ranks):
    loader = open_loader(photos, batch_size=2, global_batch=12, tail="drop")
    keys = keys_by_position(photos, loader.state_dict())
    assert len(keys) == 77
    before = [loader.keys() for _ in itertools.islice(loader, 9)]
    assert before == [[keys[12 * (n // 6) + i * 6 + n % 6] for i in range(2)] for n in range(9)]
    state = loader.state_dict()
    assert (state["position"], state["micros_done"]) == (12, 3)

    step = batch_size * ranks
    states = []
    for rank in range(ranks):
        options = {"batch_size": batch_size, "rank": rank, "world_size": ranks, "tail": "keep"}
        with open_loader(photos, **options) as resumed:
            resumed.load_state_dict(state)
            rest = [[keys[12 + i * 6 + j] for i in range(2)] for j in range(3 + rank, 6, ranks)]
            following = [
                [keys[at] for at in range(begin + rank, min(begin + step, 77), ranks) if at >= 24]
                for begin in range(24 // step * step, 77, step)
            ]
            assert keys_of_batches(resumed) == rest + following
            assert resumed.epoch == 1
            resumed.load_state_dict(state)
            states.append([resumed.state_dict() for _ in resumed])
    assert all(list_of_rank == states[0] for list_of_rank in states)


def test_ranks_that_cannot_share_the_rest_of_a_step(photos):
    loader = open_loader(photos, batch_size=2, global_batch=12)
    list(itertools.islice(loader, 3))
    resumed = open_loader(photos, batch_size=2, rank=0, world_size=2)
    with pytest.raises(ValueError, match="3 micro-batches are left, and 2 ranks"):
        resumed.load_state_dict(loader.state_dict())
    assert len(list(resumed)) == len(resumed)  # it is as it was
    with pytest.raises(ValueError, match="equally many batches"):
        open_loader(photos, batch_size=4, global_batch=24, rank=0, world_size=4)


def test_a_state_that_fails_to_load_leaves_the_rest_of_a_step(photos):
    def state_in_mid_step(global_batch):
        loader = open_loader(photos, batch_size=2, global_batch=global_batch)
        list(itertools.islice(loader, 2))
        return loader.state_dict()

    resumed = open_loader(photos, batch_size=4)
    resumed.load_state_dict(state_in_mid_step(12))
    with pytest.raises(ValueError, match="epoch"):
        resumed.load_state_dict(state_in_mid_step(8) | {"epoch": -1})
    next(iter(resumed))
    state = resumed.state_dict()
    assert (state["batching.global"], state["micros_done"]) == (12, 3)


def test_sizes_and_tails_may_change_at_any_batch(photos):
    """Each epoch has each sample once, apart from dropped tails, in any walk through it."""
    for seed in range(12):
        chance = random.Random(seed)
        tails = ["keep"] if seed % 2 else ["keep", "drop"]
        begin = state = open_loader(photos).state_dict()
        seen: dict[int, list[str]] = {}
        while state["epoch"] < 2:
            batch_size = chance.randrange(1, 7)
            loader = open_loader(
                photos,
                batch_size=batch_size,
                global_batch=batch_size * chance.randrange(1, 5),
                tail=chance.choice(tails),
            )
            loader.load_state_dict(state)
            for _ in range(chance.randrange(0, 12)):
                epoch = loader.epoch
                next(iter(loader))
                seen.setdefault(epoch, []).extend(loader.keys())
                if loader.epoch > 1:
                    break
            state = loader.state_dict()
            loader.close()
        assert seen.keys() == {0, 1}
        for epoch, keys in seen.items():
            assert len(keys) == len(set(keys)), seed
            whole = keys_by_position(photos, begin, epoch)
            if tails == ["keep"]:
                assert sorted(keys) == sorted(whole), seed
            else:
                assert set(whole[:49]) <= set(keys), seed  # a step has at most 24 samples


def test_break_continues_and_restart_begins_again(photos):
    loader = open_loader(photos)
    first = samples_of(loader, itertools.islice(loader, 2))
    rest = samples_of(loader, loader)
    assert loader.epoch == 1
    loader.set_epoch(0)
    assert samples_of(loader, loader) == first + rest
    second = samples_of(loader, itertools.islice(loader, 1))
    loader.restart()
    assert samples_of(loader, loader)[: len(second)] == second
    assert second[0][1] != first[0][1]


def test_set_epoch_keeps_the_place_in_this_epoch(photos):
    loader = open_loader(photos)
    whole = samples_of(loader, loader)
    resumed = open_loader(photos)
    begun = samples_of(resumed, itertools.islice(resumed, 1))
    resumed.set_epoch(0)
    assert begun + samples_of(resumed, resumed) == whole


def test_tensors_outlive_the_loader_on_any_thread(photos):
    loader = open_loader(photos)
    batches = list(loader)
    copies = [batch["image"].copy() for batch in batches]
    loader.close()
    del loader
    gc.collect()
    for batch, copy in zip(batches, copies, strict=True):
        assert (batch["image"] == copy).all()
    threads = [threading.Thread(target=batch.clear) for batch in batches]
    del batches, batch
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("keep", ["copy", "grow", "error"])
def test_keeping_all_tensors(photos, keep):
    image = mr.Image(512, crop="none")
    options = {"fields": {"image": image}, "memory": "24MiB", "batch_size": 4, "keep": keep}
    kept = []
    loader = open_loader(photos, **options)
    if keep == "error":
        with pytest.raises(OSError, match="memory") as caught:
            for _ in range(9):
                kept += list(loader)
        assert caught.value.errno == 105  # ENOBUFS
    else:
        for _ in range(3):
            kept += list(loader)
        assert len(kept) == 3 * len(loader)


def test_records(texts):
    fields = {
        "text": mr.Text("txt"),
        "score": mr.Float("json", "$.score"),
        "tags": mr.Array("json", "$.tags", dtype="i64"),
    }
    with mr.Loader(
        texts, fields=fields, batch_size=8, shuffle=False, tail="keep", framework="numpy"
    ) as loader:
        rows = {}
        for batch in loader:
            for i, key in enumerate(loader.keys()):
                text = batch["text"][i].tobytes().decode()
                rows[int(key)] = (text, float(batch["score"][i]), batch["tags"][i].tolist())
    assert rows == {i: ("caf\u00e9 " * (i % 5), i / 8, list(range(i % 4))) for i in range(41)}


def test_errors_have_the_text_of_the_program(photos, tmp_path):
    with pytest.raises(FileNotFoundError, match="could not stat the file.*nowhere.*check the path"):
        open_loader(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no multiple of batch_size 5"):
        open_loader(photos, batch_size=5, global_batch=12)
    with pytest.raises(ValueError, match="option imge: there is no such option"):
        open_loader(photos, options={"imge": 1})
    with pytest.raises(ValueError, match="option seed"):
        open_loader(photos, seed=-1)
    with pytest.raises(TypeError, match="none of millrace's fields"):
        open_loader(photos, fields={"image": 224})
    with pytest.raises(ValueError, match="of another dataset"):
        state = open_loader(photos).state_dict()
        open_loader(photos).load_state_dict(state | {"fingerprint": 1})
    loader = open_loader(photos)
    loader.close()
    with pytest.raises(RuntimeError, match="closed"):
        next(iter(loader))


def test_what_would_have_no_effect_is_refused(photos):
    for arguments, message in (
        ({}, "needs a size"),
        ({"size": 24, "crop": "none", "scale": (0.1, 1)}, "scale is for random crops"),
        ({"size": 24, "center_fraction": 0.9}, "crop='center'"),
        ({"size": 24, "jitter": (0.1,) * 5}, "at most 4"),
        ({"follows": "image", "flip": True, "size": 24}, "remove size, flip"),
    ):
        with pytest.raises(ValueError, match=message):
            mr.Image(**arguments)
    for options, message in (
        ({"options": {"position": 8}}, "may not set 'position'"),
        ({"options": {"seed": 8}}, "may not set 'seed'"),
        ({"batch_size": 0, "global_batch": 8}, "less than 1"),
        ({"fields": {"image": IMAGE, "label": mr.Int("json")}}, "must be a Label"),
        ({"framework": "dlpack", "map": lambda sample, rng: sample}, "indexing"),
        ({"framework": "dlpack", "keep": "copy"}, "cannot"),
    ):
        with pytest.raises(ValueError, match=message):
            open_loader(photos, **options)
    with pytest.raises(ValueError, match="nothing to collate"):
        mr.Map(str, by="batch", collate=dict)
    with pytest.raises(TypeError, match="num_workers=0"):
        pickle.dumps(open_loader(photos))
    only_images = next(iter(open_loader(photos, fields={"image": IMAGE})))
    assert only_images.keys() == {"image"}


def test_a_batch_that_failed_is_the_next_one(photos):
    loader = open_loader(photos)
    whole = samples_of(loader, loader)
    loader.set_epoch(0)
    samples = samples_of(loader, itertools.islice(loader, 2))
    state = loader.state_dict()
    convert, loader._convert = loader._convert, None
    for _ in range(2):
        with pytest.raises(TypeError):
            next(iter(loader))
    assert loader.state_dict() == state
    with pytest.raises(ValueError):
        loader.load_state_dict(state | {"epoch": -1})
    loader._convert = convert
    assert samples + samples_of(loader, loader) == whole


def test_a_forked_child_is_refused(photos):
    loader = open_loader(photos)
    batch = next(iter(loader))
    child = os.fork()
    if child == 0:
        batch.clear()
        try:
            next(iter(loader))
        except RuntimeError as error:
            os._exit(0 if "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(batch["image"]) == 8
    assert len(list(loader)) == len(loader) - 1


def test_ctrl_c_ends_a_wait(photos):
    script = """
import sys, threading, time, _thread
import millrace as mr
loader = mr.Loader(sys.argv[1], fields={"image": mr.Image(4096, crop="none")}, batch_size=32,
                   framework="dlpack", memory="4GiB", workers=1)
print("begun", flush=True)
for batch in loader:
    pass
while True:
    for batch in loader:
        pass
"""
    program = subprocess.Popen(
        [sys.executable, "-c", script, photos], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout.readline() == b"begun\n"
    time.sleep(0.3)
    program.send_signal(signal.SIGINT)
    errors = program.communicate(timeout=60)[1]
    assert b"KeyboardInterrupt" in errors


def test_another_thread_is_refused_while_one_waits(photos):
    loader = open_loader(photos, fields={"image": mr.Image(2048, crop="none")}, workers=1)
    problems = []

    def consume():
        try:
            for _ in range(3):
                list(loader)
        except RuntimeError as error:
            problems.append(str(error))

    threads = [threading.Thread(target=consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems
    assert all("another thread uses the loader" in problem for problem in problems)


def test_dtypes_and_layouts(photos):
    image = mr.Image(24, crop="center", layout="chw", dtype="f32", mean=0.5, std=0.25)
    planes = next(iter(open_loader(photos, fields={"image": image})))["image"]
    pixels = next(iter(open_loader(photos, fields={"image": mr.Image(24, crop="center")})))["image"]
    expected = (pixels / numpy.float32(255) - numpy.float32(0.5)) / numpy.float32(0.25)
    assert planes.dtype == numpy.float32
    assert (planes == expected.transpose(0, 3, 1, 2)).all()


def test_a_mix_and_a_part(millrace, photos, tmp_path):
    whole = open_loader(photos, tail="keep")
    keys = [key for _ in whole for key in whole.keys()]
    (tmp_path / "keys").write_text("".join(f"{key}\n" for key in keys[3:19]))
    part = open_loader(photos, sample=mr.Sample(keys=tmp_path / "keys", repeat=2), tail="keep")
    read = [key for _ in part for key in part.keys()]
    assert sorted(read) == sorted(2 * keys[3:19])
    part = open_loader(photos, sample=mr.Sample(where='class("ring")'), tail="keep")
    assert {key.split("/")[0] for _ in part for key in part.keys()} == {"ring"}
    printed = millrace(
        "read",
        photos,
        *READ,
        "--mix",
        f"{photos}=3",
        "--seed",
        7,
        "--batch",
        8,
        "--micro",
        8,
        "--print",
        "keys",
    )
    mix = open_loader(mr.Mix({photos: 1, str(photos / "dataset.json"): 3}), tail="keep")
    assert [key for _ in mix for key in mix.keys()] == [
        line.split("\t")[-1] for line in printed.splitlines()
    ]


def test_a_notebook_shows_the_next_batch(photos, tmp_path):
    class Images(html.parser.HTMLParser):
        def __init__(self, text):
            super().__init__()
            self.images, self.text = [], ""
            self.feed(text)

        def handle_starttag(self, tag, attributes):
            if tag == "img":
                data = dict(attributes)["src"].removeprefix("data:image/png;base64,")
                self.images.append(base64.b64decode(data))

        def handle_data(self, data):
            self.text += data

    loader = open_loader(photos)
    samples_of(loader, itertools.islice(loader, 1))
    shown = Images(loader._repr_html_())
    batch = next(iter(loader))
    assert len(shown.images) == len(batch["image"])
    for png, expected in zip(shown.images, batch["image"], strict=True):
        image = pillow.open(io.BytesIO(png))
        assert (numpy.asarray(image) == expected).all()
    assert all(key in shown.text for key in loader.keys())
    assert "<millrace.Loader of" in repr(loader) and "closed" not in repr(loader)
    loader.close()
    assert "closed" in loader._repr_html_()
