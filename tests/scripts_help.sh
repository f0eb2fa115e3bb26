#!/usr/bin/env bash
# scripts_help — with --help, each script prints its description, from any folder, and does nothing
# else.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
empty=$(mktemp -d "${TMPDIR:-/tmp}/millrace-scripts-XXXXXX")
trap 'rm -rf "$empty"' EXIT
cd "$empty"
failed=0 count=0
fail() { echo "$*" >&2; failed=1; }

for script in "$top"/scripts/* "$top"/bench/*/setup "$top"/bench/*/run "$top"/bench/loaders/make_data.py; do
  command -v python3 >/dev/null || ! head -n 1 "$script" | grep -q python || continue
  name=${script##*/}
  name=${name%.py}
  text=$("$script" --help 2>&1 </dev/null) || { fail "$name --help: status $?"; continue; }
  [[ $text == *"$name — "* ]] || fail "$name --help does not begin by what it is: ${text%%$'\n'*}"
  [[ -z $(ls -A) ]] || fail "$name --help made $(ls -A)"
  count=$((count + 1))
done
[[ $failed == 0 ]] && echo "$count scripts"
exit $failed
