# SPDX-License-Identifier: Apache-2.0
#
# bin/tutti, the examples and the benchmarks.

# tutti_objects_of(<target> <source>...): compiled once for all programs that are linked with them.
function(tutti_objects_of target)
  add_library(${target} OBJECT ${ARGN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE tutti_flags Threads::Threads PkgConfig::SODIUM)
endfunction()

# tutti_program(<target> <output name> <source>...): linked against the static libraries.
function(tutti_program target output)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output})
  target_link_libraries(${target} PRIVATE tutti_flags tutti_sim tutti_model tutti_static
    Threads::Threads m)
endfunction()

file(GLOB_RECURSE cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
list(FILTER cli_sources EXCLUDE REGEX "_test\\.c$")
if(cli_sources)
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
endif()
if(cli_sources MATCHES "/cli/main\\.c")
  list(FILTER cli_sources EXCLUDE REGEX "/cli/main\\.c$")
  tutti_objects_of(cli_objects ${cli_sources})
  target_link_libraries(cli_objects PRIVATE PkgConfig::JANSSON)
  tutti_program(tutti_cli tutti ${PROJECT_SOURCE_DIR}/cli/main.c $<TARGET_OBJECTS:cli_objects>)
  target_include_directories(tutti_cli PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tutti_cli PRIVATE PkgConfig::JANSSON PkgConfig::SODIUM)
endif()

# The conformance suite for engines and transports, for authors of plugins: tutti/tutti.h only.
set(suite ${PROJECT_SOURCE_DIR}/tests/conformance)
tutti_program(tutti-conformance tutti-conformance ${suite}/conformance_main.c ${suite}/forms.c
  ${suite}/oracle.c ${suite}/ranks.c)
target_include_directories(tutti-conformance PRIVATE ${PROJECT_SOURCE_DIR}/tests)

# examples/01_x.c, and each file of a folder without main.c: a program of its own.
# examples/02_y/ with main.c: one program of all its files. Both: bin/<name>.
file(GLOB example_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/examples/*/*.c)
list(FILTER example_sources EXCLUDE REGEX "_test\\.c$")
foreach(source ${example_sources})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME_WE)
  set(files ${source})
  if("${folder}/main.c" IN_LIST example_sources)
    if(NOT name STREQUAL "main")
      continue()
    endif()
    get_filename_component(name ${folder} NAME)
    set(beside ${example_sources})
    list(FILTER beside INCLUDE REGEX "^${folder}/[^/]*$")
    list(REMOVE_ITEM beside ${source})
    tutti_objects_of(${name}_objects ${beside})
    list(APPEND files $<TARGET_OBJECTS:${name}_objects>)
  endif()
  tutti_program(example_${name} ${name} ${files})
endforeach()

# Built by `make bench` and, since some tests run them, with the tests. What lies deeper in a topic
# needs a peer's compiler: its driver builds it.
add_custom_target(benches)
file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*/*.c)
foreach(source ${bench_sources})
  get_filename_component(name ${source} NAME_WE)
  tutti_program(bench_${name} bench-${name} ${source})
  target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(bench_${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(benches bench_${name})
endforeach()
