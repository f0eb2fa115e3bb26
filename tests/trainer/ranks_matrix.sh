#!/usr/bin/env bash
# ranks_matrix — training with any strategy on any number of ranks, killed and resumed on another
# number, produces the same bits as on one rank.
#
#   ranks_matrix.sh vit|gpt2 [sample|all|list]
#
# Steps have 8 micro-batches (1, 2, 4 and 8 ranks) or 12 (also 3 and 6). `sample` tries each
# strategy and each setting at least once, in seconds (fewer with a sanitizer); `all` tries every
# combination except those that are_like_others names; `list` prints them. After the steps
# `millrace ckpt diff` must find no differing bit in weights and moments, and the loader's digests
# and the metrics must be equal. MILLRACE names the program, TEST_SOURCE_DIR the sources.
#
# `all` takes hours and resumes where it stopped: see scripts/ranks-matrix. With MATRIX_LOG=FILE
# each combination appends a line (when, commit, model, seconds, ranks killed or not, the
# combination), and combinations in the log are skipped. MATRIX_PART=K/N takes every N-th
# combination from the K-th on; MATRIX_SECONDS=N starts none after N seconds. The order is a fixed shuffle, so the total time can be extrapolated from one part.
set -euo pipefail
model=$1 extent=${2:-sample}
program=${MILLRACE:?names the millrace program}
sources=${TEST_SOURCE_DIR:?names the sources}
mpirun=$sources/tests/support/mpirun.sh
steps=30
[[ $extent == all ]] || steps=12

# Combinations are lines: ranks, ranks after the kill (0: none), micro-batches, settings.

# These settings change the bits, even on one rank:
frozen='model.freeze=blocks.0.*,*.bias'
others='optimizer.type=sgd optimizer.lr=0.1 optimizer.clip_value=0.05 batch.schedule=1:2 optimizer.base_batch=16 early_stop.patience=4'
whole_file=checkpoint.layout=full

# Each kind of communication once, for sanitizers.
few() {
  cat <<LIST
3 2 8 parallel.strategy=zero2 parallel.bucket=4KiB $frozen
4 0 12 parallel.strategy=ddp parallel.keep_below_params=4000 parallel.check_sync=4
6 0 8 parallel.strategy=hybrid_shard parallel.bucket=4KiB parallel.wrap_min_params=30000 parallel.offload.params=true
LIST
}

# The last three: ranks without a micro-batch in the last round, and many chunks per block.
sample() {
  sed 's/ p\./ parallel./g' <<LIST
2 0 8 p.strategy=ddp p.bucket=4KiB p.wrap_min_params=30000
4 0 8 p.strategy=zero1 p.keep_below_params=4000 p.check_sync=3
3 2 12 p.strategy=zero2 p.wrap_min_params=30000 p.check_sync=5
8 0 8 p.strategy=zero3 p.prefetch=3 p.groups_at_once=2 p.keep_below_params=4000
6 0 12 p.strategy=full_shard p.prefetch=0 p.wrap_min_params=30000 p.offload.params=true
1 4 8 p.strategy=shard_grad_op p.offload.params=true p.groups_at_once=3 model.recompute=2
3 0 12 p.strategy=no_shard batch.sync_each=true model.offload=1 p.check_sync=4
4 2 8 p.strategy=hybrid_shard p.offload.optimizer=true p.check_sync=3
3 0 8 p.strategy=zero2 $frozen
4 0 12 p.strategy=full_shard $frozen
3 2 12 p.strategy=zero1 $others
6 0 8 p.strategy=zero3 $others
3 0 8 p.strategy=zero2 p.bucket=4KiB
3 0 8 p.strategy=zero3 p.bucket=4KiB p.wrap_min_params=1000000
6 0 8 p.strategy=hybrid_shard p.bucket=4KiB p.offload.params=true
LIST
}

layouts=("1 2 8" "2 4 8" "4 1 8" "8 4 8" "3 2 8" "6 3 8" "3 2 12" "6 12 12")
strategies=(ddp zero1 zero2 zero3 shard_grad_op hybrid_shard no_shard full_shard)
settings() {
  sed 's/\(^\| \)p\./\1parallel./g' <<LIST
p.bucket=8MiB
p.bucket=4KiB
p.prefetch=0
p.prefetch=3
p.groups_at_once=2
p.keep_below_params=4000
p.wrap_min_params=30000
batch.sync_each=true
model.recompute=2
model.offload=1
p.offload.optimizer=true
p.offload.params=true
p.check_sync=5
p.debug=true
$frozen
$others
$whole_file
p.bucket=4KiB p.prefetch=3 p.wrap_min_params=30000 p.offload.optimizer=true p.check_sync=1 model.recompute=2
p.bucket=4KiB p.prefetch=0 p.keep_below_params=4000 batch.sync_each=true model.offload=1 $whole_file
p.prefetch=2 p.groups_at_once=3 p.offload.params=true p.check_sync=4 model.recompute=3 model.offload=2 threads=2 $frozen
LIST
}

# Combinations that are impossible, or run the same code as others (RANKS RESUMED STRATEGY
# SETTING).
are_like_others() {
  local strategy=$3 setting=$4
  case $strategy:$setting in
    # weights that each rank keeps whole cannot be offloaded
    ddp:*offload.params* | zero[12]:*offload.params*) return 0 ;;
    # aliases of ddp and zero3, which only the parser distinguishes
    no_shard:parallel.bucket=8MiB | full_shard:parallel.bucket=8MiB) ;;
    no_shard:* | full_shard:*) return 0 ;;
    # whole weights are not gathered
    ddp:parallel.prefetch=[0-9] | ddp:parallel.groups_at_once=[0-9]) return 0 ;;
    zero[12]:parallel.prefetch=[0-9] | zero[12]:parallel.groups_at_once=[0-9]) return 0 ;;
    # all groups are already whole
    ddp:parallel.keep_below_params=4000) return 0 ;;
    # these strategies already sum each micro-batch
    zero[23]:batch.sync_each=true | shard_grad_op:batch.sync_each=true | hybrid_shard:batch.sync_each=true) return 0 ;;
  esac
  # a single rank has nothing to shard
  [[ $1$2 == 10 && $setting =~ ^parallel\.(bucket=4KiB|prefetch=.|groups_at_once=.|keep_below_params=4000|debug=true)$ ]]
}

all() {
  local layout strategy setting resumed ranks next micros
  for layout in "${layouts[@]}"; do
    read -r ranks next micros <<<"$layout"
    for strategy in "${strategies[@]}"; do
      while read -r setting; do
        for resumed in 0 "$next"; do
          are_like_others "$ranks" "$resumed" "$strategy" "$setting" ||
            echo "$ranks $resumed $micros parallel.strategy=$strategy $setting"
        done
      done < <(settings)
    done
  done
}
[[ $extent != list ]] || { all; exit; }

command -v mpirun > /dev/null && [[ -n ${MPI:-} ]] || { echo "SKIPPED: there is no MPI" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/millrace-ranks-XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "ranks_matrix: $*" >&2; exit 1; }

case $model in
  vit)
    "${RENDER_SHAPES:?names render-shapes}" --count 24 --side 48 "$work/data" > /dev/null
    "$program" convert dataset "$work/data" "$work/shards" --quiet > /dev/null
    sets=(model.type=vit data.val="$work/shards" data.image.size=32 model.patch=8) ;;
  gpt2)
    head -c 9000 "$0" > "$work/text.txt" # an epoch is less than a run
    "$program" convert dataset "$work/text.txt" "$work/shards" --tokenizer bytes --quiet > /dev/null
    head -c 3000 "$0" > "$work/few.txt"
    "$program" convert dataset "$work/few.txt" "$work/val" --tokenizer bytes --quiet > /dev/null
    sets=(model.type=gpt2 data.val="$work/val" data.text.block=32) ;;
  *) fail "unknown model $model" ;;
esac
cat > "$work/train.yaml" <<YAML
run:        {seed: 5, steps: $steps}
threads:    1
data:       {train: $work/shards, memory: 32MiB, workers: 1}
model:      {layers: 3, heads: 2, width: 48}
batch:      {micro: 2}
optimizer:  {lr: 1e-3, clip_norm: 0.5}
schedule:   {warmup: 4, min_lr: 1e-4}
checkpoint: {every: 4, keep: {last: 0}}
eval:       {every: 5}
log:        {every: 3}
YAML

# train RANKS DIR SETTING...
train() {
  local ranks=$1 dir=$2 list=()
  shift 2
  for set in "${sets[@]}" run.dir="$work/$dir" "$@"; do list+=(--set "$set"); done
  # all ranks run on this machine: pretend that each machine has two ranks
  [[ $* != *hybrid_shard* ]] || list+=(--set parallel.shard=$((ranks % 2 == 0 ? 2 : 1)))
  "$mpirun" "$ranks" "$program" train "$work/train.yaml" --quiet "${list[@]}" > "$work/out" 2> "$work/errors"
}

losses() { grep -o '"step":[0-9]*\|"[a-z_]*loss":[-0-9.e+]*\|"gradient_norm":[-0-9.e+]*\|"val_accuracy":[0-9.e+-]*' "$work/$1/metrics.jsonl"; }

# same_as DIR EXPECTED WHAT: fails if any bits differ.
same_as() {
  "$program" ckpt diff "$work/$2/ckpt" "$work/$1/ckpt" > "$work/diff" 2>&1 || { cat "$work/diff" >&2; fail "$3: the bits differ"; }
  [[ $("$program" ckpt hash "$work/$1/ckpt") == $("$program" ckpt hash "$work/$2/ckpt") ]] || fail "$3: the hashes differ"
  diff <(losses "$1") <(losses "$2") > "$work/diff" || { cat "$work/diff" >&2; fail "$3: the metrics differ"; }
}

# reference MICROS SETTING...: sets `reference` to the one-rank run with the settings that change bits; starts the run if missing.
reference() {
  local own=()
  for set in "${@:2}"; do
    [[ $set != model.freeze=* && $set != optimizer.* && $set != batch.schedule=* && $set != early_stop.* ]] || own+=("$set")
  done
  reference=alone$1-$(cksum <<< "${own[*]}" | cut -d ' ' -f 1)
  [[ -d $work/$reference ]] || train 1 "$reference" batch.global=$((2 * $1)) "${own[@]}" || { cat "$work/errors" >&2; fail "one rank failed: ${own[*]}"; }
}

combinations=0 killed=0
# kill_in_the_middle RANKS MICROS SETTING...: a run in `it` that is killed after its fourth step.
# A run that finished first is repeated, since nothing would be left to resume.
kill_in_the_middle() {
  local ranks=$1 micros=$2 running last
  shift 2
  printf -v last 'step-%08d' "$steps"
  for _ in 1 2 3 4 5 6 7 8; do
    rm -rf "$work/it"
    train "$ranks" it batch.global=$((2 * micros)) "$@" &
    running=$!
    until [[ -d $work/it/ckpt/step-00000004 ]] || ! kill -0 "$running" 2> /dev/null; do sleep 0.01; done
    pkill -KILL -f "^$program train $work/" 2> /dev/null || true
    wait "$running" || true
    [[ -d $work/it/ckpt/step-00000004 && ! -d $work/it/ckpt/$last ]] || continue
    killed=$((killed + 1))
    return
  done
  cat "$work/errors" >&2
  fail "$model, $ranks ranks, $*: none of 8 runs was killed in the middle"
}
# Runs one combination: RANKS, ranks after the kill (0: none), micro-batches, settings.
combine() {
  local ranks=$1 resumed=$2 micros=$3 what
  shift 3
  what="$model, $ranks ranks, $micros micro-batches, $*"
  reference "$micros" "$@"
  rm -rf "$work/it"
  if ((resumed > 0)); then
    kill_in_the_middle "$ranks" "$micros" "$@"
    ranks=$resumed what+=", then $resumed ranks"
  fi
  train "$ranks" it batch.global=$((2 * micros)) "$@" || { cat "$work/errors" >&2; fail "$what: failed"; }
  same_as it "$reference" "$what"
  combinations=$((combinations + 1))
}

log=${MATRIX_LOG:-}
# Lists this part of `all`, without the combinations in the log.
left() {
  local done_before=/dev/null
  if [[ -s $log ]]; then
    done_before=$work/done
    awk -F '\t' -v model="$model" '$3 == model { print $6 }' "$log" > "$done_before"
  fi
  all | awk 'BEGIN { srand(1) } { print rand() "\t" $0 }' | sort -n | cut -f 2- |
    awk -v part="${MATRIX_PART:-1/1}" 'BEGIN { split(part, p, "/") } NR % p[2] == p[1] % p[2]' | { grep -vxFf "$done_before" || true; }
}

# run_all LINE...: runs and logs each combination, and prints the remaining time periodically.
run_all() {
  local line words began=$SECONDS commit one before taken
  commit=$(git -C "$sources" rev-parse --short HEAD 2> /dev/null || echo -)
  for line in "$@"; do
    ((SECONDS - began < ${MATRIX_SECONDS:-1000000000})) || break
    one=$SECONDS before=$killed
    read -ra words <<< "$line"
    combine "${words[@]}"
    [[ -z $log ]] || printf '%s\t%s\t%s\t%d\t%d\t%s\n' "$(date -u +%FT%TZ)" "$commit" "$model" $((SECONDS - one)) $((killed - before)) "$line" >> "$log"
    taken=$((SECONDS - began))
    ((combinations % 10 > 0)) ||
      echo "ranks_matrix: $model: $combinations of $# combinations, 0 differing bits; $((taken * ($# - combinations) / combinations / 60)) min left"
  done
}

[[ $extent != sample || -z ${SANITIZE:-} ]] || extent=few
any_strategy_on_any_ranks_gives_the_bits_of_one() {
  local list words line
  mapfile -t list < <(if [[ $extent == all ]]; then left; else "$extent"; fi)
  if [[ $extent == all ]]; then
    run_all "${list[@]}"
  else
    for line in "${list[@]}"; do
      read -ra words <<< "$line"
      combine "${words[@]}"
    done
  fi
}

echo "[ RUN      ] any_strategy_on_any_ranks_gives_the_bits_of_one"
any_strategy_on_any_ranks_gives_the_bits_of_one
echo "ranks_matrix: $model: $combinations combinations, $killed of them killed, $steps steps each: 0 differing bits"
echo "[       OK ] any_strategy_on_any_ranks_gives_the_bits_of_one"
