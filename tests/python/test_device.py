"""Batches on a device. Without a GPU, the device is the CPU, and CUDA itself is not tested."""

import errno
import io
import logging
import tarfile

import pytest

torch = pytest.importorskip("torch", "2.4")

import millrace as mr
from millrace import _native

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
COMMON = {"batch_size": 8, "seed": 7}
IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
IMAGES = [
    mr.Image(24),
    mr.Image(24, layout="hwc"),
    mr.Image(24, layout="chw", flip=True),
    mr.Image(24, channels=1),
    mr.Image(24, dtype="f32", **IMAGENET),
    mr.Image(24, dtype="f16", layout="chw", **IMAGENET),
    mr.Image(24, dtype="bf16", layout="hwc", mean=0.5, std=0.25),
    mr.Image(24, dtype="f32", channels=1, mean=0.1, std=3.0),
]


def assert_same(batch, expected):
    assert list(batch) == list(expected)
    for name, field in expected.items():
        if isinstance(field, mr.Ragged):
            assert_same(vars(batch[name]), vars(field))
        else:
            assert batch[name].dtype == field.dtype
            assert batch[name].stride() == field.stride()
            assert torch.equal(batch[name].cpu(), field)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("image", IMAGES, ids=str)
def test_images_have_the_bits_and_layout_of_host_memory(photos, image, device):
    fields = {"image": image, "label": mr.Label(), "raw": mr.Bytes("jpg")}
    on_device = mr.Loader(photos, fields=fields, device=device, **COMMON)
    on_host = mr.Loader(photos, fields=fields, **COMMON)
    count = 0
    for batch, expected in zip(on_device, on_host, strict=True):
        assert batch["image"].device.type == batch["raw"].values.device.type == device
        assert on_device.keys() == on_host.keys()
        assert_same(batch, expected)
        count += 1
    assert count == len(on_host) > 1


@pytest.mark.parametrize("device", DEVICES)
def test_an_image_that_follows_another_is_finished_too(photos, device):
    fields = {
        "image": mr.Image(24, flip=True),
        "target": mr.Image(follows="image", source="jpg", dtype="f32", mean=0.5),
    }
    for batch, expected in zip(
        mr.Loader(photos, fields=fields, device=device, **COMMON),
        mr.Loader(photos, fields=fields, **COMMON),
        strict=True,
    ):
        assert_same(batch, expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("by", ["sample", "batch"])
def test_a_map_sees_what_it_sees_without_a_device(photos, by, device):
    def invert(fields, rng):
        return {"image": 1 - fields["image"], "label": fields["label"]}

    fields = {"image": mr.Image(24, dtype="f32"), "label": mr.Label()}
    options = {"fields": fields, "map": mr.Map(invert, by=by, threads=2), **COMMON}
    for batch, expected in zip(
        mr.Loader(photos, device=device, **options), mr.Loader(photos, **options), strict=True
    ):
        assert batch["image"].device.type == device
        assert_same(batch, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_mixed_images_are_those_of_host_memory(photos, device):
    options = {
        "fields": {"image": mr.Image(24), "label": mr.Label()},
        "options": {"image.mixup.mixup_alpha": 0.4},
        **COMMON,
    }
    for batch, expected in zip(
        mr.Loader(photos, device=device, **options), mr.Loader(photos, **options), strict=True
    ):
        assert_same(batch, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_the_state_is_that_of_the_last_batch_yielded(photos, device):
    fields = {"image": mr.Image(24, dtype="f32"), "label": mr.Label()}
    expected = [batch["image"] for batch in mr.Loader(photos, fields=fields, **COMMON)]
    for cut in range(1, len(expected)):
        loader = mr.Loader(photos, fields=fields, device=device, **COMMON)
        got = [batch["image"] for _, batch in zip(range(cut), loader, strict=False)]
        resumed = mr.Loader(photos, fields=fields, device=device, **COMMON)
        resumed.load_state_dict(loader.state_dict())
        got += [batch["image"] for batch in resumed]
        loader.close()
        for image, other in zip(got, expected, strict=True):
            assert torch.equal(image.cpu(), other)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("keep", ["grow", "copy"])
def test_kept_batches_stay_as_they_were(photos, keep, device):
    options = {"fields": {"image": mr.Image(24), "label": mr.Label()}, **COMMON}
    loader = mr.Loader(photos, device=device, keep=keep, memory="6MiB", **options)
    kept = [batch for _ in range(20) for batch in loader]
    loader.close()
    host = mr.Loader(photos, **options)
    for batch, expected in zip(kept, (b for _ in range(20) for b in host), strict=True):
        assert_same(batch, expected)


def test_a_sample_that_cannot_be_used_stops_after_the_batches_before_it(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(32):
            data = b'{"n": x}' if i == 20 else b'{"n": %d}' % i
            member = tarfile.TarInfo(f"{i:02}.json")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    loader = mr.Loader(
        tmp_path / "a.tar",
        fields={"n": mr.Int("json", path="$.n")},
        batch_size=8,
        shuffle=False,
        on_error="stop",
        device="cpu",
    )
    batches = iter(loader)
    assert next(batches)["n"].tolist() == list(range(8))
    assert next(batches)["n"].tolist() == list(range(8, 16))
    with pytest.raises(OSError, match="20"):
        next(batches)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"framework": "numpy"}, "device is for the framework torch, and not for 'numpy'"),
        ({"device": "meta"}, "device 'meta' is neither cuda nor cpu"),
        ({"fields": {"image": mr.Image(24, dtype="f32", std=0.0)}}, "a positive std"),
        ({"fields": {"image": mr.Image(24, mean=0.5)}}, "images of bytes cannot be normalized"),
    ],
)
def test_refusals(photos, arguments, message):
    options = {"fields": {"image": mr.Image(24)}, "device": "cpu", **COMMON, **arguments}
    with pytest.raises(ValueError, match=message):
        mr.Loader(photos, **options)


def test_pageable_memory_is_used_where_none_can_be_pinned(caplog):
    from millrace.device_batches import pinned_memory

    assert pinned_memory(torch.device("cpu")) == {}
    if torch.cuda.is_available():
        assert pinned_memory(torch.device("cuda", 0)) == {"device": "cuda:0"}
        return
    with caplog.at_level(logging.WARNING, "millrace"):
        assert pinned_memory(torch.device("cuda", 0)) == {}
    assert "pageable memory" in caplog.text
    _native.open_device("cpu")
    _native.open_device("cpu")
    with pytest.raises(OSError) as caught:
        _native.open_device("cuda:0")
    assert caught.value.errno == errno.ENODEV
