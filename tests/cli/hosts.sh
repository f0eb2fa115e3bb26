#!/usr/bin/env bash
# `millrace train` on ranks of several hosts. Namespaces give each host its own name, boot id and
# files, as far as a single kernel can. Ranks on the same host are consecutive.
. "$(dirname "$0")/lib.sh"
mpirun_sh=$TEST_SOURCE_DIR/tests/support/mpirun.sh
command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"

unshare_host=(unshare --uts --mount)
# An unprivileged user keeps their identity, because mpirun checks it.
[[ $(id -u) == 0 ]] || unshare_host=(unshare --user --map-current-user --keep-caps --uts --mount)
echo boot >boot
"${unshare_host[@]}" sh -c 'hostname another && mount --bind boot /proc/sys/kernel/random/boot_id' 2>/dev/null || skip "this process cannot create hosts"
export OMPI_MCA_btl_vader_single_copy_mechanism=none # ranks on two hosts may not read each other's memory

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 12}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 4}
checkpoint: {every: 4, keep: {last: 2}, shared: false}
eval:       {every: 6}
log:        {every: 3}
YAML
millrace train train.yaml --set run.dir=alone --set checkpoint.shared=true --quiet >/dev/null || exit 1

# host NAMES DIR COMMAND...: runs two ranks per host. Each host has its own DIR; the test sees them
# as DIR-0 and DIR-1. NAMES: the host names.
cat >host <<'SH'
#!/bin/sh
number=$((OMPI_COMM_WORLD_RANK / 2)) name=$1 dir=$2
shift 2
[ "$name" = same ] || name=$name-$number
mkdir -p "$dir" "$dir-$number"
echo "boot-of-host-$number" >"boot-$number"
echo $$ >"pid-$OMPI_COMM_WORLD_RANK"
[ "$OMPI_COMM_WORLD_RANK" != "${FAULTY_RANK:-}" ] || export MILLRACE_FAULT="$FAULT"
hostname "$name" && mount --bind "boot-$number" /proc/sys/kernel/random/boot_id && mount --bind "$dir-$number" "$dir" && exec "$@"
SH
chmod +x host

# on_hosts NAMES DIR SETTING...: trains on four ranks on two hosts; prints the status.
on_hosts() {
  local names=$1 dir=$2 settings=() setting
  shift 2
  for setting; do settings+=(--set "$setting"); done
  status_of "$mpirun_sh" 4 "${unshare_host[@]}" ./host "$names" "$dir/ckpt" "$MILLRACE" train train.yaml --json --set run.dir="$dir" "${settings[@]}"
}
files_of() { (cd "$1" && find . -name 'rank-*' -printf '%P\n' | sed 's/\.safetensors$//' | sort | paste -sd ' '); }
# gather DIR STEP: merges the hosts' files into DIR/gathered
gather() { mkdir "$1/gathered" && cp "$1/ckpt-0/$2"/* "$1/gathered" && cp "$1/ckpt-1/$2"/* "$1/gathered"; }

each_host_stores_its_ranks_files_and_the_run_resumes_from_them() {
  same "$(on_hosts host own run.steps=8)" 0 "$(cat errors)"
  same "$(files_of own/ckpt-0)" "step-00000004/rank-00000 step-00000004/rank-00001 step-00000008/rank-00000 step-00000008/rank-00001"
  same "$(files_of own/ckpt-1)" "step-00000004/rank-00002 step-00000004/rank-00003 step-00000008/rank-00002 step-00000008/rank-00003"
  same "$(on_hosts host own)" 0 "$(cat errors)"
  same "$(grep -c '^resuming at step 8 ' errors)" 1
  gather own step-00000012
  millrace verify own/gathered >/dev/null
  same "$(millrace ckpt hash own/gathered)" "$(millrace ckpt hash alone/ckpt)"
}

hosts_with_equal_names_are_distinguished() { # all hosts may be called localhost; boot ids differ
  same "$(on_hosts same named run.steps=4)" 0 "$(cat errors)"
  same "$(files_of named/ckpt-0) $(files_of named/ckpt-1)" \
    "step-00000004/rank-00000 step-00000004/rank-00001 step-00000004/rank-00002 step-00000004/rank-00003"
}

# rank_usage FILE: prints one line per rank, with its memory and traffic.
rank_usage() { grep -o '"rank":[0-9]*,"memory":{[^}]*},"a_step":{[^}]*}' "$1"; }

ranks_of_equally_named_hosts_are_grouped_by_host() {
  local by_host=(parallel.strategy=hybrid_shard threads=1 data.workers=1)
  local options=(--dry-run --ranks 4 --json "${by_host[@]/#/--set=}")
  millrace train train.yaml "${options[@]}" --local-ranks 2 >predicted
  millrace train train.yaml "${options[@]}" >of_one
  [[ $(rank_usage predicted) != "$(rank_usage of_one)" ]] || fail "four ranks of one host use the same memory"
  same "$(on_hosts same sharded "${by_host[@]}" run.steps=2)" 0 "$(cat errors)"
  same "$(rank_usage out)" "$(rank_usage predicted)"
}

an_unshared_checkpoint_folder_is_refused_before_the_first_step() {
  same "$(on_hosts host unseen checkpoint.shared=true)" 1
  contains "$(cat errors)" "millrace: rank 2: this rank cannot see the folder that the first rank created"
  contains "$(cat errors)" "let all nodes share the folder, or give each its own (checkpoint.shared: false)"
  [[ ! -s unseen/metrics.jsonl ]] || fail "the run started"
  same "$(ls -A unseen/ckpt-0)" .millrace-owner
}

a_host_without_its_folder_ends_the_run_instead_of_restarting_it() {
  same "$(on_hosts host lost run.steps=4)" 0 "$(cat errors)"
  rm -r lost/ckpt-1
  same "$(on_hosts host lost)" 1
  contains "$(cat errors)" "there are checkpoints, but none that is present on all ranks"
}

# die_between DIR STEP SETTING...: kills the run when only the first host has committed that step.
die_between() {
  local step=$1/step-$(printf %08d "$2") pid
  export FAULTY_RANK=2 FAULT=commit:hold:step-$(printf %08d "$2")
  on_hosts host "$1" "${@:3}" >status &
  pid=$!
  until [[ -d ${step/\//\/ckpt-0/} ]]; do kill -0 $pid; sleep 0.02; done
  kill -KILL "$(cat pid-2)"
  wait $pid
  unset FAULTY_RANK FAULT
  [[ ! -e ${step/\//\/ckpt-1/} ]] || fail "$step is on both"
}

hosts_killed_between_commits_resume_from_the_common_step() {
  die_between died 8
  same "$(on_hosts host died)" 0 "$(cat errors)"
  contains "$(cat errors)" "step 8 of rank 0 is skipped: rank 2 has none after step 4"
  same "$(grep -c '^resuming at step 4 ' errors)" 1
  gather died step-00000012
  same "$(millrace ckpt hash died/gathered)" "$(millrace ckpt hash alone/ckpt)"
}

run_cases each_host_stores_its_ranks_files_and_the_run_resumes_from_them hosts_with_equal_names_are_distinguished \
  ranks_of_equally_named_hosts_are_grouped_by_host an_unshared_checkpoint_folder_is_refused_before_the_first_step \
  a_host_without_its_folder_ends_the_run_instead_of_restarting_it hosts_killed_between_commits_resume_from_the_common_step
