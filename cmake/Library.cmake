# runner_library(NAME [OPTIMIZE LEVEL] [LINK LIBRARY...] [PRIVATE_LINK LIBRARY...] [EXCEPT FILE...])
#
# Adds a static library of all .cpp files in the current folder and below it. A new file needs no entry.
#   OPTIMIZE      level for code without numeric loops, which shortens the build: 1, or g where no user would notice
#   LINK          libraries whose headers users of this library may include
#   PRIVATE_LINK  libraries whose headers only the sources of this library include
#   EXCEPT        regular expressions of paths that do not belong to the library
#
# CMAKE_UNITY_BUILD compiles several sources as one, which halves the build time. Therefore names in unnamed namespaces
# must be unique within a library.
function(runner_library name)
  cmake_parse_arguments(ARG "" "OPTIMIZE" "LINK;PRIVATE_LINK;EXCEPT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  foreach(exception ${ARG_EXCEPT})
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${exception}$")
  endforeach()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC runner_flags ${ARG_LINK} PRIVATE ${ARG_PRIVATE_LINK})
  if(ARG_OPTIMIZE)
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O${ARG_OPTIMIZE}>)
  endif()
endfunction()
