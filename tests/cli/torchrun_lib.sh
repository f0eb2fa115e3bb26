# torchrun_lib — sourced instead of lib.sh: a run for torchrun's ranks, each with its output in
# output.RANK. The batch is divisible by 2, 3 and 4 ranks.
. "$(dirname "$0")/lib.sh"

for i in 1 2 3 4; do cat "$0"; done >text.txt # enough tokens
millrace convert dataset text.txt tokens --tokenizer bytes --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 4}
threads:    1
device:     cpu
data:       {train: tokens, memory: 32MiB, workers: 1, text: {block: 32}}
model:      {type: gpt2, layers: 2, heads: 2, width: 32}
batch:      {global: 12, micro: 1}
YAML

# wait_for_steps COMMAND...: waits for three steps of the first rank; COMMAND fails if they can never
# arrive.
wait_for_steps() {
  until [[ $(grep -c '^step [0-9]*/' output.0 2>/dev/null) -ge 3 ]]; do
    "$@" 2>/dev/null || fail "it ended: $(cat output.*)"
    sleep 0.05
  done
}
