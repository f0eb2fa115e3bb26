#!/usr/bin/env python3
"""local_sgd.py — independent implementation of local SGD: ranks update separately and average their
weights at intervals. Gradients are computed by torch in float64 (model.py), updates and means by
numpy.

    local_sgd.py SHARD FIRST STEP EVERY RANKS SAVES

SHARD: tar of the tokens. FIRST: checkpoint of one rank with the initial weights. STEP: checkpoint to
compare with; contains the configuration. EVERY: updates between means. SAVES: steps
after which a save replaced weights and moments by their means.
Exits with status 1 if STEP differs from the result, or also matches the result of other settings.
"""
import io
import json
import math
import os
import sys
import tarfile

sys.dont_write_bytecode = True

import numpy as np
import torch
import torch.nn.functional as F

import model

TOLERANCE = 1e-4  # relative to the root mean square of the weights' change and of the moments; float32 deviates by 4e-6


def read_step(folder):
    """The tensors of a step by name, and the step's manifest."""
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    tensors = {}
    for tensor in manifest["tensors"]:
        assert tensor["dtype"] == "F32", tensor
        whole = np.full(tensor["shape"], np.nan, np.float32)
        for chunk in tensor["chunks"]:
            path = os.path.join(folder, manifest["files"][chunk["file"]]["name"])
            part = np.fromfile(path, np.float32, math.prod(chunk["extent"]), offset=chunk["offset_bytes"])
            box = tuple(slice(s, s + e) for s, e in zip(chunk["start"], chunk["extent"]))
            whole[box] = part.reshape(chunk["extent"])
        tensors[tensor["name"]] = whole.astype(np.float64)
    return tensors, manifest


def read_windows(shard, block):
    """Windows of block + 1 tokens with stride block, one member after another."""
    windows = []
    with tarfile.open(shard) as tar:
        for member in tar:
            tokens = np.load(io.BytesIO(tar.extractfile(member).read())).astype(np.int64)
            windows += [tokens[at : at + block + 1] for at in range(0, len(tokens) - block, block)]
    return np.stack(windows)


class Rank:
    def __init__(self, weights, config):
        self.weights = {name: values.copy() for name, values in weights.items()}
        self.config = config
        self.adam = config["optimizer.type"] == "adamw"
        self.moments = {
            kind: {name: np.zeros_like(values) for name, values in weights.items()}
            for kind in (("exp_avg", "exp_avg_sq") if self.adam else ("momentum_buffer",))
        }
        self.updates = 0

    def gradients(self, windows):
        c = {"heads": self.config["model.heads"], "kv_heads": self.config["model.heads"], "norm": "layer", "epsilon": 1e-5}
        c |= {"rope": False, "causal": True, "swiglu": False}
        named = {name: torch.tensor(values, requires_grad=True) for name, values in self.weights.items()}
        tokens = torch.from_numpy(windows)
        x = F.embedding(tokens[:, :-1], named["embed.tokens.weight"]) + named["embed.positions.weight"]
        for i in range(self.config["model.layers"]):
            x = model.block(x, named.get, f"blocks.{i}", c)
        logits = F.linear(model.norm(x, named.get, "norm", c), named["embed.tokens.weight"])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        return {name: tensor.grad.numpy() for name, tensor in named.items()}

    def update(self, windows):
        config, moments = self.config, self.moments
        gradients = self.gradients(windows)
        norm = math.sqrt(sum((g * g).sum() for g in gradients.values()))
        factor = min(1, config["optimizer.clip_norm"] / (norm + 1e-6))
        lr = config["optimizer.lr"]
        self.updates += 1
        for name, gradient in gradients.items():
            gradient = gradient * factor
            if not self.adam:
                momentum = moments["momentum_buffer"]
                momentum[name] = config["optimizer.momentum"] * momentum[name] + gradient
                self.weights[name] -= lr * momentum[name]
                continue
            m, v, (beta1, beta2) = moments["exp_avg"], moments["exp_avg_sq"], config["optimizer.betas"]
            m[name] = beta1 * m[name] + (1 - beta1) * gradient
            v[name] = beta2 * v[name] + (1 - beta2) * gradient**2
            m_hat, v_hat = m[name] / (1 - beta1**self.updates), v[name] / (1 - beta2**self.updates)
            self.weights[name] -= lr * m_hat / (np.sqrt(v_hat) + config["optimizer.eps"])


def replace_by_mean(arenas):
    for name in arenas[0]:
        mean = sum(arena[name] for arena in arenas) / len(arenas)
        for arena in arenas:
            arena[name] = mean.copy()


def average(ranks, with_moments):
    replace_by_mean([rank.weights for rank in ranks])
    for kind in ranks[0].moments if with_moments else ():
        replace_by_mean([rank.moments[kind] for rank in ranks])


def train(first, windows, config, every, count, steps, saves):
    ranks = [Rank(first, config) for _ in range(count)]
    batch, micro = config["batch.global"], config["batch.micro"]
    micros = batch // micro
    for step in range(steps):
        for number, rank in enumerate(ranks):
            owned = range(number * micros // count, (number + 1) * micros // count)
            rank.update(windows[[step * batch + j * micro + i for j in owned for i in range(micro)]])
        if (step + 1) % every == 0 or step + 1 in saves:
            average(ranks, step + 1 in saves)
    return ranks[0]


def norm(tensors):
    return math.sqrt(sum((values**2).sum() for values in tensors.values()))


def relative_difference(found, expected):
    return norm({name: found[name] - expected[name] for name in expected}) / norm(expected)


def compare(found, first, rank):
    """The relative differences of the weights' change and of each moment."""
    moved = {name: rank.weights[name] - first[name] for name in first}
    off = {"weights": relative_difference({name: found[name] - first[name] for name in first}, moved)}
    for kind, moments in rank.moments.items():
        off[kind] = relative_difference({name: found[f"optimizer.{kind}.{name}"] for name in first}, moments)
    return off


def main():
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    shard, first_path, step_path, every, count = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
    saves = set(map(int, sys.argv[6:]))
    found, manifest = read_step(step_path)
    config, steps = manifest["state"]["config"], manifest["step"]
    first = {name: values for name, values in read_step(first_path)[0].items() if not name.startswith("optimizer.")}
    windows = read_windows(shard, config["data.text.block"])

    def compare_run(every, count, saves):
        return compare(found, first, train(first, windows, config, every, count, steps, saves))

    off = compare_run(every, count, saves)
    print("local_sgd: off by", ", ".join(f"{part:.1e} of {what}" for what, part in off.items()))
    assert max(off.values()) < TOLERANCE, off
    others = {"fewer updates between means": (every - 1, count, saves), "one save fewer": (every, count, saves - {min(saves)})}
    others["fewer ranks"] = (every, count - 1, saves)
    for what, other in others.items():
        off = compare_run(*other)
        assert min(off.values()) > 100 * TOLERANCE, f"{what} also matches: {off}"


main()
