"""ops.py — independent implementation of the ops, for ops_torch.c: recomputes the outputs NAME.f64
(float64) in a folder with torch, and lists those that differ."""
import sys

import numpy
import torch
import torch.nn.functional as F

folder = sys.argv[1]
failed = False


def load(name, *shape):
    array = torch.from_numpy(numpy.fromfile(f"{folder}/{name}.f64", dtype=numpy.float64)).reshape(*shape)
    return array.clone()


def compare(name, expected, tolerance=1e-11):
    global failed
    found = load(name, *expected.shape)
    error = ((found - expected).abs() / (1 + expected.abs())).max().item()
    if not error <= tolerance:
        print(f"{name}: differs from torch by {error}")
        failed = True


def document_numbers(item, tokens):
    """The document of each token, for documents of 17, 18, ... tokens."""
    lengths = range(17 + item, 17 + item + tokens)
    return torch.cat([torch.full((length,), number) for number, length in enumerate(lengths)])[:tokens]


def attention(name, batch, tokens, heads, kv_heads, dim, causal, documents=False):
    qkv = load(f"{name}.qkv", batch, tokens, heads + 2 * kv_heads, dim).requires_grad_()
    q, k, v = (part.transpose(1, 2) for part in qkv.split([heads, kv_heads, kv_heads], dim=2))
    k, v = (part.repeat_interleave(heads // kv_heads, dim=1) for part in (k, v))
    scores = q @ k.transpose(-1, -2) / dim ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), float("-inf"))
    if documents:
        number = torch.stack([document_numbers(item, tokens) for item in range(batch)])
        scores = scores.masked_fill((number[:, None, :, None] != number[:, None, None, :]), float("-inf"))
    out = (scores.softmax(-1) @ v).transpose(1, 2)
    compare(f"{name}.out", out.detach())
    compare(f"{name}.lse", scores.logsumexp(-1).detach())
    out.backward(load(f"{name}.d_out", batch, tokens, heads, dim))
    compare(f"{name}.d_qkv", qkv.grad)


attention("full", 2, 100, 4, 4, 12, False)
attention("causal", 2, 97, 4, 2, 8, True)
attention("documents", 2, 97, 4, 2, 8, True, documents=True)

rows, cols = 70, 45
x = load("x", rows, cols).requires_grad_()
weight, bias = load("weight", cols).requires_grad_(), load("bias", cols).requires_grad_()
d_out = load("d_out", rows, cols)

out = F.layer_norm(x, (cols,), weight, bias, 1e-5)
compare("norm.out", out.detach())
out.backward(d_out)
compare("norm.d_x", x.grad)
compare("norm.d_weight", weight.grad)
compare("norm.d_bias", bias.grad)

x.grad = None
out = F.gelu(x, approximate="tanh")
compare("gelu.out", out.detach())
out.backward(d_out)
compare("gelu.d_x", x.grad)

x.grad = None
targets = load("targets", rows).long()
losses = F.cross_entropy(x, targets, ignore_index=-1, reduction="none")
compare("xent.losses", losses.detach())
losses.sum().backward()
compare("xent.d_logits", x.grad)
predicted = (x.argmax(-1) == targets).double()
compare("xent.correct", predicted)

# Two targets per row, as class probabilities.
x = load("mixed.logits", rows, cols).requires_grad_()
parts = load("mixed.parts", rows)[:, None]
firsts, seconds = (F.one_hot(load("mixed." + name, rows).long(), cols) for name in ("targets", "seconds"))
losses = F.cross_entropy(x, parts * firsts + (1 - parts) * seconds, reduction="none")
compare("mixed.losses", losses.detach())
losses.sum().backward()
compare("mixed.d_logits", x.grad)


def update(optimizer_of, name, states):
    parameter = torch.nn.Parameter(load("weight.start", rows, cols))
    optimizer = optimizer_of([parameter])
    for step in range(1, 6):
        parameter.grad = load(f"gradient.{step}", rows, cols) / 8
        torch.nn.utils.clip_grad_value_([parameter], 0.1)
        optimizer.step()
    compare(f"{name}.params", parameter.detach())
    for ours, theirs in states.items():
        compare(f"{name}.{ours}", optimizer.state[parameter][theirs])


update(lambda p: torch.optim.AdamW(p, lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1), "adamw", {"m": "exp_avg", "v": "exp_avg_sq"})
update(lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, weight_decay=0.1), "sgd", {"m": "momentum_buffer"})
update(lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, weight_decay=0.1, nesterov=True), "nesterov", {"m": "momentum_buffer"})
update(lambda p: torch.optim.SGD(p, lr=1e-2, weight_decay=0.1), "plain_sgd", {})


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic Discovery of Optimization Algorithms", NeurIPS 2023, program 1."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, lr=1e-2, beta1=0.9, beta2=0.99, weight_decay=0.1):
        for group in self.param_groups:
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = torch.lerp(p.grad, m, beta1).sign()
                p.sub_((direction + p * weight_decay) * lr)
                m.copy_(torch.lerp(p.grad, m, beta2))


update(Lion, "lion", {"m": "exp_avg"})

sys.exit(failed)
