# SPDX-License-Identifier: Apache-2.0
#
# bin/tutti, the examples and the benchmarks.

# tutti_program(<target> <output name> <source>...): linked against the static library.
function(tutti_program target output)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${output})
  target_link_libraries(${target} PRIVATE tutti_flags tutti_static Threads::Threads m)
endfunction()

file(GLOB cli_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cli/*.c)
list(FILTER cli_sources EXCLUDE REGEX "_test\\.c$")
if(cli_sources)
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
endif()
if(cli_sources MATCHES "/cli/main\\.c")
  tutti_program(tutti_cli tutti ${cli_sources})
  target_include_directories(tutti_cli PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tutti_cli PRIVATE PkgConfig::JANSSON PkgConfig::HWLOC PkgConfig::SODIUM)
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
    set(files ${example_sources})
    list(FILTER files INCLUDE REGEX "^${folder}/[^/]*$")
  endif()
  tutti_program(example_${name} ${name} ${files})
endforeach()

file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
foreach(source ${bench_sources})
  get_filename_component(name ${source} NAME_WE)
  tutti_program(bench_${name} bench-${name} ${source})
endforeach()
