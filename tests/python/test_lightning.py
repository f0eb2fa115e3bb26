"""Lightning's checkpoints through millrace."""

import functools
import json
import signal

import pytest

torch = pytest.importorskip("torch", "2.5", reason="there is no PyTorch 2.5 or newer")
lightning = pytest.importorskip("lightning")

from lightning.pytorch.callbacks import ModelCheckpoint
from millrace.lightning import CheckpointIO
from ranks import finish, start
from test_checkpoint import digest, make_model


class Module(lightning.LightningModule):
    def __init__(self, seed: int = 0, width: int = 16):
        super().__init__()
        self.save_hyperparameters()
        self.model = make_model(seed, width)
        self.losses = []

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(5, 6, 8) * torch.arange(5)[:, None, None])

    def training_step(self, batch, index):
        loss = self.model(batch[0] + torch.arange(6)[:, None]).square().mean()
        self.log("val_loss", loss)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


def fit(module, checkpoint=None, **options):
    trainer = lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    trainer.fit(module, ckpt_path=checkpoint)
    return module.losses


def test_training_goes_on(tmp_path, millrace):
    whole = fit(Module(), max_epochs=4, enable_checkpointing=False)
    best = ModelCheckpoint(tmp_path, monitor="val_loss", save_top_k=2, save_last=True)
    options = {"callbacks": [best], "plugins": [CheckpointIO()]}
    before = fit(Module(), max_epochs=2, **options)
    assert (tmp_path / "last.ckpt").is_dir()
    millrace("verify", tmp_path / "last.ckpt")
    after = fit(Module(1), tmp_path / "last.ckpt", max_epochs=4, **options)
    assert before + after == whole
    assert len(list(tmp_path.glob("epoch=*.ckpt"))) == 2


def test_what_lightning_saves_returns(tmp_path):
    plugin, path = CheckpointIO(), tmp_path / "a.ckpt"
    for number in range(2):
        checkpoint = {"state_dict": {"a.b": torch.ones(2) * number}, "epoch": number, "c": {0: ()}}
        plugin.save_checkpoint(checkpoint, path)
        assert digest(dict(sorted(plugin.load_checkpoint(path).items()))) == digest(
            dict(sorted(checkpoint.items()))
        )
    plugin.remove_checkpoint(path)
    plugin.remove_checkpoint(path)
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        plugin.load_checkpoint(path)


# Prints what each step computes.
RUN = """
import json, os, signal, sys
import lightning, torch
from torch import nn
import millrace as mr
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.strategies import ModelParallelStrategy
from millrace.lightning import ModelCheckpoint

photos, folder, strategy, epochs, kill_at, saves = sys.argv[1:7]
RANKS = int(os.environ["WORLD_SIZE"])

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = None

    def configure_model(self):
        if self.model is None:
            torch.manual_seed(0)
            self.model = nn.Sequential(nn.Linear(192, 6), nn.Dropout(0.3), nn.BatchNorm1d(6),
                                       nn.Linear(6, 1))
            if strategy == "fsdp":
                from torch.distributed.fsdp import fully_shard
                fully_shard(self.model, mesh=self.device_mesh["data_parallel"])

    def train_dataloader(self):
        return mr.Loader(photos, fields={"image": mr.Image(8)}, batch_size=8, seed=7)

    def training_step(self, batch, index):
        if self.global_step == int(kill_at):
            os.kill(os.getpid(), signal.SIGKILL)
        loss = self.model(batch["image"].flatten(1).float() / 255).square().mean()
        rate = self.optimizers().param_groups[0]["lr"]
        print("=", json.dumps([self.global_step, loss.item(), rate]), flush=True)
        self.log("loss", loss)
        return loss

    def on_save_checkpoint(self, checkpoint):
        checkpoint["mine"] = checkpoint["global_step"]

    def on_load_checkpoint(self, checkpoint):
        assert checkpoint["mine"] == checkpoint["global_step"] > 0

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

lightning.seed_everything(3 + int(os.environ["RANK"]))
kinds = {"ddp": "ddp", "fsdp": ModelParallelStrategy(RANKS, 1), "one": "auto"}
trainer = lightning.Trainer(
    accelerator="cpu", devices=RANKS, strategy=kinds[strategy], max_epochs=int(epochs),
    logger=False, enable_progress_bar=False, enable_model_summary=False,
    callbacks=[ModelCheckpoint(folder, keep_last=2, **json.loads(saves)),
               EarlyStopping("loss", patience=99)])
trainer.fit(Module())
"""


def run_fit(photos, folder, strategy, ranks, kill_at=-1, epochs=3, **saves) -> list:
    """What the steps of each rank compute, as [step, loss, learning rate]."""
    command = ["-c", RUN, photos, folder, strategy, epochs, kill_at, json.dumps(saves)]
    programs = start(command, ranks)
    if kill_at < 0:
        lines = finish(programs)
    else:
        lines = [one.communicate(timeout=600)[0].splitlines() for one in programs]
        assert -signal.SIGKILL in [one.returncode for one in programs]
    return [[json.loads(line[2:]) for line in out if line.startswith("= ")] for out in lines]


@pytest.fixture(scope="module")
def whole_runs(photos, tmp_path_factory):
    """Uninterrupted ones, by their strategy."""

    @functools.cache
    def run(strategy: str, ranks: int) -> list:
        return run_fit(photos, tmp_path_factory.mktemp("whole"), strategy, ranks)

    return run


@pytest.mark.parametrize(
    ("strategy", "kill_at", "saves"),
    [
        ("one", 14, {"every_n_train_steps": 2, "every_n_epochs": 0}),
        ("one", 9, {"every_n_train_steps": 1, "every_n_epochs": 0}),
        ("one", 21, {}),
        ("ddp", 10, {"every_n_train_steps": 1}),
        ("fsdp", 6, {"every_n_train_steps": 1}),
    ],
)
def test_a_killed_run_continues(photos, whole_runs, tmp_path, millrace, strategy, kill_at, saves):
    """One rank has 9 steps an epoch, two have 4."""
    ranks = 1 if strategy == "one" else 2
    whole = whole_runs(strategy, ranks)
    before = run_fit(photos, tmp_path, strategy, ranks, kill_at, **saves)
    after = run_fit(photos, tmp_path, strategy, ranks, **saves)
    millrace("verify", tmp_path)
    for all_steps, first, rest in zip(whole, before, after, strict=True):
        assert len(all_steps) == (27 if ranks == 1 else 12)
        begin = rest[0][0]
        assert 0 < begin <= kill_at
        assert first == all_steps[: len(first)]
        assert rest == all_steps[begin:]


def test_another_strategy_continues(photos, tmp_path):
    before = run_fit(photos, tmp_path, "fsdp", 2, epochs=1)[0]
    after = run_fit(photos, tmp_path, "one", 1, epochs=2)[0]
    assert [step for step, _, _ in before + after] == list(range(4 + 9))
