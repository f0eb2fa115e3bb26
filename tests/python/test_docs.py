"""The code of the how-to guides runs as shown."""

import json
import os
import pathlib
import re
import shutil
import tarfile
from importlib.util import find_spec

import pytest


def blocks(page: str) -> list[str]:
    text = pathlib.Path(os.environ["TEST_SOURCE_DIR"], page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_pytorch(photos, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    has_checkpointer = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)
    shutil.copytree(photos, tmp_path / "shards" / "train")
    shutil.copytree(photos, tmp_path / "shards" / "val")
    monkeypatch.chdir(tmp_path)
    code = blocks("docs/howto/pytorch.md")
    assert len(code) == 11
    names: dict = {}
    for block in code:
        if ("mr.Checkpointer" in block or "millrace.dcp" in block) and not has_checkpointer:
            continue
        if "lightning" in block and not (has_checkpointer and find_spec("lightning")):
            continue
        exec(compile(block, "pytorch.md", "exec"), names)


def test_conversion(photos, tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("PIL")
    import pyarrow

    jpegs = []
    for path in photos.glob("*.tar"):
        with tarfile.open(path) as tar:
            jpegs += [tar.extractfile(m).read() for m in tar if m.name.endswith(".jpg")]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    parquet.write_table(pyarrow.table({"image": jpegs}), "photos/a.parquet")
    names: dict = {}
    for block in (code := blocks("docs/howto/bring-your-data.md")):
        exec(compile(block, "bring-your-data.md", "exec"), names)
    assert len(code) == 4
    for folder, count in [("shards", len(jpegs)), ("captions", 100), ("again", 100)]:
        text = (tmp_path / folder / "dataset.json").read_text()
        assert json.loads(text)["millrace"]["samples"] == count > 0
    assert (tmp_path / "parts/val/dataset.json").exists()
