#!/usr/bin/env bash
# Labels and tokens have the same meaning in training, validation and evaluation; labels that
# training cannot use are refused.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 4 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 4}
data:       {train: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
YAML
millrace train train.yaml --quiet >/dev/null || exit 1

# evaluate DATASET [SETTING...]: prints the result of evaluating runs/a on DATASET.
evaluate() {
  local dataset=$1
  shift
  same "$(status_of millrace eval train.yaml --from runs/a/ckpt --set data.val="$dataset" --json "$@")" 0 "$(cat errors)"
  json 'd["valid_count"], d["loss"], d["accuracy"]' out
}

# copy_classes NAME CLASS...: copies the photos of those classes to NAME.
copy_classes() {
  local name=$1 class
  shift
  mkdir "$name"
  for class in "$@"; do cp -r "photos/$class" "$name/$class"; done
}

validation_classes_are_mapped_by_name() {
  need_python
  copy_classes some moon triangle
  copy_classes same_numbers moon triangle
  mkdir same_numbers/{circle,cross,ring,square,stripes} # empty class folders
  millrace convert dataset some some_shards --quiet >/dev/null
  millrace convert dataset same_numbers same_shards --quiet >/dev/null
  same "$(json 'd["millrace"]["classes"]' <(tr -d '\n' <some_shards/dataset.json))" "['moon', 'triangle']"
  evaluate same_shards >expected
  same "$(evaluate some_shards)" "$(cat expected)"
  millrace train train.yaml --set run.dir=runs/b --set data.val=some_shards --json >out 2>errors
  same "$(json 'd[-1]["val_loss"], d[-1]["val_accuracy"]' out)" "$(cut -d ' ' -f 2- expected | sed 's/^/(/')"
}

a_class_unknown_to_training_is_an_error_before_the_first_step() {
  copy_classes other moon triangle
  mv other/triangle other/pentagon
  millrace convert dataset other other_shards --quiet >/dev/null
  same "$(status_of millrace train train.yaml --set run.dir=runs/c --set data.val=other_shards)" 2
  one_line errors
  contains "$(cat errors)" 'class "pentagon" is not among the 7 classes of shards/dataset.json'
  contains "$(cat errors)" other_shards/dataset.json
  [[ ! -e runs/c/ckpt && ! -e runs/c/metrics.jsonl ]] || fail "something was written"
  same "$(status_of millrace eval train.yaml --from runs/a/ckpt --set data.val=other_shards)" 2
  one_line errors
  contains "$(cat errors)" 'class "pentagon" is not among the 7 classes of runs/a/ckpt'
  same "$(status_of millrace train train.yaml --set run.dir=runs/c --set data.val=nowhere)" 1
  contains "$(cat errors)" nowhere
}

evaluating_a_checkpoint_without_class_names_warns() {
  need_python
  evaluate shards >expected
  ! grep -q "records no class names" errors
  cp -r runs/a/ckpt old
  chmod -R u+w old
  edit_manifest old/*/manifest.json '"data":\{"classes":\[[^]]*\]\},' ''
  same "$(status_of millrace eval train.yaml --from old --set data.val=shards --json)" 0 "$(cat errors)"
  contains "$(cat errors)" "old records no class names and no tokenizer: they cannot be compared with those of data.val"
  same "$(json 'd["valid_count"], d["loss"], d["accuracy"]' out)" "$(cat expected)"
}

resuming_with_other_class_names_is_refused() {
  cp -r shards renamed
  chmod -R u+w renamed
  sed -i 's/"moon"/"sun"/' renamed/dataset.json
  same "$(status_of millrace train train.yaml --set data.train=renamed --set run.steps=6)" 1
  contains "$(cat errors)" 'expected class 2 "moon", found "sun"'
}

a_different_tokenizer_is_an_error() {
  need_python
  [[ -d $data/bpe ]] || skip "no test data at $data/bpe (set MILLRACE_TEST_DATA)"
  head -c 60000 "$data/text/tinyshakespeare.txt" >text.txt
  mkdir swapped
  cp "$data/bpe/vocab.bpe" swapped
  # swaps the tokens of two letters
  "$python" - "$data/bpe/encoder.json" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
d["a"], d["b"] = d["b"], d["a"]
json.dump(d, open("swapped/encoder.json", "w"))
PY
  millrace convert dataset text.txt bytes --tokenizer bytes --quiet >/dev/null
  millrace convert dataset text.txt bpe --tokenizer gpt2 --vocab "$data/bpe" --quiet >/dev/null
  millrace convert dataset text.txt swapped_bpe --tokenizer gpt2 --vocab swapped --quiet >/dev/null
  cat >text.yaml <<'YAML'
run:   {dir: runs/text, steps: 2}
data:  {train: bpe, val: bpe, text: {block: 32}}
model: {type: gpt2, layers: 1, heads: 2, width: 16}
batch: {global: 4, micro: 4}
YAML
  same "$(status_of millrace train text.yaml)" 0 "$(cat errors)"
  for val in bytes swapped_bpe; do
    same "$(status_of millrace train text.yaml --set run.dir=runs/no --set data.val=$val)" 2
    contains "$(cat errors)" "the tokens of the dataset differ from those of bpe/dataset.json"
    same "$(status_of millrace eval text.yaml --from runs/text/ckpt --set data.val=$val)" 2
    contains "$(cat errors)" "the tokens of the dataset differ from those of runs/text/ckpt"
    same "$(status_of millrace train text.yaml --set run.dir=runs/no --set "data.train=[{path: bpe}, {path: $val}]")" 2
    contains "$(cat errors)" "a dataset of the mix differs"
  done
  same "$(status_of millrace eval text.yaml --from runs/text/ckpt)" 0 "$(cat errors)"
}

unusable_labels_are_reported_as_bad_samples() {
  local n
  mkdir numbered
  for n in 00 01 02 03 04 05 06 07 08 09 10 11; do
    cp photos/ring/0001.jpg numbered/$n.jpg
    echo $((10#$n % 2)) >numbered/$n.cls
  done
  rm numbered/03.cls
  echo x >numbered/05.cls
  echo 2 >numbered/08.cls
  tar cf numbered.tar -C numbered . --sort=name
  sed -i 's/train: shards/train: numbered.tar/' train.yaml
  local -a settings=(--set run.dir=runs/n --set model.classes=2 --set batch.global=4 --set batch.micro=4)
  same "$(status_of millrace train train.yaml "${settings[@]}" --set data.bad_samples.limit=50%)" 0 "$(cat errors)"
  for n in 03 05 08; do
    grep -q "bad sample \"./$n\" .*in numbered.tar" errors || fail "$n is not named with its shard: $(cat errors)"
  done
  grep -q 'has no label' errors
  grep -q 'expected 0 to 1, found "2' errors
  same "$(status_of millrace train train.yaml "${settings[@]}" --set run.dir=runs/m --set data.bad_samples.policy=stop)" 1
  contains "$(cat errors)" "numbered.tar at "
}

# describe_photos: converts the photos, each with a JSON document, to described_shards.
describe_photos() {
  local photo class number=0
  ls photos >names.txt
  [[ ! -d described_shards ]] || return 0
  cp -r photos described
  for class in $(<names.txt); do
    for photo in described/"$class"/*.jpg; do
      printf '{"class":{"id":"%s","number":%d},"none":null}' "$class" "$number" >"${photo%.jpg}.json"
    done
    number=$((number + 1))
  done
  millrace convert dataset described described_shards --quiet >/dev/null
}

labels_inside_json_train_like_class_numbers() {
  need_python
  losses() { millrace train train.yaml --quiet --set data.train="$1" --set data.val="$1" --json "${@:2}" >out; json '[(x["val_loss"], x["val_accuracy"]) for x in d if "val_loss" in x]' out; }
  describe_photos
  losses described_shards --set run.dir=runs/cls >expected
  contains "$(cat expected)" "("
  local -a by_name=(--set data.label.from=json --set 'data.label.path=$.class.id' --set data.label.map=names.txt)
  same "$(losses described_shards --set run.dir=runs/name "${by_name[@]}")" "$(cat expected)"
  same "$(losses described_shards --set run.dir=runs/number --set data.label.from=json \
    --set 'data.label.path=$.class.number' --set model.classes=7)" "$(cat expected)"
  seq 0 6 >numbers.txt # integers are looked up as text
  same "$(losses described_shards --set run.dir=runs/mapped --set data.label.from=json \
    --set 'data.label.path=$.class.number' --set data.label.map=numbers.txt)" "$(cat expected)"
  printf '\xef\xbb\xbf%s\r\n' "$(head -1 names.txt)" >windows.txt
  sed 1d names.txt | sed 's/$/\r/' >>windows.txt
  same "$(losses described_shards --set run.dir=runs/windows "${by_name[@]}" --set data.label.map=windows.txt)" "$(cat expected)"

  sed 's/moon/sun/' names.txt >other.txt
  same "$(status_of millrace train train.yaml --set data.train=described_shards "${by_name[@]}" \
    --set run.dir=runs/name --set run.steps=6 --set data.label.map=other.txt)" 1
  contains "$(cat errors)" 'expected class 2 "moon", found "sun"'
  same "$(status_of millrace train train.yaml --set data.train=described_shards "${by_name[@]}" \
    --set run.dir=runs/other --set data.bad_samples.policy=stop --set data.label.map=other.txt)" 1
  contains "$(cat errors)" 'field "json" at $.class.id is not a class: expected one of the 7 class names, found "moon"'
}

labels_that_are_not_classes_are_refused() {
  describe_photos
  refused() { # STATUS TEXT SETTING...
    same "$(status_of millrace train train.yaml --set data.train=described_shards --set run.dir=runs/bad \
      --set data.bad_samples.policy=stop --set data.label.from=json --set model.classes=7 "${@:3}")" "$1"
    contains "$(cat errors)" "$2"
  }
  refused 1 'at $.class.id is not a class number: expected 0 to 6, found "{' --set 'data.label.path=$.class.id'
  refused 1 'at $.none is not a class number' --set 'data.label.path=$.none'
  refused 1 'at $.class is not a class:' --set 'data.label.path=$.class' --set data.label.map=names.txt
  refused 1 'field "json" is not a class number' --set 'data.label.path='
  refused 2 'a JSON path has the wrong form' --set 'data.label.path=class.id'
  refused 2 'the dataset has no field of that name' --set data.label.from=txt
  printf 'a\nb\na\n' >repeated.txt
  refused 2 'line 3 of the list of class names repeats a name: repeated.txt' --set data.label.map=repeated.txt
  contains "$(cat errors)" 'found "a", also in line 1'
  printf 'a\n\nb\n' >empty_line.txt
  refused 2 'line 2 of the list of class names is empty' --set data.label.map=empty_line.txt
  : >empty.txt
  refused 2 'line 1 of the list of class names is missing' --set data.label.map=empty.txt
  printf 'a\nb\xff\n' >latin.txt
  refused 2 'line 2 of the list of class names is not UTF-8 text' --set data.label.map=latin.txt
  seq 0 7 >too_many.txt
  refused 2 'the list of class names has more classes than the model has' --set data.label.map=too_many.txt
}

run_cases validation_classes_are_mapped_by_name a_class_unknown_to_training_is_an_error_before_the_first_step \
  evaluating_a_checkpoint_without_class_names_warns resuming_with_other_class_names_is_refused \
  a_different_tokenizer_is_an_error labels_inside_json_train_like_class_numbers labels_that_are_not_classes_are_refused \
  unusable_labels_are_reported_as_bad_samples
