# libmillrace: the loader, checkpoints, and the folders they use, without MPI and the trainer
# (docs/howto/use-the-c-library.md).
#
# The public functions are those of the headers below. The shared library exports only the names in
# libmillrace.map. The static library is a single object whose other names are local, so a program may
# define a function of the same name, such as `str_add`.

set(MR_LIBRARY_FOLDERS base device io comm image tokenizer sampler shards loader ckpt)

# The main headers, and all headers that they include. They are installed in include/millrace, where
# "io/io.h" becomes <millrace/io/io.h>.
set(MR_PUBLIC_FACES loader/loader.h loader/sample_reader.h ckpt/ckpt.h comm/tcp/comm_tcp.h)
set(MR_PUBLIC_HEADERS ${MR_PUBLIC_FACES}
  base/cipher.h base/dtype.h base/err.h base/hash.h base/log.h comm/comm.h comm/tcp/tcp_rendezvous_options.h device/device.h image/augment.h image/crop.h image/mixup.h image/normalize.h image/rect.h io/io.h
  sampler/mix.h sampler/order.h sampler/sampler.h)

# Collects the folders' external libraries, so that no separate list needs maintenance.
set(folders "")
set(objects "")
set(external_libraries "")
foreach(folder IN LISTS MR_LIBRARY_FOLDERS ITEMS device_cuda)
  list(APPEND folders mr_${folder})
  list(APPEND objects $<TARGET_OBJECTS:mr_${folder}>)
  get_target_property(linked mr_${folder} LINK_LIBRARIES)
  list(FILTER linked EXCLUDE REGEX "^mr_|MR_CUDA_ON_CPU|^CUDA::")
  list(APPEND external_libraries ${linked})
endforeach()
list(REMOVE_DUPLICATES external_libraries)
set(MR_LIBRARY_EXTERNAL ${external_libraries})

# The library contains the static CUDA runtime and exports none of its names, so its users need no CUDA.
set(cudart "")
set(cudart_archive "")
if(MR_CUDA_PROGRAM)
  set(cudart CUDA::cudart_static)
  set(cudart_archive ${CUDA_cudart_static_LIBRARY})
endif()

# For pkg-config: package names, and flags for other libraries.
set(MR_PC_REQUIRES "")
set(MR_PC_LIBS "")
foreach(library IN LISTS external_libraries)
  if(library STREQUAL "Threads::Threads")
    string(APPEND MR_PC_LIBS " -pthread")
  elseif(library STREQUAL "JPEG::JPEG")
    string(APPEND MR_PC_REQUIRES " libjpeg")
  elseif(library STREQUAL "PkgConfig::LIBCURL")
    string(APPEND MR_PC_LIBS " -lcurl") # the shared one: the static one needs dozens of libraries
  elseif(library MATCHES "^PkgConfig::(.*)$")
    string(APPEND MR_PC_REQUIRES " ${${CMAKE_MATCH_1}_MODULE_NAME}")
  elseif(library MATCHES "^[a-z]+$")
    string(APPEND MR_PC_LIBS " -l${library}")
  else()
    message(FATAL_ERROR "cmake/library.cmake: the pkg-config name of ${library} is unknown")
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
target_link_libraries(millrace_shared PRIVATE mr_flags ${external_libraries} ${cudart})
target_link_options(millrace_shared PRIVATE -Wl,--version-script=${map} -Wl,--as-needed)
target_include_directories(millrace_shared INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# Depends on the folders' archives instead of their objects, because Makefiles have no rule for objects
# of another directory.
set(joined_object ${PROJECT_BINARY_DIR}/libmillrace.o)
add_custom_command(OUTPUT ${joined_object}
  COMMAND ${CMAKE_LINKER} -r -o ${joined_object} ${objects} ${cudart_archive}
  COMMAND ${CMAKE_OBJCOPY} --keep-global-symbols=${PROJECT_BINARY_DIR}/libmillrace.names ${joined_object}
  DEPENDS ${folders} ${PROJECT_BINARY_DIR}/libmillrace.names COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Joining libmillrace.o")
set_source_files_properties(${joined_object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
add_library(millrace_static STATIC ${joined_object})
set_target_properties(millrace_static PROPERTIES OUTPUT_NAME millrace LINKER_LANGUAGE C)

# The header of libmillrace_mpi, a separate library.
if(MPI_C_FOUND)
  list(APPEND MR_PUBLIC_FACES comm/comm_mpi.h)
  list(APPEND MR_PUBLIC_HEADERS comm/comm_mpi.h)
endif()

# Headers in their installed form.
set(include ${PROJECT_BINARY_DIR}/include/millrace)
set(installed_headers "")
foreach(header IN LISTS MR_PUBLIC_HEADERS)
  add_custom_command(OUTPUT ${include}/${header}
    COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/${header} -DTO=${include}/${header} -P ${PROJECT_SOURCE_DIR}/cmake/public_header.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/${header} ${PROJECT_SOURCE_DIR}/cmake/public_header.cmake VERBATIM
    COMMENT "Making millrace/${header}")
  list(APPEND installed_headers ${include}/${header})
endforeach()
foreach(header IN LISTS MR_PUBLIC_FACES)
  get_filename_component(name ${header} NAME_WE)
  set(MR_FACE ${header})
  configure_file(cmake/face.h.in ${include}/${name}.h @ONLY)
endforeach()
add_custom_target(millrace_headers ALL DEPENDS ${installed_headers})

# The prefix is relative to millrace.pc, so that an installed tree can be moved.
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

# Ranks over MPI: a second library, with a pkg-config file that names both.
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
