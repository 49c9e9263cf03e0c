# SPDX-License-Identifier: GPL-2.0-or-later
# LAMMPS as two targets:
#   dpa4_lammps          its headers and the settings a plugin must share with it: MPI, integer sizes
#   dpa4_lammps_library  the same and liblammps.so; exists where LAMMPS_LIBRARY_DIR has one
#
# A plugin must be compiled with the settings of the LAMMPS that loads it. They are read from the
# build in LAMMPS_LIBRARY_DIR when it has a CMakeCache.txt; the two variables below overrule that.

set(LAMMPS_SIZES "" CACHE STRING "Integer sizes of LAMMPS: smallbig or bigbig; empty: as in its build, else smallbig")
set(LAMMPS_MPI "" CACHE STRING "LAMMPS is built with MPI (ON) or its STUBS (OFF); empty: as in its build, else ON")

if(NOT EXISTS "${LAMMPS_SOURCE_DIR}/src/lammpsplugin.h")
  message(FATAL_ERROR
    "LAMMPS_SOURCE_DIR = '${LAMMPS_SOURCE_DIR}' has no src/lammpsplugin.h: set it to a LAMMPS source "
    "tree (scripts/bootstrap fetches one), or build without the plugin: -DDPA4_BUILD_PLUGIN=OFF.")
endif()

# Value of `name` in the CMakeCache.txt of the LAMMPS build, else `fallback`.
function(dpa4_lammps_setting name fallback result)
  set(${result} "${fallback}" PARENT_SCOPE)
  if(EXISTS "${LAMMPS_LIBRARY_DIR}/CMakeCache.txt")
    file(STRINGS "${LAMMPS_LIBRARY_DIR}/CMakeCache.txt" line REGEX "^${name}:[A-Z]+=")
    if(line MATCHES "=(.*)$")
      set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
    endif()
  endif()
endfunction()

set(lammps_sizes "${LAMMPS_SIZES}")
if(NOT lammps_sizes)
  dpa4_lammps_setting(LAMMPS_SIZES smallbig lammps_sizes)
endif()
set(lammps_mpi "${LAMMPS_MPI}")
if(lammps_mpi STREQUAL "")
  dpa4_lammps_setting(BUILD_MPI ON lammps_mpi)
endif()
string(TOUPPER "${lammps_sizes}" sizes_upper)

add_library(dpa4_lammps INTERFACE)
target_include_directories(dpa4_lammps SYSTEM INTERFACE "${LAMMPS_SOURCE_DIR}/src")
target_compile_definitions(dpa4_lammps INTERFACE
  LAMMPS_${sizes_upper} OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
if(lammps_mpi)
  find_package(MPI REQUIRED COMPONENTS CXX)
  target_include_directories(dpa4_lammps SYSTEM INTERFACE ${MPI_CXX_INCLUDE_DIRS})
  target_compile_options(dpa4_lammps INTERFACE ${MPI_CXX_COMPILE_OPTIONS})
else()
  target_include_directories(dpa4_lammps SYSTEM INTERFACE "${LAMMPS_SOURCE_DIR}/src/STUBS")
endif()

find_library(lammps_library lammps NO_CACHE NO_DEFAULT_PATH HINTS "${LAMMPS_LIBRARY_DIR}")
if(lammps_library)
  add_library(dpa4_lammps_library INTERFACE)
  target_link_libraries(dpa4_lammps_library INTERFACE dpa4_lammps "${lammps_library}")
  if(lammps_mpi)
    target_link_libraries(dpa4_lammps_library INTERFACE MPI::MPI_CXX)
  endif()
endif()
message(STATUS "LAMMPS: ${LAMMPS_SOURCE_DIR} (${lammps_sizes}, MPI ${lammps_mpi}), library: ${lammps_library}")
