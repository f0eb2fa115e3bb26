#!/usr/bin/env python3
"""hf.py — creates tiny random models of Hugging Face's transformers, and their logits.

    hf.py make FOLDER        writes each case to FOLDER/NAME/, with tokens.i32 and logits.f32
    hf.py logits FOLDER...   loads each FOLDER and writes logits.f32 for its tokens.i32

Tokens are [items, block].
"""
import os
import sys

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_model
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM)

ITEMS, BLOCK, VOCABULARY = 2, 12, 61


def write_logits(model, folder):
    tokens = torch.from_numpy(np.fromfile(os.path.join(folder, "tokens.i32"), np.int32)).long().view(ITEMS, BLOCK)
    with torch.no_grad():
        logits = model.float().eval()(tokens).logits
    logits.numpy().astype(np.float32).tofile(os.path.join(folder, "logits.f32"))


def save(model, folder, dtype=torch.float32, **how):
    # noise, so that no bias is 0 and no norm weight is 1
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.1)
    model.to(dtype).save_pretrained(folder, safe_serialization=True, **how)
    np.random.default_rng(5).integers(0, VOCABULARY, (ITEMS, BLOCK)).astype(np.int32).tofile(
        os.path.join(folder, "tokens.i32"))
    # reloaded, since casting a model also casts its rotary tables
    write_logits(type(model).from_pretrained(folder, torch_dtype=torch.float32), folder)


def save_with_save_model(model, folder):
    save(model, folder)
    file = os.path.join(folder, "model.safetensors")
    save_model(model, file, metadata={"format": "pt"})
    # save_model keeps the other of a tensor's two names
    with safe_open(file, framework="pt") as f:
        assert "lm_head.weight" in f.keys() and not any("wte" in k or "embed_tokens" in k for k in f.keys())


def gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=20, n_embd=24, n_layer=2, n_head=3, n_inner=40))


def llama(**more):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=BLOCK, rms_norm_eps=1e-5, rope_theta=5000.0, **more))


SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=BLOCK)


def llama3():
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8}
    return LlamaForCausalLM(LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_theta=500.0, rope_scaling=scaling,
                                        tie_word_embeddings=True))


def qwen2():
    return Qwen2ForCausalLM(Qwen2Config(**SIZES, rms_norm_eps=1e-6, rope_theta=5000.0, tie_word_embeddings=True))


def qwen3():
    from transformers import Qwen3Config, Qwen3ForCausalLM  # since 4.51, which needs torch 2.1
    return Qwen3ForCausalLM(Qwen3Config(**SIZES, rms_norm_eps=1e-6, rope_theta=5000.0, head_dim=12,
                                        tie_word_embeddings=False))


def make(folder):
    at = lambda name: os.path.join(folder, name)
    save(gpt2(), at("gpt2"))
    save(gpt2(), at("gpt2-bf16-sharded"), torch.bfloat16, max_shard_size="8KB")
    save(llama(), at("llama"))
    save(llama(), at("llama-f16-sharded"), torch.float16, max_shard_size="16KB")
    save(llama(tie_word_embeddings=True), at("llama-tied"))
    save(llama3(), at("llama3"))
    save(qwen2(), at("qwen2"))
    if hasattr(transformers, "Qwen3Config"):
        save(qwen3(), at("qwen3"))
    save_with_save_model(gpt2(), at("gpt2-save-model"))
    save_with_save_model(llama(tie_word_embeddings=True), at("llama-save-model"))


def main():
    torch.manual_seed(3)
    torch.set_num_threads(1)
    command, *folders = sys.argv[1:]
    for folder in folders:
        if command == "make":
            make(folder)
        else:
            write_logits(AutoModelForCausalLM.from_pretrained(folder), folder)


main()
