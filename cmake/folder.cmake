# mr_flags: compiler options for all our code. -ffp-contract=off makes results independent of the
# compiler's choice to fuse operations; the other -fno-... options allow vectorization and change no
# result.
add_library(mr_flags INTERFACE)
option(MR_WERROR "treat compiler warnings as errors (the presets of CI)" OFF)
target_compile_definitions(mr_flags INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64 MILLRACE_VERSION="${PROJECT_VERSION}")
target_compile_options(mr_flags INTERFACE
  -Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  -Wpointer-arith -Wvla -Wwrite-strings
  -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-strict-aliasing
  $<$<BOOL:${MR_WERROR}>:-Werror>)

set(MR_SANITIZE "" CACHE STRING "sanitizers to build with: address,undefined or thread")
if(MR_SANITIZE)
  target_compile_options(mr_flags INTERFACE -fsanitize=${MR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(mr_flags INTERFACE -fsanitize=${MR_SANITIZE})
  target_compile_definitions(mr_flags INTERFACE MR_SANITIZED=1)
endif()

option(MR_FUZZ "build the fuzz targets of tests/fuzz (clang; preset fuzz)" OFF)

# mr_folder(NAME SOURCES a.c ... USES base io ... LIBS PkgConfig::X ...): one static library per folder.
function(mr_folder name)
  cmake_parse_arguments(F "" "" "SOURCES;USES;LIBS" ${ARGN})
  add_library(mr_${name} STATIC ${F_SOURCES})
  target_include_directories(mr_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(mr_${name} PUBLIC mr_flags Threads::Threads m)
  foreach(used IN LISTS F_USES)
    target_link_libraries(mr_${name} PUBLIC mr_${used})
  endforeach()
  target_link_libraries(mr_${name} PUBLIC ${F_LIBS})
endfunction()
