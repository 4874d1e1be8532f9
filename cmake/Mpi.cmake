# Modules through which the program uses MPI, one for each MPI library that is installed.
#
# Open MPI and MPICH have different ABIs, so one C file is compiled with the compiler wrapper of each. The program loads
# the module of the library whose launcher has started it; without modules it works on one machine. The global property
# RUNNER_MPI_MODULES lists the targets.
option(RUNNER_MPI "use MPI libraries if they are installed" ON)

# Adds the module lib/runner/mpi-NAME.so if `wrapper` (mpicc or the like) is found.
function(mpi_module name)
  find_program(RUNNER_MPICC_${name} NAMES ${ARGN})
  set(wrapper ${RUNNER_MPICC_${name}})
  if(NOT wrapper)
    return()
  endif()
  set(module ${CMAKE_BINARY_DIR}/lib/runner/mpi-${name}.so)
  set(source ${CMAKE_SOURCE_DIR}/backends/dist/mpi/mpi_module.c)
  add_custom_command(OUTPUT ${module}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib/runner
    COMMAND ${wrapper} -shared -fPIC -O2 -Wall -Wextra -fvisibility=hidden -I${CMAKE_SOURCE_DIR} ${source} -o ${module}
    DEPENDS ${source} ${CMAKE_SOURCE_DIR}/backends/dist/mpi/mpi_functions.h
    COMMENT "Building the module of ${wrapper}" VERBATIM)
  add_custom_target(mpi_${name} ALL DEPENDS ${module})
  set_property(GLOBAL APPEND PROPERTY RUNNER_MPI_MODULES mpi_${name})
  install(FILES ${module} DESTINATION lib/runner)
endfunction()

function(mpi_modules)
  if(NOT RUNNER_MPI)
    return()
  endif()
  mpi_module(openmpi mpicc.openmpi)
  mpi_module(mpich mpicc.mpich)
  get_property(modules GLOBAL PROPERTY RUNNER_MPI_MODULES)
  if(NOT modules)
    mpi_module(mpi mpicc)
  endif()
endfunction()
