"""torch_models — GPT-2 and ViT in PyTorch, equal to millrace's, for comparing training speed."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, m, causal):
        super().__init__()
        width = m["width"]
        self.heads, self.causal = m["heads"], causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if not hasattr(F, "scaled_dot_product_attention"):  # before PyTorch 2
            self.register_buffer("causal_mask", torch.ones(m["block"], m["block"]).triu(1).bool() if causal else None)

    def attend(self, x):
        items, tokens, width = x.shape
        q, k, v = (part.view(items, tokens, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            if self.causal:
                scores = scores.masked_fill(self.causal_mask[:tokens, :tokens], float("-inf"))
            mixed = scores.softmax(-1) @ v
        return self.proj(mixed.transpose(1, 2).reshape(items, tokens, width))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.out(F.gelu(self.fc(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    """m: type (gpt2, vit), layers, heads, width, and either block and vocabulary or side, patch and
    classes. Returns the mean loss of a batch."""

    def __init__(self, m):
        super().__init__()
        width, self.text = m["width"], m["type"] == "gpt2"
        if self.text:
            self.tokens, self.positions = nn.Embedding(m["vocabulary"], width), nn.Embedding(m["block"], width)
        else:
            self.patches = nn.Conv2d(3, width, m["patch"], m["patch"])
            self.positions = nn.Embedding((m["side"] // m["patch"]) ** 2, width)
            self.head = nn.Linear(width, m["classes"])
        self.blocks = nn.ModuleList(Block(m, self.text) for _ in range(m["layers"]))
        self.norm = nn.LayerNorm(width)

    def forward(self, data, targets):
        x = self.tokens(data) if self.text else self.patches(data).flatten(2).transpose(1, 2)
        x = x + self.positions.weight[:x.shape[1]]
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        logits = F.linear(x, self.tokens.weight) if self.text else self.head(x.mean(1))
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), targets.reshape(-1))
