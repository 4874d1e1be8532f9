// The launcher that started this process, such as mpirun or srun, and the processes that it started with this one.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runner/train/run/mpi_ranks.h"

namespace runner::cli {

// Variable with the name of the MPI module to use, or kOwnRun.
inline constexpr const char* kMpiVariable = "RUNNER_MPI";
// Each process trains a run of its own.
inline constexpr const char* kOwnRun = "off";

// Whether a launcher started this process, with others or alone.
bool is_launched();
// Whether it started several, which are not meant to train runs of their own.
bool is_one_of_several();
// Whether it started several, which train runs of their own (RUNNER_MPI=off).
bool is_own_run_of_several();
// Whether another process of the launcher will print what this one would. Does not connect.
bool is_silent_process();

// Connects this process to the others of its launcher, if there are any. `words`: the command line. Throws
// Error(kUsage) if they cannot be connected, since each would train the whole recipe, and RankError if rank 0 reports
// the error.
void connect_to_launched(std::span<const std::string> words);
// The connected processes; null if there are none.
train::MpiRanks* launched_ranks();
// Call at the end of the program. Does nothing if no processes are connected.
void leave_launched(int exit_code);
// For an error before connect_to_launched(): connects and leaves, because a launcher may kill rank 0, which prints the
// error, when another process has ended. Returns the exit code of this process: 0 if rank 0 has reported the error.
int end_with_launched(std::span<const std::string> words, int exit_code) noexcept;

// Throws Error(kUsage) if the recipe needs another number of processes than the launcher has started.
void check_number_of_launched(int64_t num_processes);

}  // namespace runner::cli
