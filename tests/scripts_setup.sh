#!/usr/bin/env bash
# scripts_setup — if scripts/setup does not know the package names, it lists and checks the
# requirements.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d "${TMPDIR:-/tmp}/millrace-setup-XXXXXX")
trap 'rm -rf "$folder"' EXIT
fail() { echo "scripts_setup: $*" >&2; exit 1; }
printf 'ID="void"\nPRETTY_NAME="Void Linux"\n' >"$folder/os-release"
export OS_RELEASE=$folder/os-release

# This tree has been built, so all requirements are installed, except perhaps Ninja, which Makefiles
# can replace.
if command -v ninja >/dev/null; then
  text=$(scripts/setup 2>&1) || fail "an unknown system that has everything: status $?: $text"
  [[ $text == *"Void Linux"*"nothing is installed"* ]] ||
    fail "does not say that it does not know the system: $text"
  [[ $text == *jansson* ]] || fail "does not list the libraries: $text"
  [[ $text == *"ready: all requirements are installed" ]] ||
    fail "does not end by saying that all is there: $text"
fi

# Every library that CMake requires is checked under the same name.
status=0
text=$(PKG_CONFIG_LIBDIR=$folder PKG_CONFIG_PATH='' scripts/setup 2>&1) || status=$?
[[ $status == 1 ]] || fail "an unknown system without libraries: status $status, expected 1"
while read -r module; do
  [[ $text == *"required, and missing:"*"${module/>=/ >= }"* ]] || fail "$module is not named as missing: $text"
done < <(sed -n 's/^pkg_check_modules(.* REQUIRED IMPORTED_TARGET \([^)]*\))/\1/p' cmake/dependencies.cmake)
echo "2 systems"
