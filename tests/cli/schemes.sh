#!/usr/bin/env bash
# Paths with a scheme that this build does not support: every path key and argument refuses them
# before anything is written.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 2 --side 32 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:   {dir: runs/a, steps: 1}
data:  {train: shards, memory: 32MiB, image: {size: 16}}
model: {layers: 1, heads: 2, width: 16, patch: 8}
batch: {global: 8, micro: 8}
YAML
: >files # created before the files are listed
find . | sort >files

# check_refused COMMAND...: expects status 2, one line that names the URL, and no new files.
check_refused() {
  same "$(status_of "$@")" 2 "status of $*"
  one_line errors
  contains "$(cat errors)" "does not support "
  contains "$(cat errors)" "://b/x"
  rm -f out errors
  find . | sort | cmp - files || fail "files changed after $*"
}

every_path_key_refuses_unknown_schemes() {
  local key count=0 url
  while read -r key; do
    for url in s3://b/x gs://b/x ftp://b/x foo+bar://b/x; do
      check_refused millrace train train.yaml --set "$key=$url"
      count=$((count + 1))
    done
    check_refused millrace train train.yaml --print-config --set "$key=s3://b/x"
    check_refused millrace eval train.yaml --from shards --set data.val=shards --set "$key=s3://b/x"
  done < <(millrace help config | sed -n 's/^ *\([a-z_.]*\)\*\{0,1\}  *path\b.*/\1/p')
  same $count 48 "keys times schemes"
  check_refused millrace train train.yaml --set 'data.train=[{path: shards}, {path: s3://b/x}]'
  sed 's|dir: runs/a|dir: s3://b/x|' train.yaml >other.yaml
  same "$(status_of millrace train other.yaml)" 2
  contains "$(cat errors)" "run.dir: this build does not support s3:// at line 1: other.yaml"
  rm -f other.yaml out errors
}

every_path_argument_refuses_unknown_schemes() {
  local command
  for command in "convert dataset s3://b/x out" "convert dataset photos s3://b/x" "convert dataset photos out --vocab s3://b/x" \
    "convert checkpoint s3://b/x out --to full" "convert checkpoint shards s3://b/x --to full" "index s3://b/x" \
    "index shards/shard-000000.tar --dali s3://b/x" "inspect s3://b/x" "inspect shards --html s3://b/x" "verify s3://b/x" \
    "read s3://b/x" "read shards --out s3://b/x" "read --mix s3://b/x=1 --mix shards=1" "train s3://b/x" \
    "train train.yaml --resume s3://b/x" "eval train.yaml --from s3://b/x" "ckpt list s3://b/x" "ckpt hash s3://b/x" \
    "ckpt diff shards s3://b/x" "ckpt prune s3://b/x --keep-last 1" "ckpt copy shards s3://b/x" "ckpt copy s3://b/x out" \
    "ckpt sweep s3://b/x" "bench io s3://b/x" "bench ckpt s3://b/x" "doctor s3://b/x" "doctor --dir s3://b/x" \
    "manual --out s3://b/x" "launch train.yaml --resume s3://b/x -n 1"; do
    # shellcheck disable=SC2086
    check_refused millrace $command
  done
}

file_urls_are_accepted_as_paths() {
  local url=file://$PWD
  same "$(status_of millrace train "$url/train.yaml" --set run.dir="$url/runs/b" --set data.train="$url/shards" \
    --set log.jsonl="$url/logs/metrics.jsonl" --set log.tensorboard="$url/events" --set checkpoint.dir="$url/saved")" 0 "$(cat errors)"
  [[ -s logs/metrics.jsonl && -d events/train && -d saved/step-00000001 ]] || fail "$(find . -newer files)"
  [[ ! -e file: ]] || fail "a folder file: was created"
  same "$(status_of millrace verify "$url/saved")" 0
}

run_cases every_path_key_refuses_unknown_schemes every_path_argument_refuses_unknown_schemes file_urls_are_accepted_as_paths
