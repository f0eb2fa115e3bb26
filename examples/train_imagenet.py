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
    parser.add_argument("--checkpoint", default="last.pt")
    return parser.parse_args()


def open_loader(path: str, image: mr.Image, batch: int, tail: str) -> mr.Loader:
    return mr.Loader(
        path,
        fields={"image": image, "label": mr.Label()},
        batch_size=batch // dist.get_world_size(),
        global_batch=batch,
        seed=1,
        tail=tail,
    )


def save(path: str, **state: object) -> None:
    """Writes a checkpoint that is either complete or absent."""
    torch.save(state, path + ".tmp")
    os.replace(path + ".tmp", path)


def main() -> None:
    args = parse()
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    rank = dist.get_rank()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    mean = torch.tensor(MEAN, device=device).view(3, 1, 1)
    std = torch.tensor(STD, device=device).view(3, 1, 1)

    crop = mr.Image(args.size, crop="random", flip=True)
    center = mr.Image(args.size, crop="center", center_fraction=0.875)
    train = open_loader(f"{args.shards}/train", crop, args.batch, "drop")
    val = open_loader(f"{args.shards}/val", center, args.batch, "keep")

    torch.manual_seed(1)
    model = torchvision.models.get_model(args.model, num_classes=len(train.classes))
    model = model.to(device, memory_format=torch.channels_last)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-5, nesterov=True
    )
    steps = args.epochs * len(train)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=steps)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "train": train}
    if os.path.exists(args.checkpoint):
        state = torch.load(args.checkpoint, map_location=device)
        for name, part in parts.items():
            part.load_state_dict(state[name])

    def logits(module: torch.nn.Module, batch: dict) -> torch.Tensor:
        images = batch["image"].to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            return module((images / 255 - mean) / std)

    while train.epoch < args.epochs:
        epoch = train.epoch
        for batch in train:
            loss = torch.nn.functional.cross_entropy(logits(ddp, batch), batch["label"].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step = schedule.last_epoch
            if step % args.save_every == 0 or step == steps:
                if rank == 0:
                    save(args.checkpoint, **{key: part.state_dict() for key, part in parts.items()})
                    print(f"step {step}/{steps}  loss {loss.item():.4f}", flush=True)

        model.eval()
        counts = torch.zeros(2, device=device)
        with torch.no_grad():
            for batch in val:
                is_right = logits(model, batch).argmax(1) == batch["label"].to(device)
                counts += torch.stack([is_right.sum(), torch.tensor(len(is_right), device=device)])
        model.train()
        dist.all_reduce(counts)
        if rank == 0:
            print(f"epoch {epoch + 1}  accuracy {counts[0] / counts[1]:.4f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
