// Trains a recipe text in a temporary folder, for tests of whole runs.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/dist/process_group.h"
#include "runner/train/run/run.h"
#include "store/queries.h"
#include "tests/support/json.h"
#include "tests/support/temp_folder.h"

namespace runner::train {

// Four epochs of five steps; tests append logging and checkpoints.
inline constexpr const char* kFourEpochs = R"(schema_version: 1
name: small
model: {type: mlp, hidden: [8]}
data:
  train: {format: synthetic, samples: 50, features: [5], classes: 3}
  eval: {format: synthetic, samples: 30, features: [5], classes: 3}
  batch_size: 10
optimizer: {type: adam, lr: 0.01}
train: {epochs: 4}
)";

// One epoch over the rows of table.csv, one per batch and in their order. Tests write the file.
inline constexpr const char* kRowByRow = R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: table.csv}, batch_size: 1, shuffle: false}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1}
)";

// Calls `body` on each of `size` ranks, with their process group, and returns when all are done.
using Transport = std::function<void(int size, const std::function<void(backends::ProcessGroup& ranks)>& body)>;

class RunFixture : public ::testing::Test {
 protected:
  struct Options {
    std::string store = "runner.db";
    std::string resume = {};
    bool longer = false;
    bool other_batches = false;  // see RunOrigin
    std::string fork = {};       // id of the run to fork; `overrides` are the child's changes
    int64_t state = -1;          // checkpoint of that run; −1: the newest
    bool restart = false;
    bool stop_at_start = false;  // requests a stop once the run has begun
    std::vector<std::string> overrides = {};
    int64_t stop_after = 0;            // requests a stop after this many optimizer steps
    std::atomic<int>* stop = nullptr;  // stop flag; null: one of the run's own
    // Executable of other ranks, which gets the resolved recipe; none by default.
    std::string rank_program = "/bin/false";
    std::function<void(const RunProgress&)> on_step = {};
    MakeHooks make_hooks = nullptr;
    std::vector<std::string>* notices = nullptr;   // receives notices, if not null
    std::chrono::milliseconds long_compile{2000};  // see RunRequest
    std::optional<bool> own_thread = {};           // see RunRequest
    Transport transport = nullptr;                 // null: the processes or threads of run()
  };

  // Trains `recipe` (YAML) with the folder as working directory for relative paths.
  RunResult train(const std::string& recipe, const Options& options);
  RunResult train(const std::string& recipe) { return train(recipe, Options{}); }

  std::filesystem::path path(const std::string& file) const { return folder_ / file; }
  void write(const std::string& file, const std::string& text) const;

  // JSON texts of the last run's events of a level.
  std::vector<std::string> events(const std::string& level) const;
  // The sections of the newest checkpoint of the last run.
  std::map<std::string, std::vector<std::byte>> last_state(const std::string& store = "runner.db") const;
  // Its section "run".
  support::Json last_document(const std::string& store = "runner.db") const;
  // The points of a metric of the last run.
  std::vector<std::pair<int64_t, double>> points(const std::string& metric,
                                                 const std::string& store = "runner.db") const;

 private:
  const support::TempFolder folder_;
};

}  // namespace runner::train
