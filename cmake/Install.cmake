# SPDX-License-Identifier: Apache-2.0
#
# What `make install` lays down, and how others find it: pkg-config, find_package(tutti CONFIG).
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
install(TARGETS tutti_static tutti_shared EXPORT tutti-targets)
install(EXPORT tutti-targets NAMESPACE tutti:: DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tutti-config.cmake.in
  ${PROJECT_BINARY_DIR}/tutti-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tutti-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tutti-config.cmake
  ${PROJECT_BINARY_DIR}/tutti-config-version.cmake DESTINATION ${package_dir})

# The prefix is known only at install time (make install PREFIX=...), so the file is made then.
install(CODE "
  set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
  set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
  set(PROJECT_VERSION \"${PROJECT_VERSION}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/cmake/tutti.pc.in\"
    \"${PROJECT_BINARY_DIR}/tutti.pc\" @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/tutti.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# Sources of plugins that need a library of the site: `tutti plugin build` compiles them there.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugins/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tutti/plugins
  FILES_MATCHING PATTERN "*.[ch]")
# Documents lie to each other as in the tree, so that their links hold.
file(GLOB documents ${PROJECT_SOURCE_DIR}/*.md)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${documents} DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
  DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN __pycache__ EXCLUDE)

if(TARGET tutti_cli)
  install(TARGETS tutti_cli tutti-conformance)
  # The command documents itself; these files are its own words.
  set(generated ${PROJECT_BINARY_DIR}/generated)
  if(NOT TUTTI_SANITIZE)
    add_custom_command(OUTPUT ${generated}/stamp
      COMMAND ${CMAKE_COMMAND} -DTUTTI=$<TARGET_FILE:tutti_cli> -DINTO=${generated}
        -P ${PROJECT_SOURCE_DIR}/cmake/Generate.cmake
      DEPENDS tutti_cli ${PROJECT_SOURCE_DIR}/cmake/Generate.cmake
      COMMENT "Manual page and completion" VERBATIM)
    add_custom_target(tutti_generated ALL DEPENDS ${generated}/stamp)
    install(DIRECTORY ${generated}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
      FILES_MATCHING PATTERN "*.1")
    install(FILES ${generated}/tutti
      DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${generated}/_tutti DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${generated}/tutti.fish
      DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endif()
