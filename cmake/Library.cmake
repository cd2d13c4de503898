# SPDX-License-Identifier: Apache-2.0
#
# libtutti, compiled once: tutti_objects -> tutti_static (libtutti.a), tutti_shared (libtutti.so).

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)

file(GLOB_RECURSE TUTTI_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
list(FILTER TUTTI_SOURCES EXCLUDE REGEX "_test\\.c$")
# Offline planning and the simulator are for programs of this tree only: tutti_model and tutti_sim
# below.
set(TUTTI_MODEL_SOURCES ${TUTTI_SOURCES})
list(FILTER TUTTI_MODEL_SOURCES INCLUDE REGEX "/src/model/")
set(TUTTI_SIM_SOURCES ${TUTTI_SOURCES})
list(FILTER TUTTI_SIM_SOURCES INCLUDE REGEX "/src/sim/")
list(FILTER TUTTI_SOURCES EXCLUDE REGEX "/src/(model|sim)/")
# A file named for a processor is compiled for that processor only.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(FILTER TUTTI_SOURCES EXCLUDE REGEX "_(x86|sse2|avx2|avx512)\\.c$")
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(FILTER TUTTI_SOURCES EXCLUDE REGEX "_(aarch64|neon)\\.c$")
endif()

add_library(tutti_objects OBJECT ${TUTTI_SOURCES})
set_target_properties(tutti_objects PROPERTIES C_VISIBILITY_PRESET hidden)
target_link_libraries(tutti_objects PRIVATE tutti_flags Threads::Threads)
if(NOT TUTTI_LIBRARY_ONLY)
  add_library(tutti_model STATIC ${TUTTI_MODEL_SOURCES})
  target_link_libraries(tutti_model PRIVATE tutti_flags)
  add_library(tutti_sim STATIC ${TUTTI_SIM_SOURCES})
  target_link_libraries(tutti_sim PRIVATE tutti_flags)
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/plugin/plugin.c PROPERTIES COMPILE_DEFINITIONS
  "TUTTI_PLUGIN_DIR=\"${CMAKE_INSTALL_FULL_LIBDIR}/tutti\"")

if(TUTTI_COMPILE_ONLY)
  # Links to single headers: the whole include folder would shadow the target's own libc.
  set(borrowed ${PROJECT_BINARY_DIR}/borrowed)
  file(MAKE_DIRECTORY ${borrowed})
  foreach(name sodium.h sodium)
    file(CREATE_LINK ${SODIUM_INCLUDEDIR}/${name} ${borrowed}/${name} SYMBOLIC)
  endforeach()
  target_include_directories(tutti_objects PRIVATE ${borrowed})
  add_library(tutti_static STATIC $<TARGET_OBJECTS:tutti_objects>)
  return()
endif()
target_link_libraries(tutti_objects PRIVATE PkgConfig::SODIUM)

add_library(tutti_static STATIC $<TARGET_OBJECTS:tutti_objects>)
add_library(tutti_shared SHARED $<TARGET_OBJECTS:tutti_objects>)
set_target_properties(tutti_static PROPERTIES OUTPUT_NAME tutti EXPORT_NAME static)
# Before version 1 every minor may be incompatible, so each has a name of its own; later majors do.
set(TUTTI_SOVERSION ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(TUTTI_SOVERSION 0.${PROJECT_VERSION_MINOR})
endif()
set_target_properties(tutti_shared PROPERTIES OUTPUT_NAME tutti EXPORT_NAME tutti
  VERSION ${PROJECT_VERSION} SOVERSION ${TUTTI_SOVERSION}
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/tutti.map)
foreach(library tutti_static tutti_shared)
  target_link_libraries(${library} PRIVATE
    $<BUILD_INTERFACE:tutti_flags> Threads::Threads PkgConfig::SODIUM m ${CMAKE_DL_LIBS})
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
# nodelete: a thread that gives memory back after tutti_shutdown runs code of the library.
target_link_options(tutti_shared PRIVATE -Wl,-z,nodelete)
target_link_options(tutti_shared PRIVATE
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/tutti.map)
