#!/usr/bin/env python3
"""gpu_speed — compares `millrace train` on a GPU with PyTorch, eager and compiled, on the same models.

    bench/gpu_speed.py [--millrace build/release/millrace] [--models gpt2-124m,gpt2-350m,vit-b16] [--steps 60] [--out FOLDER]

Both train in bf16 with float32 weights and moments (torch: autocast and fused AdamW), gradient
clipping, and one micro-batch per step. Tokens are random letters and pictures random JPEGs. millrace
reads and decodes them from shards; torch gets tensors in device memory, which favors torch.

A rate is the median over windows of ten steps, without the first window. Ratios divide millrace's
rate by torch's. Memory is the peak on the device. millrace's gradient sums are also listed separately,
because one micro-batch per step does not need them. For vit-s16, the output includes the share of time
that steps waited for data. Further measurements: a run that saves every 50 steps, and attention
compared with torch's through cuDNN.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_models import Model

WINDOW_STEPS = 10
PARTS = ("forward", "backward", "reduce", "update")
MODELS = {
    "gpt2-124m": dict(type="gpt2", layers=12, heads=12, width=768, block=1024, vocabulary=50304, batch=32),
    "gpt2-350m": dict(type="gpt2", layers=24, heads=16, width=1024, block=1024, vocabulary=50304, batch=16),
    "vit-s16": dict(type="vit", layers=12, heads=6, width=384, patch=16, side=224, classes=1000, batch=256),
    "vit-b16": dict(type="vit", layers=12, heads=12, width=768, patch=16, side=224, classes=1000, batch=128),
    "gpt2-tiny": dict(type="gpt2", layers=2, heads=2, width=64, block=64, vocabulary=512, batch=4),
    "vit-tiny": dict(type="vit", layers=2, heads=2, width=64, patch=8, side=32, classes=10, batch=4),
}


def torch_rate(m, steps, device, compiled):
    torch.manual_seed(1)
    model = Model(m).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, **({"fused": True} if device == "cuda" else {}))
    step_model = torch.compile(model) if compiled else model
    if m["type"] == "gpt2":
        data = torch.randint(0, m["vocabulary"], (m["batch"], m["block"]), device=device)
        targets = torch.randint(0, m["vocabulary"], (m["batch"], m["block"]), device=device)
    else:
        data = torch.rand(m["batch"], 3, m["side"], m["side"], device=device)
        targets = torch.randint(0, m["classes"], (m["batch"],), device=device)
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    rates = []
    for _ in range(steps // WINDOW_STEPS):
        wait()
        began = time.monotonic()
        for _ in range(WINDOW_STEPS):
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = step_model(data, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        wait()
        rates.append(WINDOW_STEPS * m["batch"] * m.get("block", 1) / (time.monotonic() - began))
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return statistics.median(rates[1:]), peak


def ours(options, *arguments, program=None, **how):
    """Runs one of our programs with the libraries packed with it."""
    paths = [options.libraries, os.environ.get("LD_LIBRARY_PATH")]
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(path for path in paths if path))
    return subprocess.run([program or options.millrace, *arguments], env=environment if options.libraries else None, text=True, **how)


def make_tokens(folder, m, steps, options):
    """Writes random letters, one token each. Any tokens train equally fast, except that few rows of
    the embedding get a gradient."""
    count = (steps + 1) * m["batch"] * (m["block"] + 1)
    letters = numpy.random.default_rng(1).integers(97, 123, count, dtype=numpy.uint8)
    (folder / "text.txt").write_bytes(letters.tobytes())
    ours(options, "convert", "dataset", folder / "text.txt", folder / "tokens", "--tokenizer", "bytes", "--quiet", check=True, stdout=subprocess.DEVNULL)
    return folder / "tokens"


def make_pictures(folder, m, steps, options):
    """Writes class folders of photos about 400 pixels wide: noise in blocks of 8 x 8."""
    from PIL import Image
    random = numpy.random.default_rng(2)
    for i in range(min(steps * m["batch"], 2048)):
        path = folder / "photos" / f"{i % min(m['classes'], 64):03}" / f"{i:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (38, 50, 3), dtype=numpy.uint8)).resize((400, 304)).save(path, quality=90)
    ours(options, "convert", "dataset", folder / "photos", folder / "shards", "--quiet", check=True, stdout=subprocess.DEVNULL)
    return folder / "shards"


def millrace_run(m, steps, device, options, folder, save_every=0):
    """Returns medians over all metrics lines but the first, and the peak memory."""
    text = m["type"] == "gpt2"
    data = make_tokens(folder, m, steps, options) if text else make_pictures(folder, m, steps, options)
    config = folder / "train.yaml"
    config.write_text(
        f"run: {{dir: {folder}/run, seed: 1, steps: {steps}}}\ndevice: {device}\n"
        f"data: {{train: {data}, memory: 2GiB, order: {'sequential' if text else 'shuffle'}, "
        + (f"text: {{block: {m['block']}}}" if text else f"image: {{size: {m['side']}}}") + "}\n"
        f"model: {{type: {m['type']}, layers: {m['layers']}, heads: {m['heads']}, width: {m['width']}, "
        + (f"vocabulary: {m['vocabulary']}" if text else f"patch: {m['patch']}, classes: {m['classes']}") + "}\n"
        f"batch: {{global: {m['batch']}, micro: {m['batch']}}}\noptimizer: {{lr: 1e-4}}\nschedule: {{min_lr: 1e-5}}\n"
        f"precision: {{compute: {'bf16' if device == 'cuda' else 'fp32'}}}\n"
        f"checkpoint: {{every: {save_every}}}\nlog: {{every: {WINDOW_STEPS}}}\n")
    ran = ours(options, "train", "--json", config, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if ran.returncode:
        sys.exit(f"gpu_speed: millrace train failed:\n{ran.stderr}")
    key = "tokens_per_second" if text else "samples_per_second"
    lines = [json.loads(line) for line in open(folder / "run" / "metrics.jsonl")]
    lines = [line for line in lines if key in line]
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    memory = next(line["memory"] for line in events if "memory" in line)
    later = {name: [line[name] for line in lines[1:] if name in line] for name in (key, "peak_share", "model_flops_per_second", "data_wait_share", "checkpoint_wait_share", *(f"device_{part}_seconds" for part in PARTS))}
    medians = {name: statistics.median(values) if values else 0 for name, values in later.items()}
    return dict(rate=medians[key], peak_share=medians["peak_share"], data_wait_share=medians["data_wait_share"],
                checkpoint_wait_share=statistics.mean(later["checkpoint_wait_share"]), flops_per_second=medians["model_flops_per_second"], used_bytes=memory["device_bytes"], gradient_bytes=memory["gradients_bytes"],
                device_ms={part: medians[f"device_{part}_seconds"] * 1e3 / WINDOW_STEPS for part in PARTS})


def checkpoint_cost(name, device, options):
    """Returns the fraction of a run of 200 steps spent on saving every 50 steps."""
    with tempfile.TemporaryDirectory(prefix="millrace-gpu-") as folder:
        ran = millrace_run(MODELS[name], 200, device, options, pathlib.Path(folder), save_every=50)
    print(f"\nSaving {name} every 50 steps: {100 * ran['checkpoint_wait_share']:.2f} % of the time is spent waiting for checkpoints.", flush=True)
    return ran["checkpoint_wait_share"]


def cudnn_attention(line, rounds=7, passes=5):
    """Returns the milliseconds of torch's forward and backward passes with cuDNN, for the shape in a
    line of bench-attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    heads = 2048 // line["head_dim"]
    q, k, v, grad = (torch.randn(line["batch"], heads, line["tokens"], line["head_dim"], device="cuda", dtype=torch.bfloat16) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()

    def median_ms(act):
        times = []
        for _ in range(rounds + 1):
            torch.cuda.synchronize()
            began = time.monotonic()
            for _ in range(passes):
                act()
            torch.cuda.synchronize()
            times.append((time.monotonic() - began) * 1e3 / passes)
        return statistics.median(times[1:])

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        forward = median_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=line["causal"]))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=line["causal"])
        backward = median_ms(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
    return forward, backward


def attention_table(options):
    program = pathlib.Path(options.millrace).with_name("bench-attention")
    lines = [json.loads(line) for line in ours(options, program=program, check=True, stdout=subprocess.PIPE).stdout.splitlines()]
    print("\n| attention | tokens | forward, TFLOP/s | of cuDNN | backward, TFLOP/s | of cuDNN |\n|---|---|---|---|---|---|")
    for line in lines:
        line["cudnn_forward_ms"], line["cudnn_backward_ms"] = cudnn_attention(line)
        print(f"| {line['head_dim']} columns, {'causal' if line['causal'] else 'full'} | {line['tokens']} | {line['forward_tflops']:.0f} | {line['cudnn_forward_ms'] / line['forward_ms']:.2f} | "
              f"{line['backward_tflops']:.0f} | {line['cudnn_backward_ms'] / line['backward_ms']:.2f} |", flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millrace", default="build/release/millrace")
    parser.add_argument("--models", default="gpt2-124m,gpt2-350m,vit-b16,vit-s16", help="of " + ", ".join(MODELS))
    parser.add_argument("--steps", type=int, default=60, help=f"of each, a multiple of {WINDOW_STEPS}, at least {2 * WINDOW_STEPS}")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu tests this program, in fp32")
    parser.add_argument("--libraries", help="folder that millrace searches first, with the libraries packed by scripts/gpu")
    parser.add_argument("--out", type=pathlib.Path, help="folder for speed.json; default: none")
    options = parser.parse_args()
    if options.steps % WINDOW_STEPS or options.steps < 2 * WINDOW_STEPS:
        parser.error(f"--steps must be a multiple of {WINDOW_STEPS} and at least {2 * WINDOW_STEPS}")
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(f"{device}, torch {torch.__version__}, {options.steps} steps each; tokens or pictures per second")
    print("| model | millrace | TFLOP/s | share of peak | waits for data | torch eager | ratio | torch compiled | ratio | GiB | gradients, GiB | torch, GiB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    results = []
    for name in options.models.split(","):
        m = MODELS[name]
        with tempfile.TemporaryDirectory(prefix="millrace-gpu-") as folder:
            ran = millrace_run(m, options.steps, options.device, options, pathlib.Path(folder))
        eager, peak = torch_rate(m, options.steps, options.device, False)
        can_compile = options.device == "cuda" and hasattr(torch, "compile")
        fast = torch_rate(m, options.steps, options.device, True)[0] if can_compile else float("nan")
        rate = ran["rate"]
        results.append(dict(model=name, millrace=ran, torch_eager_per_second=eager, torch_compiled_per_second=fast, torch_peak_bytes=peak))
        print(f"| {name} | {rate:.0f} | {ran['flops_per_second'] / 1e12:.1f} | {100 * ran['peak_share']:.0f} % | {100 * ran['data_wait_share']:.1f} % | {eager:.0f} | {rate / eager:.2f} | {fast:.0f} | {rate / fast:.2f} | "
              f"{ran['used_bytes'] / 2**30:.1f} | {ran['gradient_bytes'] / 2**30:.1f} | {peak / 2**30:.1f} |", flush=True)
    print("\n| milliseconds of a step on the device | " + " | ".join(PARTS) + " |\n" + "|---" * (len(PARTS) + 1) + "|")
    for result in results:
        print(f"| {result['model']} | " + " | ".join(f"{result['millrace']['device_ms'][part]:.2f}" for part in PARTS) + " |", flush=True)
    wait_share = checkpoint_cost(options.models.split(",")[0], options.device, options)
    attention = attention_table(options) if options.device == "cuda" else []
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "speed.json").write_text(json.dumps(dict(device=device, torch=torch.__version__, steps=options.steps, results=results, checkpoint_wait_share=wait_share, attention=attention), indent=1))


main()
