#!/usr/bin/env bash
# promises — docs/reference/promises.md names tests: each exists and is run by its program or
# script.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0 count=0
fail() { echo "docs/reference/promises.md: $*" >&2; failed=1; }

# A case occurs twice in its file: where it is defined and where it is listed.
is_run() {
  local file
  for file in $(grep -rlw --include='*.c' --include='*.sh' "$1" tests); do
    [[ $(grep -ow "$1" "$file" | wc -l) -ge 2 ]] && return 0
  done
  return 1
}

while IFS= read -r row; do
  names=$(grep -oE '`[a-z0-9_]+`' <<<"${row%|}" | tr -d '`' || true)
  [[ -n $names ]] || fail "a line without a test: $row"
  for name in $names; do
    count=$((count + 1))
    is_run "$name" || fail "no such test: $name"
  done
done < <(grep '^| ' docs/reference/promises.md | grep -vE '^\| (reported|must) ')
[[ $count -gt 0 ]] || fail "no test is named"
echo "$count names of tests"
exit $failed
