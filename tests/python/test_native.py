"""The types of the extension for checkpoints, without a framework, also under AddressSanitizer."""

import json
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

np = pytest.importorskip("numpy")

from millrace import _native
from ranks import finish, start

OPTIONS = {
    "groups": 1,
    "staging_bytes": 0,
    "keep_last": 2,
    "keep_every": 0,
    "best_metric": None,
    "best_mode": None,
    "best_count": 0,
    "numerics_id": "test",
}


def ignore(level: int, line: str) -> None:
    pass


def part(name: str, array, shape=None, start=None):
    shape, start = shape or array.shape, start or (0,) * array.ndim
    place = (array.ctypes.data, array.nbytes, array)
    return (name, "F32", shape, start, array.shape, False, 0, *place)


def open_saver(folder, parts, communicator=None, log=ignore, **options):
    options = {**OPTIONS, "folder": str(folder), **options}
    return _native.Saver(options, parts, communicator or _native.Communicator(), log)


def test_a_round_trip(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    saver = open_saver(tmp_path, [part("a", array)])
    for step in (1, 2, 3):
        saver.save(step, json.dumps({"step": step, "number": 0.1}))
        saver.before_update(0)
        array += 1
    saver.wait()
    assert (saver.stats()["saves"], saver.stats()["failures"]) == (3, 0)
    saver.close()
    saver.close()
    assert _native.Reader.list_steps(str(tmp_path)) == [2, 3]
    communicator = _native.Communicator()
    reader = _native.Reader(str(tmp_path), communicator, ignore)
    assert (reader.step, reader.path) == (3, str(tmp_path / "step-00000003"))
    assert json.loads(reader.state()) == {"step": 3, "number": 0.1}
    assert reader.tensors() == [("a", "F32", (3, 4))]
    row = np.zeros((1, 4), dtype=np.float32)
    reader.load([part("a", row, (3, 4), (1, 0))], communicator)
    assert row.tolist() == [[6, 7, 8, 9]]
    with pytest.raises(ValueError, match="shape"):
        reader.load([part("a", np.zeros(2, dtype=np.float32))], communicator)
    reader.close()
    with pytest.raises(RuntimeError, match="the reader is closed"):
        reader.state()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: "F31"}, "dtype"),
        ({2: (3,) * 9}, "8 dimensions"),
        ({3: (0,)}, "different dimensions"),
        ({4: (3, 5)}, "different sizes"),
        ({4: (1 << 62, 1 << 62)}, "different sizes"),
        ({6: 1}, "group"),
        ({0: "a\0"}, "null"),
    ],
)
def test_parts_that_are_wrong(tmp_path, change, message):
    values = list(part("a", np.zeros((3, 4), dtype=np.float32)))
    for index, value in change.items():
        values[index] = value
    with pytest.raises(ValueError, match=message):
        open_saver(tmp_path, [tuple(values)])


def test_options_and_states_that_are_wrong(tmp_path):
    array = np.zeros(2, dtype=np.float32)
    with pytest.raises(ValueError, match="score"):
        open_saver(tmp_path, [part("a", array)], best_metric="score")
    with pytest.raises(ValueError, match="neither"):
        open_saver(tmp_path, [part("a", array)], best_metric="score", best_mode="most")
    with pytest.raises(TypeError):
        open_saver(tmp_path, [part("a", array)], unknown=1)
    with pytest.raises(TypeError):
        open_saver(tmp_path, [[]])
    with pytest.raises(ValueError, match="range"):
        _native.Communicator(rank=2, ranks=2)
    saver = open_saver(tmp_path, [part("a", array)])
    with pytest.raises(ValueError, match="JSON object"):
        saver.save(1, "[]")
    saver.save(1, "{}")
    saver.wait()
    saver.close()
    with pytest.raises(FileNotFoundError):
        _native.Reader(str(tmp_path / "absent"), _native.Communicator(), ignore)


def test_the_log_of_the_writer_reaches_python(tmp_path):
    lines = []
    saver = open_saver(
        tmp_path / "a",
        [part("a", np.zeros(2, dtype=np.float32))],
        log=lambda level, line: lines.append((threading.get_ident(), line)),
    )
    (tmp_path / "a").rename(tmp_path / "b")
    saver.save(1, "{}")
    with pytest.raises(OSError):
        saver.wait()
    assert lines and {thread for thread, _ in lines} == {threading.get_ident()}
    assert "step 1 was not saved" in lines[0][1]
    saver.close()


def test_a_saver_that_is_dropped_finishes_its_save(tmp_path):
    saver = open_saver(tmp_path, [part("a", np.zeros(1 << 20, dtype=np.float32))])
    saver.save(1, "{}")
    del saver
    assert _native.Reader.list_steps(str(tmp_path)) == [1]


HERE = pathlib.Path(__file__).parent
RANKS = """
import json, os, sys
import numpy as np
from millrace import _native
sys.path.insert(0, sys.argv[2])
from test_native import ignore, open_saver, part
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
communicator = _native.Communicator(
    rank=rank, ranks=ranks, address="127.0.0.1", port=int(os.environ["MASTER_PORT"]), token=7,
    secret=b"0123456789abcdef", timeout=300)
"""


def test_ranks_over_tcp(tmp_path):
    code = """
found = [communicator.any(False), communicator.any(rank == 1)]
try:
    communicator.agree("caf\u00e9 " * 200 if rank == 1 else None)
    found.append("")
except RuntimeError as error:
    found.append(str(error)[:12])
communicator.agree(None)
array = np.full((1, 4), rank, dtype=np.float32)
saver = open_saver(sys.argv[1], [part("a", array, (ranks, 4), (rank, 0))], communicator)
saver.save(5, "{}")
saver.wait()
saver.close()
reader = _native.Reader(sys.argv[1], communicator, ignore)
whole = np.zeros((ranks, 4), dtype=np.float32)
reader.load([part("a", whole)], communicator)
reader.close()
communicator.close()
print(json.dumps([*found, whole[:, 0].tolist()]))
"""
    lines = finish(start(["-c", RANKS + code, tmp_path, HERE], 3))
    for rank, printed in enumerate(lines):
        text = "" if rank == 1 else "rank 1: caf\u00e9"
        assert json.loads(printed[-1]) == [False, True, text, [0, 1, 2]]


def test_a_rank_that_leaves_ends_the_calls_of_the_others(tmp_path):
    code = """
if rank == 0:
    communicator.abort()
else:
    try:
        communicator.any(True)
    except OSError as error:
        print(json.dumps(str(error)))
"""
    lines = finish(start(["-c", RANKS + code, tmp_path, HERE], 2))
    assert "rank 0" in json.loads(lines[1][-1])


def test_ctrl_c_ends_the_wait_for_other_ranks():
    code = """
from millrace import _native
try:
    print("waiting", flush=True)
    _native.Communicator(ranks=2, address="127.0.0.1", port=29000, timeout=1000)
except KeyboardInterrupt:
    print("interrupted")
"""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline() == "waiting\n"
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=600)[0] == "interrupted\n"
