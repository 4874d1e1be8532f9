# Modules through which the program uses MPI, one for each MPI library that is installed.
#
# Open MPI and MPICH have different ABIs, so one C file is compiled with the compiler wrapper of each. The program loads
# the module of the library whose launcher has started it; without modules it works on one machine. The global property
# RUNNER_MPI_MODULES lists the targets.
option(RUNNER_MPI "use MPI libraries if they are installed" ON)

# Compiles a C file to a shared object with the compiler wrapper of the module `name`, as part of `target`.
function(mpi_object target name source output)
  get_filename_component(folder ${output} DIRECTORY)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
    COMMAND ${RUNNER_MPICC_${name}} -shared -fPIC -O2 -Wall -Wextra -I${CMAKE_SOURCE_DIR} ${source} -o ${output}
    DEPENDS ${source} ${CMAKE_SOURCE_DIR}/backends/dist/mpi/mpi_functions.h
    COMMENT "Building ${output}" VERBATIM)
  add_custom_target(${target} DEPENDS ${output})
endfunction()

# Adds the module lib/runner/mpi-NAME.so if the wrapper is found: mpicc or the like.
function(mpi_module name)
  find_program(RUNNER_MPICC_${name} NAMES ${ARGN})
  if(NOT RUNNER_MPICC_${name})
    return()
  endif()
  set(module ${CMAKE_BINARY_DIR}/lib/runner/mpi-${name}.so)
  mpi_object(mpi_${name} ${name} ${CMAKE_SOURCE_DIR}/backends/dist/mpi/mpi_module.c ${module})
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
