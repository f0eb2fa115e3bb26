"""FULL FOLDER: checks that Python's safetensors opens FULL, with the bytes of each FOLDER/NAME.raw."""
import os, struct, json, sys
import numpy as np
from safetensors import safe_open

full, folder = sys.argv[1:]
compared = 0
with safe_open(full, framework="numpy") as file:
    assert file.metadata() == {"format": "pt"}
    names = set(file.keys())
    for name in names:
        raw = f"{folder}/{name}.raw"
        if os.path.exists(raw) and file.get_slice(name).get_dtype() not in ("BF16", "F8_E5M2", "F8_E4M3"):
            assert np.ascontiguousarray(file.get_tensor(name)).tobytes() == open(raw, "rb").read(), name
            compared += 1
assert compared >= 15, compared
