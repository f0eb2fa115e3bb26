"""(NAME DTYPE)...: checks that the tensors in NAME-DTYPE are those in NAME, cast by torch, and that
transformers and safetensors load NAME-DTYPE without warnings."""
import glob, json, sys
import torch
from safetensors import safe_open
from safetensors.torch import load_file, load_model
from transformers import AutoModelForCausalLM


def check_tensors(files, saved, dtype):
    tensors = {key: tensor for file in files for key, tensor in load_file(file).items()}
    source = load_file(f"{saved}/model.safetensors")
    assert tensors.keys() == source.keys() and len(tensors) > 10
    for key, tensor in source.items():
        assert tensors[key].dtype == dtype and torch.equal(tensors[key], tensor.to(dtype)), key
    return tensors


def check(saved, name):
    folder, dtype = f"{saved}-{name}", getattr(torch, name)
    config = json.load(open(f"{folder}/config.json"))
    assert config["torch_dtype"] == name, config["torch_dtype"]
    files = sorted(glob.glob(f"{folder}/*.safetensors"))
    tensors = check_tensors(files, saved, dtype)
    model, loading_info = AutoModelForCausalLM.from_pretrained(folder, torch_dtype="auto", output_loading_info=True)
    assert not any(loading_info.values()), loading_info
    assert model.dtype == dtype
    if len(files) == 1:
        assert load_model(model, files[0]) == (set(), [])
    is_tied = model.lm_head.weight is model.get_input_embeddings().weight
    assert is_tied == (config["model_type"] == "gpt2") and is_tied != ("lm_head.weight" in tensors)
    headers = [safe_open(file, framework="pt").metadata() for file in files]
    assert all(header["format"] == "pt" for header in headers)
    shared = [header["lm_head.weight"] for header in headers if "lm_head.weight" in header]
    assert shared == (["transformer.wte.weight"] if is_tied else []), shared


torch.set_num_threads(1)
for saved, name in zip(sys.argv[1::2], sys.argv[2::2]):
    check(saved, name)
