# SPDX-License-Identifier: GPL-2.0-or-later
# dpa4_add_fuzzer(name SOURCES ... FOLDERS ...): a libFuzzer program with the address and undefined-behaviour
# sanitizers. It compiles the library sources of FOLDERS itself, so that they are instrumented while the
# rest of the build is not.

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "DPA4_BUILD_FUZZERS needs clang: configure with -DCMAKE_CXX_COMPILER=clang++")
endif()

function(dpa4_add_fuzzer name)
  cmake_parse_arguments(arg "" "" "SOURCES;FOLDERS" ${ARGN})
  set(library_sources)
  foreach(folder ${arg_FOLDERS})
    file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.cpp")
    list(APPEND library_sources ${found})
  endforeach()
  add_executable(${name} ${arg_SOURCES} ${library_sources})
  dpa4_set_flags(${name})
  set(sanitize -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
  target_compile_options(${name} PRIVATE ${sanitize} -g)
  target_link_options(${name} PRIVATE ${sanitize})
endfunction()
