#!/usr/bin/env bash
# The program's help and suggestions.
. "$(dirname "$0")/lib.sh"

verbs=("convert dataset" "convert checkpoint" index inspect verify read train eval launch "ckpt list" "ckpt hash" "ckpt diff" "ckpt prune" "ckpt copy" "ckpt sweep" "bench io" "bench loader" "bench ckpt" "bench comm" "bench train" doctor help manual completion)

every_verb_has_help_with_options_and_examples() {
  for verb in "${verbs[@]}"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $verb --help)" 0 "status of $verb --help"
    contains "$(cat out)" "usage: millrace $verb"
    contains "$(cat out)" "--json"
    contains "$(sed -n '/^examples:/,$p' out)" "  millrace $verb"
    same "$(cat errors)" "" "stderr of $verb --help"
    cp out direct
    # shellcheck disable=SC2086
    same "$(status_of millrace help $verb)" 0
    cmp out direct
  done
}

the_overview_lists_every_verb() {
  millrace --help >overview
  for verb in "${verbs[@]}"; do contains "$(cat overview)" "  $verb "; done
  millrace help | cmp - overview
  same "$(millrace convert --help | grep -c '^  convert ')" 2
  same "$(millrace help ckpt | grep -c '^  ckpt ')" 6
}

a_mistyped_verb_suggests_the_nearest() {
  same "$(status_of millrace raed x)" 2
  one_line errors
  contains "$(cat errors)" "did you mean \`millrace read\`?"
  same "$(status_of millrace convert datset a b)" 2
  contains "$(cat errors)" "did you mean \`millrace convert dataset\`?"
  same "$(status_of millrace ckpt)" 2
  contains "$(cat errors)" "second word"
  same "$(status_of millrace)" 2
}

unknown_verbs_are_errors() {
  for verb in "bench gpu" "ckpt merge"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $verb)" 2
    contains "$(cat errors)" "unknown verb"
  done
}

a_mistyped_option_suggests_the_nearest() {
  same "$(status_of millrace read x --ordr full)" 2
  one_line errors
  contains "$(cat errors)" "did you mean --order?"
  same "$(status_of millrace read x --order shufle)" 2
  contains "$(cat errors)" "did you mean shuffle?"
}

wrong_usage_is_one_line_with_status_2() {
  printf 'run: {steps: 1}\ndata: {trian: x}\n' >bad.yaml
  local -a commands=(
    "read" "read a b" "read x --batch 0" "read x --batch ten" "read x --memory lots" "read x --count"
    "read x --batch 10 --micro 3" "read x --ranks 9 --rank 9" "read x --block 8 --decode image"
    "convert dataset a" "convert checkpoint a b" "convert checkpoint a b --to pt" "convert dataset a b --split x=0.5"
    "convert dataset a b --split ../x=1" "convert dataset a b --max-errors 3" "train bad.yaml" "help nothing"
    "manual nothing" "manual read --out x" "completion csh" "completion")
  for command in "${commands[@]}"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace $command)" 2 "status of $command"
    one_line errors
    same "$(cat out)" "" "stdout of $command"
  done
  status_of millrace train bad.yaml
  contains "$(cat errors)" bad.yaml
  contains "$(cat errors)" "train"
}

formats_and_configuration_have_a_reference() {
  contains "$(millrace help formats)" "index_crc32c"
  printf 'run: {steps: 1}\ndata: {train: x}\n' >c.yaml
  millrace train c.yaml --print-config --json >effective
  need_python
  millrace help config >reference
  "$python" - effective reference <<'PY'
import json, re, sys
keys = set(json.load(open(sys.argv[1])))
listed_keys = set(re.findall(r'^[* ] ([a-z_.]+) ', open(sys.argv[2]).read(), re.M))
assert keys == listed_keys, keys ^ listed_keys
PY
}

the_printed_configuration_reads_back_as_itself() {
  printf 'run: {steps: 5}\ndata: {train: "a b"}\noptimizer: {lr: 0.125}\n' >c.yaml
  millrace train c.yaml --set model.layers=3 --print-config >first.yaml
  millrace train first.yaml --print-config >second.yaml
  cmp first.yaml second.yaml
  grep -q 'layers: 3' first.yaml
}

the_version_is_printed() {
  [[ $(millrace --version) =~ ^millrace\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

options_and_files_named_in_docs_exist() {
  need_python
  "$python" "$TEST_SOURCE_DIR/tests/cli/docs_check.py" "$MILLRACE" "$TEST_SOURCE_DIR" >wrong || fail "$(cat wrong)"
}

run_cases every_verb_has_help_with_options_and_examples the_overview_lists_every_verb \
  a_mistyped_verb_suggests_the_nearest unknown_verbs_are_errors \
  a_mistyped_option_suggests_the_nearest wrong_usage_is_one_line_with_status_2 \
  formats_and_configuration_have_a_reference the_printed_configuration_reads_back_as_itself the_version_is_printed \
  options_and_files_named_in_docs_exist
