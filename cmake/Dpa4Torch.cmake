# SPDX-License-Identifier: GPL-2.0-or-later
# LibTorch as the target dpa4_torch, without LibTorch's own CMake package: that one insists on the
# CUDA toolkit where LibTorch was built with it, and the CPU library alone is enough to build.
#
# Found, in this order: TORCH_DIR (holds include/ and lib/), Torch_DIR, the entries of
# CMAKE_PREFIX_PATH (LibTorch itself, a Python site-packages with torch/ in it, or what Python's
# torch.utils.cmake_prefix_path prints), the system.

set(torch_hints "")
if(TORCH_DIR)
  set(torch_hints "${TORCH_DIR}")
  set(torch_search NO_DEFAULT_PATH)
else()
  foreach(prefix "${Torch_DIR}" ${CMAKE_PREFIX_PATH} $ENV{CMAKE_PREFIX_PATH})
    list(APPEND torch_hints "${prefix}" "${prefix}/torch")
    if(prefix MATCHES "^(.*)/share/cmake(/Torch)?/?$")
      list(APPEND torch_hints "${CMAKE_MATCH_1}")
    endif()
  endforeach()
  set(torch_search "")
endif()

find_path(torch_include_dir ATen/ATen.h NO_CACHE
  HINTS ${torch_hints} PATH_SUFFIXES include ${torch_search})
foreach(library torch_cpu c10)
  find_library(${library}_library ${library} NO_CACHE
    HINTS ${torch_hints} PATH_SUFFIXES lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" ${torch_search})
endforeach()
if(NOT torch_include_dir OR NOT torch_cpu_library OR NOT c10_library)
  message(FATAL_ERROR
    "LibTorch not found (ATen/ATen.h, libtorch_cpu.so, libc10.so). Set TORCH_DIR to the folder that "
    "holds its include/ and lib/, or add LibTorch to CMAKE_PREFIX_PATH. scripts/bootstrap fetches one.")
endif()

get_filename_component(torch_home "${torch_include_dir}" DIRECTORY)
set(torch_version "")
foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(EXISTS "${torch_include_dir}/${header}" AND NOT torch_version)
    file(STRINGS "${torch_include_dir}/${header}" lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX MATCHALL "[0-9]+" torch_version "${lines}")
    list(JOIN torch_version "." torch_version)
  endif()
endforeach()
message(STATUS "LibTorch ${torch_version}: ${torch_cpu_library}")

add_library(dpa4_torch INTERFACE)
target_include_directories(dpa4_torch SYSTEM INTERFACE
  "${torch_include_dir}" "${torch_include_dir}/torch/csrc/api/include")
# The libraries that LibTorch itself needs are found at run time, through its own rpath.
target_link_libraries(dpa4_torch INTERFACE "${torch_cpu_library}" "${c10_library}")
target_link_options(dpa4_torch INTERFACE "LINKER:--allow-shlib-undefined")

# LibTorch ships a libgomp.so.1 beside its libraries. Where CMake is given the compiler's libgomp by
# path it warns that one may hide the other; by flag there is nothing to warn of, and either one serves.
set_target_properties(OpenMP::OpenMP_CXX PROPERTIES
  INTERFACE_LINK_LIBRARIES "" INTERFACE_LINK_OPTIONS "${OpenMP_CXX_FLAGS}")
