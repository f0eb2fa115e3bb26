#!/usr/bin/env bash
# Runs every example that help shows, unchanged, in a folder with the files they name.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
tar -cf photos.tar --sort=name photos
for _ in 1 2 3 4; do cat "$here"/*.sh; done >book.txt
echo image,label >list.csv
for file in photos/*/*.jpg; do
  echo "$file,${file:7:3}" >>list.csv
  printf '{"image":"%s","caption":"a \\"shape\\"","score":0.5,"id":"%s"}\n' "$file" "${file//[^0-9a-z]/-}" >>list.jsonl
done
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 8}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 2, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 4}
YAML

run_examples() { # VERB...
  local -a commands
  # shellcheck disable=SC2068
  mapfile -t commands < <(millrace $@ --help | sed -n '/^examples:/,$p' | sed -e ':a' -e '/ \\$/{N;s/ \\\n */ /;ba' -e '}' | sed -n 's/^  millrace //p')
  [[ ${#commands[@]} -gt 0 ]] || fail "no examples of $*"
  for command in "${commands[@]}"; do
    same "$(eval "status_of millrace $command")" 0 "status of: millrace $command ($(cat errors))"
  done
}

examples_of_convert_dataset_work() { run_examples convert dataset; }
# captions.tar: samples with texts and scores.
make_captions() {
  mkdir texts
  for i in {1..20}; do
    printf 'photo %d' "$i" >"texts/$i.txt"
    printf '{"score":%d.5}' "$i" >"texts/$i.json"
  done
  tar -C texts -cf captions.tar --sort=name .
}
examples_of_read_work() {
  make_captions
  millrace read shards --count 5 --print keys --quiet | cut -f 2 >keys.txt
  run_examples read
}
examples_of_train_work() { run_examples train; }
outside_a_launcher() {
  command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || skip "there is no MPI"
  . "$TEST_SOURCE_DIR/tests/support/mpi_env.sh"
  unset "${!OMPI_@}" # the program passes mpirun the options it needs; only sanitizers need more
}
examples_of_launch_work() { outside_a_launcher; run_examples launch; }
examples_of_bench_on_ranks_work() { outside_a_launcher; run_examples bench comm; run_examples bench train; }
examples_of_eval_work() {
  rm -f model.safetensors
  millrace convert checkpoint runs/a/ckpt model.safetensors --to full --quiet >/dev/null
  run_examples eval
  rm model.safetensors
}
examples_of_convert_checkpoint_work() { run_examples convert checkpoint; }
examples_of_index_work() { run_examples index; }
examples_of_inspect_work() { [[ -f captions.tar ]] || make_captions; run_examples inspect; }
examples_of_verify_work() { run_examples verify; }
examples_of_ckpt_work() { run_examples ckpt list; run_examples ckpt hash; run_examples ckpt diff; }
examples_of_ckpt_that_modify_a_folder_work() { run_examples ckpt copy; run_examples ckpt sweep; run_examples ckpt prune; }
examples_of_doctor_work() { run_examples doctor; }
examples_of_bench_work() { run_examples bench io; run_examples bench loader; run_examples bench ckpt; }
examples_of_help_work() { run_examples help; run_examples manual; run_examples completion; }

run_cases examples_of_convert_dataset_work examples_of_read_work examples_of_train_work examples_of_launch_work examples_of_eval_work \
  examples_of_convert_checkpoint_work examples_of_index_work examples_of_inspect_work examples_of_verify_work examples_of_ckpt_work \
  examples_of_ckpt_that_modify_a_folder_work examples_of_doctor_work examples_of_bench_work examples_of_bench_on_ranks_work examples_of_help_work
