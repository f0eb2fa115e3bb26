#!/usr/bin/env bash
# `millrace inspect` and `millrace verify` of intact and damaged files, and errors about paths.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 6 --side 40 photos >/dev/null
millrace convert dataset photos good --quiet >/dev/null
copy_good() { rm -rf bad; cp -r good bad; chmod -R u+w bad; }
# flip FILE OFFSET: inverts one bit of that byte
flip() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  printf "\\x$(printf %02x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

an_intact_dataset_passes() {
  same "$(status_of millrace verify good)" 0 "$(cat errors 2>/dev/null)"
  same "$(status_of millrace verify good/shard-000000.tar)" 0
  need_python
  millrace verify good --json >report
  same "$(json 'd["bad_count"], d["bad"], d["samples_count"], d["members_count"]' report)" "(0, [], 42, 84)"
}

a_flipped_bit_anywhere_is_found() {
  local size offset
  size=$(stat -c %s good/shard-000000.tar)
  for ((offset = 3; offset < size; offset += size / 23)); do
    copy_good
    flip bad/shard-000000.tar "$offset"
    same "$(status_of millrace verify bad)" 1 "status after a flip at $offset"
    one_line errors
    grep -q '^bad: ' out || fail "nothing named after a flip at $offset"
  done
}

a_bad_member_is_named_with_sample_and_offset() {
  copy_good
  local key offset
  key=$(tar tf bad/shard-000000.tar | grep '\.jpg$' | sed -n '5s/\.jpg$//p')
  # GNU tar numbers the header's block, so the data starts one block later
  offset=$(($(tar tRf bad/shard-000000.tar | sed -n "s/^block \([0-9]*\): ${key//\//\\/}\.jpg$/\1/p") * 512 + 512 + 100))
  flip bad/shard-000000.tar $offset
  same "$(status_of millrace verify bad/shard-000000.tar)" 1
  contains "$(cat out)" "$key"
  contains "$(cat out)" "bad/shard-000000.tar at "
}

a_truncated_grown_or_missing_shard_is_bad() {
  copy_good
  truncate -s -512 bad/shard-000000.tar
  same "$(status_of millrace verify bad)" 1
  copy_good
  echo more >>bad/shard-000000.tar
  same "$(status_of millrace verify bad)" 1
  copy_good
  rm bad/shard-000000.tar
  same "$(status_of millrace verify bad)" 1
  contains "$(cat out errors)" shard-000000.tar
}

an_undecodable_jpeg_with_valid_checksums_is_named() {
  [[ -d $data/jpeg-malformed ]] || skip "no test data at $data/jpeg-malformed (set MILLRACE_TEST_DATA)"
  mkdir -p broken/a
  cp photos/ring/0001.jpg broken/a/whole.jpg
  head -c 900 photos/ring/0002.jpg >broken/a/cut.jpg
  same "$(status_of millrace convert dataset broken shards)" 1
  contains "$(cat errors)" cut.jpg
  [[ ! -e shards/dataset.json ]]
  millrace convert dataset broken shards --on-error skip >out 2>errors
  grep -q cut.jpg errors
  same "$(millrace read shards --print keys --quiet | wc -l)" 1
}

# class_shards TEXT...: writes the dataset `classes` with two class names and one photo per TEXT; the
# TEXT is its cls.
class_shards() {
  local n=0 text
  rm -rf numbered classes
  mkdir numbered
  for text in "$@"; do
    cp photos/ring/0001.jpg numbered/$n.jpg
    printf -- "$text" >numbered/$((n++)).cls
  done
  millrace convert dataset numbered classes --quiet >/dev/null
  chmod u+w classes/dataset.json
  "$python" -c 'import json
d = json.load(open("classes/dataset.json"))
d["millrace"]["classes"] = ["a", "b"]
json.dump(d, open("classes/dataset.json", "w"))'
}

verify_loader_and_inspect_accept_the_same_class_numbers() {
  need_python
  local text
  class_shards '0' '1\n' '1 \t\r\n' '0001'
  same "$(status_of millrace verify classes)" 0 "$(cat out errors)"
  same "$(status_of millrace read classes --decode image --print none)" 0 "$(cat errors)"
  same "$(status_of millrace inspect classes --html page.html)" 0
  ! grep -q "have no valid number in cls" page.html || fail "the page counts a valid number"
  for text in '' '2' '-1' '+1' ' 1' '1x' '1 1' '99999999999999999999' '1%040d'; do
    class_shards "$text"
    same "$(status_of millrace verify classes)" 1 "status of verify for \"$text\""
    same "$(status_of millrace read classes --decode image --print none)" 1 "status of read for \"$text\""
  done
  for text in '-1' '+1' ' 1' '1x' '1%040d'; do
    class_shards "$text"
    same "$(status_of millrace inspect classes --html page.html --force)" 0
    grep -q "1 have no valid number in cls" page.html || fail "the page counts \"$text\""
  done
}

# pack NAME: makes a tar of the folder NAME.
pack() { tar cf "$1.tar" --sort=name -C "$1" .; }

samples_unusable_for_training_are_named_and_counted() {
  need_python
  local n
  rm -rf mixed
  mkdir mixed
  for n in 0 1 2 3 4 5; do
    cp photos/ring/0001.jpg mixed/$n.jpg
    echo 1 >mixed/$n.cls
  done
  pack mixed
  same "$(status_of millrace verify mixed.tar)" 0 "$(cat out)"
  rm mixed/1.cls mixed/2.jpg
  echo x >mixed/3.cls
  pack mixed
  head -c 100 /dev/zero >mixed/5.jpg
  same "$(status_of millrace verify mixed.tar --json)" 1
  same "$(json 'd["bad_count"], d["bad_by_kind"]' out)" "(3, {'fields': 1, 'label': 2})"
  for n in 'sample ./1: the sample lacks the field "cls": mixed.tar at' 'sample ./2: the sample lacks the field "jpg"' 'invalid class number in ./3.cls'; do
    contains "$(cat out)" "${n//\"/\\\"}"
  done
  pack mixed
  same "$(status_of millrace verify mixed.tar)" 1
  contains "$(cat out)" "undecodable image in ./5.jpg"
  # images of any format are interchangeable, and other fields may be absent
  echo caption >mixed/0.txt
  cp photos/ring/0001.jpg mixed/2.jpeg
  mv mixed/5.jpg mixed/5.txt
  rm mixed/5.txt mixed/5.cls
  echo 1 >mixed/1.cls
  echo 0 >mixed/3.cls
  pack mixed
  same "$(status_of millrace verify mixed.tar)" 0 "$(cat out)"
}

a_dataset_with_labels_needs_one_in_each_sample() {
  need_python
  class_shards 0 1
  "$python" -c 'import json
d = json.load(open("classes/dataset.json"))
d["millrace"]["classes"] = ["a"]
json.dump(d, open("classes/dataset.json", "w"))'
  same "$(status_of millrace verify classes --json)" 1
  same "$(json 'd["bad_by_kind"]' out)" "{'label': 1}"
  rm -rf unlabeled bare
  mkdir unlabeled
  cp photos/ring/0001.jpg photos/ring/0002.jpg unlabeled
  millrace convert dataset unlabeled bare --quiet >/dev/null
  same "$(status_of millrace verify bare)" 0
  chmod u+w bare/dataset.json
  sed -i 's/"classes":\[\]/"classes":["a"]/' bare/dataset.json
  same "$(status_of millrace verify bare)" 0 "classes may be those of boxes"
  sed -i 's/"fields":\["jpg"\]/"fields":["cls","jpg"]/' bare/dataset.json
  same "$(status_of millrace verify bare --json)" 1
  same "$(json 'd["bad_by_kind"]' out)" "{'label': 2}"
}

truncated_images_are_found_by_decoding() {
  need_python
  local n size
  rm -rf cuts
  mkdir cuts
  size=$(stat -c %s photos/ring/0001.jpg)
  for n in $(seq -w 0 299); do
    cp photos/ring/0001.jpg cuts/$n.jpg
    if ((10#$n % 100 == 7)); then head -c $((size / 2)) photos/ring/0001.jpg >cuts/$n.jpg; fi
  done
  pack cuts
  same "$(status_of millrace verify cuts.tar)" 0 "$(cat out)"
  same "$(status_of millrace verify cuts.tar --decode --json)" 1
  same "$(json 'd["bad_count"], d["bad_by_kind"], [line.split(" in ")[1].split(":")[0] for line in d["bad"]]' out)" \
    "(3, {'image': 3}, ['./007.jpg', './107.jpg', './207.jpg'])"
  same "$(status_of millrace verify cuts.tar --decode)" 1
  same "$(grep -c '^bad: undecodable JPEG in ./.07.jpg: cuts.tar at ' out)" 3
}

# Without an option, `read` stops at a bad sample; the advised option works as described.
unreadable_samples_are_skipped_on_request() {
  need_python
  local key position
  copy_good
  key=$(tar tf bad/shard-000000.tar | grep '\.jpg$' | sed -n '5s/\.jpg$//p')
  flip bad/shard-000000.tar $(($(tar tRf bad/shard-000000.tar | sed -n "s/^block \([0-9]*\): ${key//\//\\/}\.jpg$/\1/p") * 512 + 612))
  same "$(status_of millrace read bad)" 1
  one_line errors
  contains "$(cat errors)" "$key"
  contains "$(cat errors)" "--on-error skip"
  position=$(millrace read good --batch 1 --micro 1 --print keys --quiet | awk -v key="$key" -F '\t' '$2 == key {print $1}')
  for decode in none image; do
    rm -rf files
    same "$(status_of millrace read bad --decode $decode --on-error skip --print keys --out files --json)" 0
    cut -f 2 out | sort >delivered
    tar tf bad/shard-000000.tar | grep '\.jpg$' | sed 's/\.jpg$//' | grep -vxF "$key" | sort | cmp - delivered
    same "$(find files -type f | grep -cF "$key")" 0 "files of the omitted sample"
    grep -F "$key" errors | grep -q 'left out' || fail "not named: $(cat errors)"
    sed -n '$p' errors >summary
    same "$(json 'd["samples_count"], d["skipped_count"]' summary)" "(41, 1)"
  done
  # the digest lacks only its term
  millrace read good --batch 1 --micro 1 --json >whole
  millrace read good --batch 1 --micro 1 --start "$position" --count 1 --json >one
  same "$(json '"%016x" % ((int(d[0]["once"], 16) - int(d[1]["once"], 16)) % 2**64)' <(cat whole one))" \
    "$(millrace read bad --batch 1 --micro 1 --on-error skip --json 2>/dev/null >rest; json 'd["once"]' rest)"
  same "$(status_of millrace read bad --on-error skip --max-errors 1)" 0
  same "$(status_of millrace read bad --on-error skip --max-errors 3%)" 0 # 1 of 42 is 2.4 %
  for limit in 0 2%; do
    same "$(status_of millrace read bad --on-error skip --max-errors $limit)" 1 "status beyond $limit"
    contains "$(sed -n '$p' errors)" "found 1; "
  done
  same "$(status_of millrace read bad --max-errors 3)" 2
  for wrong in x "" 101% 100.1% nan nan% inf inf% 0x10 1e3 -1 +1 " 1" "1 " 1.5 . % .% 1.2.3% 1%% 1e999% 9999999999999999; do
    same "$(status_of millrace read bad --on-error skip --max-errors "$wrong")" 2 "status of \"$wrong\""
    contains "$(cat errors)" "--max-errors"
  done
  for right in 1 1.0 2.5% 100%; do
    same "$(status_of millrace read bad --on-error skip --max-errors $right)" 0 "status of $right"
  done
  millrace read good --on-error skip --json >whole
  same "$(json 'd["samples_count"], d["skipped_count"]' whole)" "(42, 0)"
}

inspect_names_a_dataset_the_same_with_and_without_a_page() {
  need_python
  for path in good good/dataset.json good/shard-000000.tar; do
    rm -f page.html
    millrace inspect "$path" --json >plain
    millrace inspect "$path" --html page.html --json >paged
    same "$(json 'd["path"]' plain)" "$path"
    same "$(json 'd["path"]' paged)" "$path"
  done
}

inspect_identifies_a_path() {
  need_python
  local path
  for path in good good/dataset.json good/shard-000000.tar; do
    millrace inspect $path --json >"report"
    same "$(json 'd["samples_count"]' report)" 42 "samples of $path"
  done
  millrace inspect good --json >report
  same "$(json 'd["kind"]' report)" dataset
  same "$(json '" ".join(d["class_names"])' report)" "circle cross moon ring square stripes triangle"
  millrace inspect good/shard-000000.tar --json >report
  same "$(json 'd["kind"], [(f["extension"], f["members_count"]) for f in d["fields"]]' report)" \
    "('shard', [('cls', 42), ('jpg', 42)])"
}

# The output fills the pipe early, so the program is still running when the signal arrives.
an_interrupted_verify_reports_its_position() {
  local pid line status=0
  mkdir junk
  head -c 1400000 /dev/zero | split -b 700 -a 4 -d --additional-suffix=.jpg - junk/
  tar cf junk.tar -C junk .
  mkfifo pipe
  "$MILLRACE" verify junk.tar >pipe 2>errors &
  pid=$!
  exec 3<pipe
  read -r line <&3
  contains "$line" "bad: undecodable image"
  kill -INT $pid
  cat <&3 >/dev/null
  wait $pid || status=$?
  same $status 1
  one_line errors
  contains "$(cat errors)" "verification was stopped on request: junk.tar at "
}

safetensors_are_verified_by_their_headers() {
  [[ -d $data/safetensors ]] || skip "no test data at $data/safetensors (set MILLRACE_TEST_DATA)"
  local file
  for file in "$data"/safetensors/valid/*.safetensors; do
    same "$(status_of millrace inspect "$file")" 0 "status of $file ($(cat errors))"
    same "$(status_of millrace verify "$file")" 0
  done
  for file in "$data"/safetensors/malformed/*.safetensors; do
    same "$(status_of millrace inspect "$file")" 1 "status of $file"
    one_line errors
    same "$(status_of millrace verify "$file")" 1
  done
}

a_missing_path_is_one_line_with_status_1() {
  local command
  for command in "inspect nowhere" "verify nowhere" "read nowhere" "train nowhere.yaml" "ckpt list nowhere" \
    "ckpt hash nowhere" "convert dataset nowhere out" "convert checkpoint nowhere out --to full" "inspect /dev/null"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $command)" 1 "status of $command"
    one_line errors
    contains "$(cat errors)" "millrace: "
    same "$(cat out)" "" "stdout of $command"
  done
}

an_existing_output_is_kept_unless_forced() {
  copy_good
  same "$(status_of millrace convert dataset photos bad)" 1
  one_line errors
  millrace verify bad --quiet >/dev/null
  millrace convert dataset photos bad --force --quiet >/dev/null
  cmp good/shard-000000.tar bad/shard-000000.tar
}

run_cases an_intact_dataset_passes a_flipped_bit_anywhere_is_found a_bad_member_is_named_with_sample_and_offset \
  a_truncated_grown_or_missing_shard_is_bad an_undecodable_jpeg_with_valid_checksums_is_named \
  samples_unusable_for_training_are_named_and_counted a_dataset_with_labels_needs_one_in_each_sample \
  truncated_images_are_found_by_decoding \
  verify_loader_and_inspect_accept_the_same_class_numbers unreadable_samples_are_skipped_on_request \
  inspect_names_a_dataset_the_same_with_and_without_a_page inspect_identifies_a_path \
  an_interrupted_verify_reports_its_position safetensors_are_verified_by_their_headers a_missing_path_is_one_line_with_status_1 \
  an_existing_output_is_kept_unless_forced
