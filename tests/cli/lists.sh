#!/usr/bin/env bash
# `millrace convert dataset` with lists: JSON Lines, CSV and TSV, and folders with metadata.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 3 --side 40 photos >/dev/null
{
  echo image,label,caption,score
  for file in photos/*/*.jpg; do
    class=${file#photos/}
    echo "$file,${class%%/*},\"a \"\"${class%%/*}\"\"\",0.5"
  done
} >list.csv

the_columns_are_shown_and_readable_as_fields() {
  need_python
  same "$(status_of millrace convert dataset list.csv shards)" 0
  contains "$(cat errors)" "list.csv: image -> its extension (file), caption -> txt (text), label -> class, others -> json (json): score"
  same "$(sed -n 's/^samples  *//p' out) $(sed -n 's/^classes  *//p' out)" "21 7"
  millrace verify shards >/dev/null
  millrace read shards --field 'caption={from: txt, decode: str}' --print json --quiet >read
  same "$(json 'sorted({s["fields"]["caption"] for s in d})[0]' read)" 'a "circle"'
  same "$(status_of millrace convert dataset list.csv scores --column image=jpg --column score=score:float)" 0
  contains "$(cat errors)" "left out: label, caption (--column '*=json' stores them)"
  millrace read scores --field 'score={from: score, decode: f32}' --print json --quiet >read
  same "$(json '{s["fields"]["score"] for s in d}' read)" "{0.5}"
}

errors_name_the_line_and_the_column() {
  cp list.csv bad.csv
  echo 'photos/none.jpg,x,y,1' >>bad.csv
  same "$(status_of millrace convert dataset bad.csv bad)" 1
  contains "$(cat errors)" 'column "image": the file does not exist: bad.csv:23: found "photos/none.jpg"; paths are relative to the list'"'"'s folder'
  same "$(status_of millrace convert dataset list.csv bad --column captoin=txt)" 2
  contains "$(cat errors)" 'the list has no column "captoin": list.csv: expected image, label, caption, score'
  same "$(status_of millrace convert dataset list.csv bad --column caption=text)" 2
  contains "$(cat errors)" "a kind after the field"
  same "$(status_of millrace convert dataset photos bad --column caption=txt)" 2
  contains "$(cat errors)" "--column is for lists"
  [[ ! -e bad ]]
}

# Python writes random rows; the members of the shards must have the same values.
fields_equal_those_of_pythons_json_and_csv() {
  need_python
  "$python" - <<'PY'
import csv, json, random
r = random.Random(5)
parts = ["a", " ", "\"", "\\", "\n", "\r\n", "\t", ",", "/", "\u00e9", "\u2028", "\U0001f600", "\x7f", "0", "{", "]"]
word = lambda: "".join(r.choices(parts, k=r.randrange(8)))
def value(depth=0):
    kind = r.randrange(7 if depth < 4 else 5)
    return [None, r.random() < 0.5, r.randrange(-2**63, 2**63), r.gauss(0, 1) * 10 ** r.randrange(-300, 300), word(),
            [value(depth + 1) for _ in range(r.randrange(3))] if kind == 5 else None,
            {word(): value(depth + 1) for _ in range(r.randrange(3))} if kind == 6 else None][kind]
rows = [{"text": word(), "n": r.randrange(1000), "\u00e9\"": value(), "any": value()} for _ in range(500)]
with open("rows.jsonl", "w") as f:
    for row in rows:
        f.write(json.dumps(row, ensure_ascii=r.random() < 0.5) + r.choice(["\n", "\r\n", "\n\n"]))
columns = ["text", "\u00e9", "n"]
cells = [[word(), word(), str(r.randrange(1000))] for _ in range(500)]
for name, delimiter in ("rows.csv", ","), ("rows.tsv", "\t"):
    with open(name, "w", newline="", encoding=r.choice(["utf-8", "utf-8-sig"])) as f:
        w = csv.writer(f, delimiter=delimiter, lineterminator=r.choice(["\n", "\r\n"]))
        w.writerow(columns)
        w.writerows(cells)
json.dump([rows, [dict(zip(columns, row)) for row in cells]], open("expected.json", "w"))
PY
  for list in rows.jsonl rows.csv rows.tsv; do
    millrace convert dataset $list shards-$list --column text=txt --column n=n:int --column '*=json' --quiet >/dev/null
    "$python" - $list <<'PY'
import json, sys, tarfile
rows, cells = json.load(open("expected.json"))
expected = rows if sys.argv[1] == "rows.jsonl" else cells
got = [{} for _ in expected]
with tarfile.open(f"shards-{sys.argv[1]}/shard-000000.tar") as tar:
    for member in tar:
        key, field = member.name.split(".")
        got[int(key)][field] = tar.extractfile(member).read()
for row, sample in zip(expected, got):
    rest = json.loads(sample["json"])
    assert sample["txt"].decode() == row["text"] and json.loads(sample["n"]) == int(row["n"]), (row, sample)
    assert rest == {k: v for k, v in row.items() if k not in ("text", "n")}, (row, rest)
PY
  done
}

any_number_of_threads_gives_the_same_bytes() {
  for i in {1..4000}; do echo "{\"text\":\"$i $i\",\"i\":$i}"; done >numbers.jsonl
  millrace convert dataset numbers.jsonl one -j 1 --shard-bytes 1MiB --quiet >/dev/null
  millrace convert dataset numbers.jsonl four -j 4 --shard-bytes 1MiB --quiet >/dev/null
  diff -r one four
  [[ $(find one -name '*.tar' | wc -l) -gt 2 ]]
  millrace convert dataset numbers.jsonl ordered --keep-order --quiet >/dev/null
  same "$(tar tf ordered/shard-000000.tar | head -n 3 | xargs)" "00000000.json 00000000.txt 00000001.json"
}

a_killed_conversion_resumes_to_the_same_bytes() {
  millrace convert dataset list.csv whole --shard-bytes 20KiB --quiet >/dev/null
  for kill in 3 4 5; do
    same "$(MILLRACE_FAULT=commit:kill@$kill status_of millrace convert dataset list.csv killed-$kill --shard-bytes 20KiB)" 137
    [[ -e killed-$kill/shard-000000.tar && ! -e killed-$kill/dataset.json ]]
    millrace convert dataset list.csv killed-$kill --shard-bytes 20KiB --resume --quiet >/dev/null
    diff -r whole killed-$kill
  done
  same "$(MILLRACE_FAULT=commit:kill@4 status_of millrace convert dataset list.csv changed --shard-bytes 20KiB)" 137
  sed 's/0\.5$/0.6/' list.csv >other.csv
  cp other.csv list.csv
  same "$(status_of millrace convert dataset list.csv changed --shard-bytes 20KiB --resume)" 1
  contains "$(cat errors)" "different files or options"
}

a_folder_with_metadata_is_converted() {
  mkdir -p pets/train/sub pets/test
  cp photos/circle/0000.jpg pets/train/sub/a.jpg
  cp photos/ring/0000.jpg pets/test/b.jpg
  printf 'file_name,text\nsub/a.jpg,hello\n' >pets/train/metadata.csv
  printf '{"file_name":"b.jpg","text":"bye","boxes":[[1,2]]}\n' >pets/test/metadata.jsonl
  same "$(status_of millrace convert dataset pets pet-shards)" 0
  same "$(tar tf pet-shards/train/shard-000000.tar | xargs) $(tar tf pet-shards/test/shard-000000.tar | xargs)" \
    "sub/a.jpg sub/a.txt b.jpg b.json b.txt"
  touch pets/test/c.jpg
  same "$(status_of millrace convert dataset pets other)" 1
  contains "$(cat errors)" "files have no row in the metadata: pets: expected each file in metadata.csv or metadata.jsonl, found 1 others; the first: test/c.jpg"
  same "$(status_of millrace convert dataset pets other --ignore c.jpg)" 0
}

run_cases the_columns_are_shown_and_readable_as_fields errors_name_the_line_and_the_column \
  fields_equal_those_of_pythons_json_and_csv any_number_of_threads_gives_the_same_bytes \
  a_killed_conversion_resumes_to_the_same_bytes a_folder_with_metadata_is_converted
