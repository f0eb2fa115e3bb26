#!/usr/bin/env python3
"""train_texts.py — trains Hugging Face's GPT-2 on texts, as an oracle for `millrace train`.

    train_texts.py make FOLDER TOKENIZER              writes a tiny random model to FOLDER
    train_texts.py train FOLDER TOKENIZER TEXTS STEPS prints the loss of each step and that after them

TEXTS has one JSON object per line; its "text" is a sample. Texts are cut and padded to LENGTH tokens,
of which the last is END. Each step is one of SGD on all of them; padding has no loss.
"""
import json
import sys

import tokenizers
import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH, END, RATE = 25, "<|end_of_text|>", 0.05


def make(folder, tokenizer):
    torch.manual_seed(5)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=LENGTH - 1, n_embd=24,
                                       n_layer=2, n_head=3, n_inner=96, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    model.save_pretrained(folder, safe_serialization=True)


def encode(text, tokenizer):
    ids = tokenizer.encode(text).ids[:LENGTH - 1] + [tokenizer.token_to_id(END)]
    padding = LENGTH - len(ids)
    return ids + [0] * padding, ids + [-100] * padding


def train(folder, tokenizer, texts, steps):
    torch.set_default_dtype(torch.float64)
    model = GPT2LMHeadModel.from_pretrained(folder).double()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    with open(texts, encoding="utf-8") as file:
        samples = [encode(json.loads(line)["text"], tokenizer) for line in file]
    tokens, labels = (torch.tensor(rows) for rows in zip(*samples))

    def loss():
        logits = model(tokens[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)

    for _ in range(int(steps)):
        value = loss()
        print(value.item())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    print(loss().item())


def main():
    torch.set_num_threads(1)
    command, folder, path, *rest = sys.argv[1:]
    {"make": make, "train": train}[command](folder, tokenizers.Tokenizer.from_file(path), *rest)


main()
