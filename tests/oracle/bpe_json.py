"""bpe_json.py — compares tokenizer/ with the library tokenizers.

    bpe_json.py make FOLDER SHRINK TEXT    writes difficult texts (NAME.txt), and tokenizers trained on them and on TEXT (NAME.json)
    bpe_json.py check FOLDER               compares words (NAME.txt.PATTERN.ends: u64 offsets) and tokens (NAME.txt.NAME.json.tokens: u32)

The texts have the characters that are assigned in the library's version of Unicode: it is 14.0 in tokenizers 0.19 and 16.0 in
0.23, which has the same classes for them. Malformed UTF-8 is split by the module regex, with each invalid byte as a lone surrogate.
"""
import json
import pathlib
import random
import re
import sys
import unicodedata

import numpy
import regex
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = {"gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", "llama3": LLAMA3, "qwen2": LLAMA3.replace("{1,3}", "")}
SPACES = " \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2000\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
CONTRACTIONS = ["'" + a + b for end in ("s", "t", "re", "ve", "m", "ll", "d") for a in (end[0], end[0].upper()) for b in {end[1:], end[1:].upper()}]
PIECES = [*CONTRACTIONS, "'ſ", "'ſa", "'", "''", "’s", " ", "  ", "\n", "\n\n", "\r\n", "\t", " \n ", "a", "Hello", " world", "1", "123", "12345", "٣٤", "٣٤٥٦٧", "Ⅷ", "½",
          "𝟙𝟚", "é", "e\u0301", "e\u0323\u0302", "e\u0302\u0323", "\u0344", "\u1e9b\u0323", "Å", "Ω", "\u1100\u1161\u11a8", "\uac00\u11a8", "\uac01\u11a8", "\u0f71\u0f72\u0f80",
          "क\u093c", "\U0001d15e\U0001d165", "\u0301", "中文", "。", "。\n", "日本語", "한국어", "😀", "👨‍👩‍👧", "🇩🇪", "\u200d", "ß", "ǅ", "!", "!\n", "...", "\0", "שלום", "ไทย", "हिन्दी",
          "<|endoftext|>", "<|im_end|>", "<think>", "</think>", "<tool", "_call>", "<tool_call>", "<<think>>", "<thin", "<|", "|>"]
SPECIAL = {"gpt2": ["<|endoftext|>"], "llama3": ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"], "qwen2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]}
VOCABULARY = {"gpt2": 3000, "llama3": 66000, "qwen2": 20000}


def assigned_characters():
    everything = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    split = pre_tokenizers.Split(Regex(r"\p{Cn}"), "removed")
    return "".join(part for part, _ in split.pre_tokenize_str(everything))


def write_texts(folder, shrink):
    rng = random.Random(1)
    known = assigned_characters()
    marks = [c for c in known if unicodedata.combining(c)] + list("\u1161\u11a8\u0b57\U0001d165")
    bases = [c for c in known if unicodedata.decomposition(c) or c < "\u0250"]
    some, few = known[::shrink], known[:: max(shrink, 7)]  # between a letter and a digit, a character of another class makes other words
    texts = {
        "every-character": some, "every-character-between": "".join(f"a{c}1" for c in some),
        "characters-spaced": " ".join(few), "characters-quoted": "".join(f"'{c}l" for c in few), "characters-after-line": "".join(f"!\n{c}" for c in few),
        "spaces": "".join(rng.choice(SPACES) * rng.choice([1, 1, 1, 2, 3, 40]) + rng.choice(["", "x", "'s", "7", "!"]) for _ in range(60000 // shrink)),
        "pieces": "".join(rng.choice(PIECES) for _ in range(100000 // shrink)),
        "marks": "".join(rng.choice(bases) + "".join(rng.choices(marks, k=rng.choice([0, 1, 1, 2, 3, 6]))) for _ in range(60000 // shrink)),
        "random": "".join(rng.choices(known, k=100000 // shrink)),
        "digits": "".join(str(rng.randrange(10 ** rng.randrange(1, 12))) + rng.choice(["", " ", ",", "\n"]) for _ in range(20000 // shrink)),
        "letters": "".join(rng.choice("etaoinshr") for _ in range(20000 // shrink)),
        "long-lines": "\n".join("ab" * n for n in range(1, 200)) + " " * 5000 + "x" + "\n" * 5000 + "=" * 3000 + "e" + "\u0301\u0323" * 2000,
        "spaces-at-end": "word   \n\n ", "lines-at-end": "!\n\n", "one-space": " ", "one-letter": "x", "empty": "", "quote": "'", "quote-at-end": "it'",
    }
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode())
    pieces = [p.encode() for p in PIECES] + [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80", b"\xc0\xaf", b"\xf5", b"\xc2"]
    (folder / "malformed.txt").write_bytes(b"".join(rng.choice(pieces) for _ in range(100000 // shrink)))


def train(folder, text, kind):
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if kind == "gpt2" else pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERNS[kind]), "isolated", invert=False), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    if kind == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY[kind], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train([text, *(str(folder / f"{name}.txt") for name in ("pieces", "random"))], trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL[kind]])
    if kind == "qwen2":
        tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in ("<tool_call>", "</tool_call>", "<think>", "</think>")])
    saved = json.loads(tokenizer.to_str())
    if kind == "llama3":
        del saved["model"]["merges"][500::50]  # some tokens are then words that only ignore_merges finds
    (folder / f"{kind}.json").write_text(json.dumps(saved, ensure_ascii=False))


def split_words(pattern, data):
    """The words of the text as bytes."""
    try:
        split = pre_tokenizers.Split(Regex(PATTERNS[pattern]), "isolated")
        return [word.encode() for word, _ in split.pre_tokenize_str(data.decode())]
    except UnicodeDecodeError:
        return [word.encode(errors="surrogateescape") for word in regex.findall(PATTERNS[pattern], data.decode(errors="surrogateescape"))]


def encode(tokenizer, kind, data):
    try:
        return tokenizer.encode(data.decode(), add_special_tokens=False).ids
    except UnicodeDecodeError:
        pass
    tokens, text = [], data.decode(errors="surrogateescape")
    for part in re.split("(</?think>|</?tool_call>)", text) if kind == "qwen2" else [text]:
        if kind == "qwen2" and re.fullmatch("</?think>|</?tool_call>", part):
            tokens.append(tokenizer.token_to_id(part))
            continue
        part = unicodedata.normalize("NFC", part) if kind == "qwen2" else part
        for word in split_words(kind, part.encode(errors="surrogateescape")) if part else []:
            tokens += [token.id for token in tokenizer.model.tokenize("".join(BYTE_CHARACTERS[byte] for byte in word))]
    return tokens


def first_difference(found, expected):
    return next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))


def check(folder):
    failed, words_count, tokens_count = False, 0, 0
    texts = sorted(folder.glob("*.txt"))
    for path in texts:
        data = path.read_bytes()
        for pattern in PATTERNS:
            found = numpy.fromfile(f"{path}.{pattern}.ends", dtype="<u8").tolist()
            expected = numpy.cumsum([len(word) for word in split_words(pattern, data)], dtype="<u8").tolist() if data else []
            words_count += len(found)
            if found != expected:
                at = first_difference(found, expected)
                begin = expected[at - 1] if at else 0
                print(f"{path.name}, {pattern}: word {at} at {begin} ends at {found[at:at + 1]}, in tokenizers at {expected[at:at + 1]}: {data[begin:begin + 20]}")
                failed = True
    for kind in PATTERNS:
        tokenizer = Tokenizer.from_file(str(folder / f"{kind}.json"))
        tokenizer.encode_special_tokens = True
        for path in texts:
            found = numpy.fromfile(f"{path}.{kind}.json.tokens", dtype="<u4").tolist()
            expected = encode(tokenizer, kind, path.read_bytes())
            tokens_count += len(found)
            if found != expected:
                at = first_difference(found, expected)
                print(f"{path.name}, {kind}: token {at} of {len(expected)}: {found[at:at + 4]}, tokenizers has {expected[at:at + 4]}, "
                      f"{[tokenizer.id_to_token(i) for i in expected[at:at + 4]]}")
                failed = True
    print(f"{words_count} words and {tokens_count} tokens compared")
    sys.exit(failed)


printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
others = iter(range(0x100, 0x200))
BYTE_CHARACTERS = [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]

folder = pathlib.Path(sys.argv[2])
if sys.argv[1] == "make":
    write_texts(folder, int(sys.argv[3]))
    for kind in PATTERNS:
        train(folder, sys.argv[4], kind)
else:
    check(folder)
