"""The programs in examples/, on two ranks and small data, killed and continued."""

import json
import os
import pathlib

import pytest

torch = pytest.importorskip("torch", minversion="2.5")

from ranks import finish, start

EXAMPLES = pathlib.Path(os.environ["TEST_SOURCE_DIR"], "examples")


def check_continues(command, folder, millrace) -> list[str]:
    """Kills the program after its fourth step and continues it: the weights are those of a run
    without a kill. Returns what the latter prints."""
    command = [EXAMPLES / command[0], *command[1:], "--save-every", 2]
    whole = finish(start([*command, "--checkpoints", "whole"], 2, folder))[0]
    killed = [*command, "--checkpoints", "killed"]
    programs = start(killed, 2, folder)
    for line in programs[0].stdout:
        if line.startswith("step 4"):
            break
    else:
        pytest.fail("the program ended before step 4")
    for program in programs:
        program.kill()
        program.communicate()
    resumed = finish(start(killed, 2, folder))[0]
    assert resumed[-1] == whole[-1]
    assert len(resumed) < len(whole)
    hashes = [millrace("ckpt", "hash", folder / name).split() for name in ("whole", "killed")]
    assert hashes[0] == hashes[1]
    return whole


@pytest.fixture
def tokenizer(tmp_path):
    """GPT-2's alphabet of bytes, without merges."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    words = {letter: i for i, letter in enumerate([*letters, "<|endoftext|>"])}
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    (folder / "encoder.json").write_text(json.dumps(words))
    (folder / "vocab.bpe").write_text("#version: 0.2\n")
    return folder


def test_train_imagenet(photos, tmp_path, millrace):
    pytest.importorskip("torchvision")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "train").symlink_to(photos)
    (tmp_path / "shards" / "val").symlink_to(photos)
    command = ["train_imagenet.py", "shards", "--model", "resnet18", "--size", 32]
    command += ["--epochs", 2, "--batch", 8, "--lr", 0.01]
    whole = check_continues(command, tmp_path, millrace)
    assert whole[-1].startswith("epoch 2  accuracy 0.")


def test_train_clip(photos, tokenizer, tmp_path, millrace):
    pytest.importorskip("torchvision")
    millrace("convert", "dataset", photos, tmp_path / "plain", "--format", "folder", "--quiet")
    images = sorted((tmp_path / "plain").rglob("*.jpg"))
    rows = [
        {"image": str(path), "caption": f"a {path.parent.name}, {path.stem}"} for path in images
    ]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ["--column", "image=jpg", "--column", "caption=txt"]
    millrace("convert", "dataset", tmp_path / "list.jsonl", tmp_path / "shards", *columns)
    command = ["train_clip.py", "shards", "--tokenizer", tokenizer, "--model", "resnet18"]
    command += ["--size", 32, "--width", 64, "--epochs", 1, "--batch", 8]
    check_continues(command, tmp_path, millrace)


def test_finetune_llm(tmp_path, millrace):
    transformers = pytest.importorskip("transformers", "4.44")
    torch.manual_seed(1)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    config = transformers.LlamaConfig(vocab_size=257, **shape, **heads)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("".join(f"The number {i} follows.\n" for i in range(400)))
    millrace("convert", "dataset", tmp_path / "text.txt", tmp_path / "tokens", "--tokenizer=bytes")
    command = ["finetune_llm.py", "model", "tokens", "--steps", 6, "--batch", 8, "--block", 32]
    check_continues(command, tmp_path, millrace)
    millrace("convert", "checkpoint", tmp_path / "killed", tmp_path / "full", "--to", "full")
