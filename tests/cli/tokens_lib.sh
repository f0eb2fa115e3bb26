# tokens_lib — shared by the script tests of text: makes tokenizers, and shows the tokens of a dataset.
# Needs lib.sh and Python.

# make_tokenizer FILE PAIRS [END]: a token for each byte and for each of the first PAIRS pairs of
# two bytes, and the document end.
make_tokenizer() {
  "$python" - "$@" <<'PY'
import json, sys
path, pairs, end = sys.argv[1], int(sys.argv[2]), (sys.argv[3:] or ["<|end_of_text|>"])[0]
printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = iter(range(256, 512))
characters = [chr(b) if b in printable else chr(next(others)) for b in range(256)]
# letters come last: their tokens are the largest
order = sorted(range(256), key=lambda b: (chr(b).isalpha() and b < 128, b))
merges = [(characters[a], characters[b]) for a in order for b in order][len(order) ** 2 - pairs:]
vocab = {c: i for i, c in enumerate(characters)}
vocab.update((a + b, 256 + i) for i, (a, b) in enumerate(merges))
pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
json.dump({
    "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None, "decoder": None,
    "added_tokens": [{"id": len(vocab), "content": end, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}],
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
    "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
              "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": vocab, "merges": [f"{a} {b}" for a, b in merges]}},
    open(path, "w"))
PY
}

# The stream of DATASET, as one number per line.
tokens_of() {
  local shard
  mkdir -p members
  for shard in "$1"/shard-*.tar; do tar -C members -xf "$shard"; done
  "$python" - members/*.npy <<'PY'
import struct, sys
stream = []
for path in sorted(p for p in sys.argv[1:]):
    data = open(path, "rb").read()
    kind = {b"<u2": "H", b"<u4": "I"}[data[data.index(b"'descr': '") + 10:][:3]]
    tokens = struct.unpack(f"<{(len(data) - 128) // struct.calcsize(kind)}{kind}", data[128:])
    stream += tokens if not stream else tokens[1:]
print(*stream, sep="\n")
PY
  rm -r members
}
