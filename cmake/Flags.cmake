# SPDX-License-Identifier: Apache-2.0
#
# tutti_flags: what every translation unit of this tree is compiled and linked with.

set(TUTTI_SANITIZE "" CACHE STRING "empty, address (with undefined), thread or fuzz; needs clang")
set_property(CACHE TUTTI_SANITIZE PROPERTY STRINGS "" address thread fuzz)

# Our presets stop at warnings of the compilers that CI has; what others may say, nobody has seen.
set(TUTTI_WERROR OFF CACHE STRING "ON, OFF, or AUTO: warnings are errors for GCC 12 and Clang 14")
set_property(CACHE TUTTI_WERROR PROPERTY STRINGS ON OFF AUTO)
set(TUTTI_STRICT ${TUTTI_WERROR})
if(TUTTI_WERROR STREQUAL "AUTO")
  string(REGEX MATCH "^(GNU 12|Clang 14)\\." TUTTI_STRICT
    "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}")
  string(COMPARE NOTEQUAL "${TUTTI_STRICT}" "" TUTTI_STRICT)
endif()

# Binaries say nothing of where they were built, so two builds are the same in any two folders.
add_compile_options(-ffile-prefix-map=${PROJECT_BINARY_DIR}=./build
  -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)

if(SKBUILD) # a wheel is stripped: what a debugger wants would be made for nothing
  add_compile_options(-g0)
endif()

add_library(tutti_flags INTERFACE)
target_compile_definitions(tutti_flags INTERFACE _GNU_SOURCE $<$<CONFIG:Debug>:TUTTI_DEBUG>)
target_include_directories(tutti_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(tutti_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes
  $<$<BOOL:${TUTTI_STRICT}>:-Werror>
  -fno-strict-aliasing -ffp-contract=off -fstack-protector-strong)

if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  # A loop that was not vectorised is slow, not wrong; under sanitizers most are not.
  target_compile_options(tutti_flags INTERFACE -Wno-pass-failed)
endif()

if(TUTTI_SANITIZE STREQUAL "")
  # Fortified only where the optimiser runs: without it the macro is an error.
  target_compile_options(tutti_flags INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  target_link_options(tutti_flags INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
elseif(TUTTI_SANITIZE STREQUAL "address")
  set(sanitizers -fsanitize=address,undefined)
elseif(TUTTI_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread)
elseif(TUTTI_SANITIZE STREQUAL "fuzz")
  set(sanitizers -fsanitize=fuzzer-no-link,address,undefined)
else()
  message(FATAL_ERROR "TUTTI_SANITIZE is '${TUTTI_SANITIZE}'; use address, thread or fuzz")
endif()
if(sanitizers)
  list(APPEND sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_definitions(tutti_flags INTERFACE TUTTI_DEBUG)
  # A report names functions and lines; what a debugger wants besides takes a fifth of the time.
  target_compile_options(tutti_flags INTERFACE ${sanitizers} -O1 -gline-tables-only)
  target_link_options(tutti_flags INTERFACE ${sanitizers})
endif()

include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# The first report ends the test, and no report is suppressed.
set(TUTTI_TEST_ENVIRONMENT
  "ASAN_OPTIONS=halt_on_error=1:detect_leaks=1:strict_string_checks=1"
  "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
