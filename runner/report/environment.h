// `runner doctor`: what this program runs on and how fast its kernels are here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace runner::report {

struct Environment {
  std::string version, compiler, build;
  std::string cpu, cpu_features;
  std::vector<int> cores;  // that this process may use, by number
  int64_t memory_bytes = 0, memory_free_bytes = 0;
  std::string system;                      // kernel and release
  std::string kernels;                     // JSON: which kernel computes what
  double f32_gflops = 0, bf16_gflops = 0;  // products of 512 × 512 matrices on all cores
  double copy_gb_per_s = 0;                // one core, 64 MiB
  std::string sqlite;
  std::string store;         // path
  std::string store_status;  // "ok", "none yet", or what is wrong
  int64_t store_bytes = 0, store_runs = 0;
};

// Looks and measures, about a quarter of a second.  Never throws for what is wrong with the store: that is a finding.
Environment inspect_environment(const std::filesystem::path& store, std::string version);

// Parts of it that cost nothing: "GCC 12.2.0", "optimised", "Linux 6.1.0 x86_64", the memory of the machine.
std::string compiler_name();
std::string build_kind();
std::string system_name();
int64_t memory_bytes();

std::string environment_text(const Environment& environment, bool color);
std::string environment_document(const Environment& environment);

}  // namespace runner::report
