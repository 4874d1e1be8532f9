# Compiler flags for all targets, and ccache if it is installed.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()

# Unity builds (cmake/Library.cmake).
option(CMAKE_UNITY_BUILD "compile several sources as one" ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24 CACHE STRING "sources that are compiled as one")

# Lets ccache hit in other clones, by rewriting absolute paths below the source folder, and accept precompiled headers.
find_program(RUNNER_CCACHE ccache)
if(RUNNER_CCACHE)
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
               CCACHE_NOHASHDIR=1 ${RUNNER_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_C_COMPILER_LAUNCHER ${launcher})
endif()

# -ffp-contract=off: no implicit FMA, so that fused, unfused and emulated code give the same bits.
# -fno-math-errno, -fno-trapping-math: loops with sqrt and comparisons vectorise; values stay IEEE.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
add_library(runner_flags INTERFACE)
target_include_directories(runner_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(runner_flags INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Wshadow
                                              -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor)
# Makes __FILE__ relative to the source folder, for short messages and for ccache hits in other clones.
target_compile_options(runner_flags INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
# In unity builds, GCC warns about classes that have members of types from unnamed namespaces.
target_compile_options(runner_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
# Garbage collection in GCC starts at 400 MB, which few sources need. This saves a tenth of the compile time.
target_compile_options(runner_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=400000>)
if(RUNNER_WERROR)
  target_compile_options(runner_flags INTERFACE -Werror)
endif()
if(RUNNER_SANITIZE)
  target_compile_options(runner_flags INTERFACE -fsanitize=${RUNNER_SANITIZE} -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all)
  target_link_options(runner_flags INTERFACE -fsanitize=${RUNNER_SANITIZE})
  # With sanitizers, GCC 12 wrongly warns about uninitialised values in std::regex.
  target_compile_options(runner_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
