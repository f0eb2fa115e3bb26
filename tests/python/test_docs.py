"""The code of docs/howto/pytorch.md runs as shown."""

import os
import pathlib
import re
import shutil

import pytest

pytest.importorskip("torch")


def blocks(page: str) -> list[str]:
    text = pathlib.Path(os.environ["TEST_SOURCE_DIR"], page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_pytorch(photos, tmp_path, monkeypatch):
    shutil.copytree(photos, tmp_path / "shards" / "train")
    shutil.copytree(photos, tmp_path / "shards" / "val")
    monkeypatch.chdir(tmp_path)
    code = blocks("docs/howto/pytorch.md")
    assert len(code) == 7
    names: dict = {}
    for block in code:
        exec(compile(block, "pytorch.md", "exec"), names)
