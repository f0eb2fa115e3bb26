# The library: loader and checkpoint and what they stand on; it links neither MPI nor the trainer. docs/howto/use-the-c-library.md.
#
# Public is what the headers below declare: the shared library exports exactly libmillrace.map's names, and the static one is a
# single object whose other names were made local, so that a program with its own `str_add` gets along with both.

set(MR_LIBRARY_FOLDERS base device io comm image sampler shards loader ckpt)

# The two faces, and every header that they include. Installed below include/millrace, where "io/io.h" becomes <millrace/io/io.h>.
set(MR_PUBLIC_FACES loader/loader.h ckpt/ckpt.h)
set(MR_PUBLIC_HEADERS ${MR_PUBLIC_FACES}
  base/cipher.h base/dtype.h base/err.h base/hash.h base/log.h comm/comm.h device/device.h image/augment.h image/crop.h image/mixup.h image/rect.h io/io.h
  sampler/mix.h sampler/order.h sampler/sampler.h)

# What the folders need beside each other: foreign libraries, gathered here so that no list has to follow them.
set(folders "")
set(objects "")
set(foreign "")
foreach(folder IN LISTS MR_LIBRARY_FOLDERS ITEMS device_cuda)
  list(APPEND folders mr_${folder})
  list(APPEND objects $<TARGET_OBJECTS:mr_${folder}>)
  get_target_property(linked mr_${folder} LINK_LIBRARIES)
  list(FILTER linked EXCLUDE REGEX "^mr_|MR_CUDA_ON_CPU|^CUDA::")
  list(APPEND foreign ${linked})
endforeach()
list(REMOVE_DUPLICATES foreign)

# The CUDA runtime goes into the library, static, and none of its names come out: who links libmillrace needs no CUDA.
set(cudart "")
set(cudart_archive "")
if(MR_CUDA_PROGRAM)
  set(cudart CUDA::cudart_static)
  set(cudart_archive ${CUDA_cudart_static_LIBRARY})
endif()

# For pkg-config: packages by name, the rest as flags.
set(MR_PC_REQUIRES "")
set(MR_PC_LIBS "")
foreach(library IN LISTS foreign)
  if(library STREQUAL "Threads::Threads")
    string(APPEND MR_PC_LIBS " -pthread")
  elseif(library STREQUAL "JPEG::JPEG")
    string(APPEND MR_PC_REQUIRES " libjpeg")
  elseif(library MATCHES "^PkgConfig::(.*)$")
    string(APPEND MR_PC_REQUIRES " ${${CMAKE_MATCH_1}_MODULE_NAME}")
  elseif(library MATCHES "^[a-z]+$")
    string(APPEND MR_PC_LIBS " -l${library}")
  else()
    message(FATAL_ERROR "cmake/library.cmake: how does pkg-config call ${library}?")
  endif()
endforeach()

set(map ${PROJECT_SOURCE_DIR}/cmake/libmillrace.map)
file(STRINGS ${map} exported REGEX "^        [a-z0-9_]+;$")
list(TRANSFORM exported REPLACE "^ *([a-z0-9_]+);$" "\\1")
list(JOIN exported "\n" exported)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/libmillrace.names CONTENT "${exported}\n" @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${map})

add_library(millrace_shared SHARED ${objects})
set_target_properties(millrace_shared PROPERTIES OUTPUT_NAME millrace EXPORT_NAME millrace LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS ${map})
target_link_libraries(millrace_shared PRIVATE mr_flags ${foreign} ${cudart})
target_link_options(millrace_shared PRIVATE -Wl,--version-script=${map} -Wl,--as-needed)
target_include_directories(millrace_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# It depends on the folders' archives, not on their objects: Makefiles have no rule for the objects of another directory.
set(joined ${PROJECT_BINARY_DIR}/libmillrace.o)
add_custom_command(OUTPUT ${joined}
  COMMAND ${CMAKE_LINKER} -r -o ${joined} ${objects} ${cudart_archive}
  COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${PROJECT_BINARY_DIR}/libmillrace.names ${joined}
  DEPENDS ${folders} ${PROJECT_BINARY_DIR}/libmillrace.names COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Joining libmillrace.o")
set_source_files_properties(${joined} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
add_library(millrace_static STATIC ${joined})
set_target_properties(millrace_static PROPERTIES OUTPUT_NAME millrace LINKER_LANGUAGE C)

# The header of libmillrace_mpi, a face of its own library.
if(MPI_C_FOUND)
  list(APPEND MR_PUBLIC_FACES comm/comm_mpi.h)
  list(APPEND MR_PUBLIC_HEADERS comm/comm_mpi.h)
endif()

# The headers as they are installed.
set(include ${PROJECT_BINARY_DIR}/include/millrace)
set(made "")
foreach(header IN LISTS MR_PUBLIC_HEADERS)
  add_custom_command(OUTPUT ${include}/${header}
    COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/${header} -DTO=${include}/${header} -P ${PROJECT_SOURCE_DIR}/cmake/public_header.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/${header} ${PROJECT_SOURCE_DIR}/cmake/public_header.cmake VERBATIM
    COMMENT "Making millrace/${header}")
  list(APPEND made ${include}/${header})
endforeach()
foreach(header IN LISTS MR_PUBLIC_FACES)
  get_filename_component(name ${header} NAME_WE)
  set(MR_FACE ${header})
  configure_file(cmake/face.h.in ${include}/${name}.h @ONLY)
endforeach()
add_custom_target(millrace_headers ALL DEPENDS ${made})

# The prefix follows from where millrace.pc lies, so that an installed tree may be moved.
set(MR_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR} AND NOT IS_ABSOLUTE ${CMAKE_INSTALL_INCLUDEDIR})
  file(RELATIVE_PATH MR_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" MR_PC_PREFIX "\${pcfiledir}/${MR_PC_PREFIX}")
  set(MR_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  set(MR_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
else()
  set(MR_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  set(MR_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
endif()
configure_file(cmake/millrace.pc.in ${PROJECT_BINARY_DIR}/millrace.pc @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# Ranks over MPI: a library beside it, with a pkg-config file of its own that names both.
if(MPI_C_FOUND)
  configure_file(cmake/millrace_mpi.pc.in ${PROJECT_BINARY_DIR}/millrace_mpi.pc @ONLY)
  install(TARGETS millrace_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_BINARY_DIR}/millrace_mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

install(TARGETS millrace_shared EXPORT millrace LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS millrace_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${include} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.c" PATTERN "*.sbatch")
install(FILES ${PROJECT_BINARY_DIR}/millrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/millraceConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
install(EXPORT millrace FILE millraceConfig.cmake NAMESPACE millrace:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/millrace)
