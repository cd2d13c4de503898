# SPDX-License-Identifier: Apache-2.0
#
# Plugins: each is built where its library is present, into plugins/tutti-<name>.so.

# tutti_plugin(<name> <source>...): a module that links nothing of ours.
function(tutti_plugin name)
  add_library(plugin_${name} MODULE ${ARGN})
  set_target_properties(plugin_${name} PROPERTIES PREFIX "" OUTPUT_NAME tutti-${name}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins C_VISIBILITY_PRESET hidden)
  target_link_libraries(plugin_${name} PRIVATE tutti_flags ${CMAKE_DL_LIBS})
  install(TARGETS plugin_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tutti)
endfunction()

# One per MPI: its compiler wrapper says what to compile and link with.
foreach(mpi openmpi mpich)
  unset(TUTTI_MPICC_${mpi} CACHE) # installed or removed since
  find_program(TUTTI_MPICC_${mpi} mpicc.${mpi})
  if(NOT TUTTI_MPICC_${mpi})
    continue()
  endif()
  set(words "${TUTTI_MPICC_${mpi}}")
  if(mpi STREQUAL "openmpi")
    set(ask_compile --showme:compile)
    set(ask_link --showme:link)
  else()
    set(ask_compile -compile-info)
    set(ask_link -link-info)
  endif()
  execute_process(COMMAND ${words} ${ask_compile} OUTPUT_VARIABLE compile ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  execute_process(COMMAND ${words} ${ask_link} OUTPUT_VARIABLE link ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    continue()
  endif()
  # Of all that the wrappers say, only where to look and what to link is ours to use.
  string(REGEX MATCHALL "(^| )-I[^ ]+" includes "${compile}")
  string(REGEX MATCHALL "(^| )-(L|l)[^ ]+" libraries "${link}")
  list(TRANSFORM includes STRIP)
  list(TRANSFORM includes REPLACE "^-I" "")
  list(TRANSFORM libraries STRIP)
  tutti_plugin(mpi-${mpi} ${PROJECT_SOURCE_DIR}/plugins/mpi/mpi_engine.c
    ${PROJECT_SOURCE_DIR}/plugins/mpi/mpi_links.c)
  target_include_directories(plugin_mpi-${mpi} SYSTEM PRIVATE ${includes})
  target_link_libraries(plugin_mpi-${mpi} PRIVATE ${libraries})
endforeach()

pkg_check_modules(UCX IMPORTED_TARGET ucx)
if(UCX_FOUND)
  tutti_plugin(ucx ${PROJECT_SOURCE_DIR}/plugins/ucx/ucx_transport.c)
  target_link_libraries(plugin_ucx PRIVATE PkgConfig::UCX)
endif()

pkg_check_modules(PMIX pmix)
if(PMIX_FOUND) # its flags set a run path, which is not ours to set
  tutti_plugin(pmix ${PROJECT_SOURCE_DIR}/plugins/pmix/pmix_engine.c)
  target_include_directories(plugin_pmix SYSTEM PRIVATE ${PMIX_INCLUDE_DIRS})
  target_link_directories(plugin_pmix PRIVATE ${PMIX_LIBRARY_DIRS})
  target_link_libraries(plugin_pmix PRIVATE ${PMIX_LIBRARIES})
endif()

pkg_check_modules(ZMQ IMPORTED_TARGET libzmq)
if(ZMQ_FOUND) # the example of docs/plugins.md
  tutti_plugin(zmq ${PROJECT_SOURCE_DIR}/plugins/example/zmq_engine.c)
  target_link_libraries(plugin_zmq PRIVATE PkgConfig::ZMQ)
endif()
