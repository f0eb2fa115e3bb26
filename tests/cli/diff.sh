#!/usr/bin/env bash
# `millrace ckpt diff` on steps of runs, consolidated files, and files from other tools: output and
# exit status.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 40 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 4}
data:       {train: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 2}
YAML
train() { millrace train train.yaml "$@" --quiet >/dev/null; }
train

# perturb A B: writes A to B, with two changed elements in the first tensor and a NaN in the
# second; prints their names and the largest change
perturb() {
  "$python" - "$1" "$2" <<'PY'
import sys
import numpy as np
from safetensors.numpy import load_file, save_file
tensors = load_file(sys.argv[1])
first, second = sorted(tensors)[:2]
before = tensors[first].astype(np.float64)
tensors[first].reshape(-1)[[1, 3]] += np.float32([0.5, -2])
tensors[second].reshape(-1)[0] = np.nan
save_file(tensors, sys.argv[2])
print(first, second, np.abs(tensors[first] - before).max())
PY
}
need_safetensors() {
  need_python
  "$python" -c 'import numpy, safetensors.numpy' 2>/dev/null || skip "no safetensors for Python here"
}

equal_runs_have_no_differences() {
  train --set run.dir=runs/b
  same "$(status_of millrace ckpt diff runs/a/ckpt runs/b/ckpt)" 0 "$(cat errors)"
  grep -qx 'same  *yes' out
  need_python
  millrace ckpt diff runs/a/ckpt runs/b/ckpt --json >report
  same "$(json 'd["same"], d["compared_loader"], d["different"], d["loader"], d["a"]["step"]' report)" "(True, True, [], [], 4)"
  same "$(json 'd["compared_tensors_count"] > 20 and d["compared_bytes"] > 100000' report)" True
  same "$(json 'sum(s["compared_tensors_count"] for s in d["sections"]) == d["compared_tensors_count"]' report)" True
}

steps_of_a_run_differ_in_weights_moments_and_loader_position() {
  same "$(status_of millrace ckpt diff runs/a/ckpt/step-00000002 runs/a/ckpt --limit 5)" 1
  same "$(cat errors)" "" "stderr"
  contains "$(cat out)" "loader.position  32  "
  need_python
  same "$(status_of millrace ckpt diff runs/a/ckpt/step-00000002 runs/a/ckpt --limit 0 --json)" 1
  same "$(json 'd["same"], [s["section"] for s in d["sections"] if s["different_count"]]' out)" "(False, ['model', 'optimizer'])"
  same "$(json '[e["a"] for e in d["loader"] if e["entry"] == "loader.position"]' out)" "['32']"
  same "$(json 'len(d["different"]) == sum(s["different_count"] for s in d["sections"])' out)" True
}

a_consolidated_file_holds_only_the_model() {
  millrace convert checkpoint runs/a/ckpt model.safetensors --to full --quiet >/dev/null
  same "$(status_of millrace ckpt diff runs/a/ckpt model.safetensors --only model)" 0 "$(cat errors)"
  same "$(status_of millrace ckpt diff model.safetensors runs/a/ckpt)" 1
  contains "$(cat out)" "only in b"
  same "$(status_of millrace ckpt diff model.safetensors model.safetensors --only optimizer)" 1
  one_line errors
  contains "$(cat errors)" '"optimizer"'
}

changed_elements_are_counted_and_the_largest_difference_is_shown() {
  need_safetensors
  millrace convert checkpoint runs/a/ckpt a.safetensors --to full --quiet >/dev/null
  read -r first second largest < <(perturb a.safetensors b.safetensors)
  same "$(status_of millrace ckpt diff a.safetensors b.safetensors --json)" 1
  same "$(json '[(t["name"], t["different_count"], t["nan_count"]) for t in d["different"]]' out)" \
    "[('$first', 2, 0), ('$second', 1, 1)]"
  same "$(json 'd["different"][0]["largest_difference"], d["different"][1]["largest_difference"]' out)" "($largest, 'nan')"
  same "$(json 'd["different"][0]["a"] - d["different"][0]["b"]' out)" "$largest"
  same "$(status_of millrace ckpt diff a.safetensors b.safetensors --limit 1)" 1
  grep -q "^  $first " out || fail "no line of $first"
  ! grep -q "^  $second " out || fail "more lines than --limit allows"
  grep -qx 'different not listed  *1' out || fail "the rest is not counted: $(cat out)"
  same "$(status_of millrace ckpt diff a.safetensors b.safetensors --only "$second")" 1
  ! grep -q "^  $first " out
}

a_damaged_side_is_an_error_not_a_difference() {
  cp -r runs/a/ckpt/step-00000004 bad
  printf '\x55' | dd of=bad/rank-00000.safetensors bs=1 seek=20000 conv=notrunc status=none
  same "$(status_of millrace ckpt diff runs/a/ckpt bad)" 1
  one_line errors
  contains "$(cat errors)" "bad/rank-00000.safetensors at 0"
  same "$(cat out)" "" "stdout"
  head -c 100 bad/rank-00000.safetensors >cut.safetensors
  same "$(status_of millrace ckpt diff cut.safetensors runs/a/ckpt)" 1
  one_line errors
  same "$(status_of millrace ckpt diff runs/a/ckpt nowhere)" 1
  contains "$(cat errors)" nowhere
  same "$(status_of millrace ckpt diff runs/a/ckpt)" 2
}

run_cases equal_runs_have_no_differences steps_of_a_run_differ_in_weights_moments_and_loader_position \
  a_consolidated_file_holds_only_the_model changed_elements_are_counted_and_the_largest_difference_is_shown \
  a_damaged_side_is_an_error_not_a_difference
