#!/usr/bin/env bash
# jpeg_fast_libraries — jpeg_fast agrees with libjpeg-turbo's C code and with its newest release, not
# only with the SIMD code of the installed one. The tests are the programs image_jpeg_fast and
# image_jpeg_streams.
#
#     jpeg_fast_libraries.sh TEST...
set -euo pipefail
newest=${TEST_SOURCE_DIR:-.}/build/oracles/libjpeg
export MILLRACE_TEST_JPEGS=${MILLRACE_TEST_JPEGS:-150}
for test in "$@"; do
  echo "libjpeg-turbo without SIMD"
  JSIMD_FORCENONE=1 "$test"
  if [[ ! -e $newest/libjpeg.so.62 ]]; then
    echo "not compared: there is no $newest (scripts/setup --oracles)"
  elif [[ $(LD_LIBRARY_PATH=$newest ldd "$test") != *"$newest/libjpeg.so.62"* ]]; then
    echo "not compared: this program's libjpeg has another ABI"
  else
    grep -ao 'libjpeg-turbo version [0-9.]*' "$newest/libjpeg.so.62"
    LD_LIBRARY_PATH=$newest "$test"
  fi
done
