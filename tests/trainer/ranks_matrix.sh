#!/usr/bin/env bash
# ranks_matrix — training on any number of ranks, by any strategy, killed and resumed on another number, gives the bits of one rank alone.
#
#   ranks_matrix.sh vit|gpt2 [sample|all]
#
# Steps are made of 8 micro-batches (1, 2, 4 and 8 ranks) or of 12 (also 3 and 6). `sample` tries each strategy and each setting once or more, in
# seconds (fewer with a sanitizer); `all` every combination. After the steps `millrace ckpt diff` must find no bit that differs in weights and moments, and the loader's
# digests and the metrics must be the same. MILLRACE names the program, TEST_SOURCE_DIR the sources.
set -euo pipefail
model=$1 extent=${2:-sample} # names a function below
program=${MILLRACE:?names the millrace program}
mpirun=${TEST_SOURCE_DIR:?names the sources}/tests/support/mpirun.sh
steps=30
[[ $extent == all ]] || steps=12
command -v mpirun > /dev/null && [[ -n ${MPI:-} ]] || { echo "SKIPPED: there is no MPI" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/millrace-ranks-XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "ranks_matrix: $*" >&2; exit 1; }

case $model in
  vit)
    "${RENDER_SHAPES:?names render-shapes}" --count 24 --side 48 "$work/data" > /dev/null
    "$program" convert dataset "$work/data" "$work/shards" --quiet > /dev/null
    sets=(model.type=vit data.image.size=32 model.patch=8) ;;
  gpt2)
    for i in 1 2 3 4; do cat "$0"; done > "$work/text.txt" # words enough
    "$program" convert dataset "$work/text.txt" "$work/shards" --tokenizer bytes --quiet > /dev/null
    sets=(model.type=gpt2 data.text.block=32) ;;
  *) fail "unknown model $model" ;;
esac
cat > "$work/train.yaml" <<YAML
run:        {seed: 5, steps: $steps}
threads:    1
data:       {train: $work/shards, val: $work/shards, memory: 32MiB, workers: 1}
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
  # the ranks are all on one machine here: as if there were machines of two
  [[ $* != *hybrid_shard* ]] || list+=(--set parallel.shard=$((ranks % 2 == 0 ? 2 : 1)))
  "$mpirun" "$ranks" "$program" train "$work/train.yaml" --quiet "${list[@]}" > "$work/out" 2> "$work/errors"
}

losses() { grep -o '"step":[0-9]*\|"[a-z_]*loss":[-0-9.e+]*\|"gradient_norm":[-0-9.e+]*\|"val_accuracy":[0-9.e+-]*' "$work/$1/metrics.jsonl"; }

# same_as DIR EXPECTED WHAT: 0 differing bits.
same_as() {
  "$program" ckpt diff "$work/$2/ckpt" "$work/$1/ckpt" > "$work/diff" 2>&1 || { cat "$work/diff" >&2; fail "$3: the bits differ"; }
  [[ $("$program" ckpt hash "$work/$1/ckpt") == $("$program" ckpt hash "$work/$2/ckpt") ]] || fail "$3: the hashes differ"
  diff <(losses "$1") <(losses "$2") > "$work/diff" || { cat "$work/diff" >&2; fail "$3: the metrics differ"; }
}

combinations=0 killed=0
# One combination: RANKS, ranks after the kill (0: none), micro-batches, settings.
combine() {
  local ranks=$1 resumed=$2 micros=$3 what
  shift 3
  what="$model, $ranks ranks, $micros micro-batches, $*"
  rm -rf "$work/it"
  if ((resumed > 0)); then
    train "$ranks" it batch.global=$((2 * micros)) "$@" &
    local running=$!
    until [[ -d $work/it/ckpt/step-00000004 ]] || ! kill -0 "$running" 2> /dev/null; do sleep 0.01; done
    pkill -KILL -f "^$program train $work/" 2> /dev/null && killed=$((killed + 1))
    wait "$running" || true
    ranks=$resumed what+=", then $resumed ranks"
  fi
  train "$ranks" it batch.global=$((2 * micros)) "$@" || { cat "$work/errors" >&2; fail "$what: failed"; }
  case $* in *model.freeze*) same_as it "frozen$micros" "$what" ;; *) same_as it "alone$micros" "$what" ;; esac
  combinations=$((combinations + 1))
}

frozen='blocks.0.*, *.bias'
for micros in 8 12; do
  train 1 "alone$micros" batch.global=$((2 * micros)) || { cat "$work/errors" >&2; fail "one rank failed"; }
  train 1 "frozen$micros" batch.global=$((2 * micros)) model.freeze="$frozen" || { cat "$work/errors" >&2; fail "one rank failed"; }
done

strategies=(ddp zero1 zero2 zero3 full_shard shard_grad_op no_shard hybrid_shard)
settings=(parallel.bucket=4KiB parallel.prefetch=0 parallel.prefetch=3 parallel.keep_below_params=4000 batch.sync_each=true model.recompute=2
  model.offload=1 parallel.offload.optimizer=true model.freeze="$frozen" parallel.wrap_min_params=30000 parallel.groups_at_once=2
  parallel.offload.params=true parallel.check_sync=5)

# Weights that each rank keeps whole can't come from the host.
makes_sense() {
  case "$*" in "ddp "*offload.params* | "no_shard "*offload.params* | "zero"[12]" "*offload.params*) return 1 ;; esac
}

# Each way that ranks talk once: what a sanitizer can see of it.
few() {
  combine 3 2 8 parallel.strategy=zero2 parallel.bucket=4KiB model.freeze="$frozen"
  combine 4 0 12 parallel.strategy=ddp parallel.keep_below_params=4000 parallel.check_sync=4
  combine 6 0 8 parallel.strategy=hybrid_shard parallel.bucket=4KiB parallel.wrap_min_params=30000 parallel.offload.params=true
}

sample() {
  local p=parallel
  combine 2 0 8 $p.strategy=ddp $p.bucket=4KiB $p.wrap_min_params=30000
  combine 4 0 8 $p.strategy=zero1 $p.keep_below_params=4000 $p.check_sync=3
  combine 3 2 12 $p.strategy=zero2 $p.wrap_min_params=30000 $p.check_sync=5
  combine 8 0 8 $p.strategy=zero3 $p.prefetch=3 $p.groups_at_once=2 $p.keep_below_params=4000
  combine 6 0 12 $p.strategy=full_shard $p.prefetch=0 $p.wrap_min_params=30000 $p.offload.params=true
  combine 1 4 8 $p.strategy=shard_grad_op $p.offload.params=true $p.groups_at_once=3 model.recompute=2
  combine 3 0 12 $p.strategy=no_shard batch.sync_each=true model.offload=1 $p.check_sync=4
  combine 4 2 8 $p.strategy=hybrid_shard $p.offload.optimizer=true $p.check_sync=3
  combine 3 0 8 parallel.strategy=zero2 model.freeze="$frozen"
  combine 4 0 12 parallel.strategy=full_shard model.freeze="$frozen"
  # ranks that have no micro-batch in the last round, and many chunks a block
  combine 3 0 8 parallel.strategy=zero2 parallel.bucket=4KiB
  combine 3 0 8 parallel.strategy=zero3 parallel.bucket=4KiB parallel.wrap_min_params=1000000
  combine 6 0 8 parallel.strategy=hybrid_shard parallel.bucket=4KiB parallel.offload.params=true
}

all() {
  local layout strategy setting resumed ranks next micros
  for layout in "1 2 8" "2 4 8" "4 1 8" "8 4 8" "3 2 8" "6 3 8" "3 2 12" "6 12 12"; do
    read -r ranks next micros <<< "$layout"
    for strategy in "${strategies[@]}"; do
      for setting in parallel.bucket=8MiB "${settings[@]}"; do
        makes_sense "$strategy" "$setting" || continue
        for resumed in 0 "$next"; do
          combine "$ranks" "$resumed" "$micros" parallel.strategy="$strategy" "$setting"
        done
      done
    done
    echo "ranks_matrix: $combinations combinations so far, 0 differing bits"
  done
}

[[ $extent != sample || -z ${SANITIZE:-} ]] || extent=few
any_strategy_on_any_ranks_gives_the_bits_of_one() { "$extent"; }

echo "[ RUN      ] any_strategy_on_any_ranks_gives_the_bits_of_one"
any_strategy_on_any_ranks_gives_the_bits_of_one
echo "ranks_matrix: $model: $combinations combinations, $killed of them killed, $steps steps each: 0 differing bits"
echo "[       OK ] any_strategy_on_any_ranks_gives_the_bits_of_one"
