#!/usr/bin/env bash
# Paths of up to 2,048 bytes, the NUL included: every verb works in a deep folder, and a longer path
# is an error that states the limit.
. "$(dirname "$0")/lib.sh"

readonly PATH_BYTES_MAX=2047

"$RENDER_SHAPES" --count 4 --side 32 photos >/dev/null
printf -v level '%0200d' 0

# folder_of BYTES: creates a folder whose absolute path has exactly BYTES bytes, and prints it.
folder_of() {
  local path=$PWD rest
  while ((rest = $1 - ${#path} - 1, rest > 255)); do path+=/$level; done
  ((rest > 0)) && path+=/${level::1}$(printf "%0$((rest - 1))d" 0)
  mkdir -p "$path"
  same ${#path} "$1" "bytes of the folder"
  echo "$path"
}

# check_too_long STATUS COMMAND...: expects one line that states the limit.
check_too_long() {
  local expected=$1
  shift
  same "$(status_of "$@")" "$expected" "status of $*"
  one_line errors
  contains "$(cat errors)" "too long"
  contains "$(cat errors)" "at most $PATH_BYTES_MAX bytes"
}

every_verb_works_in_a_deep_folder() {
  local deep config
  deep=$(folder_of 1850)
  cp -r photos "$deep/photos"
  millrace convert dataset "$deep/photos" "$deep/shards" --quiet >/dev/null
  millrace verify "$deep/shards" --decode --quiet >out
  millrace inspect "$deep/shards" >out
  same "$(millrace read "$deep/shards" --print keys --quiet | wc -l)" "$(find photos -name '*.jpg' | wc -l)"

  tar -cf "$deep/plain.tar" -C photos .
  XDG_CACHE_HOME=$deep/cache millrace index "$deep/plain.tar" --quiet >out
  find "$deep/cache" -name '????????????????' | grep -q . || fail "no index was stored"
  XDG_CACHE_HOME=$deep/cache millrace read "$deep/plain.tar" --print keys --quiet >out

  config=$deep/train.yaml
  cat >"$config" <<YAML
run:        {dir: "$deep/run", steps: 2}
data:       {train: "$deep/shards", val: "$deep/shards", memory: 32MiB, image: {size: 16}}
model:      {layers: 1, heads: 2, width: 16, patch: 8}
schedule:   {type: constant, warmup: 0}
batch:      {global: 8, micro: 4}
checkpoint: {every: 1}
log:        {tensorboard: "$deep/events"}
YAML
  millrace train "$config" --quiet >out
  millrace train "$config" --quiet --set run.steps=4 >out
  same "$(millrace ckpt list "$deep/run/ckpt" --json | grep -o '"step":[0-9]*' | tail -n 1)" '"step":4'
  millrace verify "$deep/run/ckpt/step-00000004" --quiet >out
  millrace eval "$config" --from "$deep/run" --quiet >out
  millrace ckpt hash "$deep/run" >run.hash
  millrace ckpt copy "$deep/run/ckpt/step-00000004" "$deep/copy" --quiet >out
  millrace ckpt hash "$deep/copy/step-00000004" | cmp - run.hash
  millrace convert checkpoint "$deep/run" "$deep/full.safetensors" --to full --quiet >out
  millrace ckpt prune "$deep/copy" --keep-last 1 --quiet >out
  millrace ckpt sweep "$deep/copy" --quiet >out

  command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || return 0
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 2 "$MILLRACE" train "$config" --quiet --set run.dir="$deep/ranks" \
    --set run.steps=4 --set log.tensorboard= >out
  millrace ckpt hash "$deep/ranks" | cmp - run.hash
}

the_longest_path_is_read_and_indexed() {
  local deep longest
  deep=$(folder_of 1900)
  tar -cf plain.tar -C photos .
  printf -v longest '%s/%0*d.tar' "$deep" $((PATH_BYTES_MAX - ${#deep} - 5)) 0
  same ${#longest} $PATH_BYTES_MAX
  ln plain.tar "$longest"
  export XDG_CACHE_HOME=$PWD/cache
  millrace index "$longest" --quiet >out
  same "$(find cache -type f | wc -l)" 1 "stored indexes"
  millrace read "$longest" --print keys --quiet >keys
  same "$(wc -l <keys)" "$(find photos -name '*.jpg' | wc -l)"
  millrace verify "$longest" --quiet >out
}

a_longer_path_is_an_error_that_states_the_limit() {
  local deep longer
  deep=$(folder_of 1900)
  printf -v longer '%s/%0*d' "$deep" $((PATH_BYTES_MAX - ${#deep})) 0
  same ${#longer} $((PATH_BYTES_MAX + 1))
  check_too_long 2 millrace read "$longer"
  check_too_long 2 millrace index "$longer"
  check_too_long 2 millrace verify "$longer"
  check_too_long 2 millrace inspect "$longer"
  check_too_long 2 millrace convert dataset photos "$longer"
  check_too_long 2 millrace convert dataset "$longer" shards
  check_too_long 2 millrace ckpt list "$longer"
  check_too_long 2 millrace ckpt copy "$longer" copy
  check_too_long 2 millrace train "$longer"
}

# a run finds out when it starts, not at its first save
a_checkpoint_folder_without_space_for_names_is_refused() {
  local deep
  deep=$(folder_of 1950)
  millrace convert dataset photos shards --quiet >/dev/null
  cat >train.yaml <<'YAML'
run:   {dir: run, steps: 2}
data:  {train: shards, memory: 32MiB, image: {size: 16}}
model: {layers: 1, heads: 2, width: 16, patch: 8}
batch: {global: 8, micro: 8}
YAML
  check_too_long 1 millrace train train.yaml --quiet --set checkpoint.dir="$deep" --set checkpoint.every=1
  same "$(ls -A "$deep")" "" "files in the folder"
  printf -v deep '%s/%0*d' "$deep" $((PATH_BYTES_MAX - ${#deep})) 0
  same "$(status_of millrace train train.yaml --set run.dir="$deep")" 2
  contains "$(cat errors)" "less than $((PATH_BYTES_MAX + 1)) bytes"
  sed "s|dir: run|dir: $deep|" train.yaml >other.yaml
  same "$(status_of millrace train other.yaml)" 2
  contains "$(cat errors)" "at most $PATH_BYTES_MAX bytes"
}

run_cases every_verb_works_in_a_deep_folder the_longest_path_is_read_and_indexed \
  a_longer_path_is_an_error_that_states_the_limit a_checkpoint_folder_without_space_for_names_is_refused
