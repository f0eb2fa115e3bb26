#!/usr/bin/env bash
# The configuration of `millrace train` as scripts write it: names and syntax that must not change.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >all.yaml <<'YAML'
run:        {dir: runs/a, seed: 7, steps: 2000, max_time: 23h}
device:     auto
data:
  train:    shards/dataset.json
  val:      shards/dataset.json
  order:    shuffle
  lanes:    64
  window:   auto
  run:      auto
  workers:  auto
  memory:   1GiB
  bad_samples: {policy: substitute, limit: 1%}
  image:    {field: jpg, size: 224, crop: random, flip: true}
model:      {type: vit, layers: 6, heads: 6, width: 384, patch: 16, classes: auto}
batch:      {global: 16, micro: 8, sync_each: false}
optimizer:  {type: adamw, lr: 3e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1, clip_norm: 1.0}
schedule:   {type: cosine, warmup: 100, min_lr: 3e-5}
precision:  {compute: fp32, reduce: fp32}
parallel:   {strategy: ddp, reduction: canonical, shard: 1, replicate: 1, wrap_min_params: 0, keep_below_params: 0, offload: {optimizer: false, params: false}, prefetch: 1, check_sync: 0}
checkpoint: {dir: runs/a/ckpt, every: 500, async: true, keep: {last: 3, every: 5000, best: {metric: val_loss, mode: min, count: 2}}, resume: auto,
             shared: true, on_save_error: continue}
eval:       {every: 500}
log:        {every: 10, jsonl: runs/a/metrics.jsonl}
YAML

option_aliases_used_in_scripts_are_accepted() {
  local device strategy data
  for device in auto cpu cuda null; do
    same "$(status_of millrace train all.yaml --print-config --set device=$device)" 0 "device $device ($(cat errors))"
  done
  for strategy in ddp zero1 zero2 zero3 full_shard shard_grad_op no_shard hybrid_shard deepspeed_stage_{0,1,2,3}; do
    same "$(status_of millrace train all.yaml --print-config --set parallel.strategy=$strategy)" 0 "$strategy ($(cat errors))"
  done
  for data in order=full order=sequential bad_samples.policy=stop image.crop=center; do
    same "$(status_of millrace train all.yaml --print-config --set data.$data)" 0 "data.$data ($(cat errors))"
  done
  sed 's|train: .*|train: [{path: shards, weight: 2}, {path: shards/dataset.json, weight: 1}]|; s/every: 500, async/every: 15min, async/' all.yaml >other.yaml
  same "$(status_of millrace train other.yaml --print-config --set run.steps=0 --set run.epochs=3 --set checkpoint.resume=never)" 0 "$(cat errors)"
}

# --print-config prints a configuration with the same values
printed_configurations_are_accepted() {
  millrace train all.yaml --print-config >printed.yaml
  millrace train printed.yaml --print-config >again.yaml
  cmp printed.yaml again.yaml
}

checkpoint_resume_decides_whether_a_run_resumes() {
  cat >short.yaml <<'YAML'
run:        {dir: runs/short, seed: 3, steps: 2}
data:       {train: shards, memory: 32MiB, image: {size: 16}}
model:      {layers: 1, heads: 1, width: 16, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 1, resume: never}
YAML
  millrace train short.yaml --quiet >first
  same "$(status_of millrace train short.yaml --set run.steps=3)" 1 never
  contains "$(cat errors)" 'already holds a checkpoint'
  same "$(status_of millrace train short.yaml --set run.steps=3 --set checkpoint.resume=auto --resume never)" 1 "a flag takes precedence"
  contains "$(cat errors)" 'already holds a checkpoint'
  same "$(status_of millrace train short.yaml --set run.steps=3 --resume auto)" 0 "a flag takes precedence"
  contains "$(cat errors)" 'resuming at step 2'
  same "$(status_of millrace train short.yaml --set run.steps=4 --set checkpoint.resume=auto)" 0 "auto"
  contains "$(cat errors)" 'resuming at step 3'
}

a_single_rank_in_a_job_of_several_warns() {
  same "$(SLURM_NTASKS=4 SLURM_PROCID=0 status_of millrace train short.yaml --set run.dir=runs/job)" 0
  contains "$(cat errors)" 'a single rank in a job of 4 tasks'
  same "$(status_of env PMIX_RANK=1 "$MILLRACE" train short.yaml --set run.dir=runs/prte)" 2
  contains "$(cat errors)" 'only PMIX_RANK=1; start the ranks with mpirun'
}

keys_of_other_trainers_are_named_as_such() {
  local key answer
  while read -r key answer; do
    same "$(status_of millrace train short.yaml --print-config --set "$key=1")" 2 "$key"
    one_line errors
    contains "$(cat errors)" "unknown key $key"
    contains "$(cat errors)" "$answer"
  done <<'LIST'
parallel.tp tensor parallelism is not supported
parallel.pp.degree pipeline parallelism is not supported
cost.per_hour the price of a run is not supported
zero_optimization.stage this is DeepSpeed's key; use parallel.strategy
zero_optimization.offload_optimizer.device parallel.offload.optimizer
train_micro_batch_size_per_gpu use batch.micro
gradient_accumulation_steps use batch.accumulation
fp16.enabled use precision.compute: fp16
mixed_precision this is Accelerate's key; use precision.compute
num_processes millrace launch -n
paralel.strategy did you mean parallel.strategy?
costs `millrace help config` lists all keys
LIST
}

likely_mistakes_are_reported() {
  same "$(status_of millrace train shards)" 2 "a dataset"
  contains "$(cat errors)" "the configuration is a folder: shards: expected a YAML file; put the path of a dataset under data.train in that file"
  printf 'PK\003\004 as torch.save begins a file' >model.pt
  same "$(status_of millrace train short.yaml --set run.dir=runs/pt --set model.init=model.pt)" 1 "a pickle"
  contains "$(cat errors)" "this is a PyTorch pickle file: model.pt at 0: expected safetensors; save its tensors with PyTorch"
  same "$(status_of millrace train short.yaml --set run.dir=runs/gpt2 --set model.type=gpt2)" 2 "gpt2 on photos"
  contains "$(cat errors)" "a vit trains on images, a gpt2 or llama on tokens"
  [[ ! -e runs/pt/ckpt && ! -e runs/gpt2/ckpt ]] || fail "files were left behind"
}

run_cases option_aliases_used_in_scripts_are_accepted printed_configurations_are_accepted checkpoint_resume_decides_whether_a_run_resumes a_single_rank_in_a_job_of_several_warns \
  keys_of_other_trainers_are_named_as_such likely_mistakes_are_reported
