# CUDA, optional. If a toolkit is found, the backend is built twice: by nvcc for the programs, and by
# the C++ compiler for the tests, which run it on the CPU (tests/cuda_on_cpu/). Programs start without
# a driver, because the static runtime searches for it at first use.
#
#   MR_CUDA_FOUND     a toolkit and a C++ compiler exist: the tests include the backend
#   MR_CUDA_PROGRAM   programs include it too; requires gcc; sanitizers do not support the runtime

set(MR_CUDA AUTO CACHE STRING "the CUDA backend: AUTO (if a toolkit is found), ON or OFF")
set_property(CACHE MR_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MR_CUDA_FOUND FALSE)
set(MR_CUDA_PROGRAM FALSE)
set(mr_cuda_why "MR_CUDA is OFF")
if(MR_CUDA AND NOT MR_FUZZ)
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND)
    if(CMAKE_C_COMPILER_ID MATCHES Clang AND NOT CMAKE_CXX_COMPILER)
      string(REGEX REPLACE "clang" "clang++" CMAKE_CXX_COMPILER "${CMAKE_C_COMPILER}")
    endif()
    include(CheckLanguage)
    check_language(CXX)
  endif()
  if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(mr_cuda_why "no toolkit of version 12.0 or later was found; set CUDAToolkit_ROOT to its folder")
  elseif(NOT CMAKE_CXX_COMPILER)
    set(mr_cuda_why "there is no C++ compiler")
  elseif(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    set(mr_cuda_why "its tests need an x86-64 processor")
  else()
    set(MR_CUDA_FOUND TRUE)
  endif()
endif()

if(MR_CUDA_FOUND)
  enable_language(CXX)
  set(CMAKE_CXX_STANDARD 17)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  if(NOT MR_SANITIZE AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    set(MR_CUDA_PROGRAM TRUE)
    message(STATUS "CUDA ${CUDAToolkit_VERSION}: in programs, and in tests on the CPU")
  else()
    message(STATUS "CUDA ${CUDAToolkit_VERSION}: in tests on the CPU only; programs need gcc and no sanitizers")
  endif()
elseif(MR_CUDA STREQUAL ON)
  message(FATAL_ERROR "MR_CUDA is ON, but ${mr_cuda_why}")
else()
  message(STATUS "CUDA: none, as ${mr_cuda_why}")
endif()

# NCCL, optional. The library is loaded at run time, so the build needs only its header.
#
#   MR_NCCL_FOUND     nccl.h exists: the NCCL backend is built like CUDA's
set(MR_NCCL_FOUND FALSE)
if(MR_CUDA_FOUND)
  find_path(MR_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} DOC "folder of nccl.h")
  if(MR_NCCL_INCLUDE_DIR)
    set(MR_NCCL_FOUND TRUE)
    file(STRINGS ${MR_NCCL_INCLUDE_DIR}/nccl.h mr_nccl_version REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
    list(TRANSFORM mr_nccl_version REPLACE "^.* " "")
    list(JOIN mr_nccl_version "." mr_nccl_version)
    message(STATUS "NCCL ${mr_nccl_version}: between the GPUs of several ranks")
  else()
    message(STATUS "NCCL: none, as nccl.h was not found; set MR_NCCL_INCLUDE_DIR to its folder")
  endif()
endif()

# Machine code for Hopper, and PTX that the driver compiles for Ampere and later.
set(MR_NVCC_FLAGS -std=c++17 -O3 -gencode arch=compute_80,code=compute_80 -gencode arch=compute_90a,code=sm_90a
  -Xcompiler -Wall,-Wextra,-fPIC,-fno-exceptions,-fno-threadsafe-statics -I${PROJECT_SOURCE_DIR})

# Flags for the CPU. The compiler ignores the pragmas that make nvcc unroll loops.
set(MR_CUDA_ON_CPU_FLAGS -O2 -g1 -UNDEBUG -Wall -Wextra -Wno-unknown-pragmas -fno-strict-aliasing -ffp-contract=off
  "SHELL:-include ${PROJECT_SOURCE_DIR}/tests/cuda_on_cpu/shim.h")

if(MR_WERROR)
  list(APPEND MR_NVCC_FLAGS -Werror all-warnings -Xcompiler -Werror)
  list(APPEND MR_CUDA_ON_CPU_FLAGS -Werror)
endif()

function(mr_kernel_target prefix path ret_target)
  string(MAKE_C_IDENTIFIER "${prefix}_${path}" target)
  set(${ret_target} ${target} PARENT_SCOPE)
endfunction()

# mr_kernel_by_nvcc(PATH RET_TARGET): builds the .cu file (relative to the project) as a
# library for GPUs.
function(mr_kernel_by_nvcc path ret_target)
  mr_kernel_target(nvcc "${path}" target)
  set(${ret_target} ${target} PARENT_SCOPE)
  if(TARGET ${target})
    return()
  endif()
  set(object ${PROJECT_BINARY_DIR}/cuda/${path}.o)
  get_filename_component(folder ${object} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${object}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ccbin ${CMAKE_CXX_COMPILER} ${MR_NVCC_FLAGS}
      -MD -MF ${object}.d -MT ${object} -c ${PROJECT_SOURCE_DIR}/${path} -o ${object}
    DEPENDS ${PROJECT_SOURCE_DIR}/${path} DEPFILE ${object}.d VERBATIM
    COMMENT "Building ${path} by nvcc")
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(${target} STATIC ${object})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  target_link_libraries(${target} PUBLIC CUDA::cudart_static)
endfunction()

# mr_kernel_on_cpu(PATH RET_TARGET): builds the same file as a library for the CPU.
function(mr_kernel_on_cpu path ret_target)
  mr_kernel_target(on_cpu "${path}" target)
  set(${ret_target} ${target} PARENT_SCOPE)
  if(TARGET ${target})
    return()
  endif()
  set_source_files_properties(${PROJECT_SOURCE_DIR}/${path} PROPERTIES LANGUAGE CXX)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/${path})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_options(${target} PRIVATE ${MR_CUDA_ON_CPU_FLAGS})
  if(MR_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${MR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  endif()
  target_link_libraries(${target} INTERFACE mr_cuda_on_cpu)
endfunction()

# mr_cuda_backend(FOLDER SOURCES a.c ... KERNELS b.cu ... ABSENT c.c [GPU_SOURCES d.c ...]
# [CPU_SOURCES e.c ...]): adds the CUDA part of mr_FOLDER. ABSENT replaces it in programs without CUDA.
# GPU_SOURCES run only on a GPU; tests on the CPU use CPU_SOURCES instead. A program selects one with
# its property MR_CUDA_ON_CPU.
function(mr_cuda_backend folder)
  cmake_parse_arguments(B "" "ABSENT" "SOURCES;KERNELS;GPU_SOURCES;CPU_SOURCES" ${ARGN})
  file(RELATIVE_PATH here ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  if(MR_CUDA_FOUND)
    add_library(mr_${folder}_cuda_on_cpu STATIC EXCLUDE_FROM_ALL ${B_SOURCES} ${B_CPU_SOURCES})
    target_link_libraries(mr_${folder}_cuda_on_cpu PUBLIC mr_${folder} mr_cuda_on_cpu)
    target_include_directories(mr_${folder}_cuda_on_cpu SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    foreach(kernel IN LISTS B_KERNELS)
      mr_kernel_on_cpu(${here}/${kernel} target)
      target_link_libraries(mr_${folder}_cuda_on_cpu PUBLIC ${target})
    endforeach()
  endif()
  if(MR_CUDA_PROGRAM)
    add_library(mr_${folder}_cuda STATIC ${B_SOURCES} ${B_GPU_SOURCES})
    target_link_libraries(mr_${folder}_cuda PUBLIC mr_${folder} CUDA::cudart_static)
    foreach(kernel IN LISTS B_KERNELS)
      mr_kernel_by_nvcc(${here}/${kernel} target)
      target_link_libraries(mr_${folder}_cuda PUBLIC ${target})
    endforeach()
  else()
    add_library(mr_${folder}_cuda STATIC ${B_ABSENT})
    target_link_libraries(mr_${folder}_cuda PUBLIC mr_${folder})
  endif()
  target_link_libraries(mr_${folder} PUBLIC
    $<IF:$<BOOL:$<TARGET_PROPERTY:MR_CUDA_ON_CPU>>,mr_${folder}_cuda_on_cpu,mr_${folder}_cuda>)
endfunction()
