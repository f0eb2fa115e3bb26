#!/usr/bin/env bash
# `millrace inspect` of files other than shards: .npy compared with NumPy, JPEG with Pillow, and
# malformed files.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 2 --side 40 photos >/dev/null
need_module() {
  need_python
  for candidate in "$python" /usr/bin/python3; do
    "$candidate" -c "import $1" 2>/dev/null && { python=$candidate; return; }
  done
  skip "no $1 for Python here"
}

# save NAME EXPRESSION: writes a NumPy array to NAME.npy
save() { "$python" -c 'import sys, numpy as np; np.save(sys.argv[1], eval(sys.argv[2]), allow_pickle=True)' "$1.npy" "$2"; }

array_descriptions_match_numpy() {
  need_module numpy
  save c 'np.arange(12, dtype=">f4").reshape(3, 4)'
  save fortran 'np.asfortranarray(np.zeros((2, 3)))'
  save scalar 'np.int64(5)'
  save fields 'np.zeros(7, [("x", "<f4"), ("y", "<i2", (2,))])'
  mv scalar.npy scalar.dat # the content decides, not the name
  millrace inspect c.npy --json >report
  same "$(json 'd["kind"], d["dtype"], d["shape"], d["order"], d["elements_count"], d["data_offset"], d["data_bytes"], d["file_bytes"]' report)" \
    "('npy', '>f4', [3, 4], 'C', 12, 128, 48, 176)"
  millrace inspect fortran.npy --json >report
  same "$(json 'd["dtype"], d["shape"], d["order"]' report)" "('<f8', [2, 3], 'Fortran')"
  millrace inspect scalar.dat --json >report
  same "$(json 'd["dtype"], d["shape"], d["elements_count"]' report)" "('<i8', [], 1)"
  millrace inspect fields.npy --json >report
  same "$(json 'eval(d["dtype"]), d["element_bytes"], d["data_bytes"]' report)" "([('x', '<f4'), ('y', '<i2', (2,))], 8, 56)"
  millrace inspect c.npy | grep -qx 'shape  *\[3, 4\]'
}

a_wrong_array_file_is_refused_in_one_line_with_the_offset() {
  need_module numpy
  save good 'np.arange(12, dtype="<f4")'
  save objects 'np.array([{}, None], dtype=object)'
  head -c 171 good.npy >short.npy
  head -c 50 good.npy >head.npy
  sed 's/False/Maybe/' good.npy >order.npy
  echo hello >text.npy
  local name place
  while read -r name place; do
    same "$(status_of millrace inspect "$name.npy")" 1 "status of $name.npy"
    one_line errors
    contains "$(cat errors)" "$name.npy at $place: "
    same "$(cat out)" "" "stdout"
  done <<<"short 128
head 8
order 44
text 0
objects 21"
  same "$(status_of millrace inspect objects.npy)" 1
  contains "$(cat errors)" pickle
}

photo_descriptions_match_pillow() {
  [[ -d $data/jpeg-variety ]] || skip "no test data at $data/jpeg-variety (set MILLRACE_TEST_DATA)"
  need_module PIL
  local file
  for file in "$data"/jpeg-variety/*; do
    same "$(status_of millrace inspect "$file" --json)" 0 "status of $file ($(cat errors))"
    cat out
  done >reports
  "$python" -W ignore - <<'PY'
import json
from PIL import Image
for line in open("reports"):
    d = json.loads(line)
    with Image.open(d["path"]) as image:
        size, bands, info = image.size, len(image.getbands()), image.info
    assert d["kind"] == "jpeg" and d["decodable"], d
    assert (d["width_pixels"], d["height_pixels"]) == size, (d, size)
    assert d["components_count"] == bands == len(d["sampling_factors"]), (d, bands)
    assert (d["process"] == "progressive") == bool(info.get("progressive")), d
    assert (d["jfif"] is not None) == ("jfif" in info), d
    assert d["adobe_transform"] == info.get("adobe_transform"), d
    icc = info.get("icc_profile")
    assert d["icc_bytes"] == len(icc) if icc else d["icc_chunks_missing_count"] > 0 or d["icc_bytes"] == 0, d
PY
  same "$(wc -l <reports)" "$(find "$data/jpeg-variety" -type f | wc -l)"
}

headers_of_a_jpeg_are_read_up_to_64_mib() {
  need_python
  "$python" - <<'PY'
segment = b"\xff\xe4\xff\xff" + bytes(65533)
scan = bytes.fromhex("ffc0000b080001000101011100" "ffda0008010100003f00" "ffd9")
for name, count in ("below", 900), ("beyond", 1100):
    open(name + ".jpg", "wb").write(b"\xff\xd8" + count * segment + scan)
PY
  same "$(status_of millrace inspect below.jpg)" 0
  same "$(status_of millrace inspect beyond.jpg)" 1
  one_line errors
  contains "$(cat errors)" "beyond.jpg at $((64 << 20)): "
}

files_made_by_jpegtran_are_described() {
  command -v jpegtran >/dev/null && command -v djpeg >/dev/null && command -v cjpeg >/dev/null || skip "no jpegtran here"
  need_python
  local photo=photos/ring/0001.jpg sample
  jpegtran -progressive -restart 3B $photo >progressive.jpg
  millrace inspect progressive.jpg --json >report
  same "$(json 'd["process"], d["restart_interval"], d["coding"]' report)" "('progressive', 3, 'Huffman')"
  same "$(json 'd["cuttable"]' report)" False "a progressive file has no grid"
  jpegtran -crop 64x64+0+0 -restart 2B $photo >segments.jpg
  millrace inspect segments.jpg --json >report
  same "$(json 'd["cuttable"], d["segment_width_pixels"], d["segment_height_pixels"]' report)" "(True, 32, 16)"
  jpegtran -crop 64x64+0+0 -restart 3B $photo >segments.jpg
  millrace inspect segments.jpg --json >report
  same "$(json 'd["cuttable"], d["restart_interval"]' report)" "(False, 3)"
  if jpegtran -arithmetic $photo >arithmetic.jpg 2>/dev/null; then
    millrace inspect arithmetic.jpg --json >report
    same "$(json 'd["coding"]' report)" arithmetic
  fi
  for sample in 1x1:4:4:4 2x1:4:2:2 2x2:4:2:0 1x2:4:4:0 4x1:4:1:1; do
    djpeg $photo | cjpeg -sample "${sample%%:*}" >sampled.jpg
    millrace inspect sampled.jpg --json >report
    same "$(json 'd["subsampling"], d["sampling_factors"][0]' report)" "('${sample#*:}', '${sample%%:*}')"
  done
}

headers_longer_than_the_first_read_are_parsed() {
  need_python
  "$python" - photos/ring/0001.jpg <<'PY'
import sys
photo = open(sys.argv[1], "rb").read()
note = b"\xff\xfe\xff\xff" + bytes(65533)
open("long.jpg", "wb").write(photo[:2] + 12 * note + photo[2:])
open("cut.jpg", "wb").write(photo[:2] + 12 * note)
PY
  millrace inspect photos/ring/0001.jpg --json >short
  millrace inspect long.jpg --json >report
  same "$(json 'd["header_bytes"]' report)" "$(json 'd["header_bytes"] + 12 * 65537' short)"
  same "$(json 'd["width_pixels"], d["subsampling"]' report)" "$(json 'd["width_pixels"], d["subsampling"]' short)"
  same "$(status_of millrace inspect cut.jpg)" 1
  one_line errors
  contains "$(cat errors)" "cut.jpg at $((2 + 12 * 65537)): "
}

an_undecodable_photo_is_described() {
  [[ -d $data/jpeg-malformed ]] || skip "no test data at $data/jpeg-malformed (set MILLRACE_TEST_DATA)"
  need_python
  millrace inspect "$data"/jpeg-malformed/*lossless_sel3.jpg --json >report
  same "$(json 'd["process"], d["precision_bits"], d["decodable"], "0xc3" in d["because"]' report)" "('lossless', 16, False, True)"
  : >empty.jpg
  same "$(status_of millrace inspect empty.jpg)" 1
  contains "$(cat errors)" "empty.jpg at 0: "
  # single files have no checksums to verify
  same "$(status_of millrace verify photos/ring/0001.jpg)" 1
  one_line errors
}

a_checkpoints_configuration_is_accepted_by_train() {
  millrace convert dataset photos shards --quiet >/dev/null
  cat >odd.yaml <<'YAML'
run:   {dir: "runs/an odd name", seed: 9, steps: 2, max_time: 3h}
data:  {train: [{path: shards, weight: 3}, {path: shards, weight: 1.5}], memory: 32MiB, image: {size: 16, scale: [0.25, 0.75]}}
model: {layers: 1, heads: 2, width: 16, patch: 8, freeze: "embed.*, !blocks.0.*"}
batch: {global: 8, accumulation: 2}
checkpoint: {every: 15min}
YAML
  millrace train odd.yaml --quiet >/dev/null
  millrace train odd.yaml --print-config >original.yaml
  millrace inspect "runs/an odd name/ckpt" --config >back.yaml
  millrace inspect "runs/an odd name" --config | cmp - back.yaml || fail "the run's folder gives another configuration"
  millrace train back.yaml --print-config | diff - original.yaml || fail "the configuration changed"
  same "$(millrace inspect "runs/an odd name" --config --json)" "$(millrace train odd.yaml --print-config --json)"
  same "$(status_of millrace inspect shards --config)" 1
  one_line errors
}

# Other tools write arbitrary names into a tar or a safetensors file.
names_from_files_are_escaped_and_aligned() {
  local reversed_name=$'\xe2\x80\xaegpj' header # U+202E
  cp photos/ring/0001.jpg "$reversed_name.jpg"
  tar cf odd.tar "$reversed_name.jpg"
  contains "$(millrace read odd.tar --decode none --print keys 2>errors)" "$reversed_name" # unescaped for other programs
  script -qec "'$MILLRACE' read odd.tar --decode none --print keys" /dev/null </dev/null >seen 2>&1
  contains "$(cat seen)" '\xe2\x80\xaegpj'
  ! grep -q "$reversed_name" seen || fail "shown unescaped: $(cat -v seen)"
  header='{"\u001b[31mred":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"漢字":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
  header+=$(printf '%*s' $(((8 - ${#header} % 8) % 8)) '')
  printf "\\x$(printf %02x "$(printf %s "$header" | wc -c)")\\0\\0\\0\\0\\0\\0\\0%s12" "$header" >odd.safetensors
  millrace inspect odd.safetensors >report
  ! grep -q $'\e' report || fail "an escape sequence: $(cat -v report)"
  contains "$(cat report)" '\x1b[31mred  U8'
  contains "$(cat report)" '漢字         U8' # 4 columns of 11
  contains "$(millrace inspect odd.safetensors --json)" '\u001b[31mred'
}

run_cases array_descriptions_match_numpy a_wrong_array_file_is_refused_in_one_line_with_the_offset \
  photo_descriptions_match_pillow headers_of_a_jpeg_are_read_up_to_64_mib files_made_by_jpegtran_are_described headers_longer_than_the_first_read_are_parsed \
  an_undecodable_photo_is_described a_checkpoints_configuration_is_accepted_by_train \
  names_from_files_are_escaped_and_aligned
