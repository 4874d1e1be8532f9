// Functions of an MPI library as a table with a fixed binary interface.
//
// Open MPI and MPICH have different ABIs. So mpi_module.c is compiled once for each library, into a module that the
// program loads at run time; the program itself depends on no MPI library. C, because mpi_module.c is C.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Change it with the table.
#define RUNNER_MPI_INTERFACE 1
// The only symbol of a module: `const runner_mpi_functions runner_mpi`.
#define RUNNER_MPI_SYMBOL "runner_mpi"

// An MPI_Request of any library. Zero: none.
typedef struct {
  uint64_t value;
} runner_mpi_request;

// All functions but library() return 0 or an error code for error_text().
typedef struct {
  int interface;  // RUNNER_MPI_INTERFACE
  // Writes name and version of the library as a zero-terminated line. May be called at any time.
  void (*library)(char* text, int capacity);
  // MPI_Init_thread, for calls from one thread at a time. Errors do not end the process from then on.
  int (*init)(int* rank, int* size);
  // MPI_Finalize: waits for all processes.
  int (*finalize)(void);
  // Start a message. `peer` may be RUNNER_MPI_ANY in irecv. The memory must remain valid until the request is done.
  int (*isend)(const void* data, int bytes, int peer, int tag, runner_mpi_request* request);
  int (*irecv)(void* data, int bytes, int peer, int tag, runner_mpi_request* request);
  // Sets `done` if the message has been sent or received; the request is then none.
  int (*test)(runner_mpi_request* request, int* done);
  // Withdraws a receive. If its message has begun to arrive, it may still be written to the memory. Does not wait.
  int (*cancel)(runner_mpi_request* request);
  void (*error_text)(int error, char* text, int capacity);
} runner_mpi_functions;

#define RUNNER_MPI_ANY (-1)

#ifdef __cplusplus
}
#endif
