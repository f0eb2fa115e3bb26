#!/usr/bin/env bash
# `millrace convert dataset`: what a user sees of a conversion that goes well, meets a broken photo, or is stopped.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 6 --side 40 photos >/dev/null

the_same_photos_give_the_same_bytes_whatever_the_threads() {
  millrace convert dataset photos one -j 1 --shard-bytes 20KiB --quiet >/dev/null
  millrace convert dataset photos three -j 3 --shard-bytes 20KiB --quiet >/dev/null
  diff -r one three
  [[ $(find one -name '*.tar' | wc -l) -gt 1 ]]
  millrace convert dataset photos other --seed 1 --shard-bytes 20KiB --quiet >/dev/null
  ! cmp -s one/shard-000000.tar other/shard-000000.tar || fail "another seed, the same shards"
}

splits_share_the_photos_without_overlap() {
  millrace convert dataset photos split --split train=0.7,val=0.3 --quiet >/dev/null
  tar tf split/train/shard-000000.tar | grep jpg | sort >train
  tar tf split/val/shard-000000.tar | grep jpg | sort >val
  same "$(comm -12 train val | wc -l)" 0 "photos in both"
  same "$(sort train val | wc -l)" 42
  [[ $(wc -l <val) -gt 3 ]]
  millrace verify split >/dev/null
}

json_tells_what_was_done() {
  need_python
  millrace convert dataset photos told --json --quiet >report
  same "$(json 'd["samples_count"], d["skipped_count"], d["shards_count"], d["dataset"]' report)" "(42, 0, 1, 'told')"
  same "$(json 'd["written_bytes"]' report)" "$(stat -c %s told/shard-000000.tar)"
}

a_broken_photo_stops_or_is_skipped_as_told() {
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

a_stopped_conversion_goes_on_with_the_same_command() {
  [[ -d $data/clothing/train ]] || skip "no test data at $data/clothing/train (set MILLRACE_TEST_DATA)"
  local pid status=0
  convert() { exec "$MILLRACE" convert dataset "$data/clothing/train" stopped -j 1 --shard-bytes 5MiB --resume --quiet; }
  MILLRACE_FAULT=publish:delay=1s convert >/dev/null 2>errors & # so that it is not done before it is stopped, by far
  pid=$!
  until [[ -e stopped/shard-000001.tar ]]; do kill -0 $pid; sleep 0.02; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status 75
  one_line errors
  [[ ! -e stopped/dataset.json ]]
  (convert) >/dev/null
  millrace convert dataset "$data/clothing/train" whole --shard-bytes 5MiB --quiet >/dev/null
  diff -r stopped whole
}

a_second_conversion_into_the_same_folder_is_refused_until_the_first_is_gone() {
  local pid
  MILLRACE_FAULT=publish:hold:shard-000001 "$MILLRACE" convert dataset photos busy --shard-bytes 20KiB --quiet >/dev/null 2>&1 &
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

options_that_can_not_be_are_wrong_usage() {
  echo "Hello world" >words.txt
  same "$(status_of millrace convert dataset words.txt tokens --tokenizer llama)" 2
  one_line errors
  contains "$(cat errors)" "unknown tokenizer: expected bytes or gpt2, found llama"
  same "$(status_of millrace convert dataset words.txt tokens --split a=0.5,b=0.6)" 2
  same "$(status_of millrace convert dataset words.txt words.txt)" 2
  [[ ! -e tokens ]]
}

gpt2_tokens_need_the_vocabulary_that_they_are_made_with() {
  [[ -d $data/bpe ]] || skip "no test data at $data/bpe (set MILLRACE_TEST_DATA)"
  echo "Hello world" >hello.txt
  same "$(status_of millrace convert dataset hello.txt tokens --tokenizer gpt2)" 2
  contains "$(cat errors)" --vocab
  same "$(status_of millrace convert dataset hello.txt tokens --vocab "$data/bpe")" 2
  millrace convert dataset hello.txt tokens --tokenizer gpt2 --vocab "$data/bpe" --quiet >/dev/null
  same "$(tar xOf tokens/shard-000000.tar tokens-00000000.npy | tail -c 8 | od -An -tu2 | xargs)" "15496 995 198 50256"
}

run_cases the_same_photos_give_the_same_bytes_whatever_the_threads splits_share_the_photos_without_overlap \
  json_tells_what_was_done a_broken_photo_stops_or_is_skipped_as_told a_stopped_conversion_goes_on_with_the_same_command \
  a_second_conversion_into_the_same_folder_is_refused_until_the_first_is_gone \
  options_that_can_not_be_are_wrong_usage gpt2_tokens_need_the_vocabulary_that_they_are_made_with
