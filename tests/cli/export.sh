#!/usr/bin/env bash
# convert dataset --format tar and folder: datasets as other tools read them, and back.
. "$(dirname "$0")/lib.sh"
: "${RENDER_SHAPES:?}"

"$RENDER_SHAPES" --count 4 --side 48 photos >/dev/null
millrace convert dataset photos shards --shard-samples 10 --quiet >/dev/null || exit 1

# write_tar FILE [NAME TEXT]...
write_tar() {
  "$python" - "$@" <<'PY'
import io, sys, tarfile
with tarfile.open(sys.argv[1], "w") as tar:
    for name, text in zip(sys.argv[2::2], sys.argv[3::2]):
        member = tarfile.TarInfo(name)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
PY
}

tars_have_the_members_without_an_index() {
  millrace convert dataset shards tars --format tar --shard-samples 10 --quiet >/dev/null
  for shard in shards/*.tar; do
    bytes=$(stat -c %s "tars/${shard#*/}")
    [[ $bytes -lt $(stat -c %s "$shard") ]] || fail "the tar is as long as the shard"
    cmp -n "$bytes" "$shard" "tars/${shard#*/}"
    same "$(tail -c 1024 "tars/${shard#*/}" | tr -d '\0' | wc -c)" 0 "end of the archive"
    same "$(tar -tf "tars/${shard#*/}")" "$(tar -tf "$shard")" members
  done
  same "$(millrace read tars --seed 3 | grep -E '^(once|order) ')" "$(millrace read shards --seed 3 | grep -E '^(once|order) ')"
  millrace verify tars >/dev/null
  millrace convert dataset tars again --shard-samples 10 --quiet >/dev/null
  for shard in shards/*.tar; do cmp "$shard" "again/${shard#*/}"; done
}

a_killed_export_of_tars_resumes_to_the_same_bytes() {
  millrace convert dataset shards whole --format tar --shard-samples 3 -j 1 --quiet >/dev/null
  same "$(MILLRACE_FAULT=commit:kill@4 status_of millrace convert dataset shards killed --format tar --shard-samples 3)" 137
  millrace convert dataset shards killed --format tar --shard-samples 3 --resume -j 3 --quiet >/dev/null
  diff -r whole killed
}

a_folder_of_classes_is_the_original() {
  millrace convert dataset photos kept --jpeg keep --quiet >/dev/null
  millrace convert dataset kept files --format folder --quiet >/dev/null
  diff -r -x .millrace-export.json photos files
  millrace convert dataset files back --jpeg keep --quiet >/dev/null
  cmp kept/shard-000000.tar back/shard-000000.tar
}

a_folder_has_splits_and_any_fields() {
  need_python
  write_tar any.tar a.json '{"x":1}' a.txt one 'ü b.txt' two c/d.seg.png mask c/d.txt three
  millrace convert dataset any.tar any --format folder --quiet >/dev/null
  same "$(cd any && find . -type f ! -name .millrace-export.json | sort | tr '\n' ' ')" "./a.json ./a.txt ./c/d.seg.png ./c/d.txt ./ü b.txt "
  same "$(cat any/c/d.seg.png)" mask
  millrace convert dataset shards halves --format folder --split a=0.5,b=0.5 --quiet >/dev/null
  mkdir both && cp -r halves/a/. halves/b/. both
  millrace convert dataset shards all --format folder --quiet >/dev/null
  diff -r -x .millrace-export.json all both
}

classes_without_samples_have_folders() {
  mkdir empty && cp -r photos/moon photos/ring empty && mkdir empty/cross
  millrace convert dataset empty holes --quiet >/dev/null
  millrace convert dataset holes full --format folder --split a=0.5,b=0.5 --quiet >/dev/null
  same "$(cd full && echo */*)" "a/cross a/moon a/ring b/cross b/moon b/ring"
  need_python
  write_tar dots.tar ./a.txt 1 ./b/c.txt 2
  millrace convert dataset dots.tar dots --format folder --fields txt --quiet >/dev/null
  same "$(cat dots/a.txt dots/b/c.txt)" 12
}

hostile_keys_leave_nothing() {
  need_python
  mkdir inside
  write_tar up.tar a.txt 1 x/../../up.txt 2
  refused "up" millrace convert dataset up.tar inside/out --format folder
  write_tar twice.tar a.txt 1 b.txt 2 a.txt 3
  refused "another sample's file or folder: a.txt" millrace convert dataset twice.tar inside/out --format folder
  write_tar both.tar a.txt/b.txt 1 c.txt 2 a.txt 3
  refused "another sample's file or folder: a.txt" millrace convert dataset both.tar inside/out --format folder
  same "$(find . -path './inside/*' -o -name 'up.txt')" "" leftovers
}

existing_folders_are_kept() {
  cp -r photos mine
  refused "a folder with other files" millrace convert dataset shards mine --format folder --force
  diff -r photos mine
  millrace convert dataset shards old --format folder --quiet >/dev/null
  refused "an exported dataset" millrace convert dataset shards old --format folder
  touch old/cross/mark
  millrace convert dataset shards old --format folder --force --quiet >/dev/null
  [[ ! -e old/cross/mark ]] || fail "the old folder is still there"
  refused "cannot be resumed" millrace convert dataset shards old --format folder --resume
  echo words >text.txt
  refused "not for text" millrace convert dataset text.txt text --format tar
}

killed_exports_are_removed_by_the_next() {
  local round
  for round in 1 2 3 4; do
    "$MILLRACE" convert dataset shards dead/files --format folder --quiet >/dev/null 2>&1 &
    sleep "0.0$round"
    kill -KILL $! 2>/dev/null || true
    wait $! 2>/dev/null || true # until it is gone, with its lock
    [[ ! -e dead/files/cross ]] || break # complete
  done
  millrace convert dataset shards dead/files --format folder --force --quiet >/dev/null
  same "$(find dead -name '.tmp-*')" "" leftovers
  same "$(find dead/files -name '*.jpg' | wc -l)" 28
}

damaged_shards_are_named() {
  mkdir bad && cp shards/* bad
  printf 'XXXX' | dd of=bad/shard-000001.tar bs=1 seek=2100 conv=notrunc status=none
  refused "bad/shard-000001.tar" millrace convert dataset bad none --format folder
  [[ ! -e none ]] || fail "a folder was written"
}

run_cases tars_have_the_members_without_an_index a_killed_export_of_tars_resumes_to_the_same_bytes a_folder_of_classes_is_the_original \
  a_folder_has_splits_and_any_fields classes_without_samples_have_folders hostile_keys_leave_nothing existing_folders_are_kept killed_exports_are_removed_by_the_next damaged_shards_are_named
