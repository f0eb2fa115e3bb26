#!/usr/bin/env bash
# local_sgd — local updates and their periodic means match local_sgd.py, which computes them with
# torch and numpy: per-rank gradients, norms and moments, ranks with different numbers of
# micro-batches, means at intervals and before each save.
. "$TEST_SOURCE_DIR/tests/cli/lib.sh"
mpirun_sh=$TEST_SOURCE_DIR/tests/support/mpirun.sh
oracle=$TEST_SOURCE_DIR/tests/oracle/local_sgd.py

cat "$oracle" >text.txt # enough words
millrace convert dataset text.txt tokens --tokenizer bytes --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: first, seed: 5, steps: 1}
device:     cpu
threads:    1
data:       {train: tokens, memory: 32MiB, workers: 1, order: sequential, text: {block: 16}}
model:      {type: gpt2, layers: 2, heads: 2, width: 24}
batch:      {global: 14, micro: 2}
optimizer:  {type: sgd, lr: 0, weight_decay: 0, clip_norm: 0.5}
schedule:   {type: constant, warmup: 0}
checkpoint: {every: 4, keep: {last: 0}}
YAML

# updates_match_numpy SETTING...
updates_match_numpy() {
  local ranks=3 list=()
  for set in run.dir=runs/it run.steps=8 parallel.reduction=fast parallel.local_sgd.steps=3 "$@"; do list+=(--set "$set"); done
  rm -rf runs/it
  "$mpirun_sh" $ranks "$MILLRACE" train train.yaml "${list[@]}" >out 2>errors || fail "$*: $(cat errors)"
  "$python" "$oracle" tokens/*.tar first/ckpt/step-00000001 runs/it/ckpt/step-00000008 3 $ranks 4 8 || fail "$*: not what numpy has"
}

sgd_updates_and_their_means_match_numpy() {
  updates_match_numpy optimizer.lr=0.5 optimizer.momentum=0.9
}

adamw_updates_and_their_means_match_numpy() {
  updates_match_numpy optimizer.type=adamw optimizer.lr=0.01
}

command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"
need_python
"$python" -c 'import torch' 2>/dev/null || skip "there is no torch here"
millrace train train.yaml >/dev/null 2>errors || fail "$(cat errors)" # learning rate 0: the weights that all runs begin with
run_cases sgd_updates_and_their_means_match_numpy adamw_updates_and_their_means_match_numpy
