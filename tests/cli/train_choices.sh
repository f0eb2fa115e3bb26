#!/usr/bin/env bash
# What a configuration of `millrace train` may choose besides the model and the data: parameters that are frozen.
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

# RUN, settings...: status 0, what it said in the file errors
train() {
  local run=$1
  shift
  same "$(status_of millrace train train.yaml --set run.dir="runs/$run" "${@/#/--set=}")" 0 "$run ($(cat errors))"
}
hash_of() { millrace ckpt hash "runs/$1/ckpt"; }

frozen_parameters_stay_as_they_are_and_have_no_moments() {
  need_python
  train begun run.steps=1 optimizer.lr=0
  train frozen "model.freeze=embed.*, blocks.0.*, *.attn.*"
  grep -q '^model: 0.0[0-9]* M of the parameters are frozen' errors
  for tensors in 'embed.*' 'blocks.0.*' 'blocks.1.attn.*'; do
    same "$(status_of millrace ckpt diff runs/begun/ckpt runs/frozen/ckpt --only "$tensors")" 0 "$tensors"
  done
  for tensors in 'blocks.1.mlp.fc.weight' 'blocks.1.norm?.bias' 'head.weight' norm.weight; do
    same "$(status_of millrace ckpt diff runs/begun/ckpt runs/frozen/ckpt --only "$tensors")" 1 "$tensors"
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

# Whatever computes it, in one go or in two.
a_run_with_frozen_parameters_goes_on_to_the_same_weights() {
  local freeze="model.freeze=*, !blocks.1.*, !head.*"
  train whole-frozen "$freeze"
  train cut-frozen "$freeze" run.steps=5 threads=1
  train cut-frozen "$freeze" model.recompute=1
  same "$(hash_of cut-frozen)" "$(hash_of whole-frozen)"
}

other_parameters_may_be_frozen_from_a_step_on_which_is_said() {
  train thawed "model.freeze=embed.*" run.steps=4
  train thawed "model.freeze=blocks.0.*" run.steps=8
  contains "$(cat errors)" "model.freeze was embed.*, is now blocks.0.*"
  contains "$(cat errors)" "6 moments are not in the checkpoint, which kept none of what was frozen: they begin at zero"
  train thawed-step run.steps=4 "model.freeze=embed.*"
  same "$(status_of millrace ckpt diff runs/thawed-step/ckpt runs/thawed/ckpt --only 'blocks.0.*')" 0
  same "$(status_of millrace ckpt diff runs/thawed-step/ckpt runs/thawed/ckpt --only 'embed.*')" 1
}

what_can_not_be_frozen_is_refused() {
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set 'model.freeze=block.*')" 2
  contains "$(cat errors)" 'no parameter is matched by "block.*" of model.freeze'
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set 'model.freeze=*')" 2
  contains "$(cat errors)" 'model.freeze leaves nothing to train'
}

run_cases frozen_parameters_stay_as_they_are_and_have_no_moments a_run_with_frozen_parameters_goes_on_to_the_same_weights \
  other_parameters_may_be_frozen_from_a_step_on_which_is_said what_can_not_be_frozen_is_refused
