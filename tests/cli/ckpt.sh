#!/usr/bin/env bash
# `millrace ckpt list`, `prune`, `copy` and `sweep` on checkpoints of a real run.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: run, seed: 3, steps: 6}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 1, keep: {last: 0}}
eval:       {every: 2}
YAML
millrace train train.yaml --quiet >/dev/null || exit 1

steps_of() { ls "$1" | sed -n 's/^step-0*//p' | paste -sd ' '; }
flip_a_bit() { # FILE OFFSET
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
  printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# with_lock_holder FOLDER COMMAND...: runs COMMAND while a training process locks the folder; owner.pid
# holds its process id.
with_lock_holder() {
  local folder=$1 pid status=0
  shift
  "$MILLRACE" train train.yaml --set checkpoint.dir="$folder" --set run.dir=owner --set run.steps=1000000 --set schedule.type=constant \
    --set checkpoint.every=0 --resume auto >/dev/null 2>owner.log &
  pid=$!
  echo $pid >owner.pid
  until grep -q '^step ' owner.log; do kill -0 $pid; sleep 0.02; done
  "$@" || status=$?
  kill -KILL $pid
  wait $pid 2>/dev/null || :
  return $status
}

list_shows_steps_times_sizes_metrics_and_incomplete_steps() {
  need_python
  cp -r run/ckpt listed
  mkdir listed/step-00000009 listed/.tmp-step-00000007-x-1-0123456789abcdef listed/other
  truncate -s -1 listed/step-00000004/rank-00000.safetensors
  mv listed/step-00000001 listed/aside-step-00000002
  millrace ckpt list listed --json >list
  same "$(json '[c["step"] for c in d["checkpoints"]]' list)" "[2, 3, 5, 6]"
  same "$(json 'all(c["whole"] and c["size_bytes"] > 0 and c["written"].endswith("Z") for c in d["checkpoints"])' list)" True
  same "$(json '[c["metrics"].get("val_step") for c in d["checkpoints"]]' list)" "[2, 2, 4, 6]"
  same "$(json '[c["metrics"]["val_loss"] > 0 for c in d["checkpoints"]]' list)" "[True, True, True, True]"
  same "$(json '[(b["whole"], b["path"]) for b in d["not_whole"]]' list)" \
    "[(False, 'listed/step-00000004'), (False, 'listed/step-00000009'), (False, 'listed/.tmp-step-00000007-x-1-0123456789abcdef'), (False, 'listed/aside-step-00000002')]"
  contains "$(json 'd["not_whole"][0]["problem"]' list)" "size of a checkpoint file differs"
  millrace ckpt list listed >text
  grep -q '^ *step  *written  *size  *whole  *metrics  *path$' text
  grep -q '^  6  .* yes  *val step 6, val loss [0-9.]*, val accuracy [0-9.]*  listed/step-00000006$' text
  grep -q 'no  *listed/step-00000009 .*manifest.json' text
  millrace ckpt list listed/step-00000002/ --json >list
  same "$(json '[c["step"] for c in d["checkpoints"]]' list)" "[2]"
  millrace ckpt list listed/aside-step-00000002 --json >list
  same "$(json '[c["step"] for c in d["checkpoints"]]' list)" "[1]"
  millrace ckpt list run/ckpt >text
  if grep -q 'not whole' text; then fail "all are complete"; fi
}

a_misnamed_step_is_refused_and_nothing_is_pruned() {
  need_python
  cp -r run/ckpt misnamed
  mv misnamed/step-00000001 misnamed/step-00009000
  local verb advice="mv -T misnamed/step-00009000 misnamed/step-00000001"
  millrace ckpt list misnamed --json >list
  same "$(json '[c["step"] for c in d["checkpoints"]]' list)" "[2, 3, 4, 5, 6]"
  contains "$(json 'd["not_whole"][0]["problem"]' list)" "$advice"
  millrace ckpt prune misnamed --keep-last 2 --json >pruned.json 2>errors
  contains "$(cat errors)" "$advice"
  same "$(steps_of misnamed)" "5 6 9000"
  same "$(json '" ".join(str(c["step"]) for c in d["checkpoints"] if c["verdict"].startswith("kept"))' pruned.json)" "5 6 9000"
  for verb in "ckpt hash" "inspect" "ckpt diff run/ckpt"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $verb misnamed)" 0 "status of $verb"
    contains "$(cat errors)" "$advice"
    # shellcheck disable=SC2086
    same "$(status_of millrace $verb misnamed/step-00009000/)" 1 "status of $verb"
    one_line errors
    contains "$(cat errors)" "$advice"
  done
  for verb in "ckpt copy misnamed/step-00009000 target" "convert checkpoint misnamed/step-00009000 target --to full" \
    "verify misnamed"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $verb)" 1 "status of $verb"
    contains "$(cat errors out)" "$advice"
  done
  [[ ! -e target ]] || fail "a refused step was copied"
  millrace train train.yaml --set checkpoint.dir=misnamed --set run.steps=7 --set run.dir=resumed \
    --set checkpoint.keep.last=1 --set schedule.type=constant --resume auto 2>resumed.log >/dev/null || :
  contains "$(cat resumed.log)" "$advice"
  [[ -d misnamed/step-00009000 && -d misnamed/step-00000007 ]] || fail "a newer step was removed"
  rm -r misnamed/step-0000000*
  same "$(status_of millrace ckpt hash misnamed)" 1
  contains "$(tail -n 1 errors)" "$advice"
  mkdir onto
  cp -r run/ckpt/step-00000001 onto/step-00000006
  same "$(status_of millrace ckpt copy run/ckpt onto --force)" 1
  contains "$(cat errors)" "mv -T onto/step-00000006 onto/step-00000001"
  diff -r run/ckpt/step-00000001 onto/step-00000006
  $advice
  same "$(millrace ckpt hash misnamed)" "$(millrace ckpt hash run/ckpt/step-00000001)"
}

prune_can_be_previewed() {
  need_python
  cp -r run/ckpt pruned
  local rules=(--keep-last 1 --keep-every 3 --keep-best val_loss)
  millrace ckpt prune pruned "${rules[@]}" --dry-run --json >plan
  same "$(steps_of pruned)" "1 2 3 4 5 6"
  local best
  best=$(millrace ckpt list run/ckpt --json >list; json 'min((c["metrics"]["val_loss"], c["step"]) for c in d["checkpoints"] if c["metrics"].get("val_step") == c["step"])[1]' list)
  local expected
  expected=$(printf '%s\n' 3 6 "$best" | sort -nu | paste -sd ' ')
  same "$(json '" ".join(str(c["step"]) for c in d["checkpoints"] if c["verdict"].startswith("kept"))' plan)" "$expected"
  same "$(json '[c["verdict"] for c in d["checkpoints"] if c["step"] == 1]' plan)" "['would be removed']"
  contains "$(json 'd["checkpoints"][5]["verdict"]' plan)" "kept: last, every"
  same "$(json 'd["freed_bytes"] > 0 and d["kept_count"] + d["removed_count"]' plan)" 6
  millrace ckpt prune pruned "${rules[@]}" --json >done
  same "$(steps_of pruned)" "$expected"
  same "$(json 'd["removed_count"]' done)" "$(json 'd["removed_count"]' plan)"
  millrace ckpt prune pruned --keep-last 1 >/dev/null
  same "$(steps_of pruned)" 6
  millrace ckpt prune pruned --keep-last 1 >/dev/null # the newest always stays
  same "$(steps_of pruned)" 6
}

prune_by_accuracy_keeps_the_most_accurate() {
  need_python
  millrace train train.yaml --set run.dir=accurate --set run.steps=8 --set eval.every=1 --set schedule.type=constant \
    --set optimizer.lr=0.01 --quiet >/dev/null
  millrace ckpt list accurate/ckpt --json >list
  same "$(json 'len({c["metrics"]["val_accuracy"] for c in d["checkpoints"]}) > 1' list)" True
  local expected mode
  expected=$(json '" ".join(map(str, sorted({8} | {s for _, s in sorted((-c["metrics"]["val_accuracy"], c["step"]) for c in d["checkpoints"])[:2]})))' list)
  for mode in "" "--best-mode max"; do
    rm -rf judged && cp -r accurate/ckpt judged
    # shellcheck disable=SC2086
    millrace ckpt prune judged --keep-last 1 --keep-best val_accuracy --best-count 2 $mode >/dev/null
    same "$(steps_of judged)" "$expected"
  done
}

invalid_prune_options_are_refused() {
  cp -r run/ckpt meant
  same "$(status_of millrace ckpt prune meant)" 2
  contains "$(cat errors)" "keep-last"
  same "$(status_of millrace ckpt prune meant --keep-last 0)" 2
  same "$(status_of millrace ckpt prune meant --keep-last 1 --keep-best val_los)" 1
  contains "$(cat errors)" "no checkpoint has the metric val_los"
  local -A contradictions=(["--keep-best val_accuracy --best-mode min"]="largest" ["--keep-best val_loss --best-mode max"]="smallest"
    ["--keep-best val_step"]="--best-mode min or" ["--best-mode max"]="--keep-best" ["--best-count 2"]="--keep-best")
  local options
  for options in "${!contradictions[@]}"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace ckpt prune meant --keep-last 1 $options)" 2 "status with $options"
    one_line errors
    contains "$(cat errors)" "${contradictions[$options]}"
  done
  same "$(status_of millrace ckpt prune . --keep-last 1)" 1
  contains "$(cat errors)" "there is no checkpoint"
  same "$(status_of millrace ckpt prune nowhere --keep-last 1)" 1
  same "$(steps_of meant)" "1 2 3 4 5 6"
}

a_folder_without_checkpoints_is_left_alone() {
  local verb
  mkdir foreign
  cp -r run/ckpt stepped
  ls -A foreign stepped/* >before
  for verb in "prune foreign --keep-last 1" "sweep foreign"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace ckpt $verb)" 1 "status of $verb"
    one_line errors
    contains "$(cat errors)" "there is no checkpoint"
  done
  for verb in "prune stepped/step-00000002 --keep-last 1" "sweep stepped/step-00000002" "copy run/ckpt stepped/step-00000002"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace ckpt $verb)" 2 "status of $verb"
    one_line errors
    contains "$(cat errors)" "not a folder of checkpoints"
  done
  ls -A foreign stepped/* | diff before -
  for verb in "prune nowhere --keep-last 1" "sweep nowhere"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace ckpt $verb)" 1 "status of $verb"
    contains "$(cat errors)" "could not list the folder"
    contains "$(cat errors)" "nowhere"
  done
}

a_runs_folder_is_accepted_for_its_checkpoints() {
  local verb
  for verb in "ckpt list" "ckpt hash" "eval train.yaml --json --from" "ckpt prune --keep-last 1 --keep-best val_loss --dry-run"; do
    # shellcheck disable=SC2086
    same "$(millrace $verb run | sed 's/"elapsed.*//; s/"from":"[^"]*"//')" \
      "$(millrace $verb run/ckpt | sed 's/"elapsed.*//; s/"from":"[^"]*"//')" "$verb"
  done
  for verb in "run run/ckpt" "run/ckpt run"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace ckpt diff $verb)" 0 "status of diff $verb"
  done
  millrace convert checkpoint run given --to full --quiet
  millrace convert checkpoint run/ckpt named --to full --quiet
  cmp given named
  millrace ckpt copy run copied --quiet
  diff -r run/ckpt/step-00000006 copied/step-00000006
  mkdir ran
  cp -r run/ckpt ran/ckpt
  millrace ckpt prune ran --keep-last 1 >/dev/null
  same "$(steps_of ran/ckpt)" 6
  millrace ckpt copy run/ckpt/step-00000002 ran --quiet
  same "$(steps_of ran/ckpt)" "2 6"
  mkdir ran/ckpt/.tmp-step-00000007-x-1-0123456789abcdef
  millrace ckpt sweep ran >/dev/null
  same "$(ls -A ran/ckpt | grep -c tmp || :)" 0
  same "$(status_of millrace ckpt list photos)" 1 # not the folder of a run
  contains "$(cat errors)" "there is no checkpoint"
}

a_folder_locked_by_a_run_is_not_modified() {
  local verb
  check_refusals() {
    for verb in "prune owned --keep-last 1" "sweep owned" "copy run/ckpt owned"; do
      # shellcheck disable=SC2086
      same "$(status_of millrace ckpt $verb)" 1 "status of $verb"
      one_line errors
      contains "$(cat errors)" "host=$(uname -n) pid=$(cat owner.pid) "
    done
    mkdir owned/.tmp-step-00000009-x-1-0123456789abcdef
    same "$(status_of millrace ckpt list owned)" 0
    same "$(status_of millrace ckpt prune owned --keep-last 1 --dry-run)" 1 # there is no step yet, but no owner blocks the command
    contains "$(cat errors)" "there is no checkpoint"
  }
  mkdir -p owned/.tmp-mine
  with_lock_holder owned check_refusals
  same "$(status_of millrace ckpt sweep owned)" 0 # the owner is dead
  grep -q '^removed  *1$' out
  [[ ! -e owned/.tmp-step-00000009-x-1-0123456789abcdef ]]
  [[ -d owned/.tmp-mine ]] || fail "the run removed a folder of another program"
}

sweep_names_what_it_removes_and_keeps_steps() {
  need_python
  cp -r run/ckpt swept
  mkdir swept/.tmp-step-00000007-x-1-0123456789abcdef swept/.tmp-old-removed-0-0123456789abcdef
  cp run/ckpt/step-00000006/* swept/.tmp-old-removed-0-0123456789abcdef
  millrace ckpt sweep swept --json >result
  same "$(json 'd["removed_count"], d["leftovers"]' result)" "(2, ['.tmp-old-removed-0-0123456789abcdef', '.tmp-step-00000007-x-1-0123456789abcdef'])"
  same "$(steps_of swept)" "1 2 3 4 5 6"
  same "$(ls -A swept | grep -c tmp || :)" 0
  millrace ckpt sweep swept --json >result
  same "$(json 'd["removed_count"]' result)" 0
}

temporary_files_of_other_programs_are_kept() {
  local name nonce=0123456789abcdef
  local -a others=(.tmp-mine .tmp-m.safetensors-0-0-$nonce .tmp-step-00000007 .tmp-step-7-x-1-$nonce .tmp-step-00000007-x-1-${nonce}0
    .tmp-step-00000007-x-1-${nonce%f} .tmp-step-00000007-x-y-$nonce .tmp-old-x-0-$nonce)
  cp -r run/ckpt shared
  for name in "${others[@]}"; do
    mkdir "shared/$name"
    echo mine >"shared/$name/file"
  done
  ls -A shared/.tmp-* >before
  mkdir shared/.tmp-step-00000007-x-1-$nonce
  same "$(status_of millrace ckpt sweep shared)" 0
  grep -q '^removed  *1$' out
  ls -A shared/.tmp-* | diff before -
  mkdir shared/.tmp-step-00000007-x-1-$nonce
  same "$(status_of millrace ckpt copy run/ckpt shared --force)" 0
  ls -A shared/.tmp-* | diff before -
}

copy_copies_the_newest_or_the_named_step() {
  need_python
  millrace ckpt copy run/ckpt copies --json >result
  same "$(json 'd["step"], d["checkpoint"], d["files_count"]' result)" "(6, 'copies/step-00000006', 2)"
  diff -r run/ckpt/step-00000006 copies/step-00000006
  millrace verify copies >/dev/null
  millrace ckpt copy run/ckpt/step-00000003 copies --quiet >/dev/null
  diff -r run/ckpt/step-00000003 copies/step-00000003
  same "$(steps_of copies)" "3 6"
  same "$(status_of millrace ckpt copy run/ckpt copies)" 1
  contains "$(cat errors)" "--force"
  echo mine >copies/step-00000006/mine
  same "$(status_of millrace ckpt copy run/ckpt copies --force)" 0
  diff -r run/ckpt/step-00000006 copies/step-00000006
  same "$(ls -A copies | grep -c 'tmp\|aside' || :)" 0
  same "$(status_of millrace ckpt copy run/ckpt run/ckpt --force)" 1 # onto itself: it is being read
}

a_damaged_checkpoint_is_named_and_not_copied() {
  cp -r run/ckpt harmed
  chmod -R u+w harmed
  flip_a_bit harmed/step-00000006/rank-00000.safetensors 9000
  same "$(status_of millrace ckpt copy harmed target)" 1
  one_line errors
  contains "$(cat errors)" "rank-00000.safetensors at 0"
  same "$(ls -A target | grep -v '^.millrace-owner$' || :)" ""
  flip_a_bit harmed/step-00000005/manifest.json 300
  same "$(status_of millrace ckpt copy harmed/step-00000005 target)" 1
  same "$(ls -A target | grep -v '^.millrace-owner$' || :)" ""
}

a_killed_or_failed_copy_leaves_no_output() {
  same "$(MILLRACE_FAULT=durable:kill@4:step-00000006 status_of millrace ckpt copy run/ckpt died)" 137
  same "$(steps_of died)" ""
  same "$(MILLRACE_FAULT=write:enospc@1 status_of millrace ckpt copy run/ckpt died)" 1
  contains "$(cat errors)" "No space left"
  same "$(steps_of died)" ""
  same "$(status_of millrace ckpt copy run/ckpt died)" 0
  same "$(ls -A died | grep -c tmp || :)" 0
  diff -r run/ckpt/step-00000006 died/step-00000006
}

a_step_that_is_being_copied_is_not_pruned() {
  cp -r run/ckpt reading
  MILLRACE_FAULT=read:hold:rank-00000 "$MILLRACE" ckpt copy reading/step-00000001 slow >/dev/null 2>slow.log &
  local pid=$!
  until [[ -n $(ls -A slow 2>/dev/null | grep '^.tmp-') ]]; do kill -0 $pid; sleep 0.02; done
  millrace ckpt prune reading --keep-last 1 >pruned.txt 2>/dev/null
  same "$(steps_of reading)" "1 6"
  grep -q 'kept: is read' pruned.txt
  kill -KILL $pid
  wait $pid 2>/dev/null || :
  millrace ckpt prune reading --keep-last 1 >/dev/null
  same "$(steps_of reading)" 6
}

an_existing_output_is_kept_and_the_error_names_force() {
  local verb
  for verb in "convert checkpoint run/ckpt there" "inspect shards --html there" "index shards/shard-000000.tar --dali there" "ckpt copy run/ckpt stays"; do
    echo mine >there
    [[ -d stays ]] || millrace ckpt copy run/ckpt stays --quiet
    [[ $verb != convert* ]] || verb+=" --to full"
    # shellcheck disable=SC2086
    same "$(status_of millrace $verb)" 1 "status of $verb"
    one_line errors
    contains "$(cat errors)" "--force"
    same "$(cat there)" mine
    # shellcheck disable=SC2086
    same "$(status_of millrace $verb --force)" 0 "status of $verb --force"
  done
}

inspect_reads_only_headers() {
  same "$(MILLRACE_FAULT=read:eio:rank-00000 status_of millrace inspect run/ckpt)" 0
  grep -q '^step  *6$' out
  # replaces the tensor data with a hole
  cp run/ckpt/step-00000006/rank-00000.safetensors lone.safetensors
  local bytes headers
  bytes=$(stat -c %s lone.safetensors)
  headers=$((8 + $(od -An -tu8 -N 8 lone.safetensors)))
  [[ $headers -lt $bytes ]]
  truncate -s $headers lone.safetensors
  truncate -s "$bytes" lone.safetensors
  same "$(status_of millrace inspect lone.safetensors)" 0
  same "$(grep -v '^path' out)" "$(millrace inspect run/ckpt/step-00000006/rank-00000.safetensors | grep -v '^path')"
}

run_cases an_existing_output_is_kept_and_the_error_names_force inspect_reads_only_headers list_shows_steps_times_sizes_metrics_and_incomplete_steps \
  a_misnamed_step_is_refused_and_nothing_is_pruned prune_can_be_previewed \
  prune_by_accuracy_keeps_the_most_accurate \
  invalid_prune_options_are_refused a_runs_folder_is_accepted_for_its_checkpoints a_folder_without_checkpoints_is_left_alone a_folder_locked_by_a_run_is_not_modified \
  sweep_names_what_it_removes_and_keeps_steps temporary_files_of_other_programs_are_kept copy_copies_the_newest_or_the_named_step \
  a_damaged_checkpoint_is_named_and_not_copied a_killed_or_failed_copy_leaves_no_output \
  a_step_that_is_being_copied_is_not_pruned
