"""Compares normalize.c with torch, whose operations are those of torchvision, and Pillow. FOLDER/picture.u8 is a
picture as wide as it is high; each line of FOLDER/cases is `layout dtype channels mean std`, and FOLDER/values has
the values of all cases."""
import pathlib
import sys

import numpy
import torch
from PIL import Image

folder = pathlib.Path(sys.argv[1])
rgb = numpy.frombuffer((folder / "picture.u8").read_bytes(), numpy.uint8).copy()
side = int((rgb.size // 3) ** 0.5)
rgb = rgb.reshape(side, side, 3)
gray = numpy.array(Image.fromarray(rgb).convert("L"))[..., None]
values, at = (folder / "values").read_bytes(), 0
dtypes = {"U8": torch.uint8, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

for line in (folder / "cases").read_text().splitlines():
    layout, dtype, channels, mean, std = line.split()
    picture = torch.from_numpy(gray if channels == "1" else rgb).permute(2, 0, 1).contiguous()
    if dtype != "U8":  # to_tensor and normalize
        mean, std = (torch.tensor([float(x) for x in numbers.split(",")])[:, None, None] for numbers in (mean, std))
        picture = picture.to(torch.float32).div(255).sub_(mean).div_(std).to(dtypes[dtype])
    if layout == "hwc":
        picture = picture.permute(1, 2, 0)
    wanted = picture.contiguous().flatten().view(torch.uint8).numpy().tobytes()
    assert values[at : at + len(wanted)] == wanted, line
    at += len(wanted)
assert at == len(values) > 0
