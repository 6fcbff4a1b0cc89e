# SPDX-License-Identifier: Apache-2.0
# Install: libraries, headers, a CMake package (weir::weir, weir::weir-offload), pkg-config files, man pages.
include(CMakePackageConfigHelpers)

set(WEIR_TARGETS weir)
foreach(library weir-offload weir-torch)
  if(TARGET ${library})
    list(APPEND WEIR_TARGETS ${library})
  endif()
endforeach()
install(TARGETS ${WEIR_TARGETS} EXPORT weir LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS weir-preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}) # loaded, never linked
install(DIRECTORY include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET weir-demo)
  install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/weir FILES_MATCHING PATTERN "*.yaml")
endif()
install(EXPORT weir NAMESPACE weir:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir FILE weirTargets.cmake)

file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/weirConfig.cmake"
  CONTENT "include(\"\${CMAKE_CURRENT_LIST_DIR}/weirTargets.cmake\")\n" @ONLY)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/weirConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/weirConfig.cmake" "${CMAKE_BINARY_DIR}/weirConfigVersion.cmake"
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weir)

# weir_pkgconfig(NAME DESCRIPTION REQUIRES): the tree may be moved, or be installed elsewhere than was configured.
function(weir_pkgconfig name description requires)
  file(RELATIVE_PATH up "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  file(RELATIVE_PATH libdir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  file(RELATIVE_PATH includedir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${name}.pc" CONTENT
"prefix=\${pcfiledir}/${up}
libdir=\${prefix}/${libdir}
includedir=\${prefix}/${includedir}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Libs: -L\${libdir} -l${name}
Cflags: -I\${includedir}
" @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/${name}.pc" DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
weir_pkgconfig(weir "${PROJECT_DESCRIPTION}" "")
if(TARGET weir-offload)
  weir_pkgconfig(weir-offload "weir's host pool and activation offload engine" weir)
endif()

install(DIRECTORY docs/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What a wheel carries (pyproject.toml): the libraries, side by side, and the modules.
foreach(library weir weir-torch weir-preload)
  if(TARGET ${library})
    install(FILES $<TARGET_FILE:${library}> DESTINATION weir/lib RENAME lib${library}.so.0 COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endforeach()
file(GLOB modules "${PROJECT_SOURCE_DIR}/python/weir_*.py")
install(FILES ${modules} DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
