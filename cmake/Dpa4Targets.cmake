# The only place where compiler flags are written. Every target of the project is made by one of the
# functions below.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

find_package(OpenMP REQUIRED COMPONENTS CXX)

# LibTorch without its CMake package: that one insists on CUDA where the wheel was built with it, and we
# load CUDA at run time. TORCH_DIR is the folder that holds include/ and lib/.
set(TORCH_DIR "" CACHE PATH "LibTorch: the folder that holds include/ and lib/")
if(NOT TORCH_DIR)
  find_path(torch_lib_dir NAMES libtorch_cpu.so PATH_SUFFIXES lib torch/lib)
  if(torch_lib_dir)
    get_filename_component(TORCH_DIR "${torch_lib_dir}/.." ABSOLUTE)
  endif()
endif()
if(NOT EXISTS "${TORCH_DIR}/include/ATen/ATen.h")
  message(FATAL_ERROR "LibTorch not found: set TORCH_DIR to the folder that holds its include/ and lib/")
endif()
add_library(dpa4_torch INTERFACE)
target_include_directories(dpa4_torch SYSTEM INTERFACE
  "${TORCH_DIR}/include" "${TORCH_DIR}/include/torch/csrc/api/include")
target_link_libraries(dpa4_torch INTERFACE "${TORCH_DIR}/lib/libtorch_cpu.so" "${TORCH_DIR}/lib/libc10.so")
target_link_options(dpa4_torch INTERFACE "LINKER:--allow-shlib-undefined" "LINKER:-rpath,${TORCH_DIR}/lib")

function(dpa4_set_flags target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Werror)
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  if(DPA4_ENABLE_ASAN)
    target_compile_options(${target} PUBLIC -fsanitize=address,undefined -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()

# dpa4_add_library(name SOURCES ... DEPENDS ...): a static library that may go into a plugin.
function(dpa4_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  dpa4_set_flags(${name})
  target_link_libraries(${name} PUBLIC ${arg_DEPENDS})
endfunction()

# dpa4_add_executable(name SOURCES ... DEPENDS ...)
function(dpa4_add_executable name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  dpa4_set_flags(${name})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
endfunction()

# dpa4_add_test(name SOURCES ... DEPENDS ... [LABELS ...]): a GoogleTest program, one ctest.
function(dpa4_add_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  dpa4_add_executable(${name} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE DPA4_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
endfunction()
