#!/usr/bin/env bash
# Tars from other tools in the program (index, inspect, verify, read, train), and our shards in
# other tools.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$scratch/.cache

"$RENDER_SHAPES" --count 6 --side 40 photos >/dev/null
millrace convert dataset photos shards --keep-order --quiet >/dev/null
# flat: the shard's members as files, and their names in shard order
mkdir flat
tar xf shards/shard-000000.tar -C flat
tar tf shards/shard-000000.tar >names
tar tf shards/shard-000000.tar | grep '\.jpg$' | sed 's/\.jpg$//' >keys

# check_same_as_ours TAR: checks that it has the shard's samples, byte for byte.
check_same_as_ours() {
  millrace read "$1" --order sequential --batch 6 --micro 6 --print keys --quiet | sort -n | cut -f 2 | cmp - keys
  rm -rf files
  millrace read "$1" --out files --quiet >/dev/null
  diff -r files flat
  same "$(status_of millrace verify "$1")" 0
}
make_tar() { tar --format="${2:-gnu}" -cf "$1" -C flat --no-recursion -T names; }

tars_of_gnu_tar_read_like_ours() {
  local format
  for format in v7 ustar gnu posix oldgnu; do
    make_tar "$format.tar" $format
    check_same_as_ours "$format.tar"
  done
}

tars_of_bsdtar_read_like_ours() {
  command -v bsdtar >/dev/null || skip "no bsdtar here"
  local format
  for format in ustar pax gnutar; do
    bsdtar --format $format -cf "$format.tar" -C flat -n -T names
    check_same_as_ours "$format.tar"
  done
}

tars_of_python_read_like_ours() {
  need_python
  "$python" - <<'PY'
import tarfile
for name, format in (("u", tarfile.USTAR_FORMAT), ("g", tarfile.GNU_FORMAT), ("p", tarfile.PAX_FORMAT)):
    with tarfile.open(name + ".tar", "w", format=format) as tar:
        for line in open("names"):
            tar.add("flat/" + line.strip(), line.strip())
PY
  check_same_as_ours u.tar
  check_same_as_ours g.tar
  check_same_as_ours p.tar
}

shards_of_webdataset_read_like_ours() {
  need_python
  "$python" -c 'import webdataset' 2>/dev/null || skip "no webdataset in $python"
  "$python" - <<'PY' >/dev/null 2>&1
import webdataset
with webdataset.ShardWriter("wds-%06d.tar", maxcount=10, verbose=0) as sink:
    for key in open("keys"):
        key = key.strip()
        sink.write({"__key__": key, "jpg": open("flat/" + key + ".jpg", "rb").read(), "cls": open("flat/" + key + ".cls", "rb").read()})
PY
  [[ -s wds-000004.tar ]]
  check_same_as_ours 'wds-{000000..000004}.tar'
}

every_archive_is_accepted_or_refused_like_other_readers() {
  [[ -f $data/tar/verdicts.tsv ]] || skip "no test data at $data/tar (set MILLRACE_TEST_DATA)"
  local file gnu bsd python_says expected_status verb checked=0
  while IFS=$'\t' read -r file gnu bsd python_says; do
    [[ $file == *.tar ]] || continue
    expected_status=0 # one tool that refuses it or counts differently is enough
    [[ $gnu == error || $gnu != "$bsd" || $gnu != "$python_says" ]] && expected_status=1
    for verb in index inspect verify; do
      same "$(status_of millrace $verb "$data/tar/$file")" $expected_status "status of $verb $file ($(cat errors))"
    done
    if [[ $expected_status == 1 ]]; then
      status_of millrace index "$data/tar/$file" >/dev/null
      grep -q "$file at [0-9]" errors || fail "no offset: $(cat errors)"
    fi
    checked=$((checked + 1))
  done < <(tail -n +2 "$data/tar/verdicts.tsv")
  [[ $checked -gt 60 ]]
}

index_rebuilds_and_keeps_checksums() {
  need_python
  make_tar a.tar
  millrace index a.tar --json >report
  same "$(json 'd["samples_count"], d["members_count"], d["shards"][0]["has_checksums"]' report)" "(42, 84, False)"
  [[ -s $(json 'd["shards"][0]["kept_in"]' report) ]]
  before=$(millrace inspect a.tar --json | sed 's/"has_checksums":[a-z]*,"index_bytes":[0-9]*//')
  millrace index a.tar --check --json >report
  same "$(json 'd["shards"][0]["has_checksums"]' report)" True
  same "$(millrace inspect a.tar --json | sed 's/"has_checksums":[a-z]*,"index_bytes":[0-9]*//')" "$before"
  # Flips bits in members. They are read after the tail and four header blocks; `read` opens the tar
  # twice.
  local flips=:a.tar,seed=1
  same "$(MILLRACE_FAULT=read:flip@6+$flips status_of millrace verify a.tar)" 1 "status of verify"
  same "$(MILLRACE_FAULT=read:flip@11+$flips status_of millrace read a.tar --batch 1 --micro 1)" 1 "status of read"
  contains "$(cat errors)" "CRC32C of field"
  contains "$(cat errors)" "a.tar at "
  same "$(status_of millrace verify a.tar)" 0
  cp -p a.tar b.tar # overwritten in place with size and time restored: the checksums are of the old bytes
  printf 'X' | dd of=a.tar bs=1 seek=1700 conv=notrunc status=none
  touch -r b.tar a.tar
  millrace inspect a.tar --json >report
  contains "$(cat report)" '"has_checksums":false'
  millrace index shards/shard-000000.tar --json >report
  same "$(json 'd["shards"][0]["kept_in"]' report)" shards/shard-000000.tar
  millrace index a.tar >table # two columns with the same name would be ambiguous
  same "$(sed -n 2p table | grep -oE '[a-z]+( [a-z]+)*' | sort | uniq -d)" "" "repeated names"
  grep -qE '^ *path  +samples  +members  +has checksums  +index  +kept in$' table
  grep -qE ' [0-9]+ bytes | [0-9.]+ KiB ' table || fail "a size without its unit: $(cat table)"
}

an_unwritable_index_cache_is_reported_with_an_alternative() {
  make_tar here.tar
  : >file
  same "$(XDG_CACHE_HOME=$scratch/file status_of millrace index here.tar)" 1
  one_line errors
  contains "$(cat errors)" "$scratch/file"
  contains "$(cat errors)" "set XDG_CACHE_HOME"
  same "$(XDG_CACHE_HOME=$scratch/file status_of millrace read here.tar)" 0 # no cache is needed
}

a_shard_that_lost_its_trailer_needs_index() {
  head -c -512 shards/shard-000000.tar >lost.tar
  same "$(status_of millrace inspect lost.tar)" 1
  contains "$(cat errors)" "millrace index lost.tar"
  same "$(status_of millrace read lost.tar --on-error skip)" 0
  grep -qE '^samples +42$' out || fail "$(cat out)"
  grep -q '^warning: damaged tar: .*: lost.tar at [0-9]*; only its checksums are left out$' errors || fail "no warning: $(cat errors)"
  same "$(status_of millrace inspect lost.tar)" 1
  millrace index lost.tar --quiet >/dev/null
  check_same_as_ours lost.tar
}

lists_of_other_tools_are_datasets() {
  need_python
  make_tar a.tar
  mkdir list
  mv a.tar list/
  echo '{"__kind__":"wids-shard-index-v1","wids_version":1,"shardlist":[{"url":"a.tar","nsamples":42}]}' >list/index.json
  check_same_as_ours list/index.json
  sed -i 's/42/43/' list/index.json
  same "$(status_of millrace read list/index.json)" 1
  contains "$(cat errors)" "expected 43, found 42"
}

patterns_are_datasets() {
  head -n 20 names | tar -cf p-0.tar -C flat -T -
  tail -n +21 names | tar -cf p-1.tar -C flat -T -
  check_same_as_ours 'p-{0..1}.tar'
  check_same_as_ours 'p-0.tar::p-1.tar'
  WDS_P=p check_same_as_ours '${P}-{0,1}.tar'
  same "$(status_of millrace read 'p-{0..2}.tar')" 1
  contains "$(cat errors)" p-2.tar
}

train_learns_from_tars_as_from_shards() {
  make_tar a.tar
  cat >train.yaml <<'YAML'
run:        {seed: 3, steps: 4}
data:       {memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8, classes: 7}
batch:      {global: 8, micro: 4}
YAML
  millrace train train.yaml --set data.train=a.tar --set run.dir=ra --quiet >/dev/null
  millrace train train.yaml --set data.train=shards --set run.dir=rb --quiet >/dev/null
  same "$(millrace ckpt hash ra/ckpt | grep model)" "$(millrace ckpt hash rb/ckpt | grep model)"
}

# Creates d-0.tar to d-2.tar of 14 samples each. The second is truncated within the image of its
# sixth sample; cut_key is the key of that sample.
damage_one() {
  local n
  for n in 0 1 2; do
    sed -n "$((n * 28 + 1)),$((n * 28 + 28))p" names | tar -cf d-$n.tar -C flat --no-recursion -T -
  done
  cp d-1.tar whole.tar
  cut_key=$(sed -n 20p keys)
  head -c $(($(grep -abo "$cut_key.jpg" whole.tar | cut -d : -f 1) + 600)) whole.tar >d-1.tar
}
# read_all OPTION...: reads the three tars; delivered keys go to `delivered`, messages to errors.
read_all() { millrace read 'd-{0..2}.tar' --batch 4 --micro 2 --print keys --on-error skip "$@" >delivered 2>errors; }

a_truncated_tar_loses_only_its_last_samples() {
  damage_one
  same "$(status_of millrace read 'd-{0..2}.tar')" 1
  one_line errors
  grep -q 'truncated.*: d-1.tar at [0-9]*: ' errors || fail "no offset: $(cat errors)"
  read_all --order sequential
  sed '20,28d' keys | cmp - <(sort -n delivered | cut -f 2)
  same "$(grep -c '^warning: ' errors)" 1
  grep -q "^warning: damaged tar: .*: d-1.tar at [0-9]*: .*; sample \"$cut_key\" and everything after it are left out$" errors ||
    fail "no warning: $(cat errors)"
  grep -qE '^left out +1$' errors || fail "not counted: $(cat errors)"
  rm -rf files
  millrace read 'd-{0..2}.tar' --on-error skip --out files --quiet >/dev/null 2>&1
  same "$(diff -rq files flat | grep -vc '^Only in flat')" 0 "files that differ"
  same "$(find files -type f | wc -l)" 66
  same "$(status_of millrace read 'd-{0..2}.tar')" 1 "a tolerant read does not affect strict readers"
  same "$(status_of millrace index d-1.tar)" 1
  same "$(status_of millrace read 'd-{0..2}.tar' --on-error skip --max-errors 0)" 1
  contains "$(cat errors)" "expected at most 0, found 1"
  same "$(status_of millrace read 'd-{0..2}.tar' --on-error skip --max-errors 1)" 0
  same "$(status_of millrace read d-1.tar --on-error skip --cold)" 0
  same "$(status_of millrace verify 'd-{0..2}.tar')" 1
  grep -q '^bad: .*: d-1.tar at [0-9]*: ' out || fail "verify does not report it: $(cat out)"
  grep -qE '^members +56$' out || fail "verify stops at it: $(cat out)"
}

ranks_share_the_remaining_samples_of_damaged_tars() {
  damage_one
  local n kept
  for kept in no yes; do
    rm -rf .cache
    read_all --seed 5
    same "$(wc -l <delivered)" 33
    sort -n delivered >one
    for n in 0 1; do
      [[ $kept == yes ]] || rm -rf .cache
      read_all --seed 5 --rank $n --ranks 2 --workers $((n + 1))
      cp delivered two-$n
    done
    sort -n two-0 two-1 | cmp - one
  done
  read_all --seed 5 --start 12
  sort -n delivered | cmp - <(awk '$1 >= 12' one)
}

a_duplicate_member_is_read_once() {
  need_python
  "$python" - <<'PY'
import io, tarfile
with tarfile.open("twice.tar", "w") as tar:
    def add(name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    for key in ("a", "b", "c"):
        add(key + ".txt", b"first " + key.encode())
        if key == "b":
            for i in range(7):
                add("b.txt", b"again %d" % i)
            add("b.TXT", b"again in capitals")
PY
  same "$(status_of millrace read twice.tar)" 1
  grep -q 'two fields "txt": twice.tar at 2048: ' errors || fail "no offset: $(cat errors)"
  rm -rf files
  millrace read twice.tar --on-error skip --out files >summary 2>errors
  same "$(cat files/a.txt files/b.txt files/c.txt)" "first afirst bfirst c"
  grep -qE '^left out +8$' summary || fail "not counted: $(cat summary)"
  grep -q '^warning: damaged tar: .*: twice.tar at 2048: .*; this member is left out$' errors || fail "no warning: $(cat errors)"
  same "$(grep -c '^warning: ' errors)" 5 "lines for eight members"
  grep -q '^warning: damaged tar: 4 more warnings like this, the last: .*: twice.tar at 9216: ' errors || fail "$(cat errors)"
  same "$(status_of millrace verify twice.tar)" 1
  grep -q 'twice.tar at 2048' out
}

a_tar_without_a_complete_sample_reports_its_damage() {
  : >empty.tar
  head -c 700 /dev/urandom | gzip >zipped.tar
  same "$(status_of millrace read 'empty.tar::zipped.tar' --on-error skip)" 1
  same "$(tail -n 1 errors)" "millrace: file is too small for a tar: empty.tar at 0: expected at least 512 bytes, found 0"
  make_tar a.tar
  same "$(status_of millrace read 'empty.tar::zipped.tar::a.tar' --on-error skip)" 0 "$(cat errors)"
  same "$(grep -c '^warning: damaged tar: .*; the whole file is left out$' errors)" 2
  same "$(status_of millrace read 'a.tar::none.tar' --on-error skip)" 1 # a missing tar is not a damaged one
}

a_wids_shard_list_may_include_a_damaged_tar() {
  local n
  damage_one
  mkdir -p cutlist
  cp d-?.tar cutlist/
  for n in 0 1 2; do echo "{\"url\":\"d-$n.tar\",\"nsamples\":14}"; done | paste -sd , |
    sed 's/.*/{"__kind__":"wids-shard-index-v1","wids_version":1,"shardlist":[&]}/' >cutlist/index.json
  same "$(status_of millrace read cutlist/index.json)" 1
  same "$(status_of millrace read cutlist/index.json --on-error skip)" 0 "$(cat errors)"
  grep -qE '^samples +33$' out || fail "$(cat out)"
}

training_skips_damage_and_notices_repairs() {
  damage_one
  cat >cut.yaml <<'YAML'
run:        {dir: rc, seed: 3, steps: 12}
data:       {train: 'd-{0..2}.tar', memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8, classes: 7}
batch:      {global: 8, micro: 4}
checkpoint: {every: 6}
YAML
  same "$(status_of millrace train cut.yaml --set data.bad_samples.policy=stop --set run.dir=rs)" 1
  grep -q '^millrace: tar archive is truncated.*: d-1.tar at [0-9]*: ' errors || fail "$(cat errors)"
  same "$(status_of millrace train cut.yaml)" 0 "$(cat errors)"
  same "$(grep -c '^warning: damaged tar: .*: d-1.tar at ' errors)" 1
  same "$(status_of millrace train cut.yaml --set run.dir=rd --set run.steps=6)" 0 "$(cat errors)"
  same "$(status_of millrace train cut.yaml --set run.dir=rd)" 0 "$(cat errors)"
  same "$(millrace ckpt hash rd/ckpt)" "$(millrace ckpt hash rc/ckpt)"
  cp whole.tar d-1.tar
  same "$(status_of millrace train cut.yaml --set run.steps=18)" 1
  contains "$(cat errors)" "expected dataset "
  : >d-1.tar
  head -c 3000 whole.tar >d-0.tar
  same "$(status_of millrace train cut.yaml --set run.dir=rl)" 1
  contains "$(cat errors)" "too many bad samples: expected at most 1 %"
  contains "$(cat errors)" "2 left out of damaged tars"
}

wids_loads_our_dataset_json() {
  need_python
  "$python" -c 'import wids' 2>/dev/null || skip "no wids in $python (webdataset 0.2)"
  "$python" - <<'PY'
import io, wids
dataset = wids.ShardListDataset("shards/dataset.json", cache_dir="wids-cache", keep=True, transformations=[])
keys = [key.strip() for key in open("keys")]
assert len(dataset) == len(keys), len(dataset)
for i, key in enumerate(keys):
    sample = dataset[i]
    assert sample["__key__"] == key, (sample["__key__"], key)
    for extension in ("jpg", "cls"):
        assert sample["." + extension].read() == open("flat/%s.%s" % (key, extension), "rb").read()
PY
}

dali_takes_our_index() {
  need_python
  "$python" -c 'import nvidia.dali' 2>/dev/null || skip "no nvidia.dali in $python"
  local tar
  make_tar a.tar
  for tar in a.tar shards/shard-000000.tar; do
    millrace index "$tar" --dali out.idx --force --quiet >/dev/null
    TAR=$tar "$python" - <<'PY'
import os
from nvidia.dali import pipeline_def, fn

@pipeline_def(batch_size=6, num_threads=1, device_id=None)
def pipe():
    return tuple(fn.readers.webdataset(paths=[os.environ["TAR"]], index_paths=["out.idx"], ext=["jpg", "cls"]))

keys = [key.strip() for key in open("keys")]
p = pipe()
p.build()
for at in range(0, len(keys), 6):
    jpg, cls = p.run()
    for i in range(6):
        assert bytes(jpg.at(i)) == open("flat/%s.jpg" % keys[at + i], "rb").read(), keys[at + i]
        assert bytes(cls.at(i)) == open("flat/%s.cls" % keys[at + i], "rb").read()
PY
  done
}

dali_takes_one_shard_and_no_spaces() {
  rm -f out.idx
  make_tar a.tar
  cp a.tar b.tar
  same "$(status_of millrace index a.tar b.tar --dali out.idx)" 2
  [[ ! -e out.idx ]]
  echo x >"with space.txt"
  tar cf c.tar "with space.txt"
  same "$(status_of millrace index c.tar --dali out.idx)" 1
  contains "$(cat errors)" "with space.txt"
  [[ ! -e out.idx ]]
  millrace index a.tar --dali out.idx --quiet >/dev/null
  same "$(head -n 1 out.idx)" "v1.2 42"
  same "$(status_of millrace index a.tar --dali out.idx)" 1
}

run_cases tars_of_gnu_tar_read_like_ours tars_of_bsdtar_read_like_ours tars_of_python_read_like_ours \
  shards_of_webdataset_read_like_ours every_archive_is_accepted_or_refused_like_other_readers \
  index_rebuilds_and_keeps_checksums an_unwritable_index_cache_is_reported_with_an_alternative a_shard_that_lost_its_trailer_needs_index lists_of_other_tools_are_datasets \
  patterns_are_datasets train_learns_from_tars_as_from_shards a_truncated_tar_loses_only_its_last_samples \
  ranks_share_the_remaining_samples_of_damaged_tars a_duplicate_member_is_read_once a_tar_without_a_complete_sample_reports_its_damage \
  a_wids_shard_list_may_include_a_damaged_tar training_skips_damage_and_notices_repairs \
  wids_loads_our_dataset_json dali_takes_our_index \
  dali_takes_one_shard_and_no_spaces
