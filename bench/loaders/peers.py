#!/usr/bin/env python3
"""peers — one epoch or more of training photos through one loader of PyPI.

    PEERS/bin/python bench/loaders/peers.py LOADER FOLDER WORKERS IMAGES

The task is the same for all: random resized crop to 224 (torchvision's law), flip, batches of 256 of uint8 pixels, shuffled as the loader's own
documentation advises. FOLDER is one kind of data of make_data.py. Prints a JSON line: images delivered, seconds from the loader's making to its first batch, its
version and settings. Run by bench/loaders/run, which measures the process.
"""
import importlib.metadata
import json
import pathlib
import sys
import time

SIDE, BATCH, SHUFFLE_BUFFER = 224, 256, 1000


def pil_transform():
    from torchvision import transforms
    return transforms.Compose([transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.PILToTensor()])


def torch_loader(dataset, workers, **options):
    from torch.utils.data import DataLoader
    return DataLoader(dataset, batch_size=BATCH, num_workers=workers, persistent_workers=workers > 0, **options)


def epochs_of(loader):
    while True:
        yield from loader


def torchvision_pil(folder, workers):
    from torchvision.datasets import ImageFolder
    return epochs_of(torch_loader(ImageFolder(folder / "photos", pil_transform()), workers, shuffle=True))


def torchvision_decode_jpeg(folder, workers):
    from torchvision.datasets import DatasetFolder
    from torchvision.io import ImageReadMode, decode_jpeg, read_file
    from torchvision.transforms import v2
    transform = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()])
    dataset = DatasetFolder(folder / "photos", lambda path: decode_jpeg(read_file(path), mode=ImageReadMode.RGB), (".jpg",), transform)
    return epochs_of(torch_loader(dataset, workers, shuffle=True))


def webdataset(folder, workers):
    import webdataset as wds
    urls = sorted(str(path) for path in (folder / "wds").glob("shard-*.tar"))
    dataset = (wds.WebDataset(urls, shardshuffle=len(urls), workersplitter=wds.split_by_worker if len(urls) >= workers else wds.single_node_only)
               .shuffle(SHUFFLE_BUFFER).decode("pil").to_tuple("jpg", "cls").map_tuple(pil_transform()).batched(BATCH, partial=False))
    return epochs_of(wds.WebLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0))


def streaming(folder, workers):
    import io
    from PIL import Image
    from streaming import StreamingDataset
    transform = pil_transform()

    class Photos(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return transform(Image.open(io.BytesIO(sample["jpg"])).convert("RGB")), sample["cls"]

    return epochs_of(torch_loader(Photos(local=str(folder / "mds"), shuffle=True, batch_size=BATCH), workers))


def dali(folder, workers):
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=BATCH, num_threads=workers, device_id=None, prefetch_queue_depth=2)
    def photos():
        data, labels = fn.readers.file(file_root=str(folder / "photos"), random_shuffle=True)
        images = fn.decoders.image_random_crop(data, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
        images = fn.resize(images, size=[SIDE, SIDE], antialias=True)
        return fn.flip(images, horizontal=fn.random.coin_flip()), labels

    pipeline = photos()
    pipeline.build()
    while True:
        images, labels = pipeline.run()
        yield images.as_tensor(), labels


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
    photos = sorted((folder / "photos").glob("*/*.jpg"))

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


# loader -> function, the distribution whose version counts
LOADERS = {
    "torchvision": (torchvision_pil, "torchvision"),
    "torchvision-decode_jpeg": (torchvision_decode_jpeg, "torchvision"),
    "webdataset": (webdataset, "webdataset"),
    "streaming": (streaming, "mosaicml-streaming"),
    "dali": (dali, "nvidia-dali-cuda120"),
    "ffcv": (ffcv, "ffcv"),
    "spdl": (spdl, "spdl-io"),
}


def main():
    name, folder, workers, wanted = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    loader, distribution = LOADERS[name]
    began, first, images = time.monotonic(), None, 0
    for batch in loader(folder, workers):
        first = first or time.monotonic() - began
        pixels = batch[0]
        shape = tuple(pixels.shape() if callable(pixels.shape) else pixels.shape)
        if shape[0] != BATCH or sorted(shape[1:]) != [3, SIDE, SIDE]:
            if shape[0] < BATCH:  # the short batch at an epoch's end
                images += shape[0]
                continue
            raise SystemExit(f"peers: {name}: a batch of {shape}, expected {BATCH} x {SIDE} x {SIDE} x 3")
        images += BATCH
        if images >= wanted:
            break
    print(json.dumps({"images_count": images, "first_batch_seconds": first, "version": importlib.metadata.version(distribution)}))


if __name__ == "__main__":
    main()
