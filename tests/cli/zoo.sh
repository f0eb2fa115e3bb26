#!/usr/bin/env bash
# Layouts of data as users have them: for each, the exact dataset that `millrace convert dataset`
# makes of it, or its error.
. "$(dirname "$0")/lib.sh"
export XDG_CACHE_HOME=$scratch/.cache

"$RENDER_SHAPES" --count 3 --side 24 shapes >/dev/null
photos=("$scratch"/shapes/*/*.jpg)

before_case() { mkdir "$scratch/$1"; cd "$scratch/$1"; }
# photo NAME...: copies of photos, each a different one. text NAME...: files that contain their names.
photo() {
  local name i=0
  for name in "$@"; do
    mkdir -p "$(dirname -- "./$name")"
    cp "${photos[i++]}" "./$name"
  done
}
text() {
  local name
  for name in "$@"; do
    mkdir -p "$(dirname -- "./$name")"
    printf '%s' "$name" >"./$name"
  done
}
# gives MEMBER...: converting "in" in the order of keys gives a dataset with exactly these members;
# `options` has more options, `source` another source.
options=()
source=in
gives() {
  millrace convert dataset "$source" made --jpeg keep --keep-order "${options[@]}" --quiet >/dev/null 2>errors || fail "$(cat errors)"
  find made -name '*.tar' | LC_ALL=C sort | while read -r tar; do tar --quoting-style=literal -tf "$tar"; done >members
  printf '%s\n' "$@" | cmp -s - members || fail "found $(tr '\n' ' ' <members)"
  find made -name dataset.json -exec dirname {} \; | while read -r dataset; do millrace verify "$dataset" --quiet >/dev/null; done
}
classes() { same "$(millrace inspect "${dataset:-made}" | sed -n 's/^class names *//p')" "$1" classes; }
content() { same "$(tar -xOf "$(find made -name '*.tar' | head -1)" "$1")" "$2" "$1"; }
# refuses TEXT...: converting "in" fails, with these texts in one line, and leaves nothing.
refuses() {
  local status
  status=$(status_of millrace convert dataset "$source" made --jpeg keep "${options[@]}")
  [[ $status == [12] ]] || fail "status $status: $(cat errors)"
  local text
  for text in "$@"; do contains "$(tail -1 errors)" "$text"; done
  [[ ! -e made ]] || fail "it left $(find made)"
}

# ---- Photos. ----
flat_photos() { photo in/b.jpg in/a.jpg; gives a.jpg b.jpg; }
nested_photos() { photo in/x/y/z.jpg in/x/a.jpg; gives x/a.cls x/a.jpg x/y/z.cls x/y/z.jpg; }
class_folders() { photo in/dog/1.jpg in/cat/1.jpg; gives cat/1.cls cat/1.jpg dog/1.cls dog/1.jpg; content cat/1.cls 0; classes "cat, dog"; }
class_names_with_spaces_and_accents() { photo "in/été 1/1.jpg" "in/a b/1.jpg"; gives "a b/1.cls" "a b/1.jpg" "été 1/1.cls" "été 1/1.jpg"; }
capital_extensions() { photo in/A.JPG in/B.Jpeg in/c.JPEG; gives A.jpg B.jpg c.jpg; }
dots_and_spaces_in_names() { photo "in/IMG 2020.01.02.jpg" in/v1.2.jpg; gives IMG_2020_01_02.jpg v1_2.jpg; }
names_that_collide_without_dots() { photo in/a.1.jpg in/a_1.jpg; refuses "two files have the same key"; }
names_that_differ_by_case() { photo in/a.jpg in/A.jpg; gives A.jpg a.jpg; }
a_leading_minus() { photo in/-r.jpg; gives -r.jpg; }
newline_in_a_name() { photo $'in/a\nb.jpg'; refuses "not plain UTF-8"; }
a_name_that_is_not_utf8() { photo $'in/caf\xe9.jpg'; refuses "not plain UTF-8"; }
two_images_of_a_sample_in_a_class() { photo in/c/a.jpg; text in/c/a.webp; refuses "two files have the same key"; }
an_empty_class() { photo in/a/1.jpg; mkdir in/b; gives a/1.cls a/1.jpg; }
only_empty_classes() { mkdir -p in/a in/b; refuses "no files"; }
an_empty_folder() { mkdir in; refuses "no files"; }
a_missing_source() { refuses "in"; }
hidden_files() { photo in/a.jpg in/.b.jpg; text in/.DS_Store in/Thumbs.db in/__MACOSX/a.jpg; options=(--split-folders no); gives a.jpg; }
readme_and_license() { photo in/a.jpg; text in/README.md in/LICENSE; gives a.jpg; }
junk_files() { photo in/a.jpg; text in/b.tmp in/c.tmp; refuses ".tmp" 2 "--ignore"; }
ignored_junk() { photo in/a.jpg; text in/b.tmp; options=(--ignore '*.tmp'); gives a.jpg; }
a_file_without_extension() { photo in/a.jpg; text in/b; refuses "no extension"; }
photos_next_to_class_folders() { photo in/a.jpg in/c/1.jpg; refuses "next to the class folders"; }
an_empty_photo() { photo in/a.jpg; : >in/b.jpg; refuses b.jpg; }
a_text_named_jpg() { photo in/a.jpg; text in/b.jpg; refuses b.jpg; }
skipped_bad_photos() { photo in/a.jpg; text in/b.jpg; options=(--on-error skip); gives a.jpg; }
a_truncated_photo() { photo in/a.jpg; head -c 500 in/a.jpg >in/b.jpg; refuses b.jpg; }
a_dangling_link() { photo in/a.jpg; ln -s nowhere in/b.jpg; refuses "b.jpg"; }
a_linked_photo() { photo elsewhere/x.jpg; mkdir in; ln -s ../elsewhere/x.jpg in/a.jpg; gives a.jpg; }
a_loop_of_links() { photo in/c/a.jpg; ln -s .. in/c/loop; refuses "nested too deeply"; }
a_pipe() { photo in/a.jpg; mkfifo in/b.jpg; refuses "not a regular file"; }
a_long_name() { local name; name=$(printf 'x%.0s' {1..200}); photo "in/$name.jpg"; gives "$name.jpg"; }

# ---- Photos with other files. ----
captions() { photo in/a.jpg in/b.jpg; text in/a.txt in/b.txt; gives a.jpg a.txt b.jpg b.txt; content a.txt in/a.txt; }
json_and_vectors() { photo in/a.jpg; text in/a.json in/a.npy; gives a.jpg a.json a.npy; }
a_caption_without_a_photo() { photo in/a.jpg; text in/a.txt in/b.txt; refuses ".txt" b.txt; }
samples_without_photos() { text in/a.wav in/a.txt in/b.wav in/b.txt; options=(--fields wav,txt); gives a.txt a.wav b.txt b.wav; }
masks_that_are_not_declared() { photo in/a.jpg; text in/a.seg.png; refuses a.seg.png "--fields"; }
a_class_file_in_class_folders() { photo in/c/a.jpg; text in/c/a.cls; refuses "cls"; }
class_files() { photo in/a.jpg; printf 3 >in/a.cls; gives a.cls a.jpg; content a.cls 3; }

# ---- Splits. ----
splits_of_classes() {
  photo in/train/cat/1.jpg in/train/dog/2.jpg in/val/dog/3.jpg
  gives cat/1.cls cat/1.jpg dog/2.cls dog/2.jpg dog/3.cls dog/3.jpg
  dataset=made/val classes "cat, dog"
  content dog/2.cls 1
}
splits_of_photos() { photo in/train/1.jpg in/test/2.jpg; gives 2.jpg 1.jpg; [[ -e made/test/dataset.json && -e made/train/dataset.json ]]; }
splits_in_capitals() { photo in/Train/c/1.jpg in/Validation/c/2.jpg; gives c/1.cls c/1.jpg c/2.cls c/2.jpg; }
a_split_next_to_other_folders() { photo in/train/c/1.jpg in/extra/c/2.jpg; refuses "some folders look like splits"; }
classes_named_train_and_bus() { photo in/train/1.jpg in/bus/2.jpg; gives bus/2.cls bus/2.jpg train/1.cls train/1.jpg; }
an_empty_split() { photo in/train/c/1.jpg; mkdir -p in/val/c; refuses "no samples" val; }

# ---- Lists. ----
a_list_with_a_byte_order_mark_and_crlf() { photo in/p/1.jpg; printf '\xef\xbb\xbfimage,caption\r\np/1.jpg,"a ""b"""\r\n' >in/l.csv; source=in/l.csv; gives p/1.jpg p/1.txt; content p/1.txt 'a "b"'; }
a_list_with_a_missing_file() { mkdir in; printf 'image,caption\nnone.jpg,x\n' >in/l.csv; source=in/l.csv; refuses "names no file" in/l.csv:2 "--column"; }
a_list_without_a_header() { photo in/1.jpg in/2.jpg; printf '1.jpg,cat\n2.jpg,dog\n' >in/l.csv; source=in/l.csv; refuses "no header line"; }
a_list_that_leaves_its_folder() { photo x/1.jpg; mkdir in; printf 'image,caption\n../x/1.jpg,y\n' >in/l.csv; source=in/l.csv; gives x/1.jpg x/1.txt; }
rows_of_json() { mkdir in; printf '{"text":"a","n":1}\n\n{"text":"b","n":2}\n' >in/l.jsonl; source=in/l.jsonl; gives 00000000.json 00000000.txt 00000001.json 00000001.txt; content 00000000.json '{"n":1}'; }
a_cut_row_of_json() { mkdir in; printf '{"text":"a"}\n{"text":"b' >in/l.jsonl; source=in/l.jsonl; refuses in/l.jsonl:2 "not valid JSON"; }
a_json_array() { mkdir in; printf '[{"text":"a"}]' >in/l.json; source=in/l.json; refuses "jq -c"; }
hugging_face_metadata() { photo in/1.jpg; printf 'file_name,text\n1.jpg,hello\n' >in/metadata.csv; gives 1.jpg 1.txt; content 1.txt hello; }

# ---- Archives. ----
a_tar() { photo m/a.jpg; text m/a.txt; tar -cf in --sort=name -C m a.jpg a.txt; gives a.jpg a.txt; }
a_tar_with_leading_dots() { text m/a.txt; tar -cf in -C m .; gives ./a.txt; }
a_tar_with_parent_folders() { text m/a.txt; tar -P -cf in --transform 's,^,../,' -C m a.txt; refuses "bad key" ../a; }
a_tar_with_an_absolute_name() { text m/a.txt; tar -P -cf in --transform 's,^,/,' -C m a.txt; refuses "bad key" /a; }
a_tar_that_ends_early() { photo m/a.jpg; tar -cf whole -C m a.jpg; head -c 1000 whole >in; refuses truncated; }
a_tar_with_fields_apart() { text m/a.jpg m/b.jpg m/a.txt; tar -cf in -C m a.jpg b.jpg a.txt; refuses "lie apart"; }
a_compressed_tar() { text m/a.txt; tar -czf in.tgz -C m a.txt; source=in.tgz; gives a.txt; }
tars_among_photos() { photo in/a.jpg; text m/b.txt; tar -cf in/b.tar -C m b.txt; refuses b.tar; }
a_list_among_photos() { photo in/a.jpg; text in/b.csv; refuses b.csv; }
parquet() { text in/a.parquet; refuses Parquet "JSON Lines"; }
an_html_page_named_tar() { mkdir in; printf '<html>404</html>' >in/a.tar; refuses a.tar; }

# ---- Arrays. ----
idx_files() {
  mkdir in
  printf '\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3%s' 123456abcdef >in/train-images-idx3-ubyte
  printf '\0\0\10\1\0\0\0\2\7\0' >in/train-labels-idx1-ubyte
  gives 00000000.cls 00000000.png 00000001.cls 00000001.png
  content 00000000.cls 7
}
a_compressed_idx_file() {
  mkdir in
  printf '\0\0\10\3\0\0\0\1\0\0\0\2\0\0\0\3%s' 123456 | gzip >in/train-images-idx3-ubyte.gz
  printf '\0\0\10\1\0\0\0\1\7' >in/train-labels-idx1-ubyte
  gives 00000000.cls 00000000.png
}
a_file_that_is_not_compressed() { text in/train-images-idx3-ubyte.gz; refuses "not compressed, in spite of its name"; }
a_file_compressed_and_not() { text in/a.txt; gzip -k in/a.txt; refuses "in/a.txt too" "--ignore '*.gz'"; }
a_compressed_list() { printf 'caption,n\ncat,1\n' >in.csv; zstd -q --rm in.csv; source=in.csv.zst; gives 00000000.json 00000000.txt; }
a_compressed_list_with_another_name() { printf '{"caption":"cat"}\n{"caption":"dog"}\n' | gzip >in; gives 00000000.txt 00000001.txt; }
a_truncated_list() { seq 1000 | sed '1s/^/n,m\n/;s/$/,1/' | gzip >in.csv.gz; truncate -s -9 in.csv.gz; source=in.csv.gz; refuses "the compressed file is truncated: in.csv.gz at"; }
pickles_of_cifar() { text in/data_batch_1 in/batches.meta; refuses "download the binary version"; }
an_npz_file_among_photos() { photo in/a.jpg; text in/b.npz; refuses b.npz "convert the file itself"; }

run_cases flat_photos nested_photos class_folders class_names_with_spaces_and_accents capital_extensions dots_and_spaces_in_names \
  names_that_collide_without_dots names_that_differ_by_case a_leading_minus newline_in_a_name a_name_that_is_not_utf8 \
  two_images_of_a_sample_in_a_class an_empty_class only_empty_classes an_empty_folder a_missing_source hidden_files \
  readme_and_license junk_files ignored_junk a_file_without_extension photos_next_to_class_folders an_empty_photo \
  a_text_named_jpg skipped_bad_photos a_truncated_photo a_dangling_link a_linked_photo a_loop_of_links a_pipe a_long_name \
  captions json_and_vectors a_caption_without_a_photo samples_without_photos masks_that_are_not_declared \
  a_class_file_in_class_folders class_files splits_of_classes splits_of_photos splits_in_capitals \
  a_split_next_to_other_folders classes_named_train_and_bus an_empty_split a_list_with_a_byte_order_mark_and_crlf \
  a_list_with_a_missing_file a_list_without_a_header a_list_that_leaves_its_folder rows_of_json a_cut_row_of_json \
  a_json_array hugging_face_metadata a_tar a_tar_with_leading_dots a_tar_with_parent_folders a_tar_with_an_absolute_name \
  a_tar_that_ends_early a_tar_with_fields_apart a_compressed_tar tars_among_photos a_list_among_photos parquet \
  an_html_page_named_tar idx_files a_compressed_idx_file a_file_that_is_not_compressed a_file_compressed_and_not a_compressed_list \
  a_compressed_list_with_another_name a_truncated_list pickles_of_cifar an_npz_file_among_photos
