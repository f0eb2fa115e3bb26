#!/usr/bin/env bash
# `millrace launch`: real ranks under mpirun, forwarded signals, restarts.
. "$(dirname "$0")/lib.sh"
. "$TEST_SOURCE_DIR/tests/support/mpi_env.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 12}
data:       {train: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 12, micro: 4}
checkpoint: {every: 4}
log:        {every: 1}
YAML

need_mpi() { command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"; }
# start_run RUN OPTION...: launches it as $job and waits for three steps. rank_pids finds ranks by the
# name of the run.
start_run() {
  run=runs/$1
  shift
  : >errors
  "$MILLRACE" launch -n 3 train.yaml --set run.dir="$run" "$@" >out 2>errors &
  job=$!
  trap 'kill -KILL $job' EXIT # even if the test fails
  wait_for_steps 3
}
# wait_for_steps N: waits until N step lines exist.
wait_for_steps() {
  until [[ $(grep -c '^step [0-9]*/' errors) -ge $1 ]]; do
    kill -0 $job 2>/dev/null || fail "it ended: $(cat errors)"
    sleep 0.05
  done
}
rank_pids() { pgrep -f -- "^$MILLRACE train train.yaml .*run.dir=$run( |\$)"; }
wait_for_end() { # waits for the job; sets $exit_status to its status; no rank may remain
  exit_status=0
  wait $job || exit_status=$?
  trap - EXIT
  while rank_pids >/dev/null; do sleep 0.05; done
}

# Unsets what this shell would forward to other hosts.
forward_nothing() {
  local names
  names=$(compgen -e | grep -E '^(NCCL|UCX|FI|OMP|OPENBLAS|MILLRACE|CUDA|AWS)_')
  # shellcheck disable=SC2086
  unset $names
}

the_command_can_be_shown_without_running() {
  unset SLURM_JOB_ID
  forward_nothing
  local root=
  [[ $(id -u) != 0 ]] || root="--allow-run-as-root "
  same "$(millrace launch -n 60000 train.yaml --set "run.dir=a 'b" --dry-run)" \
    "mpirun $root-np 60000 --oversubscribe --mca mpi_yield_when_idle 1 --bind-to none $MILLRACE train train.yaml --set 'run.dir=a '\\''b'"
  same "$(millrace launch -n 2 train.yaml --nnodes 2 --hosts a,b --resume never --dry-run)" \
    "mpirun $root-np 2 --host a:1,b:1 --bind-to none $MILLRACE train train.yaml --resume never"
  same "$(millrace launch -n 1 train.yaml --dry-run --set threads=3 --json)" \
    "mpirun $root-np 1 --oversubscribe --bind-to none $MILLRACE train train.yaml --set threads=3 --json"
  same "$(SLURM_JOB_ID=1 millrace launch -n 1 train.yaml --dry-run)" "mpirun $root-np 1 --bind-to none $MILLRACE train train.yaml"
  [[ ! -e runs ]] || fail "it ran"
}

contradictory_options_are_wrong_usage() {
  unset SLURM_JOB_ID
  local wrong
  for wrong in "-n 3 --nnodes 2 --hosts a,b" "-n 2 --nnodes 2" "-n 2 --nnodes 2 --hosts a" "-n 2 --node-rank 1" "-n 0" "-n 2 --set run.dirr=x"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace launch train.yaml $wrong)" 2 "$wrong"
    one_line errors
  done
  same "$(PATH=/nowhere status_of "$MILLRACE" launch -n 2 train.yaml)" 1
  contains "$(cat errors)" "cannot start mpirun: No such file or directory; install Open MPI"
}

any_number_of_hosts_can_be_given() {
  unset SLURM_JOB_ID
  local names
  names=$(seq -s, -f 'a-machine-with-a-name-of-more-than-forty-bytes-%04g' 1000)
  same "$(status_of millrace launch train.yaml -n 2000 --nnodes 1000 --hosts "$names" --dry-run)" 0 "$(cat errors)"
  same "$(grep -o -- '--host [^ ]*' out)" "--host ${names//,/:2,}:2"
}

# Creates an mpirun that records its arguments and the variables it would forward.
record_mpirun() {
  mkdir -p recording
  cat >recording/mpirun <<'SH'
#!/usr/bin/env bash
printf '%s\n' "$@" >words
env >forwarded
SH
  chmod +x recording/mpirun
  export PATH=$PWD/recording:$PATH
}

environment_variables_are_forwarded_by_name() {
  unset SLURM_JOB_ID
  record_mpirun
  local name names=(NCCL_DEBUG UCX_TLS FI_PROVIDER OMP_NUM_THREADS OPENBLAS_CORETYPE
    MILLRACE_INDEX_CACHE CUDA_VISIBLE_DEVICES AWS_SECRET_ACCESS_KEY)
  local environment=("${names[@]/%/=a-secret value}" HOME_OF=none 'NCCL_F%%=() { :; }')
  local on_two=(launch -n 2 train.yaml --nnodes 2 --hosts a,b)
  same "$(status_of env "${environment[@]}" "$MILLRACE" "${on_two[@]}")" 0 "$(cat errors)"
  for name in "${names[@]}"; do
    same "$(grep -x -B1 "$name" words | paste -sd ' ')" "-x $name"
    grep -qx "$name=a-secret value" forwarded || fail "mpirun does not have $name"
  done
  ! grep -q "secret value" words || fail "a value is on the command line"
  ! grep -Eqx 'HOME_OF|NCCL_F.*' words || fail "too much is forwarded: $(cat words)"
  local last program
  last=$(grep -n -x -- -x words | tail -1 | cut -d: -f1)
  program=$(grep -n -x "$MILLRACE" words | cut -d: -f1)
  [[ $last -lt $program ]] || fail "an option follows the program"
  # Ranks on this machine inherit the variables.
  same "$(NCCL_DEBUG=INFO status_of "$MILLRACE" launch -n 2 train.yaml)" 0 "$(cat errors)"
  ! grep -qx -- -x words || fail "$(cat words)"
  # The start time of the first attempt is forwarded only once.
  same "$(MILLRACE_BEGAN=1700000000 status_of "$MILLRACE" "${on_two[@]}" --set run.max_time=23h)" 0
  same "$(grep BEGAN words)" MILLRACE_BEGAN=1700000000
}

the_real_mpirun_accepts_the_command() {
  need_mpi
  same "$(MILLRACE_FAULT=read:eio status_of "$MILLRACE" launch -n 2 train.yaml --hosts localhost)" 1
  contains "$(cat errors)" "Input/output error"
}

the_default_is_one_rank_per_numa_node() {
  unset SLURM_JOB_ID
  [[ ! -e /dev/nvidia0 ]] || skip "this machine has a GPU"
  [[ $(taskset -pc $$) == *": $(cat /sys/devices/system/cpu/online)" ]] || skip "bound to a subset of the processors"
  local numa_nodes=0 list
  for list in /sys/devices/system/node/node*/cpulist; do
    [[ ! -r $list || -z $(cat "$list") ]] || numa_nodes=$((numa_nodes + 1))
  done
  ((numa_nodes > 0)) || numa_nodes=1
  same "$(status_of millrace launch train.yaml --dry-run)" 0 "$(cat errors)"
  contains "$(cat out)" " -np $numa_nodes "
  contains "$(cat errors)" "-n $numa_nodes: one rank for each NUMA node ($numa_nodes on this machine)"
  same "$(status_of millrace launch train.yaml --nnodes 3 --hosts a,b,c --dry-run)" 0 "$(cat errors)"
  contains "$(cat out)" " -np $((3 * numa_nodes)) "
}

ranks_train_and_the_result_is_printed() {
  need_mpi
  same "$(status_of millrace launch -n 3 train.yaml -v)" 0 "$(cat errors)"
  contains "$(cat errors)" "mpirun "
  grep -q '^step  *12$' out
  same "$(find runs/a/ckpt/step-00000012 -name 'rank-*' | wc -l)" 3
}

failures_are_noticed_even_if_sigchld_is_ignored() {
  need_mpi
  same "$(status_of env --ignore-signal=CHLD "$MILLRACE" launch -n 1 train.yaml --set data.train=absent)" 1 "$(cat errors)"
}

signals_reach_all_ranks() {
  need_mpi
  local signal
  set -m # otherwise the job would ignore SIGINT
  for signal in TERM USR1 INT; do
    start_run signals --set run.steps=1000000
    kill -$signal $job
    wait_for_end
    same "$exit_status" 75 "$(cat errors)"
    grep -q '^stopped on request after step' errors
    same "$(grep -c '^stopping after this step, saving (' errors)" 1 "$(cat errors)"
  done
}

# The run would save and stop, but its write never completes.
a_second_interrupt_ends_all_ranks_at_once() {
  need_mpi
  set -m
  MILLRACE_FAULT=write:hold:step- start_run twice --set run.steps=1000000 --set checkpoint.every=0 --restarts 2
  kill -INT $job
  until compgen -G "$run/ckpt/.tmp-step-*" >/dev/null; do # it saves
    kill -0 $job 2>/dev/null || fail "it ended: $(cat errors)"
    sleep 0.05
  done
  kill -INT $job
  wait_for_end
  same "$exit_status" 130 "$(cat errors)"
}

# Sends a second interrupt just as the ranks end; the real mpirun cannot be made to end at that moment.
later_interrupts_do_not_change_the_saved_status() {
  need_mpi
  set -m
  run=runs/saved
  mkdir stand_in
  cat >stand_in/mpirun <<'SH'
#!/usr/bin/env bash
trap 'touch signaled' USR1
trap 'exit 75' TERM
touch started
while :; do sleep 0.02; done
SH
  chmod +x stand_in/mpirun
  PATH=$PWD/stand_in:$PATH "$MILLRACE" launch -n 2 train.yaml >out 2>errors &
  job=$!
  trap 'kill -KILL $job' EXIT
  for mark in started signaled; do
    until [[ -e $mark ]]; do
      kill -0 $job 2>/dev/null || fail "it ended: $(cat errors)"
      sleep 0.02
    done
    kill -INT $job
  done
  wait_for_end
  same "$exit_status" 75 "$(cat errors)"
}

a_failing_run_is_restarted_up_to_the_limit() {
  need_mpi
  start_run again --set run.steps=1000000 --restarts 1
  until compgen -G "$run/ckpt/step-*" >/dev/null; do # any step: retention removes old ones quickly
    kill -0 $job 2>/dev/null || fail "it ended: $(cat errors)"
    sleep 0.05
  done
  kill -KILL "$(rank_pids | tail -1)"
  until grep -q '^resuming at step' errors; do
    kill -0 $job 2>/dev/null || fail "it ended: $(cat errors)"
    sleep 0.05
  done
  contains "$(cat errors)" "restart 1 of 1"
  wait_for_steps $(($(grep -c '^step [0-9]*/' errors) + 2))
  kill -KILL "$(rank_pids | tail -1)"
  wait_for_end
  same "$exit_status" 1
  contains "$(tail -1 errors)" "and no restarts are left"
}

# Uses an mpirun that records its arguments and fails.
every_attempt_gets_the_first_start_time() {
  mkdir failing
  cat >failing/mpirun <<'SH'
#!/usr/bin/env bash
printf '%s ' "$@" | grep -o -- '-x [^ ]*' >>given || echo none >>given
exit 1
SH
  chmod +x failing/mpirun
  local before after began
  before=$(date +%s)
  same "$(PATH=$PWD/failing:$PATH status_of "$MILLRACE" launch -n 2 train.yaml --restarts 2 --set run.max_time=23h)" 1
  after=$(date +%s)
  same "$(wc -l <given)" 3
  same "$(sort -u given | wc -l)" 1 "$(cat given)"
  began=$(sed -n '1s/^-x MILLRACE_BEGAN=//p' given)
  [[ $began -ge $before && $began -le $after ]] || fail "the start time $began is not from $before to $after"
  same "$(MILLRACE_BEGAN=1700000000 PATH=$PWD/failing:$PATH status_of "$MILLRACE" launch -n 2 train.yaml --set run.max_time=23h)" 1
  same "$(tail -n 1 given)" "-x MILLRACE_BEGAN=1700000000"
  same "$(PATH=$PWD/failing:$PATH status_of "$MILLRACE" launch -n 2 train.yaml)" 1
  same "$(tail -n 1 given)" none
  ! millrace launch -n 2 train.yaml --set run.max_time=23h --dry-run | grep -q BEGAN || fail "a dry run sets the start time"
}

# After a failure, the ranks of the next attempt start after the time limit.
a_restart_has_the_remaining_time() {
  need_mpi
  same "$(MILLRACE_BEGAN=1 status_of "$MILLRACE" launch -n 3 train.yaml --set run.dir=runs/left --set run.steps=50 --set run.max_time=23h)" 75 "$(cat errors)"
  contains "$(cat errors)" "stopped for run.max_time after step 1;"
}

# The second rank arrives three seconds late, and one second is reserved for the end.
the_time_limit_includes_the_rendezvous() {
  need_mpi
  # shellcheck disable=SC2016 # the rank's own shell reads it
  same "$(status_of mpirun -np 2 bash -c '[[ $OMPI_COMM_WORLD_RANK = 0 ]] || sleep 3; exec "$@"' - "$MILLRACE" train train.yaml --set threads=1 \
    --set run.dir=runs/late --set run.steps=10000000 --set run.max_time=4s)" 75 "$(cat errors)"
  contains "$(cat errors)" "stopped for run.max_time after step 1;"
}

run_cases the_command_can_be_shown_without_running contradictory_options_are_wrong_usage \
  any_number_of_hosts_can_be_given environment_variables_are_forwarded_by_name \
  the_real_mpirun_accepts_the_command the_default_is_one_rank_per_numa_node ranks_train_and_the_result_is_printed \
  failures_are_noticed_even_if_sigchld_is_ignored signals_reach_all_ranks a_second_interrupt_ends_all_ranks_at_once \
  later_interrupts_do_not_change_the_saved_status a_failing_run_is_restarted_up_to_the_limit \
  every_attempt_gets_the_first_start_time a_restart_has_the_remaining_time the_time_limit_includes_the_rendezvous
