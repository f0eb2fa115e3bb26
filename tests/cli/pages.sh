#!/usr/bin/env bash
# `millrace inspect --html`: pages of datasets, shards and runs have the expected content and
# nothing harmful.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 20 --side 40 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null

check_page() { # PATH OUT: writes the page, checks it, and writes its content to report
  rm -f "$2"
  same "$(status_of millrace inspect "$1" --html "$2")" 0 "status of the page of $1 ($(cat errors))"
  "$python" "$here/page_check.py" "$2" >report || fail "the page of $1 is not valid"
}

a_page_of_a_dataset_shows_samples_sizes_classes_fields_shards_and_options() {
  need_python
  check_page shards page.html
  same "$(json 'd["headings"]' report)" \
    "['Summary', 'Samples', 'Sizes', 'Classes', 'Fields', 'Shards', 'Converted with']"
  same "$(json 'd["pictures"], len(d["alts"])' report)" "(96, 96)"
  same "$(json '[c.split(" from")[0] for c in d["charts"]]' report)" \
    "['Sample size', 'Photo width', 'Photo height']"
  same "$(json '[r[:3] for r in d["rows"]][1:4]' report)" \
    "[['0', 'circle', '20'], ['1', 'cross', '20'], ['2', 'moon', '20']]"
  same "$(json '[r[:2] for r in d["rows"] if r[0] in ("cls", "jpg")]' report)" "[['cls', '140'], ['jpg', '140']]"
  same "$(json '[r[1] for r in d["rows"] if r[0] in ("shard-000000.tar", "jpeg", "source_kind")]' report)" \
    "['140', 'class_folders', 'tile']"
  same "$(json 'd["alts"][0].split(": picture of ")[1].split("/")[0] == d["alts"][0].split(":")[0]' report)" True
}

a_page_of_pngs_with_captions_shows_their_sizes_and_words() {
  need_python
  mkdir -p captioned
  "$python" - <<'PY'
from PIL import Image
for i in range(30):
    Image.new("RGB", (2000 + 37 * i, 90 + i), (8 * i, 100, 50)).save(f"captioned/{i:03}.{('png', 'webp')[i % 2]}")
    open(f"captioned/{i:03}.txt", "w").write(f"a band of color number {i} & <more>")
PY
  for kind in png webp; do
    mkdir "only-$kind"
    cp captioned/*."$kind" "only-$kind"
    for file in "only-$kind"/*; do cp "captioned/$(basename "${file%.*}").txt" "only-$kind"; done
    millrace convert dataset "only-$kind" "shards-$kind" --quiet >/dev/null
    check_page "shards-$kind" page.html
    same "$(json '[c.split(" from")[0] for c in d["charts"]]' report)" \
      "['Sample size', 'Photo width', 'Photo height']"
    same "$(json 'd["pictures"], d["text"].count("a band of color number"), d["text"].count("& <more>")' report)" "(15, 15, 15)"
  done
}

a_page_of_a_shard_has_the_same_counts() {
  need_python
  check_page shards/shard-000000.tar page.html
  same "$(json 'd["headings"]' report)" "['Summary', 'Samples', 'Sizes', 'Classes', 'Fields']"
  same "$(json '[r[:3] for r in d["rows"]][1:3]' report)" "[['0', '0', '20'], ['1', '1', '20']]"
}

the_same_dataset_gives_the_same_page() {
  millrace inspect shards --html a.html --quiet >/dev/null
  millrace inspect shards --html b.html --quiet >/dev/null
  cmp a.html b.html
}

hostile_names_are_escaped() {
  need_python
  local class="\"><img src=x onerror='alert(1)'>&lt;" key="<!--&\"'><b>"
  mkdir -p "hostile/$class" "hostile/]]>"
  cp photos/ring/0001.jpg "hostile/$class/$key.jpg"
  cp photos/ring/0002.jpg "hostile/]]>/two.jpg"
  millrace convert dataset hostile bad --quiet >/dev/null
  check_page bad page.html
  same "$(json 'd["pictures"]' report)" 2
  CLASS=$class KEY=$key json '__import__("os").environ["CLASS"] in d["text"], __import__("os").environ["KEY"] in d["text"]' \
    report >out
  same "$(cat out)" "(True, True)"
}

an_undecodable_photo_is_marked() {
  need_python
  cp -r shards cut
  chmod -R u+w cut
  # overwrites the first photo's header; the index does not detect that
  local block
  block=$(tar tRf cut/shard-000000.tar | sed -n 's/^block \([0-9]*\): .*\.jpg$/\1/p' | head -1)
  dd if=/dev/zero of=cut/shard-000000.tar bs=512 seek=$((block + 1)) count=1 conv=notrunc status=none
  check_page cut page.html
  contains "$(json 'd["text"]' report)" "1 photos have no readable headers"
}

a_page_of_text_shows_the_text() {
  need_python
  mkdir -p books
  { for _ in 1 2 3 4 5; do printf 'To be, or <b>not</b> to be & that is — the question.\n'; done; } >books/a.txt
  millrace convert dataset books tokens --quiet >/dev/null
  check_page tokens page.html
  same "$(json 'd["headings"]' report)" \
    "['Summary', 'Samples of text', 'Fields', 'Shards', 'Converted with']"
  same "$(json 'd["text"].count("To be, or <b>not</b> to be & that is — the question.")' report)" 5
  contains "$(json 'd["text"]' report)" "[end of document]"
}

a_page_of_a_run_shows_curves_checkpoints_and_configuration() {
  need_python
  cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 8}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 4}
eval:       {every: 4}
log:        {every: 2}
YAML
  millrace train train.yaml --quiet >/dev/null
  local path
  for path in runs/a runs/a/metrics.jsonl; do
    check_page $path run-$((++pages)).html
    same "$(json 'd["headings"]' report)" "['Final values', 'Over the steps', 'Checkpoints', 'Configuration']"
    same "$(json '[c.split(" over")[0] for c in d["charts"]]' report)" \
      "['Loss', 'Validation accuracy', 'Learning rate', 'Gradient norm', 'Throughput', 'Waits']"
    same "$(json '[r[0] for r in d["rows"] if r[-1].startswith("runs/a/ckpt")]' report)" "['4', '8']"
    same "$(json '[r[1] for r in d["rows"] if r[0] in ("run.seed", "data.image.size")]' report)" "['3', '32']"
    same "$(json 'sum("training ends at" in c and "validation ends at" in c for c in d["charts"])' report)" 1
  done
  cmp run-1.html run-2.html
  same "$(millrace inspect runs/a --json | "$python" -c 'import json, sys; d = json.load(sys.stdin); print(d["kind"], d["step"])')" \
    "run 8"
}

a_long_run_with_gaps_stays_a_small_page() {
  need_python
  mkdir long
  "$python" - >long/metrics.jsonl <<'PY'
for step in range(1, 50001):
    loss = "null" if 20000 < step < 30000 else 10 / step
    print('{"step":%d,"epoch":0,"loss":%s,"lr":1e-3,"gradient_norm":1,"wall_seconds":%d}' % (step, loss, 1e9 + step))
print('{"step":50001,"lo', end="")
PY
  check_page long page.html
  same "$(json 'd["size"] < 200000, "mean of 64 reports" in d["text"]' report)" "(True, True)"
  same "$(json 'len(d["charts"])' report)" 3
  # the line has two parts: before the gap and after it
  same "$(grep -o 'class="line s0" d="[^"]*"' page.html | head -1 | grep -o M | wc -l)" 2
}

malformed_metrics_are_named_with_their_offset() {
  mkdir wrong
  printf '{"step":1}\n{"stop":2}\n' >wrong/metrics.jsonl
  same "$(status_of millrace inspect wrong --html no.html)" 1
  one_line errors
  contains "$(cat errors)" "wrong/metrics.jsonl at 11"
  [[ ! -e no.html ]]
}

an_existing_page_is_kept_unless_forced() {
  echo mine >page.html
  same "$(status_of millrace inspect shards --html page.html)" 1
  one_line errors
  contains "$(cat errors)" --force
  same "$(cat page.html)" mine
  same "$(status_of millrace inspect shards --html page.html --force)" 0
  grep -q '</html>' page.html
  same "$(find . -maxdepth 1 -name '.tmp-*')" "" "temporaries"
}

inputs_without_a_page_are_refused() {
  mkdir -p many
  millrace convert dataset photos many --split a=0.5,b=0.5 --quiet --force >/dev/null
  same "$(status_of millrace inspect many --html no.html)" 1
  one_line errors
  contains "$(cat errors)" "cannot write a page of datasets: many"
}

pages=0
run_cases a_page_of_a_dataset_shows_samples_sizes_classes_fields_shards_and_options a_page_of_pngs_with_captions_shows_their_sizes_and_words \
  a_page_of_a_shard_has_the_same_counts \
  the_same_dataset_gives_the_same_page hostile_names_are_escaped an_undecodable_photo_is_marked \
  a_page_of_text_shows_the_text a_page_of_a_run_shows_curves_checkpoints_and_configuration \
  a_long_run_with_gaps_stays_a_small_page malformed_metrics_are_named_with_their_offset \
  an_existing_page_is_kept_unless_forced inputs_without_a_page_are_refused
