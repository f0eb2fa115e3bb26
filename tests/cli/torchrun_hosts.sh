#!/usr/bin/env bash
# `millrace train` on torchrun's ranks on two hosts: each has its own network namespace with an
# address, a host name and a boot id; a veth pair connects them.

# Runs in separate network and process namespaces; their processes end with this one. An
# unprivileged user becomes root there.
if [[ -z ${IN_NAMESPACES:-} ]]; then
  unshare_all=(unshare --net --mount --uts --pid --fork --kill-child)
  [[ $(id -u) == 0 ]] || unshare_all+=(--user --map-root-user)
  if ! "${unshare_all[@]}" ip link add cable type veth peer name plug 2>/dev/null; then
    echo "SKIPPED: this process cannot create networks" >&2
    exit 77
  fi
  IN_NAMESPACES=1 exec "${unshare_all[@]}" --mount-proc "$0"
fi
. "$(dirname "$0")/torchrun_lib.sh"

echo other-boot >boot
unshare --net --uts --mount sh -c 'hostname other && mount --bind boot /proc/sys/kernel/random/boot_id && touch is-up && exec sleep infinity' &
other=(nsenter --target $! --net --uts --mount --wd="$PWD")
until [[ -e is-up ]]; do kill -0 $! 2>/dev/null || exit 1; done
ip link add cable type veth peer name plug netns $! && ip address add 10.77.0.1/24 dev cable && ip link set cable up && ip link set lo up || exit 1
"${other[@]}" sh -c 'ip address add 10.77.0.2/24 dev plug && ip link set plug up && ip link set lo up' || exit 1

millrace train train.yaml --set run.dir=runs/one --quiet >/dev/null || exit 1

# ranks COMMAND...: starts four ranks as torchrun does, the last two on the other host. Records
# the output and status of each.
ranks() {
  local rank on
  rm -f output.* status.* pid.*
  for rank in 0 1 2 3; do
    on=()
    ((rank < 2)) || on=("${other[@]}")
    (
      status=0
      "${on[@]}" env RANK=$rank LOCAL_RANK=$((rank % 2)) WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_RANK=$((rank / 2)) \
        MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=hosts sh -c 'echo $$ >pid.$RANK; exec "$@"' rank "$@" >output.$rank 2>&1 </dev/null || status=$?
      echo $status >status.$rank
    ) &
  done
}
wait_for_ranks() { until [[ $(cat status.* 2>/dev/null | wc -l) == 4 ]]; do sleep 0.05; done; }

ranks_on_two_hosts_give_the_bits_of_one_rank() {
  local strategy
  for strategy in ddp zero3 hybrid_shard; do
    ranks "$MILLRACE" train train.yaml --set run.dir=runs/$strategy --set parallel.strategy=$strategy
    wait_for_ranks
    same "$(cat status.* | paste -sd ' ')" "0 0 0 0" "$(cat output.*)"
    millrace ckpt diff runs/one/ckpt runs/$strategy/ckpt >/dev/null || fail "$strategy has different bits"
  done
}

a_dead_rank_on_another_host_is_named() {
  local rank
  ranks "$MILLRACE" train train.yaml --set run.dir=runs/dies --set run.steps=1000000 --set log.every=1
  wait_for_steps test ! -e status.0
  kill -9 "$(cat pid.3)"
  wait_for_ranks
  same "$(cat status.* | paste -sd ' ')" "1 1 1 137" "$(cat output.*)"
  for rank in 0 1 2; do contains "$(cat output.$rank)" "the run was ended: rank 3 is gone"; done
}

run_cases ranks_on_two_hosts_give_the_bits_of_one_rank a_dead_rank_on_another_host_is_named
