"""Checkpoints of several ranks over gloo, compared with torch's own (DCP)."""

import json
import pathlib
import signal

import pytest

pytest.importorskip("torch", "2.5", reason="there is no PyTorch 2.5 or newer")

import millrace as mr
from ranks import finish, start

BEGIN = """
import hashlib, json, os, pathlib, signal, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_model_state_dict, get_optimizer_state_dict, set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
import millrace as mr

FOLDER = pathlib.Path(sys.argv[1])
dist.init_process_group("gloo")
RANK, RANKS = dist.get_rank(), dist.get_world_size()

def make(seed, shard=None):
    torch.manual_seed(seed)
    model = nn.Sequential()
    model.add_module("first", nn.Linear(7, 12))
    model.add_module("norm", nn.LayerNorm(12))
    model.add_module("last", nn.Linear(12, 3, bias=False))
    if shard:
        shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.05)

def fsdp(mesh):
    def shard(model):
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return shard

def train(model, optimizer, steps, seed=5):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        loss = model(torch.randn(4, 7, generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

def whole(value):
    # The bits of a nested state, gathered from all ranks
    if isinstance(value, dict):
        return {str(key): whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [whole(item) for item in value]
    if isinstance(value, torch.Tensor):
        value = value.full_tensor() if isinstance(value, DTensor) else value
        return hashlib.sha256(value.detach().contiguous().numpy().tobytes()).hexdigest()
    return value

def states(model, optimizer):
    return whole([get_model_state_dict(model), get_optimizer_state_dict(model, optimizer)])

def finish(result):
    print(json.dumps(result), flush=True)
    dist.barrier()
    os._exit(0)
"""


def on_ranks(script: str, path: pathlib.Path, ranks: int) -> list:
    """Runs the script. Returns what each rank prints last, as JSON."""
    lines = finish(start(["-c", BEGIN + script, path], ranks))
    return [json.loads(printed[-1]) for printed in lines]


SAVE = """
model, optimizer = make(0, SHARD)
train(model, optimizer, 3)
expected = states(model, optimizer)
optimizer_state = get_optimizer_state_dict(model, optimizer)
dcp.save({"model": get_model_state_dict(model), "optimizer": optimizer_state},
         checkpoint_id=FOLDER / "dcp")
with mr.Checkpointer(FOLDER / "ckpt") as checkpointer:
    checkpointer.hook(optimizer)
    checkpointer.save(3, model=model, optimizer=optimizer)
    assert not checkpointer._saver.copies  # all tensors are read in place
    train(model, optimizer, 2)
finish(expected)
"""

LOAD = """
model, optimizer = make(1, SHARD)
with mr.Checkpointer(FOLDER / "ckpt") as checkpointer:
    checkpointer.load(model=model, optimizer=optimizer)
loaded = states(model, optimizer)
other, other_optimizer = make(2, SHARD)
state = {"model": get_model_state_dict(other),
         "optimizer": get_optimizer_state_dict(other, other_optimizer)}
dcp.load(state, checkpoint_id=FOLDER / "dcp")
set_optimizer_state_dict(other, other_optimizer, state["optimizer"])
by_dcp = states(other, other_optimizer)
for trained in ((model, optimizer), (other, other_optimizer)):
    train(*trained, 2)
finish([loaded, by_dcp, states(model, optimizer) == states(other, other_optimizer)])
"""

SHARDS = {
    "fsdp": 'fsdp(init_device_mesh("cpu", (RANKS,)))',
    "hsdp": 'fsdp(init_device_mesh("cpu", (2, RANKS // 2), mesh_dim_names=("dp", "fsdp")))',
    "none": "None",
}


@pytest.mark.parametrize("shard", ["fsdp", "hsdp"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_sharded_states_are_those_of_dcp(tmp_path, millrace, ranks, shard):
    saved = on_ranks(f"SHARD = {SHARDS[shard]}" + SAVE, tmp_path, ranks)
    assert all(one == saved[0] for one in saved)
    millrace("verify", tmp_path / "ckpt")
    for load_ranks, load_shard in ((1, "none"), (3, "fsdp")):
        for loaded, by_dcp, is_same_later in on_ranks(
            f"SHARD = {SHARDS[load_shard]}" + LOAD, tmp_path, load_ranks
        ):
            assert loaded == by_dcp == saved[0]
            assert is_same_later


def test_fsdp_with_tensor_parallelism(tmp_path, millrace):
    """The rows of first.weight are sharded twice (_StridedShard)."""
    code = """
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module)
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
def shard(model):
    plan = {"first": ColwiseParallel(), "last": RowwiseParallel()}
    del model.norm
    parallelize_module(model, mesh["tp"], plan)
    fsdp(mesh["dp"])(model)
model, optimizer = make(0, shard)
train(model, optimizer, 3)
expected = states(model, optimizer)
with mr.Checkpointer(FOLDER) as checkpointer:
    checkpointer.hook(optimizer)
    checkpointer.save(3, model=model, optimizer=optimizer)
    train(model, optimizer, 1)
    checkpointer.load(model=model, optimizer=optimizer)
    assert states(model, optimizer) == expected
finish([expected, [str(one.placements) for one in model.parameters()]])
"""
    expected, placements = on_ranks(code, tmp_path, 4)[0]
    assert "StridedShard" in str(placements)
    millrace("verify", tmp_path)
    code = """
def shard(model):
    del model.norm
model, optimizer = make(1, shard)
with mr.Checkpointer(FOLDER) as checkpointer:
    checkpointer.load(model=model, optimizer=optimizer)
finish(states(model, optimizer))
"""
    assert on_ranks(code, tmp_path, 1)[0] == expected


def test_plain_tensors_are_written_once(tmp_path, millrace):
    """Parameters are divided among the ranks; of buffers and extra, rank 0's are saved."""
    code = """
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(nn.Linear(7, 1 << 16), nn.BatchNorm1d(1 << 16)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
train(model, optimizer, 2, seed=RANK)
expected = states(model.module, optimizer)
own = DTensor.from_local(torch.full((1, 3), RANK), init_device_mesh("cpu", (RANKS,)), [Shard(0)])
with mr.Checkpointer(FOLDER) as checkpointer:
    checkpointer.hook(optimizer)
    extra = {"rank": RANK, "one": torch.tensor(RANK), "own": own, "none": torch.zeros(0)}
    checkpointer.save(2, model=model, optimizer=optimizer, extra=extra)
    train(model, optimizer, 1)
    extra = checkpointer.load(model=model, optimizer=optimizer, extra={"own": own}).extra
found = [extra["rank"], extra["one"].item(), extra["own"].to_local().tolist()]
finish([expected, states(model, optimizer), found, extra["none"].shape])
"""
    results = on_ranks(code, tmp_path, 2)
    for rank, (_, loaded, found, shape) in enumerate(results):
        assert loaded == results[0][0]
        assert found == [0, 0, [[rank] * 3]]
        assert shape == [0]
    millrace("verify", tmp_path)
    sizes = [path.stat().st_size for path in sorted(tmp_path.glob("*/rank-*"))]
    assert abs(sizes[0] - sizes[1]) < max(sizes) // 2


def test_an_error_of_one_rank_is_raised_on_all(tmp_path):
    code = """
def message_of(call):
    try:
        call()
    except Exception as error:
        return str(error)
checkpointer = mr.Checkpointer(FOLDER)
refused = {"extra": {"a": object() if RANK == 1 else 1}}
own = {"extra": {f"tensor{RANK}": torch.zeros(2)}}
messages = [message_of(lambda: checkpointer.save(1, **state)) for state in (refused, own)]
checkpointer.save(2, extra={"a": torch.ones(2)})
checkpointer.wait()
messages.append(checkpointer.steps())
messages.append(message_of(lambda: checkpointer.load(extra={"a": torch.zeros(2 + RANK)})))
checkpointer.close()
finish(messages)
"""
    first, second = on_ranks(code, tmp_path, 2)
    assert "rank 1: TypeError: optimizer.extra.a is of type builtins.object" in first[0]
    assert second[0].startswith("optimizer.extra.a is of type builtins.object")
    assert "'optimizer.extra.tensor0' is not the same on ranks 0 and 1" in first[1]
    assert first[1] == second[1]
    assert first[2] == second[2] == [2]
    assert "rank 1: ValueError: tensor 'optimizer.extra.a' is" in first[3]


def test_a_rank_that_is_killed_during_a_save(tmp_path, millrace):
    code = """
local = torch.full((1, 1 << 24), 1.0)
own = DTensor.from_local(local, init_device_mesh("cpu", (RANKS,)), [Shard(0)])
checkpointer = mr.Checkpointer(FOLDER)
checkpointer.save(1, extra=own)
checkpointer.wait()
local.fill_(2)
checkpointer.save(2, extra=own)
if RANK == 1:
    while not list(FOLDER.glob(".tmp-step-*/rank-00001*")):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
try:
    checkpointer.wait()
except OSError as error:
    print(json.dumps(str(error)), flush=True)
os._exit(0)
"""
    programs = start(["-c", BEGIN + code, tmp_path], 2)
    outputs = [program.communicate(timeout=600)[0] for program in programs]
    assert [program.returncode for program in programs] == [0, -signal.SIGKILL]
    assert "rank 1" in json.loads(outputs[0].splitlines()[-1])
    with mr.Checkpointer(tmp_path) as checkpointer:
        assert checkpointer.steps() == [1]
    millrace("verify", tmp_path)
