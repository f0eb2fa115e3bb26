#!/usr/bin/env bash
# The installed library: headers, symbols, its dependencies, and the examples, which use only
# pkg-config.
. "$(dirname "$0")/../cli/lib.sh"
: "${BUILD_DIR:?}" "${RENDER_SHAPES:?}"

DESTDIR=$scratch/root cmake --install "$BUILD_DIR" >/dev/null || exit 1
pc=$(find root -name millrace.pc)
library=$scratch/${pc%/pkgconfig/*}
export PKG_CONFIG_PATH=$library/pkgconfig LD_LIBRARY_PATH=$library
flags() { pkg-config "$@" millrace; }
need_mpi() {
  pkg-config millrace_mpi && command -v mpirun >/dev/null || skip "there is no MPI"
}
build() { # EXAMPLE [COMPILER]
  # shellcheck disable=SC2046
  "${2:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$scratch/empty" "$TEST_SOURCE_DIR/examples/$1.c" $(flags --cflags --libs) -o "$1"
}
headers() { (cd "$(flags --variable=includedir)" && find millrace -name '*.h' | sort); }

# Every function that the installed headers declare, as gcc lists prototypes: `/* FILE:LINE:.. */
# extern TYPE NAME (...)`.
declared() {
  headers | sed 's/.*/#include <&>/' >all.c
  # shellcheck disable=SC2046
  gcc -std=gnu11 $(flags --cflags) -fsyntax-only -aux-info prototypes all.c
  grep -E '^/\* [^ ]*/millrace/[a-z_/]*\.h:' prototypes | grep -v '/comm/comm_mpi\.h:' | grep -v ' static ' | sed -E 's/^[^(]*[ *]([a-z0-9_]+) \(.*$/\1/' | sort
}

public_headers_compile_in_c_and_cplusplus() {
  local compiler options header
  for compiler in gcc clang g++ clang++; do
    command -v $compiler >/dev/null || skip "$compiler is not installed"
    case $compiler in
      *++) options=('-x c++ -std=c++11' '-x c++ -std=c++17' '-x c++ -std=c++20') ;;
      *) options=('-x c -std=c11' '-x c -std=gnu17' '-x c -std=c2x') ;;
    esac
    for option in "${options[@]}"; do
      for header in $(headers); do
        # shellcheck disable=SC2046,SC2086
        $compiler $option $(flags --cflags) -fsyntax-only -Wall -Wextra -Wpedantic -Werror -include "$header" /dev/null ||
          fail "$header does not compile alone: $compiler $option"
      done
    done
  done
}

a_cplusplus_program_links() {
  command -v g++ >/dev/null || skip "g++ is not installed"
  cat >program.cpp <<'CPP'
#include <millrace/ckpt.h>
#include <millrace/loader.h>
int main()
{
    loader_options options = loader_options_default();
    struct err err = {};
    struct loader *loader = nullptr;
    options.dataset = "absent";
    options.batching = {8, 8, 0, 1, false};
    return loader_open(&options, &loader, &err) == err.code && err.code < 0 && ckpt_section_name(CKPT_MODEL) ? 0 : 1;
}
CPP
  # shellcheck disable=SC2046
  g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror program.cpp $(flags --cflags --libs) -o program
  ./program
}

a_cplusplus_program_keeps_fields() {
  command -v g++ >/dev/null || skip "g++ is not installed"
  cat >keep.cpp <<'CPP'
#include <millrace/loader.h>
#include <cstdio>
#include <memory>
#include <vector>
struct labels {
    batch_field field;
    std::unique_ptr<batch_memory, decltype(&batch_memory_release)> memory;
};
int main(int, char **argv)
{
    loader_options options = loader_options_default();
    struct err err = {};
    struct loader *loader = nullptr;
    const batch *next = nullptr;
    std::vector<labels> kept;
    int status, counts[7] = {};
    options.dataset = argv[1];
    options.batching = {16, 8, 0, 1, false};
    options.epochs_max = 1;
    loader_field cls = {};
    cls.name = "text";
    cls.from = "cls";
    cls.decode = LOADER_FIELD_STR;
    options.decode = LOADER_IMAGE;
    options.fields = &cls;
    options.fields_count = 1;
    options.keep = LOADER_KEEP_GROW;
    options.batches_ahead = 2;
    if (loader_open(&options, &loader, &err) < 0)
        return 1;
    while ((status = loader_next(loader, &next, &err)) == LOADER_BATCH) {
        const batch_field *field = batch_field_named(next, "label"), *text = batch_field_named(next, "text");
        for (uint32_t i = 0; i < next->items_count; i++)
            if (static_cast<const char *>(text->data)[text->offsets[i]] - '0' != static_cast<const int32_t *>(field->data)[i])
                return 1;
        kept.push_back({*field, {batch_field_retain(field), batch_memory_release}});
        loader_release(loader, next);
    }
    loader_close(loader);
    for (const labels &of : kept)
        for (uint64_t i = 0; i < of.field.shape[0]; i++)
            counts[static_cast<const int32_t *>(of.field.data)[i]]++;
    for (int count : counts)
        std::printf("%d ", count);
    return status == LOADER_END ? 0 : 1;
}
CPP
  "$RENDER_SHAPES" --count 6 --side 48 shapes >/dev/null
  millrace convert dataset shapes kept --quiet >/dev/null
  # shellcheck disable=SC2046
  g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror keep.cpp $(flags --cflags --libs) -o keep
  same "$(./keep kept)" "6 6 6 6 6 6 6 "
}

the_shared_library_exports_what_its_headers_declare() {
  declared >wanted
  [[ $(wc -l <wanted) -gt 50 ]]
  nm -D --defined-only "$library/libmillrace.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort | diff wanted -
  contains "$(readelf -d "$library/libmillrace.so")" "soname: [libmillrace.so.0]"
}

the_static_library_exports_no_other_names() {
  declared >wanted
  nm -g --defined-only "$library/libmillrace.a" | awk 'NF == 3 { print $3 }' | sort | diff wanted -
}

it_links_neither_mpi_nor_the_trainer() {
  readelf -d "$library/libmillrace.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >needed
  ! grep -iE 'mpi|blas|fyaml|pmix|nccl|cuda' needed || fail "the library needs these"
  ! nm "$library/libmillrace.a" | grep -E ' (MPI_|cblas_|fy_|trainer_|config_parse)' || fail "the library holds these"
  ! flags --static --libs | grep -iE 'mpi|blas|fyaml' || fail "pkg-config names these"
  same "$(flags --libs | tr ' ' '\n' | grep -c '^-l')" 1 "libraries that a program names"
}

it_neither_prints_nor_exits_nor_handles_signals() {
  nm -D --undefined-only "$library/libmillrace.so" | awk '{ sub(/@.*/, "", $2); print $2 }' >used
  ! grep -xE 'exit|_exit|quick_exit|printf|puts|putchar|perror|vprintf|stdout|signal|sigaction|setlocale|atexit' used ||
    fail "the library uses these"
}

load_streams_the_order_of_read() {
  local compiler
  "$RENDER_SHAPES" --count 6 --side 48 photos >/dev/null
  millrace convert dataset photos shards --quiet >/dev/null
  millrace read shards --seed 7 --batch 16 --micro 8 --quiet >read
  for compiler in gcc clang; do
    command -v $compiler >/dev/null || skip "$compiler is not installed"
    build load $compiler
    ./load shards 32 >loaded
    same "$(sed -n 's/^once \([0-9a-f]*\)  order .*/\1/p' loaded)" "$(sed -n 's/^once  *\([0-9a-f]\{16\}\)$/\1/p' read)" once
    same "$(sed -n 's/^once .*  order //p' loaded)" "$(sed -n 's/^order  *\([0-9a-f]\{16\}\)$/\1/p' read)" order
    contains "$(cat loaded)" "42 samples of 42"
    contains "$(cat loaded)" "stopped after 1 micro-batches of the step at position 0"
  done
  same "$(status_of ./load absent)" 1
  one_line errors
}

load_streams_real_photos() {
  [[ -d $data/clothing/validation ]] || skip "$data/clothing/validation is not there"
  build load
  millrace convert dataset "$data/clothing/validation" clothes --quiet >/dev/null
  ./load clothes 64 >loaded
  contains "$(tail -n 2 loaded)" "$(millrace read clothes --json | sed -n 's/.*"epoch_samples_count":\([0-9]*\).*/\1 samples of \1 by/p')"
}

# The box is the whole image, so it is the whole crop, too, if it remains.
boxes_prints_classes_and_corners() {
  local image class n=0 images='' annotations='' categories=''
  [[ -e photos ]] || "$RENDER_SHAPES" --count 6 --side 48 photos >/dev/null
  mkdir -p coco/annotations coco/train
  for class in photos/*; do
    categories+=",{\"id\":$n,\"name\":\"${class#*/}\"}"
    for image in "$class"/*.jpg; do
      cp "$image" "coco/train/${class#*/}-$n.jpg"
      images+=",{\"id\":$n,\"file_name\":\"${class#*/}-$n.jpg\",\"width\":48,\"height\":48}"
      annotations+=",{\"id\":$n,\"image_id\":$n,\"category_id\":$((n / 6 * 6)),\"bbox\":[0,0,48,48],\"area\":2304,\"iscrowd\":0}"
      n=$((n + 1))
    done
  done
  same "$n" 42 images
  echo "{\"images\":[${images:1}],\"annotations\":[${annotations:1}],\"categories\":[${categories:1}]}" >coco/annotations/instances_train.json
  millrace convert dataset coco boxes-shards --quiet >/dev/null
  build boxes
  ./boxes boxes-shards >boxes.txt
  [[ $(wc -l <boxes.txt) -gt 30 ]] || fail "few boxes remain"
  ! grep -vE '^([a-z]+)-[0-9]+  \1  0\.0 0\.0 224\.0 224\.0$' boxes.txt || fail "wrong classes or corners"
  same "$(status_of ./boxes absent)" 1
  one_line errors
}

save_resumes_and_loads_any_parts() {
  build save
  same "$(./save heat 5)" "step 30 loaded in 5 parts: bit-identical"
  same "$(./save heat 7)" $'continuing from step 30\nstep 60 loaded in 7 parts: bit-identical'
  millrace verify heat/step-00000060 >/dev/null
  # 60 steps in one process or in two give the same state
  build save
  ./save other >/dev/null
  ./save other 96 >/dev/null
  same "$(millrace ckpt hash heat)" "$(millrace ckpt hash other)"
  printf 'x' | dd of=heat/step-00000060/rank-00000.safetensors bs=1 seek=5000 conv=notrunc status=none
  same "$(status_of ./save heat)" 1
  one_line errors
}

any_number_of_ranks_resumes_a_collective_save() {
  need_mpi
  # shellcheck disable=SC2046
  cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$TEST_SOURCE_DIR/examples/save_ranks.c" $(pkg-config --cflags --libs millrace_mpi) -o save_ranks
  ranks() { "$TEST_SOURCE_DIR/tests/support/mpirun.sh" "$1" ./save_ranks "$2"; }
  same "$(ranks 4 ring)" $'4 ranks continue from step 0\nstep 10 is saved'
  same "$(ranks 3 ring)" $'3 ranks continue from step 10\nstep 20 is saved'
  same "$(./save_ranks alone)" $'1 ranks continue from step 0\nstep 10 is saved' # without mpirun: one rank
  ranks 2 alone >/dev/null
  same "$(millrace ckpt hash ring)" "$(millrace ckpt hash alone)"
}

the_library_injects_no_faults() {
  ! grep -q MILLRACE_FAULT "$library"/libmillrace.{so,a} || fail "it reads the variable"
}

the_library_of_ranks_exports_its_header_and_links_mpi() {
  need_mpi
  same "$(nm -D --defined-only "$library/libmillrace_mpi.so" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort | tr '\n' ' ')" \
    "comm_mpi_library comm_mpi_open comm_mpi_version "
  contains "$(readelf -d "$library/libmillrace_mpi.so")" "libmpi.so"
  contains "$(readelf -d "$library/libmillrace_mpi.so")" "soname: [libmillrace_mpi.so.0]"
}

a_program_with_clashing_names_links_statically() {
  cat >program.c <<'C'
#include <millrace/loader.h>
int str_add(void);
int str_add(void) { return 3; } /* the library has one too, within */
int json_parse(void);
int json_parse(void) { return 4; }
int main(void)
{
    struct loader *loader = NULL;
    struct loader_options options = loader_options_default();
    struct err err;
    options.dataset = "absent";
    return loader_open(&options, &loader, &err) < 0 && str_add() + json_parse() == 7 ? 0 : 1;
}
C
  # shellcheck disable=SC2046
  cc program.c $(flags --cflags) -o program "$library/libmillrace.a" $(flags --static --libs | sed 's/-lmillrace//')
  ! ldd program | grep millrace || fail "linked to the shared library"
  ./program
}

cmake_finds_the_package() {
  mkdir project
  cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.16)
project(uses LANGUAGES C)
find_package(millrace 0.1 REQUIRED)
add_executable(save ${EXAMPLES}/save.c)
target_link_libraries(save PRIVATE millrace::millrace)
CMAKE
  cmake -G Ninja -S project -B project/build -DCMAKE_PREFIX_PATH="$(dirname "$library")" -DEXAMPLES="$TEST_SOURCE_DIR/examples" >/dev/null
  cmake --build project/build >/dev/null
  contains "$(project/build/save plate)" "bit-identical"
}

manual_pages_and_completions_are_installed() {
  local share
  share=$scratch/$(dirname "$(find root -type d -name man)")
  millrace manual --out told
  diff -r told "$share/man"
  millrace completion bash | cmp - "$share/bash-completion/completions/millrace"
  millrace completion zsh | cmp - "$share/zsh/site-functions/_millrace"
  millrace completion fish | cmp - "$share/fish/vendor_completions.d/millrace.fish"
  command -v man >/dev/null || skip "man is not installed"
  same "$(man -M "$share/man" -w millrace-convert-dataset)" "$share/man/man1/millrace-convert-dataset.1"
}

run_cases public_headers_compile_in_c_and_cplusplus a_cplusplus_program_links a_cplusplus_program_keeps_fields \
  the_shared_library_exports_what_its_headers_declare \
  the_static_library_exports_no_other_names it_links_neither_mpi_nor_the_trainer the_library_injects_no_faults \
  it_neither_prints_nor_exits_nor_handles_signals load_streams_the_order_of_read load_streams_real_photos \
  boxes_prints_classes_and_corners \
  save_resumes_and_loads_any_parts any_number_of_ranks_resumes_a_collective_save the_library_of_ranks_exports_its_header_and_links_mpi a_program_with_clashing_names_links_statically cmake_finds_the_package manual_pages_and_completions_are_installed
