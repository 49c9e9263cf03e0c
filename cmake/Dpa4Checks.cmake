# SPDX-License-Identifier: GPL-2.0-or-later
# Tests of the source tree itself.

find_package(Python3 REQUIRED COMPONENTS Interpreter)

# dpa4_add_check(name COMMAND...): exit status 77 means "skipped", and the output says why.
function(dpa4_add_check name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS source SKIP_RETURN_CODE 77)
endfunction()

dpa4_add_check(layers "${Python3_EXECUTABLE}" tools/check_layers.py)
dpa4_add_check(layers_self_test "${Python3_EXECUTABLE}" tools/check_layers.py --self-test)
dpa4_add_check(format "${Python3_EXECUTABLE}" tools/check_format.py)

# Without liblammps the test leaves out what needs one.
set(scripts_arguments "${torch_home}")
if(TARGET dpa4_lammps_library)
  list(APPEND scripts_arguments "${LAMMPS_SOURCE_DIR}" "${LAMMPS_LIBRARY_DIR}")
endif()
dpa4_add_check(scripts bash tests/scripts/scripts_test.sh ${scripts_arguments})

set(install_arguments "${PROJECT_BINARY_DIR}")
if(TARGET dpa4plugin AND TARGET dpa4_lammps_library AND NOT DPA4_ENABLE_ASAN)  # lmp has no sanitizer
  list(APPEND install_arguments "${LAMMPS_LIBRARY_DIR}/lmp")
endif()
dpa4_add_check(install bash tests/scripts/install_test.sh ${install_arguments})
dpa4_set_test_properties(install 1 1 300 source)
