#!/usr/bin/env bash
# `millrace convert dataset` of compressed tars and zips: the same dataset as of the uncompressed
# tar. Other tools compress them.
. "$(dirname "$0")/lib.sh"
. "$here/archive_data.sh"

# refuse SRC TEXT...: its conversion fails with these texts and leaves nothing.
refuse() {
  local text source=$1
  shift
  same "$(status_of millrace convert dataset "$source" refused --jpeg keep)" 1 "$source"
  for text in "$@"; do contains "$(cat errors)" "$text"; done
  one_line <(tail -1 errors)
  [[ ! -e refused ]]
}

a_compressed_tar_gives_the_dataset_of_the_tar() {
  local format count=0
  for format in "${formats[@]}"; do
    compress "$format" || continue
    count=$((count + 1))
    for workers in 1 4; do
      rm -rf found
      convert "a.tar.$format" found -j $workers
      for shard in expected/*.tar; do cmp "$shard" "found/${shard#*/}"; done
    done
  done
  ((count > 1)) || fail "only $count formats were tested"
  cp a.tar.gz recognized-by-content
  convert recognized-by-content content
  cmp expected/shard-000000.tar content/shard-000000.tar
}

a_zip_gives_the_dataset_of_its_tar() {
  need_python
  "$python" - <<'PY'
import os, zipfile
for name, method in ("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(name + ".zip", "w", method) as z:
        z.writestr("__MACOSX/._00001.jpg", b"x")
        for root, folders, files in os.walk("members"):
            folders.sort()
            for file in sorted(files):
                path = os.path.join(root, file)
                z.write(path, os.path.relpath(path, "members"))
PY
  tar -cf zip.tar -C members --no-recursion $("$python" -c 'import zipfile
print(*(n for n in zipfile.ZipFile("stored.zip").namelist() if n[0] != "_"))')
  convert zip.tar of-tar
  for name in stored deflated; do
    convert $name.zip $name
    for shard in of-tar/*.tar; do cmp "$shard" "$name/${shard#*/}"; done
  done
  if command -v zip >/dev/null; then
    (cd members && zip -q -X ../by-zip.zip -@) < <(tar tf zip.tar)
    convert by-zip.zip by-zip
    for shard in of-tar/*.tar; do cmp "$shard" "by-zip/${shard#*/}"; done
  fi
}

archives_are_named_by_folders_patterns_and_globs() {
  mkdir in
  local i
  for i in 1 2 3; do tar --sort=name -cf in/$i.tar -C members --transform "s,^,$i/," .; done
  cp -r in plain
  gzip in/1.tar in/2.tar # one of them is not compressed
  convert plain of-plain
  convert in a
  convert 'in/*' b
  convert "in/1.tar.gz::in/2.tar.gz::in/3.tar" c
  for other in a b c; do
    for shard in of-plain/*.tar; do cmp "$shard" "$other/${shard#*/}"; done
  done
  cp members/00001.jpg in
  refuse in "an archive"
}

standard_input_is_converted() {
  millrace convert dataset - from-stdin --jpeg keep --shard-samples 20 --quiet >/dev/null <a.tar
  cmp expected/shard-000001.tar from-stdin/shard-000001.tar
  gzip -c a.tar | millrace convert dataset - from-pipe --jpeg keep --shard-samples 20 --quiet >/dev/null
  cmp expected/shard-000001.tar from-pipe/shard-000001.tar
  head -c 2000000 a.tar | millrace convert dataset - refused 2>errors && fail "truncated"
  contains "$(tail -1 errors)" "truncated"
  contains "$(tail -1 errors)" ": - at "
  same "$(find . -maxdepth 1 -name '*stdin*' -o -maxdepth 1 -name 'refused*')" ./from-stdin
}

gzip_members_and_padding_are_read() {
  for part in 1 100000 200001; do # members whose boundaries are anywhere
    { head -c $part a.tar | gzip -1; tail -c +$((part + 1)) a.tar | gzip -9; printf '' | gzip; head -c 3000 /dev/zero; } >joined.tar.gz
    rm -rf found
    convert joined.tar.gz found
    cmp expected/shard-000001.tar found/shard-000001.tar
  done
  compress gz
  { cat a.tar.gz; printf junk; } >junk.tar.gz
  refuse junk.tar.gz "other data after its end" junk.tar.gz
}

hostile_and_unsuitable_archives_are_refused() {
  printf 'only text' | gzip >text.gz
  refuse text.gz "a file of another type" text.gz
  cp text.gz text.tar.gz
  refuse text.tar.gz "its content is not a tar: decompress it" text.tar.gz
  printf 'PK\003\004 no zip at all' >no.zip
  refuse no.zip no.zip
  tar -cf - -T /dev/null | gzip >empty.tar.gz
  refuse empty.tar.gz "no files"
  compress gz
  same "$(status_of millrace convert dataset a.tar.gz refused --order shuffle)" 2
  contains "$(cat errors)" "cannot be shuffled"
  mkdir jpg txt
  printf a >jpg/1.jpg
  printf b >jpg/2.jpg
  printf c >txt/1.txt
  tar -cf apart.tar -C jpg 1.jpg 2.jpg -C ../txt 1.txt
  refuse apart.tar "lie apart" apart.tar
  gzip -k apart.tar
  refuse apart.tar.gz "lie apart" apart.tar.gz
  if command -v bsdtar >/dev/null; then
    bsdtar --format zip --options zip:encryption=zipcrypt --passphrase x -cf secret.zip -C jpg 1.jpg
    refuse secret.zip encrypted 1.jpg
  fi
  need_python
  "$python" - <<'PY'
import gzip, zipfile
with zipfile.ZipFile("latin.zip", "w") as z: # a name that is not UTF-8
    z.writestr("caf_.txt", b"x")
data = open("latin.zip", "rb").read().replace(b"caf_", b"caf\xe9")
open("latin.zip", "wb").write(data)
with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as z: # 1.5 GiB of zeros
    with z.open("a.bin", "w", force_zip64=True) as f:
        for _ in range(96): f.write(bytes(16 << 20))
PY
  refuse bomb.zip "too large"
  same "$(status_of millrace convert dataset latin.zip latin)" 0
  contains "$(tar tf latin/shard-000000.tar)" 'caf'
}

a_killed_conversion_resumes() {
  compress xz || skip "no xz"
  local i pid
  convert a.tar.xz whole
  for i in 0 1; do
    rm -rf killed
    MILLRACE_FAULT=commit:delay=20ms "$MILLRACE" convert dataset a.tar.xz killed --jpeg keep --shard-samples 20 --quiet >/dev/null 2>&1 &
    pid=$!
    until [[ -e killed/shard-00000$i.tar ]]; do kill -0 $pid; sleep 0.01; done
    kill -KILL $pid
    wait $pid 2>/dev/null || :
    convert a.tar.xz killed --resume
    diff -r whole killed
  done
  rm -rf killed
  MILLRACE_FAULT=commit:delay=20ms "$MILLRACE" convert dataset a.tar.xz killed --jpeg keep --shard-samples 20 --quiet >/dev/null 2>&1 &
  pid=$!
  until [[ -e killed/shard-000000.tar ]]; do kill -0 $pid; sleep 0.01; done
  kill -KILL $pid
  wait $pid 2>/dev/null || :
  gzip -c a.tar >a.tar.xz # other bytes under the same name
  same "$(status_of millrace convert dataset a.tar.xz killed --jpeg keep --shard-samples 20 --resume)" 1
}

run_cases standard_input_is_converted a_compressed_tar_gives_the_dataset_of_the_tar a_zip_gives_the_dataset_of_its_tar \
  archives_are_named_by_folders_patterns_and_globs gzip_members_and_padding_are_read \
  hostile_and_unsuitable_archives_are_refused a_killed_conversion_resumes
