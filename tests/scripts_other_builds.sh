#!/usr/bin/env bash
# scripts_other_builds — the list has every generator and build type, and selects one by date.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { echo "scripts_other_builds: $*" >&2; exit 1; }
list=$(scripts/other-builds list)
for type in none Debug Release RelWithDebInfo MinSizeRel; do
  for generator in Ninja 'Unix Makefiles'; do
    wanted="$type $generator"
    [[ $(grep -cE "^[0-9]+ $wanted( \*)?$" <<<"$list") == 1 ]] ||
      fail "$wanted does not stand once in: $list"
  done
done
[[ $(grep -c '\*$' <<<"$list") == 1 ]] || fail "not one combination is the day's: $list"
status=0
scripts/other-builds 99 >/dev/null 2>&1 || status=$?
[[ $status == 2 ]] || fail "a combination that does not exist: status $status, expected 2"
echo "$(wc -l <<<"$list") combinations"
