# SPDX-License-Identifier: GPL-2.0-or-later
# The only place where compiler flags are written. Every target of the project is made by one of the
# functions below.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)  # installed programs find LibTorch where it was found
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or RelWithDebInfo" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g")

find_package(OpenMP REQUIRED COMPONENTS CXX)

if(NOT DPA4_PRECISION MATCHES "^float(32|64)$")
  message(FATAL_ERROR "DPA4_PRECISION is '${DPA4_PRECISION}': choose float32 or float64")
endif()
set(default_is_float64 false)
if(DPA4_PRECISION STREQUAL "float64")
  set(default_is_float64 true)
endif()
configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in"
  "${PROJECT_BINARY_DIR}/generated/src/base/version.h" @ONLY)

if(DPA4_ENABLE_CUDA)
  # Machine code for each architecture; the last one also as PTX, for devices that come later.
  set(architectures "80;86;89;90;100;120")
  if(CMAKE_CUDA_ARCHITECTURES)
    set(architectures "${CMAKE_CUDA_ARCHITECTURES}")
  endif()
  set(DPA4_CUDA_ARCHITECTURES "${architectures}" CACHE STRING
    "CUDA architectures to compile for, oldest first")
  set(architectures "")
  foreach(architecture ${DPA4_CUDA_ARCHITECTURES})
    if(NOT architecture MATCHES "^([0-9]+)[af]?(-real|-virtual)?$")
      message(FATAL_ERROR "DPA4_CUDA_ARCHITECTURES has '${architecture}': numbers such as 80;90 are needed")
    endif()
    list(APPEND architectures ${CMAKE_MATCH_1})
  endforeach()
  list(REMOVE_DUPLICATES architectures)
  set(DPA4_CUDA_ARCHITECTURES "${architectures}")
  # 90a has Hopper's own instructions, which no other architecture has.
  list(TRANSFORM architectures REPLACE "^90$" "90a" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
  list(TRANSFORM CMAKE_CUDA_ARCHITECTURES APPEND "-real")
  list(GET architectures -1 newest)
  if(NOT newest STREQUAL "90")
    list(APPEND CMAKE_CUDA_ARCHITECTURES "${newest}-virtual")
  endif()
  set(CMAKE_CUDA_FLAGS_RELEASE "-O2 -DNDEBUG")
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake releases before 3.26 do not know it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
endif()

function(dpa4_set_flags target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>"
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;-Xcompiler=-Wall,-Wextra>")
  if(DPA4_WARNINGS_AS_ERRORS)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Werror;-Werror=all-warnings>")
  endif()
  if(DPA4_CPU_ARCH)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CXX>:-march=${DPA4_CPU_ARCH}>")
  endif()
  target_include_directories(${target} PUBLIC
    "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  if(DPA4_ENABLE_ASAN)
    # vptr needs the type information of classes that LibTorch does not export.
    set(sanitize -fsanitize=address,undefined -fno-sanitize=vptr)
    target_compile_options(${target} PUBLIC ${sanitize} -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC ${sanitize})
  endif()
endfunction()

# dpa4_add_library(name SOURCES ... DEPENDS ...): a static library that may go into a plugin.
function(dpa4_add_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  dpa4_set_flags(${name})
  target_link_libraries(${name} PUBLIC ${arg_DEPENDS})
endfunction()

# dpa4_add_plugin(name SOURCES ... DEPENDS ...): NAME.so, for LAMMPS' `plugin load`. It is linked to
# neither liblammps nor MPI: the program that loads it has them.
function(dpa4_add_plugin name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} MODULE ${arg_SOURCES})
  dpa4_set_flags(${name})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  set_target_properties(${name} PROPERTIES PREFIX "")
endfunction()

# dpa4_add_executable(name SOURCES ... DEPENDS ...)
function(dpa4_add_executable name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  dpa4_set_flags(${name})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
endfunction()

# dpa4_add_test(name SOURCES ... DEPENDS ... [LABELS ...] [THREADS n] [TIMEOUT seconds] [RANKS n...]):
# a GoogleTest program, one ctest. It runs with THREADS OpenMP threads (1 unless told), which is also
# what `ctest -j` counts. With RANKS the program has its own main() and is one ctest a rank count,
# NAME_np<n>, under mpiexec.
function(dpa4_add_test name)
  cmake_parse_arguments(arg "" "THREADS;TIMEOUT" "SOURCES;DEPENDS;LABELS;RANKS" ${ARGN})
  if(NOT arg_THREADS)
    set(arg_THREADS 1)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1200)
  endif()
  set(main GTest::gtest_main)
  if(arg_RANKS)
    set(main "")
  endif()
  dpa4_add_executable(${name}
    SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS} GTest::gtest ${main})
  target_compile_definitions(${name} PRIVATE DPA4_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(arg_RANKS)
    foreach(ranks ${arg_RANKS})
      add_test(NAME ${name}_np${ranks} COMMAND
        "${MPIEXEC_EXECUTABLE}" ${MPIEXEC_NUMPROC_FLAG} ${ranks} ${MPIEXEC_PREFLAGS} $<TARGET_FILE:${name}>)
      math(EXPR processors "${ranks} * ${arg_THREADS}")
      dpa4_set_test_properties(${name}_np${ranks} ${arg_THREADS} ${processors} ${arg_TIMEOUT} "${arg_LABELS}")
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
    dpa4_set_test_properties(${name} ${arg_THREADS} ${arg_THREADS} ${arg_TIMEOUT} "${arg_LABELS}")
  endif()
endfunction()

# Open MPI counts cores, binds the first ranks of every run to the same ones, and refuses root, unless told
# otherwise. The settings have another name in each of its releases 4, 5 and 6.
set(dpa4_mpi_environment
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
  PRTE_MCA_mapby=:oversubscribe PRTE_MCA_bindto=none)
function(dpa4_set_test_properties test threads processors timeout labels)
  set_tests_properties(${test} PROPERTIES
    LABELS "${labels}"
    PROCESSORS ${processors}
    TIMEOUT ${timeout}
    ENVIRONMENT "OMP_NUM_THREADS=${threads};${dpa4_mpi_environment}")
endfunction()

# dpa4_cpu_instruction_sets(variable): the copies that the CPU kernels are compiled in. "base" is what
# the compiler makes without further flags; the program chooses among them when it starts.
set(isas base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND isas avx2 avx512)
endif()
set(DPA4_CPU_INSTRUCTION_SETS "${isas}" CACHE STRING
  "Instruction sets to compile the CPU kernels for: base, avx2, avx512")
function(dpa4_cpu_instruction_sets variable)
  set(${variable} ${DPA4_CPU_INSTRUCTION_SETS} PARENT_SCOPE)
endfunction()

# dpa4_add_isa_objects(name ISA isa SOURCES ... DEFINITIONS ...): objects for one instruction set. The
# flags allow vectors where the language asks for errno or floating-point traps, nothing else: values are
# those of IEEE arithmetic with fused multiply-add.
function(dpa4_add_isa_objects name)
  cmake_parse_arguments(arg "" "ISA" "SOURCES;DEFINITIONS" ${ARGN})
  add_library(${name} OBJECT ${arg_SOURCES})
  dpa4_set_flags(${name})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_compile_options(${name} PRIVATE -O3 -fno-math-errno -fno-trapping-math)
  if(arg_ISA STREQUAL "avx2")
    target_compile_options(${name} PRIVATE -mavx2 -mfma)
  elseif(arg_ISA STREQUAL "avx512")
    target_compile_options(${name} PRIVATE
      -mavx2 -mfma -mavx512f -mavx512dq -mavx512vl -mavx512bw -mprefer-vector-width=512)
  endif()
endfunction()
