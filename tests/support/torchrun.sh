#!/usr/bin/env bash
# torchrun.sh RANKS COMMAND...: starts that many processes with the variables that torchrun sets,
# and nothing else. Returns the largest status. Ranks of other runs on this machine are refused,
# regardless of their ports.
ranks=$1
shift
export WORLD_SIZE=${WORLD_SIZE:-$ranks} MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 10000)) TORCHELASTIC_RUN_ID=test-$$-$RANDOM
pids=()
for ((rank = 0; rank < ranks; rank++)); do
  RANK=$rank LOCAL_RANK=$rank "$@" </dev/null &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid" && continue
  own=$?
  ((own <= status)) || status=$own
done
exit "$status"
