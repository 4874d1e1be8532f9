# Compiler flags of everything we build, and ccache where it is installed.

find_program(RUNNER_CCACHE ccache)
if(RUNNER_CCACHE)
  # ccache keeps what is compiled with precompiled headers only if it is told to be sloppy about their macros.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${RUNNER_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${RUNNER_CCACHE})
endif()

# -ffp-contract=off: an FMA appears only where it is written, so that fused, unfused and emulated code give the same bits.
# -fno-math-errno, -fno-trapping-math: let loops with sqrt and comparisons vectorise; values stay IEEE.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
add_library(runner_flags INTERFACE)
target_include_directories(runner_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(runner_flags INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Wshadow
                                              -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor)
# GCC collects garbage only above 400 MB, which few sources need: a tenth of the time of each.
target_compile_options(runner_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=400000>)
if(RUNNER_WERROR)
  target_compile_options(runner_flags INTERFACE -Werror)
endif()
if(RUNNER_SANITIZE)
  target_compile_options(runner_flags INTERFACE -fsanitize=${RUNNER_SANITIZE} -fno-omit-frame-pointer
                                                -fno-sanitize-recover=all)
  target_link_options(runner_flags INTERFACE -fsanitize=${RUNNER_SANITIZE})
  # GCC 12 sees uninitialised values in std::regex that it has rewritten for the sanitizers.
  target_compile_options(runner_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>)
endif()
