#!/usr/bin/env bash
# Selections by the numbers in the index: `convert dataset --index-field`, `read --where` and
# `--balance`, and training on them.
. "$(dirname "$0")/lib.sh"

need_python
"$python" - <<'PY'
import json, random
r = random.Random(3)
with open("list.jsonl", "w") as f:
    for i in range(400):
        row = {"id": f"s{i:03}", "class": r.choice(["cat", "dog", "dog", "dog", "a bird"]),
               "aesthetic": r.choice([None, r.gauss(0, 1)]), "meta": {"nsfw": r.random() < 0.3, "width": r.randrange(100, 500)}}
        if i % 10 == 0:
            del row["meta"]
        f.write(json.dumps(row) + "\n")
PY
millrace convert dataset list.jsonl shards --shard-samples 45 --column id=:key --column class=:class --column '*=json' \
  --index-field 'json:$.aesthetic=score' --index-field 'json:$.meta.nsfw=nsfw' --index-field 'json:$.meta.width=width' --quiet

# The keys that Python selects, sorted: condition $1 as Python, in which missing numbers are nan and
# differs(a, b) stands for !=.
selected_by_python() {
  "$python" - "$1" <<'PY'
import json, math, sys
nan = math.nan
classes = ["a bird", "cat", "dog"]
def differs(a, b):
    return not math.isnan(a) and a != b
for line in open("list.jsonl"):
    row = json.loads(line)
    meta = row.get("meta", {})
    names = {"score": nan if row["aesthetic"] is None else row["aesthetic"], "nsfw": meta.get("nsfw", nan),
             "width": meta.get("width", nan), "label": classes.index(row["class"]), "differs": differs}
    if eval(sys.argv[1], names):
        print(row["id"])
PY
}

# check_selection CONDITION PYTHON: checks that 1, 2 and 3 ranks read what Python selects.
check_selection() {
  local ranks rank
  selected_by_python "$2" | sort >wanted
  [[ -s wanted ]] || fail "nothing meets $1"
  for ranks in 1 2 3; do
    for ((rank = 0; rank < ranks; rank++)); do
      millrace read shards --where "$1" --batch 12 --micro 2 --rank $rank --ranks $ranks --print keys --quiet
    done | sort -n >keys.$ranks
    cut -f 2 keys.$ranks | sort | cmp - wanted || fail "$ranks ranks read other samples for $1"
    cmp keys.1 keys.$ranks || fail "$ranks ranks read another order for $1"
  done
  millrace read shards --where "$1" --batch 12 --micro 2 --start 7 --print keys --quiet | sort -n >keys.7
  tail -n +8 keys.1 | cmp - keys.7 || fail "a restart changes what is read for $1"
  same "$(millrace read shards --where "$1" --json | grep -o '"epoch_samples_count":[0-9]*')" "\"epoch_samples_count\":$(wc -l <wanted)"
}

the_selected_samples_are_those_of_python() {
  check_selection 'score >= 0.5 && width >= 256' 'score >= 0.5 and width >= 256'
  check_selection 'class("dog") || nsfw == true' 'label == 2 or nsfw == 1'
  check_selection '!(score<-1||score>1) && class("a bird")' 'not (score < -1 or score > 1) and label == 0'
  check_selection 'width != 300 && (nsfw == 0 && score < 0.1e1 || label <= 1)' \
    'differs(width, 300) and (nsfw == 0 and score < 1 or label <= 1)'
}

wrong_conditions_are_refused() {
  same "$(status_of millrace read shards --where 'score >= 0.5 & width > 1')" 2
  contains "$(cat errors)" "the condition is wrong at column 14: score >= 0.5 & width > 1: expected &&, || or the end"
  same "$(status_of millrace read shards --where 'score > 100')" 2
  contains "$(cat errors)" "no sample meets the condition score > 100: shards/dataset.json: found 400 samples, "
  same "$(status_of millrace read shards --where 'size > 1')" 2
  contains "$(cat errors)" 'has no index field "size": shards/shard-000000.tar: expected one of label, nsfw, score, width, found size'
  same "$(status_of millrace read shards --where 'score > 1' --key-order list.jsonl)" 2
  contains "$(cat errors)" "contradict each other"
}

training_follows_the_selection() {
  "$RENDER_SHAPES" --count 6 --side 32 photos >/dev/null
  find photos/circle -name '*5.jpg' -delete
  millrace convert dataset photos images --index-field 'jpg:width=side' --quiet
  cat >train.yaml <<'YAML'
run:   {dir: runs/a, steps: 2}
data:  {train: images, memory: 32MiB, image: {size: 16}, sample: {where: "label >= 1 && side == 32", balance: class}}
model: {layers: 1, heads: 2, width: 16, patch: 8}
batch: {global: 8, micro: 8}
YAML
  same "$(status_of millrace train train.yaml)" 0 "$(cat errors)"
  same "$(status_of millrace train train.yaml --set run.steps=3 --set 'data.sample.where=label >= 2')" 1
  contains "$(cat errors)" "the training data differs from the saved one"
  same "$(status_of millrace train train.yaml --set run.steps=3)" 0 "$(cat errors)"
  same "$(status_of millrace train train.yaml --set run.dir=runs/b --set data.sample.where=side)" 2
  contains "$(cat errors)" "the condition is wrong at column 5"
}

run_cases the_selected_samples_are_those_of_python wrong_conditions_are_refused training_follows_the_selection
