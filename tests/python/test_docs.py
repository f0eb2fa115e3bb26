"""The code of docs/howto/pytorch.md runs as shown."""

import os
import pathlib
import re
import shutil
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")
HAS_CHECKPOINTER = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)


def blocks(page: str) -> list[str]:
    text = pathlib.Path(os.environ["TEST_SOURCE_DIR"], page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_pytorch(photos, tmp_path, monkeypatch):
    shutil.copytree(photos, tmp_path / "shards" / "train")
    shutil.copytree(photos, tmp_path / "shards" / "val")
    monkeypatch.chdir(tmp_path)
    code = blocks("docs/howto/pytorch.md")
    assert len(code) == 11
    names: dict = {}
    for block in code:
        if ("mr.Checkpointer" in block or "millrace.dcp" in block) and not HAS_CHECKPOINTER:
            continue
        if "lightning" in block and not (HAS_CHECKPOINTER and find_spec("lightning")):
            continue
        exec(compile(block, "pytorch.md", "exec"), names)
