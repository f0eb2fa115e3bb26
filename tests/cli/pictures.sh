#!/usr/bin/env bash
# PNG and WebP beside JPEG: datasets of them are read, verified and inspected.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 4 --side 40 photos >/dev/null

# pictures: the photos of `photos`, every other one as PNG or WebP.
make_pictures() {
  [[ -n $python ]] && "$python" -c 'from PIL import Image, features; assert features.check("webp")' 2>/dev/null ||
    skip "no Python with Pillow and WebP here"
  [[ ! -d pictures ]] || return 0
  cp -r photos pictures
  "$python" - <<'PY'
import pathlib
from PIL import Image
for i, path in enumerate(sorted(pathlib.Path("pictures").glob("*/*.jpg"))):
    if i % 3:
        Image.open(path).save(path.with_suffix([None, ".png", ".webp"][i % 3]), **({"lossless": True} if i % 3 == 2 else {}))
        path.unlink()
PY
}

a_dataset_of_jpeg_png_and_webp_is_read_as_one() {
  make_pictures
  millrace convert dataset pictures mixed --quiet >/dev/null
  tar tf mixed/shard-000000.tar | sed 's/.*\.//' | sort -u | paste -sd' ' >kinds
  same "$(cat kinds)" "cls jpg png webp"
  millrace verify mixed >/dev/null
  millrace read mixed --decode image --size 24 --crop random --json >images
  millrace read mixed --json >bytes
  same "$(json 'd["samples_count"], d["once"]' images)" "$(json 'd["samples_count"], d["once"]' bytes)"
}

what_a_picture_is_tells_its_content_not_its_name() {
  make_pictures
  mkdir -p renamed
  local file
  for file in pictures/*/*.png pictures/*/*.webp; do cp "$file" "renamed/$(basename "${file%.*}").jpg"; done
  tar cf renamed.tar --sort=name -C renamed .
  millrace read renamed.tar --decode image --size 24 --json >report
  same "$(json 'd["samples_count"]' report)" "$(find renamed -name '*.jpg' | wc -l)"
}

verify_names_pictures_that_can_not_be_decoded() {
  make_pictures
  local png webp
  png=$(find pictures -name '*.png' | sort | head -1) webp=$(find pictures -name '*.webp' | sort | head -1)
  mkdir -p broken
  head -c 300 "$png" >broken/a.png
  head -c 300 "$webp" >broken/b.webp
  cp "$png" broken/c.png
  tar cf broken.tar --sort=name -C broken a.png b.webp c.png
  same "$(status_of millrace verify broken.tar)" 1
  contains "$(cat out errors)" "undecodable PNG in a.png"
  contains "$(cat out errors)" "undecodable WebP in b.webp"
  [[ $(cat out errors) != *"c.png"* ]] || fail "a whole picture is called bad"
}

inspect_tells_what_they_are() {
  make_pictures
  local png webp
  png=$(find pictures -name '*.png' | sort | head -1) webp=$(find pictures -name '*.webp' | sort | head -1)
  millrace inspect "$png" --json >report
  same "$(json 'd["kind"], d["width_pixels"], d["height_pixels"], d["color"], d["precision_bits"], d["decodable"]' report)" \
    "('png', 40, 40, 'RGB', 8, True)"
  millrace inspect "$webp" --json >report
  same "$(json 'd["kind"], d["width_pixels"], d["lossless"], d["animation"], d["decodable"]' report)" \
    "('webp', 40, True, False, True)"
  head -c 300 "$png" >cut.png
  millrace inspect cut.png --json >report
  same "$(json 'd["width_pixels"], d["decodable"]' report)" "(40, False)"
}

a_ppm_is_a_picture_too() {
  need_python
  mkdir -p ppm
  "$python" -c 'import sys
for i in range(6):
    open("ppm/%d.ppm" % i, "wb").write(b"P6\n20 10\n255\n" + bytes([40 * i] * 600))'
  millrace inspect ppm/1.ppm --json >report
  same "$(json 'd["kind"], d["width_pixels"], d["height_pixels"], d["decodable"]' report)" "('ppm', 20, 10, True)"
  tar cf ppm.tar --sort=name -C ppm .
  millrace read ppm.tar --decode image --size 8 --json >report
  same "$(json 'd["samples_count"]' report)" 6
}

run_cases a_dataset_of_jpeg_png_and_webp_is_read_as_one what_a_picture_is_tells_its_content_not_its_name \
  verify_names_pictures_that_can_not_be_decoded inspect_tells_what_they_are a_ppm_is_a_picture_too
