"""Trains CLIP, an encoder of images and one of captions, on several GPUs.

    millrace convert dataset captions/list.jsonl shards --column image=jpg --column caption=txt
    torchrun --nproc-per-node 8 examples/train_clip.py shards --tokenizer gpt2

gpt2 is a folder with encoder.json and vocab.bpe, or a tokenizer.json. The same command continues
after a kill, with the very next sample, also on another number of GPUs.
"""

import argparse
import math
import os

import millrace as mr
import torch
import torch.distributed as dist
import torchvision
from torch.distributed.nn.functional import all_gather
from torch.nn.functional import cross_entropy, normalize
from torch.nn.parallel import DistributedDataParallel

MEAN, STD = (0.481, 0.458, 0.408), (0.269, 0.261, 0.276)
VOCABULARY, WORDS = 50257, 77


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shards")
    parser.add_argument("--tokenizer", required=True, help="GPT-2's")
    parser.add_argument("--model", default="resnet50", help="of images, by torchvision's name")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=4096, help="samples per step on all GPUs")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--save-every", type=int, default=500, help="steps")
    parser.add_argument("--checkpoints", default="clip")
    return parser.parse_args()


class TextEncoder(torch.nn.Module):
    """A transformer whose vector of the last token represents the text."""

    def __init__(self, width: int, layers: int = 6) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, width)
        self.places = torch.nn.Parameter(0.01 * torch.randn(WORDS, width))
        layer = torch.nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(WORDS, tokens.device)
        values = self.layers(self.tokens(tokens) + self.places, mask, is_causal=True)
        return self.norm(values[torch.arange(len(tokens), device=tokens.device), lengths - 1])


class Clip(torch.nn.Module):
    """A. Radford et al., Learning Transferable Visual Models From Natural Language Supervision."""

    def __init__(self, model: str, width: int) -> None:
        super().__init__()
        self.image = torchvision.models.get_model(model, num_classes=width)
        self.text = TextEncoder(width)
        self.scale = torch.nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        images = normalize(self.image(batch["image"]), dim=1)
        texts = normalize(self.text(batch["caption"], batch["caption_length"]), dim=1)
        return images, texts, self.scale.exp().clamp(max=100)


def contrast(images: torch.Tensor, texts: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Each image of this rank beside all captions, and each caption beside all images."""
    mine = dist.get_rank() * len(images) + torch.arange(len(images), device=images.device)
    to_texts = scale * images @ torch.cat(all_gather(texts)).T
    to_images = scale * texts @ torch.cat(all_gather(images)).T
    return (cross_entropy(to_texts, mine) + cross_entropy(to_images, mine)) / 2


def main() -> None:
    args = parse()
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)

    loader = mr.Loader(
        args.shards,
        fields={
            "image": mr.Image(args.size, scale=(0.9, 1.0), dtype="f32", mean=MEAN, std=STD),
            "caption": mr.Tokens(
                "txt", tokenizer=args.tokenizer, length=WORDS, end="<|endoftext|>"
            ),
        },
        batch_size=args.batch // dist.get_world_size(),
        global_batch=args.batch,
        seed=1,
        device=device,
    )
    torch.manual_seed(1)
    model = Clip(args.model, args.width).to(device)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.2)
    steps = args.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)

    with mr.Checkpointer(args.checkpoints, keep_last=2) as checkpointer:
        checkpointer.hook(optimizer)
        parts = {"model": model, "optimizer": optimizer, "loader": loader}
        if checkpointer.steps():
            schedule.load_state_dict(checkpointer.load(**parts).extra)
        while loader.epoch < args.epochs:
            for batch in loader:
                with torch.autocast(device.type, torch.bfloat16):
                    loss = contrast(*ddp(batch))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                step = schedule.last_epoch
                if step % args.save_every == 0 or step == steps:
                    checkpointer.save(step, **parts, extra=schedule.state_dict())
                    if dist.get_rank() == 0:
                        print(f"step {step}/{steps}  loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
