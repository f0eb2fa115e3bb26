#!/usr/bin/env bash
# `millrace read`: keys, ranks, digests, files.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 30 --side 40 photos >/dev/null
millrace convert dataset photos shards --shard-bytes 100KiB --quiet >/dev/null
samples=210

# Prints the sum of two digests, mod 2^64.
add_digests() { printf '%016x' $((0x$1 + 0x$2)); }
digest() { sed -n "s/.*\"$1\":\"\([0-9a-f]\{16\}\)\".*/\1/p" "$2"; } # once|order FILE

each_sample_is_delivered_once() {
  millrace read shards --print keys >keys 2>/dev/null
  same "$(wc -l <keys)" $samples
  cut -f 1 keys | sort -n | cmp - <(seq 0 $((samples - 1)))
  for shard in shards/*.tar; do tar tf "$shard"; done | grep '\.jpg$' | sed 's/\.jpg$//' | sort >members
  cut -f 2 keys | sort | cmp - members
}

print_keys_writes_only_keys_to_stdout() {
  millrace read shards --print keys >keys 2>summary
  ! grep -vP '^\d+\t[^\t]+$' keys || fail "other lines among the keys"
  grep -q '^once  *[0-9a-f]\{16\}$' summary
  grep -q '^order  *[0-9a-f]\{16\}$' summary
  millrace read shards >summary
  grep -q '^order  *[0-9a-f]\{16\}$' summary
}

ranks_share_the_order_without_gaps_or_repeats() {
  millrace read shards --batch 48 --micro 6 --print json --json >whole 2>whole.sum
  local ranks
  for ranks in 1 2 3 4 8; do
    local once=0 order=0 rank
    : >parts
    for ((rank = 0; rank < ranks; rank++)); do
      millrace read shards --batch 48 --micro 6 --rank $rank --ranks $ranks --print json --json >>parts 2>part.sum
      once=$(add_digests "$once" "$(digest once part.sum)")
      order=$(add_digests "$order" "$(digest order part.sum)")
    done
    cmp <(sort parts) <(sort whole)
    same "$once" "$(digest once whole.sum)" "once of $ranks ranks"
    same "$order" "$(digest order whole.sum)" "order of $ranks ranks"
  done
}

a_rank_reads_the_micro_batches_it_owns() {
  # step 0 of batch 48 in micro-batches of 6: item i of micro-batch j has position i * 8 + j;
  # rank 1 of 2 owns 4..7
  millrace read shards --batch 48 --micro 6 --rank 1 --ranks 2 --count 48 --print keys 2>/dev/null | cut -f 1 >found
  for j in 4 5 6 7; do for i in 0 1 2 3 4 5; do echo $((i * 8 + j)); done; done | cmp found -
}

the_order_depends_only_on_seed_and_epoch() {
  keys() { millrace read shards --order full --print keys --quiet "$@"; }
  keys >first
  keys --workers 1 --memory 64MiB | cmp first -
  keys --batch 7 --micro 7 | sort -n | cmp - <(sort -n first)
  keys --seed 1 >other
  ! cmp -s first other || fail "another seed, the same order"
  keys --epoch 1 >other
  ! cmp -s first other || fail "another epoch, the same order"
}

start_and_count_select_a_range_of_the_same_order() {
  millrace read shards --batch 16 --micro 16 --print keys 2>/dev/null | sort -n >whole
  millrace read shards --batch 16 --micro 16 --start 48 --count 32 --print keys 2>/dev/null | sort -n >part
  sed -n '49,80p' whole | cmp - part
}

out_writes_members_unchanged() {
  millrace convert dataset photos plain --jpeg keep --shard-bytes 100KiB --quiet >/dev/null
  millrace read plain --out files >summary
  [[ -s summary ]]
  for shard in plain/*.tar; do tar xf "$shard" --one-top-level=extracted; done
  diff -r files extracted
  find files -name '*.cls' -exec rm {} +
  diff -r photos files
  same "$(status_of millrace read plain --out files)" 1
  same "$(status_of millrace read shards --out shards/files)" 2
  contains "$(cat errors)" "--out is inside the dataset being read: shards/files"
  [[ ! -e shards/files ]] || fail "it was created"
  one_line errors
  millrace read plain --out files --force --quiet >/dev/null
}

decoded_images_are_portable_pixmaps() {
  millrace read shards --decode image --size 20 --crop center --count 4 --batch 4 --micro 4 --out pixels --quiet >/dev/null
  same "$(find pixels -name '*.ppm' | wc -l)" 4
  find pixels -name '*.ppm' | while read -r file; do
    same "$(head -n 2 "$file" | tr '\n' ' ')" "P6 20 20 "
    same "$(stat -c %s "$file")" $((13 + 20 * 20 * 3))
  done
}

# (x / 255 - mean) / std in float32, rounded to halves, and Pillow's gray.
normalized_images_equal_numpy() {
  need_python
  "$python" -c 'import numpy, PIL' 2>/dev/null || skip "Python lacks NumPy or Pillow"
  local read=(millrace read shards --decode image --size 20 --crop random --flip --count 8 --batch 4 --micro 4 --quiet)
  "${read[@]}" --out bytes
  "${read[@]}" --out planes --layout chw
  "${read[@]}" --out fractions --dtype f32 -j 1
  "${read[@]}" --out halves --dtype f16 --layout chw --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --field 'image2={from: jpg}'
  "${read[@]}" --out gray --channels 1 --dtype f32 --mean 0.5 --std 0.25
  "$python" - <<'PYTHON'
import glob
import numpy as np
from PIL import Image
files = glob.glob("bytes/**/*.ppm", recursive=True)
assert len(files) == 8
for file in files:
    rgb = Image.open(file)
    load = lambda folder: np.load(file.replace("bytes/", folder + "/").replace(".ppm", ".image.npy"))
    x = np.array(rgb)
    fractions = x.astype(np.float32) / np.float32(255)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    gray = np.array(rgb.convert("L"))[..., None].astype(np.float32) / np.float32(255)
    for folder, wanted in (("planes", x.transpose(2, 0, 1)), ("fractions", fractions),
                           ("halves", ((fractions - mean) / std).astype(np.float16).transpose(2, 0, 1)),
                           ("gray", (gray - np.float32(0.5)) / np.float32(0.25))):
        given = load(folder)
        assert given.dtype == wanted.dtype and given.shape == wanted.shape and (given == wanted).all(), folder
PYTHON
  local options
  for options in '--mean 0.5' '--dtype f32 --std 0' '--dtype f32 --mean 1,2' '--channels 1 --dtype f32 --mean 1,2,3' '--layout chw --mixup 1' \
    '--layout chw --html page.html' '--dtype bf16 --out none' '--channels 2' '--dtype f16 --std 1e-9'; do
    same "$(status_of "${read[@]}" $options)" 2 "$options"
    one_line errors
  done
  same "$(status_of millrace read shards --dtype f32)" 2
  contains "$(cat errors)" "add --decode image"
}

json_reports_what_was_read() {
  need_python
  millrace read shards --json >summary
  same "$(json 'd["samples_count"]' summary)" $samples
  same "$(json 'd["epoch_samples_count"]' summary)" $samples
  [[ -n $(json 'd["engine"]' summary) ]]
  same "$(millrace read shards -j 3 --json | grep -o '"workers_count":[0-9]*')" '"workers_count":3'
  [[ -n $(json 'd["limited_by"]' summary) && -n $(json 'd["advice"]' summary) ]]
  [[ $(json 'd["first_batch_seconds"] > 0' summary) == True ]]
  millrace read shards --print json --count 9 2>/dev/null >lines
  same "$(json 'sorted(x["position"] for x in d)' lines)" "[0, 1, 2, 3, 4, 5, 6, 7, 8]"
}

micro_batches_fit_the_batch_and_empty_ones_are_not_counted() {
  need_python
  local options expected
  # 24 samples: of 64 micro-batches of 4, the first 24 have one sample each
  millrace read shards --count 24 --micro 4 --json >summary
  same "$(json 'd["batches_count"], d["samples_count"]' summary)" "(24, 24)"
  while read -r options expected; do # one complete step each: as many batches as the step has micro-batches
    millrace read shards ${options//_/ } --count "${options##*_}" --json >summary
    same "$(json 'd["batches_count"]' summary)" "$expected" "batches of $options"
  done <<'END'
--batch_16 1
--batch_32 1
--batch_36 2
--batch_37 37
--ranks_4_--batch_16 1
--ranks_3_--batch_16 1
END
  same "$(status_of millrace read shards --batch 2 --ranks 3)" 2
  contains "$(cat errors)" "more ranks than micro-batches"
}

labels_are_printed() {
  need_python
  local labels
  labels=$(for shard in shards/*.tar; do tar xOf "$shard" --wildcards '*.cls'; done | tr -d '\n') # each label has one digit
  for decode in none image; do
    millrace read shards --order sequential --batch 1 --decode $decode --size 8 --print json --quiet >lines
    same "$(json '"".join(str(x["label"]) for x in d)' lines)" "$labels" "labels with --decode $decode"
  done
}

cold_reads_and_both_engines_give_the_same_result() {
  need_python
  local engine cache
  millrace read shards --json >summary
  millrace read shards --cold --json >cold
  same "$(json 'd["order"]' cold)" "$(json 'd["order"]' summary)"
  for engine in io_uring threads; do
    [[ $engine == threads ]] || "$MILLRACE" read shards --engine $engine --quiet >/dev/null 2>&1 || continue
    for cache in auto always never; do
      millrace read shards --engine $engine --page-cache $cache --json >other
      same "$(json 'd["engine"]' other)" $engine
      same "$(json 'd["order"]' other)" "$(json 'd["order"]' summary)"
    done
  done
}

a_pass_bypasses_the_page_cache_by_default() {
  "$RENDER_SHAPES" --count 16 --side 480 large >/dev/null
  millrace convert dataset large large-shards --jpeg keep --quiet >/dev/null
  local all index=512 # pages: the shard's last MiB, and what the kernel reads ahead
  all=$(($(stat -c %s large-shards/*.tar) / 4096))
  [[ $all -gt $((2 * index)) ]] || fail "only $all pages"
  drop_cached large-shards
  millrace read large-shards --quiet >/dev/null
  [[ $(cached_pages large-shards/*.tar) -lt $index ]] || fail "$(cached_pages large-shards/*.tar) of $all pages are cached"
  drop_cached large-shards
  millrace read large-shards --page-cache always --quiet >/dev/null
  [[ $(cached_pages large-shards/*.tar) -gt $((all / 2)) ]] || fail "$(cached_pages large-shards/*.tar) of $all pages are cached"
}

quiet_prints_only_requested_results() {
  same "$(status_of millrace read shards --print keys --quiet)" 0
  same "$(wc -l <out)" $samples
  same "$(cat errors)" ""
}

a_text_window_is_named_by_member_and_number() {
  (set +o pipefail; yes 'a book that says the same for ever' | head -c 200000 >book.txt)
  millrace convert dataset book.txt tokens --keep-order --quiet >/dev/null
  # 200,001 tokens: 195 windows of 1024 and one token, 64 windows for each member of 65,536
  # tokens and its overlap
  millrace read tokens --block 1024 --order sequential --batch 1 --micro 1 --print keys --quiet | cut -f 2 >keys
  same "$(wc -l <keys)" 195
  same "$(sort -u keys | wc -l)" 195
  same "$(sed -n '1s/.*#//p;64s/.*#//p;65s/.*#//p' keys | tr '\n' ' ')" "0 63 0 "
}

# oracle_refs prints the oracle's positions as `position dataset epoch sample`; printed_refs, the program's.
oracle_refs() { echo "refs $*" | "$python" "$TEST_SOURCE_DIR/tests/oracle/order.py"; }
printed_refs() { "$python" -c 'import json, sys
for line in sys.stdin:
    d = json.loads(line)
    print(d["position"], d["dataset"], d["epoch"], d["sample"])' | sort -n; }
# Prints the lanes and the resolved order parameters of each dataset, in the oracle's format.
oracle_words() {
  "$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
print(d["lanes"])
for x in d.get("datasets", [dict(d, samples_count=d["epoch_samples_count"], weight=1)]):
    print("{samples_count}:{lanes}:{window}:{run}".format(**x), d["order_kind"], x["weight"], sep=":")' "$1"
}

the_order_matches_the_oracle() {
  need_python
  local epoch options
  for options in "--seed 3" "--seed 4 --order full" "--order sequential" "--lanes 5 --window 7 --run 2"; do
    for epoch in 0 5; do
      # shellcheck disable=SC2086
      millrace read shards $options --epoch $epoch --print json --json 2>summary | printed_refs >found
      local seed=${options#*--seed }
      [[ $options == *--seed* ]] && seed=${seed%% *} || seed=0
      # shellcheck disable=SC2046
      oracle_refs $epoch "$seed" 0 $samples $(oracle_words summary) | cmp - found
    done
  done
}

make_others() {
  [[ -d drawings ]] || { "$RENDER_SHAPES" --count 9 --side 40 photos2 >/dev/null; millrace convert dataset photos2 drawings --jpeg keep --quiet >/dev/null; }
}

a_mix_matches_the_oracle() {
  need_python
  make_others
  local mix epoch
  for mix in "--mix shards=3 --mix drawings=1" "shards --mix drawings=0.5" "--mix drawings=7 --mix shards=2 --mix drawings=1"; do
    for epoch in 0 3; do
      # shellcheck disable=SC2086
      millrace read $mix --seed 9 --epoch $epoch --print json --json 2>summary | printed_refs >found
      # shellcheck disable=SC2046
      oracle_refs $epoch 9 0 "$(json 'd["epoch_samples_count"]' summary)" $(oracle_words summary) | cmp - found
      same "$(json 'sum(x["delivered_count"] for x in d["datasets"])' summary)" "$(wc -l <found)"
    done
  done
  same "$(json 'd["epoch_samples_count"]' summary)" $((samples + 2 * 63))
}

ranks_share_a_mix_without_gaps_or_repeats() {
  make_others
  local mix="--mix shards=2 --mix drawings=3 --batch 48 --micro 6 --epoch 1" ranks rank
  # shellcheck disable=SC2086
  millrace read $mix --print json --json >whole 2>whole.sum
  same "$(wc -l <whole)" $((samples + 63))
  for ranks in 2 3 8; do
    local order=0
    : >parts
    for ((rank = 0; rank < ranks; rank++)); do
      # shellcheck disable=SC2086
      millrace read $mix --rank $rank --ranks $ranks --print json --json >>parts 2>part.sum
      order=$(add_digests "$order" "$(digest order part.sum)")
    done
    cmp <(sort parts) <(sort whole)
    same "$order" "$(digest order whole.sum)" "order of $ranks ranks"
  done
}

out_separates_the_datasets_of_a_mix() {
  make_others
  millrace read --mix shards=1 --mix drawings=2 --out mixed --quiet >/dev/null
  same "$(find mixed -name '*.jpg' | wc -l)" $((samples + 63))
  same "$(find mixed -mindepth 1 -maxdepth 1 | sort | tr '\n' ' ')" "mixed/0-0 mixed/1-0 mixed/1-1 mixed/1-2 "
  find mixed/1-0 -name '*.jpg' | while read -r file; do cmp "$file" "photos2/${file#mixed/1-0/}"; done
}

wrong_mixes_are_refused() {
  make_others
  for words in "" "--mix shards" "--mix shards=" "--mix shards=0" "--mix =1" "shards --mix drawings=1e3" "--mix shards=0.333333 --mix drawings=0.666667"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace read $words)" 2 "status of read $words"
    one_line errors
  done
  contains "$(cat errors)" "the nearest are"
  cp -r drawings renamed
  chmod -R u+w renamed
  sed -i 's/"circle"/"circus"/' renamed/dataset.json
  same "$(status_of millrace read --mix shards=1 --mix renamed=1 --decode image)" 2
  contains "$(cat errors)" "shards/dataset.json in its classes: renamed/dataset.json: expected class"
}

a_folder_that_is_not_a_dataset_is_described() {
  millrace convert dataset photos cut --split train=0.9,val=0.1 --quiet >/dev/null
  same "$(status_of millrace read cut)" 1
  one_line errors
  contains "$(cat errors)" "cut: expected dataset.json in it; give a dataset inside it, such as cut/train"
  same "$(status_of millrace read --mix photos=1 --mix shards=1)" 1
  one_line errors
  contains "$(cat errors)" "photos: expected dataset.json in it; create one from a folder of photos or text with \`millrace convert dataset\`"
}

quality_reports_batch_mixing() {
  need_python
  make_others
  millrace read shards --order full --batch 32 --micro 32 --quality --json >summary
  same "$(json '0.9 < d["quality"] < 1.1' summary)" True
  millrace read shards --order sequential --batch 32 --micro 32 --quality --json >summary
  same "$(json 'd["quality"] < 0.3' summary)" True
  millrace read --mix shards=1 --mix drawings=1 --lanes 1 --window 8 --run 32 --batch 32 --micro 32 --quality --json >summary
  same "$(json 'd["quality"] < 0.6 and d["better_quality"] > 0.95' summary)" True
  same "$(json '[x["batch_count"] for x in d["datasets"]]' summary)" "[16, 16]"
  local -a better=($(json '" ".join(str(d["datasets"][0][k]) for k in ("better_lanes", "better_window", "better_run"))' summary))
  millrace read shards --lanes "${better[0]}" --window "${better[1]}" --run "${better[2]}" --batch 16 --micro 16 --quality --json >summary
  same "$(json 'd["quality"] > 0.95' summary)" True
}

quality_reads_no_samples() {
  same "$(status_of millrace read shards --quality --fault open:kill:shard-,read:kill:shard-)" 0
}

dropping_the_cache_is_not_subject_to_faults() {
  same "$(status_of millrace read shards --cold --quality --fault open:eio@2+:dataset.json)" 0
}

a_closed_pipe_is_not_reported_as_an_error() {
  (set +o pipefail; millrace read shards --print keys --quiet 2>errors | head -n 1 >first)
  same "$(cat errors)" ""
  same "$(wc -l <first)" 1
}

a_full_disk_behind_stdout_is_an_error() {
  [[ -w /dev/full ]] || skip "no /dev/full here"
  local status=0
  millrace read shards --print keys >/dev/full 2>errors || status=$?
  same $status 1
  grep -q 'No space left' errors
}

a_disk_error_is_one_line_with_file_and_offset() {
  same "$(status_of millrace read shards --on-error skip --fault read:eio@20+:shard-)" 1
  one_line errors
  grep -q 'shards/shard-00000[0-9].tar at [0-9]*: .*Input/output error\|Input/output error: .*shard-00000[0-9].tar at [0-9]*' errors
  same "$(status_of millrace read shards --on-error skip --fault open:enoent:shard-000001)" 1
  one_line errors
  grep -q 'shard-000001.tar' errors
}

flipped_bits_give_the_same_bad_samples_every_time() {
  flips() { millrace read shards --print keys --on-error skip --fault read:flip%20:shard-,seed=3 "$@" 2>errors; }
  # a flip in an index would end the run, so the tails are read before the samples
  flips >first
  [[ -s first ]] || fail "$(cat errors)"
  grep -q 'bad sample.*CRC32C' errors
  flips --workers 1 | sort >other
  sort first | cmp - other
  flips --workers 3 --memory 64MiB | sort | cmp - other
  [[ $(wc -l <first) -lt $samples ]] || fail "no sample was bad"
  same "$(status_of millrace read shards --fault read:flip%20:shard-,seed=3)" 1
  grep -q 'CRC32C' errors
}

samples_are_selected_by_key() {
  millrace read shards --print keys --quiet | cut -f 2 | sed -n '3p;7p;20p;21p' >keys.txt
  same "$(millrace read shards --keys keys.txt --print keys --quiet | cut -f 2 | sort)" "$(sort keys.txt)"
  cat keys.txt keys.txt >twice.txt
  millrace read shards --key-order twice.txt --print keys --quiet | cut -f 2 | cmp - twice.txt
  same "$(millrace read shards --keys keys.txt --repeat 3 --print none --json | grep -o '"samples_count":[0-9]*')" '"samples_count":12'
  sed 's/$/\t0.5/' keys.txt >weights.txt
  printf 'nothing\t0\n' >>weights.txt
  same "$(status_of millrace read shards --weights weights.txt)" 2
  grep -q 'no sample with the key in line 5: weights.txt: found "nothing"; missing keys: 1 of 5' errors
  same "$(status_of millrace read shards --keys twice.txt)" 2
  grep -q 'line 5 of the list of keys repeats a key' errors
  sed -i '$d' weights.txt
  millrace read shards --weights weights.txt --print keys --quiet >whole
  for rank in 0 1; do millrace read shards --weights weights.txt --batch 4 --micro 2 --rank $rank --ranks 2 --print keys --quiet; done | sort -n | cmp - whole
}

a_replaced_shard_is_a_bad_sample_by_number() {
  cp -r shards replaced
  cp replaced/shard-000000.tar replaced/shard-000001.tar
  same "$(status_of millrace read replaced)" 1
  one_line errors
  grep -Eq 'sample [0-9]+ cannot be used: the shard does not match dataset.json.*replaced/shard-000001.tar' errors
  rm -r replaced
}

a_slow_disk_does_not_change_what_is_delivered() {
  millrace read shards --print keys --quiet >keys
  millrace read shards --print keys --json --fault read:delay=30ms%50 2>summary | cmp keys -
  grep -q '"engine":"[a-z_]* with faults"' summary
  ! grep -q '"faults_count":0[,}]' summary || fail "no read was delayed"
}

a_shrinking_file_loses_only_its_samples() {
  millrace read shards --json --on-error skip --fault read:short@20:shard- >summary 2>errors
  grep -q 'the shard ends too early' errors
  ! grep -q '"skipped_count":0,' summary || fail "nothing was skipped"
}

a_stuck_read_is_named_and_ends_the_run_in_time() {
  same "$(status_of millrace read shards --order sequential --timeout 200ms --fault read:hold@2+:shard-000000)" 1
  grep -q '^warning: no micro-batch for .*: waiting ' errors
  grep -q '^millrace: no micro-batch within 0.2 s: waiting ' errors # waiting for the read, unless it has not been started yet
}

keys_with_dots_and_spaces_are_read() {
  mkdir -p 'a.b c' named
  local photo
  photo=$(find photos -name '*.jpg' -print -quit)
  cp "$photo" 'a.b c/one two.1.jpg'
  cp "$photo" 'a.b c/one two.left eye.jpg'
  cp "$photo" 'a.b c/three  four.jpg'
  tar cf named/x.tar 'a.b c/one two.1.jpg' 'a.b c/one two.left eye.jpg' 'a.b c/three  four.jpg'
  millrace read named/x.tar --order sequential --batch 1 --micro 1 --print keys --quiet | cut -f 2 >keys
  printf '%s\n' 'a.b c/one two' 'a.b c/three  four' | cmp - keys
  millrace read named/x.tar --out named/files --quiet >/dev/null
  cmp "$photo" 'named/files/a.b c/one two.left eye.jpg'
}

# Samples with a caption, a large member in between, and an array that NumPy wrote.
make_records() {
  "$python" -c 'import numpy' 2>/dev/null || skip "Python has no numpy"
  [[ -d records ]] && return
  mkdir records
  "$python" - <<'PYTHON'
import io, os, tarfile
import numpy as np
tar = tarfile.open("records/r.tar", "w")
def add(name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))
for i in range(40):
    array = io.BytesIO()
    np.save(array, np.arange(i % 4 * 6).reshape(i % 4, 3, 2).astype(np.float16))
    add(f"k{i:02}.emb.npy", array.getvalue())
    if i != 8:
        add(f"k{i:02}.json", f'{{"a": {{"b": [{i}, {i / 4}]}}, "t": "\\u00e9{i}", "good": {"true" if i % 2 else "null"}}}'.encode())
    add(f"k{i:02}.mp4", os.urandom(200000))
    if i != 9:
        add(f"k{i:02}.txt", f'a "café" {i}\n'.encode() + (b"\0" if i == 7 else b""))
tar.close()
PYTHON
}

only_the_requested_fields_are_read() {
  make_records
  local fields=(--field 'caption={from: "nothing;txt", decode: str}' --field 'e={from: emb.npy, decode: array, dtype: f16, rank: 3}' --field stored=txt)
  millrace read records/r.tar "${fields[@]}" --order sequential --on-error skip --print json --out records/out --json >lines 2>summary
  same "$(sed -n 8p lines)" '{"position":7,"dataset":0,"epoch":0,"sample":7,"key":"k07","fields":{"caption":"a \"café\" 7\u000a\u0000","e":[3,3,2],"stored":13}}'
  same "$(grep -c . lines)" 39
  contains "$(cat summary)" '"skipped_count":1'
  local read_bytes
  read_bytes=$(sed -n 's/.*"read_bytes":\([0-9]*\).*/\1/p' summary)
  ((read_bytes < 40 * 200000 / 10)) || fail "read $read_bytes bytes"
  "$python" - <<'PYTHON'
import io, tarfile
import numpy as np
tar = tarfile.open("records/r.tar")
for member in tar:
    key, extension = member.name.split(".", 1)
    stored = tar.extractfile(member).read()
    if key == "k09" or extension in ("mp4", "json"):
        continue
    if extension == "txt":
        assert open(f"records/out/{key}.caption", "rb").read() == stored
        assert open(f"records/out/{key}.stored", "rb").read() == stored
    else:
        wanted, found = np.load(io.BytesIO(stored)), np.load(f"records/out/{key}.e.npy")
        assert wanted.dtype == found.dtype and wanted.shape == found.shape and (wanted == found).all()
PYTHON
  same "$(millrace read records/r.tar --order full --count 30 --on-error skip --json | grep -o '"once":"[^"]*","order":"[^"]*"')" \
    "$(millrace read records/r.tar --order full --count 30 --on-error skip --field e=emb.npy --json | grep -o '"once":"[^"]*","order":"[^"]*"')"
}

values_come_from_json() {
  make_records
  local fields=(--field 'i={from: json, path: "$.a.b[0]", decode: int, default: -1}' --field 'x={from: json, path: "$.a.b[1]", decode: f32, default: 1e-3}'
    --field "t={from: json, path: \"\$['t']\", decode: str, default: none}" --field 'g={from: json, path: $.good, decode: bool, default: false}')
  millrace read records/r.tar "${fields[@]}" --order sequential --count 10 --print json --out records/values --quiet >lines
  same "$(sed -n 8p lines)" '{"position":7,"dataset":0,"epoch":0,"sample":7,"key":"k07","fields":{"i":7,"x":1.75,"t":"é7","g":true}}'
  same "$(sed -n 9p lines)" '{"position":8,"dataset":0,"epoch":0,"sample":8,"key":"k08","fields":{"i":-1,"x":0.001,"t":"none","g":false}}'
  same "$(cat records/values/k06.{i,x,t,g})" $'6\n1.5\né6false'
  same "$(status_of millrace read records/r.tar --field 'i={from: json, path: $.t, decode: int, default: 0}')" 1
  grep -q 'field "json" at \$.t has the wrong type: expected an integer' errors
}

# Random documents: the text of a field and what is printed have the values that Python's json reads.
json_equals_that_of_python() {
  need_python
  "$python" - <<'PYTHON'
import io, json, random, tarfile
r = random.Random(3)
parts = ["a", " ", "\"", "\\", "\n", "\t", "/", "\x7f", "\u00e9", "\u2028", "\U0001f600", "{", "]"]
word = lambda: "".join(r.choices(parts, k=r.randrange(6)))
def value(depth=0):
    kind = r.randrange(8 if depth < 5 else 5)
    return [r.random() < 0.5, r.randrange(-2**63, 2**63), r.gauss(0, 1) * 10 ** r.randrange(-300, 300), word(), r.choice([1e8, -3e5, 1e-4, 0.0]),
            None, [value(depth + 1) for _ in range(r.randrange(4))] if kind == 6 else 0,
            {word(): value(depth + 1) for _ in range(r.randrange(4))} if kind == 7 else 0][kind]
with tarfile.open("documents.tar", "w") as tar:
    for i in range(300):
        data = json.dumps({"v": [value(), i], "other": value()}, ensure_ascii=i % 2 == 0, indent=i % 3 or None).encode()
        info = tarfile.TarInfo(f"{i:03}.json")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
PYTHON
  millrace read documents.tar --field 'all={from: json, decode: json}' --field 'v={from: json, path: $.v, decode: json}' \
    --field 'first={from: json, path: "$.v[0]", decode: json, default: "{\"none\": 1}"}' --batch 8 --print json --out documents --quiet >lines
  "$python" - <<'PYTHON'
import json, tarfile
tar = tarfile.open("documents.tar")
lines = [json.loads(line) for line in open("lines", newline="\n")]
assert len(lines) == 300
for line in lines:
    stored = tar.extractfile(line["key"] + ".json").read()
    read = lambda name: open(f"documents/{line['key']}.{name}", "rb").read()
    document, fields = json.loads(stored), line["fields"]
    assert read("all") == stored and fields["all"] == document
    assert list(fields["all"]) == ["v", "other"] # the members keep their order
    assert json.loads(read("v")) == fields["v"] == document["v"] and len(read("v")) <= 3 * len(stored)
    first = document["v"][0]
    assert fields["first"] == json.loads(read("first")) == ({"none": 1} if first is None else first)
PYTHON
  printf '{"a": 1' >bad.json
  tar cf bad.tar bad.json
  same "$(status_of millrace read bad.tar --field 'x={from: json, decode: json, default: 0}')" 1
  contains "$(cat errors)" "not valid JSON"
  same "$(status_of millrace read bad.tar --field 'x={from: json, decode: json, default: "{"}')" 2
}

images_may_have_more_fields() {
  millrace read shards --count 20 --decode image --size 32 --field file=jpg --field class=cls --out with-files --print json --quiet >lines
  same "$(find with-files -name '*.file' | wc -l)" 20
  local name
  for name in with-files/*/*.file; do
    same "$(head -c 3 "$name" | od -An -tx1 | tr -d ' ')" ffd8ff
    [[ -s ${name%.file}.ppm && -s ${name%.file}.class ]]
  done
  contains "$(head -1 lines)" '"fields":{"file":'
}

labels_and_boxes_follow_images() {
  mkdir -p followers
  "$python" - <<'PYTHON'
import io, json, tarfile
import numpy as np
from PIL import Image
tar = tarfile.open("followers/r.tar", "w")
def add(name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
def png(image):
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
generator = np.random.default_rng(1)
for i in range(20):
    height, width = 30 + i, 70 - 2 * i
    mask = Image.fromarray(generator.integers(0, 200, (height, width), dtype=np.uint8), "P")
    mask.putpalette([k * 7 % 256 for k in range(768)])
    corners = generator.integers(0, 20, (i % 4, 2))
    boxes = np.concatenate([corners, generator.integers(1, 10, (i % 4, 2))], 1)
    add(f"k{i:02}.json", json.dumps({"boxes": boxes.tolist(), "classes": list(range(i % 4))}).encode())
    add(f"k{i:02}.png", png(Image.new("RGB", (width, height))))
    add(f"k{i:02}.seg.png", png(mask))
tar.close()
PYTHON
  local fields=(--field 'mask={from: seg.png, decode: labels, follows: image}'
    --field 'wide={from: seg.png, decode: labels, follows: image, dtype: i64}'
    --field 'boxes={from: json, path: $.boxes, decode: boxes, follows: image, box_format: xywh}'
    --field 'classes={from: json, path: $.classes, decode: array, dtype: i64, follows: boxes}')
  millrace read followers/r.tar --decode image --size 32 --crop none "${fields[@]}" --order sequential --print json --out followers/out --quiet >lines
  same "$(sed -n 8p lines)" '{"position":7,"dataset":0,"epoch":0,"sample":7,"key":"k07","fields":{"mask":[32,32],"wide":[32,32],"boxes":[3,4],"classes":[3]}}'
  millrace read followers/r.tar --decode image --size 32 --crop random "${fields[@]}" --order sequential --out followers/cropped --quiet
  "$python" - <<'PYTHON'
import io, json, tarfile
import numpy as np
from PIL import Image
tar = tarfile.open("followers/r.tar")
lost = 0
for i in range(20):
    def read(name):
        return tar.extractfile(f"k{i:02}.{name}").read()
    def load(folder, name):
        return np.load(f"followers/{folder}/k{i:02}.{name}.npy")
    stored = np.array(Image.open(io.BytesIO(read("seg.png"))))
    height, width = stored.shape
    rows, columns = ((2 * np.arange(32) + 1) * side // 64 for side in (height, width))
    assert (load("out", "mask") == stored[rows[:, None], columns]).all()
    assert load("out", "wide").dtype == np.int64 and (load("out", "wide") == load("out", "mask")).all()
    boxes = np.array(json.loads(read("json"))["boxes"]).reshape(-1, 4).astype(float)
    boxes[:, 2:] += boxes[:, :2]
    wanted = (np.minimum(boxes, [width, height] * 2) * 32 / np.array([width, height] * 2)).astype(np.float32)
    assert load("out", "boxes").dtype == np.float32 and (load("out", "boxes") == wanted).all()
    assert (load("out", "classes") == np.arange(i % 4)).all()
    cropped, classes = load("cropped", "boxes"), load("cropped", "classes")
    assert len(cropped) == len(classes) <= i % 4 and (cropped >= 0).all() and (cropped <= 32).all()
    assert (cropped[:, 2:] > cropped[:, :2]).all()
    lost += i % 4 - len(classes)
assert lost > 0
PYTHON
  same "$(status_of millrace read followers/r.tar --decode image --mixup 1 "${fields[@]}")" 2
  grep -q 'turn them off' errors
  same "$(status_of millrace read followers/r.tar "${fields[@]}")" 2
  grep -q 'a record has no image' errors
}

# JSON with an object for each thing, and names instead of class numbers.
objects_with_names_become_arrays() {
  need_python
  printf 'cat\nsmall dog\n12\n' >names.txt
  "$python" - <<'PYTHON'
import io, json, tarfile
ppm = b"P6 40 30 255\n" + bytes(40 * 30 * 3)
tar = tarfile.open("objects.tar", "w")
def add(name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
for i in range(6):
    objects = [{"bbox": [k, k, 5, 6], "name": ["cat", "small dog", 12][k % 3], "v": {"n": k}} for k in range(i)]
    add(f"k{i}.json", json.dumps({"objects": objects, "kind": "small dog"}).encode())
    add(f"k{i}.ppm", ppm)
    add(f"k{i}.txt", b"small dog\n")
add("k6.json", b'{"objects": [{"bbox": [0, 0, 1, 1], "name": "bird", "v": {"n": 0}}], "kind": "bird"}')
add("k6.ppm", ppm)
add("k6.txt", b"bird")
add("k7.json", b'{"objects": [{"bbox": [0, 0, 1, 1], "name": "cat", "v": {}}], "kind": "cat"}')
add("k7.ppm", ppm)
add("k7.txt", b"cat")
add("k8.ppm", ppm)
add("k8.txt", b"cat")
tar.close()
PYTHON
  local fields=(--field 'boxes={from: json, path: "$.objects[*].bbox", decode: boxes, follows: image, box_format: xywh}'
    --field 'classes={from: json, path: "$.objects[*].name", map: names.txt, decode: array, dtype: u8, follows: boxes}'
    --field 'n={from: json, path: "$.objects[*].v.n", decode: array, dtype: f32}'
    --field 'kind={from: json, path: $.kind, map: names.txt, decode: int}' --field 'text={from: txt, map: names.txt, decode: int}')
  millrace read objects.tar --decode image --size 32 --crop none "${fields[@]}" --order sequential --count 6 --batch 6 --print json --out objects --quiet >lines
  same "$(sed -n 4p lines)" '{"position":3,"dataset":0,"epoch":0,"sample":3,"key":"k3","fields":{"boxes":[3,4],"classes":[3],"n":[3],"kind":1,"text":1}}'
  same "$(tail -c 5 objects/k5.classes.npy | od -An -tu1 | tr -s ' ')" " 0 1 2 0 1"
  millrace read objects.tar --decode image --size 32 --crop none "${fields[@]}" --order sequential --batch 8 --on-error skip --print json 2>errors >lines
  contains "$(cat errors)" 'field "json" at $.objects[*].name has the wrong type'
  contains "$(cat errors)" 'field "json" at $.objects[*].v.n has the wrong type'
  contains "$(cat errors)" "expected names that the list has"
  same "$(grep -c fields lines)" 6
  # a default is a name, or an integer, listed or negative
  millrace read objects.tar --field 'none={from: json, path: $.none, map: names.txt, decode: int, default: small dog}' \
    --field 'unknown={from: json, path: $.none, map: names.txt, decode: int, default: -1}' \
    --field 'kind={from: json, path: $.kind, map: names.txt, decode: int, default: 12}' --field 'text={from: txt, map: names.txt, decode: int, default: cat}' \
    --order sequential --batch 9 --on-error skip --print json --quiet >lines 2>errors
  same "$(grep -o '"fields":.*' lines | uniq -c | sed 's/^ *//')" $'6 "fields":{"none":1,"unknown":-1,"kind":1,"text":1}}\n1 "fields":{"none":1,"unknown":-1,"kind":0,"text":0}}\n1 "fields":{"none":1,"unknown":-1,"kind":2,"text":0}}'
  for name in 2 bird '"[]"'; do
    same "$(status_of millrace read objects.tar --field "x={from: txt, map: names.txt, decode: int, default: $name}")" 2 "default $name"
    contains "$(cat errors)" 'the default of field "x" is not in its map: names.txt: expected a name of the list, or a negative integer'
  done
  same "$(status_of millrace read objects.tar --field 'x={from: json, path: "$.objects[*].v[*]", decode: array}')" 2
  same "$(status_of millrace read objects.tar --field 'x={from: json, path: "$.objects[*].v", decode: int}')" 2
  same "$(status_of millrace read objects.tar --field 'x={from: json, path: "$.objects[*].v", map: names.txt, decode: f32}')" 2
  same "$(status_of millrace read objects.tar --field 'x={from: json, path: "$.objects[*].v", map: none.txt, decode: array, dtype: i64}')" 1
}

masks_are_stored_upright() {
  mkdir -p turned
  "$python" - <<'PYTHON'
import io, tarfile
import numpy as np
from PIL import Image
exif = Image.Exif()
exif[0x112] = 6 # turned by 90 degrees
for name, size in (("upright", (30, 40)), ("stored", (40, 30))):
    photo, mask = io.BytesIO(), io.BytesIO()
    Image.new("RGB", (40, 30)).save(photo, "JPEG", exif=exif)
    Image.fromarray(np.arange(1200, dtype=np.uint8).reshape(size[::-1])).save(mask, "PNG")
    with tarfile.open(f"turned/{name}.tar", "w") as tar:
        for extension, data in (("jpg", photo), ("png", mask)):
            info = tarfile.TarInfo("k." + extension)
            info.size = len(data.getvalue())
            tar.addfile(info, io.BytesIO(data.getvalue()))
PYTHON
  local options=(--decode image --crop none --size 30 --field 'm={from: png, decode: labels, follows: image}' --quiet)
  millrace read turned/upright.tar "${options[@]}" --out turned/out
  "$python" -c 'import numpy as n; assert (n.load("turned/out/k.m.npy") == n.arange(1200, dtype=n.uint8).reshape(40, 30)[(2 * n.arange(30) + 1) * 40 // 60]).all()'
  same "$(status_of millrace read turned/stored.tar "${options[@]}" --on-error stop)" 1
  grep -q 'another size than the image: expected 30 x 40 pixels, as the upright image, found 40 x 30' errors
}

# A picture that follows the image is cropped and turned with it, whatever its format; one with its
# own size has its own crop, with or without --decode image.
several_images_are_decoded() {
  need_python
  "$python" - <<'PYTHON'
import io, tarfile
import numpy as np
from PIL import Image
generator = np.random.default_rng(2)
exif = Image.Exif()
exif[0x112] = 6 # turned by 90 degrees
with tarfile.open("several.tar", "w") as tar:
    def add(name, image, kind, **options):
        data = io.BytesIO()
        image.save(data, kind, **options)
        info = tarfile.TarInfo(name)
        info.size = len(data.getvalue())
        tar.addfile(info, io.BytesIO(data.getvalue()))
    for i in range(20):
        height, width = 30 + i, 70 - 2 * i
        upright = Image.fromarray(generator.integers(0, 256, (height, width, 3), dtype=np.uint8))
        add(f"k{i:02}.copy.webp", upright, "WEBP", lossless=True)
        add(f"k{i:02}.left.png", Image.fromarray(generator.integers(0, 256, (24, 31, 3), dtype=np.uint8)), "PNG")
        add(f"k{i:02}.png", upright.transpose(Image.ROTATE_90), "PNG", exif=exif)
        add(f"k{i:02}.small.png", upright.crop((0, 0, width - (i == 9), height)), "PNG")
PYTHON
  local copy='copy={from: copy.webp, decode: image, follows: image}' left='left={from: left.png, decode: image, size: 24, crop: none, flip: true}'
  local other='other={from: copy.webp, decode: image, size: 16}' twin='twin={from: left.png, decode: image, follows: left}'
  millrace read several.tar --decode image --size 16 --flip --field "$copy" --field "$left" --field "$other" --field "$twin" --order sequential \
    --print json --out several --quiet >lines
  same "$(sed -n 8p lines)" '{"position":7,"dataset":0,"epoch":0,"sample":7,"key":"k07","fields":{"copy":[16,16,3],"left":[24,24,3],"other":[16,16,3],"twin":[24,24,3]}}'
  for i in {00..19}; do
    ! cmp -s several/k$i.ppm several/k$i.other.ppm || fail "k$i has the image's crop"
    cmp several/k$i.left.ppm several/k$i.twin.ppm
  done
  # --flip is for the image: a record has the same pixels, also with other workers, ranks and batches
  for rank in 0 1; do
    millrace read several.tar --field "$twin" --field "$other" --field "$left" --order sequential -j 3 --rank $rank --ranks 2 --micro 4 --out alone --quiet >/dev/null
  done
  same "$(ls alone | wc -l)" 60
  for file in alone/*; do cmp "$file" "several/${file#*/}"; done
  "$python" - <<'PYTHON'
import io, tarfile
import numpy as np
from PIL import Image
tar = tarfile.open("several.tar")
flipped = 0
for i in range(20):
    # turned pixels are resampled in another order
    image, copy = (np.array(Image.open(f"several/k{i:02}.{name}"), int) for name in ("ppm", "copy.ppm"))
    assert abs(image - copy).max() <= 1
    stored = np.array(Image.open(tar.extractfile(f"k{i:02}.left.png")).resize((24, 24), Image.BILINEAR), int)
    pixels = np.array(Image.open(f"several/k{i:02}.left.ppm"), int)
    is_flipped = abs(pixels - stored[:, ::-1]).max() <= 2
    assert is_flipped or abs(pixels - stored).max() <= 2
    flipped += is_flipped
assert 4 <= flipped <= 16
PYTHON
  # normalized and augmented, with the same random choices
  local view='from: left.png, decode: image, size: 24, crop: random, scale: [0.3, 0.9], flip: true, randaugment: [2, 9], jitter: [0.4, 0.2]'
  millrace read several.tar --field "view={$view}" --out levels --quiet >/dev/null
  millrace read several.tar --field "view={$view, layout: chw, dtype: f32, mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}" --out floats --quiet >/dev/null
  millrace read several.tar --field "view={$view, channels: 1, dtype: f16, mean: 0.5, std: 0.25}" --print json --out gray --quiet >lines
  contains "$(sed -n 1p lines)" '"view":[24,24,1]'
  "$python" - <<'PYTHON'
import numpy as np
from PIL import Image
for i in range(20):
    levels = np.array(Image.open(f"levels/k{i:02}.view.ppm"))
    mean, std = (np.float32(v) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    floats = np.load(f"floats/k{i:02}.view.npy")
    assert floats.dtype == np.float32 and (floats == ((levels / np.float32(255) - mean) / std).transpose(2, 0, 1)).all()
    gray = np.array(Image.fromarray(levels).convert("L"))[..., None]
    assert (np.load(f"gray/k{i:02}.view.npy") == ((gray / np.float32(255) - np.float32(0.5)) / np.float32(0.25)).astype(np.float16)).all()
PYTHON
  same "$(status_of millrace read several.tar --field "view={$view, dtype: f32}" --html page.html)" 2
  contains "$(cat errors)" '--html shows images of bytes, but "view" is normalized'
  same "$(status_of millrace read several.tar --field "view={$view, dtype: bf16}" --out refused)" 2
  contains "$(cat errors)" 'cannot hold the bf16 of field "view"'
  same "$(status_of millrace read several.tar --field "view={$view, dtype: i32}")" 2
  contains "$(cat errors)" 'field "view": images cannot have that type'
  same "$(status_of millrace read several.tar --field 'text={from: left.png, mean: 0.5}')" 2
  contains "$(cat errors)" 'field "text" is no image, but has a layout, channels, mean or std'
  # whatever the order of keys
  millrace read several.tar --field 'view={layout: chw, channels: 1, from: left.png, size: 24, decode: image}' --print json --quiet >lines
  contains "$(sed -n 1p lines)" '"view":[1,24,24]'
  local wrong
  for wrong in 'view={mean: 0.5, from: left.png, decode: image, size: 24}' 'view={from: left.png, decode: image, size: 24, channels: 0, dtype: f32}' \
    'view={channels: 1, dtype: f32, mean: [0.4, 0.5, 0.6], from: left.png, decode: image, size: 24}' 'view={from: left.png, decode: image, size: 24, crop: center, scale: [0.2, 1]}' \
    'text={layout: chw, from: left.png}' 'text={from: left.png, jitter: [0.4]}' 'text={from: left.png, size: 24}' 'view={from: left.png, decode: image, size: 1000000, dtype: f32}'; do
    same "$(status_of millrace read several.tar --field "$wrong")" 2 "$wrong"
    one_line errors
  done
  same "$(status_of millrace read several.tar --field "$left" --field 'a={from: copy.webp, decode: image, follows: left, jitter: [0.4]}')" 2
  contains "$(cat errors)" 'field "a" follows another, but has a size, crop, scale, flip or augmentation'
  same "$(status_of millrace read several.tar --field 'view={from: left.png, decode: image, size: 24, randaugment: [2]}')" 2
  contains "$(cat errors)" '--field: randaugment has an invalid value: expected 2 comma-separated numbers'
  local small=(--decode image --size 16 --field 'small={from: small.png, decode: image, follows: image}' --order sequential)
  same "$(status_of millrace read several.tar "${small[@]}")" 1
  contains "$(cat errors)" 'sample "k09" cannot be used: field "small.png": the PNG has another size than the image that it follows: expected 52 x 39 pixels, as the upright image, found 51 x 39'
  millrace read several.tar "${small[@]}" --on-error skip --json >report 2>errors
  same "$(json 'd["samples_count"], d["skipped_count"]' report)" "(19, 1)"
  same "$(status_of millrace read several.tar --decode image --mixup 1 --field "$copy")" 2
  contains "$(cat errors)" "turn them off"
  same "$(status_of millrace read several.tar --field "$copy")" 2
  contains "$(cat errors)" "a record has no image"
  same "$(status_of millrace read several.tar --field "$left" --field 'a={from: copy.webp, decode: image, follows: left, size: 8}')" 2
  contains "$(cat errors)" 'field "a" follows another, but has a size, crop, scale, flip or augmentation'
}

# Masks, arrays, documents, texts and numbers in 20 samples; `late` only in the last two shards.
make_kinds() {
  "$python" -c 'import numpy, PIL' 2>/dev/null || skip "Python has no numpy or PIL"
  [[ -d kinds ]] && return
  mkdir kinds
  "$python" - <<'PYTHON'
import io, tarfile
import numpy as np
from PIL import Image
exif = Image.Exif()
exif[0x112] = 6 # turned by 90 degrees: 30 x 40
def saved(save, *args, **options):
    data = io.BytesIO()
    save(data, *args, **options)
    return data.getvalue()
image = lambda mode, size, kind="PNG", **options: saved(Image.new(mode, size).save, kind, **options)
array = lambda array: saved(lambda file: np.save(file, array))
for shard in range(4):
    with tarfile.open(f"kinds/s{shard}.tar", "w") as tar:
        for i in range(5 * shard, 5 * shard + 5):
            fields = {"jpg": image("RGB", (40, 30), "JPEG", exif=exif), "cls": b"1", "seg.png": image("P" if i % 2 else "L", (30, 40)),
                      "deep.png": image("I;16" if i == 3 else "L", (30, 40)),
                      "rgb.png": image("RGB", (40, 30), exif=exif) if i % 3 else image("RGB", (30, 40), "WEBP"), "small.png": image("L", (7, 7)),
                      "emb.npy": array(np.zeros((i, 3), np.float16)), "mixed.npy": array(np.zeros((1,) * (1 + i % 2), np.int32)),
                      "order.npy": array(np.zeros((2, 3), order="F")), "truth": array(np.array(True)), "json": b'{"a": [%d]}' % i, "points.json": b"%d" % i,
                      "any.json": [b"[1]", b"2", b"0.5"][i % 3], "bad.json": b"{}" if i != 4 else b"{", "null.json": b"null", "txt": b"%d" % i,
                      "caption.txt": "caf\u00e9\n".encode(), "latin.txt": b"caf\xe9", "count": b"%d\n" % i, "score": b"3" if i % 2 else b"0.25",
                      "good": b"true", "note": b"" if i % 2 else b"007", "x'y\"z": b"text", "data": b"a\0b"}
            if i >= 10:
                fields["late"] = b"late"
            if i == 19:
                fields["note"] = b"\xff" # beyond the first 16
            for name, data in fields.items():
                info = tarfile.TarInfo(f"k{i:02}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
PYTHON
}

# chosen_fields FILE: prints the options that --field auto printed, one per line.
chosen_fields() { sed -n 's/.*: fields: //p' "$1" | sed "s/ --field /\n--field /g"; }

auto_chooses_fields_by_their_bytes() {
  make_kinds
  millrace read 'kinds/s{0..3}.tar' --field auto --count 8 --batch 8 --on-error skip --print json >auto 2>log
  chosen_fields log >found
  cmp found - <<'END'
--field 'any_json={from: any.json, decode: json}'
--field 'bad_json={from: bad.json, decode: str}'
--field 'caption_txt={from: caption.txt, decode: str}'
--field 'count={from: count, decode: int}'
--field 'data={from: data, decode: bytes}'
--field 'deep_png={from: deep.png, decode: bytes}'
--field 'emb_npy={from: emb.npy, decode: array, dtype: f16, rank: 2}'
--field 'good={from: good, decode: bool}'
--field 'json={from: json, decode: json}'
--field 'late={from: late, decode: str}'
--field 'latin_txt={from: latin.txt, decode: bytes}'
--field 'mixed_npy={from: mixed.npy, decode: bytes}'
--field 'note={from: note, decode: str}'
--field 'null_json={from: null.json, decode: str}'
--field 'order_npy={from: order.npy, decode: bytes}'
--field 'points_json={from: points.json, decode: int}'
--field 'rgb_png={from: rgb.png, decode: bytes}'
--field 'score={from: score, decode: f64}'
--field 'seg_png={from: seg.png, decode: bytes}'
--field 'small_png={from: small.png, decode: bytes}'
--field 'truth={from: truth, decode: array, dtype: bool, rank: 0}'
--field 'txt={from: txt, decode: str}'
--field 'x_y_z={from: "x\x27y\x22z", decode: str}'
END
  eval "millrace read 'kinds/s{0..3}.tar' $(tr '\n' ' ' <found) --count 8 --batch 8 --on-error skip --print json --quiet" | cmp auto -
  contains "$(cat auto)" '"score":0.25'
  millrace read kinds/s3.tar --field auto --decode image --size 16 --out kinds/out --quiet 2>log >/dev/null
  same "$(cat log kinds/out/k15.{count,late,x_y_z,txt})" $'15\nlatetext15'
  millrace read kinds/s3.tar --field auto --decode image --size 16 >/dev/null 2>log
  contains "$(cat log)" "kinds/s3.tar: fields: --field"
  chosen_fields log >found
  same "$(grep 'decode: image' found)" "--field 'rgb_png={from: rgb.png, decode: image, follows: image}'"
  same "$(grep labels found)" "--field 'deep_png={from: deep.png, decode: labels, follows: image}'
--field 'seg_png={from: seg.png, decode: labels, follows: image}'"
  millrace read kinds/s0.tar --field auto --decode image --size 16 --count 2 --batch 2 --print json >lines 2>log
  same "$(chosen_fields log | grep deep)" "--field 'deep_png={from: deep.png, decode: labels, follows: image, dtype: u16}'"
  contains "$(cat lines)" '"seg_png":[16,16]'
  python3 - <<'PYTHON'
import tarfile
with tarfile.open("kinds/s3.tar") as whole, tarfile.open("kinds/pair.tar", "w") as pair:
    for member in whole:
        if member.name.endswith(("_png", "rgb.png", "seg.png", ".txt")):
            pair.addfile(member, whole.extractfile(member))
PYTHON
  millrace read kinds/pair.tar --field auto --count 2 --batch 2 --print json >lines 2>log
  same "$(chosen_fields log | grep png)" "--field 'rgb_png={from: rgb.png, decode: image, size: 224}'
--field 'seg_png={from: seg.png, decode: bytes}'"
  contains "$(cat lines)" '"rgb_png":[224,224,3]'
}

auto_is_refused_where_it_cannot_choose() {
  local command
  make_kinds
  for command in read "inspect --html no.html"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $command shards --field auto)" 2
    one_line errors
    contains "$(cat errors)" "no fields besides images and labels: shards: found cls, jpg"
    # shellcheck disable=SC2086
    same "$(status_of millrace $command kinds/s0.tar --field a=txt --field auto)" 2
    contains "$(cat errors)" "cannot be combined with others"
  done
  same "$(status_of millrace read --mix kinds/s0.tar=1 --mix kinds/s1.tar=1 --field auto)" 2
  contains "$(cat errors)" "one dataset only"
  same "$(status_of millrace inspect shards/dataset.json --field auto)" 2
  same "$(status_of millrace read missing.tar --field auto)" 1
  mkdir many
  for i in {1..25}; do echo x >"many/k.f$i"; done
  tar cf many.tar -C many .
  same "$(status_of millrace read many.tar --field auto)" 2
  contains "$(cat errors)" "at most 24, found 25"
}

wrong_fields_are_wrong_usage() {
  local spec
  for spec in caption =txt 'c={from: txt, decode: tokens}' 'c={from: txt' 'c={decode: str}' 'c={from: txt, colour: red}' \
    'c={from: npy, decode: array, dtype: q8}' 'c={from: npy, decode: array, rank: 9}' 'c=[a, b]' 'c={from: json, decode: int, path: t}' \
    'c={from: json, decode: boxes}' 'c={from: json, box_format: yxyx}' 'c={from: json, normalized: 2}' 'c={from: json, visible_min: x}' \
    'c={from: jpg, decode: image}' 'c={from: jpg, decode: image, size: big}' 'c={from: jpg, decode: image, size: 5000}' 'c={from: jpg, decode: image, size: 8, crop: middle}' \
    'c={from: jpg, decode: image, size: 8, flip: 2}' 'c={from: jpg, decode: image, follows: image}' 'c={from: jpg, decode: image, size: 8, default: x}'; do
    same "$(status_of millrace read shards --field "$spec")" 2 "$spec"
    one_line errors
  done
  same "$(status_of millrace read shards --field a=wav)" 2
  grep -q 'no field of that name.*cls, jpg' errors
  same "$(status_of millrace read shards --field a=cls --field a=jpg)" 2
  grep -q 'two fields have the name "a"' errors
  same "$(status_of millrace read shards --block 4 --field a=cls)" 2
}

wrong_rules_are_wrong_usage() {
  same "$(status_of millrace read shards --fault raed:eio)" 2
  one_line errors
  grep -q 'column 1 .*did you mean "read"' errors
  same "$(MILLRACE_FAULT=read:shrot status_of millrace verify shards)" 2
  grep -q 'did you mean "short"' errors
}

run_cases each_sample_is_delivered_once a_folder_that_is_not_a_dataset_is_described print_keys_writes_only_keys_to_stdout ranks_share_the_order_without_gaps_or_repeats \
  a_rank_reads_the_micro_batches_it_owns the_order_depends_only_on_seed_and_epoch start_and_count_select_a_range_of_the_same_order \
  out_writes_members_unchanged decoded_images_are_portable_pixmaps normalized_images_equal_numpy json_reports_what_was_read \
  micro_batches_fit_the_batch_and_empty_ones_are_not_counted labels_are_printed \
  cold_reads_and_both_engines_give_the_same_result a_pass_bypasses_the_page_cache_by_default quiet_prints_only_requested_results the_order_matches_the_oracle a_mix_matches_the_oracle \
  ranks_share_a_mix_without_gaps_or_repeats out_separates_the_datasets_of_a_mix wrong_mixes_are_refused quality_reports_batch_mixing quality_reads_no_samples dropping_the_cache_is_not_subject_to_faults \
  a_text_window_is_named_by_member_and_number \
  a_closed_pipe_is_not_reported_as_an_error a_full_disk_behind_stdout_is_an_error \
  a_disk_error_is_one_line_with_file_and_offset flipped_bits_give_the_same_bad_samples_every_time samples_are_selected_by_key a_replaced_shard_is_a_bad_sample_by_number \
  a_slow_disk_does_not_change_what_is_delivered a_shrinking_file_loses_only_its_samples \
  a_stuck_read_is_named_and_ends_the_run_in_time keys_with_dots_and_spaces_are_read wrong_rules_are_wrong_usage \
  only_the_requested_fields_are_read values_come_from_json json_equals_that_of_python images_may_have_more_fields labels_and_boxes_follow_images objects_with_names_become_arrays \
  masks_are_stored_upright several_images_are_decoded auto_chooses_fields_by_their_bytes auto_is_refused_where_it_cannot_choose wrong_fields_are_wrong_usage
