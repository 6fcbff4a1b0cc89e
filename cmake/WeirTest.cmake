# SPDX-License-Identifier: Apache-2.0
# weir_test(NAME SOURCES ... [LIBS ...] [ENV K=V ...] [TIMEOUT seconds] [LABELS ...] [LAUNCH command ...])
# A cmocka test program, one file a promise, named <NAME>. Runs on the emulated machine unless ENV says otherwise.
function(weir_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS;ENV;LABELS;LAUNCH" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 240)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE weir_flags cmocka ${T_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_dependencies(${name} cuda_emulated)
  add_test(NAME ${name} COMMAND ${T_LAUNCH} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}"
    ENVIRONMENT "WEIR_DEVICE=emulated;${T_ENV}")
endfunction()
