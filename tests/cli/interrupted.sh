#!/usr/bin/env bash
# Ctrl-C at a random moment: the process ends soon and leaves no files behind, and the same command
# then completes the work. The moments derive from a printed seed; MILLRACE_SEED repeats them.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 12 --side 40 photos >/dev/null
millrace convert dataset photos shards --shard-bytes 40KiB --quiet >/dev/null
millrace read shards --out whole-files --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: whole, seed: 3, steps: 40}
data:       {train: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 1, width: 16, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 3}
YAML
millrace train train.yaml --quiet >/dev/null
millrace ckpt hash whole/ckpt | sort >whole.hash

head -c 20000 /dev/zero | tr '\0' 'a' >text.txt
cat >gpt2.yaml <<'YAML'
run:   {dir: gpt2, steps: 1}
data:  {train: tokens, memory: 32MiB, text: {block: 16}}
model: {type: gpt2, layers: 4, heads: 2, width: 384}
batch: {global: 2, micro: 2}
YAML
millrace convert dataset text.txt tokens --quiet >/dev/null
millrace train gpt2.yaml --quiet >/dev/null
seed=${MILLRACE_SEED:-$RANDOM}
echo "seed $seed"
rounds=8
[[ ${SANITIZE:-} == *thread* || ${SANITIZE:-} == *address* ]] && rounds=3
export TMPDIR=$scratch/tmp MILLRACE_FAULT=read:delay=3ms%20,durable:delay=3ms,seed=1 # slow operations give more instants to interrupt
mkdir tmp

# begin COMMAND...: starts it in its own process group and sets pid; the group must end before this
# shell does.
begin() {
  set -m # in each shell: without it, background children ignore SIGINT
  "$@" >out 2>errors &
  pid=$!
}
# wait_for_end COMMAND...: waits for the started command and sets status; no process may remain.
wait_for_end() {
  status=0
  wait "$pid" || status=$?
  no_process_left "$pid" || fail "processes of $* are left"
  same "$(ls -A tmp)" "" "left in TMPDIR by $*"
  same "$(find /dev/shm -maxdepth 1 \( -name "*millrace*" -o -name "*.$pid*" \) 2>/dev/null)" "" "shared memory of $*"
}
no_process_left() { ! kill -0 -- "-$1" 2>/dev/null; }
# interrupt ROUND SALT PATTERN COMMAND...: sends SIGINT and sets status as above. In round 0 the
# program is slowed down and the signal is sent when a path matches PATTERN, so it always arrives
# during the work; in other rounds it is sent at an instant that depends on the round.
interrupt() {
  local round=$1 salt=$2 pattern=$3
  shift 3
  if ((round == 0)); then
    MILLRACE_FAULT=durable:delay=50ms begin "$@"
    wait_for_path "$pattern"
  else
    begin "$@"
    sleep "$(printf '0.%03d' "$(instant_ms "$round" "$salt")")"
  fi
  kill -INT "$pid" 2>/dev/null || true
  wait_for_end "$@"
  ((round > 0 || status > 0)) || fail "$* was done before it was interrupted"
}
# wait_for_path PATTERN: waits for a path while the started command runs.
wait_for_path() {
  until compgen -G "$1" >/dev/null; do
    kill -0 "$pid" 2>/dev/null || fail "it ended before $1 appeared: $(cat errors)"
    sleep 0.01
  done
}
# instant_ms ROUND SALT: a time below 300 ms that depends only on the seed (bash reseeds RANDOM in
# subshells).
instant_ms() { echo $(((((seed * 1103515245 + $1 * 12345 + $2 * 777767777) * 2654435761 & 0x7fffffff) >> 8) % 300)); }
# no_temporaries FOLDER...: checks that no temporary files are left.
no_temporaries() { same "$(find "$@" -name '.tmp-*' 2>/dev/null)" "" "left behind"; }
# check_stopped_on_request STATUS: checks that it is 1 and that the signal is the only reason reported.
check_stopped_on_request() { [[ $1 == 1 ]] && grep -q '^millrace: .*stopped' errors || fail "status $1: $(cat errors)"; }

a_process_that_outlives_its_command_is_found() {
  begin sh -c 'sleep 600 & echo $! >sleeper'
  wait "$pid"
  local found=yes
  no_process_left "$pid" && found=no
  kill "$(cat sleeper)"
  same $found yes
}

an_interrupted_read_leaves_only_complete_files() {
  local i status statuses=
  for ((i = 0; i < rounds; i++)); do
    rm -rf files
    interrupt $i 1 'files/*' "$MILLRACE" read shards --out files
    statuses+=" $status"
    [[ $status == 0 || $status == 130 ]] || check_stopped_on_request $status
    [[ ! -d files ]] && continue
    no_temporaries files
    (cd files && find . -type f -exec cmp {} ../whole-files/{} \;) || fail "a file differs"
  done
  echo "statuses:$statuses"
  millrace read shards --out files --force --quiet >/dev/null
  diff -r files whole-files
}

# interrupt_read_and_resume DELAY FAULT: interrupts a read that starts mid-step, in steps of 12, when its
# first file appears, with each durable write delayed by DELAY; then runs the command that the
# message suggests. Everything is delivered, and as many samples are repeated as the message says.
interrupt_read_and_resume() {
  local read=("$MILLRACE" read shards --batch 12 --micro 2 --order full --print keys --out files)
  rm -rf files whole
  MILLRACE_FAULT= "${read[@]}" --start 5 --count 60 --quiet --out whole >whole.keys
  MILLRACE_FAULT=durable:delay=$1 begin "${read[@]}" --start 5 --count 60 --fault "$2"
  wait_for_path 'files/*'
  kill -INT "$pid"
  wait_for_end "${read[@]}"
  check_stopped_on_request $status
  mv out before
  [[ $(cat errors) =~ 'to read the rest, add '(--start\ [0-9]+\ --count\ [0-9]+(\ --force)?)(', which repeats '([0-9]+)' samples')?$ ]] ||
    fail "the message is: $(cat errors)"
  again=${BASH_REMATCH[4]:-0}
  # shellcheck disable=SC2086
  MILLRACE_FAULT= "${read[@]}" --quiet ${BASH_REMATCH[1]} >rest
  sort -u before rest | cmp - <(sort whole.keys)
  same $(cat before rest | wc -l) $((60 + again)) "samples of both, $again of them twice"
  diff -r files whole
}

an_interrupted_read_names_the_command_for_the_rest() {
  local again
  interrupt_read_and_resume 1ms read:delay=0ms
  interrupt_read_and_resume 100ms read:delay=0ms # a micro-batch takes half a second, so the read stops before the step is complete
  ((again > 0)) || fail "no sample of the interrupted step is repeated"
  interrupt_read_and_resume 100ms read:hold@12 # the next micro-batch never arrives
  ((again > 0)) || fail "no sample of the interrupted step is repeated"
}

one_signal_stops_a_stuck_read() {
  local read=("$MILLRACE" read shards --batch 12 --micro 2 --order full --out files)
  rm -rf files
  MILLRACE_FAULT= begin "${read[@]}" --fault read:hold@17 # of a sample, not of an index
  wait_for_path 'files/*'
  while kill -TERM "$pid" 2>/dev/null; do sleep 0.05; done # a step in progress may still be completed
  wait_for_end "${read[@]}"
  check_stopped_on_request $status
}

# press_twice FAULT PATTERN COMMAND...: runs it in an empty folder, slowed by FAULT. Once a path matches
# PATTERN, a first SIGINT does not end it, but a second one does.
press_twice() {
  local fault=$1 pattern=$2
  shift 2
  rm -rf twice && mkdir twice && cd twice
  mkdir tmp
  MILLRACE_FAULT=$fault begin "$@"
  wait_for_path "$pattern"
  while kill -INT "$pid" 2>/dev/null; do sleep 0.05; done
  wait_for_end "$@"
  same $status 130 "$(cat errors)"
  rm out errors && rmdir tmp
  cd ..
  same "$(find twice -name '.*' -o -name '*bench*')" "" "left by $*"
}

a_second_interrupt_leaves_nothing() {
  press_twice finalize:delay=60s 'files/*/.tmp-*' "$MILLRACE" read ../shards --out files
  press_twice abort:delay=60s '.tmp-*' "$MILLRACE" bench io --size 4MiB
  press_twice read:delay=60s '.tmp-*/photos.tar' "$MILLRACE" bench loader --photos 2
}

an_interrupted_conversion_leaves_nothing_or_resumable_files() {
  local i status statuses=
  for ((i = 0; i < rounds; i++)); do
    rm -rf converted
    interrupt $i 2 'converted/*' "$MILLRACE" convert dataset photos converted --shard-bytes 40KiB
    statuses+=" $status"
    [[ $status == 0 || $status == 75 || $status == 130 ]] || check_stopped_on_request $status
    [[ $status != 75 || -e converted/.millrace-convert.jsonl ]] || fail "nothing to resume"
    no_temporaries . -maxdepth 2
    [[ $status == 0 || ! -e converted/dataset.json ]] || fail "a dataset of an interrupted conversion"
    millrace convert dataset photos converted --shard-bytes 40KiB --resume --quiet >/dev/null
    diff -r shards converted
  done
  echo "statuses:$statuses"
}

an_interrupted_checkpoint_conversion_resumes_to_the_same_bytes() {
  local i status statuses= to
  for to in full hf; do
    rm -rf large converted
    millrace convert checkpoint gpt2/ckpt large --to $to --quiet >/dev/null
    for ((i = 0; i < rounds; i++)); do
      rm -rf converted .tmp-*
      MILLRACE_FAULT=write:delay=40ms,seed=1 interrupt $i 4 '.tmp-*' "$MILLRACE" convert checkpoint gpt2/ckpt converted --to $to -j 1
      statuses+=" $status"
      [[ $status == 0 || $status == 75 || $status == 130 ]] || check_stopped_on_request $status
      [[ $status == 75 ]] || no_temporaries . -maxdepth 1
      [[ $status == 0 || ! -e converted ]] || fail "a result of an interrupted conversion"
      [[ $status != 75 ]] || contains "$(cat errors)" "run the same command again with --resume"
      millrace convert checkpoint gpt2/ckpt converted --to $to --resume --quiet >/dev/null
      no_temporaries . -maxdepth 1
      diff -r large converted
    done
  done
  echo "statuses:$statuses"
}

an_interrupted_run_resumes_to_the_same_weights() {
  local i status statuses=
  for ((i = 0; i < rounds; i++)); do
    rm -rf part
    interrupt $i 3 'part/ckpt/step-*' "$MILLRACE" train train.yaml --set run.dir=part
    statuses+=" $status"
    [[ $status == 0 || $status == 75 || $status == 130 ]] || fail "status $status: $(cat errors)"
    no_temporaries part
    same "$(status_of millrace train train.yaml --set run.dir=part --quiet)" 0
    millrace ckpt hash part/ckpt | sort | cmp - whole.hash
  done
  echo "statuses:$statuses"
}

run_cases a_process_that_outlives_its_command_is_found an_interrupted_read_names_the_command_for_the_rest one_signal_stops_a_stuck_read a_second_interrupt_leaves_nothing \
  an_interrupted_read_leaves_only_complete_files an_interrupted_conversion_leaves_nothing_or_resumable_files \
  an_interrupted_checkpoint_conversion_resumes_to_the_same_bytes an_interrupted_run_resumes_to_the_same_weights
