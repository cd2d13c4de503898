# SPDX-License-Identifier: Apache-2.0
#
# cmake -DTUTTI=<program> -DINTO=<folder> -P Generate.cmake: let the program write its manual
# page and its shell completion. An option that it refuses leaves no file.
file(REMOVE_RECURSE ${INTO})
file(MAKE_DIRECTORY ${INTO})
foreach(pair "--man;tutti.1" "--completion;tutti.bash")
  list(GET pair 0 option)
  list(GET pair 1 file)
  execute_process(COMMAND ${TUTTI} ${option}
    RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_QUIET)
  if(result EQUAL 0 AND text)
    file(WRITE ${INTO}/${file} "${text}")
  endif()
endforeach()
file(WRITE ${INTO}/stamp "")
