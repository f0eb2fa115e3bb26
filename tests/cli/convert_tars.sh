#!/usr/bin/env bash
# `millrace convert dataset` of other tools' tars, and of our own datasets.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$scratch/.cache

"$RENDER_SHAPES" --count 6 --side 40 photos >/dev/null
millrace convert dataset photos shards --jpeg keep --shard-bytes 20KiB --quiet >/dev/null
sequential=(--order sequential --batch 6 --micro 6 --print keys --quiet)

# convert SRC DST [OPTION...]
convert() { millrace convert dataset "$@" --quiet >/dev/null; }
keys_of() { millrace read "$1" "${sequential[@]}" | sort -n | cut -f 2; }
# same_samples A B: checks that both have the same samples in the same order, byte for byte.
same_samples() {
  keys_of "$1" >keys.a
  keys_of "$2" >keys.b
  cmp keys.a keys.b
  rm -rf files.a files.b
  millrace read "$1" --out files.a --quiet >/dev/null
  millrace read "$2" --out files.b --quiet >/dev/null
  diff -r files.a files.b
  millrace verify "$2" --quiet >/dev/null
}

a_dataset_is_resharded() {
  convert shards other --jpeg keep --shard-samples 5 -j 1
  convert shards again --jpeg keep --shard-samples 5 -j 4
  diff -r other again
  [[ $(ls other/*.tar | wc -l) == 9 ]]
  same_samples shards other
  same "$(millrace inspect other | grep -E '^(classes|class names)')" "$(millrace inspect shards | grep -E '^(classes|class names)')"
  contains "$(cat other/dataset.json)" '"source_was_shuffled":true'
  convert other back --jpeg keep --shard-bytes 20KiB # the original shards
  for shard in shards/*.tar; do cmp "$shard" "back/${shard#*/}"; done
  convert shards/dataset.json by-list --jpeg keep --shard-samples 5
  diff -r other by-list
  convert shards shuffled --jpeg keep --order shuffle
  keys_of shuffled >keys.a
  keys_of shards >keys.b
  ! cmp -s keys.a keys.b || fail "not shuffled"
  cmp <(sort keys.a) <(sort keys.b)
}

tars_are_named_by_folders_patterns_and_globs() {
  mkdir tars
  cp shards/*.tar tars
  convert tars a --jpeg keep
  same_samples shards a
  convert 'tars/*.tar' b --jpeg keep
  convert 'tars/shard-{000000..000006}.tar' c --jpeg keep
  convert "$(printf '::%s' tars/*.tar | cut -c 3-)" d --jpeg keep
  for other in b c d; do diff -r a $other; done
  cp tars/shard-000000.tar tars/.hidden.tar
  convert tars e --jpeg keep
  diff -r a e
  convert tars f --jpeg keep --ignore shard-000000.tar
  same "$(keys_of f | wc -l)" 36
  same "$(status_of millrace convert dataset 'tars/x*.tar' none)" 1
  contains "$(cat errors)" "no file matches"
  cp photos/ring/0001.jpg tars # photos or tars?
  same "$(status_of millrace convert dataset tars none)" 1
  contains "$(cat errors)" ".tar"
  [[ ! -e none ]]
}

tars_of_any_tool_are_converted() {
  mkdir flat
  for shard in shards/*.tar; do tar xf "$shard" -C flat; tar tf "$shard"; done >names
  local format
  for format in v7 ustar gnu posix oldgnu; do
    tar --format=$format -cf $format.tar -C flat --no-recursion -T names
    convert $format.tar of-$format --jpeg keep
    same_samples shards of-$format
  done
  cp posix.tar recognized-by-content
  convert recognized-by-content content --jpeg keep
  diff -r of-posix content
}

fields_that_are_no_photos_are_copied() {
  mkdir members
  printf 'no photo' >members/a.jpg # copied, not decoded
  cp photos/ring/0001.jpg members/b.left.jpeg
  cp photos/ring/0002.jpg members/b.jpg
  printf '[1]' >members/b.JSON
  printf 'hi' >members/b.seg.png
  printf 'x' >"members/ü and space.txt"
  mkdir members/folder.d
  printf 'y' >members/folder.d/c.unknown
  printf 'z' >members/noextension
  printf 'z' >members/.hidden.txt
  printf 'z' >members/__meta__
  ln -s b.jpg members/link.jpg
  tar --sort=name -cf members.tar -C members a.jpg b.JSON b.jpg b.left.jpeg b.seg.png folder.d link.jpg noextension .hidden.txt __meta__ "ü and space.txt"
  convert members.tar kept --jpeg keep
  tar tf kept/shard-000000.tar >names
  printf '%s\n' a.jpg b.jpg b.json b.left.jpeg b.seg.png folder.d/c.unknown | cmp - <(head -6 names)
  same "$(wc -l <names)" 7
  tar xOf kept/shard-000000.tar b.left.jpeg | cmp - members/b.left.jpeg
  convert members.tar tiled
  tar xOf tiled/shard-000000.tar a.jpg | cmp - members/a.jpg
  same "$(tar tf tiled/shard-000000.tar)" "$(cat names)"
  ! tar xOf tiled/shard-000000.tar b.left.jpeg | cmp -s - members/b.left.jpeg || fail "not tiled"
  convert members.tar some --fields jpg,txt --on-error skip
  same "$(tar tf some/shard-000000.tar | wc -l)" 3
  same "$(status_of millrace convert dataset members.tar none --fields jpg,txt)" 1
  contains "$(cat errors)" "none of the chosen fields"
  convert members.tar ignoring --ignore '*.json' --ignore '*.png'
  same "$(tar tf ignoring/shard-000000.tar | wc -l)" 5
}

samples_with_equal_keys_are_not_merged() {
  mkdir one two
  printf 1 >one/k.a
  printf 2 >two/k.b
  tar cf 1.tar -C one k.a
  tar cf 2.tar -C two k.b
  convert '{1,2}.tar' both
  same "$(keys_of both | wc -l)" 2
  same "$(ls both/*.tar | wc -l)" 2
  printf 3 >two/l.b
  tar cf 3.tar -C two k.b l.b
  convert '3.tar::3.tar' apart # not neighbors
  same "$(keys_of apart | sort | uniq -c | xargs)" "2 k 2 l"
  millrace verify apart >/dev/null
  tar cf twice.tar --hard-dereference -C one k.a k.a
  same "$(status_of millrace convert dataset twice.tar none)" 1
  [[ ! -e none ]]
}

damage_is_an_error() {
  cp -r shards damaged
  printf X | dd of=damaged/shard-000001.tar bs=1 seek=1600 conv=notrunc status=none
  same "$(status_of millrace convert dataset damaged none --jpeg keep)" 1
  one_line <(tail -1 errors)
  contains "$(cat errors)" "damaged/shard-000001.tar"
  [[ ! -e none ]]
  same "$(status_of millrace convert dataset damaged rest --jpeg keep --on-error skip)" 0
  same "$(sed -n 's/^skipped  *//p' out)" 1
  head -c 5000 shards/shard-000002.tar >cut.tar
  same "$(status_of millrace convert dataset cut.tar none)" 1
  contains "$(cat errors)" cut.tar
  tar cf empty.tar -T /dev/null
  same "$(status_of millrace convert dataset empty.tar none)" 1
  printf x >members.big
  tar --format=ustar -cf big.tar members.big
  need_python
  "$python" - <<'PY' # a member of 2 GiB of zeros, as a sparse file
header = bytearray(open("big.tar", "rb").read(512))
header[124:136] = b"%011o\0" % (2 << 30)
header[148:156] = b" " * 8
header[148:156] = b"%06o\0 " % sum(header)
with open("big.tar", "wb") as tar:
    tar.write(header)
    tar.truncate(512 + (2 << 30) + 1024)
PY
  same "$(status_of millrace convert dataset big.tar none)" 1
  contains "$(cat errors)" "too large"
  contains "$(cat errors)" "members"
  [[ ! -e none ]]
}

token_datasets_are_refused() {
  for _ in 1 2 3; do cat "$here"/*.sh; done >book.txt
  convert book.txt tokens
  same "$(status_of millrace convert dataset tokens none)" 1
  contains "$(cat errors)" "convert the text itself"
}

webdataset_reads_the_same_samples() {
  need_python
  "$python" -c 'import webdataset' 2>/dev/null || skip "no webdataset in $python"
  mkdir "wds in"
  printf 'a' >"wds in/x.y.Z.txt"
  printf 'b' >"wds in/x.cls"
  mkdir "wds in/d.e"
  printf 'c' >"wds in/d.e/long$(printf '%0120d' 1).json"
  printf 'd' >"wds in/ünicode.a.b.c"
  tar --sort=name -cf wds.tar -C "wds in" .
  convert wds.tar converted
  "$python" - wds.tar converted/shard-000000.tar <<'PY' 2>wds.errors || fail "$(tail -1 wds.errors)"
import sys, webdataset
a, b = ([{k: v for k, v in s.items() if k not in ("__url__", "__local_path__")} for s in webdataset.WebDataset(p, shardshuffle=False)]
        for p in sys.argv[1:])
assert len(a) == 3 and a == b, (a, b)
PY
}

a_killed_conversion_resumes() {
  local i pid
  convert shards whole --jpeg keep --shard-samples 2
  for i in 1 2 3 4; do
    rm -rf killed
    MILLRACE_FAULT=commit:delay=20ms "$MILLRACE" convert dataset shards killed --jpeg keep --shard-samples 2 --quiet >/dev/null 2>&1 &
    pid=$!
    until [[ -e killed/shard-00000$i.tar ]]; do kill -0 $pid; sleep 0.01; done
    kill -KILL $pid
    wait $pid 2>/dev/null || :
    convert shards killed --jpeg keep --shard-samples 2 --resume
    diff -r whole killed
  done
}

run_cases a_dataset_is_resharded tars_are_named_by_folders_patterns_and_globs tars_of_any_tool_are_converted \
  fields_that_are_no_photos_are_copied samples_with_equal_keys_are_not_merged damage_is_an_error token_datasets_are_refused \
  webdataset_reads_the_same_samples a_killed_conversion_resumes
