#!/usr/bin/env bash
# kernels_arm — cross-compiled and emulated, the kernels for 64-bit ARM give the same bytes as plain
# C, and random augmentations and normalized floats the same as on this machine. Skipped without a
# cross-compiler or an emulator.
set -euo pipefail
cd "$(dirname "$0")/../.."
compiler=aarch64-linux-gnu-gcc
command -v "$compiler" >/dev/null || { echo "skipped: there is no $compiler"; exit 77; }
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "skipped: there is no qemu-aarch64"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
flags=(-O2 -ffp-contract=off -Wall -Wextra -Wshadow -Werror -D_GNU_SOURCE -I.)
sources=(tests/image/kernels_alone.c image/kernels/*.c image/jpeg_fast/{entropy,huffman_lookup}.c image/jpeg_fast/inverse_dct*.c
  image/{normalize,pipeline/beta,pipeline/mixup}.c base/{err,display,str}.c)
"$compiler" -static "${flags[@]}" -o "$folder/there" "${sources[@]}" -lm
"${CC:-cc}" "${flags[@]}" -o "$folder/here" "${sources[@]}" -lm
"$emulator" "$folder/there" | tee "$folder/said"
grep -q '^neon:' "$folder/said"
wanted=$("$folder/here" | grep '^changed:')
grep -qx "$wanted" "$folder/said" || { echo "here it is $wanted"; exit 1; }
