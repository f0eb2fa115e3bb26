"""Lightning's checkpoints through millrace."""

import pytest

torch = pytest.importorskip("torch", "2.5", reason="there is no PyTorch 2.5 or newer")
lightning = pytest.importorskip("lightning")

from lightning.pytorch.callbacks import ModelCheckpoint
from millrace.lightning import CheckpointIO
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
