// `runner doctor`: the hardware and software that this program runs on, and the measured speed of its kernels.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "backends/dist/mpi/mpi_network.h"

namespace runner::report {

struct Environment {
  std::string version, compiler, build;
  std::string cpu, cpu_features;
  std::vector<int> cores;  // cores that this process may use, by number
  int64_t memory_bytes = 0, memory_free_bytes = 0;
  std::string system;                         // kernel name and release
  std::string kernels;                        // JSON: the kernel used for each kind of work
  double f32_gflops = 0, bf16_gflops = 0;     // products of 512 × 512 matrices, on all cores
  double copy_gb_per_s = 0;                   // one core, copying 64 MiB
  std::string sqlite, libpng, libjpeg_turbo;  // versions
  bool has_sentence_piece = false;            // optional
  std::vector<backends::MpiModule> mpi;       // optional: the MPI libraries that this build can use
  std::string store;                          // path
  std::string store_file_system;              // name of a network file system; empty: a local one
  std::string spools;                         // folder for spools of stores on network file systems
  std::string store_status;                   // "ok", "none yet", or an error message
  int64_t store_bytes = 0, store_runs = 0;
};

// Collects and measures everything, which takes about a quarter of a second. Reports problems of the store in
// `store_status` instead of throwing.
Environment inspect_environment(const std::filesystem::path& store, std::string version);

// Parts of it that need no measurement: "GCC 12.2.0", "optimised", "Linux 6.1.0 x86_64", and the memory of the machine.
std::string compiler_name();
std::string build_kind();
std::string system_name();
int64_t memory_bytes();

// Key of slurm_job_id() in the recorded environment of an attempt.
inline constexpr const char* kSlurmJob = "slurm_job";
// Returns the id of the Slurm job in which this process runs, JOB_TASK for an element of an array; empty outside jobs.
std::string slurm_job_id();

std::string environment_text(const Environment& environment, bool color);
std::string environment_document(const Environment& environment);

}  // namespace runner::report
