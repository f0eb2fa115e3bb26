#!/usr/bin/env bash
# Text converted with a tokenizer.json: every command reads tokens of 4 bytes; what a file leaves
# open or what is not supported is refused before anything is written.
. "$(dirname "$0")/lib.sh"
. "$here/tokens_lib.sh"

need_python
[[ -d $data/text ]] || skip "no test data at $data/text (set MILLRACE_TEST_DATA)"
head -c 200000 "$data/text/tinyshakespeare.txt" >text.txt

make_tokenizer large.json 65536
make_tokenizer small.json 4000

large_vocabularies_have_tokens_of_4_bytes() {
  millrace convert dataset text.txt large --tokenizer large.json -j 1 --quiet >/dev/null
  millrace convert dataset text.txt same --tokenizer large.json -j 3 --quiet >/dev/null
  diff -r large same
  millrace inspect large --json >report
  same "$(json '[d["text"][k] for k in ("element", "tokenizer", "vocabulary_count")]' report)" "['uint32', 'tokenizer.json', 65793]"
  millrace verify large --decode >report
  contains "$(cat report)" "bad                   0"
  tokens_of large >tokens
  same "$(tail -n 1 tokens)" 65792
  awk '$1 > 65535 { large = 1 } END { exit !large }' tokens || fail "no token above 65535"
  # the tokens decode to the text
  "$python" - <<'PY'
import json
vocab = {i: t for t, i in json.load(open("large.json"))["model"]["vocab"].items()}
byte_of = {t: i for i, t in vocab.items() if i < 256}
tokens = [int(line) for line in open("tokens")]
assert bytes(byte_of[c] for t in tokens[:-1] for c in vocab[t]) == open("text.txt", "rb").read()
PY
}

tokens_equal_those_of_the_library_tokenizers() {
  "$python" -c 'import tokenizers' 2>/dev/null || skip "Python lacks tokenizers"
  for size in large small; do
    millrace convert dataset text.txt "equal-$size" --tokenizer $size.json --quiet >/dev/null
    tokens_of "equal-$size" >tokens
    "$python" - $size.json >expected <<'PY'
import sys, tokenizers
tokenizer = tokenizers.Tokenizer.from_file(sys.argv[1])
print(*tokenizer.encode(open("text.txt", newline="").read()).ids, tokenizer.token_to_id("<|end_of_text|>"), sep="\n")
PY
    cmp tokens expected
  done
  millrace inspect equal-small --json >report
  same "$(json 'd["text"]["element"]' report)" uint16
}

windows_of_4_byte_tokens_are_read_and_trained_on() {
  millrace convert dataset text.txt parts --tokenizer large.json --split train=0.9,val=0.1 --quiet >/dev/null
  same "$(millrace read parts/train --block 64 --order sequential --batch 1 --micro 1 --print keys --quiet | head -n 1 | cut -f 2)" "tokens-00000000#0"
  cat >train.yaml <<'YAML'
run:   {dir: runs/large, steps: 2}
data:  {train: parts/train, val: parts/val, text: {block: 32, mask: document}}
model: {type: gpt2, layers: 1, heads: 2, width: 16}
batch: {global: 4, micro: 4}
YAML
  same "$(status_of millrace train train.yaml --quiet)" 0 "$(cat errors)"
  millrace convert dataset text.txt other --tokenizer small.json --quiet >/dev/null
  same "$(status_of millrace train train.yaml --set run.dir=runs/no --set data.val=other)" 2
  contains "$(cat errors)" "the tokens of the dataset differ from those of parts/train/dataset.json"
}

an_interrupted_conversion_resumes_with_the_same_tokens() {
  millrace convert dataset text.txt whole --tokenizer large.json --shard-bytes 300KiB --quiet >/dev/null
  same "$(MILLRACE_FAULT='commit:eio:shard-000001' status_of millrace convert dataset text.txt cut --tokenizer large.json --shard-bytes 300KiB)" 1
  millrace convert dataset text.txt cut --tokenizer large.json --shard-bytes 300KiB --resume --quiet >/dev/null
  diff -r whole cut
}

a_tokenizer_that_leaves_something_open_is_refused() {
  make_tokenizer end.json 10 '<|im_end|>'
  same "$(status_of millrace convert dataset text.txt none --tokenizer end.json)" 2
  contains "$(cat errors)" "--document-end TOKEN"
  same "$(status_of millrace convert dataset text.txt none --tokenizer end.json --document-end '</s>')" 2
  contains "$(cat errors)" "found </s>"
  same "$(status_of millrace convert dataset text.txt none --document-end '</s>')" 2
  contains "$(cat errors)" "--document-end is for a tokenizer.json or token files only"
  same "$(status_of millrace convert dataset text.txt none --tokenizer end.json --vocab .)" 2
  sed 's/{1,3}/{1,2}/' small.json >pattern.json
  same "$(status_of millrace convert dataset text.txt none --tokenizer pattern.json)" 1
  one_line errors
  contains "$(cat errors)" 'the Regex of GPT-2, Llama 3 or Qwen 2, found (?i:'
  [[ ! -e none ]]
  millrace convert dataset text.txt ended --tokenizer end.json --document-end '<|im_end|>' --quiet >/dev/null
  same "$(tokens_of ended | tail -n 1)" 266
}

# The loader's field `tokens`: padded, and ragged, of stored texts and of strings in JSON.
captions_have_the_tokens_of_the_library_tokenizers() {
  "$python" -c 'import tokenizers' 2>/dev/null || skip "the library tokenizers is not there"
  make_tokenizer words.json 3000 '<|im_end|>'
  "$python" - <<'PY'
import io, json, random, tarfile
random.seed(5)
words = ["one", "Two's", "  ", "\n", "ü", "\u4e2d\u6587", "\U0001f600", "12345", "e\u0301", "<|im_end|>", "-", "a" * 70]
with tarfile.open("captions.tar", "w") as tar:
    for i in range(60):
        text = "" if i == 7 else " ".join(random.choices(words, k=random.randrange(1, 30)))
        for name, data in ("txt", text.encode()), ("json", json.dumps({"text": text}).encode()):
            member = tarfile.TarInfo(f"{i:03}.{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
PY
  local tokenizer='tokenizer: words.json' fields=(--field 'text={from: txt, decode: str}')
  fields+=(--field "ragged={from: txt, decode: tokens, $tokenizer}" --field "padded={from: json, path: \$.text, decode: tokens, $tokenizer, length: 24, pad: 5, begin: <|im_end|>, end: <|im_end|>}")
  millrace read captions.tar "${fields[@]}" -j 3 --print json --quiet >shown 2>/dev/null
  "$python" - <<'PY'
import json, tokenizers
tokenizer, count = tokenizers.Tokenizer.from_file("words.json"), 0
end = tokenizer.token_to_id("<|im_end|>")
tokenizer.encode_special_tokens = True  # names of special tokens are plain text
for line in open("shown"):
    fields = json.loads(line)["fields"]
    ids = tokenizer.encode(fields["text"], add_special_tokens=False).ids
    assert fields["ragged"] == ids, fields
    padded = [end] + ids[:22] + [end]
    assert fields["padded"] == padded + [5] * (24 - len(padded)) and fields["padded_length"] == len(padded), fields
    count += len(ids)
assert count > 1000, count
PY
  millrace read captions.tar "${fields[@]}" -j 1 --print json --quiet 2>/dev/null | cmp - shown
  for rank in 0 1 2; do
    millrace read captions.tar "${fields[@]}" --batch 12 --micro 4 --rank $rank --ranks 3 --print json --quiet 2>/dev/null
  done | sort -t : -k 2n >ranks
  millrace read captions.tar "${fields[@]}" --batch 12 --micro 4 --print json --quiet 2>/dev/null | sort -t : -k 2n | cmp - ranks
  same "$(status_of millrace read captions.tar --field "x={from: txt, decode: tokens, $tokenizer, end: none}")" 2
  contains "$(cat errors)" "no such token"
  same "$(status_of millrace read captions.tar --field 'x={from: txt, decode: tokens}')" 2
  same "$(status_of millrace read captions.tar --field "x={from: txt, decode: tokens, $tokenizer, length: 9}" --field x_length=txt)" 2
  contains "$(cat errors)" 'two fields have the name "x_length"'
  same "$(status_of millrace read captions.tar --field "x={from: txt, decode: tokens, $tokenizer, length: 1, end: <|im_end|>}")" 2
}

run_cases captions_have_the_tokens_of_the_library_tokenizers large_vocabularies_have_tokens_of_4_bytes tokens_equal_those_of_the_library_tokenizers \
  windows_of_4_byte_tokens_are_read_and_trained_on an_interrupted_conversion_resumes_with_the_same_tokens \
  a_tokenizer_that_leaves_something_open_is_refused
