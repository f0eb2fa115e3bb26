"""The loader with JAX."""

import numpy
import pytest

jax = pytest.importorskip("jax")

import millrace as mr
from test_loader import IMAGE


def batches(photos, **options):
    fields = {"image": IMAGE, "label": mr.Label()}
    return mr.Loader(photos, fields=fields, batch_size=8, seed=7, **options)


def test_images_are_nhwc_and_labels_int32(photos):
    for ours, expected in zip(
        batches(photos, framework="jax"), batches(photos, framework="numpy"), strict=True
    ):
        assert isinstance(ours["image"], jax.Array)
        assert ours["image"].dtype == jax.numpy.uint8
        assert ours["image"].shape == (len(ours["label"]), 24, 24, 3)
        assert ours["label"].dtype == jax.numpy.int32
        assert (numpy.asarray(ours["image"]) == expected["image"]).all()
        assert (numpy.asarray(ours["label"]) == expected["label"]).all()


def test_kept_arrays_do_not_change(photos):
    kept = [
        (batch["image"], numpy.array(batch["image"])) for batch in batches(photos, framework="jax")
    ]
    assert all((numpy.asarray(array) == copy).all() for array, copy in kept)


def test_integers_that_do_not_fit(tmp_path, millrace):
    (tmp_path / "list.jsonl").write_text('{"n": 1}\n{"n": 4294967296}\n')
    millrace("convert", "dataset", tmp_path / "list.jsonl", tmp_path / "shards", "--quiet")
    fields = {"n": mr.Int("json", path="$.n")}
    loader = mr.Loader(tmp_path / "shards", fields=fields, batch_size=2, framework="jax")
    with pytest.raises(OverflowError, match="jax_enable_x64"):
        next(iter(loader))
