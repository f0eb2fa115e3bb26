#!/usr/bin/env bash
# kernels_arm — the kernels for 64-bit ARM give plain C's bytes: cross-compiled, and run by an emulator. Skipped without either.
set -euo pipefail
cd "$(dirname "$0")/../.."
compiler=aarch64-linux-gnu-gcc
command -v "$compiler" >/dev/null || { echo "skipped: there is no $compiler"; exit 77; }
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "skipped: there is no qemu-aarch64"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$compiler" -static -O2 -Wall -Wextra -Wshadow -Werror -D_GNU_SOURCE -I. -o "$folder/kernels_alone" \
  tests/image/kernels_alone.c image/kernels.c image/resample*.c image/color*.c base/err.c
"$emulator" "$folder/kernels_alone" | tee "$folder/said"
grep -q '^neon:' "$folder/said"
