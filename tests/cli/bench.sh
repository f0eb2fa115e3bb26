#!/usr/bin/env bash
# bench — `millrace bench io` measures each way that this machine has, in bounded time, and leaves nothing.
. "$(dirname "$0")/lib.sh"

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
  until [[ -n $(ls -A folder | grep millrace-bench) ]]; do sleep 0.02; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status 1
  contains "$(cat errors)" "stopped on request"
  same "$(ls -A folder)" ""
}

run_cases each_way_is_measured_and_named text_is_a_table a_folder_that_is_not_there_is_one_error \
  impossible_sizes_are_wrong_usage stopped_it_leaves_nothing
