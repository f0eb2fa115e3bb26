#!/usr/bin/env bash
# The progress of an endless training run on terminals of several widths, resized and stopped, and
# in pipes.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet || exit 1
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 1000000}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 16, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 1000}
eval:       {every: 100}
log:        {every: 100}
YAML

a_bar_fits_its_terminal_and_leaves_it_clean() {
  need_python
  "$python" "$here/terminal.py" "$MILLRACE" widths
}
a_bar_follows_the_width_of_its_terminal() {
  need_python
  "$python" "$here/terminal.py" "$MILLRACE" resized
}
dumb_terminals_get_lines_and_quiet_gets_none() {
  need_python
  "$python" "$here/terminal.py" "$MILLRACE" plain
}

pipes_get_no_control_characters() {
  local name
  for name in "train train.yaml --set run.steps=400" "verify shards" "read shards" "verify runs/a/ckpt" "ckpt hash runs/a/ckpt" \
    "eval train.yaml --from runs/a/ckpt" "index shards/shard-000000.tar" "convert dataset photos again" \
    "convert checkpoint runs/a/ckpt a.safetensors --to full --verify"; do
    # shellcheck disable=SC2086
    millrace $name 2>&1 | cat >out
    same "$(LC_ALL=C tr -d '\n\t\40-\176' <out | wc -c)" 0 "control characters of $name"
    [[ -s out ]] || fail "$name prints nothing"
  done
}

# If keys are printed on the terminal, no bar is drawn, so each line is intact.
keys_and_a_bar_do_not_share_a_line() {
  need_python
  command -v script >/dev/null || skip "script is not installed"
  script -qec "$MILLRACE read shards --print keys" typescript </dev/null >/dev/null
  same "$(tr -d '\r' <typescript | grep -cE '^[0-9]+'$'\t''[a-z]+/[0-9a-z-]+$')" 56 "keys on their own line"
  ! grep -q 'reading' typescript || fail "a bar appears among the keys"
}

quiet_keeps_only_requested_results_on_stdout() {
  local name
  for name in "convert dataset photos silent" "index shards/shard-000000.tar" "train train.yaml --set run.dir=runs/silent --set run.steps=2 --set schedule.warmup=1" \
    "convert checkpoint runs/silent/ckpt silent.safetensors --to full" "ckpt copy runs/silent/ckpt copies" "ckpt sweep copies" \
    "ckpt prune copies --keep-last 1"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $name --quiet)" 0 "status of $name"
    same "$(cat out errors)" "" "output of $name"
  done
  need_python
  millrace convert dataset photos silent --force --quiet --json >out
  same "$(json 'd["samples_count"]' out)" "$(ls photos/*/*.jpg | wc -l)"
  millrace read shards --quiet >out
  contains "$(cat out)" "order  "
  millrace train train.yaml --set run.dir=runs/profiled --set run.steps=3 --profile 2:3 --quiet >out
  contains "$(cat out)" "profile"
  millrace ckpt prune copies --keep-last 1 --dry-run --quiet >out
  contains "$(cat out)" "kept: last"
}

results_and_help_fit_their_terminal() {
  need_python
  "$python" "$here/terminal.py" "$MILLRACE" results
}

run_cases results_and_help_fit_their_terminal a_bar_fits_its_terminal_and_leaves_it_clean a_bar_follows_the_width_of_its_terminal \
  dumb_terminals_get_lines_and_quiet_gets_none pipes_get_no_control_characters keys_and_a_bar_do_not_share_a_line quiet_keeps_only_requested_results_on_stdout
