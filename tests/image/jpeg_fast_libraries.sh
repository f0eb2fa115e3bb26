#!/usr/bin/env bash
# jpeg_fast_libraries — jpeg_fast agrees with libjpeg-turbo's C code and with its newest release, not
# only with the SIMD code of the installed one. TEST is the test program image_jpeg_fast.
#
#     jpeg_fast_libraries.sh TEST
set -euo pipefail
test=$1
newest=${TEST_SOURCE_DIR:-.}/build/oracles/libjpeg
export MILLRACE_TEST_JPEGS=${MILLRACE_TEST_JPEGS:-150}
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
