#!/usr/bin/env bash
# Every header compiles by itself. Headers of CUDA kernels with extern "C" compile as C and as C++
# if CUDA's headers are installed; headers shared by kernels are compiled with them.
. "$(dirname "$0")/../cli/lib.sh"

# compiles LANGUAGE_OPTIONS COMPILER HEADER...: compiles each header as the only content of a file.
compiles() {
  local options=$1 compiler=$2 header failed=0
  shift 2
  command -v "$compiler" >/dev/null || skip "$compiler is not installed"
  for header in "$@"; do
    # shellcheck disable=SC2086
    "$compiler" $options -I"$TEST_SOURCE_DIR" -fsyntax-only -Wall -Wextra -Werror -Wno-missing-field-initializers \
      -include "$header" /dev/null || { echo "$header does not compile alone" >&2; failed=1; }
  done
  same $failed 0
}

mapfile -t all < <(cd "$TEST_SOURCE_DIR" && find base device io comm image tokenizer sampler shards loader ckpt trainer convert cli tests -path '*/cuda*' -prune -o -name '*.h' -print | sort)
# The headers of the MPI adapter need mpi.h.
mpi_flags=
if [[ -n ${MPI_INCLUDE_DIR:-} ]]; then
  mpi_flags="-isystem $MPI_INCLUDE_DIR"
else
  mapfile -t all < <(printf '%s\n' "${all[@]}" | grep -v '^comm/mpi/')
fi
# REAL_BITS parameterizes a kernel template; see trainer/ops/cpu/real.h.
as_ours='-x c -std=gnu11 -D_GNU_SOURCE -DREAL_BITS=32 -Wno-unused-function '$mpi_flags
# With one compiler: the build with clang (scripts/other-builds) shows its warnings about them.
every_header_compiles_alone() { compiles "$as_ours" gcc "${all[@]}"; }

mapfile -t kernel_headers < <(cd "$TEST_SOURCE_DIR" && grep -l 'extern "C"' trainer/ops/cuda/*.h trainer/ops/cuda/*/*.h)
kernel_headers_compile_alone_as_c_and_cpp() {
  local cuda=${CUDA_INCLUDE_DIR:-}
  [[ -n $cuda ]] || skip "this build found no CUDA toolkit"
  [[ ${#kernel_headers[@]} -gt 5 ]] || fail "found only ${kernel_headers[*]}"
  compiles "$as_ours -isystem $cuda" gcc "${kernel_headers[@]}"
  compiles "-x c++ -std=c++14 -D_GNU_SOURCE -isystem $cuda" g++ "${kernel_headers[@]}"
}

run_cases every_header_compiles_alone kernel_headers_compile_alone_as_c_and_cpp
