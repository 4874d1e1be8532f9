// Proves that a recipe resumes exactly: trains once without interruption and once killed and resumed repeatedly, and
// compares the results.
//
// Every training runs in a child process, so call it before this process has threads or an open store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runner/train/run/run.h"

namespace runner::train {

struct VerifyRequest {
  const schema::Recipe& recipe;
  store::RecipeRecord record;
  std::vector<store::Param> params;
  std::filesystem::path folder;    // for the two stores; must exist
  int64_t kills = 5;               // at least 1
  MakeHooks make_hooks = nullptr;  // of the recipe; null: it has no hook
  std::string job = {};            // RankStart::job
  Follow follow = {};              // RankStart::follow
  std::string (*summary)(const RunResult& result);
  std::string (*metrics_document)(const backends::tpu::MetricsSnapshot& metrics);
  std::function<void(const std::string& line)> progress;  // called with progress messages
};

struct VerifyReport {
  int64_t steps = 0;
  int64_t kills = 0;  // requested
  // Steps after which the process was killed; fewer than `kills` if a short run finished earlier.
  std::vector<int64_t> killed_at;
  std::vector<int64_t> resumed_from;  // steps of the checkpoints that training resumed from
  int64_t tensors = 0, bytes = 0;     // compared in the last checkpoints
  int64_t points = 0;                 // metric points compared
  int64_t batches = 0;                // optimizer steps whose sample ids were compared
  std::vector<std::string> differences;

  bool exact() const { return differences.empty(); }
};

// Throws Error(kRun) or Error(kData) if a training itself fails, and Error(kRun) if nothing was resumed or on a signal
// that would have ended the process.
VerifyReport verify_resume(const VerifyRequest& request);

}  // namespace runner::train
