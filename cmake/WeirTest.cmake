# SPDX-License-Identifier: Apache-2.0
# weir_test(NAME SOURCES ... [LIBS ...] [ENV K=V ...] [LABELS ...] [LAUNCH command ...])
# A cmocka test program, one file a promise, named <NAME>. Runs on the emulated machine, whose watch ends it at its first
# finding, unless ENV says otherwise; to other settings of WEIR_EMU the watch is added.
function(weir_test name)
  cmake_parse_arguments(T "" "" "SOURCES;LIBS;ENV;LABELS;LAUNCH" ${ARGN})
  set(emu "${T_ENV}")
  list(FILTER emu INCLUDE REGEX "^WEIR_EMU=")
  if(NOT emu)
    list(APPEND T_ENV "WEIR_EMU=watch:abort")
  elseif(NOT emu MATCHES "watch:")
    list(TRANSFORM T_ENV APPEND ",watch:abort" REGEX "^WEIR_EMU=")
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE weir_flags cmocka ${T_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_dependencies(${name} cuda_emulated)
  add_test(NAME ${name} COMMAND ${T_LAUNCH} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}"
    ENVIRONMENT "WEIR_DEVICE=emulated;${T_ENV}")
endfunction()
