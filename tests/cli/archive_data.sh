# archive_data — a tar of photos, captions and other members, the dataset that it gives, and its
# compression by other tools. For lib.sh's scripts.
export XDG_CACHE_HOME=$scratch/.cache

"$RENDER_SHAPES" --count 6 --side 40 photos >/dev/null
mkdir members
number=0
for photo in photos/*/*.jpg; do
  number=$((number + 1))
  cp "$photo" "members/$(printf %05d "$number").jpg"
  printf 'the caption of photo %d, é' "$number" >"members/$(printf %05d "$number").txt"
done
head -c 3000000 /dev/urandom | base64 >members/90000.large # longer than the buffers
mkdir members/folder.d
printf 'y' >members/folder.d/c.unknown
printf 'z' >members/.hidden.txt
printf '' >members/99999.empty
tar --sort=name -cf a.tar -C members .
formats=(gz bz2 xz zst lz4)
millrace convert dataset a.tar expected --jpeg keep --shard-samples 20 --quiet >/dev/null

# convert SRC DST [OPTION...]
convert() { millrace convert dataset "$@" --jpeg keep --shard-samples 20 --quiet >/dev/null; }
# compress FORMAT: a.tar to a.tar.FORMAT; 1 if the tool is missing.
compress() {
  [[ ! -e a.tar.$1 ]] || return 0
  case $1 in
    gz) gzip -c a.tar ;;
    bz2) command -v bzip2 >/dev/null && bzip2 -c a.tar ;;
    xz) command -v xz >/dev/null && xz -0 -c a.tar ;;
    zst) command -v zstd >/dev/null && zstd -q -c a.tar ;;
    lz4) command -v lz4 >/dev/null && lz4 -q -c a.tar ;;
  esac >compressed && mv compressed "a.tar.$1"
}
