"""The loader in PyTorch, torchdata, Accelerate and Lightning, on one rank and on two over gloo."""

import itertools
import json
import pathlib

import pytest

torch = pytest.importorskip("torch")

import millrace as mr
from ranks import finish, start
from test_loader import IMAGE

FIELDS = {"image": IMAGE, "label": mr.Label()}


def on_ranks(script: str, path: pathlib.Path, ranks: int = 2) -> list[list[str]]:
    """Runs the script on ranks of gloo. Returns what each prints as JSON."""
    begin = """
import itertools, json, os, sys
import torch
import millrace as mr
FIELDS = {"image": mr.Image(24, crop="random", flip=True), "label": mr.Label()}
PATH = sys.argv[1]
def digest(batch):
    return [hash(row.numpy().tobytes()) for row in batch["image"]]
"""
    lines = finish(start(["-c", begin + script, path], ranks))
    return [json.loads(printed[-1]) for printed in lines]


def all_pixels(photos, epochs=1) -> list[int]:
    code = f"""
loader = mr.Loader(PATH, fields=FIELDS, batch_size=8, seed=7)
print(json.dumps([h for _ in range({epochs}) for batch in loader for h in digest(batch)]))
"""
    return on_ranks(code, photos, 1)[0]


def test_tensors_have_no_copy(photos):
    loader = mr.Loader(photos, fields=FIELDS, batch_size=8, seed=7)
    native = loader._loader.next()["image"]
    tensor = torch.from_dlpack(native)
    tensor[0, 0, 0, 0] = 77
    assert memoryview(native)[0, 0, 0, 0] == 77
    batch = next(iter(loader))
    assert batch["image"].dtype == torch.uint8
    assert batch["label"].dtype == torch.int64


@pytest.mark.parametrize("keep", ["grow", "copy"])
def test_images_have_the_memory_format_channels_last(photos, keep):
    layouts = ("channels_last", "hwc", "chw")
    images = []
    for layout in layouts:
        fields = {"image": mr.Image(24, layout=layout), "label": mr.Label()}
        batch = next(iter(mr.Loader(photos, fields=fields, batch_size=8, seed=7, keep=keep)))
        images.append(batch["image"])
    last, hwc, chw = images
    assert last.shape == chw.shape == (8, 3, 24, 24)
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert hwc.is_contiguous() and chw.is_contiguous()
    assert torch.equal(last, chw)
    assert torch.equal(last, hwc.permute(0, 3, 1, 2))


def test_ranks_of_torch_distributed_share_the_samples(photos):
    code = """
torch.distributed.init_process_group("gloo")
loader = mr.Loader(PATH, fields=FIELDS, batch_size=4, seed=7)
print(json.dumps([h for batch in loader for h in digest(batch)]))
"""
    a, b = on_ranks(code, photos)
    assert sorted(a + b) == sorted(all_pixels(photos))
    assert len(a) == len(b)


def test_ranks_of_torchrun_before_torch_distributed(photos):
    code = """
loader = mr.Loader(PATH, fields=FIELDS, batch_size=4, seed=7)
torch.distributed.init_process_group("gloo")
print(json.dumps([h for batch in loader for h in digest(batch)]))
"""
    a, b = on_ranks(code, photos)
    assert len(a) == len(b)
    assert sorted(a + b) == sorted(all_pixels(photos))


def test_a_loader_that_did_not_know_its_ranks(photos):
    code = """
rank, world_size = int(os.environ.pop("RANK")), int(os.environ.pop("WORLD_SIZE"))
loader = mr.Loader(PATH, fields=FIELDS, batch_size=4, seed=7)
torch.distributed.init_process_group("gloo", rank=rank, world_size=world_size)
try:
    next(iter(loader))
except RuntimeError as error:
    print(json.dumps(str(error)), flush=True)
torch.distributed.barrier()
"""
    for message in on_ranks(code, photos):
        assert "before torch.distributed was initialized" in message


def test_a_mesh_gives_its_peers_the_same_batches(photos):
    pytest.importorskip("torch.distributed.device_mesh")
    code = """
from torch.distributed.device_mesh import init_device_mesh
torch.distributed.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
loader = mr.Loader(PATH, fields=FIELDS, batch_size=4, seed=7, mesh=mesh["dp"])
print(json.dumps([h for batch in loader for h in digest(batch)]))
"""
    pixels = on_ranks(code, photos, 4)
    assert pixels[0] == pixels[1] and pixels[2] == pixels[3]
    assert sorted(pixels[0] + pixels[2]) == sorted(all_pixels(photos))


def test_data_loader(photos):
    dataset = mr.IterableDataset(photos, fields=FIELDS, batch_size=8, seed=7)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=0)
    plain = mr.Loader(photos, fields=FIELDS, batch_size=8, seed=7)
    assert len(loader) == len(plain)
    for _ in range(2):
        for a, b in zip(loader, plain, strict=True):
            assert torch.equal(a["image"], b["image"])
    with pytest.raises(RuntimeError, match="num_workers=0"):
        next(iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1)))


@pytest.mark.parametrize("stop", [0, 1, 4, 8])
def test_stateful_data_loader(photos, stop):
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def make():
        dataset = mr.IterableDataset(photos, fields=FIELDS, batch_size=8, seed=7)
        return stateful(dataset, batch_size=None, num_workers=0)

    whole = [batch["image"].clone() for batch in make()]
    loader, resumed = make(), make()
    before = [batch["image"].clone() for batch in itertools.islice(loader, stop)]
    resumed.load_state_dict(loader.state_dict())
    after = [batch["image"].clone() for batch in resumed]
    assert len(before) + len(after) == len(whole)
    assert all(map(torch.equal, before + after, whole))


@pytest.mark.parametrize("stop", [0, 1, 4, 8])
def test_accelerate_with_states(photos, stop):
    """It fetches a batch ahead, but states are those of the batches that it has yielded."""
    accelerate = pytest.importorskip("accelerate")
    configuration = accelerate.utils.DataLoaderConfiguration(use_stateful_dataloader=True)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=configuration)

    def make():
        dataset = mr.IterableDataset(photos, fields=FIELDS, batch_size=8, seed=7)
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=0)
        return accelerator.prepare(loader)

    loader = make()
    whole = [batch["image"].clone() for batch in loader]
    whole += [batch["image"].clone() for batch in loader]
    loader, resumed = make(), make()
    before = [batch["image"].clone() for batch in itertools.islice(loader, stop)]
    resumed.load_state_dict(loader.state_dict())
    after = [batch["image"].clone() for batch in resumed]
    after += [batch["image"].clone() for batch in resumed]
    assert len(before) + len(after) == len(whole)
    assert all(map(torch.equal, before + after, whole))


def test_accelerate(photos):
    pytest.importorskip("accelerate")
    code = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(mr.Loader(PATH, fields=FIELDS, batch_size=4, seed=7))
print(json.dumps([h for batch in loader for h in digest(batch)]))
"""
    a, b = on_ranks(code, photos)
    assert sorted(a + b) == sorted(all_pixels(photos))


LIGHTNING = """
import lightning

class Digests(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen = []

    def train_dataloader(self):
        return mr.Loader(PATH, fields=FIELDS, batch_size=4, seed=7)

    def training_step(self, batch, index):
        self.seen += digest(batch)
        return self.weight.sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)

def fit(checkpoint=None, **options):
    module = Digests()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_progress_bar=False,
        enable_model_summary=False, **options)
    trainer.fit(module, ckpt_path=checkpoint)
    return module.seen
"""


def test_lightning(photos):
    pytest.importorskip("lightning")
    code = """
print(json.dumps(fit(max_epochs=2, enable_checkpointing=False)))
"""
    a, b = on_ranks(LIGHTNING + code, photos)
    assert len(a) == len(b)
    assert sorted(a + b) == sorted(all_pixels(photos, epochs=2))


@pytest.mark.parametrize("plugins", ["[]", "[CheckpointIO()]"])
def test_lightning_resumes_in_mid_epoch(photos, tmp_path, plugins):
    pytest.importorskip("lightning")
    code = f"""
from lightning.pytorch.callbacks import ModelCheckpoint
from millrace.lightning import CheckpointIO
whole = fit(max_epochs=2, enable_checkpointing=False)
save = ModelCheckpoint({str(tmp_path)!r}, filename="last", every_n_train_steps=3, save_top_k=1)
before = fit(max_steps=3, callbacks=[save], plugins={plugins})
last = {str(tmp_path / "last.ckpt")!r}
after = fit(last, max_epochs=2, enable_checkpointing=False, plugins={plugins})
print(json.dumps([whole, before + after]))
"""
    for whole, resumed in on_ranks(LIGHTNING + code, photos):
        assert resumed == whole
    assert (tmp_path / "last.ckpt").is_dir() == (plugins != "[]")


def test_accelerate_may_not_divide_the_samples_again(photos):
    pytest.importorskip("accelerate")
    code = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
dataset = mr.IterableDataset(PATH, fields=FIELDS, batch_size=4, seed=7)
loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=0)
loader = accelerator.prepare(loader)
try:
    next(iter(loader))
    print(json.dumps("divided"))
except RuntimeError as error:
    print(json.dumps(str(error)), flush=True)
torch.distributed.barrier()
os._exit(0)
"""
    messages = on_ranks(code, photos)
    assert "give prepare() the millrace.Loader itself" in messages[0]
