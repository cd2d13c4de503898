# SPDX-License-Identifier: Apache-2.0
#
# What a Python wheel holds besides python/tutti: the library, the command, and the libraries that
# both need, side by side. Included only when scikit-build-core builds one (`pip install .`).

# Stripped when linked: what is installed as a file is not stripped later.
target_link_options(tutti_shared PRIVATE -s)
target_link_options(tutti_cli PRIVATE -s)

# The file behind libNAME.so, under the name by which programs ask for it (libNAME.so.N).
function(tutti_wheel_library name)
  find_library(file_${name} ${name} REQUIRED)
  file(REAL_PATH ${file_${name}} real)
  get_filename_component(real_name ${real} NAME)
  string(REGEX MATCH "^lib${name}\\.so\\.[0-9]+" soname ${real_name})
  install(FILES ${real} DESTINATION tutti/lib RENAME ${soname} COMPONENT wheel)
endfunction()

tutti_wheel_library(sodium)
tutti_wheel_library(jansson)
set_target_properties(tutti_shared PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
set_target_properties(tutti_cli PROPERTIES
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../lib")
# A wheel holds no links: the library is laid down under the one name that is loaded.
install(FILES $<TARGET_FILE:tutti_shared> DESTINATION tutti/lib
  RENAME libtutti.so.${TUTTI_SOVERSION} COMPONENT wheel)
install(PROGRAMS $<TARGET_FILE:tutti_cli> DESTINATION tutti/bin COMPONENT wheel)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tutti DESTINATION tutti/include COMPONENT wheel
  FILES_MATCHING PATTERN "*.h")
# What `tutti plugin build` compiles on the user's machine; beside bin/, as in an installation.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/plugins/ DESTINATION tutti/share/tutti/plugins
  COMPONENT wheel FILES_MATCHING PATTERN "*.[ch]")
