#!/usr/bin/env bash
# Pages of `millrace read --html` and `inspect --html --field`: images with their masks, boxes,
# keypoints and text are those of the loader.
. "$(dirname "$0")/lib.sh"

"$RENDER_SHAPES" --count 6 --side 60 photos >/dev/null

mask='mask={from: seg.png, decode: labels, follows: image}'
boxes='boxes={from: json, path: $.boxes, decode: boxes, follows: image}'
classes='classes={from: json, path: $.classes, decode: array, dtype: i64, follows: boxes}'
scores='scores={from: json, path: $.scores, decode: array, follows: boxes}'
points='points={from: json, path: $.points, decode: keypoints, follows: image}'
caption='caption={from: txt, decode: str}'
fields=(--field "$mask" --field "$boxes" --field "$classes" --field "$scores" --field "$points" --field "$caption")

# Photos of several sizes, with masks, boxes and keypoints, and hostile texts; the dataset `shards`
# with class names.
make_samples() {
  [[ -n $python ]] && "$python" -c 'import numpy, PIL' 2>/dev/null || skip "no Python with NumPy and Pillow here"
  [[ ! -d shards ]] || return 0
  "$python" "$here/page_fields.py" make photos samples
  (cd samples && tar cf ../samples.tar --sort=name -- *)
  millrace convert dataset samples.tar shards --quiet >/dev/null
  "$python" - <<'PY'
text = open("shards/dataset.json").read()
names = '"classes":["circle","<i>cross</i>","moon","ring","square","stripes","triangle"]'
assert '"classes":[]' in text
open("shards/dataset.json", "w").write(text.replace('"classes":[]', names))
PY
}

content_of() { # PAGE: checks it, and writes its content to report
  "$python" "$here/page_check.py" "$1" >report || fail "$1 is not a valid page"
}

a_page_shows_what_read_delivers() {
  make_samples
  local -a options=(--decode image --flip --seed 5 --epoch 2 "${fields[@]}")
  millrace read shards "${options[@]}" --size 64 --count 42 --html page.html --out files --quiet >/dev/null
  content_of page.html
  same "$(json 'd["headings"], len(d["figures"])' report)" "(['Summary', 'Samples', 'Fields'], 42)"
  "$python" "$here/page_fields.py" compare report files
  millrace read shards "${options[@]}" --size 200 --randaugment 2,9 --count 42 --html turned.html --out turned --quiet >/dev/null
  content_of turned.html
  "$python" "$here/page_fields.py" compare report turned
}

a_page_does_not_depend_on_workers() {
  make_samples
  for workers in 1 2 5; do
    millrace read shards --decode image --size 48 --randaugment 2,9 --flip "${fields[@]}" -j $workers --html by-$workers.html --quiet >/dev/null
  done
  cmp by-1.html by-2.html
  cmp by-1.html by-5.html
  millrace read shards --decode image --size 48 --randaugment 2,9 --flip "${fields[@]}" --seed 1 --html other.html --quiet >/dev/null
  ! cmp -s by-1.html other.html || fail "another seed gives the same page"
  content_of by-1.html
  same "$(json 'len(d["figures"])' report)" 32
}

texts_and_names_are_escaped() {
  make_samples
  millrace read shards --decode image --field 'a<b>"={from: txt, decode: str}' --field "$boxes" --field "$classes" --count 42 \
    --html hostile.html --quiet >/dev/null
  content_of hostile.html
  same "$(json 'sum("<script>alert(1)</script> & \"more\"" in f["text"] for f in d["figures"])' report)" 42
  same "$(json 'all("a<b>\"" in f["text"] for f in d["figures"])' report)" True
  contains "$(json 'sorted({l for f in d["figures"] for l in f["labels"]})' report)" "<i>cross</i>"
}

a_long_text_is_cut_at_a_character() {
  make_samples
  mkdir long
  cp samples/0000.jpg long/a.jpg
  "$python" -c 'print("x" + "é" * 5000, end="")' >long/a.txt
  tar cf long.tar -C long a.jpg a.txt
  millrace read long.tar --field "$caption" --html long.html --quiet >/dev/null
  content_of long.html
  same "$(json '(d["figures"][0]["text"].split("caption ")[1] == "x" + "é" * 299 + "…", d["pictures"])' report)" "(True, 0)"
}

only_the_first_of_many_boxes_are_drawn() {
  make_samples
  mkdir many
  cp samples/0000.jpg many/a.jpg
  "$python" -c 'print({"boxes": [[i % 40, 1, i % 40 + 5, 9] for i in range(301)]}, end="")' | tr "'" '"' >many/a.json
  tar cf many.tar -C many a.jpg a.json
  millrace inspect many.tar --html many.html --field "$boxes" --quiet >/dev/null
  content_of many.html
  same "$(json 'len(d["figures"][0]["boxes"]), "The first 300 of 301 boxes are drawn." in d["text"]' report)" "(300, True)"
}

mixed_images_show_both_classes() {
  make_samples
  millrace convert dataset photos plain --quiet >/dev/null
  millrace read plain --decode image --size 24 --mixup 1 --count 40 --html mixed.html --quiet >/dev/null
  content_of mixed.html
  contains "$(json '[f["text"] for f in d["figures"]]' report)" " % + "
}

inspect_draws_fields_over_whole_images() {
  make_samples
  for input in shards samples.tar; do
    millrace inspect $input --html whole.html --force "${fields[@]}" --quiet >/dev/null
    content_of whole.html
    same "$(json 'd["headings"][:3], len(d["figures"][:42]), d["pictures"]' report)" "(['Summary', 'Samples', 'Sizes'], 42, 42)"
    "$python" "$here/page_fields.py" whole report samples
    cp whole.html first.html
    millrace inspect $input --html whole.html --force "${fields[@]}" --quiet >/dev/null
    cmp first.html whole.html
  done
}

# The second picture follows the first, and a mask the third.
several_images_are_shown_with_their_names() {
  make_samples
  "$python" - <<'PY'
import io, tarfile
import numpy
from PIL import Image
generator = numpy.random.default_rng(3)
noise = lambda *shape: generator.integers(0, 256, shape, dtype=numpy.uint8)
with tarfile.open("several.tar", "w") as tar:
    for i in range(5):
        for extension, pixels in (("depth.png", noise(50, 60, 3)), ("left.png", noise(90, 30, 3)), ("png", noise(50, 60, 3)), ("seg.png", noise(90, 30) % 3)):
            data = io.BytesIO()
            Image.fromarray(pixels).save(data, "PNG")
            info = tarfile.TarInfo(f"k{i}.{extension}")
            info.size = len(data.getvalue())
            tar.addfile(info, io.BytesIO(data.getvalue()))
PY
  local -a images=(--field 'depth={from: depth.png, decode: image, follows: image}' --field 'left={from: left.png, decode: image, size: 40}'
    --field 'mask={from: seg.png, decode: labels, follows: left}')
  millrace read several.tar --decode image --size 32 "${images[@]}" --html several.html --out several --quiet >/dev/null
  content_of several.html
  "$python" - <<'PY'
import base64, io, json
import numpy
from PIL import Image
for figure in json.load(open("report"))["figures"]:
    assert [masks for _, masks in figure["views"]] == [0, 0, 1]
    assert figure["text"].startswith("imagedepthleft")
    for (data, _), name in zip(figure["views"], ("ppm", "depth.ppm", "left.ppm")):
        shown = numpy.asarray(Image.open(io.BytesIO(base64.b64decode(data))), int)
        wanted = numpy.asarray(Image.open(f"several/{figure['key']}.{name}"), int)
        assert shown.shape == wanted.shape and abs(shown - wanted).mean() < 30, figure["key"]
        others = [numpy.asarray(Image.open(f"several/k{i}.{name}"), int) for i in range(5) if f"k{i}" != figure["key"]]
        assert all(abs(shown - other).mean() > 35 for other in others)
PY
  millrace inspect several.tar --html whole-several.html "${images[@]}" --quiet >/dev/null
  content_of whole-several.html
  "$python" - <<'PY'
import base64, io, json
from PIL import Image
for figure in json.load(open("report"))["figures"][:5]:
    sizes = [Image.open(io.BytesIO(base64.b64decode(data))).size for data, _ in figure["views"]]
    assert sizes == [(60, 50), (60, 50), (30, 90)], sizes
    assert [masks for _, masks in figure["views"]] == [0, 0, 1]
PY
  # of 24 fields, none is left for the stored bytes of more than one image
  for i in {1..20}; do images+=(--field "f$i=png"); done
  millrace inspect several.tar --html many-fields.html "${images[@]}" --quiet >/dev/null
  content_of many-fields.html
  "$python" - <<'PY'
import base64, io, json
from PIL import Image
for figure in json.load(open("report"))["figures"][:5]:
    sizes = [Image.open(io.BytesIO(base64.b64decode(data))).size for data, _ in figure["views"]]
    assert sizes == [(60, 50), (320, 320), (320, 320)], sizes
PY
  millrace read several.tar --field 'image={from: png, decode: bytes}' --html bytes.html --quiet >/dev/null
  content_of bytes.html
  same "$(json 'd["pictures"], len(d["figures"])' report)" "(0, 5)"
}

an_unusable_sample_shows_the_reason() {
  make_samples
  mkdir cut
  cp samples/000[0-3].* cut
  "$python" -c 'from PIL import Image; Image.new("L", (7, 7)).save("cut/0002.seg.png")'
  (cd cut && tar cf ../cut.tar --sort=name -- *)
  millrace inspect cut.tar --html cut.html --field "$mask" --quiet >/dev/null 2>&1
  content_of cut.html
  same "$(json 'd["pictures"], sum("has another size than the image" in f["text"] for f in d["figures"])' report)" "(3, 1)"
  millrace read cut.tar --decode image --on-error skip --html read.html --field "$mask" --quiet >/dev/null 2>&1
  content_of read.html
  same "$(json 'd["pictures"], sum("has another size than the image" in f["text"] for f in d["figures"])' report)" "(3, 1)"
}

auto_gives_the_page_of_the_fields_that_it_prints() {
  make_samples
  local command chosen
  for command in "inspect samples.tar" "inspect shards" "read shards --decode image --size 48"; do
    # shellcheck disable=SC2086
    millrace $command --html auto.html --force --field auto >/dev/null 2>log
    chosen=$(sed -n 's/.*: fields: //p' log)
    same "$chosen" "--field 'json={from: json, decode: json}' --field 'seg_png={from: seg.png, decode: labels, follows: image}' --field 'txt={from: txt, decode: str}'"
    eval "millrace $command --html chosen.html --force --quiet $chosen" >/dev/null
    cmp auto.html chosen.html
  done
  content_of auto.html
}

options_that_do_not_fit_are_refused() {
  make_samples
  refuse() { # STATUS EXPECTED COMMAND...
    same "$(status_of millrace "${@:3}")" "$1" "status of ${*:3}"
    one_line errors
    contains "$(cat errors)" "$2"
    [[ ! -e no.html ]]
  }
  refuse 2 "--decode image" read shards --html no.html
  refuse 2 "--decode image" read shards --block 8 --html no.html
  refuse 2 "at most 1024" read shards --decode image --count 1025 --html no.html
  refuse 2 "--quality" read shards --decode image --quality --html no.html
  refuse 2 "--html" inspect shards --field "$caption"
  refuse 1 "fields of jpeg" inspect samples/0000.jpg --html no.html --field auto
  refuse 2 "NAME=SPEC" inspect shards --html no.html --field txt
  refuse 1 "fields of jpeg" inspect samples/0000.jpg --html no.html --field "$caption"
  refuse 2 "follow" inspect shards --html no.html --field 'boxes={from: json, path: $.boxes, decode: boxes}'
  echo mine >kept.html
  refuse 1 "--force" read shards --decode image --html kept.html
  same "$(cat kept.html)" mine
  same "$(status_of millrace read shards --decode image --html kept.html --force)" 0
}

run_cases a_page_shows_what_read_delivers a_page_does_not_depend_on_workers texts_and_names_are_escaped \
  a_long_text_is_cut_at_a_character only_the_first_of_many_boxes_are_drawn mixed_images_show_both_classes auto_gives_the_page_of_the_fields_that_it_prints inspect_draws_fields_over_whole_images several_images_are_shown_with_their_names \
  an_unusable_sample_shows_the_reason options_that_do_not_fit_are_refused
