# SPDX-License-Identifier: Apache-2.0
# weir_library(NAME OBJECTS object-targets... EXPORTS list [LIBS ...])
# One shared library of object libraries: hidden visibility, soname 0, and exactly the names in EXPORTS (one a line, in
# order) are visible; a test compares them with what the library shows.
function(weir_library name)
  cmake_parse_arguments(L "" "EXPORTS" "OBJECTS;LIBS" ${ARGN})
  get_filename_component(list "${L_EXPORTS}" ABSOLUTE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${list}")
  file(STRINGS "${list}" names REGEX "^[a-z]")
  list(JOIN names "; " globals)
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${name}.map")
  file(CONFIGURE OUTPUT "${script}" CONTENT "{ global: ${globals}; local: *; };\n")

  add_library(${name} SHARED)
  add_library(weir::${name} ALIAS ${name})
  target_link_libraries(${name} PRIVATE weir_flags ${L_OBJECTS} ${L_LIBS})
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_options(${name} PRIVATE "-Wl,--version-script=${script}" -Wl,--no-undefined-version)
  if(NOT WEIR_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 LINK_DEPENDS "${script}")
  add_test(NAME ${name}_exports_exactly_its_list
    COMMAND sh "${PROJECT_SOURCE_DIR}/tests/exports.sh" $<TARGET_FILE:${name}> "${list}")
endfunction()
