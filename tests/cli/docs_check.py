"""docs_check PROGRAM ROOT — checks that README.md, CONTRIBUTING.md and docs/ name only existing
options of verbs, keys and values of configurations, headings and files of this project.

Prints a line for each missing item; exits with 1 if there is any, or if it found almost nothing to
check.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

program, root = sys.argv[1], pathlib.Path(sys.argv[2])
OPTION = r"(?<![\w-])--[a-z][a-z0-9-]*"
KEY = r"[a-z_]+(?:\.[a-z_]+)*"


def run_millrace(*words):
    return subprocess.run([program, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)


verbs = {verb: set(re.findall(OPTION, run_millrace(*verb.split(), "--help").stdout))
         for verb in re.findall(r"^  ((?:convert |ckpt |bench )?[a-z]+)  ", run_millrace("help").stdout, re.M)}
keys = set(re.findall(rf"^[* ] ({KEY}) ", run_millrace("help", "config").stdout, re.M))
# other names for keys, see trainer/config/data_fields.h
keys |= {"data.fields." + field for field in ("image", "label", "tokens")}
groups = {key.rsplit(".", n)[0] for key in keys for n in range(1, key.count(".") + 1)}
folders = [entry.name for entry in root.iterdir() if entry.is_dir() and re.match("[a-z]", entry.name) and entry.name != "build"]
sections = {key.split(".")[0] for key in keys}
checked = dict.fromkeys(("options", "keys", "snippets", "links", "files"), 0)
problems = []


def check_options(place, line):
    for verb, words in re.findall(rf"millrace ({'|'.join(sorted(verbs, key=len, reverse=True))})\b([^`|;&]*)", line):
        for option in re.findall(OPTION, words):
            checked["options"] += 1
            if option not in verbs[verb]:
                problems.append(f"{place}: millrace {verb} has no {option}")


# Names of tensors and files may look like keys.
def is_key(name):
    return "." in name and name.split(".")[0] in sections and not re.search(r"\.(weight|bias|safetensors|json|jsonl|self_attn|mlp)\b", name)


def check_keys(place, line):
    names = re.findall(rf"`({KEY})(?=[`=:])", line) + re.findall(rf"--set ({KEY})(?:\[\d+\]\.{KEY})?=", line)
    for name in filter(is_key, names):
        checked["keys"] += 1
        if name not in keys | groups:
            problems.append(f"{place}: there is no key {name}")


# The program checks each snippet; an incomplete configuration is not an error.
def check_snippet(place, text):
    checked["snippets"] += 1
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        errors = run_millrace("train", file.name, "--print-config").stderr
    if re.search("unknown key|wrong value|not YAML|twice", errors):
        problems.append(f"{place}: {errors.strip()}")


# GitHub's anchors: lower case, no punctuation, - for spaces.
def headings(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for words in re.findall("^#+ (.*)", text, re.M)}


def check_links(place, path, line):
    for link in re.findall(r"\]\(([^)\s]+)\)", line):
        if "://" in link:
            continue
        checked["links"] += 1
        name, _, heading = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (heading and heading not in headings(target)):
            problems.append(f"{place}: {link} is broken")
    for name in re.findall(rf"`((?:{'|'.join(folders)})/[\w./-]*\w)(?=[` ])", line):
        checked["files"] += 1
        if not re.search("[A-Z]{4}", name) and path.name != "peers.md" and not (root / name).exists(): # peers.md names files of other projects
            problems.append(f"{place}: there is no file {name}")


def as_yaml(key, value):
    *parents, last = key.split(".")
    return "".join(f"{'  ' * n}{word}:\n" for n, word in enumerate(parents)) + f"{'  ' * len(parents)}{last}: {value}\n"


for path in [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]:
    text = path.read_text()
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{path.relative_to(root)}:{number}"
        check_options(place, line)
        check_keys(place, line)
        check_links(place, path, line)
        for key, value in re.findall(rf"`({KEY}): ([^`]+)`", line):
            if key in keys | groups | sections and (key in keys or value[0] in "{[") and not re.search(r"\b[A-Z]\b|^[a-z]$", value):
                check_snippet(place, as_yaml(key, value))
    for block in re.finditer(r"^```yaml\n(.*?)^```", text, re.M | re.S):
        place = f"{path.relative_to(root)}:{text.count(chr(10), 0, block.start()) + 1}"
        lines = block.group(1).split("\n")
        tops = [line.split(":")[0] for line in lines if re.match(r"\w", line)]
        for snippet in [block.group(1)] if len(set(tops)) == len(tops) else lines: # otherwise each line is an alternative
            check_snippet(place, snippet)

page = root / "docs/reference/configuration.md"
with tempfile.NamedTemporaryFile("r") as generated:
    subprocess.run([root / "scripts/config-page", program, generated.name], check=True)
    if generated.read() != page.read_text():
        problems.append(f"{page.relative_to(root)} is stale: run scripts/config-page")

for problem in problems:
    print(problem)
print(", ".join(f"{count} {what}" for what, count in checked.items()), file=sys.stderr)
sys.exit(bool(problems) or min(checked.values()) < 10)
