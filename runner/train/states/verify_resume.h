// The proof that a recipe resumes exactly: trained once in one go, once killed and resumed again and again, and
// compared.
//
// Every training runs in a child process, so it must be called before this process has threads or an open store.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runner/train/run.h"

namespace runner::train {

struct VerifyRequest {
  const schema::Recipe& recipe;
  store::RecipeRecord record;
  std::vector<store::Param> params;
  std::filesystem::path folder;    // for the two stores; must exist
  int64_t kills = 5;               // at least 1
  MakeHooks make_hooks = nullptr;  // of the recipe; null: it has none
  std::string job = {};            // RunRequest::job
  Follow follow = {};              // RunRequest::follow
  std::string (*summary)(const RunResult& result);
  std::string (*metrics_document)(const backends::tpu::MetricsSnapshot& metrics);
  std::function<void(const std::string& line)> progress;  // told what happens
};

struct VerifyReport {
  int64_t steps = 0;
  int64_t kills = 0;               // asked for
  std::vector<int64_t> killed_at;  // steps after which the process was killed; fewer where a short run was done before
  std::vector<int64_t> resumed_from;  // steps of the states that training went on from
  int64_t tensors = 0, bytes = 0;     // compared in the last states
  int64_t points = 0;                 // metric points compared
  int64_t batches = 0;                // windows whose sample ids were compared
  std::vector<std::string> differences;

  bool exact() const { return differences.empty(); }
};

// Throws Error(kRun), or Error(kData), when a training fails by itself; Error(kRun) when nothing was resumed, and after
// a signal that would have ended the process.
VerifyReport verify_resume(const VerifyRequest& request);

}  // namespace runner::train
