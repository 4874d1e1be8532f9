#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "backends/dist/mpi/mpi_functions.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(runner_mpi_request), "a request fits");

// A copy, because the sizes of the two types may differ.
static MPI_Request of(const runner_mpi_request* request) {
  MPI_Request own;
  memcpy(&own, request, sizeof own);
  return own;
}

static void store(MPI_Request own, runner_mpi_request* request) {
  memset(request, 0, sizeof *request);
  if (own != MPI_REQUEST_NULL) memcpy(request, &own, sizeof own);
}

static void library(char* text, int capacity) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(version, &length);
  // "Open MPI v4.1.4, package: …" and "MPICH Version:\t4.0.2\nMPICH Release date: …"
  version[strcspn(version, ",\n")] = '\0';
  const char* const tab = strchr(version, '\t');
  if (tab != NULL) {
    const size_t name = strcspn(version, " ");
    snprintf(text, (size_t)capacity, "%.*s %s", (int)name, version, tab + strspn(tab, "\t "));
  } else {
    snprintf(text, (size_t)capacity, "%s", version);
  }
}

// Not an error code of MPI: those are not negative.
enum { kNoThreads = -1 };

static int init(int* rank, int* size) {
  int provided = MPI_THREAD_SINGLE;
  int error = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  if (error == MPI_SUCCESS && provided < MPI_THREAD_SERIALIZED) return kNoThreads;
  if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (error == MPI_SUCCESS) error = MPI_Comm_rank(MPI_COMM_WORLD, rank);
  if (error == MPI_SUCCESS) error = MPI_Comm_size(MPI_COMM_WORLD, size);
  return error;
}

static int finalize(void) {
  return MPI_Finalize();
}

static int isend(const void* data, int bytes, int peer, int tag, runner_mpi_request* request) {
  MPI_Request own = MPI_REQUEST_NULL;
  const int error = MPI_Isend(data, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &own);
  store(own, request);
  return error;
}

static int irecv(void* data, int bytes, int peer, int tag, runner_mpi_request* request) {
  MPI_Request own = MPI_REQUEST_NULL;
  const int from = peer == RUNNER_MPI_ANY ? MPI_ANY_SOURCE : peer;
  const int error = MPI_Irecv(data, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &own);
  store(own, request);
  return error;
}

static int test(runner_mpi_request* request, int* done) {
  *done = 1;
  if (request->value == 0) return 0;
  MPI_Request own = of(request);
  const int error = MPI_Test(&own, done, MPI_STATUS_IGNORE);
  store(own, request);
  return error;
}

static int cancel(runner_mpi_request* request) {
  if (request->value == 0) return 0;
  MPI_Request own = of(request);
  int done = 0;
  int error = MPI_Cancel(&own);
  if (error == MPI_SUCCESS) error = MPI_Test(&own, &done, MPI_STATUS_IGNORE);
  if (error == MPI_SUCCESS && !done) error = MPI_Request_free(&own);
  store(MPI_REQUEST_NULL, request);
  return error;
}

static void error_text(int error, char* text, int capacity) {
  if (error == kNoThreads) {
    snprintf(text, (size_t)capacity, "the library was built without threads (MPI_THREAD_SERIALIZED)");
    return;
  }
  char own[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(error, own, &length);
  snprintf(text, (size_t)capacity, "%.*s", length, own);
}

__attribute__((visibility("default"))) const runner_mpi_functions runner_mpi = {
    .interface = RUNNER_MPI_INTERFACE,
    .library = library,
    .init = init,
    .finalize = finalize,
    .isend = isend,
    .irecv = irecv,
    .test = test,
    .cancel = cancel,
    .error_text = error_text,
};
