"""bpe.py — compares tokens from tokenizer/bpe_encode.c with tiktoken's.

    bpe.py make FOLDER SHRINK                  writes difficult texts
    bpe.py check FOLDER VOCABULARY             compares each NAME.u16 with the tokens of NAME.txt
    bpe.py stream TEXTS MEMBERS VOCABULARY     compares the members tokens-*.npy with the tokens of
                                               all TEXTS/*.txt in order
    bpe.py lines TEXTS VOCABULARY              prints the tokens of each line's "text" in all
                                               TEXTS/*.jsonl in order, each with its document end

Texts named endless* are one word of more than 1 MiB; only their bytes are compared. Malformed
UTF-8 is split by the module regex, with each invalid byte as a lone surrogate, and tiktoken encodes
the bytes of each word.
"""
import json
import pathlib
import random
import sys

import numpy
import regex
import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks
from tiktoken_ext.openai_public import r50k_pat_str

ORIGINAL = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
SCALARS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'", "''", "’s", " ", "  ", "\n", "\n\n", "\t", "a", "Hello", " world", "1", "123",
          "٣٤", "Ⅷ", "½", "𝟙𝟚", "é", "e\u0301", "中文", "。", "日本語", "한국어", "😀", "👨‍👩‍👧", "🇩🇪", "\u200d", "ß", "ǅ", "!", "...", "<|endoftext|>", "\0", "שלום", "ไทย",
          "हिन्दी"]


def make(folder, shrink):
    rng = random.Random(1)
    texts = {
        "every-character": "".join(chr(c) for c in SCALARS[::shrink]),
        "every-character-spaced": " ".join(chr(c) for c in SCALARS[::shrink]),
        "every-character-between": "".join(f"a{chr(c)}1" for c in SCALARS[::shrink]),
        "spaces": "".join(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 40]) + rng.choice(["", "x", "'s", "7", "!"]) for _ in range(60000 // shrink)),
        "pieces": "".join(rng.choice(PIECES) for _ in range(200000 // shrink)),
        "random": "".join(chr(rng.choice(SCALARS)) for _ in range(100000 // shrink)),
        "letters": "".join(rng.choice("etaoinshr") for _ in range(20000 // shrink)),
        "long-lines": "\n".join("ab" * n for n in range(1, 200)) + " " * 5000 + "x" + "\n" * 5000 + "=" * 3000,
        "spaces-at-end": "word   \n\n ", "one-space": " ", "one-letter": "x", "empty": "", "quote": "'", "quote-at-end": "it'",
    }
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode())
    pieces = [p.encode() for p in PIECES] + [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80", b"\xc0\xaf", b"\xf5", b"\xc2\x85"[:1]]
    (folder / "ill-formed.txt").write_bytes(b"".join(rng.choice(pieces) for _ in range(100000 // shrink)))
    (folder / "noise.txt").write_bytes(rng.randbytes(200000 // shrink))


def encode_bytes(encoding, data):
    text = data.decode(errors="surrogateescape")
    return [token for word in regex.findall(ORIGINAL, text)
            for token in encoding._core_bpe.encode_single_piece(word.encode(errors="surrogateescape"))]


def open_encoding(vocabulary):
    ranks = data_gym_to_mergeable_bpe_ranks(f"{vocabulary}/vocab.bpe", f"{vocabulary}/encoder.json")
    return tiktoken.Encoding("gpt2", pat_str=r50k_pat_str, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256}, explicit_n_vocab=50257)


def expect(encoding, data):
    try:
        return encoding.encode_ordinary(data.decode())
    except UnicodeDecodeError:
        return encode_bytes(encoding, data)


def check(folder, vocabulary):
    encoding = open_encoding(vocabulary)
    failed, tokens_count = False, 0
    for path in sorted(folder.glob("*.txt")):
        data = path.read_bytes()
        found = numpy.fromfile(path.with_suffix(".u16"), dtype="<u2")
        expected = expect(encoding, data)
        tokens_count += len(found)
        if b"".join(encoding.decode_tokens_bytes(found.tolist())) != data:
            print(f"{path.name}: the tokens do not decode to the text")
            failed = True
        if found.tolist() != expected:
            at = next((i for i, (a, b) in enumerate(zip(found.tolist(), expected)) if a != b), min(len(found), len(expected)))
            print(f"{path.name}: token {at} of {len(expected)}: {found[at:at + 4]}, tiktoken has {expected[at:at + 4]}, "
                  f"{encoding.decode_bytes(expected[at:at + 4])}")
            failed = True
    print(f"{tokens_count} tokens compared")
    sys.exit(failed)


def stream(folder, members_folder, vocabulary):
    encoding = open_encoding(vocabulary)
    members = [numpy.load(path) for path in sorted(members_folder.glob("tokens-*.npy"))]
    assert all(len(m) == 65537 for m in members[:-1]) and all(a[-1] == b[0] for a, b in zip(members, members[1:]))
    found = numpy.concatenate([m[:-1] for m in members[:-1]] + [members[-1]])
    assert found.dtype == numpy.uint16
    ends = numpy.flatnonzero(found == 50256)
    begins = [0, *(ends[:-1] + 1)]
    paths = sorted(folder.glob("*.txt"))
    assert len(ends) == len(paths) and ends[-1] == len(found) - 1
    for path, begin, end in zip(paths, begins, ends):
        data, tokens = path.read_bytes(), found[begin:end].tolist()
        assert b"".join(encoding.decode_tokens_bytes(tokens)) == data, path
        assert path.name.startswith("endless") or tokens == expect(encoding, data), path
    print(f"{len(paths)} documents, {len(members)} members, {len(found)} tokens")


def lines(folder, vocabulary):
    encoding = open_encoding(vocabulary)
    for path in sorted(folder.glob("*.jsonl")):
        for line in open(path, encoding="utf-8-sig", newline="\n"):
            if line.strip():
                print(*encoding.encode_ordinary(json.loads(line)["text"]), 50256, sep="\n")


folder = pathlib.Path(sys.argv[2])
if sys.argv[1] == "make":
    make(folder, int(sys.argv[3]))
elif sys.argv[1] == "check":
    check(folder, sys.argv[3])
elif sys.argv[1] == "lines":
    lines(folder, sys.argv[3])
else:
    stream(folder, pathlib.Path(sys.argv[3]), sys.argv[4])
