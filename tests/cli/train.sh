#!/usr/bin/env bash
# `millrace train`, `ckpt` and `convert checkpoint`: what the user sees of a run, and the exit
# statuses.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 8 --side 48 photos >/dev/null
millrace convert dataset photos shards --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, seed: 3, steps: 12}
data:       {train: shards, val: shards, memory: 32MiB, image: {size: 32}}
model:      {layers: 2, heads: 2, width: 32, patch: 8}
batch:      {global: 16, micro: 8}
checkpoint: {every: 4, keep: {last: 2}}
eval:       {every: 6}
log:        {every: 3}
YAML
millrace train train.yaml >whole.out 2>whole.log || { cat whole.log >&2; exit 1; }

a_run_reports_steps_on_stderr_and_its_result_on_stdout() {
  grep -q '^memory: [0-9.]* MiB; up to 32.0 MiB more during evaluation$' whole.log
  grep -q '^memory: for weights, gradients (2 buffers), moments, ' whole.log
  grep -q '^step 3/12  loss [0-9.]*  lr .*  grad .* samples/s  time:\( [a-z]* [0-9]*%\)*  left ' whole.log
  grep -q '^step 12/12  validation loss ' whole.log
  grep -q '^step  *12$' whole.out
  grep -q '^checkpoint  *runs/a/ckpt/step-00000012$' whole.out
  grep -qE '^order  *[0-9a-f]{16}$' whole.out
  grep -qE '^once  *[0-9a-f]{16}$' whole.out
}

stuck_data_ends_a_run_after_its_timeout() {
  same "$(MILLRACE_FAULT=read:hold@2+:shard-000000 status_of millrace train train.yaml --set run.dir=runs/stuck --set data.timeout=200ms --quiet)" 1
  grep -q '^millrace: no micro-batch within 0.2 s: waiting ' errors
}

tiled_and_original_photos_give_the_same_weights() {
  "$RENDER_SHAPES" --count 6 --side 128 wide >/dev/null
  local way
  for way in tile keep; do
    millrace convert dataset wide "wide-$way" --jpeg $way --quiet >/dev/null
    millrace train train.yaml --set run.dir="runs/$way" --set data.train="wide-$way" --set data.val="wide-$way" --set data.run=1 \
      --set run.steps=4 --quiet >"$way.out"
  done
  ! cmp -s wide-tile/shard-000000.tar wide-keep/shard-000000.tar || fail "the shards are the same"
  same "$(millrace ckpt hash runs/tile/ckpt | grep -v '^loader')" "$(millrace ckpt hash runs/keep/ckpt | grep -v '^loader')"
  same "$(grep 'val loss' tile.out)" "$(grep 'val loss' keep.out)"
}

data_larger_than_half_of_memory_bypasses_the_page_cache() {
  [[ ${SANITIZE:-} != *thread* ]] || return 0 # the same threads as in the other cases, for a long time
  "$RENDER_SHAPES" --count 16 --side 480 large >/dev/null
  millrace convert dataset large large-shards --jpeg keep --quiet >/dev/null
  local all bytes cached index=512 # pages: the shard's last MiB, and what the kernel reads ahead
  bytes=$(stat -c %s large-shards/*.tar)
  all=$((bytes / 4096))
  [[ $all -gt $((2 * index)) ]] || fail "only $all pages"
  train_with_memory() { # a separate run with this much memory
    drop_cached large-shards
    in_control_group "$1" "$MILLRACE" train train.yaml --set run.dir="runs/within-$1" --set data.train=large-shards --set data.val=large-shards \
      --set run.steps=7 --set eval.every=7 --quiet >with-memory.out
    cached=$(cached_pages large-shards/*.tar)
  }
  train_with_memory $((2 * bytes))
  [[ $cached -gt $((all / 2)) ]] || fail "$cached of $all pages are cached of data that fits in memory"
  mv with-memory.out within.out
  train_with_memory $((2 * bytes - 2))
  [[ $cached -lt $index ]] || fail "$cached of $all pages are cached of data that exceeds memory"
  same "$(grep loss with-memory.out)" "$(grep loss within.out)"
}

repeating_a_finished_run_ends_immediately() {
  same "$(status_of millrace train train.yaml)" 0
  cmp out whole.out
  contains "$(cat errors)" "this run has completed all its 12 steps: a larger run.steps continues it"
  [[ $(cat whole.log) != *"completed all its"* ]] || fail "printed before they ran"
  same "$(status_of millrace train train.yaml --set run.steps=8)" 0 "done with fewer steps"
  cmp out whole.out
  contains "$(cat errors)" "this run has completed 12 steps, more than its total of 8: a larger run.steps continues it"
}

# Ranges lie within a step and steps within the total time; each occurs as often as steps and
# micro-batches require.
a_profile_shows_where_step_time_went() {
  need_python
  same "$(status_of millrace train train.yaml --set run.dir=runs/profile --profile 3:6 --json --quiet)" 0
  same "$(json 'd[-1]["profile"]["first_step"], d[-1]["profile"]["last_step"]' out)" "(3, 6)"
  same "$(json '[(r["range"], r["times_count"]) for r in d[-1]["profile"]["ranges"] if r["range"] in ("step", "micro-batch", "forward", "backward", "update", "wait", "evaluate", "save")]' out)" \
    "[('step', 4), ('micro-batch', 8), ('forward', 8), ('backward', 8), ('update', 4), ('wait', 8), ('evaluate', 1), ('save', 1)]"
  json '{r["range"]: r["total_seconds"] for r in d[-1]["profile"]["ranges"]}' out >seconds
  same "$("$python" -c 't = eval(open("seconds").read())
parts = sum(t[r] for r in t if r not in ("step", "forward", "backward", "stage", "evaluate", "save"))
print(0 < t["forward"] + t["backward"] <= t["micro-batch"] < t["step"] and parts <= t["step"] + t["wait"])')" True
  same "$(json 'sum(r["total_seconds"] for r in d[-1]["profile"]["ranges"] if r["range"] in ("step", "evaluate", "save")) <= d[-1]["profile"]["total_seconds"]' out)" True
  same "$(json 'd[-1]["order"]' out)" "$(sed -n 's/^order  *//p' whole.out)" "order of the same run"
  millrace ckpt hash runs/profile/ckpt >hash && millrace ckpt hash runs/a/ckpt | cmp - hash
  same "$(status_of millrace train train.yaml --set run.dir=runs/profile --profile 3:6)" 0
  contains "$(cat errors)" "no step of 3:6 was run"
  for wrong in 6:3 0:2 3 3: 3:4x -1:2 " 3:4"; do
    same "$(status_of millrace train train.yaml --profile "$wrong")" 2 "$wrong"
    one_line errors
  done
}

# The spans are named after what each thread did; those of the main thread cover the steps from
# start to end.
a_trace_shows_what_each_thread_did() {
  need_python
  same "$(status_of millrace train train.yaml --set run.dir=runs/trace --set data.workers=2 --set threads=2 --set checkpoint.async=false --profile 1:12 --json --quiet)" 0
  same "$(json 'd[-1]["profile"]["trace"]' out)" runs/trace/trace-1-12.json
  same "$("$python" "$TEST_SOURCE_DIR/tests/oracle/chrome_trace.py" runs/trace/trace-1-12.json)" \
    "0: checkpoint 0, compute 1, decode 0, decode 1, read 0, trainer 0: 12 steps of data feed micro-batch feed data feed micro-batch feed norm reduce update wait"
  local name
  for name in step forward backward update stage evaluate save decode plan block commit tasks; do
    grep -q "\"name\":\"$name\"" runs/trace/trace-1-12.json || fail "no $name in the trace"
  done
  millrace ckpt hash runs/trace/ckpt >hash && millrace ckpt hash runs/a/ckpt | cmp - hash
  [[ -z $(compgen -G "runs/a/trace-*") ]] || fail "an unrequested trace"
  mkdir -p runs/untraced/trace-1-2.json/taken
  same "$(status_of millrace train train.yaml --set run.dir=runs/untraced --set run.steps=2 --profile 1:2)" 0
  contains "$(cat errors)" "could not write the trace of steps 1 to 2"
}

# A library that NVTX loads as a profiler (tests/device/nvtx_fake.c) records the ranges; only a build
# with CUDA loads it.
profiler_ranges_are_nested_and_closed() {
  need_python
  local fake_library
  fake_library=$(dirname "$MILLRACE")/tests/nvtx_fake/libnvtx_fake.so
  [[ -f $fake_library ]] || skip "no fake profiler was built"
  NVTX_INJECTION64_PATH=$fake_library NVTX_FAKE_LOG=spans millrace train train.yaml --set run.dir=runs/spans --quiet >/dev/null
  [[ -f spans ]] || skip "this build has no CUDA and calls no profiler"
  "$python" - >seen <<'PY'
from collections import Counter
open_, seen = [], Counter()
for line in open("spans").read().splitlines():
    if line == "<":
        open_.pop()
    else:
        open_.append(line[2:])
        seen["/".join(open_)] += 1
assert not open_, open_
print(*[f"{name} {seen[name]}" for name in ("step", "step/data", "step/micro-batch", "step/micro-batch/forward", "step/micro-batch/backward", "step/update", "step/wait", "wait", "evaluate", "save")], sep="\n")
PY
  printf '%s\n' 'step 12' 'step/data 24' 'step/micro-batch 24' \
    'step/micro-batch/forward 24' 'step/micro-batch/backward 24' 'step/update 12' 'step/wait 12' 'wait 6' 'evaluate 2' 'save 3' | cmp - seen
}

# The parts of the lines' time add up to the wall-clock time between them. The time of an
# evaluation, from a step line to the evaluation's line, is not included.
the_parts_of_a_lines_time_add_up() {
  need_python
  millrace train train.yaml --set run.dir=runs/parts --set run.steps=60 --set checkpoint.every=10 --set log.every=5 --set eval.every=20 --quiet >/dev/null
  "$python" - runs/parts/metrics.jsonl <<'PY'
import json, sys
parts = ["load", "forward", "backward", "reduce", "update", "save", "other"]
all_lines = list(map(json.loads, open(sys.argv[1])))
lines = [line for line in all_lines if "loss" in line]
assert len(lines) == 12
elapsed = lines[-1]["wall_seconds"] - lines[0]["wall_seconds"]
for line, evaluation in zip(all_lines, all_lines[1:-1]):
    if "val_loss" in evaluation:
        assert line["step"] == evaluation["step"]
        elapsed -= evaluation["wall_seconds"] - line["wall_seconds"]
reported = sum(line[f"{part}_seconds"] for part in parts for line in lines[1:])
assert abs(reported - elapsed) <= 0.02 * elapsed, (reported, elapsed)
for line in lines:
    seconds = [line[f"{part}_seconds"] for part in parts]
    assert min(seconds) >= 0, line
    assert abs(sum(seconds) - line["elapsed_seconds"]) <= 1e-9 * len(parts) + 1e-6 * line["elapsed_seconds"], line
    assert min(line[f"{part}_seconds"] for part in ("load", "forward", "backward", "reduce", "update")) > 0, line
    assert abs(line["samples_per_second"] * line["elapsed_seconds"] - 5 * 16) < 1e-6, line
    assert line["load_seconds"] >= line["data_wait_share"] * line["elapsed_seconds"] * 0.999, line
assert lines[2]["save_seconds"] > 0
PY
}

json_has_one_line_per_event() {
  need_python
  same "$(status_of millrace train train.yaml --set run.dir=runs/json --json --quiet)" 0
  same "$(grep -v 'warning: schedule.warmup is 100 steps' errors)" ""
  same "$(json '[x["step"] for x in d if x["event"] == "step"]' out)" "[3, 6, 9, 12]"
  same "$(json '{x["process_bytes"] > 0 and x["model_flops_per_second"] > 0 for x in d if x["event"] == "step"}' out)" "{True}"
  same "$(json '[k for x in d for k in x if k.startswith("device_") or k == "peak_share"]' out)" "[]" "GPU metrics"
  same "$(json 'd[-1]["event"], d[-1]["step"]' out)" "('done', 12)"
  same "$(json 'd[-1]["order"]' out)" "$(sed -n 's/^order  *//p' whole.out)" "order of the same run"
}

a_requested_stop_saves_exits_75_and_the_same_command_resumes() {
  local pid status=0
  "$MILLRACE" train train.yaml --set run.dir=runs/stopped --set run.steps=100000 --set schedule.type=constant \
    >stopped.out 2>stopped.log &
  pid=$!
  until grep -qs '^step 6/' stopped.log; do kill -0 $pid; sleep 0.02; done
  kill -TERM $pid
  wait $pid || status=$?
  same $status 75
  same "$(grep -c '^stopping after this step, saving ([0-9.]* [KM]iB\(, about [0-9.]* s\)\?)$' stopped.log)" 1 "$(cat stopped.log)"
  local step
  step=$(sed -n 's/^step  *//p' stopped.out)
  contains "$(sed -n 's/^checkpoint  *//p' stopped.out)" "$(printf 'step-%08d' "$step")"
  same "$(status_of millrace train train.yaml --set run.dir=runs/stopped --set run.steps=$((step + 2)) --set schedule.type=constant)" 0
  grep -q "resuming at step $step" errors
  same "$(sed -n 's/^step  *//p' out)" $((step + 2))
}

# wait_for_message TEXT: waits until the run $pid has written TEXT to stopping.log.
wait_for_message() {
  until grep -qs "$1" stopping.log; do
    kill -0 $pid 2>/dev/null || fail "it ended: $(cat stopping.log)"
    sleep 0.02
  done
}
# stop_held DIR SETTING...: starts a run whose next save never completes and asks it to stop; sets
# $pid.
stop_held() {
  local dir=$1 settings=() setting
  for setting in "${@:2}"; do settings+=(--set "$setting"); done
  : >stopping.log
  MILLRACE_FAULT=write:hold:step- "$MILLRACE" train train.yaml --set run.dir="$dir" --set run.steps=100000 \
    --set schedule.type=constant --set checkpoint.every=0 "${settings[@]}" >stopping.out 2>stopping.log &
  pid=$!
  trap 'kill -KILL $pid' EXIT
  wait_for_message '^step [0-9]*/'
  kill -TERM $pid
  wait_for_message '^stopping after this step, saving ('
}

a_save_beyond_the_stop_deadline_ends_the_run_naming_the_newest_checkpoint() {
  local pid status=0
  stop_held runs/late run.stop_deadline=300ms
  wait $pid || status=$?
  trap - EXIT
  same $status 1 "$(cat stopping.log)"
  contains "$(tail -n 1 stopping.log)" "millrace: run.stop_deadline passed before step "
  contains "$(tail -n 1 stopping.log)" " was saved: expected a stop within 0.3 s, found no complete checkpoint; "
  same "$(status_of millrace train train.yaml --set run.dir=runs/late --set run.steps=4 --set schedule.type=constant)" 0
  status=0
  stop_held runs/late run.stop_deadline=300ms
  wait $pid || status=$?
  trap - EXIT
  same $status 1 "$(cat stopping.log)"
  contains "$(tail -n 1 stopping.log)" "found the newest complete checkpoint at step 4; "
  same "$(ls runs/late/ckpt | grep -c '^step-')" 1
}

a_second_stop_request_reports_what_the_run_waits_for() {
  local pid status=0
  stop_held runs/asked
  until compgen -G "runs/asked/ckpt/.tmp-step-*" >/dev/null; do kill -0 $pid && sleep 0.02; done
  kill -TERM $pid
  wait_for_message '^asked to stop [0-9.]* s ago: waiting for the checkpoint of step [0-9]* (.*); a second Ctrl-C ends'
  same "$(grep -c '^stopping after this step' stopping.log)" 1
  kill -KILL $pid
  wait $pid || status=$?
  trap - EXIT
}

changed_data_is_refused_on_resume() {
  millrace convert dataset photos changing --quiet >/dev/null
  local command=(millrace train train.yaml --set run.dir=runs/changing --set data.train=changing --set schedule.type=constant)
  same "$(status_of "${command[@]}" --set run.steps=2)" 0
  millrace convert dataset photos changing --seed 1 --force --quiet >/dev/null # as many samples, in a different order
  same "$(status_of "${command[@]}" --set run.steps=4)" 1
  one_line <(grep '^millrace: ' errors)
  contains "$(cat errors)" "the training data differs from the saved one: runs/changing/ckpt/step-00000002"
  millrace convert dataset photos changing --force --quiet >/dev/null
  same "$(status_of "${command[@]}" --set run.steps=4)" 0
}

a_mix_resumes_at_its_position_and_names_changes() {
  "$RENDER_SHAPES" --count 3 --side 48 photos2 >/dev/null
  millrace convert dataset photos2 drawings --quiet >/dev/null
  local -a common=(millrace train train.yaml --set schedule.type=constant --set checkpoint.every=0)
  local mix='data.train=[{path: shards, weight: 3}, {path: drawings, weight: 0.5}]'
  same "$(status_of "${common[@]}" --set run.dir=runs/mix --set "$mix")" 0
  grep -q '^data: a mix of 2 datasets, 77 samples and 4 steps per epoch, order shuffle, read with ' errors
  grep -q '^data: weight 6, shards, 56 samples (lanes ' errors
  grep -q '^data: weight 1, drawings, 21 samples (lanes ' errors
  grep -q '^data: batches are mixed [0-9]* % as well as with a full shuffle' errors
  same "$(status_of "${common[@]}" --set run.dir=runs/mixed --set run.steps=5 --set "$mix")" 0
  # in the second epoch of the mix and of its smaller dataset: only the same datasets with the same
  # shares resume
  millrace convert dataset photos2 redrawn --seed 1 --quiet >/dev/null
  same "$(status_of "${common[@]}" --set run.dir=runs/mixed --set "$mix" --set 'data.train[0].weight=2')" 2
  contains "$(cat errors)" "the weight of data.train[0], shards/dataset.json, cannot change in the middle of a run"
  same "$(status_of "${common[@]}" --set run.dir=runs/mixed --set "$mix" --set 'data.train[1].path=redrawn')" 1
  contains "$(cat errors)" "data.train[1], redrawn/dataset.json, is not the dataset that the run was saved with"
  same "$(status_of "${common[@]}" --set run.dir=runs/mixed)" 2
  contains "$(cat errors)" "the number of training datasets differs from the saved one: runs/mixed/ckpt/step-00000005: expected 2, found 1"
  same "$(status_of "${common[@]}" --set run.dir=runs/mixed --set "$mix" --set 'data.train[0].weight=6' --set 'data.train[1].weight=1')" 0
  same "$(millrace ckpt hash runs/mixed/ckpt)" "$(millrace ckpt hash runs/mix/ckpt)"
  millrace inspect runs/mix --html mix.html >/dev/null
  grep -q 'data.train\[1\].weight</td><td>0.5</td>' mix.html
  millrace train train.yaml --set "$mix" --print-config | grep -q '^  train: \[{"path":"shards","weight":3},{"path":"drawings","weight":0.5}\]$'
}

mixup_and_cutmix_give_the_same_weights_with_any_kernels() {
  need_python
  local -a common=(millrace train train.yaml --quiet --json --set data.image.mixup=0.4 --set data.image.cutmix=1)
  local -a ways=("data.workers=1" "data.workers=2 threads=1 model.recompute=1" "data.workers=4 model.offload=1 checkpoint.every=1")
  local way i hash=
  for i in 0 1 2; do
    way=${ways[i]}
    # shellcheck disable=SC2086
    "${common[@]}" --set run.dir="runs/mixed-$i" $(printf -- '--set %s ' $way) >"mixed-$i.json"
    [[ -n $hash ]] || hash=$(millrace ckpt hash runs/mixed-0/ckpt)
    same "$(millrace ckpt hash "runs/mixed-$i/ckpt")" "$hash" "weights with $way"
  done
  "${common[@]}" --set run.dir=runs/mixed-cut --set schedule.type=constant --set run.steps=5 >/dev/null
  "${common[@]}" --set run.dir=runs/mixed-cut --set schedule.type=constant >/dev/null
  "${common[@]}" --set run.dir=runs/mixed-whole --set schedule.type=constant >/dev/null
  same "$(millrace ckpt hash runs/mixed-cut/ckpt)" "$(millrace ckpt hash runs/mixed-whole/ckpt)"
  [[ $hash != "$(millrace ckpt hash runs/a/ckpt)" ]] || fail "nothing was mixed"
  millrace eval train.yaml --from runs/mixed-0/ckpt --json --quiet >unmixed
  same "$(json 'd[-1]["val_loss"], d[-1]["val_accuracy"]' mixed-0.json)" "$(json 'd["loss"], d["accuracy"]' unmixed)"
  for way in data.image.mixup=0.5 data.image.cutmix=0 data.image.mix_prob=0.9 data.image.mix_switch_prob=0; do
    same "$(status_of "${common[@]}" --set run.dir=runs/mixed-0 --set run.steps=20 --set $way)" 2 "status of a resume with $way"
    contains "$(tail -1 errors)" "${way%=*} cannot change"
  done
  same "$(status_of "${common[@]}" --set run.dir=runs/no --set batch.micro=1)" 2
  contains "$(cat errors)" "mixing needs at least two images per micro-batch"
}

a_second_interrupt_exits_immediately_with_130() {
  need_python
  # the sanitizer delivers signals at the next intercepted call, and merges equal ones; a computing
  # step makes no such call
  [[ ${SANITIZE:-} != thread ]] || skip "ThreadSanitizer delays signals"
  # a step takes seconds and both signals arrive within it: the first while it computes, the
  # second after the first was taken (two pending ones merge)
  "$python" - "$MILLRACE" <<'PY' >status 2>/dev/null
import signal, subprocess, sys, time
p = subprocess.Popen([sys.argv[1], "train", "train.yaml", "--set", "run.dir=runs/interrupted", "--set", "run.steps=1000",
                      "--set", "model.width=1024", "--set", "model.layers=8", "--set", "batch.global=48",
                      "--set", "schedule.warmup=1"], stderr=subprocess.PIPE, text=True)
for line in p.stderr:
    if line.startswith("memory"):
        break
def cpu_ticks():
    fields = open("/proc/%d/stat" % p.pid).read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])
def is_pending():
    masks = dict(line.split(":") for line in open("/proc/%d/status" % p.pid))
    return int(masks["ShdPnd"], 16) >> (signal.SIGINT - 1) & 1
first_ticks = cpu_ticks()
while cpu_ticks() < first_ticks + 10:
    time.sleep(0.01)
p.send_signal(signal.SIGINT)
while is_pending():
    time.sleep(0.001)
p.send_signal(signal.SIGINT)
print(p.wait())
PY
  same "$(cat status)" 130
}

kept_checkpoints_are_listed_oldest_first() {
  need_python
  millrace ckpt list runs/a/ckpt --json >list
  same "$(json '[c["step"] for c in d["checkpoints"]]' list)" "[8, 12]"
  same "$(json 'd["checkpoints"][1]["size_bytes"] > 0' list)" True
  mkdir -p runs/a/ckpt/.tmp-step-16-x runs/a/ckpt/step-00000020
  millrace ckpt list runs/a/ckpt --json >list 2>/dev/null
  same "$(json '[c["step"] for c in d["checkpoints"]]' list)" "[8, 12]"
  rm -r runs/a/ckpt/.tmp-step-16-x runs/a/ckpt/step-00000020
  millrace ckpt list runs/a/ckpt/step-00000008/ --json >list
  same "$(json '[c["step"] for c in d["checkpoints"]]' list)" "[8]"
}

damaged_steps_of_a_folder_are_all_named() {
  cp -r runs/a/ckpt damaged
  mkdir damaged/step-00000010
  truncate -s -1 damaged/step-00000012/manifest.json
  same "$(status_of millrace verify damaged)" 1
  one_line errors
  same "$(grep -c '^bad: ' out)" 2
  grep -q '^bad: .*step-00000010' out
  grep -q '^bad: .*step-00000012' out
  same "$(status_of millrace verify runs/a/ckpt)" 0
  same "$(status_of millrace ckpt hash damaged)" 0
  contains "$(cat errors)" "step-00000012"
  # no intact step is left: the run must not start over in this folder
  rm damaged/step-00000008/manifest.json
  mkdir -p runs/damaged
  mv damaged runs/damaged/ckpt
  same "$(status_of millrace train train.yaml --set run.dir=runs/damaged)" 1
  contains "$(cat errors)" "step-00000012"
}

a_hash_depends_on_content_not_paths() {
  millrace ckpt hash runs/a/ckpt >first
  same "$(cut -f 1 first | tr '\n' ' ')" "model optimizer loader "
  if grep -vqP '^[a-z]+\t[0-9a-f]{32}$' first; then fail "a line is not a section and 32 digits"; fi
  cp -r runs/a/ckpt/step-00000012 elsewhere
  millrace ckpt hash elsewhere | cmp - first
  millrace ckpt hash runs/a/ckpt/step-00000008 >other
  ! cmp -s first other || fail "another step, the same hash"
}

a_consolidated_file_has_the_models_hash() {
  millrace convert checkpoint runs/a/ckpt model.safetensors --to full --verify >/dev/null 2>&1
  millrace ckpt hash model.safetensors | cmp - <(millrace ckpt hash runs/a/ckpt | grep '^model')
  same "$(status_of millrace convert checkpoint runs/a/ckpt model.safetensors --to full)" 1
  one_line errors
  millrace verify model.safetensors >/dev/null
  need_python
  "$python" -c 'import safetensors' 2>/dev/null || skip "no Python here has the module safetensors (scripts/setup --oracles)"
  "$python" -c 'from safetensors import safe_open
f = safe_open("model.safetensors", "np"); assert f.keys() and not any(k.startswith("optimizer.") for k in f.keys())'
}

a_model_unknown_to_transformers_is_not_converted() {
  same "$(status_of millrace convert checkpoint runs/a/ckpt hf --to hf)" 1
  one_line errors
  contains "$(cat errors)" "--to full"
  [[ ! -e hf ]]
  same "$(status_of millrace convert checkpoint runs/a/ckpt hf --to hf --dtype bf16 --verify)" 1
  same "$(status_of millrace convert checkpoint runs/a/ckpt hf --to hf --only all)" 2
  one_line errors
}

eval_of_a_checkpoint_matches_the_runs_evaluation_bit_for_bit() {
  need_python
  millrace train train.yaml --json --quiet >reported
  millrace eval train.yaml --from runs/a/ckpt --json --quiet >one
  same "$(json 'd["loss"], d["accuracy"], d["valid_count"]' one)" "$(json 'd[-1]["val_loss"], d[-1]["val_accuracy"], 56' reported)"
  millrace convert checkpoint runs/a/ckpt evaluation.safetensors --to full --quiet >/dev/null
  millrace eval train.yaml --from evaluation.safetensors --json --quiet >two
  same "$(json 'd["loss"]' two)" "$(json 'd["loss"]' one)"
  millrace eval train.yaml --from runs/a/ckpt/step-00000008 --json --quiet >other
  [[ $(json 'd["loss"]' other) != "$(json 'd["loss"]' one)" ]]
  same "$(status_of millrace eval train.yaml --from runs/a/ckpt --set model.layers=1)" 2
  one_line errors
  contains "$(cat errors)" "set model.layers"
  same "$(status_of millrace eval train.yaml)" 2
}

a_run_resumes_from_the_folder_of_another_run() {
  local from
  for from in runs/a runs/a/ckpt; do
    rm -rf runs/further
    same "$(status_of millrace train train.yaml --set run.dir=runs/further --resume $from)" 0 "$(cat errors)"
    grep -q "^resuming at step .* from runs/a/ckpt/step-" errors || fail "$(cat errors)"
  done
}

an_impossible_configuration_is_wrong_usage_whenever_detected() {
  local set
  for set in batch.micro=7 batch.global=4096 model.heads=7 model.classes=2000000 data.memory=1MiB checkpoint.staging=1MiB \
    data.image.field=png; do
    same "$(status_of millrace train train.yaml --resume never --set run.dir=runs/no --set "$set")" 2 "status with $set"
    one_line errors
  done
  same "$(status_of millrace train train.yaml --set run.steps=20 --set run.seed=8)" 2 "status of a resume under another seed"
  contains "$(tail -1 errors)" "run.seed cannot change"
  same "$(status_of millrace eval train.yaml --from runs/a/ckpt --set data.val=)" 2 "status of an evaluation of nothing"
  for set in data.train=nowhere model.init=nowhere; do
    same "$(status_of millrace train train.yaml --resume never --set run.dir=runs/no --set "$set")" 1 "status with $set"
  done
}

# moments SETTING...: prints the names of the optimizer state in a checkpoint of a run with these settings.
moments() {
  local words=() setting
  for setting in "$@"; do words+=(--set "$setting"); done
  millrace train train.yaml --set run.dir=runs/moments --set run.steps=4 "${words[@]}" --quiet >/dev/null
  millrace inspect runs/moments/ckpt --json >report
  json '" ".join(sorted({t["name"].split(".")[1] for t in d["tensors"] if t["name"].startswith("optimizer.")}))' report
}
a_checkpoint_holds_its_optimizers_moments() {
  need_python
  same "$(moments optimizer.type=adamw)" "exp_avg exp_avg_sq"
  rm -r runs/moments
  same "$(moments optimizer.type=sgd optimizer.momentum=0)" ""
  rm -r runs/moments
  same "$(moments optimizer.type=lion)" "exp_avg"
  rm -r runs/moments
  same "$(moments optimizer.type=sgd optimizer.nesterov=true)" "momentum_buffer"
  same "$(status_of millrace train train.yaml --set run.dir=runs/moments --set run.steps=6)" 2 "status of a resume by adamw"
  contains "$(tail -1 errors)" "optimizer.type cannot change in the middle of a run: runs/moments/ckpt/step-00000004: expected sgd, found adamw"
}

model_init_sets_the_initial_weights() {
  need_python
  millrace eval train.yaml --from runs/a/ckpt --json --quiet >before
  millrace train train.yaml --set run.dir=runs/warm --set run.steps=1 --set optimizer.lr=0 --set schedule.min_lr=0 \
    --set model.init=runs/a/ckpt --json --quiet >after
  same "$(json 'd[-1]["val_loss"]' after)" "$(json 'd["loss"]' before)"
}

a_damaged_checkpoint_is_named() {
  cp -r runs/a/ckpt/step-00000012 damaged
  chmod -R u+w damaged
  local file=damaged/rank-00000.safetensors byte
  byte=$(od -An -tu1 -j 9000 -N 1 $file | tr -d ' ')
  printf "\\x$(printf %02x $((byte ^ 1)))" | dd of=$file bs=1 seek=9000 conv=notrunc status=none
  same "$(status_of millrace verify damaged)" 1
  grep -q '^bad: .*rank-00000.safetensors at ' out
  one_line errors
  same "$(status_of millrace verify runs/a/ckpt)" 0
}

a_checkpoint_is_inspected_by_its_manifest() {
  need_python
  millrace inspect runs/a/ckpt --json >report
  same "$(json 'd["step"], d["ranks_count"], d["loader"]["samples"]' report)" "(12, 1, 56)"
  same "$(json 'd["tensors_count"] == len(d["tensors"])' report)" True
}

run_cases tiled_and_original_photos_give_the_same_weights stuck_data_ends_a_run_after_its_timeout a_run_reports_steps_on_stderr_and_its_result_on_stdout repeating_a_finished_run_ends_immediately \
  data_larger_than_half_of_memory_bypasses_the_page_cache \
  json_has_one_line_per_event the_parts_of_a_lines_time_add_up a_profile_shows_where_step_time_went a_trace_shows_what_each_thread_did \
  profiler_ranges_are_nested_and_closed a_requested_stop_saves_exits_75_and_the_same_command_resumes \
  a_save_beyond_the_stop_deadline_ends_the_run_naming_the_newest_checkpoint \
  a_second_stop_request_reports_what_the_run_waits_for \
  changed_data_is_refused_on_resume a_mix_resumes_at_its_position_and_names_changes \
  mixup_and_cutmix_give_the_same_weights_with_any_kernels a_second_interrupt_exits_immediately_with_130 kept_checkpoints_are_listed_oldest_first \
  damaged_steps_of_a_folder_are_all_named \
  a_hash_depends_on_content_not_paths a_consolidated_file_has_the_models_hash \
  a_model_unknown_to_transformers_is_not_converted \
  eval_of_a_checkpoint_matches_the_runs_evaluation_bit_for_bit \
  a_run_resumes_from_the_folder_of_another_run \
  an_impossible_configuration_is_wrong_usage_whenever_detected a_checkpoint_holds_its_optimizers_moments model_init_sets_the_initial_weights \
  a_damaged_checkpoint_is_named \
  a_checkpoint_is_inspected_by_its_manifest
