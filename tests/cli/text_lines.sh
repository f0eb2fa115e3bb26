#!/usr/bin/env bash
# JSON Lines as text: each line is a document, tokenized by itself, as Python's json and the library
# tokenizers (or tiktoken) do; whatever is not such a line is refused with its place.
. "$(dirname "$0")/lib.sh"
. "$here/tokens_lib.sh"

need_python
make_tokenizer pairs.json 4000

# Documents with every kind of character and escape; lines with every kind of end and of other
# fields. The first file begins with a byte order mark, the last ends without a line end.
mkdir texts
"$python" - <<'PY'
import json, random
r = random.Random(7)
parts = ["a", "it's", " the", " ", "  ", "\n", "\r\n", "\t", "\"", "\\", "/", "\b\f", "\0", "\x7f", "12", "1234", "\u00e9", "e\u0301", "\u2028", "\u4e2d\u6587",
         "\ufeff", "\U0001f600", "\U00010348", "\uffff", "<|end_of_text|>", "{", "}", "[", ",", "\":\"", "\u0600", "\u200d", "=" * 40, "word" * 20]
word = lambda: "".join(r.choices(parts, k=r.randrange(12)))
def document():
    kind = r.randrange(10)
    return "" if kind == 0 else " " if kind == 1 else "".join(r.choices(parts, k=r.randrange(800))) if kind == 2 else word()
others = [lambda: word(), lambda: 12345678901234567890123, lambda: -1.5e-300, lambda: None, lambda: [word(), {"text": 1}], lambda: {"text": word()}, lambda: True]
def escaped(text):  # some characters as escapes that are not needed
    return "".join("\\u%04x" % ord(c) if ord(c) < 0x10000 and r.random() < 0.2 else json.dumps(c, ensure_ascii=r.random() < 0.5)[1:-1] for c in text)
for number in range(3):
    with open(f"texts/{number}.jsonl", "wb") as f:
        f.write(b"\xef\xbb\xbf" if number == 0 else b"")
        for i in range(300):
            members = [f'"{name}":{json.dumps(value())}' for name, value in zip(["id", "url", "text ", "texts"], r.sample(others, 4)) if r.random() < 0.5]
            key = r.choice(['"text"', '"te\\u0078t"'])
            members.insert(r.randrange(len(members) + 1), f'{key}{r.choice(["", " "])}:{r.choice(["", " "])}"{escaped(document())}"')
            f.write((r.choice(["", " ", "\t"]) + "{" + r.choice([",", ", "]).join(members) + "}").encode())
            f.write(b"" if number == 2 and i == 299 else r.choice([b"\n", b"\r\n", b" \n", b"\n\n", b"\n \r\n"]))
    if number == 1:  # a document of several chunks, and one after it
        with open("texts/1.jsonl", "ab") as f:
            f.write((json.dumps({"text": " ".join(word() for _ in range(12000))}) + "\n" + json.dumps({"text": "x"}) + "\n").encode())
PY

documents_have_the_tokens_of_pythons_json_and_tokenizers() {
  "$python" -c 'import tokenizers' 2>/dev/null || skip "Python lacks tokenizers"
  millrace convert dataset texts tokens --tokenizer pairs.json -j 3 --quiet >/dev/null
  millrace verify tokens --decode >/dev/null
  tokens_of tokens >found
  "$python" - >expected <<'PY'
import json, tokenizers
tokenizer = tokenizers.Tokenizer.from_file("pairs.json")
tokenizer.encode_special_tokens = True
for number in range(3):
    for line in open(f"texts/{number}.jsonl", encoding="utf-8-sig", newline="\n"):
        if line.strip():
            print(*tokenizer.encode(json.loads(line)["text"]).ids, tokenizer.token_to_id("<|end_of_text|>"), sep="\n")
PY
  [[ $(wc -l <expected) -gt 50000 ]]
  cmp found expected
}

documents_have_the_tokens_of_tiktoken() {
  "$python" -c 'import tiktoken' 2>/dev/null || skip "Python lacks tiktoken"
  [[ -d $data/bpe ]] || skip "no vocabulary at $data/bpe (set MILLRACE_TEST_DATA)"
  millrace convert dataset texts gpt2 --tokenizer gpt2 --vocab "$data/bpe" --quiet >/dev/null
  tokens_of gpt2 >found
  "$python" "$here/../oracle/bpe.py" lines texts "$data/bpe" >expected
  cmp found expected
}

bytes_are_those_of_the_unescaped_text() {
  millrace convert dataset texts/1.jsonl bytes --tokenizer bytes --quiet >/dev/null
  same "$(json '[d["text"][k] for k in ("tokenizer", "vocabulary_count", "document_end")]' <(millrace inspect bytes --json))" "['bytes', 257, 256]"
  tokens_of bytes >found
  "$python" - >expected <<'PY'
import json
for line in open("texts/1.jsonl", encoding="utf-8", newline="\n"):
    if line.strip():
        print(*json.loads(line)["text"].encode(), 256, sep="\n")
PY
  cmp found expected
}

the_field_is_chosen_by_column() {
  printf '{"id": 1, "content": "ab", "text": 5}\n{"content": "c"}\n' >content.jsonl
  millrace convert dataset content.jsonl content --tokenizer bytes --column content=txt --quiet >/dev/null
  same "$(tokens_of content | tr '\n' ' ')" "97 98 256 99 256 "
  contains "$(tr -d ' \n' <content/dataset.json)" '"text_field":"content"'
  same "$(status_of millrace convert dataset content.jsonl bad --tokenizer bytes)" 1
  contains "$(cat errors)" 'the field "text" is not a string: content.jsonl:1 at 35: found a number'
  same "$(status_of millrace convert dataset content.jsonl bad --tokenizer bytes --column title=txt)" 1
  contains "$(cat errors)" 'a line has no field "title": content.jsonl:1 at 0: found id, content, text; name the field of the text with --column NAME=txt'
  same "$(status_of millrace convert dataset content.jsonl bad --tokenizer bytes --column content=json)" 2
  contains "$(cat errors)" 'expected one field of JSON Lines: NAME=txt, found content=json'
  same "$(status_of millrace convert dataset content.jsonl bad --tokenizer bytes --column '$.content=txt')" 2
  same "$(status_of millrace convert dataset content.jsonl bad --tokenizer bytes --column content=txt --column id=txt)" 2
  echo text >plain.txt
  same "$(status_of millrace convert dataset plain.txt bad --tokenizer bytes --column content=txt)" 2
  contains "$(cat errors)" "--column is for lists"
  [[ ! -e bad ]]
}

# refuses LINE MESSAGE: the line is the third of a file, after an empty one.
refuses() {
  printf '{"text": "a"}\n\n%b\n{"text": "b"}\n' "$1" >bad.jsonl
  same "$(status_of millrace convert dataset bad.jsonl bad --tokenizer bytes)" 1 "$1"
  one_line errors
  contains "$(cat errors)" "$2"
  [[ ! -e bad ]]
}

bad_lines_are_refused_with_line_and_offset() {
  refuses '{"text": "a' 'a string has no closing quote: bad.jsonl:3 at 24'
  refuses '{"text": "a"' 'an object lacks a comma or its end: bad.jsonl:3 at 27'
  refuses '{"text": "a\\ud83d"}' 'an escape sequence is invalid: bad.jsonl:3 at 26'
  refuses '{"text": "a\\ude00\\ud83d"}' 'an escape sequence is invalid: bad.jsonl:3 at 26'
  refuses '{"text": "a\\u12"}' 'an escape sequence is invalid: bad.jsonl:3 at 26'
  refuses '{"text": "a\\x41"}' 'an escape sequence is invalid: bad.jsonl:3 at 26'
  refuses '{"text": "a\0b"}' 'a string has a control character that is not escaped: bad.jsonl:3 at 26'
  refuses '{"text": "a\xff"}' 'the text is not valid UTF-8: bad.jsonl:3 at 26'
  refuses '{"text": "a\xed\xa0\x80"}' 'the text is not valid UTF-8: bad.jsonl:3 at 26'
  refuses '{"text": "a", "text": "b"}' 'a key is repeated: bad.jsonl:3 at 29'
  refuses '{"text": "a", "te\\u0078t": "b"}' 'a key is repeated: bad.jsonl:3 at 29'
  refuses '{"text": null}' 'the field "text" is not a string: bad.jsonl:3 at 24: found null'
  refuses '{"text": ["a"]}' 'found an array'
  refuses '{}' 'a line has no field "text": bad.jsonl:3 at 15: found no fields'
  refuses '{"text": "a"} {"text": "b"}' 'text follows the object: bad.jsonl:3 at 29'
  refuses '{"text": "a", "x": NaN}' 'a value is invalid: bad.jsonl:3 at 34'
  refuses '"a"' 'the text is not a JSON object: bad.jsonl:3 at 15'
  refuses '[{"text": "a"}]' "write one object per line, for example with \`jq -c '.[]'\`"
  "$python" -c 'print("{\"text\": \"a\"}\n" * 200000 + "{\"text\": 1}\n" + "{\"text\": \"a\"}\n" * 200000 + "{", end="")' >long.jsonl
  for threads in 1 4; do
    same "$(status_of millrace convert dataset long.jsonl bad --tokenizer bytes -j $threads)" 1
    contains "$(cat errors)" "is not a string: long.jsonl:200001 at 2800009"
  done
  printf '{"text": "a"}\n' | iconv -t UTF-16 >wide.jsonl
  same "$(status_of millrace convert dataset wide.jsonl bad --tokenizer bytes)" 1
  contains "$(cat errors)" "the file is UTF-16"
}

lines_are_limited() {
  "$python" - <<'PY'
fit = 16 * 2**20 - len('{"text": ""}')
open("fits.jsonl", "w").write('{"text": "a"}\n{"text": "%s"}\r\n{"text": "b"}' % ("x" * fit))
open("over.jsonl", "w").write('{"text": "a"}\n{"text": "%s"}\n{"text": "b"}' % ("x" * (fit + 1)))
open("endless.jsonl", "w").write('{"text": "a"}\n{"text": "%s' % ("x" * (fit + 2**20)))
PY
  millrace convert dataset fits.jsonl fits --tokenizer bytes --quiet >/dev/null
  same "$(json 'd["text"]["tokens_count"]' <(millrace inspect fits --json))" $((16 * 1048576 - 12 + 5))
  for file in over endless; do
    same "$(status_of millrace convert dataset $file.jsonl bad --tokenizer bytes)" 1
    contains "$(cat errors)" "a line is too long: $file.jsonl:2 at"
    contains "$(cat errors)" "expected at most 16777216 bytes"
  done
}

compressed_documents_are_read() {
  mkdir plain packed
  for name in a b c; do
    sed "s/}\$/,\"file\":\"$name\"}/" texts/1.jsonl >plain/$name.json
  done
  gzip -c plain/a.json >packed/a.json.gz
  zstd -q plain/b.json -o packed/b.json.zst
  cp plain/c.json packed
  millrace convert dataset plain wanted --tokenizer bytes --quiet >/dev/null
  for threads in 1 3; do
    millrace convert dataset packed unpacked --tokenizer bytes -j $threads --force --quiet >/dev/null
    diff -r wanted unpacked
  done
  millrace convert dataset packed/a.json.gz single --tokenizer bytes --quiet >/dev/null
  printf '{"text":"a"}\n{"text":"b"}\n' | bzip2 | millrace convert dataset - piped --tokenizer bytes --quiet >/dev/null
  contains "$(millrace inspect piped)" "tokens              4"
  printf '{"text":"a"}\n\n{"text":\n' | xz >packed/d.json.xz
  same "$(status_of millrace convert dataset packed none --tokenizer bytes)" 1
  contains "$(cat errors)" ": packed/d.json.xz:3 at"
  printf 'not compressed' >packed/d.json.xz
  same "$(status_of millrace convert dataset packed none --tokenizer bytes)" 1
  contains "$(cat errors)" "the file is not compressed, in spite of its name: packed/d.json.xz"
  [[ ! -e none && -z $(find . -name '.tmp-*') ]]
}

what_is_not_text_is_refused() {
  mkdir both && cp texts/1.jsonl both && echo text >both/note.txt
  same "$(status_of millrace convert dataset both bad --tokenizer bytes)" 2
  contains "$(cat errors)" "the folder has both text files and JSON Lines: both: found note.txt and 1.jsonl; skip one kind, for example with --ignore '*.txt'"
  millrace convert dataset both one --tokenizer bytes --ignore '*.txt' --quiet >/dev/null
  same "$(status_of millrace convert dataset texts bad)" 1
  contains "$(cat errors)" "add --tokenizer if each line is a document"
  echo 'text,b' >list.csv
  same "$(status_of millrace convert dataset list.csv bad --tokenizer bytes)" 2
  contains "$(cat errors)" "--tokenizer is not for lists"
  [[ ! -e bad ]]
}

any_number_of_threads_gives_the_same_bytes() {
  for threads in 1 2 5; do
    millrace convert dataset texts same$threads --tokenizer pairs.json --split train=0.9,val=0.1 -j $threads --quiet >/dev/null
  done
  diff -r same1 same2
  diff -r same1 same5
}

a_killed_conversion_resumes_to_the_same_bytes() {
  local options=(--tokenizer pairs.json --shard-bytes 300KiB --quiet) moment
  cat texts/1.jsonl texts/1.jsonl texts/1.jsonl >many.jsonl
  millrace convert dataset many.jsonl whole "${options[@]}" >/dev/null
  for moment in 1 2 3 4 5 6 7 8; do
    "$MILLRACE" convert dataset many.jsonl killed "${options[@]}" >/dev/null 2>&1 &
    sleep "0.0$((RANDOM % 90 + 10))"
    kill -9 $! 2>/dev/null || true # unless it has ended
    wait $! 2>/dev/null || true
    millrace convert dataset many.jsonl killed "${options[@]}" --resume >/dev/null
    diff -r -x .millrace-owner whole killed
    rm -r killed
  done
  same "$(MILLRACE_FAULT='commit:eio:shard-000002' status_of millrace convert dataset many.jsonl cut "${options[@]}")" 1
  same "$(ls cut/*.tar | wc -l)" 2
  same "$(status_of millrace convert dataset many.jsonl cut "${options[@]}" --resume --column texts=txt)" 1
  echo >>many.jsonl
  same "$(status_of millrace convert dataset many.jsonl cut "${options[@]}" --resume)" 1
  contains "$(cat errors)" "the conversion to resume has different files or options"
}

a_language_model_trains_on_the_documents() {
  millrace convert dataset texts parts --tokenizer pairs.json --split train=0.9,val=0.1 --quiet >/dev/null
  cat >train.yaml <<'YAML'
run:   {dir: runs/lines, steps: 3}
data:  {train: parts/train, val: parts/val, text: {block: 32, mask: document}}
model: {type: gpt2, layers: 1, heads: 2, width: 16}
batch: {global: 4, micro: 4}
YAML
  same "$(status_of millrace train train.yaml --quiet)" 0 "$(cat errors)"
  same "$(millrace ckpt list runs/lines --json | "$python" -c 'import json, sys; print(max(c["step"] for c in json.load(sys.stdin)["checkpoints"]))')" 3
}

run_cases documents_have_the_tokens_of_pythons_json_and_tokenizers documents_have_the_tokens_of_tiktoken \
  bytes_are_those_of_the_unescaped_text the_field_is_chosen_by_column bad_lines_are_refused_with_line_and_offset \
  lines_are_limited compressed_documents_are_read what_is_not_text_is_refused any_number_of_threads_gives_the_same_bytes \
  a_killed_conversion_resumes_to_the_same_bytes a_language_model_trains_on_the_documents
