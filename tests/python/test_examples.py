"""The programs in examples/, on two ranks and small data."""

import os
import pathlib

import pytest

torch = pytest.importorskip("torch", minversion="2.4")

from ranks import finish, start

EXAMPLES = pathlib.Path(os.environ["TEST_SOURCE_DIR"], "examples")


def test_train_imagenet(photos, tmp_path):
    pytest.importorskip("torchvision")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "train").symlink_to(photos)
    (tmp_path / "shards" / "val").symlink_to(photos)
    command = [EXAMPLES / "train_imagenet.py", "shards", "--model", "resnet18", "--size", 32]
    command += ["--epochs", 2, "--batch", 8, "--lr", 0.01, "--save-every", 2]
    whole = finish(start([*command, "--checkpoint", "whole.pt"], 2, tmp_path))[0]

    programs = start(command, 2, tmp_path)
    while not programs[0].stdout.readline().startswith("step 4"):
        pass
    for program in programs:
        program.kill()
        program.communicate()
    resumed = finish(start(command, 2, tmp_path))[0]
    assert resumed[-1] == whole[-1]
    assert "accuracy" in resumed[-1] and len(resumed) < len(whole)
    a, b = (torch.load(tmp_path / name) for name in ("whole.pt", "last.pt"))
    assert a["train"] == b["train"]
    for name, value in a["model"].items():
        assert torch.equal(value, b["model"][name]), name
