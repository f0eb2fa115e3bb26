#!/usr/bin/env python3
"""peers — reads training photos or undecoded samples through a loader from PyPI, for bench/loaders/run.

    PEERS/bin/python bench/loaders/peers.py LOADER FOLDER WORKERS [STATE]

All loaders do the same: torchvision's random resized crop to 224, flips, batches of 256 of uint8
pixels, shuffled as the loader's documentation recommends, one epoch after another. LOADER-bytes
delivers undecoded samples. LOADER-state writes the loader's state in the middle of an epoch to the
file STATE; LOADER-resumed continues there. FOLDER is a folder of make_data.py.

The program runs in its own session and stops itself (SIGSTOP) after each line that it prints. It
first imports what the loader needs. After the first batch it prints a JSON line with its version,
the seconds that `import torch` took, the seconds since it began to create the loader, and the time
of that batch by the monotonic clock.
For each line `WARMING MEASURED` on stdin, it reads that many uncounted and counted batches, then
prints the samples, bytes, seconds and CPU seconds (including all children) of the counted ones.
MEASURED 0 means one whole epoch from a new loader. Loaders with worker processes also report their
number (`read_workers`). It exits at the end of stdin.
"""
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import pathlib
import pickle
import signal
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import turns

SIDE, BATCH, SHUFFLE_BUFFER = 224, 256, 1000
TICK = os.sysconf("SC_CLK_TCK")


# ---- Loaders: each is a function that yields batches endlessly, from a state if it is given. ----

def pil_transform():
    from torchvision import transforms
    return transforms.Compose([transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.PILToTensor()])


def torch_loader(dataset, workers, **options):
    from torch.utils.data import DataLoader
    return DataLoader(dataset, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0, **options)


def epochs_of(loader):
    while True:
        yield from loader


def resume(loader, state):
    """Returns endless batches of a loader with load_state_dict."""
    if state is not None:
        loader.load_state_dict(state)
    return epochs_of(loader)


def state_of(loader):
    """Returns its state in the middle of its first epoch."""
    for _ in itertools.islice(loader, len(loader) // 2):
        pass
    return loader.state_dict()


def photos_of_folder(folder):
    from torchvision.datasets import ImageFolder
    return ImageFolder(folder / "photos", pil_transform())


def torchvision_pil(folder, workers):
    return epochs_of(torch_loader(photos_of_folder(folder), workers, shuffle=True))


def stateful_loader(folder, workers):
    from torchdata.stateful_dataloader import StatefulDataLoader
    return StatefulDataLoader(photos_of_folder(folder), batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0, shuffle=True)


def stateful(folder, workers, state=None):
    return resume(stateful_loader(folder, workers), state)


def stateful_state(folder, workers):
    return state_of(stateful_loader(folder, workers))


def torchvision_decode_jpeg(folder, workers):
    from torchvision.datasets import DatasetFolder
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2
    transform = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()])
    dataset = DatasetFolder(folder / "photos", lambda path: decode_jpeg(read_file(path), mode=ImageReadMode.RGB), (".jpg",), transform)
    return epochs_of(torch_loader(dataset, workers, shuffle=True))


def millrace_loader(folder, workers):
    import millrace as mr
    fields = {"image": mr.Image(SIDE, flip=True), "label": mr.Label()}
    return mr.Loader(folder / "millrace", fields=fields, batch_size=BATCH, workers=workers, memory="256MiB")


def millrace_python(folder, workers, state=None):
    return ((batch["image"], batch["label"]) for batch in resume(millrace_loader(folder, workers), state))


def millrace_state(folder, workers):
    return state_of(millrace_loader(folder, workers))


def webdataset_of(folder, workers):
    import webdataset as wds
    tars = folder / "wds" if (folder / "wds").exists() else folder / "millrace"
    urls = sorted(str(path) for path in tars.glob("shard-*.tar"))
    splitter = wds.split_by_worker if len(urls) >= workers else wds.single_node_only
    return wds.WebDataset(urls, shardshuffle=len(urls), workersplitter=splitter).shuffle(SHUFFLE_BUFFER)


def webdataset(folder, workers):
    import webdataset as wds
    dataset = webdataset_of(folder, workers).decode("pil").to_tuple("jpg;ppm", "cls").map_tuple(pil_transform()).batched(BATCH, partial=False)
    return epochs_of(wds.WebLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0))


def webdataset_bytes(folder, workers):
    import webdataset as wds
    dataset = webdataset_of(folder, workers).to_tuple("jpg", "cls").batched(BATCH, collation_fn=None)
    return wds.WebLoader(dataset, batch_size=None, num_workers=workers)


def photos_of_mds(folder):
    import io
    from PIL import Image
    from streaming import StreamingDataset
    transform = pil_transform()

    class Photos(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return transform(Image.open(io.BytesIO(sample["image"])).convert("RGB")), sample["cls"]

    return Photos(local=str(folder / "mds"), shuffle=True, batch_size=BATCH)


def streaming(folder, workers, state=None):
    dataset = photos_of_mds(folder)
    if state is not None:
        dataset.load_state_dict(state)
    return epochs_of(torch_loader(dataset, workers))


def streaming_state(folder, workers):
    dataset = photos_of_mds(folder)
    return dataset.state_dict(dataset.size // 2, from_beginning=True)


def streaming_bytes(folder, workers):
    from streaming import StreamingDataset
    return torch_loader(StreamingDataset(local=str(folder / "mds"), shuffle=True, batch_size=BATCH), workers, collate_fn=lambda samples: samples)


def dali_pipeline(folder, workers, **options):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None, prefetch_queue_depth=2, **options)
    def photos():
        data, labels = fn.readers.file(file_root=str(folder / "photos"), random_shuffle=True, name="photos")
        images = fn.decoders.image_random_crop(data, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=[SIDE, SIDE], antialias=True)
        return fn.flip(images, horizontal=fn.random.coin_flip()), labels

    pipeline = photos()
    pipeline.build()
    return pipeline


def dali_batches(pipeline):
    while True:
        images, labels = pipeline.run()
        yield images.as_tensor(), labels


def dali(folder, workers, state=None):
    options = {} if state is None else {"enable_checkpointing": True, "checkpoint": state}
    pipeline = dali_pipeline(folder, workers, **options)
    while True:
        images, labels = pipeline.run()
        yield images.as_tensor(), labels


def dali_state(folder, workers):
    pipeline = dali_pipeline(folder, workers, enable_checkpointing=True)
    for _ in range(pipeline.reader_meta("photos")["epoch_size"] // BATCH // 2):
        pipeline.run()
    return pipeline.checkpoint()


def ffcv(folder, workers):
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, ToTensor
    pipelines = {"image": [RandomResizedCropRGBImageDecoder((SIDE, SIDE)), RandomHorizontalFlip(), ToTensor()], "label": [IntDecoder(), ToTensor()]}
    return epochs_of(Loader(str(folder / "ffcv.beton"), batch_size=BATCH, num_workers=workers, order=OrderOption.RANDOM, os_cache=True, drop_last=True, pipelines=pipelines))


def spdl(folder, workers):
    import random
    import numpy
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    from torchvision.transforms import RandomResizedCrop
    import torch
    photos = sorted((folder / "photos").glob("*/*.*"))

    def source():
        while True:
            random.shuffle(photos)
            yield from map(str, photos)

    def decode(path):
        packets = spdl.io.demux_image(path)
        codec = packets.codec
        top, left, height, width = RandomResizedCrop.get_params(torch.empty(0, codec.height, codec.width), (0.08, 1.0), (3 / 4, 4 / 3))
        flip = ",hflip" if random.random() < 0.5 else ""
        chosen = f"crop={width}:{height}:{left}:{top},scale={SIDE}:{SIDE}:flags=bilinear{flip},format=rgb24"
        return spdl.io.decode_packets(packets, filter_desc=chosen)

    def convert(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    pipeline = (PipelineBuilder().add_source(source()).pipe(decode, concurrency=workers).aggregate(BATCH).pipe(convert).add_sink(2).build(num_threads=workers + 1))
    with pipeline.auto_stop():
        for batch in pipeline:
            yield numpy.asarray(batch),


class Loader(NamedTuple):
    batches: Callable
    distribution: str  # it reports the version
    modules: tuple[str, ...]  # imported before timing starts
    state: Callable | None = None  # returns the state in the middle of an epoch


LOADERS = {
    "millrace-python": Loader(millrace_python, "millrace", ("torch", "millrace"), millrace_state),
    "torchvision": Loader(torchvision_pil, "torchvision", ("torch", "torchvision")),
    "torchvision-decode_jpeg": Loader(torchvision_decode_jpeg, "torchvision", ("torch", "torchvision.transforms.v2")),
    "stateful": Loader(stateful, "torchdata", ("torch", "torchvision", "torchdata.stateful_dataloader"), stateful_state),
    "webdataset": Loader(webdataset, "webdataset", ("torch", "torchvision", "webdataset")),
    "webdataset-bytes": Loader(webdataset_bytes, "webdataset", ("torch", "webdataset")),
    "streaming": Loader(streaming, "mosaicml-streaming", ("torch", "torchvision", "streaming"), streaming_state),
    "streaming-bytes": Loader(streaming_bytes, "mosaicml-streaming", ("torch", "streaming")),
    "dali": Loader(dali, "nvidia-dali-cuda120", ("nvidia.dali",), dali_state),
    "ffcv": Loader(ffcv, "ffcv", ("torch", "ffcv.loader", "ffcv.fields.rgb_image", "ffcv.transforms")),
    "spdl": Loader(spdl, "spdl-io", ("torch", "torchvision", "spdl.io", "spdl.pipeline")),
}
WORKERS_ARE_PROCESSES = ("torchvision", "stateful", "webdataset", "streaming")


# ---- Measuring. ----

def cpu_seconds():
    """Returns the user and system time of this process and all its descendants."""
    return sum(int(ticks) for fields in turns.process_tree(os.getpid()).values() for ticks in fields[11:15]) / TICK


def samples_and_bytes(name, batch):
    if name.endswith("-bytes"):
        fields = (field for sample in batch for field in (sample.values() if isinstance(sample, dict) else sample))
        return len(batch), sum(len(field) if isinstance(field, bytes) else 8 for field in fields)
    pixels = batch[0]
    shape = tuple(pixels.shape() if callable(pixels.shape) else pixels.shape)
    if shape[0] > BATCH or sorted(shape[1:]) != [3, SIDE, SIDE]:
        raise SystemExit(f"peers: {name}: a batch of {shape}, expected {BATCH} x {SIDE} x {SIDE} x 3")
    return shape[0], 0


def running_workers(name):
    """Returns the number of worker processes. Worker threads look like other threads."""
    return {"read_workers": len(multiprocessing.active_children())} if name.startswith(WORKERS_ARE_PROCESSES) else {}


def measure(name, batches, count):
    began, cpu = time.monotonic(), cpu_seconds()
    totals, running = [0, 0], {}
    for batch in itertools.islice(batches, count):
        totals = [a + b for a, b in zip(totals, samples_and_bytes(name, batch))]
        running = running or running_workers(name)
    return {"samples": totals[0], "bytes": totals[1], "seconds": time.monotonic() - began, "cpu_seconds": cpu_seconds() - cpu, **running}


def print_and_stop(result):
    """Prints a line and stops all threads and workers at once, so that none reads ahead of its
    turn."""
    print(json.dumps(result), flush=True)
    os.killpg(os.getpgrp(), signal.SIGSTOP)


def import_seconds(module):
    began = time.monotonic()
    importlib.import_module(module)
    return time.monotonic() - began


def main():
    name, folder, workers = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    loader = LOADERS[name.removesuffix("-state").removesuffix("-resumed")]
    imports = {module: import_seconds(module) for module in loader.modules}
    if name.endswith("-state"):
        pathlib.Path(sys.argv[4]).write_bytes(pickle.dumps(loader.state(folder, workers)))
        return
    state = (pickle.loads(pathlib.Path(sys.argv[4]).read_bytes()),) if name.endswith("-resumed") else ()
    report = {"version": importlib.metadata.version(loader.distribution), "torch_seconds": imports.get("torch"), "first_batch_seconds": None}
    batches = None
    if not name.endswith("-bytes"):
        began = time.monotonic()
        batches = iter(loader.batches(folder, workers, *state))
        first = next(batches)
        report["first_batch_time"] = time.monotonic()
        report["first_batch_seconds"] = report["first_batch_time"] - began
        report |= running_workers(name)
        if samples_and_bytes(name, first)[0] != BATCH:
            raise SystemExit(f"peers: {name}: a first batch of {samples_and_bytes(name, first)[0]}, expected {BATCH}")
        del first
    print_and_stop(report)
    for line in sys.stdin:
        warming, measured = map(int, line.split())
        if measured == 0:
            result = measure(name, loader.batches(folder, workers), None)
        else:
            for _ in itertools.islice(batches, warming):
                pass
            result = measure(name, batches, measured)
        print_and_stop(result)
    os._exit(0)  # threads of some loaders outlive the loader


if __name__ == "__main__":
    main()
