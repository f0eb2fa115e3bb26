#!/usr/bin/env bash
# Text converted with a tokenizer.json: every command reads tokens of 4 bytes; what a file leaves
# open or what is not supported is refused before anything is written.
. "$(dirname "$0")/lib.sh"

need_python
[[ -d $data/text ]] || skip "no test data at $data/text (set MILLRACE_TEST_DATA)"
head -c 200000 "$data/text/tinyshakespeare.txt" >text.txt

# make_tokenizer FILE PAIRS [END]: a token for each byte and for each of the first PAIRS pairs of
# two bytes, and the document end.
make_tokenizer() {
  "$python" - "$@" <<'PY'
import json, sys
path, pairs, end = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or ["<|end_of_text|>"])[0]
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = iter(range(256, 512))
characters = [chr(b) if b in printable else chr(next(others)) for b in range(256)]
# letters come last: their tokens are the largest
order = sorted(range(256), key=lambda b: (chr(b).isalpha() and b < 128, b))
merges = [(characters[a], characters[b]) for a in order for b in order][len(order) ** 2 - pairs:]
vocab = {c: i for i, c in enumerate(characters)}
vocab.update((a + b, 256 + i) for i, (a, b) in enumerate(merges))
pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
json.dump({
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
    "added_tokens": [{"id": len(vocab), "content": end, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}],
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
              "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": [f"{a} {b}" for a, b in merges]}},
    open(path, "w"))
PY
}
make_tokenizer large.json 65536
make_tokenizer small.json 4000

# The stream of DATASET, as one number per line.
tokens_of() {
  mkdir -p members && tar -C members -xf "$1/shard-000000.tar"
  "$python" - members/*.npy <<'PY'
import struct, sys
stream = []
for path in sorted(p for p in sys.argv[1:]):
    data = open(path, "rb").read()
    kind = {b"<u2": "H", b"<u4": "I"}[data[data.index(b"'descr': '") + 10:][:3]]
    tokens = struct.unpack(f"<{(len(data) - 128) // struct.calcsize(kind)}{kind}", data[128:])
    stream += tokens if not stream else tokens[1:]
print(*stream, sep="\n")
PY
  rm -r members
}

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
  contains "$(cat errors)" "--document-end is for a tokenizer.json only"
  same "$(status_of millrace convert dataset text.txt none --tokenizer end.json --vocab .)" 2
  sed 's/{1,3}/{1,2}/' small.json >pattern.json
  same "$(status_of millrace convert dataset text.txt none --tokenizer pattern.json)" 1
  one_line errors
  contains "$(cat errors)" 'the Regex of GPT-2, Llama 3 or Qwen 2, found (?i:'
  [[ ! -e none ]]
  millrace convert dataset text.txt ended --tokenizer end.json --document-end '<|im_end|>' --quiet >/dev/null
  same "$(tokens_of ended | tail -n 1)" 266
}

run_cases large_vocabularies_have_tokens_of_4_bytes tokens_equal_those_of_the_library_tokenizers \
  windows_of_4_byte_tokens_are_read_and_trained_on an_interrupted_conversion_resumes_with_the_same_tokens \
  a_tokenizer_that_leaves_something_open_is_refused
