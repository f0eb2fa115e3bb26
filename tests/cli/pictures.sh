#!/usr/bin/env bash
# Datasets that mix PNG, WebP and JPEG are read, verified and inspected.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 4 --side 40 photos >/dev/null

# pictures: the photos of `photos`, two of three as PNG or WebP.
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

image_formats_are_detected_by_content() {
  make_pictures
  mkdir -p renamed
  local file
  for file in pictures/*/*.png pictures/*/*.webp; do cp "$file" "renamed/$(basename "${file%.*}").jpg"; done
  tar cf renamed.tar --sort=name -C renamed .
  millrace read renamed.tar --decode image --size 24 --json >report
  same "$(json 'd["samples_count"]' report)" "$(find renamed -name '*.jpg' | wc -l)"
}

verify_names_undecodable_images() {
  make_pictures
  local png webp
  png=$(find pictures -name '*.png' | sort | head -1) webp=$(find pictures -name '*.webp' | sort | head -1)
  mkdir -p broken
  head -c 300 "$png" >broken/a.png
  head -c 300 "$webp" >broken/b.webp
  cp "$png" broken/c.png
  tar cf broken.tar --sort=name -C broken a.png b.webp c.png
  same "$(status_of millrace verify broken.tar --decode)" 1
  contains "$(cat out errors)" "undecodable PNG in a.png"
  contains "$(cat out errors)" "undecodable WebP in b.webp"
  [[ $(cat out errors) != *"c.png"* ]] || fail "an intact picture is reported as bad"
}

inspect_describes_images() {
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

ppm_is_supported() {
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

convert_names_a_broken_image() {
  make_pictures
  local png
  png=$(find pictures -name '*.png' | sort | head -1)
  mkdir -p torn/a
  cp "$png" torn/a/1.png
  head -c 300 "$png" >torn/a/2.png
  same "$(status_of millrace convert dataset torn none)" 1
  one_line errors
  contains "$(cat errors)" "PNG cannot be decoded: torn/a/2.png"
  [[ ! -e none/dataset.json ]] || fail "a dataset with a broken picture"
}

raw_images_have_the_pixels_of_their_files() {
  make_pictures
  mkdir -p lossless
  local file
  for file in pictures/*/*.png pictures/*/*.webp; do
    mkdir -p "lossless/$(basename "$(dirname "$file")")"
    cp "$file" "lossless/$(basename "$(dirname "$file")")/"
  done
  millrace convert dataset lossless files --quiet >/dev/null
  millrace convert dataset lossless raw --store raw --quiet >/dev/null
  same "$(tar tf raw/shard-000000.tar | sed 's/.*\.//' | sort -u | paste -sd' ')" "cls ppm"
  for of in files raw; do
    millrace read $of --decode image --size 24 --crop random --flip --epoch 3 --quiet --out "pixels-$of" >/dev/null
  done
  [[ $(find pixels-raw -name '*.ppm' | wc -l) -gt 5 ]]
  diff -r pixels-files pixels-raw
  millrace verify raw >/dev/null
}

both_jpeg_decoders_give_the_same_pixels() {
  [[ -d $data/clothing ]] || skip "no test data at $data/clothing (set MILLRACE_TEST_DATA)"
  millrace convert dataset "$data/clothing/validation" tiled --quiet >/dev/null
  for decoder in auto libjpeg; do
    millrace read tiled --decode image --size 40 --flip --epoch 1 --jpeg-decoder $decoder --quiet --out "by-$decoder" >/dev/null
  done
  diff -r by-auto by-libjpeg
  same "$(status_of millrace read tiled --decode image --jpeg-decoder turbo)" 2
  contains "$(cat errors)" "libjpeg"
}

raw_images_are_upright_and_at_most_max_side() {
  make_pictures
  "$python" - <<'PY'
import pathlib
from PIL import Image
pathlib.Path("tall/a").mkdir(parents=True, exist_ok=True)
turn = Image.Exif()
turn[0x112] = 6
Image.new("RGB", (120, 60), (200, 100, 50)).save("tall/a/1.png", exif=turn)
Image.new("RGB", (20, 30), (1, 2, 3)).save("tall/a/2.png")
PY
  millrace convert dataset tall tall-raw --store raw --max-side 40 --quiet >/dev/null
  tar xf tall-raw/shard-000000.tar
  same "$(head -2 a/1.ppm | tail -1) $(head -2 a/2.ppm | tail -1)" "20 40 20 30"
  same "$(tail -c 3 a/1.ppm | od -An -tu1 | xargs)" "200 100 50"
}

raw_images_need_distinct_keys() {
  make_pictures
  mkdir -p twice
  cp "$(find pictures -name '*.png' -print -quit)" twice/1.png
  cp "$(find pictures -name '*.webp' -print -quit)" twice/1.webp
  millrace convert dataset twice two --quiet >/dev/null
  same "$(status_of millrace convert dataset twice one --store raw)" 1
  contains "$(cat errors)" "two images of a sample"
  same "$(status_of millrace convert dataset pictures one --store raw --jpeg keep)" 2
}

augmented_pixels_do_not_depend_on_workers_or_ranks() {
  millrace convert dataset photos shards --quiet >/dev/null
  read_augmented() { millrace read shards --decode image --size 24 --flip --epoch 2 --quiet --batch 8 --micro 4 "$@" >/dev/null; }
  read_augmented --out plain
  read_augmented --randaugment 2,9 --jitter 0.4,0.4,0.4,0.1 --workers 1 --out alone
  read_augmented --randaugment 2,9 --jitter 0.4,0.4,0.4,0.1 --workers 3 --rank 0 --ranks 2 --out shared
  read_augmented --randaugment 2,9 --jitter 0.4,0.4,0.4,0.1 --workers 3 --rank 1 --ranks 2 --out shared
  diff -r alone shared
  ! diff -rq plain alone >/dev/null || fail "nothing was augmented"
  read_augmented --randaugment 0,9 --out idle
  diff -r plain idle
  for bad in "--randaugment 2" "--randaugment 2,31" "--randaugment 2.5,9" "--randaugment -1,9" "--jitter 2" "--jitter 0,0,0,0.6" \
    "--jitter 0,0,0,0,0" "--jitter x"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace read shards --decode image $bad)" 2 "status with $bad"
    one_line errors
    contains "$(cat errors)" "expected"
  done
}

# check_mixed SEED BATCH MICRO MIXUP CUTMIX: prints the second implementation's counts.
check_mixed() {
  local options=(--decode image --size 24 --crop random --seed "$1" --epoch 2 --batch "$2" --micro "$3" --quiet)
  rm -rf plain-pictures mixed-pictures
  millrace read shards "${options[@]}" --out plain-pictures >/dev/null
  millrace read shards "${options[@]}" --mixup "$4" --cutmix "$5" --print json --out mixed-pictures >mixed-lines
  "$python" "$TEST_SOURCE_DIR/tests/oracle/mixup.py" plain-pictures mixed-pictures mixed-lines "$@"
}

mixed_images_match_a_second_implementation() {
  need_python
  millrace convert dataset photos shards --quiet --force >/dev/null
  local samples blended pasted left
  samples=$(find photos -name '*.jpg' | wc -l)
  read -r blended pasted left < <(check_mixed 1 16 4 0.4 1)
  [[ $blended -gt 0 && $pasted -gt 0 && $((blended + pasted + left)) == "$samples" ]] || fail "$blended $pasted $left of $samples"
  same "$(check_mixed 2 8 8 1.7 0)" "$samples 0 0"
  same "$(check_mixed 3 8 8 0 0.2)" "0 $samples 0"
  same "$(check_mixed 4 8 1 0.4 1)" "0 0 $samples"
}

mixed_images_do_not_depend_on_workers_or_ranks() {
  millrace convert dataset photos shards --quiet --force >/dev/null
  read_mixed() { millrace read shards --decode image --size 24 --quiet --batch 8 --micro 4 --mixup 0.8 --cutmix 1 "$@" >/dev/null; }
  read_mixed --workers 1 --out mixed-alone
  read_mixed --workers 4 --rank 0 --ranks 2 --out mixed-shared
  read_mixed --workers 2 --rank 1 --ranks 2 --out mixed-shared
  diff -r mixed-alone mixed-shared
  for bad in "--mixup x" "--mixup -1" "--mixup 1,2" "--cutmix 101" "--cutmix nan" "--mixup 1e3"; do
    # shellcheck disable=SC2086
    same "$(status_of millrace read shards --decode image $bad)" 2 "status with $bad"
    one_line errors
    contains "$(cat errors)" "expected"
  done
}

a_page_shows_images_of_all_formats() {
  make_pictures
  millrace convert dataset pictures for-page --quiet >/dev/null
  millrace inspect for-page --html page.html --quiet >/dev/null
  same "$(grep -o '<img src="data:image/jpeg' page.html | wc -l)" "$(find pictures -type f | wc -l)"
}

run_cases a_dataset_of_jpeg_png_and_webp_is_read_as_one image_formats_are_detected_by_content \
  verify_names_undecodable_images inspect_describes_images ppm_is_supported \
  convert_names_a_broken_image raw_images_have_the_pixels_of_their_files both_jpeg_decoders_give_the_same_pixels raw_images_are_upright_and_at_most_max_side \
  raw_images_need_distinct_keys augmented_pixels_do_not_depend_on_workers_or_ranks \
  mixed_images_match_a_second_implementation mixed_images_do_not_depend_on_workers_or_ranks a_page_shows_images_of_all_formats
