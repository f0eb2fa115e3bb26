#!/usr/bin/env bash
# `millrace convert dataset`: what the user sees if it succeeds, finds a broken photo, or is
# stopped.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 6 --side 40 photos >/dev/null

any_number_of_threads_gives_the_same_bytes() {
  millrace convert dataset photos one -j 1 --shard-bytes 20KiB --quiet >/dev/null
  millrace convert dataset photos three -j 3 --shard-bytes 20KiB --quiet >/dev/null
  diff -r one three
  [[ $(find one -name '*.tar' | wc -l) -gt 1 ]]
  millrace convert dataset photos other --seed 1 --shard-bytes 20KiB --quiet >/dev/null
  ! cmp -s one/shard-000000.tar other/shard-000000.tar || fail "another seed, the same shards"
}

splits_partition_the_photos() {
  millrace convert dataset photos split --split train=0.7,val=0.3 --quiet >/dev/null
  tar tf split/train/shard-000000.tar | grep jpg | sort >train
  tar tf split/val/shard-000000.tar | grep jpg | sort >val
  same "$(comm -12 train val | wc -l)" 0 "photos in both"
  same "$(sort train val | wc -l)" 42
  [[ $(wc -l <val) -gt 3 ]]
  millrace verify split >/dev/null
}

json_reports_what_was_done() {
  need_python
  millrace convert dataset photos reported --json --quiet >report
  same "$(json 'd["samples_count"], d["skipped_count"], d["shards_count"], d["dataset"]' report)" "(42, 0, 1, 'reported')"
  same "$(json 'd["written_bytes"]' report)" "$(stat -c %s reported/shard-000000.tar)"
}

on_error_stops_or_skips_a_broken_photo() {
  cp -r photos some
  head -c 600 photos/ring/0003.jpg >some/ring/0003.jpg
  same "$(status_of millrace convert dataset some first)" 1
  one_line errors
  contains "$(cat errors)" ring/0003.jpg
  [[ ! -e first/dataset.json ]]
  same "$(status_of millrace convert dataset some skipped --on-error skip --quiet)" 0
  same "$(millrace read skipped --print keys --quiet | wc -l)" 41
  same "$(status_of millrace convert dataset some kept --on-error skip)" 0
  contains "$(cat errors)" ring/0003.jpg
  same "$(sed -n 's/^skipped  *//p' out)" 1
  same "$(status_of millrace convert dataset some none --on-error skip --max-errors 0)" 1
  same "$(status_of millrace convert dataset some all --on-error skip --max-errors 10%)" 0
}

# stop_after PATH STATUS OPTION...: stops a conversion of many shards with SIGTERM once PATH exists.
stop_after() {
  local created_path=$1 expected_status=$2 pid status=0
  shift 2
  MILLRACE_FAULT=commit:delay=1s setsid "$MILLRACE" convert dataset "$data/clothing/train" stopped -j 1 --shard-bytes 5MiB --quiet "$@" \
    >/dev/null 2>errors & # so that the signal arrives long before the end
  pid=$!
  until [[ -e $created_path ]]; do kill -0 $pid; sleep 0.02; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status "$expected_status"
  one_line errors
}

a_stopped_conversion_names_the_command_to_resume() {
  [[ -d $data/clothing/train ]] || skip "no test data at $data/clothing/train (set MILLRACE_TEST_DATA)"
  stop_after stopped/.millrace-convert.jsonl 1 # nothing was saved
  contains "$(cat errors)" "nothing was saved"
  [[ ! -e stopped ]]
  stop_after stopped/shard-000001.tar 75
  contains "$(cat errors)" "complete shards are kept: run the same command again with --resume"
  stop_after stopped/shard-000003.tar 75 --resume
  contains "$(cat errors)" "complete shards are kept: run the same command again"
  [[ ! -e stopped/dataset.json ]]
  millrace convert dataset "$data/clothing/train" stopped --shard-bytes 5MiB --resume --quiet >/dev/null
  millrace convert dataset "$data/clothing/train" whole --shard-bytes 5MiB --quiet >/dev/null
  diff -r stopped whole
}

classes_of() {
  "$python" -c 'import json, sys; print(*json.load(open(sys.argv[1]))["millrace"]["classes"])' "$1/dataset.json"
}

a_folder_of_splits_becomes_one_dataset_per_split() {
  need_python
  [[ -d $data/clothing ]] || skip "no test data at $data/clothing (set MILLRACE_TEST_DATA)"
  mkdir clothing
  local split folder
  for split in train validation test; do
    for folder in "$data/clothing/$split"/*; do
      mkdir -p "clothing/$split/${folder##*/}"
      find "$folder" -name '*.jpg' | sort | sed -n 1,2p | xargs cp -t "clothing/$split/${folder##*/}"
    done
  done
  rm -r clothing/validation/dress clothing/test/hat
  millrace convert dataset clothing clothes --json >report 2>errors
  contains "$(cat errors)" "clothing has the splits test, train, validation: converting each to a dataset, with 10 common classes"
  same "$(json '[(s["name"], s["dataset"], s["samples_count"]) for s in d["splits"]]' report)" \
    "[('test', 'clothes/test', 18), ('train', 'clothes/train', 20), ('validation', 'clothes/validation', 18)]"
  for split in train validation test; do
    same "$(classes_of "clothes/$split" | wc -w)" 10
    millrace verify "clothes/$split" >/dev/null
  done
  same "$(status_of millrace convert dataset clothing again --split a=0.5,b=0.5)" 2
  contains "$(cat errors)" "remove --split,"
  millrace convert dataset clothing as-classes --split-folders no --quiet >/dev/null
  same "$(classes_of as-classes)" "test train validation"
}

unmatched_files_are_listed_and_can_be_ignored() {
  cp -r photos odd
  touch odd/ring/a.tif odd/ring/Thumbs.db odd/ring/notes.xml
  same "$(status_of millrace convert dataset odd odd-shards)" 1
  contains "$(cat errors)" ".tif: 1 without a sample; the first: ring/a.tif"
  contains "$(cat errors)" "--ignore '*.tif' --ignore '*.xml'"
  [[ ! -e odd-shards ]]
  same "$(status_of millrace convert dataset odd odd-shards --ignore '*.tif' --ignore '*.xml')" 0
  same "$(sed -n 's/^samples  *//p' out) $(sed -n 's/^hidden  *//p' out) $(sed -n 's/^ignored  *//p' out)" "42 1 2"
}

a_target_inside_the_source_is_refused() {
  ln -s photos link
  for target in photos photos/shards link/ring/x ./link/../photos/y .; do
    same "$(status_of millrace convert dataset photos "$target")" 2
    one_line errors
  done
  same "$(find photos -name '*.tar' -o -name '.*')" ""
}

# Converts to a file system too small for all photos.
a_full_disk_is_reported_once_with_advice() {
  unshare -m true 2>/dev/null || skip "cannot mount here"
  mkdir tiny
  unshare -m bash -ec '
    mount -t tmpfs -o size=64k none tiny
    status=0
    "$MILLRACE" convert dataset photos tiny/one --shard-bytes 1GiB --quiet 2>errors || status=$?
    echo "$status $(find tiny -mindepth 1 | wc -l)" >seen
    "$MILLRACE" convert dataset photos tiny/many --shard-bytes 20KiB --quiet 2>errors-many || echo "$?" >>seen' >/dev/null
  same "$(cat seen)" "1 0
1"
  one_line errors
  contains "$(cat errors)" "No space left on device"
  contains "$(cat errors)" "free at least 1 MiB on the file system of tiny/one, or give another DST; then run the same command again"
  one_line errors-many
  contains "$(cat errors-many)" "then run the same command again with --resume"
  for fault in 'finalize:enospc' 'write:enospc@1' 'commit:enospc'; do
    same "$(MILLRACE_FAULT=$fault status_of millrace convert dataset photos full --quiet)" 1
    one_line errors
    contains "$(cat errors)" "free at least"
    [[ ! -e full ]] || fail "$fault leaves $(find full)"
  done
}

concurrent_conversions_into_one_folder_are_refused() {
  local pid
  MILLRACE_FAULT=commit:hold:shard-000001 "$MILLRACE" convert dataset photos busy --shard-bytes 20KiB --quiet >/dev/null 2>&1 &
  pid=$!
  until [[ -e busy/shard-000000.tar ]]; do kill -0 $pid; sleep 0.02; done
  local before
  before=$(find busy | grep -v '/\.tmp-')
  for way in "" --resume --force; do
    same "$(status_of millrace convert dataset photos busy --shard-bytes 20KiB --quiet $way)" 1
    one_line errors
    contains "$(cat errors)" "another process owns the folder: busy: found owner host=$(uname -n) pid=$pid "
    contains "$(cat errors)" "wait for it, stop it, or use another folder"
    same "$(find busy | grep -v '/\.tmp-')" "$before"
  done
  kill -9 $pid
  wait $pid || :
  millrace convert dataset photos busy --shard-bytes 20KiB --resume --quiet >/dev/null
  millrace convert dataset photos idle --shard-bytes 20KiB --quiet >/dev/null
  diff -r busy idle
  same "$(find busy -name '.*')" ""
}

impossible_options_are_wrong_usage() {
  echo "Hello world" >words.txt
  same "$(status_of millrace convert dataset words.txt tokens --tokenizer llama)" 2
  one_line errors
  contains "$(cat errors)" "the tokenizer is unknown: expected bytes, gpt2 or the path of a tokenizer.json, found llama"
  same "$(status_of millrace convert dataset words.txt tokens --split a=0.5,b=0.6)" 2
  same "$(status_of millrace convert dataset words.txt words.txt)" 2
  [[ ! -e tokens ]]
}

gpt2_tokens_need_the_vocabulary() {
  [[ -d $data/bpe ]] || skip "no test data at $data/bpe (set MILLRACE_TEST_DATA)"
  echo "Hello world" >hello.txt
  same "$(status_of millrace convert dataset hello.txt tokens --tokenizer gpt2)" 2
  contains "$(cat errors)" --vocab
  same "$(status_of millrace convert dataset hello.txt tokens --vocab "$data/bpe")" 2
  millrace convert dataset hello.txt tokens --tokenizer gpt2 --vocab "$data/bpe" --quiet >/dev/null
  same "$(tar xOf tokens/shard-000000.tar tokens-00000000.npy | tail -c 8 | od -An -tu2 | xargs)" "15496 995 198 50256"
}

masks_next_to_photos_are_fields_if_listed() {
  need_python
  mkdir masks
  cp photos/ring/0001.jpg masks/a.jpg
  cp photos/ring/0002.jpg masks/a.b.jpg # a photo of its own
  "$python" - masks/a.seg.png <<'PY'
import struct, sys, zlib
chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\0" + bytes(x // 8 % 3 for x in range(40)) for _ in range(40))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 40, 8, 0, 0, 0, 0)) +
                              chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PY
  same "$(status_of millrace convert dataset masks refused)" 2
  contains "$(cat errors)" "a.seg.png"
  contains "$(cat errors)" "--fields jpg,seg.png"
  [[ ! -e refused ]]
  millrace convert dataset masks raw --fields jpg,seg.png --store raw --max-side 20 --quiet >/dev/null 2>warnings
  same "$(tar tf raw/shard-000000.tar | sort | xargs)" "a.ppm a.seg.png a_b.ppm"
  tar xOf raw/shard-000000.tar a.seg.png | cmp - masks/a.seg.png
  contains "$(cat warnings)" "not field seg.png"
  millrace convert dataset masks apart --fields jpg,png --quiet >/dev/null
  same "$(tar tf apart/shard-000000.tar | sort | xargs)" "a.jpg a_b.jpg a_seg.png"
}

run_cases any_number_of_threads_gives_the_same_bytes splits_partition_the_photos \
  json_reports_what_was_done on_error_stops_or_skips_a_broken_photo a_stopped_conversion_names_the_command_to_resume \
  a_folder_of_splits_becomes_one_dataset_per_split unmatched_files_are_listed_and_can_be_ignored \
  a_target_inside_the_source_is_refused a_full_disk_is_reported_once_with_advice \
  concurrent_conversions_into_one_folder_are_refused \
  impossible_options_are_wrong_usage gpt2_tokens_need_the_vocabulary masks_next_to_photos_are_fields_if_listed
