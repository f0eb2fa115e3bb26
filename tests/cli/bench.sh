#!/usr/bin/env bash
# bench — `millrace bench io|loader|ckpt|comm|train` measure what this machine supports in bounded
# time and leave no files behind; bench/loaders and bench/train survive the failure of a peer.
. "$(dirname "$0")/lib.sh"

# ---- io ----

measure() { millrace bench io folder --size 4MiB --seconds 20ms "$@"; }

each_io_mode_is_measured_and_named() {
  need_python
  mkdir folder
  measure --json >result
  same "$(json 'd["file_bytes"]' result)" 4194304
  same "$(json 'all(m["bytes_per_second"] > 0 and m["operations_per_second"] > 0 for m in d["measurements"])' result)" True
  same "$(json 'all(0 < m["of_limit_fraction"] <= 1 for m in d["measurements"] if not m["what"].startswith("warm"))' result)" True
  same "$(json 'sorted({m["what"].split(",")[0] for m in d["measurements"]})' result)" "['cold', 'warm', 'written']"
  millrace doctor folder --json >doctor
  contains "$(json '{m["engine"] for m in d["measurements"]}' result)" \
    "$(json '[c["facts"]["engine"] for c in d["checks"] if c["name"] == "reading"][0]' doctor)"
  contains "$(json '{m["engine"] for m in d["measurements"]}' result)" "'threads'"
  same "$(json '"around" in {m["page_cache"] for m in d["measurements"]}' result)" "$(json 'd["has_direct"]' result)"
  same "$(ls -A folder)" ""
}

the_human_output_is_a_table() {
  mkdir -p folder
  measure >result
  grep -q '^  what  *engine  *page cache  *depth' result
}

a_missing_folder_is_one_error() {
  same "$(status_of millrace bench io nowhere)" 1
  one_line errors
}

impossible_sizes_are_wrong_usage() {
  mkdir -p folder
  same "$(status_of millrace bench io folder --size 1000)" 2
  same "$(status_of millrace bench io folder --seconds 0s)" 2
  same "$(status_of millrace bench io folder --seconds 0.5ms)" 2
  contains "$(cat errors)" "at least 1ms"
  same "$(status_of millrace bench oi)" 2
  contains "$(cat errors)" "bench io"
}

a_stopped_measurement_leaves_nothing() {
  mkdir -p folder
  "$MILLRACE" bench io folder --size 64MiB --seconds 60s --quiet 2>errors &
  local pid=$! status=0
  until [[ -n $(ls -A folder | grep millrace-bench) ]]; do kill -0 $pid && sleep 0.02 || fail "it ended: $(cat errors)"; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status 1
  contains "$(cat errors)" "stopped on request"
  same "$(ls -A folder)" ""
}

# ---- loader ----

make_shards() {
  [[ -d shards ]] || { "$RENDER_SHAPES" --count 8 --side 64 photos >/dev/null; millrace convert dataset photos shards --quiet >/dev/null; }
}
measure_loader() { millrace bench loader "$@" --seconds 20ms; }
measured_labels() { json '[(m["what"], m["workers"]) for m in d["measurements"]]' "$1"; }

each_loader_stage_is_shown_with_its_limit() {
  need_python
  make_shards
  measure_loader shards -j 3 --size 32 --batch 24 --micro 24 --json >result
  same "$(json 'd["samples_count"]' result)" "$(json 'd["samples_count"]' <(millrace inspect shards --json))"
  contains "$(measured_labels result)" "('cold: samples as stored', 3)"
  contains "$(measured_labels result)" "('warm: samples as stored', 1)"
  contains "$(measured_labels result)" "('photos, cropped to 32', 1), ('photos, cropped to 32', 2), ('photos, cropped to 32', 3)]"
  same "$(json 'all(m["samples_per_second"] > 0 and m["samples_per_cpu_second"] > 0 for m in d["measurements"])' result)" True
  same "$(json '{m["of_limit_fraction"] > 0 and m["limit_per_second"] > 0 for m in d["measurements"] if m["workers"]}' result)" "{True}"
  same "$(json '{m["limited_by"] in ("read", "decode", "copy", "consumer") for m in d["measurements"] if m["workers"]}' result)" "{True}"
  same "$(json 'd["samples_count"] // 2 % 24' result)" 4
  same "$(json '[(m["what"], m["position"], m["samples_count"]) for m in d["first_micro_batch"] if m["elapsed_seconds"] > 0]' result)" \
    "[('at the start', 0, 24), ('in the middle of an epoch', 24, 24)]"
  same "$(json '{round(m["limit_seconds"] * max(r["samples_per_second"] for r in d["measurements"] if r["what"].startswith("photos, cropped"))) for m in d["first_micro_batch"]}' result)" "{24}"
}

an_epoch_under_two_steps_has_no_mid_epoch_first_batch() {
  need_python
  make_shards
  measure_loader shards -j 1 --size 32 --json >result
  same "$(json '[m["what"] for m in d["first_micro_batch"]], d["samples_count"] < 2 * d["batch_samples_count"]' result)" "(['at the start'], True)"
}

large_photos_are_measured_within_the_budget() {
  need_python
  mkdir large
  "$python" -c 'import sys
for i in range(8):
    open(f"large/{i}.ppm", "wb").write(b"P6 1024 768 255 " + bytes((i * 31 + j // 5) % 256 for j in range(1024 * 768 * 3)))'
  millrace convert dataset large large-shards --quiet
  measure_loader large-shards -j 1 --batch 4 --micro 4 --memory 48MiB --json >result
  contains "$(measured_labels result)" "('photos decoded whole, one thread', 0)"
}

text_is_measured_in_windows() {
  need_python
  head -c 20000 "$here"/../../README.md >book.txt
  millrace convert dataset book.txt tokens --quiet >/dev/null
  measure_loader tokens --block 16 -j 2 --json >result
  contains "$(measured_labels result)" "('windows of 17 tokens', 1), ('windows of 17 tokens', 2)]"
}

without_a_dataset_photos_are_generated_and_removed() {
  need_python
  mkdir empty && cd empty
  measure_loader --photos 8 -j 1 --json >../result
  same "$(json 'd["dataset"], d["samples_count"]' ../result)" "('generated photos', 8)"
  contains "$(measured_labels ../result)" "('photos decoded whole, one thread', 0)"
  same "$(ls -A)" ""
}

generated_photos_are_removed_after_a_stop() {
  mkdir -p stopped && cd stopped
  "$MILLRACE" bench loader --photos 8 --seconds 600s -v 2>../errors &
  local pid=$! status=0
  until [[ -n $(ls -A) ]]; do kill -0 $pid && sleep 0.02 || fail "it ended: $(cat ../errors)"; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status 1
  contains "$(cat ../errors)" "stopped on request"
  same "$(ls -A)" ""
}

an_unreadable_dataset_is_one_error() {
  same "$(status_of millrace bench loader nowhere)" 1
  one_line errors
  make_shards
  same "$(status_of millrace bench loader shards --micro 3)" 2
  same "$(status_of millrace bench loader shards --seconds 1us)" 2
}

measure_state() { millrace bench ckpt states --size 64MiB --small 50 --step 1ms "$@"; }

saves_and_loads_are_compared_with_the_disk() {
  mkdir states
  measure_state --json >result
  same "$(json '[m["what"] for m in d["measurements"]]' result)" \
    "['a file, written and fsynced', 'a file, read cold', 'a state, saved', 'a state, loaded cold', 'its checksums alone', 'many small arrays, saved', 'many small arrays, loaded cold']"
  same "$(json 'all(m["bytes"] == 64 << 20 for m in d["measurements"][:5])' result)" True
  same "$(json 'all(m["bytes"] == 50 << 10 and m["of_limit_fraction"] is None for m in d["measurements"][5:])' result)" True
  same "$(json 'all(m["elapsed_seconds"] > 0 and m["of_limit_fraction"] > 0 for m in d["measurements"][:5])' result)" True
  same "$(json 'd["asynchronous"]["save_seconds"] > 0' result)" True
  same "$(ls -A states)" ""
}

a_single_measurement_can_be_selected() {
  mkdir -p states
  measure_state --json --only small >result
  same "$(json 'len(d["measurements"]), "asynchronous" in d' result)" "(2, False)"
  measure_state --json --only async >result
  same "$(json 'len(d["measurements"]), d["asynchronous"]["staging_bytes"]' result)" "(0, 67108864)"
}

existing_files_in_the_folder_are_kept() {
  mkdir -p states/millrace-bench-ckpt
  echo mine >states/millrace-bench-ckpt/file
  same "$(status_of measure_state)" 1
  contains "$(cat errors)" "already exists"
  same "$(cat states/millrace-bench-ckpt/file)" mine
  rm -r states
  same "$(status_of millrace bench ckpt nowhere)" 1
  same "$(status_of millrace bench ckpt --size 1000)" 2
}

# ---- comm, train ----

# The program passes mpirun the options it needs; only sanitizers need more.
need_ranks() {
  command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"
  . "$TEST_SOURCE_DIR/tests/support/mpi_env.sh"
  unset "${!OMPI_@}"
}

collectives_are_compared_with_memory_and_thread_speed() {
  need_python
  need_ranks
  millrace bench comm -n 3 --size 64KiB --seconds 1ms --json >result
  same "$(json 'd["ranks_count"], d["library"][:8]' result)" "(3, 'Open MPI')"
  same "$(json '[(m["what"], m["exchange_bytes"]) for m in d["measurements"][:2]]' result)" "[('all-reduce, int64', 8), ('all-reduce, int64', 512)]"
  same "$(json '[m["exchange_bytes"] for m in d["measurements"][2:]] == [65536] * 4 + [4096] * 4' result)" True
  same "$(json '{m["what"] for m in d["measurements"][2:6]} == {"all-gather", "reduce-scatter, canonical", "reduce-scatter, fast", "all-to-all"}' result)" True
  same "$(json 'all(m["mean_seconds"] > 0 and m["received_bytes_per_second"] > 0 and m["limit_seconds"] > 0 for m in d["measurements"])' result)" True
}

the_launchers_ranks_are_measured() {
  need_python
  command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"
  same "$(status_of "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 2 "$MILLRACE" bench comm --size 4KiB --seconds 1ms --json)" 0 "$(cat errors)"
  same "$(json 'd["ranks_count"], len(d["measurements"])' out)" "(2, 6)"
  same "$(status_of "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 1 "$MILLRACE" bench comm)" 2
}

impossible_collectives_are_wrong_usage() {
  same "$(status_of millrace bench comm -n 1)" 2
  same "$(status_of millrace bench comm --size 1KiB)" 2
  same "$(status_of millrace bench comm --size 4097)" 2
  same "$(status_of millrace bench comm --seconds 1us)" 2
}

# Small models make steps fast.
measure_training() { millrace bench train --steps "${steps:-2}" --warm-up 1 --batch 2 --set model.layers=1 --set model.width=48 --set threads=1 --json "$@"; }

a_step_is_compared_with_its_matrix_products_and_its_time_adds_up() {
  need_python
  mkdir -p steps && cd steps
  steps=20 measure_training >../result
  same "$(json '[(m["what"], m["batch_samples_count"]) for m in d["measurements"]]' ../result)" "[('gpt2', 2), ('llama', 2), ('vit', 2)]"
  same "$(json 'd["steps_count"], d["threads_count"], d["ranks_count"]' ../result)" "(20, 1, 1)"
  same "$(json 'all(m["samples_per_second"] > 0 and m["median_step_seconds"] > 0 and m["limit_gigaflops_per_second"] > 0 for m in d["measurements"])' ../result)" True
  same "$(json '[round(m["tokens_per_second"] / m["samples_per_second"]) for m in d["measurements"][:2]]' ../result)" "[256, 256]"
  # shares of the total step time; on a busy machine some time falls between two categories
  same "$(json '[sum(m["time"].values()) for m in d["measurements"] if not 0.5 < sum(m["time"].values()) <= 1]' ../result)" "[]"
  same "$(json 'all(m["time"][part + "_share"] > 0 for m in d["measurements"] for part in ("load", "forward", "backward", "reduce", "update"))' ../result)" True
  same "$(ls -A)" ""
}

a_configuration_is_measured_on_its_data_and_leaves_nothing() {
  need_python
  make_shards
  mkdir -p configured && cd configured
  cat >train.yaml <<'YAML'
run:        {dir: run, steps: 100}
data:       {train: ../shards, val: ../shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 1, heads: 2, width: 32, patch: 8}
batch:      {global: 4, micro: 2}
checkpoint: {every: 1, dir: saved}
log:        {jsonl: metrics, tensorboard: events}
YAML
  millrace bench train train.yaml --steps 3 --json >../result
  same "$(json '[(m["what"], m["batch_samples_count"], m["tokens_per_second"]) for m in d["measurements"]]' ../result)" "[('train.yaml', 4, None)]"
  same "$(ls -A)" train.yaml
}

steps_of_several_ranks_report_the_overlapped_communication() {
  need_python
  need_ranks
  measure_training -n 2 --model gpt2 --accumulation 2 >result
  same "$(json 'd["ranks_count"], d["measurements"][0]["batch_samples_count"]' result)" "(2, 8)"
  same "$(json '[m["exchange"]["alone_seconds"] > 0 and m["exchange"]["waited_seconds"] > 0 and 0 <= m["exchange"]["hidden_share"] < 1 for m in d["measurements"]]' result)" "[True]"
  same "$(ls -d millrace-bench-train 2>/dev/null)" ""
}

stopped_or_impossible_training_leaves_nothing() {
  mkdir -p stopped-training && cd stopped-training
  "$MILLRACE" bench train --model gpt2 --steps 1000000 --quiet 2>../errors &
  local pid=$! status=0
  until [[ -d millrace-bench-train/run-gpt2 ]]; do kill -0 $pid && sleep 0.02 || fail "it ended: $(cat ../errors)"; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status 1
  contains "$(cat ../errors)" "stopped on request"
  same "$(ls -A)" ""
  same "$(status_of millrace bench train --set model.width=7)" 2
  same "$(ls -A)" "errors
out"
  mkdir millrace-bench-train
  same "$(status_of millrace bench train --model gpt2)" 1
  contains "$(cat errors)" "already exists"
}

# ---- bench/train ----

training_is_measured_without_torch() {
  need_python
  need_ranks
  mkdir -p alone && cd alone
  same "$(status_of "$python" "$here"/../../bench/train/run --millrace "$MILLRACE" --python ./no_python --models gpt2 --rounds 1 --steps 1 --batch 1)" 0 "$(cat errors)"
  contains "$(cat errors)" no_python
  grep -Eq '^\| tokens/s, 2 ranks \| [0-9.]+ \|' out || fail "$(cat out)"
  grep -Eq '^\| two ranks / one rank \| [0-9.]+ x \|' out || fail "$(cat out)"
}

missing_peers_are_reported_with_install_commands() {
  need_python
  status_of "$python" "$here"/../../bench/ckpt/run . --millrace ./none >/dev/null
  contains "$(tail -n 1 errors)" "there is no ./none: cmake "
  same "$(status_of "$python" "$here"/../../bench/ckpt/run . --millrace "$MILLRACE" --python ./none)" 2
  contains "$(tail -n 1 errors)" "there is no ./none: bench/ckpt/setup"
  same "$(status_of "$python" "$here"/../../bench/loaders/run none --millrace "$MILLRACE")" 2
  contains "$(tail -n 1 errors)" "make_data.py PHOTOS none"
}

# ---- bench/loaders ----

compare_bytes() { # --option value...
  same "$(status_of "$python" "$here"/../../bench/loaders/run peers --jobs warm --rounds 2 --millrace "$MILLRACE" "$@")" 0 "$(cat errors)"
}

# Creates a Python with a single peer. It prints its first line, stops itself, and exits when continued.
make_bad_python() {
  cat >bad_python <<'END'
#!/bin/sh
[ "$2" = streaming-bytes ] || exit 1
echo '{"version": "1"}'
kill -STOP $$
exit 1
END
  chmod +x bad_python
}

missing_or_crashing_peers_lose_only_their_rows() {
  need_python
  mkdir -p peers/bytes/mds
  head -c 20000 "$here"/../../README.md >book.txt
  millrace convert dataset book.txt peers/bytes/millrace --quiet >/dev/null
  make_bad_python
  local missing
  for missing in ./bad_python ./no_python; do
    compare_bytes --python "$missing"
    contains "$(cat out)" "| webdataset-bytes failed"
    contains "$(cat out)" "| streaming-bytes failed"
    contains "$(cat out)" "| cat "
    [[ $(cat out) != *"| millrace failed"* ]] || fail "$(cat errors)"
  done
  compare_bytes --python ./bad_python --loaders millrace,streaming
  [[ $(cat out) != *webdataset* ]] || fail "a loader that was not requested"
}

mounts_are_matched_by_path_components() {
  need_python
  local unshare_mounts=(unshare --mount)
  [[ $(id -u) == 0 ]] || unshare_mounts=(unshare --user --map-root-user --mount)
  "${unshare_mounts[@]}" mount -t tmpfs none . 2>/dev/null || skip "cannot mount here"
  mkdir -p mounts/m mounts/mn
  cat >kinds.py <<'END'
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import turns
print(*(turns.file_system(pathlib.Path(path)) for path in sys.argv[2:]))
END
  local kinds=("$python" kinds.py "$here"/../../bench)
  same "$("${unshare_mounts[@]}" sh -c 'mount -t ramfs none mounts/m && mkdir mounts/m/below && exec "$@"' sh "${kinds[@]}" mounts/m mounts/m/below mounts/mn)" \
    "ramfs ramfs $("${kinds[@]}" mounts)"
}

# There are 7 shapes. 74 photos of each make two steps of 256 and 6 more samples, so the middle of
# the epoch lies within the second step; 63 of each make less than two steps.
first_batches() { # PHOTOS-OF-EACH
  rm -rf firsts && mkdir -p firsts/small
  "$RENDER_SHAPES" --count "$1" --side 32 firsts/small/photos >/dev/null
  millrace convert dataset firsts/small/photos firsts/small/millrace --quiet >/dev/null
  same "$(status_of "$python" "$here"/../../bench/loaders/run firsts --jobs first --loaders millrace --rounds 2 --keep firsts --millrace "$MILLRACE")" 0 "$(cat errors)"
}

saved_turns() { "$python" -c "import json; print([$1 for r in map(json.loads, open('firsts/turns.jsonl'))])"; }

a_resumed_loader_starts_at_a_step_boundary() {
  need_python
  first_batches 74
  same "$(saved_turns '(r["loader"], r["start"])')" "[('millrace', 0), ('millrace-resumed', 256), ('millrace', 0), ('millrace-resumed', 256)]"
  first_batches 63
  contains "$(cat errors)" "too few photos"
  same "$(saved_turns r)" "[]"
}

run_cases each_io_mode_is_measured_and_named the_human_output_is_a_table a_missing_folder_is_one_error \
  impossible_sizes_are_wrong_usage a_stopped_measurement_leaves_nothing \
  each_loader_stage_is_shown_with_its_limit an_epoch_under_two_steps_has_no_mid_epoch_first_batch large_photos_are_measured_within_the_budget text_is_measured_in_windows without_a_dataset_photos_are_generated_and_removed \
  generated_photos_are_removed_after_a_stop an_unreadable_dataset_is_one_error \
  saves_and_loads_are_compared_with_the_disk a_single_measurement_can_be_selected existing_files_in_the_folder_are_kept \
  collectives_are_compared_with_memory_and_thread_speed the_launchers_ranks_are_measured impossible_collectives_are_wrong_usage \
  a_step_is_compared_with_its_matrix_products_and_its_time_adds_up a_configuration_is_measured_on_its_data_and_leaves_nothing \
  steps_of_several_ranks_report_the_overlapped_communication stopped_or_impossible_training_leaves_nothing training_is_measured_without_torch \
  missing_peers_are_reported_with_install_commands mounts_are_matched_by_path_components missing_or_crashing_peers_lose_only_their_rows a_resumed_loader_starts_at_a_step_boundary
