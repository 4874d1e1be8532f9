# runner_library(NAME [COLD] [LINK LIBRARY...] [PRIVATE_LINK LIBRARY...] [EXCEPT FILE...])
#
# A static library of every .cpp file in the current folder and below it, so that a new file needs no entry here.
#   COLD          compiled with -O1: code that computes nothing (texts, reports, commands)
#   LINK          what users of the library may include too; PRIVATE_LINK: what only its sources include
#   EXCEPT        paths below the folder that do not belong to the library (regular expressions)
#
# CMAKE_UNITY_BUILD compiles several sources as one, which takes half of the time: names in unnamed namespaces are
# therefore unique within a library.
function(runner_library name)
  cmake_parse_arguments(ARG "COLD" "" "LINK;PRIVATE_LINK;EXCEPT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  foreach(exception ${ARG_EXCEPT})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${exception}$")
  endforeach()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC runner_flags ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  if(ARG_COLD)
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)
  endif()
endfunction()
