"""Trains a language model of Hugging Face's transformers further, sharded over several GPUs.

    millrace convert dataset text/ tokens --tokenizer qwen/tokenizer.json
    torchrun --nproc-per-node 8 examples/finetune_llm.py qwen tokens
    millrace convert checkpoint finetuned model.safetensors --to full

qwen is a folder with config.json, the weights and the tokenizer. The same command continues after
a kill, with the very next window of text, also on another number of GPUs.
"""

import argparse
import math
import os

import millrace as mr
import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("tokens", help="dataset of its tokens")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64, help="windows per step on all GPUs")
    parser.add_argument("--block", type=int, default=2048, help="tokens of a window")
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--warmup", type=int, default=50, help="steps")
    parser.add_argument("--save-every", type=int, default=100, help="steps")
    parser.add_argument("--checkpoints", default="finetuned")
    return parser.parse_args()


def shard(model: torch.nn.Module, device_type: str) -> None:
    """Each rank has a part of each layer, gathers the whole in bfloat16, and sums in float32."""
    mesh = init_device_mesh(device_type, (dist.get_world_size(),))
    precision = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for module in model.modules():
        if type(module).__name__ in (model._no_split_modules or ()):
            fully_shard(module, mesh=mesh, mp_policy=precision)
    fully_shard(model, mesh=mesh, mp_policy=precision)


def main() -> None:
    args = parse()
    has_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if has_gpu else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)

    loader = mr.Loader(
        args.tokens,
        fields={"tokens": mr.Windows(args.block)},
        batch_size=args.batch // dist.get_world_size(),
        global_batch=args.batch,
        seed=1,
        device=device,
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(args.model, torch_dtype=torch.float32)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    shard(model.to(device), device.type)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))

    def scale(step: int) -> float:
        progress = (step - args.warmup) / max(1, args.steps - args.warmup)
        return min((step + 1) / (args.warmup + 1), 0.5 + 0.5 * math.cos(math.pi * max(0, progress)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, scale)

    with mr.Checkpointer(args.checkpoints, keep_last=2) as checkpointer:
        checkpointer.hook(optimizer)
        parts = {"model": model, "optimizer": optimizer, "loader": loader}
        step = 0
        if checkpointer.steps():
            latest = checkpointer.load(**parts)
            step = latest.step
            schedule.load_state_dict(latest.extra)
        while step < args.steps:
            for batch in loader:
                tokens = batch["tokens"].long()
                logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
                loss = torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1).float(), tokens[:, 1:].flatten()
                )
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                step += 1
                if step % args.save_every == 0 or step == args.steps:
                    checkpointer.save(step, **parts, extra=schedule.state_dict())
                    if dist.get_rank() == 0:
                        print(f"step {step}/{args.steps}  loss {loss.item():.4f}", flush=True)
                if step == args.steps:
                    break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
