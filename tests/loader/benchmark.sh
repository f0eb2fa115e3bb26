#!/usr/bin/env bash
# The tools of bench/loaders: turns of our loader, memory of processes, and ImageNet-like photos.
. "$(dirname "$0")/../cli/lib.sh"

a_benchmark_turn_measures_a_window_of_one_process() {
  need_python
  "$RENDER_SHAPES" --count 300 --side 32 photos >/dev/null
  millrace convert dataset photos shards --quiet >/dev/null
  PYTHONPATH=$TEST_SOURCE_DIR/bench "$python" - <<'PY'
import os
import pathlib
import turns

peer = turns.Peer("millrace", [os.environ["TURNS"], "shards", 2, 256])
peer.begin()
assert peer.report["first_batch_seconds"] > 0 and peer.report["read_workers"] == 2, peer.report
for measured in (1, 5):  # the second window continues into a later epoch
    said = peer.turn(2, measured)
    assert said["samples"] == measured * 256, said
    assert said["seconds"] > 0 and said["cpu_seconds"] > 0, said
    state = pathlib.Path(f"/proc/{peer.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    assert state == "T", f"between turns it is in state {state}"
peer.end()
PY
}

memory_of_a_process_tree_counts_shared_pages_once() {
  need_python
  PYTHONPATH=$TEST_SOURCE_DIR/bench "$python" - <<'PY'
import mmap
import os
import signal
import turns

size = 64 << 20
before = turns.tree_memory(os.getpid())
shared = mmap.mmap(-1, size)
shared.write(b"x" * size)
ready, told = os.pipe()
child = os.fork()
if child == 0:
    shared[:: mmap.PAGESIZE]  # maps each page
    own = b"y" * size
    os.write(told, b"!")
    signal.pause()
os.read(ready, 1)
with turns.MemoryPeak(os.getpid()) as peak:
    pass
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
grown = peak.all - before[0], peak.unbacked - before[1]
assert all(2 * size <= bytes_more < 2.5 * size for bytes_more in grown), (before, grown)
PY
}

wrong_usage_is_refused() {
  same "$(status_of "$TURNS" shards 0 64)" 2
  same "$(status_of "$TURNS" shards 1)" 2
  same "$(status_of "$TURNS" missing 1 64)" 1
  contains "$(cat errors)" missing
}

imagenet_like_photos_have_its_size_and_mostly_444() {
  need_python
  command -v jpegtran >/dev/null || skip "no jpegtran here"
  "$python" -c 'import PIL' 2>/dev/null || skip "no Pillow for Python here"
  "$RENDER_SHAPES" --count 5 --side 520 large >/dev/null
  "$python" "$TEST_SOURCE_DIR/bench/loaders/make_data.py" large made --copies 1 --bytes-copies 1 \
    --imagenet-like --millrace "$MILLRACE" 2>made.log || fail "$(cat made.log)"
  "$python" - <<'PY'
import pathlib
from PIL import Image, JpegImagePlugin

photos = [Image.open(path) for path in sorted(pathlib.Path("made/imagenet/photos").glob("*/*.jpg"))]
assert photos and all(photo.size == (500, 375) for photo in photos), [photo.size for photo in photos]
full = sum(JpegImagePlugin.get_sampling(photo) == 0 for photo in photos)
assert full == len(photos) - -(-len(photos) // 5), (full, len(photos))
assert pathlib.Path("made/imagenet/millrace/dataset.json").exists() and list(pathlib.Path("made/imagenet/wds").glob("*.tar"))
PY
}

run_cases a_benchmark_turn_measures_a_window_of_one_process \
  memory_of_a_process_tree_counts_shared_pages_once wrong_usage_is_refused \
  imagenet_like_photos_have_its_size_and_mostly_444
