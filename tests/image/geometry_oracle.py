"""Compares geometry.c with torch and numpy. FOLDER/mask.u8 is a mask; each line of FOLDER/cases is
`SOURCE_WIDTH SOURCE_HEIGHT X Y WIDTH HEIGHT FLIP TARGET_WIDTH TARGET_HEIGHT`, the matrices of the
steps (6 numbers each, until `|`), a box and its result (4 numbers each) with the remaining fraction,
and a point and its result with whether it is inside. FOLDER/masks.u8 has the sampled masks of the
cases without steps. Exits with 1 if a result differs."""
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F

folder = pathlib.Path(sys.argv[1])
pool = numpy.frombuffer((folder / "mask.u8").read_bytes(), numpy.uint8)
masks = (folder / "masks.u8").read_bytes()
at = 0


def fail(line, *what):
    print(line, *what, file=sys.stderr)
    sys.exit(1)


def clip(box, bounds):
    clipped = numpy.concatenate([numpy.maximum(box[:2], bounds[:2]), numpy.minimum(box[2:], bounds[2:])])
    sides = clipped[2:] - clipped[:2]
    return clipped, 0 if (sides <= 0).any() else numpy.prod(sides) / numpy.prod(box[2:] - box[:2])


def between(target, source):
    return (2 * numpy.arange(target) + 1) * source % (2 * target) == 0


def check_mask(line, source, crop, flip, target):
    global at
    x, y, width, height = crop
    mask = pool[: source[0] * source[1]].reshape(source[1], source[0])[y : y + height, x : x + width]
    wanted = F.interpolate(torch.from_numpy(mask.copy())[None, None].float(), size=(target[1], target[0]),
                           mode="nearest-exact")[0, 0].numpy()
    wanted = wanted[:, ::-1] if flip else wanted
    given = numpy.frombuffer(masks, numpy.uint8, target[0] * target[1], at).reshape(target[1], target[0])
    at += given.size
    # a center between two pixels takes the second one; torch computes with 32-bit floats, and may take the first
    ties = between(target[1], height)[:, None] | between(target[0], width)[None, :: -1 if flip else 1]
    if not ((given == wanted) | ties).all():
        fail(line, (given != wanted).sum(), "class numbers differ")


for line in (folder / "cases").read_text().splitlines():
    words = line.split()
    bar = words.index("|")
    head, steps, rest = words[:9], words[9:bar], [float.fromhex(word) for word in words[bar + 1 :]]
    source, crop, flip, target = ([int(w) for w in head[a:b]] for a, b in ((0, 2), (2, 6), (6, 7), (7, 9)))
    steps = numpy.array([float.fromhex(s) for s in steps]).reshape(-1, 2, 3)
    box, box_result, remaining, point, point_result, inside = (numpy.array(rest[a:b]) for a, b in (
        (0, 4), (4, 8), (8, 9), (9, 11), (11, 13), (13, 14)))
    if not len(steps):
        check_mask(line, source, crop, flip[0], target)
    scale = numpy.array(target) / numpy.array(crop[2:])
    to_crop = numpy.array([[scale[0], 0, -crop[0] * scale[0]], [0, scale[1], -crop[1] * scale[1]], [0, 0, 1]])
    if flip[0]:
        to_crop = numpy.array([[-1, 0, target[0]], [0, 1, 0], [0, 0, 1]]) @ to_crop
    moves = [to_crop] + [numpy.linalg.inv(numpy.vstack([step, [0, 0, 1]])) for step in steps]
    wanted, fraction = clip(box, numpy.array([crop[0], crop[1], crop[0] + crop[2], crop[1] + crop[3]]))
    at_point, is_inside = numpy.array([*point, 1]), all(0 <= point[i] - crop[i] <= crop[2 + i] for i in (0, 1))
    for i, move in enumerate(moves):
        if fraction:
            corners = numpy.array([[wanted[a], wanted[b], 1] for a in (0, 2) for b in (1, 3)]) @ move.T
            wanted = numpy.concatenate([corners[:, :2].min(0), corners[:, :2].max(0)])
            if i:
                wanted, part = clip(wanted, numpy.array([0, 0, *target]))
                fraction *= part
        at_point = move @ at_point
        is_inside = is_inside and (i == 0 or all(0 <= at_point[k] <= target[k] for k in (0, 1)))
    if abs(fraction - remaining[0]) > 1e-9 or fraction and abs(wanted - box_result).max() > 1e-9 * max(target):
        fail(line, "box", wanted, fraction)
    if is_inside != inside[0] or is_inside and abs(at_point[:2] - point_result).max() > 1e-9 * max(target):
        fail(line, "point", at_point, is_inside)
if at != len(masks):
    fail("", "masks left over")
