#!/usr/bin/env bash
# What a model is trained on: texts that are tokenized while they are read, and the fields of data.fields.
. "$(dirname "$0")/lib.sh"
. "$here/tokens_lib.sh"

need_python
make_tokenizer tok.json 3000
# 24 texts of 1 to 60 words; four are cut
"$python" - <<'PY'
import csv, json
words = "the mill turns a wheel while water falls; Größe, naïve 数据 1234 - don't stop".split()
texts = [" ".join(words[(7 * i + 3 * j) % len(words)] for j in range(1 + i * i // 9)) for i in range(24)]
with open("texts.jsonl", "w") as file:
    for i, text in enumerate(texts):
        file.write(json.dumps({"id": f"text{i:02}", "text": text, "score": i / 10}, ensure_ascii=False) + "\n")
with open("texts.csv", "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["id", "text"])
    writer.writerows([f"text{i:02}", text] for i, text in enumerate(texts))
PY
millrace convert dataset texts.jsonl shards --column id=:key --column text=txt --column score=json --quiet >/dev/null
cat >train.yaml <<'YAML'
run:        {dir: runs/a, steps: 3}
device:     cpu
data:
  train: shards
  val:   shards
  memory: 32MiB
  fields:
    tokens: {from: txt, decode: tokens, tokenizer: tok.json, length: 25, pad: 0, end: <|end_of_text|>}
model:      {type: gpt2, layers: 2, heads: 3, width: 24, norm_epsilon: 1e-5}
batch:      {global: 24, micro: 8}
optimizer:  {type: sgd, lr: 0.05, momentum: 0, weight_decay: 0, clip_norm: 0}
schedule:   {type: constant, warmup: 0}
log:        {every: 1}
YAML

# losses CONFIG OPTION...: those of the steps, and of the evaluation after them
losses() {
  millrace train "$1" --quiet --json "${@:2}" >out
  json '[x["loss"] for x in d if "lr" in x] + [x["val_loss"] for x in d if "val_loss" in x][:1]' out
}

texts_are_trained_on_like_in_transformers() {
  "$python" -c 'import tokenizers, transformers' 2>/dev/null || skip "Python lacks tokenizers or transformers"
  local oracle="$TEST_SOURCE_DIR/tests/oracle/train_texts.py"
  "$python" "$oracle" make model tok.json 2>/dev/null
  "$python" "$oracle" train model tok.json texts.jsonl 3 2>/dev/null >expected
  losses train.yaml --set run.dir=runs/hf --set model.init=model >got
  "$python" - <<'PY'
import ast
got, expected = ast.literal_eval(open("got").read()), [float(line) for line in open("expected")]
assert len(got) == len(expected) == 4, (got, expected)
assert expected[3] < expected[0] - 0.01, expected
for g, e in zip(got, expected):
    assert abs(g - e) < 2e-5 * e, (got, expected)
PY
}

every_way_to_name_the_texts_gives_the_same_run() {
  local expected
  expected=$(losses train.yaml --set run.dir=runs/fields)
  contains "$expected" ,
  # text in a JSON member
  sed 's/"text": \("[^"]*"\)/"document": {"text": \1}/' texts.jsonl >documents.jsonl
  millrace convert dataset documents.jsonl documents --column id=:key --column document=json --quiet >/dev/null
  same "$(losses train.yaml --set run.dir=runs/json --set data.train=documents --set data.val=documents \
    --set data.fields.tokens.from=json --set 'data.fields.tokens.path=$.text')" "$expected"
  # a column of CSV, and the keys of data.text
  millrace convert dataset texts.csv rows --column id=:key --column text=txt --quiet >/dev/null
  sed '/fields:/d; s/^ *tokens: .*/  text: {field: txt, tokenizer: tok.json, block: 24, end: <|end_of_text|>}/' train.yaml >text.yaml
  same "$(losses text.yaml --set run.dir=runs/csv --set data.train=rows --set data.val=rows)" "$expected"
}

the_same_bits_after_a_restart_and_on_two_ranks() {
  local -a small=(--set batch.global=8 --set batch.micro=4 --set run.steps=9)
  losses train.yaml --set run.dir=runs/whole "${small[@]}" >whole
  losses train.yaml --set run.dir=runs/parts "${small[@]}" --set run.steps=4 >/dev/null
  losses train.yaml --set run.dir=runs/parts "${small[@]}" >rest
  "$python" -c 'import ast; w, r = (ast.literal_eval(open(f).read()) for f in ("whole", "rest")); assert len(w) == 10 and w[4:] == r, (w, r)'
  millrace ckpt diff runs/whole/ckpt runs/parts/ckpt >/dev/null
  command -v mpirun >/dev/null && [[ -n ${MPI:-} ]] || return 0
  "$TEST_SOURCE_DIR/tests/support/mpirun.sh" 2 "$MILLRACE" train train.yaml --quiet --set run.dir=runs/ranks "${small[@]}" >/dev/null
  same "$(millrace ckpt hash runs/ranks/ckpt)" "$(millrace ckpt hash runs/whole/ckpt)"
}

a_text_without_a_token_to_predict_is_a_bad_sample() {
  printf '{"id": "a", "text": "two words"}\n{"id": "b", "text": ""}\n{"id": "c", "text": "three more words"}\n' >short.jsonl
  millrace convert dataset short.jsonl short --column id=:key --column text=txt --quiet >/dev/null
  local -a short=(--set data.train=short --set data.val= --set batch.global=3 --set batch.micro=3)
  same "$(status_of millrace train train.yaml --quiet "${short[@]}" --set run.dir=runs/short --set data.bad_samples.policy=stop)" 1
  contains "$(cat errors)" 'a text of field "tokens" is too short' 'at least 2 tokens' 'found 1' '"b"'
  # the others replace it
  millrace train train.yaml --quiet "${short[@]}" --set run.dir=runs/replaced --set data.bad_samples.limit=100% >/dev/null
}

another_tokenizer_is_refused() {
  make_tokenizer other.json 2000
  losses train.yaml --set run.dir=runs/first --set run.steps=2 >/dev/null
  same "$(status_of millrace train train.yaml --quiet --set run.dir=runs/first --set data.fields.tokens.tokenizer=other.json)" 1
  contains "$(cat errors)" 'the training data has different tokens than when this checkpoint was saved'
  same "$(status_of millrace eval train.yaml --from runs/first/ckpt --quiet --set data.text.tokenizer=other.json)" 2
  contains "$(cat errors)" 'the tokens of the dataset differ from those of'
  same "$(status_of millrace train train.yaml --quiet --set run.dir=runs/large --set model.vocabulary=300)" 2
  contains "$(cat errors)" "the vocabulary of the tokenizer is larger than the model's"
}

# Of texts on a model of tokens, and the other way round.
a_model_of_the_same_tokenizer_is_evaluated() {
  "$python" -c 'import json; [print(json.loads(line)["text"]) for line in open("texts.jsonl")]' >corpus.txt
  millrace convert dataset corpus.txt packed --tokenizer tok.json --quiet >/dev/null
  sed '/fields:/d; s/^ *tokens: .*/  text: {block: 24}/' train.yaml >packed.yaml
  local -a small=(--set batch.global=4 --set batch.micro=4)
  millrace train packed.yaml --quiet --set data.train=packed --set data.val=packed --set run.dir=runs/packed "${small[@]}" >/dev/null
  losses train.yaml --set run.dir=runs/texts --set run.steps=2 >/dev/null
  millrace eval train.yaml --from runs/packed/ckpt --quiet >/dev/null
  millrace eval packed.yaml --set data.val=packed --from runs/texts/ckpt --quiet "${small[@]}" >/dev/null
}

an_image_and_its_label_in_json() {
  "$RENDER_SHAPES" --count 6 --side 48 photos >/dev/null
  millrace convert dataset photos pictures --quiet >/dev/null
  ls photos | sort >names.txt
  "$python" - pictures/shard-000000.tar described.tar names.txt <<'PY'
import io, json, sys, tarfile
source, target, names = sys.argv[1:]
names = open(names).read().split()
with tarfile.open(source) as shard, tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as out:
    for member in shard:
        data = shard.extractfile(member).read()
        if member.name.endswith(".cls"):
            data = json.dumps({"class": {"id": names[int(data)]}}).encode()
            member.name, member.size = member.name[:-3] + "json", len(data)
        out.addfile(member, io.BytesIO(data))
PY
  cat >vit.yaml <<'YAML'
run:   {dir: runs/vit, seed: 3, steps: 4}
data:  {train: pictures, val: pictures, memory: 32MiB, image: {size: 32, flip: false}}
model: {layers: 2, heads: 2, width: 32, patch: 8}
batch: {global: 16, micro: 8}
log:   {every: 1}
YAML
  sed 's/^data: .*/data: {train: described.tar, val: described.tar, memory: 32MiB, lanes: 16, fields: {image: {from: jpg, decode: image, size: 32, flip: false}, label: {from: json, path: $.class.id, map: names.txt}}}/' vit.yaml >fields.yaml
  local expected
  expected=$(losses vit.yaml --set data.order=sequential)
  same "$(losses fields.yaml --set data.order=sequential --set run.dir=runs/described)" "$expected"
}

# refused TEXT... -- FIELDS: the messages for a configuration with these fields
refused() {
  local -a texts=()
  while [[ $1 != -- ]]; do texts+=("$1"); shift; done
  printf 'data: {train: shards, fields: {%s}}\nrun: {steps: 1}\n' "$2" >wrong.yaml
  same "$(status_of millrace train wrong.yaml --quiet)" 2
  contains "$(cat errors)" "${texts[@]}"
}

wrong_fields_are_refused() {
  refused 'no field that a model is trained on: data.fields.caption.from at line 1' 'data.fields.image and data.fields.label' -- 'caption: {from: txt}'
  refused 'wrong value of data.fields.label at line 1: wrong.yaml: expected an extension' -- 'label: '
  refused 'wrong value of data.fields.image.decode at line 1: wrong.yaml: expected image, found bytes' -- 'image: {from: jpg, decode: bytes}'
  refused 'unknown key data.image.sise at line 1' 'did you mean data.image.size?' -- 'image: {from: jpg, sise: 32}'
  refused 'wrong value of data.fields.image.mean at line 1: wrong.yaml: expected no such key: the model normalizes' -- 'image: {from: jpg, mean: 0.5}'
  refused 'wrong value of data.fields.image.randaugment at line 1: wrong.yaml: expected {ops: 2, magnitude: 9}' -- 'image: {from: jpg, randaugment: [2, 9]}'
  refused 'wrong value of data.fields.tokens.length at line 1: wrong.yaml: expected a number of tokens from 2 to 65537, found 1' -- 'tokens: {length: 1}'
  printf 'data: {train: shards, fields: auto}\nrun: {steps: 1}\n' >auto.yaml
  same "$(status_of millrace train auto.yaml --quiet)" 2
  contains "$(cat errors)" 'no field that a model is trained on: data.fields at line 1' 'millrace inspect DATASET --field auto'
  printf 'data:\n  train: shards\n  image: {size: 32}\n  fields:\n    image: {size: 48}\n' >twice.yaml
  same "$(status_of millrace train twice.yaml --quiet)" 2
  contains "$(cat errors)" 'repeated key data.image.size at line 5' 'already set at line 3'
  same "$(status_of millrace train train.yaml --quiet --set data.text.field=npy)" 2
  contains "$(cat errors)" 'data.text.tokenizer is for text, not for npy'
  same "$(status_of millrace train train.yaml --quiet --set data.text.mask=document)" 2
  contains "$(cat errors)" 'data.text.mask has no effect, as each sample is one text'
  same "$(status_of millrace train train.yaml --quiet --set model.type=vit)" 2
  contains "$(cat errors)" 'data.text.tokenizer is for language models only'
  same "$(status_of millrace train train.yaml --quiet --set data.text.tokenizer=)" 2
  contains "$(cat errors)" 'data.text.end is set without data.text.tokenizer'
}

run_cases texts_are_trained_on_like_in_transformers every_way_to_name_the_texts_gives_the_same_run \
  the_same_bits_after_a_restart_and_on_two_ranks a_text_without_a_token_to_predict_is_a_bad_sample \
  another_tokenizer_is_refused a_model_of_the_same_tokenizer_is_evaluated an_image_and_its_label_in_json wrong_fields_are_refused
