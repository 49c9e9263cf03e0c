# SPDX-License-Identifier: GPL-2.0-or-later
# The KOKKOS package of LAMMPS as the target dpa4_lammps_kokkos: dpa4_lammps, the package's headers,
# the headers of its Kokkos, and the settings a plugin must share with it. They are read from the
# build in LAMMPS_LIBRARY_DIR, and so is where its Kokkos lies: bundled with LAMMPS (lib/kokkos), or
# installed (EXTERNAL_KOKKOS). Nothing is linked: the LAMMPS that loads the plugin has Kokkos.

if(NOT EXISTS "${LAMMPS_LIBRARY_DIR}/CMakeCache.txt")
  message(FATAL_ERROR
    "DPA4_ENABLE_KOKKOS: set LAMMPS_LIBRARY_DIR to the folder in which LAMMPS was built with CMake")
endif()
dpa4_lammps_setting(PKG_KOKKOS OFF lammps_kokkos)
if(NOT lammps_kokkos)
  message(FATAL_ERROR "DPA4_ENABLE_KOKKOS: the LAMMPS in ${LAMMPS_LIBRARY_DIR} has no KOKKOS package (PKG_KOKKOS)")
endif()
dpa4_lammps_setting(KOKKOS_PREC double kokkos_precision)
dpa4_lammps_setting(KOKKOS_LAYOUT legacy kokkos_layout)
dpa4_lammps_setting(Kokkos_DIR "" kokkos_dir)
string(TOLOWER "${kokkos_precision}" kokkos_precision)
string(TOLOWER "${kokkos_layout}" kokkos_layout)

find_path(kokkos_config_dir KokkosCore_config.h NO_CACHE NO_DEFAULT_PATH
  HINTS "${LAMMPS_LIBRARY_DIR}/lib/kokkos" "${kokkos_dir}/../../.." "${kokkos_dir}/../../../.."
  PATH_SUFFIXES include include/kokkos)
if(NOT kokkos_config_dir)
  message(FATAL_ERROR "DPA4_ENABLE_KOKKOS: KokkosCore_config.h of the LAMMPS in ${LAMMPS_LIBRARY_DIR} not found")
endif()
set(kokkos_include_dirs "${kokkos_config_dir}")
if(NOT kokkos_dir)
  set(bundled "${LAMMPS_SOURCE_DIR}/lib/kokkos")
  foreach(folder "${kokkos_config_dir}/core/src" "${bundled}/core/src" "${bundled}/containers/src"
      "${bundled}/algorithms/src" "${bundled}/tpls/desul/include" "${bundled}/tpls/mdspan/include")
    if(EXISTS "${folder}")
      list(APPEND kokkos_include_dirs "${folder}")
    endif()
  endforeach()
endif()

file(STRINGS "${kokkos_config_dir}/KokkosCore_config.h" kokkos_lines REGEX "define KOKKOS_(ENABLE|VERSION)")
list(JOIN kokkos_lines "\n" kokkos_lines)
string(REGEX MATCH "KOKKOS_VERSION ([0-9]+)" kokkos_version "${kokkos_lines}")
set(kokkos_version "${CMAKE_MATCH_1}")
set(kokkos_device host)
set(kokkos_language CXX)
if(kokkos_lines MATCHES "KOKKOS_ENABLE_CUDA[ \n]|KOKKOS_ENABLE_CUDA$")
  set(kokkos_device cuda)
  set(kokkos_language CUDA)
  if(NOT DPA4_ENABLE_CUDA)
    message(FATAL_ERROR "DPA4_ENABLE_KOKKOS: the Kokkos of this LAMMPS has CUDA; configure with -DDPA4_ENABLE_CUDA=ON")
  endif()
elseif(kokkos_lines MATCHES "KOKKOS_ENABLE_(HIP|SYCL|OPENMPTARGET|OPENACC)")
  message(FATAL_ERROR "DPA4_ENABLE_KOKKOS: of the GPUs that Kokkos serves, this plugin has kernels for CUDA only")
endif()

set(prec_double DOUBLE_DOUBLE)
set(prec_mixed SINGLE_DOUBLE)
set(prec_single SINGLE_SINGLE)
string(TOUPPER "${kokkos_layout}" kokkos_layout_upper)
add_library(dpa4_lammps_kokkos INTERFACE)
target_link_libraries(dpa4_lammps_kokkos INTERFACE dpa4_lammps)
target_include_directories(dpa4_lammps_kokkos SYSTEM INTERFACE
  "${LAMMPS_SOURCE_DIR}/src/KOKKOS" ${kokkos_include_dirs})
target_compile_definitions(dpa4_lammps_kokkos INTERFACE
  LMP_KOKKOS LMP_KOKKOS_${prec_${kokkos_precision}} LMP_KOKKOS_LAYOUT_${kokkos_layout_upper}
  KOKKOS_DEPENDENCE)
if(kokkos_language STREQUAL "CUDA" AND kokkos_lines MATCHES "KOKKOS_ENABLE_OPENMP[ \n]|KOKKOS_ENABLE_OPENMP$")
  target_compile_options(dpa4_lammps_kokkos INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${OpenMP_CXX_FLAGS}>")
endif()
message(STATUS "LAMMPS' KOKKOS: Kokkos ${kokkos_version}, ${kokkos_device}, ${kokkos_precision} precision, ${kokkos_layout} layout")

# What dpa4kkplugin.so compares with the LAMMPS that loads it.
set(DPA4_KOKKOS_TRAITS
  DPA4_KOKKOS_DEVICE="${kokkos_device}"
  DPA4_KOKKOS_PRECISION="${kokkos_precision}"
  DPA4_KOKKOS_LAYOUT="${kokkos_layout}")

# Sources with Kokkos in them are compiled by the compiler of its device.
function(dpa4_set_kokkos_language)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE ${kokkos_language})
endfunction()
