# SPDX-License-Identifier: GPL-2.0-or-later
# `cmake --install BUILD --prefix PREFIX`:
#   lib/lammps/plugins/   the plugins: point LAMMPS_PLUGIN_PATH here and LAMMPS loads them by itself
#   bin/dpa4              the command line
#   share/dpa4-lammps/    potentials/ and examples/, which refer to each other by relative paths
#   share/doc/...         licence, README, CHANGELOG, guide

foreach(plugin dpa4plugin dpa4kkplugin dpa4kkstyles)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/lammps/plugins")
  endif()
endforeach()
if(TARGET dpa4)
  install(TARGETS dpa4 RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/potentials" "${PROJECT_SOURCE_DIR}/examples"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/dpa4-lammps")
foreach(file LICENSE README.md CHANGELOG.md doc)
  if(IS_DIRECTORY "${PROJECT_SOURCE_DIR}/${file}")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${file}/" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
  elseif(EXISTS "${PROJECT_SOURCE_DIR}/${file}")
    install(FILES "${PROJECT_SOURCE_DIR}/${file}" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
  endif()
endforeach()
