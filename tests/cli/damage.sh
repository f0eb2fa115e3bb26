#!/usr/bin/env bash
# Runs with damaged checkpoints, a full disk, or a folder locked by another run: their messages, and
# the step they resume from.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 12}
data:       {train: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 2, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 4, keep: {last: 3}}
log:        {every: 12}
YAML
millrace train train.yaml --quiet >whole.out 2>whole.log || { cat whole.log >&2; exit 1; }
millrace ckpt hash runs/a/ckpt >whole.hash

# flip_a_bit FILE OFFSET
flip_a_bit() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  printf "\\x$(printf %x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
# Copies the complete run to its own folder.
copy_run() { mkdir -p "runs/$1" && cp -r runs/a/. "runs/$1/"; }

a_flipped_bit_makes_a_resume_fall_back_with_a_warning_to_the_same_weights() {
  copy_run flipped
  local last=runs/flipped/ckpt/step-00000012
  flip_a_bit "$last/rank-00000.safetensors" 9000
  same "$(status_of millrace train train.yaml --set run.dir=runs/flipped)" 0
  grep -q "^warning: skipping a damaged checkpoint: tensor \".*\": a block does not match its checksum: $last/rank-00000.safetensors at 0: " errors ||
    { cat errors >&2; fail "no warning"; }
  grep -q '^resuming at step 8 from runs/flipped/ckpt/step-00000008$' errors || { cat errors >&2; fail "not from step 8"; }
  same "$(millrace ckpt hash runs/flipped/ckpt)" "$(cat whole.hash)"
  same "$(status_of millrace verify runs/flipped/ckpt)" 0 # the damaged step was saved again
  same "$(status_of millrace train train.yaml --set run.dir=runs/flipped)" 0
  ! grep -q 'damaged' errors || fail "the damage is still reported"
}

damaged_steps_are_skipped_and_kept_until_replaced() {
  copy_run several
  flip_a_bit runs/several/ckpt/step-00000012/rank-00000.safetensors 9000
  truncate -s -1 runs/several/ckpt/step-00000008/rank-00000.safetensors
  same "$(status_of millrace train train.yaml --set run.dir=runs/several --set run.steps=5 --set checkpoint.every=0)" 0
  same "$(grep -c '^warning: skipping a damaged checkpoint: ' errors)" 2
  grep -q '^resuming at step 4 from ' errors
  [[ -d runs/several/ckpt/step-00000012 && -d runs/several/ckpt/step-00000008 ]] || fail "a damaged step was removed"
}

a_run_does_not_start_over_if_all_steps_are_damaged() {
  copy_run all
  for step in 04 08 12; do flip_a_bit "runs/all/ckpt/step-000000$step/rank-00000.safetensors" 9000; done
  same "$(status_of millrace train train.yaml --set run.dir=runs/all)" 1
  grep -q '^millrace: no checkpoint is left to resume from: all are damaged: runs/all/ckpt; ' errors || { cat errors >&2; fail "no such error"; }
  [[ -d runs/all/ckpt/step-00000012 ]]
}

damage_stops_the_run_by_policy() {
  copy_run stop
  flip_a_bit runs/stop/ckpt/step-00000012/rank-00000.safetensors 9000
  same "$(status_of millrace train train.yaml --set run.dir=runs/stop --set checkpoint.on_damage=stop)" 1
  grep -q '^millrace: tensor ".*": a block does not match its checksum: runs/stop/ckpt/step-00000012/' errors || { cat errors >&2; fail "no such error"; }
  rm runs/stop/ckpt/step-00000012/rank-00000.safetensors
  same "$(status_of millrace train train.yaml --set run.dir=runs/stop --set checkpoint.on_damage=stop)" 1
  grep -q '^millrace: .*step-00000012/rank-00000.safetensors; .*checkpoint.on_damage' errors || { cat errors >&2; fail "no such error"; }
}

a_damaged_step_requested_by_name_is_an_error() {
  copy_run named
  flip_a_bit runs/named/ckpt/step-00000012/rank-00000.safetensors 9000
  same "$(status_of millrace train train.yaml --set run.dir=runs/other --resume runs/named/ckpt/step-00000012)" 1
  grep -q '^millrace: tensor ".*": a block does not match its checksum: ' errors || { cat errors >&2; fail "no such error"; }
}

run_cases a_flipped_bit_makes_a_resume_fall_back_with_a_warning_to_the_same_weights \
  damaged_steps_are_skipped_and_kept_until_replaced \
  a_run_does_not_start_over_if_all_steps_are_damaged damage_stops_the_run_by_policy a_damaged_step_requested_by_name_is_an_error
