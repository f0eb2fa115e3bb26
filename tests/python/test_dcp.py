"""torch.distributed.checkpoint (DCP) with millrace's storage, compared with torch's own."""

import dataclasses
import json
import signal

import pytest

torch = pytest.importorskip("torch", "2.5", reason="there is no PyTorch 2.5 or newer")
import millrace as mr
import torch.distributed.checkpoint as dcp
from millrace.dcp import StorageReader, StorageWriter
from ranks import start
from test_checkpoint import digest
from test_checkpoint_ranks import BEGIN, SHARDS, on_ranks

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

BEGIN_DCP = """
import millrace.dcp
PLAIN = {"step": 3, "rates": [0.5, {"last": float("inf")}], "betas": (0.9, 0.99), "none": None,
         "buffer": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1), "empty": torch.zeros(0, 5),
         "scalar": torch.tensor(7), "big": 1 << 70}

def state_of(model, optimizer):
    return {"model": get_model_state_dict(model),
            "optimizer": get_optimizer_state_dict(model, optimizer)}

def blank(value):
    if isinstance(value, dict):
        return {key: blank(item) for key, item in value.items()}
    if isinstance(value, list):
        return [blank(item) for item in value]
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else "not loaded"

def message_of(call):
    try:
        call()
    except BaseException as error:
        return str(error)
"""

SAVE = """
model, optimizer = make(0, SHARD)
train(model, optimizer, 3)
state = {**state_of(model, optimizer), "plain": PLAIN}
dcp.save(state, checkpoint_id=FOLDER / "torch")
dcp.save(state, storage_writer=millrace.dcp.StorageWriter(FOLDER / "ckpt/step-3"))
finish(whole(state))
"""

LOAD = """
loaded = []
for reader in (millrace.dcp.StorageReader(FOLDER / "ckpt/step-3"),
               dcp.FileSystemReader(FOLDER / "torch")):
    model, optimizer = make(1, SHARD)
    state = {**state_of(model, optimizer), "plain": blank(PLAIN)}
    dcp.load(state, storage_reader=reader)
    set_optimizer_state_dict(model, optimizer, state["optimizer"])
    later = whole(state)
    train(model, optimizer, 1)
    loaded.append([later, states(model, optimizer)])
finish(loaded)
"""


def run(script: str, path, ranks: int) -> list:
    return on_ranks(BEGIN_DCP + script, path, ranks)


@pytest.mark.parametrize(("ranks", "shard"), [(2, "fsdp"), (4, "fsdp"), (4, "hsdp")])
def test_states_are_those_of_torch(tmp_path, millrace, ranks, shard):
    saved = run(f"SHARD = {SHARDS[shard]}" + SAVE, tmp_path, ranks)
    millrace("verify", tmp_path / "ckpt")
    files = list((tmp_path / "ckpt/step-00000003").glob("rank-*"))
    assert len(files) == ranks
    for load_ranks, load_shard in ((1, "none"), (3, "fsdp"))[: 2 if shard == "fsdp" else 1]:
        for ours, theirs in run(f"SHARD = {SHARDS[load_shard]}" + LOAD, tmp_path, load_ranks):
            assert ours == theirs
            assert ours[0] == saved[0]


def test_fsdp_with_tensor_parallelism(tmp_path, millrace):
    """The rows of first.weight are sharded twice (_StridedShard)."""
    shard = """
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module)
def SHARD(model):
    del model.norm
    if RANKS == 4:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        parallelize_module(model, mesh["tp"],
                           {"first": ColwiseParallel(), "last": RowwiseParallel()})
        fsdp(mesh["dp"])(model)
        assert "StridedShard" in str([one.placements for one in model.parameters()])
"""
    saved = run(shard + SAVE, tmp_path, 4)
    millrace("verify", tmp_path / "ckpt")
    for ranks in (1, 4):
        for ours, theirs in run(shard + LOAD, tmp_path, ranks):
            assert ours == theirs
            assert ours[0] == saved[0]


def test_async_save_in_a_thread_and_in_a_process(tmp_path, millrace):
    code = """
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
model, optimizer = make(0, fsdp(init_device_mesh("cpu", (RANKS,))))
expected = []
for step, kind in enumerate(("THREAD", "PROCESS", "PROCESS")):
    train(model, optimizer, 1)
    state = state_of(model, optimizer)
    expected.append(whole(state))
    future = dcp.async_save(
        state, storage_writer=millrace.dcp.StorageWriter(FOLDER / f"step-{step}", keep_last=2),
        async_checkpointer_type=AsyncCheckpointerType[kind])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.to_local().zero_()
    future.result()
found = []
for step in (1, 2):
    dcp.load(state, storage_reader=millrace.dcp.StorageReader(FOLDER / f"step-{step}"))
    found.append(whole(state))
finish([expected[1:], found])
"""
    for expected, found in run(code, tmp_path, 2):
        assert found == expected
    assert mr.Checkpointer(tmp_path, process_group=False).steps() == [1, 2]
    millrace("verify", tmp_path)


def test_process_groups(tmp_path, millrace):
    """Ranks 1 and 2 of 3 save together, and rank 0 alone."""
    code = """
pair = dist.new_group([1, 2])
if RANK == 0:
    dcp.save({"one": torch.ones(3)}, no_dist=True,
             storage_writer=millrace.dcp.StorageWriter(FOLDER / "0/step-0"))
else:
    from torch.distributed.device_mesh import DeviceMesh
    own = DTensor.from_local(torch.full((1, 3), RANK), DeviceMesh.from_group(pair, "cpu"),
                             [Shard(0)])
    dcp.save({"own": own, "rank": RANK}, process_group=pair,
             storage_writer=millrace.dcp.StorageWriter(FOLDER / "pair/step-0"))
dist.barrier()
whole = {"own": torch.zeros(2, 3, dtype=torch.int64)}
dcp.load(whole, storage_reader=millrace.dcp.StorageReader(FOLDER / "pair"))
finish(whole["own"].tolist())
"""
    assert run(code, tmp_path, 3) == [[[1, 1, 1], [2, 2, 2]]] * 3
    for name in ("0", "pair"):
        millrace("verify", tmp_path / name)


def test_an_error_of_one_rank_saves_nothing(tmp_path):
    code = """
def save(state, path=FOLDER / "step-1", **options):
    writer = millrace.dcp.StorageWriter(path)
    return message_of(lambda: dcp.save(state, storage_writer=writer, **options))
class Planner(dcp.DefaultSavePlanner):
    def create_global_plan(self, plans):
        plans, metadata = super().create_global_plan(plans)
        metadata.planner_data = object()
        return plans, metadata
local = DTensor.from_local(torch.ones(1, 3), init_device_mesh("cpu", (RANKS,)), [Shard(0)])
messages = [
    save({"own": local, f"rank{RANK}": object() if RANK == 1 else 1}),
    save({"own": local}, FOLDER / f"step-{RANK}"),
    save({"own": local}, planner=Planner()),
    save({"own": local}, use_collectives=False),
    [save({"own": local}, FOLDER / f"step-{step}",
          planner=dcp.DefaultSavePlanner(enable_plan_caching=True)) for step in (2, 3)][-1],
    save({"own": local}, FOLDER / "step-3"),
]
finish([text and text.splitlines()[-1] for text in messages])
"""
    for messages in run(code, tmp_path, 2):
        assert "rank1 is of another type" in messages[0]
        assert f"rank 1 saves step 1 in {tmp_path}, but rank 0 step 0" in messages[1]
        assert "planner_data is of type builtins.object" in messages[2]
        assert "use_collectives=False" in messages[3]
        assert "enable_plan_caching" in messages[4]
        assert messages[5] is None
    assert mr.Checkpointer(tmp_path).steps() == [2, 3]
    assert not list(tmp_path.glob(".tmp-*"))


@pytest.mark.parametrize("killed", [0, 1])
def test_a_rank_that_is_killed_during_a_save(tmp_path, millrace, killed):
    code = (
        f"""
KILLED = {killed}
"""
        + """
local = torch.full((1, 1 << 24), 1.0)
own = {"own": DTensor.from_local(local, init_device_mesh("cpu", (RANKS,)), [Shard(0)])}
writer = millrace.dcp.StorageWriter(FOLDER / "step-1")
dcp.save(own, storage_writer=writer)
local.fill_(2)
if RANK == KILLED:
    import glob, threading
    def kill():
        while not glob.glob(f"{FOLDER}/.tmp-step-*/rank-{RANK:05d}*"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=kill).start()
print(json.dumps(message_of(lambda: dcp.save(own, storage_writer=writer))), flush=True)
os._exit(0)
"""
    )
    programs = start(["-c", BEGIN + BEGIN_DCP + code, tmp_path], 2)
    outputs = [program.communicate(timeout=600)[0] for program in programs]
    codes = [program.returncode for program in programs]
    assert codes[killed] == -signal.SIGKILL
    assert codes[1 - killed] == 0
    assert json.loads(outputs[1 - killed].splitlines()[-1])
    millrace("verify", tmp_path)
    state = {"own": torch.zeros(2, 1 << 24)}
    dcp.load(state, storage_reader=StorageReader(tmp_path / "step-1"))
    assert state["own"].eq(1).all()


# ---- One process. ----


def save(state, path):
    dcp.save(state, storage_writer=StorageWriter(path))


def load(state, path, planner=None):
    dcp.load(state, storage_reader=StorageReader(path), planner=planner)


def test_an_earlier_save_is_replaced(tmp_path, millrace):
    for number in range(2):
        save({"a": torch.full((3,), number), "b": number}, tmp_path / "step-5")
    assert (tmp_path / "step-00000005").is_dir()
    state = {"a": torch.zeros(3, dtype=torch.int64), "b": None}
    load(state, tmp_path)
    assert (state["a"].tolist(), state["b"]) == ([1, 1, 1], 1)
    millrace("verify", tmp_path)


def test_the_checkpoint_id_of_a_call_is_that_of_the_storage(tmp_path):
    writer = StorageWriter(tmp_path / "step-1")
    for number in (7, 8):
        dcp.save({"a": number}, checkpoint_id=tmp_path / f"step-{number}", storage_writer=writer)
    reader = StorageReader(tmp_path)
    state = {"a": 0}
    dcp.load(state, checkpoint_id=str(tmp_path / "step-7"), storage_reader=reader)
    assert state == {"a": 7}
    assert StorageWriter.validate_checkpoint_id("a/step-00000007/")
    for path in ("last", "step-", "step-a", "step-1.pt"):
        assert not StorageWriter.validate_checkpoint_id(path)
        with pytest.raises(ValueError, match=f"{path}/step-0"):
            StorageWriter(path)


def test_the_programs_read_a_step(tmp_path, millrace):
    save({"model": {"a": torch.ones(2)}, "optimizer": {"m": torch.ones(3)}}, tmp_path / "step-4")
    listed = json.loads(millrace("ckpt", "list", tmp_path, "--json"))
    assert [step["step"] for step in listed["checkpoints"]] == [4]
    hashes = json.loads(millrace("ckpt", "hash", tmp_path, "--json"))
    assert hashes["model"] and hashes["optimizer"]
    assert "model.a" in millrace("inspect", tmp_path / "step-00000004", "--json")


def test_steps_of_a_checkpointer_are_read(tmp_path):
    with mr.Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(3, model={"a.b": torch.arange(3.0)}, extra={"c": torch.ones(1)})
    state = {"a": {"b": torch.zeros(3)}, "optimizer": {"extra": {"c": torch.zeros(1)}}}
    load(state, tmp_path / "step-3")
    assert digest(state) == digest(
        {"a": {"b": torch.arange(3.0)}, "optimizer": {"extra": {"c": torch.ones(1)}}}
    )


def test_states_may_be_stateful_and_partial(tmp_path):
    torch.manual_seed(0)
    model, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    save({"model": model, "rest": {"a": 1}}, tmp_path / "step-1")
    load({"model": other}, tmp_path / "step-1")
    assert digest(model.state_dict()) == digest(other.state_dict())
    state = {"rest": {"a": 0}, "new": 2}
    load(state, tmp_path / "step-1", dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert state == {"rest": {"a": 1}, "new": 2}


def test_what_does_not_fit_is_refused(tmp_path):
    save({"a": torch.zeros(3), "b": 1}, tmp_path / "step-1")
    cases = {
        r"Missing key in checkpoint state_dict: c": {"c": torch.zeros(3)},
        r"Size mismatch": {"a": torch.zeros(4)},
        r"'a' is torch.float16 \(3,\), but in .*/step-00000001 it is torch.float32": {
            "a": torch.zeros(3, dtype=torch.float16)
        },
    }
    for message, state in cases.items():
        with pytest.raises(dcp.CheckpointException, match=message):
            load(state, tmp_path / "step-1")
    with pytest.raises(dcp.CheckpointException, match=r"could not list .*step-00000002"):
        load({"a": torch.zeros(3)}, tmp_path / "step-2")
    with pytest.raises(FileNotFoundError):
        StorageReader(tmp_path / "step-2").read_metadata()
    cases = {
        "'c.d': a checkpoint cannot hold the dtype torch.complex64": torch.zeros(1) * 1j,
        "c.d is of another type": b"",
        "c.d is of another type, ": object,
        "c.d.0 is a tensor in a tuple": (torch.zeros(1),),
        "c.d: the text .* is not valid Unicode": "\ud800",
    }
    for message, value in cases.items():
        with pytest.raises(dcp.CheckpointException, match=message):
            save({"a": torch.zeros(3), "c": {"d": value}}, tmp_path / "step-2")
    assert mr.Checkpointer(tmp_path).steps() == [1]


def test_planners_may_change_tensors_but_not_divide_them(tmp_path):
    class Half(dcp.DefaultSavePlanner):
        def transform_object(self, item, value):
            value = super().transform_object(item, value)
            return value.half() if isinstance(value, torch.Tensor) else value

    class Twice(dcp.DefaultSavePlanner):
        def create_local_plan(self):
            plan = super().create_local_plan()
            return dataclasses.replace(plan, items=plan.items * 2)

        def create_global_plan(self, plans):
            metadata = super().create_global_plan([super().create_local_plan()])[1]
            return plans, metadata

    state = {"a": torch.arange(3.0)}
    dcp.save(state, planner=Half(), storage_writer=StorageWriter(tmp_path / "step-1"))
    loaded = {"a": torch.zeros(3, dtype=torch.float16)}
    load(loaded, tmp_path / "step-1")
    assert loaded["a"].tolist() == [0, 1, 2]
    with pytest.raises(dcp.CheckpointException, match="two parts of tensor 'a'"):
        dcp.save(state, planner=Twice(), storage_writer=StorageWriter(tmp_path / "step-2"))


def test_damage_is_found(tmp_path):
    save({"a": torch.zeros(3)}, tmp_path / "step-1")
    file = next(tmp_path.glob("*/rank-*"))
    file.write_bytes(file.read_bytes()[:-1] + b"\1")
    with pytest.raises(dcp.CheckpointException, match="tensor \"?'?a"):
        load({"a": torch.zeros(3)}, tmp_path / "step-1")
