"""events — compares what TensorBoard reads from a run's event files with its metrics.jsonl.

    events.py FOLDER METRICS.jsonl     each scalar must appear once per step, with the same value
                                       (as float32) and time; prints their number
"""
import json
import logging
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
from tensorboard.util import tensor_util

logging.disable(logging.CRITICAL)  # TensorBoard logs the events that it drops


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def expected(path):
    runs = {"train": {}, "validation": {}}
    for line in open(path):
        values = json.loads(line)
        step, wall = values.pop("step"), values.pop("wall_seconds")
        run = "validation" if "val_loss" in values else "train"
        for name, value in values.items():
            runs[run].setdefault(name.removeprefix("val_"), []).append((step, wall, float32(value)))
    return runs


def by_accumulator(folder):
    reader = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0})
    reader.Reload()
    if reader.Tags()["scalars"]:
        return {tag: [(e.step, e.wall_time, e.value) for e in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}
    return {tag: [(e.step, e.wall_time, float(tensor_util.make_ndarray(e.tensor_proto))) for e in reader.Tensors(tag)]
            for tag in reader.Tags()["tensors"]}


def by_plugins(folder):
    """Uses the reader that serves the browser."""
    reader = plugin_event_accumulator.EventAccumulator(folder, tensor_size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(e.step, e.wall_time, float(tensor_util.make_ndarray(e.tensor_proto))) for e in reader.Tensors(tag)]
            for tag in reader.Tags()["tensors"]}


count = 0
for run, tags in expected(sys.argv[2]).items():
    for reader in by_accumulator, by_plugins:
        found = {tag: points for tag, points in reader(f"{sys.argv[1]}/{run}").items() if points}
        assert sorted(found) == sorted(tags), (run, sorted(found), sorted(tags))
        for tag, points in tags.items():
            assert found[tag] == points, (reader.__name__, run, tag, found[tag], points)
    count += sum(map(len, tags.values()))
print(count)
