#!/usr/bin/env bash
# `millrace convert dataset -` of a stream of samples: another program sends them through a pipe.
. "$(dirname "$0")/lib.sh"
need_python
export PYTHONPATH=$here/../oracle:$scratch MILLRACE

# What most cases send: 600 samples, two of which are longer than the reads of the pipe.
cat >samples.py <<'PY'
import json, random, tarfile
import sample_stream as stream
r = random.Random(11)
samples = []
for i in range(600):
    fields = {"json": json.dumps({"n": i}).encode(), "txt": b"text %d " % i * (i % 40)}
    if i % 3 == 0:
        fields["seg.bin"] = r.randbytes(r.choice([0, 1, 511, 512, 3000]))
    fields["cls"] = b"%d" % (i % 2)
    samples.append((f"part/{i // 100}/{i:06d}", fields))
samples[300][1]["large.bin"] = r.randbytes(5 << 19)
samples[301][1]["large.bin"] = r.randbytes(1 << 20)
whole = ["--shard-bytes", "64KiB"]

def in_tars(*paths):
    """The samples of tars."""
    found = {}
    for path in paths:
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, extension = member.name.rpartition("/")[2].partition(".")
                if extension:
                    key = member.name[:len(member.name) - len(extension) - 1]
                    found.setdefault(key, {})[extension] = tar.extractfile(member).read()
    return list(found.items())

def succeeds(result):
    assert (result.status, result.errors) == (0, ""), result
    return result

def fails(result, *texts):
    assert result.status in (1, 2) and result.errors.count("\n") == 1, result
    for text in texts:
        assert text in result.errors, (text, result)
PY
# Sends the first COUNT samples, then creates the file pausing, and pauses.
cat >sender.py <<'PY'
import sys, time
from samples import *
count = int(sys.argv[1])
def write(file, data):
    file.write(data)
    if not data:
        file.flush()
        open("pausing", "w").close()
        time.sleep(1000)
some = samples[:count] + [b""] * (count < len(samples))
stream.send(sys.stdout.buffer, sys.stdin.buffer, some, write=write)
PY
run_python() { "$python" - "$@"; }
run_python <<'PY'
from samples import *
assert succeeds(stream.convert("whole", samples, *whole)).reply == ["begin", "0"]
PY

the_samples_arrive_as_they_were_sent() {
  run_python whole/*.tar <<'PY'
import sys
from samples import *
assert len(sys.argv) > 10
found = in_tars(*sys.argv[1:])
assert [key for key, _ in found] == [key for key, _ in samples]
assert found == samples
PY
  millrace verify whole >/dev/null
  same "$(millrace read whole --order sequential --print keys --quiet | wc -l)" 600
  contains "$(millrace inspect whole)" samples
}

threads_and_the_sizes_of_writes_do_not_change_the_bytes() {
  run_python <<'PY'
import time
from samples import *
r = random.Random(5)
def one_by_one(file, data):
    for i in range(len(data)):
        file.write(data[i:i + 1])
        file.flush()
def odd(file, data):
    while data:
        count = r.choice([1, 3, 4, 5, 4095, 65537, 1 << 20])
        file.write(data[:count])
        file.flush()
        data = data[count:]
def around_boundaries(file, data): # a reader sees the first and the last bytes of a record alone
    for part in data[:2], data[2:5], data[5:-1], data[-1:]:
        file.write(part)
        file.flush()
def slow_at_first(file, data, calls=[0]):
    calls[0] += 1
    if calls[0] < 3:
        for i in range(0, len(data), 7):
            file.write(data[i:i + 7])
            file.flush()
            time.sleep(0.02)
    else:
        file.write(data)
for workers in "1", "4":
    for write in None, odd, around_boundaries, slow_at_first:
        name = f"found-{workers}-{write.__name__ if write else 'plain'}"
        succeeds(stream.convert(name, samples, *whole, "-j", workers, write=write))
for workers in "1", "4":
    some = samples[:150]
    succeeds(stream.convert(f"bytes-{workers}", some, *whole, "-j", workers, write=one_by_one))
succeeds(stream.convert("bytes-expected", samples[:150], *whole))
PY
  local found
  for found in found-*; do diff -r whole "$found"; done
  for found in bytes-1 bytes-4; do diff -r bytes-expected $found; done
}

a_sender_need_not_wait_for_the_reply() {
  "$python" -c 'import sys
from samples import *
sys.stdout.buffer.write(stream.header() + b"".join(stream.record(*s) for s in samples) + stream.END)' >recorded
  for workers in 1 4; do
    millrace convert dataset - recorded-$workers --shard-bytes 64KiB --quiet -j $workers <recorded >out
    same "$(head -1 out)" "begin 0"
    diff -r whole recorded-$workers
  done
}

classes_name_the_numbers_in_cls() {
  run_python <<'PY'
from samples import *
succeeds(stream.convert("classes", samples, head=stream.header(classes=["cat", "dog é"])))
dataset = json.load(open("classes/dataset.json"))
assert dataset["millrace"]["classes"] == ["cat", "dog é"]
PY
  same "$(millrace read classes --where 'class("cat")' --print keys --quiet | wc -l)" 300
  millrace verify classes >/dev/null
}

options_for_samples_apply() {
  run_python <<'PY'
import glob
from samples import *
result = succeeds(stream.convert("split", samples, "--split", "train=0.7,val=0.3", "--json"))
reported = json.loads(result.output)
assert (reported["samples_count"], reported["skipped_count"]) == (600, 0), reported
assert reported["source_bytes"] == sum(len(data) for _, fields in samples for data in fields.values())
parts = [in_tars(*sorted(glob.glob(f"split/{name}/*.tar"))) for name in ("train", "val")]
assert [split["samples_count"] for split in reported["splits"]] == [len(part) for part in parts]
assert 120 < len(parts[1]) < 240 and not dict(parts[0]).keys() & dict(parts[1]).keys()
assert sorted(parts[0] + parts[1]) == samples
succeeds(stream.convert("tars", samples, "--format", "tar", "--shard-samples", "250"))
assert in_tars(*sorted(glob.glob("tars/*.tar"))) == samples
assert len(glob.glob("tars/*.tar")) == 3
succeeds(stream.convert("packed", samples, *whole, "--zstd"))
succeeds(stream.convert("numbered", samples, "--index-field", "json:$.n=n"))
PY
  millrace verify split >/dev/null
  millrace verify packed >/dev/null
  millrace verify numbered >/dev/null
  same "$(millrace read numbered --where 'n >= 590' --print keys --quiet | wc -l)" 10
  if command -v zstd >/dev/null; then
    for shard in packed/*.tar.zst; do zstd -dqc "$shard" | tar -xOf - --exclude __index__; done >found
    for shard in whole/*.tar; do tar -xOf "$shard" --exclude __index__; done | cmp found -
  fi
  ! ls tars | grep -v '^shard-.*tar$\|^dataset.json$' || fail "other files in tars"
}

options_for_other_sources_are_refused() {
  run_python <<'PY'
from samples import *
for options, text in ((["--format", "folder"], "--format shards or tar"),
                      (["--order", "shuffle"], "convert without it, then convert the result with it"),
                      (["--tokenizer", "bytes"], "send the samples as they are to be stored"),
                      (["--fields", "txt"], "send the samples as they are to be stored"),
                      (["--ignore", "*"], "send the samples as they are to be stored"),
                      (["--column", "a=txt"], "use it with a CSV"),
                      (["--on-error", "skip", "--max-errors", "1%"], "a number")):
    result = stream.convert("refused", samples, *options)
    fails(result, text)
    assert result.status == 2 and not result.reply, result
PY
  [[ ! -e refused ]]
}

an_existing_target_is_refused_before_samples_are_sent() {
  mkdir other
  touch other/file
  cp -r whole old
  run_python <<'PY'
from samples import *
result = stream.convert("whole", samples, *whole)
fails(result, "already has a dataset", "--force")
assert not result.reply
result = stream.convert("other", samples, *whole)
fails(result, "other files")
assert not result.reply
fails(stream.convert("old", samples[:400], *whole, "--force", end=b""), "the old dataset is kept")
PY
  diff -r whole old
  run_python <<'PY'
from samples import *
succeeds(stream.convert("old", samples[:10], *whole, "--force"))
PY
  same "$(millrace read old --print keys --quiet | wc -l)" 10
  same "$(find . -maxdepth 1 -name '.*old*')" ""
}

# start_conversion TARGET [COUNT [OPTION...]]: starts a sender, which is a process of its own and pauses
# after COUNT samples, and the converter.
start_conversion() {
  local target=$1 count=${2:-600}
  rm -f to from pausing
  mkfifo to from
  "$MILLRACE" convert dataset - "$target" --shard-bytes 64KiB --quiet "${@:3}" <to >from 2>errors &
  converter=$!
  "$python" sender.py "$count" >to <from 2>/dev/null &
  sender=$!
}
# resume TARGET: resumes; the samples before the last complete shard are not sent again.
resume() {
  run_python "$1" <<'PY'
import sys
from samples import *
shards = open(f"{sys.argv[1]}/.millrace-convert.jsonl").read().count("next_item")
assert shards > 0
result = succeeds(stream.convert(sys.argv[1], samples, *whole, "--resume"))
assert result.reply[0] == "begin" and int(result.reply[1]) >= shards, result
again = succeeds(stream.convert(sys.argv[1], samples, *whole, "--resume"))
assert again.reply == ["complete"], again
PY
  diff -r whole "$1"
}

a_killed_sender_leaves_what_can_be_resumed() {
  local status
  start_conversion killed 400
  until [[ -e killed/shard-000003.tar ]]; do kill -0 $converter; sleep 0.01; done
  kill -KILL $sender
  status=0
  wait $converter || status=$?
  same $status 1
  one_line errors
  contains "$(cat errors)" "the stream of samples ends early" "complete shards are kept: run the same command again with --resume"
  [[ ! -e killed/dataset.json ]]
  same "$(status_of millrace read killed)" 1
  run_python <<'PY'
from samples import *
fails(stream.convert("killed", samples, *whole), "use --resume to continue, or --force")
for changed in stream.header(identity="2"), stream.header(classes=["cat"]):
    result = stream.convert("killed", samples, *whole, "--resume", head=changed)
    fails(result, "the conversion to resume has different files or options")
    assert not result.reply
PY
  resume killed
  run_python <<'PY'
from samples import *
result = stream.convert("killed", samples, *whole, "--resume", head=stream.header(identity="2"))
fails(result, "other files or options")
assert not result.reply
PY
  diff -r whole killed
}

a_killed_converter_leaves_what_can_be_resumed() {
  MILLRACE_FAULT=commit:hold:shard-000003 start_conversion stopped
  until [[ -e stopped/shard-000002.tar ]]; do kill -0 $converter; sleep 0.01; done
  kill -KILL $converter
  wait $converter 2>/dev/null || :
  wait $sender || : # it has lost its pipe
  [[ ! -e stopped/dataset.json ]]
  resume stopped
}

a_stop_does_not_wait_for_a_paused_sender() {
  local status
  for workers in 1 4; do
    start_conversion paused 400 -j $workers
    until [[ -e pausing && -e paused/shard-000003.tar ]]; do kill -0 $converter; sleep 0.01; done
    kill -TERM $converter
    status=0
    wait $converter || status=$?
    same $status 75
    contains "$(cat errors)" "complete shards are kept"
    kill -KILL $sender
    wait $sender 2>/dev/null || :
    resume paused
    rm -r paused
  done
}

an_error_does_not_wait_for_a_paused_sender() {
  "$RENDER_SHAPES" --count 1 --side 96 photos >/dev/null
  run_python <<'PY'
import glob, subprocess
from samples import *
photo = open(sorted(glob.glob("photos/*/*.jpg"))[0], "rb").read()
pictures = [(f"{i}", {"jpg": photo}) for i in range(3)] + [("broken", {"jpg": photo[:600]})]
for workers in "1", "4":
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [stream.MILLRACE, "convert", "dataset", "-", "failed", "--quiet", "-j", workers]
    with subprocess.Popen(command, **pipes) as process:
        stream.send(process.stdin, process.stdout, pictures, end=b"")
        assert process.wait() == 1 # before the end of the input
        assert "broken.jpg" in process.stderr.read().decode()
PY
  [[ ! -e failed ]]
}

bad_samples_stop_the_conversion_and_leave_nothing() {
  run_python <<'PY'
import os, struct
from samples import *
good = [(f"good{i}", {"txt": b"x"}) for i in range(5)]
whole_record = stream.record("a", {"txt": b"123"})
sized = lambda bytes, data=b"": struct.pack("<I", bytes) + data
numbers = lambda *values: struct.pack(f"<{len(values)}I", *values)
wrong_key, wrong_name = "has a wrong key", "has a wrong name"
bad = [(("a.b", {"txt": b""}), wrong_key), (("../a", {"txt": b""}), wrong_key), (("/a", {"txt": b""}), wrong_key),
       (("a/", {"txt": b""}), wrong_key), (("a//b", {"txt": b""}), wrong_key), (("a b", {"txt": b""}), wrong_key),
       (("__x__/a", {"txt": b""}), wrong_key), (("x" * 1023, {"txt": b""}), "at most 1023 bytes"),
       (("x" * 1024, {"txt": b""}), "too long"), (("", {"txt": b""}), "empty"), (("a\0b", {"txt": b""}), "NUL"),
       (("a\n", {"txt": b""}), wrong_name), (("a", {"TXT": b""}), wrong_name), (("a", {"a/b": b""}), wrong_name),
       (("a", {"a b": b""}), wrong_name), (("a", {"t\0": b""}), "NUL"), (("a", {"": b""}), "empty"),
       (("a", {"x" * 48: b""}), "too long"), (("a", {}), "no fields"),
       (("a", {f"f{i}": b"" for i in range(65)}), "more than 64"),
       (("a", {f"f{i}": b"" for i in range(64)}), "at most 64 different ones"),
       (("a", [("txt", b"1"), ("txt", b"1")]), "a field twice"), (("good0", {"txt": b""}), "same key: good0"),
       (("good4", {"txt": b""}), "same key: good4"),
       (sized(len(whole_record) - 1, whole_record[4:] + b"xyz"), "bytes after its fields"),
       (sized(len(whole_record) - 5, whole_record[4:-1]), "a sample of the stream ends early"),
       (stream.block(b"abc"), "a sample of the stream ends early"),
       (stream.block(numbers(2**32 - 1, 1) + b"a"), "more than 64"),
       (stream.block(numbers(1, 2**32 - 1) + b"a"), "a sample of the stream ends early"),
       (stream.block(numbers(1, 1) + b"a" + numbers(3, 2**32 - 2) + b"txt"), "a sample of the stream ends early"),
       (sized(2**30 + 1), "at most 1073741824 bytes"), (sized(2**32 - 1), "at most 1073741824 bytes")]
for sample, text in bad:
    for workers in "1", "4":
        result = stream.convert("bad", good + [sample], "-j", workers)
        fails(result, text)
        assert result.status == 1 and result.reply == ["begin", "0"] and not result.output, result
        assert not os.path.exists("bad"), sample
fails(stream.convert("bad", []), "the stream has no samples")
for cut in b"", b"\1", sized(2**30, b"short"), whole_record[:-1]:
    fails(stream.convert("bad", good, end=cut), "the stream of samples ends early", "after 5 samples")
assert not os.path.exists("bad")
# A stream that breaks is no bad sample.
for end, text in (b"", "ends early"), (stream.record("a.b", {"txt": b""}), wrong_key):
    fails(stream.convert("bad", good, "--on-error", "skip", end=end), text)
assert not os.path.exists("bad")
PY
}

bad_headers_are_refused() {
  run_python <<'PY'
import os
from samples import *
for head, text in ((b"", "ends early"), (b"\1\0", "ends early"), (b"\12\0\0\0{}", "ends early"),
                   (b"\1\0\0\4", "at most 67108864 bytes"), (stream.block(b""), "not valid JSON"),
                   (stream.block(b"hello"), "not valid JSON"), (stream.block(b"[]"), "identity"),
                   (stream.block(b"{}"), "identity"), (stream.block(b'{"identity":1}'), "identity"),
                   (stream.block(b'{"identity":"1","classes":[1]}'), "an array of texts"),
                   (stream.block(b'{"identity":"1","classes":"cat"}'), "an array of texts")):
    with open("input", "wb") as file:
        file.write(stream.MAGIC + head)
    with open("input", "rb") as file:
        result = stream.subprocess.run([stream.MILLRACE, "convert", "dataset", "-", "bad", "--quiet"],
                                       stdin=file, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (1, ""), (head, result)
    assert text in result.stderr and result.stderr.count("\n") == 1, (head, result)
    assert not os.path.exists("bad")
PY
}

broken_photos_are_skipped_if_asked() {
  "$RENDER_SHAPES" --count 2 --side 96 pictures >/dev/null
  run_python <<'PY'
import glob, os
from samples import *
paths = sorted(glob.glob("pictures/*/*.jpg"))
photos = [(f"{i:03d}", {"jpg": open(path, "rb").read(), "txt": b"x"}) for i, path in enumerate(paths)]
broken = [("broken", {"jpg": photos[0][1]["jpg"][:600], "txt": b"x"})]
some = photos[:4] + broken + photos[4:]
for workers in "1", "4":
    result = stream.convert("photos", some, "-j", workers)
    fails(result, "broken.jpg")
    assert not os.path.exists("photos")
options = "--on-error", "skip", "--json"
result = stream.convert("skipped", some + photos[:1], *options)
assert result.status == 0, result
reported = json.loads(result.output)
assert (reported["samples_count"], reported["skipped_count"]) == (len(photos), 2), reported
for text in "skipped broken", "broken.jpg", "skipped 000":
    assert text in result.errors, result
result = stream.convert("photos", some, *options[:2], "--max-errors", "0")
assert result.status == 1 and "1 bad items exceed --max-errors" in result.errors, result
assert not os.path.exists("photos")
succeeds(stream.convert("photos", photos))
succeeds(stream.convert("kept", photos, "--jpeg", "keep"))
assert in_tars("kept/shard-000000.tar") == photos
PY
  diff <(tar -xOf photos/shard-000000.tar --exclude __index__) <(tar -xOf skipped/shard-000000.tar --exclude __index__)
  millrace verify skipped >/dev/null
}

an_interrupted_split_resumes() {
  run_python <<'PY'
import os
from samples import *
split = whole + ["--split", "train=0.9,val=0.1"]
succeeds(stream.convert("split-whole", samples, *split))
counts = []
for count in 0, 50, 290, 590:
    result = stream.convert("split-cut", samples[:count], *split, *(["--resume"] if counts else []), end=b"")
    fails(result, "ends early")
    counts += result.reply[1:]
    assert not os.path.exists("split-cut/train/dataset.json")
    if not os.path.exists("split-cut"):
        counts = []
result = succeeds(stream.convert("split-cut", samples, *split, "--resume"))
assert int(result.reply[1]) > 0, (counts, result)
PY
  diff -r split-whole split-cut
}

other_standard_input_is_copied() {
  tar --sort=name -cf in.tar -C whole .
  tar -xf in.tar --one-top-level=in
  (cd whole && tar -xf shard-000000.tar --exclude __index__ -C "$scratch")
  tar --sort=name -cf samples.tar part
  millrace convert dataset samples.tar expected --quiet >/dev/null
  { head -c 5 samples.tar; sleep 0.1; tail -c +6 samples.tar; } | millrace convert dataset - copied --quiet >/dev/null
  cmp expected/shard-000000.tar copied/shard-000000.tar
  printf 'millrace samples 2\n' | millrace convert dataset - refused --quiet 2>errors && fail "another version"
  contains "$(cat errors)" "the source format is not supported"
  printf 'millrace' | millrace convert dataset - refused --quiet 2>errors && fail "a part of the first line"
  contains "$(cat errors)" "the source format is not supported"
  [[ ! -e refused ]]
}

run_cases the_samples_arrive_as_they_were_sent threads_and_the_sizes_of_writes_do_not_change_the_bytes \
  a_sender_need_not_wait_for_the_reply classes_name_the_numbers_in_cls options_for_samples_apply \
  options_for_other_sources_are_refused an_existing_target_is_refused_before_samples_are_sent \
  a_killed_sender_leaves_what_can_be_resumed a_killed_converter_leaves_what_can_be_resumed \
  bad_samples_stop_the_conversion_and_leave_nothing bad_headers_are_refused broken_photos_are_skipped_if_asked \
  an_interrupted_split_resumes other_standard_input_is_copied a_stop_does_not_wait_for_a_paused_sender an_error_does_not_wait_for_a_paused_sender
