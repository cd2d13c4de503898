# SPDX-License-Identifier: Apache-2.0
#
# cmake -DTUTTI=<program> -DINTO=<folder> -P Generate.cmake: let the program write its manual
# pages and its shell completions.
file(REMOVE_RECURSE ${INTO})
file(MAKE_DIRECTORY ${INTO})
function(write_words file)
  execute_process(COMMAND ${TUTTI} ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE text)
  if(NOT result EQUAL 0 OR NOT text)
    message(FATAL_ERROR "tutti ${ARGN} failed: ${result}")
  endif()
  file(WRITE ${INTO}/${file} "${text}")
endfunction()
write_words(tutti.1 man)
execute_process(COMMAND ${TUTTI} --help OUTPUT_VARIABLE overview)
string(REGEX MATCHALL "\n  [a-z]+ " lines "${overview}")
foreach(line ${lines})
  string(STRIP "${line}" command)
  write_words(tutti-${command}.1 man ${command})
endforeach()
write_words(tutti completion bash)
write_words(_tutti completion zsh)
write_words(tutti.fish completion fish)
file(WRITE ${INTO}/stamp "")
