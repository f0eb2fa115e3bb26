#!/usr/bin/env bash
# Token files of llm.c and Megatron-LM: their tokens are copied as they are, documents end where the
# index says so, and what the files leave open is refused.
. "$(dirname "$0")/lib.sh"
. "$here/tokens_lib.sh"

need_python

# The formats, written from their specifications.
cat >formats.py <<'PY'
import random, struct
random.seed(3)
def llmc(path, tokens, magic=20240520, version=1, kind="H", count=None):
    header = struct.pack("<3i", magic, version, len(tokens) if count is None else count).ljust(1024, b"\0")
    open(path, "wb").write(header + struct.pack(f"<{len(tokens)}{kind}", *tokens))
CODES = {"B": 1, "b": 2, "h": 3, "i": 4, "q": 5, "d": 6, "f": 7, "H": 8}
def megatron(path, documents, kind="H", code=None, version=1, bounds=None, pointers=None, tail=b""):
    """documents: lists of sequences, which are lists of tokens"""
    sequences = [s for d in documents for s in d]
    width = struct.calcsize(kind)
    if bounds is None:
        bounds = [0]
        for d in documents:
            bounds.append(bounds[-1] + len(d))
    if pointers is None:
        pointers = [sum(map(len, sequences[:i])) * width for i in range(len(sequences))]
    open(path + ".bin", "wb").write(b"".join(struct.pack(f"<{len(s)}{kind}", *s) for s in sequences))
    open(path + ".idx", "wb").write(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, code or CODES[kind], len(sequences), len(bounds)) +
        struct.pack(f"<{len(sequences)}i", *map(len, sequences)) + struct.pack(f"<{len(pointers)}q", *pointers) +
        struct.pack(f"<{len(bounds)}q", *bounds) + tail)
def words(n, limit=50256):
    return [random.randrange(limit) for _ in range(n)]
PY
formats() { PYTHONPATH=. "$python" -c "from formats import *
import json
$1"; }
text_of() { json "[d['text'][k] for k in ('tokenizer', 'element', 'vocabulary_count', 'document_end', 'tokens_count')]" <(millrace inspect "$1" --json); }

llmc_files_are_copied_in_order() {
  formats '
stream = []
for _ in range(900):
    stream += [50256] + words(random.randrange(1, 700))
llmc("a.bin", stream)
import os
os.mkdir("shards")
for number, begin in enumerate(range(0, len(stream), 100003)):
    llmc("shards/fineweb_train_%06d.bin" % number, stream[begin:begin + 100003])
print(*stream, sep="\n", file=open("expected", "w"))'
  millrace convert dataset a.bin a -j 3 --quiet >/dev/null
  millrace verify a --decode >/dev/null
  tokens_of a >found
  cmp found expected
  same "$(text_of a)" "['gpt2', 'uint16', 50257, 50256, $(wc -l <expected)]"
  millrace convert dataset shards b --quiet -j 1 >/dev/null
  diff a/shard-000000.tar b/shard-000000.tar
  formats 'llmc("llama.bin", [128000] + words(70000, 128256), 20240801, 7, "I")'
  millrace convert dataset llama.bin llama --quiet >/dev/null
  same "$(text_of llama)" "['llama3', 'uint32', 128256, 128000, 70001]"
  # validation data from text matches in training
  if [[ -d $data/bpe ]]; then
    head -c 20000 "$data/text/tinyshakespeare.txt" >val.txt
    millrace convert dataset val.txt val --tokenizer gpt2 --vocab "$data/bpe" --quiet >/dev/null
    cat >train.yaml <<'YAML'
run:   {dir: runs/llmc, steps: 2}
data:  {train: a, val: val, text: {block: 32, mask: document}}
model: {type: gpt2, layers: 1, heads: 1, width: 8}
batch: {global: 4, micro: 4}
YAML
    same "$(status_of millrace train train.yaml --quiet)" 0 "$(cat errors)"
  fi
}

megatron_documents_end_where_the_index_says() {
  formats '
expected = {}
for kind in "HihqBb":
    limit = 100 if kind in "bB" else 30000
    documents, stream = [], []
    for i in range(1000):
        document = [words(random.randrange(90), limit) for _ in range(random.choice([0, 1, 1, 1, 2, 5]))]
        if i == 70:
            document = [words(70000, limit)]
        if document and document[-1] and i % 3 == 0:
            document[-1][-1] = 99
        tokens = [t for s in document for t in s]
        stream += tokens + ([99] if tokens and tokens[-1] != 99 else [])
        documents.append(document)
    megatron("data_" + kind, documents, kind)
    print(*stream, sep="\n", file=open("expected_" + kind, "w"))'
  for kind in H i h q B b; do
    millrace convert dataset data_$kind.bin tokens_$kind --vocab-size 30000 --document-end 99 -j 2 --quiet >/dev/null
    tokens_of tokens_$kind >found
    cmp found expected_$kind
    same "$(text_of tokens_$kind)" "['unknown', 'uint16', 30000, 99, $(wc -l <expected_$kind)]"
  done
  millrace convert dataset data_i.bin wide --vocab-size 70000 --document-end 99 --quiet >/dev/null
  tokens_of wide >found
  cmp found expected_i
  same "$(json 'd["text"]["element"]' <(millrace inspect wide --json))" uint32
  mkdir both && cp data_H.* data_i.* both
  millrace convert dataset both both_tokens --vocab-size 30000 --document-end 99 2>errors >/dev/null
  contains "$(cat errors)" "both: added the document end 99 to"
  tokens_of both_tokens >found
  cat expected_H expected_i | cmp found -
}

a_named_tokenizer_is_recorded() {
  make_tokenizer small.json 1000
  formats 'megatron("named", [[[1, 2, 1256]], [[3]]], "H")'
  millrace convert dataset named.bin named --tokenizer small.json --quiet >/dev/null
  same "$(text_of named)" "['tokenizer.json', 'uint16', 1257, 1256, 5]"
  echo some text >text.txt
  millrace convert dataset text.txt text --tokenizer small.json --quiet >/dev/null
  same "$(grep -o '"vocabulary_xxh3":[^,]*' named/dataset.json)" "$(grep -o '"vocabulary_xxh3":[^,]*' text/dataset.json)"
  same "$(status_of millrace convert dataset named.bin bad --tokenizer small.json --vocab-size 1257)" 2
  formats 'llmc("gpt2.bin", [50256, 1, 2])'
  same "$(status_of millrace convert dataset gpt2.bin bad --tokenizer small.json)" 2
  contains "$(cat errors)" "the tokenizer is not the one that made the tokens, gpt2's: small.json: expected a vocabulary of 50257, found 1257"
  [[ ! -e bad ]]
}

# refuses STATUS MESSAGE OPTION...
refuses() {
  same "$(status_of millrace convert dataset "${@:3}" bad)" "$1" "$(cat errors)"
  contains "$(cat errors)" "$2"
  [[ ! -e bad ]]
}

what_the_files_leave_open_is_refused() {
  local known=(--vocab-size 100 --document-end 9)
  formats '
megatron("open", [[[1, 2]], [[3, 9]]])
llmc("ends.bin", [1, 2, 3])'
  refuses 2 "Megatron's data does not say which tokenizer made it" open.bin
  refuses 2 "--vocab-size needs --document-end" open.bin --vocab-size 100
  refuses 2 "the number of a token below 100, found <|endoftext|>" open.bin --vocab-size 100 --document-end '<|endoftext|>'
  refuses 2 "the number of a token below 100, found 100" open.bin --vocab-size 100 --document-end 100
  refuses 2 "no token is the document end" ends.bin --document-end 9
  refuses 2 "convert the .bin file next to it" open.idx "${known[@]}"
  refuses 1 "a token is not in the vocabulary of the tokenizer \"unknown\": open.bin at 4: expected below 3, found 3" open.bin --vocab-size 3 --document-end 2
  status_of millrace convert dataset ends.bin warned >/dev/null
  contains "$(cat errors)" "ends.bin: no token is the document end 50256"
  mkdir lone && cp open.bin lone/x.bin && cp ends.bin lone
  refuses 2 "the file is neither a token file of llm.c nor one of Megatron-LM: lone/x.bin" lone
  rm lone/ends.bin lone/x.bin && cp ends.bin lone/a.bin && cp open.idx lone/x.idx
  refuses 2 "Megatron's index has no data: lone/x.idx" lone
  cp open.bin lone/x.bin
  refuses 2 "the folder has token files of several kinds: lone/x.bin" lone "${known[@]}"
  mkdir splits && cp ends.bin splits/fineweb_train_000001.bin && cp ends.bin splits/fineweb_val_000000.bin
  refuses 2 "the folder has files of several splits: splits: found names with _train and _val; convert each split by itself: skip the others, for example with --ignore '*_val*'" splits
  millrace convert dataset splits one --ignore '*_val*' --quiet >/dev/null 2>&1
  echo text >text.txt
  refuses 2 "--vocab-size is for token files only" text.txt --vocab-size 100
}

damaged_files_are_refused() {
  local known=(--vocab-size 100 --document-end 9)
  formats '
llmc("version.bin", [1], version=2)
llmc("size.bin", [1, 2, 3], count=4)
llmc("eval.bin", [1, 2, 3], magic=20240522)
llmc("vocabulary.bin", [50256, 50257])
open("short.bin", "wb").write(open("size.bin", "rb").read()[:100])
megatron("m_version", [[[1]]], version=2)
megatron("m_float", [[[1]]], "f")
megatron("m_code", [[[1]]], code=9)
megatron("m_modes", [[[1]]], tail=b"\0")
megatron("m_tail", [[[1]]], tail=b"\0\0")
megatron("m_order", [[[1], [2]]], pointers=[2, 0])
megatron("m_bounds", [[[1], [2]]], bounds=[0, 2, 1])
megatron("m_first", [[[1], [2]]], bounds=[1, 2])
megatron("m_rest", [[[1], [2]]], bounds=[0, 1])
megatron("m_beyond", [[[1], [2]]], bounds=[0, 3])
megatron("m_negative", [[[1, -1]]], "h")
megatron("m_data", [[[1, 2]]])
open("m_data.bin", "ab").write(b"\0\0")
data = bytearray(open("m_order.idx", "rb").read())
data[34:38] = struct.pack("<i", -1)
megatron("m_length", [[[1], [2]]])
open("m_length.idx", "wb").write(data)
data[18:26] = struct.pack("<Q", 2 ** 61)
megatron("m_count", [[[1], [2]]])
open("m_count.idx", "wb").write(data)
megatron("m_short", [[[1]]])
open("m_short.idx", "wb").write(data[:20])'
  refuses 1 "the version of the token file is not supported: version.bin at 4: expected 1, found 2" version.bin
  refuses 1 "the token file has another size than its header says: size.bin at 8: expected 1032 bytes, found 1030" size.bin
  refuses 1 "found 20240522 (questions of an evaluation)" eval.bin
  refuses 1 "vocabulary.bin at 1026: expected below 50257, found 50257" vocabulary.bin
  refuses 1 "the token file is shorter than its header" short.bin
  refuses 1 "the version of Megatron's index is not supported: m_version.idx at 9" m_version.bin "${known[@]}"
  refuses 1 "code 1 to 5 or 8 (integers), found 7" m_float.bin "${known[@]}"
  refuses 1 "found 9" m_code.bin "${known[@]}"
  refuses 1 "the index has modes" m_modes.bin "${known[@]}"
  refuses 1 "the index has another size than its header says" m_tail.bin "${known[@]}"
  refuses 1 "the sequences do not lie one after the other: m_order.idx at 42: expected offset 0, found 2" m_order.bin "${known[@]}"
  for file in m_bounds m_first m_beyond; do refuses 1 "the documents' bounds are out of order: $file.idx" $file.bin "${known[@]}"; done
  refuses 1 "sequences follow the last document" m_rest.bin "${known[@]}"
  refuses 1 "expected below 100, found -1" m_negative.bin "${known[@]}"
  refuses 1 "the data has another size than its index says: m_data.bin: expected 2 tokens of 2 bytes, found 6 bytes" m_data.bin "${known[@]}"
  refuses 1 "a sequence has an invalid length: m_length.idx at 34" m_length.bin "${known[@]}"
  refuses 1 "the index has too many sequences or documents" m_count.bin "${known[@]}"
  refuses 1 "the file is too short for Megatron's index" m_short.bin "${known[@]}"
}

an_interrupted_conversion_resumes_to_the_same_bytes() {
  local options=(--vocab-size 50257 --document-end 50256 --shard-bytes 300KiB --quiet) i
  formats 'megatron("much", [[words(random.randrange(3000))] for _ in range(1500)], "i")'
  millrace convert dataset much.bin whole "${options[@]}" -j 1 >/dev/null
  same "$(MILLRACE_FAULT='commit:eio:shard-000003' status_of millrace convert dataset much.bin cut "${options[@]}")" 1
  millrace convert dataset much.bin cut "${options[@]}" --resume >/dev/null
  diff -r whole cut
  for i in 1 2 3 4; do
    "$MILLRACE" convert dataset much.bin killed "${options[@]}" >/dev/null 2>&1 &
    sleep "0.0$((RANDOM % 60 + 10))"
    kill -9 $! 2>/dev/null || true # unless it has ended
    wait $! 2>/dev/null || true
    millrace convert dataset much.bin killed "${options[@]}" --resume >/dev/null
    diff -r -x .millrace-owner whole killed
    rm -r killed
  done
  same "$(MILLRACE_FAULT='commit:eio:shard-000003' status_of millrace convert dataset much.bin changed "${options[@]}")" 1
  # the same sizes, but other documents
  "$python" - <<'PY'
import struct
data = bytearray(open("much.idx", "rb").read())
last = len(data) - 16
data[last:last + 8] = data[last + 8:]
open("much.idx", "wb").write(data)
PY
  same "$(status_of millrace convert dataset much.bin changed "${options[@]}" --resume)" 1
  contains "$(cat errors)" "the conversion to resume has different files or options"
}

run_cases llmc_files_are_copied_in_order megatron_documents_end_where_the_index_says a_named_tokenizer_is_recorded \
  what_the_files_leave_open_is_refused damaged_files_are_refused an_interrupted_conversion_resumes_to_the_same_bytes
