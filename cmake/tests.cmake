# Tests: each tests/test_NAME.c and fuzz/fuzz_NAME.c is a program. Under libFuzzer a fuzz target
# searches for inputs; in any other build it is a test that runs the inputs in fuzz/seeds/NAME.
enable_testing()

# Some of the tests, by regular expression: they get a label, and the target of that name builds them
# alone. What is threaded is for TSan, the kernels are for other processors.
set(THREADED "^test_(base|pool|tokenizer|ops|attention|recurrent|cpu|compute|batch|engine|scheduler|server)")
set(KERNELS "^test_(ops|attention|recurrent|experts|sparse)$")
add_custom_target(threaded)
add_custom_target(kernels)
add_custom_target(emulated)

# Options that find more than the sanitizers' defaults do.
set(SANITIZER_OPTIONS ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
  UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1)

# Of a test. In an emulator they are ten times as slow, more so beside other work.
set(MOST_SECONDS 600)
if(CMAKE_CROSSCOMPILING)
  set(MOST_SECONDS 1800)
endif()

function(link_test NAME)
  target_link_libraries(${NAME} PRIVATE mlxcel-lib)
  if(TARGET server-lib)
    target_link_libraries(${NAME} PRIVATE server-lib)
  endif()
endfunction()

if(MLXCEL_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
  file(GLOB TEST_SOURCES CONFIGURE_DEPENDS tests/test_*.c)
  if(NOT TARGET mlxcel-server)
    list(FILTER TEST_SOURCES EXCLUDE REGEX "/test_server")
  endif()
  if(NOT HAVE_SQLITE)
    list(FILTER TEST_SOURCES EXCLUDE REGEX "/test_server_store")
  endif()
  if(CMAKE_CROSSCOMPILING) # in an emulator, a test can't run the built program
    list(FILTER TEST_SOURCES EXCLUDE REGEX "/test_(cli|server)")
  endif()
  if(NOT HAVE_GNUTLS)
    list(FILTER TEST_SOURCES EXCLUDE REGEX "/test_server_tls")
  endif()
  foreach(SOURCE ${TEST_SOURCES})
    get_filename_component(NAME ${SOURCE} NAME_WE)
    add_executable(${NAME} ${SOURCE})
    link_test(${NAME})
    target_link_libraries(${NAME} PRIVATE PkgConfig::CMOCKA)
    target_compile_definitions(${NAME} PRIVATE FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures")
    if(CMAKE_CROSSCOMPILING OR MLXCEL_EMULATE)
      target_compile_definitions(${NAME} PRIVATE EMULATED)
    endif()
    if(MLXCEL_SANITIZE)
      target_compile_definitions(${NAME} PRIVATE SANITIZED)
    endif()
    add_test(NAME ${NAME} COMMAND ${NAME})
    set_tests_properties(${NAME} PROPERTIES ENVIRONMENT "${SANITIZER_OPTIONS}" TIMEOUT ${MOST_SECONDS})
    if(NAME MATCHES "^test_cli" AND TARGET mlxcel) # runs the built program
      target_compile_definitions(${NAME} PRIVATE MLXCEL="$<TARGET_FILE:mlxcel>")
      add_dependencies(${NAME} mlxcel)
    endif()
    if(NAME STREQUAL test_server_tls)
      target_link_libraries(${NAME} PRIVATE PkgConfig::GNUTLS)
    endif()
    if(NAME MATCHES "^test_server") # runs the built program
      target_compile_definitions(${NAME} PRIVATE MLXCEL_SERVER="$<TARGET_FILE:mlxcel-server>")
      add_dependencies(${NAME} mlxcel-server)
    endif()
    if(NAME MATCHES "${THREADED}")
      set_property(TEST ${NAME} APPEND PROPERTY LABELS threaded)
      add_dependencies(threaded ${NAME})
    endif()
    if(NAME MATCHES "${KERNELS}")
      set_property(TEST ${NAME} APPEND PROPERTY LABELS kernels)
      add_dependencies(kernels ${NAME})
    endif()
  endforeach()
  if(TARGET test_server_page)
    set_tests_properties(test_server_page PROPERTIES SKIP_RETURN_CODE 77) # no browser
  endif()
  set_tests_properties(test_ops PROPERTIES COST 10) # the longest of the kernels', so begun first

  # The same on a CUDA device, where there is one; or on an emulated one, which has few processors.
  if(MLXCEL_CUDA OR MLXCEL_EMULATE)
    set(CUDA_TESTS test_ops test_attention test_experts test_recurrent test_choose test_top_logits
      test_sparse)
    if(NOT MLXCEL_EMULATE) # where it would take an hour
      list(APPEND CUDA_TESTS test_families)
    endif()
    foreach(NAME ${CUDA_TESTS})
      add_test(NAME ${NAME}_cuda COMMAND ${NAME} --device cuda)
      set_tests_properties(${NAME}_cuda PROPERTIES TIMEOUT ${MOST_SECONDS} SKIP_RETURN_CODE 77)
      if(MLXCEL_EMULATE)
        set_tests_properties(${NAME}_cuda PROPERTIES LABELS emulated
          ENVIRONMENT "EMULATE_PROCESSORS=8;EMULATE_ORDER=3;${SANITIZER_OPTIONS}")
        add_dependencies(emulated ${NAME})
      endif()
    endforeach()
  endif()
  if(MLXCEL_EMULATE AND NOT MLXCEL_SANITIZE) # faults are told; sanitizers tell of more, otherwise
    add_dependencies(emulated emulate_faults)
    foreach(FAULT "2 nan" "3 is over" "5 wait for each other")
      string(SUBSTRING ${FAULT} 0 1 NUMBER)
      string(SUBSTRING ${FAULT} 2 -1 TOLD)
      add_test(NAME emulate_fault_${NUMBER} COMMAND emulate_faults ${NUMBER})
      set_tests_properties(emulate_fault_${NUMBER} PROPERTIES LABELS emulated
        PASS_REGULAR_EXPRESSION ${TOLD})
    endforeach()
  endif()

  # Which folder may include which; and that the script sees it when one may not.
  add_test(NAME layers COMMAND ${CMAKE_SOURCE_DIR}/tools/layers ${CMAKE_SOURCE_DIR}/src)
  add_test(NAME layers_seen COMMAND ${CMAKE_SOURCE_DIR}/tools/layers
    ${CMAKE_SOURCE_DIR}/tests/fixtures/layers)
  set_tests_properties(layers_seen PROPERTIES PASS_REGULAR_EXPRESSION "5 wrong includes")
endif()

file(GLOB FUZZ_SOURCES CONFIGURE_DEPENDS fuzz/fuzz_*.c)
if(NOT TARGET server-lib)
  list(FILTER FUZZ_SOURCES EXCLUDE REGEX "/fuzz_(ask|responses)")
endif()
foreach(SOURCE ${FUZZ_SOURCES})
  get_filename_component(NAME ${SOURCE} NAME_WE)
  string(REPLACE "fuzz_" "" SEEDS ${NAME})
  if(MLXCEL_FUZZ)
    add_executable(${NAME} ${SOURCE})
    target_link_options(${NAME} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${NAME} ${SOURCE} fuzz/replay.c)
    add_test(NAME ${NAME} COMMAND ${NAME} ${CMAKE_SOURCE_DIR}/fuzz/seeds/${SEEDS})
    set_tests_properties(${NAME} PROPERTIES ENVIRONMENT "${SANITIZER_OPTIONS}" TIMEOUT ${MOST_SECONDS})
  endif()
  link_test(${NAME})
  target_compile_definitions(${NAME} PRIVATE FIXTURES="${CMAKE_SOURCE_DIR}/tests/fixtures")
endforeach()
