#!/usr/bin/env python3
"""model.py — independent implementation of the models in torch and float64, from their papers.

    model.py FOLDER

For each case, reads the configuration and layout from FOLDER/N/case.json and the tensors from
weights.f64. Writes gradients.f64 (in the same layout), losses.f64, and flops.f64: the number of
operations in the matrix products of both passes. For a single block, reads its input x.f64 and the
gradient of its output, r.f64, and writes out.f64 and d_x.f64 instead of losses.f64 and flops.f64.
"""
import json
import math
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class FlopCounter(TorchDispatchMode):
    """Counts the same operations as torch's FlopCounterMode, which older versions lack."""
    flops = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = str(function).split(".")[1]
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            left, right = args[-2:]
            self.flops += 2 * left.numel() * right.shape[-1]
        elif name == "convolution":
            self.flops += 2 * result.numel() * args[1][0].numel()
        elif name == "convolution_backward":
            d_out, _, kernel = args[:3]
            self.flops += 2 * d_out.numel() * kernel[0].numel() * sum(bool(needed) for needed in args[-1][:2])
        return result


class Tensors:
    def __init__(self, folder, case):
        self.flat = np.fromfile(os.path.join(folder, "weights.f64"))
        self.params = {p["name"]: p for p in case["params"]}
        self.named = {}
        for name, p in self.params.items():
            end = p["offset"] + math.prod(p["shape"])
            array = self.flat[p["offset"]:end].reshape(p["shape"]).copy()
            self.named[name] = torch.tensor(array, requires_grad=True)

    def __call__(self, name):
        return self.named.get(name)

    def gradients(self):
        flat = np.zeros_like(self.flat)
        for name, p in self.params.items():
            grad = self.named[name].grad
            if grad is not None:
                flat[p["offset"]:p["offset"] + grad.numel()] = grad.numpy().ravel()
        return flat


def norm(x, w, name, c):
    if c["norm"] == "layer":
        return F.layer_norm(x, x.shape[-1:], w(name + ".weight"), w(name + ".bias"), c["epsilon"])
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c["epsilon"]) * w(name + ".weight")


def linear(x, w, name):
    return F.linear(x, w(name + ".weight"), w(name + ".bias"))


def frequencies(c, dim):
    frequency = c["rope_base"] ** (-torch.arange(0, dim, 2) / dim)
    if c["rope_factor"] in (0, 1):
        return frequency
    # like transformers' _compute_llama3_parameters
    original, low, high = (c["rope_" + n] for n in ("original_positions", "low_freq_factor", "high_freq_factor"))
    wavelength = 2 * math.pi / frequency
    scaled = torch.where(wavelength > original / low, frequency / c["rope_factor"], frequency)
    smooth = (original / wavelength - low) / (high - low)
    between = (1 - smooth) * scaled / c["rope_factor"] + smooth * scaled
    is_between = ~(wavelength < original / high) & ~(wavelength > original / low)
    return torch.where(is_between, between, scaled)


def rotate(x, c):  # x: [items, heads, tokens, dim]
    dim, tokens = x.shape[-1], x.shape[-2]
    frequency = frequencies(c, dim)
    angle = torch.arange(tokens)[:, None] * frequency[None]
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    half = torch.cat([-x[..., dim // 2:], x[..., :dim // 2]], -1)
    return x * cos + half * sin


def attention(x, w, name, c):
    items, tokens, width = x.shape
    dim = c.get("head_dim") or width // c["heads"]

    def heads(which, count):
        return linear(x, w, f"{name}.{which}").view(items, tokens, count, dim).transpose(1, 2)

    q, k, v = heads("q", c["heads"]), heads("k", c["kv_heads"]), heads("v", c["kv_heads"])
    if w(name + ".q_norm.weight") is not None:
        rms = {"norm": "rms", "epsilon": c["epsilon"]}
        q, k = norm(q, w, name + ".q_norm", rms), norm(k, w, name + ".k_norm", rms)
    if c["rope"]:
        q, k = rotate(q, c), rotate(k, c)
    k, v = (t.repeat_interleave(c["heads"] // c["kv_heads"], 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) / math.sqrt(dim)
    if c["causal"]:
        scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -math.inf)
    mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(items, tokens, -1)
    return linear(mixed, w, name + ".proj")


def mlp(x, w, name, c):
    if c["swiglu"]:
        hidden = F.silu(linear(x, w, name + ".gate")) * linear(x, w, name + ".up")
    else:
        hidden = F.gelu(linear(x, w, name + ".fc"), approximate="tanh")
    return linear(hidden, w, name + ".proj")


def block(x, w, name, c):
    x = x + attention(norm(x, w, name + ".norm1", c), w, name + ".attn", c)
    return x + mlp(norm(x, w, name + ".norm2", c), w, name + ".mlp", c)


def vit(folder, w, c):
    side, patch, edge = c["side"], c["patch"], c["side"] // c["patch"]
    images = np.fromfile(os.path.join(folder, "images.u8"), np.uint8).reshape(-1, side, side, 3)
    labels = torch.from_numpy(np.fromfile(os.path.join(folder, "labels.i32"), np.int32)).long()
    mean, deviation = (np.array(a, np.float32).astype(np.float64) for a in (MEAN, DEVIATION))
    x = torch.from_numpy((images / 255.0 - mean) / deviation).permute(0, 3, 1, 2)
    # uses torch's convolution instead of cutting patches
    kernel = w("embed.patch.weight").view(-1, patch, patch, 3).permute(0, 3, 1, 2)
    x = F.conv2d(x, kernel, w("embed.patch.bias"), stride=patch).flatten(2).transpose(1, 2)
    assert x.shape[1] == edge * edge
    x = x + w("embed.positions.weight")
    for i in range(c["layers"]):
        x = block(x, w, f"blocks.{i}", c)
    logits = linear(norm(x, w, "norm", c).mean(1), w, "head")
    return F.cross_entropy(logits, labels, reduction="none", ignore_index=-1)


def language(folder, w, c):
    tokens, targets = (torch.from_numpy(np.fromfile(os.path.join(folder, n + ".i32"), np.int32)).long()
                       for n in ("tokens", "targets"))
    tokens = tokens.view(-1, c["block"] + 1)
    x = F.embedding(tokens[:, :-1], w("embed.tokens.weight"))
    if c["kind"] == "gpt2":
        x = x + w("embed.positions.weight")
    for i in range(c["layers"]):
        x = block(x, w, f"blocks.{i}", c)
    head = w("head.weight")
    head = w("embed.tokens.weight") if head is None else head
    logits = F.linear(norm(x, w, "norm", c), head)
    return F.cross_entropy(logits.flatten(0, 1), targets, reduction="none", ignore_index=-1)


def run(folder):
    with open(os.path.join(folder, "case.json")) as file:
        c = json.load(file)
    w = Tensors(folder, c)

    def write_array(name, array):
        np.ascontiguousarray(array, np.float64).tofile(os.path.join(folder, name + ".f64"))

    if c["kind"] == "block":
        x, r = (torch.from_numpy(np.fromfile(os.path.join(folder, n + ".f64"))).view(c["items"], -1, c["width"])
                for n in ("x", "r"))
        x.requires_grad_()
        out = block(x, w, "blocks.1", c)
        (out * r).sum().backward()
        write_array("out", out.detach().numpy())
        write_array("d_x", x.grad.numpy())
    else:
        with FlopCounter() as counter:
            losses = (vit if c["kind"] == "vit" else language)(folder, w, c)
            losses.sum().backward()
        write_array("losses", losses.detach().numpy())
        write_array("flops", [counter.flops])
    write_array("gradients", w.gradients())


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    for name in sorted(os.listdir(sys.argv[1])):
        run(os.path.join(sys.argv[1], name))


if __name__ == "__main__":
    main()
