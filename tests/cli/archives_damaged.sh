#!/usr/bin/env bash
# `millrace convert dataset` of damaged compressed tars and zips.
. "$(dirname "$0")/lib.sh"
. "$here/archive_data.sh"

# position FIRST COUNT: a random number.
position() { echo $(($1 + (RANDOM * 32768 + RANDOM) % $2)); }

# Either the same dataset, or an error that names the file.
damage_never_gives_another_dataset() {
  need_python
  local format bytes at expected
  for format in "${formats[@]}" zip; do
    if [[ $format == zip ]]; then
      "$python" -c 'import zipfile, tarfile
t = tarfile.open("a.tar")
z = zipfile.ZipFile("a.tar.zip", "w", zipfile.ZIP_DEFLATED)
for m in t:
    if m.isfile(): z.writestr(m.name, t.extractfile(m).read())
z.close()'
      expected=of-zip
      convert a.tar.zip of-zip
    else
      expected=expected
      compress "$format" || continue
    fi
    bytes=$(stat -c %s "a.tar.$format")
    local positions=(5 "$(position 0 "$bytes")" "$(position 0 "$bytes")" $((bytes - 6)) $((bytes - 1)))
    for at in "${positions[@]}"; do
      head -c $at "a.tar.$format" >"cut.tar.$format"
      rm -rf found
      echo "$format cut at $at" >case
      if convert "cut.tar.$format" found 2>errors; then fail "$(cat case)"; fi
      contains "$(cat errors)" "cut.tar.$format"
      [[ ! -e found/dataset.json ]]
      "$python" - "a.tar.$format" "flip.tar.$format" $at <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[int(sys.argv[3])] ^= 0x10
open(sys.argv[2], "wb").write(data)
PY
      echo "$format changed at $at" >case
      rm -rf found
      if convert "flip.tar.$format" found 2>errors; then
        for shard in $expected/*.tar; do cmp "$shard" "found/${shard#*/}" || fail "$(cat case)"; done
      else
        contains "$(cat errors)" "flip.tar.$format"
        [[ ! -e found/dataset.json ]]
      fi
    done
  done
}

run_cases damage_never_gives_another_dataset
