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
if(cli_sources MATCHES "/cli/main\\.c")
  pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
  pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
  tutti_program(tutti_cli tutti ${cli_sources})
  target_include_directories(tutti_cli PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(tutti_cli PRIVATE PkgConfig::JANSSON PkgConfig::HWLOC PkgConfig::SODIUM)
endif()

# examples/02_overlap.c -> bin/example-02_overlap; the one whose name ends in "demo" is what
# `make demo` runs: bin/tutti-demo.
file(GLOB example_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/examples/*.c ${PROJECT_SOURCE_DIR}/examples/*/*.c)
foreach(source ${example_sources})
  get_filename_component(name ${source} NAME_WE)
  set(output example-${name})
  if(name MATCHES "demo$")
    set(output tutti-demo)
  endif()
  tutti_program(example_${name} ${output} ${source})
endforeach()

file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*.c)
foreach(source ${bench_sources})
  get_filename_component(name ${source} NAME_WE)
  tutti_program(bench_${name} bench-${name} ${source})
endforeach()
