# SPDX-License-Identifier: Apache-2.0
#
# tests/fuzz/<x>_fuzz.c defines LLVMFuzzerTestOneInput; tests/fuzz/corpus/<x>/ holds inputs worth
# keeping. The fuzz build searches for new ones, every other build replays those that are kept.

set(TUTTI_FUZZ_SECONDS 12 CACHE STRING "how long each fuzz target searches")

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.c)
if(NOT TUTTI_SANITIZE STREQUAL "fuzz")
  tutti_objects_of(fuzz_replay ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
  tutti_tests_build(fuzz_replay)
endif()
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name ${name})
  set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name})
  if(NOT IS_DIRECTORY ${corpus})
    message(FATAL_ERROR "fuzz target ${name} needs a first input in tests/fuzz/corpus/${name}")
  endif()
  if(TUTTI_SANITIZE STREQUAL "fuzz")
    tutti_program(fuzz_${name} fuzz-${name} ${source})
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    set(found ${PROJECT_BINARY_DIR}/corpus/${name})
    file(MAKE_DIRECTORY ${found})
    tutti_test(fuzz.${name} ${source} "check;fuzz" fuzz_${name}
      -max_total_time=${TUTTI_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048 -print_final_stats=1
      -artifact_prefix=${PROJECT_BINARY_DIR}/crash-${name}- ${found} ${corpus})
  else()
    tutti_program(fuzz_${name} fuzz-${name} ${source} $<TARGET_OBJECTS:fuzz_replay>)
    tutti_test(fuzz.${name} ${source} "fuzz;asan;tsan" fuzz_${name} ${corpus})
  endif()
  tutti_tests_build(fuzz_${name})
  target_include_directories(fuzz_${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(fuzz_${name} PRIVATE PkgConfig::SODIUM PkgConfig::JANSSON)
endforeach()
