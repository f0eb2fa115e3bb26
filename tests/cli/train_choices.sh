#!/usr/bin/env bash
# More settings of `millrace train`: frozen parameters, early stopping, learning rates, batches.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 12}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 2, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
schedule:   {type: constant, warmup: 2}
checkpoint: {every: 0}
eval:       {every: 6}
log:        {every: 3}
YAML

# train RUN SETTING...: expects status 0; messages go to errors
train() {
  local run=$1
  shift
  same "$(status_of millrace train train.yaml --set run.dir="runs/$run" "${@/#/--set=}")" 0 "$run ($(cat errors))"
}
hash_of() { millrace ckpt hash "runs/$1/ckpt"; }

frozen_parameters_do_not_change_and_have_no_moments() {
  need_python
  train initial run.steps=1 optimizer.lr=0
  train frozen "model.freeze=embed.*, blocks.0.*, *.attn.*"
  grep -q '^model: 0.0[0-9]* M of the parameters are frozen' errors
  for tensors in 'embed.*' 'blocks.0.*' 'blocks.1.attn.*'; do
    same "$(status_of millrace ckpt diff runs/initial/ckpt runs/frozen/ckpt --only "$tensors")" 0 "$tensors"
  done
  for tensors in 'blocks.1.mlp.fc.weight' 'blocks.1.norm?.bias' 'head.weight' norm.weight; do
    same "$(status_of millrace ckpt diff runs/initial/ckpt runs/frozen/ckpt --only "$tensors")" 1 "$tensors"
  done
  millrace inspect runs/frozen/ckpt --json >report
  json '[t["name"] for t in d["tensors"]]' report >names
  same "$("$python" -c 'names = eval(open("names").read())
moments = {n.split("exp_avg.")[1] for n in names if ".exp_avg." in n}
print(*sorted(moments))
print(moments == {n.split("exp_avg_sq.")[1] for n in names if ".exp_avg_sq." in n}, len(names) - 2 * len(moments))')" \
    "$(echo blocks.1.mlp.{fc,proj}.{bias,weight} blocks.1.norm{1,2}.{bias,weight} head.{bias,weight} norm.{bias,weight})
True 39"
}

# With all kernels, in one attempt or in two.
a_run_with_frozen_parameters_resumes_to_the_same_weights() {
  local freeze="model.freeze=*, !blocks.1.*, !head.*"
  train whole-frozen "$freeze"
  train cut-frozen "$freeze" run.steps=5 threads=1
  train cut-frozen "$freeze" model.recompute=1
  same "$(hash_of cut-frozen)" "$(hash_of whole-frozen)"
}

the_frozen_set_may_change_on_resume_with_a_message() {
  train thawed "model.freeze=embed.*" run.steps=4
  train thawed "model.freeze=blocks.0.*" run.steps=8
  contains "$(cat errors)" "model.freeze was embed.*, is now blocks.0.*"
  contains "$(cat errors)" "6 moments are not in the checkpoint because their parameters were frozen: they start at zero"
  train thawed-step run.steps=4 "model.freeze=embed.*"
  same "$(status_of millrace ckpt diff runs/thawed-step/ckpt runs/thawed/ckpt --only 'blocks.0.*')" 0
  same "$(status_of millrace ckpt diff runs/thawed-step/ckpt runs/thawed/ckpt --only 'embed.*')" 1
}

unfreezable_parameters_are_refused() {
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set 'model.freeze=block.*')" 2
  contains "$(cat errors)" 'no parameter matches "block.*" in model.freeze'
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set 'model.freeze=*')" 2
  contains "$(cat errors)" 'model.freeze leaves nothing to train'
}

# expected_end RUN PATIENCE DELTA METRIC: prints the step after which early stopping ends an
# uninterrupted run, and the number of evaluations without improvement.
expected_end() {
  "$python" - "$@" <<'PY'
import json, sys
patience, delta, metric = int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
best, waited, step = None, 0, None
for line in map(json.loads, open(f"runs/{sys.argv[1]}/metrics.jsonl")):
    if "val_loss" not in line:
        continue
    value = line[metric]
    if value is not None and metric == "val_loss":
        value = -value
    waited = 0 if value is not None and (best is None or value - best > delta) else waited + 1
    best, step = value if waited == 0 else best, line["step"]
    if waited == patience:
        break
print(step, waited)
PY
}

early_stop_does_not_depend_on_where_a_run_was_stopped() {
  need_python
  local -a common=(run.steps=60 eval.every=2 optimizer.lr=0.02 schedule.warmup=0)
  local metric end steps
  train long "${common[@]}"
  for metric in val_loss val_accuracy; do
    local -a stop=("${common[@]}" early_stop.patience=3 early_stop.min_delta=0.01 early_stop.metric=$metric)
    end=$(expected_end long 3 0.01 $metric)
    same "${end#* }" 3 "evaluations without improvement of the long run"
    end=${end% *}
    train early-$metric "${stop[@]}"
    grep -q "^early stop after step $end: $metric was best after step [0-9]*, " errors
    same "$(sed -n 's/^step  *//p' out)" "$end"
    same "$(sed -n 's/^checkpoint  *//p' out)" "runs/early-$metric/ckpt/$(printf 'step-%08d' "$end")"
    train early-$metric "${stop[@]}"
    contains "$(cat errors)" "this run ended early, after step $end"
    same "$(sed -n 's/^step  *//p' out)" "$end" "done again"
  done
  # in attempts that end when evaluations are due: the counter continues
  for steps in $((end - 6)) $((end - 4)) $((end - 2)) 60; do
    train pieces "${stop[@]}" run.steps=$steps checkpoint.every=3
  done
  same "$(sed -n 's/^step  *//p' out)" "$end" "in pieces"
  same "$(hash_of pieces)" "$(hash_of early-val_accuracy)"
  train pieces "${stop[@]}" early_stop.patience=4 run.steps=$((end + 2))
  same "$(sed -n 's/^step  *//p' out)" $((end + 2)) "with more patience"
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set data.val= --set early_stop.patience=1)" 2
  contains "$(cat errors)" "early_stop.patience needs validation data"
}

# Z occurs only in the validation data, so its row of the embedding only decays: here it is
# multiplied by -10 at each step. If it starts at 1e34 or more, it is infinite after step 5, so the
# evaluation's loss is not finite, while training is unaffected.
make_odd() { # VALUE: writes odd.safetensors with that value in the row
  "$python" - "$1" <<'PY'
import json, struct, sys
content = bytearray(open("initial.safetensors", "rb").read())
begin = 8 + struct.unpack("<Q", content[:8])[0]
tensor = json.loads(content[8:begin])["embed.tokens.weight"]
row = struct.pack("<f", float(sys.argv[1])) * tensor["shape"][1]
at = begin + tensor["data_offsets"][0] + ord("Z") * len(row)
content[at:at + len(row)] = row
open("odd.safetensors", "wb").write(content)
PY
}

non_finite_evaluations_count_once_wherever_a_run_was_killed() {
  need_python
  local i value patience metric every run end step
  for ((i = 0; i < 200; i++)); do echo "the mill wheel turns, and the race runs $i"; done >words.txt
  for ((i = 0; i < 20; i++)); do echo "ZZZ Z $i"; done >odd.txt
  for i in words odd; do millrace convert dataset $i.txt $i --tokenizer bytes --quiet >/dev/null; done
  local -a common=(data.train=words data.val=odd data.text.block=32 model.type=llama model.layers=1 "model.freeze=*, !embed.*" optimizer.lr=11
    optimizer.weight_decay=1 schedule.warmup=0 run.steps=20 checkpoint.every=1 checkpoint.keep.last=0)
  train words "${common[@]}" run.steps=1 optimizer.lr=0
  millrace convert checkpoint runs/words/ckpt initial.safetensors --to full --quiet >/dev/null
  while read -r value patience metric every; do
    run=odd-$value-$metric
    make_odd "$value"
    local -a stop=("${common[@]}" model.init=odd.safetensors eval.every="$every" early_stop.patience="$patience" early_stop.metric="$metric")
    train "$run-long" "${common[@]}" model.init=odd.safetensors eval.every="$every" checkpoint.every=0
    end=$(expected_end "$run-long" "$patience" 0 "$metric")
    same "${end#* }" "$patience" "evaluations without improvement"
    end=${end% *}
    same "$(json "[x['val_loss'] for x in d if x['step'] == $end and 'val_loss' in x]" "runs/$run-long/metrics.jsonl")" "[None]"
    train "$run" "${stop[@]}"
    same "$(sed -n 's/^step  *//p' out)" "$end" "$run"
    grep -q "^early stop after step $end: $metric was " errors
    for ((step = 1; step < end; step++)); do # as left by a kill just before the next checkpoint
      rm -rf runs/killed
      mkdir -p runs/killed/ckpt
      cp -r "runs/$run/ckpt/$(printf 'step-%08d' "$step")" runs/killed/ckpt
      train killed "${stop[@]}"
      same "$(sed -n 's/^step  *//p' out)" "$end" "$run, killed after step $step"
    done
  done <<<"1e34 6 val_loss 1
1e34 6 val_accuracy 1
inf 3 val_loss 2"
  train odd-turns "${stop[@]}" eval.every=1 early_stop.patience=6 batch.global=64 batch.schedule=1:2 # after step 4
  same "$(sed -n 's/^step  *//p' out)" 6 "where the batch changes"
}

# Three epochs of slightly more than three steps each.
rates_follow_epochs_and_grow_with_the_batch() {
  need_python
  local -a common=(log.every=1 eval.every=0 run.steps=10 optimizer.lr=1 schedule.min_lr=0.1)
  train rates "${common[@]}" schedule.type=linear schedule.by=epoch schedule.warmup=1 optimizer.base_batch=64
  grep -q '^learning rate: at most 0.25 for a batch of 16, scaled from 1 for a batch of 64$' errors
  same "$(json '[round(x["lr"], 6) for x in d if "lr" in x]' runs/rates/metrics.jsonl)" \
    "[0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.175, 0.175, 0.175, 0.1]"
  train fall "${common[@]}" schedule.type=warmup_linear schedule.warmup=2
  same "$(json '[round(x["lr"], 6) for x in d if "lr" in x]' runs/fall/metrics.jsonl)" "[0.5, 1, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]"
}

micro_global_and_accumulation_determine_each_other() {
  local config
  batch_of() { millrace train "$@" --print-config | sed -n '/^batch/,/^[a-z]*:/s/^  \(global\|micro\|accumulation\): //p' | tr '\n' ' '; }
  grep -v '^batch' train.yaml >free.yaml
  same "$(batch_of free.yaml)" "256 32 auto "
  same "$(batch_of free.yaml --set batch.micro=8 --set batch.accumulation=6)" "48 8 auto "
  same "$(batch_of free.yaml --set batch.global=48 --set batch.accumulation=6)" "48 8 auto "
  same "$(batch_of free.yaml --set batch.accumulation=3)" "96 32 auto "
  same "$(batch_of train.yaml --set batch.accumulation=2)" "16 8 auto "
  same "$(status_of millrace train train.yaml --set batch.accumulation=4)" 2
  contains "$(cat errors)" "the batch sizes do not match"
  contains "$(cat errors)" "found global 16, micro 8, accumulation 4, ranks 1"
  same "$(status_of millrace train free.yaml --set batch.global=16 --set batch.accumulation=5)" 2
  contains "$(cat errors)" "batch.accumulation times the number of ranks does not divide batch.global"
  same "$(status_of millrace train free.yaml --set batch.global=131072 --set batch.accumulation=1)" 2
  contains "$(cat errors)" "micro-batches of more than 65536"
  same "$(status_of millrace train free.yaml --set batch.global=4 --set batch.accumulation=4 --set data.image.mixup=0.2)" 2
  contains "$(cat errors)" "mixing needs at least two images per micro-batch"
  same "$(status_of millrace train free.yaml --set batch.global=auto)" 2
  contains "$(cat errors)" "batch.global or batch.micro is auto"
}

# 56 samples: an epoch has 3 steps of 16, the next 1 step of 32, the next 3 steps again; each sample
# occurs at most once per epoch.
a_batch_that_grows_by_epoch_keeps_the_order_and_survives_stops() {
  need_python
  local -a grows=('batch.schedule=1:2, 3:1' run.steps=0 run.epochs=4 log.every=1 optimizer.base_batch=16)
  train grows "${grows[@]}"
  same "$(sed -n 's/^step  *//p' out)" 8
  same "$(grep -c '^model: .* 2 micro-batches of 8 per step$' errors) $(grep -c '^model: .* 4 micro-batches of 8 per step$' errors)" "2 1"
  same "$(json '[(x["step"], x["epoch"], x["lr"] / d[-2]["lr"]) for x in d if "lr" in x]' runs/grows/metrics.jsonl)" \
    "[(1, 0, 0.5), (2, 0, 1.0), (3, 0, 1.0), (4, 1, 2.0), (5, 2, 2.0), (6, 3, 1.0), (7, 3, 1.0), (8, 3, 1.0)]"
  # compares its digest with that of the same epochs read separately
  local -a read=(millrace read shards --print none --json --quiet --seed 3 --micro 8 --lanes 16)
  local once=0 part
  for part in "0 16 48" "1 32 32" "2 32 32" "3 16 48"; do
    # shellcheck disable=SC2086
    set -- $part
    "${read[@]}" --epoch "$1" --batch "$2" --count "$3" >part
    once=$("$python" -c 'import json, sys; print((int(sys.argv[1]) + int(json.load(open("part"))["once"], 16)) % 2**64)' "$once")
  done
  same "$(sed -n 's/^once  *//p' out)" "$(printf %016x "$once")"
  # the digest reported at the end covers all batches
  same "$(status_of millrace train train.yaml --set run.dir=runs/grows-profiled "${grows[@]/#/--set=}" --profile 2:5 --json --quiet)" 0
  same "$(json '[sum(x.get("event") == "used" for x in d), d[-1]["profile"]["first_step"], d[-1]["profile"]["last_step"]]' out)" "[1, 2, 5]"
  same "$(json '{r["range"]: r["times_count"] for r in d[-1]["profile"]["ranges"]}["step"]' out)" 4
  # stopped within each batch size, and at each change
  local steps
  for steps in 2 3 4 5 7; do
    train grows-cut "${grows[@]}" run.epochs=0 run.steps=$steps threads=1
  done
  train grows-cut "${grows[@]}"
  same "$(hash_of grows-cut)" "$(hash_of grows)"
  same "$(status_of millrace train train.yaml --set run.dir=runs/grows --set batch.schedule=1:3 --set run.epochs=5 --set run.steps=0)" 2
  contains "$(cat errors)" "batch.schedule cannot change in the middle of a run"
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set batch.schedule=1:4)" 2
  contains "$(cat errors)" "the training data is smaller than one batch"
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set batch.schedule=1)" 2
  contains "$(cat errors)" "batch.schedule is not a list of EPOCH:TIMES"
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set batch.schedule=0:2)" 2
  contains "$(cat errors)" "found 0:2; set the batch of epoch 0 with batch.global"
}

a_resume_keeps_the_order_even_if_its_defaults_change() {
  train kept-order run.steps=4
  cp -r shards unshuffled
  chmod -R u+w unshuffled
  sed -i 's/"keep_order":false/"keep_order":true/' unshuffled/dataset.json # four times as many lanes by default
  grep -q '"keep_order":true' unshuffled/dataset.json
  train other-order run.steps=1 data.train=unshuffled
  contains "$(cat errors)" "(lanes 56, "
  train kept-order run.steps=6 data.train=unshuffled
  contains "$(cat errors)" "(lanes 16, "
  train uninterrupted-order run.steps=6
  same "$(hash_of kept-order)" "$(hash_of uninterrupted-order)"
}

a_run_of_another_order_version_is_refused() {
  need_python
  local manifest
  train old-order run.steps=2
  chmod -R u+w runs/old-order/ckpt
  for manifest in runs/old-order/ckpt/*/manifest.json; do
    edit_manifest "$manifest" '"order_version":2' '"order_version":1'
    edit_manifest "$manifest" '"data.lanes":"auto"' '"data.lanes":64'
  done
  same "$(status_of millrace train train.yaml --set run.dir=runs/old-order --set run.steps=4)" 2
  contains "$(cat errors)" "expected order version 2, found order version 1; finish the run with the version of millrace that began it"
}

a_warmup_as_long_as_the_run_gives_a_warning() {
  local warning='schedule.warmup is'
  same "$(status_of millrace train train.yaml --set run.dir=runs/w --set run.steps=4 --set schedule.warmup=4)" 0 "$(cat errors)"
  contains "$(cat errors)" "schedule.warmup is 4 steps, and the run has 4: the learning rate only rises, to "
  same "$(grep -c "$warning" errors)" 1
  same "$(status_of millrace train train.yaml --set run.dir=runs/w3 --set run.steps=4 --set schedule.warmup=3)" 0
  ! grep -q "$warning" errors || fail "$(cat errors)"
  same "$(status_of millrace train train.yaml --set run.dir=runs/w0 --set run.steps=1 --set schedule.warmup=0)" 0
  ! grep -q "$warning" errors || fail "$(cat errors)"
  same "$(status_of millrace train train.yaml --set run.dir=runs/we --set run.steps=4 --set schedule.by=epoch --set schedule.warmup=2)" 0
  contains "$(cat errors)" "schedule.warmup is 2 epochs, and the run has "
}

run_cases a_warmup_as_long_as_the_run_gives_a_warning frozen_parameters_do_not_change_and_have_no_moments a_run_with_frozen_parameters_resumes_to_the_same_weights \
  the_frozen_set_may_change_on_resume_with_a_message unfreezable_parameters_are_refused \
  early_stop_does_not_depend_on_where_a_run_was_stopped \
  non_finite_evaluations_count_once_wherever_a_run_was_killed rates_follow_epochs_and_grow_with_the_batch \
  micro_global_and_accumulation_determine_each_other \
  a_batch_that_grows_by_epoch_keeps_the_order_and_survives_stops \
  a_resume_keeps_the_order_even_if_its_defaults_change a_run_of_another_order_version_is_refused
