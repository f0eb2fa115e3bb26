"""Trains a classifier of torchvision on several GPUs, and continues after a kill at any time.

    millrace convert dataset imagenet/train shards/train
    millrace convert dataset imagenet/val shards/val
    torchrun --nproc-per-node 8 examples/train_imagenet.py shards --model resnet50

The same command continues from the last checkpoint, with the very next sample, also on another
number of GPUs.
"""

import argparse
import os

import millrace as mr
import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("shards", help="folder with train and val")
    parser.add_argument("--model", default="resnet50", help="name of a torchvision model")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch", type=int, default=1024, help="samples per step on all GPUs")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--save-every", type=int, default=500, help="steps")
    parser.add_argument("--checkpoints", default="imagenet")
    return parser.parse_args()


def open_loader(
    path: str, image: mr.Image, batch: int, tail: str, device: torch.device
) -> mr.Loader:
    return mr.Loader(
        path,
        fields={"image": image, "label": mr.Label()},
        batch_size=batch // dist.get_world_size(),
        global_batch=batch,
        seed=1,
        tail=tail,
        device=device,
    )


def main() -> None:
    args = parse()
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)

    floats = {"dtype": "f32", "mean": MEAN, "std": STD}
    crop = mr.Image(args.size, crop="random", flip=True, **floats)
    center = mr.Image(args.size, crop="center", center_fraction=0.875, **floats)
    train = open_loader(f"{args.shards}/train", crop, args.batch, "drop", device)
    val = open_loader(f"{args.shards}/val", center, args.batch, "keep", device)

    torch.manual_seed(1)
    model = torchvision.models.get_model(args.model, num_classes=len(train.classes))
    model = model.to(device, memory_format=torch.channels_last)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-5, nesterov=True
    )
    steps = args.epochs * len(train)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)

    def logits(module: torch.nn.Module, batch: dict) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return module(batch["image"])

    def train_epoch() -> None:
        for batch in train:
            loss = torch.nn.functional.cross_entropy(logits(ddp, batch), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step = schedule.last_epoch
            if step % args.save_every == 0 or step == steps:
                checkpointer.save(step, **parts, extra=schedule.state_dict())
                if rank == 0:
                    print(f"step {step}/{steps}  loss {loss.item():.4f}", flush=True)

    @torch.no_grad()
    def accuracy() -> float:
        model.eval()
        counts = torch.zeros(2, device=device)
        for batch in val:
            is_right = logits(model, batch).argmax(1) == batch["label"]
            counts += torch.tensor([is_right.sum(), len(is_right)], device=device)
        model.train()
        dist.all_reduce(counts)
        return (counts[0] / counts[1]).item()

    with mr.Checkpointer(args.checkpoints, keep_last=2) as checkpointer:
        checkpointer.hook(optimizer)
        parts = {"model": model, "optimizer": optimizer, "loader": train}
        if checkpointer.steps():
            schedule.load_state_dict(checkpointer.load(**parts).extra)
        while train.epoch < args.epochs:
            epoch = train.epoch
            train_epoch()
            result = accuracy()
            if rank == 0:
                print(f"epoch {epoch + 1}  accuracy {result:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
