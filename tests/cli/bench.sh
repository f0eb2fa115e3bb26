#!/usr/bin/env bash
# bench — `millrace bench io|loader|ckpt` measure each way that this machine has, in bounded time, and leave nothing; bench/loaders outlives its peers.
. "$(dirname "$0")/lib.sh"

# ---- io ----

measure() { millrace bench io folder --size 4MiB --seconds 20ms "$@"; }

each_way_is_measured_and_named() {
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

text_is_a_table() {
  mkdir -p folder
  measure >result
  grep -q '^  what  *engine  *page cache  *depth' result
}

a_folder_that_is_not_there_is_one_error() {
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

stopped_it_leaves_nothing() {
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
whats() { json '[(m["what"], m["workers"]) for m in d["measurements"]]' "$1"; }

each_stage_of_a_loader_stands_beside_its_limit() {
  need_python
  make_shards
  measure_loader shards -j 3 --size 32 --json >result
  same "$(json 'd["samples_count"]' result)" "$(json 'd["samples_count"]' <(millrace inspect shards --json))"
  contains "$(whats result)" "('cold: samples as stored', 3)"
  contains "$(whats result)" "('warm: samples as stored', 1)"
  contains "$(whats result)" "('photos, cropped to 32', 1), ('photos, cropped to 32', 2), ('photos, cropped to 32', 3)]"
  same "$(json 'all(m["samples_per_second"] > 0 and m["samples_per_cpu_second"] > 0 for m in d["measurements"])' result)" True
  same "$(json '{m["of_limit_fraction"] > 0 and m["limit_per_second"] > 0 for m in d["measurements"] if m["workers"]}' result)" "{True}"
  same "$(json '{m["limited_by"] in ("read", "decode", "copy", "consumer") for m in d["measurements"] if m["workers"]}' result)" "{True}"
  same "$(json '[m["what"] for m in d["first_micro_batch"] if m["elapsed_seconds"] > 0]' result)" "['at the start', 'in the middle of an epoch']"
  same "$(json '{round(m["limit_seconds"] * max(r["samples_per_second"] for r in d["measurements"] if r["what"].startswith("photos, cropped"))) for m in d["first_micro_batch"]}' result)" "{32}"
}

large_photos_are_measured_within_the_budget() {
  need_python
  mkdir large
  "$python" -c 'import sys
for i in range(8):
    open(f"large/{i}.ppm", "wb").write(b"P6 1024 768 255 " + bytes((i * 31 + j // 5) % 256 for j in range(1024 * 768 * 3)))'
  millrace convert dataset large large-shards --quiet
  measure_loader large-shards -j 1 --batch 4 --micro 4 --memory 48MiB --json >result
  contains "$(whats result)" "('photos decoded whole, one thread', 0)"
}

text_is_measured_in_windows() {
  need_python
  head -c 20000 "$here"/../../README.md >book.txt
  millrace convert dataset book.txt tokens --quiet >/dev/null
  measure_loader tokens --block 16 -j 2 --json >result
  contains "$(whats result)" "('windows of 17 tokens', 1), ('windows of 17 tokens', 2)]"
}

without_a_dataset_photos_are_made_and_removed() {
  need_python
  mkdir empty && cd empty
  measure_loader --photos 8 -j 1 --json >../result
  same "$(json 'd["dataset"], d["samples_count"]' ../result)" "('made photos', 8)"
  contains "$(whats ../result)" "('photos decoded whole, one thread', 0)"
  same "$(ls -A)" ""
}

photos_that_are_made_go_also_when_stopped() {
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

what_no_loader_reads_is_one_error() {
  same "$(status_of millrace bench loader nowhere)" 1
  one_line errors
  make_shards
  same "$(status_of millrace bench loader shards --micro 3)" 2
  same "$(status_of millrace bench loader shards --seconds 1us)" 2
}

measure_state() { millrace bench ckpt states --size 64MiB --small 50 --step 1ms "$@"; }

saves_and_loads_stand_beside_the_disk_alone() {
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

one_measurement_can_be_asked_for() {
  mkdir -p states
  measure_state --json --only small >result
  same "$(json 'len(d["measurements"]), "asynchronous" in d' result)" "(2, False)"
  measure_state --json --only async >result
  same "$(json 'len(d["measurements"]), d["asynchronous"]["staging_bytes"]' result)" "(0, 67108864)"
}

what_stands_where_states_are_to_be_made_is_left_alone() {
  mkdir -p states/millrace-bench-ckpt
  echo mine >states/millrace-bench-ckpt/file
  same "$(status_of measure_state)" 1
  contains "$(cat errors)" "there already"
  same "$(cat states/millrace-bench-ckpt/file)" mine
  rm -r states
  same "$(status_of millrace bench ckpt nowhere)" 1
  same "$(status_of millrace bench ckpt --size 1000)" 2
}

# ---- bench/loaders ----

compare_bytes() { # --option value...
  same "$(status_of "$python" "$here"/../../bench/loaders/run peers --jobs warm --rounds 2 --millrace "$MILLRACE" "$@")" 0 "$(cat errors)"
}

# A Python that lacks one peer, while the other comes to its first batch, stops itself, and dies in its turn.
python_of_bad_peers() {
  cat >bad_python <<'END'
#!/bin/sh
[ "$2" = streaming-bytes ] || exit 1
echo '{"version": "1"}'
kill -STOP $$
exit 1
END
  chmod +x bad_python
}

peers_that_are_missing_or_die_cost_only_their_own_rows() {
  need_python
  mkdir -p peers/bytes/mds
  head -c 20000 "$here"/../../README.md >book.txt
  millrace convert dataset book.txt peers/bytes/millrace --quiet >/dev/null
  python_of_bad_peers
  local missing
  for missing in ./bad_python ./no_python; do
    compare_bytes --python "$missing"
    contains "$(cat out)" "| webdataset-bytes failed"
    contains "$(cat out)" "| streaming-bytes failed"
    contains "$(cat out)" "| cat "
    [[ $(cat out) != *"| millrace failed"* ]] || fail "$(cat errors)"
  done
  compare_bytes --python ./bad_python --loaders millrace,streaming
  [[ $(cat out) != *webdataset* ]] || fail "a loader that was not asked for"
}

run_cases each_way_is_measured_and_named text_is_a_table a_folder_that_is_not_there_is_one_error \
  impossible_sizes_are_wrong_usage stopped_it_leaves_nothing \
  each_stage_of_a_loader_stands_beside_its_limit large_photos_are_measured_within_the_budget text_is_measured_in_windows without_a_dataset_photos_are_made_and_removed \
  photos_that_are_made_go_also_when_stopped what_no_loader_reads_is_one_error \
  saves_and_loads_stand_beside_the_disk_alone one_measurement_can_be_asked_for what_stands_where_states_are_to_be_made_is_left_alone \
  peers_that_are_missing_or_die_cost_only_their_own_rows
