#!/usr/bin/env bash
# scripts_setup — if scripts/setup does not know the package names, it lists and checks the
# requirements. CMake names all that are missing, and how to install them.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d "${TMPDIR:-/tmp}/millrace-setup-XXXXXX")
trap 'rm -rf "$folder"' EXIT
fail() { echo "scripts_setup: $*" >&2; exit 1; }
modules() { sed -n 's/^mr_require([A-Z0-9_]* \([^)]*\))/\1/p' cmake/dependencies.cmake; }
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

[[ $(modules | wc -l) -gt 5 ]] || fail "cmake/dependencies.cmake has another form"
# Every library that CMake requires is checked under the same name.
status=0
text=$(PKG_CONFIG_LIBDIR=$folder PKG_CONFIG_PATH='' scripts/setup 2>&1) || status=$?
[[ $status == 1 ]] || fail "an unknown system without libraries: status $status, expected 1"
while read -r module; do
  [[ $text == *"required, and missing:"*"${module/>=/ >= }"* ]] || fail "$module is not named as missing: $text"
done < <(modules)

# CMake, on this system: none of the libraries is found. Nothing is printed of packages that are
# installed, and with none of them, the one command.
unset OS_RELEASE
status=0
text=$(PKG_CONFIG_LIBDIR=$folder PKG_CONFIG_PATH='' cmake -S . -B "$folder/build" 2>&1) || status=$?
[[ $status != 0 ]] || fail "CMake accepts a system without libraries"
text=$(tr -s ' \n' ' ' <<<"$text") # CMake wraps lines
while read -r module; do
  [[ $text == *"missing: "*"$module"* ]] || fail "CMake does not name $module as missing: $text"
done < <(modules)
mkdir "$folder/bin"
printf '#!/bin/sh\nexit 1\n' >"$folder/bin/dpkg-query"
chmod +x "$folder/bin/dpkg-query"
text=$(PATH=$folder/bin:$PATH scripts/setup --print)
case $(. /etc/os-release && echo "$ID $VERSION_ID") in
  'debian 12' | 'debian 13' | 'ubuntu 22.04' | 'ubuntu 24.04')
    [[ $text == 'run this as root: apt-get update && apt-get install'*libjansson-dev*python3*-dev* ]] ||
      fail "--print does not print the command: $text" ;;
esac
echo "2 systems"
