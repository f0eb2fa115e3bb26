#!/usr/bin/env bash
# Checkpoints of real ranks: saved, loaded by a different number of ranks, and saved by ranks
# that are killed.
. "$(dirname "$0")/../cli/lib.sh"
command -v mpirun >/dev/null && [[ -x ${RANKS:-} ]] || skip "there is no MPI"

# ranks N WORDS...
ranks() { "$TEST_SOURCE_DIR/tests/support/mpirun.sh" "$1" "$RANKS" "${@:2}"; }

four_ranks_write_a_quarter_each() {
  ranks 4 save many 1
  stat -c %s many/step-00000001/rank-*.safetensors >sizes
  same "$(wc -l <sizes)" 4 files
  awk '{ sum += $1; size[NR] = $1 } END { for (i in size) if (size[i] > sum / NR * 1.01 || size[i] < sum / NR * 0.99) exit 1 }' sizes ||
    fail "$(tr '\n' ' ' <sizes)"
  # each byte is read once: all arrays, and four headers of less than 8 KiB
  local bytes=$((4096 * 512 * 4 + 1021 * 2048 * 4 + 64 * 70 * 66 * 2 + 3 * 7 * 8 + 3001 * 512 * 4 + 100 + 8))
  awk -v bytes=$bytes '{ sum += $1 } END { exit !(sum >= bytes && sum < bytes + 4 * 8192) }' sizes || fail "$(tr '\n' ' ' <sizes)"
  [[ -z $(find many -name '.tmp-*') ]] || fail "something is left"
}

a_measured_load_of_other_ranks_shards_is_correct() {
  local bench=("$TEST_SOURCE_DIR/tests/support/mpirun.sh")
  "${bench[@]}" 4 "$BENCH" save measured 16 4 >/dev/null
  contains "$("${bench[@]}" 3 "$BENCH" load measured 16 4)" '"ranks":3'
  contains "$("${bench[@]}" 4 "$BENCH" load measured 16 4)" '"ranks":4'
}

a_save_of_four_ranks_loads_on_any_number_with_the_same_hash() {
  ranks 4 save many 1
  ranks 1 save one 1
  millrace verify many/step-00000001 >/dev/null
  same "$(millrace ckpt hash many)" "$(millrace ckpt hash one)"
  for n in 1 2 3 8; do
    ranks $n load many/step-00000001
  done
  ranks 3 load one/step-00000001
  ranks 3 save three 1
  same "$(millrace ckpt hash three)" "$(millrace ckpt hash one)"
  ranks 2 load three/step-00000001
}

a_killed_rank_leaves_complete_steps_and_the_next_run_resumes() {
  local rank operation step
  for death in 0:6 1:1 2:3; do
    rank=${death%:*} operation=${death#*:}
    rm -rf killed
    ranks 3 save killed 1
    ! ranks 3 save killed 2 "$rank" "durable:kill@$operation" >said 2>&1 || fail "nobody died"
    contains "$(cat said)" "signal 9 (Killed)"
    for step in killed/step-*; do
      millrace verify "$step" >/dev/null || fail "$step is not whole"
    done
    [[ -d killed/step-00000001 ]] || fail "the step before is gone"
    ranks 2 save killed 3
    ranks 3 load killed/step-00000003
    [[ -z $(find killed -name '.tmp-*') ]] || fail "something is left of the dead"
  done
}

a_failing_disk_on_one_rank_fails_the_save_on_all() {
  ranks 3 save failing 1
  ! ranks 3 save failing 2 1 "finalize:eio" >said 2>&1 || fail "it was saved"
  contains "$(cat said)" "Input/output error"
  contains "$(cat said)" "rank 1 failed"
  same "$(ls failing)" step-00000001
  [[ -z $(find failing -name '.tmp-*') ]] || fail "something is left"
}

a_kill_between_the_commits_of_two_nodes_leaves_a_common_step() {
  local rank operation step found
  for death in 0:7 2:7 2:8; do # ranks 0 and 2 create the folders
    rank=${death%:*} operation=${death#*:}
    rm -rf split-0 split-1
    ranks 4 save-nodes split 1
    ! ranks 4 save-nodes split 2 "$rank" "durable:kill@$operation" >said 2>&1 || fail "nobody died"
    contains "$(cat said)" "signal 9 (Killed)"
    for step in split-?/step-*; do
      millrace verify "$step" >/dev/null || fail "$step is not whole"
    done
    found=$(ranks 4 load-nodes split)
    [[ -d split-0/step-0000000$found && -d split-1/step-0000000$found ]] || fail "step $found is not on both"
    ranks 4 save-nodes split 3
    same "$(ranks 4 load-nodes split)" 3
    [[ -z $(find split-? -name '.tmp-*') ]] || fail "something is left of the dead"
  done
  same "$(find split-?/step-00000003 -name 'rank-*' | sort | tr '\n' ' ')" \
    "$(printf 'split-%d/step-00000003/rank-%05d.safetensors ' 0 0 0 1 1 2 1 3)"
  cp split-1/step-00000003/rank-* split-0/step-00000003/
  ranks 4 load split-0/step-00000003
  ranks 1 save one 3
  same "$(millrace ckpt hash split-0/step-00000003)" "$(millrace ckpt hash one)"
}

run_cases four_ranks_write_a_quarter_each a_measured_load_of_other_ranks_shards_is_correct a_save_of_four_ranks_loads_on_any_number_with_the_same_hash \
  a_killed_rank_leaves_complete_steps_and_the_next_run_resumes a_failing_disk_on_one_rank_fails_the_save_on_all \
  a_kill_between_the_commits_of_two_nodes_leaves_a_common_step
