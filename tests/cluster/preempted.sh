#!/usr/bin/env bash
# examples/train.sbatch on a real Slurm: a preempted job saves, is requeued, and ends with the bits
# of an uninterrupted run. MILLRACE_SLURM names the script that starts Slurm;
# MILLRACE_CLUSTER=required makes its absence a failure.
. "$(dirname "$0")/../cli/lib.sh"
. "$TEST_SOURCE_DIR/tests/support/mpi_env.sh"
slurm=${MILLRACE_SLURM:-$TEST_SOURCE_DIR/../shared/slurm/slurm.sh}
absent() {
  [[ ${MILLRACE_CLUSTER:-} != required ]] || { echo "failed: $*" >&2; exit 1; }
  skip "$@"
}
[[ -x $slurm ]] || absent "there is no $slurm"
for program in slurmctld slurmd munged sbatch srun scontrol; do
  command -v $program >/dev/null || PATH=$PATH:/usr/sbin command -v $program >/dev/null ||
    absent "there is no $program; scripts/setup --cluster installs it"
done
[[ -n ${MPI:-} ]] || absent "there is no MPI"
[[ $(id -u) == 0 ]] || absent "only root starts a Slurm here"

export PATH=$(dirname "$MILLRACE"):$PATH:/usr/sbin
# Two ports below those that the kernel hands out, of which another program may use any.
export SLURM_DIR=$scratch/slurm SLURM_PORT=$((20000 + 2 * ($$ % 6000))) SLURM_CPUS=2 SLURM_GRACE=60
chmod 755 "$scratch" # Slurm's daemons must be able to enter it
trap '"$slurm" stop; rm -rf "$scratch"' EXIT
SLURM_CONF=$("$slurm" start) || exit 1
export SLURM_CONF

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
# configuration STEPS: as many steps as the test needs; the bits of a step do not depend on STEPS.
configuration() {
  cat <<YAML
run:        {dir: runs/a, seed: 3, steps: $1}
data:       {train: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 8, micro: 4}
schedule:   {type: constant, warmup: 0}
checkpoint: {every: 0}
log:        {every: 1}
YAML
}
# await WHAT COMMAND...: waits up to a minute until COMMAND succeeds.
await() {
  local what=$1 n
  shift
  for ((n = 0; n < 1200; n++)); do
    ! "$@" || return 0
    sleep 0.05
  done
  fail "still not: $what; $(scontrol show job "$job" | head -4); $(tail -5 job.out)"
}
lines_of_steps() { [[ $(grep -c '^step [0-9]*/' job.out 2>/dev/null) -ge $1 ]]; }
is_requeued() { scontrol show job "$job" >state && grep -q 'JobState=PENDING' state && grep -q 'Restarts=1 ' state; }
is_complete() { scontrol show job "$job" >state && grep -q 'JobState=COMPLETED' state; }
exists() { [[ -e $1 ]]; }

a_preempted_job_resumes_to_the_same_bits() {
  local job step tasks=2
  configuration 100000000 >train.yaml
  job=$(sbatch --parsable -p low --ntasks "$tasks" -o job.out "$TEST_SOURCE_DIR/examples/train.sbatch" train.yaml)
  await "three steps" lines_of_steps 3
  sbatch -p high -n 2 -o high.out --wrap 'touch high-ran' >/dev/null
  await "the other job" exists high-ran
  await "requeued" is_requeued
  grep -q '^stopped on request after step' job.out
  step=$(basename runs/a/ckpt/step-*)
  step=$((10#${step#step-} + 4))
  configuration $step >train.yaml
  scontrol update jobid="$job" StartTime=now
  await "the end" is_complete
  same "$(grep -c '^resuming at step' job.out)" 1
  grep -q "^step $step/$step " job.out
  millrace train train.yaml --set run.dir=runs/whole --quiet >/dev/null
  millrace ckpt hash runs/whole/ckpt >whole
  millrace ckpt hash runs/a/ckpt | cmp - whole || fail "other bits: $(millrace ckpt diff runs/whole/ckpt runs/a/ckpt | tail -5)"
}

run_cases a_preempted_job_resumes_to_the_same_bits
