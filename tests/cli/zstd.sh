#!/usr/bin/env bash
# Compressed shards: convert dataset --zstd, and every verb that reads shards. zstd, tar and pyzstd
# are the oracles; uncompressed shards must give the same batches.
. "$(dirname "$0")/lib.sh"
need_python

"$python" - <<'PY'
import json, random
r = random.Random(5)
words = "one two three four five six seven eight nine ten".split()
with open("list.jsonl", "w") as file:
    for i in range(3000):
        length = 30000 if i % 1000 == 7 else r.randint(3, 200)
        file.write(json.dumps({"text": " ".join(r.choices(words, k=length)), "score": r.random(), "n": i}) + "\n")
PY
millrace convert dataset list.jsonl plain --shard-bytes 1MiB --quiet >/dev/null || exit 1
millrace convert dataset list.jsonl zst --shard-bytes 1MiB --zstd --quiet >/dev/null || exit 1

record=(--field 't={from: txt, decode: str}' --field 'score={from: json, path: $.score, decode: f32}')
# batches_of DATASET OPTION...: what is read, in order
batches_of() {
  rm -rf batches
  millrace read "$@" "${record[@]}" --out batches --quiet >/dev/null
  (cd batches && find . -type f | sort | xargs sha256sum)
}
fields_of() { millrace read "$1" --print keys "${@:2}" "${record[@]}" --quiet; }

other_programs_read_the_shards() {
  command -v zstd >/dev/null || skip "no zstd here"
  for shard in plain/*.tar; do
    zst=zst/${shard#*/}.zst
    zstd -qt "$zst"
    end=$(json 'd["archive_end"] + 1024' <(millrace inspect "$zst" --json))
    zstd -dqc "$zst" >content
    same "$(stat -c %s content)" "$end" "size of the archive"
    cmp -n "$end" content "$shard"
    same "$(tar --zstd -tf "$zst")" "$(tar -tf "$shard")" members
    [[ $(stat -c %s "$zst") -lt $(($(stat -c %s "$shard") / 3)) ]] || fail "$zst is large"
  done
}
pyzstd_reads_parts_and_its_files_are_read() {
  "$python" -c 'import pyzstd' 2>/dev/null || skip "no pyzstd here"
  "$python" - <<'PY'
import glob, pyzstd, random
for path in sorted(glob.glob("zst/*.zst")):
    content = open(path.replace("zst/", "plain/").removesuffix(".zst"), "rb").read()
    with pyzstd.SeekableZstdFile(path) as file:
        frames, _, size = file.seek_table_info
        assert frames > 2 and size == len(file.read())
        for _ in range(20):
            at = random.randrange(size)
            file.seek(at)
            assert file.read(5000) == content[at:min(at + 5000, size)]
    with pyzstd.SeekableZstdFile("theirs.tar.zst", "w", max_frame_content_size=70000) as file:
        file.write(content)
PY
  millrace verify theirs.tar.zst >/dev/null
  last=$(ls plain/*.tar | tail -1)
  same "$(fields_of theirs.tar.zst --order sequential)" "$(fields_of "$last" --order sequential)" keys
}
batches_are_those_of_uncompressed_shards() {
  for options in "--order shuffle --seed 3" "--order sequential --batch 7 --micro 7" "--order full --memory 40MiB --workers 1"; do
    # shellcheck disable=SC2086
    same "$(batches_of zst $options)" "$(batches_of plain $options)" "batches with $options"
  done
  same "$(json 'd["fingerprint"]' <(millrace inspect zst --json))" "$(json 'd["fingerprint"]' <(millrace inspect plain --json))" fingerprint
  same "$(batches_of zst --mix plain=2 --count 500)" "$(batches_of plain --mix plain=2 --count 500)" "batches of a mix"
  same "$(batches_of 'zst/shard-{000000..000002}.tar.zst')" "$(batches_of 'plain/shard-{000000..000002}.tar')" "batches of a pattern"
}
images_and_tokens_are_the_same() {
  "$RENDER_SHAPES" --count 6 --side 300 photos >/dev/null
  for options in "photos" "photos --store raw" "list.jsonl --tokenizer bytes"; do
    rm -rf a b
    # shellcheck disable=SC2086
    millrace convert dataset ${options/ / a } $([[ $options == *\ * ]] || echo a) --shard-bytes 256KiB --quiet >/dev/null
    # shellcheck disable=SC2086
    millrace convert dataset ${options/ / b } $([[ $options == *\ * ]] || echo b) --shard-bytes 256KiB --zstd=1 --quiet >/dev/null
    decode=(--decode image --size 96 --crop random)
    [[ $options != *tokenizer* ]] || decode=()
    for shards in a b; do
      rm -rf "out-$shards"
      millrace read "$shards" "${decode[@]}" --batch 8 --micro 4 --out "out-$shards" --quiet >/dev/null
    done
    diff -r out-a out-b || fail "different batches of $options"
    millrace verify b >/dev/null
  done
}
conversions_give_the_same_bytes() {
  millrace convert dataset list.jsonl one --shard-bytes 1MiB --zstd -j 1 --quiet >/dev/null
  diff -r one zst
  same "$(MILLRACE_FAULT=commit:kill@5 status_of millrace convert dataset list.jsonl killed --shard-bytes 1MiB --zstd -j 3)" 137
  millrace convert dataset list.jsonl killed --shard-bytes 1MiB --zstd -j 3 --resume --quiet >/dev/null
  diff -r killed zst
  refused "different files or options" sh -c "MILLRACE_FAULT=commit:kill@5 '$MILLRACE' convert dataset list.jsonl other --shard-bytes 1MiB --zstd -j 3 2>/dev/null
    '$MILLRACE' convert dataset list.jsonl other --shard-bytes 1MiB --zstd=9 --resume \"\$@\"" sh
  millrace convert dataset list.jsonl killed --shard-bytes 1MiB --force --quiet >/dev/null
  diff -r killed plain
  millrace convert dataset list.jsonl small --shard-bytes 1MiB --zstd=19 --quiet >/dev/null
  [[ $(cat small/*.zst | wc -c) -lt $(cat zst/*.zst | wc -c) ]] || fail "level 19 is not smaller"
}
compressed_shards_convert_back() {
  millrace convert dataset zst back --shard-bytes 1MiB --quiet >/dev/null
  for shard in plain/*.tar; do cmp "$shard" "back/${shard#*/}"; done
  millrace convert dataset zst/shard-000001.tar.zst alone --quiet >/dev/null
  same "$(fields_of alone --order sequential)" "$(fields_of plain/shard-000001.tar --order sequential)" keys
  millrace convert dataset zst files --format folder --quiet >/dev/null
  millrace convert dataset plain files2 --format folder --quiet >/dev/null
  diff -r files files2
  millrace convert dataset zst tars --format tar --zstd --quiet >/dev/null
  millrace verify tars >/dev/null
  millrace convert dataset tars again --shard-bytes 1MiB --quiet >/dev/null
  for shard in plain/*.tar; do cmp "$shard" "again/${shard#*/}"; done
}
# described FOLDER: what its dataset.json says of the whole dataset, except the options
described() { "$python" -c 'import json, sys; d = json.load(open(sys.argv[1]))["millrace"]; d.pop("options"); print(d)' "$1/dataset.json"; }
resharding_keeps_classes_and_index_fields() {
  "$RENDER_SHAPES" --count 6 --side 40 shapes >/dev/null
  for zstd in "" --zstd; do
    # shellcheck disable=SC2086
    millrace convert dataset shapes "classes$zstd" --shard-samples 10 --index-field jpg:width=width $zstd --quiet >/dev/null
    millrace convert dataset "classes$zstd" "resharded$zstd" --jpeg keep --quiet >/dev/null
    millrace convert dataset "classes$zstd/shard-000000.tar${zstd:+.zst}" "single$zstd" --jpeg keep --quiet >/dev/null
    millrace convert dataset "classes$zstd/shard-{000000..000002}.tar${zstd:+.zst}" "pattern$zstd" --jpeg keep --quiet >/dev/null
    # shellcheck disable=SC2086
    millrace convert dataset "classes$zstd" "exported$zstd" --format tar $zstd --jpeg keep --quiet >/dev/null
    millrace convert dataset "exported$zstd" "imported$zstd" --jpeg keep --quiet >/dev/null
  done
  for name in resharded single pattern imported; do
    cmp "$name/shard-000000.tar" "$name--zstd/shard-000000.tar"
    same "$(described "$name--zstd")" "$(described "$name")" "description of $name"
  done
  contains "$(described resharded--zstd)" triangle
  contains "$(millrace inspect resharded--zstd/shard-000000.tar)" width
}
selections_and_auto_fields_work() {
  rm -rf a b
  millrace convert dataset list.jsonl a --index-field 'json:$.score=score' --quiet >/dev/null
  millrace convert dataset list.jsonl b --index-field 'json:$.score=score' --zstd --quiet >/dev/null
  same "$(fields_of b --where 'score >= 0.9')" "$(fields_of a --where 'score >= 0.9')" selected
  millrace read b --field auto --count 10 >out 2>errors
  contains "$(cat errors)" "decode: json"
  millrace inspect b --html page.html --quiet >/dev/null
  contains "$(cat page.html)" "seven eight"
}
damage_is_found_and_only_bad_samples_are_replaced() {
  cp -r zst bad
  printf '\xff\xff\xff' | dd of=bad/shard-000001.tar.zst bs=1 seek=30000 conv=notrunc status=none
  same "$(status_of millrace verify bad)" 1 "status of bad"
  contains "$(cat out)" "the data is damaged"
  refused "could not read the shard: the data is damaged" millrace read bad "${record[@]}" --on-error stop
  expected=$(batches_of bad --on-error skip --max-errors 50% --batch 16 --micro 16 --memory 1GiB)
  same "$(batches_of bad --on-error skip --max-errors 50% --batch 16 --micro 16 --memory 30MiB --workers 1)" "$expected" "batches with less memory"
  same "$(batches_of bad --on-error skip --max-errors 50% --batch 16 --micro 16 --run 1 --order sequential | wc -l)" "$(wc -l <<<"$expected")" "number of batches"
  printf 'x' >>bad/shard-000002.tar.zst
  same "$(status_of millrace verify bad/shard-000002.tar.zst)" 1 "status of bad/shard-000002.tar.zst"
  truncate -s -2000 bad/shard-000003.tar.zst
  same "$(status_of millrace verify bad/shard-000003.tar.zst)" 1 "status of bad/shard-000003.tar.zst"
  cp -r zst swapped
  cp zst/shard-000001.tar.zst swapped/shard-000000.tar.zst
  same "$(status_of millrace verify swapped)" 1 "status of swapped"
}
what_makes_no_sense_is_refused() {
  refused "not folders" millrace convert dataset plain x --format folder --zstd
  refused "from 1 to 22" millrace convert dataset list.jsonl x --zstd=23
  refused "from 1 to 22" millrace convert dataset list.jsonl x --zstd=0
  refused "expected SRC DST" millrace convert dataset list.jsonl x --zstd 9
  refused "DALI cannot read a compressed shard" millrace index zst/shard-000000.tar.zst --dali x.idx
  [[ ! -e x && ! -e x.idx ]] || fail "something was written"
}

run_cases other_programs_read_the_shards pyzstd_reads_parts_and_its_files_are_read batches_are_those_of_uncompressed_shards images_and_tokens_are_the_same \
  conversions_give_the_same_bytes compressed_shards_convert_back resharding_keeps_classes_and_index_fields selections_and_auto_fields_work damage_is_found_and_only_bad_samples_are_replaced what_makes_no_sense_is_refused
