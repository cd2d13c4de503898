# SPDX-License-Identifier: Apache-2.0
#
# Tests, found by place and name:
#   src/<layer>/<x>_test.c      unit.<layer>.<x>; labels unit, asan, tsan, <layer>
#   src/<layer>/<folder>/<x>_test.c  unit.<layer>.<folder>.<x>; the same labels
#   cli/: likewise, linked with all of it but main.c; examples/: with the files beside it
#   tests/<suite>/<x>_test.c    <suite>.<x>; label <suite>
#   tests/<suite>/<x>_test.py   <suite>.<x>; run by python3
#   tests/<suite>/<x>_test.sh   <suite>.<x>; run by bash
#   tests/<suite>/<x>_main.c    bin/tutti-<x>: a program that tests run
#   tests/<suite>/<other>.c     linked into every program of its suite
#   tests/fuzz/<x>_fuzz.c       fuzz.<x>: libFuzzer in the fuzz build, else a replay of its corpus
#
# A file of tests/ says more about itself in its first comment, one word list a line:
#   Labels: asan tsan           also run by `make check-all` under these sanitizers
#   Labels: check               too slow for `make test`
#   Labels: control             its area, by which `make check` finds it (tools/check-areas.txt)
#   Timeout: 300                seconds
#   Serial: yes                 never beside another test
#   Needs: tutti_cli            targets whose programs a script runs (due with asan, tsan)
#   Wrap: malloc mmap           the program defines __wrap_malloc, __wrap_mmap (ld --wrap)
#
# Every test finds the programs in $TEST_BIN, the tree in $TEST_SOURCE, the build in $TEST_BUILD.
# The target tests builds all of them (`make tests`); tests_asan, tests_tsan and tests_fuzz build
# what the tests of that label run. None of them is part of all.

enable_testing()
if(TUTTI_TESTS STREQUAL "OFF")
  return()
elseif(TUTTI_TESTS STREQUAL "ON")
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
else()
  pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    message(STATUS "cmocka is not installed: tests are not built (make test installs it)")
    return()
  endif()
endif()
find_program(PYTHON3 python3 REQUIRED)
find_program(BASH bash REQUIRED)

list(APPEND TUTTI_TEST_ENVIRONMENT "TEST_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
  "TEST_SOURCE=${PROJECT_SOURCE_DIR}" "TEST_BUILD=${PROJECT_BINARY_DIR}" "CC=${CMAKE_C_COMPILER}"
  "PYTHONDONTWRITEBYTECODE=1" "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache")

add_custom_target(tests)
add_dependencies(tests benches)
foreach(label asan tsan fuzz)
  add_custom_target(tests_${label})
endforeach()

# tutti_tests_build(<target>): with the tests, and not without them.
function(tutti_tests_build target)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(tests ${target})
endfunction()

# tutti_test(<name> <source> <labels> <command>...): register, with what the source says of itself.
function(tutti_test name source labels)
  add_test(NAME ${name} COMMAND ${ARGN})
  set(needs "")
  if(TARGET "${ARGV3}")
    set(needs ${ARGV3})
  endif()
  set_property(TEST ${name} PROPERTY ENVIRONMENT ${TUTTI_TEST_ENVIRONMENT})
  if(source MATCHES "^${PROJECT_SOURCE_DIR}/tests/")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} words LIMIT_COUNT 40 REGEX "^[ #*/]*(Labels|Timeout|Serial|Needs): ")
    foreach(line ${words})
      string(REGEX MATCH "(Labels|Timeout|Serial|Needs): *([a-z0-9_ -]+)" _ "${line}")
      string(STRIP "${CMAKE_MATCH_2}" value)
      string(REPLACE " " ";" value "${value}")
      if(CMAKE_MATCH_1 STREQUAL "Labels")
        list(APPEND labels ${value})
      elseif(CMAKE_MATCH_1 STREQUAL "Needs")
        list(APPEND needs ${value})
      elseif(CMAKE_MATCH_1 STREQUAL "Timeout")
        set_property(TEST ${name} PROPERTY TIMEOUT ${value})
      else()
        set_property(TEST ${name} PROPERTY RUN_SERIAL ON)
      endif()
    endforeach()
  endif()
  foreach(label asan tsan fuzz)
    if(label IN_LIST labels)
      if(needs STREQUAL "")
        message(FATAL_ERROR "${source} has the label ${label}: it must say what it Needs:")
      endif()
      add_dependencies(tests_${label} ${needs})
    endif()
  endforeach()
  set_property(TEST ${name} PROPERTY LABELS ${labels})
  set_property(TEST ${name} PROPERTY SKIP_RETURN_CODE 77)
endfunction()

# tutti_newest_python(<name> <source>): with PyPI's newest PyTorch, which `make check` fetches, run
# what is slow anyway, and everything else a second time.
function(tutti_newest_python name source)
  get_property(labels TEST ${name} PROPERTY LABELS)
  if(NOT "check" IN_LIST labels)
    string(APPEND name .newest)
    tutti_test(${name} ${source} "python;check" ${BASH} ${source})
  endif()
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
    "TUTTI_PYTHON=${PROJECT_BINARY_DIR}/python/bin/python")
endfunction()

function(tutti_test_program target)
  tutti_program(${target} ${target} ${ARGN})
  tutti_tests_build(${target})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE PkgConfig::CMOCKA PkgConfig::SODIUM)
endfunction()

if(TUTTI_SANITIZE STREQUAL "fuzz")
  include(cmake/Fuzz.cmake)
  return()
endif()

# Unit tests beside the code.
file(GLOB_RECURSE unit_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*_test.c
  ${PROJECT_SOURCE_DIR}/cli/*_test.c ${PROJECT_SOURCE_DIR}/examples/*_test.c)
foreach(source ${unit_sources})
  file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
  string(REGEX REPLACE "^src/|_test\\.c$" "" path ${path})
  string(REPLACE "/" "." name ${path})
  string(REPLACE "/" "_" target test_${path})
  string(REGEX REPLACE "/.*" "" layer ${path})
  if(path MATCHES "^cli/")
    tutti_test_program(${target} ${source} $<TARGET_OBJECTS:cli_objects>)
    target_link_libraries(${target} PRIVATE PkgConfig::JANSSON)
  elseif(path MATCHES "^examples/([^/]*)/")
    tutti_test_program(${target} ${source} $<TARGET_OBJECTS:${CMAKE_MATCH_1}_objects>)
  else()
    tutti_test_program(${target} ${source})
  endif()
  tutti_test(unit.${name} ${source} "unit;asan;tsan;${layer}" ${target})
endforeach()

# Suites of tests/.
file(GLOB suites CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/tests/*)
foreach(folder ${suites})
  get_filename_component(suite ${folder} NAME)
  if(suite STREQUAL "fuzz" OR NOT IS_DIRECTORY ${folder})
    continue()
  endif()
  file(GLOB support CONFIGURE_DEPENDS ${folder}/*.c)
  set(programs ${support})
  list(FILTER programs INCLUDE REGEX "_(test|main)\\.c$")
  list(FILTER support EXCLUDE REGEX "_(test|main)\\.c$")
  if(support)
    tutti_objects_of(support_${suite} ${support})
    tutti_tests_build(support_${suite})
    target_link_libraries(support_${suite} PRIVATE PkgConfig::CMOCKA)
    set(support $<TARGET_OBJECTS:support_${suite}>)
  endif()
  foreach(source ${programs})
    get_filename_component(file ${source} NAME_WE)
    if(file MATCHES "^(.*)_main$")
      if(NOT TARGET tutti-${CMAKE_MATCH_1}) # else it is built for users, too
        tutti_test_program(tutti-${CMAKE_MATCH_1} ${source} ${support})
      endif()
    else()
      string(REGEX REPLACE "_test$" "" file ${file})
      tutti_test_program(test_${suite}_${file} ${source} ${support})
      file(STRINGS ${source} words LIMIT_COUNT 40 REGEX "^[ #*/]*Wrap: ")
      string(REGEX MATCHALL " [a-z_]+" words "${words}")
      foreach(word ${words})
        string(STRIP "${word}" word)
        target_link_options(test_${suite}_${file} PRIVATE "LINKER:--wrap=${word}")
      endforeach()
      tutti_test(${suite}.${file} ${source} ${suite} test_${suite}_${file})
    endif()
  endforeach()
  file(GLOB scripts CONFIGURE_DEPENDS ${folder}/*_test.py ${folder}/*_test.sh)
  foreach(source ${scripts})
    get_filename_component(file ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" file ${file})
    if(source MATCHES "\\.py$")
      tutti_test(${suite}.${file} ${source} ${suite} ${PYTHON3} ${source})
    else()
      tutti_test(${suite}.${file} ${source} ${suite} ${BASH} ${source})
    endif()
    if(suite STREQUAL "python" AND source MATCHES "\\.sh$")
      tutti_newest_python(${suite}.${file} ${source})
    endif()
  endforeach()
endforeach()

# Rules of STYLE.md that a machine can check.
add_test(NAME tidy COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/tidy.py ${PROJECT_SOURCE_DIR})
set_property(TEST tidy PROPERTY ENVIRONMENT ${TUTTI_TEST_ENVIRONMENT})
set_property(TEST tidy PROPERTY LABELS tidy)
add_test(NAME arm_sources COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/check --arm-sources)
set_property(TEST arm_sources PROPERTY LABELS tidy)
add_test(NAME asserts
  COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/asserts.py ${PROJECT_SOURCE_DIR})
set_property(TEST asserts PROPERTY LABELS tidy)

# What the documents say of the code, of each other and of the results.
add_test(NAME docs COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/docs_check.py
                           ${PROJECT_SOURCE_DIR})
set_property(TEST docs PROPERTY ENVIRONMENT ${TUTTI_TEST_ENVIRONMENT})
set_property(TEST docs PROPERTY LABELS tidy)

# Many seeds, where the simulation suite has its program.
if(TARGET tutti-worlds)
  add_test(NAME seeds.worlds COMMAND tutti-worlds --seeds 10000 --salts 4)
  set_property(TEST seeds.worlds PROPERTY LABELS check seeds simulation)
  set_property(TEST seeds.worlds PROPERTY TIMEOUT 900)
  set_property(TEST seeds.worlds PROPERTY COST 100) # first: one long process, none to wait for
  add_test(NAME seeds.worlds_coded
    COMMAND tutti-worlds --first 10000000 --seeds 10000 --salts 4)
  add_test(NAME seeds.worlds_coded_named
    COMMAND tutti-worlds --named --first 10000000 --seeds 10000 --salts 4)
  set_property(TEST seeds.worlds_coded seeds.worlds_coded_named PROPERTY LABELS
    check seeds simulation codec)
  set_property(TEST seeds.worlds_coded seeds.worlds_coded_named PROPERTY TIMEOUT 900)
  add_test(NAME seeds.worlds_store COMMAND tutti-worlds_store --seeds 10000)
  add_test(NAME seeds.worlds_quorum COMMAND tutti-worlds_store --first 20000000 --seeds 5000)
  add_test(NAME seeds.worlds_sums COMMAND tutti-worlds_store --sums --seeds 5000)
  add_test(NAME seeds.worlds_keep
    COMMAND tutti-worlds_store --keep --first 10000000 --seeds 5000)
  set_property(TEST seeds.worlds_store seeds.worlds_quorum seeds.worlds_sums seeds.worlds_keep
    PROPERTY LABELS check seeds store sync)
  set_property(TEST seeds.worlds_store seeds.worlds_quorum seeds.worlds_sums seeds.worlds_keep
    PROPERTY TIMEOUT 900)
endif()

# The same program with bugs planted on purpose (src/base/plant.h), to test that seeds find them.
if(TARGET tutti-worlds)
  file(GLOB simulate_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/simulation/*.c)
  list(FILTER simulate_sources EXCLUDE REGEX "_test\\.c$")
  set(planted_sources ${TUTTI_SOURCES})
  list(FILTER planted_sources INCLUDE REGEX
    "/src/(base|kernel|codec|tune|schedule|aggregate|control|negotiate)/|/platform/(sim|local|toy)")
  add_executable(tutti-worlds-planted ${simulate_sources} ${planted_sources})
  tutti_tests_build(tutti-worlds-planted)
  target_compile_definitions(tutti-worlds-planted PRIVATE TUTTI_PLANTED_BUGS)
  target_include_directories(tutti-worlds-planted PRIVATE ${PROJECT_SOURCE_DIR}
    ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(tutti-worlds-planted PRIVATE tutti_flags Threads::Threads
    PkgConfig::CMOCKA m)

  # Likewise the simulation of stores.
  file(GLOB store_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/store/*.c)
  list(FILTER store_sources EXCLUDE REGEX "_test\\.c$")
  set(planted_sync_sources ${TUTTI_SOURCES})
  list(FILTER planted_sync_sources INCLUDE REGEX
    "/src/(base|kernel|codec|sync)/|/platform/(sim|local|toy)")
  set(store_main ${store_sources})
  list(FILTER store_main INCLUDE REGEX "_main\\.c$")
  list(REMOVE_ITEM store_sources ${store_main})
  add_library(planted_store OBJECT EXCLUDE_FROM_ALL ${store_sources} ${planted_sync_sources}
    ${PROJECT_SOURCE_DIR}/tests/simulation/plant.c)
  target_link_libraries(planted_store PRIVATE tutti_flags PkgConfig::CMOCKA)
  add_executable(tutti-worlds_store-planted ${store_main})
  add_executable(test-store-explore-planted ${PROJECT_SOURCE_DIR}/tests/store/explore_test.c)
  foreach(target planted_store tutti-worlds_store-planted test-store-explore-planted)
    target_compile_definitions(${target} PRIVATE TUTTI_PLANTED_BUGS)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  endforeach()
  foreach(target tutti-worlds_store-planted test-store-explore-planted)
    tutti_tests_build(${target})
    target_link_libraries(${target} PRIVATE planted_store tutti_flags Threads::Threads
      PkgConfig::CMOCKA m)
  endforeach()

  # A unit test of what no simulation has, with the planted file in place of the library's.
  tutti_test_program(test-mesh-accept-planted ${PROJECT_SOURCE_DIR}/src/mesh/mesh_accept_test.c
    ${PROJECT_SOURCE_DIR}/src/mesh/mesh_accept.c ${PROJECT_SOURCE_DIR}/tests/simulation/plant.c)
  target_compile_definitions(test-mesh-accept-planted PRIVATE TUTTI_PLANTED_BUGS)

  # Likewise the comparison of moves with formulas, with the planted models of a network.
  tutti_test_program(test-sim-moves-planted ${PROJECT_SOURCE_DIR}/src/sim/moves_test.c
    ${TUTTI_SIM_SOURCES} ${PROJECT_SOURCE_DIR}/tests/simulation/plant.c)
  target_compile_definitions(test-sim-moves-planted PRIVATE TUTTI_PLANTED_BUGS)
endif()

include(cmake/Fuzz.cmake)
